//! The journal. Entries are created out of line, so that a shard without a journal pays one branch
//! for each step.

use lustrine_wire::header::Header;
use slotmap::Key;

use super::matching::Found;
use super::{Msg, Shard};
use crate::journal::{
    DropReason, Entry, HeaderOutcome, JournalId, RxHeader, Step, TxCreated, Wait,
};
use crate::lnd::{Arrival, OpKey, RxId, Verdict};
use crate::md::MdKey;
use crate::status::Status;
use crate::time::Time;

impl Shard {
    /// Keeps a journal from now on. Its user takes the entries with [`Shard::next_journal_entry`],
    /// after every turn; it changes nothing in what the shard does.
    pub fn enable_journal(&mut self) {
        self.telemetry.journal.get_or_insert_default();
    }

    /// Whether a journal is kept: only then is [`Shard::note`] worth calling.
    #[inline]
    pub fn journal_enabled(&self) -> bool {
        self.telemetry.journal_enabled()
    }

    /// Takes the oldest entry.
    pub fn next_journal_entry(&mut self) -> Option<Entry> {
        self.telemetry.journal.as_mut()?.next()
    }

    /// Number of entries discarded since the last call, because too many were not taken.
    pub fn take_journal_overflow(&mut self) -> u64 {
        self.telemetry.journal.as_mut().map_or(0, |journal| journal.take_lost())
    }

    /// Adds an entry of a user, if a journal is kept.
    #[inline]
    pub fn note(&mut self, now: Time, step: Step) {
        self.telemetry.note(now, step);
    }

    /// Adds a step that is created out of line.
    #[inline]
    fn note_with(&mut self, now: Time, step: impl FnOnce() -> Step) {
        if self.telemetry.journal.is_some() {
            self.note_step(now, step);
        }
    }

    #[cold]
    #[inline(never)]
    fn note_step(&mut self, now: Time, step: impl FnOnce() -> Step) {
        self.note(now, step());
    }

    #[inline]
    pub(super) fn note_tx_created(&mut self, now: Time, op: OpKey) {
        if self.telemetry.journal.is_some() {
            self.tx_created(now, op);
        }
    }

    #[cold]
    fn tx_created(&mut self, now: Time, op: OpKey) {
        let Msg { header, md, .. } = &*self.msgs[op];
        let created = TxCreated { msg: number(op), header: *header, md: md.map(number) };
        self.note(now, Step::TxCreated(Box::new(created)));
    }

    #[inline]
    pub(super) fn note_tx_queued(&mut self, now: Time, op: OpKey, wait: Wait) {
        self.note_with(now, || Step::TxQueued { msg: number(op), wait });
    }

    #[inline]
    pub(super) fn note_tx_submitted(&mut self, now: Time, op: OpKey) {
        self.note_with(now, || Step::TxSubmitted { msg: number(op) });
    }

    #[inline]
    pub(super) fn note_tx_started(&mut self, now: Time, op: OpKey) {
        self.note_with(now, || Step::TxStarted { msg: number(op) });
    }

    #[inline]
    pub(super) fn note_completed(&mut self, now: Time, op: OpKey, status: Status) {
        self.note_with(now, || Step::Completed { msg: number(op), status });
    }

    #[inline]
    pub(super) fn note_md_unlinked(&mut self, now: Time, md: MdKey, status: Status) {
        self.note_with(now, || Step::MdUnlinked { md: number(md), status });
    }

    /// Sets the reason for a verdict of [`Verdict::Drop`] to come.
    #[inline]
    pub(super) fn note_drop(&mut self, reason: DropReason) {
        self.telemetry.note_drop(reason);
    }

    /// The same for a PUT or GET that matched nothing.
    pub(super) fn note_unmatched(&mut self, found: Found) {
        self.note_drop(match found {
            Found::TooLong => DropReason::TooLong,
            _ => DropReason::NoMatch,
        });
    }

    /// [`Shard::on_header`] with a journal. Without one the verdict does not even pass through
    /// another function.
    #[cold]
    pub(super) fn on_header_journaled(
        &mut self,
        now: Time,
        arrival: &Arrival,
        header: &Header,
    ) -> Verdict {
        let verdict = self.on_header(now, arrival, header);
        self.note_verdict(now, arrival, header, &verdict);
        verdict
    }

    /// Adds a header with its verdict. One that is handled completely has its entry already, in
    /// front of those that it caused.
    pub(super) fn note_verdict(
        &mut self,
        now: Time,
        arrival: &Arrival,
        header: &Header,
        verdict: &Verdict,
    ) {
        if *verdict != Verdict::Done && self.telemetry.journal.is_some() {
            self.rx_header(now, arrival, header, verdict);
        }
    }

    /// Adds a header that is handled completely.
    #[inline]
    pub(super) fn note_done(&mut self, now: Time, arrival: &Arrival, header: &Header) {
        if self.telemetry.journal.is_some() {
            self.rx_header(now, arrival, header, &Verdict::Done);
        }
    }

    #[cold]
    fn rx_header(&mut self, now: Time, arrival: &Arrival, header: &Header, verdict: &Verdict) {
        let outcome = self.header_outcome(arrival.rx, verdict);
        let received = RxHeader { hop: arrival.from, header: *header, outcome };
        self.note(now, Step::RxHeader(Box::new(received)));
    }

    /// Adds a parked message that continues.
    #[inline]
    pub(super) fn note_rx_resumed(&mut self, now: Time, rx: RxId, verdict: &Verdict) {
        if self.telemetry.journal.is_some() {
            self.rx_resumed(now, rx, verdict);
        }
    }

    #[cold]
    fn rx_resumed(&mut self, now: Time, rx: RxId, verdict: &Verdict) {
        let outcome = self.header_outcome(rx, verdict);
        self.note(now, Step::RxResumed { rx, outcome });
    }

    /// Adds a parked message that will not continue; the next [`Shard::drive`] sets its time.
    #[inline]
    pub(super) fn note_rx_dropped(&mut self, rx: RxId, reason: DropReason) {
        if let Some(journal) = &mut self.telemetry.journal {
            journal.note_untimed(Step::RxResumed { rx, outcome: HeaderOutcome::Dropped(reason) });
        }
    }

    fn header_outcome(&mut self, rx: RxId, verdict: &Verdict) -> HeaderOutcome {
        let reason = self.telemetry.journal.as_mut().and_then(|journal| journal.drop_reason.take());
        match verdict {
            Verdict::Into { op, .. } => {
                let Msg { md, offset, .. } = &*self.msgs[*op];
                let md = number(md.expect("what is stored has a descriptor"));
                HeaderOutcome::Into { msg: number(*op), md, offset: *offset }
            }
            Verdict::Done => HeaderOutcome::Done,
            Verdict::Drop => HeaderOutcome::Dropped(reason.unwrap_or(DropReason::NoMatch)),
            Verdict::Park => HeaderOutcome::Parked { rx },
            Verdict::Refuse(wrong) => HeaderOutcome::Refused(*wrong),
        }
    }

    /// The number of a descriptor in the journal.
    pub fn journal_number(md: MdKey) -> JournalId {
        number(md)
    }
}

fn number(key: impl Key) -> JournalId {
    JournalId(key.data().as_ffi())
}
