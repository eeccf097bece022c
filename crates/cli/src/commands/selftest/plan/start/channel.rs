//! One host: the process that reaches it, such as ssh, and what the two ends say to each other.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use lustrine_plan::{HOST, MissingHost, Start, StartMethod, printable};
use lustrine_sys::process::{EndSignal, end_group};
use lustrine_wire::nid::Nid;

use super::program::Program;
use super::script::{COPIED, FAILED, GONE, SHELL};
use super::{LOOK, SIGNAL_TIMEOUT};
use crate::commands::plan_node::{MARK, NODE, PlanNode, READY};
use crate::output::Failure;

/// Longest line that a host may send.
const LINE_MAX: u64 = 64 << 10;

/// Lines that wait to be read.
const LINES_MAX: usize = 64;

/// How much of standard error is kept, from its end.
const TAIL_MAX: usize = 4 << 10;

/// Most characters of a word that a host sends in the place of a known one.
const WORD_MAX: usize = 32;

/// Most characters of the reason why a host is missing; the kept standard error fits in.
const WHY_MAX: usize = 5 << 10;

/// How many of its lines are shown.
const TAIL_LINES: usize = 3;

/// How long an ended process's output may take to arrive.
const OUTPUT_TIMEOUT: Duration = Duration::from_secs(1);

/// The threads here have little to do.
const STACK: usize = 128 << 10;

/// The command that runs a shell on a host, which reads commands from standard input.
pub(super) fn command(method: &StartMethod, start: &Start, host: &str) -> Command {
    let seconds = start.timeout.0 / 1_000_000_000;
    match method {
        StartMethod::Ssh => {
            let mut ssh = Command::new("ssh");
            // Of an option that is given twice, ssh takes the first: the user's.
            ssh.args(&start.options).args(["-T", "-x", "-a", "-o", "BatchMode=yes"]);
            ssh.args(["-o", "ServerAliveInterval=15", "-o", "ClearAllForwardings=yes"]);
            ssh.arg("-o").arg(format!("ConnectTimeout={}", (seconds / 2).clamp(1, 15)));
            if let Some(user) = &start.user {
                ssh.args(["-l", user]);
            }
            ssh.args([host, "sh", "-s"]);
            ssh
        }
        StartMethod::Srun => {
            let mut srun = Command::new("srun");
            srun.args(["--overlap", "--nodes=1", "--ntasks=1"]).args(&start.options);
            srun.arg(format!("--nodelist={host}")).args(["sh", "-s"]);
            srun
        }
        StartMethod::Command(words) => {
            let mut words = words.iter().map(|word| word.replace(HOST, host));
            let mut command = Command::new(words.next().unwrap_or_default());
            command.args(words);
            command
        }
    }
}

/// Why there is no node on a host.
pub(super) enum StartError {
    /// It failed.
    Failed(MissingHost),
    /// The user wants to end; the host, if it did not confirm that its files are removed.
    Stopped(Option<String>),
}

/// The start of a node on one host.
pub(super) struct Attempt<'a> {
    pub(super) host: &'a str,
    /// What reaches the host.
    pub(super) command: Command,
    /// What its shell does.
    pub(super) script: String,
    pub(super) program: Arc<Program>,
    pub(super) deadline: Instant,
    /// The time until the deadline, for messages.
    pub(super) timeout: Duration,
    /// Whether the user wants to end.
    pub(super) stopped: &'a dyn Fn() -> bool,
}

impl Attempt<'_> {
    /// Starts the node. As long as the input that comes with it is open, the node continues.
    ///
    /// # Errors
    /// When a step fails, the time is over, or the user wants to end. Nothing is left then, as far
    /// as the error does not say otherwise.
    pub(super) fn run(mut self) -> Result<(Channel, ChildStdin), StartError> {
        let (mut link, input) = Link::spawn(self.host, &mut self.command)?;
        match (self.steps(&mut link, input), self.host.to_owned()) {
            (Ok((about, input)), host) => Ok((Channel { host, about, link }, input)),
            (Err(why), _) if !link.has_directory || link.is_gone_soon() => Err(why),
            (Err(StartError::Stopped(_)), host) => Err(StartError::Stopped(Some(host))),
            (Err(StartError::Failed(mut missing)), _) => {
                missing.why += "; it is not certain that its files are removed";
                Err(StartError::Failed(missing))
            }
        }
    }

    fn steps(
        &self,
        link: &mut Link,
        mut input: ChildStdin,
    ) -> Result<(PlanNode, ChildStdin), StartError> {
        // If it cannot be written, the process has ended and says why.
        let _ = input.write_all(self.script.as_bytes());
        let shell = self.wait(link, "connect", SHELL)?;
        link.has_directory = true;
        let (system, machine) = shell.split_once(' ').unwrap_or((&shell, ""));
        if system != "Linux" {
            let system = printable(system, WORD_MAX);
            return Err(link.failed("connect", format!("the system there is {system}, not Linux")));
        }
        if let Err(own) = self.program.runs_on(machine) {
            let machine = printable(machine, WORD_MAX);
            let why = format!(
                "the machine is {machine}, and the program is for {own}; --program FILE names \
                 another"
            );
            return Err(link.failed("copy", why));
        }
        let program = Arc::clone(&self.program);
        let (sender, sent) = mpsc::channel();
        in_background(move || {
            let _ = input.write_all(&program.bytes);
            let _ = sender.send(input);
        });
        self.wait(link, "copy", COPIED)?;
        let unsent = |_| link.failed("copy", "the program was not sent as a whole".to_owned());
        let input = sent.recv_timeout(OUTPUT_TIMEOUT).map_err(unsent)?;
        let about = self.wait(link, "node", NODE)?;
        match serde_json::from_str::<PlanNode>(about.trim()) {
            Ok(about) if !about.nids.is_empty() => Ok((about, input)),
            _ => Err(link.failed("node", "the node there is of another release".to_owned())),
        }
    }

    /// Waits for a report and returns the rest of its line.
    fn wait(&self, link: &mut Link, step: &str, what: &str) -> Result<String, StartError> {
        let check = || match (self.stopped)() {
            true => Err(Failure::Interrupted),
            false => Ok(()),
        };
        link.wait(step, what, (self.deadline, self.timeout), &check)
    }
}

/// A host with a node.
pub(super) struct Channel {
    pub(super) host: String,
    pub(super) about: PlanNode,
    link: Link,
}

impl Channel {
    /// The primary NID of the node.
    pub(super) fn nid(&self) -> Nid {
        self.about.nids[0]
    }

    /// Waits until the node trusts its console.
    pub(super) fn wait_ready(
        &mut self,
        deadline: Instant,
        check: &dyn Fn() -> Result<(), Failure>,
    ) -> Result<(), StartError> {
        let left = deadline.saturating_duration_since(Instant::now());
        self.link.wait("node", READY, (deadline, left), check).map(drop)
    }

    /// Why the node is no longer there, if it is not.
    pub(super) fn ended_early(&mut self) -> Option<String> {
        let status = self.link.group.status()?;
        Some(self.link.why_ended(Some(status)))
    }
}

/// Waits until nodes have ended whose inputs are closed, and ends those that take too long. Returns
/// the hosts that did not confirm that their files are removed.
pub(super) fn end(mut channels: Vec<Channel>, time: Duration, more: Duration) -> Vec<String> {
    let all = |channels: &mut Vec<Channel>, time: Duration| {
        let deadline = Instant::now() + time;
        while Instant::now() < deadline
            && channels.iter_mut().any(|channel| channel.link.group.status().is_none())
        {
            thread::sleep(LOOK / 2);
        }
    };
    all(&mut channels, time);
    for channel in &mut channels {
        channel.link.group.signal(EndSignal::Terminate);
    }
    all(&mut channels, more);
    for channel in &mut channels {
        channel.link.group.signal(EndSignal::Kill);
    }
    let deadline = Instant::now() + OUTPUT_TIMEOUT;
    let unclear = channels.iter().filter(|channel| !channel.link.is_gone(deadline));
    unclear.map(|channel| channel.host.clone()).collect()
}

/// The process that reaches a host, and what it says.
struct Link {
    host: String,
    program: String,
    group: Group,
    /// Reports, without their mark.
    said: Receiver<String>,
    tail: Tail,
    /// Whether there was a directory for the program.
    has_directory: bool,
}

impl Link {
    fn spawn(host: &str, command: &mut Command) -> Result<(Link, ChildStdin), StartError> {
        let program = command.get_program().to_string_lossy().into_owned();
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // Ctrl-C on the terminal reaches only this process, which ends sessions before the nodes.
        let child = command.process_group(0).spawn().map_err(|error| {
            let why = format!("cannot run {program}: {error}");
            StartError::Failed(missing(host, "connect", &why))
        })?;
        let mut group = Group { child, status: None };
        let pipes =
            (group.child.stdin.take(), group.child.stdout.take(), group.child.stderr.take());
        let (Some(input), Some(output), Some(errors)) = pipes else {
            let why = format!("{program} has no pipes");
            return Err(StartError::Failed(missing(host, "connect", &why)));
        };
        let (sender, said) = mpsc::sync_channel(LINES_MAX);
        in_background(move || reports(output, &sender));
        let (host, tail) = (host.to_owned(), Tail::of(errors));
        Ok((Link { host, program, group, said, tail, has_directory: false }, input))
    }

    /// Waits for a report and returns the rest of its line.
    fn wait(
        &mut self,
        step: &str,
        what: &str,
        (deadline, timeout): (Instant, Duration),
        check: &dyn Fn() -> Result<(), Failure>,
    ) -> Result<String, StartError> {
        loop {
            match self.said.recv_timeout(LOOK) {
                Ok(line) => {
                    if let Some(failed) = line.strip_prefix(FAILED) {
                        self.tail.wait_for_end();
                        return Err(self.failed(failed, self.why(failed)));
                    }
                    if let Some(rest) = line.strip_prefix(what) {
                        return Ok(rest.trim().to_owned());
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    self.tail.wait_for_end();
                    let status = self.group.status_soon(OUTPUT_TIMEOUT);
                    return Err(self.failed(step, self.why_ended(status)));
                }
            }
            check().map_err(|_| StartError::Stopped(None))?;
            if Instant::now() >= deadline {
                let mut why = format!("no answer within {} s", timeout.as_secs());
                let tail = self.tail.text();
                if !tail.is_empty() {
                    why += &format!(": {tail}");
                }
                return Err(self.failed(step, why));
            }
        }
    }

    fn failed(&self, step: &str, why: String) -> StartError {
        StartError::Failed(missing(&self.host, step, &why))
    }

    /// What standard error says of a failed step, with advice.
    fn why(&self, step: &str) -> String {
        let tail = match self.tail.text() {
            tail if tail.is_empty() => "no reason was given".to_owned(),
            tail => tail,
        };
        let advice = match step {
            "directory" => "; \"directory: PATH\" in the plan names another place",
            "run" if tail.contains("denied") => {
                "; the file system may forbid programs (noexec): \"directory: PATH\" in the plan \
                 names another place"
            }
            "node" if tail.contains("in use") => "; \"port: NUMBER\" in the plan chooses another",
            _ => "",
        };
        tail + advice
    }

    fn why_ended(&self, status: Option<ExitStatus>) -> String {
        let ended = match status {
            Some(status) => format!("{} ended ({status})", self.program),
            None => format!("{} closed its output", self.program),
        };
        match self.tail.text() {
            tail if tail.is_empty() => ended,
            tail => format!("{ended}: {tail}"),
        }
    }

    /// Whether the host confirms after a failure that its files are removed: by itself, or, if it
    /// still waits for something, after the process that reaches it was asked to end.
    fn is_gone_soon(&mut self) -> bool {
        if self.is_gone(Instant::now() + SIGNAL_TIMEOUT) {
            return true;
        }
        self.group.signal(EndSignal::Terminate);
        self.is_gone(Instant::now() + SIGNAL_TIMEOUT)
    }

    /// Whether the host has confirmed that the node's files are removed.
    fn is_gone(&self, deadline: Instant) -> bool {
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.said.recv_timeout(left) {
                Ok(line) if line.starts_with(GONE) => return true,
                Ok(_) => {}
                Err(_) => return false,
            }
        }
    }
}

fn missing(host: &str, step: &str, why: &str) -> MissingHost {
    let (step, why) = (printable(step, WORD_MAX), printable(why, WHY_MAX));
    MissingHost { host: host.to_owned(), step, why }
}

/// A process and its group; ended when this is dropped.
struct Group {
    child: Child,
    /// Set once it was waited for: its number may then be another process's.
    status: Option<ExitStatus>,
}

impl Group {
    /// How it ended, if it has.
    fn status(&mut self) -> Option<ExitStatus> {
        if self.status.is_none() {
            self.status = self.child.try_wait().ok().flatten();
        }
        self.status
    }

    /// The same, some time after its output has ended.
    fn status_soon(&mut self, time: Duration) -> Option<ExitStatus> {
        let deadline = Instant::now() + time;
        while self.status().is_none() && Instant::now() < deadline {
            thread::sleep(LOOK / 2);
        }
        self.status
    }

    fn signal(&mut self, signal: EndSignal) {
        if self.status().is_none() {
            end_group(&self.child, signal);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(EndSignal::Terminate);
        if self.status_soon(SIGNAL_TIMEOUT).is_none() {
            end_group(&self.child, EndSignal::Kill);
            let _ = self.child.wait();
        }
    }
}

/// Sends the reports of a host; other lines, such as greetings, are dropped.
fn reports(output: impl Read, sender: &mpsc::SyncSender<String>) {
    let mut output = BufReader::new(output);
    loop {
        let mut line = Vec::new();
        match (&mut output).take(LINE_MAX).read_until(b'\n', &mut line) {
            Ok(1..) => {}
            _ => return,
        }
        let line = String::from_utf8_lossy(&line);
        // A greeting may have no line end.
        if let Some((_, report)) = line.split_once(MARK)
            && sender.send(report.trim_end().to_owned()).is_err()
        {
            return;
        }
    }
}

/// The end of what a process writes to standard error.
struct Tail {
    bytes: Arc<Mutex<Vec<u8>>>,
    /// Disconnected when it is closed. The lock makes it possible to share this between threads.
    open: Mutex<Receiver<()>>,
}

impl Tail {
    fn of(mut errors: impl Read + Send + 'static) -> Tail {
        let bytes: Arc<Mutex<Vec<u8>>> = Arc::default();
        let sink = Arc::clone(&bytes);
        let (sender, open) = mpsc::channel::<()>();
        in_background(move || {
            let _sender = sender;
            let mut chunk = [0; 1024];
            while let Ok(length @ 1..) = errors.read(&mut chunk) {
                let mut kept = sink.lock().unwrap_or_else(PoisonError::into_inner);
                kept.extend(&chunk[..length]);
                let surplus = kept.len().saturating_sub(TAIL_MAX);
                kept.drain(..surplus);
            }
        });
        Tail { bytes, open: Mutex::new(open) }
    }

    fn wait_for_end(&self) {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = open.recv_timeout(OUTPUT_TIMEOUT);
    }

    /// Its last lines.
    fn text(&self) -> String {
        let bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<&str> = text.lines().map(str::trim).filter(|l| !l.is_empty()).collect();
        let last = &lines[lines.len().saturating_sub(TAIL_LINES)..];
        last.iter().map(|line| printable(line, TAIL_MAX)).collect::<Vec<_>>().join("; ")
    }
}

/// A thread that nothing waits for; it ends with the pipe that it serves.
fn in_background(work: impl FnOnce() + Send + 'static) {
    // Without a thread the pipe is closed, which the other side notices.
    let _ = thread::Builder::new().stack_size(STACK).spawn(work);
}
