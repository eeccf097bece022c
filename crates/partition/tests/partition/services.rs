//! Services that a partition knows nothing of: an echo service and its clients.

use std::collections::VecDeque;

use lustrine_lnet::event::{Event, EventKind, Stray};
use lustrine_lnet::md::{MdOptions, Owner};
use lustrine_lnet::memory::{Memory, Span, VecMemory};
use lustrine_lnet::service::{Service, Turn};
use lustrine_lnet::shard::{AckWanted, PutArgs};
use lustrine_lnet::status::Status;
use lustrine_lnet::time::{Nanos, Time};
use lustrine_lnet::topology::Identity;
use lustrine_lnet::tunables::Tunables;
use lustrine_lnet_testing::{test_nid, test_topology};
use lustrine_partition::Partition;
use lustrine_wire::nid::{Nid, ProcessId};

use crate::common::{TestDriver, entry, md};

const NOW: Time = Time(1_000_000_000);
const LEN: u32 = 64;
const REQUESTS: u32 = 20;
const REPLIES: u32 = 21;
/// How long the server thinks about an answer.
const DELAY: Nanos = Nanos::from_millis(5);

fn lo() -> ProcessId {
    ProcessId::lustre(Nid::LO)
}

fn attach(turn: &mut Turn<'_>, owner: Owner, portal: u32, match_bits: u64) -> Span {
    let span = turn.memory.alloc(LEN).expect("no limit");
    let md = md(owner, span, None, MdOptions::OP_PUT);
    turn.shard.attach(turn.now, portal, entry(match_bits), md).expect("a free portal");
    span
}

fn put(turn: &mut Turn<'_>, owner: Owner, portal: u32, match_bits: u64, text: &[u8]) {
    let span = turn.memory.alloc(text.len() as u32).expect("no limit");
    turn.memory.write(span, text);
    let md = turn.shard.bind(md(owner, span, Some(1), MdOptions::empty())).expect("a short one");
    let args = PutArgs {
        md,
        local: None,
        target: lo(),
        portal,
        match_bits,
        offset: 0,
        hdr_data: match_bits,
        ack: AckWanted::No,
        timeout: None,
    };
    turn.shard.put(turn.now, args).expect("room");
}

/// Sends back what it gets, after a while.
struct Echo {
    owner: Owner,
    inbox: Option<Span>,
    waiting: VecDeque<(Time, u64, Vec<u8>)>,
}

impl Service for Echo {
    fn on_event(&mut self, turn: &mut Turn<'_>, event: &Event) {
        assert_eq!(event.owner, self.owner);
        if let (EventKind::Put, Some(inbox)) = (event.kind, self.inbox) {
            let mut text = vec![0; event.moved as usize];
            turn.memory.read(inbox.part(event.offset, event.moved), &mut text);
            self.waiting.push_back((turn.now + DELAY, event.hdr_data, text));
        }
    }

    fn on_peer_down(&mut self, _: &mut Turn<'_>, _: &ProcessId, _: Status) {}

    fn drive(&mut self, turn: &mut Turn<'_>) {
        let owner = self.owner;
        self.inbox.get_or_insert_with(|| attach(turn, owner, REQUESTS, 7));
        while self.waiting.front().is_some_and(|(due, ..)| *due <= turn.now)
            && let Some((_, client, text)) = self.waiting.pop_front()
        {
            put(turn, owner, REPLIES, client, &text);
        }
    }

    fn next_deadline(&self) -> Time {
        if self.inbox.is_none() {
            return Time::ZERO;
        }
        self.waiting.front().map_or(Time::NEVER, |(due, ..)| *due)
    }
}

/// Asks the echo service, and keeps the answers.
struct Requester {
    owner: Owner,
    number: u64,
    inbox: Option<Span>,
    answers: Vec<Vec<u8>>,
}

impl Requester {
    fn ask(&mut self, turn: &mut Turn<'_>, text: &[u8]) {
        let (owner, number) = (self.owner, self.number);
        self.inbox.get_or_insert_with(|| attach(turn, owner, REPLIES, number));
        let span = turn.memory.alloc(text.len() as u32).expect("no limit");
        turn.memory.write(span, text);
        let md = md(self.owner, span, Some(1), MdOptions::empty());
        let md = turn.shard.bind(md).expect("a short one");
        let args = PutArgs {
            md,
            local: None,
            target: lo(),
            portal: REQUESTS,
            match_bits: 7,
            offset: 0,
            hdr_data: self.number,
            ack: AckWanted::No,
            timeout: None,
        };
        turn.shard.put(turn.now, args).expect("room");
    }
}

impl Service for Requester {
    fn on_event(&mut self, turn: &mut Turn<'_>, event: &Event) {
        assert_eq!(event.owner, self.owner);
        if let (EventKind::Put, Some(inbox)) = (event.kind, self.inbox) {
            let mut text = vec![0; event.moved as usize];
            turn.memory.read(inbox.part(event.offset, event.moved), &mut text);
            self.answers.push(text);
        }
    }

    fn on_peer_down(&mut self, _: &mut Turn<'_>, _: &ProcessId, _: Status) {}

    fn drive(&mut self, _: &mut Turn<'_>) {}

    fn next_deadline(&self) -> Time {
        Time::NEVER
    }
}

fn partition(memory: &mut VecMemory) -> Partition<TestDriver> {
    let topology = test_topology(test_nid(0), Identity::Node, Tunables::default());
    Partition::new(topology, TestDriver::default(), memory)
}

fn requester(number: u64) -> impl FnOnce(Owner) -> Requester {
    move |owner| Requester { owner, number, inbox: None, answers: Vec::new() }
}

fn echo(owner: Owner) -> Echo {
    Echo { owner, inbox: None, waiting: VecDeque::new() }
}

#[test]
fn each_service_gets_its_own_events_and_is_driven_when_it_asks_for_it() {
    let mut memory = VecMemory::default();
    let mut partition = partition(&mut memory);
    let server = partition.register(echo);
    let clients = [partition.register(requester(1)), partition.register(requester(2))];
    assert_eq!(partition.next_deadline(), Time::ZERO, "the server has memory to attach");
    partition.turn(NOW, &mut memory);
    assert_eq!(partition.next_deadline(), Time::NEVER);
    assert_eq!(partition.service(server).map(|server| server.waiting.len()), Some(0));
    for (client, text) in clients.into_iter().zip(["one", "two"]) {
        let text = text.as_bytes();
        partition.call(NOW, &mut memory, client, |client, turn| client.ask(turn, text));
    }
    partition.turn(NOW, &mut memory);
    assert_eq!(partition.next_deadline(), NOW + DELAY);
    partition.turn(partition.next_deadline(), &mut memory);
    for (client, text) in clients.into_iter().zip(["one", "two"]) {
        let client = partition.service(client).expect("it is registered");
        assert_eq!(client.answers, [text.as_bytes()]);
    }
    assert_eq!(partition.undelivered(), 0);
}

#[test]
fn events_of_a_service_that_is_gone_do_not_reach_its_successor() {
    let mut memory = VecMemory::default();
    let mut partition = partition(&mut memory);
    let server = partition.register(echo);
    let gone = partition.register(requester(1));
    partition.turn(NOW, &mut memory);
    partition.call(NOW, &mut memory, gone, |client, turn| client.ask(turn, b"early"));
    partition.turn(NOW, &mut memory);
    assert!(partition.unregister(gone).is_some());
    assert!(partition.unregister(gone).is_none() && partition.service(gone).is_none());
    let next = partition.register(requester(2));
    assert_ne!(next.owner(), gone.owner());
    partition.turn(NOW + DELAY, &mut memory);
    assert_eq!(partition.undelivered(), 1, "the answer");
    assert_eq!(partition.service(next).map(|client| client.answers.len()), Some(0));
    partition.call(NOW + DELAY, &mut memory, next, |client, turn| client.ask(turn, b"late"));
    partition.turn(NOW + DELAY, &mut memory);
    partition.turn(NOW + DELAY + DELAY, &mut memory);
    let answers = partition.service(next).map(|client| client.answers.clone());
    assert_eq!(answers, Some(vec![b"late".to_vec()]));
    assert!(partition.service(server).is_some());
}

/// Shares a portal with others: takes what has its number, and passes the rest on. It ends one
/// event after it was retired.
struct Sharing {
    owner: Owner,
    number: u64,
    inbox: Option<Span>,
    taken: u32,
    unclaimed: u32,
    quiet: bool,
}

impl Service for Sharing {
    fn on_event(&mut self, turn: &mut Turn<'_>, event: &Event) {
        if event.kind == EventKind::Put && event.hdr_data == self.number {
            self.taken += 1;
        } else if event.kind == EventKind::Put {
            turn.shard.pass_on(Stray { event: *event, message: vec![7] });
        }
        self.quiet = true;
    }

    fn on_peer_down(&mut self, _: &mut Turn<'_>, _: &ProcessId, _: Status) {}

    fn drive(&mut self, turn: &mut Turn<'_>) {
        let owner = self.owner;
        self.inbox.get_or_insert_with(|| attach(turn, owner, REQUESTS, 7));
    }

    fn next_deadline(&self) -> Time {
        if self.inbox.is_none() { Time::ZERO } else { Time::NEVER }
    }

    fn on_stray(&mut self, _: &mut Turn<'_>, stray: &Stray) -> bool {
        assert_ne!(stray.event.owner, self.owner, "it passed it on itself");
        let mine = stray.event.hdr_data == self.number;
        self.taken += u32::from(mine);
        mine
    }

    fn on_unclaimed(&mut self, _: &mut Turn<'_>, stray: &Stray) {
        assert_eq!(stray.event.owner, self.owner);
        self.unclaimed += 1;
    }

    fn retire(&mut self, _: &mut Turn<'_>) {
        self.quiet = false;
    }

    fn is_quiet(&self) -> bool {
        self.quiet
    }
}

fn sharing(number: u64) -> impl FnOnce(Owner) -> Sharing {
    move |owner| Sharing { owner, number, inbox: None, taken: 0, unclaimed: 0, quiet: true }
}

#[test]
fn what_one_service_passes_on_reaches_the_one_that_takes_it() {
    let mut memory = VecMemory::default();
    let mut partition = partition(&mut memory);
    let services: Vec<_> = (1..=3).map(|number| partition.register(sharing(number))).collect();
    partition.turn(NOW, &mut memory);
    let clients = [3, 2, 1, 4].map(|number| partition.register(requester(number)));
    for client in clients {
        partition.call(NOW, &mut memory, client, |client, turn| client.ask(turn, b"x"));
        partition.turn(NOW, &mut memory);
    }
    let mut unclaimed = 0;
    for service in services {
        let service = partition.service(service).expect("it is registered");
        assert_eq!(service.taken, 1);
        unclaimed += service.unclaimed;
    }
    assert_eq!(partition.undelivered(), 1, "no service takes the last one");
    assert_eq!(unclaimed, 1, "the one that has received it learns of that");
}

#[test]
fn a_service_that_is_retired_stays_until_it_is_quiet() {
    let mut memory = VecMemory::default();
    let mut partition = partition(&mut memory);
    let service = partition.register(sharing(1));
    partition.turn(NOW, &mut memory);
    partition.retire(NOW, &mut memory, service);
    partition.turn(NOW, &mut memory);
    assert!(partition.service(service).is_some());
    let client = partition.register(requester(1));
    partition.call(NOW, &mut memory, client, |client, turn| client.ask(turn, b"x"));
    partition.turn(NOW, &mut memory);
    assert!(partition.service(service).is_none());
    // One that has nothing goes at once, and a second time is no error.
    partition.retire(NOW, &mut memory, client);
    assert!(partition.service(client).is_none());
    partition.retire(NOW, &mut memory, client);
    let next = partition.register(sharing(2));
    partition.turn(NOW, &mut memory);
    assert!(partition.service(next).is_some(), "its predecessor was retired");
}
