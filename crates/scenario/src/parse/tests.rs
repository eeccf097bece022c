use std::fs;
use std::path::Path;

use lustrine_lnet::time::Nanos;
use lustrine_selftest::Test;
use lustrine_sim::fabric::{Hashing, Rate};
use lustrine_sim::tcp::{Algorithm, IdleRestart};
use lustrine_sim::{CpuCost, StopKind};
use lustrine_wire::srpc::BrwCheck;

use crate::model::{Action, Fidelity, LinkChange, NodeRange, Spread, Target};
use crate::{Override, Scenario, ScenarioFile};

const WHOLE: &str = "\
# All keys there are.
sites: [east, west]
links:
  - between: [east, west]
    bandwidth: 50 Gb/s
    delay: 25.25 ms
    queue: 64 MiB
    loss: 0.1 %
    jitter: 3 us
    parallel: 2
    hashing: hosts
groups:
  clients:
    count: 30
    site: east
    interface: 10 Gb/s
    delay: 5 us
    queue: 16 MiB
    tunables: { peer_credits: 8, credits: 64 }
    cost: { message: 2 us, MiB: 80 us }
    tcp: { congestion: bbr }
  servers: { count: 16, site: west, interface: unlimited }
tunables: { peer_credits: 32 }
tcp: { congestion: fixed, send_buffer: 32 MiB, receive_buffer: 8 MB, segment: 1448 B,
       initial_window: 4, idle_restart: keep }
fidelity: stream
loads:
  - { from: clients, to: servers, spread: \"1:1\", test: read, size: 1 MiB, check: full,
      concurrency: 8, start: 1 s, warm_up: 2 s, time: 10 s, patience: 1 min }
  - { from: clients, to: servers, spread: all, test: ping }
events:
  - { at: 7 s, restart: servers/3 }
  - { at: 5 s, cut: [west, east], link: 2 }
  - { at: 6 s, degrade: clients/0-3, bandwidth: 1 Gb/s, loss: 100 % }
  - { at: 6 s, silence: servers }
seed: 7
";

/// Two nodes and nothing more; each case appends what it tests.
const SMALL: &str = "groups: {clients: {}, servers: {count: 4}}\n";

/// A load for [`SMALL`], which the case completes.
const LOAD: &str = "\
groups: {clients: {count: 3}, servers: {count: 4}}
loads:
  - {from: clients, to: servers, test: read, ";

/// A link for the sites of a case, which the case completes.
const LINK: &str = "{between: [a, b], bandwidth: 1 Gb/s, delay: 1 ms";

fn read(text: &str) -> Result<Scenario, String> {
    let file = ScenarioFile::parse(text, "bad.yaml").map_err(|problems| problems.to_string())?;
    file.scenario(&[]).map_err(|problems| problems.to_string())
}

#[test]
fn every_key_means_what_it_says() {
    let scenario = read(WHOLE).unwrap();
    assert_eq!((scenario.seed, scenario.fidelity), (7, Fidelity::Stream));
    assert_eq!(scenario.sites, ["east", "west"]);
    let trunk = &scenario.trunks[0];
    assert_eq!((trunk.between, trunk.parallel, trunk.hashing), ((0, 1), 2, Hashing::Hosts));
    assert_eq!(trunk.link.rate, Rate::from_bits(50_000_000_000));
    assert_eq!((trunk.link.delay, trunk.link.jitter), (Nanos(25_250_000), Nanos(3000)));
    assert_eq!((trunk.link.queue, trunk.link.loss), (64 << 20, 1_000_000));
    let [clients, servers] = &scenario.groups[..] else { panic!("{:?}", scenario.groups) };
    assert_eq!((clients.name.as_str(), clients.count, clients.site), ("clients", 30, 0));
    assert_eq!((clients.tunables.lnet.peer_credits, clients.tunables.lnet.credits), (8, 64));
    assert_eq!((servers.tunables.lnet.peer_credits, servers.tunables.lnet.credits), (32, 256));
    let cost = CpuCost { per_message: Nanos(2000), per_mib: Nanos(80_000) };
    assert_eq!((clients.cost, servers.cost), (cost, CpuCost::default()));
    assert_eq!((clients.tcp.algorithm, clients.tcp.segment), (Algorithm::Bbr, 1448));
    assert_eq!((servers.tcp.algorithm, servers.tcp.receive_buffer), (Algorithm::Fixed, 8_000_000));
    assert_eq!((servers.interface.rate, servers.interface.delay), (None, Nanos(5000)));
    assert_eq!((servers.tcp.initial_window, servers.tcp.idle_restart), (4, IdleRestart::Keep));
    let load = &scenario.loads[0];
    assert_eq!(load.test, Test::Read { len: 1 << 20, check: BrwCheck::Full });
    assert_eq!((load.concurrency, load.nominal_end()), (8, Nanos::from_secs(13)));
    assert_eq!(load.patience, Nanos::from_secs(60));
    assert_eq!(scenario.loads[1].spread, Spread { clients: 1, servers: 16 });
    let members = |group, first, last| NodeRange { group, first, last };
    let actions: Vec<_> = scenario.events.into_iter().map(|event| event.action).collect();
    let change = LinkChange {
        rate: Some(Rate::from_bits(1_000_000_000)),
        loss: Some(1_000_000_000),
        ..LinkChange::default()
    };
    assert_eq!(
        actions,
        [
            Action::Cut(Target::Trunk { trunk: 0, link: Some(1) }),
            Action::Degrade(Target::Interfaces(members(0, 0, 3)), change),
            Action::End(members(1, 0, 15), StopKind::Silence),
            Action::Restart(members(1, 3, 3)),
        ]
    );
}

#[test]
fn a_short_file_is_a_complete_scenario() {
    let scenario =
        read(&format!("{SMALL}loads: [{{from: clients, to: servers, test: ping}}]")).unwrap();
    assert_eq!(scenario.sites, ["here"]);
    assert_eq!((scenario.groups[0].count, scenario.groups[1].count), (1, 4));
    assert_eq!(scenario.groups[0].interface.rate, Rate::from_bits(10_000_000_000));
    let load = &scenario.loads[0];
    assert_eq!((load.concurrency, load.spread), (1, Spread { clients: 1, servers: 1 }));
}

/// A file with many errors.
const SEVERAL: &str = "\
sites: east
seed: x
groups: {a: {count: x, interface: 10}, b: {delay: 1}}
loads:
  - {from: a, to: c, test: raed, size: 3, time: 1}
";

/// A name for the error in a file, and the file.
fn bad_files() -> Vec<(&'static str, String)> {
    let load = |end: &str| format!("{LOAD}{end}}}\n");
    let small = |rest: &str| {
        format!("{SMALL}loads: [{{from: clients, to: servers, test: ping}}]\n{rest}\n")
    };
    let sites = |links: &str, load: &str| {
        format!(
            "sites: [a, b, c]\nlinks: {links}\ngroups: {{x: {{site: a}}, y: {{site: b}}}}\n\
             loads: [{{from: x, to: y, test: ping{load}}}]\n"
        )
    };
    vec![
        ("empty", String::new()),
        ("not YAML", "groups: [".to_owned()),
        ("a list", "- groups".to_owned()),
        ("two documents", small("---\nseed: 1")),
        ("an alias in itself", "groups: &a [*a]".to_owned()),
        ("a key twice", small("seed: 1\nseed: 2")),
        ("a key of lists", "? [a]\n: 1".to_owned()),
        ("nested", "[".repeat(40)),
        ("unknown keys", small("sede: 1\ngroup: {}\nwhatever: 1")),
        ("seed", small("seed: -1")),
        ("fidelity", small("fidelity: messages")),
        ("no groups", "loads: [{from: a, to: b, test: ping}]".to_owned()),
        ("empty groups", small("").replace("count: 4", "count: 0")),
        ("no loads", SMALL.to_owned()),
        ("too many nodes", small("").replace("count: 4", "count: 100000")),
        ("unit left out", load("size: 1048576")),
        ("wrong unit", load("time: 10 MiB")),
        ("no number", load("warm_up: soon")),
        ("too fine", load("start: 0.5 ns")),
        ("negative", load("start: -1 s")),
        ("too large", load("size: 2 MiB")),
        ("not a multiple of 8", load("size: 1001 B")),
        ("concurrency", load("concurrency: 0")),
        ("concurrency with a unit", load("concurrency: 8 RPCs")),
        ("check", load("check: discard")),
        ("spread", load("spread: 2:2")),
        ("spread of nothing", load("spread: 0:1")),
        ("spread is no pair", load("spread: 4")),
        ("a ping has no size", small("").replace("test: ping", "test: ping, size: 4 KiB")),
        ("no test", small("").replace(", test: ping", "")),
        ("no such group", small("").replace("from: clients", "from: client")),
        ("itself", small("").replace("from: clients", "from: servers")),
        ("unknown site", small("").replace("clients: {}", "clients: {site: east}")),
        ("no site", sites("[]", "").replace("site: b", "count: 2")),
        ("unreachable", sites("[{between: [b, c], bandwidth: 1 Gb/s, delay: 1 ms}]", "")),
        ("other nets", small("").replace("clients: {}", "clients: {net: tcp1}")),
        ("net", small("").replace("clients: {}", "clients: {net: o2ib}")),
        ("links without properties", sites("[{between: [a, b]}]", "")),
        ("a link of one site", sites("[{between: [a, a], bandwidth: 1 Gb/s, delay: 1 ms}]", "")),
        ("a link of no sites", sites("[{between: a, bandwidth: 1 Gb/s, delay: 1 ms}]", "")),
        ("hashing alone", sites(&format!("[{LINK}, hashing: hosts}}]"), "")),
        (
            "connected twice",
            sites(
                &format!("[{LINK}}}, {{between: [b, a], bandwidth: unlimited, delay: 1 ms}}]"),
                "",
            ),
        ),
        ("bandwidth in words", sites("[{between: [a, b], bandwidth: fast, delay: 1 ms}]", "")),
        ("loss without %", sites(&format!("[{LINK}, loss: 0.1}}]"), "")),
        ("tunable", small("tunables: {peer_credit: 8}")),
        ("tunable out of range", small("tunables: {peer_credits: 0}")),
        ("tunable with a unit", small("tunables: {sock_timeout: 50 s}")),
        ("tunable of machines", small("tunables: {spin_us: 0}")),
        ("congestion", small("tcp: {congestion: reno}")),
        (
            "a queue shorter than a packet of one group",
            sites(&format!("[{LINK}, queue: 20 kB}}]"), "")
                .replace("y: {", "y: {tcp: {segment: 65483 B}, "),
        ),
        (
            "queues shorter than a packet",
            sites(&format!("[{LINK}, queue: 20 kB}}]"), "")
                .replace("x: {", "x: {tcp: {segment: 65483 B}, ")
                .replace("y: {", "y: {queue: 10 kB, tcp: {segment: 65483 B}, ")
                + "events: [{at: 1 s, degrade: y, queue: 64 KiB}, \
                   {at: 2 s, degrade: y, queue: 65573 B}]",
        ),
        ("cost", small("").replace("clients: {}", "clients: {cost: {message: 2, byte: 1 ns}}")),
        ("names", small("").replace("clients: {}", "clients: {}, \"a b\": {}, peer_credits: {}")),
        ("an event without time", small("events: [{cut: clients}]")),
        ("an event that does nothing", small("events: [{at: 1 s}]")),
        (
            "an event that does two things",
            small("events: [{at: 1 s, cut: clients, restore: clients}]"),
        ),
        ("members that are not there", small("events: [{at: 1 s, crash: servers/4}]")),
        ("members in brackets", small("events:\n  - at: 1 s\n    crash: servers[3]")),
        ("properties in a cut", small("events: [{at: 1 s, cut: clients, delay: 1 ms}]")),
        ("degrade to what", small("events: [{at: 1 s, degrade: clients}]")),
        (
            "no such link",
            sites(&format!("[{LINK}}}]"), "")
                + "events: [{at: 1 s, cut: [a, c]}, {at: 1 s, cut: [a, b], link: 2}]",
        ),
        (
            "too many clients",
            small("").replace("ping", "ping, spread: all").replace("count: 4", "count: 300"),
        ),
        ("several at once", SEVERAL.to_owned()),
    ]
}

#[test]
fn each_error_in_a_file_has_its_own_message() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/parse/bad_files.txt");
    let mut text = String::new();
    for (what, file) in bad_files() {
        let said = read(&file).expect_err(what);
        for line in said.lines() {
            // Each message says what is allowed; for a key given twice, which one to remove, and
            // for one that is missing, an example.
            if line.contains(" is given twice; the first one is at ") {
                continue;
            }
            let right = line.contains("allowed") || line.contains(" is missing; for example ");
            let hint = line.contains("for example") || line.contains("did you mean");
            assert!(right && hint, "{what}: {line}");
        }
        text += &format!("{what}\n{said}\n\n");
    }
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&golden, &text).unwrap();
    }
    let known = fs::read_to_string(&golden).unwrap_or_default();
    assert_eq!(text, known, "UPDATE_GOLDEN=1 rewrites {}", golden.display());
}

#[test]
fn the_reference_has_every_key() {
    let page = include_str!("../../../../docs/simulator.md");
    let sections = [
        super::FILE,
        super::links::LINK,
        super::groups::GROUP,
        super::groups::COST,
        super::groups::TCP,
        super::loads::LOAD,
        super::events::EVENT,
    ];
    for section in sections {
        for key in section.keys {
            let known = page.contains(&format!("`{}`", key.name));
            assert!(known, "{} of {} is not in docs/simulator.md", key.name, section.name);
        }
    }
}

#[test]
fn the_scenarios_of_the_repository_are_valid() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let mut files = 0;
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "yaml") {
            files += 1;
            let text = fs::read_to_string(&path).unwrap();
            read(&text).unwrap_or_else(|problems| panic!("{}: {problems}", path.display()));
        }
    }
    assert!(files >= 3, "{files}");
}

#[test]
fn nested_aliases_are_bounded() {
    let mut text = "a: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..12 {
        let list = format!("*a{}, ", level - 1).repeat(9);
        text += &format!("k{level}: &a{level} [{list}]\n");
    }
    assert!(read(&text).unwrap_err().contains("too many values"));
    assert!(read(&" ".repeat(2 << 20)).unwrap_err().contains("bytes are too many"));
}

#[test]
fn an_override_applies_everywhere_in_the_file() {
    let file = ScenarioFile::parse(WHOLE, "x.yaml").unwrap();
    let with = |text: &str| file.scenario(&[Override::parse("--set", text).unwrap()]);
    let both = with("peer_credits=16").unwrap();
    assert!(both.groups.iter().all(|group| group.tunables.lnet.peer_credits == 16));
    let one = with("servers.peer_credits=16").unwrap();
    assert_eq!(
        (one.groups[0].tunables.lnet.peer_credits, one.groups[1].tunables.lnet.peer_credits),
        (8, 16)
    );
    let all = with("congestion=cubic").unwrap();
    assert!(all.groups.iter().all(|group| group.tcp.algorithm == Algorithm::Cubic));
    assert_eq!(with("clients.count=4").unwrap().groups[0].count, 4);
    assert_eq!(with("clients.message=7 us").unwrap().groups[0].cost.per_message, Nanos(7000));
    assert_eq!(with("delay=1 ms").unwrap().trunks[0].link.delay, Nanos(1_000_000));
    assert!(with("concurrency=64").unwrap().loads.iter().all(|load| load.concurrency == 64));
    assert_eq!(
        (with("seed=9").unwrap().seed, with("fidelity=message").unwrap().fidelity),
        (9, Fidelity::Message)
    );
    for (text, words) in [
        ("concurrency=0", "--set concurrency=0: concurrency cannot be \"0\"; allowed:"),
        ("concurency=1", "did you mean \"concurrency\"?"),
        ("absent.count=1", "the group cannot be \"absent\"; allowed: clients, servers"),
        ("clients.size=1", "a key of a group cannot be \"size\""),
        ("peer_credits=x", "--set peer_credits=x: peer_credits cannot be \"x\""),
    ] {
        let said = with(text).unwrap_err().to_string();
        assert!(said.contains(words), "{text}: {said}");
    }
    let bare = ScenarioFile::parse("loads: 1", "x.yaml").unwrap();
    let change = Override::parse("--vary", "delay=1 ms").unwrap();
    assert!(bare.scenario(&[change]).unwrap_err().to_string().contains("the file has none"));
}

#[test]
fn batches_of_a_distribution_form_the_right_pairs() {
    let pairs = |clients, servers, n, m| {
        Spread { clients: n, servers: m }.pairs(clients, servers).collect::<Vec<_>>()
    };
    assert_eq!(pairs(3, 2, 1, 1), [(0, 0), (1, 1), (2, 0)]);
    assert_eq!(pairs(2, 4, 2, 2), [(0, 0), (0, 1), (1, 0), (1, 1)]);
    assert_eq!(pairs(2, 2, 1, 2), [(0, 0), (0, 1), (1, 0), (1, 1)]);
    assert_eq!(pairs(30, 16, 1, 1).len(), 30);
}

mod any_text {
    use proptest::prelude::*;

    use super::*;

    /// Words of the format and of faulty files, in random order.
    fn fragments() -> impl Strategy<Value = String> {
        let words = prop::sample::select(vec![
            "groups",
            "loads",
            "links",
            "sites",
            "events",
            "tunables",
            "tcp",
            "seed",
            "fidelity",
            "from",
            "to",
            "test",
            "size",
            "at",
            "cut",
            "between",
            "count",
            "spread",
            "a",
            "b",
            "1:1",
            "0:0",
            "1 MiB",
            "10 Gb/s",
            "25.25 ms",
            "0.1 %",
            "ping",
            "read",
            "-1",
            "99999999999999999999999",
            "0.0000000000001 s",
            "a/3",
            "a/9-1",
            ": ",
            ":\n  ",
            "\n",
            "\n- ",
            "\n  - ",
            "{",
            "}",
            "[",
            "]",
            ", ",
            "*a",
            "&a ",
            "'",
            "\"",
            "|\n",
            "# ",
            "---\n",
            "~",
            "\u{e9}",
            "\t",
            "? ",
            "!!x ",
        ]);
        prop::collection::vec(words, 0..60).prop_map(|words| words.concat())
    }

    proptest! {
        #[test]
        fn nothing_panics(text in fragments(), any in ".{0,200}", set in "[a-z_.]{0,12}=.{0,8}") {
            let _ = read(&text);
            let _ = read(&any);
            if let Ok(file) = ScenarioFile::parse(&text, "x") {
                let _ = file.scenario(&[Override::parse("--set", &set).unwrap()]);
            }
        }

        #[test]
        fn a_valid_file_with_one_part_replaced(
            at in 0usize..WHOLE.len(),
            len in 0usize..30,
            by in fragments(),
        ) {
            let end = (at + len).min(WHOLE.len());
            if WHOLE.is_char_boundary(at) && WHOLE.is_char_boundary(end) {
                let _ = read(&format!("{}{by}{}", &WHOLE[..at], &WHOLE[end..]));
            }
        }
    }
}
