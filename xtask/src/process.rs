//! Child processes that never outlive this one and always have a time limit.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// The interval at which a child is polled.
const LOOK: Duration = Duration::from_millis(5);

/// When all children end at the latest, whatever their own limits are.
static END: OnceLock<Instant> = OnceLock::new();

/// Sets the time at which all children of this process end at the latest; the first call counts.
pub(crate) fn end_by(end: Instant) {
    END.get_or_init(|| end);
}

/// A child that is killed when it is dropped.
pub(crate) struct ChildGuard(Child);

impl ChildGuard {
    /// Starts a program whose output is discarded.
    pub(crate) fn silent(command: &mut Command) -> Result<ChildGuard> {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        start(command)
    }

    /// Starts a program as its caller has set it up.
    pub(crate) fn piped(command: &mut Command) -> Result<ChildGuard> {
        start(command)
    }

    /// Its process id.
    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }

    /// Its standard output, if it is a pipe and was not taken before.
    pub(crate) fn stdout(&mut self) -> Option<ChildStdout> {
        self.0.stdout.take()
    }

    /// Waits for its end, at most until `limit` has passed, or the time of [`end_by`] has come.
    pub(crate) fn wait(&mut self, limit: Duration) -> Result<ExitStatus> {
        self.wait_within(limit, END.get().copied())
    }

    fn wait_within(&mut self, limit: Duration, end: Option<Instant>) -> Result<ExitStatus> {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(status) = self.0.try_wait()? {
                return Ok(status);
            }
            let now = Instant::now();
            if end.is_some_and(|end| now >= end) {
                bail!("not finished when the time of the whole run was over");
            }
            if now >= deadline {
                bail!("not finished after {} s", limit.as_secs());
            }
            thread::sleep(LOOK);
        }
    }
}

impl Drop for ChildGuard {
    fn drop(&mut self) {
        // Both fail if it has ended already, which is the aim.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(command: &mut Command) -> Result<ChildGuard> {
    let name = command.get_program().to_string_lossy().into_owned();
    Ok(ChildGuard(command.spawn().with_context(|| format!("cannot run {name}"))?))
}

/// The output of a program that has ended.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Finished {
    /// Its standard output, if it succeeded.
    pub(crate) fn output(self, what: &str) -> Result<String> {
        if !self.status.success() {
            let lines: Vec<&str> = self.stdout.lines().chain(self.stderr.lines()).collect();
            let is_error = |line: &&&str| line.contains("rror");
            let first = lines.iter().find(is_error).or(lines.last()).copied().unwrap_or_default();
            bail!("{what}: {}: {first}", self.status);
        }
        Ok(self.stdout)
    }
}

/// Runs a program to its end and keeps what it prints.
pub(crate) fn capture(command: &mut Command, limit: Duration) -> Result<Finished> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = start(command)?;
    let stdout = drain(child.0.stdout.take());
    let stderr = drain(child.0.stderr.take());
    let status = child.wait(limit).with_context(|| format!("{command:?}"));
    // A late program is killed: its ends of the pipes close, so that the readers end.
    drop(child);
    let (stdout, stderr) = (text_of(stdout), text_of(stderr));
    Ok(Finished { status: status?, stdout, stderr })
}

fn drain(pipe: Option<impl Read + Send + 'static>) -> JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            // The output before an error is kept.
            let _ = pipe.read_to_end(&mut bytes);
        }
        bytes
    })
}

fn text_of(reader: JoinHandle<Vec<u8>>) -> String {
    String::from_utf8_lossy(&reader.join().unwrap_or_default()).into_owned()
}

/// Runs a program on this terminal and passes each line of its standard output to `each`.
pub(crate) fn shown(
    command: &mut Command,
    limit: Duration,
    mut each: impl FnMut(&str) + Send + 'static,
) -> Result<ExitStatus> {
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = start(command)?;
    let pipe = child.0.stdout.take();
    let reader = thread::spawn(move || {
        let lines = pipe.into_iter().flat_map(|pipe| BufReader::new(pipe).lines());
        for line in lines.map_while(Result::ok) {
            println!("{line}");
            each(&line);
        }
    });
    let status = child.wait(limit);
    drop(child);
    let _ = reader.join();
    status
}

/// Whether a program of this name can be run.
pub(crate) fn installed(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(name).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn output_is_kept() {
        let ran = capture(&mut sh("echo out; echo err >&2; exit 3"), Duration::from_secs(10));
        let finished = ran.expect("it ends");
        assert_eq!((finished.stdout.as_str(), finished.stderr.as_str()), ("out\n", "err\n"));
        assert_eq!(finished.status.code(), Some(3));
        let error = finished.output("the script").expect_err("it failed").to_string();
        assert!(error.contains("err"), "{error}");
    }

    #[test]
    fn a_program_that_takes_too_long_is_killed() {
        let begin = Instant::now();
        let error = capture(&mut sh("exec sleep 60"), Duration::from_millis(100));
        assert!(error.is_err());
        assert!(begin.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn the_end_of_the_whole_comes_before_the_limit_of_a_program() {
        let mut child = start(&mut sh("exec sleep 60")).expect("a shell");
        let error = child.wait_within(Duration::from_secs(60), Some(Instant::now()));
        assert!(error.expect_err("it runs").to_string().contains("the whole run was over"));
        let limit = Duration::from_millis(10);
        let later = Instant::now() + Duration::from_secs(60);
        let error = child.wait_within(limit, Some(later));
        assert!(error.expect_err("it runs").to_string().contains("not finished after"));
    }

    #[test]
    fn programs_are_looked_up() {
        assert!(installed("sh"));
        assert!(!installed("no-such-program-anywhere"));
    }
}
