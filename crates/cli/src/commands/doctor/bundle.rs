//! The support bundle: what was found, and what is needed to understand it, in one file.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use lustrine_control::{Answer, Request};
use serde_json::json;

use super::{DoctorArgs, Report, words};
use crate::access::ask_running;
use crate::output::{Failure, json};

/// The longest file of /proc that is taken, in bytes; the rest is left out.
const FILE: u64 = 256 << 10;

/// Directories of settings of the kernel's network, and which of their files are taken.
const SETTINGS: [(&str, &[&str]); 4] = [
    ("/proc/sys/net/ipv4", &["tcp_", "ip_", "icmp_", "ping_group_range"]),
    ("/proc/sys/net/core", &["rmem_", "wmem_", "netdev_", "somaxconn", "default_qdisc", "busy_"]),
    ("/proc/sys/net/ipv4/conf/all", &["rp_filter", "arp_"]),
    ("/proc/sys/net/ipv4/conf/default", &["rp_filter", "arp_"]),
];
/// Settings that are left out: keys of TCP Fast Open.
const KEYS: [&str; 1] = ["tcp_fastopen_key"];

/// The list of what is in it: its beginning and its end.
const LIST_BEGIN: &str = "\
A support bundle of `lustrine doctor`. It holds, and holds nothing else:

";
const LIST_END: &str = "
There are addresses and NIDs of this host and of its peers in it. Values of keys
that are called a key, secret, password, passphrase or token are replaced. Logs,
environments and command lines are not in it. What the command of --both-ends
says when it fails is in the report as it is.
";

/// Counters of the kernel's network.
const COUNTERS: [&str; 6] = ["dev", "snmp", "netstat", "sockstat", "softnet_stat", "route"];

/// A bundle, whose file is there and empty.
pub(super) struct Bundle {
    path: PathBuf,
    file: File,
    /// Whether it was written; otherwise the file is removed.
    done: bool,
}

impl Bundle {
    /// Makes the file, which only its owner can read.
    ///
    /// # Errors
    /// When it is there already, and when it cannot be made.
    pub(super) fn create(path: &Path) -> Result<Bundle, Failure> {
        let shown = path.display();
        if !path.to_string_lossy().ends_with(".tar.gz") {
            return Err(Failure::Usage(format!("{shown}: the name of a bundle ends in .tar.gz")));
        }
        let mut options = OpenOptions::new();
        let made = options.write(true).create_new(true).mode(0o600).open(path);
        let file = made.map_err(|error| match error.kind() {
            std::io::ErrorKind::AlreadyExists => {
                Failure::Usage(format!("{shown} is there already; name another file"))
            }
            _ => Failure::Failed(format!("cannot write {shown}: {error}")),
        })?;
        Ok(Bundle { path: path.to_owned(), file, done: false })
    }

    /// Writes it.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(super) fn write(
        mut self,
        report: &Report,
        args: &DoctorArgs,
        config_text: Option<&str>,
        node_runs: bool,
    ) -> Result<(), Failure> {
        let mut parts = vec![
            Part::new("report.json", "all results", json(report)?),
            Part::new("report.txt", "the same for people", words::report(report)),
            Part::new("versions.json", "versions of programs and kernels", versions(report)?),
            Part::new("sysctl.txt", "settings of the kernel's network", settings()),
        ];
        for name in COUNTERS {
            if let Some(text) = short(Path::new(&format!("/proc/self/net/{name}"))) {
                parts.push(Part::new(&format!("net/{name}"), "the kernel's /proc/net", text));
            }
        }
        if let Some(text) = config_text {
            parts.push(Part::new("config.yaml", "the file of --config", redacted(text)));
        }
        if node_runs {
            parts.extend(of_node(args)?);
        }
        let shown = self.path.display().to_string();
        self.pack(&parts).map_err(|error| format!("cannot write {shown}: {error}"))?;
        self.done = true;
        Ok(())
    }

    fn pack(&mut self, parts: &[Part]) -> std::io::Result<()> {
        let mut list = LIST_BEGIN.to_owned();
        for Part { name, what, .. } in parts {
            list += &format!("{name}: {what}\n");
        }
        list += LIST_END;
        let packed = GzEncoder::new(&mut self.file, Compression::default());
        let mut archive = tar::Builder::new(packed);
        for part in std::iter::once(&Part::new("README.txt", "", list)).chain(parts) {
            let mut header = tar::Header::new_gnu();
            header.set_size(part.text.len() as u64);
            header.set_mode(0o600);
            header.set_mtime(lustrine_sys::Clock::Wall.now() / 1_000_000_000);
            let name = format!("lustrine-doctor/{}", part.name);
            archive.append_data(&mut header, name, part.text.as_bytes())?;
        }
        archive.into_inner()?.finish()?.flush()
    }
}

impl Drop for Bundle {
    fn drop(&mut self) {
        if !self.done {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// One file in it.
struct Part {
    name: String,
    what: &'static str,
    text: String,
}

impl Part {
    fn new(name: &str, what: &'static str, text: String) -> Part {
        Part { name: name.to_owned(), what, text }
    }
}

/// The start of a file; `None` if it cannot be read as text.
fn short(path: &Path) -> Option<String> {
    let mut text = String::new();
    File::open(path).ok()?.take(FILE).read_to_string(&mut text).ok()?;
    Some(text)
}

fn versions(report: &Report) -> Result<String, Failure> {
    let host = &report.observed.host;
    json(&json!({
        "lustrine": env!("CARGO_PKG_VERSION"),
        "kernel": host.kernel,
        "lustre_modules": host.lustre_modules,
    }))
}

/// Settings that may be read, one a line, as sysctl(8) writes them.
fn settings() -> String {
    let mut lines = Vec::new();
    for (directory, starts) in SETTINGS {
        let Ok(entries) = fs::read_dir(directory) else { continue };
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let wanted = starts.iter().any(|start| name.starts_with(start));
            if !wanted || KEYS.contains(&name.as_str()) {
                continue;
            }
            if let Some(value) = short(&entry.path()) {
                let key = format!("{directory}/{name}").replace("/proc/sys/", "").replace('/', ".");
                lines.push(format!("{key} = {}\n", value.trim().replace('\t', " ")));
            }
        }
    }
    lines.sort();
    lines.concat()
}

/// What the running node says of itself.
fn of_node(args: &DoctorArgs) -> Result<Vec<Part>, Failure> {
    let mut parts = Vec::new();
    for (name, what, request) in [
        ("node/net.json", "interfaces of the running node", Request::ShowNet),
        ("node/peer.json", "its peers", Request::ShowPeer),
        ("node/stats.json", "its counters", Request::ShowStats),
        ("node/tunables.json", "its tunables", Request::ShowTunables),
        ("node/config.yaml", "its configuration", Request::ShowConfig),
    ] {
        match ask_running(&args.control, &request) {
            Ok(Answer::Config { text }) => parts.push(Part::new(name, what, redacted(&text))),
            Ok(answer) => parts.push(Part::new(name, what, json(&answer)?)),
            Err(why) => parts.push(Part::new(name, "why it is missing", why + "\n")),
        }
    }
    Ok(parts)
}

/// Words in the names of keys whose values are secret.
const SECRET: [&str; 5] = ["key", "secret", "password", "passphrase", "token"];

/// YAML without the values of such keys, also those of several lines.
fn redacted(text: &str) -> String {
    let mut out = String::new();
    // The indentation of the key whose value is being left out.
    let mut within: Option<usize> = None;
    for line in text.lines() {
        let content = line.trim_start();
        let indentation = line.len() - content.len();
        if within.is_some_and(|of| content.is_empty() || indentation > of) {
            continue;
        }
        // A list may stand as far to the left as its key.
        if within.is_some_and(|of| indentation == of && content.starts_with('-')) {
            continue;
        }
        within = None;
        // Several keys can be in one line.
        let keys = line.rsplit_once(':').map(|(keys, _)| keys.to_lowercase());
        let is_secret = keys.is_some_and(|keys| SECRET.iter().any(|word| keys.contains(word)));
        match line.split_once(':').filter(|_| is_secret) {
            Some((key, value)) => {
                within =
                    Some(indentation + content.bytes().take_while(|at| b"- ".contains(at)).count());
                let value = if value.trim().is_empty() { "" } else { " (redacted)" };
                out += &format!("{key}:{value}\n");
            }
            None => out += &format!("{line}\n"),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_secret_keys_are_replaced() {
        let text = "net:\n  - nid: a@tcp\n    shared_key: abc\nPassword: x\nkeys:\n";
        let expected = "net:\n  - nid: a@tcp\n    shared_key: (redacted)\nPassword: (redacted)\n\
                        keys:\n";
        assert_eq!(redacted(text), expected);
        for (text, expected) in [
            ("a:\n  key: |\n    abc\n\n    def\nb: 1\n", "a:\n  key: (redacted)\nb: 1\n"),
            ("- token:\n    - abc\n- b: 1\n", "- token:\n- b: 1\n"),
            ("keys:\n- abc\n- def\nb: 1\n", "keys:\nb: 1\n"),
            ("net: {mtu: 9, shared_key: abc}\nb: 1\n", "net: (redacted)\nb: 1\n"),
        ] {
            assert_eq!(redacted(text), expected);
        }
    }

    #[test]
    fn no_key_is_among_the_settings() {
        let text = settings();
        assert!(text.contains("net.ipv4.tcp_rmem = "), "{text}");
        assert!(!text.contains("fastopen_key"), "{text}");
    }
}
