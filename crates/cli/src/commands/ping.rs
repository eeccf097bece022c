//! `lustrine ping`: is that node there, and who is it?

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use lustrine_reactor::{Answer, Request};
use lustrine_wire::nid::Nid;

use crate::common::{ControlOptions, NodeOptions, ask, fail, print_json};

/// Ping a NID: through the running node, or stand-alone.
#[derive(Args, Debug)]
pub(crate) struct PingArgs {
    /// The peer, such as 10.0.0.1@tcp
    nid: Nid,

    /// How long to wait for each answer, in seconds
    #[arg(long, default_value_t = 10.0, value_parser = crate::commands::ping::seconds)]
    timeout: f64,

    /// How many pings
    #[arg(long, short = 'c', default_value_t = 1)]
    count: u32,

    /// TCP port of the peer, when stand-alone
    #[arg(long)]
    port: Option<u16>,

    /// Print JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    node: NodeOptions,

    #[command(flatten)]
    control: ControlOptions,
}

/// A positive number of seconds.
pub(crate) fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value > 0.0 && value <= 86_400.0 => Ok(value),
        _ => Err("a number of seconds above 0 and up to 86400, such as 2.5".to_owned()),
    }
}

/// Milliseconds of a time-out given in seconds, at least 1.
pub(crate) fn millis(seconds: f64) -> u64 {
    (Duration::from_secs_f64(seconds).as_millis() as u64).max(1)
}

/// Runs the command.
pub(crate) fn run(args: &PingArgs) -> ExitCode {
    let request = Request::Ping { nid: args.nid.to_string(), timeout_ms: millis(args.timeout) };
    let mut failed = 0;
    for _ in 0..args.count.max(1) {
        match ask(&args.node, &args.control, Some(&args.nid), args.port, &request) {
            Ok(answer) if args.json => {
                print_json(&answer);
            }
            Ok(answer) => print(&answer),
            Err(error) => {
                failed += 1;
                fail(&error);
            }
        }
    }
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn print(answer: &Answer) {
    let Answer::Ping { primary_nid, multi_rail, features, sequence, peer_ni, rtt_us } = answer
    else {
        return;
    };
    println!(
        "{primary_nid}  {:.3} ms  features {features:#04x}  sequence {sequence}{}",
        rtt_us / 1e3,
        if *multi_rail { "  multi-rail" } else { "" }
    );
    for (nid, up) in peer_ni {
        println!("    {nid}  {}", if *up { "up" } else { "down" });
    }
}
