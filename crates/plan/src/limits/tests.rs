use super::*;
use crate::compare::tests::run;

#[test]
fn limits_are_read_with_their_units() {
    let read = |text| Limit::parse(text).expect("a limit");
    let limit = read("read 1M c8>=9GiB/s");
    assert_eq!((limit.test, limit.size), (Some(TestKind::Read), Some(1 << 20)));
    assert_eq!((limit.concurrency, limit.metric, limit.value), (Some(8), Metric::MibPerS, 9216.0));
    assert_eq!(read("ping >= 10000 ops/s").metric, Metric::OpsPerS);
    assert_eq!(read("write >= 8.388608 Mb/s").value, 1.0);
    let limit = Limit::parse("p99.9  <= 2.5 ms").expect("a limit");
    assert_eq!(
        (limit.metric, limit.value, limit.text.as_str()),
        (Metric::P999, 2500.0, "p99.9 <= 2.5 ms")
    );
    let limit = Limit::parse("errors <= 0").expect("a limit");
    assert_eq!((limit.metric, limit.value), (Metric::Errors, 0.0));
}

#[test]
fn what_is_wrong_is_said_with_a_suggestion() {
    for (text, said) in [
        ("reed >= 9 GiB/s", "did you mean \"read\"?"),
        ("read >= 9 GiB/S", "did you mean \"GiB/s\"?"),
        ("read >= 9", "the number has no unit; it may be KiB/s"),
        ("ping >= 9 MiB/s", "may be /s, ops/s"),
        ("read = 9 GiB/s", "a limit needs >= or <="),
        ("read > 9 GiB/s", "a limit needs >= or <="),
        ("p99", "a limit needs >= or <="),
        ("p99 <= fast", "\"fast\" does not begin with a number"),
        ("p99 p50 <= 2 ms", "\"p50\" repeats or contradicts"),
        ("c8 >= 9 GiB/s", "the limit names no value"),
        ("errors <= 0 ms", "errors have no unit"),
        ("weather <= 0 ms", "a size such as 1M"),
        ("p99 <= 1.2.3 ms", "does not begin with a number"),
    ] {
        let error = Limit::parse(text).expect_err(text);
        assert!(error.contains(said), "{text}: {error}");
    }
}

#[test]
fn the_largest_value_of_the_selected_lines_counts() {
    let results = run(&[(1, &[100.0]), (8, &[900.0, 1000.0, 1100.0])]);
    let check = |text| Limit::parse(text).expect("a limit").check("now", &results);
    let checked = check("read >= 990 MiB/s");
    assert!(checked.met, "{checked:?}");
    let checked = check("read >= 1250 MiB/s");
    assert_eq!(
        checked.sentence,
        "now: read >= 1250 MiB/s: not met, read 4k c8 has 1,000 MiB/s, 20.0 % below the limit; \
         the largest of 2 lines"
    );
    assert!(check("read >= 0.1 MiB/s").sentence.contains(", 999,900 % above the limit"));
    let checked = check("read >= 1050 MiB/s");
    assert!(!checked.met && checked.sentence.contains("within the range of the 3 repetitions"));
    let checked = check("read c1 >= 990 MiB/s");
    assert!(!checked.met && checked.sentence.contains("one sample"), "{checked:?}");
    let checked = check("p99 c8 <= 2 ms");
    assert!(checked.met && checked.value == Some(1000.0), "{checked:?}");
    assert!(check("errors <= 0").met);
}

#[test]
fn nothing_measured_and_an_early_end_hold_no_limit() {
    let mut results = run(&[(1, &[100.0])]);
    let limit = Limit::parse("write >= 0 MiB/s").expect("a limit");
    let checked = limit.check("now", &results);
    assert!(!checked.met && checked.sentence.contains("no line measures it"), "{checked:?}");
    let limit = Limit::parse("read >= 1 MiB/s").expect("a limit");
    assert!(limit.check("now", &results).met);
    results.end = End::Interrupted { interrupted: true };
    let checked = limit.check("now", &results);
    assert!(!checked.met && checked.sentence.contains("ended early"), "{checked:?}");
}

/// The median of the repetitions would hide what happened in one of them.
#[test]
fn errors_of_all_repetitions_count_and_what_is_missing_meets_no_limit() {
    let good = || run(&[(8, &[900.0, 1000.0, 1100.0])]);
    let check =
        |results: &Results, text| Limit::parse(text).expect("a limit").check("now", results);
    let mut results = good();
    results.points[2].rows[0].all.errors = 500;
    results.points[1].rows[0].all.errors = 7;
    let checked = check(&results, "errors <= 500");
    assert_eq!(
        checked.sentence,
        "now: errors <= 500: not met, read 4k c8 has 507 errors, 1.40 % above the limit"
    );
    assert!(check(&results, "errors <= 507").met);

    let mut results = good();
    results.points[1].rows[0].by_client.clear();
    let checked = check(&results, "read >= 1 MiB/s");
    assert!(!checked.met);
    assert_eq!(
        checked.sentence,
        "now: read >= 1 MiB/s: not met, because read 4k c8 was measured in 2 of 3 repetitions"
    );
    // All operations of a repetition failed, so that it has no latency.
    let mut results = good();
    results.points[1].rows[0].all.latency_us = None;
    assert!(!check(&results, "p99 <= 2 ms").met);
    assert!(check(&results, "read >= 1 MiB/s").met);
    results.points[1].rows[0].lost = vec!["10.0.0.7@tcp".parse().expect("a NID")];
    for text in ["read >= 1 MiB/s", "errors <= 0"] {
        let checked = check(&results, text);
        assert!(!checked.met);
        let why = "not met, because read 4k c8 is without 10.0.0.7@tcp: no answer";
        assert_eq!(checked.sentence, format!("now: {text}: {why}"));
    }
}

/// Kernel clients of several tests report neither rates nor errors.
#[test]
fn what_clients_do_not_report_meets_no_limit() {
    let check =
        |results: &Results, text| Limit::parse(text).expect("a limit").check("now", results);
    let mut results = run(&[(8, &[900.0, 1000.0])]);
    results.points[0].rows[0].silent = 2;
    for text in ["read >= 1 MiB/s", "errors <= 0"] {
        let why = "not met, because read 4k c8 is without 2 of its clients, which report no \
                   statistics";
        assert_eq!(check(&results, text).sentence, format!("now: {text}: {why}"));
    }
    let mut results = run(&[(1, &[100.0]), (8, &[900.0, 1000.0])]);
    for measured in [1, 0] {
        results.points[1 + measured].rows[0].by_client.clear();
        let checked = check(&results, "errors <= 0");
        let why = format!("read 4k c8 was measured in {measured} of 2 repetitions");
        assert_eq!(checked.sentence, format!("now: errors <= 0: not met, because {why}"));
    }
}
