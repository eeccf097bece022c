//! What a partition asks of its driver.

use lustrine_lnet::driver_report::{
    DriverConn, DriverCounter, DriverNotice, DriverOffender, DriverPeer,
};
use lustrine_lnet::lnd::{Action, Core, NiIndex, PollOutcome};
use lustrine_lnet::memory::Memory;
use lustrine_lnet::status::Status;
use lustrine_lnet::time::Time;
use lustrine_wire::nid::Nid;

use crate::tunables::Tunables;

/// A driver (LNet's LND): what it is and what can be asked of it without the network at hand.
///
/// Interfaces have the indices that the core gave them. A driver may have some of them only: the
/// others belong to another driver of the same partition, see
/// [`DriverPair`](crate::DriverPair).
pub trait Driver {
    /// What describes an interface of this driver.
    type NiConfig;
    /// What the loop reports to it: a stream that is ready, a message that arrived.
    type Report;
    /// What it hands to the driver of another partition of the node, the home of a peer.
    type Handoff;

    /// Whether [`DriverOn::flush`] has something to do now.
    fn has_work(&self) -> bool;

    /// When [`DriverOn::tick`] has something to do next; [`Time::NEVER`] if only a report or an
    /// action can bring that about.
    fn next_deadline(&self) -> Time;

    /// Puts other values in force, for what begins from now on.
    fn set_tunables(&mut self, now: Time, tunables: &Tunables);

    /// Adds an interface at the index that the core has for it.
    fn add_ni(&mut self, index: NiIndex, config: Self::NiConfig);

    /// Sets the number of bulk connections, at least 1, to each peer of an interface.
    fn set_conns_per_peer(&mut self, index: NiIndex, conns_per_peer: u16);

    /// The next value for the driver of another partition, and which partition.
    fn next_handoff(&mut self) -> Option<(u16, Self::Handoff)>;

    /// The types of connections that its peers have, in the order of [`DriverPeer::connections`].
    fn connection_types(&self) -> Vec<&'static str>;

    /// All counters.
    fn counter_rows(&self) -> Vec<DriverCounter>;

    /// All peers with connections or messages, in no particular order.
    fn peer_rows(&self) -> impl Iterator<Item = DriverPeer> + '_;

    /// What the log is to say of addresses since the last call.
    fn take_notices(&mut self) -> Vec<DriverNotice>;

    /// With whom the latest events were that the log reports from the counters, since the last
    /// call: a few for each line of the log. A driver that keeps none returns none.
    fn take_offenders(&mut self) -> Vec<DriverOffender> {
        Vec::new()
    }
}

/// A driver at work on `O`: what surrounds core and driver, which is the memory of the partition
/// and the way to the network. The core is [`Shard`](lustrine_lnet::shard::Shard) in every node,
/// and a model of it in tests of a driver.
pub trait DriverOn<O: Memory>: Driver {
    /// Registers regions of memory that are new, and forgets those that are gone. Called before the
    /// driver may be given spans in them, and before others get their numbers. A driver that needs
    /// no registered memory, as TCP, has nothing to do. The changes are a queue of `O`, which the
    /// first driver that registers takes: of the drivers of a pair, one may register memory.
    fn register_memory(&mut self, _io: &mut O) {}

    /// Takes in a report of the loop.
    fn report<C: Core>(&mut self, now: Time, core: &mut C, io: &mut O, report: Self::Report);

    /// Takes in a value that another partition's driver handed over.
    fn adopt<C: Core>(&mut self, now: Time, core: &mut C, io: &mut O, handoff: Self::Handoff);

    /// Does what is due by the clock.
    fn tick<C: Core>(&mut self, now: Time, core: &mut C, io: &mut O);

    /// Takes an action of the core without doing any I/O; more actions may follow from it.
    fn submit<C: Core>(&mut self, now: Time, core: &mut C, io: &mut O, action: &Action);

    /// Takes an action that comes alone, and may carry it out before it reports its end: what that
    /// end brings about does not delay the message then. A driver that gains nothing by it takes
    /// the action as any other.
    fn submit_alone<C: Core>(&mut self, now: Time, core: &mut C, io: &mut O, action: &Action) {
        self.submit(now, core, io, action);
    }

    /// Does all I/O that can be done now, as far as is fair.
    fn flush<C: Core>(&mut self, now: Time, core: &mut C, io: &mut O);

    /// All open connections of peers, or only those of this NID, at most `most`, and how many there
    /// are. A driver without connections has none.
    fn conn_rows(&self, _io: &O, _only: Option<Nid>, _most: usize) -> (Vec<DriverConn>, usize) {
        (Vec::new(), 0)
    }

    /// Looks for messages without a report of the loop, where it is likely that some came and the
    /// look costs less than the loop's own.
    fn poll<C: Core>(&mut self, _now: Time, _core: &mut C, _io: &mut O) -> PollOutcome {
        PollOutcome::NotPolled
    }

    /// Closes all connections with peers of these NIDs; operations end with `status`.
    fn close_nids<C: Core>(
        &mut self,
        now: Time,
        core: &mut C,
        io: &mut O,
        nids: &[Nid],
        status: Status,
    );

    /// Closes everything of an interface and forgets it; operations end with `status`.
    fn remove_ni<C: Core>(
        &mut self,
        now: Time,
        core: &mut C,
        io: &mut O,
        ni: NiIndex,
        status: Status,
    );

    /// Closes everything; operations end with `status`, also those submitted from now on.
    fn close_all<C: Core>(&mut self, now: Time, core: &mut C, io: &mut O, status: Status);
}
