//! What a mount learns of its management server while it is mounted.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::mount::{KERNEL, Mounted};
use super::{Listed, eventually};
use crate::interop::testbed::Testbed;

pub(super) const CHECKS: &[Listed] = &[
    (
        "management",
        "`lctl set_param -P` and `lctl conf_param` while it is mounted",
        "the limits change, as on the kernel client; the last change is shown",
        parameters,
    ),
    (
        "management",
        "an OST is switched off by `active=0`, and on again",
        "ESHUTDOWN at once for what it has, as on the kernel client; then everything works",
        inactive,
    ),
    (
        "management",
        "an OST is added while it is mounted",
        "files with objects there are written and read without a new mount",
        added,
    ),
    (
        "management",
        "an OST and the MDT are away for a minute, and the MGS notifies clients of the start",
        "the mount connects because it was notified, and what waits goes on",
        imperative_recovery,
    ),
    (
        "management",
        "an OST and the MDT restart, and a program writes at once",
        "it goes on; the mount does not connect once more when it is notified later",
        noticed,
    ),
];

/// A change is seen after 5 to 10 s; a busy host takes longer.
const SEEN: Duration = Duration::from_secs(60);

/// The status of the mount.
fn status(mount: &Mounted) -> Result<Value> {
    let (program, dir) = (mount.program.display(), mount.dir.display());
    let text = mount.host(&format!("{program} fs status --json {dir}"))?;
    let status: Value = serde_json::from_str(&text).context("the status is no JSON")?;
    Ok(status[0].clone())
}

/// A target in the status of the mount.
fn target(mount: &Mounted, name: &str) -> Result<Value> {
    let status = status(mount)?;
    let mut targets = status["targets"].as_array().into_iter().flatten();
    let found = targets.find(|target| target["name"] == name).cloned();
    Ok(found.unwrap_or_default())
}

/// Waits until a value of a target is what it should be.
fn becomes(mount: &Mounted, name: &str, key: &str, wanted: &Value) -> Result<Duration> {
    let begun = Instant::now();
    eventually(&format!("{name}: {key} is {wanted}"), SEEN, || {
        Ok((target(mount, name)?[key] == *wanted).then_some(()))
    })?;
    Ok(begun.elapsed())
}

fn parameters(testbed: &mut Testbed) -> Result<String> {
    let mount = Mounted::new(testbed)?;
    let set = |testbed: &mut Testbed, limit: u32| {
        let set = format!("lctl set_param -P osc.lustre-*.max_rpcs_in_flight={limit}");
        testbed.sh("server", &set).map(drop)
    };
    set(testbed, 7)?;
    let first = becomes(&mount, "lustre-OST0000", "max_rpcs_in_flight", &7.into())?;
    testbed.sh("server", "lctl conf_param lustre-OST0001.osc.max_rpcs_in_flight=5")?;
    becomes(&mount, "lustre-OST0001", "max_rpcs_in_flight", &5.into())?;
    let kernel = "lctl get_param -n osc.lustre-OST0001-osc-[^M]*.max_rpcs_in_flight";
    eventually("the kernel client", SEEN, || {
        Ok((testbed.sh("client1", kernel)?.trim() == "5").then_some(()))
    })?;
    let status = status(&mount)?;
    let last = status["configuration"]["last_change"].as_str().unwrap_or_default().to_owned();
    ensure!(last.contains("max_rpcs_in_flight=5"), "the last change is `{last}`");
    testbed.sh("server", "lctl conf_param lustre-OST0001.osc.max_rpcs_in_flight=8")?;
    set(testbed, 8)?;
    becomes(&mount, "lustre-OST0001", "max_rpcs_in_flight", &8.into())?;
    Ok(format!("after {:.0} s; `{last}`", first.as_secs_f64()))
}

fn inactive(testbed: &mut Testbed) -> Result<String> {
    let mount = Mounted::new(testbed)?;
    testbed.sh(
        "client1",
        &format!(
            "cd {KERNEL}; rm -rf off; mkdir off; lfs setstripe -i 1 -c 1 off/on1; echo a > off/on1"
        ),
    )?;
    mount.sh("cat off/on1")?;
    testbed.sh("server", "lctl conf_param lustre-OST0001.osc.active=0")?;
    let refused = switched_off(&mount, testbed);
    // The checks that follow need it, whatever was seen.
    testbed.sh("server", "lctl conf_param lustre-OST0001.osc.active=1")?;
    becomes(&mount, "lustre-OST0001", "state", &"FULL".into())?;
    refused?;
    let read = mount.sh("cat off/on1; echo b >> off/on1; cat off/on1")?;
    ensure!(read == "a\na\nb\n", "afterwards it reads {read}");
    Ok("ESHUTDOWN for both, then read and written".to_owned())
}

/// What programs see of a target that is switched off, here and on the kernel client.
fn switched_off(mount: &Mounted, testbed: &mut Testbed) -> Result<()> {
    const READ: &str = "cat off/on1 2>&1 || :";
    const ESHUTDOWN: &str = "Cannot send after transport endpoint shutdown";
    becomes(mount, "lustre-OST0001", "state", &"INACTIVE".into())?;
    let begun = Instant::now();
    let seen = mount.sh(READ)?;
    let taken = begun.elapsed();
    ensure!(seen.contains(ESHUTDOWN), "reading says: {seen}");
    eventually("the kernel client says the same", SEEN, || {
        let seen = testbed.sh("client1", &format!("cd {KERNEL}; {READ}"))?;
        Ok(seen.contains(ESHUTDOWN).then_some(()))
    })?;
    ensure!(taken < Duration::from_secs(10), "that took {taken:?}");
    Ok(())
}

fn added(testbed: &mut Testbed) -> Result<String> {
    let mount = Mounted::new(testbed)?;
    // A file in the memory of the machine: it is gone when the machine is.
    let make = "mkdir -p /mnt/ost2 && truncate -s 400M /tmp/ost2.img && \
                { [ -b /dev/loop0 ] || mknod /dev/loop0 b 7 0; } && \
                losetup /dev/loop0 /tmp/ost2.img && \
                mkfs.lustre --ost --index=2 --fsname=lustre --mgsnode=10.77.0.9@tcp \
                --backfstype=ldiskfs --reformat \
                --mkfsoptions='-J size=8 -E assume_storage_prezeroed=1' \
                /dev/loop0 >/tmp/ost2.log 2>&1 && mount.lustre /dev/loop0 /mnt/ost2";
    testbed.sh("server", make)?;
    let taken = becomes(&mount, "lustre-OST0002", "state", &"FULL".into())?;
    let file = format!("{KERNEL}/on2");
    let setstripe = format!("lfs setstripe -i 2 -c 1 {file}");
    eventually("the MDT uses it", SEEN, || {
        Ok(testbed.sh("client1", &format!("rm -f {file}; {setstripe}")).ok())
    })?;
    let sum = mount.sh("head -c 3000000 /dev/urandom > on2; sync on2; md5sum < on2")?;
    let theirs = testbed.sh("client1", &format!("md5sum < {file}"))?;
    ensure!(sum == theirs, "{sum}, and the kernel client reads {theirs}");
    Ok(format!("connected after {:.0} s; 3 MB written and read", taken.as_secs_f64()))
}

/// What the mount says of a target, and of the notifications of the MGS, at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    state: String,
    /// Attempts to connect.
    connects: u64,
    /// How often it has connected because it was notified, to any target.
    reconnects: u64,
    /// The version of the table of NIDs up to which it was read.
    table: u64,
}

fn look(mount: &Mounted, name: &str) -> Result<Seen> {
    let status = status(mount)?;
    let named = |rows: &Value, name: &str| {
        let mut rows = rows.as_array().into_iter().flatten();
        rows.find(|row| row["name"] == name).cloned().unwrap_or_default()
    };
    let configuration = &status["configuration"];
    let (row, table) =
        (named(&status["targets"], name), named(&configuration["logs"], "lustre-cliir"));
    let number = |value: &Value| value.as_u64().context("the status lacks a number");
    Ok(Seen {
        state: row["state"].as_str().unwrap_or_default().to_owned(),
        connects: number(&row["connects"])?,
        reconnects: number(&configuration["reconnects"])?,
        table: number(&table["last"])?,
    })
}

/// Why a mount is connected, or is not, when a target has started again.
#[derive(Debug, PartialEq, Eq)]
enum Way {
    /// It was not notified up to now.
    Unknown,
    /// It was notified, and has connected because of that.
    Notified,
    /// It was notified; before that it had tried by itself.
    ByItself,
    /// It was notified, and does nothing.
    Ignored,
}

/// What has happened between two moments.
fn way(before: &Seen, now: &Seen) -> Way {
    if now.table <= before.table {
        Way::Unknown
    } else if now.reconnects > before.reconnects {
        Way::Notified
    } else if now.connects > before.connects {
        Way::ByItself
    } else {
        Way::Ignored
    }
}

/// Waits until the mount was notified.
fn notified(mount: &Mounted, name: &str, before: &Seen) -> Result<Way> {
    eventually(&format!("{name}: the MGS notifies the mount"), NOTIFIED, || {
        let way = way(before, &look(mount, name)?);
        Ok((way != Way::Unknown).then_some(way))
    })
}

/// The targets that restart, as the server's `tgt` and as the status have them.
const RESTARTED: [(&str, &str); 2] = [("ost0", "lustre-OST0000"), ("mdt0", "lustre-MDT0000")];
/// The MGS notifies when a target starts; the mount reads the table 5 to 10 s later.
const NOTIFIED: Duration = Duration::from_secs(120);
/// The pauses between attempts to connect are 5, 10, 20, 40 s; an attempt takes 5 s if the node has
/// no other target, and a request before that has to time out.
const ATTEMPTS: u64 = 4;
const ATTEMPTED: Duration = Duration::from_secs(300);
/// How often it may happen that the mount connects by itself first, or is notified first.
const TRIES: usize = 3;

/// Mounts, and makes a file with an object at the first OST.
fn recovering(testbed: &mut Testbed) -> Result<Mounted> {
    let mount = Mounted::new(testbed)?;
    // It would take minutes until the MGS does so by itself.
    testbed.sh("server", "lctl set_param mgs.MGS.live.lustre=state=full")?;
    // The kernel client keeps a lock there: it would leave an OST without any, and the recovery
    // would wait two minutes for it.
    let files = "rm -f waits held; lfs setstripe -i 0 -c 1 waits held; echo theirs > held";
    testbed.sh("client1", &format!("cd {KERNEL}; {files}"))?;
    Ok(mount)
}

fn imperative_recovery(testbed: &mut Testbed) -> Result<String> {
    let mount = recovering(testbed)?;
    let mut seen = Vec::new();
    for (target, name) in RESTARTED {
        let mut first = 0;
        loop {
            ensure!(first < TRIES, "{name}: {first} times it connected by itself first");
            let (way, after) = waits_for(&mount, testbed, target, name)?;
            match way {
                Way::Notified => {
                    let [notified, done] = after.map(|after| after.as_secs());
                    let again = match first {
                        0 => String::new(),
                        first => format!(" (and {first} x by itself first)"),
                    };
                    seen.push(format!(
                        "{target}: notified after {notified} s, done after {done} s{again}"
                    ));
                    break;
                }
                Way::Ignored => bail!("{name}: it was notified, and does not connect"),
                Way::ByItself | Way::Unknown => first += 1,
            }
        }
    }
    Ok(seen.join(", "))
}

/// A target is stopped, and a program waits for it. The mount tries to connect, less and less
/// often. The target is started when an attempt has just failed and the next one is far away, so
/// that the notification comes before that. How it went, and when, after the start, the mount was
/// notified and the program was done.
fn waits_for(
    mount: &Mounted,
    testbed: &mut Testbed,
    target: &str,
    name: &str,
) -> Result<(Way, [Duration; 2])> {
    let full = look(mount, name)?;
    let log = mount.dir.with_extension("waits");
    testbed.sh("server", &format!("tgt stop {target}"))?;
    let before = begins_to_wait(mount, name, &full, &log);
    // The checks that follow need it, whatever was seen.
    testbed.sh("server", &format!("tgt start {target}"))?;
    let begun = Instant::now();
    let way = notified(mount, name, &before?)?;
    let heard = begun.elapsed();
    eventually(&format!("{name}: the program goes on"), ATTEMPTED, || {
        let said = std::fs::read_to_string(&log).unwrap_or_default();
        ensure!(said.is_empty() || said == "done\n", "{name}: the program says {said}");
        Ok((!said.is_empty()).then_some(()))
    })?;
    let done = begun.elapsed();
    std::fs::remove_file(&log)?;
    Ok((way, [heard, done]))
}

/// Starts the program while the target is stopped. What is seen when the mount has tried to connect
/// so often that the next attempt is far away.
fn begins_to_wait(mount: &Mounted, name: &str, full: &Seen, log: &Path) -> Result<Seen> {
    let (dir, file) = (mount.dir.display(), log.display());
    // Even cd waits for the MDT.
    let program = "echo again > waits && sync waits && echo done";
    mount.host(&format!("(cd {dir} && {program}) > {file} 2>&1 &"))?;
    eventually(&format!("{name}: {ATTEMPTS} attempts to connect"), ATTEMPTED, || {
        let now = look(mount, name)?;
        let failed = now.connects >= full.connects + ATTEMPTS && now.state == "DISCONN";
        Ok(failed.then_some(now))
    })
}

/// Whether a restart shows that the mount, which has connected by itself, does not connect once
/// more when it is notified: from how it is when the write has ended, and from what happens `later`
/// up to the notification. It shows nothing if the mount connected because of the notification: it
/// may have connected by itself before.
fn shows(name: &str, written: &Way, later: impl FnOnce() -> Result<Way>) -> Result<bool> {
    match written {
        Way::Unknown => {
            let way = later()?;
            ensure!(
                way == Way::Ignored,
                "{name}: it connected again when it was notified: {way:?}"
            );
            Ok(true)
        }
        Way::ByItself => Ok(true),
        Way::Notified => Ok(false),
        Way::Ignored => bail!("{name}: it was notified, and does not connect"),
    }
}

fn noticed(testbed: &mut Testbed) -> Result<String> {
    let mount = recovering(testbed)?;
    let mut seen = Vec::new();
    for (target, name) in RESTARTED {
        let mut first = 0;
        loop {
            // On a busy host the write may take longer than the notification.
            ensure!(first < TRIES, "{name}: {first} times it was notified before the write ended");
            let before = look(&mount, name)?;
            testbed.sh("server", &format!("tgt restart {target}"))?;
            let begun = Instant::now();
            mount.sh("echo again > waits; sync waits")?;
            let taken = begun.elapsed().as_secs_f64();
            let written = look(&mount, name)?;
            if shows(name, &way(&before, &written), || notified(&mount, name, &written))? {
                let again = match first {
                    0 => String::new(),
                    first => format!(" (and {first} x notified first)"),
                };
                seen.push(format!("{target}: by itself, {taken:.0} s{again}"));
                break;
            }
            first += 1;
        }
    }
    Ok(seen.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_connects_by_itself_is_not_taken_for_one_who_was_notified() {
        let seen = |connects, reconnects, table| Seen {
            state: "FULL".to_owned(),
            connects,
            reconnects,
            table,
        };
        let before = seen(4, 1, 7);
        assert_eq!(way(&before, &before), Way::Unknown);
        assert_eq!(way(&before, &seen(5, 1, 7)), Way::Unknown, "the notification is still to come");
        assert_eq!(way(&before, &seen(5, 1, 8)), Way::ByItself);
        assert_eq!(way(&before, &seen(5, 2, 8)), Way::Notified);
        assert_eq!(way(&before, &seen(4, 1, 8)), Way::Ignored);
    }

    #[test]
    fn a_mount_that_connects_once_more_when_it_is_notified_is_an_error() {
        let shows = |written, later| shows("an OST", &written, || Ok(later)).ok();
        assert_eq!(shows(Way::Unknown, Way::Ignored), Some(true));
        assert_eq!(shows(Way::Unknown, Way::Notified), None);
        assert_eq!(shows(Way::Unknown, Way::ByItself), None);
        assert_eq!(shows(Way::ByItself, Way::Unknown), Some(true), "it was notified already");
        assert_eq!(shows(Way::Notified, Way::Unknown), Some(false), "it is to be done again");
        assert_eq!(shows(Way::Ignored, Way::Unknown), None);
    }
}
