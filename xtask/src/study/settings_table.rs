//! The table of the settings that formulas give, and of what the sweeps with them reached.

use std::fmt::Write as _;

use anyhow::{Context, Result};

use super::results::Results;
use super::settings::{MIB, Point, Traffic, points};

/// The table of settings, with how much of the interfaces' payload rate its checks reached.
pub(super) fn table(results: &Results) -> Result<String> {
    let mut out = String::from(
        "| link | RTT | product | RPCs, writes or zero-copy | `peer_credits`, zero-copy | RPCs, \
         reads without | `peer_credits` without | buffers | memory | writes reach | reads reach \
         |\n|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n",
    );
    for point in points() {
        let rpcs = point.rpcs(Traffic::Zerocopy);
        let _ = writeln!(
            out,
            "| {} Gb/s | {} ms | {} | {rpcs} | {} | {} | {} | {} | {} | {} | {} |",
            point.rate,
            point.trip_us as f64 / 1e3,
            size(point.product() as f64 / MIB as f64),
            point.peer_credits(Traffic::Zerocopy),
            point.rpcs(Traffic::Copied),
            point.peer_credits(Traffic::Copied),
            size(point.buffer_mib() as f64),
            size((rpcs + point.buffer_mib()) as f64),
            reached(point, Traffic::Zerocopy, results)?,
            reached(point, Traffic::Copied, results)?,
        );
    }
    Ok(out)
}

fn reached(point: Point, traffic: Traffic, results: &Results) -> Result<String> {
    if !point.is_checked(traffic) {
        return Ok("not run".to_owned());
    }
    let sweep = results.of(match traffic {
        Traffic::Zerocopy => "settings-zerocopy",
        Traffic::Copied => "settings-copied",
    })?;
    let values = point.values(traffic);
    let run = sweep.runs.iter().find(|run| run.values == values);
    let run = run.with_context(|| format!("no run of {point:?}, {traffic:?}"))?;
    Ok(format!("{:.1} %", run.mb_per_s / payload_mb_per_s(point.rate) * 100.0))
}

/// MB/s of payload that a link carries: packets of 9000 bytes take 9038 on an Ethernet and carry
/// 8948 bytes of data.
fn payload_mb_per_s(rate: u64) -> f64 {
    rate as f64 * 125.0 * 8948.0 / 9038.0
}

fn size(mib: f64) -> String {
    match mib {
        10240.0.. => format!("{:.1} GiB", mib / 1024.0),
        10.0.. => format!("{mib:.0} MiB"),
        _ => format!("{mib:.1} MiB"),
    }
}
