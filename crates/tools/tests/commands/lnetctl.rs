//! `lnetctl` compared with recordings of the real one: the output is the same, except for keys that
//! Lustrine nodes do not have, which are listed here. `testdata/lnetctl/README.md` says where the
//! recordings are from.

use crate::support::fake_env::{Fake, nid, recorded};
use lustrine_control::{
    ChangeReport, ChangeRequest, ImportMode, NewNet, NiSelector, PeerIdentity, PeerRow,
};
use lustrine_lnet::tunables::Change;
use lustrine_partition::tunables::TABLE;
use lustrine_tools::lnetctl::{LNETCTL, Lnetctl, Settings};
use lustrine_tools::node::ToolError;
use lustrine_tools::shell::{self, Compat, NameMatching};
use lustrine_tools::table::CommandSyntax;
use proptest::prelude::*;

/// Keys that Lustrine nodes do not have, anywhere, with everything under them.
const OMITTED: [&str; 29] = [
    "udsp info",
    "sent_stats",
    "received_stats",
    "dropped_stats",
    "health stats",
    "peer_timeout",
    "peer_buffer_credits",
    "dev cpt",
    "tx_q_num_of_buf",
    "available_rtr_credits",
    "min_rtr_credits",
    "refcount",
    "numa_range",
    "drop_asym_route",
    "health_sensitivity",
    "recovery_interval",
    "router_sensitivity",
    "response_tracking",
    "recovery_limit",
    "max_recovery_ping_interval",
    "rst_alloc",
    "resend_count",
    "local_interrupt_count",
    "local_dropped_count",
    "local_aborted_count",
    "local_no_route_count",
    "local_timeout_count",
    "remote_timeout_count",
    "route",
];

/// The same for `stats show`.
const OMITTED_COUNTERS: [&str; 4] =
    ["failed_resends", "successful_resends", "route_count", "route_length"];

/// A recording without what Lustrine nodes do not have.
fn expected(name: &str) -> String {
    let text = recorded(&format!("lnetctl/{name}"));
    let mut kept = String::new();
    let mut under: Option<usize> = None;
    let mut lo = false;
    for line in text.lines() {
        let column = line.len() - line.trim_start().len();
        let item = line[column..].starts_with('-');
        if under.is_some_and(|above| column > above || column == above && item) {
            continue;
        }
        let key = line.trim().split(':').next().unwrap();
        under = None;
        if column == 0 {
            lo = line.ends_with(": lo");
        }
        // Lustrine nodes count nothing for the loopback.
        let of_lo = lo && ["statistics", "tunables", "CPT"].contains(&key);
        if of_lo || OMITTED.contains(&key) || OMITTED_COUNTERS.contains(&key) {
            under = Some(column);
            continue;
        }
        kept += &format!("{line}\n");
    }
    kept
}

/// Runs a command. Returns its output on standard output and error, and its status.
fn type_in(fake: &mut Fake, compat: Compat, command: &str) -> (String, String, u8) {
    let settings = Settings { compat, version: "1".to_owned() };
    let words: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
    let exit = shell::run(&mut Lnetctl::new(fake, &settings), &words, NameMatching::Exact);
    let (out, err) = fake.said();
    (out, err, exit.0)
}

#[track_caller]
fn shows(fake: &mut Fake, command: &str, wanted: &str) {
    let (out, err, status) = type_in(fake, Compat::V2_16, command);
    assert_eq!((out.as_str(), err.as_str(), status), (wanted, "", 0), "{command}");
}

#[test]
fn output_matches_the_recordings() {
    let mut fake = Fake::new(5, 3);
    for (command, name) in [
        ("net show", "net_show.yaml"),
        ("net show --net tcp1", "net_show_net_tcp1.txt"),
        ("net show -v 4", "net_show_v4.yaml"),
        ("peer show", "peer_show.txt"),
        ("peer show --nid 10.77.1.3@tcp1", "peer_show_nid.txt"),
        ("peer show -v", "peer_show_v.txt"),
        ("peer list", "peer_list.txt"),
        ("stats show", "stats_show.yaml"),
        ("global show", "global_show.yaml"),
        ("ping 10.77.0.3@tcp", "ping_ok.txt"),
    ] {
        shows(&mut fake, command, &expected(name));
    }
    shows(&mut Fake::new(5, 1), "net show --verbose", &expected("net_show_v.txt"));
    let discovered = recorded("lnetctl/discover_ok.txt");
    let once = discovered.len() / 2;
    assert_eq!(discovered[..once], discovered[once..]);
    shows(&mut fake, "discover 10.77.0.3@tcp", &discovered[..once]);
    shows(&mut fake, "discover --force 10.77.0.3@tcp", &discovered[..once]);
    for command in ["route show -v", "routing show", "udsp show"] {
        shows(&mut fake, command, "");
    }
    // As in errors.txt: no message about an unknown peer, but a status.
    for (compat, status) in [(Compat::V2_16, 234), (Compat::V2_15, 255)] {
        let (out, err, ended) = type_in(&mut fake, compat, "peer show --nid 1.2.3.4@tcp");
        assert_eq!((out.as_str(), err.as_str(), ended), ("", "", status), "{compat:?}");
    }
    let mut lonely = Fake { peers: Vec::new(), ..Fake::new(0, 0) };
    shows(&mut lonely, "peer show", "");
    shows(&mut lonely, "peer list", "");
}

#[test]
fn an_interface_that_is_down_is_shown_so() {
    let mut fake = Fake::new(5, 3);
    fake.nis.nets[1].down = Some("eth1 has no link".to_owned());
    let expected = expected("net_show_net_tcp1.txt").replace("status: up", "status: down");
    shows(&mut fake, "net show --net tcp1", &expected);
}

#[test]
fn levels_can_be_written_in_several_ways() {
    let mut fake = Fake::new(5, 3);
    let brief = type_in(&mut fake, Compat::V2_16, "net show").0;
    let long = type_in(&mut fake, Compat::V2_16, "net show -v").0;
    assert!(long.len() > brief.len());
    for command in ["net show -v 1", "net show -v1", "net show --verbose=2", "net show --verbose"] {
        shows(&mut fake, command, &long);
    }
    shows(&mut fake, "net show -v 0", &brief);
    let tcp1 = type_in(&mut fake, Compat::V2_16, "net show -v --net tcp1").0;
    assert!(tcp1.starts_with("net:\n-     net type: tcp1\n") && tcp1.contains("send_count: 3"));
    shows(&mut fake, "net show --net tcp1 -v", &tcp1);
    assert_eq!(type_in(&mut fake, Compat::V2_16, "net show -vx").2, 255);
}

#[test]
fn several_answers_are_one_document() {
    let silent = Fake::new(0, 0).silent("10.77.0.99@tcp", -113, "");
    let command = "ping 10.77.0.3@tcp,10.77.1.3@tcp1 10.77.0.99@tcp";
    let (out, err, status) = type_in(&mut { silent }, Compat::V2_16, command);
    let wanted = recorded("lnetctl/ping_multi.txt");
    assert_eq!(format!("{out}rc={status}\n"), wanted);
    assert_eq!(err, "");
    // Failures come once, at the end; brackets and host names are understood.
    let mut fake = Fake::new(0, 0).silent("10.77.0.1@tcp", -110, "it's off");
    fake = fake.silent("10.77.0.2@tcp", -5, "");
    let (out, _, status) = type_in(&mut fake, Compat::V2_16, "ping 10.77.0.[1-2]@tcp vm3");
    let failures = "manage:\n- ping:\n  errno: -110\n  descr: ! 'failed to ping 10.77.0.1@tcp: \
                    Connection timed out (it''s off)'\n- ping:\n  errno: -5\n  descr: ! 'failed to \
                    ping 10.77.0.2@tcp: Input/output error'\n";
    assert_eq!(out, format!("{}{failures}", recorded("lnetctl/ping_ok.txt")));
    assert_eq!(status, 255);
}

#[test]
fn failures_match_the_recordings() {
    let mut fake = Fake::new(0, 0);
    for nid in ["10.77.0.99@tcp", "10.77.0.3@tcp55"] {
        fake = fake.silent(nid, -113, "");
    }
    let (first, _, one) = type_in(&mut fake, Compat::V2_16, "discover 10.77.0.99@tcp");
    let (second, _, two) = type_in(&mut fake, Compat::V2_16, "discover 10.77.0.3@tcp55");
    let both = format!("{first}rc={one}\n{second}rc={two}\n");
    assert_eq!(both, recorded("lnetctl/discover_errors.txt"));
    let errors = recorded("lnetctl/errors.txt");
    let (_, err, status) = type_in(&mut fake, Compat::V2_16, "net show --net tcp77");
    assert!(errors.contains(&format!("{err}rc={status}\n")), "{err}");
    for command in ["foo", "net foo"] {
        let (out, err, status) = type_in(&mut fake, Compat::V2_16, command);
        assert!(out.is_empty() && errors.contains(&format!("{err}rc={status}\n")), "{err}");
    }
    // The real one only reports that there is none; Lustrine reports what is wrong with it.
    let (_, err, status) = type_in(&mut fake, Compat::V2_16, "ping junk");
    let start = "---\nmanage:\n-     ping:\n      errno: -22\n      descr: ! \"Unable to parse \
                 nidlist: ";
    assert!(err.starts_with(start) && err.ends_with("\"\n...\n") && status == 234, "{err}");
    let (_, err, status) = type_in(&mut fake, Compat::V2_16, "ping --source 1.2.3.4@tcp vm3");
    assert!(err.contains("errno: -95") && err.contains("--source") && status == 234, "{err}");
    assert_eq!(type_in(&mut fake, Compat::V2_16, "ping").2, 4);
}

#[test]
fn the_behaviour_of_2_15_is_followed() {
    let mut fake = Fake::new(5, 3).silent("10.77.0.9@tcp", -110, "");
    let net = "\
net:
    - net type: tcp1
      local NI(s):
        - nid: 10.77.1.2@tcp1
          status: up
          interfaces:
              0: eth1
";
    let (out, _, status) = type_in(&mut fake, Compat::V2_15, "net show --net tcp1");
    assert_eq!((out.as_str(), status), (net, 0));
    let text = "    - primary nid: 10.77.0.3@tcp\n      Multi-Rail: True\n      peer ni:\n        \
                - nid: 10.77.0.3@tcp\n        - nid: 10.77.1.3@tcp1\n";
    let (out, err, status) = type_in(&mut fake, Compat::V2_15, "ping vm3 10.77.0.9@tcp");
    assert_eq!(out, format!("ping:\n{text}"));
    let failed = "manage:\n    - ping:\n          errno: -110\n          descr: \"failed to ping \
                  10.77.0.9@tcp: Connection timed out\"\n";
    assert_eq!((err.as_str(), status), (failed, 255));
    let (_, err, status) = type_in(&mut fake, Compat::V2_15, "net add --net tcp2 --cpt [0]");
    let start = "add:\n    - net:\n          errno: -95\n          descr: \"--cpt has no effect";
    assert!(err.starts_with(start) && status == 255, "{err}");
}

#[test]
fn unsupported_features_are_refused_with_the_reason() {
    for (command, start, says) in [
        ("net set --all --health 3", "set:\n-     net:", "no health value"),
        ("peer set --all --health 3", "set:\n-     peer:", "no health value"),
        ("set health_sensitivity 0", "set:\n-     health_sensitivity:", "no health values"),
        ("set routing 1", "set:\n-     routing:", "not supported"),
        ("set response_tracking 1", "set:\n-     response_tracking:", "as with 3"),
        ("net add --net tcp2 --cpt [0]", "add:\n-     net:", "every CPU partition serves"),
        ("net add --net tcp2 --peer-timeout 5", "add:\n-     net:", "concerns routers"),
        ("import --exec x.yaml", "add:\n-     import:", "lnetctl ping"),
        ("route add --net tcp2 --gateway 1.2.3.4@tcp", "add:\n-     route:", "not supported"),
        ("lnet configure --all", "configure:\n-     lnet:", "lustrine node"),
        ("lnet unconfigure", "unconfigure:\n-     lnet:", "SIGTERM"),
        ("udsp add --src tcp", "add:\n-     udsp:", "udsp add is not supported"),
        ("fault drop show", "show:\n-     drop:", "fault drop show is not supported"),
        ("cpt-of-nid 1.2.3.4@tcp", "manage:\n-     cpt-of-nid:", "docs/lnetctl.md"),
    ] {
        let mut fake = Fake::new(0, 0);
        let (out, err, status) = type_in(&mut fake, Compat::V2_16, command);
        assert_eq!((out.as_str(), status), ("", 234), "{command}");
        assert!(err.starts_with(&format!("---\n{start}\n      errno: -95\n")), "{err}");
        assert!(err.contains(says), "{err}");
        assert!(fake.changes.is_empty(), "{command}");
    }
}

#[test]
fn changes_are_sent_to_the_node_and_print_nothing() {
    let text = str::to_owned;
    let net = |text: &str| text.parse().unwrap();
    for (command, change) in [
        ("set retry_count 3", ChangeRequest::Set { name: text("retry_count"), value: 3 }),
        ("set spin_us -- -1", ChangeRequest::Set { name: text("spin_us"), value: -1 }),
        (
            "net set --nid 1.2.3.4@tcp --conns-per-peer 4",
            ChangeRequest::SetNet {
                which: NiSelector::Nid(nid("1.2.3.4@tcp")),
                conns_per_peer: Some(4),
                lnd_timeout: None,
            },
        ),
        (
            "net set --net tcp1 --lnd-timeout 20",
            ChangeRequest::SetNet {
                which: NiSelector::Net(net("tcp1")),
                conns_per_peer: None,
                lnd_timeout: Some(20),
            },
        ),
        (
            "net add --net tcp2 --if eth0,eth1 --credits 99 --tos -1",
            ChangeRequest::AddNet(NewNet {
                net: Some(net("tcp2")),
                interfaces: vec![text("eth0"), text("eth1")],
                credits: Some(99),
                tos: Some(-1),
                ..NewNet::default()
            }),
        ),
        (
            "net del --net tcp1 --if eth1",
            ChangeRequest::DelNet {
                which: NiSelector::Net(net("tcp1")),
                interfaces: vec![text("eth1")],
            },
        ),
        (
            "peer add --prim_nid 1.2.3.4@tcp --nid 1.2.3.4@tcp,1.2.3.[5-6]@tcp --lock_prim",
            ChangeRequest::AddPeer {
                nids: ["1.2.3.4@tcp", "1.2.3.5@tcp", "1.2.3.6@tcp"].map(nid).to_vec(),
                multi_rail: true,
                locked: true,
            },
        ),
        (
            "peer del --prim_nid 1.2.3.4@tcp --force",
            ChangeRequest::DelPeer { primary: nid("1.2.3.4@tcp"), nids: Vec::new(), force: true },
        ),
        ("stats reset", ChangeRequest::ResetStats {}),
    ] {
        let mut fake = Fake::new(0, 0);
        shows(&mut fake, command, "");
        assert_eq!(fake.changes, [(change, false)], "{command}");
    }
    let mut fake = Fake::new(0, 0);
    fake.changed = Err(ToolError { errno: -22, text: "retry_count = 300 is too large".to_owned() });
    let (_, err, status) = type_in(&mut fake, Compat::V2_16, "set retry_count 300");
    let wanted = "---\nset:\n-     retry_count:\n      errno: -22\n      descr: ! \"retry_count = \
                  300 is too large\"\n...\n";
    assert_eq!((err.as_str(), status), (wanted, 234));
}

#[test]
fn conflicting_options_send_no_request() {
    for command in [
        "net set --conns-per-peer 3",
        "net set --all --nid 1.2.3.4@tcp --conns-per-peer 3",
        "net set --all",
        "net del",
        "net del --nid 1.2.3.4@tcp --if eth0",
        "net add --net tcp --tos 900",
        "peer add --nid 1.2.3.4@tcp",
        "peer add --prim_nid 1.2.3.4@tcp --nid [",
        "peer del",
        "peer del --prim_nid junk",
        "net set --nid junk --conns-per-peer 3",
        "net del --net junk",
        "import --add --del",
        "import nowhere.yaml",
    ] {
        let mut fake = Fake::new(0, 0);
        let (out, _, status) = type_in(&mut fake, Compat::V2_16, command);
        assert_eq!((out.as_str(), status), ("", 234), "{command}");
        assert!(fake.changes.is_empty(), "{command}");
    }
}

#[test]
fn a_dry_run_of_an_import_prints_the_changes() {
    let mut fake = Fake::new(0, 0);
    fake.files.insert("a.yaml".to_owned(), "retry_count: 3\n".to_owned());
    fake.files.insert("stdin".to_owned(), "retry_count: 4\n".to_owned());
    fake.changed = Ok(ChangeReport {
        steps: vec!["set retry_count to 3 (was 2)".to_owned(), "remove 1.2.3.4@tcp".to_owned()],
        warnings: vec!["a.yaml:2:1: ignored: no such key".to_owned()],
        before: "global:\n    retry_count: 2\n".to_owned(),
        after: "global:\n    retry_count: 3\n".to_owned(),
    });
    let (out, err, status) = type_in(&mut fake, Compat::V2_16, "import --lenient a.yaml");
    assert_eq!((out.as_str(), status), ("", 0));
    assert_eq!(err, "lnetctl: a.yaml:2:1: ignored: no such key\n");
    let (out, ..) = type_in(&mut fake, Compat::V2_16, "import --dry-run a.yaml");
    assert_eq!(out, "would set retry_count to 3 (was 2)\nwould remove 1.2.3.4@tcp\n");
    let (out, ..) = type_in(&mut fake, Compat::V2_16, "import --del --diff");
    let wanted = "--- current\n+++ with stdin\n@@ -1,2 +1,2 @@\n global:\n-    retry_count: 2\n\
                  +    retry_count: 3\n";
    assert_eq!(out, wanted);
    let changes = fake.changes.iter().map(|(change, trial)| match change {
        ChangeRequest::Import { source_name, mode, lenient, .. } => {
            (source_name.as_str(), *mode, *lenient, *trial)
        }
        other => panic!("{other:?}"),
    });
    let changes: Vec<_> = changes.collect();
    let wanted = [
        ("a.yaml", ImportMode::Add, true, false),
        ("a.yaml", ImportMode::Add, false, true),
        ("stdin", ImportMode::Del, false, true),
    ];
    assert_eq!(changes, wanted);
    fake.changed = Ok(ChangeReport::default());
    shows(&mut fake, "import --dry-run --diff a.yaml", "nothing would change\n");
}

/// The keys of `set` are those that a running node can change, all of them, and those that LNet has
/// and Lustrine has not.
#[test]
fn set_has_every_key_that_a_running_node_can_change() {
    let set = LNETCTL.commands.iter().find(|command| command.name == "set").unwrap();
    let mut fake = Fake::new(0, 0);
    for key in set.subcommands {
        let (_, err, _) = type_in(&mut fake, Compat::V2_16, &format!("set {} 1", key.name));
        let row = TABLE.iter().find(|row| row.name == key.name);
        let live = row.is_some_and(|row| row.change == Change::Live);
        assert_eq!(err.is_empty(), live, "{}: {err}", key.name);
    }
    for row in TABLE.iter().filter(|row| row.change == Change::Live) {
        assert!(set.subcommands.iter().any(|key| key.name == row.name), "{}", row.name);
    }
}

#[test]
fn without_a_node_every_command_reports_that_once() {
    let trouble = ToolError { errno: -100, text: "no node answers".to_owned() };
    let mut fake = Fake { trouble: Some(trouble), ..Fake::new(0, 0) };
    for command in [
        "net show",
        "peer show",
        "peer list",
        "stats show",
        "global show",
        "route show",
        "routing show",
        "ping 10.0.0.[1-9]@tcp",
        "discover 10.0.0.1@tcp",
        "export",
        "export --backup",
        "set retry_count 1",
        "net del --net tcp1",
        "peer add --prim_nid 1.2.3.4@tcp",
        "stats reset",
        "import a.yaml",
    ] {
        fake.files.insert("a.yaml".to_owned(), String::new());
        let (out, err, status) = type_in(&mut fake, Compat::V2_16, command);
        assert_eq!((out.as_str(), status), ("", 234), "{command}");
        let why = "      errno: -100\n      descr: ! \"no node answers\"\n...\n";
        assert!(err.ends_with(why) && err.matches("errno").count() == 1, "{command}: {err}");
    }
}

#[test]
fn export_prints_the_state_and_a_backup_the_settings() {
    let mut fake = Fake::new(5, 3);
    let (net, _, _) = type_in(&mut fake, Compat::V2_16, "net show -v 2");
    let (peer, _, _) = type_in(&mut fake, Compat::V2_16, "peer show -v 2");
    let (global, _, _) = type_in(&mut fake, Compat::V2_16, "global show");
    let all = format!("{net}{peer}{global}");
    shows(&mut fake, "export", &all);
    // A node that has pinged itself is a peer of its own, which no node takes.
    let own = nid("10.77.0.2@tcp");
    fake.peers.push(PeerRow::new(
        own,
        PeerIdentity { primary_nid: own, ..fake.peers[0].identity.clone() },
    ));
    fake.peers[2].identity.peer_ni.clear();
    assert!(type_in(&mut fake, Compat::V2_16, "peer show").0.contains("10.77.0.2@tcp"));
    shows(&mut fake, "export", &all);
    let backup = "net:\n-     net type: tcp\n";
    shows(&mut fake, "export --backup", backup);
    shows(&mut fake, "export --backup saved.yaml", "");
    assert_eq!(fake.files["saved.yaml"], backup);
    let (_, err, status) = type_in(&mut fake, Compat::V2_16, "export no/where");
    assert!(err.contains("cannot write no/where: no such directory") && status == 234, "{err}");
}

#[test]
fn silent_peers_and_unused_nids_are_shown() {
    let mut fake = Fake::new(5, 3);
    fake.peers.truncate(1);
    let (out, _, _) = type_in(&mut fake, Compat::V2_16, "peer show -v");
    // The second NID is the peer's, but no message was sent there: its credits are unknown.
    assert!(out.ends_with("      -     nid: 10.77.1.3@tcp1\n            state: up\n"), "{out}");
    fake.peers[0].identity.peer_ni.clear();
    fake.peers[0].identity.multi_rail = false;
    let wanted = "peer:\n-     primary nid: 10.77.0.3@tcp\n      Multi-Rail: false\n      \
                  peer ni:\n      -     nid: 10.77.0.3@tcp\n            state: NA\n";
    shows(&mut fake, "peer show", wanted);
    fake.peers[0].nid = nid("10.77.9.9@tcp");
    let (out, _, _) = type_in(&mut fake, Compat::V2_16, "peer show --nid 10.77.9.9@tcp");
    assert!(out.contains("primary nid: 10.77.0.3@tcp\n"), "{out}");
}

/// The names of all commands, and of all their options.
fn vocabulary(under: &'static [CommandSyntax], words: &mut Vec<String>) {
    for syntax in under {
        words.push(syntax.name.to_owned());
        words.extend(syntax.options.iter().map(|option| format!("--{}", option.long)));
        vocabulary(syntax.subcommands, words);
    }
}

fn word() -> impl Strategy<Value = String> {
    let mut words = Vec::new();
    vocabulary(LNETCTL.commands, &mut words);
    let values = ["-v", "4", "-v9", "vm3", "tcp", "10.77.0.[1-9]@tcp", "1,,2", "[", "0@lo", "--"];
    words.extend(values.map(str::to_owned));
    prop_oneof![9 => prop::sample::select(words), 1 => any::<String>()]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// `lnetctl` prints whole lines and ends for any input.
    #[test]
    fn any_words_end(
        words in prop::collection::vec(word(), 0..6),
        compat in prop::sample::select(vec![Compat::V2_15, Compat::V2_16]),
    ) {
        let mut fake = Fake::new(1, 2);
        let settings = Settings { compat, version: "1".to_owned() };
        shell::run(&mut Lnetctl::new(&mut fake, &settings), &words, NameMatching::Exact);
        fake.said();
    }
}
