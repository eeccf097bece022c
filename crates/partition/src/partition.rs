//! How core, driver and services work together in one pass of a loop.

use lustrine_lnet::driver_report::{DriverNotice, DriverOffender};
use lustrine_lnet::journal::Entry;
use lustrine_lnet::lnd::PollOutcome;
use lustrine_lnet::md::Owner;
use lustrine_lnet::memory::Memory;
use lustrine_lnet::service::{AnyMemory, Service, Turn};
use lustrine_lnet::shard::{Queues, Shard};
use lustrine_lnet::status::Status;
use lustrine_lnet::time::{Nanos, Time};
use lustrine_lnet::topology::Topology;

use crate::driver::{Driver, DriverOn};
use crate::services::{ServiceHandle, Services};

mod changes;

pub use changes::Change;

/// Once events have led to large messages with so many bytes of payload, these are written before
/// further events are delivered, in the next pass. What a service does with an event may take as
/// long as the transfer that follows from it, such as copying and summing up the data of a file:
/// while one is at work, the network is to be as well. With smaller messages this costs more than
/// it brings: reads of 64 KiB lost 7 %.
const GATHERED_MAX: u64 = 1 << 20;

/// So many events are delivered before what they have led to is written, and further ones in the
/// next pass: the other side works on the first answers while this one makes the next. Otherwise
/// the two wait for each other in turn. With fewer, the calls that write cost more than it brings.
const EVENTS_MAX: usize = 32;

/// After a pause of this length all events are delivered at once: services look at the time, and
/// must not take for overdue what has arrived meanwhile.
const LATE: Nanos = Nanos::from_millis(100);

/// Most passes in a row before the loop looks at its streams again.
pub const PASSES_MAX: usize = 32;

/// One CPU partition: core, driver and registered services. Production's driver is
/// [`Socklnd`](lustrine_socklnd::Socklnd); a simulator may bring another one.
pub struct Partition<D> {
    shard: Shard,
    driver: D,
    services: Services,
    /// The time of the last pass.
    passed_at: Time,
}

impl<D: Driver> Partition<D> {
    /// A partition without peers and services.
    pub fn new(topology: Topology, driver: D, memory: &mut impl Memory) -> Partition<D> {
        let (shard, services) = (Shard::new(topology, memory), Services::default());
        Partition { shard, driver, services, passed_at: Time::ZERO }
    }

    /// The core, to look at.
    pub fn shard(&self) -> &Shard {
        &self.shard
    }

    /// Exchanges the core's queues; see [`Shard::swap_queues`].
    pub fn swap_queues(&mut self, others: &mut Queues) {
        self.shard.swap_queues(others);
    }

    /// Has the core keep a journal of what happens to each message from now on.
    pub fn enable_journal(&mut self) {
        self.shard.enable_journal();
    }

    /// The oldest entry of the core's journal that was not taken yet.
    pub fn next_journal_entry(&mut self) -> Option<Entry> {
        self.shard.next_journal_entry()
    }

    /// How many entries of the journal were lost since the last call, because nothing took them
    /// in time.
    pub fn take_journal_overflow(&mut self) -> u64 {
        self.shard.take_journal_overflow()
    }

    /// The driver, to look at.
    pub fn driver(&self) -> &D {
        &self.driver
    }

    /// Registers a service. `make` is given the owner of the service's descriptors: each service
    /// gets the events of its own descriptors and no others. Services are called in the order of
    /// their slots; one that is unregistered leaves its slot to the next that is registered.
    ///
    /// # Panics
    /// When there are 65,535 services already.
    pub fn register<S: Service>(&mut self, make: impl FnOnce(Owner) -> S) -> ServiceHandle<S> {
        self.services.register(make)
    }

    /// Takes a service back; `None` if that was done before. Events of descriptors that it has
    /// left are dropped, and [counted](Partition::undelivered).
    pub fn unregister<S: Service>(&mut self, handle: ServiceHandle<S>) -> Option<Box<S>> {
        self.services.unregister(handle)
    }

    /// Has a service give its descriptors and its memory back, and takes it out when it has. Until
    /// then it is called as before.
    pub fn retire<S: Service>(
        &mut self,
        now: Time,
        memory: &mut impl Memory,
        handle: ServiceHandle<S>,
    ) {
        let turn = &mut Turn { now, shard: &mut self.shard, memory: AnyMemory(memory) };
        self.services.retire(turn, handle);
    }

    /// A registered service.
    pub fn service<S: Service>(&self, handle: ServiceHandle<S>) -> Option<&S> {
        self.services.get(handle)
    }

    /// A registered service, to be given something to do in the next pass.
    pub fn service_mut<S: Service>(&mut self, handle: ServiceHandle<S>) -> Option<&mut S> {
        self.services.get_mut(handle)
    }

    /// Calls into a registered service with the core and the memory at hand.
    pub fn call<S: Service, T>(
        &mut self,
        now: Time,
        memory: &mut impl Memory,
        handle: ServiceHandle<S>,
        act: impl FnOnce(&mut S, &mut Turn<'_>) -> T,
    ) -> Option<T> {
        let service = self.services.get_mut(handle)?;
        Some(act(service, &mut Turn { now, shard: &mut self.shard, memory: AnyMemory(memory) }))
    }

    /// Events so far whose service was no longer registered, and messages that were passed on and
    /// that no service took.
    pub fn undelivered(&self) -> u64 {
        self.services.undelivered()
    }

    /// What the log is to say of addresses since the last call.
    pub fn take_notices(&mut self) -> Vec<DriverNotice> {
        self.driver.take_notices()
    }

    /// With whom the latest events were that the log reports from the driver's counters.
    pub fn take_offenders(&mut self) -> Vec<DriverOffender> {
        self.driver.take_offenders()
    }

    /// Hands a report of the loop to the driver.
    #[inline]
    pub fn report<O: Memory>(&mut self, now: Time, io: &mut O, report: D::Report)
    where
        D: DriverOn<O>,
    {
        self.driver.register_memory(io);
        self.driver.report(now, &mut self.shard, io, report);
    }

    /// The next value for the driver of another partition, and which partition.
    pub fn next_handoff(&mut self) -> Option<(u16, D::Handoff)> {
        self.driver.next_handoff()
    }

    /// Takes in what the driver of another partition handed over.
    pub fn adopt<O: Memory>(&mut self, now: Time, io: &mut O, handoff: D::Handoff)
    where
        D: DriverOn<O>,
    {
        self.driver.register_memory(io);
        self.driver.adopt(now, &mut self.shard, io, handoff);
    }

    /// Has the driver look for messages without a report, see [`DriverOn::poll`].
    #[inline]
    pub fn poll<O: Memory>(&mut self, now: Time, io: &mut O) -> PollOutcome
    where
        D: DriverOn<O>,
    {
        self.driver.register_memory(io);
        self.driver.poll(now, &mut self.shard, io)
    }

    /// Works at one moment until nothing is left to do without a new report, or for as long as is
    /// fair. For loops whose time stands still while they work; others call
    /// [`pass`](Partition::pass) with a new time until nothing is left.
    pub fn turn<O: Memory>(&mut self, now: Time, io: &mut O)
    where
        D: DriverOn<O>,
    {
        for _ in 0..PASSES_MAX {
            // No other side works meanwhile.
            if !self.pass_of(now, io, usize::MAX) {
                break;
            }
        }
    }

    /// One pass: reads, has core and services act, writes. Returns whether there is more
    /// to do at once.
    ///
    /// The time of each pass is its own: under load a turn of many passes is long, and latencies
    /// are measured by it. What the events lead to is handed to the driver before the services are
    /// driven: what becomes of it is mostly known then, which saves them another pass.
    pub fn pass<O: Memory>(&mut self, now: Time, io: &mut O) -> bool
    where
        D: DriverOn<O>,
    {
        let late = now.since(core::mem::replace(&mut self.passed_at, now)) >= LATE;
        self.pass_of(now, io, if late { usize::MAX } else { EVENTS_MAX })
    }

    /// A pass that delivers at most so many events before it writes.
    fn pass_of<O: Memory>(&mut self, now: Time, io: &mut O, most: usize) -> bool
    where
        D: DriverOn<O>,
    {
        self.driver.register_memory(io);
        if now >= self.driver.next_deadline() {
            self.driver.tick(now, &mut self.shard, io);
        }
        self.driver.flush(now, &mut self.shard, io);
        self.shard.drive(now, io);
        let mut has_more = self.dispatch(now, io, most);
        let mut staged = false;
        // One message leads to another, but not without end, as others wait; what is left is
        // staged below.
        for _ in 0..PASSES_MAX {
            if !self.stage(now, io) {
                break;
            }
            staged = true;
            if has_more {
                break;
            }
            has_more = self.dispatch(now, io, most);
        }
        let memory = AnyMemory(io);
        self.services.drive(&mut Turn { now, shard: &mut self.shard, memory });
        if !has_more {
            self.dispatch(now, io, most);
        }
        if self.stage(now, io) | staged {
            self.driver.flush(now, &mut self.shard, io);
        }
        self.has_work()
    }

    /// Hands everything the core has to the driver. Staging gives credits back, which lets the
    /// core have more: only when it has no more is anything written, all in one call per
    /// connection. A message that comes alone leaves at once.
    #[inline]
    fn stage<O: Memory>(&mut self, now: Time, io: &mut O) -> bool
    where
        D: DriverOn<O>,
    {
        // Before the call: there is nothing in half of the passes.
        let any = self.shard.has_actions();
        if any {
            self.submit_all(now, io);
        }
        any
    }

    fn submit_all<O: Memory>(&mut self, now: Time, io: &mut O)
    where
        D: DriverOn<O>,
    {
        self.driver.register_memory(io);
        if self.shard.has_lone_action()
            && let Some(action) = self.shard.next_action()
        {
            self.driver.submit_alone(now, &mut self.shard, io, &action);
        }
        while let Some(action) = self.shard.next_action() {
            self.driver.submit(now, &mut self.shard, io, &action);
        }
    }

    /// Delivers events and lost peers in the order in which they came: what was in good order
    /// before a connection broke still counts, and what is sent after a peer restarted is not lost
    /// with it; at most so many events. Returns whether events are left, because something is to be
    /// written before.
    #[inline]
    fn dispatch(&mut self, now: Time, memory: &mut impl Memory, most: usize) -> bool {
        // Before the call, as in [`Partition::stage`].
        self.shard.has_events() && self.deliver(now, memory, most)
    }

    fn deliver(&mut self, now: Time, memory: &mut impl Memory, most: usize) -> bool {
        // REPLYs of the core itself are no work of a service.
        let before = self.shard.gathered_bytes();
        let mut delivered = 0;
        loop {
            if let Some((peer, status)) = self.shard.next_lost_peer() {
                let turn = &mut Turn { now, shard: &mut self.shard, memory: AnyMemory(memory) };
                self.services.peer_down(turn, &peer, status);
                continue;
            }
            let Some(event) = self.shard.next_event() else { return false };
            let turn = &mut Turn { now, shard: &mut self.shard, memory: AnyMemory(memory) };
            self.services.deliver(turn, &event);
            // Before the call, and out of line: few services pass messages on.
            if self.shard.has_strays() {
                self.offer_all(now, memory);
            }
            delivered += 1;
            let much = self.shard.gathered_bytes() - before >= GATHERED_MAX;
            if much || delivered == most {
                return self.shard.has_events();
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn offer_all(&mut self, now: Time, memory: &mut impl Memory) {
        while let Some(stray) = self.shard.next_stray() {
            let turn = &mut Turn { now, shard: &mut self.shard, memory: AnyMemory(memory) };
            self.services.offer(turn, &stray);
        }
    }

    /// Whether [`Partition::pass`] has something to do at once.
    pub fn has_work(&self) -> bool {
        self.driver.has_work() || self.shard.has_work()
    }

    /// When [`Partition::pass`] must be called again at the latest, if nothing else happens.
    pub fn next_deadline(&self) -> Time {
        self.driver
            .next_deadline()
            .min(self.shard.next_deadline())
            .min(self.services.next_deadline())
    }

    /// Closes every connection; what was queued fails with `status`.
    pub fn close<O: Memory>(&mut self, now: Time, io: &mut O, status: Status)
    where
        D: DriverOn<O>,
    {
        self.driver.close_all(now, &mut self.shard, io, status);
    }
}
