//! Captures of whole file systems: every request and every reply of the RPC layer is decoded to
//! values, and these encode to the bytes they came from; checksums of all data are correct.
//!
//! `testdata/captures/rpc-counts.txt` lists how many of each kind are in each capture, so that no
//! test passes by finding nothing. Regenerate it with
//! `LUSTRINE_BLESS=1 cargo test -p lustrine-capture --test fs`, and review the difference.

mod check;
mod data;
#[allow(dead_code, reason = "other tests use the rest")]
#[path = "../support/mod.rs"]
mod support;

use std::collections::BTreeMap;

use lustrine_capture_testing::{capture, dissect, folder, name_of, read};
use support::encode;

const TABLE: &str = "rpc-counts.txt";

/// What one capture holds: the name of a kind, and how many there are.
type Counts = BTreeMap<String, usize>;

fn line(counts: &Counts) -> String {
    let words: Vec<_> =
        counts.iter().map(|(name, n)| format!("{}={n}", name.replace(' ', ":"))).collect();
    words.join(" ")
}

fn expected() -> BTreeMap<String, String> {
    let text = std::fs::read_to_string(capture(TABLE)).unwrap_or_default();
    text.lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.split_once(": ").unwrap())
        .map(|(key, counts)| (key.to_owned(), counts.to_owned()))
        .collect()
}

fn is_blessing() -> bool {
    std::env::var_os("LUSTRINE_BLESS").is_some()
}

/// The captures of a folder, with what each holds.
fn check_folder(name: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let only = std::env::var("LUSTRINE_CAPTURE").ok();
    for path in folder(name) {
        let capture = name_of(&path);
        if only.as_ref().is_some_and(|only| *only != capture) {
            continue;
        }
        let events = dissect(&read(&path));
        for event in &events {
            if let Some(bytes) = encode(event) {
                assert_eq!(bytes, event.raw, "{capture}: {:?}", event.item);
            }
        }
        let counts = check::capture(&capture, &events);
        found.insert(format!("{name}/{capture}"), line(&counts));
    }
    let expected: BTreeMap<_, _> = expected()
        .into_iter()
        .filter(|(key, _)| key.split_once('/').is_some_and(|(folder, _)| folder == name))
        .filter(|(key, _)| only.as_ref().is_none_or(|only| key.ends_with(only.as_str())))
        .collect();
    if !is_blessing() {
        for (key, counts) in &found {
            assert_eq!(Some(counts), expected.get(key), "{key}");
        }
        assert_eq!(found.len(), expected.len(), "captures in {name}");
    }
    found
}

#[test]
fn fs() {
    bless("fs", check_folder("fs"));
}

#[test]
fn fs_c() {
    bless("fs-c", check_folder("fs-c"));
}

#[test]
fn fs_x() {
    bless("fs-x", check_folder("fs-x"));
}

/// Writes the lines of one folder to the table, if that is wanted.
fn bless(folder: &str, found: BTreeMap<String, String>) {
    static TABLE_LOCK: std::sync::Mutex<()> = std::sync::Mutex::new(());
    if !is_blessing() {
        return;
    }
    let _one_at_a_time = TABLE_LOCK.lock();
    let mut all = expected();
    all.retain(|key, _| key.split_once('/').is_none_or(|(name, _)| name != folder));
    all.extend(found);
    let mut text = String::from("# Requests, replies and bulk of the RPC layer; see tests/fs.\n");
    all.iter().for_each(|(key, counts)| text.push_str(&format!("{key}: {counts}\n")));
    std::fs::write(capture(TABLE), text).unwrap();
}
