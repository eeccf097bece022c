//! How core, driver and services work together in one turn of a loop.

use core::net::SocketAddr;

use lustrine_lnet::event::Event;
use lustrine_lnet::md::Owner;
use lustrine_lnet::seam::NiIndex;
use lustrine_lnet::shard::Shard;
use lustrine_lnet::status::Status;
use lustrine_lnet::time::{Nanos, Time};
use lustrine_lnet::topology::Topology;
use lustrine_selftest::{Client, ClientArgs, Cross, Service};
use lustrine_socklnd::io::{Io, Readiness, SockId};
use lustrine_socklnd::{Config as DriverConfig, Handoff, Socklnd};
use lustrine_wire::nid::Nid;

use crate::probes::{ProbeResult, Probes, Ticket};

/// Most rounds of work in one turn before the caller looks at its streams again.
const ROUNDS_MAX: usize = 32;

/// What a partition is made of.
#[derive(Clone, Debug)]
pub struct PartitionConfig {
    /// For the core.
    pub topology: Topology,
    /// For the driver.
    pub driver: DriverConfig,
    /// Wall-clock seconds, the seed of selftest's match bits (selftest-wire 6).
    pub wall_seconds: u64,
}

/// There is a selftest client that is not finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientBusy;

/// One CPU partition.
pub struct Partition {
    shard: Shard,
    driver: Socklnd,
    service: Service,
    client: Option<Client>,
    probes: Probes,
}

impl Partition {
    /// A partition without peers or connections.
    pub fn new(config: PartitionConfig, io: &mut impl Io) -> Partition {
        let topology = config.topology;
        let (cpt, cpts) = (topology.cpt, topology.cpts);
        let service = Service::new(cpt, cpts, &topology.tunables, config.wall_seconds);
        Partition {
            shard: Shard::new(topology, io),
            driver: Socklnd::new(config.driver),
            service,
            client: None,
            probes: Probes::default(),
        }
    }

    /// The core, to look at.
    pub fn shard(&self) -> &Shard {
        &self.shard
    }

    /// The driver, to look at.
    pub fn driver(&self) -> &Socklnd {
        &self.driver
    }

    /// The selftest client, while there is one.
    pub fn client(&mut self) -> Option<&mut Client> {
        self.client.as_mut()
    }

    /// Starts a selftest client.
    ///
    /// # Errors
    /// When there is one that is not finished.
    pub fn start_client(&mut self, now: Time, args: ClientArgs) -> Result<(), ClientBusy> {
        if self.client.as_ref().is_some_and(|client| !client.finished()) {
            return Err(ClientBusy);
        }
        self.client = Some(Client::new(now, args, &self.shard.topology().tunables));
        Ok(())
    }

    /// A listener's new stream.
    pub fn accepted(
        &mut self,
        now: Time,
        io: &mut impl Io,
        sock: SockId,
        ni: NiIndex,
        (local, remote): (SocketAddr, SocketAddr),
    ) {
        self.driver.accepted(now, io, sock, ni, local, remote);
    }

    /// A report about a stream.
    pub fn ready(&mut self, now: Time, io: &mut impl Io, sock: SockId, readiness: Readiness) {
        self.driver.ready(now, &mut self.shard, io, sock, readiness);
    }

    /// Works until nothing is left to do without a new report, or for as long as is fair. The
    /// clock is read for each round: under load one turn is long, and latencies are measured by it.
    pub fn turn(&mut self, mut clock: impl FnMut() -> Time, io: &mut impl Io) {
        for _ in 0..ROUNDS_MAX {
            let now = clock();
            if now >= self.driver.next_deadline() {
                self.driver.tick(now, &mut self.shard, io);
            }
            self.round(now, io);
            if !self.has_work() {
                break;
            }
        }
    }

    /// Reads, thinks, writes.
    fn round(&mut self, now: Time, io: &mut impl Io) {
        self.driver.flush(now, &mut self.shard, io);
        self.shard.drive(now, io);
        self.dispatch(now, io);
        self.service.drive(now, &mut self.shard, io);
        if let Some(client) = &mut self.client {
            client.drive(now, &mut self.shard, io);
        }
        self.probes.drive(now, &mut self.shard);
        self.dispatch(now, io);
        if self.stage(now, io) {
            self.driver.flush(now, &mut self.shard, io);
        }
    }

    /// Hands everything the core has to the driver. Staging gives credits back, which lets the
    /// core have more: only when it has no more is anything written, all in one call per
    /// connection.
    fn stage(&mut self, now: Time, io: &mut impl Io) -> bool {
        let mut staged = false;
        while let Some(action) = self.shard.next_action() {
            self.driver.submit(now, &mut self.shard, io, &action);
            staged = true;
        }
        staged
    }

    /// Events first: what came in good order before a connection broke still counts.
    fn dispatch(&mut self, now: Time, io: &mut impl Io) {
        loop {
            while let Some(event) = self.shard.next_event() {
                self.deliver(now, io, &event);
            }
            let Some((peer, status)) = self.shard.next_lost_peer() else { return };
            self.service.peer_lost(now, &mut self.shard, io, &peer, status);
            if let Some(client) = &mut self.client {
                client.peer_lost(now, &mut self.shard, io, &peer, status);
            }
        }
    }

    fn deliver(&mut self, now: Time, io: &mut impl Io, event: &Event) {
        match event.owner {
            Owner::SELFTEST => {
                // Each knows its own by the descriptor's mark.
                self.service.handle(now, &mut self.shard, io, event);
                if let Some(client) = &mut self.client {
                    client.handle(now, &mut self.shard, io, event);
                }
            }
            Owner::APP => self.probes.handle(now, io, event),
            other => panic!("nobody here has owner mark {other:?}"),
        }
    }

    /// Whether [`Partition::turn`] has something to do at once.
    pub fn has_work(&self) -> bool {
        self.driver.has_work() || self.shard.has_work()
    }

    /// When [`Partition::turn`] must be called again at the latest, if nothing else happens.
    pub fn next_deadline(&self) -> Time {
        let client = self.client.as_ref().map_or(Time::NEVER, Client::next_deadline);
        self.driver
            .next_deadline()
            .min(self.shard.next_deadline())
            .min(self.service.next_deadline())
            .min(self.probes.next_deadline())
            .min(client)
    }

    /// A letter for another partition's selftest service.
    pub fn take_cross(&mut self) -> Option<(u16, Cross)> {
        self.service.take_cross()
    }

    /// A letter from another partition's selftest service.
    pub fn accept_cross(&mut self, cross: Cross) {
        self.service.accept_cross(cross);
    }

    /// An accepted stream whose peer lives on another partition.
    pub fn next_handoff(&mut self) -> Option<Handoff> {
        self.driver.next_handoff()
    }

    /// Takes over a stream whose peer lives here; `handoff.sock` is this loop's number for it.
    pub fn adopt(&mut self, now: Time, io: &mut impl Io, handoff: Handoff) {
        self.driver.adopt(now, &mut self.shard, io, handoff);
    }

    /// Pings a peer; the result comes from [`Partition::next_result`] under the same ticket.
    pub fn ping(&mut self, now: Time, io: &mut impl Io, ticket: Ticket, nid: &Nid, timeout: Nanos) {
        self.probes.ping(now, &mut self.shard, io, ticket, nid, timeout);
    }

    /// Learns (again) about a peer; the result comes from [`Partition::next_result`].
    pub fn discover(&mut self, now: Time, ticket: Ticket, nid: &Nid, timeout: Nanos) {
        self.probes.discover(now, &mut self.shard, ticket, nid, timeout);
    }

    /// The next ping or discovery that has ended.
    pub fn next_result(&mut self) -> Option<(Ticket, ProbeResult)> {
        self.probes.next_result()
    }

    /// Closes every connection; what was queued fails with `status`.
    pub fn close(&mut self, now: Time, io: &mut impl Io, status: Status) {
        self.driver.close_all(now, &mut self.shard, io, status);
    }
}
