//! What a pass does in which order.

use lustrine_lnet::event::{Event, EventKind};
use lustrine_lnet::lnd::{Arrival, NiIndex, RxId};
use lustrine_lnet::md::{Md, MdOptions, Owner};
use lustrine_lnet::memory::{Memory, VecMemory};
use lustrine_lnet::service::{Service, Turn};
use lustrine_lnet::shard::{AckWanted, PutArgs};
use lustrine_lnet::status::Status;
use lustrine_lnet::time::{Nanos, Time};
use lustrine_lnet::topology::{Identity, Interfaces, Ni};
use lustrine_lnet::tunables::Tunables;
use lustrine_lnet_testing::{test_nid, test_topology};
use lustrine_partition::{Partition, ServiceHandle};
use lustrine_wire::header::{Body, Header, MdHandle};
use lustrine_wire::nid::{PID_USERLAND, ProcessId};

use crate::common::{Step, TestDriver, entry, md};

const NOW: Time = Time(1_000_000_000);
const PORTAL: u32 = 20;

/// Answers each PUT with one of `len` bytes, or with nothing if that is 0.
struct Answerer {
    owner: Owner,
    len: u32,
    attached: bool,
    lost: Vec<ProcessId>,
}

impl Answerer {
    fn md(&self, turn: &mut Turn<'_>, len: u32, threshold: Option<u32>) -> Md {
        let span = turn.memory.alloc(len).expect("no limit");
        let options = MdOptions::OP_PUT | MdOptions::MANAGE_REMOTE;
        md(self.owner, span, threshold, options)
    }
}

impl Service for Answerer {
    fn on_event(&mut self, turn: &mut Turn<'_>, event: &Event) {
        if event.kind != EventKind::Put || self.len == 0 {
            return;
        }
        let md = self.md(turn, self.len, Some(1));
        let md = turn.shard.bind(md).expect("a good one");
        let (target, local) = (event.peer, Some(event.local.nid));
        let args = PutArgs {
            md,
            local,
            target,
            portal: PORTAL,
            match_bits: 8,
            offset: 0,
            hdr_data: 0,
            ack: AckWanted::No,
            timeout: None,
        };
        turn.shard.put(turn.now, args).expect("room");
    }

    fn on_peer_down(&mut self, _: &mut Turn<'_>, peer: &ProcessId, _: Status) {
        self.lost.push(*peer);
    }

    fn drive(&mut self, turn: &mut Turn<'_>) {
        if core::mem::replace(&mut self.attached, true) {
            return;
        }
        let md = self.md(turn, 64, None);
        turn.shard.attach(turn.now, PORTAL, entry(7), md).expect("a free portal");
    }

    fn next_deadline(&self) -> Time {
        if self.attached { Time::NEVER } else { Time::ZERO }
    }
}

/// What the driver does in the passes in which so many requests are answered with `len` bytes each,
/// until nothing is left to do.
fn steps(requests: usize, len: u32) -> Vec<Vec<Step>> {
    steps_with_credits(requests, len, 256)
}

fn steps_with_credits(requests: usize, len: u32, peer_credits: u32) -> Vec<Vec<Step>> {
    let (mut partition, mut memory, _) = asked(requests, len, peer_credits);
    let mut passes = Vec::new();
    loop {
        let before = partition.driver().steps.len();
        let goes_on = partition.pass(NOW, &mut memory);
        passes.push(partition.driver().steps[before..].to_vec());
        assert_eq!(goes_on, partition.has_work());
        if !goes_on {
            return passes;
        }
    }
}

type Asked = (Partition<TestDriver>, VecMemory, ServiceHandle<Answerer>);

/// Nodes are asked for their NIDs before they are answered; processes are not.
fn asker() -> ProcessId {
    ProcessId { nid: test_nid(1), pid: PID_USERLAND | 5 }
}

/// A partition that has got so many requests, each of which is answered with `len` bytes.
fn asked(requests: usize, len: u32, peer_credits: u32) -> Asked {
    let mut memory = VecMemory::default();
    let mut topology = test_topology(test_nid(0), Identity::Node, Tunables::default());
    let ni = Ni { nid: test_nid(0), credits: 256, peer_credits };
    topology.nis = [ni].into_iter().collect::<Interfaces>();
    let mut partition = Partition::new(topology, TestDriver::default(), &mut memory);
    let service =
        partition.register(|owner| Answerer { owner, len, attached: false, lost: Vec::new() });
    while partition.pass(NOW, &mut memory) {}
    let body =
        Body::Put { ack_md: MdHandle::NONE, match_bits: 7, hdr_data: 0, portal: PORTAL, offset: 0 };
    let (dst, src) = (ProcessId::lustre(test_nid(0)), asker());
    let header = Header { dst, src, payload_len: 0, body };
    for _ in 0..requests {
        let arrival = Arrival { ni: NiIndex(0), from: src, rx: RxId(5) };
        partition.report(NOW, &mut memory, (arrival, header));
    }
    (partition, memory, service)
}

/// The first flush of a pass is for what came before it.
const BEGIN: Step = Step::Flush;

#[test]
fn what_many_events_lead_to_is_written_together() {
    use Step::{Flush, Submit};
    assert_eq!(steps(3, 64), [[BEGIN, Submit, Submit, Submit, Flush]]);
    // The sum of small messages is no reason to write earlier.
    let all = steps(32, 64 << 10);
    assert_eq!(all.len(), 1, "{all:?}");
    assert_eq!(all[0].iter().filter(|step| **step == Flush).count(), 2, "{all:?}");
}

/// The others work on the first answers while the next ones are made.
#[test]
fn what_32_events_lead_to_is_written_before_the_next_ones_are_delivered() {
    let submitted = |pass: &Vec<Step>| pass.iter().filter(|step| **step != Step::Flush).count();
    for (requests, expected) in [(33, &[32, 1][..]), (100, &[32, 32, 32, 4])] {
        // The last passes are for the SEND events of the answers.
        let all = steps(requests, 64);
        let all: Vec<usize> = all.iter().map(submitted).filter(|answers| *answers > 0).collect();
        assert_eq!(all, expected);
    }
}

/// Services look at the time: what has come in a pause comes before that.
#[test]
fn after_a_pause_all_events_are_delivered_first() {
    let (mut partition, mut memory, _) = asked(100, 64, 256);
    let later = NOW + Nanos::from_millis(100);
    partition.pass(later, &mut memory);
    assert_eq!(partition.driver().sent.len(), 100);
}

/// A peer is lost behind as many events as a pass delivers: there is another pass for it.
#[test]
fn a_lost_peer_behind_the_last_event_of_a_pass_is_delivered() {
    for requests in [31, 32, 33] {
        let (mut partition, mut memory, service) = asked(requests, 0, 256);
        partition.adopt(NOW, &mut memory, asker());
        while partition.pass(NOW, &mut memory) {}
        assert!(!partition.has_work());
        let lost = &partition.service(service).expect("it is registered").lost;
        assert_eq!(*lost, [asker()], "{requests} requests");
    }
}

#[test]
fn a_message_alone_is_submitted_as_such() {
    use Step::{Flush, Submit, SubmitAlone};
    assert_eq!(steps(1, 64), [[BEGIN, SubmitAlone, Flush]]);
    // It is not alone if others wait for the credit that its end gives back.
    assert_eq!(steps_with_credits(3, 64, 1), [[BEGIN, Submit, Submit, Submit, Flush]]);
}

/// While a service works on the next event, the network works on what the last ones led to.
#[test]
fn much_data_is_written_before_the_next_event_is_delivered() {
    use Step::{Flush, Submit, SubmitAlone};
    // The last pass is for the SEND event of the last answer.
    let one = vec![BEGIN, SubmitAlone, Flush];
    assert_eq!(steps(2, 1 << 20), [one.clone(), one, vec![BEGIN]]);
    let two = vec![BEGIN, Submit, Submit, Flush];
    assert_eq!(steps(4, 512 << 10), [two.clone(), two, vec![BEGIN]]);
    // However many there are, none is left.
    let many = steps(100, 1 << 20);
    assert!(
        many.len() >= 100 && many.iter().flatten().filter(|s| **s == SubmitAlone).count() == 100
    );
}
