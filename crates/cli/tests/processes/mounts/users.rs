//! Mounts by users without rights, through fusermount3 and in user namespaces.

use std::fs;
use std::os::unix::fs::chown;
use std::process::Command;

use lustrine_testing::{Need, not_run};

use super::{FSNAME, Lustre, can_mount, has_strangers, nid};
use crate::common::{Finished, copy_of_program, finish, loopback};

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
    let place = Place::new();
    let done = place.run(
        r#"
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
        "#,
    );
    let done = done.ok();
    assert_eq!(done.stdout, "written\n65534\nrefused\n", "{done:#?}");
    done.expect_stderr(&["Permission denied", "fusermount3 says: "]);
}

/// In a user namespace of his own a user mounts by himself. He is root there, and another user for
/// the servers; files of others have no owner there, and he may not change them.
#[test]
fn a_user_mounts_in_a_namespace_of_his_own() {
    if !can_mount() || !has_strangers() {
        return;
    }
    let in_namespace = "setpriv --reuid 65534 --regid 65534 --clear-groups \
                        unshare --user --map-root-user --mount";
    let tried = Command::new("sh").args(["-c", &format!("{in_namespace} true")]).output();
    if !tried.is_ok_and(|tried| tried.status.success()) {
        return not_run(Need::OrdinaryUser, "ordinary users may not make user namespaces");
    }
    let place = Place::new();
    fs::write(
        place.lustre.scratch.file("inside"),
        r#"
        set -eu
        # The helper must not be needed.
        PATH=/no/helper ./lustrine mount "$1" home/m --net "$2"
        trap 'umount -l home/m' EXIT
        echo written > home/m/own/file
        chown 0:0 home/m/own/file
        cd home/m
        stat -c '%n %u %g' own/file own open
        sh -c 'echo changed > open/file' 2> /dev/null || echo refused
        cd ../..
        ./lustrine umount home/m
        trap - EXIT
        "#,
    )
    .unwrap();
    let done = place.run(&format!("{in_namespace} sh inside \"$1\" \"$2\"")).ok();
    let expected = "own/file 0 0\nown 0 0\nopen 65534 0\nrefused\n";
    assert_eq!(done.stdout, expected, "{done:#?}");
    let url = place.lustre.url("own/file");
    let file = finish(&mut place.lustre.client(&["fs", "stat", "--json", &url])).ok().json();
    assert_eq!((&file["uid"], &file["gid"]), (&65534.into(), &65534.into()), "{file}");
}

/// A directory with the program, a mount point of an ordinary user, and a file system with a
/// directory that all may change, and one of this user.
struct Place {
    lustre: Lustre,
}

impl Place {
    fn new() -> Place {
        let lustre = Lustre::for_mounts();
        for (name, words) in [("open", ["chmod", "1777"]), ("own", ["chown", "65534:65534"])] {
            let url = lustre.url(name);
            finish(&mut lustre.client(&["fs", "mkdir", &url])).ok();
            finish(&mut lustre.client(&["fs", words[0], words[1], &url])).ok();
        }
        copy_of_program(&lustre.scratch);
        let dir = lustre.scratch.file("home");
        for name in ["", "m"] {
            fs::create_dir(dir.join(name)).unwrap();
            chown(dir.join(name), Some(65534), Some(65534)).unwrap();
        }
        Place { lustre }
    }

    /// Runs a script there, in a namespace in which the device is open to all, as udev has it on
    /// other machines. Its arguments are what is to be mounted, and the network.
    fn run(&self, script: &str) -> Finished {
        let lustre = &self.lustre;
        let source = format!("{}:/{FSNAME}", nid(lustre.ip));
        let net = format!("tcp={}:{}", loopback(), lustre.port);
        let device = "mknod fuse c 10 229; chmod 666 fuse; mount --bind fuse /dev/fuse";
        let script = format!("set -eu\n{device}\n{script}");
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", &script, "sh", &source, &net]);
        crate::common::clean(&mut command);
        finish(command.current_dir(lustre.scratch.path()))
    }
}
