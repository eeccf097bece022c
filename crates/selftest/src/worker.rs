//! One CPU partition's share of the service: request buffers, answers, client units.

mod answers;
mod quota;
mod request;
mod units;
mod waiting;

use std::collections::VecDeque;

use crate::tunables::Tunables;
use lustrine_lnet::event::Event;
use lustrine_lnet::memory::Memory;
use lustrine_lnet::portal::Laziness;
use lustrine_lnet::status::Status;
use lustrine_lnet::time::{Nanos, Time, WallClock};
use lustrine_wire::nid::ProcessId;
use lustrine_wire::srpc::{FRAMEWORK_PORTAL, TEST_PORTAL};

use crate::bulk::{Budget, Source};
use crate::counters::RpcTotals;
use crate::cpt_message::{FrameworkRequest, Share, Ticket, ToFramework, ToWorker};
use crate::limits::{INBOXES_MAX, UNITS_MAX, WAITING_MAX};
use crate::mark::{ClientSlot, Mark, Role};
use crate::rpc::{Arrived, PeerWindow, RequestBuffers, RpcClient};
use crate::turn::Turn;
use answers::{Answers, Progress, StatsTransfer};
use request::Request;
use units::{Tools, Units};

/// The service of one CPU partition.
#[derive(Debug)]
pub(crate) struct Worker {
    cpt: u16,
    /// Whether requests are to be taken, and whether they are.
    enabled: bool,
    open: bool,
    tests: RequestBuffers,
    framework: RequestBuffers,
    answers: Answers,
    caller: RpcClient,
    units: Units,
    source: Source,
    budget: Budget,
    wall: WallClock,
    timeout: Nanos,
    /// What the framework is to hear.
    news: VecDeque<ToFramework>,
}

impl Worker {
    pub(crate) fn new(cpt: u16, cpts: u16, tunables: &Tunables, wall: WallClock) -> Worker {
        let timeout = Nanos::from_secs(tunables.rpc_timeout.max(1) as u64);
        Worker {
            cpt,
            enabled: true,
            open: false,
            tests: RequestBuffers::new(TEST_PORTAL, 0),
            framework: RequestBuffers::new(FRAMEWORK_PORTAL, INBOXES_MAX),
            answers: Answers::new(timeout),
            caller: RpcClient::new(ClientSlot::SERVICE, wall.start_secs(), UNITS_MAX)
                .with_windows(wall, tunables),
            units: Units::new(tunables.selftest_client_stats != 0),
            source: Source::default(),
            budget: Budget::new(tunables.selftest_memory, cpts),
            wall,
            timeout,
            news: VecDeque::new(),
        }
    }

    /// Takes in an event of one of this partition's descriptors.
    pub(crate) fn handle<M: Memory>(&mut self, turn: &mut Turn<'_, M>, mark: Mark, event: &Event) {
        match mark.role {
            Role::RequestBuffers => self.arrived(turn, mark.slot, event),
            Role::Answer => {
                let progress = self.answers.handle(turn, &mut self.budget, mark.slot, event);
                if let Progress::Fetched(slot, list) = progress {
                    let ticket = Ticket { cpt: self.cpt, slot };
                    self.news.push_back(ToFramework::Fetched { ticket, list });
                }
            }
            Role::RpcClient(_) => {
                let completion = self.caller.handle(turn, mark, event);
                if let Some(completion) = &completion {
                    self.with_units(|units, tools| units.complete(turn, tools, completion));
                }
            }
        }
    }

    fn arrived<M: Memory>(&mut self, turn: &mut Turn<'_, M>, slot: u32, event: &Event) {
        let inbox = if self.tests.owns(slot) { &mut self.tests } else { &mut self.framework };
        let arrived = inbox.receive(turn.memory, slot, event);
        let (service, message) = match &arrived {
            Arrived::Nothing => return,
            Arrived::Bad => {
                self.answers.count_received();
                self.answers.count_dropped();
                return;
            }
            Arrived::Request(service, message) => (service, message),
        };
        self.answers.count_received();
        let (from, hop, local) = (event.peer, event.hop.nid, event.local.nid);
        if from.nid != hop {
            // The answer goes to the node that the request names, so a request cannot make this
            // node dial a stranger. (Requests through a gateway will have to be distinguished.)
            return self.answers.count_dropped();
        }
        let request = Request { message: *message, from, hop, local, since: turn.now };
        if turn.shard.journal_enabled() {
            turn.shard.note(turn.now, request.accepted(event));
        }
        if service.portal() == TEST_PORTAL {
            self.answers.serve(turn, &mut self.source, &mut self.budget, &request);
        } else if let Some(slot) = self.answers.admit_framework(request) {
            let ticket = Ticket { cpt: self.cpt, slot };
            let request = FrameworkRequest { ticket, from: from.nid, message: *message };
            self.news.push_back(ToFramework::Request(request));
        }
    }

    /// Does what the framework says.
    pub(crate) fn accept<M: Memory>(&mut self, turn: &mut Turn<'_, M>, order: ToWorker) {
        match order {
            ToWorker::Reply { ticket, features, body } => {
                self.answers.reply(turn, ticket.slot, features, body);
            }
            ToWorker::Compare { console, request } => {
                let same_node = turn.shard.is_nid_of(&console, &request.from);
                self.news.push_back(ToFramework::Compared { console, same_node, request });
            }
            ToWorker::Silence { ticket } => self.answers.drop_framework(ticket.slot),
            ToWorker::Fetch { ticket, bulk_bits, count, len, order } => {
                let what = (count, len, order);
                let budget = &mut self.budget;
                if let Err(error) = self.answers.fetch(turn, budget, ticket.slot, bulk_bits, what) {
                    self.news.push_back(ToFramework::Fetched { ticket, list: Err(error) });
                }
            }
            ToWorker::Add { instance, work, destinations } => {
                self.units.add(instance, work, &destinations);
            }
            ToWorker::Run { instance } => {
                self.with_units(|units, tools| units.run(turn, tools, instance));
            }
            ToWorker::Stop { instance, how } => {
                self.with_units(|units, tools| units.stop(turn, tools, instance, how));
            }
            ToWorker::Remove { instance } => {
                self.with_units(|units, tools| units.remove(turn, tools, instance));
            }
            ToWorker::NewSession => self.units.new_session(),
            ToWorker::Measure { gather, instance } => {
                let share = Box::new(self.units.measured(turn.now, instance));
                self.news.push_back(ToFramework::Measured { gather, share });
            }
            ToWorker::Put { ticket, features, bulk_bits, sid, stats } => {
                let terms = StatsTransfer { bulk_bits, features, sid };
                self.answers.put_client_stats(turn, &mut self.budget, ticket.slot, terms, &stats);
            }
            ToWorker::Count { gather } => {
                let share = Share {
                    rpc: self.totals(),
                    errors: self.units.errors(),
                    lnet: *turn.shard.stats(),
                };
                self.news.push_back(ToFramework::Counted { gather, share });
            }
        }
    }

    /// Once per loop turn.
    pub(crate) fn drive<M: Memory>(&mut self, turn: &mut Turn<'_, M>) {
        if self.enabled && !self.open {
            for portal in [TEST_PORTAL, FRAMEWORK_PORTAL] {
                turn.shard.set_lazy(portal, Laziness::Lazy).expect("selftest's portals exist");
            }
            self.open = true;
        }
        self.caller.expire(turn);
        self.answers.serve_waiting(turn, &mut self.source, &mut self.budget);
        let mut news = core::mem::take(&mut self.news);
        self.with_units(|units, tools| units.drive(turn, tools, &mut news));
        self.news = news;
        if !self.enabled {
            return;
        }
        // What does not fit here waits inside LNet, on its connection [LST-28].
        self.tests.post(turn, WAITING_MAX.saturating_sub(self.answers.waiting()));
        // Framework requests are taken whatever is in flight, and dropped beyond their peer's
        // share: a peer that does not read its replies would otherwise make those of others wait.
        self.framework.post(turn, u32::MAX);
    }

    /// A peer was lost: RPCs with it, its own and ours, fail now instead of at their time-out.
    pub(crate) fn peer_lost<M: Memory>(
        &mut self,
        turn: &mut Turn<'_, M>,
        peer: &ProcessId,
        status: Status,
    ) {
        self.caller.peer_lost(turn, peer, status);
        self.answers.peer_lost(turn, peer);
    }

    /// Whether [`Worker::drive`] would find nothing to do before its deadline: nothing waits for
    /// memory or a free place, and no request buffer is missing.
    pub(crate) fn is_settled(&self) -> bool {
        let posted = self.tests.is_posted() && self.framework.is_posted();
        self.open == self.enabled
            && (posted || !self.enabled)
            && self.answers.waiting() == 0
            && self.units.are_settled()
    }

    /// When [`Worker::drive`] has something to do at the latest.
    pub(crate) fn next_deadline(&self) -> Time {
        self.caller.next_deadline().min(self.units.next_deadline())
    }

    /// The next value for the framework.
    pub(crate) fn take_news(&mut self) -> Option<ToFramework> {
        self.news.pop_front()
    }

    /// Counters of this partition.
    pub(crate) fn totals(&self) -> RpcTotals {
        let mut totals = *self.answers.totals();
        totals.add(self.caller.totals());
        totals
    }

    /// The windows of its client units.
    pub(crate) fn windows_in_use(&self) -> impl Iterator<Item = PeerWindow> + '_ {
        self.caller.windows_in_use()
    }

    /// Withdraws the request buffers; what is in flight goes on.
    pub(crate) fn close<M: Memory>(&mut self, turn: &mut Turn<'_, M>) {
        self.tests.close(turn);
        self.framework.close(turn);
    }

    /// Takes requests from now on, or no more. Requests for a service that is off are dropped by
    /// LNet, as they are on a node without selftest; what is in flight is answered.
    pub(crate) fn set_enabled<M: Memory>(&mut self, turn: &mut Turn<'_, M>, enabled: bool) {
        self.enabled = enabled;
        if enabled || !self.open {
            return;
        }
        self.open = false;
        self.close(turn);
        for portal in [TEST_PORTAL, FRAMEWORK_PORTAL] {
            turn.shard.set_lazy(portal, Laziness::Strict).expect("selftest's portals exist");
        }
    }

    fn with_units<R>(&mut self, work: impl FnOnce(&mut Units, &mut Tools<'_>) -> R) -> R {
        let mut tools = Tools {
            caller: &mut self.caller,
            source: &mut self.source,
            budget: &mut self.budget,
            wall: self.wall,
            timeout: self.timeout,
        };
        work(&mut self.units, &mut tools)
    }
}
