//! What a reader should know before trusting the results.

use lustrine_selftest::Test;

use crate::model::Scenario;
use crate::outcome::LoadOutcome;
use lustrine_document::format_bytes;

use crate::words::format_duration;

/// The largest share of its bulk memory that a server gives to one client.
const PEER_PART: u64 = 4;

/// With fewer operations, percentiles mean little.
const OPS_FEW: u64 = 100;

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
                "{name}: only {} operations were measured; a longer \"time\" makes the \
                 results steadier",
                outcome.ops
            ));
        }
        let memory = |group: usize| {
            let mib = scenario.groups[group].tunables.selftest.selftest_memory;
            u64::try_from(mib).unwrap_or(0) << 20
        };
        let (wanted, servers) = (bulk(load.test) * u64::from(load.concurrency), memory(load.to));
        if wanted > servers / PEER_PART {
            hints.push(format!(
                "{name}: {} under way per pair, and a server gives one client a quarter of its \
                 selftest_memory, {}: the rest waits there; \"selftest_memory\" of {} decides",
                format_bytes(wanted),
                format_bytes(servers / PEER_PART),
                outcome.to
            ));
        }
    }
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
