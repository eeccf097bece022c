use lustrine_lnet::time::Nanos;
use lustrine_wire::srpc::BrwCheck;

use crate::model::{Dimension, Members, Plan, Size, Spread, TestKind};
use crate::start::{OnMissingHost, Start, StartMethod};

fn plan(text: &str) -> Plan {
    Plan::parse(text, "p.yaml").unwrap_or_else(|why| panic!("{why}"))
}

fn wrong(text: &str) -> String {
    Plan::parse(text, "p.yaml").expect_err("it is wrong").to_string()
}

const GROUPS: &str = "name: p\ngroups: {a: 2, b: '10.0.0.[1-3]@tcp'}\n";

fn with_test(test: &str) -> String {
    format!("{GROUPS}steps: [{{tests: [{test}]}}]\n")
}

#[test]
fn every_key_is_read() {
    let plan = plan(
        "name: all\nabout: of it\n\
         groups: {a: 4, b: [10.0.0.1@tcp, 'oss[1-2]@tcp1']}\n\
         steps:\n\
         - name: one\n  time: 2 s\n  warm_up: 0 s\n  repeat: 3\n  tests:\n\
         \x20 - {do: write, from: a, to: b, spread: 2:1, mix: {4 KiB: 3, 1 MiB: 1},\n\
         \x20    concurrency: 8, check: full, rate: 100, offset: 8}\n\
         - tests: [{do: ping, from: b, to: a, spread: all}]\n\
         \x20 sweep: {a: 1..4*2, concurrency: 1..3}\n",
    );
    assert_eq!((plan.name.as_str(), plan.about.as_str()), ("all", "of it"));
    assert_eq!(plan.groups[0].members, Members::Count(4));
    let nids = ["10.0.0.1@tcp", "oss[1-2]@tcp1"].map(str::to_owned).to_vec();
    assert_eq!(plan.groups[1].members, Members::Nids(nids));
    let step = &plan.steps[0];
    assert_eq!((step.time, step.warm_up, step.repeat), (Nanos::from_secs(2), Nanos(0), 3));
    let test = &step.tests[0];
    assert_eq!((test.what, test.from, test.to), (TestKind::Write, 0, 1));
    assert_eq!(test.spread, Spread::Rows { clients: 2, servers: 1 });
    let sizes = [Size { bytes: 4096, weight: 3 }, Size { bytes: 1 << 20, weight: 1 }];
    assert_eq!(test.sizes, sizes);
    assert_eq!((test.concurrency, test.check, test.rate), (8, BrwCheck::Full, 100));
    assert_eq!(test.offset, 8);
    let step = &plan.steps[1];
    assert_eq!((step.name.as_str(), step.time), ("step2", Nanos::from_secs(5)));
    assert_eq!(step.tests[0].spread, Spread::All);
    assert_eq!(
        step.sweep,
        [Dimension::Nodes(0, vec![1, 2, 4]), Dimension::Concurrency(vec![1, 2, 3])]
    );
}

#[test]
fn errors_have_a_position_and_an_example() {
    let cases = [
        ("", "the required key \"name\" of a plan is missing"),
        ("name: p\n", "the required key \"groups\" of a plan is missing"),
        ("name: p\nname: q\n", "p.yaml:2:1: \"name\" is given twice"),
        ("name: p\ngroup: {}\n", "did you mean \"groups\"?"),
        (GROUPS, "the required key \"steps\" of a plan is missing"),
        ("name: p\ngroups: {size: 2}\n", "none of concurrency, size, rate"),
        ("name: p\ngroups: {a: 65}\n", "1 to 64 nodes, or NIDs"),
        ("name: p\ngroups: {a: []}\n", "a group without nodes"),
        (&with_test("{from: a, to: b}"), "the required key \"do\" of a test is missing"),
        (&with_test("{do: reed, from: a, to: b}"), "\"do: read\""),
        (&with_test("{do: read, from: x, to: b}"), "not a group of this plan; allowed: a, b"),
        (&with_test("{do: read, from: a, to: b, size: 12 B}"), "a multiple of 8 bytes"),
        (&with_test("{do: read, from: a, to: b, size: 2 MiB}"), "from 8 B to 1 MiB"),
        (&with_test("{do: read, from: a, to: b, size: 4096}"), "the unit is missing"),
        (&with_test("{do: ping, from: a, to: b, size: 4 KiB}"), "a ping with \"size\""),
        (&with_test("{do: read, from: a, to: b, mix: {4 KiB: 0}}"), "an invalid weight"),
        (
            &with_test("{do: read, from: a, to: b, mix: {4 KiB: 1, 8 KiB: 1}}"),
            "a mix of 2 sizes at concurrency 1",
        ),
        (&with_test("{do: read, from: a, to: b, spread: 1:0}"), "CLIENTS:SERVERS, all, others"),
        (&with_test("{do: read, from: a, to: b, concurrency: 1025}"), "from 1 to 1024"),
        (&with_test("{do: read, from: a, to: b, offset: 7}"), "a multiple of 8 up to 4088"),
        (
            &with_test("{do: ping, from: a, to: b, spread: pairs}, {do: ping, from: a, to: b}"),
            "beside other tests",
        ),
        (
            &format!("{}  sweep: {{size: [4 KiB]}}\n", PINGS),
            "a sweep of sizes with a ping or a mix",
        ),
        (&format!("{}  sweep: {{width: [1]}}\n", PINGS), "concurrency, size, rate, or a group"),
        (&format!("{}  sweep: {{concurrency: 4..1}}\n", PINGS), "ends before it begins"),
        (&format!("{}  sweep: {{concurrency: [0]}}\n", PINGS), "from 1 to 1024"),
        (&format!("{}  sweep: {{a: []}}\n", PINGS), "a with no values; allowed: 1 to 256"),
        (
            &format!("{}  sweep: {{rate: 1..300}}\n", PINGS),
            "rate with 300 or more values; allowed: 1 to 256",
        ),
    ];
    for (text, said) in cases {
        let why = wrong(text);
        assert!(why.contains(said), "{text}\n{why}\ninstead of {said}");
        assert!(why.lines().all(|line| line.starts_with("p.yaml:")), "{why}");
    }
}

const PINGS: &str = "name: p\ngroups: {a: 2}\nsteps:\n- tests: [{do: ping, from: a, to: a}]\n";

/// A plan with a section `start` of these lines, or with this after `start:`.
fn starting(start: &str) -> String {
    let test = "steps: [{tests: [{do: ping, from: a, to: b}]}]\n";
    format!("name: p\nstart:{start}\ngroups: {{a: 2, b: {{hosts: 'c[1-2]'}}}}\n{test}")
}

#[test]
fn how_nodes_are_started_is_read() {
    let command = |text: &str| StartMethod::Command(text.split(' ').map(str::to_owned).collect());
    for (text, method) in [
        (" ssh", StartMethod::Ssh),
        (" srun", StartMethod::Srun),
        (" ip netns exec {host} sh -s", command("ip netns exec {host} sh -s")),
    ] {
        let plan = plan(&starting(text));
        assert_eq!(plan.groups[1].members, Members::Hosts(vec!["c[1-2]".to_owned()]));
        let wanted = Start { method: Some(method), ..Start::default() };
        assert_eq!(plan.start, Some(wanted), "{text}");
    }
    let start = |text: &str| plan(&starting(text)).start.expect("it is there");
    let all = start(
        "\n  method: ssh\n  hosts: ['c[01-16]', ^more]\n  exclude: c07,c09\n  user: al\n  options: \
         -p 2222 -C\n  directory: /var/tmp\n  program: ./lustrine\n  net: tcp=ib0\n  port: 7988\n\
         \x20 fanout: 8\n  timeout: 20 s\n  missing: continue",
    );
    let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let wanted = Start {
        method: Some(StartMethod::Ssh),
        hosts: words("c[01-16] ^more"),
        exclude: words("c07,c09"),
        user: Some("al".to_owned()),
        options: words("-p 2222 -C"),
        directory: Some("/var/tmp".to_owned()),
        program: Some("./lustrine".to_owned()),
        net: "tcp=ib0".to_owned(),
        port: 7988,
        fanout: 8,
        timeout: Nanos::from_secs(20),
        missing: OnMissingHost::Continue,
    };
    assert_eq!(all, wanted);
    let list = start("\n  options: [-o, 'ProxyCommand=ssh -W %h:%p gate']\n  hosts: c1");
    assert_eq!(list.options, ["-o", "ProxyCommand=ssh -W %h:%p gate"]);
    assert_eq!(list.method, None, "from the command line");
    for text in ["\n  command: kubectl exec -i {host} -- sh -s", "\n  command: [run in, '{host}']"]
    {
        let method = start(text).method.expect("a command");
        assert_eq!(method.name(), "command");
        let named = start(&format!("{text}\n  method: command")).method;
        assert_eq!(named, Some(method));
    }
}

#[test]
fn errors_in_how_nodes_are_started_have_a_position_and_an_example() {
    for (start, said) in [
        (" shh", "start cannot be \"shh\"; allowed: ssh, srun, or a command with {host}"),
        (" podman exec -i c1 sh -s", "or a command with {host}"),
        (" sh -c 'x {host}'", "no shell reads the command"),
        (" run {host} {user}", "only {host} can be in braces"),
        ("\n  method: shh", "method cannot be \"shh\""),
        ("\n  method: command", "the required key \"command\" of start is missing"),
        ("\n  method: ssh\n  command: run {host}", "\"command\" with method ssh"),
        ("\n  command: run {host}\n  user: al", "\"user\" beside a command"),
        ("\n  command: ssh", "a command with {host}"),
        ("\n  methods: ssh", "did you mean \"method\"?"),
        ("\n  user: -oProxyCommand=x", "user cannot be \"-oProxyCommand=x\""),
        ("\n  directory: tmp", "an absolute path"),
        ("\n  net: tcp={ip}", "with {host} for the host's name"),
        ("\n  port: 0", "from 1 to 65535"),
        ("\n  fanout: 257", "from 1 to 256"),
        ("\n  timeout: 2 h", "from 1 s to 1 h"),
        ("\n  missing: ignore", "allowed: stop, continue"),
    ] {
        let why = wrong(&starting(start));
        assert!(why.contains(said), "{start}\n{why}\ninstead of {said}");
        assert!(why.lines().all(|line| line.starts_with("p.yaml:")), "{why}");
    }
    let groups = "name: p\ngroups: {a: {host: c1}, b: {hosts: }}\n";
    let why = wrong(groups);
    assert!(
        why.contains("did you mean \"hosts\"?") && why.contains("the required key \"hosts\" of"),
        "{why}"
    );
}

#[test]
fn the_plans_of_the_repository_are_valid() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../plans");
    let mut names = Vec::new();
    for entry in std::fs::read_dir(directory).expect("plans are there") {
        let path = entry.expect("a plan").path();
        let text = std::fs::read_to_string(&path).expect("text");
        let plan = plan(&text);
        assert_eq!(Some(plan.name.as_str()), path.file_stem().and_then(|stem| stem.to_str()));
        assert!(!plan.about.is_empty());
        names.push(plan.name);
    }
    assert!(names.len() >= 6, "{names:?}");
}
