//! Rules of the repository, checked on the source itself: which crate may use which, what a pure
//! crate may not touch, where `unsafe` is permitted, and the format of files.
//!
//! Every check is a function from source text to findings. Each test that runs a check over the
//! repository has a companion that gives it a violation, so that no check passes by finding
//! nothing.

mod architecture;
mod arrows;
mod cycles;
mod finding;
mod hashing;
mod purity;
mod roots;
mod rust_version;
mod shipped;
mod tidy;
mod tokens;
mod unsafety;
