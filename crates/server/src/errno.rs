//! The error numbers of Linux that servers answer with.

pub(crate) const EPERM: i32 = 1;
pub(crate) const ENOENT: i32 = 2;
pub(crate) const ENXIO: i32 = 6;
pub(crate) const EAGAIN: i32 = 11;
pub(crate) const EACCES: i32 = 13;
pub(crate) const EFAULT: i32 = 14;
pub(crate) const EBUSY: i32 = 16;
pub(crate) const EEXIST: i32 = 17;
pub(crate) const ENODEV: i32 = 19;
pub(crate) const ENOTDIR: i32 = 20;
pub(crate) const EISDIR: i32 = 21;
pub(crate) const EINVAL: i32 = 22;
pub(crate) const EFBIG: i32 = 27;
pub(crate) const ENOSPC: i32 = 28;
pub(crate) const EMLINK: i32 = 31;
pub(crate) const ERANGE: i32 = 34;
pub(crate) const ENOTEMPTY: i32 = 39;
pub(crate) const ENODATA: i32 = 61;
pub(crate) const EPROTO: i32 = 71;
pub(crate) const EBADE: i32 = 52;
pub(crate) const EBADR: i32 = 53;
pub(crate) const EOPNOTSUPP: i32 = 95;
pub(crate) const ENOTCONN: i32 = 107;
pub(crate) const ESTALE: i32 = 116;
pub(crate) const EDQUOT: i32 = 122;
pub(crate) const ECANCELED: i32 = 125;
