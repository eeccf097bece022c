use proptest::prelude::*;

use super::*;
use crate::nid::tests::any_nid;

fn ranges(text: &str) -> NidRanges {
    text.parse().unwrap_or_else(|e| panic!("{e}"))
}

fn matches(pattern: &str, nid: &str) -> bool {
    ranges(pattern).matches(&nid.parse().unwrap())
}

fn expand(text: &str) -> Vec<String> {
    ranges(text).expand(100).unwrap().map(|nid| nid.to_string()).collect()
}

#[test]
fn patterns_match_their_nids() {
    // [NID-5]
    for (pattern, inside, outside) in [
        ("10.0.0.1", "10.0.0.1@tcp", "10.0.0.1@tcp1"),
        ("10.0.[1-3,9].*@tcp", "10.0.9.77@tcp", "10.0.4.77@tcp"),
        ("10.0.0.[2-10/4]@tcp", "10.0.0.6@tcp", "10.0.0.8@tcp"),
        ("10.1.0.0/16@o2ib", "10.1.255.255@o2ib", "10.2.0.0@o2ib"),
        ("10.1.2.3/16@o2ib", "10.1.0.1@o2ib", "10.1.0.1@tcp"),
        ("0.0.0.0/0@tcp", "255.0.0.1@tcp", "::1@tcp"),
        ("2001:db8::/32@tcp", "2001:db8:9::1@tcp", "2001:db9::1@tcp"),
        ("2001:db8::1@tcp", "2001:db8::1@tcp", "2001:db8::2@tcp"),
        ("[1-8,0x10]@kfi", "16@kfi", "9@kfi"),
        ("*@tcp1", "::1@tcp1", "10.0.0.1@tcp"),
        ("10.0.0.1@tcp 5@gni", "5@gni", "6@gni"),
    ] {
        assert!(matches(pattern, inside), "{pattern} {inside}");
        assert!(!matches(pattern, outside), "{pattern} {outside}");
    }
    assert!(matches("*", "7@ptlf") && matches("*", "<?>"));
    assert!(!matches("*@tcp", "<?>"));
    assert!(!ranges("").matches(&Nid::LO), "an empty list matches nothing");
}

#[test]
fn patterns_are_expanded() {
    assert_eq!(
        expand("10.0.[1,2].[3-4]@tcp 7@kfi"),
        ["10.0.1.3@tcp", "10.0.1.4@tcp", "10.0.2.3@tcp", "10.0.2.4@tcp", "7@kfi"]
    );
    assert_eq!(expand("10.0.0.5/31@tcp"), ["10.0.0.4@tcp", "10.0.0.5@tcp"]);
    assert_eq!(expand("fd00::2/127@tcp"), ["fd00::2@tcp", "fd00::3@tcp"]);
    for (text, limit) in [("*@tcp", 1 << 40), ("10.*.*.*@tcp", 1000), ("::/0@tcp", u64::MAX - 1)] {
        let error = ranges(text).expand(limit).map(|_| ()).unwrap_err();
        assert_eq!(error, NidRangeError::TooManyNids(limit), "{text}");
    }
}

#[test]
fn malformed_patterns_are_refused() {
    for text in [
        "10.0.0@tcp",
        "10.0.0.0.1@tcp",
        "10.0.0.256@tcp",
        "10.0.0.[1-256]@tcp",
        "10.0.0.[3-1]@tcp",
        "10.0.0.[1-3/0]@tcp",
        "10.0.0.[1@tcp",
        "10.0.0.0/33@tcp",
        "::/129@tcp",
        "*5@kfi",
        "x@gni",
        "@tcp",
    ] {
        let error = text.parse::<NidRanges>().unwrap_err();
        assert_eq!(error, NidRangeError::BadAddress(text.to_owned()));
    }
    assert!(matches!("1@nonet".parse::<NidRange>(), Err(NidRangeError::BadNet { .. })));
    let many = "*@tcp ".repeat(RANGES_MAX + 1);
    assert_eq!(many.parse::<NidRanges>(), Err(NidRangeError::TooMany));
}

proptest! {
    #[test]
    fn a_nid_is_its_own_pattern(nid in any_nid()) {
        let text = nid.to_string();
        if nid.ip().is_some() {
            prop_assert_eq!(ranges(&text).expand(1).unwrap().collect::<Vec<_>>(), [nid]);
            prop_assert!(ranges(&text).matches(&nid));
        }
    }

    #[test]
    fn arbitrary_text_is_survived(text in "[0-9a-f:.,/@*\\[\\]tcpki -]{0,40}") {
        if let Ok(list) = text.parse::<NidRanges>()
            && let Ok(nids) = list.expand(2000)
        {
            for nid in nids {
                prop_assert!(list.matches(&nid), "{} {}", text, nid);
            }
        }
    }
}
