//! The tables: as text, and as what is drawn.

use std::fmt::Write as _;

use crate::mount::{MountView, OperationView, TargetView};
use crate::node::{Line, NodeView};
use crate::screen::SortBy;
use crate::units::{bytes, count, known, plain, time};
use crate::view::View;

/// A column of a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    pub(crate) title: &'static str,
    /// Least width in characters.
    pub(crate) width: u16,
    /// Those with the highest rank are left out first where there is no room.
    pub(crate) rank: u8,
    pub(crate) is_left: bool,
}

const fn left(title: &'static str, width: u16, rank: u8) -> Column {
    Column { title, width, rank, is_left: true }
}

const fn right(title: &'static str, width: u16, rank: u8) -> Column {
    Column { title, width, rank, is_left: false }
}

/// The columns of interfaces and peers.
pub(crate) const LINES: [Column; 13] = [
    left("NID", 22, 0),
    left("state", 11, 6),
    right("conns", 5, 8),
    right("in/s", 6, 1),
    right("out/s", 6, 1),
    right("avail", 6, 2),
    right("credits", 7, 5),
    right("min", 6, 3),
    right("queued", 6, 2),
    right("window", 10, 6),
    right("p50", 7, 4),
    right("p99", 7, 5),
    right("dropped", 7, 7),
];

/// The columns of targets.
pub(crate) const TARGETS: [Column; 8] = [
    left("target", 20, 0),
    left("state", 10, 2),
    left("server", 20, 6),
    right("in flight", 9, 1),
    right("waiting", 7, 3),
    right("RPCs/s", 7, 1),
    right("mean", 7, 4),
    right("evictions", 9, 5),
];

/// The columns of operations.
const OPERATIONS: [Column; 5] = [
    left("operation", 20, 0),
    right("RPCs/s", 7, 0),
    right("mean", 7, 0),
    right("p50 (all)", 9, 0),
    right("p99 (all)", 9, 0),
];

pub(crate) fn line(line: &Line) -> [String; 13] {
    let trip = line.round_trip.as_ref();
    // What is not of this interval is in brackets.
    let shown = |of: fn(&crate::RoundTrip) -> f64| {
        known(trip, |trip| match trip.recent {
            true => time(of(trip)),
            false => format!("({})", time(of(trip))),
        })
    };
    [
        line.nid.to_string(),
        plain(line.interface.as_deref().or(line.state.as_deref()).unwrap_or_default()),
        known(line.connections, |conns| conns.to_string()),
        known(line.received_per_s, count),
        known(line.sent_per_s, count),
        line.credits_available.to_string(),
        line.credits.to_string(),
        line.credits_min.to_string(),
        line.queued.to_string(),
        known(line.window_bytes, |window| bytes(window as f64)),
        shown(|trip| trip.p50_us),
        shown(|trip| trip.p99_us),
        line.dropped.to_string(),
    ]
}

pub(crate) fn target(target: &TargetView) -> [String; 8] {
    [
        plain(&target.name),
        plain(&target.state),
        plain(&target.nid),
        target.in_flight.to_string(),
        target.waiting.to_string(),
        known(target.replies_per_s, count),
        known(target.mean_us, time),
        target.evictions.to_string(),
    ]
}

fn operation(operation: &OperationView) -> [String; 5] {
    [
        plain(&operation.name),
        count(operation.replies_per_s),
        time(operation.mean_us),
        time(operation.p50_us),
        time(operation.p99_us),
    ]
}

/// The lines above the tables of a node.
pub(crate) fn node_head(node: &NodeView) -> [String; 3] {
    let rate = |bytes_s: Option<f64>| known(bytes_s, |rate| format!("{}/s", bytes(rate)));
    let started = if node.restarted { "  it was started again" } else { "" };
    let list = |errors: &std::collections::BTreeMap<String, u64>, sign: &str| {
        let each = errors.iter().map(|(name, value)| format!("{name} {sign}{value}"));
        each.collect::<Vec<_>>().join(", ")
    };
    let errors = match (node.new_errors.is_empty(), node.errors.is_empty()) {
        (false, _) => format!("errors now: {}", list(&node.new_errors, "+")),
        (true, false) => format!("errors so far: {}", list(&node.errors, "")),
        (true, true) => "no errors".to_owned(),
    };
    [
        format!(
            "in {} ({} messages/s)  out {} ({} messages/s){started}",
            rate(node.received_bytes_per_s),
            known(node.received_per_s, count),
            rate(node.sent_bytes_per_s),
            known(node.sent_per_s, count),
        ),
        format!(
            "{} identity, {} connection{}, {} mapped, CPU {}",
            plain(&node.identity),
            node.connections,
            if node.connections == 1 { "" } else { "s" },
            bytes(node.memory_mapped as f64),
            known(node.cpu_percent, |percent| format!("{percent:.0} %")),
        ),
        errors,
    ]
}

/// The lines above the targets of a mount.
pub(crate) fn mount_head(mount: &MountView) -> [String; 2] {
    let rate = |bytes_s: Option<f64>| known(bytes_s, |rate| format!("{}/s", bytes(rate)));
    let limit = match mount.max_rpcs_in_flight {
        0 if mount.max_rpcs_in_flight_auto => ", max_rpcs_in_flight=auto".to_owned(),
        0 => String::new(),
        limit => format!(", at most {limit} per target"),
    };
    [
        format!("{} at {}", plain(&mount.source), plain(&mount.dir)),
        format!(
            "read {}, written {}, {} RPCs/s, {} awaited{limit}; {} open, {} cached, {} not written",
            rate(mount.read_bytes_per_s),
            rate(mount.written_bytes_per_s),
            known(mount.rpcs_per_s, count),
            mount.rpcs,
            mount.open_files,
            bytes(mount.cached as f64),
            bytes(mount.dirty as f64),
        ),
    ]
}

fn row(out: &mut String, columns: &[Column], cells: impl Iterator<Item = String>) {
    let mut text = String::new();
    for (column, cell) in columns.iter().zip(cells) {
        let width = usize::from(column.width);
        let _ = match column.is_left {
            true => write!(text, "{cell:width$} "),
            false => write!(text, "{cell:>width$} "),
        };
    }
    out.push_str(text.trim_end());
    out.push('\n');
}

fn table<const N: usize>(
    out: &mut String,
    columns: &[Column; N],
    rows: impl Iterator<Item = [String; N]>,
) {
    row(out, columns, columns.iter().map(|column| column.title.to_owned()));
    rows.for_each(|cells| row(out, columns, cells.into_iter()));
}

/// A view as text: all rows, in this order.
pub fn text(view: &View, sort: SortBy) -> String {
    let mut out = String::new();
    if let Some(node) = &view.node {
        let _ = writeln!(out, "{}", node_head(node).join("\n"));
        for (lines, title) in [(&node.nets, "interface"), (&node.peers, "peer")] {
            let mut lines = lines.clone();
            sort.lines(&mut lines);
            let title = if lines.len() == 1 { title } else { &format!("{title}s") };
            let _ = writeln!(out, "\n{} {title}", lines.len());
            table(&mut out, &LINES, lines.iter().map(line));
        }
    }
    for mount in &view.mounts {
        if !out.is_empty() {
            out.push('\n');
        }
        let _ = writeln!(out, "{}\n", mount_head(mount).join("\n"));
        let mut targets = mount.targets.clone();
        sort.targets(&mut targets);
        table(&mut out, &TARGETS, targets.iter().map(target));
        if mount.targets_left_out > 0 {
            let _ = writeln!(out, "{} more", mount.targets_left_out);
        }
        if !mount.operations.is_empty() {
            out.push('\n');
            table(&mut out, &OPERATIONS, mount.operations.iter().map(operation));
        }
    }
    for note in &view.notes {
        let _ = writeln!(out, "note: {}", plain(note));
    }
    out
}
