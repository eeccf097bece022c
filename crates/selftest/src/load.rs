//! One RPC of a test as a client makes and judges it [LST-5] [LST-18].

use lustrine_congestion::Class;
use lustrine_lnet::memory::{Memory, Span};
use lustrine_lnet::time::{Nanos, WallClock};
use lustrine_wire::nid::{Nid, ProcessId};
use lustrine_wire::srpc::{
    BULK_MAX, Body, BrwCheck, BrwOp, BrwRequest, FEATURE_BULK_LEN, FEATURES_KNOWN, PING_MAGIC,
    PingRequest, Service,
};

use serde::{Deserialize, Serialize};

use crate::body::status;
use crate::bulk::Source;
use crate::limits::PAGE;
use crate::pattern;
use crate::rpc::{Bulk, Call, Completion, LnetErrorKind, NoRoom, RpcClient, RpcError};
use crate::turn::Turn;

/// What a test does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Test {
    /// A small request and a small reply.
    Ping,
    /// The server puts data into our memory.
    Read {
        /// Bytes per RPC, a multiple of 8, at most 1 MiB.
        len: u32,
        /// How the data are checked.
        check: BrwCheck,
    },
    /// The server gets data from our memory.
    Write {
        /// Bytes per RPC, a multiple of 8, at most 1 MiB.
        len: u32,
        /// How the data are checked.
        check: BrwCheck,
    },
}

impl Test {
    /// The service that answers it.
    pub fn service(self) -> Service {
        match self {
            Test::Ping => Service::Ping,
            Test::Read { .. } | Test::Write { .. } => Service::Brw,
        }
    }

    /// Payload bytes of one RPC.
    pub fn len(self) -> u32 {
        match self {
            Test::Ping => 0,
            Test::Read { len, .. } | Test::Write { len, .. } => len,
        }
    }

    /// Its class for windows: kind and size determine how long it takes without a queue.
    pub(crate) fn class(self) -> Class {
        let kind = match self {
            Test::Ping => 0,
            Test::Read { .. } => 1,
            Test::Write { .. } => 2,
        };
        Class::new(kind, u64::from(self.len()))
    }

    /// Whether an RPC moves no payload.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }
}

/// A test that is never sent because it would bring a kernel peer down, or cannot work there
/// [LST-19].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HarmfulTest {
    /// Number 1.
    #[error("a bulk test of {0} bytes: kernels of all releases crash unless it is a multiple of 8")]
    NotWords(u32),
    /// Number 2.
    #[error("a bulk test of {0} bytes: 1 to 1048576 are allowed, kernels from 2.16 on crash")]
    Length(u32),
    /// Number 2.
    #[error("features {0:#x} hold unknown bits: kernels from 2.16 on crash")]
    Features(u32),
    /// Number 2, without the feature "bulk parameters in bytes".
    #[error(
        "a bulk test of {0} bytes is not a whole number of pages, as a session of version 0 needs"
    )]
    PartialPage(u32),
    /// Number 3.
    #[error("check 'discard' is unknown to all releases up to 2.17 and crashes those from 2.16 on")]
    Discard,
}

/// A test that is safe to send.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    test: Test,
    features: u32,
    /// Where in a page the client's data begin [LST-5].
    offset: u32,
}

impl Plan {
    /// Checks a test against [LST-19].
    pub(crate) fn new(test: Test, features: u32, offset: u32) -> Result<Plan, HarmfulTest> {
        if features & !FEATURES_KNOWN != 0 {
            return Err(HarmfulTest::Features(features));
        }
        if let Test::Read { len, check } | Test::Write { len, check } = test {
            if len == 0 || len > BULK_MAX {
                return Err(HarmfulTest::Length(len));
            }
            if len % 8 != 0 {
                return Err(HarmfulTest::NotWords(len));
            }
            if features & FEATURE_BULK_LEN == 0 && len % PAGE != 0 {
                return Err(HarmfulTest::PartialPage(len));
            }
            if check == BrwCheck::Discard {
                return Err(HarmfulTest::Discard);
            }
        }
        Ok(Plan { test, features, offset: offset % PAGE })
    }

    pub(crate) fn test(&self) -> Test {
        self.test
    }

    /// Bytes of memory one RPC needs of its own: only what is received does.
    pub(crate) fn sink_len(&self) -> Option<u32> {
        match self.test {
            Test::Read { len, .. } => Some(self.offset + len),
            Test::Ping | Test::Write { .. } => None,
        }
    }
}

/// What one RPC needs beyond its plan.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TestRpc {
    pub(crate) peer: ProcessId,
    pub(crate) local: Option<Nid>,
    /// Memory of [`Plan::sink_len`] bytes.
    pub(crate) sink: Option<Span>,
    /// Sequence number of a ping.
    pub(crate) seq: u32,
    pub(crate) timeout: Nanos,
    pub(crate) user: u32,
}

/// What was wrong with an RPC of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum TestError {
    /// It got no usable reply.
    #[error(transparent)]
    Rpc(#[from] RpcError),
    /// The server refused or failed.
    #[error("the server answered with error {0}")]
    Remote(u32),
    /// Data that are not what the pattern says (EBADMSG).
    #[error("wrong data")]
    Corrupt,
    /// Fewer bytes than asked for.
    #[error("fewer bytes than asked for")]
    Short,
    /// A ping came back with another magic or sequence number (EBADMSG).
    #[error("a ping came back as another one")]
    Echo,
    /// Not one RPC ended in the measured time, and none failed: counted once per step.
    #[error("no RPC ended in the measured time")]
    NoneEnded,
}

impl TestError {
    /// Whether the answer never came.
    pub(crate) fn is_lost(self) -> bool {
        matches!(
            self,
            TestError::Rpc(RpcError::TimedOut | RpcError::Aborted | RpcError::PeerLost(_))
        )
    }
}

/// Why an RPC was not started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unsent {
    /// The window to the peer has no room.
    NoRoom,
    /// It failed.
    Failed(RpcError),
}

/// Starts one RPC.
///
/// # Errors
/// As [`RpcClient::admit`] and [`RpcClient::call`].
#[inline]
pub(crate) fn send_test<M: Memory>(
    turn: &mut Turn<'_, M>,
    caller: &mut RpcClient,
    source: &mut Source,
    wall: WallClock,
    plan: &Plan,
    shot: TestRpc,
) -> Result<u32, Unsent> {
    let (now, peer) = (turn.now, shot.peer);
    let ticket = caller.admit(now, peer, plan.test.class()).map_err(|NoRoom| Unsent::NoRoom)?;
    let bulk = match plan.test {
        Test::Ping => Bulk::None,
        Test::Read { len, check } => {
            let sink = data_part(plan, shot.sink, len);
            pattern::poison(turn.memory, sink, check);
            Bulk::Sink(sink)
        }
        Test::Write { len, .. } => {
            let Some(part) = source.part(turn.memory, plan.offset, len) else {
                let full = RpcError::Local(LnetErrorKind::Full);
                caller.leave(now, peer, ticket, &Err(full));
                return Err(Unsent::Failed(full));
            };
            Bulk::Source(part)
        }
    };
    let call = Call {
        peer: shot.peer,
        local: shot.local,
        service: plan.test.service(),
        features: plan.features,
        bulk,
        timeout: shot.timeout,
        user: shot.user,
    };
    let brw = |ids: crate::rpc::RpcIds, rw: BrwOp, len: u32, check: BrwCheck| {
        Body::BrwRequest(BrwRequest {
            reply_bits: ids.reply,
            bulk_bits: ids.bulk,
            rw: rw as u32,
            len,
            check: check as u32,
        })
    };
    let called = caller.call(turn, call, |ids| match plan.test {
        Test::Ping => {
            // No node evaluates the time [LST-18].
            let wall = wall.at(now).0;
            let (time_s, time_ns) = (wall / 1_000_000_000, wall % 1_000_000_000);
            Body::PingRequest(PingRequest {
                reply_bits: ids.reply,
                magic: PING_MAGIC,
                seq: shot.seq,
                time_s,
                time_ns,
            })
        }
        Test::Read { len, check } => brw(ids, BrwOp::Read, len, check),
        Test::Write { len, check } => brw(ids, BrwOp::Write, len, check),
    });
    caller.called(now, peer, ticket, called);
    called.map_err(Unsent::Failed)
}

/// Whether an RPC did what it should.
///
/// # Errors
/// The error of the RPC.
pub(crate) fn judge(
    memory: &impl Memory,
    plan: &Plan,
    sink: Option<Span>,
    seq: u32,
    completion: &Completion,
) -> Result<(), TestError> {
    let reply = completion.outcome?;
    match status(&reply.body) {
        Some(0) => {}
        Some(errno) => return Err(TestError::Remote(errno)),
        None => return Err(TestError::Rpc(RpcError::BadReply)),
    }
    match (plan.test, reply.body) {
        (Test::Ping, Body::PingReply(pong)) if pong.magic == PING_MAGIC && pong.seq == seq => {
            Ok(())
        }
        (Test::Ping, _) => Err(TestError::Echo),
        (Test::Read { len, .. } | Test::Write { len, .. }, _) if completion.bulk_moved < len => {
            Err(TestError::Short)
        }
        (Test::Read { len, check }, _) => {
            let sink = data_part(plan, sink, len);
            pattern::verify(memory, sink, check, reply.order).map_err(|_| TestError::Corrupt)
        }
        (Test::Write { .. }, _) => Ok(()),
    }
}

fn data_part(plan: &Plan, sink: Option<Span>, len: u32) -> Span {
    sink.expect("a read has memory of its own").part(plan.offset, len)
}

#[cfg(test)]
mod tests;
