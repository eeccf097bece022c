//! How nodes are started: the section `start`, and groups of hosts.

use lustrine_document::{DURATION, Fields, Node, Problem, Reader, Section, read_keys};
use lustrine_lnet::time::Nanos;
use lustrine_yaml::Content;

use super::text_of;
use crate::start::{HOST, OnMissingHost, Start, StartMethod};

/// Longest time that a host may be given: an hour.
const TIMEOUT_MAX: u64 = 3_600_000_000_000;

/// Most hosts started at once.
const FANOUT_MAX: u64 = 256;

/// Most words of a list here.
const WORDS_MAX: usize = 4096;

const START: Section = Section::new(
    "start",
    &read_keys([
        "method",
        "hosts",
        "exclude",
        "user",
        "options",
        "command",
        "directory",
        "program",
        "net",
        "port",
        "fanout",
        "timeout",
        "missing",
    ]),
    "\"start: {method: ssh, hosts: 'c[01-16]'}\"",
);

const MEMBERS: Section =
    Section::new("a group", &read_keys(["hosts"]), "\"clients: {hosts: 'c[01-16]'}\"");

const METHOD: &str = "\"method: ssh\"";

const COMMAND: &str = "\"command: podman exec -i {host} sh -s\"";

const HOSTS: &str = "\"hosts: c[01-16],login1\"";

const MISSINGS: [(&str, OnMissingHost); 2] =
    [("stop", OnMissingHost::Stop), ("continue", OnMissingHost::Continue)];

/// The section of a file; `None` if there is none.
pub(super) fn read(reader: &mut Reader, file: &Fields<'_>) -> Option<Start> {
    let node = file.value("start")?;
    // The short form: "start: ssh".
    if let Content::Mapping(_) = &node.content {
        let fields = reader.fields(node, START);
        return Some(section(reader, &fields));
    }
    let word = reader.word(node, "start", START.example)?;
    Some(Start { method: method(reader, node, "start", word), ..Start::default() })
}

fn section(reader: &mut Reader, fields: &Fields<'_>) -> Start {
    let default = Start::default();
    let given = fields.value("method").and_then(|node| {
        let word = reader.word(node, "method", METHOD)?;
        match word {
            "command" => None,
            word => method(reader, node, "method", word),
        }
    });
    let says_command = fields.value("method").is_some() && given.is_none();
    let start = Start {
        method: match (fields.value("command"), &given) {
            (None, _) if says_command && reader.is_good() => {
                reader.missing(fields, "command", COMMAND);
                None
            }
            (None, _) => given,
            (Some(node), Some(other)) => {
                let what = format!(
                    "\"command\" with method {}; allowed: with method command, or without \
                     \"method\"; for example {COMMAND}",
                    other.name()
                );
                reader.report(Problem::new(&node.at, what));
                None
            }
            (Some(node), None) => command(reader, node),
        },
        hosts: words(reader, fields, "hosts", HOSTS),
        exclude: words(reader, fields, "exclude", "\"exclude: c07\""),
        user: text_of(reader, fields, "user"),
        options: options(reader, fields),
        directory: text_of(reader, fields, "directory"),
        program: text_of(reader, fields, "program"),
        net: text_of(reader, fields, "net").unwrap_or(default.net),
        port: reader.count(fields, "port", 1..=65_535, "\"port: 9988\"").unwrap_or(9988) as u16,
        fanout: reader.count(fields, "fanout", 1..=FANOUT_MAX, "\"fanout: 32\"").unwrap_or(32)
            as u32,
        timeout: reader
            .quantity(fields, "timeout", &DURATION, 1_000_000_000..=TIMEOUT_MAX)
            .map_or(default.timeout, Nanos),
        missing: reader.choice(fields, "missing", &MISSINGS).unwrap_or_default(),
    };
    check(reader, fields, &start);
    start
}

/// What one value alone does not show.
fn check(reader: &mut Reader, fields: &Fields<'_>, start: &Start) {
    let mut wrong = |key: &str, found: &str, allowed: &str, example: &str| {
        reader.report(Problem::value(fields.place(key), key, found, allowed, example));
    };
    if let Some(user) = start.user.as_deref().filter(|user| !is_user(user)) {
        let allowed = "letters, digits, '.', '_' and '-', the first one a letter, digit or '_'";
        wrong("user", user, allowed, "\"user: alice\"");
    }
    let path = start.directory.as_deref();
    if let Some(path) = path.filter(|p| !p.starts_with('/') || p.contains(char::is_control)) {
        let allowed = "an absolute path, which is on the hosts";
        wrong("directory", path, allowed, "\"directory: /var/tmp\"");
    }
    if start.net.replace(HOST, "").contains(['{', '}']) {
        let allowed = "a network as lustrine node --net takes it, with {host} for the host's name";
        wrong("net", &start.net, allowed, "\"net: tcp=eth0\"");
    }
    if let Some(StartMethod::Command(_)) = &start.method {
        for key in ["user", "options"].into_iter().filter(|key| fields.has(key)) {
            let what = format!(
                "{key:?} beside a command; allowed: with ssh, options also with srun; for example \
                 in the command itself"
            );
            reader.report(Problem::new(fields.place(key), what));
        }
    }
}

fn method(reader: &mut Reader, node: &Node, key: &str, word: &str) -> Option<StartMethod> {
    let read = StartMethod::read(word);
    let read = read.map_err(|why| {
        let example = if key == "start" { "\"start: ssh\"" } else { METHOD };
        Problem::new(&node.at, format!("{key} cannot be {word:?}; {why}; for example {example}"))
    });
    reader.accept(read)
}

/// A command: words separated by blanks, or a list of words.
fn command(reader: &mut Reader, node: &Node) -> Option<StartMethod> {
    let read = match &node.content {
        Content::List(items) => {
            let words = items.iter().map(|item| reader.word(item, "command", COMMAND));
            StartMethod::command(words.map(|word| Some(word?.to_owned())).collect::<Option<_>>()?)
        }
        _ => match reader.word(node, "command", COMMAND)? {
            word @ ("ssh" | "srun") => StartMethod::command(vec![word.to_owned()]),
            text => StartMethod::read(text),
        },
    };
    let read = read.map_err(|why| {
        Problem::new(&node.at, format!("an unusable command: {why}; for example {COMMAND}"))
    });
    reader.accept(read)
}

fn options(reader: &mut Reader, fields: &Fields<'_>) -> Vec<String> {
    const EXAMPLE: &str = "\"options: [-p, '2222']\"";
    let as_list = matches!(fields.value("options").map(|n| &n.content), Some(Content::List(_)));
    let found = words(reader, fields, "options", EXAMPLE);
    match as_list {
        true => found,
        false => found.iter().flat_map(|text| text.split_whitespace()).map(str::to_owned).collect(),
    }
}

/// A word, or a list of words.
fn words(reader: &mut Reader, fields: &Fields<'_>, key: &str, example: &str) -> Vec<String> {
    fields.value(key).map_or_else(Vec::new, |node| words_of(reader, node, key, example))
}

fn words_of(reader: &mut Reader, node: &Node, key: &str, example: &str) -> Vec<String> {
    let Content::List(items) = &node.content else {
        return reader.word(node, key, example).map(str::to_owned).into_iter().collect();
    };
    if items.len() > WORDS_MAX {
        let what = format!("{key} with {} items; allowed: {WORDS_MAX}", items.len());
        reader.report(Problem::new(&node.at, format!("{what}; for example {example}")));
        return Vec::new();
    }
    let words = items.iter().filter_map(|item| reader.word(item, key, example));
    words.map(str::to_owned).collect()
}

/// The hosts of a group that is a mapping.
pub(super) fn hosts(reader: &mut Reader, node: &Node) -> Option<Vec<String>> {
    let fields = reader.fields(node, MEMBERS);
    let words = words(reader, &fields, "hosts", MEMBERS.example);
    if words.is_empty() {
        reader.missing(&fields, "hosts", MEMBERS.example);
        return None;
    }
    Some(words)
}

fn is_user(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    name.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_') && name.chars().all(plain)
}
