//! Why a connection ends: a violation by the peer, or an event.

use lustrine_lnet::lnd::HeaderViolation;
use lustrine_lnet::status::Status;
use lustrine_wire::acceptor::AcceptorError;
use lustrine_wire::hello::HelloError;

use crate::io::IoError;

/// A way in which a peer can break the protocol: one variant per rule, each with its own counter in
/// [`Counters`](crate::counters::Counters). Each closes the connection; on an open connection also
/// its siblings [SOCK-9].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProtocolViolation {
    /// Dialled from a source port above 1023 though only lower ones are accepted [ACC-14].
    SourcePort,
    /// The first word is not that of a connection request [ACC-7].
    RequestMagic,
    /// A connection request of an unknown version, or another LNet driver's magic [ACC-5], [ACC-6].
    RequestVersion,
    /// The request's target is malformed [ACC-8].
    RequestTarget,
    /// The request names a NID that is not this interface's [ACC-8].
    WrongTarget,
    /// The request or HELLO did not come in time [ACC-10].
    SlowHandshake,
    /// The first word is not that of a HELLO [HEL-5].
    HelloMagic,
    /// A HELLO of an unknown version [HEL-6].
    HelloVersion,
    /// An unknown connection type, or NONE in a request for a connection [HEL-7].
    HelloKind,
    /// The HELLO's source is a wildcard or the loopback [HEL-7].
    HelloSource,
    /// The HELLO's source NID is not the address it came from, and `strict_source` is on.
    ForeignAddress,
    /// A HELLO whose list of IP addresses or NIDs is malformed [HEL-7].
    HelloMalformed,
    /// The answer to our HELLO comes from another process than the one dialled [HEL-12].
    AnswerIdentity,
    /// The answer's type is not the inverse of ours, or its version not ours [HEL-8], [HEL-14].
    AnswerKind,
    /// A frame that is neither NOOP nor LNET [FRM-3].
    FrameKind,
    /// An LNet header that does not parse: type, length or NID [HDR-12].
    Header,
    /// A keepalive with something in cookie A [FRM-13].
    Keepalive,
    /// Acknowledges a zero-copy cookie that is not pending [FRM-12].
    UnknownCookie,
    /// More zero-copy acknowledgements are owed than can be delivered.
    AckBacklog,
    /// The checksum does not match [FRM-10].
    Checksum,
    /// The stream ended inside a message [SOCK-10].
    Truncated,
    /// The core rejected the header.
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

/// The time-out that expired [SOCK-11].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timeout {
    /// A message stopped arriving in its middle.
    Receive,
    /// Bytes were queued and none was sent.
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
    /// The peer closed the stream between two messages.
    Eof,
    /// The dialled peer closed the stream before its HELLO.
    Rejected,
    /// No progress.
    Timeout(Timeout),
    /// The peer has a new incarnation.
    Restarted,
    /// The peer uses another version than on its other connections.
    Renegotiated,
    /// It was closed to make room for a connection from an address that holds fewer.
    Evicted,
    /// As [`CloseReason::Evicted`], for a userland peer.
    UserlandEvicted,
    /// It came from another address than the one in the peer's NID, and that one connected.
    Displaced,
    /// The dialled peer answered "not now" too often.
    Busy,
    /// The core or the owner of the driver closed it.
    Asked(Status),
}

impl CloseReason {
    /// The status of operations that end with the connection.
    pub(crate) fn status(self) -> Status {
        match self {
            CloseReason::Violation(ProtocolViolation::Checksum) => Status::Corrupt,
            CloseReason::Violation(_) => Status::Protocol,
            CloseReason::Io(error) => status_of(error),
            CloseReason::Eof
            | CloseReason::Renegotiated
            | CloseReason::Evicted
            | CloseReason::UserlandEvicted
            | CloseReason::Displaced => Status::ConnectionLost,
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
        IoError::HostUnreachable => Status::HostUnreachable,
        IoError::Reset | IoError::Other => Status::ConnectionLost,
        IoError::TimedOut => Status::TimedOut,
        IoError::Exhausted => Status::NoMemory,
    }
}
