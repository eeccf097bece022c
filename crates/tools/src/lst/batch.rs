//! Batches: their tests, and whether they are running.

use core::time::Duration;

use lustrine_selftest::console::{Answer, BatchView, Command, Detail, NodeReply, Reply, TestView};

use super::listing::States;
use super::talk::{CommandContext, id, said_more, verdict};
use super::{Env, Lst, WaitOutcome};
use crate::errno;
use crate::parse::Parsed;
use crate::shell::Exit;

/// The words of `lst` for a batch that is not running, and for one that is.
const IDLE: u32 = 176;
const RUNNING: u32 = 177;

/// How long `stop` waits for an answer, in seconds, and the time between two queries.
const STOP_TIMEOUT: u32 = 30;
const STOP_DELAY: Duration = Duration::from_secs(1);

/// How long the end of a session waits for batches: a kernel client gives up an RPC after 64 s.
const STOPS_MAX: Duration = Duration::from_secs(70);

/// The shortest time-out of a query, in seconds.
const LOOK_TIMEOUT: u32 = 3;

const LIST: CommandContext<'_> = CommandContext { what: "batch", action: "list batch" };
const QUERY: CommandContext<'_> = CommandContext { what: "batch", action: "query batch" };

impl<O: Env> Lst<'_, O> {
    pub(super) fn add_batch(&mut self, batch: &str) -> Result<(), Exit> {
        let context = CommandContext { what: "batch", action: "create batch" };
        self.ask(context, Command::AddBatch { batch: batch.to_owned() }).map(|_| ())
    }

    pub(super) fn list_batch(&mut self, parsed: &Parsed) -> Result<(), Exit> {
        let batch = parsed.positional(0).to_owned();
        if batch.is_empty() {
            let names = self.ask_names(LIST, Command::ListBatches)?;
            self.say_names(&names, "batches");
            return Ok(());
        }
        let view = match self.ask(LIST, Command::ShowBatch { batch })? {
            Answer::Batch(view) => view,
            _ => return Err(self.misunderstood(LIST)),
        };
        let number = parsed.number("test").unwrap_or_default() as usize;
        let test = view.tests.get(number.wrapping_sub(1));
        if number > 0 && test.is_none() {
            let (batch, tests) = (&view.name, view.tests.len());
            return Err(self.refuse(format!(
                "Can't find test in current session (batch {batch} has {tests} tests, and no test \
                 {number})"
            )));
        }
        match States::of(parsed, &["active", "invalid", "all"]) {
            Some(states) => {
                let (clients, servers) = match test {
                    Some(test) => (&test.clients, &test.servers),
                    None => (&view.clients, &view.servers),
                };
                let nodes = if parsed.has("server") { servers } else { clients };
                let listed = self.say_nodes(nodes, states);
                self.say(format!("Total {listed} nodes"));
            }
            None => match test {
                Some(test) => self.say_test(number, test),
                None => self.say_batch(&view),
            },
        }
        Ok(())
    }

    fn say_batch(&mut self, view: &BatchView) {
        let state = if view.running { RUNNING } else { IDLE };
        self.say(format!("Batch: {} Tests: {} State: {state}", view.name, view.tests.len()));
        self.say_parts(&view.clients, &view.servers);
        for (number, test) in (1..).zip(&view.tests) {
            self.say_test(number, test);
        }
    }

    fn say_test(&mut self, number: usize, test: &TestView) {
        let asked = &test.asked;
        let kind = match asked.test {
            lustrine_selftest::Test::Ping => "ping",
            _ => "brw",
        };
        let (loops, concurrency) = (asked.loops, asked.concurrency);
        self.say(format!("\tTest {number}({kind}) (loop: {loops}, concurrency: {concurrency})"));
        self.say_parts(&test.clients, &test.servers);
    }

    pub(super) fn run_batch(&mut self, parsed: &Parsed) -> Result<(), Exit> {
        let context = CommandContext { what: "batch", action: "run batch" };
        let (batch, timeout) = (parsed.positional(0).to_owned(), parsed.count("timeout"));
        let said = self.ask_nodes(context, Command::Run { batch: batch.clone(), timeout })?;
        self.failures("Run batch", &said)?;
        self.say(format!("{batch} is running now"));
        Ok(())
    }

    pub(super) fn stop_batch(&mut self, parsed: &Parsed) -> Result<(), Exit> {
        let context = CommandContext { what: "batch", action: "stop batch" };
        let (batch, force) = (parsed.positional(0).to_owned(), parsed.has("force"));
        let said = self.ask_nodes(context, Command::Stop { batch: batch.clone(), force })?;
        self.failures("stop batch", &said)?;
        loop {
            let command = Command::Query { batch: batch.clone(), test: 0, timeout: STOP_TIMEOUT };
            let said = self.ask_nodes(QUERY, command)?;
            match said.iter().filter(|one| state(one) == State::Running).count() {
                0 => self.failures("query batch", &said)?,
                running => {
                    self.say(format!("{running} batch in stopping"));
                    self.wait(STOP_DELAY)?;
                    continue;
                }
            }
            self.say("Batch is stopped");
            return Ok(());
        }
    }

    /// Stops what still runs before the session ends, and waits for it: `lnet_selftest` of a kernel
    /// node can hang if its session ends while a test runs (docs/live-kernels.md). The session ends
    /// in any case: nodes that do not answer are not waited for, tests that do not stop for 70 s at
    /// most, and an interruption ends the waiting.
    pub(super) fn stop_before_end(&mut self) {
        let key = self.key().unwrap_or_default();
        let Ok(Answer::Names(mut batches)) = self.env.ask(key, Command::ListBatches) else {
            return;
        };
        batches.retain(|batch| {
            let show = Command::ShowBatch { batch: batch.clone() };
            matches!(self.env.ask(key, show), Ok(Answer::Batch(view)) if view.running)
        });
        let mut waited = Duration::ZERO;
        batches.retain(|batch| self.progress(key, batch, &mut waited) != Progress::Stopped);
        for batch in &batches {
            self.warn(format!(
                "batch {batch} is still running: it is stopped before the session ends"
            ));
            let stop = Command::Stop { batch: batch.clone(), force: false };
            if self.env.ask(key, stop).is_err() {
                self.warn(format!("batch {batch} could not be stopped"));
            }
        }
        while !batches.is_empty() && waited < STOPS_MAX {
            batches.retain(|batch| self.progress(key, batch, &mut waited) == Progress::Running);
            if batches.is_empty() || self.wait(STOP_DELAY).is_err() {
                break;
            }
            waited += STOP_DELAY;
        }
        for batch in batches {
            self.warn(format!(
                "batch {batch} has not stopped; the selftest of a kernel node in it may hang until \
                 that node is rebooted"
            ));
        }
    }

    /// Whether clients of a batch say that it runs; adds the time that silent ones took.
    fn progress(&mut self, key: u32, batch: &str, waited: &mut Duration) -> Progress {
        let query = Command::Query { batch: batch.to_owned(), test: 0, timeout: LOOK_TIMEOUT };
        let Ok(Answer::Replies(said)) = self.env.ask(key, query) else { return Progress::Unknown };
        let silent = said.iter().any(|one| state(one) == State::Silent);
        if silent {
            *waited += Duration::from_secs(u64::from(LOOK_TIMEOUT));
        }
        match said.iter().any(|one| state(one) == State::Running) {
            true => Progress::Running,
            false if silent => Progress::Unknown,
            false => Progress::Stopped,
        }
    }

    pub(super) fn query_batch(&mut self, parsed: &Parsed) -> Result<(), Exit> {
        let (batch, test) = (parsed.positional(0).to_owned(), parsed.count("test"));
        let timeout = parsed.count("timeout");
        let all = parsed.has("all");
        let lists = ["active", "idle", "error"].map(|switch| all || parsed.has(switch));
        let mut outcome = Ok(());
        for question in 0..parsed.count("loop") {
            if question > 0 {
                self.wait(Duration::from_secs(u64::from(parsed.count("delay"))))?;
            }
            let said =
                self.ask_nodes(QUERY, Command::Query { batch: batch.clone(), test, timeout })?;
            match lists.contains(&true) {
                true => self.list_states(&said, lists),
                false => self.say(format!("{batch} [{test}] {}", summary(&said))),
            }
            outcome = verdict(&said);
        }
        outcome
    }

    /// The nodes that run it, do not run it, or do not answer, as requested.
    fn list_states(&mut self, said: &[NodeReply], [active, idle, error]: [bool; 3]) {
        for one in said {
            let (wanted, text) = match (state(one), &one.reply) {
                (State::Running, _) => (active, "Running".to_owned()),
                (State::Idle, _) => (idle, "Idle".to_owned()),
                (_, Reply::None { errno, why, .. }) => {
                    (error, said_more(&errno::text(*errno), why))
                }
                (_, Reply::Refused(status)) => (error, errno::text(*status as i32).into_owned()),
                (_, Reply::Good(_)) => (error, "no answer to the question".to_owned()),
            };
            if wanted {
                self.say(format!("{} [{}]: {text}", id(&one.nid), one.state));
            }
        }
    }

    /// Waits, unless the user interrupts it.
    pub(super) fn wait(&mut self, time: Duration) -> Result<(), Exit> {
        match self.env.sleep(time) {
            WaitOutcome::Elapsed => Ok(()),
            WaitOutcome::Interrupted => Err(Exit::INTERRUPTED),
        }
    }
}

/// The answer of a node about a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Running,
    Idle,
    /// It answered something else.
    Failed,
    /// It did not answer.
    Silent,
}

/// How far a batch has stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    Running,
    Stopped,
    /// Clients did not answer, and no other says that it runs.
    Unknown,
}

fn state(said: &NodeReply) -> State {
    match &said.reply {
        Reply::Good(Detail::Active(0)) => State::Idle,
        Reply::Good(Detail::Active(_)) => State::Running,
        Reply::Good(_) | Reply::Refused(_) => State::Failed,
        Reply::None { .. } => State::Silent,
    }
}

/// A summary of all answers, in one line.
fn summary(said: &[NodeReply]) -> String {
    let of = |wanted: State| said.iter().filter(|one| state(one) == wanted).count();
    let [running, idle, failed, silent] =
        [State::Running, State::Idle, State::Failed, State::Silent].map(of);
    let unknown = match silent {
        0 => String::new(),
        silent => format!("{silent} of {} nodes are unknown, ", said.len()),
    };
    let rest = match (idle, running, failed) {
        (_, 0, 0) => "is stopped".to_owned(),
        (0, _, 0) => "is running".to_owned(),
        _ => format!("stopped: {idle} , running: {running}, failed: {failed}"),
    };
    unknown + &rest
}
