//! The selftest console of a node: a thread that begins with the first command.
//!
//! The console itself is [`lustrine_selftest::console`]; here it gets a clock, and event loops that
//! send its RPCs.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

use lustrine_lnet::time::Time;
use lustrine_selftest::console::{Answer, Command, Console, Refusal};
use lustrine_sys::{Clock, Sender};
use lustrine_wire::nid::Nid;

use crate::error::CallError;
use crate::mailbox::{ConsoleMessage, LoopMessage, home_loop};

/// Longest time that an idle thread waits at once.
const WAIT_MAX: Duration = Duration::from_secs(3600);

/// How long commands of other callers may delay a command beyond its own time.
pub(crate) const QUEUE_MAX: Duration = Duration::from_secs(120);

/// A node's console, if it has been started.
#[derive(Default)]
pub(crate) struct ConsoleSlot(Mutex<SlotState>);

#[derive(Default)]
enum SlotState {
    #[default]
    Empty,
    Taken(mpsc::Sender<ConsoleMessage>),
    Closed,
}

/// How long a console may process a command.
pub(crate) fn duration_max(command: &Command) -> Duration {
    // The core checks its deadlines only at intervals.
    Duration::from_nanos(command.duration_max().0) + Duration::from_secs(2)
}

impl ConsoleSlot {
    /// Sends a message to the console of a node with these loops and NIDs; the first message starts
    /// it.
    pub(crate) fn post(
        &self,
        mail: ConsoleMessage,
        loops: &Arc<[Sender<LoopMessage>]>,
        nids: &[Nid],
    ) -> Result<(), CallError> {
        let mut slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*slot, SlotState::Empty) {
            *slot = SlotState::Taken(start(loops, nids)?);
        }
        match &*slot {
            SlotState::Taken(console) => console.send(mail).map_err(|_| CallError::NotResponding),
            SlotState::Empty | SlotState::Closed => Err(CallError::NotResponding),
        }
    }

    /// Queries the console, if there is one.
    pub(crate) fn ask(&self, mail: ConsoleMessage) -> bool {
        let slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &*slot {
            SlotState::Taken(console) => console.send(mail).is_ok(),
            SlotState::Empty | SlotState::Closed => false,
        }
    }

    /// Ends the console, and prevents another one from starting.
    pub(crate) fn close(&self) {
        let mut slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let SlotState::Taken(console) = std::mem::replace(&mut *slot, SlotState::Closed) {
            let _ = console.send(ConsoleMessage::Stop);
        }
    }
}

fn start(
    loops: &Arc<[Sender<LoopMessage>]>,
    nids: &[Nid],
) -> Result<mpsc::Sender<ConsoleMessage>, CallError> {
    let (sender, mailbox) = mpsc::channel();
    let now = Clock::Monotonic.now();
    let wall_seconds = Clock::Wall.now().saturating_sub(now) / 1_000_000_000;
    let console = ConsoleThread {
        console: Console::new(console_nid(nids), wall_seconds),
        loops: Arc::clone(loops),
        mailbox,
        sender: sender.clone(),
        replies: HashMap::new(),
        tickets: 0,
    };
    let thread = std::thread::Builder::new().name("lustrine-console".to_owned());
    thread
        .spawn(move || console.run())
        .map_err(|error| CallError::ThreadFailed(error.to_string()))?;
    Ok(sender)
}

/// The NID that names sessions: the first one that fits their ids.
fn console_nid(nids: &[Nid]) -> &Nid {
    let short = nids.iter().find(|nid| nid.to_short().is_some());
    short.unwrap_or(&nids[0])
}

struct ConsoleThread {
    console: Console,
    loops: Arc<[Sender<LoopMessage>]>,
    mailbox: mpsc::Receiver<ConsoleMessage>,
    /// The sender for the results of RPCs.
    sender: mpsc::Sender<ConsoleMessage>,
    replies: HashMap<u64, mpsc::Sender<Result<Answer, Refusal>>>,
    tickets: u64,
}

impl ConsoleThread {
    fn run(mut self) {
        loop {
            let deadline = self.console.next_deadline();
            let left = Duration::from_nanos(deadline.0.saturating_sub(now().0)).min(WAIT_MAX);
            let mut mail = match self.mailbox.recv_timeout(left) {
                Ok(mail) => Some(mail),
                Err(mpsc::RecvTimeoutError::Timeout) => None,
                Err(mpsc::RecvTimeoutError::Disconnected) => return,
            };
            while let Some(one) = mail {
                if !self.read(one) {
                    return;
                }
                mail = self.mailbox.try_recv().ok();
            }
            self.console.tick(now());
            self.pass_on();
        }
    }

    /// `false` when it is the last one.
    fn read(&mut self, mail: ConsoleMessage) -> bool {
        match mail {
            ConsoleMessage::Command { key, command, reply } => {
                self.tickets += 1;
                self.replies.insert(self.tickets, reply);
                self.console.command(now(), self.tickets, key, command);
            }
            ConsoleMessage::RpcOutcome(outcome) => self.console.completed(now(), &outcome),
            ConsoleMessage::InUse(reply) => {
                // A session is in use until its end has been reported.
                let waited_for = !self.replies.is_empty();
                let has_session = self.console.session().is_some();
                let in_use = self.console.is_busy() || has_session || waited_for;
                let _ = reply.send(in_use);
            }
            ConsoleMessage::Stop => return false,
        }
        true
    }

    fn pass_on(&mut self) {
        while let Some(order) = self.console.next_rpc() {
            let home = home_loop(&order.peer, self.loops.len());
            let message = LoopMessage::ConsoleRpc(Box::new(order), self.sender.clone());
            self.post(home, message);
        }
        while let Some((order, nid)) = self.console.next_canceled() {
            let home = home_loop(&nid, self.loops.len());
            self.post(home, LoopMessage::CancelConsoleRpc(order));
        }
        while let Some((ticket, answer)) = self.console.next_answer() {
            if let Some(reply) = self.replies.remove(&ticket) {
                // The caller may have given up.
                let _ = reply.send(answer);
            }
        }
    }

    /// A loop's mailbox that is full empties within a turn; that of a loop that panicked is closed,
    /// and the node ends.
    fn post(&self, home: usize, mut message: LoopMessage) {
        while let Err(lustrine_sys::PushError::Full(back)) = self.loops[home].push(message) {
            message = back;
            std::thread::yield_now();
        }
    }
}

fn now() -> Time {
    Time(Clock::Monotonic.now())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_in_use_until_its_end_was_reported() {
        let (sender, mailbox) = mpsc::channel();
        let nid: Nid = "10.0.0.1@tcp".parse().unwrap();
        let mut thread = ConsoleThread {
            console: Console::new(&nid, 1),
            loops: [].into(),
            mailbox,
            sender,
            replies: HashMap::new(),
            tickets: 0,
        };
        let command = |command| {
            let (reply, answer) = mpsc::channel();
            (ConsoleMessage::Command { key: 1, command, reply }, answer)
        };
        let in_use = |thread: &mut ConsoleThread| {
            let (reply, answer) = mpsc::channel();
            thread.read(ConsoleMessage::InUse(reply));
            answer.recv().unwrap()
        };
        let (name, timeout) = ("s".to_owned(), 60);
        let (new, _) = command(Command::NewSession { name, timeout, force: false, features: 1 });
        thread.read(new);
        thread.pass_on();
        assert!(in_use(&mut thread));
        let (end, answer) = command(Command::EndSession);
        thread.read(end);
        assert!(thread.console.session().is_none(), "it has no nodes to wait for");
        // A daemon that asks now must not end before the answer is sent.
        assert!(in_use(&mut thread));
        thread.pass_on();
        assert!(answer.try_recv().unwrap().is_ok());
        assert!(!in_use(&mut thread));
    }
}
