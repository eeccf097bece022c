//! Why an operation failed.

use lustrine_fswire::rpc::RpcError as MalformedBuffers;
use lustrine_lnet::status::Status;
use lustrine_ptlrpc::RpcError;

use crate::config::ConfigError;

/// Why an operation of a client failed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ClientError {
    /// The server refused it, or a rule of the file system does. The number is an errno of Linux,
    /// positive.
    #[error("{}", errno_text(*.0))]
    Errno(i32),
    /// The request was not answered.
    #[error(transparent)]
    Rpc(#[from] RpcError),
    /// The server's answer breaks the protocol.
    #[error("the server's answer cannot be used: {0}")]
    Malformed(String),
    /// The configuration of the file system cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The management server has no such file system.
    #[error("the management server knows no file system `{0}`; is the name right?")]
    NoFileSystem(String),
    /// A file has a layout that this client cannot read.
    #[error("the layout of the file cannot be used: {0}")]
    Layout(String),
    /// The names of a directory are spread in a way that this client cannot use now.
    #[error("the layout of the directory cannot be used: {0}")]
    Directory(String),
    /// The file is on a target that the configuration does not name.
    #[error("the configuration names no target {0}")]
    NoTarget(String),
    /// There is no memory for the data of the request.
    #[error("no memory is left for the data of requests")]
    NoMemory,
}

impl ClientError {
    /// The errno of Linux that a program would see.
    pub fn errno(&self) -> i32 {
        match self {
            ClientError::Errno(errno) => *errno,
            ClientError::Rpc(RpcError::Evicted) => errno::EIO,
            ClientError::Rpc(RpcError::NotConnected) => errno::ENOTCONN,
            ClientError::Rpc(RpcError::Refused(errno)) => *errno,
            ClientError::Rpc(RpcError::TimedOut | RpcError::Send(Status::TimedOut)) => {
                errno::ETIMEDOUT
            }
            ClientError::Rpc(RpcError::Canceled) => errno::EINTR,
            ClientError::Rpc(RpcError::Inactive | RpcError::Closed) => errno::ESHUTDOWN,
            ClientError::Malformed(_) | ClientError::Rpc(RpcError::BadReply) => errno::EPROTO,
            ClientError::NoFileSystem(_) => errno::ENOENT,
            ClientError::NoMemory => errno::ENOMEM,
            ClientError::Directory(_) => errno::EOPNOTSUPP,
            ClientError::Rpc(_)
            | ClientError::Config(_)
            | ClientError::Layout(_)
            | ClientError::NoTarget(_) => errno::EIO,
        }
    }

    /// Of an operation that needs the objects of a file: whether one of these is lost, or is on a
    /// target that was deactivated or removed. Other errors may be gone the next time.
    pub fn lacks_objects(&self) -> bool {
        matches!(
            self,
            ClientError::Errno(errno::ENOENT)
                | ClientError::Layout(_)
                | ClientError::NoTarget(_)
                | ClientError::Rpc(RpcError::Inactive)
        )
    }
}

impl From<MalformedBuffers> for ClientError {
    fn from(error: MalformedBuffers) -> ClientError {
        ClientError::Malformed(error.to_string())
    }
}

/// The outcome of an operation.
pub type Outcome<T> = Result<T, ClientError>;

/// An answer that breaks the protocol.
pub(crate) fn malformed(text: &str) -> ClientError {
    ClientError::Malformed(text.to_owned())
}

/// The error numbers of Linux that this crate uses.
pub(crate) mod errno {
    pub(crate) const EPERM: i32 = 1;
    pub(crate) const EACCES: i32 = 13;
    pub(crate) const ENOENT: i32 = 2;
    pub(crate) const EINTR: i32 = 4;
    pub(crate) const EIO: i32 = 5;
    pub(crate) const ENXIO: i32 = 6;
    pub(crate) const E2BIG: i32 = 7;
    pub(crate) const EAGAIN: i32 = 11;
    pub(crate) const ENOMEM: i32 = 12;
    pub(crate) const EEXIST: i32 = 17;
    pub(crate) const EXDEV: i32 = 18;
    pub(crate) const EISDIR: i32 = 21;
    pub(crate) const EINVAL: i32 = 22;
    pub(crate) const EFBIG: i32 = 27;
    pub(crate) const ERANGE: i32 = 34;
    pub(crate) const EDEADLK: i32 = 35;
    pub(crate) const ENAMETOOLONG: i32 = 36;
    pub(crate) const ENODATA: i32 = 61;
    pub(crate) const EREMOTE: i32 = 66;
    pub(crate) const EPROTO: i32 = 71;
    pub(crate) const EOPNOTSUPP: i32 = 95;
    pub(crate) const ENOTCONN: i32 = 107;
    pub(crate) const ESHUTDOWN: i32 = 108;
    pub(crate) const ETIMEDOUT: i32 = 110;
    pub(crate) const EINPROGRESS: i32 = 115;
    pub(crate) const ESTALE: i32 = 116;
    pub(crate) const ECANCELED: i32 = 125;
}

/// What the C library says of an error number that a file system returns.
fn errno_text(errno: i32) -> String {
    let text = match errno {
        1 => "operation not permitted",
        2 => "no such file or directory",
        4 => "interrupted",
        5 => "input/output error",
        6 => "no such device or address",
        7 => "the value is too long",
        9 => "bad file handle",
        11 => "try again",
        12 => "no memory",
        13 => "permission denied",
        16 => "busy",
        17 => "file exists",
        18 => "the two names are on different devices",
        19 => "no such target",
        20 => "not a directory",
        21 => "is a directory",
        22 => "invalid argument",
        26 => "the file is being executed",
        27 => "file too large",
        28 => "no space left",
        30 => "read-only file system",
        31 => "too many links",
        34 => "out of range",
        35 => "the lock would cause a deadlock",
        36 => "file name too long",
        39 => "directory not empty",
        40 => "too many symbolic links",
        61 => "no such attribute",
        66 => "the object is on another server",
        71 => "protocol error",
        95 => "operation not supported",
        107 => "not connected",
        108 => "the client is being unmounted",
        110 => "timed out",
        116 => "stale handle",
        122 => "disk quota exceeded",
        other => return format!("error {other}"),
    };
    text.to_owned()
}
