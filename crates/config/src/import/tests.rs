use std::net::IpAddr;

use lustrine_partition::tunables::Tunables;
use lustrine_wire::nid::{Net, NetKind};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use super::*;
use crate::ResolvedNi;
use crate::steps::{Step, steps};
use crate::{AcceptPolicy, IdentityChoice, InterfaceChoice, PEER_NIDS_MAX};
use lustrine_selftest::{ServiceMode, ServicePolicy};

/// A machine on which eth1 has 10.0.1.1 and so on.
fn place(net: &NetConfig, tunables: &Tunables) -> Result<PlacedNi, String> {
    let ip: IpAddr = match &net.place {
        InterfaceChoice::Address(ip) => *ip,
        InterfaceChoice::Interface(name) => {
            let number = name.strip_prefix("eth").ok_or(format!("{name} is not there"))?;
            format!("10.0.{number}.1").parse().map_err(|_| format!("{name} is not there"))?
        }
        InterfaceChoice::Default => "10.0.0.1".parse().unwrap(),
    };
    let interface = match &net.place {
        InterfaceChoice::Default => Some("eth0".to_owned()),
        InterfaceChoice::Interface(name) => Some(name.clone()),
        InterfaceChoice::Address(_) => None,
    };
    let ni = ResolvedNi {
        nid: Nid::from_ip(net.net, ip),
        ip,
        interface,
        port: net.port.unwrap_or(tunables.socklnd.accept_port as u16),
        port_bulk: tunables.socklnd.accept_port_bulk as u16,
        conns_per_peer: net.conns_per_peer.filter(|count| *count > 0).unwrap_or(1),
        credits: net.credits.unwrap_or(tunables.lnet.credits as u32),
        peer_credits: net.peer_credits.unwrap_or(tunables.lnet.peer_credits as u32),
    };
    Ok(PlacedNi { nid: ni.nid, explicit: ni.explicit(net, tunables) })
}

/// What a node is set to that was started with a configuration.
fn started(config: &NodeConfig) -> Option<(NodeConfig, Vec<Nid>)> {
    let place = |net| place(net, &config.tunables).unwrap();
    let placed: Vec<PlacedNi> = config.nets.iter().map(place).collect();
    let nids: Vec<Nid> = placed.iter().map(|placed| placed.nid).collect();
    let twice = (1..nids.len()).any(|index| nids[..index].contains(&nids[index]));
    let nets = placed.into_iter().map(|placed| placed.explicit).collect();
    (!twice).then(|| (NodeConfig { nets, ..config.clone() }, nids))
}

fn import(
    (base, nids): (&NodeConfig, &[Nid]),
    text: &str,
    mode: ImportMode,
) -> Result<ImportPlan, String> {
    import_with((base, nids), text, (mode, Strictness::Strict), |_| Vec::new())
}

fn import_with(
    (base, nids): (&NodeConfig, &[Nid]),
    text: &str,
    how: (ImportMode, Strictness),
    learned: impl Fn(&Nid) -> Vec<Nid>,
) -> Result<ImportPlan, String> {
    let place = |net: &NetConfig| place(net, &base.tunables);
    let context = ImportContext { base, nids, partitions: 2, place: &place, learned: &learned };
    let plan = plan_import(&context, (text, "a.yaml"), how)?;
    if plan.problems.is_empty() { Ok(plan) } else { Err(plan.problems.join("; ")) }
}

#[test]
fn all_that_is_wrong_is_named_at_once() {
    let (config, nids) = base("net: [{net type: tcp}]\n");
    let file = "net:\n\
                - {net type: tcp1, local NI(s): [{interfaces: {0: no1}}]}\n\
                - {net type: tcp2, local NI(s): [{interfaces: {0: no2}}]}\n";
    for mode in [ImportMode::Add, ImportMode::Exact, ImportMode::Del] {
        let error = import((&config, &nids), file, mode).err().unwrap();
        for named in ["a.yaml:2:", "a.yaml:3:"] {
            assert!(error.contains(named), "{named}: {error}");
        }
    }
}

fn base(text: &str) -> (NodeConfig, Vec<Nid>) {
    let (config, _) = NodeConfig::from_yaml(text, "base", Strictness::Strict).unwrap();
    started(&config).unwrap()
}

const TWO: &str = "net: [{net type: tcp, local NI(s): [{interfaces: {0: eth0}}]}, \
                   {net type: tcp1, local NI(s): [{interfaces: {0: eth1}}]}]";

#[test]
fn a_file_says_only_what_it_says() {
    let (config, nids) = base(TWO);
    let there = (&config, nids.as_slice());
    let text = "global: {retry_count: 1, lnd_timeout: 7}\n\
                lustrine: {tunables: {spin_us: 0}}\n\
                net: [{net type: tcp, local NI(s): [{nid: 10.0.0.1@tcp, \
                lnd tunables: {conns_per_peer: 3}}]}]";
    let plan = import(there, text, ImportMode::Add).unwrap();
    assert_eq!(
        steps(&config, &plan.config).unwrap(),
        [
            Step::Tunables(vec![("retry_count", 2, 1), ("spin_us", 200, 0)]),
            Step::ConnsPerPeer(0, 3)
        ]
    );
    let again = import((&plan.config, &nids), text, ImportMode::Add).unwrap();
    assert_eq!(again.config, plan.config);
    let nothing = import(there, "statistics: {}\n", ImportMode::Add).unwrap();
    assert_eq!(steps(&config, &nothing.config).unwrap(), []);
}

#[test]
fn interfaces_and_peers_come_and_go() {
    let (config, nids) = base(TWO);
    let there = (&config, nids.as_slice());
    let text = "net: [{net type: tcp2, local NI(s): [{interfaces: {0: eth2}}]}]\n\
                peer: [{primary nid: 1.2.3.4@tcp, peer ni: [{nid: 1.2.3.5@tcp}]}]";
    let plan = import(there, text, ImportMode::Add).unwrap();
    let nid = |text: &str| text.parse::<Nid>().unwrap();
    let nids_of_peer = vec![nid("1.2.3.4@tcp"), nid("1.2.3.5@tcp")];
    let peer = PeerConfig { nids: nids_of_peer.clone(), multi_rail: true, locked: false };
    assert_eq!(steps(&config, &plan.config).unwrap(), [Step::ConfigurePeer(peer), Step::AddNet(2)]);
    let all = [nids.as_slice(), &[nid("10.0.2.1@tcp2")]].concat();
    let gone = import((&plan.config, &all), text, ImportMode::Del).unwrap();
    assert_eq!(gone.config, config);
    assert_eq!(gone.forget, nids_of_peer);
    assert_eq!(
        steps(&plan.config, &gone.config).unwrap(),
        [Step::RemoveNids(nids_of_peer), Step::RemoveNet(2)]
    );
    let error = import(there, text, ImportMode::Del).err().unwrap();
    let missing = ["a.yaml:1:38: this node has no 10.0.2.1@tcp2", "a.yaml:2:8: no peer has"];
    assert!(missing.iter().all(|text| error.contains(text)), "{error}");
}

#[test]
fn peers_go_with_all_that_was_learned_of_them_but_not_what_is_locked() {
    let text = "net: [{net type: tcp}]\npeer: [{primary nid: 1.2.3.4@tcp, lock_prim: true}, \
                {primary nid: 1.2.3.6@tcp}]";
    let (config, nids) = base(text);
    let nid = |text: &str| text.parse::<Nid>().unwrap();
    let learned = |primary: &Nid| match primary.to_string().as_str() {
        "1.2.3.6@tcp" => vec![nid("1.2.3.7@tcp"), nid("1.2.3.6@tcp")],
        "1.2.3.8@tcp" => vec![nid("1.2.3.8@tcp")],
        _ => Vec::new(),
    };
    let del = |file: &str, strictness| {
        import_with((&config, &nids), file, (ImportMode::Del, strictness), learned)
    };
    let file = |nid: &str| format!("peer: [{{primary nid: {nid}@tcp}}]\n");
    let gone = del(&file("1.2.3.6"), Strictness::Strict).unwrap();
    assert_eq!(gone.forget, [nid("1.2.3.6@tcp"), nid("1.2.3.7@tcp")]);
    assert_eq!(gone.config.peers, config.peers[..1]);
    let gone = del(&file("1.2.3.8"), Strictness::Strict).unwrap();
    assert_eq!((gone.forget, gone.config), (vec![nid("1.2.3.8@tcp")], config.clone()));
    for (peer, why) in [
        ("1.2.3.4", "a.yaml:1:8: the primary NID of 1.2.3.4@tcp is locked; `lnetctl peer del"),
        ("1.2.3.9", "a.yaml:1:8: no peer has the primary NID 1.2.3.9@tcp"),
    ] {
        let error = del(&file(peer), Strictness::Strict).err().unwrap();
        assert!(error.starts_with(why), "{error}");
        let left = del(&file(peer), Strictness::Lenient).unwrap();
        assert_eq!((left.config, left.forget), (config.clone(), Vec::new()));
        assert!(left.warnings[0].starts_with(why), "{:?}", left.warnings);
    }
}

#[test]
fn a_peer_that_is_this_node_is_left_out_leniently() {
    let (config, nids) = base(TWO);
    // One is there already, the other one is added with the file.
    let text = "net: [{net type: tcp}, {net type: tcp1, local NI(s): [{interfaces: {0: eth1}}]}, \
                {net type: tcp2, local NI(s): [{interfaces: {0: eth2}}]}]\n\
                peer: [{primary nid: 10.0.0.1@tcp, peer ni: [{nid: 10.0.1.1@tcp1}]}, \
                {primary nid: 10.0.2.1@tcp2}, {primary nid: 10.0.0.9@tcp}]";
    for mode in [ImportMode::Add, ImportMode::Exact] {
        let there = (&config, nids.as_slice());
        let plan = import_with(there, text, (mode, Strictness::Lenient), |_| Vec::new()).unwrap();
        let left: Vec<String> = plan.config.peers.iter().map(|p| p.nids[0].to_string()).collect();
        assert_eq!(left, ["10.0.0.9@tcp"]);
        let said = [
            "a.yaml:2:8: ignored: peer 10.0.0.1@tcp: 10.0.0.1@tcp is this node itself",
            "a.yaml:2:70: ignored: peer 10.0.2.1@tcp2: 10.0.2.1@tcp2 is this node itself",
        ];
        assert_eq!(plan.warnings, said, "{mode:?}");
        // Strictly, who plans the change refuses it.
        assert_eq!(import(there, text, mode).unwrap().config.peers.len(), 3);
    }
}

#[test]
fn a_backup_gives_back_what_was() {
    let (config, nids) = base(TWO);
    let backup = config.to_backup();
    let (mut after, mut all) = (config.clone(), nids.clone());
    after.tunables.set("spin_us", 20).unwrap();
    after.tunables.set("retry_count", 5).unwrap();
    after.nets.remove(0);
    all.remove(0);
    after.nets[0].conns_per_peer = Some(9);
    let new =
        NetConfig::new(Net::new(NetKind::TCP, 3), InterfaceChoice::Interface("eth3".to_owned()));
    after.nets.push(place(&new, &config.tunables).unwrap().explicit);
    all.push("10.0.3.1@tcp3".parse().unwrap());
    let locked =
        PeerConfig { nids: vec!["1.2.3.4@tcp".parse().unwrap()], multi_rail: true, locked: true };
    add_peers(&mut after, &[locked]);
    let plan = import((&after, &all), &backup, ImportMode::Exact).unwrap();
    let mut sorted = plan.config.clone();
    sorted.nets.sort_by_key(|net| net.net.number);
    assert_eq!(sorted, config, "but for the order of its interfaces");
    assert!(plan.is_reordered());
    let lost = "a.yaml: the file lacks the peer 1.2.3.4@tcp, which is removed although its primary \
                NID is locked";
    assert_eq!(plan.warnings, [lost]);
    let same = import((&config, &nids), &backup, ImportMode::Exact).unwrap();
    assert!(!same.is_reordered());
    assert_eq!(
        steps(&after, &plan.config).unwrap(),
        [
            Step::RemoveNids(vec!["1.2.3.4@tcp".parse().unwrap()]),
            Step::Tunables(vec![("retry_count", 5, 2), ("spin_us", 20, 200)]),
            Step::RemoveNet(1),
            Step::ConnsPerPeer(0, 1),
            Step::AddNet(1),
        ]
    );
}

#[test]
fn an_exact_import_keeps_the_credits_that_the_file_does_not_give() {
    let text = "net: [{net type: tcp, local NI(s): [{interfaces: {0: eth0}, port: 9988, \
                tunables: {credits: 1024, peer_credits: 32}}]}]";
    let (config, nids) = base(text);
    for file in [
        "net: [{net type: tcp, local NI(s): [{interfaces: {0: eth0}}]}]",
        "net: [{net type: tcp, local NI(s): [{nid: 10.0.0.1@tcp}]}]",
        "net: [{net type: tcp, local NI(s): [{interfaces: {0: eth0}, \
         tunables: {credits: 1024}}]}]",
    ] {
        let plan = import((&config, &nids), file, ImportMode::Exact).unwrap();
        assert_eq!(plan.config.nets, config.nets, "{file}");
        assert_eq!(steps(&config, &plan.config), Ok(Vec::new()));
    }
    let other = "net: [{net type: tcp, local NI(s): [{interfaces: {0: eth0}, port: 988}]}]";
    let plan = import((&config, &nids), other, ImportMode::Exact).unwrap();
    let refused = steps(&config, &plan.config).unwrap_err();
    assert!(refused[0].text.contains("port is 9988 and cannot become its default"), "{refused:?}");
}

#[test]
fn what_is_only_kept_is_a_step_too() {
    let (config, nids) = base(TWO);
    let text = "net: [{net type: tcp1, local NI(s): [{nid: 10.0.1.1@tcp1, \
                lnd tunables: {timeout: 77}, tunables: {peer_timeout: 5}}]}]";
    let plan = import((&config, &nids), text, ImportMode::Add).unwrap();
    let steps = steps(&config, &plan.config).unwrap();
    assert_eq!(steps, [Step::KeepOnly(1, vec!["timeout", "peer_timeout"])]);
}

#[test]
fn an_interface_whose_device_is_gone_can_still_be_named() {
    let (mut config, nids) = base(TWO);
    config.nets[1].place = InterfaceChoice::Interface("gone0".to_owned());
    let text = "net: [{net type: tcp1, local NI(s): [{interfaces: {0: gone0}}]}]";
    let plan = import((&config, &nids), text, ImportMode::Add).unwrap();
    assert_eq!(plan.config, config);
    let plan = import((&config, &nids), text, ImportMode::Del).unwrap();
    assert_eq!(plan.config.nets, config.nets[..1]);
    // The number of connections would be that of a device whose speed is not known now.
    let text = "net: [{net type: tcp}, {net type: tcp1, local NI(s): [{interfaces: {0: gone0}, \
                lnd tunables: {conns_per_peer: 0}}]}]";
    for mode in [ImportMode::Add, ImportMode::Exact] {
        let plan = import((&config, &nids), text, mode).unwrap();
        assert_eq!(plan.config.nets[1].conns_per_peer, config.nets[1].conns_per_peer);
    }
}

#[test]
fn an_exact_import_restores_who_may_test() {
    let (config, nids) = base(TWO);
    let backup = config.to_backup();
    let opened = NodeConfig {
        selftest: ServicePolicy { mode: ServiceMode::Full, ..ServicePolicy::default() },
        ..config.clone()
    };
    let plan = import((&opened, &nids), &backup, ImportMode::Exact).unwrap();
    assert_eq!(plan.config.selftest, ServicePolicy::default());
    let plan = import((&opened, &nids), &backup, ImportMode::Add).unwrap();
    assert_eq!(plan.config.selftest, opened.selftest, "what a file does not say stays");
}

#[test]
fn nothing_is_taken_twice_and_nothing_changes_places() {
    let (config, nids) = base(TWO);
    let file = "net: [{net type: tcp3, local NI(s): [{interfaces: {0: eth3}}, \
                {nid: 10.0.3.1@tcp3}]}]";
    let error = import((&config, &nids), file, ImportMode::Exact).err().unwrap();
    assert_eq!(error, "a.yaml:1:63: 10.0.3.1@tcp3 is given twice");
    // eth0 had another address when the node began.
    let nids = ["10.0.9.9@tcp".parse().unwrap(), nids[1]];
    for mode in [ImportMode::Add, ImportMode::Exact] {
        let plan = import((&config, &nids), &config.to_backup(), mode).unwrap();
        assert_eq!(plan.config, config);
        assert_eq!(steps(&config, &plan.config), Ok(Vec::new()));
    }
    let gone = import((&config, &nids), "net: [{net type: tcp}]", ImportMode::Del);
    assert!(gone.is_err(), "by its address it is another one");
    let text = "net: [{net type: tcp, local NI(s): [{interfaces: {0: eth0}}]}]";
    let gone = import((&config, &nids), text, ImportMode::Del).unwrap();
    assert_eq!(gone.config.nets, config.nets[1..]);
}

#[test]
fn the_largest_backup_can_be_read() {
    let nets = (0..199).map(|net| NetConfig {
        credits: Some(65_535),
        peer_credits: Some(65_535),
        timeout: Some(100_000),
        tos: Some(255),
        peer_timeout: Some(i32::MIN),
        peer_buffer_credits: Some(65_535),
        cpts: Some("[0-1,3,5-7]".to_owned()),
        ..NetConfig::new(
            Net::new(NetKind::TCP, 65_000 + net),
            InterfaceChoice::Interface("longest-name-15".to_owned()),
        )
    });
    let peers = (0..PEER_NIDS_MAX as u128).map(|number| PeerConfig {
        nids: vec![Nid::from_ip(
            Net::new(NetKind::TCP, 65_535),
            std::net::Ipv6Addr::from_bits(u128::MAX - (1 << 120) - number).into(),
        )],
        multi_rail: false,
        locked: true,
    });
    let (base, _) = base(TWO);
    let config = NodeConfig { nets: nets.collect(), peers: peers.collect(), ..base };
    assert_eq!(config.check(), Ok(()));
    let text = config.to_backup();
    let read = NodeConfig::from_yaml(&text, "backup", Strictness::Strict);
    assert_eq!(read.unwrap().0, config, "{} bytes", text.len());
}

#[test]
fn all_that_cannot_be_is_named_with_its_place() {
    let (config, nids) = base(TWO);
    let text = "lustrine:\n    identity: userland\n    tunables: {peers_max: 99}\n\
                net: [{net type: tcp, local NI(s): [{tunables: {credits: 300}}]}]\n";
    let mut plan = import((&config, &nids), text, ImportMode::Add).unwrap();
    let refused = steps(&config, &plan.config).unwrap_err();
    let placed: Vec<String> = refused.iter().map(|refused| plan.message(refused)).collect();
    for (text, starts) in placed.iter().zip([
        "a.yaml:3:16: peers_max is 131072 and a running node cannot change it to 99: write it",
        "a.yaml:2:5: identity is \"auto\" and a running node cannot change it to \"userland\"",
        "a.yaml:4:37: net tcp: credits is 256 and cannot become 300 while the interface is there",
    ]) {
        assert!(text.starts_with(starts), "{text}");
    }
    for refused in &refused {
        plan.leave_out(&config, refused);
    }
    assert_eq!(steps(&config, &plan.config).unwrap(), []);
}

#[test]
fn tuning_is_a_part_of_a_file_too() {
    let net = "net: [{net type: tcp}]\n";
    let (fixed, nids) = base(net);
    let (auto, _) = base(&format!("{net}lustrine: {{tuning: auto}}\n"));
    let given = "lustrine: {tuning: auto, tunables: {peer_credits: 16}}\n";
    let (own, _) = base(&format!("{net}{given}"));
    for mode in [ImportMode::Add, ImportMode::Exact] {
        for (node, word, same) in [
            (&fixed, "fixed", true),
            (&auto, "auto", true),
            // A value that was given stays, as with `--tuning auto`.
            (&own, "auto", true),
            (&fixed, "auto", false),
            (&auto, "fixed", false),
            (&own, "fixed", false),
        ] {
            let text = format!("{net}lustrine:\n  tuning: {word}\n");
            let mut plan = import((node, &nids), &text, mode).unwrap();
            let refused = match steps(node, &plan.config) {
                Ok(made) => {
                    assert!(same && made.is_empty(), "{word}: {made:?}");
                    continue;
                }
                Err(refused) => refused,
            };
            assert!(!same, "{word}: {refused:?}");
            let expected =
                format!("a.yaml:3:3: tuning of a running node cannot change to {word}: write it");
            for refused in &refused {
                let message = plan.message(refused);
                assert!(message.starts_with(&expected), "{message}");
            }
            for refused in &refused {
                plan.leave_out(node, refused);
            }
            assert_eq!(steps(node, &plan.config), Ok(Vec::new()));
        }
    }
    // A value in the file has its own place.
    let text = format!("{net}lustrine: {{tuning: fixed, tunables: {{credits: 8192}}}}\n");
    let plan = import((&auto, &nids), &text, ImportMode::Add).unwrap();
    assert_eq!(plan.config.tunables.value("credits"), Some(8192));
}

#[test]
fn what_does_not_go_together_with_what_is_there_is_refused() {
    let (config, nids) = base("net: [{net type: tcp}]\ntransaction_timeout: 10\n");
    // Legal by itself, as the default of the timeout is 150.
    let error = import((&config, &nids), "retry_count: 20\n", ImportMode::Add).err().unwrap();
    assert!(error.starts_with("a.yaml:1:1: retry_count = 20 with transaction_timeout = 10"));
}

fn nid() -> impl Strategy<Value = Nid> {
    (0_u16..3, 1_u32..40).prop_map(|(number, address)| {
        Nid::new4(Net::new(NetKind::TCP, number), 0x0102_0300 + address)
    })
}

fn peers() -> impl Strategy<Value = Vec<PeerConfig>> {
    let peer = (prop::collection::vec(nid(), 1..4), any::<bool>());
    prop::collection::vec(peer, 0..5).prop_map(|peers| {
        let mut seen: Vec<Nid> = Vec::new();
        let mut made = Vec::new();
        for (mut nids, locked) in peers {
            nids.retain(|nid| {
                !seen.contains(nid) && {
                    seen.push(*nid);
                    true
                }
            });
            if !nids.is_empty() {
                let multi_rail = nids.len() > 1 || locked;
                made.push(PeerConfig { nids, multi_rail, locked });
            }
        }
        made
    })
}

prop_compose! {
    fn net()(
        number in 0_u16..3,
        place in select(vec![
            InterfaceChoice::Default,
            InterfaceChoice::Address("10.9.9.9".parse().unwrap()),
            InterfaceChoice::Interface("eth1".to_owned()),
            InterfaceChoice::Interface("eth2".to_owned()),
        ]),
        port in option::of(select(vec![1_u16, 987, 988, 9988])),
        credits in option::of(100_u32..=65_535),
        peer_credits in option::of(1_u32..=100),
        conns_per_peer in option::of(0_u16..=127),
        timeout in option::of(1_u32..=100_000),
        tos in option::of(-1_i16..=255),
        peer_timeout in option::of(any::<i32>()),
        peer_buffer_credits in option::of(0_u32..=65_535),
        cpts in option::of(Just("[0]".to_owned())),
    ) -> NetConfig {
        let net = Net::new(NetKind::TCP, number);
        NetConfig {
            net, place, port, credits, peer_credits, conns_per_peer, timeout, tos, peer_timeout,
            peer_buffer_credits, cpts,
        }
    }
}

fn selftest() -> impl Strategy<Value = ServicePolicy> {
    let modes = select(vec!["off", "serve", "full"]);
    let lists = select(vec!["", "10.0.0.[1-5]@tcp", "10.0.0.1@tcp *@o2ib"]);
    (modes, lists).prop_map(|(mode, list)| ServicePolicy {
        mode: mode.parse().expect("a mode"),
        consoles: list.parse().expect("NID patterns"),
    })
}

fn tunables(change: Option<Change>) -> impl Strategy<Value = Tunables> {
    let rows: Vec<usize> =
        (0..TABLE.len()).filter(|row| change.is_none_or(|c| TABLE[*row].change == c)).collect();
    let changes = prop::collection::vec((select(rows), any::<prop::sample::Index>()), 0..12);
    changes.prop_map(|changes| {
        let mut values = Tunables::default();
        for (row, choice) in changes {
            let row = &TABLE[row];
            let span = usize::try_from(row.max - row.min).unwrap_or(usize::MAX - 1) + 1;
            values.set(row.name, row.min + choice.index(span) as i64).unwrap();
        }
        values
    })
}

prop_compose! {
    fn config(change: Option<Change>)(
        nets in prop::collection::vec(net(), 1..6),
        peers in peers(),
        identity in select(vec![
            IdentityChoice::Auto, IdentityChoice::Node, IdentityChoice::Userland,
        ]),
        accept in select(vec![AcceptPolicy::Secure, AcceptPolicy::All, AcceptPolicy::None]),
        selftest in selftest(),
        tunables in tunables(change),
        cpu_pattern in "[ -~]{0,12}",
        control in option::of("[ -~]{1,30}".prop_map(|path: String| path)),
        metrics in option::of(select(vec!["127.0.0.1:9500", "[::1]:1", "localhost:65535"])),
    ) -> NodeConfig {
        let metrics = metrics.map(|text| text.parse().unwrap());
        NodeConfig {
            nets, peers, identity, accept, selftest, tunables, cpu_pattern, control, metrics,
        }
    }
}

proptest! {
    /// Every key: what a node that was started with it exports, another one takes and exports.
    #[test]
    fn an_export_starts_an_equal_node(config in config(None)) {
        prop_assume!(config.check().is_ok());
        let Some((settings, nids)) = started(&config) else { return Ok(()) };
        prop_assume!(settings.check().is_ok());
        let text = settings.to_backup();
        let (read, _) = NodeConfig::from_yaml(&text, "export", Strictness::Strict).unwrap();
        prop_assert_eq!(started(&read), Some((settings.clone(), nids.clone())));
        // Taken by the node itself it changes nothing.
        let plan = import((&settings, &nids), &text, ImportMode::Add).unwrap();
        prop_assert_eq!(&plan.config, &settings);
        prop_assert_eq!(steps(&settings, &plan.config), Ok(Vec::new()));
    }

    /// Whatever it was, of what can be changed: a backup makes it another node exactly.
    #[test]
    fn a_backup_makes_any_node_the_one_that_it_is_of(
        (one, other) in (config(Some(Change::Live)), config(Some(Change::Live))),
        // As files that people write: an interface, and nothing of its credits.
        bare in any::<bool>(),
    ) {
        let mut other = other;
        (other.identity, other.accept) = (one.identity, one.accept);
        (other.cpu_pattern, other.control) = (one.cpu_pattern.clone(), one.control.clone());
        other.metrics = one.metrics.clone();
        let (Some((one, _)), Some((other, nids))) = (started(&one), started(&other)) else {
            return Ok(());
        };
        prop_assume!(one.check().is_ok() && other.check().is_ok());
        let mut file = one.clone();
        for net in file.nets.iter_mut().filter(|_| bare) {
            (net.credits, net.peer_credits) = (None, None);
        }
        let plan = import((&other, &nids), &file.to_backup(), ImportMode::Exact).unwrap();
        prop_assert_eq!(&plan.config.tunables, &one.tunables);
        prop_assert_eq!(&plan.config.selftest, &one.selftest);
        prop_assert_eq!(&plan.config.peers, &one.peers);
        let place = |net: &NetConfig| place(net, &one.tunables).unwrap().nid;
        let nids_of = |config: &NodeConfig| {
            let mut nids: Vec<Nid> = config.nets.iter().map(place).collect();
            nids.sort_unstable();
            nids
        };
        prop_assert_eq!(nids_of(&plan.config), nids_of(&one));
        // An interface that is there keeps its place, and its credits and port. Only what the file
        // says of them can be refused, and nothing else is.
        let mut expected = BTreeSet::new();
        for (index, net) in plan.config.nets.iter().enumerate() {
            let nid = place(net);
            let given = file.nets.iter().find(|net| place(net) == nid).unwrap();
            let Some(known) = nids.iter().position(|own| *own == nid) else { continue };
            let old = &other.nets[known];
            let after = (
                given.port.or(old.port),
                given.credits.or(old.credits),
                given.peer_credits.or(old.peer_credits),
            );
            prop_assert_eq!((net.port, net.credits, net.peer_credits), after);
            if (old.port, old.credits, old.peer_credits) != after {
                expected.insert(index);
            }
        }
        let refused: BTreeSet<usize> = steps(&other, &plan.config)
            .err()
            .into_iter()
            .flatten()
            .map(|refused| match refused.part {
                ConfigPart::Net(index) => index,
                part => panic!("{part:?}: {}", refused.text),
            })
            .collect();
        prop_assert_eq!(refused, expected);
    }

    /// What can be changed while a node runs: exported, imported into a fresh node that was started
    /// alike in the rest, and equal.
    #[test]
    fn an_export_changes_a_fresh_node_into_an_equal_one(
        config in config(Some(Change::Live)),
    ) {
        prop_assume!(config.check().is_ok());
        let Some((settings, nids)) = started(&config) else { return Ok(()) };
        prop_assume!(settings.check().is_ok());
        // The fresh one has one interface, as every node, and nothing else.
        let kept = 0;
        let fresh = NodeConfig {
            nets: vec![NetConfig { conns_per_peer: Some(1), ..settings.nets[kept].clone() }],
            peers: Vec::new(),
            tunables: Tunables::default(),
            ..settings.clone()
        };
        let plan = import((&fresh, &nids[kept..=kept]), &settings.to_backup(), ImportMode::Add);
        let plan = plan.unwrap();
        prop_assert_eq!(&plan.config, &settings);
        prop_assert!(steps(&fresh, &plan.config).is_ok());
        // And all of it can be taken back, but for the interface that stays.
        if settings.nets.len() > 1 {
            let gone = import((&settings, &nids), &settings.to_backup(), ImportMode::Del);
            match gone {
                Ok(gone) => {
                    prop_assert!(gone.config.nets.is_empty() && gone.config.peers.is_empty());
                }
                Err(why) => {
                    prop_assert!(settings.peers.iter().any(|peer| peer.locked), "{}", why);
                }
            }
        }
    }
}
