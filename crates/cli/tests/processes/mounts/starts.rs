//! What `lustrine mount` refuses, and what its program keeps.

use std::fs::{self, File};
use std::os::unix::fs::symlink;

use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::{FSNAME, Lustre, can_mount, mount_points, nid};
use crate::common::finish;

#[test]
fn only_directories_of_a_file_system_are_mounted() {
    if !can_mount() {
        return;
    }
    let lustre = Lustre::for_mounts();
    let mount = lustre.mount("m");
    File::create(mount.path("file")).unwrap();
    symlink("/", mount.path("link")).unwrap();
    mknodat(CWD, mount.path("fifo"), FileType::Fifo, Mode::RUSR, 0).unwrap();
    let other = lustre.scratch.file("other");
    fs::create_dir(&other).unwrap();
    for name in ["file", "link", "fifo"] {
        let source = format!("{}:/{FSNAME}/{name}", nid(lustre.ip));
        let words = [&format!("cannot mount {source}: it is not a directory")[..]];
        finish(lustre.client(&["mount", &source]).arg(&other)).expect_error(&words);
    }
    assert!(!mount_points().contains(&other));
    mount.umount().ok();
}
