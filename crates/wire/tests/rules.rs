//! The rules under `docs/protocol/`: every rule that is cited exists exactly once, and the captures
//! that the rules name exist.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// All files below `dir` with this extension.
fn files(dir: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(&dir).unwrap() {
            let entry = entry.unwrap();
            let path = entry.path();
            if entry.file_type().unwrap().is_dir() {
                dirs.push(path);
            } else if path.extension().is_some_and(|e| e == ending) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// All `[ABC-12]` in a text, without the brackets.
fn rules_in(text: &str) -> impl Iterator<Item = &str> {
    text.split('[').skip(1).filter_map(|rest| {
        let rule = rest.split(']').next()?;
        let (letters, digits) = rule.split_once('-')?;
        let letters_ok =
            (3..=6).contains(&letters.len()) && letters.bytes().all(|b| b.is_ascii_uppercase());
        let digits_ok = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
        (letters_ok && digits_ok).then_some(rule)
    })
}

/// Every rule, and the file that contains it.
fn rules() -> BTreeMap<String, PathBuf> {
    let mut rules = BTreeMap::new();
    for path in files(&repository().join("docs/protocol"), "md") {
        let text = fs::read_to_string(&path).unwrap();
        for line in text.lines().filter(|line| line.starts_with("- **[")) {
            let rule = rules_in(line).next().unwrap_or_else(|| panic!("{path:?}: {line}"));
            let before = rules.insert(rule.to_owned(), path.clone());
            assert_eq!(before, None, "{rule} stands twice, the second time in {path:?}");
        }
    }
    assert!(rules.len() > 100, "only {} rules found", rules.len());
    rules
}

#[test]
fn every_rule_cited_exists() {
    let rules = rules();
    let mut cited = BTreeSet::new();
    let docs = files(&repository().join("docs"), "md");
    let sources = files(&repository().join("crates"), "rs");
    for path in sources.iter().chain(&docs) {
        // This file has examples of citations.
        if path.ends_with("wire/tests/rules.rs") {
            continue;
        }
        let text = fs::read_to_string(path).unwrap();
        for rule in rules_in(&text) {
            assert!(rules.contains_key(rule), "{}: no rule {rule}", path.display());
            if path.extension().is_some_and(|e| e == "rs") {
                cited.insert(rule.to_owned());
            }
        }
    }
    assert!(cited.len() > 40, "only {} rules are cited by sources", cited.len());
}

#[test]
fn every_capture_named_exists() {
    let captures = repository().join("testdata/captures");
    let names: Vec<String> = files(&captures, "pcap")
        .into_iter()
        .chain(files(&captures, "xz"))
        .map(|path| path.strip_prefix(&captures).unwrap().display().to_string())
        .collect();
    let mut named = 0;
    for path in files(&repository().join("docs/protocol"), "md") {
        let text = fs::read_to_string(&path).unwrap();
        let quoted = text.split('`').skip(1).step_by(2);
        for name in quoted.filter(|name| {
            ["lnet/", "rogue/", "userland/", "fs/", "fs-c/", "fs-x/"]
                .iter()
                .any(|folder| name.starts_with(folder))
        }) {
            named += 1;
            let is_start_of = |file: &String| {
                file.strip_prefix(name).is_some_and(|rest| rest.starts_with(['.', '_']))
            };
            assert!(names.iter().any(is_start_of), "{path:?}: no capture {name}");
        }
    }
    assert!(named > 50, "only {named} captures are named");
}

#[test]
fn citations_are_recognised() {
    let found: Vec<_> = rules_in("[HDR-3] [A-1] [u8; 20] x[PING-12]] [LST-] [ABC-1x]").collect();
    assert_eq!(found, ["HDR-3", "PING-12"]);
}
