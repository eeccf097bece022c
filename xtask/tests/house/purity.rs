//! What a pure crate may not touch: clock, threads, sockets, files, process, environment, locks,
//! `async`, output, and hash maps seeded at random.
//!
//! The check needs no name resolution: `std` and `core` may not be renamed or glob-imported (that
//! is itself a finding), so code that uses `std::time` must spell it in a `use`, in a path or in a
//! macro's body, and all three are read here. The table of packages in `arrows` excludes external
//! packages that could re-export such things.

use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Attribute, UseTree};

use crate::finding::{Finding, assert_none};
use crate::hashing;
use crate::roots::{IMPURE, PURE, repository, shown};
use crate::shipped::{only_in_tests, shipped};
use crate::tokens;

/// Modules of `std` that touch the machine, and what to use instead.
const MODULES: [(&str, &str); 12] = [
    ("std::time", "time is an argument: lnet::time; core::time::Duration is fine"),
    ("std::thread", "no threads in a pure crate"),
    ("std::net", "core::net has the address types"),
    ("std::fs", "no files in a pure crate"),
    ("std::io", "results are values; drivers do I/O"),
    ("std::process", "no processes in a pure crate"),
    ("std::env", "settings come as arguments"),
    ("std::os", "nothing of a particular system"),
    ("std::path", "no files in a pure crate"),
    ("std::sync", "no locks, no atomics: one owner per datum"),
    ("core::sync", "no locks, no atomics: one owner per datum"),
    ("alloc::sync", "no locks, no atomics: one owner per datum"),
];

/// Exceptions to [`MODULES`].
const FINE: [&str; 2] = ["std::sync::Arc", "alloc::sync::Arc"];

/// Names that mean a clock or a random seed from any source.
const NAMES: [&str; 4] = ["Instant", "SystemTime", "RandomState", "DefaultHasher"];

/// Macros that print, or make global state.
const MACROS: [&str; 5] = ["print", "println", "eprint", "eprintln", "thread_local"];

/// The findings of one file.
pub(crate) fn findings(ast: &syn::File) -> Vec<Finding> {
    let mut reader = Reader { findings: Vec::new() };
    reader.visit_file(ast);
    reader.findings.sort();
    reader.findings.dedup();
    reader.findings
}

struct Reader {
    findings: Vec<Finding>,
}

impl Reader {
    fn found(&mut self, line: usize, what: impl Into<String>) {
        self.findings.push(Finding::new(line, what));
    }

    /// A path as it is written in a `use`, an expression, a type or a macro.
    fn path(&mut self, path: &[String], line: usize) {
        let joined = path.join("::");
        let below = |module: &str| {
            joined == module || joined.strip_prefix(module).is_some_and(|r| r.starts_with("::"))
        };
        if !FINE.iter().any(|fine| below(fine)) {
            for (module, instead) in MODULES {
                if below(module) {
                    self.found(line, format!("{joined}: {instead}"));
                }
            }
        }
        for name in NAMES {
            if path.iter().any(|segment| segment == name) {
                self.found(line, format!("{joined}: no clock, no random seed"));
            }
        }
        if let Some(what) = hashing::seeded_at_random(path) {
            self.found(line, what);
        }
    }

    /// Each leaf of a `use` tree as a path; anything that could hide the name of a root is a
    /// finding.
    fn use_tree(&mut self, tree: &UseTree, before: &[String]) {
        let line = tree.span().start().line;
        let with = |ident: &syn::Ident| {
            let mut path = before.to_vec();
            if ident != "self" {
                path.push(ident.to_string());
            }
            path
        };
        match tree {
            UseTree::Path(path) => self.use_tree(&path.tree, &with(&path.ident)),
            UseTree::Group(group) => {
                group.items.iter().for_each(|tree| self.use_tree(tree, before));
            }
            UseTree::Name(name) => self.use_leaf(&with(&name.ident), line),
            UseTree::Rename(rename) => {
                let path = with(&rename.ident);
                if path.last().is_some_and(|last| hashing::is_hash_collection(last)) {
                    self.found(line, "do not rename hash maps: the checks recognise them by name");
                }
                self.use_leaf(&path, line);
            }
            UseTree::Glob(_) => self.use_leaf(before, line),
        }
    }

    fn use_leaf(&mut self, path: &[String], line: usize) {
        if let [root] = path
            && ["std", "core", "alloc"].contains(&root.as_str())
        {
            self.found(line, format!("`use` of {root} as a whole hides what is used of it"));
        }
        self.path(path, line);
    }

    fn macro_body(&mut self, body: proc_macro2::TokenStream) {
        let tokens = tokens::flat(body.clone());
        for (path, line) in tokens::paths(&tokens) {
            self.path(&path, line);
            for word in ["async", "await"] {
                if path.iter().any(|segment| segment == word) {
                    self.found(line, "no async in a pure crate");
                }
            }
        }
        for line in hashing::short_argument_lists(&tokens) {
            self.found(line, hashing::DEFAULT_HASHER);
        }
        for pair in tokens.windows(2) {
            if let (tokens::Token::Word(name), tokens::Token::Other('!')) =
                (&pair[0].token, &pair[1].token)
            {
                self.macro_name(name, pair[0].line);
            }
        }
    }

    fn macro_name(&mut self, name: &str, line: usize) {
        if MACROS.contains(&name) {
            self.found(line, format!("{name}! in a pure crate"));
        }
    }
}

fn attributes_of(item: &syn::Item) -> &[Attribute] {
    use syn::Item;
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

impl<'ast> Visit<'ast> for Reader {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if !only_in_tests(attributes_of(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !only_in_tests(&item.attrs) {
            visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.use_tree(&item.tree, &[]);
    }

    fn visit_item_extern_crate(&mut self, item: &'ast syn::ItemExternCrate) {
        let line = item.span().start().line;
        self.found(line, "extern crate hides what is used of it");
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments: Vec<String> = path.segments.iter().map(|s| s.ident.to_string()).collect();
        let line = path.span().start().line;
        self.path(&segments, line);
        if hashing::has_default_hasher(path) {
            self.found(line, hashing::DEFAULT_HASHER);
        }
        visit::visit_path(self, path);
    }

    fn visit_signature(&mut self, signature: &'ast syn::Signature) {
        if let Some(word) = &signature.asyncness {
            self.found(word.span.start().line, "no async in a pure crate");
        }
        visit::visit_signature(self, signature);
    }

    fn visit_expr_async(&mut self, expr: &'ast syn::ExprAsync) {
        self.found(expr.span().start().line, "no async in a pure crate");
        visit::visit_expr_async(self, expr);
    }

    fn visit_expr_await(&mut self, expr: &'ast syn::ExprAwait) {
        self.found(expr.span().start().line, "no async in a pure crate");
        visit::visit_expr_await(self, expr);
    }

    fn visit_expr_closure(&mut self, expr: &'ast syn::ExprClosure) {
        if let Some(word) = &expr.asyncness {
            self.found(word.span.start().line, "no async in a pure crate");
        }
        visit::visit_expr_closure(self, expr);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        if let Some(last) = call.path.segments.last() {
            self.macro_name(&last.ident.to_string(), call.span().start().line);
        }
        self.macro_body(call.tokens.clone());
        visit::visit_macro(self, call);
    }
}

/// A crate that is missing in both lists would not be checked.
#[test]
fn every_crate_is_pure_or_known_not_to_be() {
    let crates = std::fs::read_dir(repository().join("crates")).expect("a directory");
    let names = crates.map(|entry| entry.expect("an entry").file_name().into_string());
    let mut names: Vec<String> = names.map(|name| name.expect("ASCII")).collect();
    let mut listed: Vec<&str> = PURE.iter().chain(IMPURE).copied().collect();
    names.sort();
    listed.sort_unstable();
    assert_eq!(names, listed, "list each crate once, in PURE or in IMPURE");
}

#[test]
fn pure_crates_touch_nothing_of_the_machine() {
    let mut all = Vec::new();
    for krate in PURE {
        for source in shipped(krate) {
            let found = findings(&source.ast);
            all.extend(found.iter().map(|finding| format!("{}:{finding}", shown(&source.path))));
        }
    }
    assert_none("purity", &all);
}

#[cfg(test)]
mod tests {
    use super::findings;

    /// Each line is a violation by itself.
    const IMPURE: [&str; 33] = [
        "use std::time::Duration;",
        "use std::{fmt, time};",
        "use std::{collections::{BTreeMap, HashMap}, thread::sleep};",
        "use std::net::IpAddr as Address;",
        "use std::*;",
        "use std as s;",
        "use std::{self as s};",
        "extern crate std as s;",
        "use core::sync::atomic::AtomicU64;",
        "use std::collections::hash_map::RandomState;",
        "use std::collections::HashMap as Map;",
        "fn f() { std::fs::read(\"x\"); }",
        "fn f(x: &dyn ::std::io::Write) {}",
        "fn f() -> std::io::Result<()> { Ok(()) }",
        "fn f() { std::process::exit(1) }",
        "fn f() { assert!(std::env::var(\"X\").is_ok()); }",
        "macro_rules! m { () => { std::thread::yield_now() }; }",
        "async fn f() {}",
        "fn f() { async { 1 }; }",
        "fn f() { let g = async || 1; }",
        "fn f(x: F) { vec![x.await]; }",
        "fn f() { println!(\"x\"); }",
        "fn f() { std::eprintln!(\"x\"); }",
        "fn f() { m!(if x { print!(\"x\") }); }",
        "thread_local! { static X: u32 = 1; }",
        "struct S { at: Instant }",
        "fn f() -> SystemTime { SystemTime::now() }",
        "struct S { map: HashMap<u32, u32> }",
        "fn f() { let x: std::collections::HashSet<u32> = g(); }",
        "fn f() { let x = HashMap::new(); }",
        "fn f() { let x = HashSet::<u32, _>::with_capacity(1); }",
        "fn f() { m!(x as HashMap<u32, Vec<u32>>); }",
        "static X: std::sync::Mutex<u32> = g();",
    ];

    /// None of these is.
    const PURE: [&str; 10] = [
        "use core::time::Duration; use core::net::IpAddr; use std::sync::Arc;",
        "use std::{collections::{BTreeMap, HashMap}, fmt::{self, Write}};",
        "struct S { map: HashMap<u32, u32, FixedState>, set: HashSet<u32, FixedState> }",
        "fn f() { HashMap::with_hasher(FixedState::with_seed(1)); }",
        "#[cfg(test)] mod tests { use std::time::Instant; fn f() { println!(\"x\"); } }",
        "#[test] fn f() { std::fs::read(\"x\"); }",
        "impl S { #[cfg(test)] fn f() { std::fs::read(\"x\"); } }",
        "/// std::fs, println!, async\nfn f() { write!(out, \"std::fs {}\", x); }",
        "fn f() { let time = 1; let io = time; self::io::read(); }",
        "fn f() { m!(x as HashMap<u32, Vec<u32>, S>, HashSet<u32, S>); }",
    ];

    #[test]
    fn each_violation_is_found() {
        for source in IMPURE {
            let ast = syn::parse_file(source).unwrap_or_else(|e| panic!("{source}: {e}"));
            assert!(!findings(&ast).is_empty(), "not found: {source}");
        }
    }

    #[test]
    fn pure_code_is_accepted() {
        for source in PURE {
            let ast = syn::parse_file(source).unwrap_or_else(|e| panic!("{source}: {e}"));
            assert_eq!(findings(&ast), [], "{source}");
        }
    }
}
