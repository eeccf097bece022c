use proptest::prelude::*;

use super::*;

fn values(text: &str) -> Vec<String> {
    Dimension::parse(text).unwrap().steps.into_iter().map(|step| step.join(":")).collect()
}

#[test]
fn lists_ranges_and_linked_names() {
    assert_eq!(values("peer_credits=8,32,64"), ["8", "32", "64"]);
    assert_eq!(values("x=1..4"), ["1", "2", "3", "4"]);
    assert_eq!(values("x=1..256*4"), ["1", "4", "16", "64", "256"]);
    assert_eq!(values("x=3..20*2"), ["3", "6", "12"]);
    assert_eq!(values("delay=10..30+10 ms"), ["10 ms", "20 ms", "30 ms"]);
    assert_eq!(values("delay=0.5..1+0.25 ms, 2 s"), ["0.5 ms", "0.75 ms", "1 ms", "2 s"]);
    assert_eq!(values("spread=1:1,1:2,all"), ["1:1", "1:2", "all"]);
    let axis = Dimension::parse("peer_credits,credits=8:64,32:1024").unwrap();
    assert_eq!(axis.names, ["peer_credits", "credits"]);
    assert_eq!(axis.steps, [["8", "64"], ["32", "1024"]]);
}

#[test]
fn a_malformed_sweep_gets_a_message_with_an_example() {
    for (text, words) in [
        ("peer_credits", "no '='"),
        ("=1", "a name is missing"),
        ("x=", "a value is missing"),
        ("x=1,,2", "a value is missing"),
        ("x=4..1", "ends before it begins"),
        ("x=1..4+0", "never ends"),
        ("x=1..4*1", "never ends"),
        ("x=0..4*2", "never ends"),
        ("x=a..b", "is not a range"),
        ("x=1..1000000", "more than 1000 values"),
        ("a,b=1:2,3", "does not have one value for each of the 2 names"),
    ] {
        let said = Dimension::parse(text).unwrap_err().to_string();
        assert!(said.contains(words) && said.contains("examples are"), "{text}: {said}");
    }
    let said = Sweep::parse(["a=1,2", "a=3"]).unwrap_err().to_string();
    assert_eq!(said, "a is varied twice; give its values once");
    let said = Sweep::parse(["a=1..1000", "b=1..1000"]).unwrap_err().to_string();
    assert!(said.starts_with("1000 x 1000 combinations are too many; allowed: 10000"), "{said}");
}

#[test]
fn the_last_name_varies_fastest() {
    let sweep = Sweep::parse(["a,b=1:2,3:4", "c=5,6"]).unwrap();
    assert_eq!((sweep.len(), sweep.names()), (4, vec!["a", "b", "c"]));
    let words = |index| {
        let point = sweep.point(index);
        point.iter().map(|o| format!("{}={}", o.name, o.value)).collect::<Vec<_>>().join(" ")
    };
    let all: Vec<_> = (0..4).map(words).collect();
    assert_eq!(all, ["a=1 b=2 c=5", "a=1 b=2 c=6", "a=3 b=4 c=5", "a=3 b=4 c=6"]);
    assert_eq!(sweep.point(3)[2].origin, "--vary c=6");
}

proptest! {
    #[test]
    fn nothing_panics_or_hangs(text in "[a-z,]{0,4}=[0-9.:+*, a-z]{0,24}", any in ".{0,40}") {
        let _ = Dimension::parse(&text);
        let _ = Dimension::parse(&any);
    }
}
