//! Programs that wait for servers, and what ends their waits.

use std::fs::{self, File};
use std::io::Write;
use std::process::Command;

use super::{Lustre, can_mount, names};
use crate::common::{Running, eventually, finish, lustrine};

#[test]
fn umount_says_why_it_waits() {
    if !can_mount() {
        return;
    }
    let mut lustre = Lustre::for_mounts();
    let mount = lustre.mount("m");
    let mut file = File::create(mount.path("file")).unwrap();
    file.write_all(b"begun").unwrap();
    mount.umount().expect_error(&["cannot unmount", "programs use it"]);
    assert!(mount.is_running());
    lustre.servers = None;
    // The grant of the first write is enough for this one.
    file.write_all(b"only in this client").unwrap();
    drop(file);
    let mut waiting = Running::start(lustrine().arg("umount").arg(&mount.dir));
    waiting.wait_for(&format!(
        "unmounted; process {} is still writing data to the servers",
        mount.pid
    ));
    assert_eq!(names(&mount.dir), Vec::<String>::new());
    assert!(mount.is_running());
    mount.kill().unwrap();
    waiting.end().ok().expect_stderr(&["its log", "names what is lost"]);
}

/// A program that waits for a server that is gone cannot be killed; root can end its wait.
#[test]
fn a_forced_umount_ends_operations_that_wait() {
    if !can_mount() {
        return;
    }
    let mut lustre = Lustre::for_mounts();
    let mount = lustre.mount("m");
    fs::write(mount.path("file"), b"written").unwrap();
    lustre.servers = None;
    let waiting = Running::start(Command::new("stat").arg(mount.path("other")));
    eventually("an operation that waits", || {
        // The function of the kernel in which it waits, if the kernel says so.
        let place = fs::read_to_string(format!("/proc/{}/wchan", waiting.pid())).ok()?;
        (place == "0" || place.contains("request_wait_answer")).then_some(())
    });
    // Neither does this end it.
    mount.umount().expect_error(&["cannot unmount", "programs use it"]);
    finish(lustrine().args(["umount", "--force"]).arg(&mount.dir)).ok();
    let done = waiting.end();
    assert_eq!(done.code, Some(1), "{done:#?}");
    assert_eq!(names(&mount.dir), Vec::<String>::new());
}

#[test]
fn umount_does_not_wait_when_it_is_not_to() {
    if !can_mount() {
        return;
    }
    let mut lustre = Lustre::for_mounts();
    let (one, other) = (lustre.mount("a"), lustre.mount("b"));
    for mount in [&one, &other] {
        fs::write(mount.path(&format!("file-{}", mount.pid)), b"only in this client").unwrap();
    }
    lustre.servers = None;
    for (option, mount) in [("--no-wait", &one), ("--lazy", &other)] {
        let done = finish(lustrine().args(["umount", option]).arg(&mount.dir)).ok();
        assert_eq!(done.stderr, "", "{option}");
    }
    for mount in [&one, &other] {
        assert_eq!(names(&mount.dir), Vec::<String>::new());
    }
}
