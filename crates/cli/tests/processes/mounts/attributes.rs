//! Owners, and extended attributes.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};

use rustix::fs::{XattrFlags, getxattr, listxattr, removexattr, setxattr};
use rustix::io::Errno;

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

/// Programs that copy files with all their attributes, such as `rsync -X`, take along those of the
/// servers.
#[test]
fn the_attributes_of_servers_are_copied_without_errors_and_without_effect() {
    if !can_mount() {
        return;
    }
    let lustre = Lustre::for_mounts();
    let mount = lustre.mount("m");
    let [one, other] = ["one", "other"].map(|name| mount.path(name));
    for file in [&one, &other] {
        fs::write(file, b"x").unwrap();
    }
    let get = |file, name: &str| {
        let mut value = vec![0; 65536];
        let len = getxattr(file, name, &mut value[..])?;
        value.truncate(len);
        Ok::<_, Errno>(value)
    };
    let set = |name: &str, value: &[u8]| setxattr(&other, name, value, XattrFlags::empty());
    let layout = get(&one, "trusted.lov").unwrap();
    assert_eq!(get(&one, "lustre.lov"), Ok(layout.clone()));
    let before = get(&other, "lustre.lov").unwrap();
    assert_ne!(before, layout);
    for name in ["trusted.lov", "lustre.lov"] {
        assert_eq!(set(name, &layout), Ok(()), "{name}");
        assert_eq!(set(name, b"junk"), Err(Errno::RANGE), "{name}");
        assert_eq!(removexattr(&other, name), Ok(()), "{name}");
    }
    for name in ["lma", "link", "som", "hsm", "dmv", "fid", "version"] {
        let name = format!("trusted.{name}");
        assert_eq!(set(&name, b"junk"), Ok(()), "{name}");
        assert_eq!(removexattr(&other, &*name), Ok(()), "{name}");
    }
    assert_eq!(get(&other, "trusted.lov"), Ok(before));
    let mut names = vec![0; 65536];
    assert_eq!(listxattr(&other, &mut names[..]), Ok(0), "{names:?}");
    assert_eq!(removexattr(&other, "trusted.more"), Err(Errno::NODATA));
    mount.umount().ok();
}
