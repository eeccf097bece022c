//! Programs that wait for servers, and what ends their waits.

use std::env;
use std::fs::{self, File};
use std::io::{Read, Write, stdin};
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::{Sender, channel};

use rustix::fs::{FlockOperation, fcntl_lock};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::gettid;

use super::{Lustre, can_mount, names};
use crate::common::{Running, eventually, finish, lustrine};

impl Lustre {
    /// Has the servers answer nothing until what this returns is dropped.
    fn pause(&self) -> Sender<()> {
        let (resume, resumed) = channel::<()>();
        let server = self.servers.as_ref().expect("the servers run").server();
        server.post(move |_, _| _ = resumed.recv()).expect("the event loop runs");
        resume
    }

    /// Files that clients have open, as the metadata server sees it.
    pub(super) fn opens(&self) -> usize {
        let (sender, seen) = channel();
        let server = self.servers.as_ref().expect("the servers run").server();
        let post = server.post(move |server, _| {
            let opens = server.targets().iter().map(|target| target.opens).sum();
            let _ = sender.send(opens);
        });
        post.expect("the event loop runs");
        seen.recv().expect("the event loop runs")
    }
}

/// Waits until a thread waits for an answer of a mount, or for another thread that does, and not
/// only for a moment.
fn wait_for_wait(pid: u32) {
    const LOOKS: u32 = 10;
    let mut seen = 0;
    eventually("an operation that waits", || {
        let about = |name: &str| fs::read_to_string(format!("/proc/{pid}/{name}")).ok();
        let (place, status) = (about("wchan")?, about("status")?);
        // The function of the kernel in which it waits, if the kernel says so.
        let asks = place == "0" || place.contains("request_wait_answer");
        let waits = status.contains("\nState:\tD") || asks && status.contains("\nState:\tS");
        seen = if waits { seen + 1 } else { 0 };
        (seen >= LOOKS).then_some(())
    });
}

#[test]
fn umount_says_why_it_waits() {
    if !can_mount() {
        return;
    }
    let mut lustre = Lustre::for_mounts();
    let mount = lustre.mount("m");
    let mut file = File::create(mount.path("file")).unwrap();
    file.write_all(b"begun").unwrap();
    mount.umount().expect_error(&["cannot unmount", "programs use it"]);
    assert!(mount.is_running());
    lustre.servers = None;
    // The grant of the first write is enough for this one.
    file.write_all(b"only in this client").unwrap();
    drop(file);
    let mut waiting = Running::start(lustrine().arg("umount").arg(&mount.dir));
    waiting.wait_for(&format!(
        "unmounted; process {} is still writing data to the servers",
        mount.pid
    ));
    assert_eq!(names(&mount.dir), Vec::<String>::new());
    assert!(mount.is_running());
    mount.kill().unwrap();
    waiting.end().ok().expect_stderr(&["its log", "names what is lost"]);
}

/// Root can end the waits of all programs.
#[test]
fn a_forced_umount_ends_operations_that_wait() {
    if !can_mount() {
        return;
    }
    let mut lustre = Lustre::for_mounts();
    let mount = lustre.mount("m");
    fs::write(mount.path("file"), b"written").unwrap();
    lustre.servers = None;
    let waiting = Running::start(Command::new("stat").arg(mount.path("other")));
    wait_for_wait(waiting.pid());
    // This does not end it.
    mount.umount().expect_error(&["cannot unmount", "programs use it"]);
    finish(lustrine().args(["umount", "--force"]).arg(&mount.dir)).ok();
    let done = waiting.end();
    assert_eq!(done.code, Some(1), "{done:#?}");
    assert_eq!(names(&mount.dir), Vec::<String>::new());
}

#[test]
fn umount_does_not_wait_when_it_is_not_to() {
    if !can_mount() {
        return;
    }
    let mut lustre = Lustre::for_mounts();
    let (one, other) = (lustre.mount("a"), lustre.mount("b"));
    for mount in [&one, &other] {
        fs::write(mount.path(&format!("file-{}", mount.pid)), b"only in this client").unwrap();
    }
    lustre.servers = None;
    for (option, mount) in [("--no-wait", &one), ("--lazy", &other)] {
        let done = finish(lustrine().args(["umount", option]).arg(&mount.dir)).ok();
        assert_eq!(done.stderr, "", "{option}");
    }
    for mount in [&one, &other] {
        assert_eq!(names(&mount.dir), Vec::<String>::new());
    }
}

/// What programs that are killed have begun is ended when the server answers: nothing stays open.
#[test]
fn programs_that_wait_for_a_server_can_be_killed() {
    if !can_mount() {
        return;
    }
    let lustre = Lustre::for_mounts();
    let mount = lustre.mount("m");
    fs::create_dir(mount.path("dir")).unwrap();
    fs::write(mount.path("file"), b"written").unwrap();
    let file = File::open(mount.path("file")).unwrap();
    eventually("the other files are closed", || (lustre.opens() == 1).then_some(()));
    // The client knows these names now: the next that needs a server is what the program asks for.
    fs::read_dir(mount.path("dir")).unwrap();
    fs::metadata(mount.path("dir/created")).unwrap_err();
    let start = |program: &str| {
        let script = format!("exec 3< file; echo ready >&2; read go; exec {program}");
        let mut shell = Command::new("sh");
        Running::start(shell.args(["-c", &script]).current_dir(&mount.dir))
    };
    let programs = [
        ("stat dir/other", Signal::TERM),
        ("cat file", Signal::KILL),
        ("ls dir", Signal::USR1),
        // It dumps its memory first.
        ("prlimit --core=0 rmdir dir", Signal::ABORT),
        ("sh -c ': > dir/created'", Signal::TERM),
        ("mv file dir/moved", Signal::KILL),
    ];
    let mut programs = programs.map(|(program, signal)| (start(program), signal));
    programs.iter_mut().for_each(|(program, _)| program.wait_for("ready"));

    let paused = lustre.pause();
    for (program, _) in &mut programs {
        program.close_stdin();
        wait_for_wait(program.pid());
    }
    // Some wait for others in the kernel.
    programs.iter().for_each(|(program, signal)| program.signal(*signal));
    for (program, signal) in programs {
        let done = program.end();
        assert_eq!(done.code, None, "{signal:?} ends it: {done:#?}");
    }
    drop(paused);
    // The names are there, as the server has answered by then.
    names(&mount.dir);
    eventually("nothing else is open", || (lustre.opens() == 1).then_some(()));
    drop(file);
    mount.umount().ok();
}

/// A directory of the mount, for the process that [`programs_that_ask_for_locks_can_be_killed`]
/// starts.
const LOCKS_IN: &str = "LUSTRINE_TEST_LOCKS_IN";

/// Has a lock of fcntl(2), and asks for another one when standard input ends.
fn ask_for_locks(dir: &Path) {
    let take = |name: &str| {
        let file = File::options().write(true).open(dir.join(name)).unwrap();
        fcntl_lock(&file, FlockOperation::LockExclusive).unwrap();
        file
    };
    let _held = take("held");
    eprintln!("thread {} is ready", gettid().as_raw_nonzero());
    stdin().read_to_end(&mut Vec::new()).unwrap();
    take("asked");
}

/// What the killed have asked for stays in flight. In the end nothing is locked. (The unit tests of
/// the client hold the order of requests.)
#[test]
fn programs_that_ask_for_locks_can_be_killed() {
    if let Some(dir) = env::var_os(LOCKS_IN) {
        return ask_for_locks(Path::new(&dir));
    }
    if !can_mount() {
        return;
    }
    let lustre = Lustre::for_mounts();
    let (mount, other) = (lustre.mount("m"), lustre.mount("other"));
    for name in ["held", "asked", "shared"] {
        fs::write(mount.path(name), b"").unwrap();
    }
    let mut own = Command::new(env::current_exe().unwrap());
    own.args(["--exact", "mounts::waits::programs_that_ask_for_locks_can_be_killed"]);
    let mut locks = Running::start(own.arg("--nocapture").env(LOCKS_IN, &mount.dir));
    locks.wait_for("is ready");
    // The lock of an open file that a program shares with another one, which unlocks it later.
    let script = "exec 3<> shared; echo ready >&2; read go; flock -n 3 & echo child $! >&2; wait; \
                  flock -u 3 & echo other $! >&2; wait; echo unlocked >&2; exec sleep 1000";
    let mut shell = Running::start(Command::new("sh").args(["-c", script]).current_dir(&mount.dir));
    shell.wait_for("ready");
    let number_after = |text: &str, word: &str| -> i32 {
        let rest = text.split_once(word).expect(word).1;
        rest.split_whitespace().next().and_then(|number| number.parse().ok()).expect("a number")
    };
    let refused = fcntl_lock(
        File::options().write(true).open(other.path("held")).unwrap(),
        FlockOperation::NonBlockingLockExclusive,
    );
    assert_eq!(refused, Err(Errno::AGAIN));

    let paused = lustre.pause();
    locks.close_stdin();
    shell.close_stdin();
    shell.wait_for("child");
    let child = number_after(&shell.stderr(), "child ");
    for thread in [number_after(&locks.stderr(), "thread "), child] {
        wait_for_wait(thread as u32);
    }
    kill_process(Pid::from_raw(child).expect("not 0"), Signal::KILL).unwrap();
    locks.signal(Signal::KILL);
    // It waits for a lock first, and then for the end of those that it has.
    let done = locks.end();
    assert_eq!(done.code, None, "{done:#?}");
    shell.wait_for("other");
    wait_for_wait(number_after(&shell.stderr(), "other ") as u32);
    drop(paused);
    shell.wait_for("unlocked");
    // Another client gets all of them. That of the open file is free though it is open.
    let shared =
        finish(Command::new("flock").args(["-n", "shared", "true"]).current_dir(&other.dir));
    shared.ok();
    for name in ["held", "asked"] {
        let file = File::options().write(true).open(other.path(name)).unwrap();
        let lock = || fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive).ok();
        eventually("the locks of the process have ended", lock);
    }
    shell.signal(Signal::KILL);
    shell.end();
    mount.umount().ok();
    other.umount().ok();
}
