//! Settings of a mount that change while it is mounted: an extended attribute of its root.

use std::io;
use std::path::Path;

use lustrine_client::{RpcSettings, SettingError};
use rustix::fs::XattrFlags;

use crate::error::{MountError, NOT_OURS};

/// The extended attribute of the root that is set to `NAME=VALUE`.
pub(crate) const NAME: &str = "lustrine.set";

/// A setting as `NAME=VALUE`.
pub(crate) fn parsed(text: &str) -> Result<RpcSettings, SettingError> {
    let (name, value) = text.split_once('=').unwrap_or((text, ""));
    let mut settings = RpcSettings::default();
    settings.set(name, value)?;
    Ok(settings)
}

/// Has the mount at a directory change a setting, such as `max_rpcs_in_flight=16`.
///
/// # Errors
/// When there is no such setting, no mount of this program is there, or it belongs to another user.
pub fn set(dir: &Path, setting: &str) -> Result<(), MountError> {
    let bad = |why: String| Err(MountError::MountPoint { dir: dir.to_owned(), why });
    if let Err(error) = parsed(setting) {
        return bad(error.to_string());
    }
    match rustix::fs::setxattr(dir, NAME, setting.as_bytes(), XattrFlags::empty()) {
        Ok(()) => Ok(()),
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NODATA) => bad(NOT_OURS.to_owned()),
        Err(rustix::io::Errno::PERM) => {
            bad("only root and the user who mounted it may change its settings".to_owned())
        }
        Err(rustix::io::Errno::NOTCONN) => bad("the program of this mount has ended".to_owned()),
        Err(error) => bad(io::Error::from(error).to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_is_a_name_and_a_value() {
        let settings = parsed("max_mod_rpcs_in_flight=3").unwrap();
        assert_eq!((settings.max_rpcs_in_flight, settings.max_mod_rpcs_in_flight), (None, Some(3)));
        assert!(parsed("max_rpcs_in_flight").is_err());
        assert!(parsed("=5").is_err());
    }

    #[test]
    fn other_places_have_no_settings() {
        let error = set(Path::new("/proc"), "max_rpcs_in_flight=5").unwrap_err().to_string();
        assert!(error.contains("/proc"), "{error}");
        let error = set(Path::new("/proc"), "nothing=5").unwrap_err().to_string();
        assert!(error.contains("no setting `nothing`"), "{error}");
    }
}
