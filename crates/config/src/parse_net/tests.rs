use lustrine_wire::nid::NetKind;
use proptest::prelude::*;

use super::*;

fn tcp(number: u16, place: InterfaceChoice, port: Option<u16>) -> NetConfig {
    NetConfig { port, ..NetConfig::new(Net::new(NetKind::TCP, number), place) }
}

fn address(text: &str) -> InterfaceChoice {
    InterfaceChoice::Address(text.parse().unwrap())
}

fn interface(name: &str) -> InterfaceChoice {
    InterfaceChoice::Interface(name.to_owned())
}

#[test]
fn every_allowed_form() {
    for (text, want) in [
        ("tcp", tcp(0, InterfaceChoice::Default, None)),
        ("tcp0", tcp(0, InterfaceChoice::Default, None)),
        ("tcp7:9988", tcp(7, InterfaceChoice::Default, Some(9988))),
        ("tcp=10.0.0.1", tcp(0, address("10.0.0.1"), None)),
        ("tcp=10.0.0.1:1988", tcp(0, address("10.0.0.1"), Some(1988))),
        ("tcp1=eth0", tcp(1, interface("eth0"), None)),
        ("tcp1=eth0.100:65535", tcp(1, interface("eth0.100"), Some(65_535))),
        ("tcp=fd77::1", tcp(0, address("fd77::1"), None)),
        ("tcp=[fd77::1]", tcp(0, address("fd77::1"), None)),
        ("tcp=[fd77::1]:988", tcp(0, address("fd77::1"), Some(988))),
        // Without brackets the last group belongs to the address.
        ("tcp=fd77::1:988", tcp(0, address("fd77::1:988"), None)),
        ("tcp1(eth0)", tcp(1, interface("eth0"), None)),
        ("tcp1(eth0):9988", tcp(1, interface("eth0"), Some(9988))),
        ("tcp1(eth0:1):9988", tcp(1, interface("eth0:1"), Some(9988))),
    ] {
        assert_eq!(text.parse::<NetConfig>(), Ok(want), "{text}");
    }
}

#[test]
fn partitions_of_the_networks_syntax_are_kept() {
    for text in ["tcp1(eth0)[0,2-3]", "tcp1(eth0[0,2-3])"] {
        let net: NetConfig = text.parse().unwrap();
        assert_eq!(net.cpts.as_deref(), Some("[0,2-3]"), "{text}");
        assert_eq!(net.place, interface("eth0"));
    }
}

#[test]
fn every_refusal_names_its_reason() {
    use ParseNetReason as R;
    let word = |text: &str| text.to_owned();
    for (text, want) in [
        ("", R::UnknownNet(word(""))),
        ("tpc", R::UnknownNet(word("tpc"))),
        ("tcp65536", R::UnknownNet(word("tcp65536"))),
        ("o2ib1=ib0", R::NoDriver(Net::new(NetKind::O2IB, 1))),
        ("lo", R::Loopback),
        ("10.0.0.1@tcp1", R::NidForm),
        ("tcp=", R::BadPlace(word(""))),
        ("tcp=10.0.0.300", R::BadPlace(word("10.0.0.300"))),
        ("tcp=a/b", R::BadPlace(word("a/b"))),
        ("tcp=fe80::1%eth0", R::NeedsBrackets(word("fe80::1%eth0"))),
        ("tcp=1:2:3:4:5:6:7:8:988", R::NeedsBrackets(word("1:2:3:4:5:6:7:8:988"))),
        ("tcp=[10.0.0.1]:988", R::BadPlace(word("10.0.0.1"))),
        ("tcp=[fd77::1", R::Unclosed(']')),
        ("tcp=[fd77::1]988", R::Trailing(word("988"))),
        ("tcp=0.0.0.0", R::NotAHost("0.0.0.0".parse().unwrap())),
        ("tcp:0", R::BadPort(word("0"))),
        ("tcp=eth0:", R::BadPort(word(""))),
        ("tcp=eth0:99999", R::BadPort(word("99999"))),
        // `[N]` in the help text means "a number, if you like".
        ("tcp[1]", R::Trailing(word("[1]"))),
        ("tcp(eth0", R::Unclosed(')')),
        ("tcp()", R::BadPlace(word(""))),
        ("tcp(eth0,eth1)", R::SeveralInterfaces(word("eth0,eth1"))),
        ("tcp(eth0[0],eth1)", R::SeveralInterfaces(word("eth0[0],eth1"))),
        ("tcp(eth0)[x]", R::BadPartitions(word("[x]"))),
        ("tcp(eth0)rest", R::Trailing(word("rest"))),
        ("tcp(eth0[0])[1]", R::BadPartitions(word("[1]"))),
    ] {
        assert_eq!(text.parse::<NetConfig>().unwrap_err().reason, want, "{text}");
    }
}

#[test]
fn the_message_says_what_is_allowed_and_shows_it() {
    let error = "tcp=10.0.0.300:988".parse::<NetConfig>().unwrap_err();
    assert_eq!(
        error.to_string(),
        "\"tcp=10.0.0.300:988\": \"10.0.0.300\" is neither an IP address nor an interface; \
         allowed: tcp[N][=ADDRESS|=INTERFACE][:PORT] with an IPv6 address in brackets when a \
         port follows, or tcp[N](INTERFACE); for example tcp, tcp1=eth0, tcp=10.0.0.1:9988 or \
         tcp=[fd77::1]:988"
    );
    let long = "x".repeat(100_000).parse::<NetConfig>().unwrap_err();
    assert!(long.to_string().len() < 500);
}

proptest! {
    #[test]
    fn any_text_gets_an_answer(text in "(tcp|o2ib)?[0-9]{0,6}[=(:]?[\\[\\]a-f0-9:.,()%/@-]{0,24}") {
        let _ = text.parse::<NetConfig>();
    }

    #[test]
    fn an_address_and_a_port_are_found_again(ip: std::net::IpAddr, port in 1_u16.., number: u16) {
        prop_assume!(interface::is_host(ip));
        let text = match ip {
            IpAddr::V4(v4) => format!("tcp{number}={v4}:{port}"),
            IpAddr::V6(v6) => format!("tcp{number}=[{v6}]:{port}"),
        };
        prop_assert_eq!(text.parse(), Ok(tcp(number, InterfaceChoice::Address(ip), Some(port))));
    }
}
