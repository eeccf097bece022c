//! Reads a text as a [`Plan`].

mod start;
mod steps;
#[cfg(test)]
mod tests;

use lustrine_document::{
    DocumentFormat, Fields, Limits, Problem, Problems, Reader, Section, decimal, load, nearest,
    read_keys,
};
use lustrine_yaml::{Content, clipped};

use crate::model::{Group, Members, Plan};

/// Largest number of groups.
const GROUPS_MAX: usize = 32;

/// Longest name; names are sent in selftest's messages.
const NAME_MAX: usize = 31;

/// Largest number of nodes of a group that are started on this machine.
const LOCAL_MAX: i64 = 64;

/// Names with another meaning in a sweep.
const TAKEN: [&str; 3] = ["concurrency", "size", "rate"];

const FORMAT: DocumentFormat = DocumentFormat {
    limits: Limits { bytes: 1 << 20, depth: 16, values: 1 << 16 },
    example: "groups: {clients: [10.0.0.1@tcp]}",
    key: "groups:",
    smaller: "groups of many nodes instead of one group per node",
};

const FILE: Section = Section::new(
    "a plan",
    &read_keys(["name", "about", "start", "groups", "steps"]),
    "\"name: smoke\"",
);

const GROUPS: &str = "\"groups: {clients: 10.0.0.[1-4]@tcp, servers: 1}\"";

impl Plan {
    /// Reads a plan. `source_name` is what messages call the text, usually its path.
    ///
    /// The work is bounded for any text: at most 1 MiB, 16 levels, and 65,536 values after aliases
    /// are expanded.
    ///
    /// # Errors
    /// All that is wrong with it, each with its position.
    pub fn parse(text: &str, source_name: &str) -> Result<Plan, Problems> {
        let root =
            load(text, &FORMAT).map_err(|problem| Problems::new(source_name, vec![problem]))?;
        let mut reader = Reader::default();
        let file = reader.fields(&root, FILE);
        let name = text_of(&mut reader, &file, "name").unwrap_or_default();
        match file.value("name") {
            Some(node) if !is_name(&name) => reader.report(Problem::value(
                &node.at,
                "name",
                &name,
                &name_rule(),
                "\"name: smoke\"",
            )),
            Some(_) => {}
            None => reader.missing(&file, "name", "\"name: smoke\""),
        }
        let about = text_of(&mut reader, &file, "about").unwrap_or_default();
        let start = start::read(&mut reader, &file);
        let groups = groups(&mut reader, &file);
        let steps = steps::read(&mut reader, &file, &groups);
        reader.finish(source_name).map(|_| Plan { name, about, start, groups, steps })
    }
}

fn groups(reader: &mut Reader, file: &Fields<'_>) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    let Some(node) = file.value("groups") else {
        reader.missing(file, "groups", GROUPS);
        return groups;
    };
    let Content::Mapping(pairs) = &node.content else {
        reader.wrong_shape(node, "groups", "names with nodes", GROUPS);
        return groups;
    };
    for pair in pairs {
        if !is_name(&pair.key) || TAKEN.contains(&pair.key.as_str()) {
            let allowed = format!("{}, and none of {}", name_rule(), TAKEN.join(", "));
            let example = "\"clients: 4\"";
            reader.report(Problem::value(&pair.at, "a group", &pair.key, &allowed, example));
        }
        if groups.len() == GROUPS_MAX {
            let what = format!("too many groups; allowed: {GROUPS_MAX}; for example {GROUPS}");
            reader.report(Problem::new(&pair.at, what));
            break;
        }
        if let Some(members) = members(reader, &pair.value) {
            groups.push(Group { name: pair.key.clone(), members });
        }
    }
    groups
}

fn members(reader: &mut Reader, node: &lustrine_document::Node) -> Option<Members> {
    if let Content::Mapping(_) = &node.content {
        return start::hosts(reader, node).map(Members::Hosts);
    }
    if let Content::List(items) = &node.content {
        let mut words = Vec::new();
        for item in items {
            words.push(reader.word(item, "a node", GROUPS)?.to_owned());
        }
        if words.is_empty() {
            reader.report(Problem::new(
                &node.at,
                format!("a group without nodes; allowed: NIDs, or how many; for example {GROUPS}"),
            ));
            return None;
        }
        return Some(Members::Nids(words));
    }
    let word = reader.word(node, "a group", GROUPS)?;
    match decimal(word) {
        Some(count) if (1..=LOCAL_MAX).contains(&count) => Some(Members::Count(count as u32)),
        Some(_) => {
            let allowed = format!("1 to {LOCAL_MAX} nodes, or NIDs");
            reader.report(Problem::value(&node.at, "a group", word, &allowed, GROUPS));
            None
        }
        None => Some(Members::Nids(vec![word.to_owned()])),
    }
}

fn text_of(reader: &mut Reader, fields: &Fields<'_>, key: &str) -> Option<String> {
    let node = fields.value(key)?;
    reader.word(node, key, "a line of text").map(str::to_owned)
}

/// The index of a group that a key names.
fn group(reader: &mut Reader, fields: &Fields<'_>, key: &str, groups: &[Group]) -> Option<usize> {
    let first = groups.first().map_or("clients", |group| &group.name);
    let example = format!("\"{key}: {first}\"");
    let Some(node) = fields.value(key) else {
        reader.missing(fields, key, &example);
        return None;
    };
    let word = reader.word(node, key, &example)?;
    let found = groups.iter().position(|group| group.name == word);
    // If groups are invalid, it is unknown which groups there are.
    if found.is_none() && !groups.is_empty() && reader.is_good() {
        let names: Vec<&str> = groups.iter().map(|group| group.name.as_str()).collect();
        let hint = match nearest(word, names.iter().copied()) {
            Some(near) => format!("did you mean {near:?}?"),
            None => format!("for example {example}"),
        };
        let (word, names) = (clipped(word), names.join(", "));
        let what = format!("{key}: {word:?} is not a group of this plan; allowed: {names}; {hint}");
        reader.report(Problem::new(&node.at, what));
    }
    found
}

/// Names are used in sessions, tables, plots and on the command line.
fn is_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.chars().all(plain)
        && name.len() <= NAME_MAX
}

fn name_rule() -> String {
    format!("1 to {NAME_MAX} letters, digits, \"_\" and \"-\", the first one a letter or digit")
}
