//! The TCP driver as a [`Driver`] of a partition.

use core::net::SocketAddr;

use lustrine_lnet::lnd::{Action, Core, NiIndex};
use lustrine_lnet::status::Status;
use lustrine_lnet::time::Time;
use lustrine_socklnd::io::{Io, Readiness, SockId};
use lustrine_socklnd::{Handoff, NiConfig, Socklnd};
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
        /// Which of these.
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
    fn flush<C: Core>(&mut self, now: Time, core: &mut C, io: &mut I) {
        Socklnd::flush(self, now, core, io);
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
