//! A load of LNet selftest on one peer, through a node.

use std::thread;
use std::time::{Duration, Instant};

use lustrine_control::{Answer, ConnRow, LoadFailureKind, LoadOrder, LoadRow, Request};
use lustrine_selftest::Test;
use lustrine_tune::{Segments, rate_of};
use lustrine_wire::nid::Nid;
use lustrine_wire::srpc::BrwCheck;
use serde::Serialize;

use super::MESSAGE;
use crate::access::Link;
use crate::output::{Failure, note};

/// Where payload goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::commands) enum Direction {
    /// From the peer.
    Read,
    /// To the peer.
    Write,
}

impl Direction {
    pub(super) fn name(self) -> &'static str {
        match self {
            Direction::Read => "read",
            Direction::Write => "write",
        }
    }
}

/// The wait between two looks at a load.
pub(super) const LOOK: Duration = Duration::from_millis(10);
/// The same while a few bytes are counted.
const SHORT_LOOK: Duration = Duration::from_millis(1);
/// The load ends after so long without an answer of the peer, in milliseconds.
const PATIENCE_MS: u64 = 30_000;
/// The time-out of a ping to a peer that does not answer a load, in milliseconds.
const PING_MS: u64 = 5000;
/// RPCs in flight while a few bytes are counted.
const FEW: u32 = 8;

/// A load on one peer, and the node that sends it.
pub(in crate::commands) struct Load {
    pub(super) link: Link,
    nid: Nid,
    name: &'static str,
    /// Whether the session of another console is taken over.
    force: bool,
    /// Whether a load was started that has not ended.
    pub(super) is_started: bool,
    /// Whether the peer has made a session.
    had_session: bool,
    /// What is read or written now, or was last.
    direction: Direction,
    /// Whether an RPC of reads, and one of writes, has ended over this path.
    carried: Carried,
}

/// In which directions a path has carried bulk data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Carried {
    pub(super) read: bool,
    pub(super) write: bool,
}

impl Carried {
    fn has(self, direction: Direction) -> bool {
        match direction {
            Direction::Read => self.read,
            Direction::Write => self.write,
        }
    }

    fn add(&mut self, direction: Direction) {
        match direction {
            Direction::Read => self.read = true,
            Direction::Write => self.write = true,
        }
    }
}

/// What a peer is silent to that does not answer a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Silence {
    /// To pings as well.
    Everything,
    /// To the service; pings are answered.
    Selftest,
    /// To reads and writes; pings are answered, and there was a session.
    Bulk,
}

impl Silence {
    /// What it may come from, and what to do.
    fn hint(self, nid: &Nid, carried: Carried) -> String {
        match self {
            // Several requests in one segment, or data to the peer, stand before the pings.
            Silence::Everything if carried.read || carried.write => format!(
                "RPCs were carried before, and now pings are not answered either: the peer or the \
                 path has failed, or large packets disappear on the way; `lustrine doctor --to \
                 {nid}` looks for the reason"
            ),
            Silence::Everything => format!(
                "pings are not answered either; `lustrine doctor --to {nid}` looks for the reason"
            ),
            Silence::Selftest => "pings are answered, LNet selftest is not: a kernel node needs \
                                  the module lnet_selftest"
                .to_owned(),
            Silence::Bulk => format!(
                "pings are answered, bulk data are not: large packets may disappear on the way; \
                 `lustrine doctor --to {nid}` looks for that"
            ),
        }
    }
}

/// What TCP counts of all connections with a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct StreamsView {
    /// Longest packet that the path takes, in bytes; of several connections the least.
    pub(super) path_mtu: u32,
    /// Payload of the longest segments that were sent, in bytes.
    pub(super) segment_out: u32,
    /// The same of those that arrived, as the kernel estimates it.
    pub(super) segment_in: u32,
    /// All of their segments.
    #[serde(skip)]
    pub(super) segments: Segments,
}

/// Bytes of a packet beside a segment's payload: the headers of IPv4 and TCP, and time stamps.
const HEADERS: u32 = 20 + 20 + 12;
/// Segments are compared with path MTUs up to this only: over the loopback device they are shorter.
const PATH_MTU_MAX: u32 = 10_000;

impl StreamsView {
    /// What TCP waited for is taken of connections that carry what this node sends in bulk: the
    /// others wait for other reasons.
    fn of(conn: &ConnRow) -> Option<StreamsView> {
        let tcp = conn.tcp.as_ref()?;
        let is_bulk = matches!(conn.kind.as_str(), "BULK_OUT" | "ANY");
        let of_bulk = |time_ns| if is_bulk { time_ns } else { 0 };
        Some(StreamsView {
            path_mtu: tcp.path_mtu,
            segment_out: tcp.segment_out,
            segment_in: tcp.segment_in,
            segments: Segments {
                sent: tcp.segments_sent.into(),
                retransmits: tcp.retransmits.into(),
                duplicates: tcp.duplicates.into(),
                reorderings: tcp.reorderings.into(),
                received: tcp.segments_received.into(),
                out_of_order: tcp.out_of_order.into(),
                busy_ns: of_bulk(tcp.busy_ns),
                window_limited_ns: of_bulk(tcp.window_limited_ns),
                send_buffer_limited_ns: of_bulk(tcp.send_buffer_limited_ns),
            },
        })
    }

    /// About the longest packet that is sent, in bytes: shorter than the path MTU if the peer asked
    /// for shorter segments. IPv6 has 20 bytes more.
    pub(super) fn longest(&self) -> u32 {
        let longest = self.segment_out.saturating_add(HEADERS);
        let is_shorter = longest.saturating_add(HEADERS) < self.path_mtu;
        match is_shorter && self.path_mtu <= PATH_MTU_MAX {
            true => longest,
            false => self.path_mtu,
        }
    }

    fn and(&self, other: &StreamsView) -> StreamsView {
        StreamsView {
            path_mtu: self.path_mtu.min(other.path_mtu),
            segment_out: self.segment_out.max(other.segment_out),
            segment_in: self.segment_in.max(other.segment_in),
            segments: self.segments.plus(&other.segments),
        }
    }
}

/// What a node has moved and used.
#[derive(Clone, Copy, Debug)]
pub(super) struct Used {
    pub(super) bytes: u64,
    pub(super) cpu_s: f64,
}

impl Load {
    /// `name`: of the session at the peer; `force`: whether it takes over that of another console.
    pub(in crate::commands) fn new(link: Link, nid: Nid, name: &'static str, force: bool) -> Load {
        let (direction, carried) = (Direction::Read, Carried::default());
        Load { link, nid, name, force, is_started: false, had_session: false, direction, carried }
    }

    /// The node, without the load.
    pub(in crate::commands) fn into_link(self) -> Link {
        self.link
    }

    /// Makes a session with the peer, unless there is one.
    pub(super) fn start(&mut self) -> Result<(), Failure> {
        if !self.is_started {
            self.order(LoadOrder::Start {
                target: self.nid,
                name: self.name.to_owned(),
                force: self.force,
                patience_ms: PATIENCE_MS,
            })?;
            self.is_started = true;
        }
        Ok(())
    }

    pub(super) fn order(&mut self, order: LoadOrder) -> Result<LoadRow, Failure> {
        match self.link.ask(&Request::Load { order })? {
            Answer::Load { load } => Ok(load),
            _ => Err(unexpected()),
        }
    }

    /// With what the path has carried before, for an earlier node.
    pub(super) fn with_carried(self, carried: Carried) -> Load {
        Load { carried, ..self }
    }

    /// Whether an RPC of what is read or written now has ended over this path.
    pub(super) fn has_carried(&self) -> bool {
        self.carried.has(self.direction)
    }

    /// Begins a step. A load that was given up meanwhile takes none; its reason is the error then.
    pub(super) fn step(
        &mut self,
        direction: Direction,
        concurrency: u32,
        (warm_up_ns, time_ns): (u64, u64),
    ) -> Result<(), Failure> {
        self.direction = direction;
        let test = direction.test();
        match self.order(LoadOrder::Step { test, concurrency, time_ns, warm_up_ns }) {
            Ok(_) => Ok(()),
            Err(failure) => self.progress().and(Err(failure)),
        }
    }

    /// The progress of the load; an error once it was given up.
    pub(super) fn progress(&mut self) -> Result<LoadRow, Failure> {
        let load = self.order(LoadOrder::Progress)?;
        self.had_session |= load.connected;
        if load.has_progressed {
            self.carried.add(self.direction);
        }
        let Some(failure) = &load.failure else { return Ok(load) };
        let hint = match failure.kind {
            LoadFailureKind::NoAnswer => format!("; {}", self.hint()),
            LoadFailureKind::Busy if self.force => {
                ", or wait until it expires: the node takes --take-over only from the consoles \
                 that its setting `selftest_consoles` lists"
                    .to_owned()
            }
            LoadFailureKind::Busy => {
                ", or wait until it expires. `lustrine tune --take-over` ends that of a program \
                 that was killed"
                    .to_owned()
            }
            LoadFailureKind::Other => String::new(),
        };
        Err(format!("{}: {}{hint}", self.nid, failure.message).into())
    }

    /// Why a load stands still: no RPC of it has ended, while the peer, which has made a session,
    /// answers pings.
    pub(super) fn stalled(&mut self) -> Option<String> {
        let stands = !self.has_carried() && self.had_session;
        (stands && self.silence() == Silence::Bulk).then(|| self.nothing_ended())
    }

    /// That no RPC of a load has ended, and what it may come from.
    pub(super) fn nothing_ended(&mut self) -> String {
        let hint = self.hint();
        format!("{}: no {} has ended; {hint}", self.nid, self.direction.name())
    }

    /// What the peer is silent to, what that may come from, and what to do.
    fn hint(&mut self) -> String {
        self.silence().hint(&self.nid, self.carried)
    }

    /// What the peer is silent to.
    fn silence(&mut self) -> Silence {
        let ping = Request::Ping { nid: self.nid, timeout_ms: PING_MS };
        match (self.link.ask(&ping), self.had_session) {
            (Err(_), _) => Silence::Everything,
            (Ok(_), true) => Silence::Bulk,
            (Ok(_), false) => Silence::Selftest,
        }
    }

    /// What the node has moved and used so far.
    pub(super) fn used(&mut self) -> Result<Used, Failure> {
        let Answer::Stats { stats } = self.link.ask(&Request::ShowStats)? else {
            return Err(unexpected());
        };
        let count = |name| stats.lnet.get(name).copied().unwrap_or(0);
        let bytes = count("recv_length").saturating_add(count("send_length"));
        Ok(Used { bytes, cpu_s: stats.cpu_s.0 })
    }

    /// What TCP counts of the connections with the peer so far; `None` where the system does not
    /// say it.
    pub(super) fn streams(&mut self) -> Result<Option<StreamsView>, Failure> {
        let request = Request::ShowConn { nid: Some(self.nid) };
        let Answer::Conn { conns, .. } = self.link.ask(&request)? else {
            return Err(unexpected());
        };
        let rows = conns.iter().filter_map(StreamsView::of);
        Ok(rows.reduce(|all, one| all.and(&one)))
    }

    /// Ends the load, and waits for that: otherwise the peer would keep the session until it
    /// expires.
    pub(super) fn finish(&mut self, limit: Duration) {
        self.is_started = false;
        if self.order(LoadOrder::Finish).is_err() {
            return;
        }
        let begun = Instant::now();
        while begun.elapsed() < limit {
            match self.order(LoadOrder::Progress) {
                Ok(load) if !load.finished && load.failure.is_none() => thread::sleep(LOOK),
                _ => return,
            }
        }
        note(&format!("{}: the session is still there, and ends when it expires", self.nid));
    }

    /// Moves about so many bytes in one direction with a few RPCs in flight, and ends the session.
    /// The rate in bits per second; `None` if `limit` passed, or `stopped` held, before there was
    /// one. RPCs in flight end after it, and are counted before: their bytes are part of `bytes`.
    /// What the path carries in a millisecond may come on top.
    ///
    /// # Errors
    /// When the peer does not take the load.
    pub(in crate::commands) fn carry(
        &mut self,
        direction: Direction,
        bytes: u64,
        limit: Duration,
        stopped: &dyn Fn() -> bool,
    ) -> Result<Option<u64>, Failure> {
        let outcome = self.carried(direction, bytes, limit, stopped);
        self.finish(limit.min(Duration::from_secs(15)));
        outcome
    }

    fn carried(
        &mut self,
        direction: Direction,
        bytes: u64,
        limit: Duration,
        stopped: &dyn Fn() -> bool,
    ) -> Result<Option<u64>, Failure> {
        self.start()?;
        let concurrency = u32::try_from(bytes / MESSAGE / 4).unwrap_or(FEW).clamp(1, FEW);
        let wanted = bytes.saturating_sub(u64::from(concurrency) * MESSAGE).max(MESSAGE);
        let time_ns = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        self.step(direction, concurrency, (0, time_ns))?;
        let deadline = Instant::now() + limit;
        loop {
            thread::sleep(SHORT_LOOK);
            let load = self.progress()?;
            let is_late = Instant::now() >= deadline;
            if load.bytes >= wanted || load.step_finished || is_late {
                let is_measured = load.bytes > 0 && load.elapsed_ns > 0;
                return Ok(is_measured.then(|| rate_of(load.bytes, load.elapsed_ns)));
            }
            if stopped() {
                return Ok(None);
            }
        }
    }
}

impl Direction {
    /// The RPCs of a load in this direction.
    pub(super) fn test(self) -> Test {
        let (len, check) = (MESSAGE as u32, BrwCheck::Simple);
        match self {
            Direction::Read => Test::Read { len, check },
            Direction::Write => Test::Write { len, check },
        }
    }
}

pub(super) fn unexpected() -> Failure {
    "unexpected reply from the node; the versions may differ".to_owned().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_after_data_may_be_a_black_hole() {
        let nid = "10.0.0.2@tcp".parse().expect("a NID");
        let hint = |carried| Silence::Everything.hint(&nid, carried);
        let never = hint(Carried::default());
        assert!(never.starts_with("pings are not answered either;"), "{never}");
        for carried in [Carried { read: true, write: false }, Carried { read: true, write: true }] {
            let hint = hint(carried);
            assert!(hint.contains("or large packets disappear on the way"), "{hint}");
        }
    }
}
