//! Arbitrary commands to a console, and arbitrary results of its RPCs: correct replies, wrong
//! replies, forged replies, failures, and answers that come twice, late or never.

mod orders;
mod script;

use std::collections::BTreeMap;

use lustrine_lnet::time::{Nanos, Time};
use lustrine_selftest::console::{Answer, Console, ConsoleRpc, Refusal, Reply, RpcOutcome};
use lustrine_wire::nid::{Net, Nid};

use orders::Watch;
pub use script::{Scenario, Step};

/// Largest number of steps of one run.
const STEPS_MAX: usize = 64;

/// Largest number of turns in which everything must end.
const TURNS_MAX: usize = 1000;

/// The machine of the console.
const HERE: Nid = Nid::new4(Net::TCP, 0x0a00_0001);

/// A console, its commands, and its RPCs.
struct ConsoleHarness {
    console: Console,
    now: Time,
    /// Number of commands that were given; tickets count from 1.
    tickets: u64,
    /// The commands that are not answered yet, with the NIDs that they name.
    open: BTreeMap<u64, Vec<Nid>>,
    /// RPCs that have not ended.
    orders: Vec<ConsoleRpc>,
    /// The last RPCs that have ended.
    over: Vec<ConsoleRpc>,
    watch: Watch,
}

/// Runs the scenario to its end.
///
/// # Panics
/// When the console panics, leaves a command without an answer, answers one twice, or sends an RPC
/// that it must not send.
pub fn check(scenario: &Scenario) {
    let mut harness = ConsoleHarness {
        console: Console::new(&HERE, u64::from(scenario.wall_seconds)),
        now: Time::ZERO,
        tickets: 0,
        open: BTreeMap::new(),
        orders: Vec::new(),
        over: Vec::new(),
        watch: Watch::default(),
    };
    if !scenario.empty {
        scenario.prologue().iter().for_each(|step| harness.play(step));
    }
    for step in scenario.steps.iter().take(STEPS_MAX) {
        harness.play(step);
    }
    harness.settle();
}

impl ConsoleHarness {
    fn play(&mut self, step: &Step) {
        match step {
            Step::Tell { key, ask } => self.execute(u32::from(key.saturating_sub(0xe0)), ask),
            Step::Answer { which, end } => {
                if !self.orders.is_empty() {
                    let index = usize::from(*which) % self.orders.len();
                    let order = self.orders.remove(index);
                    self.end(order, end);
                    self.look();
                }
            }
            Step::AnswerAll { end } => {
                for order in core::mem::take(&mut self.orders) {
                    self.end(order, end);
                }
                self.look();
            }
            Step::AllIsWell => {
                for _ in 0..TURNS_MAX {
                    if self.orders.is_empty() {
                        break;
                    }
                    self.play(&Step::AnswerAll { end: script::End::GOOD });
                }
            }
            Step::Again { which, end } => {
                if let Some(order) = self.over.get(usize::from(*which) % self.over.len().max(1)) {
                    let outcome = end.outcome(order, self.console.session());
                    self.stray(&outcome);
                }
            }
            Step::Unknown { order, end } => {
                if self.orders.iter().all(|known| known.id != *order) {
                    let sid = self.console.session();
                    let outcome =
                        RpcOutcome { rpc: *order, ..end.outcome(&script::nobodys(), sid) };
                    self.stray(&outcome);
                }
            }
            Step::Wait { power } => {
                self.now = self.now + Nanos(1 << (power % 43));
                self.console.tick(self.now);
                self.look();
            }
        }
    }

    fn execute(&mut self, key: u32, ask: &script::Ask) {
        let command = ask.command();
        self.tickets += 1;
        self.open.insert(self.tickets, ask.named());
        self.watch.command(&command);
        let idle = !self.console.is_busy();
        self.console.command(self.now, self.tickets, key, command);
        let before = self.orders.len();
        let answers = self.look();
        if let (true, [(ticket, Err(refusal))]) = (idle, &answers[..]) {
            assert_eq!(*ticket, self.tickets);
            assert_eq!(self.orders.len(), before, "RPCs although {refusal}");
        }
    }

    fn end(&mut self, order: ConsoleRpc, end: &script::End) {
        let outcome = end.outcome(&order, self.console.session());
        self.watch.ended(&order, &outcome);
        self.console.completed(self.now, &outcome);
        self.over.push(order);
        if self.over.len() > 16 {
            self.over.remove(0);
        }
    }

    /// A result that is not awaited has no effect.
    fn stray(&mut self, outcome: &RpcOutcome) {
        self.console.completed(self.now, outcome);
        assert_eq!(self.console.next_rpc(), None);
        assert_eq!(self.console.next_answer(), None);
    }

    /// Takes the answers and RPCs of the console.
    fn look(&mut self) -> Vec<(u64, Result<Answer, Refusal>)> {
        let view = self.console.session();
        let mut fresh = Vec::new();
        while let Some(order) = self.console.next_rpc() {
            fresh.push(order);
        }
        while let Some((order, _)) = self.console.next_canceled() {
            self.orders.retain(|open| open.id != order);
        }
        let named: Vec<Nid> = self.open.values().flatten().copied().collect();
        self.watch.given(view.as_ref(), &fresh, &named);
        self.orders.append(&mut fresh);
        let mut answers = Vec::new();
        while let Some((ticket, answer)) = self.console.next_answer() {
            assert!(
                self.open.remove(&ticket).is_some(),
                "an answer to {ticket}, which is not open"
            );
            inspect(&answer);
            answers.push((ticket, answer));
        }
        self.watch.session_is(self.console.session().as_ref(), &self.orders);
        self.watch.bounded(&self.orders);
        let deadline = self.console.next_deadline();
        assert!(self.console.session().is_some() || deadline == Time::NEVER || self.busy());
        answers
    }

    fn busy(&self) -> bool {
        let busy = self.console.is_busy();
        assert!(!busy || !self.orders.is_empty(), "busy, and nothing is in flight");
        busy
    }

    /// All RPCs end, and with them all commands.
    fn settle(&mut self) {
        for _ in 0..TURNS_MAX {
            if self.orders.is_empty() {
                assert!(!self.console.is_busy(), "busy, and nothing is in flight");
                assert!(self.open.is_empty(), "no answer to {:?}", self.open.keys());
                return;
            }
            self.play(&Step::AnswerAll { end: script::End::SILENCE });
        }
        panic!("RPCs without an end");
    }
}

/// What must hold for every answer.
fn inspect(answer: &Result<Answer, Refusal>) {
    match answer {
        Ok(Answer::Replies(said)) => {
            for one in said {
                if let Reply::None { errno, why, .. } = &one.reply {
                    assert!(*errno < 0 && !why.is_empty(), "{one:?}");
                }
            }
        }
        Ok(_) => {}
        Err(refusal) => assert!(refusal.errno() > 0 && !refusal.to_string().is_empty()),
    }
}
