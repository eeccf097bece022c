//! Recorded sessions of the real `lst`, repeated with Lustrine's: the output is the same, except
//! for the differences listed here. `testdata/lst/README.md` says where the recordings are from.

use std::path::Path;

use crate::support::typed::{Line, Shell, blocks};
use crate::support::{World, nid};

/// Intended differences, in the order of the session.
struct Difference<'a> {
    why: &'a str,
    theirs: &'a [&'a str],
    ours: &'a [&'a str],
}

fn read(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/lst").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Repeats a session and compares the output.
fn play(world: &mut World, name: &str, differences: &[Difference<'_>]) {
    let mut differences = differences.iter().peekable();
    for block in blocks(&read(name)) {
        let shown = Shell::default().type_in(world, block.machine, &block.typed);
        let ours: Vec<String> = shown.iter().map(plain).collect();
        let mut wanted: Vec<String> = Vec::new();
        let mut theirs = &block.shown[..];
        while let Some((first, rest)) = theirs.split_first() {
            if let Some(difference) = differences.next_if(|next| theirs.starts_with_lines(next)) {
                wanted.extend(difference.ours.iter().map(|line| (*line).to_owned()));
                theirs = &theirs[difference.theirs.len()..];
                continue;
            }
            wanted.push(plain(&(first.clone(), false)));
            theirs = rest;
        }
        let place = wanted.iter().zip(&ours).take_while(|(theirs, ours)| theirs == ours).count();
        assert!(
            wanted == ours,
            "{name}, machine {}, line {place}:\n{:?} wanted\n{:?} found\n{:#?}",
            block.machine,
            wanted.get(place),
            ours.get(place),
            ours,
        );
    }
    if let Some(left) = differences.next() {
        panic!("{name}: no such difference: {:?} ({})", left.theirs, left.why);
    }
}

trait StartsWithLines {
    fn starts_with_lines(&self, difference: &Difference<'_>) -> bool;
}

impl StartsWithLines for &[String] {
    fn starts_with_lines(&self, difference: &Difference<'_>) -> bool {
        let theirs = difference.theirs;
        self.len() >= theirs.len() && self.iter().zip(theirs).all(|(line, their)| line == their)
    }
}

/// A line without what differs from run to run: the values of `stat`, whose columns are kept, and
/// the time stamp of a session. In Lustrine's output also without its additions to the original
/// texts, in parentheses at the end of error lines; and errnos of kernels are replaced by their
/// texts.
fn plain((line, trouble): &Line) -> String {
    let mut line = line.replace("Unknown error -110", "Connection timed out");
    if *trouble && line.ends_with(')') {
        let start = line.find(" (").unwrap();
        // The kind of a test is in parentheses in the original texts, too.
        if !line.starts_with("Failed to add test (") {
            line.truncate(start);
        }
    }
    if line.starts_with("[R] ") || line.starts_with("[W] ") {
        return without_figures(&line);
    }
    if let Some((name, rest)) = line.split_once(" ID: ") {
        let (stamp, rest) = rest.split_once('@').unwrap();
        assert!(stamp.bytes().all(|byte| byte.is_ascii_digit()), "{line}");
        return format!("{name} ID: #@{rest}");
    }
    line
}

fn without_figures(line: &str) -> String {
    let mut parts = line.split(": ");
    let mut plain = parts.next().unwrap().to_owned();
    for part in parts {
        let (value, unit) = part.split_at(8);
        let digits = value.trim_end();
        let decimals = digits.split_once('.').map_or(0, |(_, decimals)| decimals.len());
        assert!(digits.parse::<f64>().is_ok(), "{line}");
        assert_eq!(decimals, if unit.starts_with(" RPC/s") { 0 } else { 2 }, "{line}");
        plain += &format!(": ########{unit}");
    }
    plain
}

const LISTED_WRONGLY: &str = "2.16 and later confuse the forms of list_group";
const NO_SESSION_PING: &str = "ping --session fails in 2.16 and later";
const NOISE: &str = "what the kernel interface says of itself";
const TOO_FEW: &str =
    "it queries and reports as many nodes as there are groups, and invents the others";

#[test]
fn a_full_session_matches_the_recording() {
    let differences = [
        Difference {
            why: LISTED_WRONGLY,
            theirs: &["\t1\t0\t0\t0\t1\t(null)"],
            ours: &["\tACTIVE\tBUSY\tDOWN\tUNKNOWN\tTOTAL", "\t1\t0\t0\t0\t1\tclients"],
        },
        Difference {
            why: LISTED_WRONGLY,
            theirs: &[
                "\tACTIVE\tBUSY\tDOWN\tUNKNOWN\tTOTAL",
                "Group [ clients ]",
                "No nodes found [ clients ]",
                "Group [ (null) ]",
                "\t12345-10.77.0.2@tcp: Active",
                "Total 1 nodes [ (null) ]",
            ],
            ours: &[
                "Group [ clients ]",
                "\t12345-10.77.0.2@tcp: Active",
                "Total 1 nodes [ clients ]",
            ],
        },
        Difference {
            why: LISTED_WRONGLY,
            theirs: &[
                "\tACTIVE\tBUSY\tDOWN\tUNKNOWN\tTOTAL",
                "Group [ servers ]",
                "No nodes found [ servers ]",
                "Group [ (null) ]",
                "\t12345-10.77.0.3@tcp: Active",
                "Total 1 nodes [ (null) ]",
            ],
            ours: &[
                "Group [ servers ]",
                "\t12345-10.77.0.3@tcp: Active",
                "Total 1 nodes [ servers ]",
            ],
        },
        Difference {
            why: NO_SESSION_PING,
            theirs: &["Failed to get count of nodes from session: Operation not supported"],
            ours: &[
                "\t12345-10.77.0.2@tcp: Active [session: demo id: 10.77.0.2@tcp]",
                "\t12345-10.77.0.3@tcp: Active [session: demo id: 10.77.0.2@tcp]",
            ],
        },
        Difference {
            why: TOO_FEW,
            theirs: &["\tLNET_PID_ANY-<?>: Unknown [session: <NULL> id: <?>]"],
            ours: &[],
        },
        Difference {
            why: "stat accepts no NIDs in 2.16 and later",
            theirs: &["Can't find stat in current session"],
            ours: &[
                "[LNet Rates of servers]",
                "[R] Max: ######## RPC/s",
                "[W] Max: ######## RPC/s",
                "[LNet Bandwidth of servers]",
                "[R] Max: ######## MiB/s ",
                "[W] Max: ######## MiB/s ",
                "[LNet Rates of 10.77.0.2@tcp]",
                "[R] Max: ######## RPC/s",
                "[W] Max: ######## RPC/s",
                "[LNet Bandwidth of 10.77.0.2@tcp]",
                "[R] Max: ######## MiB/s ",
                "[W] Max: ######## MiB/s ",
                "[LNet Rates of servers]",
                "[R] Max: ######## RPC/s",
                "[W] Max: ######## RPC/s",
                "[LNet Bandwidth of servers]",
                "[R] Max: ######## MiB/s ",
                "[W] Max: ######## MiB/s ",
                "[LNet Rates of 10.77.0.2@tcp]",
                "[R] Max: ######## RPC/s",
                "[W] Max: ######## RPC/s",
                "[LNet Bandwidth of 10.77.0.2@tcp]",
                "[R] Max: ######## MiB/s ",
                "[W] Max: ######## MiB/s ",
            ],
        },
        Difference {
            why: NOISE,
            theirs: &["Reader error: 'session is not active' at 0"],
            ours: &[],
        },
        Difference {
            why: "how the laboratory notes that the last command failed",
            theirs: &["(exit status 255)"],
            ours: &[],
        },
    ];
    play(&mut World::new(), "lst_full_session.txt", &differences);
}

#[test]
fn errors_match_the_recording() {
    const LOST: &str = "the refused new_session ended the session";
    let reader = "Reader error: 'Object not found' at 0";
    let none = "No session exists";
    let differences = [
        Difference { why: NOISE, theirs: &[reader], ours: &[none] },
        Difference {
            why: "the kernel interface's own words, and the wrong errno",
            theirs: &[
                "Reader error: 'new session creation failed' at 0",
                "Failed to create session: Operation not supported",
            ],
            ours: &["session already exists"],
        },
        Difference {
            why: LOST,
            theirs: &[none],
            ours: &[
                "create session RPC failed on 12345-10.77.0.99@tcp: Connection timed out",
                "No nodes added successfully, deleting group g",
                "Group is deleted",
            ],
        },
        Difference {
            why: LOST,
            theirs: &[none],
            ours: &[
                "Invalid nid: nonsense",
                "Ignore invalid id list nonsense",
                "No nodes added successfully, deleting group g",
                "Group is deleted",
            ],
        },
        // add_batch
        Difference { why: LOST, theirs: &[none], ours: &[] },
        Difference {
            why: LOST,
            theirs: &["Failed to get count of nodes from b: No such process"],
            ours: &["Invalid parameters list in command line: batch b has no tests"],
        },
        Difference {
            why: LOST,
            theirs: &["Failed to get count of nodes from nosuch: No such process"],
            ours: &["Can't find batch in current session"],
        },
        Difference {
            why: LOST,
            theirs: &["Failed to get count of nodes from nosuch: No such process"],
            ours: &["Can't find batch in current session"],
        },
        Difference {
            why: LOST,
            theirs: &["Failed to query batch: No such process"],
            ours: &["Can't find batch in current session"],
        },
        // add_test
        Difference {
            why: LOST,
            theirs: &[reader, reader, none],
            ours: &["Can't find test in current session"],
        },
        // add_group
        Difference { why: LOST, theirs: &[none], ours: &["10.77.0.3@tcp are added to session"] },
        // add_test
        Difference {
            why: LOST,
            theirs: &[reader, reader, none],
            ours: &["Can't find test in current session"],
        },
        // stat
        Difference {
            why: LOST,
            theirs: &[reader, none],
            ours: &["Can't find nosuch in current session"],
        },
        Difference {
            why: LOST,
            theirs: &[reader, none],
            ours: &["Can't find nosuch in current session"],
        },
    ];
    play(&mut World::new(), "lst_errors.txt", &differences);
}

#[test]
fn pings_from_a_third_machine_match_the_recording() {
    play(&mut World::new(), "c00_session_console_vm4_ping.txt", &[]);
}

#[test]
fn bulk_tests_and_pings_match_the_recording() {
    let differences = [
        Difference {
            why: LISTED_WRONGLY,
            theirs: &[
                "\t1\t0\t0\t0\t1\t(null)",
                "\tACTIVE\tBUSY\tDOWN\tUNKNOWN\tTOTAL",
                "Group [ srv ]",
                "No nodes found [ srv ]",
                "Group [ (null) ]",
                "\t12345-10.77.0.3@tcp: Active",
                "Total 1 nodes [ (null) ]",
            ],
            ours: &[
                "\tACTIVE\tBUSY\tDOWN\tUNKNOWN\tTOTAL",
                "\t1\t0\t0\t0\t1\tcli",
                "Group [ srv ]",
                "\t12345-10.77.0.3@tcp: Active",
                "Total 1 nodes [ srv ]",
            ],
        },
        Difference {
            why: NO_SESSION_PING,
            theirs: &["Failed to get count of nodes from session: Operation not supported"],
            ours: &[
                "\t12345-10.77.0.2@tcp: Active [session: mix id: 10.77.0.4@tcp]",
                "\t12345-10.77.0.3@tcp: Active [session: mix id: 10.77.0.4@tcp]",
            ],
        },
    ];
    play(&mut World::new(), "c01_session_console_vm4_brw_mix.txt", &differences);
}

#[test]
fn a_node_without_selftest_matches_the_recording() {
    let differences = [
        Difference {
            why: LISTED_WRONGLY,
            theirs: &["\tACTIVE\tBUSY\tDOWN\tUNKNOWN\tTOTAL"],
            ours: &["Can't find group in current session"],
        },
        Difference {
            why: NO_SESSION_PING,
            theirs: &["Failed to get count of nodes from session: Operation not supported"],
            ours: &["\t12345-10.77.0.4@tcp: Active [session: one id: 10.77.0.2@tcp]"],
        },
    ];
    let mut world = World::new();
    world.nodes.get_mut(&nid(3)).unwrap().up = false;
    play(&mut world, "c02_session_errors.txt", &differences);
}

#[test]
fn two_consoles_with_one_node_match_the_recording() {
    play(&mut World::new(), "c03_session_conflict.txt", &[]);
}

#[test]
fn a_server_with_wrong_data_matches_the_recording() {
    let mut world = World::new();
    world.nodes.get_mut(&nid(2)).unwrap().corrupt = true;
    play(&mut world, "c52_brw_injected_errors.txt", &[]);
}

#[test]
fn two_clients_of_one_server_match_the_recording() {
    play(&mut World::new(), "c53_distribute_2clients_2servers.txt", &[]);
}

#[test]
fn addresses_that_do_not_fit_match_the_recording() {
    let reader = "Reader error: 'Object not found' at 0";
    let differences = [
        Difference { why: NOISE, theirs: &[reader, reader], ours: &[] },
        Difference { why: NOISE, theirs: &[reader, reader], ours: &[] },
        Difference {
            why: "our console does not start a batch without tests",
            theirs: &["bt is running now"],
            ours: &["Invalid parameters list in command line: batch bt has no tests"],
        },
        Difference { why: NOISE, theirs: &[reader, reader], ours: &[] },
    ];
    play(&mut World::new(), "e5_ipv6_lst.txt", &differences);
}

#[test]
fn all_commands_are_listed_in_their_order() {
    let mut world = World::new();
    let mut seat = world.sit_down(2);
    seat.lst(&lustrine_tools::lst::Settings::default(), &["--list-commands"]);
    assert_eq!(seat.text(), read("list_commands.txt"));
}
