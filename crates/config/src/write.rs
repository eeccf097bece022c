//! Writing lnetctl's YAML as `lnetctl export` does since 2.16: dialect B for nets, A for the rest
//! [CFG-6], [CFG-11].

use lustrine_partition::tunables::{TABLE, Tunables};
use lustrine_selftest::ServiceMode;
use lustrine_wire::nid::Nid;

use super::{InterfaceChoice, NetConfig, NodeConfig, PeerConfig};

/// Tunables that lnetctl knows under `global`, in its order [CFG-10].
const GLOBAL: [&str; 4] = ["max_interfaces", "discovery", "retry_count", "transaction_timeout"];

/// Which values for all of LNet are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Globals {
    /// Those that are not the default.
    ChangeReport,
    /// All, as lnetctl does.
    All,
}

pub(super) fn node(config: &NodeConfig, globals: Globals) -> String {
    let mut out = String::new();
    if !config.nets.is_empty() {
        out.push_str("net:\n");
        nets(&mut out, &config.nets);
    }
    if !config.peers.is_empty() {
        out.push_str("peer:\n");
    }
    for peer in &config.peers {
        self::peer(&mut out, peer);
    }
    let changed = changed(&config.tunables);
    let (mut global, own): (Vec<ChangeReport>, Vec<ChangeReport>) =
        changed.into_iter().partition(|(name, _)| GLOBAL.contains(name));
    if globals == Globals::All {
        let value = |name| Some((name, config.tunables.value(name)?));
        global = GLOBAL.into_iter().filter_map(value).collect();
    }
    if !global.is_empty() {
        out.push_str("global:\n");
    }
    for (name, value) in global {
        line(&mut out, 4, name, &value.to_string());
    }
    out.push_str("lustrine:\n");
    line(&mut out, 4, "identity", &config.identity.to_string());
    line(&mut out, 4, "accept", &config.accept.to_string());
    let selftest = &config.selftest;
    if selftest.mode != ServiceMode::default() {
        line(&mut out, 4, "selftest", &selftest.mode.to_string());
    }
    if !selftest.consoles.is_empty() {
        line(&mut out, 4, "selftest_consoles", &quoted(&selftest.consoles.to_string()));
    }
    if let Some(path) = &config.control {
        line(&mut out, 4, "control", &quoted(path));
    }
    if let Some(address) = &config.metrics {
        line(&mut out, 4, "metrics", &quoted(&address.to_string()));
    }
    line(&mut out, 4, "cpu_pattern", &quoted(&config.cpu_pattern));
    if !own.is_empty() {
        out.push_str("    tunables:\n");
    }
    for (name, value) in own {
        line(&mut out, 8, name, &value.to_string());
    }
    out
}

/// A tunable's name and its value, which is not the default.
type ChangeReport = (&'static str, i64);

fn changed(tunables: &Tunables) -> Vec<ChangeReport> {
    let values = TABLE.iter().filter_map(|row| Some((row, tunables.value(row.name)?)));
    values.filter(|(row, value)| *value != row.default).map(|(row, v)| (row.name, v)).collect()
}

/// Neighbours on one network share an entry; their order stays, for it decides the primary NID.
fn nets(out: &mut String, nets: &[NetConfig]) {
    let mut above: Option<&NetConfig> = None;
    for ni in nets {
        // An interface of which nothing is said is an entry without list.
        let bare = *ni == NetConfig::new(ni.net, InterfaceChoice::Default);
        let joins = above.is_some_and(|above| above.net == ni.net) && !bare;
        if !joins {
            out.push_str(&format!("-     net type: {}\n", ni.net));
        }
        if !joins && !bare {
            out.push_str("      local NI(s):\n");
        }
        if !bare {
            local_ni(out, ni);
        }
        above = (!bare).then_some(ni);
    }
}

fn peer(out: &mut String, peer: &PeerConfig) {
    let [primary, others @ ..] = peer.nids.as_slice() else { return };
    out.push_str(&format!("-     primary nid: {primary}\n"));
    line(out, 6, "Multi-Rail", &peer.multi_rail.to_string());
    if peer.locked {
        line(out, 6, "lock_prim", "true");
    }
    out.push_str("      peer ni:\n");
    for nid in [primary].into_iter().chain(others) {
        out.push_str(&format!("      -     nid: {nid}\n"));
    }
}

fn local_ni(out: &mut String, ni: &NetConfig) {
    let mut body = String::new();
    match &ni.place {
        InterfaceChoice::Default => {}
        InterfaceChoice::Address(ip) => {
            line(&mut body, 12, "nid", &Nid::from_ip(ni.net, *ip).to_string())
        }
        InterfaceChoice::Interface(name) => {
            body.push_str("            interfaces:\n");
            line(&mut body, 18, "0", &quoted_if_needed(name));
        }
    }
    if let Some(port) = ni.port {
        line(&mut body, 12, "port", &port.to_string());
    }
    mapping(
        &mut body,
        "tunables",
        &[
            ("peer_timeout", ni.peer_timeout.map(i64::from)),
            ("peer_credits", ni.peer_credits.map(i64::from)),
            ("peer_buffer_credits", ni.peer_buffer_credits.map(i64::from)),
            ("credits", ni.credits.map(i64::from)),
        ],
    );
    mapping(
        &mut body,
        "lnd tunables",
        &[
            ("conns_per_peer", ni.conns_per_peer.map(i64::from)),
            ("timeout", ni.timeout.map(i64::from)),
            ("tos", ni.tos.map(i64::from)),
        ],
    );
    if let Some(cpts) = &ni.cpts {
        line(&mut body, 12, "CPT", &quoted(cpts));
    }
    // The first line of an item carries the dash: "      -     nid: ...".
    out.push_str("      -     ");
    out.push_str(body.trim_start());
}

fn mapping(out: &mut String, name: &str, values: &[(&str, Option<i64>)]) {
    if values.iter().all(|(_, value)| value.is_none()) {
        return;
    }
    out.push_str(&format!("            {name}:\n"));
    for (key, value) in values {
        if let Some(value) = value {
            line(out, 18, key, &value.to_string());
        }
    }
}

fn line(out: &mut String, indent: usize, key: &str, value: &str) {
    out.push_str(&format!("{:indent$}{key}: {value}\n", ""));
}

/// A word as it is when YAML reads it back as that word, or in quotes.
fn quoted_if_needed(word: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
    let starts_well = word.starts_with(|first: char| first.is_ascii_alphabetic());
    let reserved = ["null", "true", "false", "yes", "no", "on", "off", "y", "n"];
    let reserved = reserved.contains(&word.to_ascii_lowercase().as_str());
    if starts_well && word.bytes().all(plain) && !reserved { word.to_owned() } else { quoted(word) }
}

/// Double quotes around any text, with YAML's escapes.
fn quoted(text: &str) -> String {
    let mut out = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            ' '..='~' => out.push(c),
            _ => out.push_str(&format!("\\U{:08x}", u32::from(c))),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests;
