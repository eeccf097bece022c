use super::*;
use crate::compare::tests::run;

#[test]
fn limits_are_read_with_their_units() {
    let read = |text| Limit::parse(text, Sense::AtLeast).expect("a limit");
    let limit = read("read 1M c8>=9GiB/s");
    assert_eq!((limit.test, limit.size), (Some(TestKind::Read), Some(1 << 20)));
    assert_eq!((limit.concurrency, limit.metric, limit.value), (Some(8), Metric::MibPerS, 9216.0));
    assert_eq!(read("ping >= 10000 ops/s").metric, Metric::OpsPerS);
    assert_eq!(read("write >= 8.388608 Mb/s").value, 1.0);
    let limit = Limit::parse("p99.9  <= 2.5 ms", Sense::AtMost).expect("a limit");
    assert_eq!(
        (limit.metric, limit.value, limit.text.as_str()),
        (Metric::P999, 2500.0, "p99.9 <= 2.5 ms")
    );
    let limit = Limit::parse("errors <= 0", Sense::AtMost).expect("a limit");
    assert_eq!((limit.metric, limit.value), (Metric::Errors, 0.0));
}

#[test]
fn what_is_wrong_is_said_with_a_suggestion() {
    for (text, sense, said) in [
        ("reed >= 9 GiB/s", Sense::AtLeast, "did you mean \"read\"?"),
        ("read >= 9 GiB/S", Sense::AtLeast, "did you mean \"GiB/s\"?"),
        ("read >= 9", Sense::AtLeast, "the number has no unit; it may be KiB/s"),
        ("ping >= 9 MiB/s", Sense::AtLeast, "may be /s, ops/s"),
        ("read <= 9 GiB/s", Sense::AtLeast, "--fail-below takes what must be reached, with >="),
        ("p99 >= 9 ms", Sense::AtMost, "--fail-above takes what must not be exceeded"),
        ("p99", Sense::AtMost, "there is no <="),
        ("p99 <= fast", Sense::AtMost, "\"fast\" does not begin with a number"),
        ("p99 p50 <= 2 ms", Sense::AtMost, "\"p50\" is one word too many"),
        ("c8 >= 9 GiB/s", Sense::AtLeast, "it does not say of what"),
        ("errors <= 0 ms", Sense::AtMost, "errors have no unit"),
        ("weather <= 0 ms", Sense::AtMost, "a size such as 1M"),
        ("p99 <= 1.2.3 ms", Sense::AtMost, "does not begin with a number"),
    ] {
        let error = Limit::parse(text, sense).expect_err(text);
        assert!(error.contains(said), "{text}: {error}");
    }
}

#[test]
fn the_largest_value_of_the_selected_lines_counts() {
    let results = run(&[(1, &[100.0]), (8, &[900.0, 1000.0, 1100.0])]);
    let check = |text, sense| Limit::parse(text, sense).expect("a limit").check("now", &results);
    let checked = check("read >= 990 MiB/s", Sense::AtLeast);
    assert!(checked.held, "{checked:?}");
    let checked = check("read >= 1250 MiB/s", Sense::AtLeast);
    assert_eq!(
        checked.sentence,
        "now: read >= 1250 MiB/s: not held, read 4k c8 has 1,000 MiB/s, 20.0 % below the limit; \
         the largest of 2 lines"
    );
    let checked = check("read >= 1050 MiB/s", Sense::AtLeast);
    assert!(!checked.held && checked.sentence.contains("within the range of the 3 repetitions"));
    let checked = check("read c1 >= 990 MiB/s", Sense::AtLeast);
    assert!(!checked.held && checked.sentence.contains("one sample"), "{checked:?}");
    let checked = check("p99 c8 <= 2 ms", Sense::AtMost);
    assert!(checked.held && checked.value == Some(1000.0), "{checked:?}");
    assert!(check("errors <= 0", Sense::AtMost).held);
}

#[test]
fn nothing_measured_and_an_early_end_hold_no_limit() {
    let mut results = run(&[(1, &[100.0])]);
    let limit = Limit::parse("write >= 0 MiB/s", Sense::AtLeast).expect("a limit");
    let checked = limit.check("now", &results);
    assert!(!checked.held && checked.sentence.contains("no line measures it"), "{checked:?}");
    let limit = Limit::parse("read >= 1 MiB/s", Sense::AtLeast).expect("a limit");
    assert!(limit.check("now", &results).held);
    results.end = End::Interrupted { interrupted: true };
    let checked = limit.check("now", &results);
    assert!(!checked.held && checked.sentence.contains("ended early"), "{checked:?}");
}
