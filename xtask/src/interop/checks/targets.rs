//! Files and directories on several targets, used by Lustrine and by a kernel client in turn.

use anyhow::{Result, ensure};

use super::Listed;
use super::files::{at, file_system, fs};
use super::mount::{KERNEL, Mounted};
use super::succeeded;
use crate::interop::testbed::Testbed;

pub(super) const CHECKS: &[Listed] = &[
    (
        "files",
        "directories striped over two MDTs with each hash, made by a kernel client",
        "each of their names is found, also temporary ones",
        striped,
    ),
    (
        "mount",
        "directories that are striped, or on another MDT than the one above",
        "files are made, moved, linked, listed and removed as a kernel client does it",
        changed,
    ),
    (
        "mount",
        "files with mirrors, one of them progressive, are written, appended to and cut",
        "the other mirror is stale; resync and verify of the kernel client find no fault",
        mirrored,
    ),
    (
        "mount",
        "fallocate, punched holes, SEEK_DATA and SEEK_HOLE: plain, striped, PFL",
        "as the kernel client sees and does it",
        holes,
    ),
];

/// The hashes of names.
const HASHES: [&str; 4] = ["crush", "crush2", "fnv_1a_64", "all_char"];
/// Names that CRUSH treats in a way of its own, and others.
const NAMES: &str = "for i in $(seq 20); do touch f$i .m$i.aB3dE6 .m$i.lowers p$i.Xy12zzQ9 \
                     log$i.20260101 q$i.a2026010 r$i.a-B_c1d2 b$i~ b$i.bak b$i.ORIG b$i.Sav; done; \
                     touch '~' 'a.~' .bak .aB3dE6 x.bak~ .1.a12345";

fn striped(testbed: &mut Testbed) -> Result<String> {
    file_system(testbed)?;
    let mut names = 0;
    for hash in HASHES {
        let dir = format!("striped-{hash}");
        // More stripes than there are targets.
        let make = format!("cd {KERNEL} && lfs mkdir -C 5 -H {hash} {dir} && cd {dir} && {NAMES}");
        testbed.sh("client1", &make)?;
        // Each name is looked up.
        let ours = succeeded(fs(testbed, &["ls", "-l", &at(&dir)])?)?;
        let listed = testbed.sh("client1", &format!("ls -A {KERNEL}/{dir} | wc -l"))?;
        ensure!(listed.trim() == ours.lines().count().to_string(), "{hash}: {listed} and\n{ours}");
        names += ours.lines().count();
    }
    Ok(format!("{names} names in 5 stripes each"))
}

/// What is done in a directory; it prints what has to be the same for all clients.
const WORK: &str = "rm -rf beside; mkdir beside; cd DIR; \
    for i in $(seq 20); do echo $i > m$i; mkdir d$i; done; \
    for i in $(seq 20); do mv m$i ../beside/n$i; done; \
    for i in $(seq 20); do mv ../beside/n$i o$i; done; \
    for i in $(seq 10); do ln o$i l$i; mv o$i k$i; ln -s k$i s$i; rmdir d$i; done; \
    for i in $(seq 11 20); do mv d$i e$i; done; \
    cat [klo]* | sort -n | md5sum; ls | sort | md5sum; stat -c '%n %h %s' . e11 l1 o20; \
    rm -rf [a-z]*; ls -A | wc -l; stat -c %h .; cd ..; rmdir DIR";

fn changed(testbed: &mut Testbed) -> Result<String> {
    let mount = Mounted::new(testbed)?;
    let kinds = [
        ("crush", "lfs mkdir -c 2 -H crush"),
        ("fnv", "lfs mkdir -c 2 -H fnv_1a_64"),
        ("remote", "lfs mkdir -i 1"),
        ("plain", "lfs mkdir -i 0"),
    ];
    let mut all = Vec::new();
    for (kind, make) in kinds {
        let work = WORK.replace("DIR", kind);
        let make = format!("cd {KERNEL} && {make} {kind}");
        testbed.sh("client1", &make)?;
        let ours = mount.sh(&work)?;
        testbed.sh("client1", &make)?;
        let theirs = testbed.sh("client1", &format!("cd {KERNEL}; {work}"))?;
        ensure!(ours == theirs, "{kind}: {ours}, and the kernel client has {theirs}");
        all.push(kind);
    }
    Ok(format!("the same in directories {}", all.join(", ")))
}

fn mirrored(testbed: &mut Testbed) -> Result<String> {
    let mount = Mounted::new(testbed)?;
    let make = "cd DIR; rm -rf mirrors; mkdir mirrors; cd mirrors; \
                lfs mirror create -N -o 0 -N -o 1 plain; \
                lfs mirror create -N -E 1M -c 1 -E -1 -c 2 -N -c 1 pfl; \
                head -c 3000000 /dev/urandom > plain; cat plain > pfl; \
                lfs mirror resync plain pfl"
        .replace("DIR", KERNEL);
    testbed.sh("client1", &make)?;
    let work = "cd mirrors; for f in plain pfl; do \
                printf written | dd of=$f bs=1 seek=999996 conv=notrunc 2>/dev/null; \
                echo appended >> $f; truncate -s -5 $f; done; md5sum plain pfl";
    let ours = mount.sh(work)?;
    let seen = testbed.sh(
        "client1",
        &format!(
            "cd {KERNEL}/mirrors; md5sum plain pfl; \
             for f in plain pfl; do lfs getstripe $f | grep -q stale && echo stale; \
             lfs mirror resync $f && lfs mirror verify $f && echo equal; done"
        ),
    )?;
    let wanted = format!("{ours}stale\nequal\nstale\nequal\n");
    ensure!(seen == wanted, "{seen}, and not {wanted}");
    let again =
        mount.sh("cd mirrors; md5sum plain pfl; : > plain; echo new > pfl; cat plain pfl")?;
    ensure!(again == format!("{ours}new\n"), "after the resync: {again}");
    let seen = testbed.sh(
        "client1",
        &format!(
            "cd {KERNEL}/mirrors; cat pfl; lfs mirror resync plain pfl; \
                  lfs mirror verify plain pfl && echo equal"
        ),
    )?;
    ensure!(seen == "new\nequal\n", "{seen}");
    Ok("a plain and a progressive file".to_owned())
}

fn holes(testbed: &mut Testbed) -> Result<String> {
    let mount = Mounted::new(testbed)?;
    let make = format!(
        "cd {KERNEL}; rm -rf holes; mkdir -p holes/plain holes/striped holes/pfl; cd holes; \
         lfs setstripe -c 2 -S 64K striped; lfs setstripe -E 1M -c 1 -E -1 -c 2 -S 256K pfl"
    );
    testbed.sh("client1", &make)?;
    let file = testbed.lab().file("holes");
    let file = file.display();
    let work =
        "rm -f a b; fallocate -l 3000000 a; fallocate -n -o 4000000 -l 1000000 a; stat -c %s a; \
                cat FILE > b; fallocate -p -o 100000 -l 1500000 b; md5sum < b; python3 -c \"
import os
f = os.open('b', os.O_RDONLY)
at = 0
while at < 3000000:
    data = os.lseek(f, at, os.SEEK_DATA)
    at = os.lseek(f, data, os.SEEK_HOLE)
    print(data, at)
\""
        .replace("FILE", &file.to_string());
    mount.host(&format!("head -c 3000000 /dev/urandom > {file}"))?;
    let local = testbed.lab().file("local-holes");
    let local = local.display();
    let wanted = mount.host(&format!("mkdir -p {local}; cd {local}; {work}"))?;
    for layout in ["plain", "striped", "pfl"] {
        let ours = mount.sh(&format!("cd holes/{layout}; {work}; stat -c %b a b"))?;
        let blocks =
            testbed.sh("client1", &format!("cd {KERNEL}/holes/{layout}; stat -c %b a b"))?;
        ensure!(ours == format!("{wanted}{blocks}"), "{layout}: {ours}, and not {wanted}{blocks}");
        let sum = testbed.sh("client1", &format!("md5sum < {KERNEL}/holes/{layout}/b"))?;
        ensure!(wanted.contains(&sum), "{layout}: the kernel client reads {sum}");
    }
    Ok("as on a local disk, with three layouts; the same blocks as the kernel client".to_owned())
}
