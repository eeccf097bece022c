//! The lustrine program, one file per command.
#![forbid(unsafe_code)]
// A full disk or a closed pipe is an error to report, not a panic: see `output`.
#![warn(clippy::print_stdout, clippy::print_stderr)]

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod access;
mod commands;
mod common;
#[cfg(test)]
mod help_snapshots;
mod host_limits;
mod hosts;
mod interrupt;
mod log;
mod output;
mod plots;
mod provenance;
mod report_file;
mod values;

#[derive(Parser)]
#[command(
    name = "lustrine",
    version,
    about = "Lustre in user space, without kernel modules: LNet nodes, selftest, diagnosis, and \
             access to files",
    after_help = "To begin, run `lustrine selftest`: it starts two nodes on this machine and \
                  measures the path between them. Every command has --help.\n\nExit status: 0: \
                  success; 1: the operation failed; 2: usage error, or an input file that cannot \
                  be read or is invalid; 130: interrupted. doctor also exits with 3 for \
                  warnings and 4 for errors; lab exec exits with the status of the program that \
                  it ran; lst, lnetctl and lctl exit with the statuses of Lustre's own tools.",
    max_term_width = 100
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Selftest(Box<commands::selftest::SelftestArgs>),
    Node(commands::node::NodeArgs),
    Ping(commands::ping::PingArgs),
    Discover(commands::discover::DiscoverArgs),
    Show(commands::show::ShowArgs),
    Lnetctl(commands::lnetctl::LnetctlArgs),
    Lctl(commands::lctl::LctlArgs),
    Lst(commands::lst::LstArgs),
    Routerstat(commands::routerstat::RouterstatArgs),
    Fs(Box<commands::fs::FsArgs>),
    Mount(Box<commands::mount::MountArgs>),
    Umount(commands::mount::UmountArgs),
    Pcap(commands::pcap::PcapArgs),
    Lab(commands::lab::LabArgs),
    Top(Box<commands::top::TopArgs>),
    Tune(Box<commands::tune::TuneArgs>),
    Doctor(Box<commands::doctor::DoctorArgs>),
    Watch(Box<commands::watch::WatchArgs>),
    Sim(commands::sim::SimArgs),
    Report(commands::report::ReportArgs),
    Completion(commands::completion::CompletionArgs),
    Man(commands::man::ManArgs),
    #[command(hide = true)]
    Complete(commands::completion::CompleteArgs),
    #[command(hide = true)]
    LabDaemon(commands::lab::LabDaemonArgs),
    #[command(hide = true)]
    LabInit(commands::lab::LabInitArgs),
    #[command(hide = true)]
    MountHelper(commands::mount::MountHelperArgs),
    #[command(hide = true)]
    UmountHelper(commands::mount::UmountHelperArgs),
    #[command(hide = true)]
    LstConsole(commands::lst::console_daemon::LstConsoleArgs),
    #[command(hide = true)]
    PlanNode(commands::plan_node::PlanNodeArgs),
    #[command(hide = true)]
    RawTcp(commands::raw_tcp::RawTcpArgs),
}

fn main() -> ExitCode {
    let parsed = match Cli::try_parse_from(arguments(std::env::args_os())) {
        Ok(parsed) => parsed,
        // Help is what was asked for: a disk that is full is a failure.
        Err(help) if help.exit_code() == 0 => {
            let printed = help.print().and_then(|()| io::stdout().flush());
            return output::end(printed.map_err(output::write_error));
        }
        Err(error) => error.exit(),
    };
    output::end(match parsed.command {
        Command::Selftest(args) => commands::selftest::run(&args),
        Command::Node(args) => commands::node::run(&args),
        Command::Ping(args) => commands::ping::run(&args),
        Command::Discover(args) => commands::discover::run(&args),
        Command::Show(args) => commands::show::run(&args),
        Command::Lnetctl(args) => commands::lnetctl::run(&args),
        Command::Lctl(args) => commands::lctl::run(&args),
        Command::Lst(args) => commands::lst::run(&args),
        Command::Routerstat(args) => commands::routerstat::run(&args),
        Command::LstConsole(args) => commands::lst::console_daemon::run(&args),
        Command::PlanNode(args) => commands::plan_node::run(&args),
        Command::Fs(args) => commands::fs::run(&args),
        Command::Mount(args) => commands::mount::run(&args),
        Command::Umount(args) => commands::mount::umount(&args),
        Command::MountHelper(args) => commands::mount::help_mount(&args),
        Command::UmountHelper(args) => commands::mount::help_umount(&args),
        Command::Pcap(args) => commands::pcap::run(&args),
        Command::Lab(args) => commands::lab::run(&args),
        Command::LabDaemon(args) => commands::lab::daemon(&args),
        Command::LabInit(args) => commands::lab::init(&args),
        Command::Top(args) => commands::top::run(&args),
        Command::Tune(args) => commands::tune::run(&args),
        Command::Doctor(args) => commands::doctor::run(&args),
        Command::Watch(args) => commands::watch::run(&args),
        Command::Sim(args) => commands::sim::run(&args),
        Command::Report(args) => commands::report::run(&args),
        Command::Completion(args) => commands::completion::run(&args),
        Command::Complete(args) => commands::completion::answer(&args),
        Command::Man(args) => commands::man::run(&args),
        Command::RawTcp(args) => commands::raw_tcp::run(&args),
    })
}

/// A tool without further subcommands of clap.
const ROUTERSTAT: &str = "routerstat";

/// The names by which mount(8) and umount(8) call the program, and the commands that they stand
/// for.
const MOUNT_HELPERS: [(&str, &str); 2] =
    [("mount.lustrine", "mount-helper"), ("umount.fuse.lustrine", "umount-helper")];

/// The command line. When the program is called by the name of a tool, as through a symbolic link,
/// the name becomes the command.
fn arguments(given: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = given.into_iter().collect();
    let name = arguments.first().and_then(|program| Path::new(program).file_name());
    let name = name.and_then(OsStr::to_str);
    let tool = name.filter(|name| *name == ROUTERSTAT || lustrine_tools::tool(name).is_some());
    let helper = MOUNT_HELPERS.iter().find(|(helper, _)| name == Some(*helper));
    let helper = helper.map(|(_, command)| *command);
    if let Some(tool) = tool.or(helper).map(OsString::from) {
        // The help text shows the first word as the program and the second as its command.
        arguments[0] = "lustrine".into();
        arguments.insert(1, tool);
    }
    arguments
}
