//! What `lustrine mount` refuses, and what its program keeps.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::process::Command;

use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::{FSNAME, Lustre, can_mount, mount_points, nid};
use crate::common::{clean, finish, lustrine};

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

/// A shell waits until nothing has the end of its pipe, and flock(1) has a lock as long as a
/// program has the file.
#[test]
fn the_program_of_a_mount_keeps_no_file_of_who_started_it() {
    if !can_mount() {
        return;
    }
    let lustre = Lustre::for_mounts();
    let dir = lustre.scratch.file("m");
    fs::create_dir(&dir).unwrap();
    let mount = lustre.client(&["mount", &format!("{}:/{FSNAME}", nid(lustre.ip))]);
    let mut command = Command::new("sh");
    command.args(["-c", "exec \"$@\" 5>&1", "sh"]).arg(mount.get_program());
    clean(command.args(mount.get_args()).arg(&dir));
    // This waits for the end of the pipe.
    finish(&mut command).ok();
    finish(lustrine().arg("umount").arg(&dir)).ok();
}
