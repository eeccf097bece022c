//! What the kernel keeps of a mount: names for a moment, and attributes until it is told.

use std::fs::{self, OpenOptions, Permissions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use lustrine_testing::{Need, not_run};
use rustix::io::Errno;

use super::{Lustre, Mounted, as_stranger, can_mount, has_strangers};
use crate::common::{finish, lustrine};

/// Ways to mount: with what the kernel keeps, and without.
const OPTIONS: [&str; 3] = ["", "entry_timeout=0", "cache=none"];

fn chmod(path: impl AsRef<Path>, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_mount_shows_at_once_what_another_one_has_changed() {
    if !can_mount() {
        return;
    }
    for options in OPTIONS {
        let lustre = Lustre::for_mounts();
        let (one, other) = (lustre.mount_with("one", options), lustre.mount_with("other", options));
        fs::create_dir(other.path("dir")).unwrap();
        fs::write(other.path("dir/a"), b"").unwrap();
        let look = |name: &str| fs::metadata(one.path(name));
        for turn in 0..6 {
            let (from, to) = if turn % 2 == 0 { ("dir/a", "dir/b") } else { ("dir/b", "dir/a") };
            // What is looked at is kept.
            for _ in 0..3 {
                assert_eq!(look(from).unwrap().len(), turn, "{options}");
                assert_eq!(look("dir").unwrap().nlink(), 2 + turn);
                assert!(look(to).is_err());
            }
            fs::rename(other.path(from), other.path(to)).unwrap();
            assert!(look(from).is_err(), "{options}: it has another name");
            let before = look(to).unwrap();
            assert_eq!((before.len(), look("dir").unwrap().nlink()), (turn, 2 + turn));
            chmod(other.path("dir"), 0o700 + turn as u32);
            assert_eq!(look("dir").unwrap().mode() & 0o777, 0o700 + turn as u32, "{options}");
            fs::create_dir(other.path(&format!("dir/sub{turn}"))).unwrap();
            assert_eq!(look("dir").unwrap().nlink(), 3 + turn, "{options}");
            assert!(look(&format!("dir/sub{turn}")).is_ok());
            let mut file = OpenOptions::new().append(true).open(other.path(to)).unwrap();
            file.write_all(b"x").unwrap();
            assert_eq!(look(to).unwrap().len(), turn + 1, "{options}: written, and not closed");
        }
        one.umount().ok();
        other.umount().ok();
    }
}

/// A path that somebody uses all the time is no way for others into a closed directory.
#[test]
fn what_the_kernel_keeps_gives_nobody_more_rights() {
    if !can_mount() || !has_strangers() {
        return;
    }
    for options in OPTIONS {
        let lustre = Lustre::for_mounts();
        let (mount, other) = (lustre.mount_with("m", options), lustre.mount_with("other", options));
        fs::create_dir_all(mount.path("closed/sub")).unwrap();
        fs::write(mount.path("closed/sub/file"), b"x").unwrap();
        chmod(mount.path("closed"), 0o700);
        let file = mount.path("closed/sub/file");
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    fs::metadata(&file).unwrap();
                }
            });
            for changes in [&mount, &other, &mount, &other] {
                let refused = Errno::ACCESS.raw_os_error();
                for _ in 0..3 {
                    stranger_looks(&mount).expect_code(refused).expect_stderr(&["Permission"]);
                }
                chmod(changes.path("closed"), 0o711);
                stranger_looks(&mount).ok();
                chmod(changes.path("closed"), 0o700);
                stranger_looks(&mount).expect_code(refused).expect_stderr(&["Permission"]);
            }
            over.store(true, Ordering::Relaxed);
        });
        mount.umount().ok();
        other.umount().ok();
    }
}

fn stranger_looks(mount: &Mounted) -> crate::common::Finished {
    as_stranger(mount, "stat($ARGV[0])", &["closed/sub/file"])
}

/// The kernel knows access control lists, and learns of changes by another machine.
#[test]
fn access_control_lists_count_for_what_the_kernel_keeps() {
    if !can_mount() || !has_strangers() {
        return;
    }
    if Command::new("setfacl").arg("--version").output().is_err() {
        return not_run(Need::Program, "setfacl is not installed");
    }
    for options in OPTIONS {
        let lustre = Lustre::for_mounts();
        let (mount, other) = (lustre.mount_with("m", options), lustre.mount_with("other", options));
        fs::create_dir_all(mount.path("closed/sub")).unwrap();
        fs::write(mount.path("closed/sub/file"), b"x").unwrap();
        chmod(mount.path("closed"), 0o700);
        let refused = Errno::ACCESS.raw_os_error();
        stranger_looks(&mount).expect_code(refused).expect_stderr(&["Permission"]);
        for changes in [&mount, &other] {
            let set = |words: &[&str]| {
                finish(Command::new("setfacl").args(words).arg(changes.path("closed"))).ok();
            };
            set(&["-m", "u:65534:x"]);
            stranger_looks(&mount).ok();
            set(&["-b"]);
            stranger_looks(&mount).expect_code(refused).expect_stderr(&["Permission"]);
            // A list that takes a right away that all others have.
            chmod(changes.path("closed"), 0o755);
            set(&["-m", "u:65534:-"]);
            stranger_looks(&mount).expect_code(refused).expect_stderr(&["Permission"]);
            set(&["-b"]);
            stranger_looks(&mount).ok();
            chmod(changes.path("closed"), 0o700);
        }
        mount.umount().ok();
        other.umount().ok();
    }
}

/// A path in use costs no requests for its names.
#[test]
fn names_in_use_are_not_asked_for() {
    if !can_mount() {
        return;
    }
    let lustre = Lustre::for_mounts();
    let mount = lustre.mount_with("m", "entry_timeout=1");
    fs::create_dir_all(mount.path("a/b")).unwrap();
    fs::write(mount.path("a/b/file"), b"x").unwrap();
    let look = || fs::metadata(mount.path("a/b/file")).unwrap();
    let asked = || {
        let status = finish(lustrine().args(["fs", "status", "--json"]).arg(&mount.dir)).ok();
        let names = status.json()[0]["names"].clone();
        let of = |key: &str| names[key].as_u64().unwrap_or_else(|| panic!("{key} of {names}"));
        of("name_hits") + of("name_misses")
    };
    // The first looks take the locks of the directories.
    for _ in 0..3 {
        look();
    }
    let before = asked();
    for _ in 0..300 {
        look();
    }
    // Without what the kernel keeps there are 900.
    let names = asked() - before;
    assert!(names < 300, "{names}");
    mount.umount().ok();
}
