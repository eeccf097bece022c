//! The root of a container image: the program, its configuration, and the directories that it uses.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::{Context, Result};

use super::layout::{self, CONFIGURATION, Layout, PROGRAM};

/// The directories, with their permissions: of the files of a self-test, of the control socket, and
/// a mount point.
pub(super) const DIRECTORIES: [(&str, u32); 3] = [("tmp", 0o1777), ("run", 0o755), ("mnt", 0o755)];

/// Writes it to a directory, in place of what is there.
pub(super) fn write(layout: &Layout, dir: &Path) -> Result<()> {
    let is_in_image = |path: &str| [PROGRAM, CONFIGURATION].contains(&path);
    let image = layout.iter().filter(|(path, _)| is_in_image(path));
    let image: Layout = image.map(|(path, content)| (path.clone(), content.clone())).collect();
    layout::write(&image, dir)?;
    for (name, mode) in DIRECTORIES {
        let path = dir.join(name);
        fs::create_dir(&path).with_context(|| path.display().to_string())?;
        fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
    }
    Ok(())
}
