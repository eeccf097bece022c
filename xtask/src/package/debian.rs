//! The Debian package, made with `dpkg-deb`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::build::Program;
use super::layout::{CONFIGURATION, Content, Layout, set_mode};
use crate::process;
use crate::repository::root;

const BUILD_MAX: Duration = Duration::from_secs(300);

/// The description of the packages, first in a line.
pub(super) const SUMMARY: &str = "Lustre's network and client in user space";

/// The same in sentences.
pub(super) const DESCRIPTION: [&str; 6] = [
    "One program that speaks the protocol of Lustre's network over TCP without kernel modules:",
    "it mounts Lustre file systems, pings, discovers and measures Lustre servers and clients,",
    "replaces lst, lnetctl, lctl (networking) and routerstat on hosts without them, and",
    "simulates networks.",
    "The tools' own names are in /usr/lib/lustrine/bin, so that the package can be installed",
    "beside those of Lustre.",
];

/// Makes the package of the files in `stage`, in the directory `out`. With `quick`, it is larger.
pub(super) fn package(
    layout: &Layout,
    stage: &Path,
    program: &Program,
    (version, quick): (&str, bool),
    out: &Path,
) -> Result<PathBuf> {
    let arch = architecture(&program.arch)?;
    let about = stage.join("DEBIAN");
    fs::create_dir(&about).with_context(|| about.display().to_string())?;
    set_mode(&about, 0o755)?;
    let kib = size(layout, stage)?.div_ceil(1024);
    fs::write(about.join("control"), control(version, arch, kib))?;
    fs::write(about.join("conffiles"), format!("{CONFIGURATION}\n"))?;
    fs::write(about.join("md5sums"), sums(layout, stage)?)?;
    for script in ["postinst", "prerm", "postrm"] {
        let to = about.join(script);
        fs::copy(root().join("packaging").join(script), &to).context(script)?;
        set_mode(&to, 0o755)?;
    }
    for file in ["control", "conffiles", "md5sums"] {
        set_mode(&about.join(file), 0o644)?;
    }
    let package = out.join(format!("lustrine_{version}_{arch}.deb"));
    let mut command = Command::new("dpkg-deb");
    command.args(["--root-owner-group", "-Zxz", if quick { "-z0" } else { "-z6" }]);
    command.arg("--build").arg(stage).arg(&package);
    command.env("SOURCE_DATE_EPOCH", date()?);
    process::capture(&mut command, BUILD_MAX)?.output("dpkg-deb")?;
    fs::remove_dir_all(&about)?;
    Ok(package)
}

/// Debian's word for an architecture of Rust.
fn architecture(rust: &str) -> Result<&'static str> {
    match rust {
        "x86_64" => Ok("amd64"),
        "aarch64" => Ok("arm64"),
        "riscv64gc" => Ok("riscv64"),
        other => bail!("Debian's name of the architecture {other} is not known here"),
    }
}

fn control(version: &str, arch: &str, kib: u64) -> String {
    format!(
        "Package: lustrine\nVersion: {version}\nSection: net\nPriority: optional\n\
         Architecture: {arch}\nMaintainer: The Lustrine developers\n\
         Installed-Size: {kib}\nDescription: {SUMMARY}\n {}\n",
        DESCRIPTION.join("\n ")
    )
}

/// The bytes of all files.
fn size(layout: &Layout, stage: &Path) -> Result<u64> {
    let mut bytes = 0;
    for path in layout.keys() {
        bytes += fs::symlink_metadata(stage.join(&path[1..]))?.len();
    }
    Ok(bytes)
}

/// `md5sum` of all files, with which `dpkg --verify` compares.
fn sums(layout: &Layout, stage: &Path) -> Result<String> {
    let mut command = Command::new("md5sum");
    command.current_dir(stage);
    for (path, content) in layout {
        if !matches!(content, Content::Link(_)) && path != CONFIGURATION {
            command.arg(&path[1..]);
        }
    }
    process::capture(&mut command, BUILD_MAX)?.output("md5sum")
}

/// The time of the last commit, in seconds, so that the same tree gives the same package.
fn date() -> Result<String> {
    let mut git = Command::new("git");
    git.current_dir(root()).args(["log", "-1", "--format=%ct"]);
    let seconds = process::capture(&mut git, BUILD_MAX)?.output("git log")?;
    Ok(seconds.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_control_file_has_the_fields_that_dpkg_requires() {
        let text = control("1.2.3", "amd64", 7);
        for field in ["Package: lustrine", "Version: 1.2.3", "Architecture: amd64"] {
            assert!(text.lines().any(|line| line == field), "{text}");
        }
        let description = text.split_once("\nDescription: ").expect("it is last").1;
        assert!(description.lines().skip(1).all(|line| line.starts_with(' ')), "{text}");
        assert!(architecture("sparc").is_err());
    }
}
