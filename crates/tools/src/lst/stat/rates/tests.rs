use lustrine_wire::srpc::{FrameworkCounters, LnetCounters};

use super::*;
use crate::lst::LST;
use crate::parse::parse;

fn counters(running_ms: u32, messages: [u32; 2], bytes: [u64; 2]) -> Counters {
    let Counters { framework, rpc, lnet } = Counters::ZERO;
    let framework = FrameworkCounters { running_ms, ..framework };
    let lnet = LnetCounters {
        send_count: messages[1],
        recv_count: messages[0],
        send_length: bytes[1],
        recv_length: bytes[0],
        ..lnet
    };
    Counters { framework, rpc, lnet }
}

fn layout(options: &str) -> Layout {
    let syntax = LST.commands.iter().find(|syntax| syntax.name == "stat").unwrap();
    let words: Vec<String> = format!("g {options}").split_whitespace().map(str::to_owned).collect();
    Layout::of(&parse(syntax, &words).unwrap())
}

/// Two nodes: 10 and 30 messages received per second, 100 and 200 sent.
fn two() -> Vec<Rates> {
    let start = counters(1000, [0, 0], [0, 0]);
    let one = counters(3000, [20, 200], [2 << 20, 4 << 20]);
    let other = counters(2000, [30, 200], [3 << 20, 0]);
    [one, other].iter().map(|now| Rates::between(&start, now).unwrap()).collect()
}

#[test]
fn rates_use_the_time_that_the_node_reports() {
    let start = counters(u32::MAX - 499, [u32::MAX - 9, 5], [100, 0]);
    // Both the time and the messages wrap around.
    let now = counters(500, [10, 5], [300, 0]);
    let rates = Rates::between(&start, &now).unwrap();
    assert_eq!((rates.received.messages, rates.received.bytes), (20.0, 200.0));
    assert_eq!(rates.sent.messages, 0.0);
}

#[test]
fn a_node_that_restarted_has_no_rates() {
    let start = counters(5000, [0, 0], [100, 100]);
    assert_eq!(Rates::between(&start, &counters(200, [0, 0], [200, 200])), None);
    assert_eq!(Rates::between(&start, &counters(5000, [0, 0], [200, 200])), None);
    assert_eq!(Rates::between(&start, &counters(6000, [0, 0], [99, 200])), None);
}

#[test]
fn rows_have_the_layout_of_lst() {
    let text = layout("").rows("io", &two());
    let wanted = "[LNet Rates of io]\n\
        [R] Avg: 20       RPC/s Min: 10       RPC/s Max: 30       RPC/s\n\
        [W] Avg: 150      RPC/s Min: 100      RPC/s Max: 200      RPC/s\n\
        [LNet Bandwidth of io]\n\
        [R] Avg: 2.00     MiB/s Min: 1.00     MiB/s Max: 3.00     MiB/s \n\
        [W] Avg: 1.00     MiB/s Min: 0.00     MiB/s Max: 2.00     MiB/s \n";
    assert_eq!(text, wanted);
}

#[test]
fn options_choose_rows_and_columns() {
    let cases = [
        ("--rate --avg", "[LNet Rates of g]\n[R] Avg: 20       RPC/s \n[W] Avg: 150      RPC/s \n"),
        // As in every release, the other row is shown.
        ("--rate --avg --read", "[LNet Rates of g]\n[W] Avg: 150      RPC/s \n"),
        ("--rate --avg --write", "[LNet Rates of g]\n[R] Avg: 20       RPC/s \n"),
        ("--bw --max --write --mbs", "[LNet Bandwidth of g]\n[R] Max: 3.15     MB/s  \n"),
        ("-a -n -x -w", "[LNet Rates of g]\n[R] Min: 10       RPC/s Max: 30       RPC/s\n"),
        ("--rpc", ""),
    ];
    for (options, wanted) in cases {
        assert_eq!(layout(options).rows("g", &two()), wanted, "{options}");
    }
    assert_eq!(layout("--rpc --lnet").rows("g", &two()), layout("").rows("g", &two()));
    assert_eq!(layout("").rows("g", &[]), "");
}
