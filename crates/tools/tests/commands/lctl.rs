//! `lctl` compared with recordings of the real one. `testdata/lctl/README.md` says where they are
//! from.

use crate::support::fake_env::{Fake, nid, recorded};
use lustrine_tools::lctl::{LCTL, Lctl};
use lustrine_tools::lnetctl::Settings;
use lustrine_tools::node::ToolError;
use lustrine_tools::shell::{self, Compat, Interpreter, LineOutcome, Mode, NameMatching};
use proptest::prelude::*;

fn settings(compat: Compat) -> Settings {
    Settings { compat, version: "1".to_owned() }
}

/// Runs a command. Returns its output on standard output and error, and its status.
fn type_in(fake: &mut Fake, compat: Compat, command: &str) -> (String, String, u8) {
    let words: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
    let settings = settings(compat);
    let exit = shell::run(&mut Lctl::new(fake, &settings), &words, NameMatching::Exact);
    let (out, err) = fake.said();
    (out, err, exit.0)
}

#[track_caller]
fn check(fake: &mut Fake, command: &str, out: &str, err: &str, status: u8) {
    let shown = type_in(fake, Compat::V2_16, command);
    assert_eq!(shown, (out.to_owned(), err.to_owned(), status), "{command}");
}

#[test]
fn nids_and_pings_match_the_recordings() {
    let mut fake = Fake::new(5, 3).silent("10.77.0.99@tcp", -113, "");
    let nids = recorded("lctl/list_nids.txt");
    check(&mut fake, "list_nids", &nids, "", 0);
    check(&mut fake, "list_nids all", &format!("0@lo\n{nids}"), "", 0);
    let (good, _, one) = type_in(&mut fake, Compat::V2_16, "ping 10.77.0.3@tcp");
    let (bad, _, two) = type_in(&mut fake, Compat::V2_16, "ping 10.77.0.99@tcp 5");
    assert_eq!((format!("{good}{bad}rc={two}\n"), one), (recorded("lctl/ping.txt"), 0));
    // 2.15 prints process ids, and reports failures on standard error.
    let old = "12345-0@lo\n12345-10.77.0.3@tcp\n12345-10.77.1.3@tcp1\n";
    assert_eq!(type_in(&mut fake, Compat::V2_15, "ping vm3"), (old.to_owned(), String::new(), 0));
    let (out, err, status) = type_in(&mut fake, Compat::V2_15, "ping 10.77.0.99@tcp");
    assert_eq!((out + &err, status), (bad, 113));
    for command in ["ping 10.0.0.[1-2]@tcp", "ping junk", "ping 10.0.0.1@tcp 500"] {
        assert_ne!(type_in(&mut fake, Compat::V2_16, command).2, 0, "{command}");
    }
}

#[test]
fn a_wrong_count_of_connections_prints_no_endless_list() {
    let mut fake = Fake::new(5, 3);
    fake.peers[0].connections.insert("BULK_IN".to_owned(), u32::MAX);
    let (out, err, status) = type_in(&mut fake, Compat::V2_16, "--net tcp conn_list");
    assert_eq!((out.lines().count(), status), (1 << 18, 0));
    // The other two connections of this peer are listed too, one of them before.
    assert!(err.starts_with("4294705153 more connections are not listed"), "{err}");
}

#[test]
fn the_nearest_nid_is_of_this_node_or_on_one_of_its_nets() {
    let mut fake = Fake::new(0, 0);
    let near = "which_nid 10.9.9.9@tcp7 10.77.1.3@tcp1 10.77.0.3@tcp";
    check(&mut fake, near, "10.77.1.3@tcp1\n", "", 0);
    check(&mut fake, "which_nid 10.77.0.3@tcp 10.77.1.2@tcp1", "10.77.1.2@tcp1\n", "", 0);
    check(&mut fake, "which_nid 10.9.9.9@tcp7", "", "No reachable NID\n", 255);
}

#[test]
fn peers_and_connections_of_a_network_are_listed() {
    let mut fake = Fake::new(5, 3);
    // The real one adds buffer sizes and Nagle's algorithm, which Lustrine does not report.
    let theirs = recorded("lctl/lists.txt");
    let shortened = |line: &str| line.split(":988 ").next().unwrap().to_owned();
    let conns: Vec<String> =
        theirs.lines().filter(|line| line.ends_with(" nonagle")).map(shortened).collect();
    assert_eq!(conns.len(), 3);
    check(&mut fake, "--net tcp conn_list", &format!("{}\n", conns.join("\n")), "", 0);
    // Lustrine nodes hold no references to peers.
    let peer = theirs.lines().find(|line| line.ends_with(":988 #3")).unwrap();
    let peer = peer.replace(" [1]", " [0]") + "\n";
    check(&mut fake, "--net tcp peer_list", &peer, "", 0);
    check(&mut fake, "--net tcp9 peer_list", "<no peers>\n", "", 0);
    check(&mut fake, "--net tcp9 conn_list", "<no connections>\n", "", 0);
    let second = "12345-10.77.1.3@tcp1 [0]10.77.1.2->10.77.1.3:988 #3\n";
    check(&mut fake, "--net tcp1 peer_list", second, "", 0);
    let select = "lctl: select a network first: --net NET before the command, or network NET\n";
    check(&mut fake, "peer_list", "", select, 22);
    check(&mut fake, "--net o2ib conn_list", "", "lctl: o2ib has no such list; tcp has\n", 22);
    // It is not reported which of two interfaces it is.
    fake.nis.nets[1].nid = nid("10.77.0.5@tcp");
    let (out, _, _) = type_in(&mut fake, Compat::V2_16, "--net tcp conn_list");
    assert!(out.starts_with("12345-10.77.0.3@tcp  O[0]?->10.77.0.3\n"), "{out}");
}

#[test]
fn a_script_selects_a_network() {
    let mut fake = Fake::new(5, 3);
    let settings = settings(Compat::V2_16);
    let mut lctl = Lctl::new(&mut fake, &settings);
    let mut script = Interpreter::new(Mode::Script { ignore_errors: false });
    for line in ["network tcp1", "peer_list", "--net tcp peer_list", "peer_list"] {
        assert_eq!(script.line(&mut lctl, line), LineOutcome::Continue, "{line}");
    }
    let (out, _) = fake.said();
    let nids: Vec<&str> = out.lines().map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(nids, ["12345-10.77.1.3@tcp1", "12345-10.77.0.3@tcp", "12345-10.77.1.3@tcp1"]);
}

#[test]
fn unsupported_features_are_refused() {
    let mut fake = Fake::new(0, 0);
    for command in ["show_route", "route_list", "--net tcp route_list"] {
        check(&mut fake, command, "", "", 0);
    }
    check(&mut fake, "net_drop_list", "found total 0\n", "LNet drop rules:\n", 0);
    let old = type_in(&mut fake, Compat::V2_15, "net_delay_list");
    assert_eq!(old, ("LNet delay rules:\nfound total 0\n".to_owned(), String::new(), 0));
    for command in [
        "network up",
        "network unconfigure",
        "interface_list",
        "add_route a b c",
        "net_drop_add -s *@tcp -d *@tcp -r 2",
        "--net tcp -- --net tcp peer_list",
    ] {
        let (out, err, status) = type_in(&mut fake, Compat::V2_16, command);
        assert!(out.is_empty() && err.starts_with("lctl: ") && status != 0, "{command} {err}");
    }
    fake.trouble = Some(ToolError { errno: -100, text: "no node answers".to_owned() });
    for command in ["list_nids", "which_nid vm3", "ping vm3", "show_route", "--net tcp conn_list"] {
        check(&mut fake, command, "", "lctl: no node answers\n", 100);
    }
}

fn word() -> impl Strategy<Value = String> {
    let mut words: Vec<String> = LCTL.commands.iter().map(|one| one.name.to_owned()).collect();
    let values = ["all", "tcp", "vm3", "10.77.0.[1-9]@tcp", "0@lo", "[", "--", "-r", "7", "up", ""];
    words.extend(values.map(str::to_owned));
    prop_oneof![9 => prop::sample::select(words), 1 => any::<String>()]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// `lctl` prints whole lines and ends for any input.
    #[test]
    fn any_words_end(
        words in prop::collection::vec(word(), 0..6),
        compat in prop::sample::select(vec![Compat::V2_15, Compat::V2_16]),
    ) {
        let mut fake = Fake::new(1, 2);
        shell::run(&mut Lctl::new(&mut fake, &settings(compat)), &words, NameMatching::Exact);
        fake.said();
    }
}
