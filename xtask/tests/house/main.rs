//! The rules of the house, checked on the source itself: who may use whom, what a pure crate may
//! not touch, where `unsafe` may stand, and how a file must look.
//!
//! Every check is a function from source text to findings. Beside the test that runs it over the
//! repository stands one that feeds it a violation, so that no check can pass by seeing nothing.

mod architecture;
mod arrows;
mod finding;
mod hashing;
mod purity;
mod roots;
mod shipped;
mod tidy;
mod tokens;
mod unsafety;
