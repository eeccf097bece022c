use super::*;

fn counters(values: &[(&str, u64)]) -> Counters {
    Counters::from_map(&values.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect())
}

#[test]
fn lines_have_the_layout_of_the_real_tool() {
    let first = counters(&[
        ("msgs_max", 17),
        ("send_count", 560),
        ("send_length", 90_112),
        ("recv_count", 571),
        ("recv_length", 4_194_304),
    ]);
    assert_eq!(first.totals(), "M 0(17) E 0 S 90112/560 R 4194304/571 F 0/0 D 0/0\n");
    let second = counters(&[
        ("msgs_max", 17),
        ("send_count", 560 + 1024),
        ("send_length", 90_112 + 167_772),
        ("recv_count", 571 + 1040),
        ("recv_length", 4_194_304 + (64 << 20)),
    ]);
    let wanted = "M   0( 17) E 0 S    0.08/   512 R   32.00/   520 F    0.00/     0 D 0.00/0\n";
    assert_eq!(second.rates(&first, Duration::from_secs(2)), wanted);
}

#[test]
fn a_node_that_was_started_again_counts_from_0() {
    let before = counters(&[("send_count", 1000), ("errors", 5), ("drop_length", u64::MAX)]);
    let after = counters(&[("send_count", 30), ("errors", 1), ("drop_length", 1 << 20)]);
    let wanted = "M   0(  0) E 1 S    0.00/     3 R    0.00/     0 F    0.00/     0 D 0.10/0\n";
    assert_eq!(after.rates(&before, Duration::from_secs(10)), wanted);
    // No time has passed: the rate must not divide by it.
    assert!(!after.rates(&before, Duration::ZERO).contains("inf"));
}
