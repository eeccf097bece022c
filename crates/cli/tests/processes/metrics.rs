//! `lustrine node --metrics`: the page, read by a strict parser, and its server under misbehaving
//! clients.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use lustrine_metrics::{NIS_MAX, rows};
use lustrine_socklnd::METRICS;

use crate::common::{Node, Running, Scratch, eventually, finish, free_port, loopback, lustrine};

mod parser;
mod promtool;

use parser::{Exposition, Family, Sample};

/// A node that serves metrics, and its address.
fn node(args: &[&str]) -> (Node, SocketAddr) {
    let ip = loopback();
    let at = SocketAddr::from((ip, free_port(ip)));
    let place = at.to_string();
    let node = Node::start(&[&["--accept", "all", "--metrics", &place], args].concat());
    (node, at)
}

/// Sends a request and returns the whole answer.
fn request(at: SocketAddr, text: &str) -> String {
    let mut stream = TcpStream::connect(at).expect("the node listens");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a socket of ours");
    stream.write_all(text.as_bytes()).expect("it is taken");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it is answered");
    answer
}

fn get(at: SocketAddr, path: &str) -> (String, String) {
    let answer = request(at, &format!("GET {path} HTTP/1.1\r\nHost: {at}\r\n\r\n"));
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    let length = format!("\r\nContent-Length: {}\r\n", body.len());
    assert!(head.contains(&length), "{head}");
    (head.to_owned(), body.to_owned())
}

#[track_caller]
fn scrape(at: SocketAddr) -> Exposition {
    let accept = "application/openmetrics-text;version=1.0.0,text/plain;q=0.5";
    let asked = format!("GET /metrics HTTP/1.1\r\nHost: {at}\r\nAccept: {accept}\r\n\r\n");
    let answer = request(at, &asked);
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    let kind = "\r\nContent-Type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n";
    assert!(head.contains(kind), "{head}");
    parser::parse(body).unwrap_or_else(|why| panic!("{why} in\n{body}"))
}

/// Some operations of each kind between a temporary client and the node.
fn load(node: &Node, client: Ipv4Addr) {
    let mut command = node.client_at("selftest", client);
    command.args(["--test", "ping,read,write", "--size", "64k", "--time", "0.2"]);
    finish(&mut command).ok();
}

/// The value of a series.
#[track_caller]
fn value(page: &Exposition, name: &str, labels: &[(&str, &str)]) -> f64 {
    let found = page.samples(name).find(|sample| sample.has(labels));
    found.unwrap_or_else(|| panic!("no {name} with {labels:?}")).value
}

/// A page that was collected after another one.
fn scrape_after(at: SocketAddr, earlier: &Exposition) -> Exposition {
    let cpu = |page: &Exposition| value(page, "lustrine_cpu_seconds_total", &[]);
    eventually("a page that is not the same", || {
        let page = scrape(at);
        (cpu(&page) > cpu(earlier)).then_some(page)
    })
}

/// All counters and histograms exist as before and only grow.
#[track_caller]
fn nothing_fell(earlier: &Exposition, later: &Exposition) {
    let mut grown = 0;
    for family in earlier.families.iter().filter(|family| family.kind != "gauge") {
        for sample in &family.samples {
            let now = value(later, &sample.name, &sample.pairs());
            assert!(now >= sample.value, "{} {:?}", sample.name, sample.labels);
            grown += usize::from(now > 0.0);
        }
    }
    assert!(grown > 30, "{grown}");
}

#[test]
fn a_reset_affects_the_tools_and_not_the_metrics() {
    let (node, at) = node(&[]);
    let client = loopback();
    load(&node, client);
    let before = scrape_after(at, &scrape(at));
    let lnetctl = |words: &[&str]| {
        let mut command = lustrine();
        command.arg("lnetctl").args(words).env("LUSTRINE_CONTROL", node.control());
        finish(&mut command).ok().stdout
    };
    assert!(!lnetctl(&["net", "show", "-v"]).contains("get_rtt_samples: 0\n"));
    assert_eq!(lnetctl(&["stats", "reset"]), "");
    assert_eq!(
        finish(&mut node.controlled(&["show", "latency"])).ok().stdout,
        "no latencies yet\n"
    );
    let shown = lnetctl(&["net", "show", "-v"]);
    for line in ["send_count: 0\n", "recv_count: 0\n", "get_rtt_samples: 0\n"] {
        assert!(shown.contains(line), "{line} in {shown}");
    }
    let reset = scrape_after(at, &before);
    nothing_fell(&before, &reset);

    load(&node, client);
    let after = scrape_after(at, &reset);
    nothing_fell(&reset, &after);
    let peer = format!("{client}@tcp");
    let shown = finish(&mut node.controlled(&["show", "latency", "--json"])).ok().json();
    let shown = &shown["peers"][0]["operations"]["get_rtt"]["samples"];
    let labels = [("peer", peer.as_str()), ("operation", "get_rtt")];
    let count = |page| value(page, "lustrine_peer_latency_seconds_count", &labels);
    assert_eq!(shown.as_f64(), Some(count(&after) - count(&reset)));
    assert!(count(&after) > count(&reset) && count(&reset) > 0.0);
    node.stop();
}

#[test]
fn the_page_has_all_metrics_of_the_table_and_their_values() {
    let (node, at) = node(&[]);
    let before = scrape(at);
    let client = loopback();
    load(&node, client);
    let page = scrape(at);
    let after = scrape(at);

    // All metrics on the page are in the table, and the other way round.
    let declared = rows(METRICS);
    for family in &page.families {
        let row = declared.iter().find(|row| row.name.trim_end_matches("_total") == family.name);
        let row = row.unwrap_or_else(|| panic!("{} is not in the table", family.name));
        assert_eq!((family.kind.as_str(), family.help.as_str()), (row.kind.name(), row.help));
        for sample in &family.samples {
            let labels: Vec<&str> = sample.labels.iter().map(|(name, _)| name.as_str()).collect();
            let labels: Vec<&str> = labels.into_iter().filter(|name| *name != "le").collect();
            assert_eq!(labels, row.labels, "{}", sample.name);
        }
    }
    assert_eq!(page.families.len(), declared.len());

    nothing_fell(&page, &after);

    let nid = node.nid();
    let peer = format!("{client}@tcp");
    let sent = [("nid", nid.as_str()), ("event", "sent")];
    let count = |page: &Exposition| value(page, "lustrine_ni_messages_total", &sent);
    assert!(count(&page) > count(&before) + 10.0);
    let of_peer = [("peer", peer.as_str()), ("event", "received")];
    assert!(value(&page, "lustrine_peer_messages_total", &of_peer) > 10.0);
    assert!(value(&page, "lustrine_selftest_rpcs_total", &[("event", "received")]) > 10.0);
    assert!(value(&page, "lustrine_selftest_bulk_bytes_total", &[("direction", "get")]) > 65_535.0);
    assert_eq!(value(&page, "lustrine_ni_credits", &[("nid", &nid)]), 256.0);
    assert_eq!(value(&page, "lustrine_peer_credits", &[("peer", &peer)]), 8.0);
    assert_eq!(value(&page, "lustrine_peers_left_out", &[]), 0.0);
    assert!(value(&page, "lustrine_resident_memory_bytes", &[]) > 1e6);
    assert!(value(&page, "lustrine_cpu_seconds_total", &[]) > 0.0);
    assert!(value(&page, "lustrine_start_time_seconds", &[]) > 1.7e9);
    for operation in ["put_egress", "get_rtt"] {
        let labels = [("peer", peer.as_str()), ("operation", operation)];
        let samples = value(&page, "lustrine_peer_latency_seconds_count", &labels);
        assert!(samples > 0.0, "{operation}");
        let labels = [("nid", nid.as_str()), ("operation", operation)];
        assert!(value(&page, "lustrine_ni_latency_seconds_count", &labels) >= samples);
    }
    node.stop();
}

#[test]
fn latencies_are_shown_by_all_commands_and_metrics() {
    let node = Node::open();
    let client = loopback();
    load(&node, client);
    let peer = format!("{client}@tcp");
    let shown = finish(&mut node.controlled(&["show", "latency", "--json"])).ok().json();
    let of = |rows: &serde_json::Value, nid: &str| {
        let rows = rows.as_array().expect("a list");
        rows.iter().find(|row| row["nid"] == nid).expect("it is there")["operations"].clone()
    };
    let (ours, theirs) = (of(&shown["nets"], &node.nid()), of(&shown["peers"], &peer));
    for operation in ["put_egress", "get_rtt"] {
        let rtt = &theirs[operation];
        let number = |key: &str| rtt[key].as_u64().expect("a number");
        let order = ["min_nsec", "p50_nsec", "p90_nsec", "p99_nsec", "p999_nsec", "max_nsec"];
        let order: Vec<u64> = order.into_iter().map(number).collect();
        assert!(order.is_sorted() && number("samples") > 0, "{rtt:#}");
        let buckets = rtt["buckets"].as_array().expect("a list");
        let counted: u64 = buckets.iter().filter_map(|bucket| bucket["samples"].as_u64()).sum();
        assert_eq!(counted, number("samples"));
        assert!(ours[operation]["samples"].as_u64() >= Some(counted));
    }
    let alone = finish(&mut node.controlled(&["show", "latency", "--nid", &peer])).ok().stdout;
    assert!(alone.starts_with(&format!("peer {peer}\n")) && alone.contains("get_rtt"), "{alone}");
    let mut unknown = node.controlled(&["show", "latency", "--nid", "10.9.9.9@tcp"]);
    assert_eq!(finish(&mut unknown).ok().stdout, "no latencies yet\n");
    let wrong = finish(&mut node.controlled(&["show", "latency", "--nid", "x"]));
    wrong.expect_code(2).expect_stderr(&["such as 10.0.0.1@tcp"]);
    finish(&mut node.controlled(&["show", "net", "--nid", "10.9.9.9@tcp"])).expect_code(2);

    let lnetctl = |words: &[&str]| {
        let mut command = lustrine();
        command.arg("lnetctl").args(words).env("LUSTRINE_CONTROL", node.control());
        finish(&mut command).ok().stdout
    };
    let samples = theirs["get_rtt"]["samples"].as_u64().expect("a number");
    let line = format!(
        "                  get_rtt_samples: {samples}\n                  get_rtt_min_nsec: "
    );
    let peers = lnetctl(&["peer", "show", "-v"]);
    assert!(peers.contains(&line), "{peers}");
    let nets = lnetctl(&["net", "show", "-v"]);
    for key in ["put_egress_avg_nsec: ", "get_rtt_max_nsec: ", "put_ack_samples: "] {
        assert!(nets.contains(key), "{key} in {nets}");
    }
    assert!(!lnetctl(&["--compat", "2.15", "net", "show", "-v"]).contains("_nsec"));
}

#[test]
fn a_node_without_latencies_has_no_latency_metrics() {
    let (node, at) = node(&["--set", "latency_peers=0"]);
    load(&node, loopback());
    let page = scrape(at);
    assert!(page.families.iter().all(|family| family.kind != "histogram"));
    let said = finish(&mut node.controlled(&["show", "latency"])).ok().stdout;
    assert_eq!(said, "no latencies yet\n");
    let shown = finish(&mut node.controlled(&["show", "net", "--json"])).ok().json();
    assert_eq!(shown["nets"][0]["latency"], serde_json::json!({}));
}

#[test]
fn a_page_has_a_limited_number_of_interfaces() {
    let nets: Vec<String> =
        (1..=NIS_MAX + 1).map(|net| format!("tcp{net}={}:9988", loopback())).collect();
    let args: Vec<&str> = nets.iter().flat_map(|net| ["--net", net]).collect();
    let (node, at) = node(&args);
    let page = scrape(at);
    assert_eq!(value(&page, "lustrine_nis", &[]), (NIS_MAX + 2) as f64);
    assert_eq!(value(&page, "lustrine_nis_left_out", &[]), 2.0);
    assert_eq!(page.samples("lustrine_ni_credits").count(), NIS_MAX);
    assert_eq!(value(&page, "lustrine_ni_credits", &[("nid", &node.nid())]), 256.0);
    let shown = finish(&mut node.controlled(&["show", "net", "--json"])).ok().json();
    assert_eq!(shown["nets"].as_array().map(Vec::len), Some(NIS_MAX + 2));
}

#[test]
fn unknown_paths_and_methods_are_refused() {
    let (_node, at) = node(&[]);
    let (head, body) = get(at, "/");
    assert!(head.starts_with("HTTP/1.1 200 ") && body.contains("href=\"/metrics\""), "{body}");
    let (head, body) = get(at, "/etc/passwd");
    assert!(head.starts_with("HTTP/1.1 404 ") && body.contains("/metrics"), "{head}");
    let (head, body) = get(at, &format!("http://{at}/metrics"));
    assert!(
        head.starts_with("HTTP/1.1 200 ") && body.contains("\n# TYPE lustrine_peers gauge\n"),
        "{head}"
    );
    let head = request(at, "HEAD /metrics HTTP/1.1\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200 ") && head.ends_with("\r\n\r\n"), "{head}");
    let posted = request(at, "POST /metrics HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello");
    assert!(posted.starts_with("HTTP/1.1 405 ") && posted.contains("\r\nAllow: GET, HEAD\r\n"));
    for nonsense in ["\u{1}\u{2}\r\n\r\n".to_owned(), "a".repeat(9000)] {
        let answer = request(at, &nonsense);
        assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    }
}

#[test]
fn misbehaving_clients_block_neither_the_page_nor_the_node() {
    let (mut node, at) = node(&[]);
    let mut held = Vec::new();
    for turn in 0..120 {
        let mut stream = TcpStream::connect(at).expect("the node listens");
        // Silent clients, clients that stop in the middle, that do not read, and that disconnect.
        let said: &[u8] = match turn % 4 {
            0 => b"",
            1 => b"GET /metrics HTTP/1.1\r\nX-Slow: ",
            2 => b"GET /metrics HTTP/1.1\r\n\r\n",
            _ => b"\xff",
        };
        // It may have been evicted for a later one.
        let _ = stream.write_all(said);
        if turn % 4 == 3 {
            let _ = stream.shutdown(Shutdown::Both);
        }
        held.push(stream);
    }
    // A page may be a moment old, if another client requested it.
    eventually("callers that were dropped", || {
        let dropped = [("event", "dropped")];
        (value(&scrape(at), "lustrine_metrics_callers_total", &dropped) > 0.0).then_some(())
    });
    let shown = finish(&mut node.controlled(&["show", "net"])).ok().stdout;
    assert!(shown.contains(&node.nid()), "{shown}");
    let descriptors = node.usage().descriptors;
    assert!(descriptors < 100, "{descriptors} descriptors for {} callers", held.len());
    assert!(node.running().is_running());
    drop(held);
    node.stop();
}

#[test]
fn a_file_sets_the_address_and_an_address_in_use_is_an_error() {
    let scratch = Scratch::new();
    let (ip, control) = (loopback(), scratch.file("node.sock"));
    let config = format!(
        "net: [{{net type: tcp, local NI(s): [{{nid: {ip}@tcp, port: {}}}]}}]\n\
         lustrine: {{accept: all, metrics: \"[::1]:0\", control: {}}}\n",
        free_port(ip),
        control.display()
    );
    let file = scratch.write("node.yaml", &config);
    let mut command = lustrine();
    command.args(["node", "--until-eof", "--log", "json", "--config"]).arg(&file);
    let mut running = Running::start(&mut command);
    running.wait_for("control socket");
    let log = running.stderr();
    let line = log.lines().find(|line| line.contains("\"metrics\"")).expect("it says where");
    let line: serde_json::Value = serde_json::from_str(line).expect("JSON");
    let at: SocketAddr =
        line["fields"]["address"].as_str().expect("an address").parse().expect("one with a port");
    assert!(at.is_ipv6());
    assert!(value(&scrape(at), "lustrine_cpu_partitions", &[]) >= 1.0);

    let place = at.to_string();
    let other = loopback();
    let mut second = lustrine();
    second.args(["node", "--until-eof", "--accept", "all", "--metrics", &place]);
    second.args(["--net", &format!("tcp={other}:{}", free_port(other))]);
    second.arg("--control").arg(scratch.file("second.sock"));
    finish(&mut second).expect_error(&["cannot serve metrics at", &place, "--metrics"]);
    let wrong = finish(lustrine().args(["node", "--net", "tcp", "--metrics", "9909"]));
    wrong.expect_code(2).expect_stderr(&["HOST:PORT", "127.0.0.1:9909"]);
}

/// Checks the parser itself.
#[test]
fn the_parser_is_strict() {
    let good = "# HELP a Words.\n# TYPE a counter\na_total{x=\"1\"} 2\n# EOF\n";
    let parsed = parser::parse(good).expect("a good page");
    let Family { name, kind, help, samples } = &parsed.families[0];
    assert_eq!((name.as_str(), kind.as_str(), help.as_str()), ("a", "counter", "Words."));
    let pairs = vec![("x".to_owned(), "1".to_owned())];
    assert_eq!(samples[..], [Sample { name: "a_total".to_owned(), labels: pairs, value: 2.0 }]);
    let head = "# HELP a W.\n# TYPE a histogram\n";
    for bad in [
        good.replace("# EOF\n", ""),
        good.replace("a_total", "a"),
        good.replace(" 2", " x"),
        good.replace("# HELP a Words.\n", ""),
        good.replace("{x=\"1\"}", "{x=1}"),
        good.replace("# EOF", "a_total{x=\"1\"} 3\n# EOF"),
        format!("{good}a 1\n"),
        format!("{head}a_sum 1\na_count 2\na_bucket{{le=\"1\"}} 1\n# EOF\n"),
        format!(
            "{head}a_sum 1\na_count 2\na_bucket{{le=\"1\"}} 3\na_bucket{{le=\"+Inf\"}} 2\n# EOF\n"
        ),
    ] {
        assert!(parser::parse(&bad).is_err(), "{bad}");
    }
}
