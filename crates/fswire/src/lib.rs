//! Converts bytes to values and back, for every message of Lustre's RPC layer.
//!
//! Every parser here is total: for any bytes, the result is a value or a named error, never a
//! panic. Views borrow the received bytes; only descriptions for people ([`describe`]) and
//! [`ost::bulk_pieces`] allocate. Numbers are little-endian on the wire; a message in the other
//! order is refused [RPC-4].
//!
//! [`message`] holds the framing, [`body`] what all messages carry, [`rpc`] every request and
//! reply as a typed list of its buffers. The other modules hold the structures, one module for
//! each service. The protocol is described, rule by rule, in `docs/protocol/`.
//!
//! ```
//! use lustrine_fswire::body::PtlrpcBody;
//! use lustrine_fswire::fid::Fid;
//! use lustrine_fswire::mdt::{MdValid, MdtBody};
//! use lustrine_fswire::message::{Header, Message};
//! use lustrine_fswire::opcode::Opcode;
//! use lustrine_fswire::rpc::{Request, mds};
//!
//! // A client asks for the attributes of the root.
//! let body = MdtBody { fid1: Fid::ROOT, valid: MdValid::GETATTR, ..MdtBody::default() };
//! let request = Request::MdsGetattr(mds::Getattr { body });
//! let rpc = PtlrpcBody { timeout: 5, ..PtlrpcBody::request(Opcode::MDS_GETATTR) };
//! let mut bytes = Vec::new();
//! request.encode(&Header::default(), &rpc, &mut bytes);
//!
//! // A server reads it.
//! let (message, rpc) = Message::parse_request(&bytes)?;
//! assert_eq!(rpc.opcode, Opcode::MDS_GETATTR);
//! assert_eq!(Request::parse(&message, &rpc)?, request);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

#[macro_use]
pub mod codec;
pub mod batch;
pub mod body;
pub mod checksum;
pub mod connect;
pub mod describe;
pub mod dir;
pub mod fid;
pub mod idx;
pub mod layout;
pub mod ldlm;
pub mod llog;
pub mod mdt;
pub mod message;
pub mod mgs;
pub mod opcode;
pub mod ost;
pub mod quota;
pub mod rpc;
pub mod text;
pub mod xid;
