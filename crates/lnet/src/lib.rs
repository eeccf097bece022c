//! The LNet protocol core: all state of one CPU partition, with no I/O, clock or thread.
//!
//! A [`Shard`](shard::Shard) is driven by a driver, which passes it headers and takes
//! [`Action`](lnd::Action)s, and by users, who attach and bind memory descriptors, start operations
//! and take [`Event`](event::Event)s. In the examples the crate `lustrine-lnet-testing` is the
//! driver.
//!
//! # A PUT with an ACK
//!
//! ```
//! use lustrine_lnet::event::EventKind;
//! use lustrine_lnet::md::{MatchId, Md, MdOptions, Owner, Position, Unlink};
//! use lustrine_lnet::memory::{Memory, Span};
//! use lustrine_lnet::portal::MatchEntry;
//! use lustrine_lnet::shard::{AckWanted, PutArgs};
//! use lustrine_lnet::time::Time;
//! use lustrine_lnet::tunables::Tunables;
//! use lustrine_lnet_testing::{Net, test_nid};
//! use lustrine_wire::nid::{Nid, PID_ANY, ProcessId};
//!
//! let now = Time(1_000_000_000);
//! let mut net = Net::new(2, &Tunables::default());
//! let md = |span: Span, threshold, options| Md {
//!     spans: [span].into_iter().collect(),
//!     threshold: Some(threshold),
//!     max_size: None,
//!     options,
//!     owner: Owner(7),
//!     user: 0,
//! };
//!
//! // Node 1 takes one PUT with match bits 5 on portal 30, from every sender.
//! let target = &mut net.nodes[1];
//! let sink = target.memory.alloc(5).expect("memory");
//! let entry = MatchEntry {
//!     from: MatchId { nid: Nid::ANY, pid: PID_ANY },
//!     match_bits: 5,
//!     ignore_bits: 0,
//!     position: Position::After,
//!     unlink: Unlink::Auto,
//! };
//! target.shard.attach(now, 30, entry, md(sink, 1, MdOptions::OP_PUT))?;
//!
//! // Node 0 sends it. The PUT and the ACK are two operations of its descriptor.
//! let source = &mut net.nodes[0];
//! let span = source.memory.alloc(5).expect("memory");
//! source.memory.write(span, b"hello");
//! let from = source.shard.bind(md(span, 2, MdOptions::empty()))?;
//! let args = PutArgs {
//!     md: from,
//!     local: None,
//!     target: ProcessId::lustre(test_nid(1)),
//!     portal: 30,
//!     match_bits: 5,
//!     offset: 0,
//!     hdr_data: 0,
//!     ack: AckWanted::Yes,
//!     timeout: None,
//! };
//! source.shard.put(now, args)?;
//!
//! net.run(now);
//! let mut kinds = |node| -> Vec<EventKind> {
//!     net.events(node).iter().map(|event| event.kind).collect()
//! };
//! assert_eq!(kinds(1), [EventKind::Put]);
//! assert_eq!(kinds(0), [EventKind::Send, EventKind::Ack]);
//! let mut stored = [0; 5];
//! net.nodes[1].memory.read(sink, &mut stored);
//! assert_eq!(&stored, b"hello");
//! # Ok::<(), lustrine_lnet::error::LnetError>(())
//! ```
//!
//! # A GET
//!
//! Every node answers a GET on portal 0 with its ping information: this is a ping.
//!
//! ```
//! use lustrine_lnet::event::EventKind;
//! use lustrine_lnet::md::{Md, MdOptions, Owner};
//! use lustrine_lnet::memory::Memory;
//! use lustrine_lnet::shard::{GetArgs, PING_BITS, PING_PORTAL};
//! use lustrine_lnet::time::Time;
//! use lustrine_lnet::tunables::Tunables;
//! use lustrine_lnet_testing::{Net, test_nid};
//! use lustrine_wire::nid::ProcessId;
//! use lustrine_wire::ping::PingInfo;
//!
//! let now = Time(1_000_000_000);
//! let mut net = Net::new(2, &Tunables::default());
//! let node = &mut net.nodes[0];
//! let sink = node.memory.alloc(272).expect("memory");
//! let md = node.shard.bind(Md {
//!     spans: [sink].into_iter().collect(),
//!     threshold: Some(2),
//!     max_size: None,
//!     options: MdOptions::empty(),
//!     owner: Owner(7),
//!     user: 0,
//! })?;
//! let args = GetArgs {
//!     md,
//!     local: None,
//!     target: ProcessId::lustre(test_nid(1)),
//!     portal: PING_PORTAL,
//!     match_bits: PING_BITS,
//!     offset: 0,
//!     timeout: None,
//! };
//! node.shard.get(now, args)?;
//!
//! net.run(now);
//! let reply = net.events(0).pop().expect("an event");
//! assert!(reply.kind == EventKind::Reply && reply.status.is_ok());
//! let mut bytes = vec![0; reply.moved as usize];
//! net.nodes[0].memory.read(sink, &mut bytes);
//! let info = PingInfo::parse_limited(&bytes, 200).expect("ping information");
//! assert_eq!(info.primary(), Some(test_nid(1)));
//! # Ok::<(), lustrine_lnet::error::LnetError>(())
//! ```
//!
//! # Discovery
//!
//! ```
//! use lustrine_lnet::shard::PeerState;
//! use lustrine_lnet::status::Status;
//! use lustrine_lnet::time::Time;
//! use lustrine_lnet::tunables::Tunables;
//! use lustrine_lnet_testing::{Net, test_nid};
//!
//! let now = Time(1_000_000_000);
//! let mut net = Net::new(2, &Tunables::default());
//! net.nodes[0].shard.discover(now, &test_nid(1))?;
//!
//! // A ping to the peer, then a push of node 0's own information.
//! net.run(now);
//! let peer = net.nodes[0].shard.peer(&test_nid(1)).expect("a peer");
//! assert_eq!((peer.state, peer.outcome), (PeerState::Ready, Status::Ok));
//! assert_eq!(peer.nids, [(test_nid(1), true)]);
//! # Ok::<(), Status>(())
//! ```
#![forbid(unsafe_code)]

mod credits;
pub mod driver_report;
pub mod error;
pub mod event;
pub mod journal;
mod keys;
pub mod latency;
pub mod lnd;
mod lost;
pub mod md;
pub mod memory;
mod path;
mod peer;
pub mod portal;
pub mod service;
pub mod shard;
pub mod stats;
pub mod status;
#[cfg(test)]
#[allow(dead_code, unreachable_pub, reason = "lustrine-lnet-testing has the same file")]
mod testing;
pub mod time;
pub mod topology;
mod totals;
pub mod tunables;
mod wait_queue;

pub use peer::ConfiguredPeer;
