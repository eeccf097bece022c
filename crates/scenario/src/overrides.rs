//! Values given in addition to the file: `NAME=VALUE` of `--set` and `--vary`.

use std::rc::Rc;

use lustrine_partition::tunables::TABLE;
use lustrine_yaml::clipped;

use lustrine_document::nearest;
use lustrine_document::{Content, Node};
use lustrine_document::{Location, Problem};

/// Keys of the file itself.
const OF_FILE: [&str; 2] = ["seed", "fidelity"];
/// Keys that all loads have.
const OF_LOADS: [&str; 8] =
    ["test", "size", "check", "concurrency", "spread", "start", "warm_up", "time"];
/// Keys that all links have.
const OF_LINKS: [&str; 7] =
    ["bandwidth", "delay", "queue", "loss", "jitter", "parallel", "hashing"];
/// Keys that TCP has.
const OF_TCP: [&str; 8] = [
    "congestion",
    "send_buffer",
    "receive_buffer",
    "segment",
    "initial_window",
    "hystart",
    "txqueuelen",
    "idle_restart",
];
/// Keys of one group, after its name and a dot.
const OF_GROUP: [&str; 7] = ["count", "interface", "delay", "queue", "loss", "jitter", "site"];
/// Keys of the cost of a group's work.
const OF_COST: [&str; 2] = ["message", "MiB"];

/// A value for a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Override {
    /// A tunable, a key of loads, links, TCP or the file, or one of a group: `clients.count`.
    pub name: String,
    /// The value, as it would be written in the file.
    pub value: String,
    /// Where the value comes from, such as `--set delay=1 ms`, for messages.
    pub origin: String,
}

impl Override {
    /// Reads `NAME=VALUE`; `option` is the option that came before it.
    ///
    /// # Errors
    /// When there is no `=`; the error is a message for users.
    pub fn parse(option: &str, text: &str) -> Result<Override, String> {
        let Some((name, value)) = text.split_once('=') else {
            return Err(format!("no '=' in {text:?}; an example is {option} peer_credits=32"));
        };
        Ok(Override {
            name: name.trim().to_owned(),
            value: value.trim().to_owned(),
            origin: format!("{option} {}", text.trim()),
        })
    }
}

/// Changes a tree: everything that had a value of this name gets the new value.
pub(crate) fn apply(root: &mut Node, change: &Override) -> Result<(), Problem> {
    let name = change.name.as_str();
    let at = Location::Words(Rc::from(change.origin.as_str()));
    let leaf = Node::leaf(at.clone(), Content::Scalar(change.value.clone()));
    if let Some((group, key)) = name.split_once('.') {
        return apply_to_group(root, &at, (group, key), leaf);
    }
    if OF_FILE.contains(&name) {
        root.set(name, leaf);
    } else if OF_LOADS.contains(&name) {
        in_each(root, &at, "loads", name, &leaf)?;
    } else if OF_LINKS.contains(&name) {
        in_each(root, &at, "links", name, &leaf)?;
    } else if OF_TCP.contains(&name) {
        everywhere(root, "tcp", (name, name), &leaf);
    } else if let Some(row) = TABLE.iter().find(|row| row.name == name || row.lnet_name == name) {
        everywhere(root, "tunables", (row.name, row.lnet_name), &leaf);
    } else {
        return Err(unknown(&at, name));
    }
    Ok(())
}

/// In every item of a list.
fn in_each(
    root: &mut Node,
    at: &Location,
    list: &str,
    key: &str,
    leaf: &Node,
) -> Result<(), Problem> {
    let Some(Node { content: Content::List(items), .. }) = root.value_mut(list) else {
        let what = format!(
            "{key} belongs to {list}, and the file has none; allowed: where it has; for example \
             \"clients.{key}\" for the interfaces of a group"
        );
        return Err(Problem::new(at, what));
    };
    for item in items {
        Rc::make_mut(item).set(key, leaf.clone());
    }
    Ok(())
}

/// Sets the value for the whole file, and in each group that has its own.
fn everywhere(root: &mut Node, part: &str, (name, other): (&str, &str), leaf: &Node) {
    let put = |within: &mut Node| {
        // Replaces the name that is in the file; otherwise the key would be given twice.
        let name = if within.value(other).is_some() { other } else { name };
        within.set(name, leaf.clone());
    };
    if root.value(part).is_none() {
        root.set(part, Node::leaf(leaf.at.clone(), Content::Null));
    }
    if let Some(common) = root.value_mut(part) {
        put(common);
    }
    let Some(Node { content: Content::Mapping(groups), .. }) = root.value_mut("groups") else {
        return;
    };
    for group in groups {
        if let Some(own) = Rc::make_mut(&mut group.value).value_mut(part)
            && (own.value(name).is_some() || own.value(other).is_some())
        {
            put(own);
        }
    }
}

fn apply_to_group(
    root: &mut Node,
    at: &Location,
    (name, key): (&str, &str),
    leaf: Node,
) -> Result<(), Problem> {
    let names: Vec<String> = match root.value("groups").map(|groups| &groups.content) {
        Some(Content::Mapping(pairs)) => pairs.iter().map(|pair| pair.key.clone()).collect(),
        _ => Vec::new(),
    };
    let Some(group) = root.value_mut("groups").and_then(|groups| groups.value_mut(name)) else {
        let allowed = format!("{} before the dot", names.join(", "));
        let example = format!("\"{}.count=4\"", names.first().map_or("clients", String::as_str));
        return Err(Problem::value(at, "the group", name, &allowed, &example));
    };
    let row = TABLE.iter().find(|row| row.name == key || row.lnet_name == key);
    let (part, key) = match (key, row) {
        (_, Some(row)) => ("tunables", row.name),
        (key, _) if OF_TCP.contains(&key) => ("tcp", key),
        (key, _) if OF_COST.contains(&key) => ("cost", key),
        (key, _) if OF_GROUP.contains(&key) => {
            group.set(key, leaf);
            return Ok(());
        }
        _ => {
            let allowed = format!(
                "{}, {}, {}, or a tunable",
                OF_GROUP.join(", "),
                OF_COST.join(", "),
                OF_TCP.join(", ")
            );
            return Err(Problem::value(at, "a key of a group", key, &allowed, "\"clients.count\""));
        }
    };
    if let Content::Null = group.content {
        group.content = Content::Mapping(Vec::new());
    }
    if group.value(part).is_none() {
        group.set(part, Node::leaf(at.clone(), Content::Null));
    }
    if let Some(part) = group.value_mut(part) {
        part.set(key, leaf);
    }
    Ok(())
}

fn unknown(at: &Location, name: &str) -> Problem {
    let keys = || OF_LOADS.iter().chain(&OF_LINKS).chain(&OF_TCP).chain(&OF_FILE).copied();
    let tunables = TABLE.iter().map(|row| row.name);
    let hint = match nearest(name, keys().chain(tunables)) {
        Some(near) => format!("did you mean {near:?}?"),
        None => "for example \"concurrency\"".to_owned(),
    };
    let known = keys().collect::<Vec<_>>().join(", ");
    let name = clipped(name);
    let what = format!(
        "{name:?} cannot be set here; allowed: {known}, a tunable, or a key of a \
         group such as clients.count; {hint}"
    );
    Problem::new(at, what)
}
