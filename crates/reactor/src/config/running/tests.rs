use std::net::IpAddr;

use lustrine_lnet::tunables::Tunables;
use lustrine_wire::nid::{Net, NetKind};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use super::*;
use crate::config::{AcceptPolicy, IdentityChoice, Place};

/// A machine on which eth1 has 10.0.1.1 and so on.
fn place(net: &NetConfig) -> Result<Placed, String> {
    let ip: IpAddr = match &net.place {
        Place::Address(ip) => *ip,
        Place::Interface(name) => {
            let number = name.strip_prefix("eth").ok_or(format!("{name} is not there"))?;
            format!("10.0.{number}.1").parse().map_err(|_| format!("{name} is not there"))?
        }
        Place::Default => "10.0.0.1".parse().unwrap(),
    };
    let place = match &net.place {
        Place::Default => Place::Interface("eth0".to_owned()),
        named => named.clone(),
    };
    let explicit = NetConfig {
        place,
        credits: Some(net.credits.unwrap_or(256)),
        peer_credits: Some(net.peer_credits.unwrap_or(8)),
        conns_per_peer: Some(net.conns_per_peer.filter(|count| *count > 0).unwrap_or(1)),
        ..net.clone()
    };
    Ok(Placed { nid: Nid::from_ip(net.net, ip), explicit })
}

/// What a node is set to that was started with a configuration.
fn started(config: &NodeConfig) -> Option<(NodeConfig, Vec<Nid>)> {
    let placed: Vec<Placed> = config.nets.iter().map(|net| place(net).unwrap()).collect();
    let nids: Vec<Nid> = placed.iter().map(|placed| placed.nid).collect();
    let twice = (1..nids.len()).any(|index| nids[..index].contains(&nids[index]));
    let nets = placed.into_iter().map(|placed| placed.explicit).collect();
    (!twice).then(|| (NodeConfig { nets, ..config.clone() }, nids))
}

fn import(
    (base, nids): (&NodeConfig, &[Nid]),
    text: &str,
    manner: Manner,
) -> Result<Wanted, String> {
    wanted((base, nids), (text, "a.yaml"), (manner, Strictness::Strict), place)
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
    let wanted = import(there, text, Manner::Add).unwrap();
    assert_eq!(
        steps(&config, &wanted.config).unwrap(),
        [
            Step::Tunables(vec![("retry_count", 2, 1), ("spin_us", 200, 0)]),
            Step::ConnsPerPeer(0, 3)
        ]
    );
    let again = import((&wanted.config, &nids), text, Manner::Add).unwrap();
    assert_eq!(again.config, wanted.config);
    let nothing = import(there, "statistics: {}\n", Manner::Add).unwrap();
    assert_eq!(steps(&config, &nothing.config).unwrap(), []);
}

#[test]
fn interfaces_and_peers_come_and_go() {
    let (config, nids) = base(TWO);
    let there = (&config, nids.as_slice());
    let text = "net: [{net type: tcp2, local NI(s): [{interfaces: {0: eth2}}]}]\n\
                peer: [{primary nid: 1.2.3.4@tcp, peer ni: [{nid: 1.2.3.5@tcp}]}]";
    let wanted = import(there, text, Manner::Add).unwrap();
    let nid = |text: &str| text.parse::<Nid>().unwrap();
    let nids_of_peer = vec![nid("1.2.3.4@tcp"), nid("1.2.3.5@tcp")];
    let peer = PeerConfig { nids: nids_of_peer.clone(), multi_rail: true, locked: false };
    assert_eq!(
        steps(&config, &wanted.config).unwrap(),
        [Step::DescribePeer(peer), Step::AddNet(2)]
    );
    let all = [nids.as_slice(), &[nid("10.0.2.1@tcp2")]].concat();
    let gone = import((&wanted.config, &all), text, Manner::Del).unwrap();
    assert_eq!(gone.config, config);
    assert_eq!(gone.forget, nids_of_peer);
    assert_eq!(
        steps(&wanted.config, &gone.config).unwrap(),
        [Step::RemoveNids(nids_of_peer), Step::RemoveNet(2)]
    );
    let error = import(there, text, Manner::Del).err().unwrap();
    assert_eq!(error, "a.yaml:1:38: this node has no 10.0.2.1@tcp2");
}

#[test]
fn all_that_cannot_be_is_named_with_its_place() {
    let (config, nids) = base(TWO);
    let text = "lustrine:\n    identity: userland\n    tunables: {peers_max: 99}\n\
                net: [{net type: tcp, local NI(s): [{tunables: {credits: 300}}]}]\n";
    let mut wanted = import((&config, &nids), text, Manner::Add).unwrap();
    let refused = steps(&config, &wanted.config).unwrap_err();
    let placed: Vec<String> = refused.iter().map(|refused| wanted.placed(refused)).collect();
    for (text, starts) in placed.iter().zip([
        "a.yaml:3:16: peers_max is 131072 and a node that runs cannot change it to 99: write it",
        "a.yaml:2:5: identity is \"auto\" and a node that runs cannot change it to \"userland\"",
        "a.yaml:4:37: net tcp: credits is 256 and cannot become 300 while the interface is there",
    ]) {
        assert!(text.starts_with(starts), "{text}");
    }
    for refused in &refused {
        wanted.leave(&config, refused);
    }
    assert_eq!(steps(&config, &wanted.config).unwrap(), []);
}

#[test]
fn what_does_not_go_together_with_what_is_there_is_refused() {
    let (config, nids) = base("net: [{net type: tcp}]\ntransaction_timeout: 10\n");
    // Legal by itself, as the default of the timeout is 150.
    let error = import((&config, &nids), "retry_count: 20\n", Manner::Add).err().unwrap();
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
            Place::Default,
            Place::Address("10.9.9.9".parse().unwrap()),
            Place::Interface("eth1".to_owned()),
            Place::Interface("eth2".to_owned()),
        ]),
        port in option::of(select(vec![1_u16, 987, 9988])),
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
        tunables in tunables(change),
        cpu_pattern in "[ -~]{0,12}",
        control in option::of("[ -~]{1,30}".prop_map(std::path::PathBuf::from)),
    ) -> NodeConfig {
        NodeConfig { nets, peers, identity, accept, tunables, cpu_pattern, control, metrics: None }
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
        let wanted = import((&settings, &nids), &text, Manner::Add).unwrap();
        prop_assert_eq!(&wanted.config, &settings);
        prop_assert_eq!(steps(&settings, &wanted.config), Ok(Vec::new()));
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
        let wanted = import((&fresh, &nids[kept..=kept]), &settings.to_backup(), Manner::Add);
        let wanted = wanted.unwrap();
        prop_assert_eq!(&wanted.config, &settings);
        prop_assert!(steps(&fresh, &wanted.config).is_ok());
        // And all of it can be taken back, but for the interface that stays.
        if settings.nets.len() > 1 {
            let gone = import((&settings, &nids), &settings.to_backup(), Manner::Del);
            let gone = gone.unwrap();
            prop_assert!(gone.config.nets.is_empty() && gone.config.peers.is_empty());
        }
    }
}
