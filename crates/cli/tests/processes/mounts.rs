//! `lustrine mount` and `lustrine umount`, over the model servers, which run in this process.

mod attributes;
mod direct;
mod ends;
mod kernel;
mod losses;
mod model;
mod posix;
mod starts;
mod users;
mod waits;

#[path = "../../../fs/examples/library/servers.rs"]
#[allow(dead_code, reason = "the example uses the rest")]
mod servers;

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use lustrine_server::ConfigChange;
use lustrine_testing::{Need, not_run};
use rustix::fs::{AtFlags, CWD, linkat};
use rustix::io::Errno;
use rustix::mount::{MountPropagationFlags, UnmountFlags, mount_bind, mount_change, unmount};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::common::{
    Finished, Running, Scratch, eventually, finish, free_port, loopback, lustrine,
};
use servers::{FSNAME, Servers, nid};

/// Whether scripts can be run on a mount here; if not, that is recorded.
#[track_caller]
fn can_run_scripts() -> bool {
    let tried = Command::new("python3").args(["-c", "import ctypes, mmap"]).output();
    if !tried.is_ok_and(|tried| tried.status.success()) {
        not_run(Need::Program, "python3 is not installed");
        return false;
    }
    can_mount()
}

/// Whether a file system of a program can be mounted here; if not, that is recorded.
#[track_caller]
fn can_mount() -> bool {
    const CAP_SYS_ADMIN: u64 = 1 << 21;
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let rights = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let rights = rights.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok());
    let why = if rights.is_none_or(|rights| rights & CAP_SYS_ADMIN == 0) {
        "this process may not mount"
    } else if OpenOptions::new().read(true).write(true).open("/dev/fuse").is_err() {
        "/dev/fuse cannot be opened"
    } else {
        return true;
    };
    not_run(Need::Fuse, why);
    false
}

/// A file system of the model servers.
pub(crate) struct Lustre {
    ip: Ipv4Addr,
    port: u16,
    servers: Option<Servers>,
    /// Undone before the directory is removed.
    _shared: Option<SharedMount>,
    pub(crate) scratch: Scratch,
}

/// A directory whose mounts are shared with namespaces that are made from this one.
struct SharedMount(PathBuf);

impl SharedMount {
    fn at(dir: &Path) -> SharedMount {
        mount_bind(dir, dir).expect("this process may mount");
        let shared = SharedMount(dir.to_owned());
        mount_change(dir, MountPropagationFlags::SHARED).expect("this process may mount");
        shared
    }
}

impl Drop for SharedMount {
    fn drop(&mut self) {
        let _ = unmount(&self.0, UnmountFlags::DETACH);
    }
}

impl Lustre {
    pub(crate) fn start() -> Lustre {
        let ip = loopback();
        // Others may take a free port before the servers listen there.
        let start = || {
            let port = free_port(ip);
            Servers::start(ip, port, &[], 8).map(|servers| (port, servers))
        };
        let (port, servers) = (0..5).find_map(|_| start().ok()).expect("the servers start");
        Lustre { ip, port, servers: Some(servers), _shared: None, scratch: Scratch::new() }
    }

    /// The same, with mounts that are shared as systemd has them: other tests make namespaces,
    /// which would keep a file system that is unmounted here.
    fn for_mounts() -> Lustre {
        let lustre = Lustre::start();
        let shared = SharedMount::at(lustre.scratch.path());
        Lustre { _shared: Some(shared), ..lustre }
    }

    /// A command of a client with an address of its own.
    pub(crate) fn client(&self, words: &[&str]) -> Command {
        let mut command = lustrine();
        command.args(words).args(["--net", &format!("tcp={}:{}", loopback(), self.port)]);
        command
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("lustre://{}/{FSNAME}/{path}", nid(self.ip))
    }

    /// Mounts it at a directory of this name.
    fn mount(&self, name: &str) -> Mounted {
        self.mount_with(name, "rw")
    }

    fn mount_with(&self, name: &str, options: &str) -> Mounted {
        let dir = self.scratch.file(name);
        if !dir.exists() {
            fs::create_dir(&dir).expect("a directory of this test");
        }
        let source = format!("{}:/{FSNAME}", nid(self.ip));
        let mut command = self.client(&["mount", &source]);
        command.arg(&dir).args(["-o", options, "--log"]).arg(self.scratch.file("log"));
        finish(&mut command).ok();
        Mounted::at(dir)
    }
}

/// The process ID in what `fs status --json` prints.
fn find_pid(value: &serde_json::Value) -> Option<i32> {
    match value {
        serde_json::Value::Object(map) => match map.get("pid").and_then(|pid| pid.as_i64()) {
            Some(pid) => i32::try_from(pid).ok(),
            None => map.values().find_map(find_pid),
        },
        serde_json::Value::Array(all) => all.iter().find_map(find_pid),
        _ => None,
    }
}

/// A mount, which ends with this value if it has not before.
struct Mounted {
    dir: PathBuf,
    pid: i32,
    /// The process, also if its number is another one's by now.
    process: OwnedFd,
}

impl Mounted {
    /// What is mounted at a directory.
    fn at(dir: PathBuf) -> Mounted {
        let status = finish(lustrine().args(["fs", "status", "--json"]).arg(&dir)).ok().json();
        let pid = find_pid(&status).expect("the status names the process");
        let raw = Pid::from_raw(pid).expect("it is not 0");
        let process = pidfd_open(raw, PidfdFlags::empty()).expect("the process runs");
        Mounted { dir, pid, process }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    fn kill(&self) -> rustix::io::Result<()> {
        pidfd_send_signal(&self.process, Signal::KILL)
    }

    fn terminate(&self) -> rustix::io::Result<()> {
        pidfd_send_signal(&self.process, Signal::TERM)
    }

    fn is_running(&self) -> bool {
        // One that has ended stays in the table until its parent has asked.
        let state = fs::read_to_string(format!("/proc/{}/stat", self.pid)).unwrap_or_default();
        state.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
    }

    fn umount(&self) -> Finished {
        finish(lustrine().arg("umount").arg(&self.dir))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // Most have been unmounted by their test.
        let _ = finish(lustrine().args(["umount", "--lazy"]).arg(&self.dir));
        let _ = self.kill();
    }
}

/// The directories at which something is mounted.
fn mount_points() -> Vec<PathBuf> {
    let mounts = fs::read_to_string("/proc/mounts").expect("Linux has it");
    mounts.lines().filter_map(|line| Some(line.split(' ').nth(1)?.into())).collect()
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).expect("the directory is listed");
    let name = |entry: fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
    let mut names: Vec<String> =
        entries.map(|entry| name(entry.expect("an entry is read"))).collect();
    names.sort();
    names
}

#[test]
fn what_was_written_is_at_the_servers_when_umount_returns() {
    if !can_mount() {
        return;
    }
    let lustre = Lustre::for_mounts();
    let mount = lustre.mount("m");
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|at| (at / 7) as u8).collect();
    fs::create_dir_all(mount.path("a/b")).unwrap();
    fs::write(mount.path("a/b/data"), &bytes).unwrap();
    fs::rename(mount.path("a/b/data"), mount.path("a/moved")).unwrap();
    fs::hard_link(mount.path("a/moved"), mount.path("a/linked")).unwrap();
    symlink("moved", mount.path("a/symbolic")).unwrap();
    fs::set_permissions(mount.path("a/moved"), fs::Permissions::from_mode(0o640)).unwrap();
    let mut file = OpenOptions::new().append(true).open(mount.path("a/symbolic")).unwrap();
    file.write_all(b"appended").unwrap();
    drop(file);
    fs::write(mount.path("gone"), b"x").unwrap();
    fs::remove_file(mount.path("gone")).unwrap();
    fs::remove_dir(mount.path("a/b")).unwrap();
    mount.umount().ok();
    assert!(!mount.is_running(), "umount has waited for the program");
    assert_eq!(names(&mount.dir), Vec::<String>::new(), "nothing is mounted any more");

    let expected = [&bytes[..], b"appended"].concat();
    let copy = lustre.scratch.file("copy");
    let mut get = lustre.client(&["fs", "get", &lustre.url("a/linked")]);
    finish(get.arg(&copy)).ok();
    assert!(fs::read(copy).unwrap() == expected, "another client reads the same");
    let again = lustre.mount("again");
    assert_eq!(names(&again.dir), ["a"]);
    assert_eq!(names(&again.path("a")), ["linked", "moved", "symbolic"]);
    // The inode number of the root is that of its FID, as in a listing.
    let root = fs::metadata(&again.dir).unwrap().ino();
    assert_eq!(root, fs::metadata(again.path("a/..")).unwrap().ino());
    assert_ne!(root, 1);
    assert!(fs::read(again.path("a/symbolic")).unwrap() == expected);
    let about = fs::metadata(again.path("a/moved")).unwrap();
    assert_eq!((about.len(), about.nlink(), about.mode() & 0o7777), (3_000_008, 2, 0o640));
    again.umount().ok();
}

#[test]
fn a_second_mount_at_the_same_place_is_refused() {
    if !can_mount() {
        return;
    }
    let lustre = Lustre::for_mounts();
    let mount = lustre.mount("m");
    let source = format!("{}:/{FSNAME}", nid(lustre.ip));
    let mut again = lustre.client(&["mount", &source]);
    let words = ["cannot mount at", "is mounted there already"];
    finish(again.arg(&mount.dir)).expect_error(&words);
    // `mount -a` asks for it by the source of fstab, in any of its forms.
    let helper = lustre.scratch.file("mount.lustrine");
    symlink(lustrine().get_program(), &helper).unwrap();
    let ask_with = |options: &str, source: String| {
        let mut command = Command::new(&helper);
        crate::common::clean(&mut command);
        finish(command.arg(source).arg(&mount.dir).args(["-o", options]))
    };
    let ask = |source| ask_with("rw", source);
    ask(format!("{}:/{FSNAME}", lustre.ip)).ok();
    ask(lustre.url("")).ok();
    ask(lustre.url("directory")).expect_error(&words);
    ask_with("remount,ro", lustre.url("")).expect_code(2).expect_stderr(&["remount"]);
    mount.umount().ok();
    assert_eq!(names(&mount.dir), Vec::<String>::new());
}

#[test]
fn two_mounts_see_what_the_other_changes() {
    if !can_mount() {
        return;
    }
    let lustre = Lustre::for_mounts();
    let (one, other) = (lustre.mount("one"), lustre.mount("other"));
    let mut file = File::create(one.path("file")).unwrap();
    for turn in 0..10_u8 {
        // The file stays open, and the data of neither side are written by a close.
        file.write_all(&[turn; 1000]).unwrap();
        let seen = fs::read(other.path("file")).unwrap();
        assert_eq!(seen.len(), (usize::from(turn) + 1) * 1000);
        assert!(seen.ends_with(&[turn; 1000]));
        let mut there = OpenOptions::new().write(true).open(other.path("file")).unwrap();
        there.seek(SeekFrom::Start(u64::from(turn))).unwrap();
        there.write_all(b"!").unwrap();
        drop(there);
        let mut start = vec![0; usize::from(turn) + 1];
        File::open(one.path("file")).unwrap().read_exact(&mut start).unwrap();
        assert!(start.iter().all(|byte| *byte == b'!'), "turn {turn}: {start:?}");
    }
    assert_eq!(names(&other.dir), ["file"]);
    fs::rename(one.path("file"), one.path("renamed")).unwrap();
    assert_eq!(names(&other.dir), ["renamed"]);
    assert!(fs::metadata(other.path("file")).is_err());
    OpenOptions::new().write(true).open(other.path("renamed")).unwrap().set_len(17).unwrap();
    assert_eq!(fs::metadata(one.path("renamed")).unwrap().len(), 17);
    drop(file);
    one.umount().ok();
    other.umount().ok();
}

/// The kernel looks a path up again for ESTALE: another file may have the name. ENOENT would reach
/// the program, for a name that another machine has only replaced.
#[test]
fn a_file_that_another_client_has_removed_is_stale() {
    const O_PATH: i32 = 0o10_000_000;
    if !can_mount() {
        return;
    }
    let lustre = Lustre::for_mounts();
    let mount = lustre.mount("m");
    fs::write(mount.path("gone"), b"x").unwrap();
    let known = OpenOptions::new().read(true).custom_flags(O_PATH).open(mount.path("gone"));
    let known = known.expect("the kernel knows the file");
    finish(&mut lustre.client(&["fs", "rm", &lustre.url("gone")])).ok();
    let path = format!("/proc/self/fd/{}", known.as_raw_fd());
    let errno = |error: std::io::Error| Errno::from_io_error(&error);
    assert_eq!(errno(File::open(&path).unwrap_err()), Some(Errno::STALE));
    assert_eq!(errno(fs::metadata(&path).unwrap_err()), Some(Errno::STALE));
    let link = |name: &str| linkat(CWD, &path, CWD, mount.path(name), AtFlags::SYMLINK_FOLLOW);
    assert_eq!(link("linked"), Err(Errno::STALE));
    // Nothing has the name.
    assert_eq!(errno(File::open(mount.path("gone")).unwrap_err()), Some(Errno::NOENT));
    drop(known);
    mount.umount().ok();
}

/// It is what an administrator does after a target was lost.
#[test]
fn files_on_a_deactivated_target_are_removed_and_renamed() {
    if !can_mount() {
        return;
    }
    let lustre = Lustre::for_mounts();
    let mount = lustre.mount("m");
    for name in ["gone", "moved"] {
        fs::write(mount.path(name), vec![7; 200_000]).unwrap();
    }
    let device = format!("{FSNAME}-OST0001-osc");
    let change = ConfigChange::ConfParam { device, parameter: "osc.active=0".to_owned() };
    let server = lustre.servers.as_ref().expect("the servers run").server();
    let post = server.post(move |server, turn| {
        server.configure(turn, FSNAME, &change);
    });
    post.expect("the event loop runs");
    eventually("the client knows of it", || {
        let error = fs::metadata(mount.path("moved")).err()?;
        (Errno::from_io_error(&error) == Some(Errno::SHUTDOWN)).then_some(())
    });
    fs::rename(mount.path("moved"), mount.path("renamed")).unwrap();
    fs::remove_file(mount.path("gone")).unwrap();
    assert_eq!(names(&mount.dir), ["renamed"]);
    fs::remove_file(mount.path("renamed")).unwrap();
    mount.umount().ok();
}

/// Whether [`as_stranger`] can run something; if not, that is recorded.
#[track_caller]
fn has_strangers() -> bool {
    for program in ["setpriv", "perl"] {
        if Command::new(program).arg("--version").output().is_err() {
            not_run(Need::Program, &format!("{program} is not installed"));
            return false;
        }
    }
    true
}

/// Runs a script of Perl as a user without rights, in the mount's root, as the path to it may be
/// closed to others. The exit status is the errno.
fn as_stranger(mount: &Mounted, script: &str, arguments: &[&str]) -> Finished {
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "perl", "-e"]);
    command.arg(format!("{script} or die $!")).args(arguments);
    finish(command.current_dir(&mount.dir))
}

#[test]
fn a_truncate_clears_the_set_user_id_bit_if_it_is_allowed() {
    if !can_mount() || !has_strangers() {
        return;
    }
    let lustre = Lustre::for_mounts();
    let mount = lustre.mount("m");
    // truncate(1) opens the file.
    let truncate = |name: &str| as_stranger(&mount, "truncate($ARGV[0], 3)", &[name]);
    let make = |name: &str, mode| {
        fs::write(mount.path(name), b"0123456789").unwrap();
        fs::set_permissions(mount.path(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    let seen = |name: &str| {
        let about = fs::metadata(mount.path(name)).unwrap();
        (about.mode() & 0o7777, about.len())
    };
    make("closed", 0o4755);
    let eacces = Errno::ACCESS.raw_os_error();
    truncate("closed").expect_code(eacces).expect_stderr(&["Permission denied"]);
    assert_eq!(seen("closed"), (0o4755, 10));
    make("open", 0o4777);
    truncate("open").ok();
    assert_eq!(seen("open"), (0o777, 3));
    mount.umount().ok();
}

/// Neither the kernel nor a server checks whether a directory that moves may be written.
#[test]
fn strangers_move_no_directories_of_others_and_make_no_links_to_what_they_cannot_write() {
    if !can_mount() || !has_strangers() {
        return;
    }
    let lustre = Lustre::for_mounts();
    let mount = lustre.mount("m");
    let mode = |name: &str, mode| {
        fs::set_permissions(mount.path(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    for (name, bits) in [("a", 0o777), ("b", 0o777), ("a/closed", 0o755), ("a/open", 0o777)] {
        fs::create_dir(mount.path(name)).unwrap();
        mode(name, bits);
    }
    let [eperm, eacces] = [Errno::PERM, Errno::ACCESS].map(Errno::raw_os_error);
    let rename =
        |from: &str, to: &str| as_stranger(&mount, "rename($ARGV[0], $ARGV[1])", &[from, to]);
    rename("a/closed", "b/closed").expect_code(eacces).expect_stderr(&["Permission denied"]);
    // Its entry for the directory above stays as it is.
    rename("a/closed", "a/renamed").ok();
    rename("a/open", "b/open").ok();
    fs::write(mount.path("a/file"), b"x").unwrap();
    mode("a/file", 0o600);
    rename("a/file", "b/file").ok();
    assert_eq!(
        [names(&mount.path("a")), names(&mount.path("b"))].concat(),
        ["renamed", "file", "open"]
    );
    let protected = fs::read_to_string("/proc/sys/fs/protected_hardlinks").unwrap_or_default();
    let link = |to: &str| as_stranger(&mount, "link($ARGV[0], $ARGV[1])", &["b/file", to]);
    for (bits, allowed) in [(0o644, false), (0o666, true), (0o4666, false)] {
        mode("b/file", bits);
        let name = format!("a/link{bits:o}");
        match allowed || protected.trim() == "0" {
            true => link(&name).ok(),
            false => link(&name).expect_code(eperm).expect_stderr(&["Operation not permitted"]),
        };
    }
    fs::hard_link(mount.path("b/file"), mount.path("a/root")).expect("root may");
    mount.umount().ok();
}

#[test]
fn a_mount_whose_program_was_killed_is_unmounted() {
    if !can_mount() {
        return;
    }
    let lustre = Lustre::for_mounts();
    // The servers would wait for an answer of the dead client before they gave away its locks.
    let mount = lustre.mount_with("m", "cache=none");
    fs::write(mount.path("file"), b"synced").unwrap();
    File::open(mount.path("file")).unwrap().sync_all().unwrap();
    mount.kill().unwrap();
    eventually("the mount point is dead", || {
        let error = fs::metadata(&mount.dir).err()?;
        (error.raw_os_error() == Some(Errno::NOTCONN.raw_os_error())).then_some(())
    });
    mount.umount().ok();
    let again = lustre.mount("m");
    assert_eq!(fs::read(again.path("file")).unwrap(), b"synced");
    // By a symbolic link to it, as `lustrine mount` takes one.
    let link = lustre.scratch.file("link");
    symlink("m", &link).unwrap();
    finish(lustrine().arg("umount").arg(&link)).ok();
    assert_eq!(names(&again.dir), Vec::<String>::new());
}

/// As a container that was started meanwhile does.
#[test]
fn umount_names_who_has_the_file_system_mounted_still() {
    if !can_mount() {
        return;
    }
    let lustre = Lustre::for_mounts();
    let mount = lustre.mount("m");
    fs::write(mount.path("file"), b"written").unwrap();
    let mut copy = Command::new("unshare");
    // It does not keep the mounts of other tests.
    let script = "grep ' fuse.lustrine ' /proc/mounts | cut -d ' ' -f 2 | grep -vxF \"$0\" | \
                  xargs -r umount -l; echo copied >&2; exec cat";
    copy.args(["--mount", "--propagation", "private", "sh", "-c", script]).arg(&mount.dir);
    let mut holder = Running::start(&mut copy);
    holder.wait_for("copied");
    let place = format!("still mounted at {} for process", mount.dir.display());
    mount.umount().ok().expect_stderr(&[
        "unmounted here; the file system is ",
        &format!("{place} {} (cat), which has mounts of its own", holder.pid()),
    ]);
    assert_eq!(names(&mount.dir), Vec::<String>::new());
    assert!(mount.is_running());
    drop(holder);
    eventually("the end of the program", || (!mount.is_running()).then_some(()));

    let mount = lustre.mount("m");
    let bound = lustre.scratch.file("bound");
    fs::create_dir(&bound).unwrap();
    mount_bind(&mount.dir, &bound).unwrap();
    // Namespaces of other tests have copies.
    let place = format!("still mounted at {}, ", bound.display());
    mount.umount().ok().expect_stderr(&[&place, "so the mount process continues"]);
    assert_eq!(fs::read(bound.join("file")).unwrap(), b"written");
    finish(lustrine().arg("umount").arg(&bound)).ok();
    assert!(!mount.is_running());
}

#[test]
fn mount_and_umount_of_the_system_call_it_by_its_other_names() {
    if !can_mount() {
        return;
    }
    let lustre = Lustre::for_mounts();
    let program = lustrine().get_program().to_owned();
    for name in ["mount.lustrine", "umount.fuse.lustrine"] {
        symlink(&program, lustre.scratch.file(name)).unwrap();
    }
    let called = |name: &str| {
        let mut command = Command::new(lustre.scratch.file(name));
        crate::common::clean(&mut command);
        command
    };
    let dir = lustre.scratch.file("m");
    fs::create_dir(&dir).unwrap();
    let source = format!("{}:/{FSNAME}", nid(lustre.ip));
    // A line of fstab has no other place for the address of the client and its log.
    let log = lustre.scratch.file("log");
    let options = format!("rw,net=tcp={}:{},log={}", loopback(), lustre.port, log.display());
    finish(called("mount.lustrine").arg(&source).arg(&dir).args(["-o", &options])).ok();
    let mount = Mounted::at(dir);
    fs::write(mount.path("file"), b"by name").unwrap();
    assert!(fs::read_to_string(&log).unwrap().contains("is mounted"));
    let words = ["-v", "-n", "-t", "fuse.lustrine"];
    let said = finish(called("umount.fuse.lustrine").arg(&mount.dir).args(words)).ok();
    assert!(said.stdout.starts_with("umount.fuse.lustrine: "), "{}", said.stdout);
    assert!(!mount.is_running());
    // Everything is checked, and nothing is mounted.
    let words = ["-f", "-v", "-o", "rw,noatime"];
    finish(called("mount.lustrine").arg(&source).arg(&mount.dir).args(words)).ok();
    assert_eq!(names(&mount.dir), Vec::<String>::new());
}
