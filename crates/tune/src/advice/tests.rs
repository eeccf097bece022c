use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use proptest::prelude::*;

use super::*;
use crate::write::{lnetctl_yaml, module_options, set_param, sysctl};

const MS: u64 = 1_000_000;

fn path(rate: u64, rtt_idle_ns: u64) -> Path {
    Path { rtt_idle_ns, rate, streams: Streams::OneIsEnough, rpc_latency_ns: None }
}

fn settings(path: &Path, purpose: &Purpose) -> Settings {
    advise(path, &Host::default(), purpose).0
}

/// The path of the SC11 study: 10 Gb/s and 50.5 ms are 127 RPCs of 10^6 bytes and 121 of 1 MiB.
#[test]
fn the_study_is_reproduced() {
    let sc11 = path(10_000_000_000, 50_500_000);
    let with = |rpc_bytes| settings(&sc11, &Purpose { rpc_bytes, ..Purpose::default() });
    assert_eq!(with(1_000_000).max_rpcs_in_flight, 127);
    let mib = with(1 << 20);
    assert_eq!((mib.max_rpcs_in_flight, mib.peer_credits, mib.credits), (121, 121, 256));
    // 2 x 63,125,000 bytes.
    assert_eq!(mib.tcp_buffer, 121 << 20);
    assert_eq!(mib.max_dirty_mib, 242);
    // RPCs of 4 MiB are four messages each.
    let four = with(4 << 20);
    assert_eq!((four.max_rpcs_in_flight, four.peer_credits), (31, 124));
    assert_eq!(four.pages_per_rpc, 1024);
}

/// 8 RPCs of 10^6 bytes just fill 10 Gb/s at 3.2 ms.
#[test]
fn eight_rpcs_are_enough_nearby() {
    let purpose = Purpose { rpc_bytes: 1_000_000, ..Purpose::default() };
    let at = |rtt| settings(&path(10_000_000_000, rtt), &purpose).max_rpcs_in_flight;
    assert_eq!((at(100_000), at(3_199_999), at(3_200_000)), (8, 8, 9));
}

/// What was measured over this path: with 120 in flight an RPC took 123 ms.
#[test]
fn rpcs_that_take_longer_than_two_round_trips_need_more_of_them() {
    let sc11 = path(9_910_000_000, 50_628_000);
    let slow = Path { rpc_latency_ns: Some(123 * MS), ..sc11 };
    let purpose = Purpose { rpc_bytes: 1 << 20, ..Purpose::default() };
    let (more, all) = advise(&slow, &Host::default(), &purpose);
    assert_eq!(settings(&sc11, &purpose).max_rpcs_in_flight, 120);
    assert_eq!((more.max_rpcs_in_flight, more.peer_credits), (146, 146));
    let expected = "rate x latency of an RPC / RPC size / targets = 9.91 Gb/s x 123.000 ms / 1.00 \
                    MiB / 1 = 145.3, and at least the default 8";
    assert!(all[0].why.ends_with(expected), "{}", all[0].why);
    let quick = Path { rpc_latency_ns: Some(51 * MS), ..sc11 };
    assert_eq!(settings(&quick, &purpose), settings(&sc11, &purpose));
}

#[test]
fn a_lan_keeps_the_defaults() {
    let lan = settings(&path(1_000_000_000, 100_000), &Purpose::default());
    assert_eq!((lan.max_rpcs_in_flight, lan.peer_credits, lan.credits), (8, 32, 256));
    assert_eq!((lan.conns_per_peer, lan.tcp_buffer), (1, 4 << 20));
}

#[test]
fn credits_are_for_all_peers() {
    let purpose = Purpose { rpc_bytes: 1 << 20, peers: 30, ..Purpose::default() };
    let many = settings(&path(10_000_000_000, 50_500_000), &purpose);
    assert_eq!((many.peer_credits, many.credits), (121, 3630));
}

#[test]
fn the_memory_of_a_server_is_shared_by_its_clients() {
    let purpose = Purpose {
        rpc_bytes: 1 << 20,
        clients: 64,
        server_memory: Some(1 << 30),
        ..Purpose::default()
    };
    let sc11 = path(10_000_000_000, 50_500_000);
    let (settings, all) = advise(&sc11, &Host::default(), &purpose);
    assert_eq!(settings.max_rpcs_in_flight, 16);
    let limit = all[0].limit.as_ref().expect("it is limited");
    // 16 MiB in two round trips.
    assert_eq!(limit.rate, (16 << 20) * 8_000_000_000 / 101_000_000);
    assert!(limit.what.contains("64 clients"), "{}", limit.what);
    let threads = Purpose { server_threads: Some(512), server_memory: None, ..purpose };
    assert_eq!(self::settings(&sc11, &threads).max_rpcs_in_flight, 8);
}

/// 100 clients with one RPC of 4 MiB each need 400 MiB.
#[test]
fn a_server_that_cannot_hold_one_rpc_of_each_client_is_named() {
    let purpose = Purpose { clients: 100, server_memory: Some(200 << 20), ..Purpose::default() };
    let sc11 = path(10_000_000_000, 50_500_000);
    let (settings, all) = advise(&sc11, &Host::default(), &purpose);
    assert_eq!(settings.max_rpcs_in_flight, 1);
    let limit = all[0].limit.as_ref().expect("it is limited");
    let words = "while all clients are busy, 200 MiB of server memory for 100 clients x 1 target \
                 are less than one RPC of 4.00 MiB each, 400 MiB in all: the server cannot hold \
                 the data";
    assert!(limit.what.starts_with(words), "{}", limit.what);
    // 2 MiB of each client in two round trips.
    assert_eq!(limit.rate, (2 << 20) * 8_000_000_000 / 101_000_000);
    let threads = Purpose { server_threads: Some(50), server_memory: None, ..purpose };
    let (settings, all) = advise(&sc11, &Host::default(), &threads);
    assert_eq!(settings.max_rpcs_in_flight, 1);
    let limit = all[0].limit.as_ref().expect("it is limited");
    assert!(limit.what.contains("are less than one each: RPCs wait"), "{}", limit.what);
    assert_eq!(limit.rate, (2 << 20) * 8_000_000_000 / 101_000_000);
}

#[test]
fn reasons_have_their_numbers() {
    let host = Host {
        tcp_buffers: Some([6 << 20, 256 << 20]),
        interface_rate: Some(10_000_000_000),
        ..Host::default()
    };
    let one = Path { streams: Streams::One(3_000_000_000), ..path(20_000_000_000, 50 * MS) };
    let (_, all) = advise(&one, &host, &Purpose::default());
    let why = |setting| &all.iter().find(|one| one.setting == setting).expect("advice").why;
    let expected = "2 x 10.00 Gb/s x 50.000 ms / 4.00 MiB / 1 = 29.8, and at least the default 8";
    assert!(why(Setting::MaxRpcsInFlight).ends_with(expected), "{all:#?}");
    assert!(why(Setting::ConnsPerPeer).ends_with("10.00 Gb/s / 3.00 Gb/s"), "{all:#?}");
    let now = "it is 6.00 MiB now, which is 503.3 Mb/s for a connection";
    assert!(why(Setting::TcpReceiveBuffer).ends_with(now), "{all:#?}");
    assert!(why(Setting::TcpSendBuffer).ends_with("which is enough"), "{all:#?}");
    let value = |setting| all.iter().find(|one| one.setting == setting).expect("advice").value;
    assert_eq!(value(Setting::TcpSendBuffer), 256 << 20, "what is larger stays");
    assert_eq!(value(Setting::ConnsPerPeer), 4);
}

#[test]
fn connections_that_were_not_measured_stay() {
    let unknown = Path { streams: Streams::Unknown, ..path(10_000_000_000, 50 * MS) };
    let host = Host { conns_per_peer: Some(4), ..Host::default() };
    let conns = |host| advise(&unknown, host, &Purpose::default()).0.conns_per_peer;
    assert_eq!((conns(&host), conns(&Host::default())), (4, 1));
    // What one stream carries is measured, and may be too little.
    let one = Path { streams: Streams::OneIsEnough, ..unknown };
    let (settings, advice) = advise(&one, &host, &Purpose::default());
    assert_eq!(settings.conns_per_peer, 4);
    let why = &advice.iter().find(|one| one.setting == Setting::ConnsPerPeer).unwrap().why;
    assert!(why.ends_with("it is 4 now, which is enough"), "{why}");
    // As of a node with `tuning: auto`.
    let wide = Host { credits: Some([1024, 8192]), ..Host::default() };
    let (settings, advice) = advise(&one, &wide, &Purpose::default());
    // Files, also those of kernel nodes, have what is needed.
    assert_eq!((settings.peer_credits, settings.credits), (120, 256));
    for (setting, now) in [(Setting::PeerCredits, 1024), (Setting::Credits, 8192)] {
        let found = advice.iter().find(|one| one.setting == setting).unwrap();
        assert_eq!(found.value, now);
        assert!(found.why.ends_with(&format!("it is {now} now, which is enough")), "{found:?}");
    }
}

#[test]
fn files_have_the_values() {
    let purpose = Purpose { rpc_bytes: 1 << 20, ..Purpose::default() };
    let sc11 = settings(&path(10_000_000_000, 50_500_000), &purpose);
    assert_eq!(
        lnetctl_yaml(&sc11, "tcp", "eth0"),
        "\
net:
-     net type: tcp
      local NI(s):
      -     interfaces:
                  0: eth0
            tunables:
                  peer_credits: 121
                  credits: 256
            lnd tunables:
                  conns_per_peer: 1
"
    );
    let options = "options ksocklnd peer_credits=121 credits=256 conns_per_peer=1\n";
    assert_eq!(module_options(&sc11), options);
    let servers = ["10.0.0.2@tcp".to_owned(), "fd00::2@tcp".to_owned()];
    let script = set_param(&sc11, &servers, false);
    assert!(script.contains("\nservers='10.0.0.2@tcp\nfd00::2@tcp'\n"), "{script}");
    assert!(script.contains("\nset_to 'osc.*.max_rpcs_in_flight' 121\n"), "{script}");
    let host = Host { tcp_buffers: Some([4096, 200 << 20]), ..Host::default() };
    let expected = "net.ipv4.tcp_rmem = 4096 131072 126877696\n\
                    net.ipv4.tcp_wmem = 4096 65536 209715200\n";
    assert_eq!(sysctl(&sc11, &host), expected);
    let first = Some([[8192, 1 << 20], [4096, 16_384]]);
    let expected = "net.ipv4.tcp_rmem = 8192 1048576 126877696\n\
                    net.ipv4.tcp_wmem = 4096 16384 209715200\n";
    assert_eq!(sysctl(&sc11, &Host { tcp_first_buffers: first, ..host }), expected);
}

/// The servers of targets `a` and `b`, as their imports list them.
const IMPORTS: [(&str, &str); 2] = [
    ("a", r#"failover_nids: [ "10.0.0.1@tcp", "10.0.0.2@tcp" ]"#),
    ("b", r#"failover_nids: [ 10.0.0.1@tcp1, 110.0.0.1@tcp, fd00:2001:db8::1@tcp ]"#),
];

/// The parameters of a client after the script, which is run with a program in place of `lctl`, and
/// what it complains of.
fn after_script(
    script: &str,
    args: &[&str],
    before: &[(&str, u64)],
) -> (BTreeMap<String, u64>, String) {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = format!("lustrine-set-param-{}-{number}", std::process::id());
    let dir = std::env::temp_dir().join(name);
    fs::create_dir_all(dir.join("values")).unwrap();
    // Each parameter is a file; a pattern is one of its names.
    let lctl = "#!/bin/sh\ncd \"${0%/*}/values\"\ncase $1 in\nlist_param) ls -d $2 ;;\n\
                get_param) cat \"$3\" ;;\nset_param) for one in ${2%=*}; do echo ${2#*=} > \
                $one; done ;;\nesac\n";
    let program = dir.join("lctl");
    fs::write(&program, lctl).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    for (name, value) in before {
        fs::write(dir.join("values").join(name), format!("{value}\n")).unwrap();
    }
    for (target, import) in IMPORTS {
        for kind in ["osc", "mdc"] {
            let name = format!("{kind}.{target}.import");
            fs::write(dir.join("values").join(name), import).unwrap();
        }
    }
    let path = format!("{}:{}", dir.display(), std::env::var("PATH").unwrap());
    let mut run = Command::new("sh");
    let run = run.args(["-c", script, "sh"]).args(args).env("PATH", path).output().unwrap();
    assert_eq!(run.status.success(), run.stderr.is_empty(), "{run:?}");
    let read = |(name, _): &(&str, u64)| {
        let text = fs::read_to_string(dir.join("values").join(name)).unwrap();
        ((*name).to_owned(), text.trim().parse().unwrap())
    };
    let after = before.iter().map(read).collect();
    fs::remove_dir_all(&dir).unwrap();
    (after, String::from_utf8(run.stderr).unwrap())
}

#[test]
fn only_targets_of_the_servers_are_set() {
    let near = settings(&path(10_000_000_000, MS), &Purpose::default());
    let before = [
        ("osc.a.max_dirty_mb", 1),
        ("osc.a.max_pages_per_rpc", 256),
        ("osc.a.max_rpcs_in_flight", 8),
        ("osc.b.max_dirty_mb", 1),
        ("osc.b.max_pages_per_rpc", 256),
        ("osc.b.max_rpcs_in_flight", 8),
        ("mdc.a.max_rpcs_in_flight", 8),
        ("mdc.b.max_rpcs_in_flight", 8),
    ];
    let wanted = Settings { max_rpcs_in_flight: 16, pages_per_rpc: 1024, ..near };
    let after = |servers: &[&str], args: &[&str]| {
        let servers: Vec<String> = servers.iter().map(ToString::to_string).collect();
        after_script(&set_param(&wanted, &servers, true), args, &before)
    };
    let set = |after: &BTreeMap<String, u64>, target: &str| {
        let of = |name: &str| after[&name.replace('*', target)];
        let (osc, mdc) = (of("osc.*.max_rpcs_in_flight"), of("mdc.*.max_rpcs_in_flight"));
        (osc, mdc, of("osc.*.max_pages_per_rpc"), of("osc.*.max_dirty_mb") > 1)
    };
    let (whole, none) = ((16, 16, 1024, true), (8, 8, 256, false));
    for server in ["10.0.0.1@tcp", "10.0.0.2@tcp"] {
        let (after, said) = after(&[server, "10.0.0.9@tcp"], &[]);
        assert_eq!((set(&after, "a"), set(&after, "b"), said.as_str()), (whole, none, ""));
    }
    let (second, said) = after(&["10.0.0.9@tcp", "10.0.0.1@tcp1"], &[]);
    assert_eq!((set(&second, "a"), set(&second, "b"), said.as_str()), (none, whole, ""));
    let (sixth, said) = after(&["fd00:2001:db8::1@tcp"], &[]);
    assert_eq!((set(&sixth, "a"), set(&sixth, "b"), said.as_str()), (none, whole, ""));
    let (longer, _) = after(&["2001:db8::1@tcp"], &[]);
    assert_eq!((set(&longer, "a"), set(&longer, "b")), (none, none), "another address");
    let (untouched, said) = after(&["10.0.0.3@tcp", "10.0.0.4@tcp"], &[]);
    assert_eq!((set(&untouched, "a"), set(&untouched, "b")), (none, none));
    let expected = "no target of this client is at 10.0.0.3@tcp 10.0.0.4@tcp (sh set_param.sh all \
                    sets all targets)\n";
    assert_eq!(said, expected);
    let (all, said) = after(&["10.0.0.3@tcp"], &["all"]);
    assert_eq!((set(&all, "a"), set(&all, "b"), said.as_str()), (whole, whole, ""));
    let (_, said) = after_script(&set_param(&wanted, &[], true), &[], &[]);
    assert_eq!(said, "this client has no targets: is a file system mounted?\n");
    let mut bare = Command::new("/bin/sh");
    let bare = bare.args(["-c", &set_param(&wanted, &[], true)]).env("PATH", "/nonexistent");
    let bare = bare.output().unwrap();
    assert_eq!(bare.status.code(), Some(1));
    assert!(bare.stderr.starts_with(b"there is no lctl here"), "{bare:?}");
}

#[test]
fn what_an_administrator_has_raised_is_not_lowered() {
    let raised = [
        ("mdc.a.max_rpcs_in_flight", 64),
        ("osc.a.max_dirty_mb", 1 << 40),
        ("osc.a.max_pages_per_rpc", 4096),
        ("osc.a.max_rpcs_in_flight", 64),
    ];
    let usual = [
        ("mdc.b.max_rpcs_in_flight", 8),
        ("osc.b.max_dirty_mb", 1),
        ("osc.b.max_pages_per_rpc", 256),
        ("osc.b.max_rpcs_in_flight", 8),
    ];
    let near = settings(&path(10_000_000_000, MS), &Purpose::default());
    let settings =
        Settings { max_rpcs_in_flight: 16, max_dirty_mib: 2, pages_per_rpc: 1024, ..near };
    let all = [raised, usual].concat();
    for (is_given, pages) in [(false, [4096, 1024]), (true, [1024, 1024])] {
        let (after, said) = after_script(&set_param(&settings, &[], is_given), &[], &all);
        assert_eq!(said, "");
        let of = |name: &str| ["a", "b"].map(|one| after[&name.replace('*', one)]);
        assert_eq!(of("mdc.*.max_rpcs_in_flight"), [64, 16]);
        assert_eq!(of("osc.*.max_dirty_mb"), [1 << 40, 2]);
        assert_eq!(of("osc.*.max_pages_per_rpc"), pages);
        assert_eq!(of("osc.*.max_rpcs_in_flight"), [16, 16], "what was computed");
    }
    // What limits object servers does not limit metadata servers.
    let script = set_param(&Settings { max_rpcs_in_flight: 1, ..settings }, &[], false);
    let before = [("mdc.a.max_rpcs_in_flight", 4), all[1], all[2], all[3]];
    let (after, _) = after_script(&script, &[], &before);
    assert_eq!(after["mdc.a.max_rpcs_in_flight"], 8);
}

proptest! {
    /// Whatever was measured: values are in their ranges, what is not limited fills the path, and
    /// more rate or a longer way never asks for less.
    #[test]
    fn advice_fills_the_path(
        rate in 1_000_000u64..400_000_000_000,
        rtt in 1_000u64..2_000_000_000,
        rpc_shift in 12u32..25,
        peers in 1u32..10_000,
        targets in 1u32..100,
    ) {
        let purpose = Purpose { rpc_bytes: 1 << rpc_shift, peers, targets, ..Purpose::default() };
        let (values, all) = advise(&path(rate, rtt), &Host::default(), &purpose);
        prop_assert!((1..=RPCS_MAX).contains(&values.max_rpcs_in_flight));
        prop_assert!((PEER_CREDITS..=CREDITS_MAX).contains(&values.peer_credits));
        prop_assert!((CREDITS..=CREDITS_MAX).contains(&values.credits));
        prop_assert!(values.tcp_buffer <= BUFFER_MAX);
        let in_flight = (values.max_rpcs_in_flight * u64::from(targets)) << rpc_shift;
        if all[0].limit.is_none() {
            let two = 2 * bandwidth_delay_product(rate, rtt);
            prop_assert!(in_flight > two, "{in_flight} of {two}");
        } else {
            let limit = all[0].limit.as_ref().expect("a limit");
            prop_assert!(limit.rate <= rate);
            prop_assert_eq!(values.max_rpcs_in_flight, RPCS_MAX);
        }
        for (more_rate, more_rtt) in [(rate * 2, rtt), (rate, rtt * 2)] {
            let more = settings(&path(more_rate, more_rtt), &purpose);
            prop_assert!(more.max_rpcs_in_flight >= values.max_rpcs_in_flight);
            prop_assert!(more.peer_credits >= values.peer_credits);
            prop_assert!(more.tcp_buffer >= values.tcp_buffer);
        }
    }

    /// Nothing that can be measured makes it panic.
    #[test]
    fn any_measurement_is_taken(
        rate in any::<u64>(),
        rtt in any::<u64>(),
        stream in any::<Option<u64>>(),
        conns in any::<Option<u16>>(),
        rpc_bytes in any::<u64>(),
        numbers in any::<(u32, u32, u32)>(),
        memory in any::<Option<u64>>(),
        threads in any::<Option<u32>>(),
        buffers in any::<Option<[u64; 2]>>(),
    ) {
        let (peers, targets, clients) = numbers;
        let purpose = Purpose {
            rpc_bytes, peers, targets, clients, server_memory: memory, server_threads: threads,
        };
        let host = Host { tcp_buffers: buffers, conns_per_peer: conns, ..Host::default() };
        let streams = stream.map_or(Streams::Unknown, Streams::One);
        let (settings, all) = advise(&Path { streams, ..path(rate, rtt) }, &host, &purpose);
        prop_assert!((1..=CONNS_MAX).contains(&settings.conns_per_peer));
        prop_assert_eq!(all.len(), 7);
    }
}

#[test]
fn bytes_have_three_digits() {
    let texts = [1500, 3 << 20, 46_083 << 20].map(bytes_text);
    assert_eq!(texts, ["1.46 KiB", "3.00 MiB", "45.0 GiB"]);
}
