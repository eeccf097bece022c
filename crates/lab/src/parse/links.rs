//! The links of a laboratory's file.

use core::net::Ipv4Addr;
use std::ops::RangeInclusive;

use lustrine_document::{
    BANDWIDTH, BYTES, Content, DURATION, FRACTION, Fields, Key, Location, Node, Problem, Quantity,
    Reader, Section,
};

use super::{Names, named};
use crate::link::{Direction, Hashing, Order};
use crate::model::Link;
use crate::packet::FRAME_EXTRA;

/// Largest number of links: one octet of an address counts them.
const LINKS_MAX: usize = 250;

/// Largest number of parallel links in one.
const PARALLEL_MAX: u64 = 64;

/// Longest delay, and most jitter: 10 s.
const DELAY_MAX: u64 = 10_000_000_000;

/// Most memory of one direction of a link.
const MEMORY_MAX: u64 = 4 << 30;

/// Smallest queue that is chosen for a link without one.
const QUEUE_MIN: u64 = 256 << 10;

/// Shortest time that a queue which is chosen holds at the link's rate: packets come in bursts when
/// the machine is busy.
const QUEUE_NS_MIN: u64 = 1_000_000;

/// Largest queue that is chosen for a link without one.
const QUEUE_MAX: u64 = 256 << 20;

/// The words for an order of packets.
const ORDERS: [(&str, Order); 2] = [("kept", Order::Kept), ("free", Order::Free)];

/// The words for what chooses among parallel links.
const HASHINGS: [(&str, Hashing); 2] = [("streams", Hashing::Streams), ("hosts", Hashing::Hosts)];

/// Other files of this program call it bandwidth.
const RATE: Key = Key::read("rate").or("bandwidth");

const LINK: Section = Section::new(
    "a link",
    &[
        Key::read("between"),
        RATE,
        Key::read("delay"),
        Key::read("jitter"),
        Key::read("order"),
        Key::read("queue"),
        Key::read("loss"),
        Key::read("drop_above"),
        Key::read("parallel"),
        Key::read("hashing"),
        Key::read("mtu"),
        Key::read("addresses"),
        Key::read("forward"),
        Key::read("back"),
    ],
    "\"{between: [east, west], rate: 10 Gb/s, delay: 25.25 ms}\"",
);

const LINKS: &str = "\"links: [{between: [east, west], rate: 10 Gb/s, delay: 25.25 ms}]\"";

const DIRECTION: Section = Section::new(
    "one direction of a link",
    &[
        RATE,
        Key::read("delay"),
        Key::read("jitter"),
        Key::read("order"),
        Key::read("queue"),
        Key::read("loss"),
        Key::read("drop_above"),
    ],
    "\"forward: {delay: 30 ms}\"",
);

pub(super) fn read(reader: &mut Reader, file: &Fields<'_>, hosts: &Names) -> Vec<Link> {
    let mut links = Vec::new();
    let mut taken: Vec<Ipv4Addr> = Vec::new();
    for item in reader.items(file.value("links"), "links", LINKS) {
        if links.len() == LINKS_MAX {
            let what = format!(
                "too many links; allowed: {LINKS_MAX}; for example \"parallel: 2\" instead of two \
                 that are alike"
            );
            reader.report(Problem::new(&item.at, what));
            break;
        }
        let fields = reader.fields(item, LINK);
        let between = between(reader, &fields, hosts);
        let directions = directions(reader, &fields);
        let mtu = reader.count(&fields, "mtu", 576..=65_535, "\"mtu: 9000\"").unwrap_or(1500);
        let addresses = addresses(reader, &fields, links.len());
        for (address, at) in &addresses {
            if taken.contains(address) {
                let allowed = "each address once; 10.99.x.x is used for links without any";
                let found = address.to_string();
                reader.report(Problem::value(at, "addresses", &found, allowed, ADDRESSES));
            }
            taken.push(*address);
        }
        let addresses = addresses.map(|(address, _)| address);
        let between = between.unwrap_or_default();
        links.push(Link { between, directions, mtu: mtu as u32, addresses });
    }
    links
}

const ADDRESSES: &str = "\"addresses: [10.1.0.1, 10.1.0.2]\"";

fn addresses(reader: &mut Reader, fields: &Fields<'_>, index: usize) -> [(Ipv4Addr, Location); 2] {
    let own = |end: u8| (Ipv4Addr::new(10, 99, index as u8, end), fields.at.clone());
    let Some(node) = fields.value("addresses") else { return [own(1), own(2)] };
    let items = match &node.content {
        Content::List(items) if items.len() == 2 => items,
        _ => {
            reader.wrong_shape(node, "addresses", "a list of two IPv4 addresses", ADDRESSES);
            return [own(1), own(2)];
        }
    };
    [(&items[0], 1), (&items[1], 2)].map(|(item, end)| {
        let text = reader.word(item, "addresses", ADDRESSES).unwrap_or_default();
        let usable = |address: &Ipv4Addr| {
            !(address.is_loopback()
                || address.is_multicast()
                || address.is_broadcast()
                || address.octets()[0] == 0)
        };
        match text.parse::<Ipv4Addr>().ok().filter(usable) {
            Some(address) => (address, item.at.clone()),
            None => {
                let allowed = "IPv4 addresses of hosts";
                reader.report(Problem::value(&item.at, "addresses", text, allowed, ADDRESSES));
                own(end)
            }
        }
    })
}

fn between(reader: &mut Reader, fields: &Fields<'_>, hosts: &Names) -> Option<[usize; 2]> {
    const EXAMPLE: &str = "\"between: [east, west]\"";
    let Some(node) = fields.value("between") else {
        reader.missing(fields, "between", EXAMPLE);
        return None;
    };
    let (one, two) = match &node.content {
        Content::List(items) if items.len() == 2 => (&items[0], &items[1]),
        _ => {
            reader.wrong_shape(node, "between", "a list of two hosts", EXAMPLE);
            return None;
        }
    };
    // With hosts of this file.
    let two_hosts: Vec<&str> = hosts.keys().take(2).map(String::as_str).collect();
    let example = match two_hosts[..] {
        [one, two] => format!("\"between: [{one}, {two}]\""),
        _ => EXAMPLE.to_owned(),
    };
    let mut find = |node| named(reader, node, "between", hosts, &example);
    let found = (find(one), find(two));
    let (Some(one), Some(two)) = found else { return None };
    if one == two {
        let what = format!(
            "between names one host twice; allowed: two different ones; for example {EXAMPLE}"
        );
        reader.report(Problem::new(&node.at, what));
        return None;
    }
    Some([one, two])
}

fn directions(reader: &mut Reader, fields: &Fields<'_>) -> [Direction; 2] {
    let parallel = reader.count(fields, "parallel", 1..=PARALLEL_MAX, "\"parallel: 2\"");
    let hashing = reader.choice(fields, "hashing", &HASHINGS);
    let parallel = parallel.unwrap_or(1) as u32;
    if parallel == 1 && hashing.is_some() {
        let what = "hashing without parallel links chooses nothing; allowed: with \"parallel: 2\" \
                    or more; for example remove it";
        reader.report(Problem::new(fields.place("hashing"), what));
    }
    let none = Direction {
        rate: None,
        delay_ns: 0,
        jitter_ns: 0,
        order: Order::Kept,
        queue: 0,
        loss: 0,
        drop_above: None,
        parallel,
        hashing: hashing.unwrap_or_default(),
    };
    let common = direction(reader, fields, &none);
    let mut both = ["forward", "back"].map(|key| match fields.value(key) {
        None => common,
        Some(node) => {
            let own = reader.fields(node, DIRECTION);
            direction(reader, &own, &common)
        }
    });
    let round_trip = both[0].delay_ns + both[1].delay_ns;
    for (direction, key) in both.iter_mut().zip(["forward", "back"]) {
        if direction.queue == 0 {
            direction.queue = own_queue(direction, round_trip);
        }
        if direction.memory() > MEMORY_MAX {
            let (rate, delay) = (direction.rate, direction.delay_ns);
            let what = format!(
                "this direction needs {} of memory for packets in flight ({}, {} one way); \
                 allowed: {}; for example a smaller delay, rate or queue",
                lustrine_document::format_bytes(direction.memory()),
                rate.map_or("unlimited".to_owned(), |rate| BANDWIDTH.write(rate)),
                DURATION.write(delay),
                lustrine_document::format_bytes(MEMORY_MAX),
            );
            let at = if fields.has(key) { fields.place(key) } else { &fields.at };
            reader.report(Problem::new(at, what));
        }
    }
    both
}

/// The queue of a link that does not set one: what the link carries in one round trip.
fn own_queue(direction: &Direction, round_trip_ns: u64) -> u64 {
    let Some(rate) = direction.rate else { return QUEUE_MAX };
    let time = round_trip_ns.max(QUEUE_NS_MIN);
    let product = u128::from(rate) * u128::from(time) / 8_000_000_000;
    u64::try_from(product).unwrap_or(u64::MAX).clamp(QUEUE_MIN, QUEUE_MAX)
}

/// The keys of a direction, on top of what is common to both.
fn direction(reader: &mut Reader, fields: &Fields<'_>, common: &Direction) -> Direction {
    let mut read = |key, kind: &Quantity, range: RangeInclusive<u64>| {
        reader.quantity(fields, key, kind, range)
    };
    let delay_ns = read("delay", &DURATION, 0..=DELAY_MAX).unwrap_or(common.delay_ns);
    let jitter_ns = read("jitter", &DURATION, 0..=DELAY_MAX).unwrap_or(common.jitter_ns);
    let loss = read("loss", &FRACTION, 0..=1_000_000_000).map(|loss| loss as u32);
    let queue = read("queue", &BYTES, 1500 + FRAME_EXTRA..=MEMORY_MAX).unwrap_or(common.queue);
    let drop_above = read("drop_above", &BYTES, 68..=65_535).or(common.drop_above);
    let order = reader.choice(fields, "order", &ORDERS);
    let direction = Direction {
        rate: rate(reader, fields).unwrap_or(common.rate),
        delay_ns,
        jitter_ns,
        order: order.unwrap_or(common.order),
        queue,
        loss: loss.unwrap_or(common.loss),
        drop_above,
        ..*common
    };
    if order == Some(Order::Free) && jitter_ns == 0 {
        let what = "\"order: free\" without jitter changes nothing; allowed: with jitter; for \
                    example \"jitter: 1 ms\"";
        reader.report(Problem::new(fields.place("order"), what));
    }
    direction
}

/// `Some(None)` is unlimited.
#[expect(clippy::option_option, reason = "not given, unlimited and a rate are three things")]
fn rate(reader: &mut Reader, fields: &Fields<'_>) -> Option<Option<u64>> {
    if let Some(Node { content: Content::Scalar(word), .. }) = fields.value("rate")
        && word == "unlimited"
    {
        return Some(None);
    }
    let range = 10_000..=100_000_000_000;
    Some(Some(reader.quantity_or(fields, "rate", &BANDWIDTH, range, ", or \"unlimited\"")?))
}
