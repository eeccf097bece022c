use lustrine_partition::tunables::Tunables;
use lustrine_wire::nid::NetKind;

use super::*;

fn tcp(number: u16, place: InterfaceChoice) -> NetConfig {
    NetConfig::new(Net::new(NetKind::TCP, number), place)
}

fn eth(number: u8) -> InterfaceChoice {
    InterfaceChoice::Interface(format!("eth{number}"))
}

fn with(nets: Vec<NetConfig>) -> NodeConfig {
    NodeConfig { nets, ..NodeConfig::default() }
}

#[test]
fn the_default_and_a_usual_node_pass() {
    assert_eq!(NodeConfig::default().check(), Ok(()));
    let mut own = tcp(1, InterfaceChoice::Address("fd77::1".parse().unwrap()));
    own.peer_credits = Some(64);
    own.cpts = Some("[0]".to_owned());
    assert_eq!(
        with(vec![tcp(0, eth(0)), tcp(0, eth(1)), own, tcp(2, InterfaceChoice::Default)]).check(),
        Ok(())
    );
}

#[test]
fn nets_must_be_possible() {
    let ib = NetConfig::new(Net::new(NetKind::O2IB, 0), InterfaceChoice::Default);
    assert!(matches!(with(vec![ib]).check(), Err(Inconsistency::NoDriver { index: 0, .. })));
    let nowhere = tcp(0, InterfaceChoice::Address("0.0.0.0".parse().unwrap()));
    let unnamed = tcp(0, InterfaceChoice::Interface(String::new()));
    for net in [nowhere, unnamed] {
        assert!(matches!(with(vec![net]).check(), Err(Inconsistency::BadPlace { .. })));
    }
    let twice = with(vec![tcp(0, eth(0)), tcp(1, eth(0)), tcp(0, eth(0))]);
    assert!(matches!(twice.check(), Err(Inconsistency::SameInterface { index: 2, .. })));
    let mut scattered = tcp(0, eth(0));
    scattered.cpts = Some("0,1".to_owned());
    assert!(matches!(with(vec![scattered]).check(), Err(Inconsistency::BadPartitions { .. })));
}

#[test]
fn more_nets_than_a_peer_can_be_told() {
    let mut config = with((0..20).map(|number| tcp(number, eth(0))).collect());
    config.tunables.lnet.max_interfaces = 20;
    assert_eq!(config.check(), Err(Inconsistency::TooManyNets { nets: 20, max: 19 }));
    config.tunables.lnet.max_interfaces = 21;
    assert_eq!(config.check(), Ok(()));
}

#[test]
fn own_values_obey_the_ranges_of_the_tunables() {
    type Change = fn(&mut NetConfig);
    let changes: [(&str, Change); 5] = [
        ("accept_port", |net| net.port = Some(0)),
        ("credits", |net| net.credits = Some(65_536)),
        ("conns_per_peer", |net| net.conns_per_peer = Some(128)),
        ("sock_timeout", |net| net.timeout = Some(0)),
        ("tos", |net| net.tos = Some(-2)),
    ];
    for (want, change) in changes {
        let mut net = tcp(0, InterfaceChoice::Default);
        change(&mut net);
        let error = with(vec![net]).check().unwrap_err();
        assert!(
            matches!(error, Inconsistency::OutOfRange { net: Some(0), name, .. } if name == want),
            "{want}: {error}"
        );
    }
}

#[test]
fn tunables_obey_their_ranges_and_each_other() {
    let check = |change: fn(&mut Tunables)| {
        let mut config = NodeConfig::default();
        change(&mut config.tunables);
        config.check().unwrap_err()
    };
    assert!(matches!(
        check(|t| t.socklnd.min_bulk = -1),
        Inconsistency::OutOfRange { net: None, name: "min_bulk", value: -1, .. }
    ));
    assert!(matches!(
        check(|t| t.lnet.credits = 7),
        Inconsistency::PeerCreditsAboveCredits { net: None, peer_credits: 8, credits: 7 }
    ));
    assert!(matches!(
        check(|t| t.lnet.transaction_timeout = 2),
        Inconsistency::RetriesExceedTimeout { .. }
    ));
    assert!(matches!(
        check(|t| t.socklnd.max_reconnectms = 999),
        Inconsistency::ReconnectOrder { min: 1000, max: 999 }
    ));
}

#[test]
fn a_net_takes_what_it_does_not_set_from_the_tunables() {
    let mut net = tcp(0, InterfaceChoice::Default);
    net.credits = Some(4);
    let want = Inconsistency::PeerCreditsAboveCredits { net: Some(0), peer_credits: 8, credits: 4 };
    assert_eq!(with(vec![net.clone()]).check(), Err(want));
    net.peer_credits = Some(4);
    assert_eq!(with(vec![net]).check(), Ok(()));
}

#[test]
fn a_control_socket_has_a_path() {
    let config = NodeConfig { control: Some("".into()), ..NodeConfig::default() };
    assert_eq!(config.check(), Err(Inconsistency::EmptyControl));
}
