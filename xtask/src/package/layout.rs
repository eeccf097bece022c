//! The files of the packages: one list, from which the Debian package and the RPM are made.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::build::Program;
use super::licences;
use crate::process;
use crate::repository::root;

const RUN_MAX: Duration = Duration::from_secs(60);

/// The tools that the program is under their own names.
pub(super) const TOOLS: [&str; 4] = ["lst", "lnetctl", "lctl", "routerstat"];

/// The directory of the tools' names, so that they can stand beside Lustre's own.
pub(super) const TOOLS_DIR: &str = "/usr/lib/lustrine/bin";

/// The names by which mount(8) and umount(8) call the program.
const MOUNT_HELPERS: [&str; 2] = ["mount.lustrine", "umount.fuse.lustrine"];

/// The program.
pub(super) const PROGRAM: &str = "/usr/bin/lustrine";

/// The file that an administrator changes, and that an upgrade keeps.
pub(super) const CONFIGURATION: &str = "/etc/lustrine/node.yaml";

/// The systemd unit.
pub(super) const UNIT: &str = "/usr/lib/systemd/system/lustrine-node.service";

const DOC: &str = "/usr/share/doc/lustrine";

/// What is installed at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// A copy of a file of this machine.
    Copy(PathBuf),
    Text(String),
    /// A symbolic link.
    Link(&'static str),
}

/// What is installed, by absolute path.
pub(super) type Layout = BTreeMap<String, Content>;

/// The files that a package of this program installs.
pub(super) fn layout(program: &Program, scratch: &Path) -> Result<Layout> {
    let top = root();
    let mut layout = Layout::new();
    let mut add = |path: String, content| {
        assert!(layout.insert(path.clone(), content).is_none(), "{path} is listed twice");
    };
    let file = |path: &str| Content::Copy(top.join(path));
    add(PROGRAM.into(), Content::Copy(program.path.clone()));
    for tool in TOOLS {
        add(format!("{TOOLS_DIR}/{tool}"), Content::Link("../../../bin/lustrine"));
    }
    for helper in MOUNT_HELPERS {
        add(format!("/usr/sbin/{helper}"), Content::Link("../bin/lustrine"));
    }
    add(UNIT.into(), file("packaging/lustrine-node.service"));
    add(CONFIGURATION.into(), file("packaging/node.yaml"));
    for (path, shell) in [
        ("/usr/share/bash-completion/completions/lustrine", "bash"),
        ("/usr/share/zsh/vendor-completions/_lustrine", "zsh"),
        ("/usr/share/fish/vendor_completions.d/lustrine.fish", "fish"),
    ] {
        add(path.into(), Content::Text(output(program, &["completion", shell])?));
    }
    let pages = scratch.join("man");
    output(program, &["man", "--all", pages.to_str().context("a path of text")?])?;
    for page in files(&pages, "")? {
        let (path, name) = (pages.join(&page), page);
        let section = name.rsplit('.').next().unwrap_or_default();
        // `man` finds pages beside the directories of PATH; the tools' pages would be in the way
        // of those of Lustre's own packages.
        let base = match TOOLS.iter().any(|tool| name.starts_with(&format!("{tool}."))) {
            true => "/usr/lib/lustrine/man",
            false => "/usr/share/man",
        };
        add(format!("{base}/man{section}/{name}"), Content::Copy(path));
    }
    for name in documents(&top)? {
        add(format!("{DOC}/{name}"), file(&name));
    }
    let own = fs::read_to_string(top.join("LICENSE-MIT")).context("LICENSE-MIT")?;
    add(format!("{DOC}/copyright"), Content::Text(licences::copyright(&own, program.libc)?));
    Ok(layout)
}

/// The files of the repository that are installed as documentation, in the same directories, so
/// that pages lead to each other and their examples work there.
fn documents(top: &Path) -> Result<Vec<String>> {
    let mut names: Vec<String> = [
        "README.md",
        "CHANGELOG.md",
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
        "LICENSE-MIT",
        "LICENSE-APACHE",
    ]
    .map(str::to_owned)
    .into();
    for (dir, end) in [
        ("docs", ".md"),
        ("docs/protocol", ".md"),
        ("docs/decisions", ".md"),
        ("docs/sc11", ".md"),
        ("docs/sc11", ".svg"),
        ("docs/sc11/results", ".json"),
        ("docs/grafana", ".json"),
        ("docs/prometheus", ".yaml"),
        ("bench", ".md"),
        ("bench/results", ".json"),
        ("bench/results", ".txt"),
        ("labs", ".yaml"),
        ("plans", ".yaml"),
        ("scenarios", ".yaml"),
        ("testdata/captures", ".md"),
        ("testdata/captures/fs", "s02_mkdir.pcap"),
        ("testdata/captures/lnet", "a3_discover_cold.pcap"),
        ("testdata/captures/lnet", "f1_csum_ping.pcap"),
    ] {
        let found = files(&top.join(dir), end)?;
        names.extend(found.into_iter().map(|name| format!("{dir}/{name}")));
    }
    Ok(names)
}

/// Writes the files below `stage`, which is replaced.
pub(super) fn write(layout: &Layout, stage: &Path) -> Result<()> {
    if stage.exists() {
        fs::remove_dir_all(stage).with_context(|| stage.display().to_string())?;
    }
    make_dirs(stage, Path::new(""))?;
    for (path, content) in layout {
        let relative = Path::new(path.trim_start_matches('/'));
        make_dirs(stage, relative.parent().unwrap_or(Path::new("")))?;
        let to = stage.join(relative);
        let program = path.starts_with("/usr/bin/");
        match content {
            Content::Copy(from) => {
                fs::copy(from, &to).with_context(|| format!("cannot copy {}", from.display()))?;
            }
            Content::Text(text) => fs::write(&to, text).with_context(|| path.clone())?,
            Content::Link(target) => {
                symlink(target, &to).with_context(|| path.clone())?;
                continue;
            }
        }
        set_mode(&to, if program { 0o755 } else { 0o644 })?;
    }
    Ok(())
}

/// Makes the directories of a path below `stage`, readable for all whatever the umask is.
fn make_dirs(stage: &Path, relative: &Path) -> Result<()> {
    let mut dir = stage.to_path_buf();
    fs::create_dir_all(&dir)?;
    set_mode(&dir, 0o755)?;
    for part in relative {
        dir.push(part);
        fs::create_dir_all(&dir)?;
        set_mode(&dir, 0o755)?;
    }
    Ok(())
}

pub(super) fn set_mode(path: &Path, mode: u32) -> Result<()> {
    let permissions = fs::Permissions::from_mode(mode);
    fs::set_permissions(path, permissions).with_context(|| path.display().to_string())
}

/// The names of a directory's files that end in `end`, sorted.
fn files(dir: &Path, end: &str) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(dir).with_context(|| dir.display().to_string())? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.file_type()?.is_file() && name.ends_with(end) {
            names.push(name);
        }
    }
    names.sort();
    ensure!(!names.is_empty(), "{} has no files *{end}", dir.display());
    Ok(names)
}

/// What the packaged program prints.
fn output(program: &Program, args: &[&str]) -> Result<String> {
    let mut command = Command::new(&program.path);
    process::capture(command.args(args), RUN_MAX)?.output(&format!("lustrine {}", args.join(" ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The path from the top of what `target` means in the page `page`.
    fn resolved(page: &str, target: &str) -> String {
        let mut parts: Vec<&str> = page.split('/').collect();
        parts.pop();
        for part in target.trim_end_matches('/').split('/') {
            match part {
                "." => {}
                ".." => drop(parts.pop()),
                name => parts.push(name),
            }
        }
        parts.join("/")
    }

    #[test]
    fn links_of_installed_pages_lead_to_installed_files() {
        let top = crate::repository::root();
        let names = documents(&top).expect("the documents");
        let mut dead = Vec::new();
        for page in names.iter().filter(|name| name.ends_with(".md")) {
            let text = fs::read_to_string(top.join(page)).expect("a page");
            for rest in text.split("](").skip(1) {
                let target = rest.split([')', '#']).next().unwrap_or_default();
                if target.is_empty() || target.contains("://") {
                    continue;
                }
                let path = resolved(page, target);
                let below = format!("{path}/");
                if !names.iter().any(|name| *name == path || name.starts_with(&below)) {
                    dead.push(format!("{page}: {target}"));
                }
            }
        }
        assert!(dead.is_empty(), "{dead:#?}");
    }

    /// The folders of the files that examples read.
    const OF_EXAMPLES: [&str; 4] = ["labs/", "plans/", "scenarios/", "testdata/captures/"];

    #[test]
    fn files_that_pages_for_users_name_are_installed() {
        let top = crate::repository::root();
        let names = documents(&top).expect("the documents");
        let is_for_users = |name: &&String| match name.strip_prefix("docs/") {
            Some(page) => page.ends_with(".md") && !page.contains('/'),
            None => *name == "README.md",
        };
        let mut missing = Vec::new();
        for page in names.iter().filter(is_for_users) {
            let text = fs::read_to_string(top.join(page)).expect("a page");
            let is_end = |c: char| c.is_whitespace() || "`()[]|,;:'\"*".contains(c);
            for word in text.split(is_end).filter(|word| top.join(word).is_file()) {
                let is_used = OF_EXAMPLES.iter().any(|folder| word.starts_with(folder));
                if is_used && !names.iter().any(|name| name == word) {
                    missing.push(format!("{page}: {word}"));
                }
            }
        }
        assert!(missing.is_empty(), "{missing:#?}");
    }
}
