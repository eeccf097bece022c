//! Why a connection ends: what a peer did wrong, or what happened to it.

use lustrine_lnet::lnd::HeaderViolation;
use lustrine_lnet::status::Status;
use lustrine_wire::acceptor::AcceptorError;
use lustrine_wire::hello::HelloError;

use crate::io::IoError;

/// A way in which a peer can break the protocol: one variant per rule, each with a counter of its
/// own in [`Counters`](crate::counters::Counters). Every one costs the connection; on an open
/// connection also its siblings (wire 4.9).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProtocolViolation {
    /// Dialled from a source port above 1023 though only lower ones are accepted (wire 2.1).
    SourcePort,
    /// The first word is not that of a connection request (wire 2.3).
    RequestMagic,
    /// A connection request of an unknown version, or another LNet driver's magic (wire 2.3).
    RequestVersion,
    /// The request's target is malformed (wire 2.2).
    RequestTarget,
    /// The request names a NID that is not this interface's (wire 2.3).
    WrongTarget,
    /// The request or HELLO did not come in time (wire 2.3, 4.6).
    SlowHandshake,
    /// The first word is not that of a HELLO (wire 4.5).
    HelloMagic,
    /// A HELLO of an unknown version (wire 4.5).
    HelloVersion,
    /// An unknown connection type, or NONE where a connection is asked for (wire 4.4).
    HelloKind,
    /// The HELLO's source is a wildcard or the loopback (wire 4.4).
    HelloSource,
    /// The HELLO's source NID is not the address it came from, and `strict_source` is on.
    ForeignAddress,
    /// A HELLO whose list of IP addresses or NIDs is malformed (wire 4.1).
    HelloMalformed,
    /// The answer to our HELLO comes from another process than the one dialled (wire 4.4).
    AnswerIdentity,
    /// The answer's type is not the inverse of ours, or its version not ours (wire 4.4, 4.5).
    AnswerKind,
    /// A frame that is neither NOOP nor LNET (wire 3.2).
    FrameKind,
    /// An LNet header that does not parse: type, length or NID (wire 5.4).
    Header,
    /// A keepalive with something in cookie A (wire 3.5).
    Keepalive,
    /// Acknowledges a zero-copy cookie that is not pending (wire 3.4).
    UnknownCookie,
    /// More zero-copy acknowledgements are owed than can be delivered.
    AckBacklog,
    /// The checksum does not match (wire 3.3).
    Checksum,
    /// The stream ended inside a message (wire 4.9).
    Truncated,
    /// The core refused the header.
    Refused(HeaderViolation),
}

impl From<AcceptorError> for ProtocolViolation {
    fn from(error: AcceptorError) -> ProtocolViolation {
        match error {
            AcceptorError::BadMagic(_) => ProtocolViolation::RequestMagic,
            AcceptorError::LnetMagic(_) | AcceptorError::UnknownVersion { .. } => {
                ProtocolViolation::RequestVersion
            }
            AcceptorError::BadTarget(_) => ProtocolViolation::RequestTarget,
        }
    }
}

impl From<HelloError> for ProtocolViolation {
    fn from(error: HelloError) -> ProtocolViolation {
        match error {
            HelloError::BadMagic(_) | HelloError::NotHello(_) => ProtocolViolation::HelloMagic,
            HelloError::UnknownVersion { .. } => ProtocolViolation::HelloVersion,
            HelloError::UnknownKind { .. } => ProtocolViolation::HelloKind,
            HelloError::TooManyIps(_)
            | HelloError::ZeroIp
            | HelloError::BadNid(_)
            | HelloError::BadPayload(_) => ProtocolViolation::HelloMalformed,
        }
    }
}

/// Which time-out struck (wire 4.9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timeout {
    /// A message stopped arriving in its middle.
    Receive,
    /// Bytes were queued and none left.
    Send,
    /// A zero-copy request was not acknowledged.
    ZeroCopy,
    /// The answer to a dial did not come.
    Dial,
}

/// Why a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CloseReason {
    /// The peer broke a rule.
    Violation(ProtocolViolation),
    /// The stream broke.
    Io(IoError),
    /// The peer closed it between two messages.
    Eof,
    /// The peer we dialled closed before its HELLO.
    Rejected,
    /// No progress.
    Timeout(Timeout),
    /// The peer has a new incarnation.
    Restarted,
    /// The peer speaks another version than on its other connections.
    Renegotiated,
    /// It made room for a connection from an address that holds fewer.
    Evicted,
    /// The peer we dialled answered "not now" once too often.
    Busy,
    /// The core or the owner of the driver asked for it.
    Asked(Status),
}

impl CloseReason {
    /// What operations that die with the connection report.
    pub(crate) fn status(self) -> Status {
        match self {
            CloseReason::Violation(ProtocolViolation::Checksum) => Status::Corrupt,
            CloseReason::Violation(_) => Status::Protocol,
            CloseReason::Io(error) => status_of(error),
            CloseReason::Eof | CloseReason::Renegotiated | CloseReason::Evicted => {
                Status::ConnectionLost
            }
            CloseReason::Rejected => Status::Rejected,
            CloseReason::Busy => Status::Busy,
            CloseReason::Timeout(_) => Status::TimedOut,
            CloseReason::Restarted => Status::PeerRestarted,
            CloseReason::Asked(status) => status,
        }
    }
}

impl From<ProtocolViolation> for CloseReason {
    fn from(violation: ProtocolViolation) -> CloseReason {
        CloseReason::Violation(violation)
    }
}

impl From<IoError> for CloseReason {
    fn from(error: IoError) -> CloseReason {
        CloseReason::Io(error)
    }
}

/// The status of a stream's error.
pub(crate) fn status_of(error: IoError) -> Status {
    match error {
        IoError::Refused => Status::Refused,
        IoError::Unreachable | IoError::NoPrivilege => Status::Unreachable,
        IoError::Reset | IoError::Other => Status::ConnectionLost,
        IoError::TimedOut => Status::TimedOut,
        IoError::Exhausted => Status::NoMemory,
    }
}
