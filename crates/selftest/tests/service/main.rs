//! The service, its clients and the console of LNet selftest, in virtual time.

mod access;
mod anything;
mod client_stats;
mod common;
mod console;
mod ends;
mod golden;
mod hostile;
mod load;
mod outage;
mod serve;
mod sessions;
mod windows;
