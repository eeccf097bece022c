//! What the kernel keeps of a mount: names for a moment, and attributes until they are invalidated.

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

/// A file in a directory that is closed at times.
const FILE: &str = "closed/sub/file";
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
        let look = |name: &str| fs::metadata(one.path(name));
        for turn in 0..4 {
            // Where a name is changed, the kernel uses none for a while.
            let base = format!("base{turn}");
            let [dir, from, to, sub] =
                ["", "/a", "/b", "/sub"].map(|name| format!("{base}/dir{name}"));
            fs::create_dir_all(other.path(&dir)).unwrap();
            fs::write(other.path(&from), b"x").unwrap();
            // What is looked at is kept.
            for _ in 0..3 {
                assert_eq!(look(&from).unwrap().len(), 1, "{options}");
                assert_eq!(look(&dir).unwrap().nlink(), 2);
                assert!(look(&to).is_err());
            }
            if turn % 2 == 0 {
                fs::create_dir(other.path(&sub)).unwrap();
                assert_eq!(look(&dir).unwrap().nlink(), 3, "{options}");
                assert!(look(&sub).is_ok());
            }
            let mut file = OpenOptions::new().append(true).open(other.path(&from)).unwrap();
            file.write_all(b"x").unwrap();
            assert_eq!(look(&from).unwrap().len(), 2, "{options}: written, and not closed");
            fs::rename(other.path(&from), other.path(&to)).unwrap();
            assert!(look(&from).is_err(), "{options}: it has another name");
            assert_eq!(look(&to).unwrap().len(), 2);
            chmod(other.path(&dir), 0o700);
            assert_eq!(look(&dir).unwrap().mode() & 0o777, 0o700, "{options}");
            let moved = format!("{base}/moved");
            fs::rename(other.path(&dir), other.path(&moved)).unwrap();
            assert!(look(&dir).is_err() && look(&to).is_err(), "{options}");
            assert_eq!(look(&format!("{moved}/b")).unwrap().len(), 2);
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
        let refused = Errno::ACCESS.raw_os_error();
        for (turn, changes) in [&mount, &other, &mount, &other].into_iter().enumerate() {
            // Where a name is changed, the kernel uses none for a while.
            let file = format!("base{turn}/closed/sub/file");
            let closed = changes.path(&format!("base{turn}/closed"));
            fs::create_dir_all(mount.path(&file).parent().unwrap()).unwrap();
            fs::write(mount.path(&file), b"x").unwrap();
            let over = AtomicBool::new(false);
            thread::scope(|scope| {
                let end = OnDrop(&over);
                scope.spawn(|| {
                    while !over.load(Ordering::Relaxed) {
                        fs::metadata(mount.path(&file)).unwrap();
                    }
                });
                stranger_looks(&mount, &file).ok();
                for mode in [0o700, 0o711, 0o710, 0o755] {
                    chmod(&closed, mode);
                    let looked = stranger_looks(&mount, &file);
                    match mode & 1 {
                        1 => looked.ok(),
                        _ => looked.expect_code(refused).expect_stderr(&["Permission"]),
                    };
                }
                drop(end);
            });
        }
        mount.umount().ok();
        other.umount().ok();
    }
}

/// Ends a thread, also if an assertion fails.
struct OnDrop<'a>(&'a AtomicBool);

impl Drop for OnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn stranger_looks(mount: &Mounted, file: &str) -> crate::common::Finished {
    as_stranger(mount, "stat($ARGV[0])", &[file])
}

/// Access control lists count, whichever client has changed them.
#[test]
fn access_control_lists_count_beside_what_the_kernel_keeps() {
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
        fs::write(mount.path(FILE), b"x").unwrap();
        chmod(mount.path("closed"), 0o700);
        let refused = Errno::ACCESS.raw_os_error();
        stranger_looks(&mount, FILE).expect_code(refused).expect_stderr(&["Permission"]);
        for changes in [&mount, &other] {
            let set = |words: &[&str]| {
                finish(Command::new("setfacl").args(words).arg(changes.path("closed"))).ok();
            };
            set(&["-m", "u:65534:x"]);
            stranger_looks(&mount, FILE).ok();
            set(&["-b"]);
            stranger_looks(&mount, FILE).expect_code(refused).expect_stderr(&["Permission"]);
            // A list that takes a right away that all others have.
            chmod(changes.path("closed"), 0o755);
            set(&["-m", "u:65534:-"]);
            stranger_looks(&mount, FILE).expect_code(refused).expect_stderr(&["Permission"]);
            set(&["-b"]);
            stranger_looks(&mount, FILE).ok();
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
