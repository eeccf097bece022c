use super::*;
use crate::combination::combinations;
use crate::compare::tests::run;
use crate::page::page;
use crate::results::Results;
use crate::table::table;

fn nid(node: u32) -> Nid {
    format!("10.0.0.{}@tcp", node + 1).parse().expect("a NID")
}

/// All pairs of some nodes, one after the other, with these MiB/s.
pub(crate) fn all_pairs(nodes: u32, rate: impl Fn(u32, u32) -> f64) -> Results {
    let one = run(&[(1, &[1.0])]);
    let mut results = Results { points: Vec::new(), ..one.clone() };
    results.groups.insert("nodes".to_owned(), (0..nodes).map(nid).collect());
    for from in 0..nodes {
        for to in (0..nodes).filter(|to| *to != from) {
            let mut point = one.points[0].clone();
            point.labels = vec![("pair".to_owned(), format!("{} {}", nid(from), nid(to)))];
            let client = &mut point.rows[0].by_client[0];
            (client.nid, client.server) = (nid(from), Some(nid(to)));
            client.counted.mib_per_s = rate(from, to);
            results.points.push(point);
        }
    }
    results
}

fn verdict(results: &Results) -> String {
    let steps = combinations(results);
    Pairs::all_of(&steps[0].2[0])[0].verdict().expect("a verdict")
}

/// 64 nodes, of which the 18th is slow; and the pair of the 6th and the 7th.
fn sixty_four() -> Results {
    all_pairs(64, |from, to| match (from, to) {
        (17, _) | (_, 17) => 300.0,
        (5, 6) => 200.0,
        _ => 1000.0 + f64::from((from * 7 + to * 13) % 50),
    })
}

#[test]
fn a_slow_node_and_a_slow_pair_of_64_nodes_are_named() {
    let results = sixty_four();
    assert_eq!(
        verdict(&results),
        "node 10.0.0.18@tcp is slow: 126 of its 126 pairs are below half of the median; one more \
         pair is slow: 10.0.0.6@tcp -> 10.0.0.7@tcp with 20% of the median"
    );
    let html = page(&results, &table(&results)).html;
    let (_, top) = html.split_once("class=\"verdict\">").expect("a sentence on top");
    assert!(top.starts_with("Node 10.0.0.18@tcp is slow: 126 of its 126 pairs"), "{}", &top[..99]);
    for wanted in
        ["median of 4,032 pairs: read 4k", "slowest pair: read 4k", "no cell: not measured"]
    {
        assert!(html.contains(wanted), "{wanted}");
    }
    // 4032 cells, and an edge for each slow one.
    assert_eq!(html.matches("<rect").count() - html.matches("fill=\"none\"").count(), 4032 + 6);
    // A cell that is a minute's reading in a browser is not a page.
    assert!(html.len() < 1 << 20, "{} bytes", html.len());
}

#[test]
fn what_is_slow_is_said_in_other_cases_too() {
    let fine = all_pairs(4, |from, _| 100.0 + f64::from(from));
    assert_eq!(
        verdict(&fine),
        "no pair of 12 is below half of the median; the slowest has 99% of it"
    );
    // 3 of 12 pairs of a node with 6 others.
    let part = all_pairs(7, |from, to| if from == 2 && to > 3 { 10.0 } else { 100.0 });
    assert_eq!(
        verdict(&part),
        "node 10.0.0.3@tcp is slow: 3 of its 12 pairs are below half of the median"
    );
    let dead = all_pairs(3, |from, _| if from == 0 { 10.0 } else { 0.0 });
    assert_eq!(verdict(&dead), "4 of 6 pairs moved nothing");
    let many = all_pairs(30, |from, to| if from + 1 == to && from % 7 == 0 { 1.0 } else { 50.0 });
    assert_eq!(
        verdict(&many),
        "single pairs are slow: 10.0.0.1@tcp -> 10.0.0.2@tcp with 2.0% of the median, 10.0.0.8@tcp \
         -> 10.0.0.9@tcp with 2.0% of the median, 10.0.0.15@tcp -> 10.0.0.16@tcp with 2.0% of the \
         median, 2 more"
    );
}

/// Clients and servers that are no node of the other side.
fn from_to(clients: u32, servers: u32, rate: impl Fn(u32, u32) -> f64) -> Results {
    let mut results = all_pairs(clients + servers, |_, _| 0.0);
    results.points.retain_mut(|point| {
        let client = &mut point.rows[0].by_client[0];
        let at = |wanted: Nid| (0..clients + servers).find(|node| nid(*node) == wanted);
        let server = client.server.and_then(at).expect("a server");
        let from = at(client.nid).expect("a client");
        client.counted.mib_per_s = rate(from, server.wrapping_sub(clients));
        from < clients && server >= clients
    });
    results
}

#[test]
fn the_side_with_few_nodes_is_not_blamed_for_the_other_one() {
    let servers = from_to(2, 8, |_, server| if server < 3 { 10.0 } else { 100.0 });
    assert_eq!(
        verdict(&servers),
        "node 10.0.0.5@tcp is slow: 2 of its 2 pairs are below half of the median; node \
         10.0.0.4@tcp is slow: 2 of its 2 pairs are below half of the median; node 10.0.0.3@tcp \
         is slow: 2 of its 2 pairs are below half of the median"
    );
    let one = from_to(1, 8, |_, server| if server < 2 { 10.0 } else { 100.0 });
    assert_eq!(
        verdict(&one),
        "single pairs are slow: 10.0.0.1@tcp -> 10.0.0.2@tcp with 10% of the median, 10.0.0.1@tcp \
         -> 10.0.0.3@tcp with 10% of the median"
    );
}

#[test]
fn a_test_that_moved_nothing_comes_first() {
    let mut results = all_pairs(3, |_, _| 0.0);
    for point in &mut results.points {
        let mut ping = point.rows[0].clone();
        (ping.test, ping.size) = (TestKind::Ping, 0);
        ping.by_client[0].counted.ops_per_s = 5000.0;
        point.rows.insert(0, ping);
    }
    let html = page(&results, "").html;
    assert!(html.contains("6 of 6 pairs moved nothing"), "{}", &html[..2000]);
}

#[test]
fn different_tests_of_pairs_are_not_mixed() {
    let mut results = all_pairs(3, |_, _| 100.0);
    for point in &mut results.points {
        let mut ping = point.rows[0].clone();
        (ping.test, ping.size) = (TestKind::Ping, 0);
        ping.by_client[0].counted.ops_per_s = 5000.0;
        point.rows.push(ping);
    }
    let steps = combinations(&results);
    let all = Pairs::all_of(&steps[0].2[0]);
    let found: Vec<(String, f64)> =
        all.iter().map(|pairs| (pairs.name(), pairs.median().expect("pairs"))).collect();
    assert_eq!(found, [("read 4k".to_owned(), 100.0), ("ping".to_owned(), 5000.0)]);
    results.points[0].rows[0].by_client.clear();
    results.points[0].rows[0].lost = vec![nid(0)];
    let text = table(&results);
    for line in [
        " read 4k: 5 pairs (client -> server): slowest 100.0, median 100.0, fastest 100.0 MiB/s\n",
        " ping: 6 pairs (client -> server): slowest 5000, median 5000, fastest 5000 ops/s\n",
        "   without some pairs of 10.0.0.1@tcp: no answer\n",
    ] {
        assert!(text.contains(line), "{text}");
    }
}

#[test]
fn what_the_picture_leaves_out_is_said() {
    let html = page(&all_pairs(66, |_, _| 100.0), "").html;
    assert!(html.contains("The picture has the first 64 of 66 clients; 2 are left out of it."));
    assert!(html.contains("No pair of 4,290 is below half of the median"));
}
