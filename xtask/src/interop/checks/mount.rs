//! `lustrine mount` with kernel servers, and with a kernel client beside it.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use super::{Listed, eventually, holds};
use crate::interop::testbed::Testbed;
use crate::kernel_lab::Modules;
use crate::process::{capture, installed};

pub(super) const CHECKS: &[Listed] = &[
    (
        "mount",
        "data, names and attributes, changed by either side",
        "the other side sees each at once",
        coherence,
    ),
    (
        "mount",
        "one file is written by both sides in turn, and data are cached on both",
        "each sees what the other wrote, sizes of unwritten data included",
        shared_file,
    ),
    (
        "mount",
        "both sides append to one file at the same time",
        "each line is there once, and whole",
        appends,
    ),
    (
        "mount",
        "flock(2) and fcntl(2) locks, held by either side",
        "the other side is refused, or waits until the lock is free",
        locks,
    ),
    (
        "mount",
        "OSTs restart, and evict the mount, while data are not written",
        "nothing is lost in a restart; after an eviction fsync reports an error, once",
        unwritten,
    ),
    (
        "mount",
        "the server loses power before it has committed data that the kernel client has read",
        "they are written again; the kernel client and the mount read what they had read",
        power_cut,
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
    (
        "mount",
        "programs that wait for a server without a network are killed",
        "they end; when the server is back nothing is open, and nothing is locked",
        killed_programs,
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
    pub(super) program: PathBuf,
    pub(super) dir: PathBuf,
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
        let dir = testbed.mount_point()?;
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

/// Blocks at pseudo-random places of a file, by either side, each of another byte.
fn shared_file(testbed: &mut Testbed) -> Result<String> {
    const LEN: usize = 400_000;
    let mount = Mounted::new(testbed)?;
    mount.sh(&format!("rm -rf shared; mkdir shared; head -c {LEN} /dev/zero > shared/e"))?;
    let mut model = vec![0u8; LEN];
    let mut random = 1u64;
    let mut next = |below: usize| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (random >> 33) as usize % below
    };
    for round in 0..30 {
        let (at, len, byte) = (next(LEN - 20_000), 1 + next(20_000), 1 + next(250));
        model[at..at + len].fill(byte as u8);
        let write = format!(
            "head -c {len} /dev/zero | tr '\\0' '\\{byte:03o}' | \
             dd of=e bs=64k seek={at} oflag=seek_bytes conv=notrunc 2>/dev/null"
        );
        let sum = "md5sum < e; stat -c %s e";
        let (ours, theirs) =
            (format!("cd shared; {write}"), format!("cd {KERNEL}/shared; {write}"));
        match round % 2 {
            0 => mount.sh(&ours)?,
            _ => testbed.sh("client1", &theirs)?,
        };
        if round % 5 == 4 {
            let ours = mount.sh(&format!("cd shared; {sum}"))?;
            let theirs = testbed.sh("client1", &format!("cd {KERNEL}/shared; {sum}"))?;
            ensure!(ours == theirs, "round {round}: {ours}, and the kernel client has {theirs}");
        }
    }
    // What the file has to be, by a file of this machine.
    let expected = mount.dir.with_extension("expected");
    std::fs::write(&expected, &model).with_context(|| expected.display().to_string())?;
    mount.sh(&format!("cmp shared/e {}", expected.display()))?;
    std::fs::remove_file(&expected)?;
    // A file that is longer on this side than at the server.
    mount.sh("exec 3>>shared/grows; printf 12345 >&3; sleep 10 >/dev/null 2>&1 &")?;
    let size = testbed.sh("client1", &format!("stat -c %s {KERNEL}/shared/grows"))?;
    ensure!(size == "5\n", "the kernel client sees {size} bytes");
    testbed.sh("client1", &format!("truncate -s 3 {KERNEL}/shared/grows"))?;
    let short = mount.sh("cat shared/grows; stat -c ' %s' shared/grows")?;
    ensure!(short == "123 3\n", "the mount shows {short} after a truncation");
    Ok("30 writes; size and truncation of a file that is not written".to_owned())
}

fn appends(testbed: &mut Testbed) -> Result<String> {
    let mount = Mounted::new(testbed)?;
    mount.sh("rm -f log; : > log")?;
    let lines = |who: &str| format!("for i in $(seq 100 199); do echo {who} $i >> log; done");
    let theirs = format!("cd {KERNEL}; ( {} ) >/dev/null 2>&1 &", lines("theirs"));
    testbed.sh("client1", &theirs)?;
    mount.sh(&lines("ours"))?;
    let all = "sort -u log | wc -l; wc -l < log";
    let wait = "for i in $(seq 100); do [ $(wc -l < log) = 200 ] && break; sleep 0.3; done";
    let counts = mount.sh(&format!("{wait}; {all}"))?;
    ensure!(counts == "200\n200\n", "lines, different ones and all: {counts}");
    let counts = testbed.sh("client1", &format!("cd {KERNEL}; {all}"))?;
    ensure!(counts == "200\n200\n", "the kernel client has {counts}");
    Ok("100 lines by each side".to_owned())
}

fn locks(testbed: &mut Testbed) -> Result<String> {
    let mount = Mounted::new(testbed)?;
    mount.sh("rm -f lock; echo x > lock")?;
    for kind in ["flock", "posix"] {
        let held = format!("labtool lock {kind} {KERNEL}/lock ex 5 >/tmp/held 2>&1 &");
        testbed.sh("client1", &held)?;
        testbed
            .sh("client1", "for i in $(seq 50); do [ -s /tmp/held ] && break; sleep 0.1; done")?;
        let call = match kind {
            "flock" => "fcntl.flock(f, fcntl.LOCK_EX | flag)",
            _ => "fcntl.lockf(f, fcntl.LOCK_EX | flag, 10, 0)",
        };
        let program = format!(
            "import fcntl\nf = open('lock', 'r+')\nflag = fcntl.LOCK_NB\ntry:\n {call}\n \
             print('not refused')\nexcept OSError as e:\n print(e.errno)\nflag = 0\n{call}\n\
             print('got it')"
        );
        let seen = mount.sh(&format!("python3 -c \"{program}\""))?;
        ensure!(seen == "11\ngot it\n", "{kind}: {seen}");
        // The other way round.
        let out = mount.dir.with_extension("held");
        let out = out.display();
        mount.sh(&format!(
            "rm -f {out}; python3 -c \"import fcntl,time\nf = open('lock', 'r+')\n\
             flag = 0\n{call}\n\
             print('held', flush=True)\ntime.sleep(8)\" >{out} 2>&1 & \
             for i in $(seq 50); do grep -q held {out} && break; sleep 0.1; done"
        ))?;
        let ask = format!("labtool lock {kind} {KERNEL}/lock ex 0 nb >/dev/null 2>&1; echo $?");
        let refused = testbed.sh("client1", &ask)?;
        ensure!(refused != "0\n", "{kind}: the kernel client got a lock that the mount has");
        let ask = format!("labtool lock {kind} {KERNEL}/lock ex 0 >/dev/null 2>&1; echo $?");
        let granted = testbed.sh("client1", &ask)?;
        ensure!(granted == "0\n", "{kind}: the kernel client did not get a lock that is free");
        mount.host(&format!("rm -f {out}"))?;
    }
    Ok("refused, waited for, and granted; flock and fcntl".to_owned())
}

/// Restarts targets. Their recoveries wait for the kernel client, which may take a minute to
/// notice. If it becomes idle before, it never does, and all clients are evicted in the end
/// [IMP-14]: it asks something.
fn restart(testbed: &Testbed, targets: &[&str]) -> Result<()> {
    for target in targets {
        testbed.sh("server", &format!("tgt restart {target}"))?;
    }
    testbed.sh("client1", "lfs df > /tmp/df 2>&1 &").map(drop)
}

fn unwritten(testbed: &mut Testbed) -> Result<String> {
    let mount = Mounted::new(testbed)?;
    let write = "rm -rf dirty; mkdir dirty; head -c 8000000 /dev/urandom > dirty/a; \
                 cp dirty/a dirty/b; md5sum < dirty/a";
    let sum = mount.sh(write)?;
    restart(testbed, &["ost0", "ost1"])?;
    mount.sh("cp dirty/a dirty/c; sync dirty/a dirty/b dirty/c")?;
    let all = "for f in a b c; do md5sum < $f; done";
    let theirs = testbed.sh("client1", &format!("cd {KERNEL}/dirty; {all}"))?;
    ensure!(theirs == sum.repeat(3), "after the restart the kernel client has {theirs}");
    let hold = "import os,sys\nf = os.open('dirty/ev', os.O_CREAT | os.O_RDWR)\n\
                os.write(f, b'a' * 100000)\nprint('written', flush=True)\nsys.stdin.read(1)\n\
                for i in range(2):\n try:\n  os.fsync(f)\n  print('fsync ok')\n except OSError \
                as e:\n  print(e.errno)\nos.pwrite(f, b'b' * 10, 0)\nos.fsync(f)\n\
                print(os.pread(f, 3, 0).decode())";
    let evict = "for i in 0 1; do lctl set_param -n \
                 obdfilter.lustre-OST000$i.evict_client=nid:10.77.0.1@tcp; done";
    // The program waits on a FIFO while the servers evict the client.
    let fifo = mount.dir.with_extension("fifo");
    let out = mount.dir.with_extension("out");
    let (fifo, out) = (fifo.display(), out.display());
    mount.sh(&format!(
        "rm -f {fifo} {out}; mkfifo {fifo}; python3 -c \"{hold}\" <{fifo} >{out} 2>&1 & \
         exec 3>{fifo}; for i in $(seq 50); do grep -q written {out} && break; sleep 0.1; done; \
         sleep 30 >{fifo} 2>&1 & true"
    ))?;
    testbed.sh("server", evict)?;
    let seen = mount.sh(&format!(
        "echo > {fifo}; for i in $(seq 300); do grep -q bbb {out} && break; sleep 0.1; done; \
         cat {out}; rm -f {fifo} {out}"
    ))?;
    ensure!(seen == "written\n5\nfsync ok\nbbb\n", "{seen}");
    Ok("24 MB over two restarts; an error of fsync after the eviction, then it goes on".to_owned())
}

/// How often it may happen that the server has committed before its power is cut.
const CUTS: usize = 3;

fn power_cut(testbed: &mut Testbed) -> Result<String> {
    let mount = Mounted::new(testbed)?;
    let sums = "md5sum a b c d";
    for _ in 0..CUTS {
        let write = "rm -rf cut; mkdir cut; sync cut; cd cut; \
                     for f in a b c d; do head -c 3000000 /dev/urandom > $f; done";
        let ours = mount.sh(&format!("{write}; {sums}"))?;
        let theirs = testbed.sh("client1", &format!("cd {KERNEL}/cut; {sums}"))?;
        ensure!(theirs == ours, "{ours}, and the kernel client has {theirs}");
        testbed.power_off("server")?;
        testbed.kernel("server", Modules::USUAL)?;
        let again = "lctl set_param -n ldlm.namespaces.*.lru_size=clear";
        let theirs = testbed.sh("client1", &format!("{again}; cd {KERNEL}/cut; {sums}"))?;
        ensure!(theirs == ours, "{ours}, and afterwards the kernel client has {theirs}");
        let now = mount.sh(&format!("cd cut; {sums}"))?;
        ensure!(now == ours, "{ours}, and afterwards the mount has {now}");
        let replayed = "lctl get_param -n obdfilter.*.recovery_status | \
                        awk '/^replayed_requests/ {n += $2} END {print n + 0}'";
        let replayed = testbed.sh("server", replayed)?;
        if replayed.trim() != "0" {
            return Ok(format!("12 MB; the OSTs got {} requests again", replayed.trim()));
        }
    }
    bail!("{CUTS} times the server had committed everything")
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
        mount.host(&format!("{program} umount --no-wait {dir}"))?;
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
    let fifo = "go";
    // The shell holds the files open while the targets restart. It reads the line that it waits
    // for: who only opens the FIFO may have closed it before the line is written.
    let script = format!(
        "rm -rf over; mkdir over; cd over; mkfifo {fifo}; \
         ( exec 3<>named 4<>gone; rm gone; echo before >&3; echo before >&4; read go < {fifo}; \
           echo after >&3; echo after >&4; cat /proc/self/fd/4 > copy; : > ended ) > log 2>&1 &"
    );
    mount.sh(&script)?;
    restart(testbed, &["mdt0", "ost0", "ost1"])?;
    let wait = "for i in $(seq 180); do [ -e ended ] && break; sleep 1; done";
    let said = mount.sh(&format!("cd over; echo > {fifo}; {wait}; cat named copy log"))?;
    ensure!(said == "before\nafter\nbefore\nafter\n", "{said}");
    Ok("a file with a name, and one without".to_owned())
}

fn killed_programs(testbed: &mut Testbed) -> Result<String> {
    let mount = Mounted::new(testbed)?;
    // The names are known to the client, but for one.
    mount.sh("rm -rf wait; mkdir wait; echo data > wait/file; stat wait/* > /dev/null")?;
    // These open a file while there is a network, one has a lock already, and ask for locks of it
    // when there is none.
    let go = mount.dir.with_extension("go").display().to_string();
    let ask = |first: &str, then: &str| {
        format!(
            "import fcntl, os, time\nf = open('wait/lock', 'r+')\n{first}\n\
             open('{go}', 'a').write('x')\nwhile os.path.exists('{go}'): time.sleep(0.1)\n{then}"
        )
    };
    let lockers = [
        ask("", "fcntl.flock(f, fcntl.LOCK_EX)"),
        ask("", "fcntl.lockf(f, fcntl.LOCK_EX, 1, 0)"),
        ask("fcntl.lockf(f, fcntl.LOCK_EX, 10, 100)", "fcntl.lockf(f, fcntl.LOCK_EX, 10, 200)"),
    ];
    let started = lockers.map(|text| format!("python3 -c \"{text}\" > /dev/null 2>&1 & echo $!; "));
    let ready = format!("[ $(stat -c %s {go} 2> /dev/null || echo 0) = 3 ]");
    let lockers = mount.sh(&format!(
        "echo x > wait/lock; rm -f {go}; {}for i in $(seq 100); do \
         {ready} && break; sleep 0.1; done; {ready}",
        started.concat()
    ))?;
    let lockers = lockers.split_whitespace().collect::<Vec<_>>().join(" ");
    let lock =
        |kind| format!("labtool lock {kind} {KERNEL}/wait/lock ex 0 0 1000 nb >/dev/null 2>&1");
    let refused = testbed.sh("client1", &format!("{}; echo $?", lock("posix")))?;
    ensure!(refused != "0\n", "the kernel client got a lock that a program has");
    testbed.lab().link("server", "down")?;
    // It is not in the mount itself: that takes an answer of the server. The lockers are children
    // of another shell.
    let script = format!(
        "set +e; exec 2> /dev/null; d={}/wait; all=; start() {{ \"$@\" > /dev/null & \
         all=\"$all $!\"; }}; start stat $d/none; start cat $d/file; start ls $d; \
         start touch $d/made; start mv $d/file $d/moved; start rm $d/file; rm {go}; sleep 3; \
         alive() {{ grep -q '^State:.[^XZ]' /proc/$1/status; }}; \
         for i in {lockers}; do alive $i && echo waiting; done; kill $all {lockers}; \
         begin=$(date +%s); for i in $all; do wait $i; echo $?; done; \
         for i in {lockers}; do while alive $i; do sleep 0.1; done; done; \
         [ $(($(date +%s) - begin)) -le 10 ] && echo soon",
        mount.dir.display()
    );
    let killed = mount.host(&script);
    testbed.lab().link("server", "up")?;
    let killed = killed?;
    ensure!(killed == "waiting\n".repeat(3) + &"143\n".repeat(6) + "soon\n", "{killed}");
    let again = "for i in $(seq 120); do ls wait > /dev/null && break; sleep 1; done";
    mount.sh(&format!("{again}; touch wait/on; sleep 20 < wait/on > /dev/null 2>&1 &"))?;
    let mine = "lctl get_param -n mdt.lustre-MDT0000.exports.10.77.0.1@tcp.open_files";
    let opened = format!("for i in $(seq 10); do {mine} | grep . && break; sleep 1; done");
    ensure!(!testbed.sh("server", &opened)?.is_empty(), "an open file is not listed");
    let closed = format!("for i in $(seq 60); do {mine} | grep -q . || break; sleep 1; done");
    let open = testbed.sh("server", &format!("{closed}; {mine}"))?;
    ensure!(open.trim().is_empty(), "still open: {open}");
    for kind in ["flock", "posix"] {
        let lock = lock(kind);
        let lock =
            format!("for i in $(seq 30); do {lock} && break; sleep 1; done; {lock}; echo $?");
        let free = testbed.sh("client1", &lock)?;
        ensure!(free == "0\n", "{kind}: a lock of a killed program is still there");
    }
    testbed.sh("client1", &format!("rm -r {KERNEL}/wait"))?;
    Ok("nine programs, three of which ask for locks, within 10 s".to_owned())
}

fn killed(testbed: &mut Testbed) -> Result<String> {
    let mount = Mounted::new(testbed)?;
    // What is not at the server yet is lost with the program.
    mount.sh("echo kept > kept; sync kept")?;
    let (program, dir) = (mount.program.display(), mount.dir.display());
    mount.host(&format!("kill -9 $({})", mount.programs()))?;
    // While the process ends, the kernel answers with another error (ECONNABORTED).
    eventually("`endpoint is not connected`", Duration::from_secs(10), || {
        let said = mount.host(&format!("ls {dir} 2>&1 || true"))?;
        Ok(said.contains("endpoint is not connected").then_some(()))
    })?;
    let refused = mount.mount().err().map(|error| format!("{error:#}")).unwrap_or_default();
    holds(&refused, "a stale mount is here (its process has ended)")?;
    mount.host(&format!("{program} umount {dir}"))?;
    mount.mount()?;
    ensure!(mount.sh("cat kept")? == "kept\n", "the file is not there");
    Ok("unmounted, and mounted again".to_owned())
}
