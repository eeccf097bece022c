//! Processes that a test starts: none outlives the test, and every wait has a limit.

use std::fmt::Debug;
use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// The limit of any wait for an expected event. It is chosen for a machine under heavy load: no
/// test waits for it to pass.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// The interval at which a condition is checked.
const LOOK: Duration = Duration::from_millis(10);

/// Waits until `look` returns a value.
pub(crate) fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    wait(what, || look().ok_or(()), |()| String::new())
}

/// Waits until a log has a line with these words.
pub(crate) fn logged(path: &Path, words: &str) {
    let look = || {
        let log = fs::read_to_string(path).unwrap_or_default();
        if log.lines().any(|line| line.contains(words)) { Ok(()) } else { Err(log) }
    };
    wait(&format!("a line with {words:?}"), look, |log| format!(" in\n{log}"));
}

/// Waits until two values are equal.
pub(crate) fn eventually_equal<T: PartialEq + Debug>(what: &str, mut look: impl FnMut() -> (T, T)) {
    let unequal = || {
        let (left, right) = look();
        if left == right { Ok(()) } else { Err((left, right)) }
    };
    wait(what, unequal, |(left, right)| format!(": {left:?}, {right:?}"));
}

/// Waits until `look` succeeds; `explain` describes its last failure.
fn wait<T, E>(
    what: &str,
    mut look: impl FnMut() -> Result<T, E>,
    explain: impl Fn(E) -> String,
) -> T {
    let give_up = Instant::now() + LIMIT;
    loop {
        match look() {
            Ok(found) => return found,
            Err(why) if Instant::now() >= give_up => {
                panic!("not within {LIMIT:?}: {what}{}", explain(why))
            }
            Err(_) => thread::sleep(LOOK),
        }
    }
}

/// The program, without settings from the environment.
pub(crate) fn lustrine() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lustrine"));
    clean(&mut command);
    command
}

/// Removes the program's settings from the environment of a command.
pub(crate) fn clean(command: &mut Command) {
    let ours = ["LUSTRINE_CONTROL", "LUSTRINE_LOG", "LUSTRINE_LST_DIR", "LUSTRINE_COMPAT"];
    let users = ["XDG_RUNTIME_DIR", "LST_SESSION", "LST_FEATURES", "LUSTRINE_LAB_CONTROL"];
    let managers = ["NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"];
    for name in ours.into_iter().chain(users).chain(managers) {
        command.env_remove(name);
    }
}

/// Runs a command until it ends.
pub(crate) fn finish(command: &mut Command) -> Finished {
    Running::start(command).end()
}

/// A process that has ended.
#[derive(Debug)]
pub(crate) struct Finished {
    /// Its exit status; `None` if a signal ended it.
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Finished {
    /// Asserts that it succeeded.
    #[track_caller]
    pub(crate) fn ok(self) -> Finished {
        self.expect_code(0)
    }

    /// Asserts an exit status.
    #[track_caller]
    pub(crate) fn expect_code(self, code: i32) -> Finished {
        assert_eq!(self.code, Some(code), "exit status of {self:#?}");
        self
    }

    /// Asserts an exit status of 1 and an error message that contains all of these words.
    #[track_caller]
    pub(crate) fn expect_error(self, words: &[&str]) -> Finished {
        let failed = self.expect_code(1);
        assert!(failed.stderr.contains("lustrine: "), "no error of ours in {failed:#?}");
        failed.expect_stderr(words)
    }

    /// Asserts the exit status of a usage error or a bad input file, and an error message that
    /// contains all of these words.
    #[track_caller]
    pub(crate) fn expect_bad_input(self, words: &[&str]) -> Finished {
        let failed = self.expect_code(2);
        assert!(failed.stderr.contains("lustrine: "), "no error of ours in {failed:#?}");
        failed.expect_stderr(words)
    }

    /// Asserts that standard error contains these words.
    #[track_caller]
    pub(crate) fn expect_stderr(self, words: &[&str]) -> Finished {
        for word in words {
            assert!(self.stderr.contains(word), "{word:?} is not in {self:#?}");
        }
        self
    }

    /// Its standard output, which must be one JSON document.
    #[track_caller]
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error} in {self:#?}"))
    }
}

/// A running process; dropping it kills it.
#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
    /// Kept open: a node started with `--until-eof` cannot outlive a test that is killed.
    stdin: Option<ChildStdin>,
    stdout: Output,
    stderr: Output,
}

impl Running {
    pub(crate) fn start(command: &mut Command) -> Running {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
        Running {
            stdin: child.stdin.take(),
            stdout: Output::of(child.stdout.take().expect("it was asked for")),
            stderr: Output::of(child.stderr.take().expect("it was asked for")),
            child,
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it has written to standard output so far.
    pub(crate) fn stdout(&self) -> String {
        self.stdout.text()
    }

    /// What it has written to standard error so far.
    pub(crate) fn stderr(&self) -> String {
        self.stderr.text()
    }

    /// Waits until it has written this to standard error.
    #[track_caller]
    pub(crate) fn wait_for(&mut self, words: &str) {
        eventually(&format!("{words:?} on standard error of process {}", self.pid()), || {
            let said = self.stderr().contains(words);
            let gone = !said && !self.is_running() && !self.stderr().contains(words);
            assert!(!gone, "it ended without saying {words:?}:\n{}", self.stderr());
            said.then_some(())
        });
    }

    pub(crate) fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).expect("a child that was not waited for takes signals");
    }

    /// Waits until it, and all processes that have inherited its output, have ended.
    #[track_caller]
    pub(crate) fn end(mut self) -> Finished {
        let status = eventually(&format!("the end of process {}", self.pid()), || {
            self.child.try_wait().expect("a child can be waited for")
        });
        Finished {
            code: status.code(),
            stdout: self.stdout.whole("standard output"),
            stderr: self.stderr.whole("standard error"),
        }
    }

    /// Closes its standard input.
    pub(crate) fn close_stdin(&mut self) {
        drop(self.stdin.take());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail if it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            eprintln!("standard error of process {}:\n{}", self.pid(), self.stderr());
        }
    }
}

/// A pipe that a thread reads.
#[derive(Debug)]
struct Output {
    bytes: Arc<Mutex<Vec<u8>>>,
    /// Disconnected at the end of the pipe. The lock makes it possible to share a process between
    /// threads.
    ended: Mutex<mpsc::Receiver<()>>,
}

impl Output {
    fn of(mut pipe: impl Read + Send + 'static) -> Output {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let (sender, ended) = mpsc::channel();
        let sink = Arc::clone(&bytes);
        thread::spawn(move || {
            let _sender: mpsc::Sender<()> = sender;
            let mut chunk = [0; 4096];
            while let Ok(length @ 1..) = pipe.read(&mut chunk) {
                sink.lock().unwrap_or_else(PoisonError::into_inner).extend(&chunk[..length]);
            }
        });
        Output { bytes, ended: Mutex::new(ended) }
    }

    fn text(&self) -> String {
        let bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&bytes).into_owned()
    }

    #[track_caller]
    fn whole(&self, name: &str) -> String {
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        let ended = ended.recv_timeout(LIMIT);
        assert_eq!(ended, Err(RecvTimeoutError::Disconnected), "{name} is still open somewhere");
        self.text()
    }
}
