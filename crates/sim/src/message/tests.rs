//! Loads at message fidelity.

use lustrine_lnet::time::{Nanos, WallClock};
use lustrine_selftest::{LoadProgress, LoadStep, SessionMode, StepLimit, Test};
use lustrine_wire::nid::{Net, Nid, ProcessId};
use lustrine_wire::srpc::{BrwCheck, Name};

use super::*;
use crate::costs::CpuCost;
use crate::fabric::{LinkSpec, Rate, SiteId};
use crate::tcp::TcpSpec;

const SECOND: Nanos = Nanos::from_secs(1);
const SLOT: ClientSlot = ClientSlot(1);
const READ: Test = Test::Read { len: 1 << 20, check: BrwCheck::Simple };
const WRITE: Test = Test::Write { len: 1 << 20, check: BrwCheck::Full };

fn nid(number: u32) -> Nid {
    Nid::new4(Net::TCP, 0x0a00_0001 + number)
}

/// 10 Gb/s and a delay.
fn interface(delay: Nanos) -> LinkSpec {
    LinkSpec { rate: Rate::from_bits(10_000_000_000), delay, ..LinkSpec::default() }
}

/// A network of hosts at one site, each with this delay to it.
struct Lan {
    crowd: MessageSim,
    site: SiteId,
    delay: Nanos,
    cost: CpuCost,
    /// As of links.
    loss: u32,
    /// One segment of any length: headers hardly count.
    segment: u32,
    edit: fn(NodeSpec) -> NodeSpec,
}

impl Lan {
    fn new(seed: u64, delay: Nanos) -> Lan {
        let mut crowd = MessageSim::new(seed);
        let site = crowd.fabric().add_site();
        let (loss, segment) = (0, u32::MAX);
        Lan { crowd, site, delay, cost: CpuCost::default(), loss, segment, edit: |spec| spec }
    }

    fn add(&mut self, count: u32) -> Vec<HostId> {
        (0..count).map(|_| self.add_one()).collect()
    }

    fn add_one(&mut self) -> HostId {
        let mut spec = NodeSpec::new(nid(self.crowd.hosts.len() as u32));
        spec.seed = self.crowd.hosts.len() as u64;
        let interface = LinkSpec { loss: self.loss, ..interface(self.delay) };
        let tcp = TcpSpec { segment: self.segment, ..TcpSpec::default() };
        let place = Placement { site: self.site, interface, cost: self.cost, tcp };
        self.crowd.add_node_at((self.edit)(spec), place)
    }

    fn load(&mut self, from: HostId, to: HostId, test: Test, concurrency: u32, limit: StepLimit) {
        let args = ClientArgs {
            target: ProcessId::lustre(nid(to.0)),
            local: None,
            console: nid(from.0),
            slot: SLOT,
            name: Name::EMPTY,
            session: SessionMode::NoSession,
            patience: Nanos::from_secs(1000),
            wall: WallClock::from_secs(1),
        };
        self.crowd.start_client(from, args);
        let step = LoadStep { test, concurrency, limit, warm_up: Nanos(0) };
        let client = self.crowd.client(from, SLOT).expect("it was just made");
        client.start_step(step).expect("harmless");
    }

    fn run(&mut self, length: Nanos) {
        let end = self.crowd.now() + length;
        self.crowd.run_to(end);
    }

    fn progress(&mut self, host: HostId) -> LoadProgress {
        let now = self.crowd.now();
        self.crowd.client(host, SLOT).expect("a client").progress(now)
    }

    /// Ends all clients and waits until nothing moves.
    fn calm(&mut self, clients: &[HostId]) {
        let now = self.crowd.now();
        for host in clients {
            self.crowd.client(*host, SLOT).expect("a client").finish(now);
        }
        self.run(Nanos::from_secs(200));
        let wrong = self.crowd.leftovers();
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        for host in clients {
            let client = self.crowd.client(*host, SLOT).expect("a client");
            assert!(client.finished() && client.error().is_none(), "{:?}", client.error());
        }
    }
}

fn seconds(number: u64) -> StepLimit {
    StepLimit::Time(Nanos::from_secs(number))
}

#[test]
fn a_ping_takes_the_time_of_its_path() {
    let mut lan = Lan::new(1, Nanos::from_micros(50));
    let [one, two] = lan.add(2)[..] else { panic!("two") };
    lan.load(one, two, Test::Ping, 1, seconds(1));
    lan.run(Nanos::from_secs(2));
    let progress = lan.progress(one);
    assert_eq!(progress.errors, []);
    // Four links of 50 us; 256 bytes at 10 Gb/s are 0.2 us.
    let median = progress.latencies.quantile(0.5);
    assert!((200_000..203_000).contains(&median.0), "{median:?}");
    assert!((4900..5001).contains(&progress.ops), "{}", progress.ops);
    lan.calm(&[one]);
}

#[test]
fn reads_and_writes_fill_a_link_and_are_intact() {
    for test in [READ, WRITE] {
        let mut lan = Lan::new(1, Nanos::from_micros(20));
        let [one, two] = lan.add(2)[..] else { panic!("two") };
        lan.load(one, two, test, 8, seconds(1));
        lan.run(Nanos::from_secs(3));
        let progress = lan.progress(one);
        assert_eq!(progress.errors, []);
        let bytes = progress.bytes;
        assert!((1_200_000_000..1_250_000_000).contains(&bytes), "{test:?}: {bytes}");
        lan.calm(&[one]);
    }
}

#[test]
fn one_read_at_a_time_takes_the_round_trip_and_one_serialisation() {
    let mut lan = Lan::new(1, Nanos::from_micros(100));
    let [one, two] = lan.add(2)[..] else { panic!("two") };
    lan.load(one, two, READ, 1, seconds(1));
    lan.run(Nanos::from_secs(3));
    // 400 us there and back, 839 us for the bytes: each link forwards before the last bit arrives.
    let median = lan.progress(one).latencies.quantile(0.5);
    assert!((1_235_000..1_260_000).contains(&median.0), "{median:?}");
    lan.calm(&[one]);
}

#[test]
fn zero_copy_holds_credits_for_one_more_transfer() {
    // 50 ms there and back: 8 credits are 8 MiB per round trip, or per two.
    let rate = |zero_copy: bool| {
        let mut lan = Lan::new(1, Nanos::from_micros(12_500));
        lan.edit = if zero_copy {
            |spec| spec.with("zero_copy", 1).with("tx_buffer_size", 64 << 20)
        } else {
            |spec| spec.with("tx_buffer_size", 64 << 20)
        };
        let [one, two] = lan.add(2)[..] else { panic!("two") };
        lan.load(one, two, READ, 64, seconds(10));
        lan.run(Nanos::from_secs(15));
        let progress = lan.progress(one);
        assert_eq!(progress.errors, []);
        let waits = lan.crowd.waits(two).expect("it runs");
        lan.calm(&[one]);
        (progress.bytes / 10, waits)
    };
    let (copied, _) = rate(false);
    let (lent, waits) = rate(true);
    assert!(lent < copied, "{lent} {copied}");
    // 8 MiB per round trip, with their serialisation.
    assert!((140_000_000..170_000_000).contains(&lent), "{lent}");
    assert!(waits.peer_credits > waits.ni_credits && waits.peer_credits > 1_000_000_000);
}

/// A MiB is 725 packets, so that it never passes as a whole if one in a hundred is lost: seven of
/// them are sent again after a round trip, and seldom one of these after another one.
#[test]
fn lost_packets_cost_a_large_message_a_round_trip_and_not_all_of_it() {
    let mut lan = Lan::new(1, Nanos::from_millis(5));
    (lan.loss, lan.segment) = (10_000_000, 1448);
    let [one, two] = lan.add(2)[..] else { panic!("two") };
    lan.load(one, two, WRITE, 1, seconds(20));
    lan.run(Nanos::from_secs(40));
    let progress = lan.progress(one);
    assert_eq!(progress.errors, []);
    // Two round trips of 20 ms, and 1.07 at each of two links. A small message of one packet waits
    // for a time-out of 200 ms: one of three, at two links, in 6 % of the writes.
    let median = progress.latencies.quantile(0.5);
    assert!((80_000_000..110_000_000).contains(&median.0), "{median:?}");
    assert!((170..240).contains(&progress.ops), "{}", progress.ops);
    let (up, _) = lan.crowd.fabric().interface(one).expect("it stands");
    let now = lan.crowd.now();
    let used = lan.crowd.fabric().used(up, now);
    assert!((70..140).contains(&(used.bytes / used.lost)), "{used:?}");
    lan.calm(&[one]);
}

#[test]
fn a_small_message_does_not_wait_behind_large_ones() {
    let mut lan = Lan::new(1, Nanos::from_micros(10));
    let [one, two, three] = lan.add(3)[..] else { panic!("three") };
    lan.load(one, two, WRITE, 16, seconds(2));
    lan.load(three, two, Test::Ping, 1, seconds(2));
    lan.run(Nanos::from_secs(4));
    let worst = lan.progress(three).latencies.max();
    assert!(worst < Nanos::from_micros(400), "{worst:?}");
    lan.calm(&[one, three]);
}

#[test]
fn a_slow_host_is_slow() {
    let mut lan = Lan::new(1, Nanos::from_micros(10));
    let clients = lan.add(4);
    lan.cost = CpuCost { per_message: Nanos::from_micros(10), per_mib: Nanos::from_millis(1) };
    let server = lan.add_one();
    for client in &clients {
        lan.load(*client, server, Test::Ping, 16, seconds(1));
    }
    lan.run(Nanos::from_secs(2));
    // Two messages per ping.
    let ops: u64 = clients.iter().map(|client| lan.progress(*client).ops).sum();
    assert!((45_000..51_000).contains(&ops), "{ops}");
    let waits = lan.crowd.waits(server).expect("it runs");
    assert!((900_000_000..1_100_000_000).contains(&waits.cpu), "{}", waits.cpu);
    lan.calm(&clients);
}

/// Clients of a few servers over links that lose packets, with crashes in between. Returns the hash
/// of the events and the results of all clients. `steps` is how often the simulation is sampled.
fn eventful(seed: u64, steps: u64) -> (u64, u64, u64) {
    let mut lan = Lan::new(seed, Nanos::from_micros(30));
    let servers = lan.add(3);
    let clients = lan.add(6);
    let (up, _) = lan.crowd.fabric().interface(clients[0]).expect("it stands");
    let lossy = LinkSpec { loss: 1_000_000, jitter: Nanos(5000), ..interface(lan.delay) };
    let now = lan.crowd.now();
    lan.crowd.fabric().change(up, now, lossy);
    for (index, client) in clients.iter().enumerate() {
        let test = [Test::Ping, READ, WRITE][index % 3];
        lan.load(*client, servers[index % 2], test, 4, seconds(8));
    }
    let mut lives = 1;
    for (victim, stop_kind) in [
        (servers[0], StopKind::Crash),
        (servers[1], StopKind::Silence),
        (servers[0], StopKind::Orderly),
    ] {
        for _ in 0..steps {
            lan.run(Nanos(SECOND.0 / steps));
        }
        let mut spec = lan.crowd.stop(victim, stop_kind);
        lan.run(SECOND);
        lives += 1;
        spec.incarnation += lives;
        spec.wall_seconds += lives;
        lan.crowd.start(victim, spec);
    }
    lan.run(Nanos::from_secs(100));
    let mut ops = 0;
    for client in &clients {
        let progress = lan.progress(*client);
        assert!(progress.ops > 100, "{client:?}: {} {:?}", progress.ops, progress.errors);
        assert!(lan.crowd.client(*client, SLOT).expect("a client").step_finished());
        ops += progress.ops;
    }
    let result = (lan.crowd.event_log().hash(), lan.crowd.messages(), ops);
    lan.calm(&clients);
    result
}

#[test]
fn loads_continue_after_crashes_and_the_same_seed_repeats_the_run() {
    let first = eventful(7, 1);
    assert_eq!(first, eventful(7, 1));
    assert_eq!(first, eventful(7, 100), "it does not matter how often one looks");
    assert_ne!(first.0, eventful(8, 1).0);
}

#[test]
fn a_host_without_node_refuses_and_a_silent_one_times_out() {
    let mut lan = Lan::new(3, Nanos::from_micros(10));
    let [one, two] = lan.add(2)[..] else { panic!("two") };
    for stop_kind in [StopKind::Crash, StopKind::Silence] {
        let spec = lan.crowd.stop(two, stop_kind);
        lan.load(one, two, Test::Ping, 1, StepLimit::Count(10));
        lan.run(Nanos::from_secs(20));
        assert!(!lan.crowd.client(one, SLOT).expect("a client").step_finished());
        lan.crowd.start(two, spec);
        lan.run(Nanos::from_secs(300));
        let progress = lan.progress(one);
        assert!(progress.ops + progress.errors.len() as u64 >= 10, "{:?}", progress.errors);
        lan.calm(&[one]);
    }
}

/// No node answers, and the node's loop has stopped.
#[test]
#[should_panic(expected = "overdue")]
fn a_node_that_misses_its_timers_is_detected() {
    let mut lan = Lan::new(1, Nanos(1000));
    lan.edit = |spec| spec.with("sock_timeout", 10_000);
    let hosts = lan.add(2);
    Simulation::stop(&mut lan.crowd, hosts[1], StopKind::Silence);
    lan.load(hosts[0], hosts[1], Test::Ping, 1, StepLimit::Count(1));
    lan.run(Nanos::from_millis(10));
    lan.crowd.hosts[0].forget_timers();
    lan.run(Nanos::from_secs(1000));
}

/// What a load of writes comes to: at the client, the messages that client and server count, and
/// how long messages of the client have waited for credits.
fn write_load(answers_gets: bool, credits: i64) -> (LoadProgress, [(u64, u64, u64); 2], u64) {
    let mut lan = Lan::new(7, Nanos::from_micros(20));
    if answers_gets {
        lan.crowd.answer_gets_in_place();
    }
    lan.edit = match credits {
        // Without copies a REPLY holds its credit until the peer has it.
        1 => |spec| spec.with("peer_credits", 1).with("zero_copy", 1),
        _ => |spec| spec,
    };
    let hosts = lan.add(2);
    lan.load(hosts[0], hosts[1], WRITE, 4, StepLimit::Count(200));
    lan.run(SECOND);
    let progress = lan.progress(hosts[0]);
    lan.calm(&hosts[..1]);
    let messages = [0, 1].map(|host: usize| {
        let node = lan.crowd.hosts[host].node.as_ref().expect("it runs");
        let stats = node.partition.shard().stats();
        (stats.sent.reply, stats.received.reply, stats.sent.put)
    });
    (progress, messages, lan.crowd.waits(hosts[0]).expect("it runs").peer_credits)
}

#[test]
fn replies_in_place_are_as_many_and_take_no_credits() {
    let (credited, messages, _) = write_load(false, 8);
    let (in_place, messages_in_place, _) = write_load(true, 8);
    assert!(credited.errors.is_empty() && in_place.errors.is_empty());
    assert_eq!((credited.ops, credited.bytes), (in_place.ops, in_place.bytes));
    assert_eq!(messages, messages_in_place, "the same messages are counted");
    assert!(messages[0].0 >= 200, "the server gets what is written: {messages:?}");
    // With one credit the REPLYs of the client wait behind each other and behind its requests.
    let ((_, _, credited), (_, _, in_place)) = (write_load(false, 1), write_load(true, 1));
    assert!(in_place < credited / 2, "{in_place} instead of {credited}");
}
