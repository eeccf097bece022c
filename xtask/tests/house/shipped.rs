//! The source of a crate that is shipped: everything that its root reaches through `mod`, without
//! tests.

use std::path::{Path, PathBuf};

use syn::{Attribute, Item, Meta};

use crate::roots::{crate_dir, files_below, read, shown};

/// A parsed file of a crate.
pub(crate) struct Source {
    pub(crate) path: PathBuf,
    pub(crate) ast: syn::File,
}

/// Whether an item with these attributes exists only in tests: `#[cfg(test)]`, `#[test]`, or
/// `#[cfg(all(test, ..))]`. With any other `cfg` the item counts as shipped.
pub(crate) fn only_in_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        Meta::Path(path) => path.is_ident("test"),
        Meta::List(list) if list.path.is_ident("cfg") => {
            let text = list.tokens.to_string().replace(' ', "");
            text == "test" || text.starts_with("all(test,")
        }
        _ => false,
    })
}

/// Every shipped file of a crate, from `src/lib.rs` on.
///
/// # Panics
/// When a file does not parse, a module has no file, or a module names its file by `#[path]`: then
/// this function would not see what the compiler sees.
pub(crate) fn shipped(krate: &str) -> Vec<Source> {
    let src = crate_dir(krate).join("src");
    let mut walk = Walk { shipped: Vec::new(), tests: Vec::new() };
    walk.file(&src.join("lib.rs"), &src);
    walk.shipped
}

struct Walk {
    shipped: Vec<Source>,
    /// Root files of modules that exist only in tests.
    tests: Vec<PathBuf>,
}

impl Walk {
    /// Reads a module's file; its submodules are in `dir`.
    fn file(&mut self, path: &Path, dir: &Path) {
        let ast = syn::parse_file(&read(path)).unwrap_or_else(|e| panic!("{}: {e}", shown(path)));
        self.modules(&ast.items, dir);
        self.shipped.push(Source { path: path.to_path_buf(), ast });
    }

    fn modules(&mut self, items: &[Item], dir: &Path) {
        for item in items {
            let Item::Mod(module) = item else { continue };
            let named = module.attrs.iter().any(|attribute| attribute.path().is_ident("path"));
            assert!(!named, "module {} in {} names its file", module.ident, shown(dir));
            let below = dir.join(module.ident.to_string());
            match &module.content {
                Some(_) if only_in_tests(&module.attrs) => {}
                Some((_, items)) => self.modules(items, &below),
                None => {
                    let file = [below.with_extension("rs"), below.join("mod.rs")]
                        .into_iter()
                        .find(|path| path.is_file())
                        .unwrap_or_else(|| panic!("no file for module {}", shown(&below)));
                    if only_in_tests(&module.attrs) {
                        self.tests.push(file);
                    } else {
                        self.file(&file, &below);
                    }
                }
            }
        }
    }
}

/// Files under `src` that no `mod` reaches, and that are never compiled.
fn dead_files(krate: &str) -> Vec<PathBuf> {
    let src = crate_dir(krate).join("src");
    let mut walk = Walk { shipped: Vec::new(), tests: Vec::new() };
    walk.file(&src.join("lib.rs"), &src);
    // A test module may have submodules, in the directory of its name.
    let mut roots = std::mem::take(&mut walk.tests);
    while let Some(root) = roots.pop() {
        walk.file(&root, &root.with_extension(""));
        roots.append(&mut walk.tests);
    }
    let mut all = files_below(&src, &["rs"]);
    all.retain(|path| walk.shipped.iter().all(|source| source.path != *path));
    all
}

#[test]
fn every_file_of_a_pure_crate_is_compiled() {
    for krate in crate::roots::PURE {
        let dead = dead_files(krate);
        assert!(dead.is_empty(), "{krate} never compiles {dead:?}");
    }
}

#[test]
fn tests_are_not_shipped() {
    let lnet = shipped("lnet");
    let has = |end: &str| lnet.iter().any(|source| source.path.ends_with(end));
    assert!(has("src/lib.rs") && has("src/shard.rs") && has("src/shard/send.rs"));
    assert!(!has("src/shard/tests.rs"));
}

#[test]
fn attributes_of_tests_are_recognised() {
    let means_tests = |source: &str| {
        let item: syn::ItemFn = syn::parse_str(source).expect("a function");
        only_in_tests(&item.attrs)
    };
    assert!(means_tests("#[cfg(test)] fn f() {}"));
    assert!(means_tests("#[test] fn f() {}"));
    assert!(means_tests("#[cfg(all(test, unix))] fn f() {}"));
    assert!(!means_tests("#[cfg(not(test))] fn f() {}"));
    assert!(!means_tests("#[cfg(any(test, unix))] fn f() {}"));
    assert!(!means_tests("#[inline] fn f() {}"));
}
