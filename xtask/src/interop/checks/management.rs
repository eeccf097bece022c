//! What a mount learns of its management server while it is mounted.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
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
        "an OST and the MDT restart, and the MGS notifies clients",
        "the mount connects because it was notified, and goes on",
        imperative_recovery,
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

fn imperative_recovery(testbed: &mut Testbed) -> Result<String> {
    let mount = Mounted::new(testbed)?;
    // It would take minutes until the MGS does so by itself.
    testbed.sh("server", "lctl set_param mgs.MGS.live.lustre=state=full")?;
    let mut seen = Vec::new();
    for target in ["ost0", "mdt0"] {
        let before = reconnects(&mount)?;
        testbed.sh("server", &format!("tgt restart {target}"))?;
        let begun = Instant::now();
        mount.sh("echo again > after; sync after; rm after")?;
        seen.push(format!("{target}: {:.0} s", begun.elapsed().as_secs_f64()));
        eventually(&format!("the mount was notified of {target}"), SEEN, || {
            Ok((reconnects(&mount)? > before).then_some(()))
        })?;
    }
    Ok(seen.join(", "))
}

/// How often the mount has connected after a notification of the MGS.
fn reconnects(mount: &Mounted) -> Result<u64> {
    let status = status(mount)?;
    status["configuration"]["reconnects"].as_u64().context("the status has no reconnects")
}
