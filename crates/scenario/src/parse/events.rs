//! What happens to links and nodes.

use lustrine_lnet::time::Nanos;
use lustrine_sim::StopKind;

use super::links::{GivenQueue, read_loss, read_queue, read_rate, two_sites};
use super::{Names, group_names};
use crate::model::{Action, Event, Group, LinkChange, NodeRange, Target, Trunk};
use lustrine_document::DURATION;
use lustrine_document::Problem;
use lustrine_document::{Content, Node};
use lustrine_document::{Fields, Reader, Section, read_keys};

/// Largest number of events.
const EVENTS_MAX: usize = 10_000;

pub(super) const EVENT: Section = Section::new(
    "an event",
    &read_keys([
        "at",
        "cut",
        "restore",
        "degrade",
        "crash",
        "silence",
        "stop",
        "restart",
        "link",
        "bandwidth",
        "delay",
        "queue",
        "loss",
        "jitter",
    ]),
    "\"{at: 5 s, cut: [east, west]}\"",
);

/// What an event does; an event has exactly one of them.
const VERBS: [&str; 7] = ["cut", "restore", "degrade", "crash", "silence", "stop", "restart"];

const PROPERTIES: [&str; 5] = ["bandwidth", "delay", "queue", "loss", "jitter"];

/// The parts of the file that were read before the events.
pub(super) struct Known<'a> {
    pub(super) sites: &'a Names,
    pub(super) trunks: &'a [Trunk],
    pub(super) groups: &'a [Group],
}

pub(super) fn read(
    reader: &mut Reader,
    node: Option<&Node>,
    known: &Known<'_>,
    queues: &mut Vec<GivenQueue>,
) -> Vec<Event> {
    let mut events = Vec::new();
    for item in reader.items(node, "events", EVENT.example) {
        if events.len() == EVENTS_MAX {
            let what = format!("too many events; allowed: {EVENTS_MAX}; for example remove this");
            reader.report(Problem::new(&item.at, what));
            break;
        }
        let fields = reader.fields(item, EVENT);
        if !fields.has("at") {
            reader.missing(&fields, "at", "\"at: 5 s\"");
        }
        let at = reader.quantity(&fields, "at", &DURATION, 0..=86_400_000_000_000);
        let action = action(reader, &fields, known, queues);
        if let (Some(at), Some(action)) = (at, action) {
            events.push(Event { at: Nanos(at), action });
        }
    }
    events
}

fn action(
    reader: &mut Reader,
    fields: &Fields<'_>,
    known: &Known<'_>,
    queues: &mut Vec<GivenQueue>,
) -> Option<Action> {
    let given: Vec<_> = VERBS.into_iter().filter(|verb| fields.has(verb)).collect();
    let [verb] = given[..] else {
        let found = if given.is_empty() { "nothing".to_owned() } else { given.join(" and ") };
        let what = format!(
            "an event that does {found}; allowed: exactly one of {}; for example {}",
            VERBS.join(", "),
            EVENT.example
        );
        reader.report(Problem::new(&fields.at, what));
        return None;
    };
    let change = change(reader, fields, verb, queues);
    let node = fields.value(verb).expect("it was just seen");
    let of_links = matches!(verb, "cut" | "restore" | "degrade");
    if fields.has("link") && !(of_links && matches!(node.content, Content::List(_))) {
        let what = "link has no meaning here; allowed: where cut, restore or degrade name two \
                    sites with parallel links; for example \
                    \"{at: 5 s, cut: [east, west], link: 1}\"";
        reader.report(Problem::new(fields.place("link"), what));
        return None;
    }
    if !of_links {
        let members = members(reader, node, verb, known)?;
        return Some(match verb {
            "crash" => Action::End(members, StopKind::Crash),
            "silence" => Action::End(members, StopKind::Silence),
            "stop" => Action::End(members, StopKind::Orderly),
            _ => Action::Restart(members),
        });
    }
    let target = match node.content {
        Content::List(_) => trunk(reader, fields, node, verb, known)?,
        _ => Target::Interfaces(members(reader, node, verb, known)?),
    };
    Some(match verb {
        "cut" => Action::Cut(target),
        "restore" => Action::Restore(target),
        _ => Action::Degrade(target, change),
    })
}

/// The new properties; only `degrade` has them.
fn change(
    reader: &mut Reader,
    fields: &Fields<'_>,
    verb: &str,
    queues: &mut Vec<GivenQueue>,
) -> LinkChange {
    let given: Vec<_> = PROPERTIES.into_iter().filter(|key| fields.has(key)).collect();
    if verb != "degrade" {
        for key in given {
            let what = format!(
                "{key} has no meaning with {verb}; allowed: with degrade; for example \"{{at: 5 s, \
                 degrade: [east, west], bandwidth: 1 Gb/s}}\""
            );
            reader.report(Problem::new(fields.place(key), what));
        }
        return LinkChange::default();
    }
    if given.is_empty() {
        reader.missing(fields, "bandwidth", "\"bandwidth: 1 Gb/s\", or another property of links");
    }
    let mut time = |key| reader.quantity(fields, key, &DURATION, 0..=60_000_000_000).map(Nanos);
    let (delay, jitter) = (time("delay"), time("jitter"));
    LinkChange {
        rate: read_rate(reader, fields, "bandwidth"),
        delay,
        jitter,
        queue: read_queue(reader, fields, queues),
        loss: read_loss(reader, fields),
    }
}

fn trunk(
    reader: &mut Reader,
    fields: &Fields<'_>,
    node: &Node,
    verb: &str,
    known: &Known<'_>,
) -> Option<Target> {
    let (one, two) = two_sites(reader, node, verb, known.sites)?;
    let between = |trunk: &Trunk| trunk.between == (one, two) || trunk.between == (two, one);
    let Some(trunk) = known.trunks.iter().position(between) else {
        let what = format!(
            "{verb}: no links are described between these sites; allowed: two sites that stand \
             together under \"links\"; for example {}",
            EVENT.example
        );
        reader.report(Problem::new(&node.at, what));
        return None;
    };
    let links = u64::from(known.trunks[trunk].parallel);
    let link = reader.count(fields, "link", 1..=links, "\"link: 1\"");
    let link = link.map(|number| u32::try_from(number - 1).expect("within its range"));
    Some(Target::Trunk { trunk, link })
}

/// Nodes as text: `servers`, `servers/3`, `servers/0-3`.
fn members(reader: &mut Reader, node: &Node, key: &str, known: &Known<'_>) -> Option<NodeRange> {
    let example = format!("\"{key}: servers/3\"");
    let text = reader.word(node, key, &example)?;
    let found = find_members(text, known.groups);
    if found.is_none() {
        let names = group_names(known.groups).into_keys().take(20).collect::<Vec<_>>().join(", ");
        let allowed = format!(
            "a group, one of its nodes from 0 behind \"/\", or several such as 0-3; the groups are \
             {names}"
        );
        reader.report(Problem::value(&node.at, key, text, &allowed, &example));
    }
    found
}

fn find_members(text: &str, groups: &[Group]) -> Option<NodeRange> {
    let (name, which) = match text.split_once('/') {
        Some((name, which)) => (name, Some(which)),
        None => (text, None),
    };
    let group = groups.iter().position(|group| group.name == name)?;
    let end = groups[group].count - 1;
    let number = |text: &str| text.parse::<u32>().ok().filter(|number| *number <= end);
    let (first, last) = match which.map(|which| which.split_once('-').unwrap_or((which, which))) {
        Some((first, last)) => (number(first)?, number(last)?),
        None => (0, end),
    };
    (first <= last).then_some(NodeRange { group, first, last })
}
