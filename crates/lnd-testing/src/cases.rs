//! The cases of the suite: each is a rule of the seam, and a test of every driver.

pub mod changes;
pub mod handoff;
pub mod links;
pub mod messages;
pub mod parking;
pub mod replies;
pub mod userland;
