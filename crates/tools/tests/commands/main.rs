//! Commands of `lst`, `lctl` and `lnetctl` as they are typed, and what they print.

mod golden;
mod habits;
mod lctl;
mod lnetctl;
mod scripts;
mod support;
