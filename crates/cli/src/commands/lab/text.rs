//! What the commands of laboratories print for people.

use lustrine_lab::{Direction, Lab, Layout, format_bytes, format_duration};
use lustrine_lab_host::{DirectionStatus, Status};

/// Columns, each as wide as its widest cell.
fn columns(rows: &[Vec<String>]) -> String {
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..count).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            line += &format!("{cell:width$}  ");
        }
        text += line.trim_end();
        text += "\n";
    }
    text
}

fn words(cells: &[&str]) -> Vec<String> {
    cells.iter().map(|cell| (*cell).to_owned()).collect()
}

/// Hosts and their interfaces.
pub(super) fn hosts(lab: &Lab, layout: &Layout) -> String {
    let mut rows = vec![words(&["host", "interface", "address", "MTU", "to"])];
    for (host, ends) in lab.hosts.iter().zip(&layout.interfaces) {
        for (index, end) in ends.iter().enumerate() {
            rows.push(vec![
                if index == 0 { host.name.clone() } else { String::new() },
                end.name.clone(),
                end.address.to_string(),
                end.mtu.to_string(),
                lab.hosts[end.peer].name.clone(),
            ]);
        }
        if ends.is_empty() {
            rows.push(vec![host.name.clone(), "-".to_owned()]);
        }
    }
    columns(&rows)
}

/// A direction in words.
fn direction(direction: &Direction) -> String {
    let mut parts = vec![match direction.rate {
        Some(rate) => format!("{} Gb/s", rate as f64 / 1e9),
        None => "any rate".to_owned(),
    }];
    if direction.parallel > 1 {
        parts[0] = format!("{} x {}", direction.parallel, parts[0]);
    }
    parts.push(format_duration(direction.delay_ns));
    if direction.jitter_ns > 0 {
        parts.push(format!("jitter {}", format_duration(direction.jitter_ns)));
    }
    parts.push(format!("queue {}", format_bytes(direction.queue)));
    if direction.loss > 0 {
        parts.push(format!("loss {} %", f64::from(direction.loss) / 1e7));
    }
    if let Some(limit) = direction.drop_above {
        parts.push(format!("packets above {limit} B disappear"));
    }
    parts.join(", ")
}

/// What a file describes.
pub(super) fn plan(lab: &Lab) -> String {
    let layout = Layout::new(lab);
    let mut text = hosts(lab, &layout);
    text += "\n";
    let mut rows = vec![words(&["link", "what it does to packets"])];
    for link in &lab.links {
        let [one, two] = link.between.map(|host| &lab.hosts[host].name);
        let [forward, back] = &link.directions;
        rows.push(vec![format!("{one} > {two}"), direction(forward)]);
        rows.push(vec![format!("{two} > {one}"), direction(back)]);
    }
    text += &columns(&rows);
    text += "\n";
    let mut rows = vec![words(&["from", "to", "packets pass"])];
    for from in 0..lab.hosts.len() {
        for to in (0..lab.hosts.len()).filter(|to| *to != from) {
            let passed = match layout.path(lab, from, to) {
                None => "nothing: there is no path".to_owned(),
                Some(path) if path.len() == 2 => continue,
                Some(path) => {
                    let middle = &path[1..path.len() - 1];
                    let names: Vec<_> = middle.iter().map(|h| &*lab.hosts[*h].name).collect();
                    names.join(", ")
                }
            };
            rows.push(vec![lab.hosts[from].name.clone(), lab.hosts[to].name.clone(), passed]);
        }
    }
    if rows.len() > 1 {
        text += &columns(&rows);
    }
    text
}

/// A laboratory that is up.
pub(super) fn status(status: &Status) -> String {
    let how = if status.user_namespace { ", without root" } else { "" };
    let mut text = format!("{}: up, process {}{how}\n\n", status.name, status.pid);
    let mut rows = vec![words(&["host", "interface", "address", "MTU", "to"])];
    for host in &status.hosts {
        for (index, end) in host.interfaces.iter().enumerate() {
            rows.push(vec![
                if index == 0 { host.name.clone() } else { String::new() },
                end.name.clone(),
                end.address.to_string(),
                end.mtu.to_string(),
                status.hosts[end.peer].name.clone(),
            ]);
        }
    }
    text += &columns(&rows);
    let titles =
        ["link", "packets", "bytes", "queue full", "lost", "too large", "queue max", "late"];
    let mut rows = vec![words(&titles)];
    for link in &status.links {
        let [one, two] = &link.between;
        rows.push(link_row(format!("{one} > {two}"), &link.directions[0]));
        rows.push(link_row(format!("{two} > {one}"), &link.directions[1]));
    }
    text += "\n";
    text += &columns(&rows);
    for (link, failure) in
        status.links.iter().filter_map(|link| Some((link, link.failure.as_ref()?)))
    {
        let [one, two] = &link.between;
        text += &format!("link {one} - {two} has failed: {failure}\n");
    }
    for note in &status.notes {
        text += &format!("note: {note}\n");
    }
    text
}

fn link_row(name: String, direction: &DirectionStatus) -> Vec<String> {
    let counters = &direction.counters;
    let late = &direction.late;
    let mut row = vec![name, counters.packets.to_string(), format_bytes(counters.bytes)];
    row.extend([counters.queue_full, counters.lost, counters.too_large].map(|n| n.to_string()));
    row.push(format_bytes(counters.queue_max));
    row.push(match counters.packets {
        0 => "-".to_owned(),
        _ => format!("99 %: up to {} us, max {} us", late.p99_us, late.max_us),
    });
    row
}
