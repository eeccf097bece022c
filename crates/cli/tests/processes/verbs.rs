//! What verbs of `lustrine fs` do with files of all kinds, here and there.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

use lustrine_testing::{Need, not_run};
use rustix::fs::{FileType, Mode, OFlags, mknodat};
use rustix::process::{Pid, Signal, kill_process};
use sha2::{Digest, Sha256};

use crate::common::{eventually, finish, unprivileged};
use crate::mounts::Lustre;

/// Makes a file with these bytes in the file system.
fn made(lustre: &Lustre, name: &str, data: &[u8]) {
    let file = lustre.scratch.file("made");
    fs::write(&file, data).unwrap();
    finish(lustre.client(&["fs", "put", "-f"]).arg(&file).arg(lustre.url(name))).ok();
}

/// As cp(1): a device is not replaced by a file.
#[test]
fn get_writes_into_what_is_no_regular_file() {
    let lustre = Lustre::start();
    made(&lustre, "a", b"data");
    let get = |words: &[&str], to: &Path| {
        finish(lustre.client(&[&["fs", "get"], words].concat()).arg(lustre.url("a")).arg(to))
    };
    assert_eq!(get(&[], Path::new("-")).ok().stdout, "data");
    let refused = ["standard output cannot be written with --resume"];
    get(&["--resume"], Path::new("-")).expect_bad_input(&refused);

    let fifo = lustre.scratch.file("fifo");
    mknodat(rustix::fs::CWD, &fifo, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    // With a reader and a writer none waits for the other.
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(OFlags::NONBLOCK.bits() as i32);
    let mut reader = options.open(&fifo).unwrap();
    get(&[], &fifo).ok();
    let mut data = [0; 8];
    assert_eq!(reader.read(&mut data).unwrap(), 4);
    assert!(fs::symlink_metadata(&fifo).unwrap().file_type().is_fifo());
    let refused = ["fifo is no regular file, and cannot be written with --verify"];
    get(&["--verify"], &fifo).expect_bad_input(&refused);

    // A link, so that the device is safe from this test.
    let null = lustre.scratch.file("null");
    symlink("/dev/null", &null).unwrap();
    get(&[], &null).ok();
    assert!(null.is_symlink() && fs::metadata(&null).unwrap().file_type().is_char_device());
    let (real, link) = (lustre.scratch.file("real"), lustre.scratch.file("link"));
    fs::write(&real, b"old").unwrap();
    symlink("real", &link).unwrap();
    get(&["--verify"], &link).ok();
    assert!(link.is_symlink());
    assert_eq!(fs::read(&real).unwrap(), b"data");
    fs::remove_file(&real).unwrap();
    get(&[], &link).expect_error(&["link: is a symbolic link to a file that does not exist"]);
    assert!(link.is_symlink() && !real.exists());
    // What is no file is not replaced in a tree either.
    finish(&mut lustre.client(&["fs", "mkdir", &lustre.url("d")])).ok();
    made(&lustre, "d/fifo", b"data");
    let to = lustre.scratch.file("tree");
    fs::create_dir_all(to.join("d")).unwrap();
    let inner = to.join("d/fifo");
    mknodat(rustix::fs::CWD, &inner, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    let words = ["fs", "get", "-r", &lustre.url("d")];
    finish(lustre.client(&words).arg(&to))
        .expect_error(&["d/fifo: is no regular file, and is not replaced"]);
    assert!(fs::symlink_metadata(&inner).unwrap().file_type().is_fifo());
}

/// Bytes between two pieces of data, and behind the last one.
const HOLE: u64 = 64 << 20;

#[test]
fn copies_keep_holes() {
    let lustre = Lustre::start();
    let sparse = lustre.scratch.file("sparse");
    let file = File::create(&sparse).unwrap();
    let data = [7_u8; 100_000];
    file.write_all_at(&data, 0).unwrap();
    file.write_all_at(&data, HOLE + 5).unwrap();
    file.set_len(2 * HOLE + 1).unwrap();
    let hole = lustre.scratch.file("hole");
    File::create(&hole).unwrap().set_len(HOLE).unwrap();

    let is_kept = |file: &Path, size: u64, whose: &str| {
        let meta = fs::metadata(file).unwrap();
        assert_eq!(meta.len(), size, "{whose}");
        assert!(meta.blocks() * 512 < 16 << 20, "{whose} has {} blocks", meta.blocks());
    };
    let is_kept_there = |name: &str, size: u64| {
        let stat = ["fs", "stat", "--json", &lustre.url(name)];
        let stat = finish(&mut lustre.client(&stat)).ok().json();
        assert_eq!(stat["size"], size, "{name}");
        assert!(stat["blocks"].as_u64().unwrap() * 512 < 16 << 20, "{name}: {stat}");
    };
    for (from, name, size) in [(&sparse, "a", 2 * HOLE + 1), (&hole, "b", HOLE)] {
        let words = ["fs", "put", "--resume", "--verify"];
        finish(lustre.client(&words).arg(from).arg(lustre.url(name))).ok();
        is_kept_there(name, size);
        let copy = format!("copy of {name}");
        let words = ["fs", "cp", &lustre.url(name), &lustre.url(&copy)];
        finish(&mut lustre.client(&words)).ok();
        is_kept_there(&copy, size);
        let back = lustre.scratch.file("back");
        finish(lustre.client(&["fs", "get", "--verify", &lustre.url(&copy)]).arg(&back)).ok();
        is_kept(&back, size, name);
    }
    let back = lustre.scratch.file("back");
    finish(lustre.client(&["fs", "get", &lustre.url("a")]).arg(&back)).ok();
    let back = File::open(&back).unwrap();
    for offset in [0, HOLE + 5] {
        let mut read = vec![1; data.len() + 1];
        back.read_exact_at(&mut read, offset).unwrap();
        assert!(read[..data.len()] == data && read[data.len()] == 0, "at {offset}");
    }
}

/// What an earlier copy has left behind the place from which it goes on is no part of the file.
#[test]
fn a_resumed_copy_has_its_holes() {
    const MIB: usize = 1 << 20;
    let lustre = Lustre::start();
    let original = lustre.scratch.file("a");
    let file = File::create(&original).unwrap();
    file.write_all_at(&[7; 2 * MIB], 0).unwrap();
    file.set_len(40 * MIB as u64).unwrap();
    let meta = file.metadata().unwrap();
    let (size, mtime) = (meta.len().to_le_bytes(), meta.mtime().to_le_bytes());
    let sum = Sha256::digest([b"a\0", &size[..], &mtime].concat());
    let sum: String = sum.iter().map(|byte| format!("{byte:02x}")).collect();
    // The last 32 MiB are copied again.
    let mut part = vec![7; 2 * MIB];
    part.resize(4 * MIB, 0);
    part.resize(36 * MIB, 9);
    made(&lustre, &format!(".lustrine-part-{}", &sum[..32]), &part);
    let put = ["fs", "put", "--resume", "--verify"];
    finish(lustre.client(&put).arg(&original).arg(lustre.url(""))).ok();
    let names = finish(&mut lustre.client(&["fs", "ls", &lustre.url("")])).ok();
    assert_eq!(names.stdout, "a\n");
    let stat = ["fs", "stat", "--json", &lustre.url("a")];
    let stat = finish(&mut lustre.client(&stat)).ok().json();
    assert!(stat["size"] == 40 * MIB && stat["blocks"].as_u64().unwrap() < 10 << 11, "{stat}");
}

#[test]
fn rm_goes_on_after_an_error() {
    let lustre = Lustre::start();
    let tree = lustre.scratch.file("tree");
    for dir in ["a", "b", "c"] {
        fs::create_dir_all(tree.join(dir)).unwrap();
        fs::write(tree.join(dir).join("file"), b"data").unwrap();
    }
    finish(lustre.client(&["fs", "put", "-r"]).arg(&tree).arg(lustre.url(""))).ok();
    // Only its owner removes names from it.
    for dir in ["a", "c"] {
        let words = ["fs", "chmod", "555", &lustre.url(&format!("tree/{dir}"))];
        finish(&mut lustre.client(&words)).ok();
    }
    for path in ["", "tree", "tree/b"] {
        finish(&mut lustre.client(&["fs", "chmod", "777", &lustre.url(path)])).ok();
    }
    let Some(mut rm) = unprivileged(&lustre.scratch) else { return };
    rm.args(lustre.client(&["fs", "rm", "-r", &lustre.url("tree")]).get_args());
    let failed = finish(&mut rm).expect_error(&["tree/a/file: ", "tree/c/file: "]);
    assert_eq!(failed.stderr.matches("permission denied").count(), 2, "{failed:?}");
    let left = finish(&mut lustre.client(&["fs", "ls", "-R", &lustre.url("tree")])).ok();
    assert_eq!(left.stdout.lines().collect::<Vec<_>>(), ["a", "c", "a/file", "c/file"]);
}

/// As with coreutils: what fails is named, and the rest is done.
#[test]
fn a_verb_takes_several_files() {
    let lustre = Lustre::start();
    let run = |words: &[&str], names: &[&str]| {
        let urls: Vec<String> = names.iter().map(|name| lustre.url(name)).collect();
        finish(lustre.client(&[&["fs"], words].concat()).args(urls))
    };
    run(&["mkdir"], &["d", "d/e", "f"]).ok();
    run(&["mkdir"], &["d", "g"]).expect_error(&["d: ", "exists"]);
    run(&["mkdir", "-p"], &["g", "h/i"]).ok();
    made(&lustre, "d/a", b"one ");
    made(&lustre, "d/b", b"two");
    assert_eq!(run(&["cat"], &["d/a", "d/b", "d/a"]).ok().stdout, "one twoone ");
    let partly = run(&["cat"], &["d/none", "d/b"]);
    assert_eq!(partly.stdout, "two");
    partly.expect_error(&["d/none"]);
    let shown = run(&["stat", "--json"], &["d/a", "d/b"]).ok().stdout;
    let rows = serde_json::Deserializer::from_str(&shown).into_iter::<serde_json::Value>();
    let sizes: Vec<Option<u64>> = rows.map(|row| row.unwrap()["size"].as_u64()).collect();
    assert_eq!(sizes, [Some(4), Some(3)]);
    run(&["rm"], &["d/a", "d/none", "d/b"]).expect_error(&["d/none"]);
    run(&["rm", "-r", "-f"], &["d", "f", "g", "none", "h"]).ok();
    assert_eq!(run(&["ls"], &[""]).ok().stdout, "");
    // The directory from which the first one was removed is gone when both are committed.
    run(&["mkdir", "-p"], &["k/l"]).ok();
    run(&["rm", "-r"], &["k/l", "k"]).ok();
    // Nothing is done if one is in another file system.
    let other = lustre.url("x").replace("/lustre/", "/other/");
    let mixed = finish(&mut lustre.client(&["fs", "mkdir", &lustre.url("m"), &other]));
    mixed.expect_bad_input(&["is not in the file system of"]);
    assert_eq!(run(&["ls"], &[""]).ok().stdout, "");
}

/// A walk holds locks, which others would wait for if it did not disconnect.
#[test]
fn a_signal_ends_a_walk() {
    const PIPE: u64 = 60_000;
    let lustre = Lustre::start();
    let tree = lustre.scratch.file("tree");
    fs::create_dir(&tree).unwrap();
    for number in 0..400 {
        File::create(tree.join(format!("{number:0200}"))).unwrap();
    }
    finish(lustre.client(&["fs", "put", "-r"]).arg(&tree).arg(lustre.url("tree"))).ok();
    let mut find = lustre.client(&["fs", "find", &lustre.url("tree")]);
    let mut find = find.stdout(Stdio::piped()).spawn().unwrap();
    // What it has found does not fit into the pipe.
    let out = find.stdout.take().unwrap();
    eventually("the pipe is full", || {
        (rustix::io::ioctl_fionread(&out).unwrap() >= PIPE).then_some(())
    });
    kill_process(Pid::from_child(&find), Signal::INT).unwrap();
    assert_eq!(find.wait().unwrap().code(), Some(130));
    finish(&mut lustre.client(&["fs", "rm", "-r", &lustre.url("tree")])).ok();
}

#[test]
fn a_slash_at_the_end_of_what_is_no_directory_is_an_error() {
    let lustre = Lustre::start();
    made(&lustre, "a", b"data");
    finish(&mut lustre.client(&["fs", "mkdir", &lustre.url("d")])).ok();
    finish(&mut lustre.client(&["fs", "ln", "-s", "d", &lustre.url("l")])).ok();
    let (file, link) = (lustre.url("a/"), lustre.url("l/"));
    for words in [
        &["rm", &file][..],
        &["rm", "-r", &file],
        &["touch", &file],
        &["cat", &file],
        &["chmod", "600", &file],
        &["truncate", "-s", "0", &file],
        &["mv", &file, &lustre.url("new")],
        &["ls", &file],
        &["stat", &file],
        &["find", &file],
        &["du", &file],
        &["sum", &file],
    ] {
        let error = ["lustrine: a/: is not a directory"];
        finish(&mut lustre.client(&[&["fs"], words].concat())).expect_error(&error);
    }
    // As with rm(1) and mv(1).
    let rm = ["fs", "rm", "-r", &link];
    finish(&mut lustre.client(&rm)).expect_error(&["l/: is not a directory"]);
    finish(&mut lustre.client(&["fs", "rm", "-rf", &link])).ok();
    let mv = ["fs", "mv", &link, &lustre.url("new")];
    finish(&mut lustre.client(&mv)).expect_error(&["l/: is not a directory"]);
    for verb in [&["touch"][..], &["truncate", "-s", "0"]] {
        let words = [&["fs"], verb].concat();
        finish(lustre.client(&words).arg(lustre.url("new/")))
            .expect_error(&["new/: no such directory"]);
    }
    finish(&mut lustre.client(&["fs", "touch", "-c", &lustre.url("new/")])).ok();
    // What is in the way is named.
    let mv = ["fs", "mv", &lustre.url("d"), &lustre.url("a")];
    finish(&mut lustre.client(&mv)).expect_error(&["lustrine: a: is not a directory"]);
    let all = finish(&mut lustre.client(&["fs", "ls", &lustre.url("")])).ok();
    assert_eq!(all.stdout.lines().collect::<Vec<_>>(), ["a", "d", "l"]);
    finish(&mut lustre.client(&["fs", "rm", "-r", &lustre.url("d/")])).ok();
}

#[test]
fn names_need_not_be_utf_8() {
    let lustre = Lustre::start();
    let url = |name: &[u8]| OsString::from_vec([lustre.url("").as_bytes(), name].concat());
    let run = |words: &[&str], names: &[&OsStr]| {
        finish(lustre.client(&[&["fs"], words].concat()).args(names)).ok().stdout
    };
    let local = lustre.scratch.path().join(OsStr::from_bytes(b"a\xff"));
    fs::write(&local, b"data").unwrap();
    run(&["put"], &[local.as_os_str(), &url(b"")]);
    let (a, b) = (url(b"a\xff"), url(b"d\xfe/b"));
    assert_eq!(run(&["cat"], &[&a]), "data");
    run(&["mkdir"], &[&url(b"d\xfe")]);
    run(&["cp"], &[&a, &b]);
    run(&["ln"], &[&b, &url(b"hard\xff")]);
    run(&["ln", "-s"], &[OsStr::from_bytes(b"d\xfe/b"), &url(b"soft\xff")]);
    run(&["chmod", "640"], &[&b]);
    run(&["touch"], &[&url(b"new\xff"), &url(b"soft\xff")]);
    run(&["truncate", "-s", "2"], &[&url(b"soft\xff")]);
    assert_eq!(run(&["cat"], &[&url(b"hard\xff")]), "da");
    run(&["setfattr", "-n", "user.a"], &[OsStr::new("-v"), OsStr::from_bytes(b"\xff"), &b]);
    let shown = "# file: /d\\xfe/b\nuser.a=0xff\n";
    assert_eq!(run(&["getfattr"], &[&b]), shown);
    run(&["mv"], &[&b, &url(b"d\xfe/c\xfd")]);
    let found = "/d\\xfe/c\\xfd\n";
    assert_eq!(
        run(&["find"], &[&url(b"d\xfe"), OsStr::new("--name"), OsStr::from_bytes(b"c\xfd")]),
        found
    );
    assert_eq!(run(&["ls"], &[&url(b"d\xfe")]), "c\\xfd\n");
    run(&["get"], &[&url(b"d\xfe/c\xfd"), lustre.scratch.path().as_os_str()]);
    let got = lustre.scratch.path().join(OsStr::from_bytes(b"c\xfd"));
    assert_eq!(fs::read(got).unwrap(), b"da");
    run(&["rm", "-r"], &[&url(b"d\xfe")]);
    let left = "a\\xff\nhard\\xff\nnew\\xff\nsoft\\xff\n";
    assert_eq!(run(&["ls"], &[&url(b"")]), left);
}

/// Lists of sums are exchanged with sha256sum, whatever the names are.
#[test]
fn sums_have_the_format_of_sha256sum() {
    if Command::new("sha256sum").arg("--version").output().is_err() {
        return not_run(Need::Program, "sha256sum is not installed");
    }
    let lustre = Lustre::start();
    let dir = lustre.scratch.file("dir");
    fs::create_dir(&dir).unwrap();
    for name in [&b"plain"[..], b"line\nend", b"back\\slash", b"latin\xff", b" two  spaces"] {
        fs::write(dir.join(OsStr::from_bytes(name)), name).unwrap();
    }
    finish(lustre.client(&["fs", "put", "-r"]).arg(&dir).arg(lustre.url(""))).ok();
    let url = lustre.url("dir");
    let ours = lustre.client(&["fs", "sum", "-r", &url]).output().unwrap().stdout;
    let list = lustre.scratch.file("list");
    fs::write(&list, &ours).unwrap();
    let list = list.to_str().unwrap();
    let check = ["--check", "--strict", list];
    finish(Command::new("sha256sum").args(check).current_dir(&dir)).ok();
    let mut sums = Command::new("sh");
    let sums = sums.args(["-c", "exec sha256sum -- *"]).current_dir(&dir).output().unwrap();
    assert_eq!(sums.stdout.split(|byte| *byte == b'\n').count(), 6);
    fs::write(list, sums.stdout).unwrap();
    finish(&mut lustre.client(&["fs", "sum", "-c", list, &url])).ok();
}
