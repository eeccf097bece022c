//! `lustrine fs` with kernel servers, and with a kernel client beside it.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::{Listed, holds, reason, succeeded};
use crate::interop::testbed::Testbed;
use crate::kernel_lab::Modules;
use crate::process::Finished;

pub(super) const CHECKS: &[Listed] = &[
    (
        "files",
        "files of a kernel client: plain, striped, PFL, data on the MDT, with a hole",
        "the same checksums, and the same listing",
        kernel_files,
    ),
    (
        "files",
        "files put into directories with these layouts",
        "the kernel client reads the same bytes",
        our_files,
    ),
    (
        "files",
        "data that a kernel client has not written back",
        "read at once, with the right size",
        unwritten,
    ),
    ("files", "mkdir, mv, ln, rm", "the kernel client sees each at once", names),
    ("files", "a directory of 3,000 names", "listed whole", many),
    (
        "files",
        "truncate: 11 sizes of files of 4 layouts",
        "the kernel client reads what truncate of the machine makes",
        truncated,
    ),
    (
        "files",
        "chmod, chown, touch, extended attributes, hard links",
        "the kernel client sees each at once",
        attributes,
    ),
    (
        "files",
        "cp -r -p of a tree, and sum --check with the list of sha256sum",
        "the kernel client has the same tree twice",
        copies,
    ),
    ("files", "userland identity", "works as with the node identity", userland),
    (
        "files",
        "the MDT and an OST fail over during copies",
        "the copies go on; the same bytes",
        fail_over,
    ),
    (
        "files",
        "the server loses power 6 s after the start of a copy",
        "the copy goes on after the recovery; the same bytes",
        power_cut,
    ),
    (
        "files",
        "put --resume is killed and started again",
        "it goes on from its part; the same bytes",
        resumed,
    ),
];

const URL: &str = "lustre://10.77.0.9@tcp/lustre";
const MNT: &str = "/mnt/lustre";
/// Bytes of a file that spans several stripes and components, and ends within a page.
const LEN: u32 = 20_000_001;
/// Directories with their default layouts.
const LAYOUTS: &str = "mkdir -p plain striped pfl dom; lfs setstripe -c 2 -S 1M striped; \
                       lfs setstripe -E 1M -c 1 -E 16M -c 2 -E -1 -c 2 pfl; \
                       lfs setstripe -E 64K -L mdt -E -1 -c 1 dom";
const DIRECTORIES: [&str; 4] = ["plain", "striped", "pfl", "dom"];

/// Starts the server and a kernel client.
pub(super) fn file_system(testbed: &mut Testbed) -> Result<()> {
    if !testbed.is_up("server") {
        // Memory for the server.
        testbed.forget_machines();
    }
    testbed.kernel("server", Modules::USUAL)?;
    testbed.kernel("client1", Modules::USUAL)
}

pub(super) fn fs(testbed: &Testbed, args: &[&str]) -> Result<Finished> {
    let args: Vec<&str> = ["fs"].iter().chain(args).copied().collect();
    testbed.lustrine(&args)
}

pub(super) fn at(path: &str) -> String {
    format!("{URL}/{path}")
}

/// The checksums of files as the kernel client sees them, by name.
fn kernel_sums(testbed: &Testbed, dir: &str, names: &str) -> Result<Vec<String>> {
    let sums = testbed.sh("client1", &format!("cd {MNT}/{dir} && md5sum {names}"))?;
    let sums = sums.lines().filter_map(|line| line.split_whitespace().next());
    Ok(sums.map(str::to_owned).collect())
}

/// The checksum of a file that `lustrine fs cat` writes.
fn our_sum(testbed: &Testbed, path: &str) -> Result<String> {
    let program = testbed.lustrine_file().display();
    let url = at(path);
    let file = testbed.lab().file("cat").display().to_string();
    let command = format!("{program} fs cat {url} > {file} && md5sum < {file}");
    let said = testbed.lab().on_host(&command)?;
    Ok(said.split_whitespace().next().unwrap_or_default().to_owned())
}

/// A file of random bytes on this host.
fn random(testbed: &Testbed, name: &str, len: u64) -> Result<(String, String)> {
    let file = testbed.lab().file(name).display().to_string();
    let said = testbed
        .lab()
        .on_host(&format!("head -c {len} /dev/urandom > {file} && md5sum < {file}"))?;
    let sum = said.split_whitespace().next().context("a checksum")?;
    Ok((file, sum.to_owned()))
}

fn kernel_files(testbed: &mut Testbed) -> Result<String> {
    file_system(testbed)?;
    let make = format!(
        "mkdir -p {MNT}/kernel && cd {MNT}/kernel && {LAYOUTS} && \
         head -c {LEN} /dev/urandom > plain/f && \
         for d in striped pfl dom; do cp plain/f $d/; done && \
         echo small > dom/small && truncate -s 5M hole && \
         printf x | dd of=hole bs=1 seek=3000000 conv=notrunc 2>/dev/null && ln -sf plain/f link"
    );
    testbed.sh("client1", &make)?;
    let names = ["plain/f", "striped/f", "pfl/f", "dom/f", "dom/small", "hole", "link"];
    let wanted = kernel_sums(testbed, "kernel", &names.join(" "))?;
    for (name, wanted) in names.iter().zip(&wanted) {
        let seen = our_sum(testbed, &format!("kernel/{name}"))?;
        ensure!(seen == *wanted, "{name}: {seen}, and the kernel client has {wanted}");
    }
    let listing = succeeded(fs(testbed, &["ls", "-R", &at("kernel")])?)?;
    let mut ours: Vec<&str> = listing.lines().collect();
    ours.sort_unstable();
    let find = format!("cd {MNT}/kernel && find . -mindepth 1 | sed 's,^./,,'");
    let theirs = testbed.sh("client1", &find)?;
    let mut theirs: Vec<&str> = theirs.lines().collect();
    theirs.sort_unstable();
    ensure!(ours == theirs, "we list {ours:?}, the kernel client {theirs:?}");
    Ok(format!("{} files and the listing are the same", names.len()))
}

fn our_files(testbed: &mut Testbed) -> Result<String> {
    file_system(testbed)?;
    testbed.sh("client1", &format!("mkdir -p {MNT}/ours && cd {MNT}/ours && {LAYOUTS}"))?;
    let (file, sum) = random(testbed, "random", u64::from(LEN))?;
    let (empty, empty_sum) = random(testbed, "empty", 0)?;
    for dir in DIRECTORIES {
        succeeded(fs(testbed, &["put", "-q", &file, &at(&format!("ours/{dir}/"))])?)?;
        succeeded(fs(testbed, &["put", "-q", &empty, &at(&format!("ours/{dir}/"))])?)?;
        let seen = kernel_sums(testbed, &format!("ours/{dir}"), "random empty")?;
        let wanted = [sum.clone(), empty_sum.clone()];
        ensure!(seen == wanted, "{dir}: the kernel client reads {seen:?}, {wanted:?} were put");
    }
    let again = fs(testbed, &["put", "-q", &file, &at("ours/plain/random")])?;
    holds(&reason(&again), "file exists")?;
    succeeded(fs(testbed, &["put", "-q", "-f", &empty, &at("ours/plain/random")])?)?;
    let seen = kernel_sums(testbed, "ours/plain", "random")?;
    ensure!(seen == [empty_sum], "a file that was replaced has {seen:?}");
    Ok("8 files of 4 layouts, one replaced".to_owned())
}

fn unwritten(testbed: &mut Testbed) -> Result<String> {
    file_system(testbed)?;
    let write = format!("dd if=/dev/urandom of={MNT}/fresh bs=1M count=3 2>/dev/null");
    testbed.sh("client1", &write)?;
    let listed = succeeded(fs(testbed, &["stat", "--json", &at("fresh")])?)?;
    holds(&listed, "\"size\": 3145728")?;
    testbed.sh("client1", &format!("printf more >> {MNT}/fresh"))?;
    let seen = our_sum(testbed, "fresh")?;
    let wanted = kernel_sums(testbed, "", "fresh")?;
    ensure!(wanted == [seen.clone()], "{seen}, and the kernel client has {wanted:?}");
    Ok("3 MiB and 4 bytes more".to_owned())
}

fn names(testbed: &mut Testbed) -> Result<String> {
    file_system(testbed)?;
    succeeded(fs(testbed, &["mkdir", "-p", &at("names/a/b")])?)?;
    testbed.sh("client1", &format!("cd {MNT}/names && echo x > a/file && ls -R > /dev/null"))?;
    succeeded(fs(testbed, &["mv", &at("names/a/file"), &at("names/a/b/moved")])?)?;
    succeeded(fs(testbed, &["ln", "-s", "a/b/moved", &at("names/link")])?)?;
    let said =
        testbed.sh("client1", &format!("cd {MNT}/names && cat link && ls a/file 2>&1; true"))?;
    holds(&said, "x\n")?;
    holds(&said, "No such file")?;
    let kept = fs(testbed, &["rm", &at("names/a")])?;
    holds(&reason(&kept), "is a directory")?;
    succeeded(fs(testbed, &["rm", "-r", &at("names")])?)?;
    let said = testbed.sh("client1", &format!("ls {MNT}/names 2>&1; true"))?;
    holds(&said, "No such file")?;
    Ok("each seen at once".to_owned())
}

fn many(testbed: &mut Testbed) -> Result<String> {
    file_system(testbed)?;
    let make = format!(
        "mkdir -p {MNT}/many && cd {MNT}/many && \
         for n in $(seq 3000); do : > a-name-of-some-length-$n; done"
    );
    testbed.sh("client1", &make)?;
    let listed = succeeded(fs(testbed, &["ls", &at("many")])?)?;
    let mut names: Vec<&str> = listed.lines().collect();
    names.dedup();
    ensure!(names.len() == 3000, "{} names", names.len());
    Ok("3,000 names, each once".to_owned())
}

fn truncated(testbed: &mut Testbed) -> Result<String> {
    file_system(testbed)?;
    let make = format!(
        "mkdir -p {MNT}/cut && cd {MNT}/cut && {LAYOUTS} && head -c 6000000 /dev/urandom > /tmp/cut"
    );
    testbed.sh("client1", &make)?;
    const SIZES: [u32; 11] = [
        5_000_001, 4_194_304, 3_145_729, 1_048_576, 65_536, 65_535, 7_000_000, 100, 2_097_152, 0, 1,
    ];
    for dir in DIRECTORIES {
        let reference = format!("/tmp/cut.{dir}");
        let file = format!("{MNT}/cut/{dir}/f");
        testbed.sh("client1", &format!("cp /tmp/cut {reference} && cp /tmp/cut {file}"))?;
        for size in SIZES {
            let url = at(&format!("cut/{dir}/f"));
            succeeded(fs(testbed, &["truncate", "-s", &size.to_string(), &url])?)?;
            let compare = format!(
                "truncate -s {size} {reference} && cmp {reference} {file} && stat -c %s {file}"
            );
            let said = testbed.sh("client1", &compare)?;
            ensure!(said.trim() == size.to_string(), "{dir}, {size} bytes: {said}");
        }
    }
    Ok(format!("{} sizes", SIZES.len() * DIRECTORIES.len()))
}

fn attributes(testbed: &mut Testbed) -> Result<String> {
    file_system(testbed)?;
    let make = format!(
        "rm -rf {MNT}/attr; mkdir {MNT}/attr && cd {MNT}/attr && echo x > f && cat f && stat f && \
         setfattr -n user.theirs -v kernel f"
    );
    testbed.sh("client1", &make)?;
    let file = at("attr/f");
    let second = at("attr/second");
    let changes: [&[&str]; 6] = [
        &["chmod", "4711", &file],
        &["chmod", "u-s,o=r", &file],
        &["chown", "1000:1001", &file],
        &["touch", "-d", "@1000000000", &file],
        &["setfattr", "-n", "user.ours", "-v", "lustrine", &file],
        &["ln", &file, &second],
    ];
    for args in changes {
        succeeded(fs(testbed, args)?)?;
    }
    let stat = format!("cd {MNT}/attr && stat -c '%a %u %g %X %Y %h' second");
    let said = testbed.sh("client1", &stat)?;
    holds(&said, "714 1000 1001 1000000000 1000000000 2")?;
    let said = testbed.sh("client1", &format!("getfattr -d {MNT}/attr/second"))?;
    holds(&said, "user.ours=\"lustrine\"")?;
    let ours = succeeded(fs(testbed, &["getfattr", &file])?)?;
    holds(&ours, "user.theirs=\"kernel\"")?;
    succeeded(fs(testbed, &["setfattr", "-x", "user.theirs", &file])?)?;
    let said = testbed.sh("client1", &format!("getfattr -d {MNT}/attr/f"))?;
    ensure!(!said.contains("user.theirs"), "an attribute that was removed is there: {said}");
    Ok("6 changes".to_owned())
}

fn copies(testbed: &mut Testbed) -> Result<String> {
    file_system(testbed)?;
    let make = format!(
        "rm -rf {MNT}/tree {MNT}/copy; mkdir -p {MNT}/tree/a/b && cd {MNT}/tree && {LAYOUTS} && \
         for d in plain striped pfl dom; do head -c 3000001 /dev/urandom > $d/f; done; \
         for n in $(seq 100); do echo $n > a/b/$n; done; ln -s b/1 a/link; chmod 500 a/b; \
         touch -d @1000000000 a/b/7 a; find . -type f | sort | xargs sha256sum | sed 's,[.]/,,'"
    );
    let list = testbed.sh("client1", &make)?;
    succeeded(fs(testbed, &["cp", "-q", "-r", "-p", "--verify", &at("tree"), &at("copy")])?)?;
    let show = "find . | sort | xargs stat -c '%n %f %Y'; readlink a/link; \
                find . -type f | sort | xargs md5sum";
    let theirs = testbed.sh("client1", &format!("cd {MNT}/tree && {show}"))?;
    let ours = testbed.sh("client1", &format!("cd {MNT}/copy && {show}"))?;
    ensure!(ours == theirs, "the copy is\n{ours}\nand the original\n{theirs}");
    let file = testbed.lab().file("sums");
    std::fs::write(&file, &list).context("the list of sums")?;
    let file = file.display().to_string();
    let checked = succeeded(fs(testbed, &["sum", "--check", &file, &at("copy")])?)?;
    let good = checked.lines().filter(|line| line.ends_with(": OK")).count();
    ensure!(good == 104, "{good} sums are right");
    Ok("104 files".to_owned())
}

fn resumed(testbed: &mut Testbed) -> Result<String> {
    file_system(testbed)?;
    let (file, sum) = random(testbed, "resumed", 400_000_000)?;
    let program = testbed.lustrine_file().display();
    let url = at("resumed/file");
    let put = format!("{program} fs put -q --resume --timeout 190 {file} {url}");
    // How soon there is a part of it depends on the machine.
    let mut part: u64 = 0;
    for seconds in ["1", "1.5", "2", "3", "5"] {
        testbed.sh("client1", &format!("rm -rf {MNT}/resumed; mkdir {MNT}/resumed"))?;
        testbed.lab().on_host(&format!("timeout -s KILL {seconds} {put}; true"))?;
        let parts = "-name '.lustrine-part-*' -exec stat -c %s {} +";
        let said = testbed.sh("client1", &format!("find {MNT}/resumed {parts}"))?;
        part = said.split_whitespace().next().map_or(Ok(0), str::parse).context("a size")?;
        if part > 20_000_000 {
            break;
        }
    }
    ensure!(part > 20_000_000, "no kill left a part of the copy, but {part} bytes");
    testbed.lab().on_host(&put)?;
    let seen = kernel_sums(testbed, "resumed", "file")?;
    ensure!(seen == [sum], "the kernel client reads {seen:?}");
    let left = testbed.sh("client1", &format!("ls -A {MNT}/resumed"))?;
    ensure!(left.trim() == "file", "there is left {left}");
    Ok(format!("killed at {} of 400 MB", part / 1_000_000))
}

fn userland(testbed: &mut Testbed) -> Result<String> {
    file_system(testbed)?;
    let (file, sum) = random(testbed, "userland", 5_000_000)?;
    let identity = ["--identity", "userland"];
    let url = at("userland");
    let put: Vec<&str> = ["put", "-q", "-f", &file, &url].into_iter().chain(identity).collect();
    succeeded(fs(testbed, &put)?)?;
    let seen = kernel_sums(testbed, "", "userland")?;
    ensure!(seen == [sum], "the kernel client reads {seen:?}");
    let df: Vec<&str> = ["df", URL].into_iter().chain(identity).collect();
    succeeded(fs(testbed, &df)?)?;
    Ok("put, df".to_owned())
}

/// Copies a file while something happens to the server after some seconds.
fn copy_while(
    testbed: &mut Testbed,
    name: &str,
    len: u64,
    after: u64,
    event: impl FnOnce(&mut Testbed) -> Result<()>,
) -> Result<Duration> {
    let (file, sum) = random(testbed, name, len)?;
    let url = at(name);
    let args = ["fs", "put", "-q", "-f", "--timeout", "190", &file, &url];
    let mut command = testbed.lustrine_command(&args);
    let begin = Instant::now();
    let copy = thread::spawn(move || crate::process::capture(&mut command, COPY_LIMIT));
    thread::sleep(Duration::from_secs(after));
    ensure!(!copy.is_finished(), "the copy ended within {after} s, before anything happened");
    event(testbed)?;
    let done = copy.join().map_err(|_| anyhow::anyhow!("the copy panicked"))??;
    succeeded(done)?;
    let took = begin.elapsed();
    let seen = kernel_sums(testbed, "", name)?;
    ensure!(seen == [sum], "the kernel client reads {seen:?}");
    Ok(took)
}

/// A recovery that waits for a client that has gone takes up to two minutes, and an emulated server
/// on a busy host writes some MB/s.
const COPY_LIMIT: Duration = Duration::from_secs(400);

fn fail_over(testbed: &mut Testbed) -> Result<String> {
    file_system(testbed)?;
    let mut times = Vec::new();
    for target in ["mdt0", "ost0"] {
        let took = copy_while(testbed, target, 400_000_000, 3, |testbed| {
            testbed.sh("server", &format!("tgt restart {target}")).map(drop)
        });
        times.push(took.with_context(|| target.to_owned())?.as_secs());
    }
    Ok(format!("two copies of 400 MB, in {} and {} s", times[0], times[1]))
}

fn power_cut(testbed: &mut Testbed) -> Result<String> {
    file_system(testbed)?;
    // A server commits within 5 s; before that it does not know the client after a power cut, which
    // then fails with what it has made.
    let took = copy_while(testbed, "power", 900_000_000, 6, |testbed| {
        testbed.power_off("server")?;
        testbed.kernel("server", Modules::USUAL)
    })?;
    Ok(format!("a copy of 900 MB, in {} s", took.as_secs()))
}
