//! A driver that keeps what it is given.
#![allow(dead_code, unreachable_pub, reason = "each test file uses a part of it")]

use lustrine_lnet::driver_report::{DriverCounter, DriverNotice, DriverPeer};
use lustrine_lnet::lnd::{Action, Arrival, Core, LinkEvent, NiIndex, RxId, Verdict};
use lustrine_lnet::md::{MatchId, Md, MdOptions, Owner, Position, Unlink};
use lustrine_lnet::memory::{Span, VecMemory};
use lustrine_lnet::portal::MatchEntry;
use lustrine_lnet::status::Status;
use lustrine_lnet::time::Time;
use lustrine_partition::tunables::Tunables;
use lustrine_partition::{Driver, DriverOn};
use lustrine_wire::header::Header;
use lustrine_wire::nid::{Nid, PID_ANY, ProcessId};

/// A descriptor of one span.
pub fn md(owner: Owner, span: Span, threshold: Option<u32>, options: MdOptions) -> Md {
    let spans = [span].into_iter().collect();
    Md { spans, threshold, max_size: None, options, owner, user: 0 }
}

/// An entry for these match bits and any sender, which stays.
pub fn entry(match_bits: u64) -> MatchEntry {
    MatchEntry {
        from: MatchId { nid: Nid::ANY, pid: PID_ANY },
        match_bits,
        ignore_bits: 0,
        position: Position::After,
        unlink: Unlink::Retain,
    }
}

/// What a partition had the driver do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Submit,
    SubmitAlone,
    Flush,
}

/// A driver without a network: messages are kept, and reported ones have no payload.
#[derive(Debug, Default)]
pub struct TestDriver {
    /// By index of interface.
    pub nis: Vec<(NiIndex, Nid)>,
    pub sent: Vec<(NiIndex, Header)>,
    pub resumed: Vec<(NiIndex, RxId, Verdict)>,
    pub closed: Vec<(NiIndex, ProcessId)>,
    pub shut: Option<Status>,
    pub steps: Vec<Step>,
}

impl Driver for TestDriver {
    type NiConfig = Nid;
    type Report = (Arrival, Header);
    /// A peer that has lost its last connection.
    type Handoff = ProcessId;

    fn has_work(&self) -> bool {
        false
    }

    fn next_deadline(&self) -> Time {
        Time::NEVER
    }

    fn set_tunables(&mut self, _: Time, _: &Tunables) {}

    fn add_ni(&mut self, index: NiIndex, nid: Nid) {
        self.nis.push((index, nid));
    }

    fn set_conns_per_peer(&mut self, _: NiIndex, _: u16) {}

    fn next_handoff(&mut self) -> Option<(u16, ProcessId)> {
        None
    }

    fn connection_types(&self) -> Vec<&'static str> {
        Vec::new()
    }

    fn counter_rows(&self) -> Vec<DriverCounter> {
        Vec::new()
    }

    fn peer_rows(&self) -> impl Iterator<Item = DriverPeer> + '_ {
        core::iter::empty()
    }

    fn take_notices(&mut self) -> Vec<DriverNotice> {
        Vec::new()
    }
}

impl DriverOn<VecMemory> for TestDriver {
    fn report<C: Core>(
        &mut self,
        now: Time,
        core: &mut C,
        _: &mut VecMemory,
        (arrival, header): (Arrival, Header),
    ) {
        match core.recv_header(now, arrival, &header) {
            Verdict::Into { op, .. } => core.done(now, op, Status::Ok),
            Verdict::Done | Verdict::Drop | Verdict::Park => {}
            Verdict::Refuse(why) => panic!("{why:?}"),
        }
    }

    fn adopt<C: Core>(&mut self, now: Time, core: &mut C, _: &mut VecMemory, lost: ProcessId) {
        core.link(now, NiIndex(0), lost, LinkEvent::Down { status: Status::ConnectionLost });
    }

    fn tick<C: Core>(&mut self, _: Time, _: &mut C, _: &mut VecMemory) {}

    fn submit<C: Core>(&mut self, now: Time, core: &mut C, _: &mut VecMemory, action: &Action) {
        self.steps.push(Step::Submit);
        match action {
            Action::Send(send) => {
                self.sent.push((send.ni, send.header));
                core.done(now, send.op, self.shut.unwrap_or(Status::Ok));
            }
            Action::Resume { ni, rx, verdict } => {
                self.resumed.push((*ni, *rx, verdict.clone()));
                if let Verdict::Into { op, .. } = verdict {
                    core.done(now, *op, Status::Ok);
                }
            }
            Action::Close { ni, peer, .. } => self.closed.push((*ni, *peer)),
        }
    }

    fn submit_alone<C: Core>(
        &mut self,
        now: Time,
        core: &mut C,
        memory: &mut VecMemory,
        action: &Action,
    ) {
        self.submit(now, core, memory, action);
        self.steps.pop();
        self.steps.push(Step::SubmitAlone);
    }

    fn flush<C: Core>(&mut self, _: Time, _: &mut C, _: &mut VecMemory) {
        self.steps.push(Step::Flush);
    }

    fn close_nids<C: Core>(&mut self, _: Time, _: &mut C, _: &mut VecMemory, _: &[Nid], _: Status) {
    }

    fn remove_ni<C: Core>(
        &mut self,
        _: Time,
        _: &mut C,
        _: &mut VecMemory,
        ni: NiIndex,
        _: Status,
    ) {
        self.nis.retain(|(index, _)| *index != ni);
    }

    fn close_all<C: Core>(&mut self, _: Time, _: &mut C, _: &mut VecMemory, status: Status) {
        self.shut = Some(status);
    }
}
