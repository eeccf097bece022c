//! From what was measured on a path to the settings that fill it: RPCs in flight, credits, TCP
//! buffers, connections; each with its formula and the numbers that were put in.
//!
//! | what | formula | why |
//! |---|---|---|
//! | `max_rpcs_in_flight` | > 2 x rate x RTT / RPC size | a bulk RPC takes two round trips |
//! | `peer_credits` | >= RPCs x messages per RPC | a bulk message of at most 1 MiB holds a credit |
//! | `credits` | >= peers x `peer_credits` | all peers share them |
//! | TCP buffers | >= 2 x rate x RTT | half of a buffer is window, the rest is the kernel's own |
//! | `conns_per_peer` | >= rate / rate of one stream | one stream may be limited by its CPU |
//!
//! It is pure: it measures nothing, and what it changes it changes through a trait,
//! [`SettingsHost`](apply::SettingsHost). Units are bits per second for rates, bytes for sizes and
//! nanoseconds for times; no size is ever counted in "MB" of an unknown kind.
#![forbid(unsafe_code)]

mod advice;
pub mod apply;
mod measured;
mod ramp;
mod segments;
mod write;

pub use advice::{
    Advice, Limit, Setting, Settings, advise, bandwidth_delay_product, bytes_text,
    held_by_receive_buffer, held_by_send_buffer, rate_of, rate_text, time_text,
};
pub use measured::{Host, Path, Purpose, Streams};
pub use ramp::{Point, Ramp, share};
pub use segments::{Segments, loss_limited_rate};
pub use write::{lnetctl_yaml, module_options, set_param, sysctl};
