//! The log on standard error of commands that run until they are stopped.
//!
//! A terminal that was stopped with Ctrl-S, or a program that does not read its pipe, must not stop
//! the event loops, which log. So lines wait in a queue of limited length for a thread that writes
//! them; when it is full, lines are dropped, and the log says how many.

use std::ffi::OsString;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender, TrySendError};
use std::thread;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::writer::BoxMakeWriter;

/// The variable that chooses what is logged.
const VARIABLE: &str = "LUSTRINE_LOG";
/// What is logged without it.
const DEFAULT: &str = "info";
/// Most lines that wait to be written; they have some hundred bytes each.
const LINES_MAX: usize = 4096;
/// How long the lines that wait at the end may take.
const FLUSH_MAX: Duration = Duration::from_secs(1);
/// Pause between two attempts to end the queue.
const FLUSH_STEP: Duration = Duration::from_millis(5);

/// Formats of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogForm {
    /// Lines for people
    Text,
    /// One JSON object per line
    Json,
}

/// The log of this process. Dropping it writes the lines that wait, for a second at most.
#[must_use]
pub(crate) struct Log {
    queue: Option<(Queue, Receiver<()>)>,
}

/// Starts the log on standard error.
pub(crate) fn start(form: LogForm) -> Log {
    let (filter, problem) = filter(std::env::var_os(VARIABLE));
    let queue = Queue::start(io::stderr(), form, LINES_MAX).ok();
    let writer = match &queue {
        Some((queue, _)) => {
            let queue = queue.clone();
            BoxMakeWriter::new(move || queue.clone())
        }
        None => BoxMakeWriter::new(io::stderr),
    };
    // A log that cannot be written, as on a full disk, must not end the node: by default `eprintln`
    // panics.
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(writer)
        .log_internal_errors(false);
    match form {
        LogForm::Text => {
            let colours = io::IsTerminal::is_terminal(&io::stderr());
            builder.with_target(false).with_ansi(colours).init();
        }
        LogForm::Json => builder.json().init(),
    }
    if let Some(problem) = problem {
        tracing::warn!("{problem}");
    }
    Log { queue }
}

/// What the variable asks for. A value that would leave everything out, even why a node does not
/// start, is not followed; the text says so.
fn filter(value: Option<OsString>) -> (EnvFilter, Option<String>) {
    let value = value.unwrap_or_default();
    let text = value.to_string_lossy();
    let text = text.trim();
    if text.is_empty() {
        return (EnvFilter::new(DEFAULT), None);
    }
    // A word alone is the name of a part of the program, such as the `verbose` that it does not
    // have.
    match EnvFilter::try_new(text) {
        Ok(filter) if text.split(',').any(names_level) => (filter, None),
        _ => {
            let problem = format!(
                "{VARIABLE} is {text:?}, which names no level; allowed: off, error, warn, info, \
                 debug, trace; for example debug, or info,lustrine_socklnd=debug: {DEFAULT} is used"
            );
            (EnvFilter::new(DEFAULT), Some(problem))
        }
    }
}

fn names_level(directive: &str) -> bool {
    let word = directive.rsplit('=').next().unwrap_or(directive);
    let word = word.trim();
    // Nothing is read as a level, too.
    !word.is_empty() && word.parse::<tracing_subscriber::filter::LevelFilter>().is_ok()
}

impl Drop for Log {
    fn drop(&mut self) {
        if let Some((queue, ended)) = self.queue.take() {
            queue.end(&ended, FLUSH_MAX);
        }
    }
}

enum Entry {
    Line(Vec<u8>),
    End,
}

/// The way to the thread that writes.
#[derive(Clone)]
struct Queue {
    entries: SyncSender<Entry>,
    /// Lines that were dropped since the last line that says so.
    lost: Arc<AtomicU64>,
}

impl Queue {
    /// Starts the thread. The receiver is closed when it has ended.
    fn start(
        mut out: impl Write + Send + 'static,
        form: LogForm,
        lines_max: usize,
    ) -> io::Result<(Queue, Receiver<()>)> {
        let (entries, waiting) = mpsc::sync_channel(lines_max);
        let (running, ended) = mpsc::channel();
        let lost: Arc<AtomicU64> = Arc::default();
        let left_out = Arc::clone(&lost);
        thread::Builder::new().name("lustrine-log".to_owned()).spawn(move || {
            let _running = running;
            // A line that cannot be written cannot be reported either.
            while let Ok(Entry::Line(line)) = waiting.recv() {
                let _ = out.write_all(&line);
                let lost = left_out.swap(0, Ordering::Relaxed);
                if lost > 0 {
                    let _ = out.write_all(lost_line(form, lost).as_bytes());
                }
            }
            let _ = out.flush();
        })?;
        Ok((Queue { entries, lost }, ended))
    }

    /// Has the thread write what waits, and waits for its end.
    fn end(&self, ended: &Receiver<()>, most: Duration) {
        let deadline = Instant::now() + most;
        while let Err(TrySendError::Full(_)) = self.entries.try_send(Entry::End) {
            if Instant::now() >= deadline {
                return;
            }
            thread::sleep(FLUSH_STEP);
        }
        let _ = ended.recv_timeout(deadline.saturating_duration_since(Instant::now()));
    }
}

/// The line that says how many were dropped.
fn lost_line(form: LogForm, lost: u64) -> String {
    let now = jiff::Timestamp::now();
    let text = "log lines were dropped because standard error does not accept them fast enough";
    match form {
        LogForm::Text => format!("{now:.6}  WARN {text} lost={lost}\n"),
        LogForm::Json => format!(
            "{{\"timestamp\":\"{now:.6}\",\"level\":\"WARN\",\"fields\":{{\"message\":\"{text}\",\
             \"lost\":{lost}}},\"target\":\"lustrine::log\"}}\n"
        ),
    }
}

impl Write for Queue {
    /// Takes a whole line.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if let Err(TrySendError::Full(_)) = self.entries.try_send(Entry::Line(line.to_vec())) {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// An output that takes nothing until it is let go.
    struct Stalled {
        go: Receiver<()>,
        taken: Arc<Mutex<Vec<u8>>>,
    }

    impl Write for Stalled {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            // An error means that nothing holds it any more.
            let _ = self.go.recv();
            self.taken.lock().expect("no test panics with it").extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Logs more lines than wait, to an output that stalls until all were logged.
    fn stalled(form: LogForm) -> Vec<String> {
        const LINES: usize = 20;
        let (hold, go) = mpsc::channel();
        let taken = Arc::default();
        let out = Stalled { go, taken: Arc::clone(&taken) };
        let (mut queue, ended) = Queue::start(out, form, 4).expect("a thread");
        for line in 0..LINES {
            let line = format!("{{\"line\":{line}}}\n");
            queue.write_all(line.as_bytes()).expect("it is taken or dropped");
        }
        // What holds the output does not hold the end.
        queue.end(&ended, Duration::ZERO);
        drop(hold);
        queue.end(&ended, Duration::from_secs(60));
        let taken = taken.lock().expect("no test panics with it");
        String::from_utf8_lossy(&taken).lines().map(str::to_owned).collect()
    }

    #[test]
    fn an_output_that_stalls_costs_lines_and_no_time() {
        let lines = stalled(LogForm::Json);
        let (lost, kept): (Vec<&String>, Vec<&String>) =
            lines.iter().partition(|line| line.contains("were dropped"));
        assert_eq!(kept[0], "{\"line\":0}", "{lines:#?}");
        let value: Vec<serde_json::Value> =
            lost.iter().map(|line| serde_json::from_str(line).expect("one object")).collect();
        let lost: u64 = value.iter().filter_map(|value| value["fields"]["lost"].as_u64()).sum();
        assert_eq!(kept.len() as u64 + lost, 20, "each line is there or counted: {lines:#?}");
        assert!(lost >= 15, "{lines:#?}");
        assert!(stalled(LogForm::Text).iter().any(|line| line.contains(" WARN ")));
    }

    #[test]
    fn a_value_that_would_silence_the_node_is_named() {
        let of = |text: &str| {
            let (filter, problem) = filter(Some(text.into()));
            (filter.to_string(), problem.is_some())
        };
        for text in ["", "  "] {
            assert_eq!(of(text), ("info".to_owned(), false), "{text:?}");
        }
        for text in ["verbose", "lustrine_node", "node=loud", "=", "info=", "9"] {
            assert_eq!(of(text), ("info".to_owned(), true), "{text:?}");
        }
        assert_eq!(of("debug"), ("debug".to_owned(), false));
        assert_eq!(of("WARN").0, "warn");
        assert_eq!(of("off"), ("off".to_owned(), false));
        assert!(!of("info,lustrine_socklnd=debug").1);
        assert!(!of("lustrine_node,error").1);
    }
}
