use std::collections::{BTreeMap, BTreeSet};

use lustrine_wire::nid::Net;
use proptest::prelude::*;

use super::*;

fn nids(range: std::ops::Range<u32>) -> Vec<Nid> {
    range.map(|last| Nid::new4(Net::TCP, 0x0a00_0000 + last)).collect()
}

fn made(text: &str, nodes: &Nodes) -> Result<Vec<Point>, String> {
    let plan = Plan::parse(text, "p").unwrap_or_else(|why| panic!("{why}"));
    points(&plan, nodes).map_err(|why| why.to_string())
}

fn step(test: &str, rest: &str) -> String {
    format!("name: p\ngroups: {{a: 1, b: 1}}\nsteps:\n- tests: [{test}]\n{rest}")
}

/// Which client sends to which server, as nodes will see it.
fn pairs(point: &Point) -> Vec<(Nid, Nid)> {
    let mut pairs = Vec::new();
    for flow in &point.flows {
        for (index, client) in flow.clients.iter().enumerate() {
            let first = index / flow.spread.clients as usize * flow.spread.servers as usize;
            for place in first..first + flow.spread.servers as usize {
                pairs.push((*client, flow.servers[place % flow.servers.len()]));
            }
        }
    }
    pairs
}

#[test]
fn all_values_are_combined_and_the_sweep_is_repeated() {
    let text = step(
        "{do: read, from: a, to: b}",
        "  repeat: 2\n  sweep: {size: [4 KiB, 1 MiB], concurrency: [1, 8], a: 1..2}\n",
    );
    let points = made(&text, &vec![nids(1..4), nids(9..10)]).unwrap();
    let titles: Vec<String> = points.iter().map(|point| point.title(2)).collect();
    assert_eq!(titles.len(), 2 * 2 * 2 * 2);
    assert_eq!(titles[0], "step1, size 4k, concurrency 1, a 1 (1 of 2)");
    assert_eq!(titles[1], "step1, size 4k, concurrency 1, a 2 (1 of 2)");
    assert_eq!(titles[15], "step1, size 1M, concurrency 8, a 2 (2 of 2)");
    let last = &points[15];
    assert_eq!((last.lines[0].clients, last.lines[0].size), (2, 1 << 20));
    assert_eq!(pairs(last).len(), 2);
    assert_eq!(last.nodes().len(), 3);
}

#[test]
fn a_mix_shares_concurrency_and_rate_by_weight() {
    let test = "{do: read, from: a, to: b, concurrency: 10, rate: 1000, \
                mix: {4 KiB: 7, 64 KiB: 2, 1 MiB: 1}}";
    let points = made(&step(test, ""), &vec![nids(1..2), nids(9..10)]).unwrap();
    let lines = &points[0].lines;
    assert_eq!(lines.iter().map(|line| line.concurrency).collect::<Vec<_>>(), [7, 2, 1]);
    assert_eq!(lines.iter().map(|line| line.rate).collect::<Vec<_>>(), [700, 200, 100]);
    // The total does not grow, however uneven the weights are.
    let odd = "{do: read, from: a, to: b, concurrency: 16, rate: 100, mix: {8 B: 1000, 16 B: 1000, \
               24 B: 1, 32 B: 1, 40 B: 1, 48 B: 1, 56 B: 1, 64 B: 1}}";
    let points = made(&step(odd, ""), &vec![nids(1..2), nids(9..10)]).unwrap();
    let parts: Vec<u32> = points[0].lines.iter().map(|line| line.concurrency).collect();
    assert_eq!(parts, [5, 5, 1, 1, 1, 1, 1, 1]);
    assert_eq!(points[0].lines.iter().map(|line| line.rate).sum::<u32>(), 100);
    let test = "{do: read, from: a, to: b, concurrency: 2, mix: {4 KiB: 999, 1 MiB: 1}}";
    let points = made(&step(test, ""), &vec![nids(1..2), nids(9..10)]).unwrap();
    assert_eq!(points[0].lines.iter().map(|line| line.concurrency).collect::<Vec<_>>(), [1, 1]);
}

#[test]
fn others_are_all_nodes_except_the_client() {
    let text = step("{do: ping, from: a, to: a, spread: others}", "");
    let points = made(&text, &vec![nids(1..5), nids(9..10)]).unwrap();
    let all: BTreeSet<(Nid, Nid)> = pairs(&points[0]).into_iter().collect();
    assert_eq!((points[0].flows.len(), all.len()), (4, 12));
    assert!(all.iter().all(|(from, to)| from != to));
    // If no node has both roles, one test is enough.
    let text = step("{do: ping, from: a, to: b, spread: others}", "");
    let points = made(&text, &vec![nids(1..5), nids(9..12)]).unwrap();
    assert_eq!((points[0].flows.len(), pairs(&points[0]).len()), (1, 12));
}

#[test]
fn impossible_plans_are_refused() {
    let one = || vec![nids(1..2), nids(9..10)];
    let cases = [
        (step("{do: ping, from: a, to: b, spread: 1:2}", ""), one(), "there are 1"),
        (step("{do: ping, from: a, to: a, spread: pairs}", ""), one(), "no pair of two nodes"),
        (step("{do: ping, from: a, to: a, spread: others}", ""), one(), "no pair of two nodes"),
        (step("{do: ping, from: a, to: b}", ""), vec![nids(1..2), Vec::new()], "has no nodes"),
        (step("{do: ping, from: a, to: b}", "  sweep: {a: [2]}\n"), one(), "and it has 1"),
        (
            step("{do: ping, from: a, to: b, spread: all}", ""),
            vec![nids(1..2), nids(9..400)],
            "at most 341",
        ),
        (
            step("{do: ping, from: a, to: a, spread: others}", ""),
            vec![nids(1..300), nids(9..10)],
            "at most 256",
        ),
        (
            step("{do: ping, from: a, to: a, spread: pairs}", ""),
            vec![nids(1..200), nids(9..10)],
            "more than 10000 points",
        ),
        (
            step(
                "{do: read, from: a, to: b, concurrency: 2, mix: {4 KiB: 1, 8 KiB: 1}}",
                "  sweep: {concurrency: [1]}\n",
            ),
            one(),
            "too little for a mix of 2 sizes",
        ),
        (
            step(
                "{do: ping, from: a, to: b}",
                "  sweep: {concurrency: 1..256, rate: 1..256, a: 1..256, b: 1..256}\n",
            ),
            vec![nids(1..300), nids(301..600)],
            "more than 10000 points",
        ),
        (step("{do: read, from: a, to: b, offset: 8}", ""), one(), "one more page"),
    ];
    for (text, nodes, said) in cases {
        let why = made(&text, &nodes).expect_err("it cannot be");
        assert!(why.starts_with("step step1: ") && why.contains(said), "{why}");
    }
}

proptest! {
    /// Rounds and pairs hold every ordered pair of two nodes once, and no node has two clients or
    /// two servers at once.
    #[test]
    fn every_pair_runs_once(clients in 1..9u32, servers in 1..9u32, shared in 0..9u32) {
        let from = nids(1..1 + clients);
        let to = nids(1 + clients - shared.min(clients)..1 + clients + servers);
        let mut wanted = BTreeMap::new();
        for one in &from {
            for two in to.iter().filter(|two| *two != one) {
                wanted.insert((*one, *two), 1);
            }
        }
        prop_assume!(!wanted.is_empty());
        for spread in ["pairs", "rounds"] {
            let text = step(&format!("{{do: ping, from: a, to: b, spread: {spread}}}"), "");
            let points = made(&text, &vec![from.clone(), to.clone()]).unwrap();
            let mut seen: BTreeMap<(Nid, Nid), u32> = BTreeMap::new();
            for point in &points {
                let pairs = pairs(point);
                let clients: BTreeSet<_> = pairs.iter().map(|pair| pair.0).collect();
                let servers: BTreeSet<_> = pairs.iter().map(|pair| pair.1).collect();
                prop_assert_eq!((clients.len(), servers.len()), (pairs.len(), pairs.len()));
                prop_assert!(spread == "rounds" || pairs.len() == 1);
                for pair in pairs {
                    *seen.entry(pair).or_default() += 1;
                    prop_assert_eq!(point.only_server(0, &pair.0), Some(pair.1));
                }
            }
            prop_assert_eq!(&seen, &wanted);
        }
    }
}

#[test]
fn a_plan_without_some_of_its_nodes_varies_their_number_up_to_those_there_are() {
    let text = "name: p\ngroups: {a: 8, b: 1}\nsteps:\n- tests: [{do: ping, from: a, to: b}]\n  \
                sweep: {a: [1, 8, 2, 4]}\n";
    let mut plan = Plan::parse(text, "p").expect("it is valid");
    let nodes = vec![nids(0..3), nids(3..4)];
    assert!(points(&plan, &nodes).is_err(), "8 of 3");
    plan.limit_nodes(&nodes);
    assert_eq!(plan.steps[0].sweep, [Dimension::Nodes(0, vec![1, 3, 2])]);
    assert_eq!(points(&plan, &nodes).map(|points| points.len()).ok(), Some(3));
}
