//! Operations that programs wait for. A program that is killed does not wait any longer.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// Most operations in flight: fewer than the event loop of the client takes in at once. Others
/// wait in the kernel.
const OPERATIONS_MAX: usize = 2048;
/// As many interrupted ones may be in flight besides: the event loop has them, and they end when
/// their servers answer.
const INTERRUPTED_MAX: usize = 16_384;
/// With more of them in flight, operations of threads that are killed have to wait like others:
/// each is a message to the event loop, which has room for some thousands.
const INTERRUPTED_AT_ONCE: usize = 1024;
/// The age from which on the thread of an operation is looked at for a signal. Most operations end
/// sooner.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);

/// How long a killed thread is remembered after its last operation.
const REMEMBERED: Duration = Duration::from_secs(10);

/// What the kernel says of a thread that this program cannot see, because it is in another PID
/// namespace; and of an operation that no thread waits for.
pub(crate) const NO_THREAD: u32 = 0;

/// The answer that an operation waits for.
pub(crate) trait Interrupt: Send + Sync {
    /// Answers that the operation was interrupted, unless it has an answer or is about to get one.
    /// False if that is not possible now.
    fn interrupt(&self) -> bool;
}

/// The operations that are in flight.
#[derive(Default)]
pub(crate) struct InFlight {
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Default)]
struct State {
    last: u64,
    /// How many have begun and are not over.
    count: usize,
    /// How many of them were interrupted.
    interrupted: usize,
    /// Threads that wait for the end of one. Without any, there is no system call to wake them.
    waiters: usize,
    /// Those that somebody waits for, in the order in which they came.
    waits: BTreeMap<u64, Wait>,
    /// The threads that were killed, and when an operation of each was last interrupted. One that
    /// ends closes its files one after another, and does not have to wait for each.
    killed: BTreeMap<u32, Instant>,
}

/// An operation that a thread waits for.
struct Wait {
    thread: u32,
    since: Instant,
    /// Whether it had room.
    begun: bool,
    reply: Weak<dyn Interrupt>,
}

impl InFlight {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the threads that wait for the end of an operation.
    fn wake(&self, state: MutexGuard<'_, State>) {
        let has_waiters = state.waiters > 0;
        drop(state);
        if has_waiters {
            self.ended.notify_all();
        }
    }

    /// An operation begins, for which a thread waits. This waits if there are too many. The number
    /// of the operation, and whether an earlier one of the thread was interrupted; then
    /// [`InFlight::interrupt_next`] is to be called.
    pub(crate) fn begin(&self, thread: u32, reply: Weak<dyn Interrupt>) -> (u64, bool) {
        let mut state = self.state();
        state.last += 1;
        let number = state.last;
        state.waits.insert(number, Wait { thread, since: Instant::now(), begun: false, reply });
        let full = |state: &mut State| {
            state.count - state.interrupted.min(INTERRUPTED_MAX) >= OPERATIONS_MAX
        };
        state.waiters += 1;
        let waited = self.ended.wait_while(state, full);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        state.waiters -= 1;
        state.count += 1;
        match state.waits.get_mut(&number) {
            Some(wait) => wait.begun = true,
            // It was answered while it waited for room.
            None => state.interrupted += 1,
        }
        let is_known =
            state.interrupted < INTERRUPTED_AT_ONCE && state.killed.contains_key(&thread);
        (number, is_known)
    }

    /// An operation is over.
    pub(crate) fn end(&self, number: u64) {
        let mut state = self.state();
        state.interrupted -= usize::from(state.waits.remove(&number).is_none());
        state.count -= 1;
        self.wake(state);
    }

    /// Answers the operations that are older than [`PATIENCE`] at a time and whose threads are
    /// killed.
    pub(crate) fn interrupt(&self, now: Instant, is_killed: impl Fn(u32) -> bool) {
        let is_old =
            |(_, wait): &(&u64, &Wait)| now.saturating_duration_since(wait.since) >= PATIENCE;
        let old = |(number, wait): (&u64, &Wait)| (*number, wait.thread);
        let old: Vec<(u64, u32)> = {
            let mut state = self.state();
            state.killed.retain(|_, at| now.saturating_duration_since(*at) < REMEMBERED);
            state.waits.iter().take_while(is_old).map(old).collect()
        };
        for (number, thread) in old.into_iter().filter(|(_, thread)| *thread != NO_THREAD) {
            if is_killed(thread) {
                self.interrupt_one(number, thread, now);
            }
        }
    }

    /// Answers an operation that has just begun, if its thread is killed.
    pub(crate) fn interrupt_next(&self, number: u64, thread: u32, is_killed: impl Fn(u32) -> bool) {
        if is_killed(thread) {
            self.interrupt_one(number, thread, Instant::now());
        }
    }

    fn interrupt_one(&self, number: u64, thread: u32, now: Instant) {
        let reply = self.state().waits.get(&number).and_then(|wait| wait.reply.upgrade());
        // Not under the mutex: it makes a system call.
        if reply.is_some_and(|reply| !reply.interrupt()) {
            return;
        }
        let mut state = self.state();
        // It may be over by now.
        let Some(wait) = state.waits.remove(&number) else { return };
        // One that waits for room has not begun.
        state.interrupted += usize::from(wait.begun);
        state.killed.insert(thread, now);
        self.wake(state);
    }

    /// Waits until no operation is in flight, for at most this time. Whether that is so.
    pub(crate) fn wait_until_idle(&self, most: Duration) -> bool {
        let mut state = self.state();
        state.waiters += 1;
        let waited = self.ended.wait_timeout_while(state, most, |state| state.count > 0);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner).0;
        state.waiters -= 1;
        state.count == 0
    }
}

/// A reply that one thread sends at most.
pub(crate) struct Slot<R> {
    state: Mutex<SlotState<R>>,
    /// Sends the reply of an interrupted operation.
    interrupt: fn(R),
}

struct SlotState<R> {
    reply: Option<R>,
    /// Whether the thread that has the outcome is about to send it.
    claimed: bool,
    /// What is done before the operation is answered as interrupted.
    before: Option<OnInterrupt>,
}

/// What is done before an operation is answered as interrupted; false if that is not possible now.
pub(crate) type OnInterrupt = Box<dyn Fn() -> bool + Send>;

impl<R> Slot<R> {
    /// With what sends the reply of an interrupted operation, and what is done before that.
    pub(crate) fn new(reply: R, interrupt: fn(R), before: Option<OnInterrupt>) -> Arc<Slot<R>> {
        let state = Mutex::new(SlotState { reply: Some(reply), claimed: false, before });
        Arc::new(Slot { state, interrupt })
    }

    fn state(&self) -> MutexGuard<'_, SlotState<R>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether somebody waits for the reply, and does until it is taken.
    pub(crate) fn claim(&self) -> bool {
        let mut state = self.state();
        state.claimed = true;
        state.reply.is_some()
    }

    /// Whether the reply has been sent.
    pub(crate) fn is_sent(&self) -> bool {
        self.state().reply.is_none()
    }

    /// What sends the reply, unless it has been sent.
    pub(crate) fn take(&self) -> Option<R> {
        self.state().reply.take()
    }
}

impl<R: Send> Interrupt for Slot<R> {
    fn interrupt(&self) -> bool {
        let mut state = self.state();
        if state.claimed || state.reply.is_none() {
            return true;
        }
        // Under the mutex: what has the outcome finds that out before it answers, or after this.
        if state.before.as_ref().is_some_and(|before| !before()) {
            return false;
        }
        let reply = state.reply.take();
        drop(state);
        if let Some(reply) = reply {
            (self.interrupt)(reply);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::thread;

    use super::*;

    /// An operation of a thread, what has its reply, and what is sent as one.
    fn operation(of: &InFlight, thread: u32) -> (u64, Arc<Slot<Sender<()>>>, Receiver<()>) {
        let (sender, sent) = channel();
        let slot = Slot::new(sender, |sender| sender.send(()).unwrap(), None);
        let reply: Weak<dyn Interrupt> = Arc::downgrade(&(Arc::clone(&slot) as Arc<dyn Interrupt>));
        (of.begin(thread, reply).0, slot, sent)
    }

    #[test]
    fn the_threads_that_are_killed_get_an_answer() {
        let in_flight = InFlight::default();
        let (first, slot, sent) = operation(&in_flight, 1);
        let (second, other, nothing) = operation(&in_flight, 2);
        let now = Instant::now();
        in_flight.interrupt(now, |_| true);
        assert!(sent.try_recv().is_err(), "it has just begun");
        let later = now + PATIENCE;
        in_flight.interrupt(later, |thread| thread == 1);
        assert_eq!(sent.try_recv(), Ok(()));
        assert!(slot.is_sent() && slot.take().is_none() && !slot.claim());
        assert!(nothing.try_recv().is_err() && !other.is_sent());
        // It is in flight until it is over, and its thread is not looked at again.
        in_flight.interrupt(later, |thread| {
            assert_ne!(thread, 1);
            false
        });
        in_flight.end(second);
        assert!(!in_flight.wait_until_idle(Duration::ZERO));
        in_flight.end(first);
        assert!(in_flight.wait_until_idle(Duration::ZERO));
    }

    #[test]
    fn what_a_killed_thread_asks_for_next_is_answered_at_once() {
        let in_flight = InFlight::default();
        let is_known = |thread: u32| {
            let nothing: Weak<Slot<()>> = Weak::new();
            let (number, is_known) = in_flight.begin(thread, nothing);
            in_flight.end(number);
            is_known
        };
        let (first, ..) = operation(&in_flight, 1);
        assert!(!is_known(1), "nothing of it was interrupted before");
        let later = Instant::now() + PATIENCE;
        in_flight.interrupt(later, |_| true);
        assert!(is_known(1) && !is_known(2));
        let (second, slot, sent) = operation(&in_flight, 1);
        in_flight.interrupt_next(second, 1, |_| false);
        assert!(!slot.is_sent(), "another thread has its number");
        in_flight.interrupt_next(second, 1, |_| true);
        assert_eq!(sent.try_recv(), Ok(()));
        in_flight.interrupt(later + REMEMBERED + PATIENCE, |_| false);
        assert!(!is_known(1), "it was long ago");
        [first, second].iter().for_each(|number| in_flight.end(*number));
        let state = in_flight.state();
        assert_eq!((state.count, state.interrupted, state.waits.len()), (0, 0, 0));
    }

    #[test]
    fn what_has_to_be_done_before_the_answer_is_done_before_it() {
        let in_flight = InFlight::default();
        let (sender, sent) = channel();
        let (call, called) = channel();
        let (possible, is_possible) = channel();
        let before = move || {
            call.send(()).unwrap();
            is_possible.try_recv().is_ok()
        };
        let answer = |sender: Sender<()>| sender.send(()).unwrap();
        let slot = Slot::new(sender, answer, Some(Box::new(before)));
        let reply: Weak<dyn Interrupt> = Arc::downgrade(&(Arc::clone(&slot) as Arc<dyn Interrupt>));
        let (number, _) = in_flight.begin(1, reply);
        let later = Instant::now() + PATIENCE;
        in_flight.interrupt(later, |_| true);
        assert!(called.try_recv().is_ok() && sent.try_recv().is_err(), "not possible yet");
        possible.send(()).unwrap();
        in_flight.interrupt(later, |_| true);
        assert!(called.try_recv().is_ok() && sent.try_recv().is_ok());
        in_flight.interrupt(later, |_| true);
        assert!(called.try_recv().is_err(), "once");
        in_flight.end(number);
        // It is not called for what is about to be answered.
        let (sender, _sent) = channel();
        let slot = Slot::new(sender, answer, Some(Box::new(|| panic!("it was claimed"))));
        assert!(slot.claim() && slot.interrupt());
    }

    #[test]
    fn interrupted_operations_leave_room() {
        let in_flight = InFlight::default();
        let old: Vec<u64> = (0..OPERATIONS_MAX).map(|_| operation(&in_flight, 1).0).collect();
        in_flight.interrupt(Instant::now() + PATIENCE, |_| true);
        // This would wait for ever otherwise.
        let new: Vec<u64> = (0..OPERATIONS_MAX).map(|_| operation(&in_flight, 2).0).collect();
        old.iter().chain(&new).for_each(|number| in_flight.end(*number));
        let state = in_flight.state();
        assert_eq!((state.count, state.interrupted, state.waits.len()), (0, 0, 0));
    }

    #[test]
    fn one_thread_answers() {
        let in_flight = InFlight::default();
        let (_, slot, sent) = operation(&in_flight, 1);
        assert!(slot.claim());
        in_flight.interrupt(Instant::now() + PATIENCE, |_| true);
        assert!(sent.try_recv().is_err());
        assert!(slot.take().is_some() && slot.take().is_none());
    }

    #[test]
    fn so_many_are_in_flight_and_an_operation_that_waits_for_room_is_answered_too() {
        let in_flight = InFlight::default();
        let numbers: Vec<u64> = (0..OPERATIONS_MAX).map(|_| operation(&in_flight, 1).0).collect();
        let (sender, begun) = channel();
        thread::scope(|scope| {
            scope.spawn(|| {
                let (sent, slot) = channel();
                let slot_of = Slot::new(sent, |sent: Sender<()>| sent.send(()).unwrap(), None);
                let reply = Arc::downgrade(&(Arc::clone(&slot_of) as Arc<dyn Interrupt>));
                let (number, _) = in_flight.begin(2, reply);
                sender.send(number).unwrap();
                assert_eq!(slot.try_recv(), Ok(()));
                in_flight.end(number);
            });
            let is_there = || in_flight.state().waits.len() > OPERATIONS_MAX;
            while !is_there() {
                thread::yield_now();
            }
            assert!(begun.try_recv().is_err());
            in_flight.interrupt(Instant::now() + PATIENCE, |thread| thread == 2);
            numbers.iter().for_each(|number| in_flight.end(*number));
        });
        assert!(begun.try_recv().is_ok() && in_flight.wait_until_idle(Duration::ZERO));
    }
}
