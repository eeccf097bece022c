//! Behaviour of `lst` beyond the recorded sessions: exit statuses, failures of nodes, options.

use crate::support::{Seat, World, nid};
use lustrine_tools::lst::{LST, NODE_REFUSED, RPC_FAILED, Settings};
use lustrine_tools::shell::Exit;
use proptest::prelude::*;

fn settings() -> Settings {
    Settings { session: Some("7".to_owned()), ..Settings::default() }
}

/// Runs commands, all of which must succeed. Their output is dropped.
fn prepare(seat: &mut Seat<'_>, commands: &[&str]) {
    for command in commands {
        let words: Vec<&str> = command.split_whitespace().collect();
        assert_eq!(seat.lst(&settings(), &words), Exit::SUCCESS, "{command}: {}", seat.text());
    }
    seat.text();
}

/// Runs a command. Returns its output and its exit status.
fn type_in(seat: &mut Seat<'_>, command: &str) -> (String, Exit) {
    let words: Vec<&str> = command.split_whitespace().collect();
    let exit = seat.lst(&settings(), &words);
    (seat.text(), exit)
}

#[track_caller]
fn check(seat: &mut Seat<'_>, command: &str, text: &str, exit: Exit) {
    assert_eq!(type_in(seat, command), (text.to_owned(), exit), "{command}");
}

/// A session with clients 2 and 4, server 3, and an endless test in batch `b`.
const SESSION: [&str; 5] = [
    "new_session s",
    "add_group c 10.77.0.[2,4]@tcp",
    "add_group s 10.77.0.3@tcp",
    "add_batch b",
    "add_test --batch b --from c --to s --distribute 2:1 --concurrency 8 ping",
];

#[test]
fn the_key_of_the_session_is_required() {
    let mut world = World::new();
    let mut seat = world.sit_down(2);
    prepare(&mut seat, &["new_session s"]);
    for key in [None, Some("0"), Some("abc"), Some("-1"), Some("4294967296"), Some("")] {
        let settings = Settings { session: key.map(str::to_owned), ..settings() };
        assert_eq!(seat.lst(&settings, &["list_group"]), Exit::FAILURE, "{key:?}");
        let text = seat.text();
        let start = "Can't find env LST_SESSION or value is not valid (";
        assert!(text.starts_with(start), "{key:?} {text}");
        assert_eq!(seat.lst(&settings, &["show_session"]), Exit::SUCCESS, "{key:?}");
        assert!(seat.text().contains(", KEY: 7 FEATURES: 1 NODES: 0\n"), "{key:?}");
    }
    let other = Settings { session: Some("8".to_owned()), ..settings() };
    assert_eq!(seat.lst(&other, &["end_session"]), Exit::FAILURE);
    let start = "Unmatched session key or not root (";
    assert!(seat.text().starts_with(start));
    // A session can begin without a key, as in releases from 2.16; it cannot be used.
    let none = Settings { session: None, ..settings() };
    assert_eq!(seat.lst(&none, &["new_session", "--force", "t"]), Exit::SUCCESS);
    assert!(seat.text().contains("LST_SESSION is not set"));
}

#[test]
fn unknown_features_are_refused() {
    let mut world = World::new();
    let mut seat = world.sit_down(2);
    for (mask, shown) in [("0", "0"), ("1", "1"), ("0x1", "1"), (" 0 ", "0")] {
        let settings = Settings { features: Some(mask.to_owned()), ..settings() };
        assert_eq!(seat.lst(&settings, &["new_session", "--force", "s"]), Exit::SUCCESS);
        let text = seat.text();
        assert!(text.contains(&format!("FEATURES: {shown} ")), "{mask} {text}");
    }
    for mask in ["2", "3", "x", "", "-1", "ffffffffff"] {
        let settings = Settings { features: Some(mask.to_owned()), ..settings() };
        let requests = seat.requests;
        assert_eq!(seat.lst(&settings, &["show_session"]), Exit::FAILURE, "{mask:?}");
        assert!(seat.text().starts_with("Invalid LST_FEATURES: "), "{mask:?}");
        assert_eq!(seat.requests, requests, "{mask:?}");
    }
}

#[test]
fn invalid_arguments_are_refused_before_any_request() {
    let mut world = World::new();
    let mut seat = world.sit_down(2);
    prepare(&mut seat, &SESSION);
    let requests = seat.requests;
    let usage = Exit::usage(settings().compat);
    let mistakes = [
        ("ping", usage),
        ("ping --session --group c", usage),
        ("ping --group c --server", usage),
        ("ping --nodes 10.77.0", Exit::FAILURE),
        ("update_group c", usage),
        ("update_group c --refresh --clean busy", usage),
        ("update_group c --clean sleepy", Exit::FAILURE),
        ("update_group c --remove 10.77.0.[3-2]@tcp", Exit::FAILURE),
        ("add_group g", usage),
        ("del_group c s", usage),
        ("add_test --from c ping", usage),
        ("add_test --from c --to s", usage),
        ("add_test --from c --to s --loop 0 ping", Exit::FAILURE),
        ("add_test --from c --to s --concurrency 1025 ping", Exit::FAILURE),
        ("add_test --from c --to s --distribute 0:1 ping", Exit::FAILURE),
        ("add_test --from c --to s pong", Exit::FAILURE),
        ("stat --count 0 s", Exit::FAILURE),
        ("stat --delay 0 s", Exit::FAILURE),
        ("stat", usage),
        ("query --loop 0 b", Exit::FAILURE),
        ("list_batch --test 0 b", Exit::FAILURE),
        ("new_session a-name-that-is-longer-than-31-by", Exit::FAILURE),
    ];
    for (command, exit) in mistakes {
        let (text, ended) = type_in(&mut seat, command);
        assert_eq!(ended, exit, "{command}: {text}");
        assert!((1..=2).contains(&text.lines().count()), "{command}: {text}");
    }
    assert_eq!(seat.requests, requests);
}

#[test]
fn a_node_that_fails_is_named() {
    let mut world = World::new();
    prepare(&mut world.sit_down(2), &SESSION);
    world.nodes.get_mut(&nid(4)).unwrap().up = false;
    let mut seat = world.sit_down(2);
    let silent = "Connection timed out (no reply within the RPC time-out)";
    let run = format!("Run batch RPC failed on 12345-10.77.0.4@tcp: {silent}\n");
    check(&mut seat, "run b", &run, RPC_FAILED);
    check(&mut seat, "query b", "b [0] 1 of 2 nodes are unknown, is running\n", RPC_FAILED);
    let listed = "12345-10.77.0.2@tcp [Active]: Running\n\
        12345-10.77.0.4@tcp [Down]: Interrupted system call (no reply within the RPC time-out)\n";
    check(&mut seat, "query --all b", listed, RPC_FAILED);
    check(&mut seat, "query -a b", "12345-10.77.0.2@tcp [Active]: Running\n", RPC_FAILED);
    check(&mut seat, "query --idle b", "", RPC_FAILED);
    let (text, exit) = type_in(&mut seat, "ping -g c -t 8");
    let pinged = "\t12345-10.77.0.2@tcp: Active [session: s id: 10.77.0.2@tcp]\n\
        \t12345-10.77.0.4@tcp: Down [session: <NULL> id: <?>]\n";
    let why = format!("ping RPC failed on 12345-10.77.0.4@tcp: {silent}\n");
    assert_eq!((text, exit), (format!("{pinged}{why}"), RPC_FAILED));
    let counted = "\tACTIVE\tBUSY\tDOWN\tUNKNOWN\tTOTAL\n\t1\t0\t1\t0\t2\tc\n";
    check(&mut seat, "list_group c", counted, Exit::SUCCESS);
    let down = "Group [ c ]\n\t12345-10.77.0.4@tcp: Down\nTotal 1 nodes [ c ]\n";
    check(&mut seat, "list_group --down c", down, Exit::SUCCESS);
    check(&mut seat, "list_group -b c", "Group [ c ]\nNo nodes found [ c ]\n", Exit::SUCCESS);
    let (text, exit) = type_in(&mut seat, "stat --count 1 --delay 1 --rate --avg c");
    assert!(text.starts_with("Failed to stat on 1 nodes\n[LNet Rates of c]\n"), "{text}");
    assert_eq!(exit, RPC_FAILED);
    let (text, exit) = type_in(&mut seat, "show_error c");
    let wanted = "c:\nRPC failure, can't show error on 12345-10.77.0.4@tcp (Interrupted system \
        call (no reply within the RPC time-out))\nTotal 1 error nodes in c\n";
    assert_eq!((text.as_str(), exit), (wanted, RPC_FAILED));
    let (text, exit) = type_in(&mut seat, "add_test --batch batch --from c --to s ping");
    let start = "Failed to add test: Network is down (1 of the nodes concerned is not active: ";
    assert!(text.starts_with(start), "{text}");
    assert_eq!(exit, Exit::FAILURE);
}

#[test]
fn stop_waits_until_all_nodes_have_stopped() {
    let mut world = World::new();
    let mut seat = world.sit_down(2);
    prepare(&mut seat, &SESSION);
    prepare(&mut seat, &["run b"]);
    let listed = "Batch: b Tests: 1 State: 177\n\
        \tACTIVE\tBUSY\tDOWN\tUNKNOWN\tTOTAL\n\
        client\t2\t0\t0\t0\t2\n\
        server\t1\t0\t0\t0\t1\n\
        \tTest 1(ping) (loop: -1, concurrency: 8)\n\
        \tACTIVE\tBUSY\tDOWN\tUNKNOWN\tTOTAL\n\
        client\t2\t0\t0\t0\t2\n\
        server\t1\t0\t0\t0\t1\n";
    check(&mut seat, "list_batch b", listed, Exit::SUCCESS);
    check(&mut seat, "query --test 1 b", "b [1] is running\n", Exit::SUCCESS);
    check(&mut seat, "stop b", "2 batch in stopping\nBatch is stopped\n", Exit::SUCCESS);
    check(&mut seat, "query b", "b [0] is stopped\n", Exit::SUCCESS);
    check(&mut seat, "list_batch b", &listed.replace("177", "176"), Exit::SUCCESS);
    let servers = "\t12345-10.77.0.3@tcp: Active\nTotal 1 nodes\n";
    check(&mut seat, "list_batch --all --server b", servers, Exit::SUCCESS);
    check(&mut seat, "list_batch --invalid --test 1 b", "Total 0 nodes\n", Exit::SUCCESS);
    let none = "Can't find test in current session (batch b has 1 tests, and no test 2)\n";
    check(&mut seat, "list_batch --test 2 b", none, Exit::FAILURE);
    prepare(&mut seat, &["run b"]);
    seat.world.patience = Some(0);
    check(&mut seat, "stop b", "2 batch in stopping\n", Exit::INTERRUPTED);
}

#[test]
fn groups_can_be_changed() {
    let mut world = World::new();
    let mut seat = world.sit_down(2);
    prepare(&mut seat, &["new_session s", "add_group g 10.77.0.[2-4]@tcp"]);
    prepare(&mut seat, &["update_group g --remove vm3@tcp"]);
    let two = "Group [ g ]\n\t12345-10.77.0.2@tcp: Active\n\t12345-10.77.0.4@tcp: Active\n\
        Total 2 nodes [ g ]\n";
    check(&mut seat, "list_group -l g", two, Exit::SUCCESS);
    let pinged = "\t12345-10.77.0.3@tcp: Unknown [session: <NULL> id: <?>]\n";
    check(&mut seat, "ping -n 10.77.0.3", pinged, NODE_REFUSED);
    prepare(&mut seat, &["update_group g --clean invalid", "update_group g --refresh"]);
    check(&mut seat, "list_group -l g", two, Exit::SUCCESS);
    prepare(&mut seat, &["update_group g -c active"]);
    check(&mut seat, "list_group -l g", "Group [ g ]\nNo nodes found [ g ]\n", Exit::SUCCESS);
    let exists = "group already exists (group g exists already)\n";
    check(&mut seat, "add_group g 10.77.0.2@tcp", exists, Exit::FAILURE);
    let unknown = "Can't find group in current session (no group h in the session)\n";
    let rest = "\tACTIVE\tBUSY\tDOWN\tUNKNOWN\tTOTAL\n\t0\t0\t0\t0\t0\tg\n";
    check(&mut seat, "list_group h g", &format!("{unknown}{rest}"), Exit::FAILURE);
    check(&mut seat, "del_group g", "Group is deleted\n", Exit::SUCCESS);
}

#[test]
fn nodes_can_be_removed_from_a_group() {
    let mut world = World::new();
    let mut seat = world.sit_down(2);
    prepare(&mut seat, &["new_session s"]);
    let text = "Invalid nid: 10.77.0.[2 (brackets that do not match)\n\
        Ignore invalid id list 10.77.0.[2\n\
        vm3 are added to session\n";
    check(&mut seat, "add_group g 10.77.0.[2 vm3", text, Exit::FAILURE);
    check(&mut seat, "list_group", "1) g\nTotal 1 groups\n", Exit::SUCCESS);
}

#[test]
fn nodes_with_other_features_are_reported() {
    let mut world = World::new();
    world.nodes.get_mut(&nid(3)).unwrap().features = 2;
    let mut seat = world.sit_down(2);
    prepare(&mut seat, &["new_session s"]);
    let (text, exit) = type_in(&mut seat, "add_group g 10.77.0.3@tcp");
    let start = "operation create session failed on 12345-10.77.0.3@tcp: Protocol error\n";
    assert!(text.starts_with(start) && text.contains("LST_FEATURES"), "{text}");
    assert_eq!(exit, NODE_REFUSED);
}

const NO_FIGURES: &str = "--rpc has no rates in any release; use --lnet\n";

#[test]
fn stat_continues_until_it_is_interrupted() {
    let mut world = World::new();
    let mut seat = world.sit_down(2);
    prepare(&mut seat, &SESSION);
    seat.world.patience = Some(3);
    let (text, exit) = type_in(&mut seat, "stat --rate --avg s");
    assert_eq!(text.matches("[LNet Rates of s]\n").count(), 3, "{text}");
    assert_eq!(exit, Exit::INTERRUPTED);
    let (text, exit) = type_in(&mut seat, "stat --rpc --count 1 --delay 1 s");
    assert_eq!((text.as_str(), exit), (NO_FIGURES, Exit::INTERRUPTED));
    seat.world.patience = None;
    check(&mut seat, "stat --rpc --count 1 --delay 1 s", NO_FIGURES, Exit::SUCCESS);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// `lst` prints whole lines and ends for any input in a session.
    #[test]
    fn any_commands_end(
        commands in prop::collection::vec(
            (
                0..LST.commands.len(),
                prop::collection::vec(
                    prop_oneof![
                        Just("c"), Just("s"), Just("b"), Just("x"), Just("10.77.0.[2-4]"),
                        Just("vm9"), Just("--all"), Just("--test"), Just("1"), Just("brw"),
                        Just("ping"), Just("--batch"), Just("--from"), Just("--to"), Just("-f"),
                        Just("--force"), Just("--clean"), Just("invalid"), Just("--session"),
                        Just("--nodes"), Just("--loop"), Just("2"), Just("--count=1"),
                    ],
                    0..6,
                ),
            ),
            1..6,
        ),
    ) {
        let mut world = World::new();
        let mut seat = world.sit_down(2);
        prepare(&mut seat, &SESSION);
        seat.world.patience = Some(20);
        for (command, words) in commands {
            let mut line = vec![LST.commands[command].name];
            line.extend(words);
            let exit = seat.lst(&settings(), &line);
            let known = [0, 4, 130, 253, 254, 255];
            prop_assert!(known.contains(&exit.0), "{line:?} {exit:?}");
        }
    }
}
