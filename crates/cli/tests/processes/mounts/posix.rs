//! What POSIX and the manual pages of Linux promise, and the kernel leaves to the mount.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

use lustrine_testing::{Need, not_run};

use super::{Lustre, Mounted, can_run_scripts};
use crate::common::{eventually, finish};

/// What the scripts below start with.
const START: &str = r#"
import ctypes, fcntl, mmap, os, subprocess, sys, time
from os import *
"#;

/// Runs a script with these arguments.
fn run(script: &str, arguments: &[&Path]) -> String {
    let mut command = Command::new("python3");
    command.arg("-c").arg(format!("{START}{script}")).args(arguments);
    finish(&mut command).ok().stdout
}

/// The kernel asks for the close after close(2) has returned.
fn wait_for_closes(lustre: &Lustre) {
    eventually("the files are closed", || (lustre.opens() == 0).then_some(()));
}

#[test]
fn the_time_of_the_last_access_changes_by_reads_alone() {
    if !can_run_scripts() {
        return;
    }
    let lustre = Lustre::for_mounts();
    let (one, other) = (lustre.mount("one"), lustre.mount("other"));
    let read_only = lustre.mount_with("read", "ro,strictatime");
    fs::write(one.path("file"), b"data").unwrap();
    let seen_after = |script: &str, mount: &Mounted| {
        run("utime(sys.argv[1], (1000, 2000))", &[&one.path("file")]);
        wait_for_closes(&lustre);
        run(script, &[&mount.path("file"), &other.path("file")]);
        wait_for_closes(&lustre);
        fs::metadata(other.path("file")).unwrap().atime()
    };
    let read = "file = open(sys.argv[1], O_RDONLY); read(file, 4)";
    assert!(seen_after(read, &one) > 1_000_000, "a read changes it");
    assert_eq!(
        seen_after("file = open(sys.argv[1], O_RDONLY | O_NOATIME); read(file, 4)", &one),
        1000
    );
    assert_eq!(seen_after(read, &read_only), 1000);
    // A close does not bring back what was there at the open.
    let touched = "file = open(sys.argv[1], O_RDONLY); utime(sys.argv[2], (500, 2000))";
    assert_eq!(seen_after(touched, &one), 500);
    let set = "file = open(sys.argv[1], O_RDONLY); read(file, 4); utime(sys.argv[1], (500, 2000))";
    assert_eq!(seen_after(set, &one), 500, "a read before that does not count");
    [one, other, read_only].iter().for_each(|mount| drop(mount.umount().ok()));
}

/// The kernel holds what is written to a mapping.
#[test]
fn what_is_written_to_a_mapping_is_no_hole() {
    if !can_run_scripts() {
        return;
    }
    let lustre = Lustre::for_mounts();
    let mount = lustre.mount("m");
    let script = r#"
import errno
name, copy = sys.argv[1:]

def sought(file, at, whence):
    try:
        return lseek(file, at, whence)
    except OSError as error:
        return errno.errorcode[error.errno]

file = open(name, O_RDWR | O_CREAT)
ftruncate(file, 1 << 20)
# It is open to be written, and is not mapped.
assert sought(file, 0, SEEK_DATA) == "ENXIO"
assert stat(name).st_blocks == 0
try:
    memory = mmap.mmap(file, 1 << 20)
except OSError:
    print("refused")
    sys.exit()
close(file)
# An open after this has the kernel write the pages back.
file = open(name, O_RDONLY)
memory[:] = b"\1" * (1 << 20)
assert stat(name).st_blocks == 2048, stat(name)
seen = [sought(file, at, SEEK_DATA) for at in (0, 5000, 1 << 20)]
assert seen == [0, 5000, "ENXIO"], seen
seen = [sought(file, at, SEEK_HOLE) for at in (0, 5000, 1 << 20)]
assert seen == [1 << 20, 1 << 20, "ENXIO"], seen
subprocess.run(["cp", name, copy], check=True)
with fdopen(open(copy, O_RDONLY), "rb") as copied:
    assert copied.read() == bytes(memory)
memory.close()
"#;
    let said = run(script, &[&mount.path("file"), &lustre.scratch.file("copy")]);
    if said == "refused\n" {
        not_run(Need::Fuse, "this kernel has no shared mappings of such files");
    }
    // Afterwards the servers know.
    wait_for_closes(&lustre);
    let sparse = r#"
file = open(sys.argv[1], O_RDWR | O_CREAT)
ftruncate(file, 3 << 20)
pwrite(file, b"x", 2 << 20)
fsync(file)
assert lseek(file, 0, SEEK_DATA) == 2 << 20
assert stat(sys.argv[1]).st_blocks < 2048
"#;
    run(sparse, &[&mount.path("sparse")]);
    mount.umount().ok();
}

/// The close of another open file may still be in flight.
#[test]
fn a_time_that_was_set_after_a_close_stays() {
    if !can_run_scripts() {
        return;
    }
    let lustre = Lustre::for_mounts();
    let script = r#"
name, other = sys.argv[1:]
for turn in range(100):
    one, two = (open(name, O_WRONLY | O_CREAT) for _ in range(2))
    write(one, b"x")
    # The close has to ask for the size then.
    with fdopen(open(other, O_RDONLY), "rb") as file:
        file.read()
    stat(name)
    close(one)
    utime(two, (50, 50))
    close(two)
    time.sleep(0.02)
    seen = stat(other).st_mtime
    assert seen == 50, (turn, seen)
"#;
    let other = lustre.mount("other");
    for options in ["cache=none", "rw"] {
        let mount = lustre.mount_with("m", options);
        run(script, &[&mount.path("file"), &other.path("file")]);
        mount.umount().ok();
    }
    other.umount().ok();
}

#[test]
fn what_a_close_ends_is_not_in_the_way_of_the_same_program() {
    if !can_run_scripts() {
        return;
    }
    let lustre = Lustre::for_mounts();
    let mount = lustre.mount("m");
    let script = r#"
for turn in range(300):
    one = open(sys.argv[1], O_RDWR | O_CREAT)
    fcntl.flock(one, fcntl.LOCK_EX)
    two = open(sys.argv[1], O_RDWR)
    close(one)
    fcntl.flock(two, fcntl.LOCK_EX | fcntl.LOCK_NB)
    close(two)
"#;
    run(script, &[&mount.path("file")]);
    let held = r#"
one = open(sys.argv[1], O_RDWR | O_CREAT)
fcntl.flock(one, fcntl.LOCK_EX)
two = open(sys.argv[1], O_RDWR)
before = time.monotonic()
for _ in range(3):
    # The kernel tells the mount of this close. The lock is there all the same.
    close(dup(one))
    try:
        fcntl.flock(two, fcntl.LOCK_EX | fcntl.LOCK_NB)
        sys.exit("two have the lock")
    except BlockingIOError:
        pass
assert time.monotonic() - before < 10
"#;
    run(held, &[&mount.path("file")]);
    mount.umount().ok();
}

/// A request names one supplementary group of the process. The kernel does not look up the
/// directory in which a process works.
#[test]
fn members_of_a_group_may_what_it_has_got_meanwhile() {
    if !can_run_scripts() {
        return;
    }
    let lustre = Lustre::for_mounts();
    let (one, other) = (lustre.mount("one"), lustre.mount("other"));
    let script = r#"
one, other = sys.argv[1:]
chdir(one)
chmod(other, 0o770)
for number, operation in enumerate([
    lambda: listdir("."),
    lambda: close(open("file", O_WRONLY | O_CREAT)),
    lambda: stat("file"),
    lambda: mkdir("directory"),
    lambda: symlink("file", "symbolic"),
    lambda: mkfifo("fifo"),
    lambda: link("file", "linked"),
    lambda: rename("linked", "renamed"),
    lambda: unlink("renamed"),
    lambda: rmdir("directory"),
]):
    chown(other, 0, 0)
    assert stat(".").st_gid == 0
    chown(other, 0, 4242)
    child = fork()
    if child == 0:
        setgroups([77, 4242])
        setgid(65534)
        setuid(65534)
        try:
            operation()
            _exit(0)
        except OSError as error:
            print(number, error, file=sys.stderr)
            _exit(1)
    assert waitpid(child, 0)[1] == 0, number
"#;
    fs::create_dir(one.path("dir")).unwrap();
    for (here, there) in [("dir", "dir"), ("", "")] {
        run(script, &[&one.path(here), &other.path(there)]);
    }
    fs::set_permissions(&one.dir, fs::Permissions::from_mode(0o755)).unwrap();
    [one, other].iter().for_each(|mount| drop(mount.umount().ok()));
}
