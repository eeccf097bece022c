//! `lustrine fs` copies that fail or are interrupted, and servers that do not answer.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, symlink};
use std::path::Path;
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};

use crate::common::{Running, Scratch, eventually, finish, free_port, loopback, lustrine};
use crate::mounts::Lustre;

/// Makes a file with a byte of data in each piece that is copied: to find them all takes long
/// enough for a signal.
fn make_large(path: &Path, size: u64) {
    let file = File::create(path).unwrap();
    file.set_len(size).unwrap();
    for offset in (0..size).step_by(4 << 20) {
        file.write_all_at(b"x", offset).unwrap();
    }
}

fn is_part(name: &str) -> bool {
    name.starts_with(".lustrine-part-")
}

fn here(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).expect("the directory is listed");
    entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect()
}

fn there(lustre: &Lustre, path: &str) -> Vec<String> {
    let listed = finish(&mut lustre.client(&["fs", "ls", &lustre.url(path)])).ok();
    listed.stdout.lines().map(str::to_owned).collect()
}

#[test]
fn an_interrupted_copy_leaves_no_part() {
    let lustre = Lustre::start();
    let large = lustre.scratch.file("large");
    make_large(&large, 64 << 30);
    let mut put = lustre.client(&["fs", "put"]);
    let put = Running::start(put.arg(&large).arg(lustre.url("")));
    eventually("a part in the file system", || {
        there(&lustre, "").iter().any(|name| is_part(name)).then_some(())
    });
    put.signal(Signal::INT);
    put.end().expect_code(130).expect_stderr(&["lustrine: interrupted"]);
    assert_eq!(there(&lustre, ""), Vec::<String>::new());

    let url = lustre.url("large");
    make_large(&large, 2 << 30);
    finish(lustre.client(&["fs", "put"]).arg(&large).arg(&url)).ok();
    let dir = lustre.scratch.file("here");
    fs::create_dir(&dir).unwrap();
    let mut get = lustre.client(&["fs", "get", &url]);
    let get = Running::start(get.arg(&dir));
    eventually("a part here", || here(&dir).iter().any(|name| is_part(name)).then_some(()));
    get.signal(Signal::TERM);
    get.end().expect_code(143).expect_stderr(&["lustrine: interrupted"]);
    assert_eq!(here(&dir), Vec::<String>::new());
}

#[test]
fn a_slash_at_the_end_means_a_directory_that_is_there() {
    let lustre = Lustre::start();
    let file = lustre.scratch.file("file");
    fs::write(&file, b"data").unwrap();
    let file = file.to_str().unwrap();
    finish(&mut lustre.client(&["fs", "put", file, &lustre.url("a")])).ok();
    let no_dir = |words: &[&str], name: &str| {
        let error = [name, "no such directory"];
        finish(&mut lustre.client(words)).expect_error(&error);
    };
    no_dir(&["fs", "put", file, &lustre.url("missing/")], "missing/: ");
    no_dir(&["fs", "cp", &lustre.url("a"), &lustre.url("missing/")], "missing/: ");
    let missing = lustre.scratch.file("missing");
    let slash = format!("{}/", missing.display());
    no_dir(&["fs", "get", &lustre.url("a"), &slash], &slash);
    no_dir(&["fs", "get", "-r", &lustre.url("a"), &slash], &slash);
    let get = ["fs", "get", &lustre.url("a"), &format!("{file}/")];
    finish(&mut lustre.client(&get)).expect_error(&["/file/: is not a directory"]);
    assert!(!missing.exists());
    let words = ["fs", "put", file, &lustre.url("a/")];
    finish(&mut lustre.client(&words)).expect_error(&["a/: is not a directory"]);
    assert_eq!(there(&lustre, ""), ["a"]);
    // As with cp(1), the copy of a directory can be a new one.
    finish(&mut lustre.client(&["fs", "mkdir", &lustre.url("d")])).ok();
    finish(&mut lustre.client(&["fs", "cp", "-r", &lustre.url("d"), &lustre.url("e/")])).ok();
    finish(&mut lustre.client(&["fs", "get", "-r", &lustre.url("d"), &slash])).ok();
    assert!(missing.is_dir());
    finish(&mut lustre.client(&["fs", "cp", &lustre.url("a"), &lustre.url("e/")])).ok();
    assert_eq!(there(&lustre, "e"), ["a"]);
    // A second mv would replace the file that the first one has made of the name.
    no_dir(&["fs", "mv", &lustre.url("a"), &lustre.url("missing/")], "missing/: ");
    no_dir(&["fs", "ln", &lustre.url("a"), &lustre.url("missing/")], "missing/: ");
    let mv = ["fs", "mv", &lustre.url("e/a"), &lustre.url("a/")];
    finish(&mut lustre.client(&mv)).expect_error(&["a/: is not a directory"]);
    finish(&mut lustre.client(&["fs", "mv", &lustre.url("d"), &lustre.url("new/")])).ok();
    assert_eq!(there(&lustre, ""), ["a", "e", "new"]);
}

/// Not that of the file to which it points.
#[test]
fn a_symbolic_link_is_put_under_its_own_name() {
    let lustre = Lustre::start();
    let dir = lustre.scratch.file("runs");
    fs::create_dir(&dir).unwrap();
    fs::write(dir.join("run-42"), b"data").unwrap();
    let link = lustre.scratch.file("current");
    symlink(dir.join("run-42"), &link).unwrap();
    let put = |from: &Path, words: &[&str]| {
        finish(lustre.client(&[&["fs", "put"], words].concat()).arg(from).arg(lustre.url(""))).ok();
    };
    put(&link, &[]);
    assert_eq!(there(&lustre, ""), ["current"]);
    // A directory has its own name, however it is called.
    put(&dir.join("."), &["-r"]);
    assert_eq!(there(&lustre, ""), ["current", "runs"]);
}

#[test]
fn errors_of_a_copy_name_the_file_that_they_are_about() {
    let lustre = Lustre::start();
    let file = lustre.scratch.file("file");
    fs::write(&file, b"data").unwrap();
    let file = file.to_str().unwrap();
    finish(&mut lustre.client(&["fs", "put", file, &lustre.url("a")])).ok();
    let exists = ["lustrine: a: file exists; --force replaces it"];
    finish(&mut lustre.client(&["fs", "put", file, &lustre.url("a")])).expect_error(&exists);
    // A file that is in the way of a directory.
    for dir in ["d", "e"] {
        finish(&mut lustre.client(&["fs", "mkdir", &lustre.url(dir)])).ok();
    }
    finish(&mut lustre.client(&["fs", "put", file, &lustre.url("e/d")])).ok();
    let words = ["fs", "cp", "-r", &lustre.url("d"), &lustre.url("e/d")];
    finish(&mut lustre.client(&words)).expect_error(&["lustrine: e/d: is not a directory"]);
}

#[test]
fn standard_input_becomes_a_file_when_it_ends() {
    let lustre = Lustre::start();
    let large = lustre.scratch.file("large");
    let data: Vec<u8> = (0..3_000_000_u32).flat_map(u32::to_le_bytes).collect();
    fs::write(&large, &data).unwrap();
    let put = |script: &str, words: &[&str]| {
        let ours = lustre.client(&[&["fs", "put", "-", &lustre.url("a")], words].concat());
        let mut shell = Command::new("sh");
        shell.args(["-c", script, "sh"]).arg(&large).arg(ours.get_program()).args(ours.get_args());
        shell
    };
    // From a pipe, in parts; and from a file, and nothing at all.
    let from_pipe = r#"file=$1; shift; (head -c 5 "$file"; sleep 0.3; tail -c +6 "$file") | "$@""#;
    for (script, words, size) in [
        (from_pipe, &["--verify"][..], data.len()),
        (r#"file=$1; shift; exec "$@" < "$file""#, &["-f", "--verify"], data.len()),
        (r#"shift; exec "$@" < /dev/null"#, &["-f"], 0),
    ] {
        finish(&mut put(script, words)).ok();
        let back = lustre.scratch.file("back");
        finish(lustre.client(&["fs", "get", &lustre.url("a")]).arg(&back)).ok();
        assert!(fs::read(&back).unwrap() == data[..size], "{script}");
    }
    let from_null = r#"shift; exec "$@" < /dev/null"#;
    finish(&mut put(from_null, &[])).expect_error(&["a: file exists; --force replaces it"]);
    let refused = ["standard input cannot be copied with --resume"];
    finish(&mut put(from_null, &["--resume"])).expect_bad_input(&refused);
    let root = lustre.client(&["fs", "put", "-", &lustre.url("")]);
    let named = ["/: is a directory, and the original has no name: name the file in it"];
    finish(Command::new(root.get_program()).args(root.get_args())).expect_bad_input(&named);

    // The end of what writes is no end of the data if a signal has come.
    let words = ["fs", "put", "-", &lustre.url("b")];
    let waiting = Running::start(&mut lustre.client(&words));
    eventually("a part", || there(&lustre, "").iter().any(|name| is_part(name)).then_some(()));
    waiting.signal(Signal::INT);
    waiting.end().expect_code(130).expect_stderr(&["lustrine: interrupted"]);
    assert_eq!(there(&lustre, ""), ["a"]);
}

#[test]
fn a_missing_directory_is_an_error_before_servers_are_asked() {
    let scratch = Scratch::new();
    let missing = scratch.file("missing");
    let to = missing.join("file");
    let mut get = lustrine();
    get.args(["fs", "get", "lustre://127.0.0.9@tcp/lustre/file"]).arg(&to);
    let dir = missing.to_str().unwrap();
    let failed = finish(&mut get).expect_error(&[&format!("{dir}: no such directory")]);
    assert!(!failed.stderr.contains("waiting for"), "{failed:?}");
}

#[test]
fn it_is_said_what_is_waited_for_and_why() {
    let (ip, mgs) = (loopback(), loopback());
    let net = format!("tcp={ip}:{}", free_port(mgs));
    let url = format!("lustre://{mgs}@tcp/lustre");
    let words = ["fs", "ls", &url, "--timeout", "4", "--net", &net];
    let failed = finish(lustrine().args(words)).expect_error(&[
        &format!("lustrine: waiting for MGS at {mgs}@tcp, for 4 s at most: ping {mgs}@tcp: "),
        &format!("lustrine: cannot use {url}/: no answer within 4 s: MGS at {mgs}@tcp is "),
        "nothing listens on TCP port",
    ]);
    assert!(!failed.stderr.contains("mount"), "{failed:?}");
}

#[test]
fn a_mount_that_waits_for_servers_ends_at_a_signal() {
    let scratch = Scratch::new();
    let dir = scratch.file("m");
    fs::create_dir(&dir).unwrap();
    let (ip, mgs) = (loopback(), loopback());
    let net = format!("tcp={ip}:{}", free_port(mgs));
    let source = format!("{mgs}@tcp:/lustre");
    let start = |more: &[&str]| {
        let mut command = lustrine();
        command.args(["mount", "--timeout", "3600", "--net", &net, &source]).arg(&dir);
        let mut mount = Running::start(command.args(more));
        mount.wait_for("waiting for MGS at");
        mount
    };
    for signal in [Signal::INT, Signal::TERM] {
        let mount = start(&["-f"]);
        mount.signal(signal);
        mount.end().expect_code(130).expect_stderr(&["lustrine: interrupted"]);
    }
    // It waits for the program in the background, which says that it was interrupted. A hangup is
    // the end of the terminal.
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let mount = start(&[]);
        let background = children(mount.pid());
        assert_eq!(background.len(), 1, "{background:?}");
        mount.signal(signal);
        mount.end().expect_code(130).expect_stderr(&["lustrine: interrupted"]);
        assert!(!Path::new(&format!("/proc/{}", background[0])).exists(), "it is left");
    }
    // A program in the background that does not end is left behind at the second signal.
    let mount = start(&[]);
    let background = Pid::from_raw(children(mount.pid())[0] as i32).expect("a process");
    let _killed = Killed(background);
    kill_process(background, Signal::STOP).expect("it is ours");
    let status = format!("/proc/{}/status", background.as_raw_nonzero());
    let is =
        |file: &str, state: &str| fs::read_to_string(file).is_ok_and(|all| all.contains(state));
    eventually("it has stopped", || is(&status, "State:\tT").then_some(()));
    mount.signal(Signal::INT);
    // Two that come at once are one.
    eventually("the first signal is passed on", || {
        let status = fs::read_to_string(&status).ok()?;
        let pending = status.lines().find_map(|line| line.strip_prefix("ShdPnd:"))?;
        let terminate = 1 << (Signal::TERM.as_raw() - 1);
        (u64::from_str_radix(pending.trim(), 16).ok()? & terminate != 0).then_some(())
    });
    mount.signal(Signal::INT);
    let ended = format!("/proc/{}/status", mount.pid());
    eventually("the mount has ended", || is(&ended, "State:\tZ").then_some(()));
    // It has the standard error of the mount.
    kill_process(background, Signal::KILL).expect("it is ours");
    mount.end().expect_code(130).expect_stderr(&["lustrine: interrupted"]);
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.contains(dir.to_str().unwrap()), "{mounts}");
}

/// A process that is killed when this is dropped.
struct Killed(Pid);

impl Drop for Killed {
    fn drop(&mut self) {
        // It may have ended.
        let _ = kill_process(self.0, Signal::KILL);
    }
}

/// The processes that a process has started.
fn children(pid: u32) -> Vec<u32> {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    children.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
}
