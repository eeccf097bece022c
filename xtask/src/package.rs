//! `cargo xtask package`: a static program, a Debian package, and what an RPM and a container
//! image are made of, in `target/package` (`target/package-quick` with `--quick`). With `--check`,
//! what was made is installed in a clean root, used there, and removed.

mod build;
mod check;
mod debian;
mod image;
mod layout;
mod licences;
mod rpm;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;

use crate::process::installed;
use crate::repository::{root, target_dir};

/// Builds packages of this tree, in target/package.
#[derive(Args)]
pub(crate) struct PackageArgs {
    /// Install what was built in a clean root, use it there, and remove it
    #[arg(long)]
    pub(crate) check: bool,

    /// Package the program of the tests, to check how packages are made and not what is in them
    #[arg(long)]
    pub(crate) quick: bool,
}

/// Builds everything; returns a line about it.
pub(crate) fn run(args: &PackageArgs) -> Result<String> {
    let version = env!("CARGO_PKG_VERSION");
    // What is to be shipped is not replaced by what was built for a check.
    let out = target_dir().join(if args.quick { "package-quick" } else { "package" });
    fs::create_dir_all(&out).with_context(|| out.display().to_string())?;
    let program = build::build(args.quick)?;
    let scratch = tempfile::tempdir()?;
    let layout = layout::layout(&program, scratch.path())?;
    let stage = out.join("stage");
    layout::write(&layout, &stage)?;

    let mut made = vec![out.join("lustrine")];
    replace(&program.path, &made[0])?;
    fs::write(out.join("lustrine.spec"), rpm::spec(&layout, version))?;
    replace(&root().join("packaging/Containerfile"), &out.join("Containerfile"))?;
    image::write(&layout, &out.join("image"))?;
    // `lustrine_*.deb` shall name one package.
    for entry in fs::read_dir(&out).with_context(|| out.display().to_string())? {
        let path = entry?.path();
        if path.extension().is_some_and(|end| end == "deb") {
            fs::remove_file(&path).with_context(|| path.display().to_string())?;
        }
    }
    let package = match installed("dpkg-deb") {
        true => Some(debian::package(&layout, &stage, &program, (version, args.quick), &out)?),
        false => {
            println!("package: no Debian package: dpkg-deb is not installed");
            None
        }
    };
    made.extend(package.clone());
    made.extend(["lustrine.spec", "stage", "Containerfile", "image"].map(|name| out.join(name)));
    let mut about = format!("{version}, static with {}", program.libc.name());
    for path in &made {
        println!("package: {} ({})", path.display(), size(path)?);
    }
    about += &format!("; program {}", size(&made[0])?);
    if let Some(package) = &package {
        about += &format!(", package {}", size(package)?);
    }
    if args.check {
        let said = check::check(&layout, &stage, package.as_deref(), &out)?;
        about += &format!("; {said}");
    }
    Ok(about)
}

/// Copies a file over one that may be there and in use.
fn replace(from: &Path, to: &PathBuf) -> Result<()> {
    if to.exists() {
        fs::remove_file(to)?;
    }
    fs::copy(from, to).with_context(|| format!("cannot copy {}", from.display()))?;
    Ok(())
}

/// The size of a file, as text.
fn size(path: &Path) -> Result<String> {
    let about = fs::metadata(path).with_context(|| path.display().to_string())?;
    Ok(match (about.is_dir(), about.len()) {
        (true, _) => "a directory".to_owned(),
        (false, bytes @ ..100_000) => format!("{bytes} bytes"),
        (false, bytes) => format!("{:.1} MB", bytes as f64 / 1e6),
    })
}
