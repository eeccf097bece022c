//! Replies: how they are built, and what is filled in when they are sent.

use lustrine_fswire::body::{MessageType, PtlrpcBody};
use lustrine_fswire::codec::Wire;
use lustrine_fswire::message::{Header, header_len};
use lustrine_fswire::opcode::Opcode;
use lustrine_fswire::rpc::Reply;

use crate::errno;

/// Builds a reply with a status.
pub(crate) fn encode(opcode: Opcode, status: i32, transno: u64, reply: &Reply<'_>) -> Vec<u8> {
    let body = PtlrpcBody { status, transno, ..PtlrpcBody::reply(opcode) };
    let mut message = Vec::new();
    reply.encode(&Header::default(), &body, &mut message);
    message
}

/// The reply to a request that fails before it has done anything [RPC-8].
pub(crate) fn failure(opcode: Opcode, errno: i32) -> Vec<u8> {
    let usual = [errno::ENOSPC, errno::EACCES, errno::EPERM, errno::ENOENT];
    let kind = if usual.contains(&errno) { MessageType::REPLY } else { MessageType::ERROR };
    let body = PtlrpcBody { kind, status: -errno, ..PtlrpcBody::reply(opcode) };
    let mut message = Vec::new();
    Reply::Bare.encode(&Header::default(), &body, &mut message);
    message
}

/// The body of a message that this server has built.
pub(crate) fn body_of(message: &[u8]) -> PtlrpcBody {
    PtlrpcBody::parse(&message[body_at(message)..]).expect("replies have a body")
}

/// Changes the body of a message that this server has built.
pub(crate) fn change_body(message: &mut [u8], change: impl FnOnce(&mut PtlrpcBody)) {
    let at = body_at(message);
    let mut body = body_of(message);
    change(&mut body);
    body.overwrite(&mut message[at..]);
}

fn body_at(message: &[u8]) -> usize {
    let count = u32::from_le_bytes(*message.first_chunk().expect("a message has a header"));
    header_len(count as usize)
}
