//! Scenarios as a simulation runs them.

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

use lustrine_scenario::report::{Row, RunReport, SweepReport, run_page, sweep_page};
use lustrine_scenario::{Outcome, Override, Scenario, ScenarioFile, Sweep, run, simulation};

fn read(name: &str) -> (String, ScenarioFile) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios").join(name);
    let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let file = ScenarioFile::parse(&text, name).unwrap_or_else(|problems| panic!("{problems}"));
    (text, file)
}

fn scenario(text: &str) -> Scenario {
    let file =
        ScenarioFile::parse(text, "test.yaml").unwrap_or_else(|problems| panic!("{problems}"));
    file.scenario(&[]).unwrap_or_else(|problems| panic!("{problems}"))
}

fn outcome(scenario: &Scenario) -> Outcome {
    let mut sim = simulation(scenario);
    run(scenario, &mut *sim, &mut |_| ControlFlow::Continue(()))
}

fn set(text: &str) -> Override {
    Override::parse("--set", text).unwrap()
}

const PAIR: &str = "\
sites: [east, west]
links: [{between: [east, west], bandwidth: 10 Gb/s, delay: 5 ms}]
groups: {clients: {site: east, delay: 0 us}, servers: {site: west, delay: 0 us}}
fidelity: stream
tcp: {congestion: fixed, send_buffer: 64 MiB, receive_buffer: 64 MiB}
";

#[test]
fn the_lan_is_as_fast_as_its_interfaces_and_no_faster() {
    let (_, file) = read("lan.yaml");
    let outcome = outcome(&file.scenario(&[]).unwrap());
    let load = &outcome.loads[0];
    assert_eq!((outcome.errors(), outcome.unquiet.len()), (0, 0), "{outcome:#?}");
    assert!((5.0..5.001).contains(&load.seconds), "{load:?}");
    // 10 Gb/s are 1192 MiB/s, of which segments of 1448 bytes leave 94 % to the data.
    assert!((1100.0..1140.0).contains(&load.mib_per_s), "{load:?}");
    assert_eq!(load.formula_limit.as_deref(), Some("interfaces of servers"));
    let formula = load.formula_mib_per_s().unwrap();
    assert!((1192.0..1192.2).contains(&formula), "{formula}");
    let at = load.latency_us;
    assert!(at.p50 > 0.0 && at.p50 <= at.p90 && at.p90 <= at.p99 && at.p99 <= at.max, "{at:?}");
    let out = outcome.links.iter().find(|link| link.name == "servers out").unwrap();
    assert!((0.97..1.001).contains(&out.share.unwrap()), "{out:?}");
    assert!(outcome.samples.at_s.len() >= 90, "{}", outcome.samples.at_s.len());
    let (from, to) = outcome.window_s.unwrap();
    assert!(to - from > 4.9, "{from} {to}");
    assert!(outcome.messages > 4 * load.ops, "{} {}", outcome.messages, load.ops);
}

/// The median latency in microseconds with one RPC at a time, and the rate that the model allows.
fn one_at_a_time(test: &str, tunables: &str) -> (f64, Option<f64>) {
    let outcome = outcome(&scenario(&format!(
        "{PAIR}tunables: {{{tunables}}}\nloads: [{{from: clients, to: servers, test: {test}, \
         warm_up: 100 ms, time: 1 s}}]"
    )));
    let load = &outcome.loads[0];
    assert_eq!(load.errors, 0, "{load:?}");
    (load.latency_us.p50, load.formula_ops_per_s)
}

#[test]
fn a_ping_takes_one_round_trip() {
    let (latency, model) = one_at_a_time("ping", "");
    assert!((10_000.0..10_100.0).contains(&latency), "{latency}");
    assert_eq!(model, Some(100.0));
}

/// The server of a write fetches the data before it answers. The server of a read waits for the
/// acknowledgement of the data only if it sends them without a copy.
#[test]
fn a_write_takes_two_round_trips_and_so_does_a_read_with_zero_copy() {
    for (test, tunables, low) in [
        ("write, size: 4 KiB", "", 20_000.0),
        ("read, size: 64 KiB", "zero_copy: 1", 20_000.0),
        ("read, size: 4 KiB", "", 10_000.0),
    ] {
        let (latency, model) = one_at_a_time(test, tunables);
        assert!((low..low + 300.0).contains(&latency), "{test}, {tunables}: {latency}");
        assert_eq!(model, Some(50.0), "{test}");
    }
}

#[test]
fn the_same_seed_is_the_same_run() {
    let text = format!(
        "{PAIR}loads: [{{from: clients, to: servers, test: write, size: 64 KiB, concurrency: 4, \
         warm_up: 50 ms, time: 200 ms}}]"
    );
    let file = ScenarioFile::parse(&text, "x").unwrap();
    let hash = |changes: &[Override]| outcome(&file.scenario(changes).unwrap()).trace_hash;
    assert_eq!(hash(&[]), hash(&[]));
    assert_ne!(hash(&[]), hash(&[set("concurrency=5")]));
}

#[test]
fn what_limits_a_load_is_named() {
    let text = PAIR
        .replace("bandwidth: 10 Gb/s", "bandwidth: 1 Gb/s")
        .replace("clients: {", "clients: {count: 4, ")
        .replace("servers: {", "servers: {count: 2, ");
    let load = "loads: [{from: clients, to: servers, test: write, concurrency: 16, warm_up: 1 s, \
                time: 2 s}]";
    let load = outcome(&scenario(&format!("{text}{load}"))).loads.remove(0);
    assert_eq!((load.pairs, load.formula_limit.as_deref()), (4, Some("links east - west")));
    // 1 Gb/s is 119.2 MiB/s.
    let formula = load.formula_mib_per_s().unwrap();
    assert!((119.2..119.3).contains(&formula), "{formula}");
    assert!((100.0..122.0).contains(&load.mib_per_s), "{load:#?}");
    let few = "loads: [{from: clients, to: servers, test: read, size: 8 KiB, warm_up: 1 s, \
               time: 1 s}]";
    let few = outcome(&scenario(&format!("{text}{few}"))).loads.remove(0);
    assert_eq!(few.formula_limit.as_deref(), Some("delay"));
    assert_eq!(few.formula_ops_per_s, Some(200.0));
}

#[test]
fn the_limit_is_named() {
    let limit = |link: &str, tunables: &str, tcp: &str, concurrency: u32| {
        let text = format!(
            "{{sites: [a, b], links: [{{between: [a, b], {link}}}], tunables: {{{tunables}}}, \
             tcp: {{{tcp}}}, groups: {{c: {{site: a}}, s: {{site: b}}}}, \
             loads: [{{from: c, to: s, test: write, concurrency: {concurrency}, \
             warm_up: 1 s, time: 2 s}}]}}"
        );
        let hints = outcome(&scenario(&text)).hints;
        let limit = hints.iter().find(|hint| hint.starts_with("the limit was "));
        limit.cloned().unwrap_or_else(|| panic!("{hints:?}"))
    };
    let (long, narrow) = ("bandwidth: 100 Gb/s, delay: 10 ms", "bandwidth: 1 Gb/s, delay: 1 ms");
    let large = "congestion: fixed, send_buffer: 1 GiB, receive_buffer: 1 GiB";
    let small = "congestion: fixed, send_buffer: 64 KiB, receive_buffer: 64 KiB";
    let full = limit(narrow, "peer_credits: 8", large, 16);
    assert!(full.starts_with("the limit was the link a -> b: it was sending "), "{full}");
    let credits = limit(long, "peer_credits: 2, zero_copy: 1", large, 16);
    assert!(credits.starts_with("the limit was peer credits, "), "{credits}");
    let streams = limit(long, "peer_credits: 8", small, 16);
    assert!(streams.starts_with("the limit was room in the TCP streams, "), "{streams}");
    let few = limit(long, "peer_credits: 8", large, 1);
    assert!(few.starts_with("the limit was the number of RPCs in flight"), "{few}");
}

/// The rows of a time that is hardly longer than an operation.
#[test]
fn operations_as_long_as_the_measurement_are_noted() {
    let text = "{sites: [a, b], links: [{between: [a, b], bandwidth: 10 Mb/s, delay: 1 ms}], \
                groups: {c: {site: a}, s: {site: b}}, \
                loads: [{from: c, to: s, test: write, size: 1 MiB, concurrency: 4, warm_up: 4 s, \
                time: 4 s}]}";
    let hints = outcome(&scenario(text)).hints;
    assert!(
        hints.iter().any(|hint| hint.contains("is at least half of the measured")),
        "{hints:?}"
    );
}

#[test]
fn a_run_without_useful_results_says_so() {
    let none = outcome(&scenario(&format!(
        "{PAIR}loads: [{{from: clients, to: servers, test: ping, warm_up: 0 s, time: 1 ms}}]"
    )));
    assert!(
        none.hints.iter().any(|hint| hint.contains("nothing was measured in 1 ms")),
        "{none:#?}"
    );
    let much = outcome(&scenario(&format!(
        "{PAIR}loads: [{{from: clients, to: servers, test: write, concurrency: 100, warm_up: 0 s, \
         time: 500 ms}}]"
    )));
    let words = "100 MiB in flight per pair, and a server gives one client a quarter of its \
                 selftest_memory, 64 MiB";
    assert!(much.hints.iter().any(|hint| hint.contains(words)), "{:?}", much.hints);
}

#[test]
fn events_happen() {
    let load = "loads: [{from: clients, to: servers, test: ping, concurrency: 2, warm_up: 0 s, \
                time: 4 s}]\n";
    let still = outcome(&scenario(&format!("{PAIR}{load}")));
    let cut = outcome(&scenario(&format!(
        "{PAIR}{load}events: [{{at: 1 s, cut: [east, west]}}, {{at: 3 s, restore: [west, east]}}]"
    )));
    assert!(cut.loads[0].ops < still.loads[0].ops * 3 / 4, "{cut:#?}");
    let slow = outcome(&scenario(&format!(
        "{PAIR}{load}events: [{{at: 1 s, degrade: [east, west], delay: 50 ms}}]"
    )));
    assert!(slow.loads[0].latency_us.max > 100_000.0, "{:?}", slow.loads[0].latency_us);
    let crash = outcome(&scenario(&format!(
        "{PAIR}{load}events: [{{at: 1 s, crash: servers/0}}, {{at: 2 s, restart: servers}}, \
         {{at: 2.5 s, restart: servers}}, {{at: 100 s, cut: clients}}]"
    )));
    let lost = &crash.loads[0];
    assert!(lost.errors > 0 && lost.ops > 0 && lost.ops < still.loads[0].ops, "{lost:#?}");
    assert!(crash.hints.iter().any(|hint| hint.contains("were there already")), "{crash:#?}");
    assert!(crash.hints.iter().any(|hint| hint.contains("were not reached")), "{crash:#?}");
    let client = outcome(&scenario(&format!("{PAIR}{load}events: [{{at: 1 s, crash: clients}}]")));
    assert_eq!(client.loads[0].error_kinds, [("the client's node ended".to_owned(), 1)]);
    assert!((0.5..1.1).contains(&client.loads[0].seconds), "{client:#?}");
}

/// Two clients share a link of 1 Gb/s, then one has it alone: together they had no more than that.
#[test]
fn clients_that_end_early_do_not_count_as_if_they_had_continued() {
    let text = PAIR
        .replace("bandwidth: 10 Gb/s, delay: 5 ms", "bandwidth: 1 Gb/s, delay: 100 us")
        .replace("clients: {", "clients: {count: 2, ");
    let load = "loads: [{from: clients, to: servers, test: write, concurrency: 8, warm_up: 100 ms, \
                time: 2 s}]\n";
    let end = "events: [{at: 1.1 s, crash: clients/0}]";
    let outcome = outcome(&scenario(&format!("{text}{load}{end}")));
    let mib = outcome.loads[0].mib_per_s;
    // 119.2 MiB/s, of which segments of 1448 bytes leave 94 % to the data.
    assert!((95.0..113.0).contains(&mib), "{outcome:#?}");
    assert!((1.4..1.6).contains(&outcome.loads[0].seconds), "{outcome:#?}");
}

#[test]
fn links_and_waits_are_measured_only_while_loads_are() {
    let text = PAIR.replace("bandwidth: 10 Gb/s, delay: 5 ms", "bandwidth: 1 Gb/s, delay: 1 ms");
    let load = "from: clients, to: servers, test: write, concurrency: 16, warm_up: 500 ms, \
                time: 1 s";
    let used = |rest: &str| {
        let outcome = outcome(&scenario(&format!("{text}loads: [{{{load}}}{rest}")));
        let link = outcome.links.iter().find(|link| link.name == "east -> west");
        let share = link.unwrap_or_else(|| panic!("{outcome:#?}")).share.expect("it is limited");
        (share, outcome.window_s.expect("it was measured"), outcome)
    };
    let (one, ..) = used("]");
    assert!(one > 0.95, "{one}");
    let (two, window, outcome) = used(&format!(", {{{load}, start: 10 s}}]"));
    assert!(two > 0.95, "{two}: the time between the loads does not count");
    assert!(window.0 < 1.0 && window.1 > 11.0, "{window:?}");
    let messages = outcome.waits[0].messages_per_s;
    assert!((400.0..520.0).contains(&messages), "{messages}: 4 for each MiB");
    // The only client ends: so does the window.
    let (ended, window, outcome) = used("]\nevents: [{at: 1 s, crash: clients}]");
    assert!(ended > 0.95 && window.1 == 1.0, "{ended} {window:?}");
    assert!(outcome.waits[0].messages_per_s > 400.0, "{outcome:#?}");
}

#[test]
fn the_caller_may_end_a_run_early() {
    let (_, file) = read("lan.yaml");
    let scenario = file.scenario(&[]).unwrap();
    let mut sim = simulation(&scenario);
    let mut asked = 0;
    let outcome = run(&scenario, &mut *sim, &mut |progress| {
        asked += 1;
        match progress.now.0 * 2 > progress.planned.0 {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    });
    assert!(asked > 100, "{asked}");
    assert!(outcome.interrupted && outcome.loads[0].ops > 0, "{outcome:#?}");
    assert!((2.0..2.5).contains(&outcome.loads[0].seconds), "{outcome:#?}");
    assert!(!outcome.links.is_empty() && !outcome.waits.is_empty(), "{outcome:#?}");
    assert!(!outcome.hints.iter().any(|hint| hint.contains("not measured")), "{outcome:#?}");
}

/// Rates of different tests are not added.
#[test]
fn the_sentence_on_a_page_has_a_rate_for_each_test() {
    let load = |rest: &str| format!("- {{from: clients, to: servers, {rest}, time: 300 ms}}\n");
    let page = |loads: &[String]| {
        let scenario = scenario(&format!("{PAIR}loads:\n{}", loads.concat()));
        let (source_name, outcome) = ("x.yaml", &outcome(&scenario));
        let page =
            run_page(&RunReport { source_name, source: "", changes: &[], version: "1", outcome });
        let rest = page.html.split_once("class=\"verdict\">").expect("a sentence").1;
        rest.split_once("</p>").expect("its end").0.to_owned()
    };
    let (read, ping) = (load("test: read, size: 64 KiB"), load("test: ping"));
    let two = page(&[read.clone(), ping]);
    let (reads, pings) = two.split_once("; ping ").expect("both kinds");
    assert!(reads.starts_with("read ") && reads.contains(" MiB/s, "), "{two}");
    assert!(pings.contains(" operations/s, "), "{two}");
    // Those of one test are.
    let one = page(&[read.clone(), read]);
    assert!(one.split_once(" MiB/s").expect("a rate").0.parse::<f64>().is_ok(), "{one}");
}

#[test]
fn pages_hold_the_results_and_escape_the_text_of_the_file() {
    let (text, file) = read("lan.yaml");
    let text = format!("{text}# <script>alert(1)</script>\n");
    let sweep = Sweep::parse(["concurrency=1,4", "size=64 KiB,1 MiB"]).unwrap();
    let rows: Vec<Row> = (0..sweep.len())
        .map(|index| {
            let point = sweep.point(index);
            let values = point.iter().map(|change| change.value.clone()).collect();
            Row { values, outcome: outcome(&file.scenario(&point).unwrap()) }
        })
        .collect();
    let changes = ["--set a=<b>".to_owned()];
    let one = run_page(&RunReport {
        source_name: "a<b>.yaml",
        source: &text,
        changes: &changes,
        version: "1",
        outcome: &rows[3].outcome,
    })
    .html;
    let all = sweep_page(&SweepReport {
        source_name: "a<b>.yaml",
        source: &text,
        changes: &changes,
        version: "1",
        sweep: &sweep,
        rows: &rows,
    })
    .html;
    for page in [&one, &all] {
        assert!(!page.contains("<script") && page.contains("&lt;script&gt;alert(1)"), "{page}");
        assert!(page.contains("a&lt;b&gt;.yaml") && !page.contains("http"), "{page}");
        assert!(page.contains("<svg") && page.ends_with("</html>\n"), "{page}");
        assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
    }
    assert!(one.contains("Throughput over time") && one.contains("Queues over time"), "{one}");
    assert!(all.contains("Throughput over concurrency") && all.contains(">64 KiB</text>"), "{all}");
    if let Some(dir) = std::env::var_os("KEEP_PAGES") {
        fs::write(Path::new(&dir).join("one.html"), &one).unwrap();
        fs::write(Path::new(&dir).join("all.html"), &all).unwrap();
    }
}
