//! A simulation of a Lustrine node and a player.

use std::net::IpAddr;

use lustrine_lnet::time::Nanos;
use lustrine_lnet::topology::Identity;
use lustrine_partition::ProbeResult;
use lustrine_sim::{Link, NodeSpec, StopKind, StreamSim, check};
use lustrine_socklnd::Accept;

use super::capture::events_of;
use super::conversation::Conversation;
use super::player::Player;
use Command::{BadPing, Discover, Ping, Restart};

/// The time after the last event in which nothing unexpected may happen.
const AFTERMATH: Nanos = Nanos::from_secs(1);

/// A difference that a row permits. It must occur; otherwise the row is out of date.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Allow {
    /// Messages of one stream come in another order.
    ByteOrder,
    /// A message is sent on another stream to the same peer.
    OtherStream,
    /// Our node does not send what the kernel sent.
    Missing,
    /// Our node sends what the kernel did not send.
    Extra,
    /// Our node dials once more than the kernel.
    ExtraConnection,
    /// Our node closes what the kernel kept open.
    Closes,
    /// Our node closes a stream much earlier than the kernel.
    Hasty,
    /// Our node keeps open what the kernel closed.
    StaysOpen,
    /// A ping or discovery that succeeded with the kernel fails.
    ProbeFails,
    /// The kernel was set up to damage bulk data.
    Data,
    /// Keepalives come at other times.
    Keepalives,
}

/// What a person did at the captured node.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Command {
    /// After this number of milliseconds, `lnetctl ping`, which succeeds.
    Ping(u64, &'static str),
    /// The same, which fails.
    BadPing(u64, &'static str),
    /// After this number of milliseconds, `lnetctl discover`, which succeeds.
    Discover(u64, &'static str),
    /// Stops after the first number of milliseconds, and is back after the second.
    Restart(u64, u64, StopKind),
}

impl Command {
    pub(crate) fn at_ms(&self) -> u64 {
        match self {
            Ping(at, _) | BadPing(at, _) | Discover(at, _) | Restart(at, ..) => *at,
        }
    }
}

/// The Lustrine node in the place of another.
#[derive(Debug)]
pub(crate) struct Replay {
    pub(crate) nids: &'static [&'static str],
    pub(crate) tunables: &'static [(&'static str, i64)],
    pub(crate) accept: Accept,
    pub(crate) commands: &'static [Command],
    /// What may differ, and why.
    pub(crate) allow: &'static [(Allow, &'static str)],
}

impl Replay {
    /// The specification of the node: kernels use zero-copy, so it does too; kernels have no mark
    /// in their DEBUG replies, so it has none [STAT-1].
    pub(crate) fn spec(&self) -> NodeSpec {
        let nids = self.nids.iter().map(|nid| nid.parse().expect("a NID"));
        let mut spec = NodeSpec::new(self.nids[0].parse().expect("a NID"))
            .with("zero_copy", 1)
            .with("selftest_client_stats", 0);
        spec.nids = nids.collect();
        spec.accept = Some(self.accept);
        spec.identity = Identity::Node;
        self.tunables.iter().fold(spec, |spec, (name, value)| spec.with(name, *value))
    }
}

/// The time-out of a ping or discovery.
const PROBE_TIMEOUT: Nanos = Nanos::from_secs(60);

/// Plays one role of one capture; returns the number of compared items, or the differences.
pub(crate) fn play(
    folder: &str,
    name: &str,
    replay: &'static Replay,
    link: Link,
) -> Result<usize, String> {
    let spec = replay.spec();
    let ours: Vec<IpAddr> = spec.nids.iter().map(|nid| nid.ip().expect("an IP NID")).collect();
    let conversation = Conversation::new(events_of(folder, name), &ours)?;
    let length = conversation.steps.last().map_or(Nanos(0), |step| step.at);
    let mut world = StreamSim::new(1);
    world.network().set_usual_link(link);
    let node = world.add_node(spec);
    let player = Player::new(conversation, replay.allow);
    let addresses = player.addresses();
    let script = world.add_script(&addresses, player);
    let begin = world.now();
    let mut tickets = Vec::new();
    for command in replay.commands {
        let at = begin + Nanos::from_millis(command.at_ms());
        let wait = at.since(world.now());
        world.run_for(wait);
        match command {
            Ping(_, nid) | BadPing(_, nid) => {
                let nid = nid.parse().expect("a NID");
                tickets.push((command, world.ping(node, &nid, PROBE_TIMEOUT)));
            }
            Discover(_, nid) => {
                let nid = nid.parse().expect("a NID");
                tickets.push((command, world.discover(node, &nid, PROBE_TIMEOUT)));
            }
            Restart(away, back, stop_kind) => {
                let spec = world.stop(node, *stop_kind);
                world.run_for(Nanos::from_millis(back - away));
                let incarnation = spec.incarnation + 0x100;
                world.start(node, NodeSpec { incarnation, ..spec });
                world.script::<Player>(script).restarts += 1;
            }
        }
    }
    let limit = Nanos(length.0 * 3 + Nanos::from_secs(300).0);
    world.run_until(limit, |world| world.script::<Player>(script).finished);
    world.run_for(AFTERMATH);
    let mut wrong = world.script::<Player>(script).verdict();
    // Operations without an answer end at their time-outs.
    world.run_for(PROBE_TIMEOUT);
    for (command, ticket) in tickets {
        let result = world.node(node).result(ticket).cloned();
        let well = matches!(result, Some(ProbeResult::Ping(Ok(_)) | ProbeResult::Discover(Ok(_))));
        let player = world.script::<Player>(script);
        match (well, command) {
            (true, BadPing(..)) => wrong.push(format!("{command:?} went well")),
            (false, Ping(..) | Discover(..)) if !player.allows(Allow::ProbeFails) => {
                wrong.push(format!("{command:?} ended as {result:?}"));
            }
            _ => {}
        }
    }
    let player = world.script::<Player>(script);
    let (unused, compared) = (player.unused(), player.compared);
    if !unused.is_empty() {
        wrong.push(format!("the table allows {unused:?}, which did not occur"));
    }
    let still = world.node(node);
    wrong.extend(still.complaints().iter().cloned());
    wrong.extend(check::credits(still));
    wrong.extend(check::rest(still));
    if wrong.is_empty() { Ok(compared) } else { Err(wrong.join("\n  ")) }
}
