//! Random worlds: links, tunables, loads and faults of all kinds. Then the faults heal, and
//! everything must work, be quiet, and have come to nobody's harm.
//!
//! A seed is drawn into a [`Plan`], a plan is lived, and what went wrong in it is told. Plans are
//! plain data: a plan that fails is made [smaller](shrink) and kept as a named scenario.

mod draw;
mod life;
mod plan;
mod shrink;

pub use draw::draw;
pub use life::{Failure, Life, live, record, replay};
pub use plan::{Chooser, Demand, Load, Node, Plan, Role, Trouble, What, Wire, Wires};
pub use shrink::shrink;
