//! `unsafe` occurs in `mem` and `sys` only, tests included.

use crate::finding::{Finding, assert_none};
use crate::roots::{PURE, files_below, read, repository, shown};
use crate::shipped::shipped;
use crate::tokens;

/// Crates that may use `unsafe`.
const UNSAFE: [&str; 2] = ["mem", "sys"];

fn unsafe_words(text: &str) -> Vec<Finding> {
    let tokens = tokens::of_file(text);
    let words = tokens.iter().filter(|placed| placed.is_word("unsafe"));
    words.map(|placed| Finding::new(placed.line, "unsafe outside mem and sys")).collect()
}

/// Whether a crate's root has `#![forbid(unsafe_code)]`.
fn forbids_unsafe(root: &syn::File) -> bool {
    root.attrs.iter().any(|attribute| {
        let syn::Meta::List(list) = &attribute.meta else { return false };
        list.path.is_ident("forbid") && list.tokens.to_string() == "unsafe_code"
    })
}

#[test]
fn unsafe_occurs_only_in_its_crates() {
    let mut findings = Vec::new();
    let mut unsafe_seen = false;
    for path in files_below(&repository(), &["rs"]) {
        let found = unsafe_words(&read(&path));
        let its_room =
            UNSAFE.iter().any(|name| path.starts_with(repository().join("crates").join(name)));
        unsafe_seen |= its_room && !found.is_empty();
        if !its_room {
            findings.extend(found.iter().map(|finding| format!("{}:{finding}", shown(&path))));
        }
    }
    assert!(unsafe_seen, "not even mem and sys say unsafe: this test sees nothing");
    assert_none("unsafe", &findings);
}

#[test]
fn pure_crates_forbid_unsafe_code() {
    for krate in PURE {
        let sources = shipped(krate);
        let root = sources.iter().find(|source| source.path.ends_with("src/lib.rs"));
        assert!(forbids_unsafe(&root.expect("a root").ast), "{krate} does not forbid unsafe_code");
    }
}

#[test]
fn unsafe_is_found_in_code_and_macros_but_not_in_text() {
    assert_eq!(unsafe_words("fn f() { unsafe { g() } }").len(), 1);
    assert_eq!(unsafe_words("m! { unsafe impl Send for X {} }").len(), 1);
    assert_eq!(unsafe_words("// unsafe\nfn f() { \"unsafe\"; unsafe_code }").len(), 0);
    let root = |text| syn::parse_file(text).expect("a file");
    assert!(forbids_unsafe(&root("#![forbid(unsafe_code)]")));
    assert!(!forbids_unsafe(&root("#![deny(unsafe_code)]")));
}
