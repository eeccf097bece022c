//! Plans in virtual time: results are what the links permit, and nodes are left without a session
//! after any failure.

use std::collections::BTreeMap;

use lustrine_lnet::time::{Nanos, Time};
use lustrine_plan::{
    End, Env, MissingHost, Nodes, OpCounts, Plan, PlanProgress, PointResult, Results, RunError,
    Stage, Started, StartedHost, csv, page, points, run, table,
};
use lustrine_selftest::console::{Answer, Command, Console, Reply, Target};
use lustrine_selftest::errno::ESRCH;
use lustrine_sim::fabric::{LinkSpec, Rate};
use lustrine_sim::tcp::TcpSpec;
use lustrine_sim::{CpuCost, HostId, NodeSpec, Placement, Simulation, StopKind, StreamSim};
use lustrine_wire::nid::{Net, Nid};
use lustrine_wire::srpc::{BatchOp, Body, Message};

const KEY: u32 = 5;

/// The interval at which a console is driven.
const LOOK: Nanos = Nanos::from_millis(1);

/// 1 Gb/s, in MiB/s.
const LINK: f64 = 119.2;

fn nid(index: usize) -> Nid {
    Nid::new4(Net::TCP, 0x0a00_0001 + index as u32)
}

/// Nodes at one switch; the first one is the console's.
struct Site {
    world: StreamSim,
    hosts: Vec<HostId>,
    console: Console,
    tickets: u64,
    take_over: bool,
    /// When the links of a node are cut (true) or work again.
    cuts: Vec<(Time, usize, bool)>,
    /// When the user interrupts the run, and when a node crashes.
    interrupt_at: Time,
    dies_at: Option<(Time, usize, StopKind)>,
    seen: Vec<PlanProgress>,
    titles: Vec<String>,
    stages: Vec<Stage>,
    finished: Vec<Vec<(String, Option<OpCounts>)>>,
    warnings: Vec<String>,
    /// When the user interrupts the run for the second time.
    interrupt_again_at: Time,
    /// Right before the tests are started this node crashes, or cannot be reached for some time.
    dies_at_start: Option<usize>,
    away_at_start: Option<(usize, Nanos)>,
    /// Requests about batches in flight, and whether each client was last heard to be idle.
    batches: BTreeMap<u64, (Nid, BatchOp)>,
    idle: BTreeMap<Nid, bool>,
    /// Clients that were told to leave while their tests could run.
    left_busy: Vec<Nid>,
}

impl Site {
    fn new(nodes: usize, edit: impl Fn(usize, NodeSpec) -> NodeSpec) -> Site {
        let mut world = StreamSim::new(7);
        let site = Simulation::fabric(&mut world).add_site();
        let rate = Rate::from_bits(1_000_000_000);
        let interface = LinkSpec { rate, delay: Nanos::from_micros(50), ..LinkSpec::default() };
        let place =
            Placement { site, interface, cost: CpuCost::default(), tcp: TcpSpec::default() };
        let spec = |index: usize| NodeSpec {
            seed: index as u64,
            incarnation: 0x1000 + index as u64,
            ..NodeSpec::new(nid(index))
        };
        let hosts =
            (0..nodes).map(|index| world.add_node_at(edit(index, spec(index)), place)).collect();
        Site {
            world,
            hosts,
            console: Console::new(&nid(0), 0x6000_0000),
            tickets: 0,
            take_over: false,
            cuts: Vec::new(),
            interrupt_at: Time::NEVER,
            interrupt_again_at: Time::NEVER,
            dies_at: None,
            seen: Vec::new(),
            titles: Vec::new(),
            stages: Vec::new(),
            finished: Vec::new(),
            warnings: Vec::new(),
            dies_at_start: None,
            away_at_start: None,
            batches: BTreeMap::new(),
            idle: BTreeMap::new(),
            left_busy: Vec::new(),
        }
    }

    fn look_around(&mut self) {
        self.world.run_for(LOOK);
        let now = self.world.now();
        if let Some((_, node, death)) = self.dies_at.take_if(|(at, ..)| now >= *at) {
            self.world.stop(self.hosts[node], death);
        }
        let due = |(at, ..): &mut (Time, usize, bool)| now >= *at;
        for (_, node, cut) in self.cuts.extract_if(.., due) {
            let fabric = Simulation::fabric(&mut self.world);
            let (up, down) = fabric.interface(self.hosts[node]).expect("it has an interface");
            fabric.cut(up, cut);
            fabric.cut(down, cut);
        }
        let host = self.hosts[0];
        while let Some(outcome) = self.world.look(host, |node| node.next_rpc_outcome()) {
            if let (
                Some((nid, BatchOp::Query)),
                Ok(Message { body: Body::BatchReply(reply), .. }),
            ) = (self.batches.remove(&outcome.rpc), &outcome.reply)
            {
                self.idle.insert(nid, reply.active == 0);
            }
            self.console.completed(now, &outcome);
        }
        if now >= self.console.next_deadline() {
            self.console.tick(now);
        }
        while let Some(order) = self.console.next_rpc() {
            match order.body {
                Body::BatchRequest(request) => {
                    let op = BatchOp::from_number(request.op).expect("a known one");
                    self.batches.insert(order.id, (order.peer, op));
                    if op == BatchOp::Run {
                        self.idle.insert(order.peer, false);
                    }
                }
                Body::RemoveSessionRequest(_) if self.idle.remove(&order.peer) == Some(false) => {
                    self.left_busy.push(order.peer);
                }
                _ => {}
            }
            self.world.with(host, |_, node| node.start_console_rpc(order));
        }
    }

    /// How many of these nodes report that they are in a session.
    fn in_session(&mut self, nodes: &[usize]) -> usize {
        let (name, timeout) = ("look".to_owned(), 60);
        self.command(Command::NewSession { name, timeout, force: false, features: 1 })
            .expect("free");
        let target = Target::Nodes(nodes.iter().map(|node| nid(*node)).collect());
        let Ok(Answer::Replies(said)) = self.command(Command::Ping { target, timeout: 10 }) else {
            panic!("no answer");
        };
        self.command(Command::EndSession).expect("the end");
        assert_eq!(said.len(), nodes.len());
        said.iter().filter(|said| said.reply != Reply::Refused(ESRCH)).count()
    }
}

impl Env for Site {
    fn command(&mut self, command: Command) -> Result<Answer, RunError> {
        self.tickets += 1;
        let (ticket, now) = (self.tickets, self.world.now());
        if matches!(command, Command::Run { .. }) {
            if let Some(node) = self.dies_at_start.take() {
                self.world.stop(self.hosts[node], StopKind::Crash);
            }
            if let Some((node, time)) = self.away_at_start.take() {
                self.cuts.extend([(now, node, true), (now + time, node, false)]);
                self.look_around();
            }
        }
        self.console.command(now, ticket, KEY, command);
        for _ in 0..200_000 {
            if let Some((answered, answer)) = self.console.next_answer() {
                assert_eq!(answered, ticket);
                return answer.map_err(|refusal| RunError::Failed(refusal.to_string()));
            }
            self.look_around();
        }
        panic!("no answer within 200 s");
    }

    fn now(&mut self) -> Time {
        self.world.now()
    }

    fn sleep(&mut self, time: Nanos) -> Result<(), RunError> {
        let end = self.world.now() + time;
        while self.world.now() < end {
            self.look_around();
            if self.world.now() >= self.interrupt_at {
                return Err(RunError::Interrupted);
            }
        }
        Ok(())
    }

    fn settle(&mut self, time: Nanos) -> Result<(), RunError> {
        let end = self.world.now() + time;
        while self.world.now() < end {
            self.look_around();
        }
        match self.world.now() >= self.interrupt_again_at {
            true => Err(RunError::Interrupted),
            false => Ok(()),
        }
    }

    fn take_over(&self) -> bool {
        self.take_over
    }

    fn on_point(&mut self, number: usize, of: usize, title: &str) {
        self.titles.push(format!("{number}/{of} {title}"));
    }

    fn on_stage(&mut self, stage: Stage) {
        self.stages.push(stage);
    }

    fn on_result(&mut self, rows: &[(String, Option<OpCounts>)]) {
        self.finished.push(rows.to_vec());
    }

    fn on_progress(&mut self, live: &PlanProgress) {
        self.seen.push(live.clone());
    }

    fn warn(&mut self, text: &str) {
        self.warnings.push(text.to_owned());
    }
}

#[test]
fn a_view_follows_each_point_and_gets_its_results() {
    let mut site = Site::new(5, |_, spec| spec);
    // It is too short for a progress report.
    let step = "{time: 200 ms, repeat: 2, tests: [{do: ping, from: c, to: s}]}";
    let (points, end) = all_run(&mut site, step);
    assert_eq!((points.len(), end), (2, End::Complete));
    let stages = [Stage::Session, Stage::WarmUp, Stage::Measuring, Stage::Stopping];
    assert_eq!(site.stages, stages.repeat(2));
    assert_eq!(site.finished.len(), 2);
    for (rows, point) in site.finished.iter().zip(&points) {
        assert_eq!((rows.len(), rows[0].1.as_ref().unwrap().ops), (1, point.rows[0].all.ops));
        assert!(rows[0].0.contains("ping") && rows[0].1.as_ref().unwrap().ops > 0, "{rows:?}");
    }
}

/// Nodes 1 and 2 are clients, 3 and 4 servers.
fn nodes() -> Nodes {
    vec![vec![nid(1), nid(2)], vec![nid(3), nid(4)]]
}

fn all_run(site: &mut Site, step: &str) -> (Vec<PointResult>, End) {
    let text = format!("name: p\ngroups: {{c: 2, s: 2}}\nsteps:\n- {step}\n");
    let plan = Plan::parse(&text, "p").unwrap_or_else(|why| panic!("{why}"));
    let points = points(&plan, &nodes()).expect("there are enough nodes");
    run(&plan, &points, site)
}

fn results_of(points: Vec<PointResult>) -> Results {
    Results {
        version: "1".to_owned(),
        date: "today".to_owned(),
        host: "<here>".to_owned(),
        plan: "p".to_owned(),
        source: String::new(),
        about: "a <b> & \"c\"".to_owned(),
        groups: [("c".to_owned(), nodes()[0].clone())].into(),
        start: None,
        provenance: None,
        points,
        end: End::Complete,
    }
}

#[track_caller]
fn near(value: f64, wanted: f64, tolerance: f64) {
    assert!((value / wanted - 1.0).abs() <= tolerance, "{value} instead of {wanted}");
}

fn same_sum(all: &OpCounts, of: impl Iterator<Item = OpCounts>) {
    let (ops, rate) = of.fold((0, 0.0), |(ops, rate), one| (ops + one.ops, rate + one.ops_per_s));
    assert_eq!(all.ops, ops);
    near(rate, all.ops_per_s, 1e-9);
}

#[test]
fn results_are_what_the_links_permit() {
    let mut site = Site::new(5, |_, spec| spec);
    let (results, end) = all_run(
        &mut site,
        "{name: bulk, time: 3 s, tests: [{do: read, from: c, to: s, concurrency: 8}, \
         {do: write, from: c, to: s, concurrency: 8}], sweep: {c: [1, 2]}}",
    );
    assert_eq!(end, End::Complete);
    assert_eq!(site.titles, ["1/2 bulk, c 1", "2/2 bulk, c 2"]);
    // 1:1, so each client has a separate link, in both directions.
    for (point, clients) in results.iter().zip([1.0, 2.0]) {
        assert_eq!(point.rows.len(), 2);
        for row in &point.rows {
            near(row.all.mib_per_s, clients * LINK, 0.08);
            near(row.all.seconds, 3.0, 0.01);
            assert_eq!((row.all.errors, row.silent), (0, 0));
            let latency = row.all.latency_us.expect("clients report");
            // Little's law: the number in flight is rate times time.
            near(latency.mean.expect("a mean") / 1e6 * row.all.ops_per_s, 8.0 * clients, 0.08);
            assert!(latency.p50 <= latency.p90 && latency.p90 <= latency.p99);
            let counted: u64 = row.histogram.iter().map(|(_, count)| count).sum();
            // Those that ended after the measured time have latencies too.
            let at_the_end = u64::from(row.concurrency * row.clients);
            assert!((row.all.ops..=row.all.ops + at_the_end).contains(&counted), "{counted}");
            assert_eq!(row.all.latency_sent_us, None, "there is no rate");
            same_sum(&row.all, row.by_client.iter().map(|client| client.counted.clone()));
            assert!(row.by_client.iter().all(|client| client.server.is_some()));
        }
        // The LNet counters of each client include both tests: requests, replies, data in both
        // directions.
        let client =
            point.nodes.iter().find(|node| node.nid == nid(1)).expect("it is in the results");
        let bytes = client.lnet.recv_length as f64 / f64::from(1 << 20);
        near(bytes, point.rows[0].by_client[0].counted.mib_per_s * 3.0, 0.1);
    }
    // Progress is shown after one second and after two, at two points.
    assert_eq!(site.seen.len(), 4);
    for live in &site.seen {
        assert_eq!(live.rows.len(), 2);
        near(live.rows[0].1.as_ref().unwrap().mib_per_s, LINK * live.clients.len() as f64, 0.2);
    }
    assert_eq!(site.in_session(&[1, 2, 3, 4]), 0, "no node is left in a session");
}

#[test]
fn kernel_clients_are_counted_by_what_they_send() {
    // Client 2 reports as little as a kernel node does.
    let mut site = Site::new(5, |index, spec| match index {
        2 => spec.with("selftest_client_stats", 0),
        _ => spec,
    });
    let (results, end) = all_run(
        &mut site,
        "{time: 3 s, tests: [{do: read, from: c, to: s, size: 64 KiB, concurrency: 8}]}",
    );
    assert_eq!(end, End::Complete);
    let row = &results[0].rows[0];
    assert_eq!(row.silent, 0);
    near(row.all.mib_per_s, 2.0 * LINK, 0.08);
    assert_eq!(row.all.latency_us, None, "not all clients report them");
    let has_latency = |client: usize| row.by_client[client].counted.latency_us.is_some();
    assert_eq!((has_latency(0), has_latency(1)), (true, false));
    near(row.by_client[1].counted.mib_per_s, LINK, 0.08);
    // The shares of two tests at once are unknown, and a kernel client has no rate limit.
    let two = "{time: 1 s, tests: [{do: ping, from: c, to: s}, {do: read, from: c, to: s}]}";
    let (results, end) = all_run(&mut site, two);
    assert_eq!((end, results[0].rows[0].silent), (End::Complete, 1));
    let rate = "{time: 1 s, tests: [{do: ping, from: c, to: s, rate: 10}]}";
    let (results, end) = all_run(&mut site, rate);
    assert!(results.is_empty());
    assert!(matches!(end, End::Failed { error } if error.contains("10.0.0.3@tcp")));
    assert_eq!(site.in_session(&[1, 2, 3, 4]), 0);
}

/// Their figures are unknown, and not zero.
#[test]
fn kernel_clients_of_two_tests_have_no_figures() {
    let mut site = Site::new(5, |index, spec| match index {
        1 | 2 => spec.with("selftest_client_stats", 0),
        _ => spec,
    });
    let two = "{time: 1 s, tests: [{do: ping, from: c, to: s}, {do: read, from: c, to: s}]}";
    let (results, end) = all_run(&mut site, two);
    assert_eq!((end, results[0].rows[0].silent), (End::Complete, 2));
    let rows = site.finished.last().expect("a point was measured");
    assert!(rows.len() == 2 && rows.iter().all(|(_, figures)| figures.is_none()), "{rows:?}");
}

#[test]
fn rate_limits_are_kept() {
    let mut site = Site::new(5, |_, spec| spec);
    let (results, end) = all_run(
        &mut site,
        "{time: 4 s, tests: [{do: ping, from: c, to: s, spread: all, rate: 300, concurrency: 2}]}",
    );
    assert_eq!(end, End::Complete);
    near(results[0].rows[0].all.ops_per_s, 600.0, 0.01);
}

#[test]
fn operations_of_a_test_with_a_rate_count_from_when_they_were_due() {
    // The server cannot be reached for half a second, and TCP needs some time to continue.
    let mut site = Site::new(5, |_, spec| spec);
    site.cuts = vec![(Time(3_000_000_000), 3, true), (Time(3_500_000_000), 3, false)];
    let (results, end) = all_run(
        &mut site,
        "{time: 6 s, tests: [{do: ping, from: c, to: s, spread: '2:1', rate: 100}], \
         sweep: {c: [1]}}",
    );
    assert_eq!(end, End::Complete);
    let all = &results[0].rows[0].all;
    // All of them are sent in the end.
    near(all.ops_per_s, 100.0, 0.02);
    let (due, sent) = (all.latency_us.expect("due"), all.latency_sent_us.expect("sent"));
    // One operation was in flight, and at least 50 of 600 were due that could not be sent.
    assert!(sent.p99 < 10_000.0 && sent.max >= 500_000.0, "{sent:?}");
    assert!(due.p50 < 10_000.0 && due.p99 > 400_000.0, "{due:?}");
    near(due.max, sent.max, 0.1);
    assert_eq!((all.errors, all.lost_ops), (0, 0));
    let results = results_of(results);
    let text = table(&results);
    assert!(text.contains("100 per second and client, from when each was due"), "{text}");
    assert!(text.contains("from when each was sent "), "{text}");
    let csv = csv(&results);
    let column = |name: &str| {
        let at = csv.lines().next()?.split(',').position(|head| head == name)?;
        csv.lines().nth(1)?.split(',').nth(at)?.parse::<f64>().ok()
    };
    near(column("p90_us").expect("a number"), due.p90, 0.001);
    near(column("sent_p90_us").expect("a number"), sent.p90, 0.001);
    assert!(page(&results, &text).html.contains("From when each was sent: p50"));
}

#[test]
fn an_operation_that_stalls_at_the_end_counts_with_its_latency() {
    // The server becomes silent 0.5 s before the end of the row and comes back 2 s after it; the
    // second time it never comes back.
    for (back, lost) in [(5_500_000_000, 0), (u64::MAX, 4)] {
        let mut site = Site::new(5, |_, spec| spec.with("rpc_timeout", 8));
        site.cuts = vec![(Time(3_000_000_000), 3, true), (Time(back), 3, false)];
        let (results, end) = all_run(
            &mut site,
            "{time: 3 s, tests: [{do: ping, from: c, to: s, concurrency: 4}], sweep: {c: [1]}}",
        );
        assert_eq!(end, End::Complete);
        let row = &results[0].rows[0];
        assert!((2.9..3.2).contains(&row.all.seconds), "{}", row.all.seconds);
        let longest = row.all.latency_us.expect("there are some").max;
        assert_eq!(longest > 2_000_000.0, lost == 0, "{longest} us");
        assert_eq!((row.all.lost_ops, row.all.errors), (lost, lost));
        assert_eq!(row.all.lost_age_max_s >= 2.0, lost > 0, "{}", row.all.lost_age_max_s);
        let counted: u64 = row.histogram.iter().map(|(_, count)| count).sum();
        assert_eq!(counted, row.all.ops + 4 - lost, "operations that began in the row");
        let text = table(&results_of(results));
        assert_eq!(text.contains("4 never ended; the oldest was given up"), lost > 0, "{text}");
    }
}

#[test]
fn what_was_due_in_a_stall_at_the_end_of_a_row_counts() {
    // The server is silent in the last second of the row: 100 RPCs are due in it, 4 are sent.
    let mut site = Site::new(5, |_, spec| spec.with("rpc_timeout", 8));
    site.cuts = vec![(Time(3_500_000_000), 3, true), (Time(9_000_000_000), 3, false)];
    let (results, end) = all_run(
        &mut site,
        "{time: 4 s, tests: [{do: ping, from: c, to: s, concurrency: 4, rate: 100}], \
         sweep: {c: [1]}}",
    );
    assert_eq!(end, End::Complete);
    let row = &results[0].rows[0];
    let due = row.all.latency_us.expect("there are some");
    let sent = row.all.latency_sent_us.expect("there is a rate");
    assert!(sent.p90 < 10_000.0, "four of those sent stalled: {sent:?}");
    assert!(due.p90 > 100_000.0, "one in five of those due waited: {due:?}");
}

#[test]
fn a_node_that_crashes_is_reported_and_the_others_leave_the_session() {
    for (death, victim) in [(StopKind::Crash, 3), (StopKind::Silence, 3), (StopKind::Crash, 1)] {
        let mut site = Site::new(5, |_, spec| spec.with("rpc_timeout", 5));
        site.dies_at = Some((Time(2_000_000_000), victim, death));
        let (results, end) = all_run(
            &mut site,
            "{time: 12 s, tests: [{do: ping, from: c, to: s, concurrency: 4, rate: 50}]}",
        );
        assert_eq!(end, End::Complete, "{death:?} of {victim}");
        let left: Vec<usize> = [1, 2, 3, 4].into_iter().filter(|node| *node != victim).collect();
        assert_eq!(site.in_session(&left), 0, "{death:?} of {victim}");
        let row = &results[0].rows[0];
        if victim == 1 {
            assert_eq!(
                (row.lost.len(), row.silent, row.by_client.len()),
                (1, 0, 1),
                "it is missing"
            );
        } else {
            let errors = |client: usize| row.by_client[client].counted.errors;
            assert!(errors(0) > 0 && errors(1) == 0, "{death:?}");
            assert_eq!(row.all.errors, errors(0));
        }
    }
}

/// The first packet of its connection is lost, which TCP sends again after one second.
#[test]
fn the_warm_up_lasts_until_each_client_has_had_a_success() {
    let mut site = Site::new(5, |_, spec| spec);
    site.away_at_start = Some((3, Nanos::from_millis(600)));
    let step = "{time: 2 s, warm_up: 200 ms, tests: [{do: ping, from: c, to: s}]}";
    let (results, end) = all_run(&mut site, step);
    assert_eq!(end, End::Complete);
    let row = &results[0].rows[0];
    let longest = row.all.latency_us.expect("clients report").max;
    assert!(longest < 100_000.0 && row.by_client.len() == 2, "{longest} us");
    // A client without any success delays the measurement by 10 s, and is measured too.
    site.away_at_start = Some((4, Nanos::from_secs(3600)));
    let before = site.world.now();
    let (results, end) = all_run(&mut site, step);
    assert_eq!((results.len(), end), (1, End::Complete));
    assert!(site.world.now().since(before) > Nanos::from_secs(12));
    assert_eq!(results[0].rows[0].by_client[1].counted.ops, 0);
}

#[test]
fn a_long_warm_up_does_not_end_the_session() {
    let mut site = Site::new(5, |_, spec| spec);
    let step = "{time: 1 s, warm_up: 10 min, tests: [{do: ping, from: c, to: s, rate: 5}]}";
    let (results, end) = all_run(&mut site, step);
    assert_eq!((results.len(), end), (1, End::Complete));
    near(results[0].rows[0].all.ops_per_s, 10.0, 0.15);
}

#[test]
fn an_interruption_leaves_nothing_running() {
    let mut site = Site::new(5, |_, spec| spec);
    site.interrupt_at = Time(9_000_000_000);
    let (results, end) =
        all_run(&mut site, "{time: 5 s, repeat: 9, tests: [{do: ping, from: c, to: s, rate: 99}]}");
    assert_eq!(end, End::Interrupted { interrupted: true });
    assert_eq!(results.len(), 2, "what was measured until then is good");
    assert!(results[1].rows[0].all.seconds < 4.0 && results[1].rows[0].all.ops > 0);
    assert_eq!(site.in_session(&[1, 2, 3, 4]), 0);
}

/// The selftest of a kernel node can hang if its session ends while a test runs.
#[test]
fn no_session_ends_before_its_tests_have_ended() {
    let step = "{time: 5 s, tests: [{do: ping, from: c, to: s, concurrency: 4}]}";
    // Server 3 is silent from before the interruption to 2 s after it. Clients are as kernel nodes.
    let kernel = |_, spec: NodeSpec| spec.with("selftest_client_stats", 0);
    let mut site = Site::new(5, kernel);
    site.cuts = vec![(Time(2_500_000_000), 3, true), (Time(5_000_000_000), 3, false)];
    site.interrupt_at = Time(3_000_000_000);
    let (results, end) = all_run(&mut site, step);
    assert_eq!((results.len(), end), (1, End::Interrupted { interrupted: true }));
    assert_eq!(site.left_busy, []);
    assert!(!site.warnings.iter().any(|text| text.contains("left the session while")));
    // The second interruption ends the waiting.
    let mut site = Site::new(5, kernel);
    site.cuts = vec![(Time(2_500_000_000), 3, true), (Time(9_000_000_000), 3, false)];
    site.interrupt_at = Time(3_000_000_000);
    site.interrupt_again_at = Time(4_000_000_000);
    let (results, end) = all_run(&mut site, step);
    assert_eq!((results.len(), end), (1, End::Interrupted { interrupted: true }));
    assert_eq!(site.left_busy, [nid(1)]);
    let ran = "nodes left the session while their tests were running: 10.0.0.2@tcp";
    assert!(site.warnings.iter().any(|text| text.starts_with(ran)), "{:?}", site.warnings);
    // Lustrine nodes may leave at any time.
    let mut site = Site::new(5, |_, spec| spec);
    site.cuts = vec![(Time(2_500_000_000), 3, true), (Time(60_000_000_000), 3, false)];
    site.interrupt_at = Time(3_000_000_000);
    let (results, end) = all_run(&mut site, step);
    assert_eq!((results.len(), end), (1, End::Interrupted { interrupted: true }));
    assert!(site.now() < Time(25_000_000_000), "{:?}", site.now());
    // One client runs, and the other one has crashed.
    let mut site = Site::new(5, |_, spec| spec);
    site.dies_at_start = Some(2);
    let (results, end) = all_run(&mut site, step);
    assert!(results.is_empty());
    let End::Failed { error } = end else { panic!("{end:?}") };
    assert!(error.contains("1 of 2 nodes could not be started: 10.0.0.3@tcp"), "{error}");
    assert!(!site.left_busy.contains(&nid(1)), "{:?}", site.left_busy);
}

/// It has no statistics at the end, as a kernel client of two tests has none at all.
#[test]
fn a_kernel_client_that_crashes_is_lost() {
    for (tests, count) in [
        ("[{do: ping, from: c, to: s, concurrency: 4}]", 1),
        ("[{do: ping, from: c, to: s}, {do: read, from: c, to: s}]", 2),
    ] {
        let mut site = Site::new(5, |index, spec| match index {
            2 => spec.with("selftest_client_stats", 0),
            _ => spec,
        });
        site.dies_at = Some((Time(2_000_000_000), 2, StopKind::Crash));
        let (results, end) = all_run(&mut site, &format!("{{time: 3 s, tests: {tests}}}"));
        assert_eq!(end, End::Complete);
        assert_eq!(results[0].rows.len(), count);
        for row in &results[0].rows {
            assert_eq!((row.lost.as_slice(), row.silent), ([nid(2)].as_slice(), 0));
        }
        let gone = "10.0.0.3@tcp does not answer any more";
        assert!(site.warnings.iter().any(|text| text == gone), "{:?}", site.warnings);
    }
}

/// It was in no state to leave the session, and the next point needs it.
#[test]
fn a_node_that_is_away_at_the_end_of_a_point_is_there_for_the_next() {
    let mut site = Site::new(5, |_, spec| spec.with("rpc_timeout", 5));
    site.cuts = vec![(Time(2_000_000_000), 4, true), (Time(24_000_000_000), 4, false)];
    let (results, end) = all_run(
        &mut site,
        "{time: 3 s, repeat: 2, tests: [{do: ping, from: c, to: s, concurrency: 4}]}",
    );
    assert_eq!(end, End::Complete, "{:?}", site.warnings);
    assert!(results[0].rows[0].all.errors > 0, "it was away");
    let row = &results[1].rows[0];
    assert_eq!((row.all.errors, row.by_client.len(), row.lost.len()), (0, 2, 0));
    let stayed = "1 of 4 nodes did not leave the session";
    assert!(site.warnings.iter().any(|text| text.starts_with(stayed)), "{:?}", site.warnings);
}

#[test]
fn a_session_of_another_console_is_named_or_taken_over() {
    let mut site = Site::new(5, |_, spec| spec);
    let (name, timeout) = ("theirs".to_owned(), 600);
    let theirs = Command::NewSession { name, timeout, force: false, features: 1 };
    let mine = std::mem::replace(&mut site.console, Console::new(&nid(4), 0x5000_0000));
    site.command(theirs).expect("a session");
    site.command(Command::AddGroup { group: "g".to_owned() }).expect("a group");
    site.command(Command::AddNodes { group: "g".to_owned(), nids: vec![nid(3)] }).expect("joined");
    site.console = mine;
    let step = "{time: 1 s, tests: [{do: ping, from: c, to: s, rate: 99}]}";
    let (results, end) = all_run(&mut site, step);
    assert!(results.is_empty());
    let End::Failed { error } = end else { panic!("{end:?}") };
    assert!(error.contains("10.0.0.4@tcp is in session theirs of 10.0.0.5@tcp"), "{error}");
    assert_eq!(site.in_session(&[1, 2, 4]), 0);
    site.take_over = true;
    let (results, end) = all_run(&mut site, step);
    assert_eq!((results.len(), end), (1, End::Complete));
}

#[test]
fn all_results_can_be_written() {
    let mut site = Site::new(5, |_, spec| spec);
    let (mut points, end) = all_run(
        &mut site,
        "{time: 500 ms, repeat: 2, tests: [{do: read, from: c, to: s, concurrency: 4}], \
         sweep: {size: [4 KiB, 1 MiB], concurrency: [1, 2]}}",
    );
    let (pairs, _) =
        all_run(&mut site, "{time: 500 ms, tests: [{do: write, from: c, to: s, spread: pairs}]}");
    points.extend(pairs.into_iter().map(|point| PointResult { step: 1, ..point }));
    let (host, step) = ("c<7>".to_owned(), "copy".to_owned());
    let lost = MissingHost { host, step, why: "no space\nleft".to_owned() };
    let there = StartedHost { host: "c6".to_owned(), nid: nid(1), identity: "node".to_owned() };
    let start = Started { method: "ssh".to_owned(), hosts: vec![there], missing: vec![lost] };
    let results = Results { end, start: Some(start), ..results_of(points) };
    let text = table(&results);
    assert!(text.contains("not in these results:\n  c<7>  copy  no space; left\n"), "{text}");
    assert_eq!(text.lines().filter(|line| line.starts_with("read  ")).count(), 4, "{text}");
    assert!(text.contains(" 4 pairs (client -> server): slowest"), "{text}");
    assert!(text.lines().all(|line| line.len() <= 96), "{text}");
    let csv = csv(&results);
    let columns = |line: &str| line.split(',').count();
    let head = columns(csv.lines().next().expect("a head"));
    // 8 points of 2 clients and their sum, 4 of one client and its sum.
    assert_eq!(csv.lines().count(), 1 + 8 * 3 + 4 * 2);
    assert!(csv.lines().all(|line| columns(line) == head), "{csv}");
    let page = page(&results, &text).html;
    assert!(page.contains("a &lt;b&gt; &amp;") && !page.contains("<b> &"));
    assert!(!page.contains("NaN") && !page.contains("inf"), "places are numbers");
    assert!(page.contains("1 of 2 hosts were not started") && page.contains("c&lt;7&gt;  copy"));
    for there in ["Throughput of all clients", "Latency by percentile", "each pair"] {
        assert!(page.contains(there), "{there}");
    }
}
