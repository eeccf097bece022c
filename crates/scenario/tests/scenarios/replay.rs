//! What a trace says about the RPCs of a run.

use std::ops::ControlFlow;

use lustrine_scenario::{Outcome, Scenario, ScenarioFile, run, simulation};
use lustrine_sim::RecordFilter;
use lustrine_trace::{
    LINE_MAX, Outcome as How, PhaseKind, Rpc, Trace, TraceHeader, TraceReader, VERSION, link_rpcs,
};

fn scenario(text: &str) -> Scenario {
    let file =
        ScenarioFile::parse(text, "test.yaml").unwrap_or_else(|problems| panic!("{problems}"));
    file.scenario(&[]).unwrap_or_else(|problems| panic!("{problems}"))
}

fn run_recorded(scenario: &Scenario, limit: Option<usize>) -> (Outcome, Option<Trace>) {
    let mut sim = simulation(scenario);
    if let Some(limit) = limit {
        sim.record(RecordFilter::newest(limit));
    }
    let outcome = run(scenario, &mut *sim, &mut |_| ControlFlow::Continue(()));
    let head = TraceHeader {
        lustrine_trace: VERSION,
        release: "test".to_owned(),
        scenario: "test.yaml".to_owned(),
        changes: Vec::new(),
        seed: outcome.seed,
        fidelity: "message".to_owned(),
        steps: 0,
        dropped: 0,
    };
    let trace = sim.take_recording().map(|recording| Trace::of(&recording, head));
    (outcome, trace)
}

fn traced(text: &str) -> (Outcome, Trace) {
    let (outcome, trace) = run_recorded(&scenario(text), Some(1_000_000));
    (outcome, trace.expect("it was recorded"))
}

/// The last RPC of a kind, long after discovery.
fn last<'a>(rpcs: &'a [Rpc], what: &str) -> &'a Rpc {
    rpcs.iter().rfind(|rpc| rpc.what == what).unwrap_or_else(|| panic!("no {what}"))
}

const SERVER: &str = "10.0.0.2@tcp";

/// The steps of an RPC as text: `c` is the client, `s` is the server; match bits are removed.
fn steps_of(rpc: &Rpc, trace: &Trace) -> Vec<String> {
    let words = |moment: &lustrine_trace::TimelineEntry| {
        let who = if moment.node.to_string() == SERVER { "s" } else { "c" };
        let mut words: Vec<&str> = moment.what.split(", ").collect();
        words.retain(|word| !word.starts_with("match bits"));
        let waited = moment.waited.map_or(String::new(), |waited| format!(" [{}]", waited.what));
        format!("{who} {}{waited}", words.join(", "))
    };
    rpc.timeline(trace).iter().map(words).collect()
}

const LONG: &str = "\
sites: [east, west]
links: [{between: [east, west], bandwidth: 10 Gb/s, delay: 1 ms}]
groups: {clients: {site: east}, servers: {site: west}}
fidelity: DEPTH
loads: [{from: clients, to: servers, test: TEST, warm_up: 0 s, time: 50 ms}]
";

fn long(fidelity: &str, test: &str) -> String {
    LONG.replace("DEPTH", fidelity).replace("TEST", test)
}

const REQUEST: [&str; 7] = [
    "c request PUT to 10.0.0.2@tcp, portal 50, 160 B",
    "c request PUT goes to the driver",
    "c request PUT starts to be sent",
    "c request PUT is complete at its sender",
    "s request PUT arrives and matches [the transfer]",
    "s request PUT is stored",
    "s accepts the request",
];

const REPLY: [&str; 7] = [
    "s reply PUT to 10.0.0.1@tcp, portal 52, 160 B",
    "s reply PUT goes to the driver",
    "s reply PUT starts to be sent",
    "s reply PUT is complete at its sender",
    "c reply PUT arrives and matches [the transfer]",
    "c reply PUT is stored",
    "c complete: no errors",
];

fn story(call: &str, between: &[&str]) -> Vec<String> {
    let all = [call].into_iter().chain(REQUEST);
    all.chain(between.iter().copied()).chain(REPLY).map(str::to_owned).collect()
}

#[test]
fn the_steps_of_a_ping_are_shown_at_both_fidelities() {
    for fidelity in ["stream", "message"] {
        let (_, trace) = traced(&long(fidelity, "ping"));
        let rpcs = link_rpcs(&trace);
        let expected = story("c calls 10.0.0.2@tcp: ping", &[]);
        assert_eq!(steps_of(last(&rpcs, "ping"), &trace), expected, "{fidelity}");
    }
}

#[test]
fn the_steps_of_a_write_are_shown() {
    let (_, trace) = traced(&long("message", "write, size: 64 KiB"));
    let rpcs = link_rpcs(&trace);
    let between = [
        "s bulk GET to 10.0.0.1@tcp, portal 52, for 64 KiB",
        "s bulk GET goes to the driver",
        "s bulk GET starts to be sent",
        "s bulk GET is complete at its sender",
        "c bulk GET arrives and matches [the transfer]",
        "c bulk REPLY to 10.0.0.2@tcp, 64 KiB",
        "c bulk REPLY goes to the driver",
        "c bulk REPLY starts to be sent",
        "c bulk REPLY is complete at its sender",
        "s bulk REPLY arrives and matches [the transfer]",
        "s bulk REPLY is stored",
    ];
    let expected = story("c calls 10.0.0.2@tcp: write of 64 KiB", &between);
    assert_eq!(steps_of(last(&rpcs, "write"), &trace), expected);
}

#[test]
fn the_steps_of_a_read_are_shown_with_its_acknowledgement() {
    let text = long("message", "read, size: 64 KiB") + "tunables: {zero_copy: 1}\n";
    let (_, trace) = traced(&text);
    let rpcs = link_rpcs(&trace);
    let between = [
        "s bulk PUT to 10.0.0.1@tcp, portal 52, 64 KiB",
        "s bulk PUT goes to the driver",
        "s bulk PUT starts to be sent",
        "c bulk PUT arrives and matches [the transfer]",
        "c bulk PUT is stored",
        "s bulk PUT is complete at its sender",
    ];
    let read = last(&rpcs, "read");
    assert_eq!(steps_of(read, &trace), story("c calls 10.0.0.2@tcp: read of 64 KiB", &between));
    // Four transfers of 1 ms each; nothing waits for anything else.
    let phases = read.phases(&trace);
    let names: Vec<_> = phases.iter().map(|phase| (phase.kind, phase.ns / 1_000_000)).collect();
    assert_eq!(
        names,
        [
            (PhaseKind::InTransit, 1),
            (PhaseKind::InTransit, 1),
            (PhaseKind::Acknowledgement, 1),
            (PhaseKind::InTransit, 1)
        ],
        "{phases:#?}"
    );
}

#[test]
fn phases_add_up_to_what_the_client_measured() {
    for (fidelity, test) in [("stream", "read"), ("message", "write"), ("stream", "ping")] {
        let (outcome, trace) = traced(&long(fidelity, &format!("{test}, concurrency: 4")));
        let rpcs = link_rpcs(&trace);
        let mut times = Vec::new();
        let all: Vec<&Rpc> = rpcs.iter().filter(|rpc| rpc.what == test).collect();
        // The client measures after every unit has had its first RPC.
        let warm = all[..4].iter().filter_map(|rpc| rpc.ended).max();
        for rpc in all {
            let sum: u64 = rpc.phases(&trace).iter().map(|phase| phase.ns).sum();
            assert_eq!(Some(sum), rpc.duration(), "{rpc:?}");
            if rpc.ended > warm {
                times.push(sum);
            }
        }
        times.sort_unstable();
        let load = &outcome.loads[0];
        assert!((load.ops..load.ops + 9).contains(&(times.len() as u64)), "{load:?} {times:?}");
        let near = |us: f64, ns: u64| (us * 1e3 / ns as f64 - 1.0).abs() < 0.02;
        assert!(near(load.latency_us.max, *times.last().unwrap()), "{load:?} {times:?}");
        assert!(near(load.latency_us.p50, times[(times.len() - 1) / 2]), "{load:?} {times:?}");
    }
}

#[test]
fn eight_rpcs_with_one_peer_credit_wait_for_it() {
    let text = long("message", "read, size: 1 MiB, concurrency: 8")
        + "tunables: {zero_copy: 1, peer_credits: 1}\n";
    let (_, trace) = traced(&text);
    let rpcs = link_rpcs(&trace);
    let read = last(&rpcs, "read");
    let steps = steps_of(read, &trace);
    assert!(steps.contains(&"s bulk PUT waits for a peer credit".to_owned()), "{steps:#?}");
    assert!(
        steps.contains(&"s bulk PUT goes to the driver [a peer credit]".to_owned()),
        "{steps:#?}"
    );
    let most = read.phases(&trace).into_iter().max_by_key(|phase| phase.ns).unwrap();
    assert_eq!(most.kind, PhaseKind::PeerCredit, "{most:?}");
    assert!(most.what.starts_with("bulk PUT: 10.0.0.2@tcp waits for a peer credit"), "{most:?}");
}

#[test]
fn an_rpc_over_a_cut_link_shows_where_it_failed() {
    for fidelity in ["stream", "message"] {
        let text = long(fidelity, "ping") + "events: [{at: 10 ms, cut: [east, west]}]\n";
        let (outcome, trace) = traced(&text);
        assert!(outcome.errors() > 0, "{outcome:?}");
        let rpcs = link_rpcs(&trace);
        let failed: Vec<&Rpc> =
            rpcs.iter().filter(|rpc| rpc.what == "ping" && rpc.failed()).collect();
        assert_eq!(failed.len(), 1, "{failed:?}");
        let stuck = failed[0].problems(&trace);
        let end = stuck.last().unwrap();
        assert!(
            end.starts_with("for the last ") && end.contains(" PUT: in transit 10.0.0."),
            "{fidelity}: {stuck:?}"
        );
        let sum: u64 = failed[0].phases(&trace).iter().map(|phase| phase.ns).sum();
        assert_eq!(Some(sum), failed[0].duration());
    }
}

/// When the trace begins, several identical requests are in flight; the server only says later
/// which client each of them belongs to.
#[test]
fn what_begins_before_the_trace_is_incomplete_and_has_no_times() {
    let text = "\
sites: [a, b]
links: [{between: [a, b], bandwidth: 100 Gb/s, delay: 10 us}]
groups: {clients: {count: 20, site: a}, servers: {count: 1, site: b}}
fidelity: message
loads: [{from: clients, to: servers, test: ping, concurrency: 8, warm_up: 1 ms, time: 2 ms}]
";
    let (_, mut trace) = traced(text);
    let begin = trace.lines.iter().position(|line| line.t >= 2_000_000).unwrap();
    trace.lines.drain(..begin);
    let rpcs = link_rpcs(&trace);
    let incomplete = rpcs.iter().filter(|rpc| rpc.outcome == How::Incomplete);
    let kinds: Vec<&str> = incomplete.clone().map(|rpc| rpc.what.as_str()).collect();
    assert!(kinds.contains(&"request") && kinds.contains(&"part of an RPC"), "{kinds:?}");
    for rpc in incomplete {
        assert_eq!((rpc.duration(), rpc.phases(&trace)), (None, Vec::new()), "{rpc:?}");
    }
    let length = trace.lines.last().unwrap().t - trace.lines[0].t;
    assert!(rpcs.iter().filter(|rpc| rpc.what == "ping").count() > 100);
    for rpc in &rpcs {
        assert!(rpc.duration().is_none_or(|took| took <= length), "{rpc:?}");
        assert!(rpc.ended.is_none_or(|ended| rpc.began <= ended), "{rpc:?}");
        let moments = rpc.timeline(&trace);
        assert!(moments.iter().all(|moment| moment.at_ns <= length), "{rpc:?}");
        assert_eq!(moments[0].at_ns, 0, "{rpc:?}");
    }
    assert!(rpcs.is_sorted_by_key(|rpc| rpc.began));
}

#[test]
fn an_answer_with_an_error_status_is_shown_as_one() {
    let client = |t: u64, what: &str| format!("{{\"t\":{t},\"node\":\"10.0.0.1@tcp\",{what}}}");
    let called = r#""event":"rpc_started","service":"a\u001b[2Jb","peer":"10.0.0.2@tcp","len":0"#;
    let over = r#""event":"rpc_ended","id":"0x1","error":"the peer answered with status 3""#;
    let text = traced_by_hand(&[
        client(0, &format!("{called},\"id\":\"0x1\",\"request\":\"0x1\"")),
        client(5, over),
    ]);
    let trace = read(&text).unwrap();
    let rpc = &link_rpcs(&trace)[0];
    let says = "10.0.0.2@tcp: the peer answered with status 3 (ESRCH: it has no such session)";
    assert_eq!(rpc.problems(&trace), [says]);
    assert_eq!(rpc.label(), "a\\u{1b}[2Jb");
}

fn traced_by_hand(lines: &[String]) -> String {
    let head =
        r#"{"lustrine_trace":2,"release":"","scenario":"","changes":[],"seed":1,"fidelity":"""#;
    format!("{head},\"steps\":{},\"dropped\":0}}\n{}", lines.len(), lines.join("\n"))
}

#[test]
fn a_recording_changes_nothing() {
    for fidelity in ["stream", "message"] {
        let scenario = scenario(&long(fidelity, "write, size: 128 KiB, concurrency: 3"));
        let (plain, nothing) = run_recorded(&scenario, None);
        let (recorded, trace) = run_recorded(&scenario, Some(100));
        assert!(nothing.is_none());
        assert_eq!(plain.trace_hash, recorded.trace_hash);
        assert_eq!(format!("{plain:?}"), format!("{recorded:?}"));
        // The newest steps are kept; the part of an RPC is still shown.
        let trace = trace.unwrap();
        assert_eq!((trace.lines.len(), trace.head.steps), (100, 100));
        assert!(trace.head.dropped > 100, "{:?}", trace.head);
        for rpc in link_rpcs(&trace) {
            let sum: u64 = rpc.phases(&trace).iter().map(|phase| phase.ns).sum();
            assert!(rpc.duration().is_none_or(|took| took == sum), "{rpc:?}");
            assert!(!rpc.timeline(&trace).is_empty());
        }
    }
}

#[test]
fn an_arrived_request_belongs_to_the_rpc_that_the_server_names() {
    let header = r#""kind":"PUT","from":"10.0.0.1@tcp","to":"10.0.0.2@tcp","len":160,"portal":50"#;
    let client = |t: u64, what: &str| format!("{{\"t\":{t},\"node\":\"10.0.0.1@tcp\",{what}}}");
    let server = |t: u64, what: &str| format!("{{\"t\":{t},\"node\":\"{SERVER}\",{what}}}");
    let mut lines = Vec::new();
    // Two identical requests, of which the first one never arrives.
    for number in 1..=2 {
        let called = r#""event":"rpc_started","service":"ping","peer":"10.0.0.2@tcp","len":0"#;
        let (id, msg) = (format!("0x{number}0"), format!("\"msg\":\"0x{number}\""));
        lines.push(client(0, &format!("{called},\"id\":\"{id}\",\"request\":\"0x{number}\"")));
        lines.push(client(
            0,
            &format!("\"event\":\"tx_created\",{msg},\"md\":\"0x{number}\",{header}"),
        ));
        lines.push(client(0, &format!("\"event\":\"tx_submitted\",{msg}")));
        lines.push(client(0, &format!("\"event\":\"tx_started\",{msg}")));
    }
    let into = r#""verdict":"into","into":"0x5","md":"0x9","offset":0"#;
    lines.push(server(10, &format!("\"event\":\"rx_header\",{header},{into}")));
    lines.push(server(10, r#""event":"completed","msg":"0x5""#));
    let taken =
        r#""event":"request_accepted","id":"0x20","from":"10.0.0.1@tcp","md":"0x9","offset":0"#;
    lines.push(server(10, taken));
    lines.push(client(20, r#""event":"rpc_ended","id":"0x20""#));
    lines.push(client(99, r#""event":"rpc_ended","id":"0x10","error":"no reply""#));
    let trace = read(&traced_by_hand(&lines)).unwrap();
    let rpcs = link_rpcs(&trace);
    let came = "s request PUT arrives and matches [the transfer]".to_owned();
    assert!(!steps_of(&rpcs[0], &trace).contains(&came), "{:#?}", steps_of(&rpcs[0], &trace));
    assert!(steps_of(&rpcs[1], &trace).contains(&came), "{:#?}", steps_of(&rpcs[1], &trace));
    let stuck = "for the last 0.10 us of it: request PUT: in transit 10.0.0.1@tcp -> 10.0.0.2@tcp";
    assert_eq!(rpcs[0].problems(&trace), [stuck]);
    assert_eq!((rpcs[0].duration(), rpcs[1].duration()), (Some(99), Some(20)));
}

fn read(text: &str) -> Result<Trace, String> {
    let mut reader = TraceReader::default();
    for line in text.lines() {
        reader.line(line).map_err(|error| error.to_string())?;
    }
    reader.finish().map_err(|error| error.to_string())
}

#[test]
fn a_trace_is_read_back_from_its_file_and_a_bad_file_is_an_error() {
    let (_, trace) = traced(&long("message", "read, size: 4 KiB"));
    let text = trace.to_text();
    assert_eq!(read(&text).as_ref(), Ok(&trace));
    let kinds = [
        "tx_created",
        "tx_queued",
        "tx_submitted",
        "tx_started",
        "completed",
        "rx_header",
        "rpc_started",
        "request_accepted",
        "rpc_ended",
    ];
    assert!(
        kinds.iter().all(|kind| text.contains(&format!("\"event\":\"{kind}\""))),
        "{text:.2000}"
    );
    let says = |text: &str, words: &str| {
        let error = read(text).unwrap_err();
        assert!(error.contains(words), "{error:?}");
    };
    let lines: Vec<&str> = text.lines().collect();
    says("", "the file is empty");
    says("groups: {}", "not a trace file; it must begin with {");
    says("{}", "not a trace file; it must begin with {");
    says(&lines[0].replace("_trace\":2", "_trace\":1"), "line 1: the trace has version 1, and");
    says(&lines[..5].join("\n"), "the file ends after 4 of ");
    let with = |line: &str| format!("{}\n{}\n{line}", lines[0], lines[1]);
    says(&with("{\"t\":1}"), "line 3: column 7: missing field `node`");
    says(&with("{\"t\":1,\"node\":\"x\"}"), "\"x\": ");
    says(
        &with("{\"t\":1,\"node\":\"10.0.0.1@tcp\",\"event\":\"flies\"}"),
        "unknown variant `flies`, expected one of `tx_created`, `tx_queued`",
    );
    says(
        &with("{\"t\":1,\"node\":\"10.0.0.1@tcp\",\"event\":\"tx_submitted\",\"msg\":\"7\"}"),
        "\"7\": a number such as 0x1f is due; expected a step such as {\"t\":1000,",
    );
    says(&with(&"x".repeat(LINE_MAX + 1)), "line 3: 4097 bytes");
    let late =
        with("{\"t\":9,\"node\":\"10.0.0.1@tcp\",\"event\":\"tx_submitted\",\"msg\":\"0x7\"}");
    says(&(late + "\n" + lines[1]), "line 4: 0 ns after a step of 9 ns");
    says(&format!("{text}{}", lines[lines.len() - 1]), "more than ");
}
