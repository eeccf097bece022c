//! How an operation ended, with LNet's errno and health class for each ([CORE-18], [CORE-19]).

use core::fmt;

/// Outcome of an operation or of one message given to a driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// The operation succeeded.
    Ok,
    /// No answer, or no connection, before the deadline.
    TimedOut,
    /// Withdrawn by its owner before it was sent.
    Canceled,
    /// No local interface, route or usable peer interface: nothing was sent.
    Unreachable,
    /// There is a route, and the peer's host does not answer on it, or a router or firewall on the
    /// way says that it is out of reach.
    HostUnreachable,
    /// The peer's host refused the connection, or nothing listens there.
    Refused,
    /// The peer closed the connection before its HELLO: it does not accept this node, this NID or
    /// this network.
    Rejected,
    /// The peer answered "not now" to every attempt to connect.
    Busy,
    /// The connection broke while the message was on its way.
    ConnectionLost,
    /// The peer has restarted: what was pending there is lost.
    PeerRestarted,
    /// The peer broke the protocol and its connections were closed.
    Protocol,
    /// A checksum did not match, or a payload arrived only in part.
    Corrupt,
    /// No memory or no free slot.
    NoMemory,
    /// The node is shutting down.
    Shutdown,
}

/// The health class of a failed message ([CORE-18]). The core counts the classes; it does not
/// change its choice of paths because of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Health {
    /// Not a failure of the network.
    Ok,
    /// A failure of this node.
    LocalError,
    /// The peer never took the message.
    RemoteDropped,
    /// The peer took the message and failed.
    RemoteError,
    /// It is not known which side failed.
    NetworkTimeout,
}

impl Status {
    /// Whether the operation succeeded.
    pub fn is_ok(self) -> bool {
        self == Status::Ok
    }

    /// LNet's number for it: 0 or a negative Linux errno.
    pub fn errno(self) -> i32 {
        match self {
            Status::Ok => 0,
            Status::TimedOut => -110,
            Status::Busy => -16,
            Status::Canceled => -125,
            Status::Unreachable | Status::HostUnreachable => -113,
            Status::Refused | Status::Rejected => -111,
            Status::ConnectionLost | Status::PeerRestarted => -104,
            Status::Protocol => -71,
            Status::Corrupt => -5,
            Status::NoMemory => -12,
            Status::Shutdown => -108,
        }
    }

    /// Its health class ([CORE-18]).
    pub fn health(self) -> Health {
        match self {
            Status::Ok | Status::Canceled | Status::Shutdown => Health::Ok,
            Status::TimedOut => Health::NetworkTimeout,
            Status::Refused
            | Status::Rejected
            | Status::HostUnreachable
            | Status::Busy
            | Status::ConnectionLost
            | Status::PeerRestarted => Health::RemoteDropped,
            Status::Unreachable | Status::Protocol | Status::Corrupt => Health::RemoteError,
            Status::NoMemory => Health::LocalError,
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Status::Ok => "ok",
            Status::TimedOut => "timed out",
            Status::Canceled => "cancelled",
            Status::Unreachable => "no route to the peer",
            Status::HostUnreachable => "the peer's host does not answer",
            Status::Refused => "connection refused",
            Status::Rejected => "the peer closed the connection before its HELLO",
            Status::Busy => "the peer accepts no connection at present",
            Status::ConnectionLost => "connection lost",
            Status::PeerRestarted => "the peer restarted",
            Status::Protocol => "protocol error",
            Status::Corrupt => "data damaged on the way",
            Status::NoMemory => "out of memory",
            Status::Shutdown => "shutting down",
        })
    }
}
