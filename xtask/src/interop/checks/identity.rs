//! Pings and discovery between nodes, and what restarts do to them.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::{Listed, eventually, holds, needs, reason, since, succeeded};
use crate::interop::testbed::{KERNEL, OURS, OURS_HIGHER, Testbed};
use crate::kernel_lab::Modules;

pub(super) const CHECKS: &[Listed] = &[
    ("identity", "the kernel pings and discovers Lustrine", "answers; Multi-Rail", kernel_first),
    ("identity", "Lustrine pings and discovers the kernel", "answers; state ready", ours_first),
    ("identity", "IPv6, both directions", "answers", ipv6),
    ("restarts", "Lustrine is killed and restarted; the kernel pings", "an answer", ours_killed),
    ("restarts", "Lustrine is killed and restarted; Lustrine pings", "an answer", ours_returns),
    (
        "restarts",
        "the kernel pings while Lustrine is down, and again when it is back",
        "refused at once; then an answer within 5 s",
        ours_down,
    ),
    ("restarts", "the kernel's LNet is reloaded; Lustrine pings", "an answer", kernel_reloads),
    (
        "restarts",
        "the kernel's machine loses power; Lustrine pings first",
        "the first or the second ping is answered",
        kernel_crashes,
    ),
    (
        "restarts",
        "the kernel's machine loses power; the kernel pings first",
        "an answer",
        kernel_crashes_and_pings,
    ),
    (
        "races",
        "both ping at once, Lustrine has the lower NID",
        "both answered, 5 times",
        race_lower,
    ),
    (
        "races",
        "both ping at once, Lustrine has the higher NID",
        "both answered, 5 times",
        race_higher,
    ),
    (
        "races",
        "the kernel's dials get lost for 2.7 s while both ping, Lustrine has the lower NID",
        "both answered; the kernel reports no fault",
        lost_dials_of_the_kernel,
    ),
    (
        "races",
        "Lustrine's dials get lost for 2.7 s while both ping, Lustrine has the higher NID",
        "both answered; the kernel reports no fault",
        lost_dials_of_ours,
    ),
];

fn kernel_first(bed: &mut Testbed) -> Result<String> {
    bed.kernel("node2", Modules::USUAL)?;
    let _node = bed.node(OURS, &[])?;
    let begun = Instant::now();
    holds(&bed.sh("node2", &format!("lnetctl ping {OURS}"))?, OURS)?;
    let ping = since(begun);
    let found = bed.sh("node2", &format!("lnetctl discover {OURS}"))?;
    holds(&found, OURS)?;
    holds(&found, "Multi-Rail: true")?;
    Ok(format!("answered, the ping in {ping} with the way into the machine"))
}

fn ours_first(bed: &mut Testbed) -> Result<String> {
    bed.kernel("node2", Modules::USUAL)?;
    let node = bed.node(OURS, &[])?;
    let ping = succeeded(node.run(&["ping", KERNEL])?)?;
    let found = succeeded(node.run(&["discover", KERNEL, "--json"])?)?;
    let found: serde_json::Value = serde_json::from_str(&found)?;
    let state = &found["peer"]["state"];
    ensure!(state == "ready", "the peer's state is {state}");
    Ok(ping.lines().next().unwrap_or_default().to_owned())
}

fn ipv6(bed: &mut Testbed) -> Result<String> {
    bed.large_nid("node2")?;
    let node = bed.node("fd77::1@tcp", &[])?;
    let ours = succeeded(node.run(&["ping", "fd77::2@tcp"])?);
    let theirs = bed.sh("node2", "lnetctl ping fd77::1@tcp");
    // No other check wants this machine without its IPv4 NID.
    bed.power_off("node2")?;
    holds(&theirs?, "fd77::1@tcp")?;
    Ok(ours?.lines().next().unwrap_or_default().to_owned())
}

fn ours_killed(bed: &mut Testbed) -> Result<String> {
    bed.kernel("node2", Modules::USUAL)?;
    let node = bed.node(OURS, &[])?;
    bed.sh("node2", &format!("lnetctl ping {OURS}"))?;
    drop(node);
    let _node = bed.node(OURS, &[])?;
    let begun = Instant::now();
    holds(&bed.sh("node2", &format!("lnetctl ping {OURS}"))?, OURS)?;
    Ok(format!("answered in {}", since(begun)))
}

fn ours_returns(bed: &mut Testbed) -> Result<String> {
    bed.kernel("node2", Modules::USUAL)?;
    let node = bed.node(OURS, &[])?;
    succeeded(node.run(&["ping", KERNEL])?)?;
    drop(node);
    let node = bed.node(OURS, &[])?;
    succeeded(node.run(&["ping", KERNEL])?)
}

fn ours_down(bed: &mut Testbed) -> Result<String> {
    bed.kernel("node2", Modules::USUAL)?;
    drop(bed.node(OURS, &[])?);
    let begun = Instant::now();
    let refused = bed.lab().sh("node2", &format!("lnetctl ping {OURS}"))?;
    ensure!(!refused.status.success(), "the ping succeeded: {}", refused.stdout);
    let took = begun.elapsed();
    ensure!(took < Duration::from_secs(5), "the refusal took {took:.1?}");
    let _node = bed.node(OURS, &[])?;
    // A kernel node waits up to a second before it dials again.
    let back = Instant::now();
    eventually("an answer", Duration::from_secs(5), || {
        let ping = bed.lab().sh("node2", &format!("lnetctl ping {OURS}"))?;
        Ok((ping.status.success() && ping.stdout.contains(OURS)).then_some(()))
    })?;
    Ok(format!("refused after {} ms; answered {} later", took.as_millis(), since(back)))
}

fn kernel_reloads(bed: &mut Testbed) -> Result<String> {
    bed.kernel("node2", Modules::USUAL)?;
    let node = bed.node(OURS, &[])?;
    succeeded(node.run(&["ping", KERNEL])?)?;
    // The selftest's module, where it is loaded, holds LNet.
    bed.sh(
        "node2",
        "rmmod lnet_selftest; lnetctl lnet unconfigure && lnetctl lnet configure --all",
    )?;
    eventually("a ping of the reloaded kernel", Duration::from_secs(10), || {
        let done = node.run(&["ping", "--timeout", "5", KERNEL])?;
        Ok(done.status.success().then_some(done.stdout))
    })
}

fn kernel_crashes(bed: &mut Testbed) -> Result<String> {
    bed.kernel("node2", Modules::USUAL)?;
    let node = bed.node(OURS, &[])?;
    succeeded(node.run(&["ping", KERNEL])?)?;
    bed.fresh_kernel("node2", Modules::USUAL)?;
    let first = node.run(&["ping", KERNEL])?;
    let second = succeeded(node.run(&["ping", KERNEL])?)?;
    let first = match first.status.success() {
        true => "answered".to_owned(),
        false => format!("failed ({})", reason(&first)),
    };
    let second = second.lines().next().unwrap_or_default();
    Ok(format!("the first {first}, the second: {second}"))
}

fn kernel_crashes_and_pings(bed: &mut Testbed) -> Result<String> {
    bed.kernel("node2", Modules::USUAL)?;
    let node = bed.node(OURS, &[])?;
    succeeded(node.run(&["ping", KERNEL])?)?;
    bed.fresh_kernel("node2", Modules::USUAL)?;
    let begun = Instant::now();
    holds(&bed.sh("node2", &format!("lnetctl ping {OURS}"))?, OURS)?;
    Ok(format!("answered in {}", since(begun)))
}

fn race_lower(bed: &mut Testbed) -> Result<String> {
    race(bed, OURS)
}

fn race_higher(bed: &mut Testbed) -> Result<String> {
    race(bed, OURS_HIGHER)
}

/// Two dials that meet: a new node each time, so that neither side has a connection.
fn race(bed: &mut Testbed, ours: &str) -> Result<String> {
    const ROUNDS: u32 = 5;
    bed.kernel("node2", Modules::USUAL)?;
    let mut slowest = Duration::ZERO;
    for _ in 0..ROUNDS {
        let node = bed.node(ours, &["--set", "conns_per_peer=1"])?;
        let begun = Instant::now();
        let (theirs, own) = std::thread::scope(|scope| {
            let theirs = scope.spawn(|| bed.sh("node2", &format!("lnetctl ping {ours}")));
            // The way into the machine takes about as long.
            std::thread::sleep(Duration::from_millis(60));
            let own = node.run(&["ping", KERNEL]);
            (theirs.join(), own)
        });
        slowest = slowest.max(begun.elapsed());
        succeeded(own?)?;
        match theirs {
            Ok(theirs) => holds(&theirs?, ours)?,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
    Ok(format!("answered {ROUNDS} times, the slowest in {} ms", slowest.as_millis()))
}

fn lost_dials_of_the_kernel(bed: &mut Testbed) -> Result<String> {
    // The higher NID wins a race, so each side waits for the one whose dials get lost.
    lost_dials(bed, OURS, "INPUT -p tcp --syn -s 10.77.0.2")
}

fn lost_dials_of_ours(bed: &mut Testbed) -> Result<String> {
    lost_dials(bed, OURS_HIGHER, "OUTPUT -p tcp --syn -d 10.77.0.2")
}

/// Both ping while a rule of the host's firewall drops the first packets of one side's dials.
fn lost_dials(bed: &mut Testbed, ours: &str, rule: &str) -> Result<String> {
    /// More than the way into the machine takes.
    const HEAD_START: Duration = Duration::from_millis(700);
    needs("iptables")?;
    bed.fresh_kernel("node2", Modules::USUAL)?;
    let node = bed.node(ours, &["--set", "conns_per_peer=1"])?;
    bed.lab().on_host(&format!("iptables -I {rule} -j DROP"))?;
    let begun = Instant::now();
    let (theirs, own, restored) = std::thread::scope(|scope| {
        let bed = &*bed;
        // The side whose dials get lost begins, so that its dial is under way when it is dialled.
        let (their_start, own_start) = match rule.starts_with("INPUT") {
            true => (Duration::ZERO, HEAD_START),
            false => (HEAD_START, Duration::ZERO),
        };
        let theirs = scope.spawn(move || {
            std::thread::sleep(their_start);
            let text = bed.sh("node2", &format!("lnetctl ping --timeout 20 {ours} 2>&1"))?;
            anyhow::Ok((text, begun.elapsed()))
        });
        let node = &node;
        let own = scope.spawn(move || {
            std::thread::sleep(own_start);
            let text = succeeded(node.run(&["ping", "--timeout", "20", KERNEL])?)?;
            anyhow::Ok((text, begun.elapsed()))
        });
        std::thread::sleep(Duration::from_millis(2700));
        let chain = rule.split(' ').next().unwrap_or_default();
        let count = format!("iptables -L {chain} -v -x -n | awk 'NR == 3 {{ print $1 }}'");
        let restored = bed.lab().on_host(&format!("{count}; iptables -D {rule} -j DROP"));
        (theirs.join(), own.join(), restored)
    });
    let dropped = restored?;
    let dropped: u64 = dropped.trim().parse().with_context(|| format!("dropped: {dropped}"))?;
    ensure!(dropped > 0, "no dial was dropped");
    let (Ok(theirs), Ok(own)) = (theirs, own) else { bail!("a ping panicked") };
    let ((theirs, their_time), (_, own_time)) = (theirs?, own?);
    holds(&theirs, ours)?;
    no_faults(bed)?;
    Ok(format!(
        "{dropped} dropped; the kernel's after {their_time:.1?}, Lustrine's after {own_time:.1?}"
    ))
}

/// The kernel reports no fault of its own since it started.
pub(super) fn no_faults(bed: &Testbed) -> Result<()> {
    let faults =
        bed.sh("node2", "dmesg | grep -cE 'Oops:|BUG:|NULL pointer dereference' || true")?;
    ensure!(faults.trim() == "0", "the kernel reports {} faults", faults.trim());
    Ok(())
}
