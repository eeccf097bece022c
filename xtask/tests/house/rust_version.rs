//! No package of a build for Linux asks for a later Rust than our manifests promise.

use cargo_metadata::semver::Version;
use cargo_metadata::{Metadata, MetadataCommand};

use crate::finding::assert_none;
use crate::roots::repository;

/// Packages that need a later Rust than ours.
fn too_new(ours: &Version, packages: &[(String, Version)]) -> Vec<String> {
    let later = packages.iter().filter(|(_, needed)| needed > ours);
    later.map(|(name, needed)| format!("{name} needs Rust {needed}, and ours is {ours}")).collect()
}

/// All packages of a build for Linux.
fn metadata() -> Metadata {
    let options = ["--locked", "--filter-platform", "x86_64-unknown-linux-gnu"];
    MetadataCommand::new()
        .manifest_path(repository().join("Cargo.toml"))
        .other_options(options.map(str::to_owned))
        .exec()
        .expect("cargo metadata reads the manifests")
}

#[test]
fn no_package_asks_for_a_later_rust() {
    let metadata = metadata();
    let own = metadata.packages.iter().find(|package| package.name.as_str() == "lustrine-cli");
    let ours = own.and_then(|own| own.rust_version.clone()).expect("a version in the manifest");
    let used = |package: &cargo_metadata::Package| {
        let resolved = metadata.resolve.as_ref().expect("a resolved graph");
        resolved.nodes.iter().any(|node| node.id == package.id)
    };
    let packages: Vec<(String, Version)> = metadata
        .packages
        .iter()
        .filter(|package| used(package))
        .filter_map(|package| Some((package.name.to_string(), package.rust_version.clone()?)))
        .collect();
    assert!(packages.len() > 50, "few packages name their Rust: {}", packages.len());
    assert_none("packages that need a later Rust", &too_new(&ours, &packages));
}

#[test]
fn a_package_that_needs_a_later_rust_is_found() {
    let needs = |name: &str, minor| (name.to_owned(), Version::new(1, minor, 0));
    let found = too_new(&Version::new(1, 88, 0), &[needs("old", 60), needs("new", 89)]);
    assert_eq!(found, ["new needs Rust 1.89.0, and ours is 1.88.0"]);
}
