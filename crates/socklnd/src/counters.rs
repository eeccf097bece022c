//! The counters of a driver: one for each kind of event and each protocol violation.

use lustrine_lnet::lnd::HeaderViolation;

use crate::close_reason::{CloseReason, ProtocolViolation, Timeout};

macro_rules! counters {
    ($($(#[doc = $doc:literal])+ $name:ident,)*) => {
        /// Events of one driver since it was made. Counters only grow.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Counters { $($(#[doc = $doc])+ pub $name: u64,)* }

        impl Counters {
            /// Names and values, in the order of declaration.
            pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name),)*].into_iter()
            }
        }
    };
}

counters! {
    /// Messages sent.
    messages_sent,
    /// Payload bytes of messages sent.
    payload_sent,
    /// Messages received.
    messages_received,
    /// Payload bytes received and stored.
    payload_received,
    /// Payload bytes received and discarded.
    payload_discarded,
    /// Write calls that moved bytes.
    writes,
    /// Read calls that moved bytes.
    reads,
    /// Bytes written.
    bytes_written,
    /// Bytes read.
    bytes_read,
    /// Messages whose payload was handed to the kernel without a copy.
    zero_copy_sent,
    /// Writes of such payload that the kernel copied after all.
    zero_copy_copied,
    /// Zero-copy acknowledgements sent as NOOP.
    zero_copy_acks_sent,
    /// Zero-copy acknowledgements that were sent in a message.
    zero_copy_acks_carried,
    /// Zero-copy acknowledgements received.
    zero_copy_acks_received,
    /// Keepalives sent.
    keepalives_sent,
    /// Keepalives received.
    keepalives_received,
    /// Messages parked until the core can take them.
    parked,
    /// Decisions about parked messages that came after their connection was closed.
    stale_resumes,
    /// Incoming connections, before any check.
    accepted,
    /// Incoming connections refused because there are `connections_max` or `handshakes_max` of
    /// them, and no other could make room.
    refused_full,
    /// Incoming handshakes dropped because there were `handshakes_max` of them, and their address
    /// had most.
    handshakes_evicted,
    /// Userland peers closed because there were `connections_max` connections, and their address
    /// had most.
    userland_evicted,
    /// Peers with node identity closed for the same reason: idle ones, or ones whose NID is not
    /// their address.
    nodes_evicted,
    /// Connections that finished their HELLO as the accepting side.
    opened_passive,
    /// Connections that finished their HELLO as the dialling side.
    opened_active,
    /// Open connections closed, for any reason.
    closed,
    /// Connections handed to another CPU partition.
    handed_off,
    /// Connections taken over from another CPU partition.
    adopted,
    /// Connections dialled.
    dialled,
    /// Dial attempts that ended in an error.
    dials_failed,
    /// Dials not attempted because they would go to IPv6 from an unprivileged port.
    dials_forbidden_ipv6,
    /// Dials that failed because no privileged source port may be bound.
    dials_without_privilege,
    /// Dials whose peer closed before its HELLO.
    rejected,
    /// Rounds of dials that failed because the peer answered NONE.
    busy,
    /// NONE answers to our HELLO.
    none_received,
    /// Our dials answered with another version.
    versions_negotiated,
    /// NONE answers given because this node's own dial to the peer has precedence.
    races_won,
    /// Dials of a peer accepted although this node's own to it had precedence, because that one had
    /// not arrived when the peer dialled again.
    races_yielded,
    /// Dials refused because there are enough connections of that type.
    duplicates_refused,
    /// Dials closed without an answer, because the last two of that peer were answered NONE.
    closed_unanswered,
    /// Connections that a peer dialled and closed again because it had too many; its others stay.
    surplus_closed,
    /// Peers that came back with a new incarnation while connections of the earlier one were open:
    /// these were lost.
    restarts_seen,
    /// Peers that came back with a new incarnation after all connections of the earlier one had
    /// ended.
    restarts_between,
    /// HELLOs that claimed, from another address, to be a connected peer, so that its connections
    /// were tried.
    claims_probed,
    /// Such HELLOs refused, because the peer was alive or another claim was being tested.
    claims_refused,
    /// Peers that came back with another version.
    renegotiated,
    /// Peers whose connections came from another address than the one in their NID, and were closed
    /// because that one connected.
    displaced,
    /// Messages to userland peers without a connection that could carry them.
    unreachable,
    /// Messages whose NIDs do not fit the short header of their connection's version.
    nids_too_long,
    /// Messages that failed because they waited for a connection until their deadline.
    expired_waiting,
    /// Peers closed because a message stopped arriving in its middle, or arrived too slowly.
    timeouts_receive,
    /// Peers closed because queued bytes did not leave, or left too slowly.
    timeouts_send,
    /// Peers closed because a zero-copy request was not acknowledged.
    timeouts_zero_copy,
    /// Dials that failed because no answer came in time.
    timeouts_dial,
    /// Connections that broke, or ended, before both HELLOs were exchanged; dials are counted in
    /// [`Counters::dials_failed`] instead.
    handshakes_broken,
    /// Peers whose connections broke or were reset.
    broken,
    /// Peers that closed their connections between two messages.
    closed_by_peer,
    /// Those of them to which messages were in flight. These are lost, or wait for a new
    /// connection.
    closed_midway,
    /// See [`ProtocolViolation::SourcePort`].
    bad_source_port,
    /// See [`ProtocolViolation::RequestMagic`].
    bad_request_magic,
    /// See [`ProtocolViolation::RequestVersion`].
    bad_request_version,
    /// See [`ProtocolViolation::RequestTarget`].
    bad_request_target,
    /// See [`ProtocolViolation::WrongTarget`].
    wrong_target,
    /// See [`ProtocolViolation::SlowHandshake`].
    slow_handshake,
    /// See [`ProtocolViolation::HelloMagic`].
    bad_hello_magic,
    /// See [`ProtocolViolation::HelloVersion`].
    bad_hello_version,
    /// See [`ProtocolViolation::HelloKind`].
    bad_hello_kind,
    /// See [`ProtocolViolation::HelloSource`].
    bad_hello_source,
    /// See [`ProtocolViolation::ForeignAddress`].
    foreign_address,
    /// See [`ProtocolViolation::HelloMalformed`].
    bad_hello,
    /// See [`ProtocolViolation::AnswerIdentity`].
    bad_answer_identity,
    /// See [`ProtocolViolation::AnswerKind`].
    bad_answer_kind,
    /// See [`ProtocolViolation::FrameKind`].
    bad_frame,
    /// See [`ProtocolViolation::Header`].
    bad_header,
    /// See [`ProtocolViolation::Keepalive`].
    bad_keepalive,
    /// See [`ProtocolViolation::UnknownCookie`].
    unknown_cookie,
    /// See [`ProtocolViolation::AckBacklog`].
    ack_backlog,
    /// See [`ProtocolViolation::Checksum`].
    bad_checksum,
    /// See [`ProtocolViolation::Truncated`].
    truncated,
    /// See [`HeaderViolation::WrongDestination`].
    wrong_destination,
    /// See [`HeaderViolation::PayloadOnAckOrGet`].
    payload_on_ack_or_get,
    /// See [`HeaderViolation::PayloadTooLong`].
    payload_too_long,
    /// See [`HeaderViolation::UnexpectedHello`].
    unexpected_hello,
    /// See [`HeaderViolation::BadSource`].
    bad_source,
}

/// A counter with its name.
macro_rules! named {
    ($counters:ident.$name:ident) => {
        (stringify!($name), &mut $counters.$name)
    };
}

impl Counters {
    /// Counts the end of a connection under its reason; returns the name of the counter, if there
    /// is one.
    pub(crate) fn count_reason(&mut self, reason: CloseReason) -> Option<&'static str> {
        let (name, counter) = match reason {
            CloseReason::Violation(violation) => self.of(violation),
            CloseReason::Io(_) => named!(self.broken),
            CloseReason::Eof => named!(self.closed_by_peer),
            CloseReason::Rejected => named!(self.rejected),
            CloseReason::Busy => named!(self.busy),
            CloseReason::Evicted => named!(self.nodes_evicted),
            CloseReason::UserlandEvicted => named!(self.userland_evicted),
            CloseReason::Timeout(Timeout::Receive) => named!(self.timeouts_receive),
            CloseReason::Timeout(Timeout::Send) => named!(self.timeouts_send),
            CloseReason::Timeout(Timeout::ZeroCopy) => named!(self.timeouts_zero_copy),
            CloseReason::Timeout(Timeout::Dial) => named!(self.timeouts_dial),
            CloseReason::Restarted => named!(self.restarts_seen),
            CloseReason::Renegotiated => named!(self.renegotiated),
            CloseReason::Displaced => named!(self.displaced),
            CloseReason::Asked(_) => return None,
        };
        *counter += 1;
        Some(name)
    }

    fn of(&mut self, violation: ProtocolViolation) -> (&'static str, &mut u64) {
        match violation {
            ProtocolViolation::SourcePort => named!(self.bad_source_port),
            ProtocolViolation::RequestMagic => named!(self.bad_request_magic),
            ProtocolViolation::RequestVersion => named!(self.bad_request_version),
            ProtocolViolation::RequestTarget => named!(self.bad_request_target),
            ProtocolViolation::WrongTarget => named!(self.wrong_target),
            ProtocolViolation::SlowHandshake => named!(self.slow_handshake),
            ProtocolViolation::HelloMagic => named!(self.bad_hello_magic),
            ProtocolViolation::HelloVersion => named!(self.bad_hello_version),
            ProtocolViolation::HelloKind => named!(self.bad_hello_kind),
            ProtocolViolation::HelloSource => named!(self.bad_hello_source),
            ProtocolViolation::ForeignAddress => named!(self.foreign_address),
            ProtocolViolation::HelloMalformed => named!(self.bad_hello),
            ProtocolViolation::AnswerIdentity => named!(self.bad_answer_identity),
            ProtocolViolation::AnswerKind => named!(self.bad_answer_kind),
            ProtocolViolation::FrameKind => named!(self.bad_frame),
            ProtocolViolation::Header => named!(self.bad_header),
            ProtocolViolation::Keepalive => named!(self.bad_keepalive),
            ProtocolViolation::UnknownCookie => named!(self.unknown_cookie),
            ProtocolViolation::AckBacklog => named!(self.ack_backlog),
            ProtocolViolation::Checksum => named!(self.bad_checksum),
            ProtocolViolation::Truncated => named!(self.truncated),
            ProtocolViolation::Refused(HeaderViolation::WrongDestination) => {
                named!(self.wrong_destination)
            }
            ProtocolViolation::Refused(HeaderViolation::PayloadOnAckOrGet) => {
                named!(self.payload_on_ack_or_get)
            }
            ProtocolViolation::Refused(HeaderViolation::PayloadTooLong) => {
                named!(self.payload_too_long)
            }
            ProtocolViolation::Refused(HeaderViolation::UnexpectedHello) => {
                named!(self.unexpected_hello)
            }
            ProtocolViolation::Refused(HeaderViolation::BadSource) => named!(self.bad_source),
        }
    }
}
