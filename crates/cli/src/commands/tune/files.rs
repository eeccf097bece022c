//! The files with the settings.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use lustrine_tune::{Settings, lnetctl_yaml, module_options, set_param, sysctl};

use super::report::PeerReport;
use crate::output::Failure;

/// Their names, in the order in which they are written.
const NAMES: [&str; 4] = ["lnetctl.yaml", "ksocklnd.conf", "set_param.sh", "sysctl.conf"];

/// A directory in which none of the files is.
#[derive(Debug)]
pub(super) struct Files {
    directory: PathBuf,
    /// Whether it was made for them.
    is_new: bool,
}

impl Drop for Files {
    /// A run that wrote nothing leaves no directory. One that has files stays.
    fn drop(&mut self) {
        if self.is_new {
            let _ = fs::remove_dir(&self.directory);
        }
    }
}

impl Files {
    /// Makes the directory if necessary.
    ///
    /// # Errors
    /// When it cannot be made, or one of the files is there: no file is overwritten.
    pub(super) fn open(directory: &Path) -> Result<Files, Failure> {
        let shown = directory.display();
        let is_new = !directory.exists();
        fs::create_dir_all(directory).map_err(|error| {
            Failure::Input(format!("cannot make the directory {shown}: {error}"))
        })?;
        for name in NAMES {
            if directory.join(name).symlink_metadata().is_ok() {
                let words = format!("{shown} has a file {name} already; name another directory");
                return Err(Failure::Usage(words));
            }
        }
        Ok(Files { directory: directory.to_owned(), is_new })
    }

    /// Writes them, for the interface towards a peer and the targets at `servers`.
    ///
    /// # Errors
    /// When a file cannot be written, or has appeared since.
    pub(super) fn write(
        &self,
        settings: &Settings,
        peer: &PeerReport,
        servers: &[String],
        is_rpc_size_given: bool,
    ) -> Result<Vec<PathBuf>, Failure> {
        let interface = peer.host.interface.as_deref().ok_or_else(|| {
            format!("the interface towards {} is unknown, and no file is written", peer.nid)
        })?;
        let net = peer.nid.net().to_string();
        let texts = [
            lnetctl_yaml(settings, &net, interface),
            module_options(settings),
            set_param(settings, servers, is_rpc_size_given),
            sysctl(settings, &peer.host.limits()),
        ];
        let mut written = Vec::new();
        for (name, text) in NAMES.into_iter().zip(texts) {
            let path = self.directory.join(name);
            File::create_new(&path)
                .and_then(|mut file| file.write_all(text.as_bytes()))
                .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
            written.push(path);
        }
        Ok(written)
    }
}
