use proptest::prelude::*;

use super::{HostListError, host_list};

fn hosts(text: &str) -> String {
    host_list(text, 4096).unwrap_or_else(|why| panic!("{text}: {why}")).join(" ")
}

/// As `scontrol show hostnames` and `pdsh -w` expand them.
#[test]
fn slurm_and_pdsh_notation_is_expanded() {
    for (text, expanded) in [
        ("login1", "login1"),
        ("c[01-03,20],login1", "c01 c02 c03 c20 login1"),
        ("c[1-3]", "c1 c2 c3"),
        ("c[08-11]", "c08 c09 c10 c11"),
        ("c[8-11]", "c8 c9 c10 c11"),
        ("c[098-101]", "c098 c099 c100 c101"),
        ("n[1,3,5-6]-ib0", "n1-ib0 n3-ib0 n5-ib0 n6-ib0"),
        ("r[1-2]n[1-2]", "r1n1 r1n2 r2n1 r2n2"),
        ("a b\tc\nd,,e,", "a b c d e"),
        ("a,b,a,[1-2]", "a b 1 2"),
        ("c[1-5],-c[2-3]", "c1 c4 c5"),
        ("-c2,c[1-3]", "c1 c3"),
        ("10.0.0.[1-3]", "10.0.0.1 10.0.0.2 10.0.0.3"),
        ("oss-1.example.org", "oss-1.example.org"),
        ("c[7]", "c7"),
    ] {
        assert_eq!(hosts(text), expanded, "{text}");
    }
}

#[test]
fn what_is_wrong_is_named() {
    for (text, said) in [
        ("", "no hosts"),
        (" ,, ", "no hosts"),
        ("c1,-c1", "no hosts"),
        ("c[1-3", "brackets do not match"),
        ("c1-3]", "brackets do not match"),
        ("c[1[2]]", "brackets do not match"),
        ("c[]", "\"\" is not a number or range"),
        ("c[3-1]", "\"3-1\" is not a number or range"),
        ("c[1-010]", "\"1-010\" is not"),
        ("c[a-b]", "\"a-b\" is not"),
        ("c[1-]", "\"1-\" is not"),
        ("c[+1-2]", "\"+1-2\" is not"),
        ("c[1-9999999999]", "is not a number or range"),
        ("--help", "is not the name of a host"),
        (".c1", "is not the name of a host"),
        ("root@c1", "is not the name of a host"),
        ("c1;reboot", "is not the name of a host"),
        ("$(reboot)", "is not the name of a host"),
        ("c1'", "is not the name of a host"),
        ("c\u{e9}", "is not the name of a host"),
    ] {
        let why = host_list(text, 4096).expect_err(text).to_string();
        assert!(why.contains(said), "{text:?}: {why}");
    }
}

/// Such ranges take neither time nor memory.
#[test]
fn large_ranges_are_refused_before_they_are_expanded() {
    for text in [
        "c[1-999999999]",
        "c[1-4097]",
        "c[0-99][0-99][0-99][0-99][0-99][0-99][0-99][0-99][0-99][0-99][0-99]",
        "c[1-3000],d[1-3000]",
        "c1,-d[1-999999999]",
        &format!("c{}", "[0-99999999]".repeat(10_000)),
    ] {
        let why = host_list(text, 4096).expect_err("too many");
        assert!(matches!(why, HostListError::TooMany { most: 4096, .. }), "{why}");
        assert!(why.to_string().len() < 300, "{why}");
    }
    assert_eq!(host_list("c[1-4096]", 4096).map(|hosts| hosts.len()), Ok(4096));
    let long = host_list(&format!("c{}", "[1]".repeat(100_000)), 4096).expect_err("a long name");
    assert!(matches!(long, HostListError::Long(_)), "{long}");
}

/// Each of these texts would otherwise take a gibibyte or more.
#[test]
fn long_and_repeated_names_are_refused_before_they_are_expanded() {
    let long = format!("c[1-4096]{}", "x".repeat(1 << 20));
    let why = host_list(&long, 4096).expect_err("a long name");
    assert!(matches!(why, HostListError::Long(_)), "{why}");
    assert!(why.to_string().ends_with("makes a name of more than 253 characters"), "{why}");
    for text in ["c[1-1024],", "-c[1-1024],"] {
        let why = host_list(&text.repeat(87_000), 4096).expect_err("too many names");
        assert!(matches!(why, HostListError::TooMany { .. }), "{why}");
    }
    assert_eq!(hosts(&"c[1-1024],".repeat(4)), hosts("c[1-1024]"));
    assert_eq!(hosts(&"x".repeat(253)).len(), 253);
    assert!(host_list(&"x".repeat(254), 4096).is_err());
}

/// A word of a list, and the hosts that it stands for by definition.
fn word() -> impl Strategy<Value = (String, Vec<String>)> {
    let range = (0_u32..120, 0_u32..6, 1_usize..5);
    let brackets = proptest::collection::vec(range, 1..4);
    ("[a-z]{1,4}", proptest::option::of(brackets), "[a-z.]{0,1}[a-z]").prop_map(
        |(prefix, ranges, suffix)| {
            let Some(ranges) = ranges else {
                return (format!("{prefix}{suffix}"), vec![format!("{prefix}{suffix}")]);
            };
            let (mut texts, mut hosts) = (Vec::new(), Vec::new());
            for (first, more, width) in ranges {
                let low = format!("{first:0width$}");
                let width = low.len();
                let high = format!("{:0width$}", first + more);
                texts.push(if more == 0 { low } else { format!("{low}-{high}") });
                let numbers = first..=first + more;
                hosts.extend(numbers.map(|n| format!("{prefix}{n:0width$}{suffix}")));
            }
            (format!("{prefix}[{}]{suffix}", texts.join(",")), hosts)
        },
    )
}

proptest! {
    #[test]
    fn a_list_has_the_hosts_of_its_words(
        words in proptest::collection::vec(word(), 1..6),
        excluded in proptest::option::of(0_usize..6),
    ) {
        let mut text: Vec<String> = words.iter().map(|(text, _)| text.clone()).collect();
        let mut wanted: Vec<String> = Vec::new();
        for host in words.iter().flat_map(|(_, hosts)| hosts) {
            if !wanted.contains(host) {
                wanted.push(host.clone());
            }
        }
        if let Some((out, hosts)) = excluded.and_then(|index| words.get(index)) {
            text.push(format!("-{out}"));
            wanted.retain(|host| !hosts.contains(host));
        }
        let found = host_list(&text.join(","), 4096);
        match wanted.is_empty() {
            true => prop_assert_eq!(found, Err(HostListError::Empty)),
            false => prop_assert_eq!(found, Ok(wanted)),
        }
    }

    #[test]
    fn any_text_is_refused_or_gives_names_that_no_shell_interprets(
        text in "[a-c0-9,\\[\\] \\-.;$'\"(){}\n@/_]{0,40}",
    ) {
        if let Ok(hosts) = host_list(&text, 100) {
            prop_assert!((1..=100).contains(&hosts.len()));
            for host in hosts {
                prop_assert!(host.starts_with(|c: char| c.is_ascii_alphanumeric()));
                let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
                prop_assert!(host.chars().all(plain), "{}", host);
            }
        }
    }
}
