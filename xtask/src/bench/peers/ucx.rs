//! ucx_perftest: small messages of UCX, over TCP only.

use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::{Placement, client};
use crate::bench::ports;
use crate::process::ChildGuard;

const PROGRAM: &str = "ucx_perftest";

/// Messages of the first, short run, which shows how many fit the time.
const TRIAL: u64 = 50_000;

pub(super) fn message_rate(bytes: u32, placement: Placement, seconds: u32) -> Result<f64> {
    // It is given a number of messages, not a time.
    let rate = run(bytes, TRIAL, placement, seconds)?;
    let messages = (rate * f64::from(seconds)) as u64;
    run(bytes, messages.max(TRIAL), placement, seconds)
}

fn run(bytes: u32, messages: u64, placement: Placement, seconds: u32) -> Result<f64> {
    let port = ports::free()?.to_string();
    let _server = ChildGuard::silent(over_tcp(placement.server(PROGRAM)).args(["-p", &port]))?;
    ports::wait_for_listener(port.parse()?)?;
    let mut command = over_tcp(placement.client(PROGRAM));
    command.args(["127.0.0.1", "-p", &port, "-t", "tag_bw", "-f"]).args([
        "-s",
        &bytes.to_string(),
        "-n",
        &messages.to_string(),
    ]);
    parse(&client(&mut command, seconds, "ucx_perftest")?)
}

/// Without these it would take shared memory.
fn over_tcp(mut command: Command) -> Command {
    command.env("UCX_TLS", "tcp,self").env("UCX_NET_DEVICES", "lo");
    command
}

/// The last column of the last line of numbers: overall messages per second.
fn parse(text: &str) -> Result<f64> {
    let numbers = |line: &&str| line.split_whitespace().count() == 8 && !line.contains('|');
    let line = text.lines().rfind(numbers);
    let rate = line.and_then(|line| line.split_whitespace().last()?.parse().ok());
    let rate: f64 = rate.context("ucx_perftest printed no result")?;
    ensure!(rate > 0.0, "ucx_perftest measured nothing");
    Ok(rate)
}

#[test]
fn the_overall_rate_is_read() {
    let text = "|     Test     | # iterations | 50.0%ile | average | overall |  average |\n\
        +--------------+--------------+----------+---------+---------+----------+\n\
                       50000      1.252     2.771     2.771       22.03      22.03      \
             360860      360862\n";
    assert_eq!(parse(text).expect("a result"), 360_862.0);
    assert!(parse("connect() failed").is_err());
}
