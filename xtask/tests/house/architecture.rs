//! Compares ARCHITECTURE.md with the repository: the drawing of the crates, their table, and the
//! files that it names.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use crate::arrows::{For, manifests};
use crate::finding::assert_none;
use crate::roots::{files_below, read, repository, shown};

const PAGE: &str = "ARCHITECTURE.md";
const BEGIN: &str = "<!-- crates -->\n```\n";
const END: &str = "```\n<!-- end of crates -->\n";

/// The dependencies of each crate, without those of tests.
type Uses = BTreeMap<String, BTreeSet<String>>;

fn uses() -> Uses {
    let found = manifests();
    let mut uses: Uses = found.outside.keys().map(|name| (name.clone(), BTreeSet::new())).collect();
    for arrow in found.arrows.iter().filter(|arrow| arrow.purpose == For::Shipping) {
        uses.entry(arrow.from.clone()).or_default().insert(arrow.to.clone());
    }
    uses
}

/// Everything that a crate reaches.
fn reached(uses: &Uses, name: &str) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    let mut open = vec![name];
    while let Some(name) = open.pop() {
        for used in uses.get(name).into_iter().flatten() {
            if all.insert(used.clone()) {
                open.push(used);
            }
        }
    }
    all
}

/// The longest path down from a crate to one without dependencies.
fn level(uses: &Uses, name: &str) -> usize {
    uses[name].iter().map(|used| 1 + level(uses, used)).max().unwrap_or(0)
}

/// A line for each crate, the lowest first: its dependencies, except those that it reaches through
/// another of them.
fn drawing(uses: &Uses) -> String {
    let mut names: Vec<&String> = uses.keys().collect();
    names.sort_by_key(|name| (level(uses, name), *name));
    let width = names.iter().map(|name| name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for name in names {
        let direct = &uses[name];
        let through: BTreeSet<String> =
            direct.iter().flat_map(|used| reached(uses, used)).collect();
        let rest: Vec<&str> = direct.difference(&through).map(String::as_str).collect();
        let line = match rest.is_empty() {
            true => name.clone(),
            false => format!("{name:width$} -> {}", rest.join(", ")),
        };
        text += &format!("{line}\n");
    }
    text
}

/// The part of the page between the marks, if it has both.
fn drawn(page: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = page.split_once(BEGIN)?;
    let (drawn, after) = rest.split_once(END)?;
    Some((before, drawn, after))
}

/// The texts in backticks of a line.
fn quoted(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// Whether a text in backticks is the path of a file or a directory. `<command>.rs` stands for
/// many.
fn is_path(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    text.chars().all(plain) && (text.contains('/') || text.ends_with(".rs"))
}

/// Paths that do not exist. A path is from the root of the repository; or, in a line that names
/// such a path, the end of the path of a file in the same crate.
fn missing(page: &str, files: &[String]) -> Vec<String> {
    let mut missing = Vec::new();
    for (at, line) in page.lines().enumerate() {
        let paths: Vec<&str> = quoted(line).filter(|text| is_path(text)).collect();
        let mut rooms: Vec<String> = paths.iter().filter_map(|path| room(path)).collect();
        // "... of `lnet`, ... of `socklnd`"
        rooms.extend(quoted(line).map(|name| format!("crates/{name}/")));
        for path in paths {
            let folder = format!("{}/", path.trim_end_matches('/'));
            let whole = |file: &String| file == path || file.starts_with(&folder);
            let end = format!("/{path}");
            let in_room = |file: &String| {
                rooms.iter().any(|room| file.starts_with(room.as_str()))
                    && (file.ends_with(&end) || file.contains(&format!("{end}/")))
            };
            if !files.iter().any(|file| whole(file) || in_room(file)) {
                missing.push(format!("{PAGE}:{}: {path} does not exist", at + 1));
            }
        }
    }
    missing
}

/// The crate of a path: `crates/lnet/`.
fn room(path: &str) -> Option<String> {
    let mut parts = path.split('/');
    match (parts.next()?, parts.next()) {
        ("crates", Some(name)) => Some(format!("crates/{name}/")),
        ("xtask", Some(_)) => Some("xtask/".to_owned()),
        _ => None,
    }
}

#[test]
fn the_drawing_matches_the_manifests() {
    let path = repository().join(PAGE);
    let (page, right) = (read(&path), drawing(&uses()));
    let (before, found, after) =
        drawn(&page).unwrap_or_else(|| panic!("{PAGE} has no {BEGIN:?} and {END:?}"));
    if found != right && std::env::var_os("UPDATE_DOCS").is_some_and(|value| value == "1") {
        let page = format!("{before}{BEGIN}{right}{END}{after}");
        return fs::write(&path, page).expect("the page can be written");
    }
    assert!(
        found == right,
        "the crates of {PAGE} are not those of the manifests; this is right, and UPDATE_DOCS=1 \
         writes it:\n{right}"
    );
}

#[test]
fn every_crate_has_its_row() {
    let page = read(&repository().join(PAGE));
    let missing: Vec<String> = uses()
        .into_keys()
        .filter(|name| !page.contains(&format!("\n| `{name}` | ")))
        .map(|name| format!("{PAGE} has no row for the crate {name}"))
        .collect();
    assert_none("crates in ARCHITECTURE.md", &missing);
}

#[test]
fn every_file_it_names_exists() {
    let files: Vec<String> = files_below(&repository(), &["rs", "md", "yaml", "toml", "json"])
        .iter()
        .map(|path| shown(path))
        .collect();
    assert!(files.len() > 300, "only {} files seen", files.len());
    assert_none("files in ARCHITECTURE.md", &missing(&read(&repository().join(PAGE)), &files));
}

#[test]
fn the_drawing_leaves_out_indirect_dependencies() {
    let uses: Uses = [("a", &["b", "c"][..]), ("b", &["c"]), ("c", &[]), ("other", &[])]
        .map(|(name, used)| (name.to_owned(), used.iter().map(|used| (*used).to_owned()).collect()))
        .into();
    assert_eq!(drawing(&uses), "c\nother\nb     -> c\na     -> b\n");
}

#[test]
fn a_missing_file_is_found() {
    let files = ["crates/lnet/src/peer/merge.rs", "docs/lst.md"].map(str::to_owned);
    let page = "see `docs/lst.md` and `crates/lnet/src/peer`, `merge.rs`, `peer/merge.rs`\n\
                `crates/lnet/src/gone.rs`, `other.rs`; `x/y z`, `<command>.rs`\n\
                `merge.rs` of `lnet`\n\
                `merge.rs`\n";
    let found = missing(page, &files);
    let gone = ["2: crates/lnet/src/gone.rs", "2: other.rs", "4: merge.rs"];
    let expected = gone.map(|place| format!("{PAGE}:{place} does not exist"));
    assert_eq!(found, expected);
}
