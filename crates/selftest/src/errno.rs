//! The numbers selftest puts in its replies: Linux errno values, positive [LST-4].

/// The node's policy does not allow this console to do that ([`crate::ServicePolicy`]).
pub const EPERM: u32 = 1;
/// No such session.
pub const ESRCH: u32 = 3;
/// No such batch or test; for TEST also: no such session.
pub const ENOENT: u32 = 2;
/// A limit of this node is reached. Kernels send no reply then and let the console run into its
/// time-out; a number says more.
pub const ENOMEM: u32 = 12;
/// Another session, or a batch that runs.
pub const EBUSY: u32 = 16;
/// A value out of its range.
pub const EINVAL: u32 = 22;
/// Statistics that do not fit the buffer of the requester.
pub const EMSGSIZE: u32 = 90;
/// This node keeps no client statistics (tunable `selftest_client_stats`).
pub const EOPNOTSUPP: u32 = 95;
/// Versions or features do not agree.
pub const EPROTO: u32 = 71;
/// The data are not what the pattern says.
pub const EBADMSG: u32 = 74;

/// The name of one of these numbers, for people.
pub fn name(status: u32) -> Option<&'static str> {
    Some(match status {
        EPERM => "EPERM",
        ESRCH => "ESRCH",
        ENOENT => "ENOENT",
        ENOMEM => "ENOMEM",
        EBUSY => "EBUSY",
        EINVAL => "EINVAL",
        EMSGSIZE => "EMSGSIZE",
        EOPNOTSUPP => "EOPNOTSUPP",
        EPROTO => "EPROTO",
        EBADMSG => "EBADMSG",
        _ => return None,
    })
}
