//! A capture from the point of view of one node.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use lustrine_capture::{Content, Direction, Event, Item, Start};
use lustrine_lnet::time::Nanos;
use lustrine_wire::header::{Body, MdHandle};
use lustrine_wire::srpc;

/// The side that did something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    /// The node that the Lustrine node replaces.
    Us,
    /// Any other node.
    Them,
}

/// An event of the capture that concerns the node.
#[derive(Debug)]
pub(crate) struct Step {
    /// The time since the first event of the capture.
    pub(crate) at: Nanos,
    pub(crate) by: By,
    /// Index in [`Conversation::streams`].
    pub(crate) stream: usize,
    pub(crate) event: Event,
    /// Which words of a bulk test's data are checked.
    pub(crate) check: Option<u32>,
}

#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) opener: SocketAddr,
    pub(crate) acceptor: SocketAddr,
    pub(crate) opened_by: By,
    /// None of them.
    pub(crate) refused: bool,
}

impl Stream {
    /// The other side's address.
    pub(crate) fn peer(&self) -> SocketAddr {
        match self.opened_by {
            By::Us => self.acceptor,
            By::Them => self.opener,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Conversation {
    pub(crate) streams: Vec<Stream>,
    pub(crate) steps: Vec<Step>,
}

impl Conversation {
    /// The events of a capture that concern the node with these addresses.
    ///
    /// # Errors
    /// Why the capture cannot be replayed.
    pub(crate) fn new(events: Vec<Event>, ours: &[IpAddr]) -> Result<Conversation, String> {
        let begin = events.first().map_or(0, |event| event.time_ns);
        let mut streams: Vec<Stream> = Vec::new();
        let mut numbers: HashMap<u32, usize> = HashMap::new();
        let mut steps = Vec::new();
        let mut checks = Checks::default();
        for event in events {
            let check = checks.look(&event);
            if let Item::Opened { opener, acceptor, start } = event.item {
                let opened_by = match (ours.contains(&opener.ip()), ours.contains(&acceptor.ip())) {
                    (true, false) => By::Us,
                    (false, true) => By::Them,
                    _ => continue,
                };
                if start == Start::MidStream {
                    return Err(format!("stream {} began before the capture", event.stream));
                }
                numbers.insert(event.stream, streams.len());
                streams.push(Stream { opener, acceptor, opened_by, refused: true });
            }
            let Some(index) = numbers.get(&event.stream).copied() else { continue };
            let stream = &mut streams[index];
            let by = match (event.direction, stream.opened_by) {
                (Direction::FromOpener, by) => by,
                (Direction::FromAcceptor, By::Us) => By::Them,
                (Direction::FromAcceptor, By::Them) => By::Us,
            };
            match event.item {
                Item::Gap { .. } => return Err("bytes are missing".to_owned()),
                Item::Opened { .. } | Item::Reset => {}
                _ => stream.refused = false,
            }
            let at = Nanos(event.time_ns - begin);
            steps.push(Step { at, by, stream: index, event, check });
        }
        Ok(Conversation { streams, steps })
    }
}

/// The check that applies to each bulk transfer.
#[derive(Debug, Default)]
struct Checks {
    by_bits: HashMap<u64, u32>,
    by_handle: HashMap<MdHandle, u64>,
}

impl Checks {
    fn look(&mut self, event: &Event) -> Option<u32> {
        let Item::Message(message) = &event.item else { return None };
        if let Content::Srpc(srpc::Message { body: srpc::Body::BrwRequest(brw), .. }) =
            message.content
        {
            self.by_bits.insert(brw.bulk_bits, brw.check);
        }
        match message.header.body {
            Body::Get { return_md, match_bits, .. } => {
                self.by_handle.insert(return_md, match_bits);
                None
            }
            Body::Put { match_bits, .. } => self.by_bits.get(&match_bits).copied(),
            Body::Reply { md } => self.by_bits.get(self.by_handle.get(&md)?).copied(),
            _ => None,
        }
    }
}
