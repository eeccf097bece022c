//! What users read when their input is wrong: a table of command lines, and the complete output of
//! each, held by `tests/snapshots/errors.txt`. `UPDATE_SNAPSHOTS=1` writes the file again.

use std::fs;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Command;

use crate::common::{Scratch, finish, loopback, lustrine};

/// Command lines, in the groups in which the file shows them. `DIR` is the test's directory, `IP`
/// an address at which nothing listens, and `BUSY` an address and port at which something does.
const CASES: [(&str, &[&str]); 15] = [
    (
        "the program",
        &[
            "",
            "pong",
            "pign 10.0.0.1@tcp",
            "ping",
            "ping 10.0.0.1@tcp --tiemout 3",
            "ping 10.0.0.1@tcp --timeout 0",
            "ping 10.0.0.1@tcp --timeout soon",
            "ping 10.0.0.1@tcp --count 0",
            "show weather",
            "show net --nid 10.0.0.1@tcp",
            "discover",
            "routerstat 0",
            "completion tcsh",
            "man unknown",
        ],
    ),
    (
        "NIDs and networks",
        &[
            "ping 10.0.0",
            "ping 10.0.0.1@tpc",
            "ping 10.0.0.1@o2ib",
            "ping host@tcp",
            "ping *",
            "node --net tcp=10.0.0.1:0",
            "node --net tcp=10.0.0.1:99999",
            "node --net o2ib=ib0",
            "node --net tcp=no-such-interface",
        ],
    ),
    (
        "mounts",
        &[
            "mount",
            "mount 10.0.0.9@tcp:/lustre",
            "mount /dev/sda1 DIR",
            "mount mgs:/lustre DIR",
            "mount 10.0.0.9@tcp:/lustre DIR/missing",
            "mount 10.0.0.9@tcp:/lustre /proc/version",
            "mount 10.0.0.9@tcp:/lustre DIR -o rw,noacl",
            "mount 10.0.0.9@tcp:/lustre DIR -o quick",
            "mount 10.0.0.9@tcp:/lustre DIR --timeout 0",
            "mount-helper 10.0.0.9@tcp:/lustre DIR -f -o rw,remount",
            "mount-helper 10.0.0.9@tcp:/lustre DIR -sf -o rw,quick",
            "umount DIR",
            "umount DIR/missing",
            "umount /proc",
        ],
    ),
    (
        "files",
        &[
            "fs",
            "fs ls",
            "fs ls /mnt/lustre",
            "fs ls lustre://10.0.0.9@tcp/lustre --net tcp=127.0.0.2 --net tcp=127.0.0.3",
            "fs ls lustre://10.0.0.9@tcp1/lustre --net tcp=127.0.0.2",
            "fs cat lustre://mgs/lustre/file",
            "fs cat lustre://10.0.0.9@tpc/lustre/file",
            "fs stat 10.0.0.9@tcp:/a-long-name/file",
            "fs rm lustre://10.0.0.9@tcp/lustre",
            "fs mkdir lustre://10.0.0.9@tcp/lustre/..",
            "fs mv lustre://10.0.0.9@tcp/one/a lustre://10.0.0.9@tcp/two/a",
            "fs put DIR/missing.yaml lustre://10.0.0.9@tcp/lustre/",
            "fs put DIR lustre://10.0.0.9@tcp/lustre/",
            "fs df lustre://10.0.0.9@tcp/lustre --timeout 0",
            "fs set DIR",
            "fs set DIR max_rpcs_in_flight=8",
            "fs status DIR",
            "fs serve --osts 0",
        ],
    ),
    (
        "settings",
        &[
            "node --set peer_credits",
            "node --set peer_credits=many",
            "node --set peer_credits=0",
            "node --set peer_credit=8",
            "node --identity nodes",
            "node --lenient",
        ],
    ),
    (
        "configuration files",
        &[
            "node --config DIR/missing.yaml",
            "node --config DIR/key.yaml",
            "node --config DIR/range.yaml",
            "node --config DIR/broken.yaml",
            "node --config DIR/twice.yaml",
        ],
    ),
    (
        "addresses",
        &[
            "node --net tcp=BUSY --accept all --control DIR/node.sock",
            "ping IP@tcp --port 1 --net tcp=IP2 --identity userland",
        ],
    ),
    (
        "a node that does not run",
        &[
            "show net --control DIR/none.sock",
            "lnetctl --control DIR/none.sock net show",
            "lctl --control DIR/none.sock list_nids",
            "routerstat --control DIR/none.sock",
            "ping 10.0.0.1@tcp --control DIR/none.sock --net tcp",
        ],
    ),
    (
        "doctor",
        &[
            "doctor --to 10.0.0.1@tpc",
            "doctor --to 10.0.0.1@o2ib",
            "doctor --to 10.0.0.1@tcp,10.0.0.1@tcp",
            "doctor --both-ends ssh",
            "doctor --to 10.0.0.1@tcp,10.0.0.2@tcp --both-ends ssh",
            "doctor --budget-bytes 0",
            "doctor --budget-time -1",
            "doctor --rate fast",
            "doctor --bundle DIR/bundle.zip",
            "doctor --bundle DIR/key.yaml --dry-run",
            "doctor --config DIR/missing.yaml",
        ],
    ),
    (
        "selftest and plans",
        &[
            "selftest --size 7",
            "selftest --size big",
            "selftest --concurrency 0",
            "selftest --net tcp=10.0.0.1",
            "selftest --test erase",
            "selftest --plan DIR/missing.yaml",
            "selftest --plan DIR/plan.yaml --dry-run",
            "selftest --plan DIR/start.yaml --dry-run",
            "selftest --plan DIR/start.yaml --start shh",
            "selftest --plan DIR/hosts.yaml --dry-run --hosts a=c1 --hosts b=c[1-",
            "selftest --plan DIR/hosts.yaml --dry-run --hosts c[1-999999999]",
            "selftest --plan DIR/hosts.yaml --dry-run --hosts c1;reboot",
            "selftest --plan DIR/hosts.yaml --dry-run --hosts c1",
            "selftest --plan DIR/hosts.yaml --hosts c[1-3]",
            "selftest --json DIR/no/such/file.json",
        ],
    ),
    (
        "tuning",
        &[
            "tune",
            "tune --to 10.0.0.1@tpc",
            "tune --to 10.0.0.1@tcp --budget-bytes 4GB",
            "tune --to 10.0.0.1@tcp --budget-time 0",
            "tune --to 10.0.0.1@tcp --rate fast",
            "tune --to 10.0.0.1@tcp --rpc-size 1k",
            "tune --to 10.0.0.1@tcp --dry-run --write DIR",
            "tune --to 10.0.0.1@tcp --rate 1G --write /proc/version/tuned",
            "tune --to 10.0.0.1@tcp --to 10.0.0.1@tcp",
        ],
    ),
    (
        "live views, watches and laboratories",
        &[
            "top",
            "top --interval 0 --once",
            "top --sort size --once",
            "watch",
            "watch --to 10.0.0.1@tcp",
            "watch --to 10.0.0.1@tcp --db DIR/watch.db --pings 1",
            "watch --to 10.0.0.1@tcp --db DIR/watch.db --every 0s",
            "watch --to 10.0.0.1@tcp --db DIR/watch.db --path-every never",
            "watch report --db DIR/missing.db",
            "watch report --db DIR/key.yaml",
            "lab",
            "lab up DIR/missing.yaml",
            "lab up DIR/key.yaml --dry-run",
            "lab exec east",
        ],
    ),
    (
        "simulations and captures",
        &[
            "sim run DIR/missing.yaml",
            "sim run DIR/scenario.yaml",
            "sim sweep DIR/scenario.yaml",
            "sim replay DIR/key.yaml",
            "pcap DIR/missing.pcap",
            "pcap DIR/key.yaml",
        ],
    ),
    (
        "reports of results",
        &[
            "report",
            "report DIR/missing.json",
            "report DIR/broken.json",
            "report DIR/other.json",
            "report DIR/key.yaml",
            "report DIR/result.json DIR/simulated.json",
            "report DIR/simulated.json --require read>=1MiB/s",
            "report DIR/sweep.json",
            "report DIR/result.json --plots DIR/result.json",
            "report DIR/result.json --plots -",
            "selftest --report -",
            "report DIR/result.json --html -",
            "report DIR/result.json --html DIR/result.json",
            "report DIR/result.json --require reed>=9GiB/s --require p99<=2parsecs",
            "report DIR/result.json --require p99=2ms",
            "report DIR/result.json --require read",
            "report DIR/result.json --require read>=3MiB/s --require p99<=2.5us",
            "report DIR/result.json --require write>=1MiB/s --json",
            "report DIR/result.json DIR/result.json --require read>=1MiB/s",
        ],
    ),
    (
        "tools",
        &[
            "lst new_sessions",
            "lst add_group",
            "lst add_group --wrong g 10.0.0.1@tcp",
            "lst add_group g 10.0.0.[5-3]@tcp",
            "lst add_group g 10.0.0.[1-99999]@tcp",
            "lst add_test --concurrency 0 --from a --to b ping",
            "lst add_test --from a --to b brw read size=7",
            "lst list_group",
            "lst --json stat a",
            "lnetctl nets",
            "lnetctl net shwo",
            "lnetctl net show --net",
            "lnetctl ping",
            "lnetctl set retry_count",
            "lnetctl set transaction_timeout forever",
            "lnetctl route add --net tcp1 --gateway 10.0.0.1@tcp",
            "lctl list_nid",
        ],
    ),
];

/// What `lustrine selftest --json` writes, with one row.
const RESULT: &str = r#"{
  "version": "0.1.0", "date": "2026-11-23T12:00:00Z", "host": "here", "from": "127.0.0.1@tcp",
  "to": "127.0.0.2@tcp", "identity": "node", "check": "simple", "waiting": "polling",
  "results": [
    {"test": "read", "size": 4096, "concurrency": 8, "seconds": 1.0, "ops": 512,
     "mib_per_s": 2.0, "ops_per_s": 512.0, "errors": 0, "lost": 0, "lost_age_max_s": 0.0,
     "latency_us": {"p50": 1.0, "p90": 2.0, "p99": 3.0, "p999": null, "max": 4.0}}
  ]
}"#;

/// The result of a simulation without loads.
const SIMULATED: &str = "{\"version\":\"0\",\"scenario\":\"s.yaml\",\"changes\":[],\"real_s\":1,\
    \"seed\":1,\"fidelity\":\"stream\",\"nodes\":2,\"trace_hash\":\"0\",\"virtual_s\":1,\
    \"messages\":0,\"window_s\":null,\"loads\":[],\"links\":[],\"waits\":[],\
    \"samples\":{\"at_s\":[],\"loads\":[],\"queues\":[]},\"hints\":[],\"unquiet\":[],\
    \"interrupted\":false}\n";

/// Files in `DIR`, each with an error.
const FILES: [(&str, &str); 13] = [
    ("key.yaml", "net:\n- net type: tcp\n  local NI(s):\n  - interfacess:\n      0: eth0\n"),
    (
        "range.yaml",
        "net:\n- net type: tcp\n  local NI(s):\n  - tunables:\n      peer_credits: -1\n",
    ),
    ("broken.yaml", "net: [tcp\n"),
    ("twice.yaml", "global:\n    discovery: 1\n    discovery: 0\n"),
    ("plan.yaml", "groups:\n  clients: 10.0.0.[1-2]@tcp\ntset: []\n"),
    (
        "start.yaml",
        "name: p\nstart:\n  method: slurm\n  hosts: c1\n  user: -x\n  missing: ignore\ngroups: {a: \
         {host: c1}}\n",
    ),
    (
        "hosts.yaml",
        "name: p\ngroups: {a: 2, b: 1}\nsteps: [{tests: [{do: ping, from: a, to: b}]}]\n",
    ),
    ("broken.json", "{\n  \"points\": [\n"),
    ("other.json", "{\"scenario\": 1, \"results\": []}\n"),
    ("result.json", RESULT),
    ("simulated.json", SIMULATED),
    ("sweep.json", "{\"scenario\": \"s\", \"names\": [\"size\"], \"runs\": []}\n"),
    ("scenario.yaml", "groups:\n  clients: {count: many}\nlink: {}\n"),
];

/// Command lines that read `FILE`. `lnetctl import` is not among them:
/// it has the status of Lustre's tool.
const READERS: &[&str] = &[
    "node --control DIR/none.sock --config FILE",
    "show net --control DIR/none.sock --config FILE",
    "ping 10.0.0.1@tcp --config FILE",
    "discover 10.0.0.1@tcp --config FILE",
    "selftest --to 10.0.0.1@tcp --config FILE",
    "selftest --plan FILE",
    "selftest --plan FILE --dry-run",
    "selftest --plan DIR/hosts.yaml --dry-run --hosts ^FILE",
    "selftest --plan DIR/hosts.yaml --start ssh --hosts c[1-3] --program FILE",
    "sim run FILE",
    "sim sweep --vary concurrency=1,2 FILE",
    "sim swarm --case FILE",
    "sim replay FILE",
    "pcap FILE",
    "report FILE",
    "report DIR/result.json FILE",
];

#[test]
fn every_command_has_one_status_for_a_file_that_is_missing_or_invalid() {
    let scratch = Scratch::new();
    for (name, text) in FILES {
        scratch.write(name, text);
    }
    let invalid = scratch.write("invalid", "[{ no file of any kind;\n");
    let directory = scratch.path().display().to_string();
    for line in READERS {
        for file in [scratch.file("missing"), invalid.clone()] {
            let (file, mut command) = (file.display().to_string(), lustrine());
            let words = line.split_whitespace();
            command.args(words.map(|word| word.replace("FILE", &file).replace("DIR", &directory)));
            let done = finish(&mut command).expect_bad_input(&[&file]);
            assert!(!done.stderr.contains("try '--help'"), "{line}: {done:#?}");
        }
    }
}

#[test]
fn errors_are_as_recorded() {
    let scratch = Scratch::new();
    for (name, text) in FILES {
        scratch.write(name, text);
    }
    let (ip, ip2, busy_ip) = (loopback(), loopback(), loopback());
    let busy = TcpListener::bind((busy_ip, 0)).expect("a port is free");
    let busy_port = busy.local_addr().expect("it is bound").port();
    let names = [
        ("IP2", ip2.to_string()),
        ("IP", ip.to_string()),
        ("BUSY", format!("{busy_ip}:{busy_port}")),
        ("DIR", scratch.path().display().to_string()),
    ];
    let mut shown = String::new();
    for (group, lines) in CASES {
        shown += &format!("# {group}\n\n");
        for line in lines {
            shown += &case(line, &names, &scratch);
        }
    }
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots/errors.txt");
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some_and(|value| value == "1") {
        fs::write(&path, &shown).expect("the snapshot can be written");
    }
    let recorded = fs::read_to_string(&path).unwrap_or_default();
    let hint = "if the change is meant, run the test with UPDATE_SNAPSHOTS=1 and commit the file";
    let differ = recorded.lines().zip(shown.lines()).find(|(recorded, now)| recorded != now);
    assert!(recorded == shown, "first difference: {differ:#?}; {hint}\n{shown}");
}

/// A command line and its output, with the names of the table in place of their values.
fn case(line: &str, names: &[(&str, String)], scratch: &Scratch) -> String {
    let mut command: Command = lustrine();
    for word in line.split_whitespace() {
        let fill = |word: String, (name, value): &(&str, String)| word.replace(name, value);
        command.arg(names.iter().fold(word.to_owned(), fill));
    }
    // Neither a node nor a session of the user who runs the tests is used.
    command.env("XDG_RUNTIME_DIR", scratch.path()).env("LUSTRINE_LST_DIR", scratch.path());
    command.env("LST_SESSION", "7").env("LUSTRINE_CONTROL", scratch.file("none.sock"));
    let done = finish(&mut command);
    let code = done.code.map_or("a signal".to_owned(), |code| code.to_string());
    let mut text = format!("$ lustrine {line}\n");
    for printed in done.stdout.lines() {
        text += &format!("    {printed}\n");
    }
    for printed in done.stderr.lines() {
        text += &format!("  ! {printed}\n");
    }
    text += &format!("  exit status {code}\n\n");
    let restore = |text: String, (name, value): &(&str, String)| text.replace(value, name);
    let text = names.iter().fold(text, restore);
    text.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}
