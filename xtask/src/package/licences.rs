//! The licences of everything that is linked into the program.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::build::Libc;
use crate::process;
use crate::repository::cargo;

const ASK_MAX: Duration = Duration::from_secs(120);

/// Debian's file of licences: the program's own, then those of the crates that it contains, each
/// text once.
pub(super) fn copyright(own: &str, libc: Libc) -> Result<String> {
    let linked = linked()?;
    let metadata = ask(&["metadata", "--format-version", "1", "--locked"])?;
    let metadata: Value = serde_json::from_str(&metadata).context("cargo metadata")?;
    let packages = metadata["packages"].as_array().context("cargo metadata lists no packages")?;
    let mut rows = String::new();
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut listed = 0;
    for package in packages {
        let word = |key: &str| package[key].as_str().unwrap_or_default();
        let name = format!("{} {}", word("name"), word("version"));
        if package["source"].is_null() || !linked.contains(&name) {
            continue;
        }
        listed += 1;
        writeln!(rows, "{name}: {}", package["license"].as_str().unwrap_or("see its text"))?;
        let dir = Path::new(word("manifest_path")).parent().context("a manifest has a place")?;
        let found = licence_texts(dir)?;
        if found.is_empty() {
            // The text of Apache-2.0 is in the package as Lustrine's own.
            let offered = package["license"].as_str().unwrap_or_default();
            ensure!(
                offered.contains("Apache-2.0"),
                "{name} ({offered}) has no text of its licence"
            );
            writeln!(rows, "  (without a text of its own: under Apache-2.0, LICENSE-APACHE)")?;
        }
        for text in found {
            texts.entry(text).or_default().push(name.clone());
        }
    }
    ensure!(listed > 0, "no crate is linked into the program");
    let libc = match libc {
        Libc::Musl => "The C library musl, under the MIT licence",
        Libc::Glibc => {
            "The GNU C library, under the LGPL 2.1 or later: /usr/share/common-licenses/LGPL-2.1.\n\
             Its source is that of the system on which this program was built; Lustrine's source\n\
             and `cargo xtask package` link the program again with a changed library"
        }
    };
    let mut text = format!(
        "Lustrine is licensed under MIT or Apache-2.0, at your option; LICENSE-MIT and\n\
         LICENSE-APACHE are beside this file. It contains no part of Lustre.\n\n{own}\n\
         The program contains these works of others:\n\n\
         {libc}.\nThe Rust standard library, under MIT or Apache-2.0.\n\
         Letters of the font Roboto, copyright 2015 Google, under Apache-2.0.\n{rows}"
    );
    for (licence, names) in texts {
        write!(text, "\n{}\n{}:\n\n{licence}\n", "-".repeat(72), names.join(", "))?;
    }
    Ok(text)
}

/// Name and version of each crate that is linked into the program.
fn linked() -> Result<BTreeSet<String>> {
    let tree = ask(&[
        "tree",
        "--locked",
        "--package",
        "lustrine-cli",
        "--edges",
        "normal",
        "--prefix",
        "none",
        "--format",
        "{p}",
    ])?;
    Ok(tree.lines().filter_map(name_and_version).collect())
}

/// `name v1.2.3 (..)` as `name 1.2.3`.
fn name_and_version(line: &str) -> Option<String> {
    let mut words = line.split_whitespace();
    let (name, version) = (words.next()?, words.next()?.strip_prefix('v')?);
    Some(format!("{name} {version}"))
}

/// The texts of a crate's licences.
fn licence_texts(dir: &Path) -> Result<Vec<String>> {
    let mut texts = Vec::new();
    for entry in fs::read_dir(dir).with_context(|| dir.display().to_string())? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
        let about_licences = ["LICENSE", "LICENCE", "COPYING", "NOTICE", "UNLICENSE"];
        if path.is_file() && about_licences.iter().any(|word| name.starts_with(word)) {
            texts.push(fs::read_to_string(&path).with_context(|| path.display().to_string())?);
        }
    }
    Ok(texts)
}

fn ask(args: &[&str]) -> Result<String> {
    process::capture(cargo().args(args), ASK_MAX)?.output(&format!("cargo {}", args[0]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crates_are_named_with_their_version() {
        let named = |line| name_and_version(line).unwrap_or_default();
        assert_eq!(named("libc v0.2.1"), "libc 0.2.1");
        assert_eq!(named("lustrine-cli v0.1.0 (/somewhere)"), "lustrine-cli 0.1.0");
        assert_eq!(named(""), "");
    }

    #[test]
    fn the_licences_of_linked_crates_are_told_and_those_of_tests_are_not() {
        let text = copyright("own licence", Libc::Musl).expect("cargo describes the workspace");
        assert!(text.contains("own licence") && text.contains("\nclap 4."), "{text}");
        assert!(text.contains("Permission is hereby granted, free of charge"));
        assert!(!text.contains("\nproptest 1"), "a crate of tests");
        assert!(!text.contains("lustrine-wire"), "a crate of this tree");
    }
}
