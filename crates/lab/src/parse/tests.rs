use core::net::Ipv4Addr;

use crate::link::{Hashing, Order};

use super::*;

const WHOLE: &str = "\
# All keys there are.
name: whole
seed: 7
sysctl: { net.ipv4.tcp_rmem: 4096 131072 134217728 }
hosts:
  east:
    sysctl: { net.ipv4.tcp_congestion_control: bbr }
  west: {}
links:
  - between: [east, west]
    rate: 10 Gb/s
    delay: 25.25 ms
    queue: 64 MiB
    loss: 0.001 %
    jitter: 100 us
    order: free
    drop_above: 1500 B
    parallel: 2
    hashing: hosts
    mtu: 9000
    addresses: [10.1.0.1, 10.1.0.2]
    forward: { delay: 30 ms }
    back: { rate: unlimited, loss: 0 % }
  - between: [west, east]
    rate: 1 Gb/s
    delay: 50 ms
routes:
  - { from: east, to: west, via: west, link: 2 }
";

#[test]
fn every_key_means_what_it_says() {
    let lab = parse(WHOLE, "lab.yaml").unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!((lab.name.as_deref(), lab.seed), (Some("whole"), 7));
    let names: Vec<&str> = lab.hosts.iter().map(|host| host.name.as_str()).collect();
    assert_eq!(names, ["east", "west"]);
    assert_eq!((lab.hosts[0].sysctl.len(), lab.hosts[1].sysctl.len()), (2, 1));
    assert_eq!(lab.hosts[0].sysctl[0].value, "4096 131072 134217728");
    let link = &lab.links[0];
    assert_eq!((link.between, link.mtu), ([0, 1], 9000));
    assert_eq!(link.addresses, [Ipv4Addr::new(10, 1, 0, 1), Ipv4Addr::new(10, 1, 0, 2)]);
    let [forward, back] = link.directions;
    assert_eq!((forward.rate, forward.delay_ns), (Some(10_000_000_000), 30_000_000));
    assert_eq!((forward.queue, forward.loss, forward.jitter_ns), (64 << 20, 10_000, 100_000));
    assert_eq!((forward.order, forward.drop_above), (Order::Free, Some(1500)));
    assert_eq!((forward.parallel, forward.hashing), (2, Hashing::Hosts));
    assert_eq!((back.rate, back.delay_ns, back.loss), (None, 25_250_000, 0));
    let second = &lab.links[1];
    assert_eq!(second.addresses, [Ipv4Addr::new(10, 99, 1, 1), Ipv4Addr::new(10, 99, 1, 2)]);
    // 1 Gb/s for 100 ms.
    assert_eq!((second.mtu, second.directions[0].queue), (1500, 12_500_000));
    assert_eq!(lab.routes, [NextHop { from: 0, to: 1, link: 1 }]);
}

/// The rate of a link, and of a direction, has two names.
#[test]
fn a_rate_may_be_called_bandwidth() {
    let other = WHOLE.replace("rate: ", "bandwidth: ");
    let [lab, again] = [WHOLE, &other].map(|text| parse(text, "lab.yaml"));
    assert_eq!(again.unwrap_or_else(|problems| panic!("{problems}")), lab.expect("a laboratory"));
}

/// Each case: lines, and the words that a message must have, with its place.
#[test]
fn what_is_wrong_is_said_with_its_place() {
    let two = "hosts: {a: {}, b: {}}\n";
    let link = |rest: &str| format!("{two}links: [{{between: [a, b], {rest}}}]\n");
    let routes = "hosts: {a: {}, b: {}, c: {}}\nlinks: [{between: [a, b]}, {between: [b, c]}]\n";
    let cases = [
        (String::new(), "bad.yaml:1:1: the required key \"hosts\" of a laboratory is missing"),
        ("hosts: [a]\n".into(), "bad.yaml:1:8: hosts is a list"),
        ("hosts: {1a: {}}\n".into(), "1:9: a host's name cannot be \"1a\""),
        ("host: {}\n".into(), "1:1: \"host\" is not known in a laboratory"),
        (link("rate: 10"), "rate cannot be \"10\": the unit is missing"),
        (link("rate: 1 Tb/s"), "from 10 kb/s to 100 Gb/s, or \"unlimited\""),
        (link("rate: 1 Gb/s, bandwidth: 1 Gb/s"), "\"bandwidth\" is given twice"),
        (link("bandwidth: 10"), "bandwidth cannot be \"10\": the unit is missing"),
        (link("bandwidth: 10"), "for example \"bandwidth: 10 Gb/s\""),
        (link("speed: 1 Gb/s"), "allowed: between, rate or bandwidth, delay,"),
        (format!("{two}links: {{between: [a, b]}}\n"), "for example \"links: [{between: [east"),
        (format!("{two}links: [{{between: [a, far]}}]\n"), "for example \"between: [a, b]\""),
        (link("delay: 11 s"), "delay cannot be \"11 s\""),
        (link("mtu: 100"), "2:32: mtu cannot be \"100\""),
        (link("order: free"), "\"order: free\" without jitter"),
        (link("hashing: hosts"), "hashing without parallel links"),
        (link("forward: {mtu: 9000}"), "\"mtu\" is not known in one direction of a link"),
        (link("rate: 100 Gb/s, delay: 1 s"), "this direction needs 11.9 GiB of memory"),
        (link("addresses: [10.0.0.1]"), "addresses is a list"),
        (link("addresses: [10.0.0.1, 127.0.0.1]"), "addresses cannot be \"127.0.0.1\""),
        (link("addresses: [10.0.0.1, 10.0.0.1]"), "each address once"),
        (format!("{two}links: [{{between: [a, a]}}]\n"), "between names one host twice"),
        (format!("{two}links: [{{between: [a, bb]}}]\n"), "did you mean \"b\"?"),
        (
            format!("{two}links: [{{rate: 1 Gb/s}}]\n"),
            "the required key \"between\" of a link is missing",
        ),
        (format!("{two}sysctl: {{kernel.hostname: x}}\n"), "a setting cannot be"),
        (format!("{two}sysctl: {{net.ipv4/../../x: x}}\n"), "a setting cannot be"),
        (format!("{two}sysctl: {{net..x: x}}\n"), "a setting cannot be"),
        (
            format!("{routes}routes: [{{from: a, to: c}}]\n"),
            "the required key \"via\" of a route is missing",
        ),
        (format!("{routes}routes: [{{from: a, to: b, via: c}}]\n"), "a has 0 links to c"),
        (format!("{routes}routes: [{{from: a, to: a, via: b}}]\n"), "from a host to itself"),
        (format!("{routes}routes: [{{from: b, to: c, via: a}}]\n"), "would never arrive"),
    ];
    for (text, words) in cases {
        let problems = parse(&text, "bad.yaml").expect_err(&text).to_string();
        assert!(problems.contains(words), "{words:?} is not in {problems:?} of:\n{text}");
    }
}

/// The laboratories that come with the program.
#[test]
fn the_examples_are_good() {
    for (name, text) in [
        ("sc11", include_str!("../../../../labs/sc11.yaml")),
        ("black-hole", include_str!("../../../../labs/black-hole.yaml")),
        ("asymmetric", include_str!("../../../../labs/asymmetric.yaml")),
        ("two-vlans", include_str!("../../../../labs/two-vlans.yaml")),
    ] {
        let lab = parse(text, name).unwrap_or_else(|problems| panic!("{problems}"));
        assert_eq!(lab.name.as_deref(), Some(name));
    }
}

/// Every file in the documentation is good, and so are parts of one in its tables.
#[test]
fn the_examples_of_the_documentation_are_good() {
    let page = include_str!("../../../../docs/laboratory.md");
    let blocks: Vec<&str> = page
        .split("```yaml\n")
        .skip(1)
        .map(|rest| rest.split("```").next().expect("a block ends"))
        .collect();
    assert!(!blocks.is_empty());
    for text in blocks {
        parse(text, "docs/laboratory.md").unwrap_or_else(|problems| panic!("{problems}"));
    }
    // Parts of files, in its tables.
    let hosts = "hosts: {east: {}, west: {}, south: {}}\n";
    let links = "links: [{between: [east, south]}, {between: [south, west]}]\n";
    for (part, rest) in [
        ("`net.ipv4.tcp_rmem: 4096 131072 134217728`", "sysctl: {PART}\n"),
        ("`{from: east, to: west, via: south}`", "routes: [PART]\n"),
    ] {
        assert!(page.contains(part), "{part} is not in docs/laboratory.md any more");
        let part = part.trim_matches('`');
        let text = format!("{hosts}{links}{}", rest.replace("PART", part));
        parse(&text, part).unwrap_or_else(|problems| panic!("{problems}"));
    }
}

#[test]
fn names_are_safe_in_paths() {
    assert!(is_name("sc11-path_2"));
    for bad in ["", ".", "..", "a/b", "-a", "1", "a b", "\u{e4}", &"x".repeat(33)] {
        assert!(!is_name(bad), "{bad:?}");
    }
}
