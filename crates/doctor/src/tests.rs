//! Each finding follows from what it is about, and from nothing else.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

mod icmp;
mod reach;

const NID: &str = "10.0.0.2@tcp";

fn hello(incarnation: u64) -> DialOutcome {
    DialOutcome::Hello { nid: NID.to_owned(), version: 3, incarnation, wall_ns: 1_000 }
}

fn dial(source: Source, target: &str, outcome: DialOutcome) -> Dial {
    Dial { source, target: target.to_owned(), outcome }
}

/// A peer with which all is well: 10 Gb/s, 1 ms, MTU 1500.
fn healthy() -> Observed {
    let stream = StreamView {
        segment_out: 1448,
        segment_back: 1448,
        segment_seen: 1448,
        path_mtu: 1500,
        options: 12,
        peer_scale: Some(9),
        retransmits: 0,
    };
    let interface = InterfaceView {
        name: "eth0".to_owned(),
        running: true,
        mtu: Some(1500),
        speed_mbps: Some(10_000),
        addresses: vec!["10.0.0.1".to_owned()],
    };
    let all = Carried::Yes { bytes: 10_000, ns: 1_000_000 };
    let icmp = IcmpView {
        answers: 3,
        asked: 3,
        hops_out: Some(1),
        hops_back: Some(1),
        arrived_at: Some("eth0".to_owned()),
        clock_ms: Some((2, 3)),
        full: None,
    };
    let route = RouteView {
        local: "10.0.0.1".to_owned(),
        interface: Some("eth0".to_owned()),
        address_on: Some("eth0".to_owned()),
        gateway: None,
        on_link: true,
    };
    let peer = PeerView {
        nid: NID.to_owned(),
        address: "10.0.0.2".to_owned(),
        port: 988,
        route: Some(route),
        icmp: Some(icmp),
        dials: vec![dial(Source::Privileged, NID, hello(7)); 3],
        rtt_ns: Some([1_000_000, 1_100_000]),
        pings_lost: Some(0),
        stream: Some(stream),
        out: Some(all),
        back: Some(all),
        bulk: Some(all),
        nis: vec![(NID.to_owned(), true)],
        rate: Some(10_000_000_000),
        rate_source: "10 Gb/s".to_owned(),
        peer_credits: Some(8),
        ..PeerView::default()
    };
    let host = HostView {
        privileged: true,
        interfaces: vec![interface],
        tcp_rmem: Some([4096, 131_072, 33_554_432]),
        tcp_wmem: Some([4096, 16_384, 4_194_304]),
        window_scaling: Some(true),
        port_holder: Some(PortHolder::Free),
        ..HostView::default()
    };
    Observed { host, peers: vec![peer], ..Observed::default() }
}

fn codes(observed: &Observed) -> Vec<Code> {
    diagnose(observed).into_iter().map(|finding| finding.code).collect()
}

/// What a change of the healthy observations leads to.
#[track_caller]
fn expect(code: Code, change: impl FnOnce(&mut Observed)) -> Finding {
    let mut observed = healthy();
    change(&mut observed);
    let findings = diagnose(&observed);
    let [finding] = findings.as_slice() else { panic!("{code:?}: {findings:#?}") };
    assert_eq!(finding.code, code, "{finding:#?}");
    finding.clone()
}

fn dials(observed: &mut Observed, list: Vec<Dial>) {
    let host = PeerView {
        nid: NID.to_owned(),
        address: "10.0.0.2".to_owned(),
        port: 988,
        icmp: observed.peers[0].icmp.take(),
        dials: list,
        ..PeerView::default()
    };
    observed.peers[0] = host;
}

#[test]
fn a_healthy_peer_leads_to_no_finding() {
    assert_eq!(codes(&healthy()), []);
    assert_eq!(worst(&[]), Severity::Ok);
    assert_eq!(codes(&Observed::default()), []);
}

#[test]
fn names_are_stable_words_and_differ() {
    let names: BTreeSet<&str> = Code::ALL.iter().map(|code| code.name()).collect();
    assert_eq!(names.len(), Code::ALL.len());
    let word = |name: &&str| name.chars().all(|c| c == '-' || c.is_ascii_lowercase());
    assert!(names.iter().all(word), "{names:?}");
    assert!(Code::ALL.iter().all(|code| code.severity() > Severity::Ok && !code.what().is_empty()));
}

/// Beside a node of this host ICMP alone shows what becomes of full packets.
#[test]
fn full_echoes_show_a_black_hole_where_no_connection_does() {
    let full = |is_answered| Some(FullEcho { bytes: 9000, asked: 3, is_answered });
    let echoes = |observed: &mut Observed, full| {
        let peer = &mut observed.peers[0];
        (peer.out, peer.back) = (None, None);
        peer.icmp.as_mut().expect("a view").full = full;
    };
    let finding = expect(Code::BlackHole, |observed| echoes(observed, full(false)));
    assert!(finding.evidence.contains("none of 3 with 9000 bytes"), "{finding:?}");
    for answered in [None, full(true)] {
        let mut observed = healthy();
        echoes(&mut observed, answered);
        assert_eq!(diagnose(&observed), []);
    }
    // Nothing of it is said of a host that has no LNet.
    let mut observed = healthy();
    dials(&mut observed, vec![dial(Source::Privileged, "10.0.0.2@tcp", DialOutcome::Refused)]);
    echoes(&mut observed, full(false));
    assert_eq!(codes(&observed), [Code::PortClosed]);
    // A firewall drops long echoes, and full packets of TCP arrive.
    let mut observed = healthy();
    observed.peers[0].icmp.as_mut().expect("a view").full = full(false);
    assert_eq!(diagnose(&observed), []);
}

#[test]
fn paths_are_judged_by_what_arrives() {
    let lost = Carried::Lost { segment: 8948, arrives: Some(1448), ms: 3000 };
    let out = expect(Code::BlackHoleOut, |observed| observed.peers[0].out = Some(lost));
    assert!(out.evidence.contains("9000 bytes to") && out.remedy.contains("MTU 1500"), "{out:?}");
    expect(Code::BlackHoleIn, |observed| observed.peers[0].back = Some(lost));
    let unread = Carried::Unread { bytes: 65_536, ms: 1000 };
    let slow = expect(Code::SlowReceiver, |observed| observed.peers[0].bulk = Some(unread));
    assert!(slow.consequence.ends_with("at most 0.1 MB/s"), "{slow:?}");
    // A smaller MTU in the middle, which the kernel has found, is no fault.
    let mut observed = healthy();
    observed.peers[0].stream.as_mut().unwrap().segment_out = 1348;
    observed.peers[0].stream.as_mut().unwrap().path_mtu = 1400;
    assert_eq!(codes(&observed), []);
}

/// On the loopback segments can be half of the peer's window, which says nothing of its MTU.
#[test]
fn segments_that_the_window_limits_are_no_mtu() {
    for (segment, found) in [(8948, vec![Code::MtuMismatch]), (32_741, vec![]), (47_616, vec![])] {
        let mut observed = healthy();
        observed.host.interfaces[0].mtu = Some(65_536);
        let stream = observed.peers[0].stream.as_mut().unwrap();
        (stream.path_mtu, stream.segment_back) = (65_535, 65_483);
        stream.segment_out = segment;
        assert_eq!(codes(&observed), found, "{segment}");
    }
}

/// Segments that are smaller than this host's interface takes.
fn smaller_segments(observed: &mut Observed) {
    observed.host.interfaces[0].mtu = Some(9000);
    let stream = observed.peers[0].stream.as_mut().unwrap();
    (stream.path_mtu, stream.segment_back) = (9000, 8948);
}

/// What the other end says of the MTU of its interface.
fn far_mtu(observed: &mut Observed, mtu: u32) {
    let mut host = observed.host.clone();
    host.interfaces[0].mtu = Some(mtu);
    let route = observed.peers[0].route.clone();
    observed.peers[0].remote = Some(RemoteView { host, route, ..RemoteView::default() });
}

#[test]
fn interfaces_are_compared_and_segments_may_be_clamped_on_the_way() {
    let unknown = expect(Code::MtuMismatch, smaller_segments);
    assert_eq!(unknown.severity, Severity::Warning);
    assert!(unknown.what.ends_with("1500 at the peer or on the way"), "{unknown:?}");
    assert!(unknown.evidence.contains("as it was clamped on the way"), "{unknown:?}");
    let routed = expect(Code::MtuMismatch, |observed| {
        smaller_segments(observed);
        observed.peers[0].route.as_mut().unwrap().on_link = false;
        let icmp = observed.peers[0].icmp.as_mut().unwrap();
        (icmp.hops_out, icmp.hops_back) = (Some(2), Some(2));
    });
    assert_eq!(routed.severity, Severity::Notice, "routers cut, and clamping is usual");
    // Both ends have the same: it was clamped.
    let mut observed = healthy();
    smaller_segments(&mut observed);
    far_mtu(&mut observed, 9000);
    assert_eq!(codes(&observed), []);
    let seen = expect(Code::MtuMismatch, |observed| far_mtu(observed, 9000));
    assert!(seen.what.ends_with("MTU 1500 here, and 9000 at the peer"), "{seen:?}");
}

/// Packets of IPv6 are 20 bytes longer, with the same segments.
#[test]
fn the_headers_of_ipv6_are_longer() {
    let mut observed = healthy();
    observed.peers[0].address = "fd00::2".to_owned();
    observed.peers[0].stream.as_mut().unwrap().segment_out = 1428;
    observed.peers[0].stream.as_mut().unwrap().segment_back = 1440;
    assert_eq!(codes(&observed), [], "1428 + 12 + 60 bytes fill 1500");
}

#[test]
fn routes_are_compared() {
    let icmp = |observed: &mut Observed| observed.peers[0].icmp.clone().unwrap();
    expect(Code::AsymmetricRoute, |observed| {
        let icmp = icmp(observed);
        observed.peers[0].icmp = Some(IcmpView { arrived_at: Some("eth1".to_owned()), ..icmp });
    });
    expect(Code::AsymmetricRoute, |observed| {
        let icmp = icmp(observed);
        observed.peers[0].icmp = Some(IcmpView { hops_back: Some(3), ..icmp });
    });
    // The peer's own count is better than a guess.
    let mut observed = healthy();
    observed.peers[0].icmp.as_mut().unwrap().hops_back = Some(3);
    let there = IcmpView { hops_out: Some(1), ..IcmpView::default() };
    observed.peers[0].remote = Some(RemoteView { icmp: Some(there), ..RemoteView::default() });
    assert_eq!(codes(&observed), []);
}

#[test]
fn settings_are_judged_by_rate_and_round_trip() {
    let long = |observed: &mut Observed| observed.peers[0].rtt_ns = Some([50_000_000; 2]);
    let enough = |observed: &mut Observed| {
        long(observed);
        observed.host.tcp_wmem = Some([0, 0, 200 << 20]);
        observed.host.tcp_rmem = Some([0, 0, 200 << 20]);
        observed.peers[0].stream.as_mut().unwrap().peer_scale = Some(12);
        observed.peers[0].peer_credits = Some(128);
    };
    let mut observed = healthy();
    enough(&mut observed);
    assert_eq!(codes(&observed), []);
    let own = expect(Code::BuffersTooSmall, |observed| {
        enough(observed);
        observed.host.tcp_wmem = Some([0, 0, 4 << 20]);
    });
    // Three quarters of 4 MiB in 50 ms, of 10 Gb/s.
    assert!(own.consequence.ends_with("at most 62.9 MB/s of 1250.0 MB/s"), "{own:?}");
    assert!(own.remedy.contains("tcp_wmem to 125000000"), "{own:?}");
    expect(Code::PeerBuffersTooSmall, |observed| {
        enough(observed);
        observed.peers[0].stream.as_mut().unwrap().peer_scale = Some(7);
    });
    // Each connection has a window: four of them are as good as buffers four times as large.
    let mut observed = healthy();
    enough(&mut observed);
    observed.host.tcp_wmem = Some([0, 0, 32 << 20]);
    assert_eq!(codes(&observed), [Code::BuffersTooSmall]);
    observed.peers[0].connections = Some(4);
    assert_eq!(codes(&observed), []);
    let four = expect(Code::BuffersTooSmall, |observed| {
        enough(observed);
        observed.host.tcp_wmem = Some([0, 0, 4 << 20]);
        observed.peers[0].connections = Some(4);
    });
    assert!(four.consequence.starts_with("4 connections (conns_per_peer) carry: at most 251.7"));
    assert!(four.remedy.contains("tcp_wmem to 31250000"), "{four:?}");
    let there = expect(Code::PeerBuffersTooSmall, |observed| {
        enough(observed);
        let host = HostView { tcp_wmem: Some([0, 0, 1 << 20]), ..HostView::default() };
        observed.peers[0].remote = Some(RemoteView { host, ..RemoteView::default() });
    });
    assert!(there.evidence.starts_with("its tcp_wmem is 1048576;"), "{there:?}");
    let remedy = "on the peer, set the last value of net.ipv4.tcp_wmem to 125000000 or more";
    assert!(there.remedy.starts_with(remedy), "{there:?}");
    let few = expect(Code::CreditsTooFew, |observed| {
        enough(observed);
        observed.peers[0].peer_credits = Some(8);
    });
    assert_eq!(few.rate.map(|rate| rate.carried.round()), Some(84.0));
    assert!(few.remedy.starts_with("peer_credits of 120 or more"), "{few:?}");
    let off = expect(Code::WindowScalingOff, |observed| {
        observed.peers[0].stream.as_mut().unwrap().peer_scale = None;
        observed.host.window_scaling = Some(false);
    });
    assert!(off.what.starts_with("this host"), "{off:?}");
}

#[test]
fn who_answers_is_judged_by_what_it_says() {
    let turns = |list: &[u64]| {
        let mut observed = healthy();
        let all = list.iter().map(|one| dial(Source::Any, NID, hello(*one)));
        observed.peers[0].dials = all.collect();
        codes(&observed)
    };
    assert_eq!(turns(&[1, 2, 1]), [Code::NidDuplicated]);
    assert_eq!(turns(&[1, 2, 3]), [Code::NidDuplicated]);
    // It may have restarted.
    assert_eq!(turns(&[1, 1, 2]), []);
    assert_eq!(turns(&[1, 2, 2]), []);
    expect(Code::OtherNid, |observed| {
        let outcome = DialOutcome::Hello {
            nid: "10.0.0.9@tcp".to_owned(),
            version: 3,
            incarnation: 1,
            wall_ns: 5,
        };
        observed.peers[0].dials = vec![dial(Source::Any, NID, outcome)];
    });
    expect(Code::PeerNiDown, |observed| observed.peers[0].nis[0].1 = false);
    expect(Code::PingSilent, |observed| {
        observed.peers[0].rtt_ns = None;
        observed.peers[0].pings_lost = Some(3);
    });
    let ahead = 1_000 + 3_600_000_000_000;
    expect(Code::ClockSkew, |observed| {
        observed.peers[0].dials = vec![dial(Source::Any, NID, hello(ahead))];
    });
    expect(Code::ClockSkew, |observed| {
        observed.peers[0].icmp.as_mut().unwrap().clock_ms = Some((-1_200, 10));
    });
    expect(Code::ClockSkew, |observed| {
        let host = HostView { wall_ns: 9_000_000_000, ..HostView::default() };
        let queried_ns = [20_000_000_000, 21_000_000_000];
        observed.peers[0].remote = Some(RemoteView { host, queried_ns, ..RemoteView::default() });
    });
}

#[test]
fn hosts_are_judged_by_their_settings() {
    let ni = |place: &str, address: Option<&str>, running| PlannedNi {
        net: "tcp".to_owned(),
        place: place.to_owned(),
        address: address.map(str::to_owned),
        running,
    };
    let config = |nis: Vec<PlannedNi>, problem: Option<&str>| ConfigView {
        source: "node.yaml".to_owned(),
        problem: problem.map(str::to_owned),
        nis,
    };
    let up = || ni("eth0", Some("10.0.0.1"), true);
    let set = |observed: &mut Observed, value| observed.config = Some(value);
    expect(Code::InterfaceDown, |o| set(o, config(vec![up(), ni("eth7", None, false)], None)));
    expect(Code::NidTwice, |o| {
        set(o, config(vec![up(), ni("10.0.0.1", Some("10.0.0.1"), true)], None));
    });
    expect(Code::ConfigInvalid, |o| set(o, config(vec![up()], Some("line 3"))));
    for (holder, program) in [
        (PortHolder::Other, "another program listens"),
        (PortHolder::Silent, "another program, or a stopped node, listens"),
    ] {
        let finding = expect(Code::PortTaken, |o| o.host.port_holder = Some(holder));
        assert!(finding.what.starts_with(program), "{finding:?}");
    }
    let node = |credits, available, min| {
        let peer = PeerCredits { nid: NID.to_owned(), credits, available, min };
        Some(NodeView { peers: vec![peer], ..NodeView::default() })
    };
    for (available, min, severity) in
        [(3, -35, Severity::Notice), (-2, -35, Severity::Warning), (-2, -5, Severity::Warning)]
    {
        let finding = expect(Code::CreditsExhausted, |o| o.node = node(8, available, min));
        assert_eq!(finding.severity, severity);
    }
    // What waits in the answers to a look at a path of this MTU: 42 pings at once.
    for (credits, min) in [(8, -34), (42, 0), (1, -41)] {
        let observed = Observed { node: node(credits, 1, min), ..healthy() };
        assert_eq!(codes(&observed), [], "{credits} {min}");
    }
    let mut observed = healthy();
    observed.host.interfaces[0].mtu = Some(9000);
    observed.node = node(8, 1, -35);
    assert_eq!(codes(&observed), [], "146 pings at once");
    // An interface that this node does not have on this network says nothing.
    let mut observed = healthy();
    let other =
        InterfaceView { name: "ib0".to_owned(), mtu: Some(65_520), ..InterfaceView::default() };
    observed.host.interfaces.push(other);
    let on = |interface: &str| NiView {
        nid: "10.0.0.1@tcp".to_owned(),
        interface: Some(interface.to_owned()),
        conns_per_peer: None,
        peer_credits: 8,
        credits: 256,
        credits_min: 0,
    };
    let of_peer = node(8, 1, -35).expect("a node");
    for (interface, found) in [("eth0", vec![Code::CreditsExhausted]), ("ib0", Vec::new())] {
        observed.node = Some(NodeView { nis: vec![on(interface)], ..of_peer.clone() });
        assert_eq!(codes(&observed), found, "{interface}");
    }
    let ni = |credits_min| NiView {
        nid: "10.0.0.1@tcp".to_owned(),
        interface: None,
        conns_per_peer: None,
        peer_credits: 8,
        credits: 256,
        credits_min,
    };
    let busy = NodeView { nis: vec![ni(-1)], ..NodeView::default() };
    expect(Code::CreditsExhausted, |o| o.node = Some(busy));
    let idle = NodeView { nis: vec![ni(0)], ..NodeView::default() };
    assert_eq!(codes(&Observed { node: Some(idle), ..healthy() }), []);
    for (is_running, what) in [(false, "no node runs at /run/a.sock"), (true, "does not answer")] {
        let (socket, why) = ("/run/a.sock".to_owned(), "Connection refused".to_owned());
        let silent = SilentNode { socket, is_running, why };
        let finding = expect(Code::NodeSilent, |o| o.silent_node = Some(silent));
        assert!(finding.what.contains(what), "{finding:?}");
    }
    let unread = |bytes| Unread {
        local: "10.0.0.1:988".to_owned(),
        remote: "10.0.0.2:1023".to_owned(),
        bytes,
        apart_ms: 300,
    };
    expect(Code::UnreadData, |o| o.host.unread = vec![unread([70_000, 70_000])]);
    let mut observed = healthy();
    observed.host.unread = vec![unread([70_000, 0]), unread([100, 200])];
    assert_eq!(codes(&observed), []);
    let mut observed = healthy();
    observed.host.lustre_modules = Some("lustre: 2.17.0\n".to_owned());
    assert_eq!(codes(&observed), [Code::KnownDefect; 2]);
    observed.host.lustre_modules = Some("2.16.1".to_owned());
    assert_eq!(codes(&observed), []);
}

/// A host that runs a release with a defect is not worse for it, until the defect shows.
#[test]
fn known_defects_are_warnings_where_they_show() {
    let of = |release: &str, change: &dyn Fn(&mut Observed)| {
        let mut observed = healthy();
        observed.host.lustre_modules = Some(release.to_owned());
        change(&mut observed);
        let findings = diagnose(&observed);
        let defects = findings.into_iter().filter(|one| one.code == Code::KnownDefect);
        defects.map(|one| one.severity).collect::<Vec<_>>()
    };
    assert_eq!(of("2.17.0", &|_| {}), [Severity::Notice; 2]);
    let refused = |observed: &mut Observed| {
        observed.peers[0].dials = vec![dial(Source::Privileged, NID, DialOutcome::Refused)];
    };
    assert_eq!(of("2.17.0", &refused), [Severity::Warning, Severity::Notice]);
    assert_eq!(of("2.15.8", &|_| {}), [], "there is no IPv6");
    let add = |observed: &mut Observed, address: &str| {
        observed.host.interfaces[0].addresses.push(address.to_owned());
    };
    assert_eq!(of("2.15.8", &|observed| add(observed, "fe80::1")), []);
    assert_eq!(of("2.15.8", &|observed| add(observed, "fd00::1")), [Severity::Notice]);
    let used = |observed: &mut Observed| {
        add(observed, "fd00::1");
        observed.peers[0].nid = "fd00::2@tcp".to_owned();
    };
    assert_eq!(of("2.15.8", &used), [Severity::Warning]);
}

/// What the other end has found about its own host is not lost.
#[test]
fn hosts_of_peers_are_judged_as_this_one() {
    let there = |change: &dyn Fn(&mut RemoteView)| {
        let mut remote = RemoteView::default();
        change(&mut remote);
        let mut observed = healthy();
        observed.peers[0].remote = Some(remote);
        let findings = diagnose(&observed);
        assert!(findings.iter().all(|one| one.peer.as_deref() == Some(NID)), "{findings:?}");
        findings.into_iter().map(|one| one.code).collect::<Vec<_>>()
    };
    let unread = Unread {
        local: "10.0.0.2:988".to_owned(),
        remote: "10.0.0.1:1023".to_owned(),
        bytes: [70_000; 2],
        apart_ms: 400,
    };
    let stuck = |remote: &mut RemoteView| remote.host.unread = vec![unread.clone()];
    assert_eq!(there(&stuck), [Code::UnreadData]);
    let taken = |remote: &mut RemoteView| remote.host.port_holder = Some(PortHolder::Other);
    assert_eq!(there(&taken), [Code::PortTaken]);
    let down = |remote: &mut RemoteView| {
        let ni = PlannedNi {
            net: "tcp".to_owned(),
            place: "eth1".to_owned(),
            address: Some("10.0.0.2".to_owned()),
            running: false,
        };
        remote.config = Some(ConfigView { nis: vec![ni], ..ConfigView::default() });
    };
    assert_eq!(there(&down), [Code::InterfaceDown]);
    let waited = |remote: &mut RemoteView| {
        let peer = PeerCredits { nid: NID.to_owned(), credits: 8, available: 3, min: -50 };
        remote.node = Some(NodeView { peers: vec![peer], ..NodeView::default() });
    };
    assert_eq!(there(&waited), [Code::CreditsExhausted]);
    assert_eq!(
        there(&|remote| remote.host.lustre_modules = Some("2.17.0".to_owned())),
        [Code::KnownDefect, Code::KnownDefect]
    );
}

/// What a node of 2.17.0 lists, and the same after messages have waited.
#[test]
fn credits_of_a_kernel_are_read() {
    let nis = "\
nid                      status alive refs peer  rtr   max    tx   min
0@lo                         up     0    2    0    0     0     0     0
10.77.0.3@tcp                up    -1    1    8    0   256   256   255
";
    let peers = "\
nid                      refs state  last   max   rtr   min    tx   min queue
10.77.0.2@tcp               1    NA    -1     8     8     8     8     7 0
10.77.0.1@tcp               1    NA    -1     8     8     8    -1   -17 4096
";
    let node = NodeView::of_kernel(nis, peers).unwrap();
    let ni = &node.nis[0];
    assert_eq!((node.nis.len(), ni.nid.as_str(), ni.peer_credits), (1, "10.77.0.3@tcp", 8));
    assert_eq!((ni.credits, ni.credits_min), (256, 255));
    let expected =
        PeerCredits { nid: "10.77.0.1@tcp".to_owned(), credits: 8, available: -1, min: -17 };
    assert_eq!(node.peers, [expected]);
    expect(Code::CreditsExhausted, |observed| observed.node = Some(node));
    assert_eq!(NodeView::of_kernel("", peers), None);
}

#[test]
fn releases_are_the_numbers_at_the_start() {
    for (text, release) in [
        ("2.17.0", Some([2, 17, 0])),
        ("lustre: 2.15.8_RC1\n", Some([2, 15, 8])),
        ("2.16", Some([2, 16, 0])),
        ("2.17.0_62_gabc", Some([2, 17, 0])),
        ("2.17-rc1", Some([2, 17, 0])),
        ("", None),
        ("two.17", None),
        ("2", None),
    ] {
        assert_eq!(Release::parse(text), release.map(Release), "{text:?}");
    }
}

fn carried() -> impl Strategy<Value = Option<Carried>> {
    let lost = (any::<u32>(), any::<Option<u32>>(), any::<u64>());
    prop_oneof![
        Just(None),
        Just(Some(Carried::Unknown)),
        (any::<u64>(), any::<u64>()).prop_map(|(bytes, ns)| Some(Carried::Yes { bytes, ns })),
        (any::<u64>(), any::<u64>()).prop_map(|(bytes, ms)| Some(Carried::Unread { bytes, ms })),
        lost.prop_map(|(segment, arrives, ms)| Some(Carried::Lost { segment, arrives, ms })),
    ]
}

proptest! {
    /// Whatever was observed, judging it ends, and the worst comes first.
    #[test]
    fn every_observation_is_judged(
        rtt in any::<Option<[u64; 2]>>(),
        rate in any::<Option<u64>>(),
        credits in any::<Option<u32>>(),
        scale in any::<Option<u8>>(),
        sizes in any::<[u32; 4]>(),
        out in carried(),
        bulk in carried(),
        buffers in any::<[u64; 3]>(),
        clock in any::<Option<(i64, u64)>>(),
    ) {
        let mut observed = healthy();
        observed.host.tcp_wmem = Some(buffers);
        let peer = &mut observed.peers[0];
        let [segment_out, segment_back, path_mtu, options] = sizes.map(|size| size / 4);
        peer.stream = Some(StreamView {
            segment_out, segment_back, segment_seen: segment_back, path_mtu, options,
            peer_scale: scale, retransmits: 0,
        });
        (peer.rtt_ns, peer.rate, peer.peer_credits) = (rtt, rate, credits);
        (peer.out, peer.bulk) = (out, bulk);
        peer.icmp.as_mut().unwrap().clock_ms = clock;
        let findings = diagnose(&observed);
        prop_assert!(findings.is_sorted_by_key(|one| core::cmp::Reverse(one.severity)));
        prop_assert_eq!(diagnose(&observed), findings);
    }

    /// No packet makes the parser fail otherwise than by `None`.
    #[test]
    fn packets_are_read_or_refused(packet in proptest::collection::vec(any::<u8>(), 0..120)) {
        let _ = IcmpAnswer::parse(&packet);
    }

    /// No text of debugfs makes the reader fail.
    #[test]
    fn lists_of_a_kernel_are_read_or_left_out(
        nis in ".{0,200}",
        peers in "([a-z0-9@ -]{0,60}\n){0,4}",
    ) {
        if let Some(node) = NodeView::of_kernel(&nis, &peers) {
            prop_assert!(!node.nis.is_empty());
        }
    }

    /// Whatever a peer answers, the difference is at most half a day.
    #[test]
    fn clock_differences_are_bounded(times in any::<[u32; 3]>(), arrived in 0..86_400_000u32) {
        let [asked_ms, received_ms, answered_ms] = times;
        let clock = IcmpMessage::Clock { id: 0, sequence: 0, asked_ms, received_ms, answered_ms };
        if let Some(difference) = clock.clock_difference(arrived) {
            prop_assert!(difference.abs() <= 86_400_000, "{}", difference);
        }
    }
}

/// A peer with MTU 1400 may send segments of 1448 bytes, and sends shorter ones.
#[test]
fn what_arrived_is_no_longer_than_what_was_seen() {
    let stream =
        |segment_seen| StreamView { segment_back: 1448, segment_seen, ..StreamView::default() };
    assert_eq!([0, 1348, 9000].map(|seen| stream(seen).arrived()), [1448, 1348, 1448]);
}
