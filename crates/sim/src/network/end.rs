//! A connection and its two ends.

use core::net::SocketAddr;
use std::collections::VecDeque;

use lustrine_lnet::memory::Span;
use lustrine_lnet::time::Time;
use lustrine_socklnd::io::{IoError, Readiness};

use super::HostId;
use super::flow::Flow;
use crate::memory::Rope;

/// An item in flight to an end.
#[derive(Debug)]
pub(super) enum Packet {
    /// The dial was answered.
    Established,
    /// The dial failed.
    Failed(IoError),
    Bytes(Rope),
    /// The other side closed its half.
    Fin,
    /// The other side reset the stream.
    Reset,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// The answer to the dial has not arrived.
    Dialling,
    Open,
    /// It has no owner any more.
    Closed,
}

/// A piece of memory that was written without copying, and its digest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lent {
    pub(crate) span: Span,
    pub(crate) digest: u64,
}

/// A write without copying whose memory is in use until the other host has its bytes.
#[derive(Debug)]
pub(super) struct Pin {
    /// Where in the stream its bytes end.
    pub(super) end: u64,
    pub(super) lent: Vec<Lent>,
}

/// Reports that are pending for an end, and the memory that the network has released.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) readiness: Readiness,
    pub(crate) returned: Vec<Lent>,
}

#[derive(Debug)]
pub(super) struct End {
    pub(super) host: HostId,
    /// The partition of the host's node that owns it.
    pub(super) cpt: u16,
    pub(super) local: SocketAddr,
    pub(super) remote: SocketAddr,
    pub(super) state: State,
    /// Why it cannot be used.
    pub(super) error: Option<IoError>,
    /// Bytes that can be read.
    pub(super) inbox: Rope,
    /// Total number of bytes that arrived.
    pub(super) arrived: u64,
    /// The other side has closed its half: nothing follows the inbox.
    pub(super) ended: bool,
    /// Items in flight to this end, in order.
    pub(super) flight: VecDeque<Packet>,
    pub(super) last_arrival: Time,
    /// How many of them are held back by a cut.
    pub(super) held: u32,
    /// Bytes written here and not read at the other end.
    pub(super) unread: usize,
    /// Total number of bytes written.
    pub(super) written: u64,
    /// A write did not get all the room it requested: a report is due.
    pub(super) starved: bool,
    /// This side has closed its half.
    pub(super) finished: bool,
    /// Its host lost it without closing it, and has no record of it any more.
    pub(super) lost: bool,
    /// It was reset from here: its host has no record of it any more.
    pub(super) aborted: bool,
    pub(super) pins: VecDeque<Pin>,
    /// Memory that was released and not reported yet.
    pub(super) returned: Vec<Lent>,
    /// Its outgoing bytes, if its host has a place in the fabric.
    pub(super) flow: Option<Box<Flow>>,
    /// The pending reports, and whether the end is in its host's queue.
    pub(super) pending: Readiness,
    pub(super) listed: bool,
}

impl End {
    pub(super) fn new(host: HostId, local: SocketAddr, remote: SocketAddr, state: State) -> End {
        End {
            host,
            cpt: 0,
            local,
            remote,
            state,
            error: None,
            inbox: Rope::default(),
            arrived: 0,
            ended: false,
            flight: VecDeque::new(),
            last_arrival: Time::ZERO,
            held: 0,
            unread: 0,
            written: 0,
            starved: false,
            finished: false,
            lost: false,
            aborted: false,
            pins: VecDeque::new(),
            returned: Vec::new(),
            flow: None,
            pending: Readiness::default(),
            listed: false,
        }
    }
}

/// Side 0 dialled.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) ends: [End; 2],
}
