//! Dependencies between the crates: which crate may use which.

use std::collections::BTreeMap;

use cargo_metadata::{DependencyKind, MetadataCommand};

use crate::finding::assert_none;
use crate::roots::repository;

/// What each crate may use, by directory name. A crate that is missing here may use nothing, and is
/// reported: its author must add what it may use.
const ARROWS: &[(&str, &[&str])] = &[
    ("wire", &[]),
    ("congestion", &[]),
    ("fswire", &["wire"]),
    ("lnet", &["wire"]),
    ("ptlrpc", &["wire", "fswire", "congestion", "lnet"]),
    ("ldlm", &["wire", "fswire"]),
    ("client", &["wire", "fswire", "lnet", "ptlrpc", "ldlm"]),
    ("server", &["wire", "fswire", "lnet", "ptlrpc", "ldlm"]),
    ("fs", &["wire", "fswire", "lnet", "ptlrpc", "ldlm", "client", "node"]),
    ("fuse", &["wire", "fswire", "lnet", "ptlrpc", "ldlm", "client", "node", "fs", "mem"]),
    // For tests only: no other row names it.
    ("lnet-testing", &["wire", "lnet"]),
    ("socklnd", &["wire", "lnet"]),
    ("selftest", &["wire", "congestion", "lnet"]),
    ("capture", &["wire", "fswire"]),
    // For tests only, as lnet-testing.
    ("capture-testing", &["wire", "fswire", "capture"]),
    ("tools", &["wire", "selftest", "control"]),
    ("control", &["wire", "selftest"]),
    ("metrics", &["lnet"]),
    ("yaml", &[]),
    ("mem", &[]),
    ("sys", &["mem"]),
    ("partition", &["wire", "lnet", "socklnd", "selftest"]),
    // For tests only, as lnet-testing.
    ("lnd-testing", &["wire", "lnet", "partition"]),
    ("sim", &["wire", "lnet", "socklnd", "selftest", "partition"]),
    ("document", &["yaml"]),
    ("report", &[]),
    ("tune", &[]),
    ("doctor", &["tune"]),
    ("top", &["wire", "control"]),
    ("watch", &["report"]),
    ("watch-store", &["watch"]),
    ("lab", &["document"]),
    ("lab-host", &["lab", "sys"]),
    ("trace", &["wire", "lnet", "selftest", "sim", "document", "report"]),
    ("config", &["wire", "lnet", "selftest", "partition", "document", "control"]),
    ("scenario", &["wire", "lnet", "selftest", "partition", "sim", "yaml", "document", "report"]),
    ("plan", &["wire", "lnet", "selftest", "yaml", "document", "report"]),
    (
        "node",
        &[
            "wire",
            "lnet",
            "socklnd",
            "selftest",
            "partition",
            "mem",
            "sys",
            "config",
            "control",
            "metrics",
        ],
    ),
    (
        "cli",
        &[
            "wire",
            "fswire",
            "fs",
            "fuse",
            "server",
            "lnet",
            "socklnd",
            "selftest",
            "capture",
            "tools",
            "partition",
            "sim",
            "trace",
            "scenario",
            "report",
            "plan",
            "config",
            "control",
            "lab",
            "lab-host",
            "tune",
            "doctor",
            "top",
            "watch",
            "watch-store",
            "metrics",
            "node",
            "sys",
        ],
    ),
    ("testing", &[]),
    ("xtask", &["testing"]),
];

/// What tests, examples and benches of a crate may use in addition.
const DEV_ARROWS: &[(&str, &[&str])] = &[
    ("lnet", &["lnet-testing"]),
    ("ptlrpc", &["lnet-testing"]),
    ("capture", &["capture-testing"]),
    ("client", &["capture", "capture-testing", "lnet-testing"]),
    ("server", &["capture", "capture-testing", "client", "lnet-testing", "sim"]),
    ("fs", &["config", "server", "sys"]),
    ("selftest", &["lnet-testing"]),
    ("partition", &["lnet-testing"]),
    ("sys", &["testing"]),
    ("cli", &["server", "testing"]),
    ("sim", &["capture", "capture-testing", "lnd-testing"]),
    ("tools", &["lnet", "partition"]),
    ("scenario", &["trace"]),
    ("plan", &["sim"]),
    ("metrics", &["socklnd", "yaml"]),
    (
        "xtask",
        &[
            "wire",
            "lnet",
            "lnet-testing",
            "socklnd",
            "selftest",
            "partition",
            "sim",
            "fswire",
            "ptlrpc",
            "client",
            "server",
        ],
    ),
];

/// External packages that pure crates may use: none of them does I/O, reads a clock, starts a
/// thread or draws random numbers.
const PURE_OUTSIDE: &[&str] = &[
    "bitflags",
    "bytes",
    "crc",
    // It can read a file, if asked; crates/fswire gives it bytes.
    "crc-fast",
    "crc32fast",
    "etherparse",
    "foldhash",
    "granit-parser",
    "hdrhistogram",
    "httparse",
    "prometheus-client",
    "rangemap",
    // Its widgets fill a buffer of characters; the terminal is the backend's, which cli has.
    "ratatui",
    "serde",
    "serde_json",
    "simd-adler32",
    "slotmap",
    "smallvec",
    "strsim",
    "thiserror",
    // It can read and write files of pixels, if asked; crates/report asks for bytes.
    "tiny-skia",
    "ttf-parser",
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum For {
    Shipping,
    Tests,
}

/// One line `from -> to` of a manifest.
#[derive(Clone, Debug)]
pub(crate) struct Arrow {
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) purpose: For,
}

fn allowed(table: &[(&str, &[&str])], from: &str) -> Option<Vec<String>> {
    let row = table.iter().find(|(name, _)| *name == from)?;
    Some(row.1.iter().map(|to| (*to).to_owned()).collect())
}

/// Dependencies that the tables do not allow.
fn wrong_arrows(arrows: &[Arrow]) -> Vec<String> {
    let mut wrong = Vec::new();
    for arrow in arrows {
        let Some(mut may) = allowed(ARROWS, &arrow.from) else {
            wrong.push(format!("{} is not in the table of arrows", arrow.from));
            continue;
        };
        if arrow.purpose == For::Tests {
            may.extend(allowed(DEV_ARROWS, &arrow.from).unwrap_or_default());
        }
        if !may.contains(&arrow.to) {
            wrong.push(format!("{} may not use {} ({:?})", arrow.from, arrow.to, arrow.purpose));
        }
    }
    wrong
}

/// External packages that a pure crate may not use.
fn wrong_outside(krate: &str, dependencies: &[String]) -> Vec<String> {
    let pure = crate::roots::PURE.contains(&krate);
    let unknown = dependencies.iter().filter(|name| !PURE_OUTSIDE.contains(&name.as_str()));
    unknown
        .filter(|_| pure)
        .map(|name| format!("{krate} is pure and may not use {name} (see PURE_OUTSIDE)"))
        .collect()
}

/// Directory name of a workspace package: `lustrine-wire` is `wire`.
fn room(package: &str) -> String {
    package.strip_prefix("lustrine-").unwrap_or(package).to_owned()
}

pub(crate) struct Manifests {
    pub(crate) arrows: Vec<Arrow>,
    /// External dependencies of shipped code, by crate.
    pub(crate) outside: BTreeMap<String, Vec<String>>,
}

pub(crate) fn manifests() -> Manifests {
    let metadata = MetadataCommand::new()
        .manifest_path(repository().join("Cargo.toml"))
        .no_deps()
        .exec()
        .expect("cargo metadata reads the manifests");
    let ours: Vec<String> = metadata.packages.iter().map(|p| p.name.to_string()).collect();
    let mut found = Manifests { arrows: Vec::new(), outside: BTreeMap::new() };
    for package in &metadata.packages {
        let from = room(&package.name);
        let outside = found.outside.entry(from.clone()).or_default();
        for dependency in &package.dependencies {
            let purpose = match dependency.kind {
                DependencyKind::Development => For::Tests,
                _ => For::Shipping,
            };
            if ours.contains(&dependency.name) {
                let to = room(&dependency.name);
                found.arrows.push(Arrow { from: from.clone(), to, purpose });
            } else if purpose == For::Shipping {
                outside.push(dependency.name.clone());
            }
        }
    }
    found
}

#[test]
fn crates_use_only_what_is_below_them() {
    let found = manifests();
    assert!(found.arrows.iter().any(|a| a.from == "lnet" && a.to == "wire"), "no arrows read");
    assert_none("arrows between crates", &wrong_arrows(&found.arrows));
    for name in found.outside.keys() {
        assert!(allowed(ARROWS, name).is_some(), "{name} is not in the table of arrows");
    }
}

#[test]
fn pure_crates_use_only_pure_packages() {
    let found = manifests();
    assert!(found.outside["wire"].contains(&"thiserror".to_owned()), "no dependencies read");
    let wrong: Vec<String> =
        found.outside.iter().flat_map(|(krate, names)| wrong_outside(krate, names)).collect();
    assert_none("packages of pure crates", &wrong);
}

#[test]
fn a_wrong_dependency_is_found() {
    let arrow = |from: &str, to: &str, purpose| Arrow { from: from.into(), to: to.into(), purpose };
    let wrong = wrong_arrows(&[
        arrow("lnet", "wire", For::Shipping),
        arrow("wire", "lnet", For::Shipping),
        arrow("lnet", "sys", For::Tests),
        arrow("xtask", "lnet", For::Tests),
        arrow("xtask", "lnet", For::Shipping),
        arrow("attic", "wire", For::Shipping),
    ]);
    let expected = [
        "wire may not use lnet (Shipping)",
        "lnet may not use sys (Tests)",
        "xtask may not use lnet (Shipping)",
        "attic is not in the table of arrows",
    ];
    assert_eq!(wrong, expected);
}

#[test]
fn a_package_that_touches_the_machine_is_found() {
    let names = |list: &[&str]| list.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    assert_eq!(wrong_outside("lnet", &names(&["slotmap", "tokio"])).len(), 1);
    assert!(wrong_outside("sys", &names(&["rustix"])).is_empty());
}
