//! Loads: what groups do to each other.

use lustrine_lnet::time::Nanos;
use lustrine_selftest::Test;
use lustrine_wire::srpc::{BULK_MAX, BrwCheck, CONCURRENCY_MAX};

use super::links::Reach;
use super::{group_names, named};
use crate::model::{Group, Load, Spread};
use lustrine_document::Problem;
use lustrine_document::{BYTES, DURATION};
use lustrine_document::{Fields, Reader, Section, read_keys};

/// Largest number of loads.
const LOADS_MAX: usize = 64;

/// Largest number of pairs of a client and a server in all loads together.
const PAIRS_MAX: u64 = 1_000_000;

/// Clients that one node can run: slots 1 to 255.
const CLIENTS_MAX: u64 = 255;

/// Largest number of RPCs in flight at once in the whole scenario.
const RPCS_MAX: u64 = 10_000_000;

/// A day.
const TIME_MAX: u64 = 86_400_000_000_000;

pub(super) const LOAD: Section = Section::new(
    "a load",
    &read_keys([
        "from",
        "to",
        "spread",
        "test",
        "size",
        "check",
        "concurrency",
        "start",
        "warm_up",
        "time",
        "patience",
    ]),
    "\"{from: clients, to: servers, test: read, size: 1 MiB, concurrency: 8, \
              time: 10 s}\"",
);

#[derive(Clone, Copy)]
enum TestName {
    Ping,
    Read,
    Write,
}

const TESTS: [(&str, TestName); 3] =
    [("read", TestName::Read), ("write", TestName::Write), ("ping", TestName::Ping)];

const CHECKS: [(&str, BrwCheck); 3] =
    [("none", BrwCheck::None), ("simple", BrwCheck::Simple), ("full", BrwCheck::Full)];

pub(super) fn read(
    reader: &mut Reader,
    file: &Fields<'_>,
    groups: &[Group],
    reach: Option<&Reach>,
) -> Vec<Load> {
    let mut loads: Vec<Load> = Vec::new();
    let mut clients = vec![0u64; groups.len()];
    let (mut pairs, mut rpcs) = (0u64, 0u64);
    let items = reader.items(file.value("loads"), "loads", LOAD.example);
    for item in items {
        let fields = reader.fields(item, LOAD);
        let Some(load) = load(reader, &fields, groups, reach) else { continue };
        let per_client = u64::from(load.spread.servers);
        clients[load.from] += per_client;
        let new_pairs = per_client * u64::from(groups[load.from].count);
        pairs += new_pairs;
        rpcs += new_pairs * u64::from(load.concurrency);
        let too_many = if clients[load.from] > CLIENTS_MAX {
            let group = &groups[load.from].name;
            Some(format!(
                "each node of {group:?} would be {} clients with this load; allowed: \
                 {CLIENTS_MAX}, one for each server of each load; for example \"spread: 1:16\"",
                clients[load.from]
            ))
        } else if pairs > PAIRS_MAX {
            Some(format!(
                "{pairs} pairs of client and server with this load; allowed: {PAIRS_MAX}; for \
                 example \"spread: 1:1\""
            ))
        } else if rpcs > RPCS_MAX {
            Some(format!(
                "{rpcs} RPCs in flight with this load; allowed: {RPCS_MAX}; for example \
                 \"concurrency: 8\""
            ))
        } else if loads.len() == LOADS_MAX {
            Some(format!("too many loads; allowed: {LOADS_MAX}; for example remove this"))
        } else {
            None
        };
        if let Some(what) = too_many {
            reader.report(Problem::new(&fields.at, what));
            break;
        }
        loads.push(load);
    }
    if items.is_empty() {
        reader.missing(file, "loads", &format!("\"loads: [{}]\"", LOAD.example.trim_matches('"')));
    }
    loads
}

fn load(
    reader: &mut Reader,
    fields: &Fields<'_>,
    groups: &[Group],
    reach: Option<&Reach>,
) -> Option<Load> {
    let test = test(reader, fields);
    let concurrency = reader
        .count(fields, "concurrency", 1..=u64::from(CONCURRENCY_MAX), "\"concurrency: 8\"")
        .unwrap_or(1);
    let mut time =
        |key, least| reader.quantity(fields, key, &DURATION, least..=TIME_MAX).map(Nanos);
    let start = time("start", 0).unwrap_or_default();
    let warm_up = time("warm_up", 0).unwrap_or(Nanos::from_secs(1));
    let measured = time("time", 1_000_000).unwrap_or(Nanos::from_secs(10));
    let patience = time("patience", 1_000_000_000).unwrap_or(Nanos::from_secs(30));
    let ends = ends(reader, fields, groups);
    let spread = spread(reader, fields, groups, ends);
    let (from, to) = ends?;
    unreachable(reader, fields, (&groups[from], &groups[to]), reach);
    Some(Load {
        from,
        to,
        spread: spread?,
        test: test?,
        concurrency: u32::try_from(concurrency).expect("within its range"),
        start,
        warm_up,
        time: measured,
        patience,
    })
}

fn ends(reader: &mut Reader, fields: &Fields<'_>, groups: &[Group]) -> Option<(usize, usize)> {
    let names = group_names(groups);
    let mut end = |key: &'static str, example| match fields.value(key) {
        Some(node) => named(reader, node, "group", key, &names),
        None => {
            reader.missing(fields, key, example);
            None
        }
    };
    let (from, to) = (end("from", "\"from: clients\""), end("to", "\"to: servers\""));
    let (from, to) = (from?, to?);
    if from == to {
        let what = "a group as client and server of itself is not simulated; allowed: two groups; \
                    for example \"from: clients\", \"to: servers\"";
        reader.report(Problem::new(fields.place("to"), what));
        return None;
    }
    Some((from, to))
}

/// Reports groups that have no network in common.
fn unreachable(
    reader: &mut Reader,
    fields: &Fields<'_>,
    (from, to): (&Group, &Group),
    reach: Option<&Reach>,
) {
    if from.net != to.net {
        let what = format!(
            "{} in {} cannot reach {} in {}: there are no LNet routers yet; allowed: groups of \
             one net; for example \"net: {}\" for both",
            from.name, from.net, to.name, to.net, from.net
        );
        reader.report(Problem::new(fields.place("to"), what));
    }
    if reach.is_some_and(|reach| !reach.connects(from.site, to.site)) {
        let what = format!(
            "{} cannot reach {}: no links lead from site to site; allowed: sites that are \
             connected, over others too; for example under links \"{{between: [SITE, SITE], \
             bandwidth: 50 Gb/s, delay: 25 ms}}\"",
            from.name, to.name
        );
        reader.report(Problem::new(fields.place("to"), what));
    }
}

fn spread(
    reader: &mut Reader,
    fields: &Fields<'_>,
    groups: &[Group],
    ends: Option<(usize, usize)>,
) -> Option<Spread> {
    let Some(node) = fields.value("spread") else { return Some(Spread { clients: 1, servers: 1 }) };
    let text = reader.word(node, "spread", "\"spread: 1:1\"")?;
    let counts = ends.map(|(from, to)| (groups[from].count, groups[to].count));
    let number = |text: &str| text.parse::<u32>().ok().filter(|n| *n > 0);
    let spread = match text.split_once(':') {
        None if text == "all" => Some(Spread { clients: 1, servers: counts.map_or(1, |c| c.1) }),
        None => None,
        Some((n, m)) => {
            number(n).zip(number(m)).map(|(clients, servers)| Spread { clients, servers })
        }
    };
    let Some(spread) = spread else {
        let allowed = "clients:servers, both at least 1, or \"all\"";
        reader.report(Problem::value(&node.at, "spread", text, allowed, "\"spread: 1:1\""));
        return None;
    };
    let (clients, servers) = counts?;
    if clients % spread.clients != 0 || servers % spread.servers != 0 {
        let what = format!(
            "spread {text} does not fit {clients} clients and {servers} servers; allowed: n:m \
             where n divides {clients} and m divides {servers}, or \"all\"; for example \
             \"spread: 1:1\""
        );
        reader.report(Problem::new(&node.at, what));
        return None;
    }
    Some(spread)
}

fn test(reader: &mut Reader, fields: &Fields<'_>) -> Option<Test> {
    if !fields.has("test") {
        reader.missing(fields, "test", "\"test: read\"");
    }
    let word = reader.choice(fields, "test", &TESTS);
    let check = reader.choice(fields, "check", &CHECKS).unwrap_or(BrwCheck::None);
    if let Some(TestName::Ping) = word {
        for key in ["size", "check"] {
            if fields.has(key) {
                let what = format!(
                    "{key} has no meaning for a ping; allowed: with read and write; for example \
                     remove it"
                );
                reader.report(Problem::new(fields.place(key), what));
            }
        }
        return Some(Test::Ping);
    }
    let len = size(reader, fields)?;
    match word? {
        TestName::Read => Some(Test::Read { len, check }),
        TestName::Write => Some(Test::Write { len, check }),
        TestName::Ping => Some(Test::Ping),
    }
}

fn size(reader: &mut Reader, fields: &Fields<'_>) -> Option<u32> {
    if !fields.has("size") {
        return Some(BULK_MAX);
    }
    let len = reader.quantity(fields, "size", &BYTES, 8..=u64::from(BULK_MAX))?;
    if len % 8 != 0 {
        let what = format!(
            "size cannot be {len} B; allowed: multiples of 8 bytes (kernels crash on others), up \
             to 1 MiB; for example \"size: {} B\"",
            len / 8 * 8
        );
        reader.report(Problem::new(fields.place("size"), what));
        return None;
    }
    u32::try_from(len).ok()
}
