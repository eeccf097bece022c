//! Two drivers under random cuts, verdicts, breaks and options: each byte arrives once, each
//! operation has one end, and no resource remains.

use lustrine_lnet::lnd::{Action, NiIndex};
use lustrine_lnet::status::Status;
use lustrine_lnet::time::Nanos;
use lustrine_wire::ByteOrder;
use lustrine_wire::frame::FrameHeader;
use lustrine_wire::header::Body;
use lustrine_wire::hello::{ConnType, Version};
use proptest::prelude::*;

use crate::testing::{
    Chaos, NODE, Plan, Rogue, World, config, header_bytes, hello, hello_bytes, process, put_header,
    request_bytes,
};

#[derive(Clone, Debug)]
enum Step {
    Put { node: usize, len: usize },
    Plan { node: usize, plan: Plan },
    Run,
    Turn(usize),
    Poll(usize),
    Resume(usize),
    Pass(u64),
    Break(usize),
    Close(usize),
}

fn a_plan() -> impl Strategy<Value = Plan> {
    prop_oneof![
        (1..5000u32).prop_map(|piece| Plan::Store { piece }),
        (0..3000u32).prop_map(Plan::Truncate),
        Just(Plan::Done),
        Just(Plan::Drop),
        Just(Plan::Park),
    ]
}

fn a_length() -> impl Strategy<Value = usize> {
    prop_oneof![Just(0), 0..200usize, 1000..6000usize, 10_000..120_000usize]
}

fn a_step(faults: bool) -> BoxedStrategy<Step> {
    let calm = prop_oneof![
        8 => (0..2usize, a_length()).prop_map(|(node, len)| Step::Put { node, len }),
        3 => (0..2usize, a_plan()).prop_map(|(node, plan)| Step::Plan { node, plan }),
        2 => Just(Step::Run),
        5 => (0..2usize).prop_map(Step::Turn),
        3 => (0..2usize).prop_map(Step::Poll),
        2 => (0..2usize).prop_map(Step::Resume),
        1 => (1..3000u64).prop_map(Step::Pass),
    ];
    if !faults {
        return calm.boxed();
    }
    prop_oneof![
        12 => calm,
        1 => (0..6usize).prop_map(Step::Break),
        1 => (0..2usize).prop_map(Step::Close),
    ]
    .boxed()
}

#[derive(Clone, Debug)]
struct Options {
    seed: u64,
    protocol: i64,
    csum: i64,
    zero_copy: i64,
    conns_per_peer: u16,
    window: usize,
}

fn options() -> impl Strategy<Value = Options> {
    (any::<u64>(), 0..5i64, 0..2i64, 0..2i64, 1..4u16, prop_oneof![Just(700usize), Just(1 << 20)])
        .prop_map(|(seed, protocol, csum, zero_copy, conns_per_peer, window)| Options {
            seed,
            protocol,
            csum,
            zero_copy,
            conns_per_peer,
            window,
        })
}

fn world(options: &Options) -> World {
    let mut world = World::new(options.seed, Chaos::Chunks);
    for last in [1, 2] {
        let mut config = config(last);
        config.tunables.protocol = options.protocol;
        config.tunables.enable_csum = options.csum;
        config.tunables.zero_copy = options.zero_copy;
        config.tunables.zc_min_payload = 2048;
        config.nis[0].conns_per_peer = options.conns_per_peer;
        world.add(config);
    }
    world.net.set_window(options.window);
    world
}

/// Each payload identifies its message and node.
fn payload(node: usize, number: u64, len: usize) -> Vec<u8> {
    (0..len).map(|at| (at as u64 * 13 + number * 31 + node as u64 * 101) as u8).collect()
}

struct Run {
    world: World,
    sent: [u64; 2],
}

impl Run {
    fn step(&mut self, step: &Step) {
        let world = &mut self.world;
        match *step {
            Step::Put { node, len } => {
                let number = self.sent[node];
                self.sent[node] += 1;
                world.put(node, process(2 - node as u8), number, &payload(node, number, len));
            }
            Step::Plan { node, plan } => world.core(node).plans.push_back(plan),
            Step::Run => world.run(),
            Step::Turn(node) => {
                world.turn(node);
            }
            Step::Poll(node) => {
                world.poll(node);
            }
            Step::Resume(node) => {
                if !world.core(node).parked.is_empty() {
                    world.core(node).resume(Plan::Store { piece: 777 });
                }
            }
            Step::Pass(millis) => world.pass(Nanos::from_millis(millis)),
            Step::Break(index) => {
                let streams = world.net.streams_of(0);
                if let Some(sock) = streams.get(index % streams.len().max(1)) {
                    world.net.break_stream(*sock);
                }
            }
            Step::Close(node) => {
                let peer = process(2 - node as u8);
                let status = Status::Canceled;
                let close = Action::Close { ni: NiIndex(0), peer, status };
                world.core(node).outbox.push_back(close);
            }
        }
    }

    /// Lets all operations end: all parked messages are accepted, and time passes.
    fn settle(&mut self) {
        for _ in 0..1000 {
            self.world.run();
            let mut parked = false;
            for node in 0..2 {
                self.world.core(node).plans.clear();
                while !self.world.core(node).parked.is_empty() {
                    parked = true;
                    self.world.core(node).resume(Plan::Store { piece: u32::MAX });
                }
            }
            if !parked {
                break;
            }
        }
        self.world.pass(Nanos::from_secs(120));
    }

    /// Each message arrived at most once, and those that arrived without an error equal those sent.
    fn check_arrivals(&mut self) -> [usize; 2] {
        [0, 1].map(|node| {
            let core = self.world.core(node);
            let mut seen = std::collections::BTreeSet::new();
            for index in 0..core.arrived.len() {
                let arrived = core.arrived[index].clone();
                let Body::Put { match_bits: number, .. } = arrived.header.body else {
                    panic!("only PUTs were sent");
                };
                assert!(seen.insert(number), "message {number} came twice");
                assert!(arrived.status.is_some(), "message {number} never ended");
                if arrived.status == Some(Status::Ok) {
                    let stored = core.payload(index);
                    let sent = payload(1 - node, number, arrived.header.payload_len as usize);
                    assert_eq!(stored, sent[..stored.len()], "message {number}");
                }
            }
            seen.len()
        })
    }

    fn check_rest(&mut self) {
        for node in 0..2 {
            assert_eq!(self.world.core(node).open_ops(), 0, "operations of node {node}");
            let driver = self.world.driver(node);
            assert!(!driver.has_work());
            for peer in driver.peers() {
                assert_eq!((peer.tx_queued, peer.waiting, peer.zero_copy), (0, 0, 0));
            }
            assert_eq!((driver.handshakes_held(), driver.outgoing), (0, 0));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn without_faults_every_message_arrives(
        options in options(),
        steps in prop::collection::vec(a_step(false), 1..60),
    ) {
        let mut run = Run { world: world(&options), sent: [0, 0] };
        for step in &steps {
            run.step(step);
        }
        run.settle();
        run.check_arrivals();
        run.check_rest();
        for node in 0..2 {
            let sent = run.world.core(node).sent.clone();
            prop_assert_eq!(sent.len() as u64, run.sent[node]);
            prop_assert!(sent.iter().all(|(_, status)| status.is_ok()), "{:?}", sent);
            let heard = run.world.driver(1 - node).counters().messages_received;
            prop_assert_eq!(heard, run.sent[node]);
        }
    }

    #[test]
    fn with_faults_every_operation_ends_once(
        options in options(),
        steps in prop::collection::vec(a_step(true), 1..80),
    ) {
        let mut run = Run { world: world(&options), sent: [0, 0] };
        for step in &steps {
            run.step(step);
        }
        run.settle();
        let arrived = run.check_arrivals();
        run.check_rest();
        for node in 0..2 {
            prop_assert_eq!(run.world.core(node).sent.len() as u64, run.sent[node]);
            prop_assert!(arrived[1 - node] as u64 <= run.sent[node]);
        }
        // And it still works.
        let before = run.world.core(1).arrived.len();
        run.world.put(0, process(2), 1_000_000, b"still there");
        run.world.pass(Nanos::from_secs(70));
        prop_assert_eq!(run.world.core(1).arrived.len(), before + 1);
    }

    /// A valid exchange with some bytes changed, cut off anywhere, in chunks of any size.
    #[test]
    fn arbitrary_bytes_of_a_peer_do_no_damage(
        version in prop_oneof![
            Just(Version::V1), Just(Version::V2), Just(Version::V3), Just(Version::V4)
        ],
        changes in prop::collection::vec((0..1200usize, any::<u8>()), 0..6),
        messages in prop::collection::vec((0..200usize, 0..4u64, 0..4u64), 0..6),
        plans in prop::collection::vec(a_plan(), 0..6),
        end in 0..2000usize,
        step in 1..400usize,
        answered in any::<bool>(),
    ) {
        let kind = if answered { ConnType::Control } else { ConnType::BulkIn };
        let mut bytes = request_bytes(NODE);
        bytes.extend(hello_bytes(&hello(1, version, kind)));
        for (len, request, ack) in messages {
            let header = put_header(process(1), process(NODE), 7, len as u32);
            if version != Version::V1 {
                let frame = FrameHeader { zc_request: request, zc_ack: ack, ..FrameHeader::LNET };
                bytes.extend(frame.encode(ByteOrder::Little));
            }
            bytes.extend(header_bytes(version, &header));
            bytes.extend(vec![0xc0; len]);
        }
        for (at, value) in changes {
            if let Some(byte) = bytes.get_mut(at) {
                *byte = value;
            }
        }
        bytes.truncate(end);
        let mut world = World::new(1, Chaos::None);
        let mut config = config(NODE);
        config.tunables.zero_copy = 1;
        world.add(config);
        world.core(0).plans = plans.into();
        let rogue = Rogue::dial(&mut world, 1, 999);
        for (index, chunk) in bytes.chunks(step).enumerate() {
            rogue.say(&mut world, chunk);
            if index == 1 {
                world.put(0, process(1), 1, &[1; 20_000]);
            }
            while !world.core(0).parked.is_empty() {
                world.core(0).resume(Plan::Store { piece: 50 });
                world.run();
            }
        }
        world.net.hang_up(rogue.sock);
        world.pass(Nanos::from_secs(200));
        prop_assert_eq!(world.core(0).open_ops(), 0);
        let driver = world.driver(0);
        prop_assert_eq!((driver.connections(), driver.peers().count()), (0, 0));
        prop_assert!(!driver.has_work());
    }
}
