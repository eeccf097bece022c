//! Two drivers in one partition: each action reaches the driver that has its interface.

use lustrine_lnet::event::Event;
use lustrine_lnet::lnd::{Arrival, Core, NiIndex, RxId, Verdict};
use lustrine_lnet::md::{MdOptions, Owner};
use lustrine_lnet::memory::{Memory, VecMemory};
use lustrine_lnet::portal::Laziness;
use lustrine_lnet::service::{Service, Turn};
use lustrine_lnet::shard::{AckWanted, PutArgs, Shard};
use lustrine_lnet::status::Status;
use lustrine_lnet::time::Time;
use lustrine_lnet::topology::{Identity, Interfaces, Ni};
use lustrine_lnet::tunables::Tunables;
use lustrine_lnet_testing::test_topology;
use lustrine_partition::{Driver, DriverOn, DriverPair, Either, Partition, ServiceHandle};
use lustrine_wire::header::{Body, Header, MdHandle};
use lustrine_wire::nid::{Nid, ProcessId};

use crate::common::{TestDriver, entry, md};

const NOW: Time = Time(1_000_000_000);
const PORTAL: u32 = 20;

type Pair = DriverPair<TestDriver, TestDriver>;

/// Attaches memory and sends when it is asked to.
struct User(Owner);

impl Service for User {
    fn on_event(&mut self, _: &mut Turn<'_>, _: &Event) {}

    fn on_peer_down(&mut self, _: &mut Turn<'_>, _: &ProcessId, _: Status) {}

    fn drive(&mut self, _: &mut Turn<'_>) {}

    fn next_deadline(&self) -> Time {
        Time::NEVER
    }
}

impl User {
    fn put(&self, turn: &mut Turn<'_>, target: Nid) {
        let span = turn.memory.alloc(8).expect("no limit");
        let md = turn.shard.bind(md(self.0, span, Some(1), MdOptions::empty())).expect("short");
        let args = PutArgs {
            md,
            local: None,
            target: ProcessId::lustre(target),
            portal: PORTAL,
            match_bits: 7,
            offset: 0,
            hdr_data: 0,
            ack: AckWanted::No,
            timeout: None,
        };
        turn.shard.put(turn.now, args).expect("room");
    }

    fn attach(&self, turn: &mut Turn<'_>) {
        let span = turn.memory.alloc(64).expect("no limit");
        let md = md(self.0, span, None, MdOptions::OP_PUT | MdOptions::MANAGE_REMOTE);
        turn.shard.attach(turn.now, PORTAL, entry(7), md).expect("a free portal");
    }
}

fn nid(text: &str) -> Nid {
    text.parse().expect("a NID")
}

fn own() -> [Nid; 2] {
    [nid("10.0.0.1@tcp"), nid("10.0.0.1@tcp1")]
}

fn peers() -> [Nid; 2] {
    [nid("10.0.0.2@tcp"), nid("10.0.0.2@tcp1")]
}

/// Interface 0 belongs to the second driver, interface 1 to the first.
fn partition(memory: &mut VecMemory) -> (Partition<Pair>, ServiceHandle<User>) {
    let mut tunables = Tunables::default();
    tunables.set("discovery", 0).expect("a tunable");
    let mut topology = test_topology(own()[0], Identity::Node, tunables);
    topology.nis = own()
        .map(|nid| Ni { nid, credits: 8, peer_credits: 8 })
        .into_iter()
        .collect::<Interfaces>();
    let mut pair = DriverPair::new(TestDriver::default(), TestDriver::default());
    pair.add_ni(NiIndex(0), Either::Second(own()[0]));
    pair.add_ni(NiIndex(1), Either::First(own()[1]));
    let mut partition = Partition::new(topology, pair, memory);
    let user = partition.register(User);
    (partition, user)
}

/// A PUT of no bytes from a peer on each network, which both drivers number alike.
fn arrival(index: u16) -> (Arrival, Header) {
    let at = usize::from(index);
    let from = ProcessId::lustre(peers()[at]);
    let body =
        Body::Put { ack_md: MdHandle::NONE, match_bits: 7, hdr_data: 0, portal: PORTAL, offset: 0 };
    let dst = ProcessId::lustre(own()[at]);
    let header = Header { dst, src: from, payload_len: 0, body };
    (Arrival { ni: NiIndex(index), from, rx: RxId(5) }, header)
}

#[test]
fn messages_leave_by_the_driver_of_their_interface() {
    let mut memory = VecMemory::default();
    let (mut partition, user) = partition(&mut memory);
    for peer in peers() {
        partition.call(NOW, &mut memory, user, |user, turn| user.put(turn, peer));
    }
    partition.turn(NOW, &mut memory);
    // The first message to a peer waits for what discovery asks it.
    let sent = |driver: &TestDriver| -> Vec<(u16, Nid)> {
        driver.sent.iter().map(|(ni, header)| (ni.0, header.dst.nid)).collect()
    };
    assert_eq!(sent(partition.driver().first()), [(1, peers()[1])]);
    assert_eq!(sent(partition.driver().second()), [(0, peers()[0])]);
}

#[test]
fn parked_messages_with_equal_marks_are_told_apart_by_their_interface() {
    let mut memory = VecMemory::default();
    let (mut partition, user) = partition(&mut memory);
    let lazy = |_: &mut User, turn: &mut Turn<'_>| turn.shard.set_lazy(PORTAL, Laziness::Lazy);
    partition.call(NOW, &mut memory, user, lazy).expect("registered").expect("a portal");
    partition.report(NOW, &mut memory, Either::Second(arrival(0)));
    partition.report(NOW, &mut memory, Either::First(arrival(1)));
    let forget = |_: &mut User, turn: &mut Turn<'_>| {
        Core::forget(turn.shard, NiIndex(0), RxId(5));
    };
    partition.call(NOW, &mut memory, user, forget);
    partition.call(NOW, &mut memory, user, |user, turn| user.attach(turn));
    partition.turn(NOW, &mut memory);
    let (first, second) = (partition.driver().first(), partition.driver().second());
    assert!(second.resumed.is_empty(), "{:?}", second.resumed);
    assert!(matches!(first.resumed[..], [(NiIndex(1), RxId(5), Verdict::Into { .. })]));
}

#[test]
fn an_interface_that_goes_is_taken_from_its_driver_only() {
    let mut memory = VecMemory::default();
    let mut drivers = DriverPair::new(TestDriver::default(), TestDriver::default());
    drivers.add_ni(NiIndex(0), Either::Second(own()[0]));
    drivers.add_ni(NiIndex(1), Either::First(own()[1]));
    let topology = test_topology(own()[0], Identity::Node, Tunables::default());
    let mut core = Shard::new(topology, &mut memory);
    drivers.remove_ni(NOW, &mut core, &mut memory, NiIndex(0), Status::Unreachable);
    assert_eq!(drivers.second().nis, []);
    assert_eq!(drivers.first().nis, [(NiIndex(1), own()[1])]);
}
