//! `lustrine mount` with kernel servers, and with a kernel client beside it.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::{Listed, holds};
use crate::interop::lab::Modules;
use crate::interop::testbed::Testbed;
use crate::process::{capture, installed};

pub(super) const CHECKS: &[Listed] = &[
    (
        "mount",
        "data, names and attributes, changed by either side",
        "the other side sees each at once",
        coherence,
    ),
    ("mount", "a tree is copied, compiled with make, and compared", "as on a local disk", build),
    ("mount", "git and SQLite, with a write-ahead log", "no error, and whole", databases),
    ("mount", "a directory of 10,000 names", "listed whole; seekdir leads back", many),
    (
        "mount",
        "the MDT and an OST fail over with files open, one of them without a name",
        "the files are read and written on",
        fail_over,
    ),
    (
        "mount",
        "it mounts again while the program of the mount before still leaves",
        "the new mount works, and stays when the old program has gone",
        again,
    ),
    ("mount", "the program is killed", "umount removes the mount point; it mounts again", killed),
];

const SOURCE: &str = "10.77.0.9@tcp:/lustre";
pub(super) const KERNEL: &str = "/mnt/lustre";
/// A recovery that waits for a client that has gone takes up to two minutes.
const LIMIT: Duration = Duration::from_secs(300);

/// A mount on this host, in the network of the laboratory. It is unmounted when it is dropped.
pub(super) struct Mounted {
    namespace: String,
    program: PathBuf,
    dir: PathBuf,
}

impl Mounted {
    /// Starts the server and a kernel client, and mounts.
    pub(super) fn new(testbed: &mut Testbed) -> Result<Mounted> {
        if !testbed.is_up("server") {
            // Memory for the server.
            testbed.forget_machines();
        }
        testbed.kernel("server", Modules::USUAL)?;
        testbed.kernel("client1", Modules::USUAL)?;
        let dir = testbed.lab().file("mount");
        std::fs::create_dir_all(&dir).with_context(|| dir.display().to_string())?;
        let namespace = testbed.lab().namespace().to_owned();
        let program = testbed.lustrine_file().to_owned();
        let mounted = Mounted { namespace, program, dir };
        mounted.mount()?;
        Ok(mounted)
    }

    fn mount(&self) -> Result<()> {
        let (program, dir) = (self.program.display(), self.dir.display());
        self.host(&format!("{program} mount {SOURCE} {dir}")).map(drop)
    }

    /// Runs a shell command on this host in the network of the laboratory. `ip netns exec` would
    /// hide the mount.
    pub(super) fn host(&self, command: &str) -> Result<String> {
        let mut host = Command::new("nsenter");
        host.arg(format!("--net=/run/netns/{}", self.namespace)).args(["sh", "-ec", command]);
        capture(&mut host, LIMIT)?.output(command)
    }

    /// A command that prints the numbers of the programs that serve this directory. The bracket
    /// keeps the shell itself out of the search.
    fn programs(&self) -> String {
        format!("pgrep -f 'mount --detached.*[/]{}'", &self.dir.display().to_string()[1..])
    }

    /// Runs a shell command inside the mount.
    pub(super) fn sh(&self, command: &str) -> Result<String> {
        self.host(&format!("cd {}; {command}", self.dir.display()))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let (program, dir) = (self.program.display(), self.dir.display());
        let _ = self.host(&format!("{program} umount {dir} || {program} umount --lazy {dir}"));
        // The next one is not to be a userland peer beside this one.
        let alive = self.programs();
        let _ = self.host(&format!("for i in $(seq 80); do {alive} || break; sleep 0.5; done"));
    }
}

fn coherence(testbed: &mut Testbed) -> Result<String> {
    let mount = Mounted::new(testbed)?;
    mount.sh("rm -rf both; mkdir both; echo ours > both/a; chmod 640 both/a")?;
    let seen = testbed.sh(
        "client1",
        &format!("cd {KERNEL}/both && cat a && stat -c %a a && echo theirs >> a && mv a b"),
    )?;
    ensure!(seen == "ours\n640\n", "the kernel client sees {seen}");
    let seen = mount.sh("cat both/b; ls both; touch -d @1000000000 both/b; ln both/b both/c")?;
    ensure!(seen == "ours\ntheirs\nb\n", "the mount shows {seen}");
    let inodes = mount.sh("stat -c '%i %Y %h %s' both/b both/c")?;
    let theirs =
        testbed.sh("client1", &format!("cd {KERNEL} && stat -c '%i %Y %h %s' both/b both/c"))?;
    ensure!(inodes == theirs, "{inodes}, and the kernel client has {theirs}");
    // Data that the kernel client has not written back.
    let write = "dd if=/dev/urandom of=both/fresh bs=1M count=3 2>/dev/null; md5sum both/fresh";
    let theirs = testbed.sh("client1", &format!("cd {KERNEL} && {write}"))?;
    ensure!(mount.sh("md5sum both/fresh")? == theirs, "other data than {theirs}");
    let cut = mount.sh("truncate -s 1000001 both/fresh; md5sum < both/fresh")?;
    let theirs = testbed.sh("client1", &format!("md5sum < {KERNEL}/both/fresh"))?;
    ensure!(cut == theirs, "{cut} after a truncation, and the kernel client has {theirs}");
    Ok("appending, renaming, times, links, inode numbers, unwritten data, truncation".to_owned())
}

fn build(testbed: &mut Testbed) -> Result<String> {
    for tool in ["cc", "make"] {
        ensure!(installed(tool), "{tool} is not installed");
    }
    let mount = Mounted::new(testbed)?;
    mount.sh("rm -rf tree; mkdir tree; cd tree; for n in 1 2 3 4 5; do \
         printf 'int f%d(int x){return x+%d;}\\n' $n $n > f$n.c; done; \
         printf 'int f1(int);int f5(int);int main(void){return f1(f5(0))-6;}\\n' > main.c; \
         printf 'prog: main.o f1.o f2.o f3.o f4.o f5.o\\n\\tcc -o $@ $^\\n' > Makefile; \
         make -s -j4; ./prog; make -q; touch f3.c; ! make -q; make -s; ./prog")?;
    let both = "tar cf - -C tree . | md5sum; find tree -printf '%P %y %m %U %G %s %t\\n' | sort";
    let ours = mount.sh(both)?;
    let copy = mount.sh(&format!("mv tree first; cp -a first tree; {both}; rm -r first"))?;
    ensure!(copy == ours, "cp -a made of\n{ours}this:\n{copy}");
    Ok("compiled twice; cp -a is the same to the byte".to_owned())
}

fn databases(testbed: &mut Testbed) -> Result<String> {
    for tool in ["git", "python3"] {
        ensure!(installed(tool), "{tool} is not installed");
    }
    let mount = Mounted::new(testbed)?;
    let said = mount.sh(
        "rm -rf git clone; mkdir git; cd git; git init -q .; git config user.email a@b; \
         git config user.name a; seq 2000 > file; git add .; git commit -qm one; \
         echo more >> file; git commit -qam two; git gc -q; git fsck; \
         git clone -q . ../clone; cd ../clone; git log --oneline | wc -l; git status --short",
    )?;
    ensure!(said.trim() == "2", "git says {said}");
    let said = mount.sh("rm -f db*; python3 -c \"
import sqlite3
c = sqlite3.connect('db')
print(c.execute('pragma journal_mode=wal').fetchone()[0])
c.execute('create table t(a)')
for i in range(50):
    with c: c.execute('insert into t values(?)', ('x' * i * 50,))
print(c.execute('pragma integrity_check').fetchone()[0])
c.close()
d = sqlite3.connect('db')
print(d.execute('pragma journal_mode=delete').fetchone()[0])
with d: d.execute('delete from t where length(a) < 1000')
print(d.execute('select count(*) from t').fetchone()[0])
\"")?;
    ensure!(said == "wal\nok\ndelete\n30\n", "SQLite says {said}");
    Ok("two commits, gc, fsck, clone; 50 transactions".to_owned())
}

fn many(testbed: &mut Testbed) -> Result<String> {
    let mount = Mounted::new(testbed)?;
    let make =
        format!("rm -rf {KERNEL}/many; mkdir {KERNEL}/many; labtool mkfiles {KERNEL}/many n 10000");
    testbed.sh("client1", &make)?;
    let count = mount.sh("ls many | sort -u | wc -l; ls -f many | wc -l")?;
    ensure!(count == "10000\n10002\n", "{count}");
    // The name behind each position, read once in order and once from the positions backwards.
    let said = mount.sh("python3 -c \"
import ctypes as c
l = c.CDLL(None)
l.opendir.restype = l.readdir.restype = c.c_void_p
l.telldir.restype = c.c_long
l.telldir.argtypes = l.readdir.argtypes = [c.c_void_p]
l.seekdir.argtypes = [c.c_void_p, c.c_long]
d = l.opendir(b'many')
def name():
    e = l.readdir(d)
    return e and c.string_at(e + 19)
seen = []
while True:
    at = l.telldir(d)
    n = name()
    if not n: break
    seen.append((at, n))
for at, n in seen[::-97]:
    l.seekdir(d, at)
    assert name() == n, (at, n)
print(len(seen))
\"")?;
    ensure!(said == "10002\n", "{said}");
    Ok("10,000 names, each once; 104 positions lead to their names".to_owned())
}

fn again(testbed: &mut Testbed) -> Result<String> {
    let mount = Mounted::new(testbed)?;
    let (program, dir) = (mount.program.display(), mount.dir.display());
    for round in 1..=5 {
        mount.host(&format!("{program} umount {dir}"))?;
        mount.mount().with_context(|| format!("round {round}"))?;
        mount.sh("rm -rf again; mkdir again; echo here > again/a; cat again/a")?;
    }
    let old = mount.host(&mount.programs())?;
    // As if it took long to leave.
    mount.host(&format!("kill -STOP {}; umount --lazy {dir}", old.trim()))?;
    mount.mount()?;
    mount.host(&format!("kill -CONT {}", old.trim()))?;
    let ended = format!(
        "for i in $(seq 60); do [ -e /proc/{} ] || exit 0; sleep 0.5; done; exit 1",
        old.trim()
    );
    mount.host(&ended).context("the old program does not end")?;
    ensure!(mount.sh("cat again/a")? == "here\n", "the new mount does not work");
    Ok("five times at once; once beside a program that was stopped".to_owned())
}

fn fail_over(testbed: &mut Testbed) -> Result<String> {
    let mount = Mounted::new(testbed)?;
    let server = |testbed: &Testbed, target: &str| {
        testbed.sh("server", &format!("tgt restart {target}")).map(drop)
    };
    let fifo = "go";
    // The shell holds the files open while the targets restart.
    let script = format!(
        "rm -rf over; mkdir over; cd over; mkfifo {fifo}; \
         ( exec 3<>named 4<>gone; rm gone; echo before >&3; echo before >&4; : < {fifo}; \
           echo after >&3; echo after >&4; cat /proc/self/fd/4 > copy; : > ended ) > log 2>&1 &"
    );
    mount.sh(&script)?;
    for target in ["mdt0", "ost0", "ost1"] {
        server(testbed, target)?;
    }
    // A recovery waits for the kernel client, which may take a minute to notice.
    let wait = "for i in $(seq 180); do [ -e ended ] && break; sleep 1; done";
    let said = mount.sh(&format!("cd over; echo > {fifo}; {wait}; cat named copy log"))?;
    ensure!(said == "before\nafter\nbefore\nafter\n", "{said}");
    Ok("a file with a name, and one without".to_owned())
}

fn killed(testbed: &mut Testbed) -> Result<String> {
    let mount = Mounted::new(testbed)?;
    mount.sh("echo kept > kept")?;
    let (program, dir) = (mount.program.display(), mount.dir.display());
    mount.host(&format!("kill -9 $({})", mount.programs()))?;
    let said = mount.host(&format!("ls {dir} 2>&1 || true"))?;
    holds(&said, "endpoint is not connected")?;
    let refused = mount.mount().err().map(|error| format!("{error:#}")).unwrap_or_default();
    holds(&refused, "a mount is here whose program has ended")?;
    mount.host(&format!("{program} umount {dir}"))?;
    mount.mount()?;
    ensure!(mount.sh("cat kept")? == "kept\n", "the file is not there");
    Ok("unmounted, and mounted again".to_owned())
}
