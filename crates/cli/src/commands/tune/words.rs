//! What `lustrine tune` reads and prints for people.

use lustrine_node::NID_IN_USE;
use lustrine_report::numbers::counted;
use lustrine_tune::apply::ChangeResult;
use lustrine_tune::{rate_text, time_text};
use lustrine_wire::nid::Nid;

use super::applied::{Applied, What};
use super::budget::Budget;
use super::load::Direction;
use super::path_notes::known;
use super::report::{Compared, NotMeasured, PeerReport, Report, StepRow};
use super::step::STEP_RPCS;
use super::{BUDGET_TIME_MAX_NS, BUDGET_TIME_NS, IN_FLIGHT_MAX, TuneArgs};
use crate::host_limits::HostLimits;
use crate::values::bytes;

/// Bytes of an RPC.
pub(super) fn rpc_bytes(text: &str) -> Result<u64, String> {
    let value = bytes(text)?;
    let fits = (4096..=64 << 20).contains(&value) && value.is_multiple_of(4096);
    let words = "expected the bytes of an RPC: a multiple of 4k from 4k to 64M, such as 4M";
    fits.then_some(value).ok_or_else(|| words.to_owned())
}

/// What is about to be done, before it begins.
pub(super) fn announcement(args: &TuneArgs) -> String {
    if args.rate.is_some() {
        return "no load: pings, and the settings for --rate".to_owned();
    }
    let will = if args.dry_run { "without --dry-run" } else { "now" };
    format!(
        "{will}: reads and writes of 1 MiB, 1 to {IN_FLIGHT_MAX} at once, as fast as the path \
         carries them; at most {} MiB in all (--budget-bytes) and {}. {}",
        args.budget_bytes >> 20,
        match args.budget_time {
            Some(seconds) => format!("{seconds} s of load (--budget-time)"),
            None => format!(
                "{} s of load, or more over a long or slow path, up to {} s to each node \
                 (--budget-time)",
                BUDGET_TIME_NS / 1_000_000_000,
                BUDGET_TIME_MAX_NS / 1_000_000_000
            ),
        },
        match args.apply.apply.is_empty() {
            true => "Settings of this machine and of the peer are not changed",
            false => "Settings of the peer are not changed",
        },
    )
}

/// That the path to a node is long enough for more than the usual time, unless the user has set
/// another one.
pub(super) fn longer_budget(args: &TuneArgs, rtt_ns: u64, budget: Budget) -> Option<String> {
    let is_more = budget.time_ns > BUDGET_TIME_NS / args.to.len() as u64;
    (args.loads() && args.budget_time.is_none() && is_more).then(|| {
        let limit = time_limit(budget);
        format!("{limit}, for round trips of {}", time_text(rtt_ns))
    })
}

/// That the path to a node is slow enough for more time than was said.
pub(super) fn slow_path(budget: Budget, message_ns: u64) -> String {
    format!("{}, because 1 MiB takes {}", time_limit(budget), time_text(message_ns))
}

fn time_limit(budget: Budget) -> String {
    format!("at most {:.0} s of load", budget.time_ns as f64 / 1e9)
}

/// That another program has the address of this host, and what that means for a measurement.
pub(super) fn address_is_taken(nid: &Nid, args: &TuneArgs) -> String {
    let mut text = format!(
        "{NID_IN_USE}, {nid}: tune measures as userland, with one connection to a peer, which has \
         to have accept=all. To measure as a node, give tune another address of this host with \
         --net, or stop that program meanwhile"
    );
    if args.loads() && args.apply.apply.contains(&What::Node) {
        text += "; until then conns_per_peer of the running node stays as it is";
    }
    text
}

/// That what alone is to be applied cannot be measured.
pub(super) fn node_is_not_measured(nid: &Nid) -> String {
    format!(
        "--apply=node: what one connection carries cannot be measured while another program has \
         the address {nid}: tune is userland then, with one connection. Give tune another address \
         of this host with --net, or name the rates with --rate and --stream-rate"
    )
}

/// Why a step of the ramp is measured again.
pub(super) fn too_few(rpcs: u64) -> String {
    format!(
        "         only {} ended, and a rate needs {STEP_RPCS}: measured again for longer",
        counted(rpcs, "RPC")
    )
}

/// Why a step in which nothing ended is measured again.
pub(super) fn none_ended(direction: Direction) -> String {
    format!("         no {} has ended: measured again for longer", direction.name())
}

/// A step of load, in one line.
pub(super) fn step(row: &StepRow) -> String {
    let loaded = row.rtt_ns.map_or_else(String::new, |rtt| format!("  ping {}", time_text(rtt)));
    format!(
        "  {:5}  {:4} x 1 MiB  {:>12}  p50 {}{loaded}  {:.2} CPU s/GB{}{}",
        row.test.name(),
        row.in_flight,
        rate_text(row.rate),
        time_text(row.p50_ns),
        row.cpu_s_per_gb,
        if row.failed > 0 { format!("  {} failed", row.failed) } else { String::new() },
        match (row.cut, row.is_short()) {
            (true, _) => "  ended by the budget",
            (false, true) => "  at most: shorter than an RPC",
            (false, false) => "",
        },
    )
}

/// Everything.
pub(super) fn report(report: &Report) -> String {
    let mut text = String::new();
    for peer in &report.peers {
        text += &of_peer(peer);
    }
    for NotMeasured { nid, why } in &report.not_measured {
        text += &format!("{nid}\n  NOT MEASURED: {why}\n");
    }
    if report.peers.len() > 1
        && let Some(all) = &report.settings
    {
        text += &format!(
            "for all of them: max_rpcs_in_flight {}, max_dirty_mb {}, peer_credits {}, credits {}, \
             conns_per_peer {}, TCP buffers {}\n",
            all.max_rpcs_in_flight,
            all.max_dirty_mib,
            all.peer_credits,
            all.credits,
            all.conns_per_peer,
            all.tcp_buffer
        );
    }
    for file in &report.files {
        text += &format!("written: {}\n", file.display());
    }
    if let Some(applied) = &report.applied {
        text += &self::applied(applied);
    }
    text += "not seen:\n";
    for what in &report.unseen {
        text += &format!("  {what}\n");
    }
    text
}

/// What was applied or undone.
pub(super) fn applied(applied: &Applied) -> String {
    let mut text = String::new();
    for outcome in &applied.settings {
        let value = outcome.value.as_deref();
        let values = match (outcome.before.as_deref(), value) {
            (Some(before), Some(value)) if before == value => value.to_owned(),
            (Some(before), None) => before.to_owned(),
            (None, _) if outcome.why.is_some() => String::new(),
            (before, value) => format!("{} -> {}", known(before), known(value)),
        };
        let what =
            format!("{} {} of {}", done(outcome.result), outcome.setting, outcome.location.owner());
        let parts = [Some(what), Some(values).filter(|text| !text.is_empty()), outcome.why.clone()];
        text += &parts.into_iter().flatten().collect::<Vec<_>>().join(": ");
        text.push('\n');
    }
    for note in &applied.notes {
        text += &format!("note: {note}\n");
    }
    if applied.settings.iter().any(|outcome| outcome.result == ChangeResult::Changed) {
        let record = applied.record.display();
        let state = applied.state.as_ref();
        let state = state.map_or_else(String::new, |dir| format!(" --state {}", dir.display()));
        text += &format!(
            "the values before are in {record}; lustrine tune --undo{state} restores them\n"
        );
    }
    text
}

fn done(result: ChangeResult) -> &'static str {
    match result {
        ChangeResult::Changed => "changed",
        ChangeResult::WouldChange => "would change",
        ChangeResult::Unchanged => "unchanged:",
        ChangeResult::Restored => "restored",
        ChangeResult::WouldRestore => "would restore",
        ChangeResult::Gone => "nothing left of",
        ChangeResult::Elsewhere => "left alone:",
        ChangeResult::Foreign => "NOT CHANGED:",
        ChangeResult::Failed => "FAILED:",
    }
}

fn of_peer(peer: &PeerReport) -> String {
    let (rtt, host) = (&peer.rtt, &peer.host);
    let mut text = format!("{}\n", peer.nid);
    text += &format!(
        "  round trip: idle {} (median {}), under load {}\n",
        time_text(rtt.idle_min_ns),
        time_text(rtt.idle_median_ns),
        rtt.loaded_ns.map_or_else(|| "not measured".to_owned(), time_text),
    );
    text += &format!(
        "  this host: {}, speed {}, MTU {}, congestion control {}\n",
        known(host.interface.as_deref()),
        host.speed_mbps.map_or_else(|| "unknown".to_owned(), |speed| format!("{speed} Mb/s")),
        known(host.mtu),
        known(host.congestion_control.as_deref()),
    );
    text += &format!(
        "  load: {} MiB in {:.1} s\n",
        peer.used.bytes.div_ceil(1 << 20),
        peer.used.time_ns as f64 / 1e9,
    );
    if let Some(path) = &peer.path {
        text += &format!("  rate: {}\n", rate_text(path.rate));
    }
    if let Some(why) = &peer.incomplete {
        text += &format!("  INCOMPLETE: {why}\n");
    }
    if let Some(why) = &peer.unverified {
        text += &format!("  NOT VERIFIED: {why}\n");
    }
    text += &super::path_notes::measured(peer);
    for advice in &peer.advice {
        let before = known(peer.before(advice.setting));
        text += &format!(
            "  {:18} {before:>10} -> {:<10} {}\n",
            advice.setting.name(),
            advice.value,
            advice.why
        );
        if let Some(limit) = &advice.limit {
            text += &format!("    limited to {}: {}\n", rate_text(limit.rate), limit.what);
        }
    }
    let runs = [
        ("before", &peer.before),
        ("by round trips", &peer.by_round_trips),
        ("after", &peer.after),
    ];
    for (name, both) in runs {
        if let Some(both) = both {
            text += &format!("  {name:14}  {}\n", compared(both));
        }
    }
    for note in &peer.notes {
        text += &format!("  note: {note}\n");
    }
    text
}

/// What was made of a rate that is above the speed of the interface.
pub(super) fn speed_note(rate: u64, host: &HostLimits, is_given: bool) -> Option<String> {
    let speed = host.limits().interface_rate.filter(|speed| *speed < rate)?;
    let (speed, name) = (rate_text(speed), known(host.interface.as_deref()));
    Some(match is_given {
        true => format!(
            "{name} has a speed of {speed}, as /sys says; the settings are for {} (--rate)",
            rate_text(rate)
        ),
        false => format!(
            "the settings are for {speed}, the speed of {name} as /sys says, which is less than \
             the rate that was measured; --rate computes for another one"
        ),
    })
}

/// That the settings are for what a run carried, and not for what the ramp did.
pub(super) fn more_than_ramp(rate: u64, ramp: u64) -> String {
    format!(
        "a run after the ramp carried {}, more than the {} of the ramp: the settings are for that",
        rate_text(rate),
        rate_text(ramp)
    )
}

/// That a run carried more than what the settings are for.
pub(super) fn more_than_advised(carried: u64, rate: u64) -> String {
    format!(
        "a run carried {}, more than the {} that the settings are for: run this again, which \
         may advise higher values",
        rate_text(carried),
        rate_text(rate)
    )
}

/// That more RPCs carried no more.
pub(super) fn no_better(tried: &Compared) -> String {
    let Compared { in_flight, read, write } = tried;
    format!(
        "{in_flight} x 1 MiB in flight carried no more (read {}, write {}), and are not advised",
        measured(read),
        measured(write)
    )
}

fn compared(both: &Compared) -> String {
    let Compared { in_flight, read, write } = both;
    format!("{in_flight} x 1 MiB in flight: read {}, write {}", measured(read), measured(write))
}

fn measured(row: &Option<StepRow>) -> String {
    match row {
        None => "not measured (budget)".to_owned(),
        Some(row) if row.is_short() => format!("at most {}", rate_text(row.rate)),
        Some(row) if row.cut => format!("{} (ended by the budget)", rate_text(row.rate)),
        Some(row) => rate_text(row.rate),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_above_the_speed_of_the_interface_is_named() {
        let name = Some("eth0".to_owned());
        let host =
            HostLimits { interface: name, speed_mbps: Some(10_000), ..HostLimits::default() };
        let note = |rate, is_given| speed_note(rate, &host, is_given);
        let given = note(100_000_000_000, true).expect("a note");
        assert!(given.contains("eth0 has a speed of 10.00 Gb/s") && given.contains("100.00 Gb/s"));
        let measured = note(11_000_000_000, false).expect("a note");
        assert!(measured.starts_with("the settings are for 10.00 Gb/s, the speed of eth0"));
        assert_eq!((note(9_000_000_000, true), note(10_000_000_000, false)), (None, None));
    }

    #[test]
    fn rpcs_are_whole_pages() {
        assert_eq!(rpc_bytes("1M"), Ok(1 << 20));
        assert!(["1k", "128M", "5000"].iter().all(|wrong| rpc_bytes(wrong).is_err()));
    }
}
