//! Links between sites, and which sites they connect.

use lustrine_lnet::time::Nanos;
use lustrine_sim::fabric::{Hashing, LinkSpec, Rate};

use super::{Names, named};
use crate::model::{Group, Trunk};
use lustrine_document::{BANDWIDTH, BYTES, DURATION, FRACTION};
use lustrine_document::{Content, Node};
use lustrine_document::{Fields, Reader, Section, read_keys};
use lustrine_document::{Location, Problem};

/// Largest number of entries under `links`.
const WAYS_MAX: usize = 10_000;

/// Largest number of parallel links in a trunk.
const PARALLEL_MAX: u64 = 64;

/// The queue of a link that does not set one, in bytes.
const QUEUE: u64 = 16 << 20;

pub(super) const LINK: Section = Section::new(
    "a link",
    &read_keys(["between", "bandwidth", "delay", "queue", "loss", "jitter", "parallel", "hashing"]),
    "\"{between: [east, west], bandwidth: 50 Gb/s, delay: 25.25 ms}\"",
);

/// The words for what chooses among parallel links.
const HASHINGS: [(&str, Hashing); 2] = [("hosts", Hashing::Hosts), ("streams", Hashing::Streams)];

/// A queue that the file gives to links, and where.
#[derive(Debug)]
pub(super) struct GivenQueue {
    at: Location,
    bytes: u64,
}

pub(super) fn read(
    reader: &mut Reader,
    node: Option<&Node>,
    sites: &Names,
    queues: &mut Vec<GivenQueue>,
) -> Vec<Trunk> {
    let mut trunks = Vec::new();
    for item in reader.items(node, "links", LINK.example) {
        if trunks.len() == WAYS_MAX {
            let what = format!(
                "too many links; allowed: {WAYS_MAX}; for example \"parallel: 2\" instead of two \
                 that are alike"
            );
            reader.report(Problem::new(&item.at, what));
            break;
        }
        let fields = reader.fields(item, LINK);
        let between = between(reader, &fields, sites);
        if !fields.has("bandwidth") {
            reader.missing(&fields, "bandwidth", "\"bandwidth: 50 Gb/s\" or \"unlimited\"");
        }
        if !fields.has("delay") {
            reader.missing(&fields, "delay", "\"delay: 25.25 ms\", one way");
        }
        let link = link_spec(reader, &fields, "bandwidth", queues);
        let parallel =
            reader.count(&fields, "parallel", 1..=PARALLEL_MAX, "\"parallel: 2\"").unwrap_or(1);
        let hashing = reader.choice(&fields, "hashing", &HASHINGS);
        if parallel == 1 && hashing.is_some() {
            let what = "hashing without parallel links chooses nothing; allowed: with \"parallel: \
                        2\" or more; for example remove it";
            reader.report(Problem::new(fields.place("hashing"), what));
        }
        let parallel = u32::try_from(parallel).expect("within its range");
        let hashing = hashing.unwrap_or(Hashing::Streams);
        if let Some(between) = between {
            let twin =
                |trunk: &Trunk| trunk.between == between || trunk.between == (between.1, between.0);
            if trunks.iter().any(twin) {
                let what = "these two sites are connected already, and only one connection would \
                            be used; allowed: one entry for two sites; for example \"parallel: 2\" \
                            in the first one";
                reader.report(Problem::new(fields.place("between"), what));
                continue;
            }
            trunks.push(Trunk { between, link, parallel, hashing });
        }
    }
    trunks
}

fn between(reader: &mut Reader, fields: &Fields<'_>, sites: &Names) -> Option<(usize, usize)> {
    const EXAMPLE: &str = "\"between: [east, west]\"";
    let Some(node) = fields.value("between") else {
        reader.missing(fields, "between", EXAMPLE);
        return None;
    };
    two_sites(reader, node, "between", sites)
}

/// A list of two different sites.
pub(super) fn two_sites(
    reader: &mut Reader,
    node: &Node,
    key: &str,
    sites: &Names,
) -> Option<(usize, usize)> {
    let example = format!("\"{key}: [east, west]\"");
    let (one, two) = match &node.content {
        Content::List(items) if items.len() == 2 => (&items[0], &items[1]),
        _ => {
            reader.wrong_shape(node, key, "a list of two sites", &example);
            return None;
        }
    };
    let found = (named(reader, one, "site", key, sites), named(reader, two, "site", key, sites));
    let (Some(first), Some(second)) = found else { return None };
    if first == second {
        let what = format!(
            "{key} names one site twice; allowed: two different ones; for example {example}"
        );
        reader.report(Problem::new(&node.at, what));
        return None;
    }
    Some((first, second))
}

/// The properties of a link or an interface; `rate` is the key of its rate.
pub(super) fn link_spec(
    reader: &mut Reader,
    fields: &Fields<'_>,
    rate: &str,
    queues: &mut Vec<GivenQueue>,
) -> LinkSpec {
    let time = |reader: &mut Reader, key| {
        reader.quantity(fields, key, &DURATION, 0..=60_000_000_000).map(Nanos)
    };
    let (delay, jitter) = (time(reader, "delay"), time(reader, "jitter"));
    LinkSpec {
        rate: read_rate(reader, fields, rate).unwrap_or_default(),
        delay: delay.unwrap_or_default(),
        jitter: jitter.unwrap_or_default(),
        queue: read_queue(reader, fields, queues).unwrap_or(QUEUE),
        loss: read_loss(reader, fields).unwrap_or_default(),
    }
}

/// `Some(None)` is unlimited.
#[expect(clippy::option_option, reason = "not given, unlimited and a rate are three things")]
pub(super) fn read_rate(
    reader: &mut Reader,
    fields: &Fields<'_>,
    key: &str,
) -> Option<Option<Rate>> {
    if let Some(Node { content: Content::Scalar(word), .. }) = fields.value(key)
        && word == "unlimited"
    {
        return Some(None);
    }
    let range = 1_000..=10_000_000_000_000;
    let bits = reader.quantity_or(fields, key, &BANDWIDTH, range, ", or \"unlimited\"")?;
    Some(Rate::from_bits(bits))
}

pub(super) fn read_queue(
    reader: &mut Reader,
    fields: &Fields<'_>,
    queues: &mut Vec<GivenQueue>,
) -> Option<u64> {
    let bytes = reader.quantity(fields, "queue", &BYTES, 10_000..=1 << 40)?;
    queues.push(GivenQueue { at: fields.place("queue").clone(), bytes });
    Some(bytes)
}

/// Reports queues that have no room for the packets of a group: each would be lost whenever it is
/// sent.
pub(super) fn queues_hold_packets(reader: &mut Reader, queues: &[GivenQueue], groups: &[Group]) {
    let Some(sender) = groups.iter().rev().max_by_key(|group| group.tcp.packet()) else { return };
    let packet = sender.tcp.packet();
    for GivenQueue { at, bytes } in queues.iter().filter(|queue| queue.bytes < packet) {
        let what = format!(
            "a queue of {bytes} B has no room for a packet of {}, which is {packet} B long with a \
             \"segment\" of {} B; allowed: {packet} B or more; for example \"queue: 16 MiB\"",
            sender.name, sender.tcp.segment
        );
        reader.report(Problem::new(at, what));
    }
}

pub(super) fn read_loss(reader: &mut Reader, fields: &Fields<'_>) -> Option<u32> {
    let loss = reader.quantity(fields, "loss", &FRACTION, 0..=1_000_000_000)?;
    Some(u32::try_from(loss).expect("within its range"))
}

/// Which sites are connected, directly or through others.
#[derive(Debug)]
pub(super) struct Reach {
    /// Connected sites have the same number.
    island: Vec<usize>,
}

impl Reach {
    pub(super) fn new(sites: &Names, trunks: &[Trunk]) -> Reach {
        let mut island: Vec<usize> = (0..sites.len()).collect();
        for trunk in trunks {
            let (one, two) = (island[trunk.between.0], island[trunk.between.1]);
            island.iter_mut().filter(|number| **number == two).for_each(|number| *number = one);
        }
        Reach { island }
    }

    pub(super) fn connects(&self, one: usize, two: usize) -> bool {
        self.island[one] == self.island[two]
    }
}
