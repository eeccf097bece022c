use std::net::IpAddr;

use lustrine_wire::nid::{Net, NetKind};
use proptest::prelude::*;

use super::*;
use crate::{AcceptPolicy, IdentityChoice, InterfaceChoice, NetConfig};

fn strict(text: &str) -> Result<NodeConfig, String> {
    read(text, "f", Strictness::Strict).map(|(config, _)| config).map_err(|e| e.to_string())
}

fn refusal(text: &str) -> String {
    strict(text).expect_err(text)
}

fn lenient(text: &str) -> (NodeConfig, Vec<String>) {
    let (config, warnings) = read(text, "f", Strictness::Lenient).unwrap_or_else(|e| panic!("{e}"));
    (config, warnings.iter().map(Warning::to_string).collect())
}

fn capture(name: &str) -> String {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/lnetctl/");
    std::fs::read_to_string(format!("{directory}{name}.yaml")).unwrap()
}

fn tcp(number: u16, place: InterfaceChoice) -> NetConfig {
    NetConfig::new(Net::new(NetKind::TCP, number), place)
}

fn eth(number: u8) -> InterfaceChoice {
    InterfaceChoice::Interface(format!("eth{number}"))
}

fn address(text: &str) -> InterfaceChoice {
    InterfaceChoice::Address(text.parse::<IpAddr>().unwrap())
}

/// The values that a kernel node of 2.17 shows for an interface without own values.
fn as_shown(mut ni: NetConfig, timeout: Option<u32>) -> NetConfig {
    ni.credits = Some(256);
    ni.peer_credits = Some(8);
    ni.peer_timeout = Some(180);
    ni.peer_buffer_credits = Some(0);
    ni.conns_per_peer = Some(1);
    ni.timeout = timeout;
    ni.tos = Some(-1);
    ni.cpts = Some("[0]".to_owned());
    ni
}

#[test]
fn nothing_is_the_default() {
    for text in ["", "# empty\n", "net:\nglobal: {}\nlustrine: ~\n"] {
        assert_eq!(strict(text), Ok(NodeConfig::default()), "{text:?}");
    }
}

/// Dialect A as lnetctl 2.15 shows it, B as 2.16 does, C by the indentation of its ping; from
/// [CFG-6] and [CFG-8].
#[test]
fn three_dialects_say_the_same() {
    let a = "\
net:
    - net type: lo
      local NI(s):
        - nid: 0@lo
          status: up
    - net type: tcp
      local NI(s):
        - nid: 10.7.0.4@tcp
          status: up
          interfaces:
              0: eth1
          statistics:
              send_count: 41
          tunables:
              peer_credits: 16
              credits: 512
          dev cpt: 0
global:
    discovery: True
";
    let b = "\
net:
-     net type: lo
      local NI(s):
      -     nid: 0@lo
            status: up
-     net type: tcp
      local NI(s):
      -     nid: 10.7.0.4@tcp
            status: up
            interfaces:
                  0: eth1
            statistics:
                  send_count: 41
            tunables:
                  peer_credits: 16
                  credits: 512
global:
    discovery: true
";
    let c = "\
net:
- net type: tcp
  local NI:
  - nid: 10.7.0.4@tcp
    tunables: {peer_credits: '16', credits: \"512\"}
discovery: 1
";
    let mut want = tcp(0, address("10.7.0.4"));
    want.peer_credits = Some(16);
    want.credits = Some(512);
    for text in [a, b, c] {
        assert_eq!(strict(text).unwrap().nets, std::slice::from_ref(&want), "{text}");
    }
}

#[test]
fn the_backup_of_a_kernel_node_is_read_leniently() {
    let text = capture("export_backup");
    let (config, warnings) = lenient(&text);
    let want = NodeConfig {
        nets: vec![as_shown(tcp(0, eth(0)), None), as_shown(tcp(1, eth(1)), None)],
        peers: vec![crate::PeerConfig {
            nids: ["10.77.0.3@tcp", "10.77.1.3@tcp1"].map(|nid| nid.parse().unwrap()).to_vec(),
            multi_rail: true,
            locked: false,
        }],
        ..NodeConfig::default()
    };
    assert_eq!(config, want);
    let what = |warning: &String| warning.split(": ignored: ").nth(1).unwrap().to_owned();
    let whats: Vec<String> = warnings
        .iter()
        .map(|warning| what(warning).split([' ', ';']).next().unwrap().to_owned())
        .collect();
    assert_eq!(
        whats,
        [
            "\"route\"",
            "\"numa_range\"",
            "\"drop_asym_route\"",
            "\"health_sensitivity\"",
            "\"recovery_interval\"",
            "\"router_sensitivity\"",
            "\"response_tracking\"",
            "\"recovery_limit\"",
            "\"max_recovery_ping_interval\"",
            "CPT",
            "CPT",
        ]
    );
    assert!(
        refusal(&text).starts_with("f:30:1: \"route\" is not implemented yet"),
        "{}",
        refusal(&text)
    );
}

#[test]
fn a_full_export_gives_the_addresses() {
    let (config, _) = lenient(&capture("export"));
    let nets = [
        as_shown(tcp(0, address("10.77.0.2")), Some(50)),
        as_shown(tcp(1, address("10.77.1.2")), Some(50)),
    ];
    assert_eq!(config.nets, nets);
}

#[test]
fn what_lnetctl_shows_of_nets_and_counters_is_taken_strictly() {
    let shown = strict(&capture("net_show")).unwrap();
    assert_eq!(shown.nets, [tcp(0, address("10.77.0.2")), tcp(1, address("10.77.1.2"))]);
    assert_eq!(strict(&capture("net_show_v4")).unwrap().nets, lenient(&capture("export")).0.nets);
    assert_eq!(strict(&capture("stats_show")), Ok(NodeConfig::default()));
}

#[test]
fn global_of_a_kernel_node() {
    let (config, warnings) = lenient(&capture("global_show"));
    assert_eq!(config, NodeConfig::default());
    assert_eq!(warnings.len(), 8, "{warnings:#?}");
}

#[test]
fn global_keys_set_tunables_inside_and_outside() {
    let want = |tunables: lustrine_partition::tunables::Tunables| {
        (
            tunables.lnet.discovery,
            tunables.lnet.retry_count,
            tunables.lnet.transaction_timeout,
            tunables.lnet.max_interfaces,
        )
    };
    for text in [
        "global: {discovery: 0, retry_count: 3, transaction_timeout: 60, max_interfaces: 16}",
        "discovery: false\nretry_count: 3\ntransaction_timeout: 60\nmax_interfaces: 16\n",
        "global: {lnd_timeout: 9, discovery: 0, retry_count: 3}\ntransaction_timeout: 60\n\
         lustrine: {tunables: {lnet_interfaces_max: 16}}",
    ] {
        assert_eq!(want(strict(text).unwrap().tunables), (0, 3, 60, 16), "{text}");
    }
}

#[test]
fn our_own_part() {
    let config = strict(
        "lustrine:\n  identity: node\n  accept: all\n  control: /run/l.sock\n  cpu_pattern: ''\n  \
         tunables: {lnet_retry_count: 1, peers_max: 64, zero_copy: true}\n",
    )
    .unwrap();
    assert_eq!(config.identity, IdentityChoice::Node);
    assert_eq!(config.accept, AcceptPolicy::All);
    assert_eq!(config.control, Some("/run/l.sock".into()));
    assert_eq!(config.cpu_pattern, "");
    let tunables = (
        config.tunables.lnet.retry_count,
        config.tunables.lnet.peers_max,
        config.tunables.socklnd.zero_copy,
    );
    assert_eq!(tunables, (1, 64, 1));
}

#[test]
fn places_of_interfaces() {
    let one = |ni: &str| strict(&format!("net: [{{net type: tcp1, local NI(s): [{ni}]}}]"));
    let places = |ni: &str| one(ni).unwrap().nets.into_iter().map(|n| n.place).collect::<Vec<_>>();
    assert_eq!(places(""), [InterfaceChoice::Default]);
    assert_eq!(places("{}"), [InterfaceChoice::Default]);
    assert_eq!(places("{interfaces: {0: eth0}}"), [eth(0)]);
    assert_eq!(places("{interfaces: {0: eth0, 1: eth1}, port: 9}"), [eth(0), eth(1)]);
    assert_eq!(places("{nid: 'fd77::1@tcp1', interfaces: {0: eth0}}"), [address("fd77::1")]);
    assert_eq!(one("{port: 9988}").unwrap().nets[0].port, Some(9988));
    let many = one("{nid: 10.0.0.1@tcp1, interfaces: {0: eth0, 1: eth1}}").unwrap_err();
    assert!(many.contains("given for 2 interfaces"), "{many}");
}

#[test]
fn values_without_effect_are_kept_with_a_warning() {
    let text = "net:\n- net type: tcp\n  local NI(s):\n  - tunables: {peer_timeout: 0, \
                peer_buffer_credits: 4}\n    lnd tunables: {timeout: 30, tos: 8}\n    CPT: '[1]'\n";
    let (config, warnings) = read(text, "f", Strictness::Strict).unwrap();
    let ni = &config.nets[0];
    assert_eq!((ni.peer_timeout, ni.peer_buffer_credits), (Some(0), Some(4)));
    assert_eq!((ni.timeout, ni.tos, ni.cpts.as_deref()), (Some(30), Some(8), Some("[1]")));
    assert_eq!(warnings.len(), 5);
    assert_eq!(
        warnings[0].to_string(),
        "f:4:5: ignored: timeout has no effect: all interfaces follow the tunable \
         sock_timeout; it is kept and exported, and can be removed from the file"
    );
    let in_force = text.replace("timeout: 30, tos: 8", "timeout: 50, tos: -1");
    assert_eq!(read(&in_force, "f", Strictness::Strict).unwrap().1.len(), 3);
}

#[test]
fn other_drivers_are_left_out_leniently() {
    let text =
        "net:\n- net type: o2ib\n  local NI(s): [{lnd tunables: {ntx: 512}}]\n- net type: tcp\n";
    let (config, warnings) = lenient(text);
    assert_eq!(config.nets, [tcp(0, InterfaceChoice::Default)]);
    assert_eq!(warnings.len(), 1);
    assert!(refusal(text).starts_with("f:2:13: \"o2ib\" is not implemented yet: it needs another"));
}

/// Whether a message says what is wrong, what is allowed and an example. A missing key needs only
/// the example.
fn is_complete(message: &str) -> bool {
    message.matches("; ").count() >= 2 || message.contains(" is missing; for example ")
}

/// Each refusal begins as given, and has the three parts every message has.
fn check_refusals<'a>(cases: impl IntoIterator<Item = (String, &'a str)>) {
    for (text, want) in cases {
        let message = refusal(&text);
        assert!(message.starts_with(want), "{text}\n got {message}\nwant {want}");
        assert!(is_complete(&message), "what; allowed; example: {message}");
        assert!(message.len() < 400, "{message}");
    }
}

#[test]
fn refusals_of_nets() {
    let cases = [
        ("net: tcp", "f:1:6: net is a word or number; allowed: a list, each item behind a dash; "),
        ("net: [tcp]", "f:1:7: an entry of net is a word or number; allowed: keys with values; "),
        ("net: [{}]", "f:1:7: the required key \"net type\" of an entry of net is missing; "),
        (
            "net: [{net type: tpc}]",
            "f:1:18: net type cannot be \"tpc\"; allowed: tcp, or tcp1 to tcp65535 (did you mean \
             tcp?); for example \"net type: tcp1\"",
        ),
        (
            "net: [{Net_Type: tcp}]",
            "f:1:8: \"Net_Type\" is not known in an entry of net; allowed: net type, local NI(s) \
             or local NI; did you mean \"net type\"?",
        ),
        (
            "net: [{net type: tcp, local NI: [], local NI(s): []}]",
            "f:1:37: \"local NI(s)\" is given twice; the first one is at 1:23; ",
        ),
        (
            "net:\n- net type: tcp\n- net type: tcp\n",
            "f:3:3: net tcp has the default interface twice; allowed: each interface once per ",
        ),
    ];
    check_refusals(cases.map(|(text, want)| (text.to_owned(), want)));
}

#[test]
fn refusals_of_local_nis() {
    let cases = [
        (
            "nid: 10.0.0.1@tcp1",
            "f:1:43: nid cannot be \"10.0.0.1@tcp1\"; allowed: an address of this node and @tcp; \
             for example \"nid: 10.0.0.1@tcp\"",
        ),
        ("nid: 0.0.0.0@tcp", "f:1:43: nid cannot be \"0.0.0.0@tcp\"; "),
        ("interfaces: eth0", "f:1:50: interfaces is a word or number; allowed: keys with values; "),
        ("interfaces: {a: eth0}", "f:1:51: interfaces cannot be \"a\"; allowed: numbers from 0 "),
        ("interfaces: {0: 10.0.0.1}", "f:1:54: interfaces cannot be \"10.0.0.1\"; allowed: names "),
        (
            "port: 0",
            "f:1:44: port cannot be \"0\"; allowed: a number from 1 to 65535; for example \"port: ",
        ),
        (
            "tunables: {credits: many}",
            "f:1:58: credits cannot be \"many\"; allowed: a number from 1 to 65535 messages; ",
        ),
        ("tunables: {credits: 0x10}", "f:1:58: credits cannot be \"0x10\"; "),
        ("tunables: {credits: [1]}", "f:1:58: credits is a list"),
        (
            "lnd tunables: {ntx: 1}",
            "f:1:53: \"ntx\" is not known in the lnd tunables of a local NI on tcp; allowed: \
             conns_per_peer, timeout, tos; for example ",
        ),
        ("CPT: [0]", "f:1:43: CPT is a list"),
        ("CPT: '0'", "f:1:43: CPT cannot be \"0\"; "),
        ("tunables: {credits: 4}", "f:1:37: peer_credits = 8 is more than credits = 4; "),
    ];
    let file = |inside: &str| format!("net: [{{net type: tcp, local NI(s): [{{{inside}}}]}}]");
    check_refusals(cases.map(|(inside, want)| (file(inside), want)));
}

#[test]
fn refusals_of_everything_else() {
    let cases = [
        (
            "nett: []",
            "f:1:1: \"nett\" is not known in a configuration file; allowed: net, peer, \
             global, lustrine; did you mean \"net\"?",
        ),
        (
            "zzzzzz: 1",
            "f:1:1: \"zzzzzz\" is not known in a configuration file; allowed: net, peer, \
             global, lustrine; for example \"net: [{net type: tcp}]\"",
        ),
        ("net: [", "f:"),
        ("global: {discovery: 2}", "f:1:21: discovery cannot be \"2\"; allowed: a number from 0 "),
        (
            "global: {retry_count: 1}\nretry_count: 1",
            "f:2:1: \"retry_count\" is given twice; the first one is at 1:10; ",
        ),
        (
            "lustrine: {tunables: {retry_count: 1, lnet_retry_count: 2}}",
            "f:1:39: \"lnet_retry_count\" is given twice; the first one is at 1:23; ",
        ),
        (
            "lustrine: {tunables: {retrycount: 1}}",
            "f:1:23: \"retrycount\" is not known in lustrine: tunables; allowed: the names in \
             docs/tunables.md; did you mean \"retry_count\"?",
        ),
        (
            "lustrine: {identity: root}",
            "f:1:22: identity cannot be \"root\"; allowed: auto, node, userland; for example ",
        ),
        (
            "lustrine: {accept: true}",
            "f:1:20: accept cannot be \"true\"; allowed: secure, all, none; for example ",
        ),
        ("lustrine: {control: ''}", "f:1:12: the control socket has no path; allowed: a path, "),
        (
            "retry_count: 20\ntransaction_timeout: 20\n",
            "f:2:1: retry_count = 20 with transaction_timeout = 20 s; allowed: ",
        ),
        (
            "lustrine:\n  tunables:\n    credits: 4\n",
            "f:3:5: peer_credits = 8 is more than credits = 4; ",
        ),
        (
            "ping: [10.0.0.1@tcp]",
            "f:1:1: \"ping\" is a command and not configuration; allowed here: net, peer, \
             global, lustrine; for example run \"lnetctl ping 10.0.0.1@tcp\"",
        ),
        ("discover: x", "f:1:1: \"discover\" is a command and not configuration; "),
    ];
    check_refusals(cases.map(|(text, want)| (text.to_owned(), want)));
}

#[test]
fn what_is_not_implemented_is_named_with_its_reason() {
    for key in ["route", "routing", "buffers", "numa", "udsp", "ip2nets", "numa_range"] {
        let message = refusal(&format!("{key}: [1]"));
        let want = format!("f:1:1: {key:?} is not implemented yet: ");
        assert!(message.starts_with(&want), "{message}");
        assert!(
            message.contains("; allowed here: net, peer, global, lustrine; for example"),
            "{message}"
        );
        assert_eq!(lenient(&format!("{key}: [1]")).1.len(), 1);
    }
}

#[test]
fn long_texts_of_a_file_are_cut_in_messages() {
    let long = "x".repeat(200_000);
    for text in [
        format!("? {long}\n: 1"),
        format!("net: [{{net type: {long}}}]"),
        format!("lustrine: {{identity: {long}}}"),
        format!("lustrine: {{tunables: {{? {long} : 1}}}}"),
    ] {
        assert!(refusal(&text).len() < 500);
    }
}

#[test]
fn aliases_cannot_multiply_nets_or_warnings() {
    let many = |first: &str| format!("net: [&a {first}{}]", ", *a".repeat(5000));
    let message = refusal(&many("{net type: tcp}"));
    assert!(
        message.starts_with("f:1:10: 4096 interfaces are too many; allowed: 4095"),
        "{message}"
    );
    let (config, warnings) = lenient(&many("{net type: o2ib}"));
    assert_eq!(config, NodeConfig::default());
    assert_eq!(warnings.len(), 1001);
    assert!(warnings[1000].starts_with("f:1:21: ignored: 4001 more warnings are not listed"));
}

proptest! {
    /// A good file with some bytes gone wrong gets an answer in good time.
    #[test]
    fn damaged_files_get_an_answer(
        damage in proptest::collection::vec((any::<usize>(), any::<u8>()), 1..6),
    ) {
        let mut text = capture("export_backup").into_bytes();
        for (at, byte) in damage {
            let at = at % text.len();
            text[at] = byte & 0x7f;
        }
        let text = String::from_utf8(text).unwrap();
        if let Ok((config, _)) = read(&text, "f", Strictness::Lenient) {
            prop_assert_eq!(config.check(), Ok(()));
        }
    }
}

#[test]
fn all_errors_of_a_file_are_listed_with_their_places() {
    let text = "net:\n- net type: tpc\n- {}\nglobl: 1\nglobal: {retry_count: many}\n\
                lustrine: {acept: all, tunables: {peer_credits: 0}}\n\
                peer: [{primary nid: here}]\n";
    let expected = [
        "f:2:13: net type cannot be \"tpc\"; ",
        "f:3:3: the required key \"net type\" of an entry of net is missing; ",
        "f:4:1: \"globl\" is not known in a configuration file; ",
        "f:5:23: retry_count cannot be \"many\"; ",
        "f:6:12: \"acept\" is not known in lustrine; ",
        "f:6:49: peer_credits cannot be \"0\"; ",
        "f:7:22: primary nid cannot be \"here\"; ",
    ];
    let said = refusal(text);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), expected.len(), "{said}");
    for (line, expected) in lines.iter().zip(expected) {
        assert!(line.starts_with(expected) && is_complete(line), "{line}");
    }
    // What the values do not agree on is checked once each of them is good.
    let said = refusal("global: {retry_count: 5, transaction_timeout: 4}\nglobl: 1\n");
    assert!(!said.contains("transaction_timeout"), "{said}");
}

#[test]
fn a_file_full_of_errors_makes_a_short_message() {
    let text = "net:\n".to_owned() + &"- net type: x\n".repeat(5000);
    let said = refusal(&text);
    assert_eq!(said.lines().count(), 21, "{said}");
    assert!(said.ends_with("and 4980 more errors"), "{said}");
    let text: String = (0..3000).map(|index| format!("unknown{index}: 1\n")).collect();
    let (_, warnings) = lenient(&text);
    assert_eq!(warnings.len(), 1001);
    assert_eq!(warnings[1000], "f:1000:1: ignored: 2000 more warnings are not listed");
}
