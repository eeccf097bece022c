//! Who can be reached, and who refuses whom.

use super::*;

#[test]
fn refusals_are_distinguished() {
    let one = |outcome: DialOutcome| vec![dial(Source::Privileged, NID, outcome)];
    let rejected = |by: Option<&str>| DialOutcome::Rejected {
        by: by.map(str::to_owned),
        why: "ICMP \"port unreachable\" (type 3, code 3)".to_owned(),
    };
    let timed_out = || DialOutcome::TimedOut { ms: 3000 };
    let unreachable = || DialOutcome::Unreachable { why: "No route to host".to_owned() };
    for (code, outcome) in [
        (Code::PortClosed, DialOutcome::Refused),
        (Code::FirewallRejects, rejected(Some("10.0.0.254"))),
        (Code::FirewallSwallows, timed_out()),
        (Code::FirewallRejects, unreachable()),
        (Code::NotLnet, DialOutcome::NotLnet { begins: "SSH-2.0".to_owned() }),
        (Code::HelloSilent, DialOutcome::Silent { ms: 4000 }),
        (Code::NotNow, DialOutcome::NotNow),
        (Code::NidRefused, DialOutcome::Closed),
    ] {
        expect(code, |observed| dials(observed, one(outcome)));
    }
    for outcome in [timed_out(), unreachable()] {
        expect(Code::HostSilent, |observed| {
            dials(observed, one(outcome));
            observed.peers[0].icmp = Some(IcmpView { asked: 3, ..IcmpView::default() });
        });
    }
    // What is said by ICMP needs no echo, which is for root.
    for (by, who) in [
        (Some("10.0.0.2"), "a firewall of 10.0.0.2"),
        (Some("10.0.0.254"), "the router or firewall 10.0.0.254"),
        (None, "a rule of this host"),
    ] {
        let finding = expect(Code::FirewallRejects, |observed| {
            dials(observed, one(rejected(by)));
            observed.peers[0].icmp = None;
        });
        assert!(finding.what.starts_with(who), "{finding:?}");
    }
    let made = DialOutcome::NotMade { why: "no port".to_owned() };
    let mut observed = healthy();
    dials(&mut observed, one(made));
    assert_eq!(codes(&observed), []);
}

#[test]
fn who_refuses_whom_needs_two_attempts() {
    let closed = |source| dial(source, NID, DialOutcome::Closed);
    let (high, low) = (closed(Source::Any), closed(Source::Privileged));
    expect(Code::PrivilegeOrNid, |observed| {
        observed.host.privileged = false;
        dials(observed, vec![high.clone()]);
    });
    expect(Code::UserlandRefused, |observed| {
        observed.peers[0].dials.insert(0, high.clone());
    });
    expect(Code::NidRefused, |observed| dials(observed, vec![high, low.clone()]));
    let other = dial(Source::Privileged, "10.0.0.2@tcp3", hello(7));
    let finding = expect(Code::WrongNet, |observed| dials(observed, vec![low, other]));
    assert!(finding.what.contains("10.0.0.2@tcp3"), "{finding:?}");
}

#[test]
fn a_node_without_an_interface_on_the_net_reaches_nobody_there() {
    let config = |net: &str| {
        let (net, place, address) =
            (net.to_owned(), "eth0".to_owned(), Some("10.0.0.1".to_owned()));
        let nis = vec![PlannedNi { net, place, running: true, address }];
        Some(ConfigView { source: "the running node".to_owned(), problem: None, nis })
    };
    let finding = expect(Code::NodeNet, |observed| {
        // Whatever else was seen follows from that.
        dials(observed, vec![dial(Source::Any, NID, DialOutcome::Closed)]);
        observed.config = config("tcp1");
    });
    assert_eq!(finding.what, "the running node has no interface on tcp");
    assert_eq!(codes(&Observed { config: config("tcp"), ..healthy() }), []);
    let kernel = NodeView { identity: "kernel".to_owned(), ..NodeView::default() };
    let observed = Observed { config: config("tcp1"), node: Some(kernel), ..healthy() };
    assert_eq!(codes(&observed), [], "a kernel may have routes");
}

/// A node waits for the first bytes; a program that does not is none.
#[test]
fn what_closes_at_once_is_not_a_node() {
    for source in [Source::Privileged, Source::Any] {
        let closed = || vec![dial(source, "10.0.0.2@tcp", DialOutcome::Closed)];
        let finding = expect(Code::NotLnet, |observed| {
            dials(observed, closed());
            observed.peers[0].closes_at_once = Some(true);
        });
        assert!(finding.what.contains("closes each connection at once"), "{finding:?}");
    }
}
