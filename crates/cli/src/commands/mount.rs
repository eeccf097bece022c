//! `lustrine mount`, `lustrine umount`, and the helpers of mount(8) and umount(8): a file system at
//! a directory, through FUSE.

mod log;
mod program_options;

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use lustrine_fs::{CacheTunables, FsUrl, MgcTunables, MountOptions};
use lustrine_fuse::{
    FLUSH_TIMEOUT, Mount, MountProgram, MountedAt, Options, UnmountMode, Unmounted, mount_point,
    mounted_at,
};
use lustrine_node::Node;
use lustrine_sys::{Pending, Signals};
use rustix::process::{Pid, Signal, kill_process};

use crate::common::{NodeOptions, TemporaryNodeOptions};
use crate::output::{Failure, INTERRUPTED, note, print, print_error};
use crate::values::seconds;

/// How often the states of imports are looked at, for the log.
const WATCH: Duration = Duration::from_secs(1);
/// How long programs that still use the mount may take to close their files after a signal.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the program of a mount may take to say which it is; it may be stopped.
const ANSWER_MAX: Duration = Duration::from_secs(2);
/// How often it is looked whether a signal has come.
const LOOK_FOR_SIGNALS: Duration = Duration::from_millis(50);
/// How often the process that asks it is looked at.
const LOOK: Duration = Duration::from_millis(5);
/// How long the end of the program of a mount is waited for in silence.
const SILENCE: Duration = Duration::from_secs(1);
/// What the detached program says when the mount works.
const READY: &[u8] = b"mounted\n";

/// Mount a Lustre file system at a directory through FUSE, without kernel modules of Lustre
///
/// The command returns once the file system is mounted; the program continues in the background
/// until it is unmounted, with `lustrine umount` or umount(8). See docs/mount.md.
#[derive(Args, Clone, Debug)]
pub(crate) struct MountArgs {
    /// The file system: MGSNID[,MGSNID...][:MGSNID...]:/FSNAME[/DIRECTORY], such as
    /// 10.0.0.9@tcp:/lustre, or a URL, lustre://MGSNID/FSNAME
    #[arg(value_name = "SPEC")]
    source: String,

    /// The mount point
    #[arg(value_name = "DIR")]
    dir: PathBuf,

    /// Mount options, separated by commas: ro, noatime, sync, cache=SIZE, names=FILES,
    /// entry_timeout=SECONDS, localflock, allow_other and others (docs/mount.md); may be repeated
    #[arg(short, long = "options", value_name = "OPTIONS", allow_hyphen_values = true)]
    options: Vec<String>,

    /// Stay in the foreground; SIGINT and SIGTERM unmount
    #[arg(short, long)]
    foreground: bool,

    /// Append messages to this file when the program has gone to the background
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,

    /// Time that the mount may take, in seconds; a server that restarts needs minutes
    #[arg(long, default_value_t = 60.0, value_parser = seconds, allow_negative_numbers = true)]
    timeout: f64,

    /// Ignore mount options that are not known
    #[arg(long)]
    sloppy: bool,

    /// The program in the background: it says on its standard output when the mount works
    #[arg(long, hide = true)]
    detached: bool,

    #[command(flatten)]
    node: TemporaryNodeOptions,
}

/// Mount a file system as mount(8) asks for it; called as mount.lustrine
#[derive(Args, Debug)]
pub(crate) struct MountHelperArgs {
    /// The file system
    #[arg(value_name = "SPEC")]
    source: String,

    /// The mount point
    #[arg(value_name = "DIR")]
    dir: PathBuf,

    /// Mount options, separated by commas
    #[arg(short, value_name = "OPTIONS", allow_hyphen_values = true)]
    options: Vec<String>,

    /// Ignore mount options that are not known
    #[arg(short)]
    sloppy: bool,

    /// Check everything, and mount nothing
    #[arg(short)]
    fake: bool,

    /// No effect: there is no /etc/mtab to write
    #[arg(short)]
    no_mtab: bool,

    /// Print what is done
    #[arg(short)]
    verbose: bool,

    /// The type of the file system
    #[arg(short = 't', value_name = "TYPE", hide = true)]
    kind: Option<String>,
}

/// What is to be mounted, and how.
struct Plan {
    url: FsUrl,
    options: Options,
}

/// Runs `lustrine mount`.
pub(crate) fn run(args: &MountArgs) -> Result<(), Failure> {
    let mut args = args.clone();
    args.take_program_options()?;
    let plan = plan(&args)?;
    match (args.detached, args.foreground) {
        (true, _) => serve(&args, &plan, true),
        (_, true) => serve(&args, &plan, false),
        _ => start_in_background(&args),
    }
}

/// Runs `mount.lustrine`.
pub(crate) fn help_mount(args: &MountHelperArgs) -> Result<(), Failure> {
    if args.verbose {
        print(&format!("mount.lustrine: {} at {}\n", args.source, args.dir.display()))?;
    }
    let mut args = MountArgs {
        source: args.source.clone(),
        dir: args.dir.clone(),
        options: args.options.clone(),
        foreground: args.fake,
        log: None,
        timeout: 60.0,
        sloppy: args.sloppy,
        detached: false,
        node: TemporaryNodeOptions::default(),
    };
    // What is wrong with the options is said whatever is mounted.
    args.take_program_options()?;
    words(&args)?;
    // mount(8) looks for the source of fstab among those of the mounts, but the mount shows its
    // own form of it. So `mount -a` asks for file systems that are mounted.
    let is_there = mounted_at(&args.dir).is_some_and(|mounted| is_same(&mounted, &args.source));
    match (is_there, args.foreground) {
        (true, _) => Ok(()),
        (false, true) => plan(&args).map(drop),
        (false, false) => run(&args),
    }
}

/// Whether two sources name the same directory of the same file system.
fn is_same(one: &str, other: &str) -> bool {
    let parsed = |text: &str| text.parse().map(|url: FsUrl| source(&url));
    matches!((parsed(one), parsed(other)), (Ok(one), Ok(other)) if one == other)
}

/// Checks everything that can be checked before servers are asked.
fn plan(args: &MountArgs) -> Result<Plan, Failure> {
    let plan = words(args)?;
    mount_point(&args.dir).map_err(|error| format!("cannot mount at {error}"))?;
    Ok(plan)
}

/// Reads the source and the options.
fn words(args: &MountArgs) -> Result<Plan, Failure> {
    let url: FsUrl = args.source.parse().map_err(|error| Failure::Usage(format!("{error}")))?;
    let mut options = Options::default();
    for list in &args.options {
        options.apply(list, args.sloppy).map_err(|error| Failure::Usage(error.to_string()))?;
    }
    Ok(Plan { url, options })
}

/// Starts this program once more, and waits until it says that the mount works. A process with
/// threads cannot be divided, so the threads start in the new one.
fn start_in_background(args: &MountArgs) -> Result<(), Failure> {
    let program = std::env::current_exe()
        .map_err(|error| format!("cannot find the file of this program: {error}"))?;
    let node: NodeOptions = (&args.node).into();
    let mut command = Command::new(program);
    command.arg("mount").arg("--detached").args(node.to_args());
    command.args(["--timeout", &args.timeout.to_string()]);
    for list in &args.options {
        command.arg(format!("--options={list}"));
    }
    if args.sloppy {
        command.arg("--sloppy");
    }
    if let Some(log) = &args.log {
        command.arg("--log").arg(log);
    }
    command.arg("--").arg(&args.source).arg(&args.dir);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let signals = Signals::install().map_err(|error| format!("cannot catch signals: {error}"))?;
    // Otherwise who waits for their end, such as a lock of flock(1), waits for that of the mount.
    lustrine_sys::process::pass_no_files_on();
    let mut child = command
        .spawn()
        .map_err(|error| format!("cannot start the program in the background: {error}"))?;
    let heard = listen(child.stdout.take())?;
    let (mut is_ready, mut interrupted) = (None, false);
    let status = loop {
        match is_ready {
            None => is_ready = heard.recv_timeout(LOOK_FOR_SIGNALS).ok(),
            Some(_) => thread::sleep(LOOK_FOR_SIGNALS),
        }
        // Also after the word: what came with it counts.
        let Pending { terminate, hangup, .. } = signals.take();
        match (terminate || hangup, interrupted) {
            (false, _) => {}
            (true, false) => {
                // It is waited for: it has the address of this machine's node until it has ended.
                interrupted = true;
                let _ = kill_process(Pid::from_child(&child), Signal::TERM);
            }
            (true, true) => return Err(Failure::Interrupted),
        }
        if is_ready == Some(true) && !interrupted {
            return Ok(());
        }
        let ended = child.try_wait();
        if let Some(status) = ended.map_err(|error| format!("the background program: {error}"))? {
            break status;
        }
    };
    // It has said why, unless a signal has ended it.
    match status.code().and_then(|code| u8::try_from(code).ok()) {
        None if interrupted => Err(Failure::Interrupted),
        Some(_) if interrupted => Err(Failure::Reported(INTERRUPTED)),
        Some(code @ 1..) => Err(Failure::Reported(code)),
        _ => Err(format!("the program in the background ended with {status}").into()),
    }
}

/// Says whether the program in the background has said that the mount works, once it has said
/// something or has ended.
fn listen(stdout: Option<ChildStdout>) -> Result<Receiver<bool>, Failure> {
    let (word, heard) = mpsc::channel();
    let listener = thread::Builder::new().spawn(move || {
        let mut said = Vec::new();
        if let Some(stdout) = stdout {
            // It closes its end after the word, or when it ends.
            let _ = stdout.take(READY.len() as u64).read_to_end(&mut said);
        }
        // The receiver is gone after a second signal.
        let _ = word.send(said == READY);
    });
    listener.map_err(|error| format!("cannot start a thread: {error}"))?;
    Ok(heard)
}

/// Mounts, and stays until the mount has ended.
fn serve(args: &MountArgs, plan: &Plan, detached: bool) -> Result<(), Failure> {
    if detached {
        // The mount must survive the end of its terminal.
        lustrine_sys::process::detach_from_terminal();
    }
    let log = args.log.as_deref().filter(|_| detached).map(log::open).transpose()?;
    let signals = Signals::install().map_err(|error| format!("cannot catch signals: {error}"))?;
    let node = super::fs::start_node(&plan.url, &args.node, plan.options.cache)?;
    // A signal ends the wait for the servers, and so does the end of the program that waits for it.
    let mut reader_left = false;
    let goes_on = || {
        reader_left = detached && lustrine_sys::process::reader_has_left(&std::io::stdout());
        !reader_left && !signals.take().terminate
    };
    let mut mount = match mount(&node, args, plan, goes_on) {
        Ok(mount) => mount,
        Err(failure) => {
            node.stop();
            // Its terminal has gone on to something else.
            return Err(if reader_left { Failure::Reported(INTERRUPTED) } else { failure });
        }
    };
    let mut seen = log::Seen::default();
    let left = if detached { leave(log.as_ref()) } else { Ok(()) };
    let stayed = match left {
        Ok(()) => stay(&mut mount, &signals, &plan.url, &mut seen),
        // The program that waited for the mount has gone: the mount is not left behind.
        Err(error) => {
            let _ = mount.unmount();
            Err(error)
        }
    };
    // A mount that follows at once waits for the address while the servers are told. What is still
    // to be written may take minutes: nobody waits for that.
    let mut leaving = None;
    // One signal may come in any case: a service manager ends what is left of a mount with it.
    let mut asked = false;
    let goes_on = || {
        let terminate = signals.take().terminate;
        if terminate && !asked {
            log::say("written data are not at the servers yet; a second signal gives them up");
        }
        !terminate || !core::mem::replace(&mut asked, true)
    };
    let finished = mount.finish(goes_on, |losses| {
        leaving = Some(node.leaving());
        log::name_losses(&losses, &mut seen);
    });
    let finished = finished.map_err(|error| Failure::from(error.to_string()));
    node.stop();
    drop(leaving);
    stayed.and(finished)
}

/// Reports that the mount works, and leaves the terminal.
fn leave(log: Option<&File>) -> Result<(), Failure> {
    print(std::str::from_utf8(READY).expect("it is text"))?;
    lustrine_sys::process::leave_output(log)
        .map_err(|error| format!("cannot leave the terminal: {error}"))?;
    // Otherwise the directory it was started in could not be unmounted.
    let _ = std::env::set_current_dir("/");
    Ok(())
}

fn mount(
    node: &Node,
    args: &MountArgs,
    plan: &Plan,
    goes_on: impl FnMut() -> bool,
) -> Result<Mount, Failure> {
    let path = String::from_utf8_lossy(&plan.url.path);
    let path = path.trim_end_matches('/');
    let how = MountOptions {
        timeout: Duration::from_secs_f64(args.timeout),
        subdirectory: if path.is_empty() { String::new() } else { format!("/{path}") },
        cache: CacheTunables { attrs: plan.options.names, ..CacheTunables::of(plan.options.cache) },
        mgc: MgcTunables {
            imperative_recovery: plan.options.imperative_recovery,
            ..MgcTunables::default()
        },
        ..MountOptions::default()
    };
    let what = format!("cannot mount {}", args.source);
    let failed = |error: &dyn std::fmt::Display| Failure::Failed(format!("{what}: {error}"));
    let files = super::fs::wait::mount(node, &plan.url, &how, &what, goes_on)?;
    let settings = plan.options.settings;
    files
        .post(move |client, turn| client.set_rpc_settings(turn, settings))
        .map_err(|error| failed(&error))?;
    Mount::start(files, &source(&plan.url), &args.dir, &plan.options)
        .map_err(|error| failed(&error))
}

/// What `/proc/mounts` shows, in the form of `mount -t lustre`.
fn source(url: &FsUrl) -> String {
    let nids: Vec<String> = url.mgs.iter().map(ToString::to_string).collect();
    let path = String::from_utf8_lossy(&url.path);
    let path = path.trim_end_matches('/');
    let slash = if path.is_empty() { "" } else { "/" };
    format!("{}:/{}{slash}{path}", nids.join(":"), url.fsname)
}

/// Returns when the mount has ended, or a signal has ended it.
fn stay(
    mount: &mut Mount,
    signals: &Signals,
    url: &FsUrl,
    seen: &mut log::Seen,
) -> Result<(), Failure> {
    log::say(&format!("{} is mounted", source(url)));
    // A signal ends the wait.
    while !mount.wait(WATCH) {
        if signals.take().terminate {
            if !mount.unmount().map_err(|error| error.to_string())? {
                log::say("the directory no longer leads to this file system: nothing is unmounted");
            }
            let deadline = Instant::now() + LEAVE_TIMEOUT;
            let mut left = LEAVE_TIMEOUT;
            // Further signals end the wait early.
            while !left.is_zero() && !mount.wait(left) {
                left = deadline.saturating_duration_since(Instant::now());
            }
            break;
        }
        log::watch(mount, seen);
    }
    // Programs may use it still, and it may be under another file system.
    let end = if mount.is_over() { "is unmounted" } else { "is disconnected" };
    log::say(&format!("{} {end}", source(url)));
    Ok(())
}

/// Unmount a file system that `lustrine mount` has mounted
#[derive(Args, Debug)]
pub(crate) struct UmountArgs {
    /// The mount point
    #[arg(value_name = "DIR")]
    dir: PathBuf,

    /// Detach the file system now, and return; it is unmounted once no program uses it
    #[arg(short, long)]
    lazy: bool,

    /// Abort operations that are waiting for servers, then unmount, and return; data that the
    /// servers do not have yet may be lost (root only)
    #[arg(short, long, conflicts_with = "lazy")]
    force: bool,

    /// Return when the file system is unmounted, even if the servers do not have everything yet
    #[arg(long)]
    no_wait: bool,

    /// Print the process ID of the program of the mount, and do nothing else
    #[arg(long, hide = true)]
    print_pid: bool,
}

/// Unmount a file system as umount(8) asks for it; called as umount.fuse.lustrine
#[derive(Args, Debug)]
pub(crate) struct UmountHelperArgs {
    /// The mount point
    #[arg(value_name = "DIR")]
    dir: PathBuf,

    /// Detach the file system now, and return
    #[arg(short)]
    lazy: bool,

    /// Abort operations that are waiting for servers, then unmount, and return
    #[arg(short)]
    force: bool,

    /// No effect: there is no /etc/mtab to write
    #[arg(short)]
    no_mtab: bool,

    /// No effect: a file system that is used stays as it is
    #[arg(short)]
    read_only: bool,

    /// Print what is done
    #[arg(short)]
    verbose: bool,

    /// The type of the file system
    #[arg(short = 't', value_name = "TYPE", hide = true)]
    kind: Option<String>,

    /// The namespace, which umount(8) has entered
    #[arg(short = 'N', value_name = "NAMESPACE", hide = true)]
    namespace: Option<String>,
}

/// Runs `umount.fuse.lustrine`.
pub(crate) fn help_umount(args: &UmountHelperArgs) -> Result<(), Failure> {
    if args.verbose {
        print(&format!("umount.fuse.lustrine: {}\n", args.dir.display()))?;
    }
    umount(&UmountArgs {
        dir: args.dir.clone(),
        lazy: args.lazy,
        force: args.force && !args.lazy,
        no_wait: false,
        print_pid: false,
    })
}

/// Runs `lustrine umount`.
pub(crate) fn umount(args: &UmountArgs) -> Result<(), Failure> {
    let mode = match (args.lazy, args.force) {
        (true, _) => UnmountMode::Lazy,
        (false, true) => UnmountMode::Force,
        (false, false) => UnmountMode::Unused,
    };
    let waits = mode == UnmountMode::Unused && !args.no_wait;
    if args.print_pid {
        // What has no program says so when it is unmounted.
        return match lustrine_fuse::status(&args.dir, None) {
            Ok(status) => print(&format!("{}\n", status.pid)),
            Err(_) => Ok(()),
        };
    }
    let program = if waits { program_of(&args.dir) } else { Ok(None) };
    let unmounted = lustrine_fuse::unmount(&args.dir, mode).map_err(|error| {
        print_error(&format!("cannot unmount {error}"));
        Failure::Reported(1)
    })?;
    match program {
        Ok(Some(program)) => wait_for(&program, &unmounted),
        Ok(None) => Ok(()),
        Err(why) => {
            note(&format!(
                "unmounted, without waiting for the mount process ({why}): written data may not \
                 have reached the servers yet"
            ));
            Ok(())
        }
    }
}

/// The program of the mount at a directory; `None` if there is none.
///
/// # Errors
/// When it does not answer, or cannot be waited for: why.
fn program_of(dir: &Path) -> Result<Option<MountProgram>, String> {
    // A stopped program does not answer, and one that waits for it keeps the mount busy: another
    // process asks, which can be killed.
    let mut asking = std::env::current_exe()
        .and_then(|own| {
            let mut command = Command::new(own);
            command.args(["umount", "--print-pid", "--"]).arg(dir);
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()
        })
        .map_err(|error| format!("it cannot be asked: {error}"))?;
    let end = Instant::now() + ANSWER_MAX;
    while matches!(asking.try_wait(), Ok(None)) {
        if Instant::now() >= end {
            // It may not end before the program answers, so its end is not waited for.
            let _ = asking.kill();
            return Err(format!("it has not answered for {} s", ANSWER_MAX.as_secs()));
        }
        std::thread::sleep(LOOK);
    }
    let mut said = String::new();
    if let Some(mut stdout) = asking.stdout.take() {
        stdout.read_to_string(&mut said).map_err(|error| format!("it cannot be asked: {error}"))?;
    }
    said.trim().parse().ok().map(MountProgram::of).transpose()
}

/// Waits until the program of a mount has ended: the servers have everything then, or it has given
/// up, which only its log says.
fn wait_for(program: &MountProgram, unmounted: &Unmounted) -> Result<(), Failure> {
    if program.wait(SILENCE) {
        return Ok(());
    }
    if let Some(places) = still_mounted(&unmounted.elsewhere()) {
        note(&format!(
            "unmounted here; {places}, so the mount process continues: written data may not have \
             reached the servers yet"
        ));
        return Ok(());
    }
    note(&format!(
        "unmounted; process {} is still writing data to the servers (Ctrl-C stops waiting; the \
         process continues)",
        program.pid()
    ));
    // It gives up after this time itself, and disconnects from servers that may be silent.
    if program.wait(FLUSH_TIMEOUT + Duration::from_secs(60)) {
        note("that process has ended; its log (`lustrine mount --log`) names what is lost, if any");
        return Ok(());
    }
    Err(Failure::Failed(format!(
        "it is unmounted, but process {} has not ended: written data may not have reached the \
         servers; its log (`lustrine mount --log`) has the reason",
        program.pid()
    )))
}

/// Says where a file system is still mounted; `None` if it is nowhere.
fn still_mounted(places: &[MountedAt]) -> Option<String> {
    let MountedAt { dir, process } = places.first()?;
    // Another user may have chosen the path, as the name.
    let dir = dir.display().to_string();
    let mut text = format!("the file system is still mounted at {}", dir.escape_debug());
    if let Some((pid, name)) = process {
        let name = name.escape_debug();
        text += &format!(" for process {pid} ({name}), which has mounts of its own");
    }
    match places.len() - 1 {
        0 => {}
        1 => text += ", and at another place",
        more => text += &format!(", and at {more} other places"),
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_places_are_named_at_which_it_is_still_mounted() {
        let here = MountedAt { dir: "/srv".into(), process: None };
        let there = MountedAt { dir: "/m\x1bt".into(), process: Some((17, "a\nb".to_owned())) };
        assert_eq!(still_mounted(&[]), None);
        assert_eq!(
            still_mounted(std::slice::from_ref(&here)).as_deref(),
            Some("the file system is still mounted at /srv")
        );
        assert_eq!(
            still_mounted(&[there.clone(), here.clone()]).as_deref(),
            Some(
                "the file system is still mounted at /m\\u{1b}t for process 17 (a\\nb), which has \
                 mounts of its own, and at another place"
            )
        );
        let last = still_mounted(&[here.clone(), there, here]).expect("places");
        assert!(last.ends_with("/srv, and at 2 other places"), "{last}");
    }

    #[test]
    fn the_source_is_shown_as_mount_has_it() {
        let shown = |text: &str| source(&text.parse().expect("a URL"));
        assert_eq!(shown("lustre://10.0.0.9@tcp/lustre"), "10.0.0.9@tcp:/lustre");
        let spec = "10.0.0.9@tcp:10.0.0.8@tcp:/lustre/a/b";
        assert_eq!(shown(spec), spec);
    }

    #[test]
    fn all_forms_of_a_source_name_what_is_mounted() {
        let mounted = "10.0.0.9@tcp:10.0.0.8@tcp:/lustre/a";
        for same in [
            "10.0.0.9,10.0.0.8:/lustre/a",
            "10.0.0.9@tcp:10.0.0.8@tcp:/lustre/a/",
            "lustre://10.0.0.9,10.0.0.8/lustre/a",
        ] {
            assert!(is_same(mounted, same), "{same}");
        }
        for other in ["10.0.0.9,10.0.0.8:/lustre", "10.0.0.9@tcp:/lustre/a", "/dev/sda", ""] {
            assert!(!is_same(mounted, other), "{other}");
        }
        assert!(!is_same("/dev/sda", "/dev/sda"));
    }
}
