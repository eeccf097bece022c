//! The texts of Linux's error numbers, as its C library has them.

use std::borrow::Cow;

/// Operation not permitted.
pub(crate) const EPERM: u32 = 1;
/// No such process.
pub(crate) const ESRCH: u32 = 3;
/// No such file.
pub(crate) const ENOENT: u32 = 2;
/// Input/output error.
pub(crate) const EIO: u32 = 5;
/// Permission denied.
pub(crate) const EACCES: u32 = 13;
/// Bad address.
pub(crate) const EFAULT: u32 = 14;
/// File exists.
pub(crate) const EEXIST: u32 = 17;
/// Invalid argument.
pub(crate) const EINVAL: u32 = 22;
/// Protocol error.
pub(crate) const EPROTO: u32 = 71;
/// Operation not supported.
pub(crate) const EOPNOTSUPP: u32 = 95;
/// Network is down.
pub(crate) const ENETDOWN: u32 = 100;
/// Cannot send after shutdown.
pub(crate) const ESHUTDOWN: u32 = 108;

/// The text of an error number, whatever its sign.
pub fn text(errno: i32) -> Cow<'static, str> {
    let known = match errno.unsigned_abs() {
        EPERM => "Operation not permitted",
        ENOENT => "No such file or directory",
        ESRCH => "No such process",
        4 => "Interrupted system call",
        EIO => "Input/output error",
        6 => "No such device or address",
        7 => "Argument list too long",
        9 => "Bad file descriptor",
        11 => "Resource temporarily unavailable",
        12 => "Cannot allocate memory",
        EACCES => "Permission denied",
        EFAULT => "Bad address",
        16 => "Device or resource busy",
        EEXIST => "File exists",
        19 => "No such device",
        EINVAL => "Invalid argument",
        28 => "No space left on device",
        32 => "Broken pipe",
        33 => "Numerical argument out of domain",
        34 => "Numerical result out of range",
        36 => "File name too long",
        38 => "Function not implemented",
        61 => "No data available",
        62 => "Timer expired",
        EPROTO => "Protocol error",
        74 => "Bad message",
        75 => "Value too large for defined data type",
        90 => "Message too long",
        92 => "Protocol not available",
        93 => "Protocol not supported",
        EOPNOTSUPP => "Operation not supported",
        98 => "Address already in use",
        99 => "Cannot assign requested address",
        ENETDOWN => "Network is down",
        101 => "Network is unreachable",
        103 => "Software caused connection abort",
        104 => "Connection reset by peer",
        105 => "No buffer space available",
        107 => "Transport endpoint is not connected",
        ESHUTDOWN => "Cannot send after transport endpoint shutdown",
        110 => "Connection timed out",
        111 => "Connection refused",
        112 => "Host is down",
        113 => "No route to host",
        114 => "Operation already in progress",
        115 => "Operation now in progress",
        116 => "Stale file handle",
        125 => "Operation canceled",
        other => return Cow::Owned(format!("Unknown error {other}")),
    };
    Cow::Borrowed(known)
}
