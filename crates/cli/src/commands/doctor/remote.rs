//! The view from a peer's own end: the same command, run there.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use lustrine_doctor::{Observed, RemoteView};
use lustrine_sys::Clock;
use lustrine_wire::nid::Nid;
use serde::Deserialize;

use super::DoctorArgs;
use crate::interrupt::Interrupt;
use crate::output::Failure;

/// The bytes and lines of standard error that are kept, and how long its end may take after that of
/// the command.
const WORDS: usize = 1024;
const LINES: usize = 2;
const WORDS_WAIT: Duration = Duration::from_secs(1);
/// The longest report that is read.
const REPORT: u64 = 4 << 20;
/// How much longer than its budget the other end may take, and the wait between two looks.
const SLACK: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(20);

/// The part of a report that is used.
#[derive(Deserialize)]
struct FarReport {
    observed: Observed,
}

/// Runs the command there. The inner error says why it has no view.
///
/// # Errors
/// After a signal.
pub(super) fn ask(
    command: &str,
    own: &Nid,
    args: &DoctorArgs,
    interrupt: &Interrupt,
) -> Result<Result<RemoteView, String>, Failure> {
    let mut line = format!(
        "exec {command} doctor --json --to '{own}' --budget-bytes {} --budget-time {}",
        args.budget_bytes, args.budget_time
    );
    if let Some(port) = args.port {
        line += &format!(" --port {port}");
    }
    let before = Clock::Wall.now();
    let mut shell = Command::new("sh");
    shell.args(["-c", &line]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // Ctrl-C reaches this process, which then ends the other one.
    shell.process_group(0);
    let mut child = match shell.spawn() {
        Ok(child) => child,
        Err(error) => return Ok(Err(format!("cannot start a shell: {error}"))),
    };
    let (Some(stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) else {
        return Ok(Err("no output".to_owned()));
    };
    let (sender, reader) = mpsc::channel();
    thread::spawn(move || {
        let mut text = String::new();
        let read = stdout.take(REPORT).read_to_string(&mut text);
        // There is no receiver if the time is over.
        let _ = sender.send(read.map(|_| text));
    });
    let said = Words::read(stderr);
    let until = Instant::now() + Duration::from_secs_f64(args.budget_time) + SLACK;
    let ended = wait(&mut child, until, interrupt);
    if !matches!(ended, Ok(true)) {
        // Both fail if it has ended.
        let _ = child.kill();
        let _ = child.wait();
    }
    if !ended? {
        return Ok(Err(format!("it took too long, and was ended{}", said.last_lines())));
    }
    let after = Clock::Wall.now();
    // A process that it left behind may have its output open.
    let text = match reader.recv_timeout(until.saturating_duration_since(Instant::now())) {
        Ok(Ok(text)) => text,
        Ok(Err(_)) => return Ok(Err("its output is not text".to_owned())),
        Err(_) => return Ok(Err("its output did not end in time".to_owned())),
    };
    // Some ways to another host put the lines of standard error before the report.
    let at = if text.starts_with('{') { 0 } else { text.find("\n{").map_or(0, |at| at + 1) };
    let parsed = serde_json::Deserializer::from_str(&text[at..]).into_iter::<FarReport>().next();
    let Some(parsed) = parsed else {
        let how = child.wait().map_or(String::new(), |status| format!(" ({status})"));
        let said = said.last_lines();
        return Ok(Err(format!("the command of --both-ends gave no report{how}{said}")));
    };
    Ok(match parsed {
        Ok(report) => Ok(view(report.observed, [before, after])),
        // Its words are not repeated: a bundle has no command lines in it.
        Err(error) => Err(format!("the command of --both-ends gave no report: {error}")),
    })
}

/// What a command writes to its standard error: the end of it, because the reason is there.
struct Words(Arc<Mutex<Vec<u8>>>, mpsc::Receiver<()>);

impl Words {
    fn read(mut from: impl Read + Send + 'static) -> Words {
        let kept = Arc::new(Mutex::new(Vec::new()));
        let (ended, end) = mpsc::channel::<()>();
        let words = Words(Arc::clone(&kept), end);
        thread::spawn(move || {
            let (mut chunk, _ended) = ([0; 1024], ended);
            // It is read to its end: a full pipe would stop the command.
            while let Ok(count @ 1..) = from.read(&mut chunk) {
                let Ok(mut kept) = kept.lock() else { return };
                kept.extend(&chunk[..count]);
                let surplus = kept.len().saturating_sub(WORDS);
                kept.drain(..surplus);
            }
        });
        words
    }

    /// The last lines, after a separator; nothing if there are none.
    fn last_lines(&self) -> String {
        // It ends with the command, unless a process that was left behind has it open.
        let _ = self.1.recv_timeout(WORDS_WAIT);
        let kept = self.0.lock().map_or_else(|_| Vec::new(), |kept| kept.clone());
        last_lines(&kept)
    }
}

fn last_lines(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let plain = |line: &str| line.chars().filter(|one| !one.is_control()).collect::<String>();
    let lines = text.lines().map(plain).filter(|line| !line.trim().is_empty());
    let lines: Vec<String> = lines.collect();
    let last = &lines[lines.len().saturating_sub(LINES)..];
    match last {
        [] => String::new(),
        last => format!(": {}", last.join("; ")),
    }
}

/// Whether it ended in time.
fn wait(child: &mut Child, until: Instant, interrupt: &Interrupt) -> Result<bool, Failure> {
    loop {
        interrupt.check()?;
        match child.try_wait() {
            Ok(Some(_)) => return Ok(true),
            Ok(None) if Instant::now() < until => thread::sleep(LOOK),
            Ok(None) | Err(_) => return Ok(false),
        }
    }
}

fn view(observed: Observed, queried_ns: [u64; 2]) -> RemoteView {
    let Observed { host, node, config, peers, silent_node: _ } = observed;
    let peer = peers.into_iter().next();
    let (icmp, route) = peer.map_or((None, None), |peer| (peer.icmp, peer.route));
    RemoteView { host, queried_ns, icmp, route, node, config }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_of_a_command_are_kept() {
        assert_eq!(last_lines(b"one\ntwo\r\n\n\x1b[31mthree\n"), ": two; [31mthree");
        assert_eq!((last_lines(b""), last_lines(b"\n")), (String::new(), String::new()));
        let long = [b"x".repeat(5000), b"\nssh: no route\n".to_vec()].concat();
        let said = Words::read(std::io::Cursor::new(long)).last_lines();
        assert!(said.ends_with("x; ssh: no route") && said.len() <= WORDS + 4, "{said}");
    }
}
