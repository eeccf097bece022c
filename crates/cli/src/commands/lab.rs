//! `lustrine lab`: hosts with real sockets, joined by emulated links, on one machine.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::{Args, Subcommand};
use lustrine_lab::{FILE_MAX, Lab, Layout, is_name, parse};
use lustrine_lab_host::{EnteredHost, LabError, Place, Program, State, Status};

use crate::common::LAB_CONTROL_VARIABLE;
use crate::output::{Failure, note, print, print_error, print_json};

mod text;

/// What is set for programs on a host: its name.
const HOST_VARIABLE: &str = "LUSTRINE_LAB_HOST";

/// The name of a laboratory whose file neither has a name nor is called by one.
const NAME: &str = "lab";

/// Run hosts with real sockets, joined by emulated links, on this machine
///
/// Each host is a network namespace; each link has a rate, a delay, a queue, losses and more
/// (docs/laboratory.md). Needs root, or a system that lets users make user namespaces.
#[derive(Args, Debug)]
pub(crate) struct LabArgs {
    #[command(subcommand)]
    command: LabCommand,
}

#[derive(Subcommand, Debug)]
enum LabCommand {
    Up(UpArgs),
    Exec(ExecArgs),
    Status(StatusArgs),
    Down(DownArgs),
}

/// Start a laboratory
#[derive(Args, Debug)]
struct UpArgs {
    /// The file that describes hosts and links (docs/laboratory.md)
    #[arg(value_name = "FILE.yaml")]
    file: PathBuf,

    /// The name of the laboratory [default: `name` in the file, otherwise the name of the file]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    /// Only check the file, and show addresses and paths
    #[arg(long)]
    dry_run: bool,
}

/// Run a program on a host of a laboratory
#[derive(Args, Debug)]
struct ExecArgs {
    /// The laboratory; not needed while only one is up
    #[arg(long, value_name = "NAME")]
    lab: Option<String>,

    /// The host
    #[arg(value_name = "HOST")]
    host: String,

    /// The program and its arguments
    #[arg(value_name = "COMMAND", required = true, last = true)]
    command: Vec<OsString>,
}

/// Show the laboratories that are up, or the hosts and links of one
#[derive(Args, Debug)]
struct StatusArgs {
    /// The laboratory; not needed while only one is up
    #[arg(value_name = "NAME")]
    lab: Option<String>,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// End a laboratory, with all programs that run in it
#[derive(Args, Debug)]
struct DownArgs {
    /// The laboratory; not needed while only one is up
    #[arg(value_name = "NAME")]
    lab: Option<String>,

    /// All laboratories of this user
    #[arg(long, conflicts_with = "lab")]
    all: bool,
}

/// Hold a laboratory until it is told to stop; started by `lustrine lab up`
#[derive(Args, Debug)]
pub(crate) struct LabDaemonArgs {
    /// Directory of the laboratory; its lock is the standard input
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

/// The first process of a laboratory; started by `lustrine lab-daemon`
#[derive(Args, Debug)]
pub(crate) struct LabInitArgs {
    /// The file to show as /etc/hosts
    #[arg(value_name = "FILE")]
    hosts: PathBuf,
}

impl From<LabError> for Failure {
    fn from(error: LabError) -> Failure {
        Failure::Failed(error.to_string())
    }
}

/// Runs the command.
pub(crate) fn run(args: &LabArgs) -> Result<(), Failure> {
    let is_look = match &args.command {
        LabCommand::Status(_) => true,
        LabCommand::Up(args) => args.dry_run,
        LabCommand::Exec(_) | LabCommand::Down(_) => false,
    };
    if !is_look && let Some(host) = std::env::var_os(HOST_VARIABLE) {
        let host = host.display();
        return Err(format!(
            "this runs on host {host} of a laboratory ({HOST_VARIABLE} is set), where processes of \
             other hosts cannot be seen; run this command outside of the laboratory"
        )
        .into());
    }
    match &args.command {
        LabCommand::Up(args) => up(args),
        LabCommand::Exec(args) => exec(args),
        LabCommand::Status(args) => status(args),
        LabCommand::Down(args) => down(args),
    }
}

/// Runs the daemon.
pub(crate) fn daemon(args: &LabDaemonArgs) -> Result<(), Failure> {
    Ok(lustrine_lab_host::daemon(&args.dir)?)
}

/// Runs the first process of a laboratory.
pub(crate) fn init(args: &LabInitArgs) -> Result<(), Failure> {
    let ended = lustrine_lab_host::init(&args.hosts);
    ended.map_err(|error| Failure::Failed(format!("the first process of the laboratory: {error}")))
}

/// Reads a laboratory's file.
fn read(path: &Path) -> Result<String, Failure> {
    let cannot = |error| Failure::Input(format!("cannot read {}: {error}", path.display()));
    let file = File::open(path).map_err(cannot)?;
    let mut text = String::new();
    file.take(FILE_MAX as u64 + 1).read_to_string(&mut text).map_err(cannot)?;
    Ok(text)
}

fn up(args: &UpArgs) -> Result<(), Failure> {
    let text = read(&args.file)?;
    let lab = parse(&text, &args.file.display().to_string())
        .map_err(|problems| Failure::Input(problems.to_string()))?;
    let name = match (&args.name, &lab.name) {
        (Some(name), _) if !is_name(name) => {
            let words = "a name has up to 32 letters, digits, \"_\" and \"-\", the first one a \
                         letter";
            return Err(Failure::Usage(format!("--name {name:?}: {words}")));
        }
        (Some(name), _) | (None, Some(name)) => name.clone(),
        (None, None) => {
            let stem = args.file.file_stem().map(|stem| stem.to_string_lossy().into_owned());
            stem.filter(|stem| is_name(stem)).unwrap_or_else(|| NAME.to_owned())
        }
    };
    if args.dry_run {
        return print(&text::plan(&lab));
    }
    let place = Place::of_user()?;
    lustrine_lab_host::start(place.claim(&name)?, &text, &Program::this()?)?;
    print(&format!("laboratory {name} is up\n"))?;
    print(&text::hosts(&lab, &Layout::new(&lab)))?;
    for problem in lustrine_lab_host::ask_status(&place, &name)?.notes {
        note(&format!("lustrine: {problem}"));
    }
    let example = example(&lab, &name);
    print(&format!("\n{example}\n"))
}

/// A command that a user may want next.
fn example(lab: &Lab, name: &str) -> String {
    let first = &lab.hosts[0].name;
    let other = lab.hosts.last().map_or(first, |host| &host.name);
    format!("lustrine lab exec --lab {name} {first} -- ping -c 3 {other}")
}

/// The laboratory that a command is about.
fn chosen(place: &Place, name: Option<&str>) -> Result<String, Failure> {
    if let Some(name) = name {
        return match is_name(name) {
            true => Ok(name.to_owned()),
            false => Err(LabError::NotUp(name.to_owned()).into()),
        };
    }
    let names = place.names()?;
    let mut up = Vec::new();
    for name in names {
        if place.state(&name)? == State::Up {
            up.push(name);
        }
    }
    match &up[..] {
        [only] => Ok(only.clone()),
        [] => {
            let words = "no laboratory is up; `lustrine lab up FILE` starts one";
            Err(Failure::Failed(words.to_owned()))
        }
        several => {
            let words = format!("several laboratories are up: {}; name one", several.join(", "));
            Err(Failure::Usage(words))
        }
    }
}

fn exec(args: &ExecArgs) -> Result<(), Failure> {
    let place = Place::of_user()?;
    let name = chosen(&place, args.lab.as_deref())?;
    let status = lustrine_lab_host::ask_status(&place, &name)?;
    let here = std::env::current_dir();
    let host = EnteredHost::enter(&status, &args.host)?;
    let mut command = Command::new(&args.command[0]);
    command.args(&args.command[1..]);
    command.env("LUSTRINE_LAB", &name).env(HOST_VARIABLE, &args.host);
    command.env(LAB_CONTROL_VARIABLE, place.node_socket(&name, &args.host));
    if let Ok(here) = here {
        command.current_dir(here);
    }
    match host.run(&mut command) {
        Ok(0) => Ok(()),
        Ok(status) => Err(Failure::Reported(status)),
        Err(error) => {
            print_error(&error.to_string());
            Err(Failure::Reported(error.exit_status()))
        }
    }
}

fn status(args: &StatusArgs) -> Result<(), Failure> {
    let place = Place::of_user()?;
    let mut names = match &args.lab {
        Some(_) => vec![chosen(&place, args.lab.as_deref())?],
        None => place.names()?,
    };
    let mut running: Vec<Status> = Vec::new();
    let mut dead = Vec::new();
    for name in names.drain(..) {
        match place.state(&name)? {
            State::Up => match lustrine_lab_host::ask_status(&place, &name) {
                Err(LabError::NotUp(_)) => dead.push(name),
                status => running.push(status?),
            },
            State::Dead => dead.push(name),
            State::None if args.lab.is_some() => return Err(LabError::NotUp(name).into()),
            State::None => {}
        }
    }
    if args.json {
        return print_json(&serde_json::json!({ "up": running, "dead": dead }));
    }
    if running.is_empty() && dead.is_empty() {
        return print("no laboratory is up\n");
    }
    for status in &running {
        print(&text::status(status))?;
    }
    for name in dead {
        print(&format!("{name}: its daemon was killed; `lustrine lab down {name}` clears up\n"))?;
    }
    Ok(())
}

fn down(args: &DownArgs) -> Result<(), Failure> {
    let place = Place::of_user()?;
    let names = match args.all {
        true => place.names()?,
        false => vec![chosen(&place, args.lab.as_deref())?],
    };
    for name in names {
        let said = match lustrine_lab_host::stop(&place, &name)? {
            State::Up => format!("laboratory {name} has ended\n"),
            State::Dead => format!("laboratory {name} had been killed; its files are removed\n"),
            State::None => return Err(LabError::NotUp(name).into()),
        };
        print(&said)?;
    }
    Ok(())
}
