//! Services that are registered with nodes from outside.

use lustrine_lnet::event::{Event, EventKind};
use lustrine_lnet::md::{MatchId, Md, MdOptions, Owner, Position, Unlink};
use lustrine_lnet::memory::{Memory, Span, Spans};
use lustrine_lnet::portal::MatchEntry;
use lustrine_lnet::service::{Service, Turn};
use lustrine_lnet::shard::{AckWanted, PutArgs};
use lustrine_lnet::status::Status;
use lustrine_lnet::time::{Nanos, Time};
use lustrine_sim::{HostId, NodeService, NodeSpec, StopKind, StreamSim};
use lustrine_wire::nid::{Nid, PID_ANY, ProcessId};

const SECOND: Nanos = Nanos::from_secs(1);

/// A portal that no service of a node has.
const PORTAL: u32 = 60;

/// What a message says.
const TEXT: &[u8] = b"far away";

/// Sends a message when it is time, and notes those that come.
struct Letters {
    owner: Owner,
    to: ProcessId,
    /// When the next one is sent.
    due: Time,
    /// The memory for the message that is awaited.
    listening: Option<Span>,
    received: Vec<(Time, Vec<u8>)>,
}

impl Letters {
    fn new(owner: Owner, to: &Nid) -> Letters {
        let to = ProcessId::lustre(*to);
        Letters { owner, to, due: Time::NEVER, listening: None, received: Vec::new() }
    }

    /// A descriptor with memory for a message.
    fn md(&self, turn: &mut Turn<'_>, options: MdOptions) -> Md {
        let span = turn.memory.alloc(TEXT.len() as u32).expect("memory");
        Md {
            spans: Spans::from_slice(&[span]),
            threshold: Some(1),
            max_size: None,
            options,
            owner: self.owner,
            user: 0,
        }
    }

    /// Waits for one message.
    fn listen(&mut self, turn: &mut Turn<'_>) {
        let entry = MatchEntry {
            from: MatchId { nid: Nid::ANY, pid: PID_ANY },
            match_bits: 0,
            ignore_bits: u64::MAX,
            position: Position::After,
            unlink: Unlink::Auto,
        };
        let md = self.md(turn, MdOptions::OP_PUT);
        self.listening = Some(md.spans[0]);
        turn.shard.attach(turn.now, PORTAL, entry, md).expect("a place in the portal");
    }
}

impl Service for Letters {
    fn on_event(&mut self, turn: &mut Turn<'_>, event: &Event) {
        if event.kind == EventKind::Put {
            let mut text = vec![0; event.moved as usize];
            let span = self.listening.take().expect("a message comes only then");
            turn.memory.read(span, &mut text);
            turn.memory.free(span);
            self.received.push((turn.now, text));
        }
    }

    fn on_peer_down(&mut self, _turn: &mut Turn<'_>, _peer: &ProcessId, _status: Status) {}

    fn drive(&mut self, turn: &mut Turn<'_>) {
        if turn.now < self.due {
            return;
        }
        self.due = Time::NEVER;
        let md = self.md(turn, MdOptions::empty());
        turn.memory.write(md.spans[0], TEXT);
        let md = turn.shard.bind(md).expect("room for a descriptor");
        let args = PutArgs {
            md,
            local: None,
            target: self.to,
            portal: PORTAL,
            match_bits: 0,
            offset: 0,
            hdr_data: 0,
            ack: AckWanted::No,
            timeout: None,
        };
        turn.shard.put(turn.now, args).expect("a path");
    }

    fn next_deadline(&self) -> Time {
        self.due
    }
}

struct Pair {
    world: StreamSim,
    hosts: [HostId; 2],
    letters: [NodeService<Letters>; 2],
}

/// Two nodes of so many partitions, each with a service that belongs to the other.
fn pair(cpts: u16) -> Pair {
    let nids: [Nid; 2] = ["10.0.0.1@tcp", "10.0.0.2@tcp"].map(|nid| nid.parse().expect("a NID"));
    let mut world = StreamSim::new(1);
    let hosts = nids.map(|nid| world.add_node(NodeSpec { cpts, ..NodeSpec::new(nid) }));
    let letters = [0, 1].map(|index: usize| {
        let other = nids[1 - index];
        world.register(hosts[index], &other, |owner| Letters::new(owner, &other))
    });
    Pair { world, hosts, letters }
}

/// The service's deadline is the only thing that happens at its node.
#[test]
fn a_service_is_driven_when_it_is_due() {
    for cpts in [1, 4] {
        let Pair { mut world, hosts, letters } = pair(cpts);
        assert!(world.node(hosts[1]).service(letters[0]).is_none(), "it is another node's");
        world.run_for(SECOND);
        world.call(letters[1], Letters::listen).expect("it runs");
        let due = world.now() + SECOND;
        world.call(letters[0], |service, _| service.due = due).expect("it runs");
        world.run_until(Nanos::from_secs(2), |world| {
            let service = world.node(hosts[1]).service(letters[1]);
            service.is_some_and(|service| !service.received.is_empty())
        });
        let service = world.node(hosts[1]).service(letters[1]).expect("it runs");
        let [(at, text)] = service.received.as_slice() else {
            panic!("{cpts} partitions: {} messages", service.received.len());
        };
        // The first message opens the connections.
        assert!(*at > due && *at < due + Nanos::from_millis(1), "{at:?}, due {due:?}");
        assert_eq!(text, TEXT);
        world.run_for(SECOND);
        world.assert_idle();
    }
}

#[test]
fn a_service_ends_with_its_node() {
    let Pair { mut world, hosts, letters } = pair(1);
    let spec = world.stop(hosts[0], StopKind::Orderly);
    assert!(world.call(letters[0], |_, _| ()).is_none());
    let incarnation = spec.incarnation + 1;
    world.start(hosts[0], NodeSpec { incarnation, ..spec });
    let nid = "10.0.0.2@tcp".parse().expect("a NID");
    let again = world.register(hosts[0], &nid, |owner| Letters::new(owner, &nid));
    assert!(world.call(letters[0], |_, _| ()).is_none());
    assert!(world.node(hosts[0]).service(letters[0]).is_none());
    assert!(world.call(again, |_, _| ()).is_some());
    assert!(world.call(letters[1], |_, _| ()).is_some());
}
