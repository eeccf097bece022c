//! The client's session with the node it loads: made, kept alive, made again, removed.
//!
//! One control RPC at a time. A node that was restarted answers a DEBUG with another session or
//! none; then the session is made again with the same id. Nothing else is assumed about a node
//! that does not answer. A link without a session only asks, with a DEBUG, when in doubt.

use lustrine_lnet::memory::Memory;
use lustrine_lnet::time::{Nanos, Time};
use lustrine_wire::nid::{Nid, ProcessId};
use lustrine_wire::srpc::{
    Body, BrwCheck, BrwOp, CONCURRENCY_MAX, Counters, DebugRequest, FEATURES_KNOWN,
    MakeSessionRequest, Message, Name, RemoveSessionRequest, Role, Service, Sid, StatRequest,
    TestParams, TestRequest,
};

use super::{ClientError, SessionMode};
use crate::body::status;
use crate::errno;
use crate::limits::{PAGE, REMOVALS_MAX};
use crate::rpc::{Bulk, Call, Completion, RpcClient, RpcError, session_nid};
use crate::turn::Turn;

/// The mark of control RPCs, which no unit has.
pub(super) const CONTROL: u32 = u32::MAX;

/// Longest wait for a control RPC, if patience lasts as long. It shares the network with the load,
/// but a node that needs longer is not there.
const CONTROL_TIMEOUT: Nanos = Nanos::from_secs(10);

/// Questions in doubt for which the client has patience.
const QUESTIONS: u64 = 3;

/// Pause after the first control RPC that failed; doubled each time.
const PAUSE_MIN: Nanos = Nanos::from_millis(100);

/// Longest pause between control RPCs that fail.
const PAUSE_MAX: Nanos = Nanos::from_secs(2);

/// How long a node that does not answer is asked to remove the session. A link may be down for a
/// moment just then, and what is left there refuses the next session until it expires.
const REMOVAL_TIME: Nanos = Nanos::from_secs(10);

/// Request buffers that a kernel node posts at least [LST-28].
const BUFFERS_MIN: u32 = 256;

/// The batch that holds the server's tests; it is never run.
const BATCH: u64 = 1;

/// Where the session stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The node has none of ours.
    Absent,
    /// All is well.
    Present,
    /// Something failed; whether the node still has the session is not known.
    Doubtful,
    /// It is being removed.
    Ending,
    /// It is over.
    Closed,
    /// There is no hope.
    Broken(ClientError),
}

/// A control RPC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Control {
    Make,
    Prepare(Service, u32),
    Stat,
    Debug,
    Remove,
}

/// What the load needs to know.
#[derive(Clone, Copy, Debug)]
pub(super) enum LinkEvent {
    /// The load goes on as before.
    Nothing,
    /// The node has lost our session, and with it every RPC in flight.
    Lost,
    /// The counters that were asked for; `None` when the node did not give them.
    Counters(Option<Counters>),
}

/// Whom a session is with, and how it is asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct LinkConfig {
    pub(super) peer: ProcessId,
    pub(super) local: Option<Nid>,
    pub(super) sid: Sid,
    pub(super) name: Name,
    pub(super) session: SessionMode,
    pub(super) patience: Nanos,
    pub(super) rpc_timeout: Nanos,
}

#[derive(Debug)]
pub(super) struct Link {
    terms: LinkConfig,
    state: State,
    in_flight: Option<Control>,
    /// When [`Link::in_flight`] was sent.
    sent_at: Time,
    /// The caller's number of it.
    rpc: u32,
    /// How long the last answer took.
    answer_took: Nanos,
    /// No control RPC before this.
    not_before: Time,
    pause: Nanos,
    /// Since when the node has been silent, while the session is not known to be present, or is
    /// being removed.
    silent_since: Option<Time>,
    last_failure: Option<RpcError>,
    /// The node's session time-out.
    timeout: Nanos,
    /// When the node last had a framework request of ours answered.
    heard_at: Time,
    /// What the load will need: a service and a concurrency.
    wanted: Option<(Service, u32)>,
    /// The concurrency announced to the node, by service: BRW, PING.
    prepared: [u32; 2],
    counters_wanted: bool,
    removals: u32,
    /// What the node refused in the session, which is removed for that reason.
    refused: Option<ClientError>,
}

impl Link {
    pub(super) fn new(terms: LinkConfig) -> Link {
        let state = match terms.session {
            SessionMode::IfFree | SessionMode::Force => State::Absent,
            SessionMode::NoSession => State::Present,
        };
        Link {
            terms,
            state,
            in_flight: None,
            sent_at: Time::ZERO,
            rpc: 0,
            answer_took: Nanos(0),
            not_before: Time::ZERO,
            pause: PAUSE_MIN,
            silent_since: None,
            last_failure: None,
            timeout: Nanos(0),
            heard_at: Time::ZERO,
            wanted: None,
            prepared: [0; 2],
            counters_wanted: false,
            removals: 0,
            refused: None,
        }
    }

    /// Whether there is a session, or to be one.
    pub(super) fn has_session(&self) -> bool {
        self.terms.session != SessionMode::NoSession
    }

    /// Whether test RPCs may be sent.
    pub(super) fn is_usable(&self) -> bool {
        let is_prepared = |(service, concurrency)| {
            !self.has_session() || self.prepared[place(service)] >= concurrency
        };
        self.state == State::Present && self.wanted.is_some_and(is_prepared)
    }

    /// How long the node's last answer to a control RPC took.
    pub(super) fn answer_took(&self) -> Nanos {
        self.answer_took
    }

    pub(super) fn is_present(&self) -> bool {
        self.state == State::Present
    }

    /// Whether a session is there, or may come.
    pub(super) fn is_open(&self) -> bool {
        matches!(self.state, State::Absent | State::Present | State::Doubtful)
    }

    pub(super) fn is_closed(&self) -> bool {
        matches!(self.state, State::Closed | State::Broken(_)) && self.in_flight.is_none()
    }

    pub(super) fn error(&self) -> Option<ClientError> {
        match self.state {
            State::Broken(error) => Some(self.refused.unwrap_or(error)),
            _ => self.refused,
        }
    }

    /// The node shall be ready for this many RPCs of a service at once.
    pub(super) fn want_service(&mut self, service: Service, concurrency: u32) {
        self.wanted = Some((service, concurrency));
    }

    /// The node's counters are wanted; they come as [`LinkEvent::Counters`].
    pub(super) fn want_counters(&mut self) {
        self.counters_wanted = true;
    }

    /// A test RPC failed in a way that makes the node suspect, or did not end: nothing has been
    /// heard of the node since `silent_since`.
    pub(super) fn doubt(&mut self, now: Time, silent_since: Time) {
        if self.state == State::Present {
            self.state = State::Doubtful;
            self.silent_since = Some(silent_since);
            self.not_before = now;
            self.pause = PAUSE_MIN;
        }
    }

    /// No further load: the session is to be removed.
    pub(super) fn close(&mut self, now: Time) {
        match self.state {
            State::Present | State::Doubtful if !self.has_session() => self.state = State::Closed,
            State::Present | State::Doubtful => {
                self.state = State::Ending;
                self.silent_since = None;
                self.not_before = now;
                self.pause = PAUSE_MIN;
            }
            State::Absent if self.in_flight.is_some() => {
                self.state = State::Ending;
                self.silent_since = None;
            }
            State::Absent => self.state = State::Closed,
            State::Ending | State::Closed | State::Broken(_) => {}
        }
    }

    /// Once per loop turn: the end of patience, or the next control RPC, if one is due. `heard_at`
    /// is when anything last arrived of the node.
    pub(super) fn drive<M: Memory>(
        &mut self,
        turn: &mut Turn<'_, M>,
        caller: &mut RpcClient,
        heard_at: Option<Time>,
    ) {
        let now = turn.now;
        if matches!(self.state, State::Absent | State::Doubtful) {
            let since = self.silent_since.get_or_insert(now);
            // A node that has no session of ours may be heard of for other reasons.
            if let (State::Doubtful, Some(heard_at)) = (self.state, heard_at) {
                *since = heard_at.max(*since);
            }
            if now >= *since + self.terms.patience {
                if self.in_flight.is_some() {
                    caller.abort(turn, self.rpc, RpcError::TimedOut);
                }
                let failure = self.last_failure.or(self.in_flight.map(|_| RpcError::TimedOut));
                self.state = State::Broken(ClientError::NoAnswer(failure));
                return;
            }
        }
        if self.in_flight.is_some() || now < self.not_before {
            return;
        }
        if let Some(control) = self.next_control(now) {
            self.send(turn, caller, control);
        }
    }

    fn next_control(&self, now: Time) -> Option<Control> {
        match self.state {
            State::Absent => Some(Control::Make),
            State::Doubtful => Some(Control::Debug),
            State::Ending => Some(Control::Remove),
            State::Closed | State::Broken(_) => None,
            State::Present if !self.has_session() => None,
            State::Present => match self.wanted {
                Some((service, concurrency)) if self.prepared[place(service)] < concurrency => {
                    Some(Control::Prepare(service, announced(concurrency)))
                }
                _ if self.counters_wanted => Some(Control::Stat),
                _ if now >= self.keepalive_due() => Some(Control::Debug),
                _ => None,
            },
        }
    }

    /// Test RPCs do not keep a session alive [LST-12]; a third of the node's time-out
    /// leaves room for two that are lost.
    fn keepalive_due(&self) -> Time {
        match self.timeout {
            Nanos(0) => Time::NEVER,
            Nanos(timeout) => self.heard_at + Nanos(timeout / 3),
        }
    }

    /// When [`Link::drive`] has something to do at the latest.
    pub(super) fn next_deadline(&self) -> Time {
        let next = match self.state {
            _ if self.in_flight.is_some() => Time::NEVER,
            State::Absent | State::Doubtful | State::Ending => self.not_before,
            State::Present => self.keepalive_due().max(self.not_before),
            State::Closed | State::Broken(_) => Time::NEVER,
        };
        next.min(self.patience_ends())
    }

    fn patience_ends(&self) -> Time {
        match (self.state, self.silent_since) {
            (State::Absent | State::Doubtful, Some(since)) => since + self.terms.patience,
            _ => Time::NEVER,
        }
    }

    fn send<M: Memory>(
        &mut self,
        turn: &mut Turn<'_, M>,
        caller: &mut RpcClient,
        control: Control,
    ) {
        let service = match control {
            Control::Make => Service::MakeSession,
            Control::Prepare(..) => Service::Test,
            Control::Stat => Service::Stat,
            Control::Debug => Service::Debug,
            Control::Remove => Service::RemoveSession,
        };
        let call = Call {
            peer: self.terms.peer,
            local: self.terms.local.or_else(|| session_nid(turn.shard, &self.terms.peer.nid)),
            service,
            features: FEATURES_KNOWN,
            bulk: Bulk::None,
            timeout: CONTROL_TIMEOUT.min(self.terms.rpc_timeout).min(self.attention()),
            user: CONTROL,
        };
        let terms = self.terms;
        let sid = terms.sid;
        let sent = caller.call(turn, call, |ids| {
            let reply_bits = ids.reply;
            match control {
                Control::Make => Body::MakeSessionRequest(MakeSessionRequest {
                    reply_bits,
                    sid,
                    force: u32::from(terms.session == SessionMode::Force),
                    name: terms.name,
                }),
                Control::Prepare(service, concurrency) => {
                    Body::TestRequest(prepare(reply_bits, sid, service, concurrency))
                }
                Control::Stat => Body::StatRequest(StatRequest { reply_bits, sid, kind: 0 }),
                Control::Debug => Body::DebugRequest(DebugRequest { reply_bits, sid, flags: 0 }),
                Control::Remove => {
                    Body::RemoveSessionRequest(RemoveSessionRequest { reply_bits, sid })
                }
            }
        });
        match sent {
            Ok(rpc) => {
                self.in_flight = Some(control);
                self.sent_at = turn.now;
                if control == Control::Remove {
                    self.silent_since.get_or_insert(turn.now);
                }
                self.rpc = rpc;
            }
            Err(failure) => self.back_off(turn.now, failure),
        }
    }

    /// How long one question may take of the client's patience. In doubt it is asked several times:
    /// the first question may have been lost with all else.
    fn attention(&self) -> Nanos {
        match self.state {
            State::Doubtful => Nanos(self.terms.patience.0 / QUESTIONS),
            State::Ending => Nanos(self.removal_time().0 / QUESTIONS),
            _ => self.terms.patience,
        }
    }

    fn removal_time(&self) -> Nanos {
        REMOVAL_TIME.min(self.terms.patience)
    }

    /// A control RPC is over. `heard_at` is when anything last arrived of the node.
    pub(super) fn complete(
        &mut self,
        now: Time,
        heard_at: Option<Time>,
        completion: &Completion,
    ) -> LinkEvent {
        let Some(control) = self.in_flight.take() else { return LinkEvent::Nothing };
        match &completion.outcome {
            Ok(reply) => self.answered(now, control, reply),
            Err(failure) => self.unanswered(now, heard_at, control, *failure),
        }
    }

    fn unanswered(
        &mut self,
        now: Time,
        heard_at: Option<Time>,
        control: Control,
        failure: RpcError,
    ) -> LinkEvent {
        self.back_off(now, failure);
        if self.state == State::Ending {
            if self.silent_since.is_some_and(|since| now >= since + self.removal_time()) {
                self.state = State::Broken(ClientError::NotRemoved(failure));
            }
            return LinkEvent::Nothing;
        }
        // Where anything arrives, the network is only busy.
        let alive = heard_at.is_some_and(|at| at >= self.sent_at);
        if self.state == State::Present && !alive {
            self.state = State::Doubtful;
            self.silent_since = Some(self.sent_at);
        }
        if control == Control::Stat && !alive { self.no_counters() } else { LinkEvent::Nothing }
    }

    fn answered(&mut self, now: Time, control: Control, reply: &Message) -> LinkEvent {
        self.heard_at = now;
        self.answer_took = now.since(self.sent_at);
        self.last_failure = None;
        self.pause = PAUSE_MIN;
        self.not_before = now;
        let status = status(&reply.body).unwrap_or(errno::EBADMSG);
        match (control, &reply.body) {
            (Control::Make, Body::MakeSessionReply(made)) => {
                match status {
                    0 => {
                        self.timeout = Nanos::from_secs(u64::from(made.timeout));
                        self.prepared = [0; 2];
                        self.present();
                    }
                    errno::EBUSY => {
                        self.break_off(ClientError::Busy { holder: made.sid, name: made.name });
                    }
                    _ => self.break_off(ClientError::Refused { service: "MAKE_SESSION", status }),
                }
                LinkEvent::Nothing
            }
            (Control::Debug, Body::DebugReply(debug)) => {
                let ours = status == 0 && debug.sid == self.terms.sid;
                // Without a session any answer will do.
                if ours || !self.has_session() {
                    self.present();
                    LinkEvent::Nothing
                } else {
                    self.lost(now)
                }
            }
            (Control::Prepare(service, concurrency), _) => match status {
                0 => {
                    self.prepared[place(service)] = concurrency;
                    LinkEvent::Nothing
                }
                errno::ENOENT | errno::ESRCH | errno::EPROTO => self.lost(now),
                // Of no importance to a session that is being removed.
                _ if self.state == State::Ending => LinkEvent::Nothing,
                _ => {
                    self.refused = Some(ClientError::Refused { service: "TEST", status });
                    self.close(now);
                    LinkEvent::Nothing
                }
            },
            (Control::Stat, Body::StatReply(stat)) if status == 0 => {
                self.counters_wanted = false;
                LinkEvent::Counters(Some(stat.counters))
            }
            (Control::Stat, _) => {
                self.counters_wanted = false;
                if status == errno::ESRCH { self.lost(now) } else { LinkEvent::Counters(None) }
            }
            (Control::Remove, Body::RemoveSessionReply(removed)) => {
                self.silent_since = Some(now);
                self.removals += 1;
                let again = status == 0 && removed.sid == self.terms.sid;
                if !again || self.removals >= REMOVALS_MAX {
                    self.state = State::Closed;
                }
                LinkEvent::Nothing
            }
            // The caller lets no other type of reply through.
            _ => LinkEvent::Nothing,
        }
    }

    fn present(&mut self) {
        if matches!(self.state, State::Absent | State::Doubtful) {
            self.state = State::Present;
            self.silent_since = None;
        }
    }

    /// The node has lost the session.
    fn lost(&mut self, now: Time) -> LinkEvent {
        match self.state {
            State::Ending => self.state = State::Closed,
            State::Closed | State::Broken(_) => {}
            State::Absent | State::Present | State::Doubtful => {
                self.state = State::Absent;
                self.silent_since = Some(now);
            }
        }
        self.counters_wanted = false;
        LinkEvent::Lost
    }

    fn no_counters(&mut self) -> LinkEvent {
        self.counters_wanted = false;
        LinkEvent::Counters(None)
    }

    /// There is no session, and will be none.
    fn break_off(&mut self, error: ClientError) {
        self.state = if self.state == State::Ending { State::Closed } else { State::Broken(error) };
    }

    fn back_off(&mut self, now: Time, failure: RpcError) {
        self.last_failure = Some(failure);
        self.not_before = now + self.pause;
        self.pause = Nanos((self.pause.0 * 2).min(PAUSE_MAX.0));
    }
}

fn place(service: Service) -> usize {
    usize::from(service == Service::Ping)
}

/// The concurrency that is announced for a load of this one. A node keeps each TEST in a list of
/// limited length, and posts this many request buffers whatever a TEST says [LST-28]; above it, a
/// rising load needs few TESTs.
fn announced(concurrency: u32) -> u32 {
    concurrency.max(BUFFERS_MIN).next_power_of_two().min(CONCURRENCY_MAX)
}

/// A TEST that makes a kernel node post request buffers: server role, nothing to fetch. The
/// number of loops is its hint for how many [LST-28].
fn prepare(reply_bits: u64, sid: Sid, service: Service, concurrency: u32) -> TestRequest {
    let params = match service {
        Service::Brw => TestParams::BrwV1 {
            rw: BrwOp::Read as u16,
            check: BrwCheck::None as u16,
            len: PAGE,
            offset: 0,
        },
        _ => TestParams::Ping { size: 0, flags: 0, unused: [0; 4] },
    };
    TestRequest {
        reply_bits,
        bulk_bits: 0,
        sid,
        batch: BATCH,
        service: service.id(),
        loops: concurrency.max(1) as i32,
        concurrency,
        role: Role::Server,
        stop_on_error: 1,
        destinations: 0,
        params,
        rate: 0,
    }
}

#[cfg(test)]
mod tests;
