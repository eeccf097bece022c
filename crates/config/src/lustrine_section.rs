//! Our own part of a file, `lustrine:`.

use lustrine_lnet::tunables::Tunable;
use lustrine_partition::tunables::TABLE;
use lustrine_selftest::ConsoleList;
use lustrine_yaml::{Content, Node, Shape, clipped};

use super::choices::UnknownValue;
use super::lnetctl::Draft;
use super::problem::{Failure, Problem};
use super::reading::{Key, Reading, Section, nearest, word, wrong_shape};
use crate::Address;

pub(super) const LUSTRINE: Section = Section {
    name: "lustrine",
    keys: &[&[
        Key::read("identity"),
        Key::read("accept"),
        Key::read("selftest"),
        Key::read("selftest_consoles"),
        Key::read("control"),
        Key::read("metrics"),
        Key::read("cpu_pattern"),
        Key::read("tunables"),
    ]],
    example: "\"identity: userland\"",
};

const TUNABLES_EXAMPLE: &str = "\"tunables: {sock_timeout: 30}\"";

pub(super) fn read(
    reading: &mut Reading<'_>,
    draft: &mut Draft,
    node: &Node,
) -> Result<(), Failure> {
    for entry in reading.entries(node, &LUSTRINE)? {
        draft.own_at.push((entry.key, entry.at));
        let (value, config) = (entry.value, &mut draft.config);
        match entry.key {
            "identity" => config.identity = choice(value, "identity", "\"identity: userland\"")?,
            "accept" => config.accept = choice(value, "accept", "\"accept: secure\"")?,
            "selftest" => {
                let example = "\"selftest: serve\"";
                let text = word(value, "selftest", example)?;
                config.selftest.mode = text
                    .parse()
                    .map_err(|_| bad_value(value, "selftest", text, "off, serve, full", example))?;
            }
            "selftest_consoles" => {
                let example = "\"selftest_consoles: 10.0.0.[1-5]@tcp\"";
                config.selftest.consoles = match value.content {
                    Content::Null => ConsoleList::default(),
                    _ => {
                        let text = word(value, "selftest_consoles", example)?;
                        let allowed = "NIDs and ranges of NIDs, separated by spaces";
                        text.parse().map_err(|_| {
                            bad_value(value, "selftest_consoles", text, allowed, example)
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
            _ => tunables(draft, value)?,
        }
    }
    Ok(())
}

fn address(node: &Node) -> Result<Address, Failure> {
    let example = "\"metrics: 127.0.0.1:9909\"";
    let text = word(node, "metrics", example)?;
    text.parse().map_err(|_| {
        let (what, found) = ("metrics".to_owned(), clipped(text));
        let allowed = "HOST:PORT, an IPv6 address in brackets".to_owned();
        (node.at, Problem::BadValue { what, found, allowed, example: example.to_owned() })
    })
}

fn bad_value(node: &Node, what: &str, found: &str, allowed: &str, example: &str) -> Failure {
    let (what, found) = (what.to_owned(), clipped(found));
    let (allowed, example) = (allowed.to_owned(), example.to_owned());
    (node.at, Problem::BadValue { what, found, allowed, example })
}

fn choice<T: std::str::FromStr<Err = UnknownValue>>(
    node: &Node,
    key: &str,
    example: &str,
) -> Result<T, Failure> {
    word(node, key, example)?.parse().map_err(|unknown: UnknownValue| {
        let UnknownValue { found, allowed, .. } = unknown;
        let (what, found) = (key.to_owned(), clipped(&found));
        let (allowed, example) = (allowed.to_owned(), example.to_owned());
        (node.at, Problem::BadValue { what, found, allowed, example })
    })
}

fn tunables(draft: &mut Draft, node: &Node) -> Result<(), Failure> {
    let pairs = match &node.content {
        Content::Null => return Ok(()),
        Content::Mapping(pairs) => pairs,
        _ => return Err(wrong_shape(node, "tunables", Shape::Mapping, TUNABLES_EXAMPLE)),
    };
    for pair in pairs {
        let called = |row: &&Tunable| names(row).any(|name| name == pair.key);
        let Some(row) = TABLE.iter().find(called) else {
            let problem = Problem::UnknownKey {
                key: clipped(&pair.key),
                within: "lustrine: tunables",
                known: "the names in docs/tunables.md".to_owned(),
                nearest: nearest(&pair.key, TABLE.iter().flat_map(names)).map(str::to_owned),
                example: TUNABLES_EXAMPLE,
            };
            return Err((pair.at, problem));
        };
        draft.set(row, &pair.key, pair.at, &pair.value)?;
    }
    Ok(())
}

/// Our name of a tunable and LNet's, if it has one.
fn names(row: &Tunable) -> impl Iterator<Item = &'static str> + use<> {
    [row.name, row.lnet_name].into_iter().filter(|name| !name.is_empty())
}
