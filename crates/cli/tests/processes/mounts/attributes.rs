//! Owners, and extended attributes.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};

use super::{Lustre, can_mount};

/// Only these bits: the kernel knows of no sticky bit, and would take it away.
#[test]
fn another_owner_takes_the_set_id_bits_away_and_leaves_the_sticky_bit() {
    if !can_mount() {
        return;
    }
    let lustre = Lustre::for_mounts();
    let mount = lustre.mount("m");
    let file = mount.path("file");
    fs::write(&file, b"x").unwrap();
    let (user, group) = ((Some(7), None), (None, Some(7)));
    let cases = [(0o3755, group, 0o1755), (0o7777, group, 0o1777), (0o5755, user, 0o1755)];
    for (before, (uid, gid), after) in cases {
        fs::set_permissions(&file, fs::Permissions::from_mode(before)).unwrap();
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o7777, before);
        chown(&file, uid, gid).unwrap();
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o7777, after, "{before:o}");
    }
    mount.umount().ok();
}
