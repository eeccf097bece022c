//! A partition with drivers and services of the tests.

mod common;
mod drivers;
mod passes;
mod services;
