//! What a reader should know before trusting the results.

use lustrine_selftest::Test;

use crate::model::Scenario;
use crate::outcome::{GroupWaits, LinkOutcome, LoadOutcome};
use lustrine_document::format_bytes;
use lustrine_report::numbers::{counted, latency_text, percent, three_digits};

use crate::words::format_duration;

/// The largest share of its bulk memory that a server gives to one client.
const PEER_PART: u64 = 4;

/// With fewer operations, percentiles mean little.
const OPS_FEW: u64 = 100;

/// An operation that takes this part of the measured time is too long for it.
const LONG_PART: f64 = 0.5;

/// Hints about loads and their settings.
pub(crate) fn of_loads(scenario: &Scenario, loads: &[LoadOutcome], hints: &mut Vec<String>) {
    for (load, outcome) in scenario.loads.iter().zip(loads) {
        let name = format!("{} from {} to {}", outcome.test, outcome.from, outcome.to);
        if outcome.ops == 0 {
            hints.push(format!(
                "{name}: nothing was measured in {}; a longer \"time\", a lower \"concurrency\", \
                 or errors that the table counts",
                format_duration(load.time)
            ));
        } else if outcome.ops < OPS_FEW {
            hints.push(format!(
                "{name}: only {} measured; a longer \"time\" makes the results steadier",
                counted(outcome.ops, "operation")
            ));
        }
        let measured_us = outcome.seconds * 1e6;
        if outcome.ops > 0 && outcome.latency_us.p99 >= measured_us * LONG_PART {
            hints.push(format!(
                "{name}: the 99th percentile, {}, is at least half of the measured {}; use a \
                 longer \"time\"",
                latency_text(outcome.latency_us.p99),
                latency_text(measured_us)
            ));
        }
        let memory = |group: usize| {
            let mib = scenario.groups[group].tunables.selftest.selftest_memory;
            u64::try_from(mib).unwrap_or(0) << 20
        };
        let (wanted, servers) = (bulk(load.test) * u64::from(load.concurrency), memory(load.to));
        if wanted > servers / PEER_PART {
            hints.push(format!(
                "{name}: {} in flight per pair, and a server gives one client a quarter of its \
                 selftest_memory, {}: the rest waits there; \"selftest_memory\" of {} decides",
                format_bytes(wanted),
                format_bytes(servers / PEER_PART),
                outcome.to
            ));
        }
    }
}

/// A link or CPU that is busy for this part of the time is full.
const FULL: f64 = 0.9;

/// What limits the throughput, by links, CPUs, operations that failed and what messages waited for.
pub(crate) fn of_limit(
    links: &[LinkOutcome],
    waits: &[GroupWaits],
    errors: u64,
    hints: &mut Vec<String>,
) {
    if links.is_empty() {
        return;
    }
    let busiest = links.iter().filter_map(|link| Some((link.share_max?, link.name.as_str())));
    let busiest = busiest.max_by(|one, two| one.0.total_cmp(&two.0));
    let cpu = waits.iter().max_by(|one, two| one.cpu.total_cmp(&two.cpu));
    let longest = waits.iter().max_by(|one, two| one.all().total_cmp(&two.all()));
    let limit = match (busiest, cpu, longest) {
        (Some((share, link)), ..) if share >= FULL => {
            format!("the link {link}: it was sending {} of the time", percent(share))
        }
        (_, Some(group), _) if group.cpu >= FULL => {
            format!("the CPU of {}: it was busy {} of the time", group.group, percent(group.cpu))
        }
        _ if errors > 0 => "operations that failed: their share of the RPCs in flight moved no \
                            data until the next ones began"
            .to_owned(),
        (.., Some(waiting)) if waiting.all() >= 1.0 => of_queue(waiting),
        _ => "the number of RPCs in flight: no link or CPU was full, and hardly any message \
              waited; a higher \"concurrency\" adds throughput"
            .to_owned(),
    };
    hints.push(format!("the limit was {limit}"));
}

/// Messages in the driver that are this part of all that wait are the reason of the others.
const HOLDING: f64 = 1.0 / 3.0;

/// What most messages of a group waited for.
fn of_queue(waits: &GroupWaits) -> String {
    let GroupWaits { group, peer_credits, ni_credits, driver, zero_copy, .. } = waits;
    let reasons = [
        (*peer_credits, "peer credits", "raise \"peer_credits\" at both ends"),
        (*ni_credits, "credits of the interface", "raise \"credits\""),
        (
            *driver,
            "room in the TCP streams",
            "larger TCP buffers (\"tcp\": \"send_buffer\", \"receive_buffer\"), another \
             \"congestion\" or more \"conns_per_peer\"",
        ),
        (
            *zero_copy,
            "acknowledgements of zero-copy messages, which hold their credits",
            "raise \"peer_credits\", or switch \"zero_copy\" off",
        ),
    ];
    // Messages in the driver hold credits: others wait for a credit because of them.
    let streams = *driver >= waits.all() * HOLDING && driver >= zero_copy;
    let most = reasons.iter().max_by(|one, two| one.0.total_cmp(&two.0));
    let (number, what, cure) = match most {
        Some(most) if !streams => *most,
        _ => reasons[2],
    };
    format!(
        "{what}, for which {} messages of a node of {group} waited on average: {cure}",
        three_digits(number)
    )
}

/// A hint when links and waits could not be measured.
pub(crate) fn of_window(window: Option<(f64, f64)>, hints: &mut Vec<String>) {
    if window.is_none() {
        hints.push(
            "link use and waits were not measured: not all clients of a load measured at once; a \
             longer \"warm_up\" and \"time\" help"
                .to_owned(),
        );
    }
}

fn bulk(test: Test) -> u64 {
    u64::from(test.len())
}
