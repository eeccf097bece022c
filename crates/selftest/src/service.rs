//! The selftest service of a node, as its event loops run it.

use std::collections::VecDeque;

use crate::tunables::Tunables;
use lustrine_lnet::event::Event;
use lustrine_lnet::md::Owner;
use lustrine_lnet::memory::Memory;
use lustrine_lnet::shard::Shard;
use lustrine_lnet::status::Status;
use lustrine_lnet::time::{Time, WallClock};
use lustrine_wire::nid::ProcessId;

use crate::counters::RpcTotals;
use crate::cpt_message::{CptMessage, CptMessageBody};
use crate::framework::{Framework, SessionInfo};
use crate::mark::{ClientSlot, Mark, Role};
use crate::policy::{ServiceMode, ServicePolicy};
use crate::rpc::PeerWindow;
use crate::turn::Turn;
use crate::worker::Worker;

/// The service on one CPU partition. Partition 0 also has the framework services.
///
/// The partition calls [`Service::handle`] for each event of its owner and [`Service::drive`] once
/// per round, and carries what [`Service::take_cpt_message`] returns to the other partitions. A
/// node that serves answers PING and BRW from the start, also before a console asks it to: requests
/// that waited inside LNet for a console would block the connection the console needs.
#[derive(Debug)]
pub struct Service {
    owner: Owner,
    cpt: u16,
    worker: Worker,
    framework: Option<Framework>,
    inbound: VecDeque<CptMessageBody>,
    outbound: VecDeque<(u16, CptMessage)>,
    /// Until then there is nothing to do in a turn, unless something comes in.
    idle_until: Time,
}

impl Service {
    /// The service of partition `cpt` of `cpts`, with descriptors of `owner`. `wall` is the
    /// wall clock at the start; it keeps match bits of one life of the node from those of the
    /// next.
    pub fn new(owner: Owner, cpt: u16, cpts: u16, tunables: &Tunables, wall: WallClock) -> Service {
        Service {
            owner,
            cpt,
            worker: Worker::new(cpt, cpts, tunables, wall),
            framework: (cpt == 0).then(|| Framework::new(cpts, tunables)),
            inbound: VecDeque::new(),
            outbound: VecDeque::new(),
            idle_until: Time::ZERO,
        }
    }

    /// Takes in an event; those of others are left alone.
    pub fn handle<M: Memory>(
        &mut self,
        now: Time,
        shard: &mut Shard,
        memory: &mut M,
        event: &Event,
    ) {
        match Mark::of(event) {
            Some(Mark { role: Role::RpcClient(client_slot), .. })
                if client_slot != ClientSlot::SERVICE => {}
            Some(mark) => {
                self.idle_until = Time::ZERO;
                self.worker.handle(
                    &mut Turn { now, owner: self.owner, shard, memory },
                    mark,
                    event,
                );
            }
            None => {}
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
        let turn = &mut Turn { now, owner: self.owner, shard, memory };
        self.idle_until = Time::ZERO;
        self.worker.peer_lost(turn, peer, status);
    }

    /// Once per loop turn, after the events.
    pub fn drive<M: Memory>(&mut self, now: Time, shard: &mut Shard, memory: &mut M) {
        if now < self.idle_until {
            return;
        }
        let turn = &mut Turn { now, owner: self.owner, shard, memory };
        self.worker.drive(turn);
        if let Some(framework) = &mut self.framework {
            framework.drive(now);
        }
        self.carry(turn);
        self.idle_until = if self.worker.is_settled() { self.due() } else { Time::ZERO };
    }

    /// Hands messages to the framework and the worker, until there are none left.
    fn carry<M: Memory>(&mut self, turn: &mut Turn<'_, M>) {
        let now = turn.now;
        // Each value leads to a bounded number of others, and a worker's own to none: this ends.
        loop {
            let mut idle = true;
            while let Some(news) = self.worker.take_news() {
                idle = false;
                match &mut self.framework {
                    Some(framework) => framework.accept(now, news),
                    None => {
                        self.outbound.push_back((0, CptMessage(CptMessageBody::Framework(news))))
                    }
                }
            }
            while let Some(message) = self.inbound.pop_front() {
                idle = false;
                match (message, &mut self.framework) {
                    (CptMessageBody::Framework(news), Some(framework)) => {
                        framework.accept(now, news)
                    }
                    (CptMessageBody::Framework(_), None) => {}
                    (CptMessageBody::Worker(order), _) => self.worker.accept(turn, order),
                }
            }
            while let Some((cpt, order)) = self.framework.as_mut().and_then(Framework::take_order) {
                idle = false;
                if cpt == self.cpt {
                    self.worker.accept(turn, order);
                } else {
                    self.outbound.push_back((cpt, CptMessage(CptMessageBody::Worker(order))));
                }
            }
            if idle {
                return;
            }
        }
    }

    /// When [`Service::drive`] must run at the latest, if nothing else happens.
    pub fn next_deadline(&self) -> Time {
        if self.idle_until == Time::ZERO { self.due() } else { self.idle_until }
    }

    fn due(&self) -> Time {
        let framework = self.framework.as_ref().map_or(Time::NEVER, Framework::next_deadline);
        self.worker.next_deadline().min(framework)
    }

    /// The next value for another partition, and which.
    pub fn take_cpt_message(&mut self) -> Option<(u16, CptMessage)> {
        self.outbound.pop_front()
    }

    /// Takes in a value of another partition; the next [`Service::drive`] acts on it.
    pub fn accept_cpt_message(&mut self, cross: CptMessage) {
        self.idle_until = Time::ZERO;
        self.inbound.push_back(cross.0);
    }

    /// The session in force; `None` also on partitions other than 0.
    pub fn session(&self) -> Option<SessionInfo> {
        self.framework.as_ref().and_then(Framework::session)
    }

    /// Counters of this partition since it began.
    pub fn totals(&self) -> RpcTotals {
        self.worker.totals()
    }

    /// The windows to peers to which RPCs are in flight for consoles, with `selftest_auto`, in no
    /// order.
    pub fn windows_in_use(&self) -> impl Iterator<Item = PeerWindow> + '_ {
        self.worker.windows_in_use()
    }

    /// Puts a policy into force; each partition of the node has to be given it. Until then a
    /// service has the default one, [`ServiceMode::Serve`] for every console. A session that the
    /// new policy does not allow ends at once, and with it the load that it makes this node send.
    pub fn set_policy<M: Memory>(
        &mut self,
        now: Time,
        shard: &mut Shard,
        memory: &mut M,
        policy: &ServicePolicy,
    ) {
        self.idle_until = Time::ZERO;
        let enabled = policy.mode != ServiceMode::Off;
        self.worker.set_enabled(&mut Turn { now, owner: self.owner, shard, memory }, enabled);
        if let Some(framework) = &mut self.framework {
            framework.set_policy(policy.clone());
        }
    }

    /// Withdraws the request buffers: nothing new is served, what is in flight goes on.
    pub fn close<M: Memory>(&mut self, now: Time, shard: &mut Shard, memory: &mut M) {
        self.idle_until = Time::ZERO;
        self.worker.close(&mut Turn { now, owner: self.owner, shard, memory });
    }
}
