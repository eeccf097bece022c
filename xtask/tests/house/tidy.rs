//! The format of files: ASCII, 100 columns, limited length, nothing unfinished, no paths of one
//! machine.

use std::path::Path;

use crate::finding::{Finding, assert_none};
use crate::roots::{files_below, read, repository, shown};
use crate::tokens::{self, Token};

const COLUMNS_MAX: usize = 100;
const LINES_MAX: usize = 700;

/// Macros that mark something unfinished or forgotten.
const UNFINISHED: [&str; 3] = ["todo", "unimplemented", "dbg"];

/// Beginnings of paths that exist on one machine only; assembled here, so that this file is clean.
const MACHINES: [&str; 3] = [concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/ho", "me/")];

/// How a test would print that it did not run, so that it would not be counted.
const UNCOUNTED: &str = concat!("println!(\"sk", "ipped");

/// Checks of Rust source.
fn rust_findings(text: &str) -> Vec<Finding> {
    let mut found = text_findings(text);
    for (at, line) in text.lines().enumerate() {
        if let Some(odd) = line.chars().find(|c| !c.is_ascii()) {
            found.push(Finding::new(at + 1, format!("{odd:?} is not ASCII")));
        }
        let columns = line.chars().count();
        if columns > COLUMNS_MAX {
            found.push(Finding::new(at + 1, format!("{columns} columns, {COLUMNS_MAX} at most")));
        }
        if line.contains('\t') {
            found.push(Finding::new(at + 1, "a tab"));
        }
        if line.contains(UNCOUNTED) {
            let what = "tests that do not run are counted: lustrine_testing::not_run";
            found.push(Finding::new(at + 1, what));
        }
    }
    let tokens = tokens::of_file(text);
    for pair in tokens.windows(2) {
        if let (Token::Word(name), Token::Other('!')) = (&pair[0].token, &pair[1].token)
            && UNFINISHED.contains(&name.as_str())
        {
            found.push(Finding::new(pair[0].line, format!("{name}!")));
        }
    }
    found
}

/// Checks of every text file.
fn text_findings(text: &str) -> Vec<Finding> {
    let mut found = Vec::new();
    for (at, line) in text.lines().enumerate() {
        if let Some(path) = MACHINES.iter().find(|path| line.contains(**path)) {
            found.push(Finding::new(at + 1, format!("{path} is a path of one machine")));
        }
        if line.ends_with([' ', '\t']) {
            found.push(Finding::new(at + 1, "blanks at the end of the line"));
        }
    }
    found
}

fn length_findings(text: &str) -> Vec<Finding> {
    let lines = text.lines().count();
    if lines <= LINES_MAX {
        return Vec::new();
    }
    vec![Finding::new(0, format!("{lines} lines, {LINES_MAX} at most: split it"))]
}

fn check(path: &Path, found: impl Fn(&str) -> Vec<Finding>, all: &mut Vec<String>) {
    let found = found(&read(path));
    all.extend(found.iter().map(|finding| format!("{}:{finding}", shown(path))));
}

#[test]
fn rust_source_is_tidy() {
    let files = files_below(&repository(), &["rs"]);
    assert!(files.len() > 50, "only {} files seen", files.len());
    let mut all = Vec::new();
    files.iter().for_each(|path| check(path, rust_findings, &mut all));
    assert_none("tidy", &all);
}

#[test]
fn texts_name_no_machine() {
    let files = files_below(&repository(), &["toml", "md", "sh", "json", "yaml", "yml", "txt"]);
    let mut all = Vec::new();
    files.iter().for_each(|path| check(path, text_findings, &mut all));
    // A Markdown line may end in two blanks, which are a line break.
    all.retain(|finding| !(finding.contains(".md:") && finding.contains("blanks")));
    assert_none("texts", &all);
}

#[test]
fn no_file_of_a_crate_is_too_long() {
    let mut all = Vec::new();
    for path in files_below(&repository().join("crates"), &["rs"]) {
        check(&path, length_findings, &mut all);
    }
    assert_none("length", &all);
}

#[test]
fn each_untidiness_is_found() {
    let long = format!("// {}", "x".repeat(COLUMNS_MAX));
    let home = format!("// see {}me", MACHINES[2]);
    let untidy = [
        "// caf\u{e9}",
        long.as_str(),
        home.as_str(),
        "fn f() { \t}",
        "fn f() {} ",
        "fn f() { todo!() }",
        "fn f() { vec![std::unimplemented!(\"later\")] }",
        "fn f() { dbg!(1); }",
        concat!("fn f() { println!(\"sk", "ipped: no root\") }"),
    ];
    for source in untidy {
        assert_eq!(rust_findings(source).len(), 1, "{source:?}");
    }
    assert!(rust_findings("// todo, dbg\nfn f() { \"todo!\"; todo }").is_empty());
    assert_eq!(length_findings(&"\n".repeat(LINES_MAX + 1)).len(), 1);
    assert!(length_findings(&"\n".repeat(LINES_MAX)).is_empty());
}
