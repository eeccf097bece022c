//! Plays the side of all other nodes of a capture to the Lustrine node, and compares its messages
//! with those of the captured node.
//!
//! The captured events are processed in order. What the others did is done at its time, with
//! identifiers translated, but never before the Lustrine node has sent everything that the captured
//! node had sent by then. Each message of the Lustrine node is matched with one of the captured
//! node on the same stream.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};

use lustrine_capture::{Direction, Event, Item};
use lustrine_lnet::time::{Nanos, Time};
use lustrine_sim::frames::{Framer, Side};
use lustrine_sim::{Script, ScriptIo};
use lustrine_socklnd::io::SockId;
use lustrine_wire::frame::ZcAck;

use super::capture::{Ear, describe};
use super::compare::{difference, is_data_only};
use super::conversation::{By, Conversation};
use super::names::Names;
use super::play::Allow;

/// How much later than the captured node the Lustrine node may act.
const PATIENCE: Nanos = Nanos::from_secs(3);

/// How much earlier than the captured node the Lustrine node may close a stream.
const HASTE: Nanos = Nanos::from_secs(2);

/// The same for a keepalive: nodes check their connections every few seconds.
const PATIENCE_KEEPALIVE: Nanos = Nanos::from_secs(10);

/// A stream of the capture that exists in the simulation too.
struct Live {
    sock: SockId,
    framer: Framer,
    ours: Side,
    /// The played side has closed its half, or the whole stream.
    left: bool,
    /// The end of the Lustrine node's side was seen.
    over: bool,
}

pub(crate) struct Player {
    conversation: Conversation,
    done: Vec<bool>,
    cursor: usize,
    live: Vec<Option<Live>>,
    ear: Ear,
    /// Streams by their number in the decoder's events.
    heard: HashMap<u32, usize>,
    names: Names,
    /// Zero-copy requests that were played and not acknowledged, by peer.
    owed: HashMap<IpAddr, HashSet<u64>>,
    allowed: &'static [(Allow, &'static str)],
    /// Which permitted differences occurred.
    used: HashSet<Allow>,
    begin: Option<Time>,
    /// Since when the cursor waits for the Lustrine node.
    waits_since: Option<Time>,
    wake: Time,
    incarnations: HashSet<u64>,
    /// Streams that the captured node closed and the Lustrine node kept.
    kept: HashSet<usize>,
    /// The number of restarts of the node.
    pub(crate) restarts: usize,
    pub(crate) trouble: Vec<String>,
    pub(crate) finished: bool,
    /// Messages and handshakes compared.
    pub(crate) compared: usize,
}

impl Player {
    pub(crate) fn new(
        conversation: Conversation,
        allowed: &'static [(Allow, &'static str)],
    ) -> Player {
        let live = conversation.streams.iter().map(|_| None).collect();
        let done = vec![false; conversation.steps.len()];
        Player {
            conversation,
            done,
            cursor: 0,
            live,
            ear: Ear::default(),
            heard: HashMap::new(),
            names: Names::default(),
            owed: HashMap::new(),
            allowed,
            used: HashSet::new(),
            begin: None,
            waits_since: None,
            wake: Time::NEVER,
            incarnations: HashSet::new(),
            kept: HashSet::new(),
            restarts: 0,
            trouble: Vec::new(),
            finished: false,
            compared: 0,
        }
    }

    /// Addresses of all nodes that are played.
    pub(crate) fn addresses(&self) -> Vec<IpAddr> {
        let mut all: Vec<IpAddr> =
            self.conversation.streams.iter().map(|stream| stream.peer().ip()).collect();
        all.sort();
        all.dedup();
        all
    }

    /// Differences that the table permits and that did not occur.
    pub(crate) fn unused(&self) -> Vec<Allow> {
        let allowed = self.allowed.iter().map(|(allow, _)| *allow);
        allowed.filter(|allow| !self.used.contains(allow)).collect()
    }

    /// Whether the table permits a difference, which is then marked as used.
    pub(crate) fn allows(&mut self, allow: Allow) -> bool {
        let allowed = self.allowed.iter().any(|(other, _)| *other == allow);
        if allowed {
            self.used.insert(allow);
        }
        allowed
    }

    fn report(&mut self, now: Time, what: String) {
        let at = self.begin.map_or(Nanos(0), |begin| now.since(begin));
        self.trouble.push(format!("{:.6} {what}", at.as_secs_f64()));
    }

    /// Accepts streams where the captured node found a listener.
    fn start(&mut self, io: &mut ScriptIo<'_>) {
        self.begin = Some(io.now());
        let mut doors: BTreeMap<SocketAddr, bool> = BTreeMap::new();
        for stream in self.conversation.streams.iter().filter(|s| s.opened_by == By::Us) {
            *doors.entry(stream.acceptor).or_default() |= !stream.refused;
        }
        for (address, _) in doors.into_iter().filter(|(_, open)| *open) {
            io.listen(address);
        }
    }

    /// The Lustrine node dialled.
    fn accept(&mut self, io: &mut ScriptIo<'_>) {
        while let Some(incoming) = io.next_incoming() {
            let streams = self.conversation.streams.iter().enumerate();
            let mut free = streams.filter(|(index, stream)| {
                stream.opened_by == By::Us
                    && stream.acceptor == incoming.local
                    && !stream.refused
                    && self.live[*index].is_none()
            });
            let Some((index, _)) = free.next() else {
                if !self.allows(Allow::ExtraConnection) {
                    self.report(io.now(), format!("dialled {} once more", incoming.local));
                }
                io.reset(incoming.sock);
                continue;
            };
            let (number, framer) = self.ear.open(incoming.remote, incoming.local);
            self.heard.insert(number, index);
            let sock = incoming.sock;
            let live = Live { sock, framer, ours: Side::Dialler, left: false, over: false };
            self.live[index] = Some(live);
            self.mark(index, |item| matches!(item, Item::Opened { .. }));
        }
    }

    /// Marks the first matching step of the Lustrine node on a stream as done. Returns when the
    /// captured node did it.
    fn mark(&mut self, stream: usize, fits: impl Fn(&Item) -> bool) -> Option<Nanos> {
        let found = (0..self.done.len()).find(|index| {
            let step = &self.conversation.steps[*index];
            !self.done[*index]
                && step.by == By::Us
                && step.stream == stream
                && fits(&step.event.item)
        });
        let index = found?;
        self.done[index] = true;
        Some(self.conversation.steps[index].at)
    }

    fn listen(&mut self, io: &mut ScriptIo<'_>) {
        while let Some((sock, _)) = io.next_report() {
            let place = self
                .live
                .iter()
                .position(|live| live.as_ref().is_some_and(|live| live.sock == sock));
            let Some(index) = place else { continue };
            let bytes = io.read(sock);
            if !bytes.is_empty() {
                let Some(live) = &mut self.live[index] else { continue };
                let (framer, side) = (&mut live.framer, live.ours);
                let events = self.ear.hear(io.now().0, |out| framer.say(side, &bytes, out));
                for event in events {
                    self.said(io.now(), index, &event);
                }
            }
            if io.ended(sock).is_some() {
                self.closed(io, index);
            }
        }
    }

    /// The Lustrine node closed a stream.
    fn closed(&mut self, io: &mut ScriptIo<'_>, index: usize) {
        let Some(live) = &mut self.live[index] else { return };
        if core::mem::replace(&mut live.over, true) {
            return;
        }
        let (sock, left) = (live.sock, live.left);
        let mut expected = None;
        while let Some(at) = self.mark(index, |item| matches!(item, Item::Fin | Item::Reset)) {
            expected.get_or_insert(at);
        }
        let begin = self.begin.expect("it was started");
        if expected.is_some_and(|at| io.now() + HASTE < begin + at) && !self.allows(Allow::Hasty) {
            self.report(io.now(), format!("closed stream {index} too early"));
        }
        let kept = self.kept.contains(&index);
        if expected.is_none() && !left && !kept && !self.allows(Allow::Closes) {
            self.report(io.now(), format!("closed stream {index}, which the kernel kept"));
        }
        io.close(sock);
    }

    /// The Lustrine node sent something.
    fn said(&mut self, now: Time, stream: usize, event: &Event) {
        let from_us = match self.conversation.streams[stream].opened_by {
            By::Us => Direction::FromOpener,
            By::Them => Direction::FromAcceptor,
        };
        if event.direction != from_us {
            return;
        }
        if let Item::Hello(hello) = &event.item {
            self.incarnations.insert(hello.src_incarnation);
        }
        if let Item::Undecoded(why) = &event.item {
            return self.report(now, format!("said what cannot be decoded: {why}"));
        }
        let peer = self.conversation.streams[stream].peer().ip();
        if let Item::Noop(noop) = &event.item {
            return self.acknowledged(now, peer, noop.frame.acknowledged().expect("a good NOOP"));
        }
        if let Item::Message(message) = &event.item
            && let Some(frame) = message.frame
            && frame.zc_ack != 0
        {
            self.acknowledged(now, peer, ZcAck::One(frame.zc_ack));
        }
        self.matched(now, stream, event);
    }

    fn matched(&mut self, now: Time, stream: usize, event: &Event) {
        let mut first = None;
        let mut found = None;
        let mut damaged = None;
        for (index, step) in self.conversation.steps.iter().enumerate() {
            let comparable = !matches!(step.event.item, Item::Noop(_) | Item::Fin | Item::Reset);
            if self.done[index] || step.by != By::Us || step.stream != stream || !comparable {
                continue;
            }
            match difference(step, event) {
                None => {
                    found = Some(index);
                    break;
                }
                Some(difference) => {
                    if is_data_only(&difference) {
                        damaged.get_or_insert(index);
                    }
                    first.get_or_insert((index, difference));
                }
            }
        }
        if found.is_none() && damaged.is_some() && self.allows(Allow::Data) {
            found = damaged;
        }
        if found.is_none() {
            found = self.elsewhere(stream, event);
        }
        let Some(index) = found else {
            return self.unmatched(now, first, event);
        };
        if let Some((missed, difference)) = first
            && missed < index
            && !self.allows(Allow::ByteOrder)
        {
            let expected = describe(&self.conversation.steps[missed].event);
            self.report(now, format!("{} before {expected} ({difference})", describe(event)));
        }
        self.compared += 1;
        self.done[index] = true;
        let step = &self.conversation.steps[index];
        if let (Item::Message(theirs), Item::Message(ours)) = (&step.event.item, &event.item) {
            let peer = self.conversation.streams[step.stream].peer().ip();
            self.names.learn(peer, theirs, ours);
        }
    }

    /// The counterpart on another stream to the same peer, if that is permitted.
    fn elsewhere(&mut self, stream: usize, event: &Event) -> Option<usize> {
        let peer = self.conversation.streams[stream].peer().ip();
        let steps = self.conversation.steps.iter().enumerate();
        let mut fitting = steps.filter(|(index, step)| {
            !self.done[*index]
                && step.by == By::Us
                && self.conversation.streams[step.stream].peer().ip() == peer
                && matches!(step.event.item, Item::Message(_))
                && difference(step, event).is_none()
        });
        let index = fitting.next()?.0;
        self.allows(Allow::OtherStream).then_some(index)
    }

    fn unmatched(&mut self, now: Time, first: Option<(usize, String)>, event: &Event) {
        if self.allows(Allow::Extra) {
            return;
        }
        let why = match first {
            Some((index, difference)) => {
                let expected = describe(&self.conversation.steps[index].event);
                format!("\n    instead of {expected}\n    {difference}")
            }
            None => " when the kernel said no more".to_owned(),
        };
        self.report(now, format!("said {}{why}", describe(event)));
        self.finished |= self.trouble.len() > 5;
    }

    /// The Lustrine node acknowledged zero-copy requests, or sent a keepalive.
    fn acknowledged(&mut self, now: Time, peer: IpAddr, ack: ZcAck) {
        if ack == ZcAck::Keepalive {
            let keepalive = |item: &Item| matches!(item, Item::Noop(noop) if is_keepalive(noop));
            let streams = 0..self.live.len();
            let mut of_peer: Vec<usize> = streams
                .filter(|index| self.conversation.streams[*index].peer().ip() == peer)
                .collect();
            of_peer.retain(|stream| self.mark(*stream, keepalive).is_some());
            if of_peer.is_empty() && !self.allows(Allow::Keepalives) {
                self.report(now, "said a keepalive more than the kernel".to_owned());
            }
            return;
        }
        let owed = self.owed.entry(peer).or_default();
        let covered: Vec<u64> =
            owed.iter().filter(|cookie| ack.covers(**cookie)).copied().collect();
        covered.iter().for_each(|cookie| _ = owed.remove(cookie));
        if covered.len() as u64 != ack.count() {
            self.report(now, format!("acknowledged {ack:?}, which was not requested"));
        }
    }

    /// Acknowledgements are compared as a set: those that the captured node sent up to here are
    /// due.
    fn is_acknowledged(&self, index: usize) -> bool {
        let step = &self.conversation.steps[index];
        let Item::Noop(noop) = &step.event.item else { return false };
        let Ok(ack) = noop.frame.acknowledged() else { return false };
        let peer = self.conversation.streams[step.stream].peer().ip();
        let owed = self.owed.get(&peer);
        ack != ZcAck::Keepalive
            && owed.is_none_or(|owed| !owed.iter().any(|cookie| ack.covers(*cookie)))
    }

    /// Continues as far as possible.
    fn speak(&mut self, io: &mut ScriptIo<'_>) {
        let begin = self.begin.expect("it was started");
        self.wake = Time::NEVER;
        while let Some(step) = self.conversation.steps.get(self.cursor) {
            let due = begin + step.at;
            if step.by == By::Us {
                if self.done[self.cursor]
                    || self.is_acknowledged(self.cursor)
                    || self.conversation.streams[step.stream].refused
                {
                    self.next();
                    continue;
                }
                let since = *self.waits_since.get_or_insert(io.now().max(due));
                let patience = match &step.event.item {
                    Item::Noop(noop) if is_keepalive(noop) => PATIENCE_KEEPALIVE,
                    _ => PATIENCE,
                };
                if io.now() < since + patience {
                    self.wake = since + patience;
                    return;
                }
                if !self.give_up(io.now()) {
                    return;
                }
                continue;
            }
            if io.now() < due {
                self.wake = due;
                return;
            }
            if !self.play(io) {
                return;
            }
            self.next();
        }
        self.finished = true;
    }

    fn next(&mut self) {
        self.cursor += 1;
        self.waits_since = None;
    }

    /// The Lustrine node does not do what the captured one did. Returns whether to continue.
    fn give_up(&mut self, now: Time) -> bool {
        let step = &self.conversation.steps[self.cursor];
        let allow = match &step.event.item {
            Item::Noop(noop) if is_keepalive(noop) => Allow::Keepalives,
            Item::Fin | Item::Reset => Allow::StaysOpen,
            _ => Allow::Missing,
        };
        let (expected, stream) = (describe(&step.event), step.stream);
        if self.allows(allow) {
            if allow == Allow::StaysOpen {
                self.kept.insert(stream);
            }
            self.done[self.cursor] = true;
            self.next();
            return true;
        }
        self.report(now, format!("did not say {expected}"));
        self.finished = true;
        false
    }

    /// Does what another node did. `false`: not possible yet.
    fn play(&mut self, io: &mut ScriptIo<'_>) -> bool {
        let step = &self.conversation.steps[self.cursor];
        let index = step.stream;
        let stream = &self.conversation.streams[index];
        if let Item::Opened { opener, acceptor, .. } = step.event.item {
            let (number, framer) = self.ear.open(opener, acceptor);
            self.heard.insert(number, index);
            let sock = io.dial(opener, acceptor);
            let live = Live { sock, framer, ours: Side::Listener, left: false, over: false };
            self.live[index] = Some(live);
            return true;
        }
        if stream.refused {
            return true;
        }
        let peer = stream.peer().ip();
        let Some(live) = &mut self.live[index] else { return false };
        let theirs = match live.ours {
            Side::Dialler => Side::Listener,
            Side::Listener => Side::Dialler,
        };
        if live.over {
            // The Lustrine node closed the stream earlier.
            return true;
        }
        if theirs == Side::Dialler && io.connected(live.sock).is_err() {
            return false;
        }
        let framer = &mut live.framer;
        match step.event.item {
            Item::Fin => {
                live.left = true;
                io.finish(live.sock);
                self.ear.hear(io.now().0, |out| framer.finish(theirs, out));
            }
            Item::Reset => {
                live.left = true;
                live.over = true;
                io.reset(live.sock);
                self.ear.hear(io.now().0, |out| framer.reset(theirs, out));
            }
            _ => {
                let bytes = self.names.translate(peer, &step.event);
                let written = io.write(live.sock, &bytes);
                assert_eq!(written, bytes.len(), "the window is wide");
                self.ear.hear(io.now().0, |out| framer.say(theirs, &bytes, out));
            }
        }
        if let Item::Message(message) = &step.event.item
            && let Some(frame) = message.frame
            && frame.zc_request != 0
        {
            self.owed.entry(peer).or_default().insert(frame.zc_request);
        }
        true
    }

    /// The remaining differences at the end.
    pub(crate) fn verdict(&mut self) -> Vec<String> {
        let stays_open = self.allowed.iter().any(|(allow, _)| *allow == Allow::StaysOpen);
        let left = self.conversation.steps.iter().enumerate().filter(|(index, step)| {
            step.by == By::Us
                && !self.done[*index]
                && !self.conversation.streams[step.stream].refused
                && match step.event.item {
                    Item::Noop(_) => false,
                    Item::Fin | Item::Reset => !stays_open,
                    _ => true,
                }
        });
        let mut wrong: Vec<String> =
            left.map(|(_, step)| format!("never said {}", describe(&step.event))).collect();
        if self.incarnations.len() > 1 + self.restarts {
            wrong.push(format!("had several incarnations: {:?}", self.incarnations));
        }
        if !self.trouble.is_empty() && wrong.len() > 1 {
            // Consequences of earlier differences are not reported.
            wrong = vec![format!("and {} more were never said", wrong.len())];
        }
        wrong.splice(0..0, self.trouble.drain(..));
        wrong
    }
}

fn is_keepalive(noop: &lustrine_capture::Noop) -> bool {
    noop.frame.acknowledged() == Ok(ZcAck::Keepalive)
}

impl Script for Player {
    fn act(&mut self, io: &mut ScriptIo<'_>) {
        if self.begin.is_none() {
            self.start(io);
        }
        self.accept(io);
        self.listen(io);
        if !self.finished {
            self.speak(io);
        }
    }

    fn alarm(&self) -> Time {
        self.wake
    }
}
