//! Reading a laboratory's file.

mod links;

use std::collections::BTreeMap;

use lustrine_document::{
    Content, DocumentFormat, Fields, Limits, Location, Node, Problem, Problems, Reader, Section,
    clipped, load, nearest, read_keys,
};

use crate::layout::Layout;
use crate::model::{Host, Lab, NextHop, Sysctl};

/// Longest file that is read, in bytes.
pub const FILE_MAX: usize = 1 << 20;

/// Largest number of hosts.
const HOSTS_MAX: usize = 200;

/// Longest name, in characters: it becomes part of the path of a socket.
const NAME_MAX: usize = 32;

/// Longest value of a setting.
const SYSCTL_MAX: usize = 200;

const FORMAT: DocumentFormat = DocumentFormat {
    limits: Limits { bytes: FILE_MAX, depth: 8, values: 20_000 },
    example: "hosts: {east: {}, west: {}}",
    key: "hosts:",
    smaller: "fewer hosts or links",
};

const FILE: Section = Section::new(
    "a laboratory",
    &read_keys(["name", "seed", "hosts", "links", "routes", "sysctl"]),
    "\"hosts: {east: {}, west: {}}\"",
);

const HOST: Section = Section::new(
    "a host",
    &read_keys(["sysctl"]),
    "\"east: {sysctl: {net.ipv4.tcp_rmem: 4096 131072 134217728}}\"",
);

const ROUTE: Section = Section::new(
    "a route",
    &read_keys(["from", "to", "via", "link"]),
    "\"{from: west, to: east, via: router}\"",
);

const ROUTES: &str = "\"routes: [{from: west, to: east, via: router}]\"";

/// Names, each with an index.
type Names = BTreeMap<String, usize>;

/// Reads a file.
///
/// # Errors
/// Everything that is wrong with it, each with its place.
pub fn parse(text: &str, source_name: &str) -> Result<Lab, Problems> {
    let root = load(text, &FORMAT).map_err(|problem| Problems::new(source_name, vec![problem]))?;
    let mut reader = Reader::default();
    let lab = read(&mut reader, &root);
    reader.finish(source_name)?;
    Ok(lab)
}

fn read(reader: &mut Reader, root: &Node) -> Lab {
    let file = reader.fields(root, FILE);
    let seed = reader.count(&file, "seed", 0..=i64::MAX as u64, "\"seed: 1\"").unwrap_or(1);
    let name = file.value("name").and_then(|node| {
        let name = reader.word(node, "name", "\"name: long-link\"")?;
        name_is_good(reader, &node.at, "name", name);
        Some(name.to_owned())
    });
    let common = sysctl(reader, file.value("sysctl"));
    let (names, hosts) = hosts(reader, &file, &common);
    let links = links::read(reader, &file, &names);
    let mut lab = Lab { name, seed, hosts, links, routes: Vec::new() };
    if reader.is_good() {
        routes(reader, &file, &names, &mut lab);
    }
    lab
}

/// The entries of a mapping with free keys.
fn entries<'n>(
    reader: &mut Reader,
    node: Option<&'n Node>,
    what: &str,
    example: &str,
) -> Vec<(&'n str, &'n Location, &'n Node)> {
    match node.map(|node| (&node.content, node)) {
        None => Vec::new(),
        Some((Content::Mapping(pairs), _)) => {
            pairs.iter().map(|pair| (pair.key.as_str(), &pair.at, &*pair.value)).collect()
        }
        Some((_, node)) => {
            reader.wrong_shape(node, what, "keys with values", example);
            Vec::new()
        }
    }
}

fn hosts(reader: &mut Reader, file: &Fields<'_>, common: &[Sysctl]) -> (Names, Vec<Host>) {
    let (mut names, mut hosts) = (Names::new(), Vec::new());
    for (name, at, node) in entries(reader, file.value("hosts"), "hosts", FILE.example) {
        if hosts.len() == HOSTS_MAX {
            let what = format!("too many hosts; allowed: {HOSTS_MAX}; for example fewer of them");
            reader.report(Problem::new(at, what));
            break;
        }
        name_is_good(reader, at, "a host's name", name);
        let fields = reader.fields(node, HOST);
        let mut own = common.to_vec();
        own.extend(sysctl(reader, fields.value("sysctl")));
        names.insert(name.to_owned(), hosts.len());
        hosts.push(Host { name: name.to_owned(), sysctl: own });
    }
    if hosts.is_empty() {
        reader.missing(file, "hosts", FILE.example);
    }
    (names, hosts)
}

/// Settings of a network; anything else on a machine would not be a host's own.
fn sysctl(reader: &mut Reader, node: Option<&Node>) -> Vec<Sysctl> {
    const EXAMPLE: &str = "\"sysctl: {net.ipv4.tcp_rmem: 4096 131072 134217728}\"";
    let mut settings = Vec::new();
    for (name, at, node) in entries(reader, node, "sysctl", EXAMPLE) {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        let good = name.starts_with("net.")
            && name.len() <= SYSCTL_MAX
            && name.split('.').all(|part| !part.is_empty() && part.chars().all(plain));
        if !good {
            let allowed = "names of sysctl(8) that begin with \"net.\"";
            reader.report(Problem::value(at, "a setting", name, allowed, EXAMPLE));
            continue;
        }
        let Some(value) = reader.word(node, name, EXAMPLE) else { continue };
        if value.len() > SYSCTL_MAX || value.chars().any(char::is_control) {
            let allowed = format!("up to {SYSCTL_MAX} characters of one line");
            reader.report(Problem::value(&node.at, name, value, &allowed, EXAMPLE));
            continue;
        }
        settings.push(Sysctl { name: name.to_owned(), value: value.to_owned() });
    }
    settings
}

fn routes(reader: &mut Reader, file: &Fields<'_>, names: &Names, lab: &mut Lab) {
    for item in reader.items(file.value("routes"), "routes", ROUTES) {
        let fields = reader.fields(item, ROUTE);
        let host = |reader: &mut Reader, key: &'static str| match fields.value(key) {
            Some(node) => {
                let first = names.keys().next().map_or("", String::as_str);
                named(reader, node, key, names, &format!("\"{key}: {first}\""))
            }
            None => {
                reader.missing(&fields, key, ROUTE.example);
                None
            }
        };
        let (from, to) = (host(reader, "from"), host(reader, "to"));
        let via = host(reader, "via");
        let count = reader.count(&fields, "link", 1..=1000, "\"link: 2\"");
        let (Some(from), Some(to), Some(via)) = (from, to, via) else { continue };
        if from == to {
            let what = "a route from a host to itself; allowed: two different hosts; for example \
                        remove it";
            reader.report(Problem::new(&fields.at, what));
            continue;
        }
        let joins = |between: [usize; 2]| between == [from, via] || between == [via, from];
        let links = lab.links.iter().enumerate().filter(|(_, link)| joins(link.between));
        let links: Vec<usize> = links.map(|(index, _)| index).collect();
        let number = count.unwrap_or(1) as usize;
        let Some(link) = links.get(number - 1) else {
            let (from, via) = (&lab.hosts[from].name, &lab.hosts[via].name);
            let many = links.len();
            let what = format!(
                "{from} has {many} links to {via}, and this asks for number {number}; allowed: \
                 hosts that a link joins; for example {}",
                ROUTE.example
            );
            reader.report(Problem::new(fields.place("via"), what));
            continue;
        };
        if lab.routes.iter().any(|other| (other.from, other.to) == (from, to)) {
            let (from, to) = (&lab.hosts[from].name, &lab.hosts[to].name);
            let what = format!(
                "the route from {from} to {to} is given again; allowed: once; for example remove \
                 one of them"
            );
            reader.report(Problem::new(&fields.at, what));
            continue;
        }
        lab.routes.push(NextHop { from, to, link: *link });
    }
    if reader.is_good() {
        without_circles(reader, file, lab);
    }
}

/// Routes that the file sets must lead to their destination.
fn without_circles(reader: &mut Reader, file: &Fields<'_>, lab: &Lab) {
    let layout = Layout::new(lab);
    for hop in &lab.routes {
        if layout.path(lab, hop.from, hop.to).is_none() {
            let (from, to) = (&lab.hosts[hop.from].name, &lab.hosts[hop.to].name);
            let what = format!(
                "packets from {from} to {to} would never arrive: the next host sends them back; \
                 allowed: routes that lead to their destination; for example a route of that \
                 host, too"
            );
            reader.report(Problem::new(file.place("routes"), what));
        }
    }
}

/// Names are used in paths and on command lines.
fn name_is_good(reader: &mut Reader, at: &Location, what: &str, name: &str) {
    if !is_name(name) {
        let allowed =
            format!("up to {NAME_MAX} letters, digits, \"_\" and \"-\", the first one a letter");
        reader.report(Problem::value(at, what, name, &allowed, "\"east\""));
    }
}

/// Whether a laboratory or a host can have this name.
pub fn is_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(plain)
        && name.len() <= NAME_MAX
}

/// The index of a host. `None`, after a problem was reported, if the name is unknown.
fn named(
    reader: &mut Reader,
    node: &Node,
    key: &str,
    names: &Names,
    example: &str,
) -> Option<usize> {
    let text = reader.word(node, key, example)?;
    if names.is_empty() {
        // There are no hosts, and that was reported.
        return None;
    }
    if let Some(index) = names.get(text) {
        return Some(*index);
    }
    let hint = match nearest(text, names.keys().map(String::as_str)) {
        Some(near) => format!("did you mean {near:?}?"),
        None => format!("for example {example}"),
    };
    let known = names.keys().take(20).map(String::as_str).collect::<Vec<_>>().join(", ");
    let text = clipped(text);
    let what = format!("{key}: {text:?} is not a host of this file; allowed: {known}; {hint}");
    reader.report(Problem::new(&node.at, what));
    None
}

#[cfg(test)]
mod tests;
