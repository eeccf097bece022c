//! Batches: their tests, and whether they are running.

use core::time::Duration;

use lustrine_selftest::console::{Answer, BatchView, Command, Detail, NodeReply, Reply, TestView};

use super::listing::States;
use super::talk::{CommandContext, id, said_more, verdict};
use super::{ConsoleError, Env, Lst, WaitOutcome};
use crate::errno;
use crate::parse::Parsed;
use crate::shell::Exit;

/// The words of `lst` for a batch that is not running, and for one that is.
const IDLE: u32 = 176;
const RUNNING: u32 = 177;

/// How long `stop` waits for an answer, in seconds, and the time between two queries.
const STOP_TIMEOUT: u32 = 30;
const STOP_DELAY: Duration = Duration::from_secs(1);

/// After so many queries the stop is sent again.
const STOP_AGAIN: u32 = 5;

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

    /// Stops a batch, and waits until no client says that it runs. The stop is repeated: it can be
    /// lost, and a client that did not answer it may answer the queries.
    pub(super) fn stop_batch(&mut self, parsed: &Parsed) -> Result<(), Exit> {
        let context = CommandContext { what: "batch", action: "stop batch" };
        let (batch, force) = (parsed.positional(0).to_owned(), parsed.has("force"));
        let stop = Command::Stop { batch: batch.clone(), force };
        let said = self.ask_nodes(context, stop.clone())?;
        let stopped = self.failures("stop batch", &said);
        if said.iter().any(|one| state(one) == State::Failed) {
            return stopped;
        }
        for look in 1.. {
            let command = Command::Query { batch: batch.clone(), test: 0, timeout: STOP_TIMEOUT };
            let said = self.ask_nodes(QUERY, command)?;
            let running = said.iter().filter(|one| state(one) == State::Running).count();
            if running == 0 {
                self.failures("query batch", &said)?;
                break;
            }
            self.say(format!("{running} batch in stopping"));
            self.wait(STOP_DELAY)?;
            if look % STOP_AGAIN == 0 {
                self.ask_nodes(context, stop.clone())?;
            }
        }
        self.say("Batch is stopped");
        Ok(())
    }

    /// Says which batches are stopped before the session ends, which the console does: it waits for
    /// their clients.
    pub(super) fn say_what_is_stopped(&mut self) {
        match self.batches_not_stopped() {
            Ok(batches) => {
                for batch in batches {
                    self.warn(format!(
                        "batch {batch} was not stopped: it is stopped now, and the session ends \
                         when its clients have stopped, in 70 s at most"
                    ));
                }
            }
            // The end of the session says the same.
            Err(ConsoleError::NoConsole | ConsoleError::Refused(_)) => {}
            Err(error) => self.warn(format!("whether batches are running is unknown: {error}")),
        }
    }

    fn batches_not_stopped(&mut self) -> Result<Vec<String>, ConsoleError> {
        let key = self.key().unwrap_or_default();
        let unexpected = || ConsoleError::Failed("unexpected reply from the console".to_owned());
        let Answer::Names(batches) = self.env.ask(key, Command::ListBatches)? else {
            return Err(unexpected());
        };
        let mut running = Vec::new();
        for batch in batches {
            match self.env.ask(key, Command::ShowBatch { batch })? {
                Answer::Batch(view) if view.running => running.push(view.name),
                Answer::Batch(_) => {}
                _ => return Err(unexpected()),
            }
        }
        Ok(running)
    }

    /// Says which nodes left the session while their tests ran.
    pub(super) fn say_what_ran_on(&mut self, said: &[NodeReply]) {
        let running: Vec<&NodeReply> =
            said.iter().filter(|one| state(one) == State::Running).collect();
        if let Some(first) = running.first() {
            self.warn(format!(
                "{} of {} nodes left the session while their tests were running, such as {}; the \
                 selftest of a kernel node among them may hang until that node is rebooted",
                running.len(),
                said.len(),
                id(&first.nid)
            ));
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
