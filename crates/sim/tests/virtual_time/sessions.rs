//! Sessions of a console in virtual time: over lossy links, with consoles that crash, nodes that
//! disappear in the middle of a batch, and many nodes.

use std::collections::BTreeMap;

use lustrine_lnet::time::{Nanos, Time};
use lustrine_selftest::Test;
use lustrine_selftest::console::{
    Answer, Command, Console, Detail, Distribution, NewTest, NodeReply, NodeState, Refusal, Reply,
    Target,
};
use lustrine_sim::fabric::{LinkSpec, Rate};
use lustrine_sim::tcp::TcpSpec;
use lustrine_sim::{CpuCost, HostId, NodeSpec, Placement, Simulation, StopKind, StreamSim};
use lustrine_wire::nid::{Net, Nid};
use lustrine_wire::srpc::BrwCheck;

const KEY: u32 = 5;

/// The interval at which a console is driven.
const LOOK: Nanos = Nanos::from_millis(1);

fn nid(index: usize) -> Nid {
    Nid::new4(Net::TCP, 0x0a00_0001 + index as u32)
}

fn spec(index: usize) -> NodeSpec {
    NodeSpec { seed: index as u64, incarnation: 0x1000 + index as u64, ..NodeSpec::new(nid(index)) }
}

/// Nodes at one switch, and their consoles.
struct Site {
    world: StreamSim,
    hosts: Vec<HostId>,
    consoles: BTreeMap<usize, Console>,
    tickets: u64,
}

impl Site {
    fn new(nodes: usize, interface: LinkSpec) -> Site {
        let mut world = StreamSim::new(7);
        let site = Simulation::fabric(&mut world).add_site();
        let place =
            Placement { site, interface, cost: CpuCost::default(), tcp: TcpSpec::default() };
        let hosts = (0..nodes).map(|index| world.add_node_at(spec(index), place)).collect();
        Site { world, hosts, consoles: BTreeMap::new(), tickets: 0 }
    }

    fn add_console(&mut self, node: usize) {
        self.consoles.insert(node, Console::new(&nid(node), 0x6000_0000));
    }

    fn now(&self) -> Time {
        self.world.now()
    }

    /// Lets a short time pass for all nodes.
    fn pass(&mut self) {
        self.world.run_for(LOOK);
        let now = self.now();
        for (node, console) in &mut self.consoles {
            let host = self.hosts[*node];
            while let Some(outcome) = self.world.look(host, |node| node.next_rpc_outcome()) {
                console.completed(now, &outcome);
            }
            if now >= console.next_deadline() {
                console.tick(now);
            }
            while let Some(order) = console.next_rpc() {
                self.world.with(host, |_, node| node.start_console_rpc(order));
            }
        }
    }

    fn pass_for(&mut self, length: Nanos) {
        let end = self.now() + length;
        while self.now() < end {
            self.pass();
        }
    }

    fn execute(&mut self, node: usize, command: Command) -> Result<Answer, Refusal> {
        self.tickets += 1;
        let (ticket, now) = (self.tickets, self.now());
        let console = self.consoles.get_mut(&node).expect("a console");
        console.command(now, ticket, KEY, command);
        for _ in 0..200_000 {
            let console = self.consoles.get_mut(&node).expect("a console");
            if let Some((answered, answer)) = console.next_answer() {
                assert_eq!(answered, ticket);
                return answer;
            }
            self.pass();
        }
        panic!("no answer within 200 s");
    }

    fn begin(&mut self, node: usize) {
        let name = "sim".to_owned();
        let begin = Command::NewSession { name, timeout: 600, force: false, features: 1 };
        self.execute(node, begin).expect("a session");
    }

    fn add_group(
        &mut self,
        node: usize,
        group: &str,
        nodes: std::ops::Range<usize>,
    ) -> Vec<NodeReply> {
        let group = group.to_owned();
        self.execute(node, Command::AddGroup { group: group.clone() }).expect("a group");
        said(self.execute(node, Command::AddNodes { group, nids: nodes.map(nid).collect() }))
    }

    /// Active tests of the batch as the clients report them; `None` for those that do not answer.
    fn query(&mut self, node: usize) -> Vec<Option<u32>> {
        let batch = "batch".to_owned();
        let said = said(self.execute(node, Command::Query { batch, test: 0, timeout: 3 }));
        let active = said.into_iter().map(|said| match said.reply {
            Reply::Good(Detail::Active(active)) => Some(active),
            _ => None,
        });
        active.collect()
    }
}

fn said(answer: Result<Answer, Refusal>) -> Vec<NodeReply> {
    match answer {
        Ok(Answer::Replies(said)) => said,
        other => panic!("{other:?}"),
    }
}

fn all_good(answer: Result<Answer, Refusal>) -> usize {
    let said = said(answer);
    let bad: Vec<&NodeReply> = said.iter().filter(|said| !said.is_good()).collect();
    assert!(bad.is_empty(), "{bad:?}");
    said.len()
}

fn test(test: Test, loops: i32) -> Command {
    Command::AddTest(NewTest {
        batch: "batch".to_owned(),
        from: "clients".to_owned(),
        to: "servers".to_owned(),
        test,
        offset: 0,
        loops,
        concurrency: 4,
        spread: Distribution::ONE_TO_ONE,
        stop_on_error: true,
        rate: 0,
    })
}

fn run() -> Command {
    Command::Run { batch: "batch".to_owned(), timeout: 0 }
}

fn errors(site: &mut Site, group: &str) -> u32 {
    let target = Target::Group(group.to_owned());
    let said = said(site.execute(0, Command::Stat { target, timeout: 10 }));
    said.into_iter()
        .map(|said| match said.reply {
            Reply::Good(Detail::Counters(counters)) => {
                counters.framework.brw_errors + counters.framework.ping_errors
            }
            other => panic!("{other:?}"),
        })
        .sum()
}

/// 1 Gb/s and 5 ms: slow enough for a test that never ends by itself.
fn slow() -> LinkSpec {
    let rate = Rate::from_bits(1_000_000_000);
    LinkSpec { rate, delay: Nanos::from_micros(2500), ..LinkSpec::default() }
}

#[test]
fn a_session_works_over_links_that_lose_one_packet_in_fifty() {
    let loss = 20_000_000;
    let rate = Rate::from_bits(1_000_000_000);
    let interface = LinkSpec { rate, delay: Nanos::from_millis(1), loss, ..LinkSpec::default() };
    let mut site = Site::new(5, interface);
    site.add_console(0);
    site.begin(0);
    assert_eq!(site.add_group(0, "clients", 1..3).iter().filter(|said| said.is_good()).count(), 2);
    assert_eq!(site.add_group(0, "servers", 3..5).iter().filter(|said| said.is_good()).count(), 2);
    for what in [
        Test::Read { len: 65_536, check: BrwCheck::Full },
        Test::Write { len: 65_536, check: BrwCheck::Full },
    ] {
        assert_eq!(all_good(site.execute(0, test(what, 20))), 4);
    }
    assert_eq!(all_good(site.execute(0, run())), 2);
    let end = site.now() + Nanos::from_secs(60);
    while site.query(0) != [Some(0), Some(0)] {
        assert!(site.now() < end, "the batch does not end");
        site.pass_for(Nanos::from_millis(100));
    }
    assert_eq!(errors(&mut site, "clients"), 0);
    assert_eq!(all_good(site.execute(0, Command::EndSession)), 4);
}

#[test]
fn nodes_of_a_console_that_crashed_are_free_for_the_next() {
    for stop_kind in [StopKind::Crash, StopKind::Silence] {
        let mut site = Site::new(3, slow());
        site.add_console(0);
        site.add_console(1);
        site.begin(0);
        assert!(site.add_group(0, "servers", 2..3)[0].is_good());
        site.world.stop(site.hosts[0], stop_kind);
        site.consoles.remove(&0);
        site.begin(1);
        let answers = site.add_group(1, "servers", 2..3);
        assert_eq!(answers[0].state, NodeState::Busy, "{stop_kind:?}");
        site.pass_for(Nanos::from_secs(101));
        let group = "servers".to_owned();
        assert_eq!(all_good(site.execute(1, Command::RefreshGroup { group })), 1, "{stop_kind:?}");
    }
}

#[test]
fn a_node_that_disappears_in_the_middle_of_a_batch_is_noticed() {
    for stop_kind in [StopKind::Crash, StopKind::Silence] {
        let mut site = Site::new(5, slow());
        site.add_console(0);
        site.begin(0);
        site.add_group(0, "clients", 1..3);
        site.add_group(0, "servers", 3..5);
        let read = Test::Read { len: 4096, check: BrwCheck::Simple };
        assert_eq!(all_good(site.execute(0, test(read, -1))), 4);
        assert_eq!(all_good(site.execute(0, run())), 2);
        site.pass_for(Nanos::from_secs(1));
        assert_eq!(site.query(0), [Some(1), Some(1)]);
        let mut spec = site.world.stop(site.hosts[2], stop_kind);
        let running = site.query(0);
        assert_eq!(running[0], Some(1), "{stop_kind:?}: the other client goes on");
        assert_eq!(running[1], None, "{stop_kind:?}: this one is silent");
        // The batch can be stopped where it is running.
        let stop = || Command::Stop { batch: "batch".to_owned(), force: false };
        said(site.execute(0, stop()));
        site.pass_for(Nanos::from_secs(1));
        assert_eq!(site.query(0)[0], Some(0), "{stop_kind:?}");
        // It comes back without a session, and the console notices that.
        spec.incarnation += 1;
        site.world.start(site.hosts[2], spec);
        site.pass_for(Nanos::from_secs(120));
        let Ok(Answer::Nodes(nodes)) =
            site.execute(0, Command::ShowGroup { group: "clients".to_owned() })
        else {
            panic!("no group")
        };
        let states: Vec<NodeState> = nodes.iter().map(|node| node.state).collect();
        assert_eq!(states, [NodeState::Active, NodeState::Unknown], "{stop_kind:?}");
        let refused = site.execute(0, run()).map_err(|refusal| refusal.errno());
        assert_eq!(refused, Err(100), "{stop_kind:?}");
        assert_eq!(said(site.execute(0, Command::EndSession)).len(), 3, "{stop_kind:?}");
    }
}

#[test]
fn a_thousand_nodes_work_in_one_session() {
    let mut site = Site::new(1001, slow());
    site.add_console(0);
    site.begin(0);
    let begun = site.now();
    for (group, nodes) in [("clients", 1..501), ("servers", 501..1001)] {
        assert_eq!(
            site.add_group(0, group, nodes).iter().filter(|said| said.is_good()).count(),
            500
        );
    }
    assert_eq!(all_good(site.execute(0, test(Test::Ping, 10))), 1000);
    assert_eq!(all_good(site.execute(0, run())), 500);
    let mut polls = 0;
    while site.query(0) != [Some(0); 500] {
        polls += 1;
        assert!(polls < 1000, "the batch does not end");
    }
    assert_eq!(errors(&mut site, "clients"), 0);
    assert_eq!(all_good(site.execute(0, Command::EndSession)), 1000);
    let took = site.now().since(begun);
    assert!(took < Nanos::from_secs(5), "{took:?} of virtual time");
    site.pass_for(Nanos::from_secs(31));
    let spins = site.hosts.iter().map(|host| site.world.node(*host).idle_turns_max()).max();
    assert!(spins < Some(100), "a loop took {spins:?} turns in a row for nothing");
}
