//! From a tree to a [`Scenario`].

mod events;
mod groups;
mod links;
mod loads;

use std::collections::BTreeMap;

use lustrine_yaml::clipped;

use crate::model::{Fidelity, Group, Scenario};
use lustrine_document::{Content, Node};
use lustrine_document::{Location, Problem};
use lustrine_document::{Reader, Section, nearest, read_keys};

/// Seeds are 0 to this one.
const SEED_MAX: u64 = i64::MAX as u64;

/// Largest number of sites.
const SITES_MAX: usize = 1000;

/// Longest name of a site or group, in characters.
const NAME_MAX: usize = 32;

/// The site of a file that lists no sites.
const ONLY_SITE: &str = "here";

const FILE: Section = Section::new(
    "a scenario",
    &read_keys([
        "sites", "links", "groups", "tcp", "tunables", "fidelity", "loads", "events", "seed",
    ]),
    "\"seed: 1\"",
);

/// Names, each with an index.
pub(crate) type Names = BTreeMap<String, usize>;

/// Reads a whole tree; problems go to the reader.
pub(crate) fn scenario(reader: &mut Reader, root: &Node) -> Scenario {
    let file = reader.fields(root, FILE);
    let seed = reader.count(&file, "seed", 0..=SEED_MAX, "\"seed: 1\"").unwrap_or(1);
    let fidelities = [("stream", Fidelity::Stream), ("message", Fidelity::Message)];
    let fidelity = reader.choice(&file, "fidelity", &fidelities).unwrap_or(Fidelity::Stream);
    let sites = sites(reader, file.value("sites"));
    let mut queues = Vec::new();
    let before = reader.problem_count();
    let trunks = links::read(reader, file.value("links"), &sites, &mut queues);
    // Whether links are valid is unknown after a problem in them, so reachability is not checked
    // then.
    let reach = (before == reader.problem_count()).then(|| links::Reach::new(&sites, &trunks));
    let defaults = groups::Defaults::read(reader, &file);
    let groups = groups::read(reader, &file, &sites, &defaults, &mut queues);
    let loads = loads::read(reader, &file, &groups, reach.as_ref());
    let known = events::Known { sites: &sites, trunks: &trunks, groups: &groups };
    let mut events = events::read(reader, file.value("events"), &known, &mut queues);
    if fidelity == Fidelity::Stream {
        // At the other one nothing is lost in queues.
        links::queues_hold_packets(reader, &queues, &groups);
    }
    events.sort_by_key(|event| event.at);
    Scenario { seed, fidelity, sites: in_order(&sites), trunks, groups, loads, events }
}

fn sites(reader: &mut Reader, node: Option<&Node>) -> Names {
    const EXAMPLE: &str = "\"sites: [east, west]\"";
    let mut sites = Names::new();
    for item in reader.items(node, "sites", EXAMPLE) {
        let Some(name) = reader.word(item, "a site", EXAMPLE) else { continue };
        name_is_good(reader, &item.at, "a site", name);
        let index = sites.len();
        if sites.insert(name.to_owned(), index).is_some() {
            let what = format!(
                "site {:?} is given again; allowed: once; for example remove this",
                clipped(name)
            );
            reader.report(Problem::new(&item.at, what));
            break;
        }
        if index == SITES_MAX {
            let what = format!("too many sites; allowed: {SITES_MAX}; for example {EXAMPLE}");
            reader.report(Problem::new(&item.at, what));
            break;
        }
    }
    if sites.is_empty() {
        sites.insert(ONLY_SITE.to_owned(), 0);
    }
    sites
}

/// Names are used in tables, plots and expressions such as `servers/3`.
fn name_is_good(reader: &mut Reader, at: &Location, what: &str, name: &str) {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let good = name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(plain)
        && name.len() <= NAME_MAX;
    if !good {
        let allowed =
            format!("up to {NAME_MAX} letters, digits, \"_\" and \"-\", the first one a letter");
        reader.report(Problem::value(at, what, name, &allowed, "\"east\""));
    }
}

/// The index of a name. `None`, after a problem was reported, if the name is unknown.
fn named(reader: &mut Reader, node: &Node, what: &str, key: &str, names: &Names) -> Option<usize> {
    let known = || in_order(names).into_iter().take(20).collect::<Vec<_>>().join(", ");
    let first = names.iter().min_by_key(|(_, index)| **index).map_or("", |(name, _)| name);
    let example = format!("\"{key}: {first}\"");
    let text = reader.word(node, key, &example)?;
    if names.is_empty() {
        // The names could not be read, and the problem was reported.
        return None;
    }
    if let Some(index) = names.get(text) {
        return Some(*index);
    }
    let hint = match nearest(text, names.keys().map(String::as_str)) {
        Some(near) => format!("did you mean {near:?}?"),
        None => format!("for example {example}"),
    };
    let text = clipped(text);
    let known = known();
    let what = format!("{key}: {text:?} is not a {what} of this file; allowed: {known}; {hint}");
    reader.report(Problem::new(&node.at, what));
    None
}

/// Names by their index.
fn in_order(names: &Names) -> Vec<String> {
    let mut order: Vec<_> = names.iter().collect();
    order.sort_by_key(|(_, index)| **index);
    order.into_iter().map(|(name, _)| name.clone()).collect()
}

/// The names of groups.
fn group_names(groups: &[Group]) -> Names {
    groups.iter().enumerate().map(|(index, group)| (group.name.clone(), index)).collect()
}

/// The items of a value that must be a mapping of names.
fn named_items<'n>(
    reader: &mut Reader,
    node: Option<&'n Node>,
    what: &str,
    example: &str,
) -> Vec<(&'n str, &'n Location, &'n Node)> {
    let Some(node) = node else { return Vec::new() };
    match &node.content {
        Content::Null => Vec::new(),
        Content::Mapping(pairs) => {
            pairs.iter().map(|pair| (pair.key.as_str(), &pair.at, &*pair.value)).collect()
        }
        _ => {
            reader.wrong_shape(node, what, "names with values", example);
            Vec::new()
        }
    }
}

#[cfg(test)]
mod tests;
