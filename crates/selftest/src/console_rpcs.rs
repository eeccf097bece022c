//! RPCs that another part of the program orders: orders come in, outcomes go out.

use std::collections::VecDeque;

use lustrine_lnet::event::Event;
use lustrine_lnet::md::Owner;
use lustrine_lnet::memory::{Memory, Span};
use lustrine_lnet::shard::Shard;
use lustrine_lnet::status::Status;
use lustrine_lnet::time::Time;
use lustrine_wire::nid::{Nid, ProcessId};
use lustrine_wire::srpc::{Body, CLIENT_STATS_LEN_MAX, Destination, FEATURE_BULK_LEN, Message};

use crate::body;
use crate::console::{ConsoleRpc, RpcOutcome};
use crate::limits::{DESTINATIONS_MAX, PAGE, PAGE_MAX};
use crate::mark::{ClientSlot, Mark, Role};
use crate::pattern::OUR_ORDER;
use crate::rpc::{Bulk, Call, Completion, LnetErrorKind, RpcClient, RpcError, session_nid};
use crate::slab::Slab;
use crate::turn::Turn;

/// Most RPCs in flight at once; more wait.
const IN_FLIGHT_MAX: u32 = 4096;

/// Carries out the orders of a console on one CPU partition: that which owns the NIDs of the nodes
/// called, as replies arrive there. It has memory only while RPCs are in flight.
#[derive(Debug)]
pub struct ConsoleRpcs {
    owner: Owner,
    caller: RpcClient,
    waiting: VecDeque<ConsoleRpc>,
    in_flight: Slab<InFlight>,
    /// Orders in flight that are given up with the next turn.
    canceled: Vec<u64>,
    outcomes: VecDeque<RpcOutcome>,
}

#[derive(Debug)]
struct InFlight {
    order: u64,
    /// Its slot at the caller; none once that has ended it.
    call: Option<u32>,
    /// The list the node fetches, or room for what it puts.
    bulk: Option<Span>,
}

impl ConsoleRpcs {
    /// `wall_seconds` is the wall clock's at the start of the node.
    pub fn new(owner: Owner, wall_seconds: u64) -> ConsoleRpcs {
        ConsoleRpcs {
            owner,
            caller: RpcClient::new(ClientSlot::CONSOLE, wall_seconds, IN_FLIGHT_MAX),
            waiting: VecDeque::new(),
            in_flight: Slab::new(IN_FLIGHT_MAX),
            canceled: Vec::new(),
            outcomes: VecDeque::new(),
        }
    }

    /// Takes an order; the next [`ConsoleRpcs::drive`] acts on it.
    pub fn take(&mut self, order: ConsoleRpc) {
        self.waiting.push_back(order);
    }

    /// Nothing waits for an order any more; the next [`ConsoleRpcs::drive`] gives its RPC up. It
    /// may have ended.
    pub fn cancel(&mut self, order: u64) {
        let waited = self.waiting.len();
        self.waiting.retain(|waiting| waiting.id != order);
        if self.waiting.len() == waited {
            self.canceled.push(order);
        }
    }

    /// The next RPC that is over.
    pub fn next_rpc_outcome(&mut self) -> Option<RpcOutcome> {
        self.outcomes.pop_front()
    }

    /// Takes in an event; those of others are left alone.
    pub fn handle<M: Memory>(
        &mut self,
        now: Time,
        shard: &mut Shard,
        memory: &mut M,
        event: &Event,
    ) {
        let Some(mark) = Mark::of(event) else { return };
        if mark.role != Role::RpcClient(ClientSlot::CONSOLE) {
            return;
        }
        let turn = &mut Turn { now, owner: self.owner, shard, memory };
        if let Some(completion) = self.caller.handle(turn, mark, event) {
            let Completion { user, outcome, bulk_moved, .. } = completion;
            self.end(turn.memory, user, outcome, bulk_moved);
        }
    }

    /// A peer lost its last connection, or restarted: what is awaited of it will not come.
    pub fn peer_lost<M: Memory>(
        &mut self,
        now: Time,
        shard: &mut Shard,
        memory: &mut M,
        peer: &ProcessId,
        status: Status,
    ) {
        self.caller.peer_lost(&mut Turn { now, owner: self.owner, shard, memory }, peer, status);
    }

    /// Once per loop turn, after the events.
    pub fn drive<M: Memory>(&mut self, now: Time, shard: &mut Shard, memory: &mut M) {
        let canceled = core::mem::take(&mut self.canceled);
        if self.is_idle() {
            return;
        }
        let turn = &mut Turn { now, owner: self.owner, shard, memory };
        for (_, in_flight) in self.in_flight.iter() {
            if let Some(call) = in_flight.call.filter(|_| canceled.contains(&in_flight.order)) {
                self.caller.abort(turn, call, RpcError::Aborted);
            }
        }
        self.caller.expire(turn);
        while !self.in_flight.is_full()
            && let Some(order) = self.waiting.pop_front()
        {
            self.call(turn, &order);
        }
        if self.caller.in_flight() == 0 && self.caller.holds_memory() {
            self.caller.release_memory(turn.memory);
        }
    }

    /// When [`ConsoleRpcs::drive`] has something to do at the latest.
    pub fn next_deadline(&self) -> Time {
        let can_begin = !self.waiting.is_empty() && !self.in_flight.is_full();
        let can_begin = can_begin || !self.canceled.is_empty();
        match self.caller.in_flight() {
            _ if can_begin => Time::ZERO,
            // The last event came behind the last turn.
            0 if self.holds_memory() => Time::ZERO,
            0 => Time::NEVER,
            _ => self.caller.next_deadline(),
        }
    }

    /// RPCs in flight.
    pub fn in_flight(&self) -> u32 {
        self.caller.in_flight()
    }

    /// Whether it has message buffers.
    pub fn holds_memory(&self) -> bool {
        self.caller.holds_memory()
    }

    fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.caller.in_flight() == 0 && !self.holds_memory()
    }

    fn call<M: Memory>(&mut self, turn: &mut Turn<'_, M>, order: &ConsoleRpc) {
        let bulk = match (order.list.is_empty(), order.room) {
            (true, 0) => Some(Bulk::None),
            (true, room) => turn.memory.alloc(room.min(CLIENT_STATS_LEN_MAX)).map(Bulk::Sink),
            (false, _) => write_list(turn.memory, order).map(Bulk::Source),
        };
        let Some(bulk) = bulk else {
            let reply = Err(RpcError::Local(LnetErrorKind::Full));
            return self.outcomes.push_back(RpcOutcome { rpc: order.id, reply, put: Vec::new() });
        };
        let span = match bulk {
            Bulk::None => None,
            Bulk::Sink(span) | Bulk::Source(span) => Some(span),
        };
        let in_flight = InFlight { order: order.id, call: None, bulk: span };
        let Ok(slot) = self.in_flight.insert(in_flight) else { unreachable!("there was room") };
        let peer = through_loopback(turn.shard, order.peer);
        let call = Call {
            peer: ProcessId::lustre(peer),
            local: session_nid(turn.shard, &peer),
            service: order.service,
            features: order.features,
            bulk,
            timeout: order.timeout,
            user: slot,
        };
        let made = self.caller.call(turn, call, |ids| body::with_bits(order.body, ids));
        match made {
            Ok(call) => {
                if let Some(in_flight) = self.in_flight.get_mut(slot) {
                    in_flight.call = Some(call);
                }
            }
            Err(failure) => self.end(turn.memory, slot, Err(failure), 0),
        }
    }

    fn end<M: Memory>(
        &mut self,
        memory: &mut M,
        slot: u32,
        reply: Result<Message, RpcError>,
        moved: u32,
    ) {
        let Some(InFlight { order, bulk, .. }) = self.in_flight.remove(slot) else { return };
        let mut put = Vec::new();
        if let Some(span) = bulk {
            if let Ok(Message { body: Body::ClientStatsReply(_), .. }) = &reply {
                put.resize(moved.min(span.len) as usize, 0);
                memory.read(span.part(0, put.len() as u32), &mut put);
            }
            memory.free(span);
        }
        self.outcomes.push_back(RpcOutcome { rpc: order, reply, put });
    }
}

/// The address of a node as this node reaches it: `0@lo` for itself. The service trusts a console
/// that it hears from there, as nothing from the network can come from that address.
fn through_loopback(shard: &Shard, nid: Nid) -> Nid {
    if shard.topology().ni_of(&nid).is_some() { Nid::LO } else { nid }
}

/// The list of destinations of an order, in memory and in our byte order, or `None` when that is
/// used up. A node of a session without the feature "bulk parameters in bytes" fetches whole pages
/// of its own [LST-27], so there is as much as the largest of them.
fn write_list(memory: &mut impl Memory, order: &ConsoleRpc) -> Option<Span> {
    let page = if order.features & FEATURE_BULK_LEN == 0 { PAGE_MAX } else { PAGE };
    let list = &order.list[..order.list.len().min(DESTINATIONS_MAX as usize)];
    let mut raw = Vec::with_capacity(page as usize);
    for entries in list.chunks(PAGE as usize / Destination::LEN) {
        raw.resize(raw.len().next_multiple_of(PAGE as usize), 0);
        raw.extend(entries.iter().flat_map(|destination| destination.encode(OUR_ORDER)));
    }
    raw.resize(raw.len().next_multiple_of(page as usize), 0);
    let span = memory.alloc(raw.len() as u32)?;
    memory.write(span, &raw);
    Some(span)
}
