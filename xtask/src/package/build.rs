//! The program that is packaged: linked statically, without names and debug information.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::process;
use crate::repository::{cargo, host_triple, root, target_dir};

/// The profile of `Cargo.toml` for packages.
const PROFILE: &str = "shipped";

const BUILD_MAX: Duration = Duration::from_secs(20 * 60);
const STRIP_MAX: Duration = Duration::from_secs(60);
const ASK_MAX: Duration = Duration::from_secs(60);

/// Which C library is linked into the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Libc {
    Musl,
    /// Where the toolchain has no target for musl.
    Glibc,
}

/// The program and what it was built for.
pub(super) struct Program {
    pub(super) path: PathBuf,
    /// The architecture, as Rust names it: `x86_64`.
    pub(super) arch: String,
    pub(super) libc: Libc,
}

impl Libc {
    pub(super) fn name(self) -> &'static str {
        match self {
            Libc::Musl => "musl",
            Libc::Glibc => "glibc",
        }
    }
}

/// Builds the program from this tree, with musl if the toolchain has that target. With `quick`, it
/// is the program of the tests, without its debug information.
pub(super) fn build(quick: bool) -> Result<Program> {
    let (path, triple, libc) = match quick {
        true => of_the_tests()?,
        false => to_ship()?,
    };
    expect_static(&path)?;
    let arch = triple.split('-').next().unwrap_or_default().to_owned();
    Ok(Program { path, arch, libc })
}

fn to_ship() -> Result<(PathBuf, String, Libc)> {
    let host = host_triple()?;
    let arch = host.split('-').next().unwrap_or_default();
    let musl = format!("{arch}-unknown-linux-musl");
    let (libc, triple) = match has_target(&musl)? {
        true => (Libc::Musl, musl),
        false => {
            println!(
                "package: the toolchain has no target {musl} (`rustup target add {musl}` installs \
                 it), so glibc is linked statically instead"
            );
            (Libc::Glibc, host)
        }
    };
    let mut command = cargo();
    command.args(["build", "--locked", "--profile", PROFILE, "--target", &triple]);
    command.args(["--package", "lustrine-cli", "--bin", "lustrine"]);
    // Programs for musl are static without it.
    set_flags(&mut command, &triple);
    // What is shipped is compiled by rustc itself, see `.ci/run`.
    command.env_remove("RUSTC_WORKSPACE_WRAPPER");
    let status = process::shown(&mut command, BUILD_MAX, |_| {})?;
    ensure!(status.success(), "cargo build for {triple}: {status}");
    Ok((target_dir().join(&triple).join(PROFILE).join("lustrine"), triple, libc))
}

/// In a run of `.ci/run`, which sets the same target and flags, the program is there already.
fn of_the_tests() -> Result<(PathBuf, String, Libc)> {
    let triple = host_triple()?;
    let libc = if triple.contains("musl") { Libc::Musl } else { Libc::Glibc };
    let mut command = cargo();
    // Of the whole workspace, and with what tests need: otherwise crates have fewer features, and
    // are built once more.
    command.args(["test", "--workspace", "--test", "processes", "--no-run", "--locked"]);
    command.args(["--target", &triple]);
    set_flags(&mut command, &triple);
    let status = process::shown(&mut command, BUILD_MAX, |_| {})?;
    ensure!(status.success(), "cargo test --no-run for {triple}: {status}");
    let built = target_dir().join(&triple).join("debug");
    let path = built.join("lustrine.stripped");
    let mut strip = Command::new("strip");
    strip.args(["--strip-all", "-o"]).arg(&path).arg(built.join("lustrine"));
    process::capture(&mut strip, STRIP_MAX)?.output("strip")?;
    Ok((path, triple, libc))
}

/// Has programs for a target need no dynamic loader. Flags of `--config` would be added to those of
/// the variable in a run of `.ci/run`, and more flags mean another build.
fn set_flags(command: &mut Command, triple: &str) {
    let variable = format!("CARGO_TARGET_{}_RUSTFLAGS", triple.replace('-', "_").to_uppercase());
    command.env(variable, "-C target-feature=+crt-static");
    // They would count instead.
    command.env_remove("RUSTFLAGS").env_remove("CARGO_ENCODED_RUSTFLAGS");
}

/// Whether the toolchain has the standard library for this target.
fn has_target(triple: &str) -> Result<bool> {
    let mut rustc = Command::new("rustc");
    rustc.current_dir(root()).args(["--print", "target-libdir", "--target", triple]);
    let libdir = process::capture(&mut rustc, ASK_MAX)?.output("rustc")?;
    Ok(PathBuf::from(libdir.trim()).is_dir())
}

/// Fails if the program needs a dynamic loader.
fn expect_static(path: &PathBuf) -> Result<()> {
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    match interpreter(&bytes) {
        Some(false) => Ok(()),
        Some(true) => bail!("{} needs a dynamic loader", path.display()),
        None => bail!("{} is not an ELF file of 64 bits", path.display()),
    }
}

/// Whether an ELF file (64 bits, little-endian) names an interpreter.
fn interpreter(elf: &[u8]) -> Option<bool> {
    const PT_INTERP: u32 = 3;
    if elf.get(..6)? != [0x7f, b'E', b'L', b'F', 2, 1] {
        return None;
    }
    let headers = u64::from_le_bytes(elf.get(32..40)?.try_into().ok()?) as usize;
    let size = usize::from(u16::from_le_bytes(elf.get(54..56)?.try_into().ok()?));
    let count = usize::from(u16::from_le_bytes(elf.get(56..58)?.try_into().ok()?));
    for index in 0..count {
        let kind = elf.get(headers.checked_add(index * size)?..)?.get(..4)?;
        if u32::from_le_bytes(kind.try_into().ok()?) == PT_INTERP {
            return Some(true);
        }
    }
    Some(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An ELF header and program headers of these kinds.
    fn elf(kinds: &[u32]) -> Vec<u8> {
        let mut bytes = vec![0; 64];
        bytes[..6].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2, 1]);
        bytes[32] = 64;
        bytes[54] = 56;
        bytes[56] = kinds.len() as u8;
        for kind in kinds {
            bytes.extend(kind.to_le_bytes());
            bytes.extend([0; 52]);
        }
        bytes
    }

    #[test]
    fn programs_with_a_dynamic_loader_are_recognised() {
        assert_eq!(interpreter(&elf(&[1, 1, 2])), Some(false));
        assert_eq!(interpreter(&elf(&[6, 3, 1])), Some(true));
        assert_eq!(interpreter(&elf(&[1, 1])[..100]), None);
        assert_eq!(interpreter(b"#!/bin/sh\n"), None);
        let own = std::fs::read("/proc/self/exe").expect("a test program is a file");
        assert_eq!(interpreter(&own), Some(!cfg!(target_feature = "crt-static")));
    }
}
