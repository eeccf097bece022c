//! One completion per RPC, whatever happens to its messages.

use std::collections::HashMap;

use crate::tunables::Tunables;
use foldhash::fast::FixedState;
use lustrine_lnet::md::Owner;
use lustrine_lnet::memory::VecMemory;
use lustrine_lnet::time::WallClock;
use lustrine_lnet_testing::{Delivery, Net, test_nid};
use lustrine_wire::srpc::{
    BrwOp, BrwReply, BrwRequest, DebugRequest, FEATURES_KNOWN, PING_MAGIC, PingReply, PingRequest,
    Sid,
};
use proptest::prelude::*;

use super::*;
use crate::Service as SelftestService;
use crate::errno;

const TIMEOUT: Nanos = Nanos::from_secs(4);
const LEN: u32 = 4096;

/// Node 0 calls, node 1 serves.
struct World {
    net: Net,
    service: SelftestService,
    caller: RpcClient,
    now: Time,
    completions: HashMap<u32, Completion, FixedState>,
    next_user: u32,
    buffers: Vec<Span>,
}

impl World {
    fn new() -> World {
        let tunables = Tunables::default();
        World {
            net: Net::new(2, &Default::default()),
            service: SelftestService::new(Owner(1), 0, 1, &tunables, WallClock::from_secs(7)),
            caller: RpcClient::new(ClientSlot(1), 7, 64),
            now: Time(1),
            completions: HashMap::with_hasher(FixedState::default()),
            next_user: 0,
            buffers: Vec::new(),
        }
    }

    fn with_caller<R>(
        &mut self,
        work: impl FnOnce(&mut RpcClient, &mut Turn<'_, VecMemory>) -> R,
    ) -> R {
        let node = &mut self.net.nodes[0];
        let mut turn = Turn {
            now: self.now,
            owner: Owner(1),
            shard: &mut node.shard,
            memory: &mut node.memory,
        };
        work(&mut self.caller, &mut turn)
    }

    fn call(&mut self, kind: u8) -> Result<u32, RpcError> {
        let user = self.next_user;
        let (service, bulk) = match kind % 4 {
            0 => (Service::Ping, Bulk::None),
            1 => (Service::Debug, Bulk::None),
            2 | 3 => {
                let span = self.net.nodes[0].memory.alloc(LEN).unwrap();
                self.buffers.push(span);
                (Service::Brw, if kind % 4 == 2 { Bulk::Sink(span) } else { Bulk::Source(span) })
            }
            _ => unreachable!(),
        };
        let call = Call {
            peer: ProcessId::lustre(test_nid(1)),
            local: None,
            service,
            features: FEATURES_KNOWN,
            bulk,
            timeout: TIMEOUT,
            user,
        };
        let slot =
            self.with_caller(|caller, turn| caller.call(turn, call, |ids| request(kind, ids)))?;
        self.next_user += 1;
        Ok(slot)
    }

    fn events(&mut self) {
        while let Some(event) = self.net.nodes[0].shard.next_event() {
            let mark = Mark::of(&event).expect("only the caller has descriptors here");
            let done = self.with_caller(|caller, turn| caller.handle(turn, mark, &event));
            if let Some(done) = done {
                assert!(self.completions.insert(done.user, done).is_none(), "two completions");
            }
        }
        let node = &mut self.net.nodes[1];
        while let Some(event) = node.shard.next_event() {
            self.service.handle(self.now, &mut node.shard, &mut node.memory, &event);
        }
        self.service.drive(self.now, &mut node.shard, &mut node.memory);
        self.with_caller(|caller, turn| caller.expire(turn));
        self.net.settle(self.now);
    }

    /// Delivers everything and lets all time-outs pass.
    fn finish(&mut self) {
        for _ in 0..2000 {
            self.events();
            while !self.net.packets.is_empty() {
                self.net.deliver(self.now, 0, Delivery::Deliver);
            }
            self.now = self.now + Nanos::from_millis(200);
            if self.caller.in_flight() == 0 {
                return;
            }
        }
        panic!("{} RPCs never ended", self.caller.in_flight());
    }

    fn outcome(&self, user: u32) -> Result<Message, RpcError> {
        self.completions[&user].outcome
    }
}

fn request(kind: u8, ids: RpcIds) -> Body {
    let rw = if kind % 4 == 2 { BrwOp::Read } else { BrwOp::Write };
    match kind % 4 {
        0 => Body::PingRequest(PingRequest {
            reply_bits: ids.reply,
            magic: PING_MAGIC,
            seq: 5,
            time_s: 0,
            time_ns: 0,
        }),
        1 => Body::DebugRequest(DebugRequest { reply_bits: ids.reply, sid: Sid::NONE, flags: 0 }),
        _ => Body::BrwRequest(BrwRequest {
            reply_bits: ids.reply,
            bulk_bits: ids.bulk,
            rw: rw as u32,
            len: LEN,
            check: 1,
        }),
    }
}

#[test]
fn each_kind_of_rpc_gets_its_reply() {
    let mut world = World::new();
    for kind in 0..4 {
        world.call(kind).unwrap();
    }
    world.finish();
    let bodies: Vec<Body> = (0..4).map(|user| world.outcome(user).unwrap().body).collect();
    let pong = PingReply { status: 0, magic: PING_MAGIC, seq: 5 };
    assert_eq!(bodies[0], Body::PingReply(pong));
    assert_eq!(status(&bodies[1]), Some(errno::ESRCH));
    assert_eq!(bodies[2], Body::BrwReply(BrwReply { status: 0 }));
    assert_eq!(bodies[3], Body::BrwReply(BrwReply { status: 0 }));
    assert_eq!((world.completions[&2].bulk_moved, world.completions[&3].bulk_moved), (LEN, LEN));
    assert_eq!(world.caller.totals().sent, 4);
}

#[test]
fn a_refused_bulk_rpc_ends_without_its_bulk() {
    let mut world = World::new();
    let span = world.net.nodes[0].memory.alloc(LEN).unwrap();
    let call = Call {
        peer: ProcessId::lustre(test_nid(1)),
        local: None,
        service: Service::Brw,
        features: FEATURES_KNOWN,
        bulk: Bulk::Sink(span),
        timeout: TIMEOUT,
        user: 0,
    };
    let bad = |ids: RpcIds| {
        Body::BrwRequest(BrwRequest {
            reply_bits: ids.reply,
            bulk_bits: ids.bulk,
            rw: 9,
            len: LEN,
            check: 1,
        })
    };
    world.with_caller(|caller, turn| caller.call(turn, call, bad)).unwrap();
    world.finish();
    let reply = world.outcome(0).unwrap();
    assert_eq!(status(&reply.body), Some(errno::EINVAL));
    assert_eq!(world.completions[&0].bulk_moved, 0);
    assert!(world.now < Time::ZERO + TIMEOUT, "no time-out was needed");
}

#[test]
fn silence_ends_in_a_time_out_at_the_deadline() {
    let mut world = World::new();
    world.call(0).unwrap();
    // The peer is not there at all: discovery and the request vanish.
    while world.caller.in_flight() > 0 {
        world.net.settle(world.now);
        for _ in 0..world.net.packets.len() {
            world.net.deliver(world.now, 0, Delivery::Lose);
        }
        world.events();
        world.now = world.now + Nanos::from_millis(100);
        assert!(world.now < Time::ZERO + Nanos::from_secs(10));
    }
    assert_eq!(world.outcome(0), Err(RpcError::TimedOut));
    let late = world.completions[&0].took.0 - TIMEOUT.0;
    assert!(late <= 100_000_000, "{late} ns late");
    assert_eq!(world.caller.totals().expired, 1);
}

#[test]
fn a_lost_peer_ends_its_rpcs_at_once_and_no_others() {
    let mut world = World::new();
    for kind in 0..4 {
        world.call(kind).unwrap();
    }
    world.net.settle(world.now);
    let stranger = ProcessId::lustre(test_nid(5));
    let lost = Status::ConnectionLost;
    world.with_caller(|caller, turn| caller.peer_lost(turn, &stranger, lost));
    world.events();
    assert_eq!(world.completions.len(), 0);
    world.with_caller(|caller, turn| caller.peer_lost(turn, &ProcessId::lustre(test_nid(1)), lost));
    world.finish();
    for user in 0..4 {
        assert_eq!(world.outcome(user), Err(RpcError::PeerLost(lost)), "RPC {user}");
    }
    assert!(world.now < Time::ZERO + TIMEOUT, "no time-out was needed");
    // As with a kernel client, which waits for the time-out.
    let totals = world.caller.totals();
    assert_eq!((totals.errors, totals.expired), (4, 4));
}

/// A peer that restarts is met by the first request to it: that request is for its new life.
#[test]
fn a_restart_is_no_reason_to_give_up_what_has_not_left() {
    let mut world = World::new();
    world.call(0).unwrap();
    let peer = ProcessId::lustre(test_nid(1));
    let restarted = Status::PeerRestarted;
    world.with_caller(|caller, turn| caller.peer_lost(turn, &peer, restarted));
    world.finish();
    assert!(world.outcome(0).is_ok());
    // One that has left was for the life before.
    world.call(0).unwrap();
    world.net.settle(world.now);
    world.net.deliver(world.now, 0, Delivery::Deliver);
    world.events();
    world.with_caller(|caller, turn| caller.peer_lost(turn, &peer, restarted));
    world.finish();
    assert_eq!(world.outcome(1), Err(RpcError::PeerLost(restarted)));
}

/// The event of the reply is in the queue when the RPC is given up: the reason stays.
#[test]
fn a_reply_that_comes_after_the_rpc_was_given_up_does_not_save_it() {
    let mut world = World::new();
    let slot = world.call(0).unwrap();
    world.net.settle(world.now);
    while !world.net.packets.is_empty() {
        world.net.deliver(world.now, 0, Delivery::Deliver);
        let node = &mut world.net.nodes[1];
        while let Some(event) = node.shard.next_event() {
            world.service.handle(world.now, &mut node.shard, &mut node.memory, &event);
        }
        world.service.drive(world.now, &mut node.shard, &mut node.memory);
        world.net.settle(world.now);
    }
    assert!(world.net.nodes[0].shard.has_events());
    world.with_caller(|caller, turn| caller.abort(turn, slot, RpcError::TimedOut));
    world.events();
    assert_eq!(world.outcome(0), Err(RpcError::TimedOut));
}

#[test]
fn the_table_of_rpcs_has_an_end() {
    let mut world = World::new();
    for _ in 0..64 {
        world.call(0).unwrap();
    }
    assert_eq!(world.call(0), Err(RpcError::Local(LnetErrorKind::Full)));
    world.finish();
    assert_eq!(world.completions.len(), 64);
    world.call(0).unwrap();
    world.finish();
}

#[test]
fn an_event_of_somebody_elses_descriptor_changes_nothing() {
    let mut world = World::new();
    let slot = world.call(0).unwrap();
    let event = Event {
        kind: EventKind::Put,
        status: Status::Ok,
        owner: Owner(1),
        user: 0,
        md: MdKey::default(),
        unlinked: true,
        peer: ProcessId::lustre(test_nid(1)),
        hop: ProcessId::lustre(test_nid(1)),
        local: ProcessId::lustre(test_nid(0)),
        portal: REPLY_PORTAL,
        match_bits: 0,
        hdr_data: 0,
        requested: CELL,
        moved: CELL,
        offset: 0,
    };
    let mark = Mark { role: Role::RpcClient(ClientSlot(1)), part: Part::Reply, slot };
    assert!(world.with_caller(|caller, turn| caller.handle(turn, mark, &event)).is_none());
    let nowhere = Mark { slot: 999, ..mark };
    assert!(world.with_caller(|caller, turn| caller.handle(turn, nowhere, &event)).is_none());
    world.finish();
    assert!(world.outcome(0).is_ok());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    /// Random RPCs, random order, loss and failure of their messages, random aborts: every RPC
    /// ends exactly once, and all memory comes back.
    #[test]
    fn every_rpc_ends_exactly_once(
        steps in proptest::collection::vec((0_u8..8, any::<u8>(), any::<u16>()), 1..200),
    ) {
        let mut world = World::new();
        let mut slots = Vec::new();
        for (step, kind, pick) in steps {
            match step {
                0 | 1 => slots.extend(world.call(kind).ok()),
                2 => world.events(),
                3 if !slots.is_empty() => {
                    let slot = slots.swap_remove(usize::from(pick) % slots.len());
                    world.with_caller(|caller, turn| caller.abort(turn, slot, RpcError::Aborted));
                }
                4 => world.now = world.now + Nanos::from_millis(u64::from(pick) / 16),
                _ => {
                    world.net.settle(world.now);
                    if world.net.packets.is_empty() {
                        continue;
                    }
                    let at = usize::from(pick) % world.net.packets.len();
                    let fate = match kind % 8 {
                        0 => Delivery::Lose,
                        1 => Delivery::Fail,
                        _ => Delivery::Deliver,
                    };
                    world.net.deliver(world.now, at, fate);
                }
            }
        }
        world.finish();
        prop_assert_eq!(world.completions.len() as u32, world.next_user);
        for (user, done) in &world.completions {
            if let Ok(reply) = done.outcome {
                prop_assert!(status(&reply.body).is_some(), "RPC {} got {:?}", user, reply);
            }
        }
        let node = &mut world.net.nodes[0];
        world.caller.release_memory(&mut node.memory);
        for span in world.buffers.drain(..) {
            node.memory.free(span);
        }
    }
}
