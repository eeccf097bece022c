//! `lst` between consoles, clients and servers of both kinds: what the tools print is the same.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::{Listed, holds};
use crate::interop::node::Node;
use crate::interop::testbed::{KERNEL, KERNEL_2, OURS, Testbed};
use crate::kernel_lab::Modules;
use crate::process::capture;

pub(super) const CHECKS: &[Listed] = &[
    ("lst", "the kernel's console, kernel client, Lustrine server", SAME, kernel_kernel_ours),
    ("lst", "the kernel's console, Lustrine client, kernel server", SAME, kernel_ours_kernel),
    ("lst", "Lustrine's console, kernel client, kernel server", SAME, ours_kernel_kernel),
    ("lst", "Lustrine's console, kernel client, Lustrine server", SAME, ours_kernel_ours),
    ("lst", "Lustrine's console, Lustrine client, kernel server", SAME, ours_ours_kernel),
    (
        "lst",
        "a console takes a node from another one's session: Lustrine's, then the kernel's",
        "refused without --force, done with it; the console that lost the node reports it",
        taken_over,
    ),
    ("long run", "five tests in both directions, every byte checked", "no errors", long_run),
];

const SAME: &str =
    "the text of kernel nodes among themselves, apart from NIDs and rates; no errors";

/// The whole life of a session. `LST_SESSION` holds it for the kernel's tool.
const SCRIPT: &str = "export LST_SESSION=77
lst new_session interop
lst add_group c $1
lst add_group s $2
lst list_group c --all
lst add_batch b
lst add_test --batch b --concurrency 2 --loop 40 --from c --to s brw write check=full size=64k
lst add_test --batch b --concurrency 2 --loop 40 --from c --to s brw read check=simple size=4k
lst add_test --batch b --concurrency 2 --loop 40 --from c --to s ping
lst list_batch b --all
lst run b
sleep 5
lst query b
lst stat --count 1 --delay 1 c s
lst show_error c s
lst stop b
sleep 1
lst list_group
lst end_session
";

/// What the kernel's tool prints by mistake.
const MISTAKES: [&str; 3] =
    ["ACTIVE BUSY DOWN UNKNOWN TOTAL", "No nodes found", "Group [ (null) ]"];

/// The text without what differs from run to run: NIDs become C and S, rates become N. Of the lines
/// that the kernel's tool prints by mistake, none is compared; `(null)` stands for the group.
fn normalised(text: &str, client: &str, server: &str) -> String {
    let line = |line: &str| {
        let is_rate = line.starts_with("[R]") || line.starts_with("[W]");
        let word = |word: &str| match word.replace(client, "C").replace(server, "S") {
            number if is_rate && number.parse::<f64>().is_ok() => "N".to_owned(),
            other => other.replace("(null)", "c"),
        };
        line.split_whitespace().map(word).collect::<Vec<_>>().join(" ")
    };
    let lines = text.lines().filter(|text| {
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        !text.starts_with("lst: through the running node")
            && !MISTAKES.iter().any(|mistake| text.starts_with(mistake))
    });
    // The kernel's tool heads the list of a group twice, once by mistake.
    lines.map(line).filter(|line| !line.starts_with("Group [")).collect::<Vec<_>>().join("\n")
}

/// The session as the kernel's tool prints it.
fn from_kernel(bed: &Testbed, client: &str, server: &str) -> Result<String> {
    let script = SCRIPT.replace("$1", client).replace("$2", server);
    bed.sh("node2", "modprobe lnet_selftest")?;
    let done = bed.lab().sh("node2", &format!("({script}) 2>&1"))?;
    Ok(normalised(&done.stdout, client, server))
}

/// The session as Lustrine's `lst` prints it, through a running node.
fn from_ours(bed: &mut Testbed, client: &str, server: &str) -> Result<String> {
    let node = bed.node(OURS, &["--selftest", "full"])?;
    let text = run_ours(bed, &node, SCRIPT, &[client, server])?;
    Ok(normalised(&text, client, server))
}

/// Runs a script with Lustrine's `lst` through a running node; all its output.
fn run_ours(bed: &Testbed, node: &Node, script: &str, args: &[&str]) -> Result<String> {
    let links = bed.lab().file("bin");
    fs::create_dir_all(&links)?;
    let link = links.join("lst");
    if !link.exists() {
        symlink(bed.lustrine_file(), &link)?;
    }
    let path = std::env::var("PATH").unwrap_or_default();
    let mut shell = Command::new("ip");
    shell.args(["netns", "exec", bed.lab().namespace(), "sh", "-c"]);
    shell.arg(format!("({script}) 2>&1")).arg("sh").args(args);
    shell.env("PATH", format!("{}:{path}", links.display()));
    shell.env("LUSTRINE_CONTROL", node.control());
    Ok(capture(&mut shell, Duration::from_secs(200))?.stdout)
}

fn compared(bed: &Testbed, seen: &str) -> Result<String> {
    let expected = from_kernel(bed, KERNEL, KERNEL_2)?;
    holds(&expected, "Total 0 error nodes in c")?;
    for (number, (expected, seen)) in expected.lines().zip(seen.lines()).enumerate() {
        ensure!(expected == seen, "line {}: `{seen}`, of kernels `{expected}`", number + 1);
    }
    let (count, seen) = (expected.lines().count(), seen.lines().count());
    ensure!(count == seen, "{seen} lines, of kernels {count}");
    Ok(format!("the same {count} lines, 0 errors"))
}

fn kernels(bed: &mut Testbed) -> Result<()> {
    bed.kernel("node2", Modules::USUAL)?;
    bed.kernel("node3", Modules::USUAL)?;
    bed.sh("node3", "modprobe lnet_selftest").map(drop)
}

fn kernel_kernel_ours(bed: &mut Testbed) -> Result<String> {
    kernels(bed)?;
    let _node = bed.node(OURS, &[])?;
    let seen = from_kernel(bed, KERNEL, OURS)?;
    compared(bed, &seen)
}

fn kernel_ours_kernel(bed: &mut Testbed) -> Result<String> {
    kernels(bed)?;
    let _node = bed.node(OURS, &["--selftest", "full"])?;
    let seen = from_kernel(bed, OURS, KERNEL)?;
    compared(bed, &seen)
}

fn ours_kernel_kernel(bed: &mut Testbed) -> Result<String> {
    kernels(bed)?;
    let seen = from_ours(bed, KERNEL, KERNEL_2)?;
    compared(bed, &seen)
}

fn ours_kernel_ours(bed: &mut Testbed) -> Result<String> {
    kernels(bed)?;
    let seen = from_ours(bed, KERNEL, OURS)?;
    compared(bed, &seen)
}

fn ours_ours_kernel(bed: &mut Testbed) -> Result<String> {
    kernels(bed)?;
    let seen = from_ours(bed, OURS, KERNEL)?;
    compared(bed, &seen)
}

fn taken_over(bed: &mut Testbed) -> Result<String> {
    kernels(bed)?;
    let node = bed.node(OURS, &["--selftest", "full"])?;
    let session = |key: u32, name: &str| {
        format!(
            "export LST_SESSION={key}; lst new_session {name}; lst add_group g {KERNEL_2}; \
             lst list_group g --all"
        )
    };
    let lost = "lst stat --count 1 --delay 1 g; lst end_session; true";
    let active = format!("12345-{KERNEL_2}: Active");
    let kernel =
        |script: &str| bed.sh("node2", &format!("modprobe lnet_selftest; ({script}) 2>&1"));
    let ours = |script: &str| run_ours(bed, &node, script, &[]);

    holds(&kernel(&session(83, "first"))?, &active)?;
    let refused = ours(&(session(84, "second") + "; lst end_session"))?;
    holds(&refused, "Device or resource busy")?;
    holds(&ours(&session(85, "--force third"))?, &active)?;
    holds(&kernel(&format!("export LST_SESSION=83; {lost}"))?, "Failed to stat on 1 nodes")?;

    let refused = kernel(&(session(86, "fourth") + "; lst end_session"))?;
    holds(&refused, "Device or resource busy")?;
    holds(&kernel(&session(87, "--force fifth"))?, &active)?;
    holds(&ours(&format!("export LST_SESSION=85; {lost}"))?, "Failed to stat on 1 nodes")?;
    kernel("export LST_SESSION=87; lst end_session")?;
    Ok("refused, then taken over, in both directions".to_owned())
}

fn long_run(bed: &mut Testbed) -> Result<String> {
    kernels(bed)?;
    let seconds = bed.long.as_secs();
    let node = bed.node(OURS, &["--selftest-consoles", KERNEL])?;
    let tests = [
        ("a", "b", "brw write check=full size=256k"),
        ("b", "a", "brw read check=full size=256k"),
        ("a", "b", "brw read check=full size=4k"),
        ("b", "a", "brw write check=full size=64k"),
        ("a", "b", "ping"),
    ];
    let mut script = format!(
        "modprobe lnet_selftest; export LST_SESSION=78; lst new_session interop2
         lst add_group a {KERNEL} {KERNEL_2}; lst add_group b {OURS}; lst add_batch b\n"
    );
    for (from, to, test) in tests {
        script += &format!(
            "lst add_test --batch b --concurrency 4 --distribute 2:1 \
             --from {from} --to {to} {test}\n"
        );
    }
    // A session that ends while its test runs can leave the kernel's selftest stuck.
    script += &format!(
        "lst run b; sleep {seconds}; lst show_error a b; lst stop b
         for i in $(seq 30); do lst query b | grep -q running || break; sleep 1; done
         lst end_session"
    );
    let before = counted(&node.run(&["show", "stats", "--json"])?.stdout)?;
    let text = bed.sh("node2", &script)?;
    holds(&text, "Total 0 error nodes in a")?;
    holds(&text, "Total 0 error nodes in b")?;
    let after = counted(&node.run(&["show", "stats", "--json"])?.stdout)?;
    ensure!(after > before, "nothing was received");
    let gib = (after - before) as f64 / f64::from(1 << 30);
    Ok(format!("0 errors in {seconds} s, {gib:.2} GiB received"))
}

/// Bytes that a node received.
fn counted(stats: &str) -> Result<u64> {
    let stats: serde_json::Value = serde_json::from_str(stats)?;
    stats
        .pointer("/stats/lnet/recv_length")
        .and_then(|bytes| bytes.as_u64())
        .with_context(|| format!("no recv_length in the statistics: {stats}"))
}

#[test]
fn texts_are_compared_without_nids_and_rates() {
    let kernel = "\tACTIVE\tBUSY\tDOWN\tUNKNOWN\tTOTAL\nGroup [ c ]\nNo nodes found [ c ]\n\
                  Group [ (null) ]\n\t12345-10.77.0.2@tcp: Active\nTotal 1 nodes [ (null) ]\n\
                  [R] Avg: 3        RPC/s Min: 3.5      RPC/s\n";
    let ours = "lst: through the running node 10.77.0.1@tcp (node identity, x)\nGroup [ c ]\n\
                \t12345-10.77.0.3@tcp: Active\nTotal 1 nodes [ c ]\n\
                [R] Avg: 1        RPC/s Min: 1.5      RPC/s\n";
    let kernel = normalised(kernel, "10.77.0.2@tcp", "10.77.0.9@tcp");
    assert_eq!(kernel, normalised(ours, "10.77.0.3@tcp", "10.77.0.9@tcp"));
    assert!(kernel.starts_with("12345-C: Active\n"), "{kernel}");
}
