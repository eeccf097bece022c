//! Two drivers in one partition, each with interfaces of its own.

use lustrine_lnet::driver_report::{
    DriverConn, DriverCounter, DriverNotice, DriverOffender, DriverPeer,
};
use lustrine_lnet::lnd::{Action, Core, NiIndex, PollOutcome};
use lustrine_lnet::memory::Memory;
use lustrine_lnet::status::Status;
use lustrine_lnet::time::Time;
use lustrine_wire::nid::Nid;

use crate::driver::{Driver, DriverOn};
use crate::tunables::Tunables;

/// Of the first driver of a [`DriverPair`], or of the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Either<A, B> {
    /// Of the first.
    First(A),
    /// Of the second.
    Second(B),
}

/// Two drivers that are one: each action of the core goes to the driver that has its interface. A
/// pair may be part of another pair, so that a partition can have any number of drivers; which
/// they are is known when it is compiled, and calls are direct.
#[derive(Debug)]
pub struct DriverPair<A, B> {
    first: A,
    second: B,
    /// By index of interface; `None` where there is none.
    owners: Vec<Option<Either<(), ()>>>,
}

impl<A: Driver, B: Driver> DriverPair<A, B> {
    /// Two drivers without interfaces; [`Driver::add_ni`] says whose each one is.
    pub fn new(first: A, second: B) -> DriverPair<A, B> {
        DriverPair { first, second, owners: Vec::new() }
    }

    /// The first driver, to look at.
    pub fn first(&self) -> &A {
        &self.first
    }

    /// The second driver, to look at.
    pub fn second(&self) -> &B {
        &self.second
    }

    #[inline]
    fn owner(&self, ni: NiIndex) -> Option<Either<(), ()>> {
        self.owners.get(usize::from(ni.0)).copied().flatten()
    }

    /// # Panics
    /// When the interface of the action was never added: core and drivers disagree.
    #[inline]
    fn driver_of(&self, action: &Action) -> Either<(), ()> {
        let ni = match action {
            Action::Send(send) => send.ni,
            Action::Resume { ni, .. } | Action::Close { ni, .. } => *ni,
        };
        self.owner(ni).unwrap_or_else(|| panic!("{ni:?} has no driver"))
    }
}

impl<A: Driver, B: Driver> Driver for DriverPair<A, B> {
    type NiConfig = Either<A::NiConfig, B::NiConfig>;
    type Report = Either<A::Report, B::Report>;
    type Handoff = Either<A::Handoff, B::Handoff>;

    fn has_work(&self) -> bool {
        self.first.has_work() || self.second.has_work()
    }

    fn next_deadline(&self) -> Time {
        self.first.next_deadline().min(self.second.next_deadline())
    }

    fn set_tunables(&mut self, now: Time, tunables: &Tunables) {
        self.first.set_tunables(now, tunables);
        self.second.set_tunables(now, tunables);
    }

    fn add_ni(&mut self, index: NiIndex, config: Self::NiConfig) {
        let place = usize::from(index.0);
        self.owners.resize(self.owners.len().max(place + 1), None);
        self.owners[place] = Some(match config {
            Either::First(config) => {
                self.first.add_ni(index, config);
                Either::First(())
            }
            Either::Second(config) => {
                self.second.add_ni(index, config);
                Either::Second(())
            }
        });
    }

    fn set_conns_per_peer(&mut self, index: NiIndex, conns_per_peer: u16) {
        match self.owner(index) {
            Some(Either::First(())) => self.first.set_conns_per_peer(index, conns_per_peer),
            Some(Either::Second(())) => self.second.set_conns_per_peer(index, conns_per_peer),
            None => {}
        }
    }

    fn next_handoff(&mut self) -> Option<(u16, Self::Handoff)> {
        if let Some((home, handoff)) = self.first.next_handoff() {
            return Some((home, Either::First(handoff)));
        }
        let (home, handoff) = self.second.next_handoff()?;
        Some((home, Either::Second(handoff)))
    }

    fn connection_types(&self) -> Vec<&'static str> {
        let mut types = self.first.connection_types();
        for name in self.second.connection_types() {
            if !types.contains(&name) {
                types.push(name);
            }
        }
        types
    }

    fn counter_rows(&self) -> Vec<DriverCounter> {
        let mut rows = self.first.counter_rows();
        rows.extend(self.second.counter_rows());
        rows
    }

    fn peer_rows(&self) -> impl Iterator<Item = DriverPeer> + '_ {
        self.first.peer_rows().chain(self.second.peer_rows())
    }

    fn take_notices(&mut self) -> Vec<DriverNotice> {
        let mut notices = self.first.take_notices();
        notices.extend(self.second.take_notices());
        notices
    }

    fn take_offenders(&mut self) -> Vec<DriverOffender> {
        let mut offenders = self.first.take_offenders();
        offenders.extend(self.second.take_offenders());
        offenders
    }
}

impl<O: Memory, A: DriverOn<O>, B: DriverOn<O>> DriverOn<O> for DriverPair<A, B> {
    fn register_memory(&mut self, io: &mut O) {
        self.first.register_memory(io);
        self.second.register_memory(io);
    }

    fn report<C: Core>(&mut self, now: Time, core: &mut C, io: &mut O, report: Self::Report) {
        match report {
            Either::First(report) => self.first.report(now, core, io, report),
            Either::Second(report) => self.second.report(now, core, io, report),
        }
    }

    fn adopt<C: Core>(&mut self, now: Time, core: &mut C, io: &mut O, handoff: Self::Handoff) {
        match handoff {
            Either::First(handoff) => self.first.adopt(now, core, io, handoff),
            Either::Second(handoff) => self.second.adopt(now, core, io, handoff),
        }
    }

    fn tick<C: Core>(&mut self, now: Time, core: &mut C, io: &mut O) {
        if now >= self.first.next_deadline() {
            self.first.tick(now, core, io);
        }
        if now >= self.second.next_deadline() {
            self.second.tick(now, core, io);
        }
    }

    fn submit<C: Core>(&mut self, now: Time, core: &mut C, io: &mut O, action: &Action) {
        match self.driver_of(action) {
            Either::First(()) => self.first.submit(now, core, io, action),
            Either::Second(()) => self.second.submit(now, core, io, action),
        }
    }

    fn submit_alone<C: Core>(&mut self, now: Time, core: &mut C, io: &mut O, action: &Action) {
        match self.driver_of(action) {
            Either::First(()) => self.first.submit_alone(now, core, io, action),
            Either::Second(()) => self.second.submit_alone(now, core, io, action),
        }
    }

    fn flush<C: Core>(&mut self, now: Time, core: &mut C, io: &mut O) {
        self.first.flush(now, core, io);
        self.second.flush(now, core, io);
    }

    fn conn_rows(&self, io: &O, only: Option<Nid>, most: usize) -> (Vec<DriverConn>, usize) {
        let (mut rows, first) = self.first.conn_rows(io, only, most);
        let (more, second) = self.second.conn_rows(io, only, most - rows.len());
        rows.extend(more);
        (rows, first + second)
    }

    fn poll<C: Core>(&mut self, now: Time, core: &mut C, io: &mut O) -> PollOutcome {
        let first = self.first.poll(now, core, io);
        first.and(self.second.poll(now, core, io))
    }

    fn close_nids<C: Core>(
        &mut self,
        now: Time,
        core: &mut C,
        io: &mut O,
        nids: &[Nid],
        status: Status,
    ) {
        self.first.close_nids(now, core, io, nids, status);
        self.second.close_nids(now, core, io, nids, status);
    }

    fn remove_ni<C: Core>(
        &mut self,
        now: Time,
        core: &mut C,
        io: &mut O,
        ni: NiIndex,
        status: Status,
    ) {
        match self.owner(ni) {
            Some(Either::First(())) => self.first.remove_ni(now, core, io, ni, status),
            Some(Either::Second(())) => self.second.remove_ni(now, core, io, ni, status),
            None => {}
        }
    }

    fn close_all<C: Core>(&mut self, now: Time, core: &mut C, io: &mut O, status: Status) {
        self.first.close_all(now, core, io, status);
        self.second.close_all(now, core, io, status);
    }
}
