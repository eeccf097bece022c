//! LNet selftest as state machines: the service and a client.
//!
//! [`Service`] answers kernel consoles and clients as a kernel node does; [`Client`] loads a node
//! and measures it; a [`Console`](console::Console) drives many nodes, by orders that
//! [`ConsoleRpcs`] carries out. Service, clients and calls live beside a
//! [`Shard`](lustrine_lnet::shard::Shard) and are run by its event loop; none of them does I/O or
//! knows a clock.
//!
//! A client loads a node with pings, over a network in memory:
//!
//! ```
//! use lustrine_lnet::md::Owner;
//! use lustrine_lnet::time::{Nanos, Time, WallClock};
//! use lustrine_lnet_testing::{Delivery, Net, test_nid};
//! use lustrine_selftest::{
//!     Client, ClientArgs, ClientSlot, LoadStep, Service, SessionMode, StepLimit, Test, Tunables,
//! };
//! use lustrine_wire::{ProcessId, srpc::Name};
//!
//! let tunables = Tunables::default();
//! let wall = WallClock::from_secs(1_700_000_000);
//! let mut net = Net::new(2, &Default::default());
//! let mut service = Service::new(Owner(1), 0, 1, &tunables, wall);
//! let mut now = Time(1);
//! let args = ClientArgs {
//!     target: ProcessId::lustre(test_nid(1)),
//!     local: None,
//!     console: test_nid(0),
//!     slot: ClientSlot(1),
//!     name: Name::new("demo").unwrap(),
//!     session: SessionMode::IfFree,
//!     patience: Nanos::from_secs(30),
//!     wall,
//! };
//! let mut client = Client::new(Owner(1), now, args, &tunables);
//! let limit = StepLimit::Count(100);
//! let step = LoadStep { test: Test::Ping, concurrency: 4, limit, warm_up: Nanos(0) };
//! client.start_step(step).unwrap();
//! while !client.step_finished() {
//!     let [here, there] = net.nodes.as_mut_slice() else { unreachable!("two nodes") };
//!     while let Some(event) = here.shard.next_event() {
//!         client.handle(now, &mut here.shard, &mut here.memory, &event);
//!     }
//!     while let Some(event) = there.shard.next_event() {
//!         service.handle(now, &mut there.shard, &mut there.memory, &event);
//!     }
//!     client.drive(now, &mut here.shard, &mut here.memory);
//!     service.drive(now, &mut there.shard, &mut there.memory);
//!     net.settle(now);
//!     while !net.packets.is_empty() {
//!         net.deliver(now, 0, Delivery::Deliver);
//!     }
//!     net.settle(now);
//!     now = now + Nanos::from_millis(1);
//! }
//! let progress = client.progress(now);
//! assert!(progress.ops >= 100 && progress.errors.is_empty());
//! assert!(service.session().is_some(), "the client made a session");
//! ```
//!
//! Rules such as `[LST-7]` are those of `docs/protocol/selftest.md`; "c03" is a capture of kernel
//! nodes.
#![forbid(unsafe_code)]

mod body;
mod bulk;
mod client;
pub mod console;
mod console_rpcs;
mod counters;
mod cpt_message;
pub mod errno;
mod framework;
mod latencies;
mod limits;
mod load;
mod mark;
mod measured;
mod message_pool;
mod pattern;
mod policy;
mod registered;
mod rpc;
mod service;
mod slab;
mod tunables;
mod turn;
mod worker;

pub use client::{
    Client, ClientArgs, ClientError, LoadProgress, LoadStep, LoadStepError, SessionMode, StepLimit,
};
pub use console_rpcs::ConsoleRpcs;
pub use counters::RpcTotals;
pub use cpt_message::CptMessage;
pub use framework::SessionInfo;
pub use latencies::Latencies;
pub use load::{HarmfulTest, Test, TestError};
pub use mark::ClientSlot;
pub use policy::{ConsoleList, ServiceMode, ServicePolicy, UnknownMode};
pub use rpc::{LnetErrorKind, PeerWindow, RpcError};
pub use service::Service;
pub use tunables::{TABLE as TUNABLES, Tunables};
