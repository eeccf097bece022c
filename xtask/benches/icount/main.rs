//! Workloads whose instructions `cargo xtask bench icount` counts: the logic alone, in memory, the
//! same instructions in every run.
//!
//! `icount` lists them, one per line: name, and what is counted. `icount NAME N` runs the workload
//! N times, `icount NAME N TUNABLE=VALUE...` with these tunables.

mod core;
mod driver;
mod files;
mod node;
mod pipe;
mod units;
mod wire;

use std::process::ExitCode;

use lustrine_partition::tunables::Tunables;

/// Runs a workload this number of times, with nodes that have these tunables.
type Run = fn(&Tunables, u64);

/// A workload.
struct Workload {
    name: &'static str,
    /// What one iteration is.
    unit: &'static str,
    run: Run,
}

const fn workload(name: &'static str, unit: &'static str, run: Run) -> Workload {
    Workload { name, unit, run }
}

const WORKLOADS: [Workload; 17] = [
    workload("wire_short", "message: frame and 72-byte header, written and read", wire::short),
    workload("wire_long", "message: frame and 96-byte header, written and read", wire::long),
    workload("wire_selftest", "selftest request of 160 bytes, written and read", wire::selftest),
    workload("core_put", "PUT of 160 bytes through two cores", core::put),
    workload("core_put_ack", "PUT of 160 bytes and its ACK through two cores", core::put_ack),
    workload("core_get", "GET of 160 bytes and its REPLY through two cores", core::get),
    workload("driver_put", "PUT of 160 bytes through cores and drivers, 8 a time", driver::put),
    workload("node_ping_c1", "ping RPC through two nodes, 1 in flight", node::ping_one),
    workload("node_ping_c64", "ping RPC through two nodes, 64 in flight", node::ping_many),
    workload("node_read_4k", "read RPC of 4 KiB through two nodes, 8 in flight", node::read_4k),
    workload("node_write_4k", "write RPC of 4 KiB through two nodes, 8 in flight", node::write_4k),
    workload("units_ping", "ping RPC of a test that a console runs, 64 in flight", units::ping),
    workload("units_read_4k", "read RPC of 4 KiB of such a test, 64 in flight", units::read_4k),
    workload("node_read_4k_full", "the same read with every word checked", node::read_4k_checked),
    workload("files_lookup", "lookup of a file at a server in memory, 64 in flight", files::lookup),
    workload("files_mknod", "file made by mknod and removed, 64 in flight", files::mknod),
    workload("files_create", "file made by open, closed and removed, 64 in flight", files::create),
];

fn main() -> ExitCode {
    // Cargo adds `--bench` when it runs benches.
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let [name, count, settings @ ..] = &words[..] else {
        WORKLOADS.iter().for_each(|workload| println!("{}\t{}", workload.name, workload.unit));
        return ExitCode::SUCCESS;
    };
    let workload = WORKLOADS.iter().find(|workload| workload.name == *name);
    let (Some(workload), Ok(count), Some(tunables)) = (workload, count.parse(), tuned(settings))
    else {
        eprintln!("usage: icount [NAME N [TUNABLE=VALUE]...]");
        return ExitCode::FAILURE;
    };
    (workload.run)(&tunables, count);
    ExitCode::SUCCESS
}

fn tuned(settings: &[String]) -> Option<Tunables> {
    let mut tunables = Tunables::default();
    for setting in settings {
        let (name, value) = setting.split_once('=')?;
        tunables.set(name, value.parse().ok()?).ok()?;
    }
    Some(tunables)
}
