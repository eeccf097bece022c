//! No circles among the modules of a directory: a module can be read with what it uses. Paths that
//! name a module count, in `use` and elsewhere; what a parent re-exports counts as the parent's.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::finding::assert_none;
use crate::roots::{crate_dir, files_below, read, repository, shown};

/// What each module of a directory names of the others.
type Graph = BTreeMap<String, BTreeSet<String>>;

/// The graph of the modules in a directory below `src`. They name each other with `crate::` and the
/// path of the directory, or with as many `super::` as lead there.
fn graph(src: &Path, dir: &Path) -> Graph {
    let files = files_below(dir, &["rs"]);
    let module = |path: &Path| {
        let inside = path.strip_prefix(dir).expect("a file of the directory");
        let first = inside.iter().next().expect("a name").to_string_lossy().into_owned();
        (first.trim_end_matches(".rs").to_owned(), inside.iter().count())
    };
    let siblings: BTreeSet<String> = files.iter().map(|path| module(path).0).collect();
    let place = dir.strip_prefix(src).expect("a directory of the crate");
    let from_crate = place.iter().fold("crate::".to_owned(), |path, name| {
        let name = name.to_string_lossy();
        format!("{path}{name}::")
    });
    let mut graph = Graph::new();
    for path in &files {
        let (own, depth) = module(path);
        let inside = path.strip_prefix(src).expect("a file of the crate");
        let tests = inside.iter().any(|part| part == "tests" || part == "tests.rs");
        if tests || own == "lib" || own == "main" {
            continue;
        }
        let code = without_comments(without_tests(&read(path)));
        let named = graph.entry(own.clone()).or_default();
        named.extend(names(&code, &from_crate));
        named.extend(names(&code, &"super::".repeat(depth)));
        named.retain(|name| *name != own && siblings.contains(name));
    }
    graph
}

/// All directories with modules, the top of the crate first.
fn directories(src: &Path) -> BTreeSet<PathBuf> {
    let files = files_below(src, &["rs"]);
    let above = files.iter().flat_map(|path| path.ancestors().skip(1));
    above.filter(|dir| dir.starts_with(src)).map(Path::to_owned).collect()
}

/// The code up to an inline module of tests. One in a file of its own is a line among others.
fn without_tests(text: &str) -> &str {
    let inline = text.match_indices("#[cfg(test)]\nmod ").map(|(at, _)| at).find(|at| {
        let line = text[*at..].lines().nth(1).unwrap_or_default();
        line.ends_with('{')
    });
    &text[..inline.unwrap_or(text.len())]
}

/// The code alone: a link in a comment is no import.
fn without_comments(text: &str) -> String {
    let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    code.fold(String::new(), |all, line| all + line + "\n")
}

/// The names behind a prefix, also those in braces.
fn names(code: &str, prefix: &str) -> Vec<String> {
    let mut found = Vec::new();
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    for (at, _) in code.match_indices(prefix) {
        if code[..at].chars().next_back().is_some_and(|c| is_word(c) || c == ':') {
            continue;
        }
        let rest = &code[at + prefix.len()..];
        match rest.strip_prefix('{') {
            Some(inside) => found.extend(first_names(inside)),
            None => found.push(rest.split(|c| !is_word(c)).next().unwrap_or_default().to_owned()),
        }
    }
    found
}

/// The first name of each part of a list in braces, up to its end; parts may have braces too.
fn first_names(inside: &str) -> Vec<String> {
    let (mut found, mut part, mut depth) = (Vec::new(), String::new(), 0_u32);
    for c in inside.chars() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => found.push(std::mem::take(&mut part)),
            _ => {}
        }
        if c != ',' || depth > 0 {
            part.push(c);
        }
    }
    found.push(part);
    let first = |part: &String| part.trim().split("::").next().unwrap_or_default().to_owned();
    found.iter().map(first).filter(|name| !name.is_empty()).collect()
}

/// The modules that can be reached from each other.
fn circles(graph: &Graph) -> Vec<BTreeSet<String>> {
    let reached = |from: &String| {
        let (mut seen, mut open) = (BTreeSet::new(), vec![from]);
        while let Some(module) = open.pop() {
            for next in graph.get(module).into_iter().flatten() {
                if seen.insert(next.clone()) {
                    open.push(next);
                }
            }
        }
        seen
    };
    let reach: BTreeMap<&String, BTreeSet<String>> =
        graph.keys().map(|module| (module, reached(module))).collect();
    let mut found: Vec<BTreeSet<String>> = Vec::new();
    for (module, there) in &reach {
        if there.contains(*module) && !found.iter().any(|circle| circle.contains(*module)) {
            let back = |other: &&String| reach.get(other).is_some_and(|o| o.contains(*module));
            found.push(there.iter().filter(back).cloned().collect());
        }
    }
    found
}

#[test]
fn modules_form_no_circles() {
    let crates = std::fs::read_dir(repository().join("crates")).expect("the crates");
    let sources = crates.map(|entry| {
        let name = entry.expect("a directory entry").file_name();
        crate_dir(&name.to_string_lossy()).join("src")
    });
    let mut findings = Vec::new();
    for src in sources.chain([repository().join("xtask/src")]) {
        for dir in directories(&src) {
            for circle in circles(&graph(&src, &dir)) {
                let circle = circle.into_iter().collect::<Vec<_>>().join(" ");
                findings.push(format!("{}: {circle} name each other", shown(&dir)));
            }
        }
    }
    assert_none("circles of modules", &findings);
}

#[test]
fn a_circle_is_found() {
    let uses = |pairs: &[(&str, &[&str])]| -> Graph {
        let names = |list: &[&str]| list.iter().map(|name| (*name).to_owned()).collect();
        pairs.iter().map(|(module, list)| ((*module).to_owned(), names(list))).collect()
    };
    assert_eq!(circles(&uses(&[("a", &["b", "c"]), ("b", &["c"]), ("c", &[])])), []);
    let found = circles(&uses(&[("a", &["b"]), ("b", &["c"]), ("c", &["b"]), ("d", &["a"])]));
    assert_eq!(found, [["b", "c"].map(str::to_owned).into()]);
    let code = "use crate::one::X;\nuse crate::{two::Y, three};\nfn f() { other_crate::four() }";
    assert_eq!(names(code, "crate::"), ["one", "two", "three"]);
    let code = "use crate::{one::{X, Y}, two::{Z, three::{A}}, four,};\nuse super::super::five::B;";
    assert_eq!(names(code, "crate::"), ["one", "two", "four"]);
    assert_eq!(names(code, "super::super::"), ["five"]);
    let text = "/// As [`X`](crate::one::X).\nuse crate::two::Y;";
    assert_eq!(names(&without_comments(text), "crate::"), ["two"]);
}

#[test]
fn the_graph_of_a_directory_has_each_way_to_name_a_module() {
    let dir = tempfile::tempdir().expect("a directory");
    let write = |name: &str, text: &str| {
        let file = dir.path().join(name);
        std::fs::create_dir_all(file.parent().expect("a directory")).expect("a directory");
        std::fs::write(file, text).expect("a file");
    };
    write("top.rs", "mod one;\n#[cfg(test)]\nmod tests;\nuse crate::other::X;\n");
    write("other.rs", "fn f() {}\n#[cfg(test)]\nmod tests {\n    use crate::top::Y;\n}\n");
    write("top/one.rs", "#[cfg(test)]\nmod tests;\n\nuse super::two::X;\n");
    write("top/two/deep.rs", "fn f() { crate::top::three::g() }\n");
    write("top/three.rs", "use super::{one::A, two};\n");
    write("top/tests.rs", "use super::one::A;\n");
    let (src, top) = (dir.path(), dir.path().join("top"));
    assert_eq!(directories(src).len(), 3);
    let graph_of = |dir: &Path| -> Vec<(String, Vec<String>)> {
        let graph = graph(src, dir).into_iter();
        graph.map(|(module, uses)| (module, uses.into_iter().collect())).collect()
    };
    let row = |module: &str, uses: &[&str]| {
        (module.to_owned(), uses.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())
    };
    assert_eq!(graph_of(src), [row("other", &[]), row("top", &["other"])]);
    let expected = [row("one", &["two"]), row("three", &["one", "two"]), row("two", &["three"])];
    assert_eq!(graph_of(&top), expected);
    assert_eq!(circles(&graph(src, &top)), [["one", "three", "two"].map(str::to_owned).into()]);
}
