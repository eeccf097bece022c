//! What ICMP shows of a peer: whether its host is up, how far it is, where its answers arrive, and
//! what its clock says.

use std::io;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use lustrine_doctor::{FullEcho, IcmpAnswer, IcmpMessage, IcmpQuestion, IcmpView, hops_of_ttl};
use lustrine_sys::icmp::IcmpSocket;
use lustrine_sys::{Clock, Route};

use super::budget::Budget;
use super::conversation::MOMENT;

/// Bytes of payload of an echo: small enough for every path.
const PAYLOAD: usize = 8;
/// Bytes of a message with its IP header.
const BYTES: u64 = 40;
const ECHOS: u16 = 3;
const CLOCKS: u16 = 3;
const HOPS_MAX: u8 = 30;
/// How often a smaller number of hops is tried: packets may be lost.
const HOP_TRIES: u16 = 3;
/// How long an answer may take, beside the round trip.
const ANSWER: Duration = Duration::from_secs(1);
const TTL: u8 = 64;
/// Bytes of the headers of IPv4 and of an ICMP echo, and the longest packet.
const HEADER: usize = 20;
const ICMP_HEADER: usize = 8;
const PACKET_MAX: u32 = 65_535;
/// How many routers, each with a smaller MTU than the one before it, may say so.
const ROUTERS_MAX: u32 = 8;

/// Messages of a look, questions and answers, and their bytes.
pub(super) const MESSAGES: u64 = 2 * (ECHOS as u64 + HOPS_MAX as u64 + CLOCKS as u64);
pub(super) const BYTES_OF_LOOK: u64 = MESSAGES * BYTES;

/// Questions of one run, and the answers to them.
struct Questions<'a> {
    socket: IcmpSocket,
    budget: &'a mut Budget,
    to: Ipv4Addr,
    id: u16,
    sequence: u16,
    /// The longest round trip so far.
    rtt: Duration,
}

/// An answer with what belongs to it.
struct Arrived {
    answer: IcmpAnswer,
    interface: Option<String>,
}

/// Asks; an error is why this process may not. `full`: bytes of packets that no router
/// may divide, if such echoes are wanted.
pub(super) fn look(
    budget: &mut Budget,
    to: Ipv4Addr,
    full: Option<u32>,
) -> Result<IcmpView, String> {
    let socket = IcmpSocket::open().map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => "needs root or CAP_NET_RAW".to_owned(),
        _ => error.to_string(),
    })?;
    let id = std::process::id() as u16;
    let mut questions = Questions { socket, budget, to, id, sequence: 0, rtt: Duration::ZERO };
    let mut view = IcmpView::default();
    for _ in 0..ECHOS {
        view.asked += 1;
        let Some(arrived) = questions.echo(TTL) else { continue };
        view.answers += 1;
        view.hops_back = Some(hops_of_ttl(arrived.answer.ttl));
        view.arrived_at = arrived.interface;
    }
    if view.answers > 0 {
        view.hops_out = questions.hops();
        view.clock_ms = questions.clock();
        view.full = full.and_then(|bytes| questions.full(bytes));
    }
    Ok(view)
}

fn since_midnight_ms() -> u32 {
    (Clock::Wall.now() / 1_000_000 % 86_400_000) as u32
}

impl Questions<'_> {
    fn send(&mut self, question: &IcmpQuestion, ttl: u8) -> bool {
        let bytes = question.encode();
        let most = BYTES.max((bytes.len() + HEADER) as u64);
        let sent = self.budget.allows(2 * most) && self.socket.send(&bytes, self.to, ttl).is_ok();
        if sent {
            self.budget.count(bytes.len());
        }
        sent
    }

    fn next(&mut self) -> u16 {
        self.sequence = self.sequence.wrapping_add(1);
        self.sequence
    }

    /// The next answer of the peer to this process for which `is` holds.
    fn answer(&mut self, is: impl Fn(&IcmpMessage) -> bool) -> Option<Arrived> {
        let begun = Instant::now();
        let until = self.budget.until(ANSWER + 2 * self.rtt);
        loop {
            // Packets of others may arrive without end.
            if self.budget.is_past(until) {
                return None;
            }
            let left = until.saturating_duration_since(Instant::now()).min(MOMENT);
            let Ok(Some(packet)) = self.socket.receive() else {
                self.socket.wait(left).ok()?;
                continue;
            };
            let Some(answer) = IcmpAnswer::parse(&packet.bytes) else { continue };
            if answer.from == self.to && is(&answer.message) {
                self.budget.count(packet.bytes.len());
                self.rtt = self.rtt.max(begun.elapsed());
                return Some(Arrived { answer, interface: packet.interface });
            }
        }
    }

    fn echo(&mut self, ttl: u8) -> Option<Arrived> {
        self.echo_of(PAYLOAD, ttl)?
    }

    /// The answer to an echo with this payload; the outer `None` if none could be sent.
    fn echo_of(&mut self, payload: usize, ttl: u8) -> Option<Option<Arrived>> {
        let (id, sequence) = (self.id, self.next());
        let question = IcmpQuestion::Echo { id, sequence, payload };
        self.send(&question, ttl).then_some(())?;
        Some(self.answer(|message| *message == IcmpMessage::Echo { id, sequence }))
    }

    /// Echoes in packets of this length or, where routers say that the path takes less, of the
    /// length that they say. `None` when small ones are not answered after them either, as where
    /// their number is limited.
    fn full(&mut self, bytes: u32) -> Option<FullEcho> {
        let mut bytes = bytes.min(PACKET_MAX);
        for _ in 0..ROUTERS_MAX {
            if let Some(full) = self.full_of(bytes) {
                return Some(full);
            }
            let path_mtu = Route::to(self.to.into(), None).ok()?.mtu;
            bytes = path_mtu.filter(|path_mtu| *path_mtu < bytes)?;
        }
        None
    }

    /// As [`Questions::full`]; `None` also once the kernel knows that the path takes less, because
    /// a router has said so: TCP has heard it too.
    fn full_of(&mut self, bytes: u32) -> Option<FullEcho> {
        let payload = (bytes as usize).checked_sub(HEADER + ICMP_HEADER)?;
        let mut full = FullEcho { bytes, asked: 0, is_answered: false };
        while full.asked < u32::from(ECHOS) && !full.is_answered {
            let answer = self.echo_of(payload, TTL)?;
            full.asked += 1;
            full.is_answered = answer.is_some();
        }
        if full.is_answered {
            return Some(full);
        }
        let small = (0..ECHOS).any(|_| self.echo(TTL).is_some());
        // It was the budget that ended, or a router's message came after the last one.
        let is_lost = small && !self.budget.was_exceeded() && self.is_sent(payload);
        is_lost.then_some(full)
    }

    /// Whether the kernel still sends packets of this payload.
    fn is_sent(&mut self, payload: usize) -> bool {
        let (id, sequence) = (self.id, self.next());
        self.send(&IcmpQuestion::Echo { id, sequence, payload }, TTL)
    }

    /// The smallest TTL with which echoes are answered. All are sent at once, then smaller ones
    /// again, because an answer may have been lost.
    fn hops(&mut self) -> Option<u8> {
        let (id, first) = (self.id, self.sequence);
        for ttl in 1..=HOPS_MAX {
            let sequence = self.next();
            if !self.send(&IcmpQuestion::Echo { id, sequence, payload: PAYLOAD }, ttl) {
                return None;
            }
        }
        let range = first.wrapping_add(1)..=self.sequence;
        let of_these = |message: &IcmpMessage| match message {
            IcmpMessage::Echo { id: of, sequence } => *of == id && range.contains(sequence),
            _ => false,
        };
        let mut least = HOPS_MAX + 1;
        // No more answers than questions.
        for _ in 0..HOPS_MAX {
            let Some(arrived) = self.answer(of_these) else { break };
            if let IcmpMessage::Echo { sequence, .. } = arrived.answer.message {
                let ttl = u8::try_from(sequence.wrapping_sub(first)).unwrap_or(HOPS_MAX);
                least = least.min(ttl);
                // The others follow at once, if they come at all.
                if ttl == HOPS_MAX {
                    break;
                }
            }
        }
        while (2..=HOPS_MAX).contains(&least)
            && (0..HOP_TRIES).any(|_| self.echo(least - 1).is_some())
        {
            least -= 1;
        }
        (least <= HOPS_MAX).then_some(least)
    }

    /// The peer's clock minus this host's, and how far that may be off, in milliseconds: of a few
    /// answers, that with the shortest round trip.
    fn clock(&mut self) -> Option<(i64, u64)> {
        let mut best: Option<(i64, u64)> = None;
        for _ in 0..CLOCKS {
            let (id, sequence, begun) = (self.id, self.next(), Instant::now());
            let question = IcmpQuestion::Clock { id, sequence, now_ms: since_midnight_ms() };
            if !self.send(&question, TTL) {
                break;
            }
            let is = |message: &IcmpMessage| {
                let IcmpMessage::Clock { id: of, sequence: number, .. } = message else {
                    return false;
                };
                (*of, *number) == (id, sequence)
            };
            let Some(arrived) = self.answer(is) else { break };
            let off = begun.elapsed().as_millis() as u64 + 1;
            let difference = arrived.answer.message.clock_difference(since_midnight_ms());
            if let Some(difference) = difference
                && best.is_none_or(|(_, least)| off < least)
            {
                best = Some((difference, off));
            }
        }
        best
    }
}
