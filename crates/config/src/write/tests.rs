use std::net::IpAddr;

use lustrine_wire::nid::{Net, NetKind};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use super::*;
use crate::Address;
use crate::{AcceptPolicy, IdentityChoice, Strictness, interface};
use lustrine_selftest::ServicePolicy;

fn reread(text: &str) -> NodeConfig {
    NodeConfig::from_yaml(text, "written", Strictness::Strict)
        .unwrap_or_else(|e| panic!("{e}\n{text}"))
        .0
}

#[test]
fn the_text_is_laid_out_as_an_export() {
    let tcp = |number, place| NetConfig::new(Net::new(NetKind::TCP, number), place);
    let eth = |name: &str| InterfaceChoice::Interface(name.to_owned());
    let mut rich = tcp(1, InterfaceChoice::Address("fd77::1".parse().unwrap()));
    rich.port = Some(9988);
    rich.credits = Some(512);
    rich.peer_timeout = Some(180);
    rich.tos = Some(-1);
    rich.cpts = Some("[0]".to_owned());
    let mut config = NodeConfig {
        nets: vec![
            tcp(0, eth("eth0")),
            tcp(0, eth("no")),
            tcp(0, eth("eth0:1")),
            rich,
            tcp(2, InterfaceChoice::Default),
        ],
        identity: IdentityChoice::Userland,
        control: Some("/run/a \"b\".sock".into()),
        metrics: Some("[::1]:9909".parse().unwrap()),
        ..NodeConfig::default()
    };
    config.tunables.lnet.transaction_timeout = 60;
    config.tunables.loops.spin_us = -1;
    let want = "\
net:
-     net type: tcp
      local NI(s):
      -     interfaces:
                  0: eth0
      -     interfaces:
                  0: \"no\"
      -     interfaces:
                  0: \"eth0:1\"
-     net type: tcp1
      local NI(s):
      -     nid: fd77::1@tcp1
            port: 9988
            tunables:
                  peer_timeout: 180
                  credits: 512
            lnd tunables:
                  tos: -1
            CPT: \"[0]\"
-     net type: tcp2
global:
    transaction_timeout: 60
lustrine:
    identity: userland
    accept: secure
    control: \"/run/a \\\"b\\\".sock\"
    metrics: \"[::1]:9909\"
    cpu_pattern: \"N\"
    tunables:
        spin_us: -1
";
    assert_eq!(config.to_yaml(), want);
    assert_eq!(reread(want), config);
}

/// What a kernel's backup has and ours has not: routes and settings that nodes do not have, and CPU
/// partitions, of which every one serves every interface.
#[test]
fn a_backup_is_laid_out_as_the_real_one() {
    let path = "../../testdata/lnetctl/export_backup.yaml";
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    let recorded = std::fs::read_to_string(path).unwrap();
    let read = NodeConfig::from_yaml(&recorded, "recorded", Strictness::Lenient);
    let (mut config, _) = read.unwrap();
    for net in &mut config.nets {
        net.cpts = None;
    }
    let route = recorded.find("route:\n").unwrap()..recorded.find("peer:\n").unwrap();
    let mut wanted = recorded.clone();
    wanted.replace_range(route, "");
    let ours = |line: &&str| {
        let key = line.trim().split(':').next().unwrap();
        let known = !line.starts_with("    ") || line.starts_with("     ") || GLOBAL.contains(&key);
        known && key != "CPT" && !line.starts_with('#')
    };
    let wanted: String = wanted.lines().filter(ours).map(|line| format!("{line}\n")).collect();
    let written = config.to_backup();
    let (theirs, own) = written.split_at(written.find("lustrine:\n").unwrap());
    assert_eq!(theirs, wanted);
    assert_eq!(own, "lustrine:\n    identity: auto\n    accept: secure\n    cpu_pattern: \"N\"\n");
    assert_eq!(reread(&written), config);
}

#[test]
fn the_default_is_written_and_read() {
    let config = NodeConfig::default();
    assert_eq!(reread(&config.to_yaml()), config);
}

fn place() -> impl Strategy<Value = InterfaceChoice> {
    let address = any::<IpAddr>().prop_filter("one host", |ip| interface::is_host(*ip));
    let name = "[!-~]{1,15}".prop_filter("a name", |name| interface::is_name(name));
    let reserved =
        select(vec!["null", "true", "no", "y", "1e5", "0x10", "-", "&a", "*", "#x", "~"]);
    prop_oneof![
        Just(InterfaceChoice::Default),
        address.prop_map(InterfaceChoice::Address),
        name.prop_map(InterfaceChoice::Interface),
        reserved.prop_map(|name| InterfaceChoice::Interface(name.to_owned())),
    ]
}

prop_compose! {
    fn net()(
        number in 0_u16..3,
        place in place(),
        port in option::of(1_u16..),
        credits in option::of(100_u32..=65_535),
        peer_credits in option::of(1_u32..=100),
        conns_per_peer in option::of(0_u16..=127),
        timeout in option::of(1_u32..=100_000),
        tos in option::of(-1_i16..=255),
        peer_timeout in option::of(any::<i32>()),
        peer_buffer_credits in option::of(0_u32..=65_535),
        cpts in option::of(select(vec!["[0]", "[0,2-8/2]"]).prop_map(str::to_owned)),
    ) -> NetConfig {
        let net = Net::new(NetKind::TCP, number);
        NetConfig {
            net, place, port, credits, peer_credits, conns_per_peer, timeout, tos, peer_timeout,
            peer_buffer_credits, cpts,
        }
    }
}

fn metrics() -> impl Strategy<Value = Address> {
    let host = select(vec!["127.0.0.1", "localhost", "[::1]", "[fe80::1%eth0]", "no", "0x7f"]);
    (host, any::<u16>()).prop_map(|(host, port)| format!("{host}:{port}").parse().unwrap())
}

fn selftest() -> impl Strategy<Value = ServicePolicy> {
    let modes = select(vec!["off", "serve", "full"]);
    let lists = select(vec!["", "10.0.0.[1-5]@tcp", "10.0.0.1@tcp *@o2ib"]);
    (modes, lists).prop_map(|(mode, list)| ServicePolicy {
        mode: mode.parse().expect("a mode"),
        consoles: list.parse().expect("NID patterns"),
    })
}

fn tunables() -> impl Strategy<Value = Tunables> {
    let changes =
        proptest::collection::vec((0..TABLE.len(), any::<proptest::sample::Index>()), 0..12);
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
    fn config()(
        nets in proptest::collection::vec(net(), 0..6),
        identity in select(vec![
            IdentityChoice::Auto, IdentityChoice::Node, IdentityChoice::Userland,
        ]),
        accept in select(vec![AcceptPolicy::Secure, AcceptPolicy::All, AcceptPolicy::None]),
        selftest in selftest(),
        tunables in tunables(),
        cpu_pattern in "\\PC{0,20}|[ -~\n\t\\\\\"\u{0}\u{85}\u{2028}]{0,12}",
        control in option::of("[^\u{0}]{1,30}".prop_map(|path: String| path)),
        metrics in option::of(metrics()),
    ) -> NodeConfig {
        let peers = Vec::new();
        NodeConfig {
            nets, peers, identity, accept, selftest, tunables, cpu_pattern, control, metrics,
        }
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(
        config in config().prop_filter("consistent", |config| config.check().is_ok()),
    ) {
        let text = config.to_yaml();
        prop_assert!(text.is_ascii(), "{}", text);
        let read = NodeConfig::from_yaml(&text, "written", Strictness::Strict);
        prop_assert_eq!(read.map(|(read, _)| read), Ok(config), "{}", text);
    }

    #[test]
    fn what_is_refused_by_the_check_is_refused_by_the_reader(config in config()) {
        let read = NodeConfig::from_yaml(&config.to_yaml(), "written", Strictness::Strict);
        prop_assert_eq!(read.is_ok(), config.check().is_ok());
    }
}
