//! Converts counters to rows of rates.
//!
//! "RPC/s" are messages of the node's whole LNet: R those received, W those sent [TOOL-8].

use core::fmt::Write;

use lustrine_wire::srpc::Counters;

use crate::parse::Parsed;

/// Rates of a node, per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rates {
    received: Rate,
    sent: Rate,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Rate {
    messages: f64,
    bytes: f64,
}

impl Rates {
    /// The rates between two states of the counters; `None` if the node restarted in between.
    pub(super) fn between(before: &Counters, now: &Counters) -> Option<Rates> {
        let millis = now.framework.running_ms.wrapping_sub(before.framework.running_ms) as i32;
        if millis <= 0 {
            return None;
        }
        let seconds = f64::from(millis) / 1000.0;
        // Counts have 32 bits and wrap around.
        let messages = |now: u32, before: u32| f64::from(now.wrapping_sub(before)) / seconds;
        let bytes = |now: u64, before: u64| Some(now.checked_sub(before)? as f64 / seconds);
        let (before, now) = (&before.lnet, &now.lnet);
        Some(Rates {
            received: Rate {
                messages: messages(now.recv_count, before.recv_count),
                bytes: bytes(now.recv_length, before.recv_length)?,
            },
            sent: Rate {
                messages: messages(now.send_count, before.send_count),
                bytes: bytes(now.send_length, before.send_length)?,
            },
        })
    }
}

/// What is shown, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    lnet: bool,
    rates: bool,
    bandwidth: bool,
    received: bool,
    sent: bool,
    average: bool,
    least: bool,
    most: bool,
    unit: Unit,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Mebibytes,
    Megabytes,
}

impl Layout {
    /// What the options of `stat` select; a kind without any option is shown completely.
    pub(super) fn of(parsed: &Parsed) -> Layout {
        let any = |names: &[&str]| names.iter().any(|name| parsed.has(name));
        let wants = |name: &str, kind: &[&str]| parsed.has(name) || !any(kind);
        let (quantities, directions) = (["bw", "rate"], ["read", "write"]);
        let summaries = ["avg", "min", "max"];
        Layout {
            lnet: wants("lnet", &["lnet", "rpc"]),
            rates: wants("rate", &quantities),
            bandwidth: wants("bw", &quantities),
            // Exchanged in every release; see the comment of `lst.rs`.
            received: wants("write", &directions),
            sent: wants("read", &directions),
            average: wants("avg", &summaries),
            least: wants("min", &summaries),
            most: wants("max", &summaries),
            unit: if parsed.has("mbs") { Unit::Megabytes } else { Unit::Mebibytes },
        }
    }

    /// Whether rates of LNet are shown.
    pub(super) fn shows_lnet(&self) -> bool {
        self.lnet
    }

    /// The rows of a group; empty if no node has rates.
    pub(super) fn rows(&self, name: &str, nodes: &[Rates]) -> String {
        let mut text = String::new();
        if nodes.is_empty() || !self.lnet {
            return text;
        }
        let ways = [
            (self.received, "[R]", nodes.iter().map(|node| node.received).collect::<Vec<_>>()),
            (self.sent, "[W]", nodes.iter().map(|node| node.sent).collect()),
        ];
        let ways = || ways.iter().filter(|(wanted, ..)| *wanted);
        if self.rates {
            let _ = writeln!(text, "[LNet Rates of {name}]");
            for (_, label, rates) in ways() {
                let all: Vec<f64> = rates.iter().map(|rate| rate.messages).collect();
                self.row(&mut text, label, &all, ["RPC/s ", "RPC/s ", "RPC/s"], 0);
            }
        }
        if self.bandwidth {
            let (unit, bytes) = match self.unit {
                Unit::Mebibytes => ("MiB/s ", 1_048_576.0),
                Unit::Megabytes => ("MB/s  ", 1_000_000.0),
            };
            let _ = writeln!(text, "[LNet Bandwidth of {name}]");
            for (_, label, rates) in ways() {
                let all: Vec<f64> = rates.iter().map(|rate| rate.bytes / bytes).collect();
                self.row(&mut text, label, &all, [unit; 3], 2);
            }
        }
        text
    }

    fn row(&self, text: &mut String, label: &str, all: &[f64], units: [&str; 3], decimals: usize) {
        let average = all.iter().sum::<f64>() / all.len() as f64;
        let least = all.iter().copied().fold(f64::INFINITY, f64::min);
        let most = all.iter().copied().fold(0.0, f64::max);
        let _ = write!(text, "{label} ");
        let columns =
            [(self.average, "Avg", average), (self.least, "Min", least), (self.most, "Max", most)];
        for ((wanted, name, value), unit) in columns.into_iter().zip(units) {
            if wanted {
                let _ = write!(text, "{name}: {value:<8.decimals$} {unit}");
            }
        }
        text.push('\n');
    }
}

#[cfg(test)]
mod tests;
