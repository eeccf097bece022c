//! sockperf: latency of plain TCP.

use anyhow::{Context, Result};

use super::{Percentile, Placement, Waiting, client};
use crate::bench::ports;
use crate::process::ChildGuard;

/// `--nonblocked` makes both ends poll.
pub(super) fn round_trip_us(
    bytes: u32,
    placement: Placement,
    waiting: Waiting,
    percentile: Percentile,
    seconds: u32,
) -> Result<f64> {
    let how: &[&str] = match waiting {
        Waiting::Polling => &["--nonblocked"],
        Waiting::Sleeping => &[],
    };
    let port = ports::free()?.to_string();
    let server = ["server", "--tcp", "-i", "127.0.0.1", "-p", &port];
    let _server = ChildGuard::silent(placement.server("sockperf").args(server).args(how))?;
    ports::wait_for_listener(port.parse()?)?;
    let mut command = placement.client("sockperf");
    // By itself it reports half a round trip.
    command.args(["ping-pong", "--tcp", "--full-rtt", "-i", "127.0.0.1", "-p", &port]).args([
        "-m",
        &bytes.to_string(),
        "-t",
        &seconds.to_string(),
    ]);
    command.args(how);
    parse(&client(&mut command, seconds, "sockperf")?, percentile)
}

/// There may be colours in the lines.
fn parse(text: &str, percentile: Percentile) -> Result<f64> {
    let name = match percentile {
        Percentile::Median => "percentile 50.000",
        Percentile::P99 => "percentile 99.000",
    };
    let line = text.lines().find(|line| line.contains(name));
    let value = line.and_then(|line| line.rsplit('=').next());
    let value = value.map(|value| value.trim().trim_end_matches("\u{1b}[0m"));
    value.and_then(|value| value.parse().ok()).context("sockperf printed no latency")
}

#[test]
fn the_percentiles_are_read() {
    let text = "sockperf: ---> percentile 99.000 =    8.382\n\
        sockperf: ---> percentile 50.000 =    6.850\n";
    assert_eq!(parse(text, Percentile::Median).expect("a result"), 6.85);
    assert_eq!(parse(text, Percentile::P99).expect("a result"), 8.382);
    assert!(parse("sockperf: ERROR: no server", Percentile::P99).is_err());
}
