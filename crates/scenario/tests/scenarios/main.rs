//! Scenarios as users run them. One program, as each one more has to be linked, and runs after the
//! one before.

mod auto;
mod fidelity;
mod replay;
mod run;
mod study;
