//! Our own part of a file, `lustrine:`.

use lustrine_document::{
    Content, Entry, Node, Problem, Reader, Section, Shape, read_keys, unknown_key, word,
};
use lustrine_lnet::tunables::Tunable;
use lustrine_partition::tunables::TABLE;
use lustrine_selftest::ConsoleList;

use super::choices::UnknownValue;
use super::draft::Draft;
use crate::Address;
use crate::tuning::AUTO;

pub(super) const LUSTRINE: Section = Section::new(
    "lustrine",
    &read_keys([
        "identity",
        "accept",
        "selftest",
        "selftest_consoles",
        "control",
        "metrics",
        "cpu_pattern",
        "tuning",
        "tunables",
    ]),
    "\"identity: userland\"",
);

const TUNABLES_EXAMPLE: &str = "\"tunables: {sock_timeout: 30}\"";

pub(super) fn read(reader: &mut Reader, draft: &mut Draft, node: &Node) {
    for entry in reader.entries(node, &LUSTRINE) {
        draft.own_at.push((entry.key, entry.at.clone()));
        match entry.key {
            "tunables" => tunables(reader, draft, entry.value),
            "tuning" => {
                let example = "\"tuning: auto\"";
                draft.tuning = reader.accept(choice(entry.value, "tuning", example));
            }
            _ => {
                reader.accept(setting(draft, &entry));
            }
        }
    }
    if let Some(tuning) = draft.tuning {
        let given = AUTO.iter().map(|(name, _)| *name);
        let given: Vec<&str> = given.filter(|name| draft.tunable_at(name).is_some()).collect();
        draft.config.tune(tuning, |name| given.contains(&name));
    }
}

fn setting(draft: &mut Draft, entry: &Entry<'_>) -> Result<(), Problem> {
    let (value, config) = (entry.value, &mut draft.config);
    match entry.key {
        "identity" => config.identity = choice(value, "identity", "\"identity: userland\"")?,
        "accept" => config.accept = choice(value, "accept", "\"accept: secure\"")?,
        "selftest" => {
            let example = "\"selftest: serve\"";
            let text = word(value, "selftest", example)?;
            config.selftest.mode = text.parse().map_err(|_| {
                Problem::value(&value.at, "selftest", text, "off, serve, full", example)
            })?;
        }
        "selftest_consoles" => {
            let example = "\"selftest_consoles: 10.0.0.[1-5]@tcp\"";
            config.selftest.consoles = match value.content {
                Content::Null => ConsoleList::default(),
                _ => {
                    let text = word(value, "selftest_consoles", example)?;
                    let allowed = "NIDs and ranges of NIDs, separated by spaces";
                    text.parse().map_err(|_| {
                        Problem::value(&value.at, "selftest_consoles", text, allowed, example)
                    })?
                }
            };
        }
        "cpu_pattern" => {
            // An empty pattern is a value, too [CFG-3].
            let pattern = word(value, "cpu_pattern", "'cpu_pattern: \"0[0-3] 1[4-7]\"'")?;
            config.cpu_pattern = pattern.to_owned();
        }
        "control" => {
            config.control = match value.content {
                Content::Null => None,
                _ => Some(word(value, "control", "\"control: /run/lustrine\"")?.to_owned()),
            };
        }
        "metrics" => {
            config.metrics = match value.content {
                Content::Null => None,
                _ => Some(address(value)?),
            };
        }
        other => unreachable!("{other} is a key of the section"),
    }
    Ok(())
}

fn address(node: &Node) -> Result<Address, Problem> {
    let example = "\"metrics: 127.0.0.1:9909\"";
    let text = word(node, "metrics", example)?;
    text.parse().map_err(|_| {
        let allowed = "HOST:PORT, an IPv6 address in brackets";
        Problem::value(&node.at, "metrics", text, allowed, example)
    })
}

fn choice<T: std::str::FromStr<Err = UnknownValue>>(
    node: &Node,
    key: &str,
    example: &str,
) -> Result<T, Problem> {
    word(node, key, example)?.parse().map_err(|unknown: UnknownValue| {
        Problem::value(&node.at, key, &unknown.found, unknown.allowed, example)
    })
}

fn tunables(reader: &mut Reader, draft: &mut Draft, node: &Node) {
    let pairs = match &node.content {
        Content::Null => return,
        Content::Mapping(pairs) => pairs,
        _ => return reader.wrong_shape(node, "tunables", Shape::Mapping, TUNABLES_EXAMPLE),
    };
    for pair in pairs {
        let set = match TABLE.iter().find(|row| row.has_name(&pair.key)) {
            Some(row) => draft.set(row, &pair.key, &pair.at, &pair.value),
            None => {
                let known = ("lustrine: tunables", "the names in docs/tunables.md");
                let all = TABLE.iter().flat_map(names);
                Err(unknown_key(&pair.at, &pair.key, known, all, TUNABLES_EXAMPLE))
            }
        };
        reader.accept(set);
    }
}

/// Our name of a tunable and LNet's, if it has one.
fn names(row: &Tunable) -> impl Iterator<Item = &'static str> + use<> {
    [row.name, row.lnet_name].into_iter().filter(|name| !name.is_empty())
}
