//! Transactions of a target, and when they are on its disk.

use std::collections::VecDeque;

use lustrine_lnet::time::{Nanos, Time};

/// When transactions are committed.
#[derive(Clone, Copy, Debug)]
pub struct CommitTunables {
    /// How long the first change waits for others, unless somebody waits for it.
    pub interval: Nanos,
    /// How long the disk takes.
    pub latency: Nanos,
}

impl Default for CommitTunables {
    fn default() -> CommitTunables {
        CommitTunables { interval: Nanos::from_secs(5), latency: Nanos::ZERO }
    }
}

/// A transaction: the number of its change in the tables, and the one that clients see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Transaction {
    pub(crate) step: u64,
    pub(crate) transno: u64,
}

/// The transactions of a target.
#[derive(Clone, Debug)]
pub(crate) struct Journal {
    tunables: CommitTunables,
    /// The last change.
    step: u64,
    /// The highest transaction that is done.
    transno: u64,
    /// The highest one that was ever done: what a crash has undone counts too, since clients know
    /// its number.
    highest: u64,
    /// Changes that are not committed, with the highest transaction so far and the time.
    open: VecDeque<(u64, u64, Time)>,
    committed_step: u64,
    committed: u64,
    /// A commit under way: up to which change, and when it is over.
    writing: Option<(u64, Time)>,
    /// Somebody waits for changes up to this.
    wanted: u64,
}

/// So many changes are committed without waiting for more: a transaction of a disk has an end.
const OPEN_MAX: usize = 4096;
/// How many bits the numbers of one life of a target have.
const EPOCH_SHIFT: u32 = 32;

impl Journal {
    pub(crate) fn new(tunables: CommitTunables) -> Journal {
        Journal {
            tunables,
            step: 0,
            transno: 1 << EPOCH_SHIFT,
            highest: 1 << EPOCH_SHIFT,
            open: VecDeque::new(),
            committed_step: 0,
            committed: 1 << EPOCH_SHIFT,
            writing: None,
            wanted: 0,
        }
    }

    /// A new life begins after a crash or a stop: what is not committed is lost, and the numbers
    /// of the new transactions are above all that clients may know.
    pub(crate) fn restart(&mut self, tunables: CommitTunables) {
        self.tunables = tunables;
        self.open.clear();
        self.writing = None;
        self.wanted = 0;
        self.step = self.committed_step;
        self.transno = self.committed;
    }

    /// Recovery is over: new transactions are above all that were replayed.
    pub(crate) fn begin_epoch(&mut self) {
        self.transno = ((self.highest >> EPOCH_SHIFT) + 1) << EPOCH_SHIFT;
    }

    /// Begins a transaction; `replayed` has the number that it had before a restart.
    pub(crate) fn begin(&mut self, now: Time, replayed: Option<u64>) -> Transaction {
        self.step += 1;
        let transno = replayed.unwrap_or(self.transno + 1);
        self.transno = self.transno.max(transno);
        self.highest = self.highest.max(transno);
        self.open.push_back((self.step, self.transno, now));
        Transaction { step: self.step, transno }
    }

    /// Begins a change that no client has asked for, and returns its number. Clients do not see it:
    /// it takes none of their transactions, which during recovery may still be replayed.
    pub(crate) fn begin_local(&mut self, now: Time) -> u64 {
        self.step += 1;
        self.open.push_back((self.step, self.transno, now));
        self.step
    }

    /// Up to which change everything is on the disk.
    pub(crate) fn committed_step(&self) -> u64 {
        self.committed_step
    }

    /// The highest transaction on the disk.
    pub(crate) fn last_committed(&self) -> u64 {
        self.committed
    }

    /// The last change.
    pub(crate) fn last_step(&self) -> u64 {
        self.step
    }

    /// Somebody waits until everything so far is on the disk.
    pub(crate) fn sync(&mut self) {
        self.wanted = self.step;
    }

    /// Starts and ends commits. Returns whether one is over.
    pub(crate) fn drive(&mut self, now: Time) -> bool {
        let mut over = false;
        loop {
            if let Some((upto, at)) = self.writing {
                if now < at {
                    return over;
                }
                self.writing = None;
                self.committed_step = upto;
                while let Some((step, transno, _)) = self.open.front().copied()
                    && step <= upto
                {
                    self.committed = self.committed.max(transno);
                    self.open.pop_front();
                }
                over = true;
            }
            if self.start_at() > now {
                return over;
            }
            self.writing = Some((self.step, now + self.tunables.latency));
        }
    }

    /// When the next commit starts.
    fn start_at(&self) -> Time {
        match self.open.front() {
            None => Time::NEVER,
            Some(_) if self.wanted > self.committed_step => Time::ZERO,
            Some(_) if self.open.len() >= OPEN_MAX => Time::ZERO,
            Some((_, _, since)) => *since + self.tunables.interval,
        }
    }

    pub(crate) fn next_deadline(&self) -> Time {
        self.writing.map_or_else(|| self.start_at(), |(_, at)| at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Nanos = Nanos::from_secs(1);

    #[test]
    fn a_commit_lags_behind_unless_somebody_waits() {
        let tunables = CommitTunables { interval: Nanos::from_secs(5), latency: SECOND };
        let mut journal = Journal::new(tunables);
        let start = Time(1_000_000_000);
        let first = journal.begin(start, None);
        assert!(!journal.drive(start));
        assert_eq!(journal.next_deadline(), start + Nanos::from_secs(5));
        journal.sync();
        let second = journal.begin(start, None);
        assert!(!journal.drive(start));
        // What came after the commit began may be in it: it is written as it is then.
        assert!(journal.drive(start + SECOND));
        assert_eq!(journal.last_committed(), second.transno);
        assert!(second.transno > first.transno);
        assert_eq!(journal.next_deadline(), Time::NEVER);
    }

    #[test]
    fn many_changes_are_committed_at_once() {
        let mut journal = Journal::new(CommitTunables::default());
        let now = Time(1_000_000_000);
        let last = (0..OPEN_MAX).map(|_| journal.begin(now, None).transno).last();
        assert_eq!(journal.next_deadline(), Time::ZERO);
        assert!(journal.drive(now));
        assert_eq!((Some(journal.last_committed()), journal.drive(now)), (last, false));
    }

    #[test]
    fn a_change_of_the_servers_own_commits_nothing_that_is_still_to_be_replayed() {
        let mut journal = Journal::new(CommitTunables::default());
        let lost: Vec<u64> = (0..3).map(|_| journal.begin(Time::ZERO, None).transno).collect();
        journal.restart(CommitTunables::default());
        journal.begin(Time::ZERO, Some(lost[0]));
        let step = journal.begin_local(Time::ZERO);
        journal.sync();
        assert!(journal.drive(Time::ZERO));
        assert_eq!((journal.committed_step(), journal.last_committed()), (step, lost[0]));
    }

    #[test]
    fn a_replay_keeps_its_number_and_new_ones_are_above() {
        let mut journal = Journal::new(CommitTunables::default());
        let lost: Vec<u64> = (0..3).map(|_| journal.begin(Time::ZERO, None).transno).collect();
        journal.restart(CommitTunables::default());
        assert!(journal.last_committed() < lost[0]);
        let again = journal.begin(Time::ZERO, Some(lost[1]));
        assert_eq!(again.transno, lost[1]);
        // What is on the disk is what was replayed, not what was lost.
        journal.sync();
        assert!(journal.drive(Time::ZERO));
        assert_eq!(journal.last_committed(), lost[1]);
        journal.begin_epoch();
        assert!(journal.begin(Time::ZERO, None).transno > lost[2]);
    }
}
