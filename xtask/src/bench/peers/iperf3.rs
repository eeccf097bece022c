//! iperf3: bytes over plain TCP.

use anyhow::{Context, Result};
use serde::Deserialize;

use super::{Direction, Placement, client};
use crate::bench::ports;
use crate::process::ChildGuard;

pub(super) fn mib_per_s(direction: Direction, placement: Placement, seconds: u32) -> Result<f64> {
    let port = ports::free()?.to_string();
    let server = ["-s", "-1", "-B", "127.0.0.1", "-p", &port];
    let _server = ChildGuard::silent(placement.server("iperf3").args(server))?;
    ports::wait_for_listener(port.parse()?)?;
    let mut command = placement.client("iperf3");
    command.args(["-c", "127.0.0.1", "-p", &port, "-P", "1", "-J", "-t", &seconds.to_string()]);
    if direction == Direction::Read {
        command.arg("-R");
    }
    parse(&client(&mut command, seconds, "iperf3")?)
}

#[derive(Deserialize)]
struct Run {
    end: End,
}

#[derive(Deserialize)]
struct End {
    sum_received: Sum,
}

#[derive(Deserialize)]
struct Sum {
    bits_per_second: f64,
}

fn parse(json: &str) -> Result<f64> {
    let run: Run = serde_json::from_str(json).context("iperf3 printed no result")?;
    Ok(run.end.sum_received.bits_per_second / 8.0 / f64::from(1 << 20))
}

#[test]
fn the_receiver_counts() {
    let json = r#"{"start": {}, "intervals": [], "end": {
        "sum_sent": {"bits_per_second": 1.0},
        "sum_received": {"start": 0, "bytes": 2381578240, "bits_per_second": 8388608.0}}}"#;
    assert_eq!(parse(json).expect("a result"), 1.0);
    assert!(parse(r#"{"error": "unable to connect"}"#).is_err());
}
