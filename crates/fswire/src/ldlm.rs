//! Locks: descriptions, requests, replies, lock value blocks [LOCK-1].

mod flags;
mod lock;
mod lvb;
mod mode;
mod request;
#[cfg(test)]
mod tests;

pub use flags::{CALLBACK_FLAGS, Disposition, ENQUEUE_FLAGS, IntentOp, LockFlags};
pub use lock::{Extent, Flock, IbitsPolicy, LockDesc, LockType, Policy, Resource};
pub use lvb::{LayoutIntent, LayoutOp, OstLvb, QuotaLvb};
pub use mode::{Ibits, LockMode};
pub use request::{ELDLM, LdlmReply, LdlmRequest};
