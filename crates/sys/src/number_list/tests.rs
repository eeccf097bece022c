use proptest::prelude::*;

use super::{BadList, NUMBER_MAX, parse};

#[test]
fn the_forms_of_the_kernel_and_of_lnet_are_read() {
    assert_eq!(parse("0"), Ok(vec![0]));
    assert_eq!(parse("0-3,8\n"), Ok(vec![0, 1, 2, 3, 8]));
    assert_eq!(parse(" 4 , 1-2 "), Ok(vec![1, 2, 4]));
    assert_eq!(parse("0-7/3"), Ok(vec![0, 3, 6]));
    assert_eq!(parse("3,1-3,2"), Ok(vec![1, 2, 3]), "each once");
    assert_eq!(parse("65535"), Ok(vec![NUMBER_MAX]));
}

#[test]
fn everything_else_is_refused() {
    for bad in [
        "",
        " ",
        ",",
        "1,",
        "a",
        "-1",
        "+1",
        "1-",
        "3-2",
        "0-4/0",
        "0-4/",
        "1 2",
        "0x1",
        "65536",
        "0-99999999999",
        "1--2",
        "1-2-3",
    ] {
        assert_eq!(parse(bad), Err(BadList), "{bad:?}");
    }
}

#[test]
fn repeating_the_longest_range_does_not_cost_memory() {
    let text = vec!["0-65535"; 50].join(",");
    let numbers = parse(&text).unwrap();
    assert_eq!(numbers.len(), NUMBER_MAX as usize + 1);
    assert!(numbers.capacity() <= 4 * numbers.len());
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_set_written_as_text_is_read_back(
        set in prop::collection::btree_set(0..=NUMBER_MAX, 1..40),
    ) {
        let text = set.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
        prop_assert_eq!(parse(&text), Ok(set.into_iter().collect()));
    }

    #[test]
    fn any_text_is_parsed_without_panic(text in "[0-9,/ -]{0,30}") {
        if let Ok(numbers) = parse(&text) {
            prop_assert!(numbers.is_sorted_by(|a, b| a < b) && !numbers.is_empty());
        }
    }
}
