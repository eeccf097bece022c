//! The control API of a node: what a program can ask a running node, and the answers.
//!
//! The types are the same inside the process and on the control socket. NIDs are values; as text
//! they appear only on the socket. This crate does no I/O: [`Session`] and [`Greeting`] turn lines
//! of text into requests and back, and the sockets are the node's and the tool's.
//!
//! # On the socket
//!
//! Both sides send lines of JSON, each ended by a line feed. A connection begins with an exchange
//! of versions; then each request gets one answer, in order:
//!
//! ```text
//! tool: {"hello":{"control":4,"release":"0.1.0"}}
//! node: {"hello":{"control":4,"release":"0.1.0","node":{"nid":"10.0.0.1@tcp",...}}}
//! tool: {"cmd":"ping","nid":"10.0.0.2@tcp","timeout_ms":1000}
//! node: {"answer":"ping","primary_nid":"10.0.0.2@tcp",...}
//! ```
//!
//! The node's first line says which node it is, and in which network namespace ([`NodeAbout`]).
//!
//! A selftest load ([`LoadOrder`]), and a session of the console that is `held`, belong to their
//! connection: the node ends them when the connection closes.
//!
//! # Compatibility
//!
//! [`VERSION`] grows with each change that an older tool or node would misunderstand. Within one
//! version an answer may get new fields, which older tools ignore, and a tool fills in the default
//! of an optional field that an older node does not send. A change is never read in part: a node
//! refuses one that has a field it does not know.
//!
//! # Example
//!
//! ```
//! use lustrine_control::{Answer, Greeting, Request, Session, LineResponse};
//!
//! let mut node = Session::default();
//! let hello = Greeting::line();
//! let LineResponse::Reply(reply) = node.on_line(&hello) else { panic!("the versions are equal") };
//! Greeting::check(&reply).unwrap();
//! let request = Request::Ping { nid: "10.0.0.2@tcp".parse().unwrap(), timeout_ms: 1000 };
//! let LineResponse::Call(read) = node.on_line(&request.to_line()) else {
//!     panic!("it is a request")
//! };
//! assert_eq!(*read, request);
//! ```
#![forbid(unsafe_code)]

mod about;
mod answer;
mod change;
mod codec;
mod conn;
mod latency;
mod load;
mod request;

pub use about::{NetNamespace, NodeAbout};
pub use answer::{
    Answer, CpuSeconds, Messages, NetInfo, NetRow, PeerIdentity, PeerNiRow, PeerRow, PeerState,
    StatsRow,
};
pub use change::{ChangeError, ChangeReport, ChangeRequest, ImportMode, NewNet, NiSelector};
pub use codec::{
    ANSWER_LEN_MAX, Greeting, LineResponse, RELEASE, REQUEST_LEN_MAX, Session, VERSION,
};
pub use codec::{AnswerError, VersionError};
pub use conn::{ConnRow, TcpRow};
pub use latency::{BucketRow, LatencyRow, OperationLatency, SummaryRow};
pub use load::{LoadFailure, LoadFailureKind, LoadLatency, LoadOrder, LoadRow};
pub use request::Request;
