//! The client's side of Lustre's distributed lock manager (LDLM).
//!
//! A [`Namespace`] has the locks that a client has at one target, or has asked for. It takes what
//! the server says of them, in replies and in callbacks, in any order, and says what follows. It
//! sends nothing: its user enqueues, cancels and answers. So it has no I/O, no clock and no thread.
//!
//! ```
//! use lustrine_fswire::fid::{Fid, Handle};
//! use lustrine_fswire::ldlm::{Flock, LdlmReply, LockDesc, LockMode, LockType, Policy, Resource};
//! use lustrine_ldlm::{Namespace, Progress};
//!
//! let mut namespace = Namespace::default();
//! let range = Flock { start: 0, end: 99, owner: Handle(7), pid: 1 };
//! let desc = LockDesc {
//!     kind: LockType::FLOCK,
//!     resource: Resource::of_flock(Fid::new(0x2_0000_0401, 3)),
//!     req_mode: LockMode::PW,
//!     policy: Policy::Flock(range),
//!     ..LockDesc::default()
//! };
//! // The request is on its way.
//! namespace.enqueue(Handle(0x11), desc);
//! // Its reply: granted.
//! let granted = LockDesc { granted_mode: LockMode::PW, ..desc };
//! let reply = LdlmReply { desc: granted, handle: Handle(0x99), ..LdlmReply::default() };
//! assert_eq!(namespace.answered(Handle(0x11), &reply), Progress::Granted);
//! ```
//!
//! Rules are cited by number from `docs/protocol`.
#![forbid(unsafe_code)]

mod flock;
mod lock;
mod namespace;
pub mod server;
#[cfg(test)]
mod tests;

pub use lock::{Lock, LockState};
pub use namespace::{Completed, LockReplay, Namespace, Progress};
