//! Paths: the repository, its crates, its files.

use std::fs;
use std::path::{Path, PathBuf};

/// Crates without I/O, clock, thread or global state.
pub(crate) const PURE: &[&str] = &[
    "wire",
    "congestion",
    "fswire",
    "lnet",
    "ptlrpc",
    "ldlm",
    "client",
    "server",
    "socklnd",
    "selftest",
    "capture",
    "tools",
    "partition",
    "sim",
    "trace",
    "scenario",
    "yaml",
    "document",
    "config",
    "control",
    "metrics",
    "report",
    "plan",
    "lab",
    "tune",
    "doctor",
    "top",
    "watch",
];

/// The other crates: those that touch the machine, and those that are for tests only.
pub(crate) const IMPURE: &[&str] = &[
    "mem",
    "sys",
    "node",
    "fs",
    "fuse",
    "lab-host",
    "watch-store",
    "cli",
    "lnet-testing",
    "lnd-testing",
    "capture-testing",
    "testing",
];

/// Directories without source of this repository, by name at any place.
const SKIPPED: [&str; 5] = [".git", "target", "testdata", "corpus", "artifacts"];

pub(crate) fn repository() -> PathBuf {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().expect("xtask stands in the repository").to_path_buf()
}

pub(crate) fn crate_dir(name: &str) -> PathBuf {
    repository().join("crates").join(name)
}

/// All files below `dir` with one of these extensions, sorted.
pub(crate) fn files_below(dir: &Path, extensions: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![dir.to_path_buf()];
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(&dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display())) {
            let path = entry.expect("a directory entry").path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_dir() {
                if !SKIPPED.contains(&name.as_str()) {
                    open.push(path);
                }
            } else if path.extension().is_some_and(|x| extensions.iter().any(|want| x == *want)) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// A path as messages show it.
pub(crate) fn shown(path: &Path) -> String {
    path.strip_prefix(repository()).unwrap_or(path).display().to_string()
}

pub(crate) fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

#[test]
fn the_repository_is_found_and_has_its_pure_crates() {
    for name in PURE {
        assert!(crate_dir(name).join("Cargo.toml").is_file(), "{name}");
    }
    let own = files_below(&repository().join("xtask"), &["rs"]);
    assert!(own.iter().any(|path| path.ends_with("tests/house/roots.rs")), "{own:?}");
}
