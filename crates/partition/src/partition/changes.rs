//! Changes to a partition that runs, each whole between two turns of its loop.

use lustrine_lnet::ConfiguredPeer;
use lustrine_lnet::memory::Memory;
use lustrine_lnet::shard::PeerTableFull;
use lustrine_lnet::status::Status;
use lustrine_lnet::time::Time;
use lustrine_lnet::topology::Ni;
use lustrine_socklnd::NiConfig;
use lustrine_wire::nid::Nid;

use super::Partition;
use crate::driver::{Driver, DriverOn};
use crate::tunables::Tunables;

/// What all partitions of a node are to change, in the same order.
#[derive(Clone, Debug)]
pub enum Change<N = NiConfig> {
    /// Other values are in force.
    Tunables(Box<Tunables>),
    /// So many connections of each bulk type, at least 1, to peers of an interface.
    ConnsPerPeer {
        /// The interface.
        nid: Nid,
        /// The number of connections of each bulk type.
        conns_per_peer: u16,
    },
    /// One more interface.
    AddNi {
        /// For the core, with this partition's share of credits.
        core: Ni,
        /// For the driver.
        driver: N,
    },
    /// One interface less. What is in flight there ends with an error.
    RemoveNi {
        /// The NID of the interface.
        nid: Nid,
    },
    /// A peer that an administrator describes.
    ConfigurePeer(ConfiguredPeer),
    /// Descriptions of peers with these primary NIDs are taken back; nothing in flight ends.
    UnconfigurePeers(Vec<Nid>),
    /// These NIDs of others are forgotten. What is in flight there ends with an error.
    RemoveNids(Vec<Nid>),
    /// Counters that are shown begin anew.
    ResetStats,
}

impl<D: Driver> Partition<D> {
    /// Makes a change. The loop has a turn afterwards.
    ///
    /// # Errors
    /// When the table of peers has no room for a description: nothing was changed then.
    pub fn change<O: Memory>(
        &mut self,
        now: Time,
        io: &mut O,
        change: &Change<D::NiConfig>,
    ) -> Result<(), PeerTableFull>
    where
        D: DriverOn<O>,
        D::NiConfig: Clone,
    {
        match change {
            Change::Tunables(tunables) => {
                self.driver.set_tunables(now, tunables);
                self.shard.set_tunables(now, io, tunables.lnet.clone());
            }
            Change::ConnsPerPeer { nid, conns_per_peer } => {
                if let Some(ni) = self.shard.topology().ni_of(nid) {
                    self.driver.set_conns_per_peer(ni, *conns_per_peer);
                }
            }
            Change::AddNi { core, driver } => {
                let index = self.shard.add_ni(now, io, core.clone());
                self.driver.add_ni(index, driver.clone());
            }
            Change::RemoveNi { nid } => self.remove_ni(now, io, nid),
            Change::ConfigurePeer(configured) => self.shard.configure_peer(now, configured)?,
            Change::UnconfigurePeers(primaries) => self.shard.unconfigure_peers(primaries),
            Change::RemoveNids(nids) => {
                self.shard.begin_nid_removal(now, nids);
                // What the core has decided to send is the driver's to end.
                self.stage(now, io);
                let status = Status::ConnectionLost;
                self.driver.close_nids(now, &mut self.shard, io, nids, status);
                self.shard.finish_nid_removal(nids);
            }
            Change::ResetStats => self.shard.reset_stats(),
        }
        Ok(())
    }

    fn remove_ni<O: Memory>(&mut self, now: Time, io: &mut O, nid: &Nid)
    where
        D: DriverOn<O>,
    {
        let Some(ni) = self.shard.topology().ni_of(nid) else { return };
        self.shard.begin_ni_removal(now, ni);
        self.stage(now, io);
        self.driver.remove_ni(now, &mut self.shard, io, ni, Status::Unreachable);
        self.shard.finish_ni_removal(now, io, ni);
    }
}
