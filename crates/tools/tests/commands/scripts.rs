//! Scripts of administrators: wrappers that read the output of `lst`, and commands on its standard
//! input [TOOL-10].

use crate::support::typed::Shell;
use crate::support::{Seat, World, nid};
use lustrine_lnet::time::Nanos;
use lustrine_tools::lst::{Compat, Lst, RPC_FAILED, Settings};
use lustrine_tools::shell::{Exit, Interpreter, LineOutcome, Mode};

/// Runs a script at machine 2. Returns the lines of its standard output.
fn output(world: &mut World, script: &str) -> Vec<String> {
    let lines: Vec<String> = script.lines().map(|line| line.trim().to_owned()).collect();
    let shown = Shell::default().type_in(world, 2, &lines);
    shown.into_iter().filter(|(_, trouble)| !trouble).map(|(line, _)| line).collect()
}

/// A field of a line as awk counts.
fn field(line: &str, number: usize) -> &str {
    line.split_whitespace().nth(number - 1).unwrap()
}

/// `lnet_selftest` of a kernel node can stay stuck if its session ends while a test runs.
#[test]
fn a_batch_that_runs_is_stopped_before_the_session_ends() {
    let script = "export LST_SESSION=31415
        lst new_session hh
        lst add_group c 10.77.0.2@tcp
        lst add_group s 10.77.0.3@tcp
        lst add_batch b
        lst add_batch idle
        lst add_test --batch b --from c --to s ping
        lst run b
        lst end_session
        lst show_session";
    let script: Vec<String> = script.lines().map(|line| line.trim().to_owned()).collect();
    let shown = Shell::default().type_in(&mut World::new(), 2, &script);
    let lines: Vec<String> = shown.into_iter().map(|(line, _)| line).collect();
    let warned = "batch b was not stopped: it is stopped now, and the session ends when its \
                  clients have stopped, in 70 s at most";
    let end: Vec<&str> = lines.iter().rev().take(2).rev().map(String::as_str).collect();
    assert_eq!(end[0], warned, "{lines:#?}");
    assert!(!end[1].starts_with("hh ID:"), "the session did not end: {lines:#?}");
    assert_eq!(lines.iter().filter(|line| line.contains("was not stopped")).count(), 1);
}

/// A client that was away when the batch was stopped is told when it is back.
#[test]
fn stop_is_repeated_until_nothing_runs() {
    let mut world = World::new();
    let mut seat = world.sit_down(2);
    let settings = settings(Compat::V2_16);
    for line in [
        "new_session s",
        "add_group c 10.77.0.[2,4]@tcp",
        "add_group s 10.77.0.3@tcp",
        "add_batch b",
        "add_test --batch b --distribute 2:1 --from c --to s ping",
        "run b",
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        assert_eq!(seat.lst(&settings, &words), Exit::SUCCESS, "{}", seat.text());
    }
    seat.world.nodes.get_mut(&nid(4)).unwrap().up = false;
    assert_eq!(seat.lst(&settings, &["ping", "--group", "c", "--timeout", "10"]), RPC_FAILED);
    let back_at = seat.world.now + Nanos::from_secs(1);
    seat.world.nodes.get_mut(&nid(4)).unwrap().back_at = back_at;
    seat.world.patience = Some(20);
    seat.text();
    let exit = seat.lst(&settings, &["stop", "b"]);
    let text = seat.text();
    assert_eq!(exit, Exit::SUCCESS, "{text}");
    assert!(text.starts_with("stop batch RPC failed on 12345-10.77.0.4@tcp: "), "{text}");
    assert!(text.ends_with("1 batch in stopping\nBatch is stopped\n"), "{text}");
}

#[test]
fn a_wrapper_finds_its_values() {
    let script = "export LST_SESSION=31415
        lst new_session --timeo 100000 hh
        lst show_session
        lst add_group clients 10.77.0.[2,4]@tcp
        lst add_group servers vm3
        lst add_batch bulk_rw
        lst add_test --batch bulk_rw --concurrency 16 --distribute 2:1 --from clients \
            --to servers brw write check=simple size=1M
        lst run bulk_rw
        lst stat --rate --bw --mbs --count 1 --delay 15 clients
        lst show_error clients servers
        lst stop bulk_rw
        lst end_session";
    let output = output(&mut World::new(), &script.replace("\\\n", " "));
    let find = |start: &str| output.iter().find(|line| line.starts_with(start)).unwrap();
    assert_eq!(field(find("hh ID:"), 5), "31415");
    let mut rows = output.iter().filter(|line| line.starts_with('['));
    let mut next = |start: &str| {
        let row = rows.next().unwrap();
        assert!(row.starts_with(start), "{row}");
        field(row, 3).parse::<f64>()
    };
    assert!(next("[LNet Rates of clients]").is_err());
    assert!(next("[R]").unwrap() >= 1.0);
    assert!(next("[W]").unwrap() >= 1.0);
    assert!(next("[LNet Bandwidth of clients]").is_err());
    assert!(next("[R]").unwrap() < next("[W]").unwrap());
    let totals: Vec<&str> = output
        .iter()
        .filter(|line| line.starts_with("Total") && line.contains("nodes"))
        .map(|line| field(line, 2))
        .collect();
    assert_eq!(totals, ["0", "0"]);
    assert_eq!(output.last().unwrap(), "Batch is stopped");
}

#[test]
fn a_wrapper_sees_errors_in_the_status() {
    let mut world = World::new();
    world.nodes.get_mut(&nid(4)).unwrap().up = false;
    let script = "export LST_SESSION=1
        lst new_session s
        lst add_group g 10.77.0.[2,4]@tcp; echo rc=$?
        lst run nosuch; echo rc=$?
        lst add_group; echo rc=$?
        lst list_group; echo rc=$?";
    let lines = output(&mut world, script);
    let codes: Vec<&String> = lines.iter().filter(|line| line.starts_with("rc=")).collect();
    assert_eq!(codes, ["rc=254", "rc=255", "rc=4", "rc=0"]);
}

fn feed(seat: &mut Seat<'_>, settings: &Settings, mode: Mode, script: &str) -> Exit {
    let mut lst = Lst::new(seat, settings);
    let mut interpreter = Interpreter::new(mode);
    for line in script.lines() {
        if let LineOutcome::Quit(exit) = interpreter.line(&mut lst, line) {
            return exit;
        }
    }
    interpreter.exit()
}

fn settings(compat: Compat) -> Settings {
    Settings {
        compat,
        session: Some("77".to_owned()),
        features: None,
        whoami: "somebody-with-a-long-name@a-host.example".to_owned(),
        version: "0".to_owned(),
    }
}

#[test]
fn lines_on_the_standard_input_are_a_script() {
    let script = "# two nodes
        new_session 'night run'
        add_group \"io\" 10.77.0.[2-3]@tcp   # both
        list_group io

        run nosuch
        list_group
        quit
        list_batch";
    let mut world = World::new();
    let mut seat = world.sit_down(2);
    let settings = settings(Compat::V2_16);
    let strict = Mode::Script { ignore_errors: false };
    assert_eq!(feed(&mut seat, &settings, strict, script), Exit::FAILURE);
    let begun = "SESSION: night run FEATURES: 1 TIMEOUT: 300 FORCE: No\n\
        10.77.0.[2-3]@tcp are added to session\n\
        \tACTIVE\tBUSY\tDOWN\tUNKNOWN\tTOTAL\n\
        \t2\t0\t0\t0\t2\tio\n\
        Can't find batch in current session (no batch nosuch in the session)\n";
    assert_eq!(seat.text(), begun);
    seat.lst(&settings, &["end_session"]);
    let lax = Mode::Script { ignore_errors: true };
    assert_eq!(feed(&mut seat, &settings, lax, script), Exit::SUCCESS);
    assert_eq!(seat.text(), format!("{begun}1) io\nTotal 1 groups\n"));
}

#[test]
fn names_may_be_abbreviated_at_the_prompt() {
    let mut world = World::new();
    let mut seat = world.sit_down(2);
    let settings = settings(Compat::V2_16);
    let script = "NEW s\nlist\nLIST_B\nadd_gr g 10.77.0.3\nshow_s\nq";
    assert_eq!(feed(&mut seat, &settings, Mode::Prompt, script), Exit::FAILURE);
    let text = seat.text();
    assert!(text.starts_with("SESSION: s FEATURES: 1 TIMEOUT: 300 FORCE: No\n"), "{text}");
    let ambiguous = "lst: 'list' is ambiguous; possibilities: list-commands list_group list_batch";
    assert!(text.contains(ambiguous), "{text}");
    assert!(text.contains("1) batch\nTotal 1 batches\n10.77.0.3 are added to session\n"), "{text}");
    assert!(text.ends_with("lst: 'q' is ambiguous; possibilities: quit query\n"), "{text}");
}

#[test]
fn a_script_for_2_15_finds_its_texts() {
    let mut world = World::new();
    let mut seat = world.sit_down(2);
    let settings = settings(Compat::V2_15);
    assert_eq!(seat.lst(&settings, &["new_session"]), Exit::SUCCESS);
    assert_eq!(seat.lst(&settings, &["end_session"]), Exit::SUCCESS);
    assert_eq!(seat.lst(&settings, &["end_session"]), Exit::FAILURE);
    assert_eq!(seat.lst(&settings, &["ping"]), Exit(255));
    assert_eq!(
        seat.text(),
        "SESSION: somebody-with-a-long-name@a-hos FEATURES: 1 TIMEOUT: 300 FORCE: No\n\
         session is ended\n\
         No session exists\n\
         Usage: lst ping  [--group NAME] [--batch NAME] [--session]  [--nodes IDS]\n"
    );
    let keyless = Settings { session: None, ..settings };
    assert_eq!(seat.lst(&keyless, &["new_session"]), Exit::FAILURE);
    assert!(seat.text().starts_with("Can't find env LST_SESSION or value is not valid ("));
}
