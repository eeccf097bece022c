use proptest::prelude::*;

use super::*;

fn known(host: &str) -> Result<Ipv4Addr, String> {
    match host {
        "oss1" => Ok(Ipv4Addr::new(10, 7, 0, 1)),
        "oss2.site" => Ok(Ipv4Addr::new(10, 7, 0, 2)),
        _ => Err("no such host".to_owned()),
    }
}

fn shown(text: &str) -> String {
    match expand(text, known) {
        Ok(nids) => nids.iter().map(Nid::to_string).collect::<Vec<_>>().join(" "),
        Err(error) => error.to_string(),
    }
}

#[test]
fn expressions_stand_for_nids_in_their_order() {
    let cases = [
        ("10.7.0.4@tcp", "10.7.0.4@tcp"),
        ("10.7.0.4", "10.7.0.4@tcp"),
        ("10.7.0.[2,4]@tcp", "10.7.0.2@tcp 10.7.0.4@tcp"),
        ("10.7.0.[9,4-5]@o2ib1", "10.7.0.9@o2ib1 10.7.0.4@o2ib1 10.7.0.5@o2ib1"),
        ("10.7.0.[1-6/2]@tcp", "10.7.0.1@tcp 10.7.0.3@tcp 10.7.0.5@tcp"),
        ("10.7.[0-1].[1,2]", "10.7.0.1@tcp 10.7.0.2@tcp 10.7.1.1@tcp 10.7.1.2@tcp"),
        ("10.7.0.1@tcp[3-4]", "10.7.0.1@tcp3 10.7.0.1@tcp4"),
        ("[7-8]@kfi", "7@kfi 8@kfi"),
        ("fd77::2@tcp", "fd77::2@tcp"),
        ("oss1", "10.7.0.1@tcp"),
        ("oss1@o2ib", "10.7.0.1@o2ib"),
        ("oss[1]@tcp", "10.7.0.1@tcp"),
        ("oss2.site@tcp1", "10.7.0.2@tcp1"),
        ("oss[1-2]@tcp", "oss2@tcp: no such host"),
        ("10.7.0@tcp", "10.7.0@tcp: not an address of this network"),
        ("10.7.0.256", "10.7.0.256: not an address of this network"),
        ("oss1@kfi", "oss1@kfi: not an address of this network"),
        ("x:1@tcp", "x:1@tcp: not an address of this network"),
        ("", ": not an address of this network"),
        ("<?>", "<?> does not name a node"),
        ("10.7.0.[4-4]", "the range 4-4 is empty: its end must be above its start"),
        ("10.7.0.[1-9/0]", "a range with a stride of 0"),
        ("10.7.0.[1", "brackets that do not match"),
        ("10.7.[0-255].[0-255]", "stands for 65536 names; 16384 are allowed"),
    ];
    for (text, wanted) in cases {
        assert_eq!(shown(text), wanted, "{text:?}");
    }
    assert!(shown("10.7.0.1@nowhere").starts_with("10.7.0.1@nowhere: unknown network"));
    assert_eq!(expand("10.7.[0-63].[0-255]", known).unwrap().len() as u64, NIDS_MAX);
    assert!(shown("[0-4294967295][0-4294967295][0-9]").contains("are allowed"));
}

/// A number, or the first of a range with its length and stride.
type Item = (u8, Option<(u8, u8)>);

/// The last two bytes of an address.
fn lists() -> impl Strategy<Value = [Vec<Item>; 2]> {
    let item = (0..200u8, prop::option::of((1..50u8, 1..5u8)));
    let list = || prop::collection::vec(item.clone(), 1..5);
    (list(), list()).prop_map(|(a, b)| [a, b])
}

proptest! {
    #[test]
    fn brackets_multiply_out_as_in_the_model(lists in lists()) {
        let texts = lists.clone().map(|list| {
            let items = list.into_iter().map(|(low, range)| match range {
                None => low.to_string(),
                Some((more, 1)) => format!("{low}-{}", low + more),
                Some((more, stride)) => format!("{low}-{}/{stride}", low + more),
            });
            items.collect::<Vec<_>>().join(",")
        });
        let numbers = lists.map(|list| {
            let spans = list.into_iter().map(|(low, range)| {
                let (more, stride) = range.unwrap_or((0, 1));
                (low..=low + more).step_by(usize::from(stride))
            });
            spans.flatten().collect::<Vec<u8>>()
        });
        let mut wanted = Vec::new();
        for c in &numbers[0] {
            for d in &numbers[1] {
                wanted.push(format!("10.7.{c}.{d}@o2ib"));
            }
        }
        let text = format!("10.7.[{}].[{}]@o2ib", texts[0], texts[1]);
        prop_assert_eq!(shown(&text), wanted.join(" "), "{}", text);
    }

    #[test]
    fn any_text_is_read_or_refused(text in "[0-9a-z.@,<>?\\[\\]/:-]{0,40}|\\PC{0,40}") {
        if let Ok(nids) = expand(&text, known) {
            prop_assert!(nids.len() as u64 <= NIDS_MAX && nids.iter().all(|nid| !nid.is_any()));
        }
    }
}

#[test]
fn lists_are_split_at_commas_outside_of_brackets() {
    let list = |words: &[&str]| {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        super::list(&words, |host| Err(format!("{host} is not known")))
    };
    let nids = list(&["10.0.0.[1,3]@tcp,10.0.0.9@tcp1", "10.0.0.2"]).unwrap();
    let shown: Vec<String> = nids.iter().map(Nid::to_string).collect();
    assert_eq!(shown, ["10.0.0.1@tcp", "10.0.0.3@tcp", "10.0.0.9@tcp1", "10.0.0.2@tcp"]);
    assert_eq!(list(&[]), Ok(Vec::new()));
    for wrong in ["", "10.0.0.1@tcp,", ",", "10.0.0.[1,2@tcp,10.0.0.3@tcp", "x]"] {
        assert!(list(&[wrong]).is_err(), "{wrong}");
    }
    let many = "10.0.[0-63].[0-255]@tcp";
    assert_eq!(list(&[many]).unwrap().len() as u64, NIDS_MAX);
    assert_eq!(list(&[many, "10.0.0.1@tcp"]), Err(NidsError::TooMany));
}
