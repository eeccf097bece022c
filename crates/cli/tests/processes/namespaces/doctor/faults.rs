//! Faults, one test each, and the table of them in docs/doctor.md.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixListener;
use std::path::Path;

use lustrine_testing::{Need, not_run};
use lustrine_wire::hello::ConnType;
use lustrine_wire::ping::NiStatus;

use super::super::netns::NetNs;
use super::peers::{self, Peer, now_ns};
use super::*;

/// The peer is behind a router.
const BEHIND_A_ROUTER: &str = "hosts: {east: {}, middle: {}, west: {}}\n\
     links: [{between: [east, middle]}, {between: [middle, west]}]\n";

macro_rules! faults {
    ($($name:ident: $code:ident, $what:literal, $seed:expr;)*) => {
        $(
            #[test]
            fn $name() {
                let seed: fn() -> Option<Finished> = $seed;
                if let Some(done) = seed() {
                    found(Code::$code, &done);
                }
            }
        )*

        const FAULTS: &[(Code, &str)] = &[$((Code::$code, $what)),*];
    };
}

/// 50 ms there and back, where every buffer is large enough.
fn long(sysctl_east: &str, sysctl_west: &str) -> String {
    format!(
        "sysctl: {{net.ipv4.tcp_rmem: 4096 131072 67108864, \
         net.ipv4.tcp_wmem: 4096 65536 67108864}}\n\
         hosts: {{east: {{sysctl: {{{sysctl_east}}}}}, west: {{sysctl: {{{sysctl_west}}}}}}}\n\
         links: [{{between: [east, west], rate: 1 Gb/s, delay: 25 ms}}]\n"
    )
}

const CREDITS: [&str; 4] = ["--rate", "1G", "--set", "peer_credits=64"];

/// A long path with settings that differ from the good ones.
fn over_long(sysctl_east: &str, sysctl_west: &str, args: &[&str]) -> Option<Finished> {
    let lab = Laboratory::up(&long(sysctl_east, sysctl_west))?;
    let _node = node(&lab, "west", &TCP);
    Some(to_west(&lab, args))
}

/// A link of 9,000 bytes that drops larger packets than 1,500 in one direction.
fn black_hole(direction: &str) -> Option<Finished> {
    let lab = Laboratory::up(&format!(
        "hosts: {{east: {{}}, west: {{}}}}\n\
         links: [{{between: [east, west], rate: 1 Gb/s, mtu: 9000, \
         {direction}: {{drop_above: 1500 B}}}}]\n"
    ))?;
    let _node = node(&lab, "west", &TCP);
    let done = to_west(&lab, &RATE);
    let evidence = done.json()["findings"][0]["evidence"].clone();
    assert!(evidence.to_string().contains("packets of 1500 bytes arrive"), "{done:#?}");
    Some(done)
}

/// A rule of routing, for packets of a protocol and port. Not every kernel has such rules.
fn rule(lab: &Laboratory, host: &str, what: &str) -> bool {
    let words = format!("ip rule add pref 10 {what}");
    let words: Vec<&str> = words.split_whitespace().collect();
    let done = finish(&mut on(lab, host, &words));
    if done.code != Some(0) {
        not_run(Need::Program, done.stderr.trim());
    }
    done.code == Some(0)
}

fn with_peer(change: impl FnOnce(&mut Peer)) -> Option<Finished> {
    let lab = Laboratory::up(PAIR)?;
    let mut peer = Peer::new(WEST);
    change(&mut peer);
    peer.serve(&lab, "west");
    Some(to_west(&lab, &RATE))
}

fn with_node(args: &[&str], doctor: &[&str]) -> Option<Finished> {
    let lab = Laboratory::up(PAIR)?;
    let _node = node(&lab, "west", args);
    Some(to_west(&lab, &[&RATE[..], doctor].concat()))
}

/// Without the rights to privileged ports and raw sockets.
fn as_ordinary_user(lab: &Laboratory, to: &str) -> Option<Finished> {
    if Command::new("setpriv").arg("--version").output().is_err() {
        not_run(Need::Program, "setpriv is not installed");
        return None;
    }
    let program = env!("CARGO_BIN_EXE_lustrine");
    let mut words = vec!["setpriv", "--bounding-set=-net_bind_service,-net_raw"];
    words.extend(["--inh-caps=-net_bind_service,-net_raw", program, "doctor", "--json"]);
    words.extend(["--to", to, "--rate", "1G"]);
    Some(finish(&mut on(lab, "east", &words)))
}

faults! {
    no_route: NoRoute, "an address to which no route leads", || {
        let lab = Laboratory::up(PAIR)?;
        Some(doctor(&lab, &["--to", "10.200.0.1@tcp"]))
    };
    silent_host: HostSilent, "the peer's host has no way back", || {
        let lab = Laboratory::up(PAIR)?;
        let _node = node(&lab, "west", &TCP);
        run(&lab, "west", "ip route replace blackhole 10.99.0.1/32");
        Some(to_west(&lab, &RATE))
    };
    no_such_host: HostSilent, "a router that does not know the address", || {
        let lab = Laboratory::up(PAIR)?;
        run(&lab, "east", "ip route add 10.98.0.0/24 dev eth0");
        Some(doctor(&lab, &["--to", "10.98.0.7@tcp", "--rate", "1G"]))
    };
    swallowed_answers: FirewallSwallows, "TCP answers from port 988 are dropped at the peer", || {
        let lab = Laboratory::up(PAIR)?;
        let _node = node(&lab, "west", &TCP);
        let dropped = rule(&lab, "west", "ipproto tcp sport 988 blackhole");
        dropped.then(|| to_west(&lab, &RATE))
    };
    swallowed_requests: FirewallSwallows, "TCP requests to port 988 are dropped on the way", || {
        let lab = Laboratory::up(BEHIND_A_ROUTER)?;
        let _node = node(&lab, "west", &TCP);
        let dropped = rule(&lab, "middle", "ipproto tcp dport 988 blackhole");
        dropped.then(|| doctor(&lab, &["--to", "10.99.1.2@tcp", "--rate", "1G"]))
    };
    rejected_requests: FirewallRejects, "a router prohibits TCP port 988", || {
        let lab = Laboratory::up(BEHIND_A_ROUTER)?;
        let _node = node(&lab, "west", &TCP);
        let refused = rule(&lab, "middle", "ipproto tcp dport 988 prohibit");
        refused.then(|| doctor(&lab, &["--to", "10.99.1.2@tcp", "--rate", "1G"]))
    };
    rejected_without_echo: FirewallRejects, "the same, by a process without privilege", || {
        let lab = Laboratory::up(BEHIND_A_ROUTER)?;
        let _node = node(&lab, "west", &TCP);
        let refused = rule(&lab, "middle", "ipproto tcp dport 988 prohibit");
        refused.then_some(())?;
        as_ordinary_user(&lab, "10.99.1.2@tcp")
    };
    rejected_by_a_firewall: FirewallRejects, "a firewall at the peer rejects TCP port 988", || {
        let lab = Laboratory::up(PAIR)?;
        let _node = node(&lab, "west", &TCP);
        for words in [
            "nft add table ip lustrine",
            "nft add chain ip lustrine input { type filter hook input priority 0 ; }",
            "nft add rule ip lustrine input tcp dport 988 reject",
        ] {
            let words: Vec<&str> = words.split_whitespace().collect();
            // It may not be installed, or not be in the kernel.
            let done = finish(&mut on(&lab, "west", &words));
            if done.code != Some(0) {
                not_run(Need::Program, done.stderr.trim());
                return None;
            }
        }
        let done = to_west(&lab, &RATE);
        let finding = done.json()["findings"][0].to_string();
        assert!(finding.contains("a firewall of 10.99.0.2"), "{finding}");
        Some(done)
    };
    no_node: PortClosed, "no node runs there", || {
        let lab = Laboratory::up(PAIR)?;
        Some(to_west(&lab, &RATE))
    };
    another_port: PortClosed, "the node listens at another port", || {
        with_node(&["--net", "tcp=eth0:9988"], &[])
    };
    another_service: NotLnet, "an SSH server has the port", || {
        let lab = Laboratory::up(PAIR)?;
        peers::ssh(&lab, "west");
        Some(to_west(&lab, &RATE))
    };
    closing_service: NotLnet, "a program closes each connection at once", || {
        let lab = Laboratory::up(PAIR)?;
        peers::serve(&lab, "west", |_| None);
        Some(to_west(&lab, &RATE))
    };
    closing_service_beside_a_node: NotLnet, "the same, while a node of this host runs", || {
        let lab = Laboratory::up(PAIR)?;
        peers::serve(&lab, "west", |_| None);
        let (_east, socket) = node(&lab, "east", &TCP);
        Some(to_west(&lab, &[&RATE[..], &["--control", &socket]].concat()))
    };
    silent_service: HelloSilent, "a program accepts and says nothing", || {
        let lab = Laboratory::up(PAIR)?;
        peers::silent(&lab, "west");
        Some(to_west(&lab, &RATE))
    };
    userland_refused: UserlandRefused, "`accept=secure`, and a source port above 1023", || {
        with_node(&TCP, &["--identity", "userland"])
    };
    without_privilege: PrivilegeOrNid, "the same, by a process without privilege", || {
        let lab = Laboratory::up(PAIR)?;
        let _node = node(&lab, "west", &TCP);
        let done = as_ordinary_user(&lab, WEST)?;
        let unseen = done.json()["unseen"].to_string();
        assert!(unseen.contains("by ICMP: needs root or CAP_NET_RAW"), "{unseen}");
        Some(done)
    };
    wrong_net: WrongNet, "the peer has the address on tcp1, and tcp is asked for", || {
        with_node(&["--net", "tcp1=eth0"], &[])
    };
    no_such_net_here: NodeNet, "the peer is on tcp1, and the node that runs here on tcp", || {
        let lab = Laboratory::up(PAIR)?;
        let _west = node(&lab, "west", &["--net", "tcp1=eth0"]);
        let (_east, socket) = node(&lab, "east", &TCP);
        let peer = ["--to", "10.99.0.2@tcp1", "--control", &socket];
        Some(doctor(&lab, &[&peer[..], &RATE[..]].concat()))
    };
    wrong_nid: NidRefused, "the peer has no NID that is tried", || {
        with_node(&["--net", "tcp77=eth0"], &[])
    };
    not_now: NotNow, "every HELLO is answered with type NONE", || {
        with_peer(|peer| peer.kind = ConnType::None)
    };
    another_node: OtherNid, "another node answers at the address", || {
        with_peer(|peer| {
            peer.nid = "10.99.0.77@tcp".parse().expect("a NID");
        })
    };
    no_answer: PingSilent, "the peer answers the HELLO, and no ping", || {
        with_peer(|peer| peer.answers = false)
    };
    black_hole_out: BlackHoleOut, "packets above 1,500 bytes to the peer are dropped", || {
        black_hole("forward")
    };
    black_hole_beside_a_node: BlackHole, "such packets are dropped, and a node runs here", || {
        let lab = Laboratory::up(include_str!("../../../../../../labs/black-hole.yaml"))?;
        let _node = node(&lab, "west", &TCP);
        let (_east, socket) = node(&lab, "east", &TCP);
        let done = to_west(&lab, &["--control", &socket, "--rate", "100M"]);
        let finding = done.json()["findings"][0].clone();
        assert!(finding["evidence"].to_string().contains("with 9000 bytes"), "{finding:#}");
        Some(done)
    };
    black_hole_in: BlackHoleIn, "packets above 1,500 bytes from the peer are dropped", || {
        black_hole("back")
    };
    different_mtus: MtuMismatch, "MTU 1500 here and 1400 there", || {
        let lab = Laboratory::up(PAIR)?;
        run(&lab, "west", "ip link set eth0 mtu 1400");
        let _node = node(&lab, "west", &TCP);
        let done = to_west(&lab, &RATE);
        // No router is between them.
        assert_eq!(done.json()["findings"][0]["severity"], "warning", "{done:#?}");
        Some(done)
    };
    answers_by_another_interface: AsymmetricRoute, "answers arrive at another interface", || {
        let file = include_str!("../../../../../../labs/asymmetric.yaml");
        let lab = Laboratory::up(file)?;
        let _node = node(&lab, "east", &TCP);
        let args = ["doctor", "--json", "--to", "10.99.1.2@tcp", "--rate", "100M"];
        Some(finish(&mut lustrine(&lab, "west", &args)))
    };
    more_hops_back: AsymmetricRoute, "the way back has one router more", || {
        let lab = Laboratory::up(
            "hosts: {east: {}, a: {}, b: {}, c: {}, west: {}}\n\
             links:\n\
             - {between: [east, a]}\n\
             - {between: [a, west]}\n\
             - {between: [a, b]}\n\
             - {between: [b, c]}\n\
             - {between: [c, west]}\n\
             routes: [{from: west, to: east, via: c}, {from: c, to: east, via: b}]\n",
        )?;
        let _node = node(&lab, "west", &TCP);
        Some(doctor(&lab, &["--to", "10.99.1.2@tcp", "--rate", "1G"]))
    };
    two_nodes: NidDuplicated, "two nodes answer in turn", || {
        with_peer(|peer| peer.incarnations = vec![now_ns() - 5, now_ns() - 9])
    };
    interface_down_there: PeerNiDown, "the peer announces an interface as down", || {
        with_peer(|peer| {
            peer.nis.push(("10.99.9.9@tcp".parse().expect("a NID"), NiStatus::Down));
        })
    };
    clock_ahead: ClockSkew, "the peer's LNet started in an hour", || {
        with_peer(|peer| peer.incarnations = vec![now_ns() + 3_600_000_000_000])
    };
    slow_reader: SlowReceiver, "the peer stops reading after 16 KiB", || {
        with_peer(|peer| peer.reads = 16 << 10)
    };
    no_scaling_here: WindowScalingOff, "`tcp_window_scaling=0` here", || {
        over_long("net.ipv4.tcp_window_scaling: 0", "", &CREDITS)
    };
    no_scaling_there: WindowScalingOff, "`tcp_window_scaling=0` there", || {
        over_long("", "net.ipv4.tcp_window_scaling: 0", &CREDITS)
    };
    small_send_buffer: BuffersTooSmall, "`tcp_wmem` of 1 MiB here, 50 ms, 1 Gb/s", || {
        over_long("net.ipv4.tcp_wmem: 4096 16384 1048576", "", &CREDITS)
    };
    small_receive_buffer: BuffersTooSmall, "`tcp_rmem` of 1 MiB here, 50 ms, 1 Gb/s", || {
        over_long("net.ipv4.tcp_rmem: 4096 131072 1048576", "", &CREDITS)
    };
    small_buffer_there: PeerBuffersTooSmall, "`tcp_rmem` of 1 MiB there, 200 ms, 1 Gb/s", || {
        // The window scale follows from this setting of the whole machine, too.
        let most = fs::read_to_string("/proc/sys/net/core/rmem_max").expect("a setting");
        if most.trim().parse::<u64>().expect("a number") > 8 << 20 {
            not_run(Need::Namespaces, "net.core.rmem_max of this machine is large");
            return None;
        }
        let file = long("", "net.ipv4.tcp_rmem: 4096 131072 1048576");
        let lab = Laboratory::up(&file.replace("25 ms", "100 ms"))?;
        let _node = node(&lab, "west", &TCP);
        Some(to_west(&lab, &CREDITS))
    };
    small_buffer_seen_there: PeerBuffersTooSmall, "`tcp_rmem` of 16 KiB there, 10 Gb/s", || {
        let [here, there] = NetNs::several()?;
        there.run_words(&["sysctl", "-qw", "net.ipv4.tcp_rmem=4096 8192 16384"]);
        Some(from_both_ends(&here, &there, &["--rate", "10G"]))
    };
    small_send_buffer_there: PeerBuffersTooSmall, "`tcp_wmem` of 16 KiB there, 20 Gb/s", || {
        let [here, there] = NetNs::several()?;
        there.run_words(&["sysctl", "-qw", "net.ipv4.tcp_wmem=4096 8192 16384"]);
        Some(from_both_ends(&here, &there, &["--rate", "20G"]))
    };
    few_credits: CreditsTooFew, "8 `peer_credits`, 50 ms, 1 Gb/s", || {
        over_long("", "", &RATE)
    };
    down_here: InterfaceDown, "the interface of `--net` is down", || {
        let lab = Laboratory::up(PAIR)?;
        run(&lab, "east", "ip link set eth0 down");
        Some(doctor(&lab, &TCP))
    };
    missing_here: InterfaceDown, "the interface of the file does not exist", || {
        let lab = Laboratory::up(PAIR)?;
        Some(doctor(&lab, &["--net", "tcp=eth7"]))
    };
    one_nid_twice: NidTwice, "an interface and its own address on one net", || {
        let lab = Laboratory::up(PAIR)?;
        Some(doctor(&lab, &["--net", "tcp=eth0", "--net", "tcp=10.99.0.1"]))
    };
    bad_file: ConfigInvalid, "a value out of range in the file", || {
        let lab = Laboratory::up(PAIR)?;
        let file = lab.scratch("node.yaml");
        let text = "net:\n- net type: tcp\n  local NI(s):\n  - interfaces: {0: eth0}\n    \
                    tunables: {peer_credits: 0}\n";
        fs::write(&file, text).expect("a file");
        Some(doctor(&lab, &["--config", &file]))
    };
    port_taken: PortTaken, "a program of this host has port 988 and says nothing", || {
        let lab = Laboratory::up(PAIR)?;
        peers::silent(&lab, "east");
        Some(doctor(&lab, &[]))
    };
    port_taken_beside_a_peer: PortTaken, "an SSH server has it, and a peer is looked at", || {
        let lab = Laboratory::up(PAIR)?;
        let _west = node(&lab, "west", &TCP);
        peers::ssh(&lab, "east");
        let done = to_west(&lab, &RATE);
        // What has the port is no node, so that a privileged port is used.
        let peer = done.json()["observed"]["peers"][0].clone();
        assert!(peer["rtt_ns"].is_array(), "{done:#?}");
        assert!(!done.json()["unseen"].to_string().contains("an LNet node"), "{done:#?}");
        Some(done)
    };
    dead_node: NodeSilent, "the node of `--control` does not run", || {
        let lab = Laboratory::up(PAIR)?;
        let _west = node(&lab, "west", &TCP);
        let socket = lab.scratch("ended.sock");
        let done = to_west(&lab, &[&RATE[..], &["--control", &socket]].concat());
        // The peer is looked at all the same.
        assert!(done.json()["observed"]["peers"][0]["rtt_ns"].is_array(), "{done:#?}");
        Some(done)
    };
    stopped_node: NodeSilent, "the node of `--control` is stopped", || {
        let lab = Laboratory::up(PAIR)?;
        // The sockets of a stopped process take connections, and nothing is answered.
        let socket = lab.scratch("stopped.sock");
        let _control = UnixListener::bind(&socket).expect("a socket");
        peers::silent(&lab, "east");
        Some(doctor(&lab, &["--control", &socket]))
    };
    no_credits: CreditsExhausted, "64 pings at once with one credit", || {
        let lab = Laboratory::up(PAIR)?;
        let _west = node(&lab, "west", &TCP);
        let set = ["--set", "peer_credits=1", "--selftest", "full"];
        let (_east, socket) = node(&lab, "east", &[&TCP[..], &set].concat());
        let mut load = vec!["selftest", "--to", WEST, "--control", &socket, "--test", "ping"];
        load.extend(["--concurrency", "64", "--time", "0.2"]);
        finish(&mut lustrine(&lab, "east", &load)).ok();
        Some(doctor(&lab, &["--control", &socket]))
    };
    nobody_reads: UnreadData, "a program of this host does not read what LNet sends", || {
        let lab = Laboratory::up(PAIR)?;
        let listener = lab.at("west", || TcpListener::bind("0.0.0.0:988").expect("a port"));
        let listener = listener.join().expect("it does not panic");
        let connect = || TcpStream::connect("10.99.0.2:988").expect("a connection");
        let unread = lab.at("east", connect).join().expect("it does not panic");
        let (mut sender, _) = listener.accept().expect("a connection");
        sender.write_all(&[0; 40 << 10]).expect("the window has room");
        let all = || std::fs::read_to_string("/proc/thread-self/net/tcp").expect("a table");
        crate::common::eventually("unread bytes", || {
            let table = lab.at("east", all).join().expect("it does not panic");
            table.contains(":0000A000 ").then_some(())
        });
        let done = doctor(&lab, &[]);
        drop(unread);
        Some(done)
    };
    old_release: KnownDefect, "modules of Lustre 2.17.0 are loaded", || {
        let lab = Laboratory::up(PAIR)?;
        let script = "mount -t tmpfs none /sys/fs && mkdir /sys/fs/lustre && \
                      echo 'lustre: 2.17.0' > /sys/fs/lustre/version && exec \"$0\" doctor --json";
        let program = env!("CARGO_BIN_EXE_lustrine");
        let words = ["unshare", "--mount", "sh", "-c", script, program];
        Some(finish(&mut on(&lab, "east", &words)))
    };
}

/// Every finding has a fault, and the reference lists them.
#[test]
fn the_table_of_the_reference_is_that_of_the_tests() {
    assert!(FAULTS.len() >= 20, "{}", FAULTS.len());
    let mut table = "| finding | severity | what it says | faults that are made to test it |\n\
                     |---|---|---|---|\n"
        .to_owned();
    for code in Code::ALL {
        let made: Vec<&str> =
            FAULTS.iter().filter(|(of, _)| of == code).map(|(_, what)| *what).collect();
        assert!(!made.is_empty(), "no fault leads to {}", code.name());
        let (name, severity) = (code.name(), code.severity().name());
        table += &format!("| `{name}` | {severity} | {} | {} |\n", code.what(), made.join("; "));
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/doctor.md");
    let text = fs::read_to_string(&path).expect("the reference");
    let (begin, end) = ("<!-- findings -->\n", "<!-- end of findings -->");
    let at = text.find(begin).expect("a mark") + begin.len();
    let until = text.find(end).expect("a second mark");
    if std::env::var_os("UPDATE_DOCS").is_some_and(|value| value == "1") {
        fs::write(&path, format!("{}{table}{}", &text[..at], &text[until..])).expect("a file");
        return;
    }
    assert_eq!(&text[at..until], table, "UPDATE_DOCS=1 writes it again");
}
