//! The TCP driver as a [`Driver`] of a partition.

use core::net::SocketAddr;

use lustrine_lnet::driver_report::{
    self, DriverConn, DriverCounter, DriverNotice, DriverOffender, DriverPeer,
};
use lustrine_lnet::lnd::{Action, Core, NiIndex, PollOutcome};
use lustrine_lnet::status::Status;
use lustrine_lnet::time::Time;
use lustrine_socklnd::io::{Io, Readiness, SockId};
use lustrine_socklnd::{DialPhase, Handoff, NiConfig, OpenConn, PeerConnections, Socklnd};
use lustrine_wire::hello::{ConnType, Version};
use lustrine_wire::nid::Nid;

use crate::driver::{Driver, DriverOn};
use crate::tunables::Tunables;

/// What a loop reports of a stream.
#[derive(Clone, Copy, Debug)]
pub enum StreamReport {
    /// A listener has a new stream.
    Accepted {
        /// The stream.
        sock: SockId,
        /// An interface of the listener's address.
        ni: NiIndex,
        /// The local address.
        local: SocketAddr,
        /// The remote address.
        remote: SocketAddr,
    },
    /// A stream can be read or written, or has ended.
    Ready {
        /// The stream.
        sock: SockId,
        /// What the stream is ready for.
        readiness: Readiness,
    },
}

impl Driver for Socklnd {
    type NiConfig = NiConfig;
    type Report = StreamReport;
    type Handoff = Handoff;

    #[inline]
    fn has_work(&self) -> bool {
        Socklnd::has_work(self)
    }

    #[inline]
    fn next_deadline(&self) -> Time {
        Socklnd::next_deadline(self)
    }

    fn set_tunables(&mut self, now: Time, tunables: &Tunables) {
        let Tunables { lnet, socklnd, .. } = tunables.clone();
        Socklnd::set_tunables(self, now, socklnd, lnet);
    }

    fn add_ni(&mut self, index: NiIndex, config: NiConfig) {
        Socklnd::add_ni(self, index, config);
    }

    fn set_conns_per_peer(&mut self, index: NiIndex, conns_per_peer: u16) {
        Socklnd::set_conns_per_peer(self, index, conns_per_peer);
    }

    fn next_handoff(&mut self) -> Option<(u16, Handoff)> {
        Socklnd::next_handoff(self).map(|handoff| (handoff.home, handoff))
    }

    fn connection_types(&self) -> Vec<&'static str> {
        TYPES.to_vec()
    }

    fn counter_rows(&self) -> Vec<DriverCounter> {
        self.counters().rows().collect()
    }

    fn peer_rows(&self) -> impl Iterator<Item = DriverPeer> + '_ {
        self.peers().map(|peer| peer_row(&peer))
    }

    fn take_notices(&mut self) -> Vec<DriverNotice> {
        let notices = Socklnd::take_notices(self).into_iter();
        let row = |notice: lustrine_socklnd::Notice| DriverNotice {
            what: notice.incident.text(),
            address: notice.address,
            count: notice.count,
        };
        notices.map(row).collect()
    }

    fn take_offenders(&mut self) -> Vec<DriverOffender> {
        Socklnd::take_offenders(self)
    }
}

/// Types of connections, by the names that kernels have for them.
const TYPES: [&str; 4] = ["CONTROL", "BULK_IN", "BULK_OUT", "ANY"];

fn type_name(kind: ConnType) -> &'static str {
    match kind {
        ConnType::Control => "CONTROL",
        ConnType::BulkIn => "BULK_IN",
        ConnType::BulkOut => "BULK_OUT",
        // No open connection is of type NONE.
        ConnType::Any | ConnType::None => "ANY",
    }
}

fn peer_row(peer: &PeerConnections) -> DriverPeer {
    let open = [peer.control, peer.bulk_in, peer.bulk_out, peer.any];
    DriverPeer {
        id: peer.id,
        ni: peer.ni,
        version: peer.version.map(version_name),
        connections: TYPES.into_iter().zip(open.map(|count| count as u32)).collect(),
        queued_bytes: peer.tx_queued,
        queued_messages: (peer.tx_messages + peer.waiting) as u64,
        dialling: peer.dialling.map(|phase| match phase {
            DialPhase::Connecting => driver_report::DialPhase::Connecting,
            DialPhase::AwaitingHello => driver_report::DialPhase::AwaitingPeer,
            DialPhase::Refused => driver_report::DialPhase::Refused,
            DialPhase::Failed(status) => driver_report::DialPhase::Failed(status),
        }),
    }
}

fn version_name(version: Version) -> &'static str {
    match version {
        Version::V1 => "V1",
        Version::V2 => "V2",
        Version::V3 => "V3",
        Version::V4 => "V4",
    }
}

impl<I: Io> DriverOn<I> for Socklnd {
    #[inline]
    fn report<C: Core>(&mut self, now: Time, core: &mut C, io: &mut I, report: StreamReport) {
        match report {
            StreamReport::Accepted { sock, ni, local, remote } => {
                self.accepted(now, io, sock, ni, local, remote);
            }
            StreamReport::Ready { sock, readiness } => self.ready(now, core, io, sock, readiness),
        }
    }

    fn adopt<C: Core>(&mut self, now: Time, core: &mut C, io: &mut I, handoff: Handoff) {
        Socklnd::adopt(self, now, core, io, handoff);
    }

    fn tick<C: Core>(&mut self, now: Time, core: &mut C, io: &mut I) {
        Socklnd::tick(self, now, core, io);
    }

    #[inline]
    fn submit<C: Core>(&mut self, now: Time, core: &mut C, io: &mut I, action: &Action) {
        Socklnd::submit(self, now, core, io, action);
    }

    #[inline]
    fn submit_alone<C: Core>(&mut self, now: Time, core: &mut C, io: &mut I, action: &Action) {
        Socklnd::submit_alone(self, now, core, io, action);
    }

    #[inline]
    fn flush<C: Core>(&mut self, now: Time, core: &mut C, io: &mut I) {
        Socklnd::flush(self, now, core, io);
    }

    #[inline]
    fn poll<C: Core>(&mut self, now: Time, core: &mut C, io: &mut I) -> PollOutcome {
        Socklnd::poll(self, now, core, io)
    }

    fn conn_rows(&self, io: &I, only: Option<Nid>, most: usize) -> (Vec<DriverConn>, usize) {
        let row = |conn: OpenConn| DriverConn {
            id: conn.id,
            ni: conn.ni,
            kind: type_name(conn.kind),
            version: conn.version.map(version_name),
            dialled: conn.dialled,
            local: conn.local,
            remote: conn.remote,
            stream: io.stream_stats(conn.sock),
        };
        let rows = self.open_conns(only).take(most).map(row).collect();
        (rows, self.open_conns(only).count())
    }

    fn close_nids<C: Core>(
        &mut self,
        now: Time,
        core: &mut C,
        io: &mut I,
        nids: &[Nid],
        status: Status,
    ) {
        Socklnd::close_nids(self, now, core, io, nids, status);
    }

    fn remove_ni<C: Core>(
        &mut self,
        now: Time,
        core: &mut C,
        io: &mut I,
        ni: NiIndex,
        status: Status,
    ) {
        Socklnd::remove_ni(self, now, core, io, ni, status);
    }

    fn close_all<C: Core>(&mut self, now: Time, core: &mut C, io: &mut I, status: Status) {
        Socklnd::close_all(self, now, core, io, status);
    }
}
