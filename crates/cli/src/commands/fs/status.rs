//! `lustrine fs status`: what mounts do.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use lustrine_fs::{ConfigurationRow, NamesRow, OperationRow, Status, TargetRow, shown};
use lustrine_fuse::{MountStatus, mount_points, status};
use lustrine_report::numbers::counted;
use serde::Serialize;

use crate::output::{Failure, print, print_error, print_json};
use crate::values::seconds;

/// Show what mounts do: their servers, RPCs and how long these take.
///
/// The local mount program answers, not the servers, so that this works while servers are down.
#[derive(Args, Debug)]
pub(crate) struct StatusArgs {
    /// Mount points; without any, all mounts of `lustrine mount`
    #[arg(value_name = "DIR")]
    dirs: Vec<PathBuf>,

    /// Show only this target, such as lustre-OST0001, with the times of its own operations
    #[arg(long)]
    target: Option<String>,

    /// Repeatedly show the changes since the previous sample, at this interval in seconds
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true,
          default_missing_value = "1", value_parser = seconds)]
    watch: Option<f64>,

    /// Print JSON; with --watch, one line for each sample
    #[arg(long)]
    json: bool,
}

/// What JSON has of a mount.
#[derive(Serialize)]
struct MountRow<'a> {
    dir: &'a Path,
    #[serde(flatten)]
    status: &'a MountStatus,
}

pub(super) fn run(args: &StatusArgs) -> Result<(), Failure> {
    let dirs = match args.dirs.is_empty() {
        false => args.dirs.clone(),
        true => {
            mount_points().map_err(|error| format!("cannot read /proc/self/mountinfo: {error}"))?
        }
    };
    if dirs.is_empty() && !args.json {
        return print("`lustrine mount` has mounted nothing here\n");
    }
    match args.watch {
        None => once(args, &dirs),
        Some(interval) => watch(args, &dirs, Duration::from_secs_f64(interval)),
    }
}

/// The statuses of those that answer, and have the target that is asked for; the others are
/// reported.
fn ask<'a>(args: &StatusArgs, dirs: &'a [PathBuf]) -> Vec<(&'a Path, MountStatus)> {
    let mut found = Vec::new();
    for dir in dirs {
        match (status(dir, args.target.as_deref()), &args.target) {
            (Ok(status), Some(target)) if status.client.targets.is_empty() => {
                print_error(&format!(
                    "{}: there is no target {target}; without --target all are shown",
                    dir.display()
                ))
            }
            (Ok(status), _) => found.push((&**dir, status)),
            (Err(error), _) => print_error(&error.to_string()),
        }
    }
    found
}

fn once(args: &StatusArgs, dirs: &[PathBuf]) -> Result<(), Failure> {
    let found = ask(args, dirs);
    if args.json {
        let rows = found.iter().map(|(dir, status)| MountRow { dir, status });
        print_json(&rows.collect::<Vec<_>>())?;
    } else {
        let texts: Vec<String> = found.iter().map(|(dir, status)| text(dir, status)).collect();
        print(&texts.join("\n"))?;
    }
    match found.len() == dirs.len() {
        true => Ok(()),
        false => Err(Failure::Reported(1)),
    }
}

fn watch(args: &StatusArgs, dirs: &[PathBuf], interval: Duration) -> Result<(), Failure> {
    let mut before = ask(args, dirs);
    let mut next = Instant::now();
    loop {
        if before.is_empty() {
            // The reasons are reported.
            return Err(Failure::Reported(1));
        }
        next += interval;
        thread::sleep(next.saturating_duration_since(Instant::now()));
        let found = ask(args, dirs);
        for (dir, status) in &found {
            if args.json {
                let row = serde_json::to_string(&MountRow { dir, status });
                let row = row.map_err(|error| format!("cannot write JSON: {error}"))?;
                print(&format!("{row}\n"))?;
                continue;
            }
            let then = before.iter().find(|(other, then)| other == dir && then.pid == status.pid);
            if let Some((_, then)) = then {
                print(&since(dir, &then.client, &status.client))?;
            }
        }
        before = found;
    }
}

/// A mount as text.
fn text(dir: &Path, status: &MountStatus) -> String {
    let MountStatus { source, pid, release, targets_left_out, client, .. } = status;
    let mut out = format!(
        "{} at {}: mounted for {}, process {pid}, release {release}\n\
         {} open, {} awaited, {} sent, {} read, {} written\n\
         cache: {} of {}, {} dirty, {} unstable; reads: {} from the cache, {} from servers, {} \
         asked for ahead{}\n\
         {}",
        shown(source.as_bytes()),
        dir.display(),
        time(client.mounted_s * 1e6),
        counted(client.open_files as u64, "file"),
        counted(client.rpcs as u64, "RPC"),
        counted(client.rpcs_sent, "RPC"),
        size(client.bulk_received),
        size(client.bulk_sent),
        size(client.cache.cached),
        counted(client.cache.objects as u64, "object"),
        size(client.cache.dirty),
        size(client.cache.unstable),
        size(client.cache.hits),
        size(client.cache.misses),
        size(client.cache.read_ahead),
        match client.cache.lost {
            0 => String::new(),
            lost => format!("; {} LOST", size(lost)),
        },
        names(&client.names),
    );
    out.push_str(&configuration(&client.configuration));
    out.push('\n');
    out.push_str(&targets(&client.targets));
    if *targets_left_out > 0 {
        let _ = writeln!(out, "{targets_left_out} more; --target shows one");
    }
    let own = client.targets.iter().flat_map(|target| &target.operations);
    let operations: Vec<&OperationRow> = client.operations.iter().chain(own).collect();
    if !operations.is_empty() {
        out.push('\n');
        out.push_str(&times(&operations));
    }
    out
}

/// What is kept of names and attributes, as a line.
fn names(row: &NamesRow) -> String {
    format!(
        "names: {} with {} and {} negative; {} hits, {} misses; \
         attributes: {} hits, {} misses; {} cancelled early; {} asked for ahead\n",
        counted(row.files as u64, "file"),
        counted(row.names as u64, "name"),
        row.missing,
        row.name_hits,
        row.name_misses,
        row.attr_hits,
        row.attr_misses,
        counted(row.early_cancels, "lock"),
        counted(row.statahead, "name"),
    )
}

/// What is known of the configuration, as lines.
fn configuration(row: &ConfigurationRow) -> String {
    if row.logs.is_empty() {
        // An earlier release.
        return String::new();
    }
    let logs: Vec<String> = row
        .logs
        .iter()
        .map(|log| format!("{} {} at {}", shown(log.name.as_bytes()), log.lock, log.last))
        .collect();
    let mut out = format!("configuration: {}; ", logs.join(", "));
    let _ = match row.imperative_recovery {
        true => writeln!(out, "imperative recovery, {}", counted(row.reconnects, "reconnect")),
        false => writeln!(out, "no imperative recovery"),
    };
    for log in row.logs.iter().filter(|log| !log.error.is_empty()) {
        let (name, error) = (shown(log.name.as_bytes()), shown(log.error.as_bytes()));
        let _ = writeln!(out, "configuration: {name} CANNOT BE READ: {error}");
    }
    for log in row.logs.iter().filter(|log| !log.left_out.is_empty()) {
        let (name, left_out) = (shown(log.name.as_bytes()), shown(log.left_out.as_bytes()));
        let _ = writeln!(out, "configuration: {name}, left out: {left_out}");
    }
    if row.changes > 0 {
        let _ = writeln!(
            out,
            "configuration: {}, the last {} ago: {}",
            counted(row.changes, "change"),
            time(row.last_change_s * 1e6),
            shown(row.last_change.as_bytes())
        );
    }
    if row.ignored > 0 {
        let _ = writeln!(
            out,
            "configuration: {} ignored, the last: {}",
            counted(row.ignored, "parameter"),
            shown(row.last_ignored.as_bytes())
        );
    }
    out
}

fn targets(rows: &[TargetRow]) -> String {
    let mut out = format!(
        "{:20} {:12} {:24} {:>9} {:>7} {:>6} {:>6} {:>6} {:>8} {:>9}\n",
        "target",
        "state",
        "server",
        "in flight",
        "waiting",
        "kept",
        "locks",
        "wanted",
        "connects",
        "evictions"
    );
    for row in rows {
        let _ = writeln!(
            out,
            "{:20} {:12} {:24} {:>9} {:>7} {:>6} {:>6} {:>6} {:>8} {:>9}",
            shown(row.name.as_bytes()),
            row.state,
            row.nid,
            row.in_flight,
            row.waiting,
            row.kept,
            row.locks,
            row.locks_waiting,
            row.connects,
            row.evictions
        );
    }
    out
}

fn times(rows: &[&OperationRow]) -> String {
    let mut out = format!(
        "{:20} {:>10} {:>9} {:>9} {:>9} {:>9} {:>9}\n",
        "operation", "count", "min", "median", "90 %", "99 %", "max"
    );
    for row in rows {
        let _ = writeln!(
            out,
            "{:20} {:>10} {:>9} {:>9} {:>9} {:>9} {:>9}",
            row.name,
            row.count,
            time(row.min_us),
            time(row.p50_us),
            time(row.p90_us),
            time(row.p99_us),
            time(row.max_us)
        );
    }
    out
}

/// What has happened between two looks.
fn since(dir: &Path, before: &Status, now: &Status) -> String {
    let seconds = (now.mounted_s - before.mounted_s).max(1e-3);
    let rate = |now: u64, before: u64| now.saturating_sub(before) as f64 / seconds;
    let mut out = format!(
        "{} {}: {}/s read, {}/s written, {:.0} RPCs/s, {} awaited\n",
        jiff::Zoned::now().strftime("%H:%M:%S"),
        dir.display(),
        size(rate(now.bulk_received, before.bulk_received) as u64),
        size(rate(now.bulk_sent, before.bulk_sent) as u64),
        rate(now.rpcs_sent, before.rpcs_sent),
        now.rpcs,
    );
    for target in now.targets.iter().filter(|target| !target.is_usable()) {
        let (name, state) = (shown(target.name.as_bytes()), &target.state);
        let waiting = counted((target.waiting + target.in_flight) as u64, "RPC");
        let _ = writeln!(out, "  {name} at {} is {state}, {waiting} wait", target.nid);
    }
    fn own(status: &Status) -> impl Iterator<Item = &OperationRow> {
        let targets = status.targets.iter().flat_map(|target| &target.operations);
        status.operations.iter().chain(targets)
    }
    for row in own(now) {
        let then = own(before).find(|then| then.name == row.name);
        let (count, sum) = then.map_or((0, 0.0), |then| (then.count, then.sum_us));
        let more = row.count.saturating_sub(count);
        if more > 0 {
            let mean = (row.sum_us - sum).max(0.0) / more as f64;
            let per_second = more as f64 / seconds;
            let _ = writeln!(out, "  {:20} {per_second:>9.1}/s {:>9} mean", row.name, time(mean));
        }
    }
    out
}

/// A time with a unit.
fn time(micros: f64) -> String {
    match micros {
        micros if micros < 1e3 => format!("{micros:.0} us"),
        micros if micros < 1e5 => format!("{:.1} ms", micros / 1e3),
        micros if micros < 1e6 => format!("{:.0} ms", micros / 1e3),
        micros if micros < 1e8 => format!("{:.1} s", micros / 1e6),
        micros if micros < 3.6e9 => format!("{:.0} min", micros / 6e7),
        micros => format!("{:.1} h", micros / 3.6e9),
    }
}

/// A number of bytes with a unit.
fn size(bytes: u64) -> String {
    let bytes = bytes as f64;
    match bytes {
        bytes if bytes < 1024.0 => format!("{bytes:.0} bytes"),
        bytes if bytes < 1024.0 * 1024.0 => format!("{:.1} KiB", bytes / 1024.0),
        bytes if bytes < 1024f64.powi(3) => format!("{:.1} MiB", bytes / 1024f64.powi(2)),
        bytes => format!("{:.1} GiB", bytes / 1024f64.powi(3)),
    }
}

#[cfg(test)]
mod tests {
    use lustrine_fs::ConfigRow;

    use super::*;

    fn operation(name: &str, count: u64, sum_us: f64) -> OperationRow {
        OperationRow { name: name.to_owned(), count, sum_us, ..OperationRow::default() }
    }

    #[test]
    fn a_look_shows_what_is_new() {
        let before = Status {
            mounted_s: 10.0,
            operations: vec![operation("OST_READ", 10, 10_000.0), operation("MDS_SYNC", 1, 5.0)],
            ..Status::default()
        };
        let down = TargetRow {
            name: "lustre-OST0001".to_owned(),
            state: "DISCONN".to_owned(),
            nid: "10.0.0.9@tcp".to_owned(),
            waiting: 3,
            ..TargetRow::default()
        };
        let now = Status {
            mounted_s: 12.0,
            bulk_received: 8 << 20,
            rpcs_sent: 40,
            targets: vec![down],
            operations: vec![operation("OST_READ", 30, 70_000.0), operation("MDS_SYNC", 1, 5.0)],
            ..Status::default()
        };
        let text = since(Path::new("/mnt"), &before, &now);
        assert!(text.contains("/mnt: 4.0 MiB/s read, 0 bytes/s written, 20 RPCs/s"), "{text}");
        assert!(text.contains("lustre-OST0001 at 10.0.0.9@tcp is DISCONN, 3 RPCs wait"), "{text}");
        assert!(text.contains("OST_READ                  10.0/s    3.0 ms mean"), "{text}");
        assert!(!text.contains("MDS_SYNC"), "{text}");
    }

    #[test]
    fn times_and_sizes_have_units() {
        let times = [(12.3, "12 us"), (1500.0, "1.5 ms"), (2.5e6, "2.5 s"), (3e8, "5 min")];
        times.iter().for_each(|(micros, text)| assert_eq!(time(*micros), *text));
        let sizes = [(3, "3 bytes"), (1536, "1.5 KiB"), (3 << 30, "3.0 GiB")];
        sizes.iter().for_each(|(bytes, text)| assert_eq!(size(*bytes), *text));
    }

    #[test]
    fn a_mount_is_shown_with_its_targets_and_times() {
        let client = Status {
            mounted_s: 61.0,
            open_files: 1,
            names: NamesRow { files: 1, names: 2, name_hits: 5, ..NamesRow::default() },
            targets: vec![TargetRow { name: "MGS".to_owned(), ..TargetRow::default() }],
            operations: vec![operation("MDS_GETATTR", 7, 70.0)],
            configuration: ConfigurationRow {
                logs: vec![ConfigRow {
                    name: "l-client".to_owned(),
                    lock: "held".to_owned(),
                    last: 23,
                    left_out: "record 7: an unknown command".to_owned(),
                    ..ConfigRow::default()
                }],
                imperative_recovery: true,
                reconnects: 2,
                changes: 1,
                last_change: "osc.l-*.max_rpcs_in_flight=7".to_owned(),
                last_change_s: 12.0,
                ignored: 1,
                last_ignored: "jobid_var=disable".to_owned(),
            },
            ..Status::default()
        };
        let status = MountStatus { source: "a@tcp:/l".to_owned(), client, ..Default::default() };
        let text = text(Path::new("/mnt/\u{e9}"), &status);
        assert!(text.starts_with("a@tcp:/l at /mnt/\u{e9}: mounted for 61.0 s"), "{text}");
        assert!(text.contains("1 file open, 0 RPCs awaited"), "{text}");
        assert!(text.contains("names: 1 file with 2 names and 0 negative; 5 hits,"), "{text}");
        assert!(text.contains("l-client held at 23; imperative recovery, 2 reconnects"), "{text}");
        assert!(text.contains("l-client, left out: record 7: an unknown command\n"), "{text}");
        assert!(!text.contains("CANNOT"), "{text}");
        assert!(text.contains("1 change, the last 12.0 s ago: osc.l-*.max_rpcs"), "{text}");
        assert!(text.contains("1 parameter ignored, the last: jobid_var=disable"), "{text}");
        assert!(text.contains("\nMGS ") && text.contains("\nMDS_GETATTR "), "{text}");
    }
}
