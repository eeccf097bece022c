//! `cargo xtask bench`: measurements to compare, never gates.
//!
//! Numbers of different machines, or of different days on one machine, say nothing. So each peer
//! is measured in the same run, in turn with ours, and what is reported are ratios.

mod auto;
mod buffers;
mod console;
mod files;
mod histograms;
mod icount;
mod lab;
mod ladder;
mod library;
pub(crate) mod machine;
mod message_sim;
mod mount;
mod neighbours;
mod ours;
mod peers;
mod ports;
mod results;
mod statistics;
mod waiting;
mod wan;
mod zero_copy;

use anyhow::Result;
use clap::Subcommand;

#[derive(Subcommand)]
pub(crate) enum Bench {
    /// Rates, latencies and throughput against other programs on this machine's loopback
    Ladder(ladder::LadderArgs),
    /// What each way to wait (tunable spin_us) costs and brings
    Waiting(waiting::WaitingArgs),
    /// Throughput by the number of operations in flight, beside plain TCP with as many buffers
    Buffers(buffers::BuffersArgs),
    /// The same programs beside others that keep CPUs busy
    Neighbours(neighbours::NeighboursArgs),
    /// Files of a Lustre server, beside the kernel's client in the same machine (needs root)
    Files(files::FilesArgs),
    /// The library over the loopback against the model servers, beside `lustrine selftest`
    Library(library::LibraryArgs),
    /// A mount beside file systems that only pass everything on to a tmpfs (needs root)
    Mount(mount::MountArgs),
    /// The simulator's TCP against Linux's over an emulated long link (needs root)
    Wan(wan::WanArgs),
    /// The links of laboratories against their configuration, by iperf3 (needs root)
    Lab(lab::LabArgs),
    /// A node that tunes itself over links of laboratories, beside iperf3 (needs root)
    Auto(auto::AutoArgs),
    /// Sending without a copy, on and off, over links of namespaces, per CPU second (needs root)
    ZeroCopy(zero_copy::ZeroCopyArgs),
    /// The simulator's message level by number of nodes
    MessageSim(message_sim::MessageSimArgs),
    /// What a session of many nodes costs its console
    Console(console::ConsoleArgs),
    /// What latency histograms and scrapes of the metrics cost
    Histograms(histograms::HistogramsArgs),
    /// Instructions per message of the logic alone, counted by valgrind
    Icount(icount::IcountArgs),
}

pub(crate) fn run(which: &Bench) -> Result<()> {
    match which {
        Bench::Ladder(args) => ladder::run(args),
        Bench::Waiting(args) => waiting::run(args),
        Bench::Buffers(args) => buffers::run(args),
        Bench::Neighbours(args) => neighbours::run(args),
        Bench::Files(args) => files::run(args),
        Bench::Library(args) => library::run(args),
        Bench::Mount(args) => mount::run(args),
        Bench::Wan(args) => wan::run(args),
        Bench::Lab(args) => lab::run(args),
        Bench::Auto(args) => auto::run(args),
        Bench::ZeroCopy(args) => zero_copy::run(args),
        Bench::MessageSim(args) => message_sim::run(args),
        Bench::Console(args) => console::run(args),
        Bench::Histograms(args) => histograms::run(args),
        Bench::Icount(args) => icount::run(args),
    }
}
