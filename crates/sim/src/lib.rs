//! A deterministic simulator of LNet nodes in virtual time.
//!
//! Every node is the same [`Partition`](lustrine_partition::Partition) that runs in production. Two
//! simulations differ in how its messages travel:
//!
//! - [`StreamSim`] carries the bytes of TCP streams, with the whole socket driver, and beside the
//!   nodes has scripted peers that write raw bytes;
//! - [`MessageSim`] carries LNet messages as a whole, which suits thousands of nodes.
//!
//! Time is virtual, and one seed determines everything random: the same seed gives the same
//! [`EventLog`] on every machine.
//!
//! | module | what is in it |
//! |---|---|
//! | `stream` | [`StreamSim`]: time, nodes, scripts and faults at stream fidelity |
//! | `message` | [`MessageSim`]: thousands of nodes at message fidelity |
//! | `simulation` | [`Simulation`]: what both can do |
//! | `node` | [`NodeSpec`], [`Node`]: a partition and its surroundings; [`NodeService`] |
//! | `script` | [`Script`], [`ScriptIo`]: peers that are no Lustrine nodes |
//! | [`fabric`] | sites and links, what they carry and lose |
//! | [`tcp`] | congestion windows, losses and retransmission |
//! | `network` | [`Network`]: byte streams with latency, limits and faults |
//! | `io` | [`VirtualIo`]: the sockets that a partition gets |
//! | `memory` | [`RopeMemory`], [`Rope`]: memory whose payload is shared, not copied |
//! | [`swarm`] | randomly generated simulations, and what must hold in them |
//! | [`check`] | what must hold when a simulation has become idle |
//! | [`frames`] | streams as frames of a packet capture |
//! | `recording` | [`Recording`]: what happened to each message, at all nodes |
//! | `event_log`, `rng` | [`EventLog`], [`Rng`] |
//!
//! # A ping between two nodes
//!
//! ```
//! use lustrine_lnet::time::Nanos;
//! use lustrine_partition::ProbeResult;
//! use lustrine_sim::{Link, NodeSpec, StreamSim};
//!
//! let mut sim = StreamSim::new(1);
//! // Every link is 250 us long in each direction.
//! sim.network().set_usual_link(Link { latency: Nanos::from_micros(250), ..Link::default() });
//! let client = sim.add_node(NodeSpec::new("10.0.0.1@tcp".parse()?));
//! sim.add_node(NodeSpec::new("10.0.0.2@tcp".parse()?));
//!
//! let server = "10.0.0.2@tcp".parse()?;
//! let timeout = Nanos::from_secs(1);
//! sim.ping(client, &server, timeout); // The first one also opens the connections.
//! sim.run_for(timeout);
//! let ping = sim.ping(client, &server, timeout);
//! sim.run_for(timeout);
//! let Some(ProbeResult::Ping(Ok(answer))) = sim.node(client).result(ping) else { panic!() };
//! assert_eq!(answer.round_trip, Nanos::from_micros(500));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Writes over a long link that loses packets
//!
//! ```
//! use lustrine_lnet::time::{Nanos, WallClock};
//! use lustrine_selftest::{
//!     ClientArgs, ClientSlot, LoadStep, SessionMode, StepLimit, Test,
//! };
//! use lustrine_sim::fabric::{Hashing, LinkSpec, Rate};
//! use lustrine_sim::tcp::{Algorithm, TcpSpec};
//! use lustrine_sim::{CpuCost, NodeSpec, Placement, Simulation, StreamSim};
//! use lustrine_wire::nid::{Net, Nid, ProcessId};
//! use lustrine_wire::srpc::{BrwCheck, Name};
//!
//! let nid = |number: u32| Nid::new4(Net::TCP, 0x0a00_0001 + number);
//! let mut sim = StreamSim::new(1);
//! let sites = (sim.fabric().add_site(), sim.fabric().add_site());
//! let link = LinkSpec {
//!     rate: Rate::from_bits(1_000_000_000),
//!     delay: Nanos::from_millis(5),
//!     loss: 100_000, // of 1,000,000,000 packets: 0.01 %
//!     ..LinkSpec::default()
//! };
//! sim.fabric().add_trunk(sites, &[link], Hashing::Hosts);
//! let tcp = TcpSpec { algorithm: Algorithm::Bic, ..TcpSpec::default() };
//! let mut add = |number, site| {
//!     let interface = LinkSpec { rate: Rate::from_bits(10_000_000_000), ..LinkSpec::default() };
//!     let placement = Placement { site, interface, cost: CpuCost::default(), tcp };
//!     sim.add_node_at(NodeSpec::new(nid(number)), placement)
//! };
//! let (client, _server) = (add(0, sites.0), add(1, sites.1));
//!
//! let slot = ClientSlot(1);
//! sim.start_client(client, ClientArgs {
//!     target: ProcessId::lustre(nid(1)),
//!     local: None,
//!     console: nid(0),
//!     slot,
//!     name: Name::EMPTY,
//!     session: SessionMode::NoSession,
//!     patience: Nanos::from_secs(60),
//!     wall: WallClock::from_secs(1),
//! });
//! let step = LoadStep {
//!     test: Test::Write { len: 1 << 20, check: BrwCheck::None },
//!     concurrency: 4,
//!     limit: StepLimit::Time(Nanos::from_secs(1)),
//!     warm_up: Nanos::from_millis(200),
//! };
//! sim.client(client, slot).expect("it was started").start_step(step).expect("a valid step");
//! while !sim.client(client, slot).expect("it runs").step_finished() {
//!     let next = sim.now() + Nanos::from_millis(100);
//!     sim.run_to(next);
//! }
//! let now = sim.now();
//! let result = sim.client(client, slot).expect("it runs").progress(now);
//! assert!(result.errors.is_empty() && result.bytes > 0);
//! ```
//!
//! # Many nodes at message fidelity
//!
//! ```
//! use lustrine_lnet::time::{Nanos, WallClock};
//! use lustrine_selftest::{
//!     ClientArgs, ClientSlot, LoadStep, SessionMode, StepLimit, Test,
//! };
//! use lustrine_sim::fabric::{LinkSpec, Rate};
//! use lustrine_sim::tcp::TcpSpec;
//! use lustrine_sim::{CpuCost, MessageSim, NodeSpec, Placement, Simulation};
//! use lustrine_wire::nid::{Net, Nid, ProcessId};
//! use lustrine_wire::srpc::Name;
//!
//! let nid = |number: u32| Nid::new4(Net::TCP, 0x0a00_0001 + number);
//! let mut sim = MessageSim::new(1);
//! let site = sim.fabric().add_site();
//! let interface = LinkSpec {
//!     rate: Rate::from_bits(10_000_000_000),
//!     delay: Nanos::from_micros(10),
//!     ..LinkSpec::default()
//! };
//! let (cost, tcp) = (CpuCost::default(), TcpSpec::default());
//! let hosts: Vec<_> = (0..100)
//!     .map(|n| sim.add_node_at(NodeSpec::new(nid(n)), Placement { site, interface, cost, tcp }))
//!     .collect();
//!
//! // Node 0 serves; all others ping it.
//! let slot = ClientSlot(1);
//! for (number, host) in (0..).zip(&hosts).skip(1) {
//!     sim.start_client(*host, ClientArgs {
//!         target: ProcessId::lustre(nid(0)),
//!         local: None,
//!         console: nid(number),
//!         slot,
//!         name: Name::EMPTY,
//!         session: SessionMode::NoSession,
//!         patience: Nanos::from_secs(60),
//!         wall: WallClock::from_secs(1),
//!     });
//!     let limit = StepLimit::Time(Nanos::from_secs(1));
//!     let warm_up = Nanos::ZERO;
//!     let step = LoadStep { test: Test::Ping, concurrency: 1, limit, warm_up };
//!     sim.client(*host, slot).expect("it was started").start_step(step).expect("a valid step");
//! }
//! let end = sim.now() + Nanos::from_millis(50);
//! sim.run_to(end);
//! assert!(sim.messages() > 10_000);
//! ```
#![forbid(unsafe_code)]

pub mod check;
mod costs;
mod event_log;
pub mod fabric;
pub mod frames;
mod host_id;
mod io;
mod memory;
mod message;
mod network;
mod node;
mod recording;
mod rng;
mod script;
mod simulation;
mod stream;
pub mod swarm;
pub mod tcp;

pub use costs::{CpuCost, WaitTotals};
pub use event_log::{EventKind, EventLog, LogEntry};
pub use io::VirtualIo;
pub use memory::{Rope, RopeMemory, Usage};
pub use message::MessageSim;
pub use network::{Chunking, HostId, Incoming, Link, Network};
pub use node::{Node, NodeService, NodeSpec};
pub use recording::{RecordFilter, RecordSource, Recording};
pub use rng::Rng;
pub use script::{Script, ScriptIo, StreamEnd};
pub use simulation::{Placement, Simulation, StopKind};
pub use stream::StreamSim;
