//! The settings for a path, and why.

use serde::{Deserialize, Serialize};

use crate::measured::{Host, Path, Purpose, Streams};

/// Longest payload of an LNet message: an RPC's bulk is that many messages.
const MESSAGE_MAX: u64 = 1 << 20;

/// Largest `max_rpcs_in_flight` of a target.
const RPCS_MAX: u64 = 256;

/// LNet's defaults; nothing below them is advised.
const PEER_CREDITS: u64 = 8;
const CREDITS: u64 = 256;
/// Lustre's default of `max_rpcs_in_flight`. Less is advised only for object targets whose servers
/// lack memory or threads.
pub(crate) const RPCS: u64 = 8;

/// Largest credits.
const CREDITS_MAX: u64 = 65_535;

/// Largest number of connections per peer and type.
const CONNS_MAX: u64 = 127;

/// The kernel's largest socket buffer.
const BUFFER_MAX: u64 = (1 << 31) - 1;

/// Smallest buffers that are advised: 4 MiB.
const BUFFER: u64 = 4 << 20;

/// A setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Setting {
    /// Bulk RPCs in flight to one target: `osc.*.max_rpcs_in_flight`, selftest's concurrency.
    MaxRpcsInFlight,
    /// Dirty data of a client per target, in MiB: `osc.*.max_dirty_mb`.
    MaxDirtyMib,
    /// Messages in flight to one peer.
    PeerCredits,
    /// Messages in flight of an interface.
    Credits,
    /// Connections of each type to a peer.
    ConnsPerPeer,
    /// Largest receive buffer, in bytes: `net.ipv4.tcp_rmem`.
    TcpReceiveBuffer,
    /// Largest send buffer, in bytes: `net.ipv4.tcp_wmem`.
    TcpSendBuffer,
}

impl Setting {
    /// The name that users know.
    pub fn name(self) -> &'static str {
        match self {
            Setting::MaxRpcsInFlight => "max_rpcs_in_flight",
            Setting::MaxDirtyMib => "max_dirty_mb",
            Setting::PeerCredits => "peer_credits",
            Setting::Credits => "credits",
            Setting::ConnsPerPeer => "conns_per_peer",
            Setting::TcpReceiveBuffer => "tcp_rmem",
            Setting::TcpSendBuffer => "tcp_wmem",
        }
    }
}

/// What keeps a value below what its formula asks for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Limit {
    /// What it is, for people.
    pub what: String,
    /// Bits per second that the path can carry with the limited value.
    pub rate: u64,
}

/// One setting with its reason.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Advice {
    /// What to set.
    pub setting: Setting,
    /// The value.
    pub value: u64,
    /// One line: the formula and the numbers put in.
    pub why: String,
    /// What keeps it lower than the formula, if anything does.
    pub limit: Option<Limit>,
}

/// The values that were advised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// Per target.
    pub max_rpcs_in_flight: u64,
    /// Per target, in MiB.
    pub max_dirty_mib: u64,
    /// Per peer.
    pub peer_credits: u64,
    /// Per interface.
    pub credits: u64,
    /// Per peer and type.
    pub conns_per_peer: u64,
    /// Receive and send buffer of a connection, in bytes.
    pub tcp_buffer: u64,
    /// Pages of 4 KiB in one RPC.
    pub pages_per_rpc: u64,
}

/// Bits per second for people.
pub fn rate_text(rate: u64) -> String {
    match rate {
        0..1_000_000_000 => format!("{:.1} Mb/s", rate as f64 / 1e6),
        _ => format!("{:.2} Gb/s", rate as f64 / 1e9),
    }
}

/// Nanoseconds for people, in milliseconds.
pub fn time_text(ns: u64) -> String {
    format!("{:.3} ms", ns as f64 / 1e6)
}

/// Bytes for people, with three digits and a binary unit, such as 1.46 KiB.
pub fn bytes_text(bytes: u64) -> String {
    let (unit, name) = match bytes {
        0..0x10_0000 => (1u64 << 10, "KiB"),
        0x10_0000..0x4000_0000 => (1 << 20, "MiB"),
        _ => (1 << 30, "GiB"),
    };
    let value = bytes as f64 / unit as f64;
    match value {
        ..9.995 => format!("{value:.2} {name}"),
        ..99.95 => format!("{value:.1} {name}"),
        _ => format!("{value:.0} {name}"),
    }
}

/// A number of things with their noun.
fn counted(count: u64, noun: &str) -> String {
    let end = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{end}")
}

/// The bandwidth-delay product: bytes in flight on a path of this rate, in bits per second, and
/// round trip, in nanoseconds.
pub fn bandwidth_delay_product(rate: u64, rtt_ns: u64) -> u64 {
    let bytes = u128::from(rate) * u128::from(rtt_ns) / 8_000_000_000;
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

/// Bits per second of so many bytes in a time, in nanoseconds.
pub fn rate_of(bytes: u64, time_ns: u64) -> u64 {
    let rate = u128::from(bytes) * 8_000_000_000 / u128::from(time_ns.max(1));
    u64::try_from(rate).unwrap_or(u64::MAX)
}

/// Bytes that a connection can have in flight with a receive buffer: half of it is window, because
/// the kernel counts its own memory as well.
pub fn held_by_receive_buffer(tcp_rmem: u64) -> u64 {
    tcp_rmem / 2
}

/// The same with a send buffer: three quarters of it, as measured in a laboratory over 80 ms, where
/// a connection with 512 KiB carried 39.3 Mb/s (iperf3, Linux 6.18).
pub fn held_by_send_buffer(tcp_wmem: u64) -> u64 {
    tcp_wmem / 4 * 3
}

/// The settings for a path, each with its reason.
pub fn advise(path: &Path, host: &Host, purpose: &Purpose) -> (Settings, Vec<Advice>) {
    let rtt = path.rtt_idle_ns;
    // More than the interface carries would only wait.
    let rate = path.rate.min(host.interface_rate.unwrap_or(u64::MAX));
    let bdp = bandwidth_delay_product(rate, rtt);
    let mut all = Vec::new();
    let rpcs = rpcs(&mut all, rate, path, purpose);
    let rpc = bytes_text(purpose.rpc_bytes);

    let dirty = rpcs.saturating_mul(purpose.rpc_bytes).saturating_mul(2).div_ceil(1 << 20);
    all.push(Advice {
        setting: Setting::MaxDirtyMib,
        value: dirty,
        why: format!(
            "2 x max_rpcs_in_flight x RPC size = 2 x {rpcs} x {rpc}: one half is in \
                      flight while the other half is written"
        ),
        limit: None,
    });

    let messages = purpose.rpc_bytes.div_ceil(MESSAGE_MAX).max(1);
    let targets = u64::from(purpose.targets.max(1));
    let needed = rpcs.saturating_mul(targets).saturating_mul(messages);
    let [peer_credits_now, credits_now] = host.credits.unwrap_or_default().map(u64::from);
    let peer_credits = needed.clamp(PEER_CREDITS, CREDITS_MAX);
    all.push(Advice {
        setting: Setting::PeerCredits,
        value: peer_credits.max(peer_credits_now),
        why: format!(
            "at least RPCs x targets x messages of up to 1 MiB per RPC = {rpcs} x \
                      {targets} x {messages}; zero-copy sends hold a credit until the peer \
                      acknowledges them{}",
            enough(peer_credits_now, peer_credits)
        ),
        limit: (needed > CREDITS_MAX).then(|| Limit {
            what: format!("the largest value is {CREDITS_MAX}"),
            rate: rate.min(rate_of(CREDITS_MAX * MESSAGE_MAX, rtt.saturating_mul(2))),
        }),
    });

    let peers = u64::from(purpose.peers.max(1));
    let needed = peers.saturating_mul(peer_credits);
    let credits = needed.clamp(CREDITS, CREDITS_MAX);
    all.push(Advice {
        setting: Setting::Credits,
        value: credits.max(credits_now),
        why: format!(
            "at least peers x peer_credits that are needed = {peers} x {peer_credits}, and the \
                      default {CREDITS}{}",
            enough(credits_now, credits)
        ),
        limit: (needed > CREDITS_MAX).then(|| Limit {
            what: format!(
                "the largest value is {CREDITS_MAX}: not all peers can be at full depth \
                           at once"
            ),
            rate,
        }),
    });

    let conns = conns(&mut all, rate, path, host);
    let buffer = buffers(&mut all, rate, rtt, bdp, host);
    let settings = Settings {
        max_rpcs_in_flight: rpcs,
        max_dirty_mib: dirty,
        peer_credits,
        credits,
        conns_per_peer: conns,
        tcp_buffer: buffer,
        pages_per_rpc: purpose.rpc_bytes.div_ceil(4096).max(1),
    };
    (settings, all)
}

/// That a value is more than necessary, and so stays: it costs nothing, and what was measured may
/// be too low.
fn enough(now: u64, needed: u64) -> String {
    match now > needed {
        true => format!("; it is {now} now, which is enough"),
        false => String::new(),
    }
}

fn rpcs(all: &mut Vec<Advice>, rate: u64, path: &Path, purpose: &Purpose) -> u64 {
    let size = purpose.rpc_bytes.max(1);
    let rtt = path.rtt_idle_ns;
    let round_trips = rtt.saturating_mul(2);
    let latency = path.rpc_latency_ns.unwrap_or(0).max(round_trips);
    let held = bandwidth_delay_product(rate, latency);
    let targets = u64::from(purpose.targets.max(1));
    // More than what the path holds in all, divided among the targets.
    let total = (held / size).saturating_add(1);
    let needed = total.div_ceil(targets).max(RPCS);
    let mut value = needed.min(RPCS_MAX);
    let mut what = (needed > RPCS_MAX)
        .then(|| format!("a target takes at most {RPCS_MAX}; larger RPCs or more targets help"));
    let clients = u64::from(purpose.clients.max(1));
    let shares = clients.saturating_mul(targets);
    // Bytes in flight of a client that the server has room and threads for.
    let mut served = u64::MAX;
    if let Some(memory) = purpose.server_memory {
        let share = memory / size / shares;
        served = memory / clients;
        if share < value {
            value = share.max(1);
            let each = match share {
                0 => format!(
                    "less than one RPC of {} each, {} in all: the server cannot hold the data of \
                     one RPC of each at once; smaller RPCs, fewer clients or more memory help",
                    bytes_text(size),
                    bytes_text(shares.saturating_mul(size))
                ),
                _ => format!("{} of {} each", counted(share, "RPC"), bytes_text(size)),
            };
            what = Some(format!(
                "while all clients are busy, {} of server memory for {} x {} are {each}",
                bytes_text(memory),
                counted(clients, "client"),
                counted(targets, "target"),
            ));
        }
    }
    if let Some(threads) = purpose.server_threads {
        let share = u64::from(threads) / shares;
        served = served.min(u64::from(threads).saturating_mul(size) / clients);
        if share < value {
            value = share.max(1);
            let each = match share {
                0 => "less than one each: RPCs wait for a thread, however few each client sends"
                    .to_owned(),
                _ => format!(
                    "{} each; more would wait and make everybody slower",
                    counted(share, "RPC")
                ),
            };
            what = Some(format!(
                "while all clients are busy, {} for {} x {} are {each}",
                counted(threads.into(), "service thread"),
                counted(clients, "client"),
                counted(targets, "target"),
            ));
        }
    }
    let in_flight = value.saturating_mul(targets).saturating_mul(size).min(served);
    let carried = rate_of(in_flight, latency).min(rate);
    let (name, numbers) = match latency > round_trips {
        false => ("2 x rate x RTT", format!("2 x {} x {}", rate_text(rate), time_text(rtt))),
        true => {
            ("rate x latency of an RPC", format!("{} x {}", rate_text(rate), time_text(latency)))
        }
    };
    all.push(Advice {
        setting: Setting::MaxRpcsInFlight,
        value,
        why: format!(
            "more than {name} / RPC size / targets = {numbers} / {} / {targets} = {:.1}, and at \
             least the default {RPCS}",
            bytes_text(size),
            held as f64 / size as f64 / targets as f64,
        ),
        limit: what.map(|what| Limit { what, rate: carried }),
    });
    value
}

/// Connections: as many as the path needs, and no fewer than now.
fn conns(all: &mut Vec<Advice>, rate: u64, path: &Path, host: &Host) -> u64 {
    let now = u64::from(host.conns_per_peer.unwrap_or(1).max(1));
    let (needed, mut why) = match path.streams {
        Streams::One(one) if one > 0 && one < rate => {
            let (all, single) = (rate_text(rate), rate_text(one));
            let why = format!("at least rate / rate of one stream = {all} / {single}");
            (rate.div_ceil(one), why)
        }
        Streams::Unknown => {
            (now, "stays as it is: it was not measured what one stream carries".to_owned())
        }
        _ => (1, "one stream carries all that the path does".to_owned()),
    };
    why += &enough(now, needed);
    let value = needed.max(now).min(CONNS_MAX);
    let limit = (needed > CONNS_MAX).then(|| Limit {
        what: format!("the largest value is {CONNS_MAX}"),
        rate: match path.streams {
            Streams::One(one) => one.saturating_mul(CONNS_MAX).min(rate),
            _ => rate,
        },
    });
    all.push(Advice { setting: Setting::ConnsPerPeer, value, why, limit });
    value
}

fn buffers(all: &mut Vec<Advice>, rate: u64, rtt: u64, bdp: u64, host: &Host) -> u64 {
    // Whole MiB are easier to recognise.
    let needed = bdp.saturating_mul(2).div_ceil(1 << 20).saturating_mul(1 << 20).max(BUFFER);
    let value = needed.min(BUFFER_MAX);
    let limit = (needed > BUFFER_MAX).then(|| Limit {
        what: "the kernel's sockets have at most 2 GiB; more connections help".to_owned(),
        rate: rate_of(BUFFER_MAX / 2, rtt).min(rate),
    });
    for (index, setting) in
        [Setting::TcpReceiveBuffer, Setting::TcpSendBuffer].into_iter().enumerate()
    {
        let now = match host.tcp_buffers.map(|both| both[index]) {
            None => String::new(),
            Some(now) if now >= value => {
                format!("; it is {} now, which is enough", bytes_text(now))
            }
            Some(now) => {
                let held = match setting {
                    Setting::TcpSendBuffer => held_by_send_buffer(now),
                    _ => held_by_receive_buffer(now),
                };
                let carried = rate_of(held, rtt).min(rate);
                format!(
                    "; it is {} now, which is {} for a connection",
                    bytes_text(now),
                    rate_text(carried)
                )
            }
        };
        // What is larger stays as it is.
        let value = host.tcp_buffers.map_or(value, |both| both[index].max(value));
        all.push(Advice {
            setting,
            value,
            why: format!(
                "at least 2 x rate x RTT = 2 x {} x {} = {}{now}",
                rate_text(rate),
                time_text(rtt),
                bytes_text(bdp.saturating_mul(2)),
            ),
            limit: limit.clone(),
        });
    }
    value
}

#[cfg(test)]
mod tests;
