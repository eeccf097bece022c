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

/// Bits per second, in the largest unit of which it is one or more.
fn rate(bits: u64) -> String {
    let units = [(1_000_000_000_u64, "Gb/s"), (1_000_000, "Mb/s")];
    let unit = units.into_iter().find(|(unit, _)| bits >= *unit);
    let (unit, name) = unit.unwrap_or((1000, "kb/s"));
    format!("{} {name}", bits as f64 / unit as f64)
}

/// A direction in words.
fn direction(direction: &Direction) -> String {
    let mut parts = vec![direction.rate.map_or_else(|| "any rate".to_owned(), rate)];
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
    text += &settings(status);
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

/// What the links of a laboratory do, as far as it says so.
fn settings(status: &Status) -> String {
    let mut rows = vec![words(&["link", "what it does to packets"])];
    for link in &status.links {
        let Some([forward, back]) = &link.settings else { continue };
        let [one, two] = &link.between;
        rows.push(vec![format!("{one} > {two}"), direction(forward)]);
        rows.push(vec![format!("{two} > {one}"), direction(back)]);
    }
    if rows.len() > 1 { format!("\n{}", columns(&rows)) } else { String::new() }
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

#[cfg(test)]
mod tests {
    use lustrine_lab::parse;
    use lustrine_lab_host::LinkStatus;

    use super::*;

    #[test]
    fn the_status_says_what_each_direction_does() {
        let file = "hosts: {east: {}, west: {}}\n\
                    links: [{between: [east, west], rate: 100 Mb/s, delay: 2 ms, queue: 1 MiB, \
                    back: {rate: 64 kb/s, loss: 1 %}}]\n";
        let lab = parse(file, "one.yaml").expect("a laboratory");
        let link = LinkStatus {
            between: ["east".to_owned(), "west".to_owned()],
            settings: Some(lab.links[0].directions),
            directions: Default::default(),
            failure: None,
        };
        let links = vec![link.clone(), LinkStatus { settings: None, ..link }];
        let (hosts, notes) = (Vec::new(), Vec::new());
        let name = "one".to_owned();
        let up = Status { name, pid: 1, init_pid: 2, user_namespace: false, hosts, links, notes };
        let text = status(&up);
        for row in [
            "east > west  100 Mb/s, 2 ms, queue 1 MiB\n",
            "west > east  64 kb/s, 2 ms, queue 1 MiB, loss 1 %\n",
        ] {
            assert_eq!(text.matches(row).count(), 1, "{row}: {text}");
        }
        let json = serde_json::to_value(&up).expect("JSON");
        assert_eq!(json["links"][0]["settings"][1]["rate"], 64_000, "{json:#}");
    }
}
