//! A mount by a user without rights, through fusermount3.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::process::Command;

use lustrine_testing::{Need, not_run};

use super::{FSNAME, Lustre, can_mount, has_strangers, nid};
use crate::common::{finish, loopback};

/// A user without root mounts at a directory of his own, uses it, and unmounts. Other users have no
/// access, and he needs a directory that is his.
#[test]
fn a_user_mounts_at_a_directory_of_his_own() {
    if !can_mount() || !has_strangers() {
        return;
    }
    if Command::new("fusermount3").arg("--version").output().is_err() {
        return not_run(Need::Program, "fusermount3 is not installed");
    }
    let lustre = Lustre::for_mounts();
    let scratch = &lustre.scratch;
    finish(&mut lustre.client(&["fs", "mkdir", &lustre.url("open")])).ok();
    finish(&mut lustre.client(&["fs", "chmod", "1777", &lustre.url("open")])).ok();
    let (program, dir) = (scratch.file("lustrine"), scratch.file("home"));
    fs::copy(env!("CARGO_BIN_EXE_lustrine"), &program).expect("the program can be copied");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    for name in ["", "m"] {
        fs::create_dir(dir.join(name)).unwrap();
        chown(dir.join(name), Some(65534), Some(65534)).unwrap();
    }
    // In a namespace of its own the device is open to all, as udev has it on other machines.
    let script = r#"
        set -eu
        mknod fuse c 10 229; chmod 666 fuse; mount --bind fuse /dev/fuse
        user() { setpriv --reuid 65534 --regid 65534 --clear-groups "$@"; }
        user ./lustrine mount "$1" home/m --net "$2"
        trap 'umount -l home/m' EXIT
        user sh -c 'echo written > home/m/open/file'
        user cat home/m/open/file
        user stat -c %u home/m/open/file
        ls home/m && echo "others have access"
        user ./lustrine fs status home/m > /dev/null
        user ./lustrine umount home/m
        trap - EXIT
        user ./lustrine mount "$1" /proc --net "$2" || echo refused
    "#;
    let source = format!("{}:/{FSNAME}", nid(lustre.ip));
    let net = format!("tcp={}:{}", loopback(), lustre.port);
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script, "sh", &source, &net]);
    crate::common::clean(&mut command);
    let done = finish(command.current_dir(scratch.path())).ok();
    assert_eq!(done.stdout, "written\n65534\nrefused\n", "{done:#?}");
    done.expect_stderr(&["Permission denied", "fusermount3 says: "]);
}
