//! The pings of a sample, from a thread of their own for each peer.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use lustrine_control::{Answer, Request};
use lustrine_node::{NodeHandle, control};
use lustrine_sys::Clock;
use lustrine_wire::nid::Nid;

use super::slots::{Last, Slots};

/// The longest wait between two pings of a sample.
const GAP_MAX: Duration = Duration::from_millis(200);
/// So many lost pings without an answer before end a sample.
const LOST_MAX: u32 = 3;
/// Attempts to discover a peer with a new node, and the wait between them: the peer may still be
/// ending the connections of the one before.
const DISCOVERIES: u32 = 4;
const DISCOVERY_GAP: Duration = Duration::from_secs(1);

/// Asks a node.
#[derive(Clone)]
pub(super) enum Asker {
    /// The running one, at its control socket, which has so many slots.
    Running(PathBuf, Arc<Slots>),
    /// One of this process.
    Own(NodeHandle),
}

/// Why there was no answer.
pub(super) enum NoAnswer {
    /// The peer did not answer.
    Peer(String),
    /// The node did not.
    Node(String),
}

impl Asker {
    fn slots(&self) -> Option<&Slots> {
        match self {
            Asker::Running(_, slots) => Some(slots),
            Asker::Own(_) => None,
        }
    }

    fn ask(&self, request: &Request) -> Result<Answer, NoAnswer> {
        let answer = match self {
            Asker::Running(path, _) => {
                control::ask(path, request).map_err(|error| NoAnswer::Node(error.to_string()))?
            }
            Asker::Own(node) => node.call(request),
        };
        match answer {
            Answer::Error { message, .. } => Err(NoAnswer::Peer(message)),
            answer => Ok(answer),
        }
    }
}

/// What is sent before the pings that count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum First {
    /// Nothing: there is a connection, as far as is known.
    Nothing,
    /// A ping: the peer did not answer last.
    Ping,
    /// The discovery of the peer by a node of this process that is new.
    Discovery,
}

/// How a peer is pinged.
#[derive(Clone)]
pub(super) struct Wanted {
    pub(super) asker: Asker,
    pub(super) nid: Nid,
    pub(super) count: u32,
    pub(super) timeout: Duration,
    /// Time between two samples.
    pub(super) every: Duration,
    /// What makes a connection before: that is no part of a round trip.
    pub(super) first: First,
    /// Set when the program ends.
    pub(super) stopped: Arc<AtomicBool>,
}

/// What came of the pings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Pinged {
    /// When the first one was sent: milliseconds since 1970.
    pub(super) at_ms: u64,
    /// Round trips in nanoseconds.
    pub(super) times: Vec<u64>,
    /// Those that were tried, and those of them without an answer.
    pub(super) sent: u32,
    pub(super) lost: u32,
    /// Why the last one was lost.
    pub(super) why: String,
    /// Why the node did not send the rest.
    pub(super) node_failed: Option<String>,
}

/// Why there is no sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NoSample {
    /// The program ends.
    Stopped,
    /// The node does not answer.
    Node(String),
    /// Others had the slots at the node.
    NoSlot,
}

/// The wall clock in milliseconds since 1970.
pub(super) fn wall_ms() -> u64 {
    Clock::Wall.now() / 1_000_000
}

impl Pinged {
    /// Pings that could not be sent, for this reason.
    pub(super) fn unsent(count: u32, why: &str) -> Pinged {
        let lost = count.min(LOST_MAX);
        let at_ms = wall_ms();
        let times = Vec::new();
        Pinged { at_ms, times, sent: lost, lost, why: why.to_owned(), node_failed: None }
    }
}

impl Wanted {
    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    fn request(&self) -> Request {
        let timeout_ms = u64::try_from(self.timeout.as_millis()).unwrap_or(u64::MAX);
        Request::Ping { nid: self.nid, timeout_ms }
    }

    /// When a sample whose pings begin now takes no further ones.
    fn late(&self) -> Instant {
        Instant::now() + self.every / 2 + self.timeout
    }

    /// Sends a ping once there is a slot: when it was sent, and its answer.
    fn ping(
        &self,
        last: Last,
        until: Instant,
    ) -> Result<(u64, Result<Answer, NoAnswer>), NoSample> {
        let none = || if self.is_stopped() { NoSample::Stopped } else { NoSample::NoSlot };
        let slot = self.asker.slots().map(|slots| slots.take(last, until, &self.stopped));
        let _slot = slot.map(|slot| slot.ok_or_else(none)).transpose()?;
        Ok((wall_ms(), self.asker.ask(&self.request())))
    }

    /// Pings the peer. The pings are spread over a part of the interval, and end in half of it.
    pub(super) fn pings(&self) -> Result<Pinged, NoSample> {
        let gap = (self.every / 2 / self.count.max(1)).min(GAP_MAX);
        let mut last = Last::Answered;
        match self.first {
            First::Nothing => {}
            First::Ping => {
                // Whatever comes of it, the next one shows.
                let (_, answer) = self.ping(Last::Silent, self.late())?;
                last = if answer.is_ok() { Last::Answered } else { Last::Silent };
            }
            First::Discovery => self.discover(),
        }
        let late = self.late();
        let mut pinged = Pinged { at_ms: wall_ms(), ..Pinged::default() };
        for number in 0..self.count {
            if number > 0 {
                thread::sleep(gap);
            }
            if self.is_stopped() {
                return Err(NoSample::Stopped);
            }
            let is_silent = pinged.times.is_empty() && pinged.lost >= LOST_MAX;
            if Instant::now() > late || is_silent {
                break;
            }
            let (at_ms, answer) = match self.ping(last, late) {
                Ok(asked) => asked,
                // What was measured so far counts.
                Err(NoSample::NoSlot) if pinged.sent > 0 => break,
                Err(why) => return Err(why),
            };
            if pinged.sent == 0 {
                pinged.at_ms = at_ms;
            }
            match answer {
                Ok(Answer::Ping { rtt_us, .. }) => {
                    pinged.times.push((rtt_us * 1e3) as u64);
                    last = Last::Answered;
                }
                Ok(_) => return Err(NoSample::Node("it gave another answer".to_owned())),
                // What was measured so far counts.
                Err(NoAnswer::Node(why)) if !pinged.times.is_empty() => {
                    pinged.node_failed = Some(why);
                    break;
                }
                Err(NoAnswer::Node(why)) => return Err(NoSample::Node(why)),
                Err(NoAnswer::Peer(why)) => {
                    pinged.lost += 1;
                    pinged.why = why;
                    last = Last::Silent;
                }
            }
            pinged.sent += 1;
        }
        // A ping may have waited while the program got a signal to end.
        if self.is_stopped() { Err(NoSample::Stopped) } else { Ok(pinged) }
    }

    /// Makes the connection of a new node.
    fn discover(&self) {
        let timeout_ms = u64::try_from(self.timeout.as_millis()).unwrap_or(u64::MAX);
        let request = Request::Discover { nid: self.nid, timeout_ms };
        for attempt in 0..DISCOVERIES {
            if attempt > 0 {
                thread::sleep(DISCOVERY_GAP);
            }
            if self.is_stopped() || self.asker.ask(&request).is_ok() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests;
