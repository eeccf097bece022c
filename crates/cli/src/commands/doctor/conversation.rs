//! One TCP connection to a peer: the handshake, pings, keepalives. It blocks, and each wait has a
//! limit.

use std::io::{self, IoSlice, IoSliceMut};
use std::net::{IpAddr, Shutdown, SocketAddr};
use std::time::{Duration, Instant};

use lustrine_doctor::{DialOutcome, Source, header_bytes};
use lustrine_sys::poller::wait_for_one;
use lustrine_sys::{
    Clock, ConnectError, IcmpError, IoOutcome, Socket, SocketOptions, SourcePort, StreamInfo,
};
use lustrine_wire::acceptor::Request;
use lustrine_wire::frame::{FrameHeader, FrameKind};
use lustrine_wire::header::{Body, MdHandle};
use lustrine_wire::hello::{ConnType, Hello, Ips, Version};
use lustrine_wire::{
    ByteOrder, Header, Nid, PID_LUSTRE, PID_USERLAND, PING_MATCH_BITS, PING_PORTAL, ProcessId,
    Progress,
};

use super::budget::Budget;

/// How long a TCP connection may take: the request is sent three times in it.
const CONNECT: Duration = Duration::from_secs(4);
/// How long a HELLO may take: an acceptor gives up after 5 s itself [ACC-10].
const HELLO: Duration = Duration::from_secs(4);
/// How long a connection over which nothing was sent has to stay open, and two round trips more.
const IDLE: Duration = Duration::from_millis(300);
/// Room for ping information of 62 interfaces.
const SINK: u32 = 1024;
/// Bytes read at once.
const CHUNK: usize = 64 << 10;
/// Longest text of what is not LNet.
const SHOWN: usize = 40;

/// Who calls.
#[derive(Clone, Copy, Debug)]
pub(super) struct Caller {
    /// The address that packets leave from.
    pub(super) local: IpAddr,
    /// The NID that goes with it.
    pub(super) nid: Nid,
    /// The same for all connections.
    pub(super) incarnation: u64,
}

/// What became of a connection over which nothing was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Idle {
    /// It stayed open for a moment: a node waits for the request [ACC-10]. `packet`: the longest
    /// packet that TCP would send over it, in bytes.
    Open { packet: Option<u32> },
    /// The other end closed it.
    Closed,
}

/// A connection after both HELLOs.
#[derive(Debug)]
pub(super) struct Conversation {
    socket: Socket,
    /// Of the messages that are sent and received.
    version: Version,
    order: ByteOrder,
    own: ProcessId,
    peer: Nid,
    received: Vec<u8>,
    /// Pings so far: the number of the next one.
    pings: u64,
}

impl Caller {
    /// Connects and exchanges HELLOs. `segment_max`: the longest segments, payload and options.
    pub(super) fn handshake(
        &self,
        budget: &mut Budget,
        to: SocketAddr,
        target: Nid,
        source: Source,
        segment_max: Option<u16>,
    ) -> (DialOutcome, Option<Conversation>) {
        if !budget.allows(512) {
            let why = "the budget is used up".to_owned();
            return (DialOutcome::NotMade { why }, None);
        }
        let answer = self
            .connect(budget, to, source, segment_max)
            .and_then(|socket| self.exchange(budget, socket, target, source));
        match answer {
            Ok((outcome, conversation)) => (outcome, Some(conversation)),
            Err(DialOutcome::TimedOut { .. } | DialOutcome::Silent { .. }) if budget.is_over() => {
                let why = "the time of the budget is over".to_owned();
                (DialOutcome::NotMade { why }, None)
            }
            Err(outcome) => (outcome, None),
        }
    }

    /// A connection from a privileged port over which nothing is sent. `None` if there was none, or
    /// the budget ended.
    pub(super) fn send_nothing(&self, budget: &Budget, to: SocketAddr) -> Option<Idle> {
        let begun = Instant::now();
        let socket = self.connect(budget, to, Source::Privileged, None).ok()?;
        let until = budget.until(IDLE + 2 * begun.elapsed());
        loop {
            match socket.readv(&mut [IoSliceMut::new(&mut [0])]) {
                IoOutcome::WouldBlock if !budget.is_past(until) => wait(&socket, false, until),
                IoOutcome::WouldBlock if budget.is_over() => return None,
                IoOutcome::WouldBlock | IoOutcome::Bytes(_) => {
                    let longest = |info: StreamInfo| {
                        info.segment_out + option_bytes(&info) + header_bytes(to.is_ipv6())
                    };
                    return Some(Idle::Open { packet: socket.info().ok().map(longest) });
                }
                IoOutcome::Closed | IoOutcome::Failed(_) => return Some(Idle::Closed),
            }
        }
    }

    fn connect(
        &self,
        budget: &Budget,
        to: SocketAddr,
        source: Source,
        segment_max: Option<u16>,
    ) -> Result<Socket, DialOutcome> {
        let options =
            SocketOptions { segment_max, keep_icmp_errors: true, ..SocketOptions::default() };
        let port = match source {
            Source::Privileged => SourcePort::Privileged,
            Source::Any => SourcePort::Any,
        };
        let socket = match Socket::connect(Some(self.local), port, to, &options) {
            Ok(socket) => socket,
            Err(ConnectError::Failed(error)) => return Err(failed(&error)),
            Err(other) => return Err(DialOutcome::NotMade { why: other.to_string() }),
        };
        let (begun, until) = (Instant::now(), budget.until(CONNECT));
        loop {
            match socket.connected() {
                Ok(true) => {
                    // It fails on a connection that is gone again, which shows at its next use.
                    let _ = socket.established();
                    return Ok(socket);
                }
                Ok(false) if budget.is_past(until) => {
                    return Err(DialOutcome::TimedOut { ms: elapsed_ms(begun) });
                }
                Ok(false) => wait(&socket, true, until),
                Err(error) => {
                    let rejected = socket.take_icmp_error().as_ref().and_then(rejected);
                    return Err(rejected.unwrap_or_else(|| failed(&error)));
                }
            }
        }
    }

    fn exchange(
        &self,
        budget: &mut Budget,
        socket: Socket,
        target: Nid,
        source: Source,
    ) -> Result<(DialOutcome, Conversation), DialOutcome> {
        let not_made = |why: String| DialOutcome::NotMade { why };
        let port = socket.local_addr().map_err(|error| not_made(error.to_string()))?.port();
        let pid = match source {
            Source::Privileged => PID_LUSTRE,
            Source::Any => PID_USERLAND | u32::from(port),
        };
        let own = ProcessId { nid: self.nid, pid };
        let short = target.to_short().is_some() && self.nid.to_short().is_some();
        let hello = Hello {
            version: if short { Version::V3 } else { Version::V4 },
            order: ByteOrder::Little,
            src: own,
            dst: ProcessId::lustre(target),
            src_incarnation: self.incarnation,
            dst_incarnation: 0,
            kind: ConnType::Control,
            ips: Ips::NONE,
        };
        let mut bytes = Vec::new();
        Request::new(target)
            .encode(&mut bytes)
            .and_then(|()| hello.encode(&mut bytes))
            .map_err(|error| not_made(error.to_string()))?;
        let mut conversation = Conversation {
            socket,
            version: hello.version,
            order: ByteOrder::Little,
            own,
            peer: target,
            received: Vec::new(),
            pings: 0,
        };
        let (begun, until) = (Instant::now(), budget.until(HELLO));
        if !conversation.send(budget, &bytes, until) {
            return Err(DialOutcome::Closed);
        }
        loop {
            match Hello::parse(&conversation.received) {
                Ok(Progress::Got(answer, _)) if answer.kind == ConnType::None => {
                    return Err(DialOutcome::NotNow);
                }
                Ok(Progress::Got(answer, len)) => {
                    conversation.received.drain(..len);
                    conversation.version = answer.version;
                    conversation.order = answer.order;
                    let outcome = DialOutcome::Hello {
                        nid: answer.src.nid.to_string(),
                        version: answer.version.number(),
                        incarnation: answer.src_incarnation,
                        wall_ns: Clock::Wall.now(),
                    };
                    return Ok((outcome, conversation));
                }
                Ok(Progress::Need(_)) => {}
                Err(_) => return Err(not_lnet(&conversation.received)),
            }
            match conversation.receive(budget, until) {
                Received::Bytes => {}
                Received::Ended if conversation.received.is_empty() => {
                    return Err(DialOutcome::Closed);
                }
                Received::Ended => return Err(not_lnet(&conversation.received)),
                Received::Nothing => return Err(DialOutcome::Silent { ms: elapsed_ms(begun) }),
            }
        }
    }
}

/// What a wait for bytes led to.
enum Received {
    Bytes,
    Nothing,
    Ended,
}

impl Conversation {
    /// Sends pings of the same moment, so many.
    pub(super) fn send_pings(&mut self, budget: &mut Budget, count: u32, until: Instant) -> bool {
        let mut bytes = Vec::new();
        for _ in 0..count {
            self.encode_ping(&mut bytes);
        }
        self.send(budget, &bytes, until)
    }

    /// Bytes that a ping takes, with its answer of a peer with one interface.
    pub(super) const PING_BYTES: u64 = 24 + 96 + 24 + 96 + 48;

    fn encode_ping(&mut self, out: &mut Vec<u8>) {
        let header = Header {
            dst: ProcessId::lustre(self.peer),
            src: self.own,
            payload_len: 0,
            body: Body::Get {
                return_md: MdHandle { interface: u64::from(self.own.pid), object: self.pings },
                match_bits: PING_MATCH_BITS,
                portal: PING_PORTAL,
                offset: 0,
                sink_len: SINK,
            },
        };
        self.pings += 1;
        if self.version != Version::V1 {
            out.extend(FrameHeader::LNET.encode(ByteOrder::Little));
        }
        match self.version.header_len() {
            Header::SHORT_LEN => {
                let mut raw = [0; Header::SHORT_LEN];
                // Both NIDs were in a HELLO of this version.
                if header.encode_short(&mut raw).is_ok() {
                    out.extend(raw);
                }
            }
            _ => {
                let mut raw = [0; Header::LONG_LEN];
                header.encode_long(&mut raw);
                out.extend(raw);
            }
        }
    }

    /// The payload of the next answer to a ping; `None` if there is none in time.
    pub(super) fn answer(&mut self, budget: &mut Budget, until: Instant) -> Option<Vec<u8>> {
        // A peer that always sends something else must not keep this waiting.
        while !budget.is_past(until) {
            match self.message() {
                Ok(Some((Body::Reply { .. }, payload))) => return Some(payload),
                // Requests of the peer are not answered here; it has other connections.
                Ok(Some(_)) => {}
                Ok(None) => match self.receive(budget, until) {
                    Received::Bytes => {}
                    Received::Nothing | Received::Ended => return None,
                },
                Err(Garbage) => return None,
            }
        }
        None
    }

    /// Takes a whole message from what has arrived.
    fn message(&mut self) -> Result<Option<(Body, Vec<u8>)>, Garbage> {
        let mut at = 0;
        loop {
            let frame_len = self.version.frame_len();
            let rest = &self.received[at..];
            if frame_len > 0 {
                let Some(raw) = rest.first_chunk::<{ FrameHeader::LEN }>() else { break };
                let frame = FrameHeader::parse(raw, self.order).map_err(|_| Garbage)?;
                if frame.kind == FrameKind::Noop {
                    at += frame_len;
                    continue;
                }
            }
            let rest = &rest[frame_len..];
            let (header, len) = match self.version.header_len() {
                Header::SHORT_LEN => match rest.first_chunk() {
                    Some(raw) => (Header::parse_short(raw), Header::SHORT_LEN),
                    None => break,
                },
                _ => match rest.first_chunk() {
                    Some(raw) => (Header::parse_long(raw), Header::LONG_LEN),
                    None => break,
                },
            };
            let header = header.map_err(|_| Garbage)?;
            let end = len + header.payload_len as usize;
            let Some(payload) = rest.get(len..end) else { break };
            let payload = payload.to_vec();
            self.received.drain(..at + frame_len + end);
            return Ok(Some((header.body, payload)));
        }
        self.received.drain(..at);
        Ok(None)
    }

    /// Whether the protocol of this connection has keepalives.
    pub(super) fn has_keepalives(&self) -> bool {
        self.version >= Version::V3
    }

    /// Sends about so many bytes of keepalives, which mean nothing. Returns how many were given to
    /// the kernel by then.
    pub(super) fn send_keepalives(
        &mut self,
        budget: &mut Budget,
        bytes: usize,
        until: Instant,
    ) -> usize {
        let frame = FrameHeader::KEEPALIVE.encode(ByteOrder::Little);
        let all = frame.repeat(bytes.div_ceil(frame.len()));
        self.send_some(budget, &all, until)
    }

    fn send(&mut self, budget: &mut Budget, bytes: &[u8], until: Instant) -> bool {
        self.send_some(budget, bytes, until) == bytes.len()
    }

    fn send_some(&mut self, budget: &mut Budget, bytes: &[u8], until: Instant) -> usize {
        let mut sent = 0;
        while sent < bytes.len() {
            match self.socket.writev(&[IoSlice::new(&bytes[sent..])]) {
                IoOutcome::Bytes(count) => sent += count,
                IoOutcome::WouldBlock if !budget.is_past(until) && !self.is_stuck() => {
                    wait(&self.socket, true, until.min(Instant::now() + STUCK));
                }
                _ => break,
            }
        }
        budget.count(sent);
        sent
    }

    /// Whether bytes wait although none is in flight, at several looks in a row.
    pub(super) fn is_stuck(&self) -> bool {
        (0..LOOKS).all(|look| {
            if look > 0 {
                std::thread::sleep(STUCK);
            }
            self.info().is_some_and(|info| info.in_flight == 0) && self.unacknowledged() > 0
        })
    }

    /// Nothing arrives any more when the budget is used up.
    fn receive(&mut self, budget: &mut Budget, until: Instant) -> Received {
        let mut chunk = vec![0; CHUNK];
        loop {
            if !budget.allows(1) {
                return Received::Nothing;
            }
            match self.socket.readv(&mut [IoSliceMut::new(&mut chunk)]) {
                IoOutcome::Bytes(count) => {
                    budget.count(count);
                    self.received.extend(&chunk[..count]);
                    return Received::Bytes;
                }
                IoOutcome::WouldBlock if !budget.is_past(until) => wait(&self.socket, false, until),
                IoOutcome::WouldBlock => return Received::Nothing,
                IoOutcome::Closed | IoOutcome::Failed(_) => return Received::Ended,
            }
        }
    }

    /// Waits until everything is acknowledged.
    pub(super) fn delivered(&self, budget: &Budget, until: Instant) -> bool {
        while self.unacknowledged() > 0 && !budget.is_past(until) {
            if self.is_stuck() {
                break;
            }
            std::thread::sleep(LOOK);
        }
        self.unacknowledged() == 0 && self.socket.take_error().is_ok()
    }

    /// Bytes that the peer's host has not acknowledged.
    pub(super) fn unacknowledged(&self) -> u64 {
        self.socket.unacknowledged().unwrap_or(0)
    }

    pub(super) fn info(&self) -> Option<StreamInfo> {
        self.socket.info().ok()
    }

    /// Ends it in order.
    pub(super) fn close(self) {
        let _ = self.socket.shutdown(Shutdown::Both);
    }

    /// Ends it at once, with what is in flight.
    pub(super) fn abort(self) {
        let _ = self.socket.abort_on_close();
    }
}

/// Bytes of TCP's options in each segment: time stamps.
pub(super) fn option_bytes(info: &StreamInfo) -> u32 {
    if info.timestamps { 12 } else { 0 }
}

/// The wait between two looks at what is in flight.
const LOOK: Duration = Duration::from_millis(2);
/// The same while nothing moves, and how many looks decide.
const STUCK: Duration = Duration::from_millis(100);
const LOOKS: u32 = 4;

/// The longest wait without a look at whether the user has ended it.
pub(super) const MOMENT: Duration = Duration::from_millis(100);

/// Bytes that are no message.
struct Garbage;

fn not_lnet(received: &[u8]) -> DialOutcome {
    let begins = String::from_utf8_lossy(received).chars().take(SHOWN).collect();
    DialOutcome::NotLnet { begins }
}

fn failed(error: &io::Error) -> DialOutcome {
    use io::ErrorKind as Kind;
    match error.kind() {
        Kind::ConnectionRefused => DialOutcome::Refused,
        Kind::TimedOut => DialOutcome::TimedOut { ms: CONNECT.as_millis() as u64 },
        // The peer closed it before this was looked at.
        Kind::ConnectionReset | Kind::ConnectionAborted | Kind::BrokenPipe => DialOutcome::Closed,
        Kind::HostUnreachable | Kind::NetworkUnreachable => {
            DialOutcome::Unreachable { why: error.to_string() }
        }
        // A route or a rule of this host.
        Kind::PermissionDenied => DialOutcome::Rejected { by: None, why: error.to_string() },
        _ => DialOutcome::NotMade { why: error.to_string() },
    }
}

/// What an ICMP message says, if it is that the connection is not permitted. A router that knows no
/// way says something else.
fn rejected(error: &IcmpError) -> Option<DialOutcome> {
    let IcmpError { from, is_v6, kind, code } = *error;
    let what = match (is_v6, kind, code) {
        // Firewalls that refuse say this by default: TCP itself would answer with a reset.
        (false, 3, 3) | (true, 1, 4) => "port unreachable",
        (false, 3, 2) => "protocol unreachable",
        (false, 3, 9 | 10 | 13) | (true, 1, 1) => "administratively prohibited",
        (true, 1, 5 | 6) => "refused by policy",
        _ => return None,
    };
    let why = format!("ICMP \"{what}\" (type {kind}, code {code})");
    Some(DialOutcome::Rejected { by: from.map(|from| from.to_string()), why })
}

fn elapsed_ms(begun: Instant) -> u64 {
    begun.elapsed().as_millis() as u64
}

/// Waits until a socket is ready, for a moment at most: a signal may have come meanwhile. An error
/// shows at its next use.
fn wait(socket: &Socket, write: bool, until: Instant) {
    let left = until.saturating_duration_since(Instant::now());
    let _ = wait_for_one(socket, write, left.clamp(Duration::from_millis(1), MOMENT));
}

#[cfg(test)]
mod tests;
