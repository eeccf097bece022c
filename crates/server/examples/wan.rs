//! How many RPCs of a file fill a long path, in virtual time: `wan [OPTION VALUE]...`.
//!
//! For each number of RPCs in flight it writes a file with RPCs of 1 MiB, and reads it, over a
//! path of the given rate, and prints what the file's data reach of it.

#[path = "../tests/long_path/mod.rs"]
mod long_path;

use std::process::ExitCode;

use long_path::{Access, Load, Measured, Path, SIZE, Setup, World};
use lustrine_lnet::time::Nanos;
use lustrine_sim::fabric::Rate;
use lustrine_sim::tcp::Algorithm;

const USAGE: &str = "wan [OPTION VALUE]...
  --rate RATE           of the path, in Gb/s (10)
  --round-trip TIME     of the path, in ms (50.5)
  --rpcs LIST           RPCs in flight to a target, 1 to 512 (8,16,32,64,128,256,512)
  --targets N           object targets of the server, 1 to 16; the file is striped over them (1)
  --warm-up TIME        seconds before the measurement (1)
  --rounds N            so many times the RPCs in flight are measured (10)
  --congestion NAME     fixed, cubic, bic or bbr (fixed: TCP has no slow start)";

struct Options {
    path: Path,
    rpcs: Vec<u16>,
    targets: u16,
    warm_up: Nanos,
    rounds: u64,
}

impl Options {
    /// Reads the options; `None` if one of them is none.
    fn parse(words: &[String]) -> Option<Options> {
        let path = Path {
            rate: Rate::from_bits(10_000_000_000)?,
            round_trip: Nanos::from_micros(50_500),
            algorithm: Algorithm::Fixed,
        };
        let rpcs = vec![8, 16, 32, 64, 128, 256, 512];
        let warm_up = Nanos::from_secs(1);
        let mut options = Options { path, rpcs, targets: 1, warm_up, rounds: 10 };
        for pair in words.chunks(2) {
            let [name, value] = pair else { return None };
            match name.as_str() {
                "--rate" => options.path.rate = Rate::from_bits(scaled(value, 1e9)?)?,
                "--round-trip" => options.path.round_trip = Nanos(scaled(value, 1e6)?),
                "--rpcs" => {
                    let number = |text: &str| text.parse().ok().filter(|n| (1..=512).contains(n));
                    options.rpcs = value.split(',').map(number).collect::<Option<_>>()?;
                }
                "--targets" => {
                    options.targets = value.parse().ok().filter(|n| (1..=16).contains(n))?;
                }
                "--warm-up" => options.warm_up = Nanos(scaled(value, 1e9)?),
                "--rounds" => options.rounds = value.parse().ok().filter(|rounds| *rounds > 0)?,
                "--congestion" => {
                    options.path.algorithm = match value.as_str() {
                        "fixed" => Algorithm::Fixed,
                        "cubic" => Algorithm::Cubic,
                        "bic" => Algorithm::Bic,
                        "bbr" => Algorithm::Bbr,
                        _ => return None,
                    }
                }
                _ => return None,
            }
        }
        Some(options)
    }
}

/// A positive number with a fraction, in a smaller unit.
fn scaled(text: &str, unit: f64) -> Option<u64> {
    let number: f64 = text.parse().ok()?;
    (number.is_finite() && number > 0.0).then(|| (number * unit).round() as u64)
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let Some(options) = Options::parse(&words) else {
        eprintln!("usage: {USAGE}");
        return ExitCode::from(2);
    };
    let Options { path, rpcs, targets, warm_up, rounds } = options;
    let product = path.product();
    println!(
        "{}, {} ms there and back: the product is {:.1} MiB, 2 x product / 1 MiB = {:.0} RPCs",
        path.rate,
        path.round_trip.as_secs_f64() * 1e3,
        product as f64 / SIZE as f64,
        (2 * product) as f64 / SIZE as f64,
    );
    println!(
        "{:>5}  {:>10} {:>10}  {:>11} {:>7} {:>9} {:>8} {:>8}   {:>10} {:>7} {:>9} {:>8} {:>8}",
        "RPCs",
        "n/RTT",
        "n/(2 RTT)",
        "write, Gb/s",
        "share",
        "link busy",
        "credits",
        "lost",
        "read, Gb/s",
        "share",
        "link busy",
        "credits",
        "lost"
    );
    for max_rpcs_in_flight in rpcs {
        let mut world = World::new(path, Setup { max_rpcs_in_flight, targets });
        let in_flight = max_rpcs_in_flight * targets;
        let load = Load { in_flight, warm_up, rounds };
        let [written, read] = [Access::Write, Access::Read].map(|access| world.run(access, load));
        let shown = |measured: Measured, width: usize| {
            format!(
                "{:>width$.3} {:>5.1} % {:>7.1} % {:>8.1} {:>8}",
                measured.rate() / 1e9,
                measured.rate() / path.rate.bits() as f64 * 100.0,
                measured.link_busy * 100.0,
                measured.waiting,
                measured.lost,
            )
        };
        println!(
            "{in_flight:>5}  {:>10.3} {:>10.3}  {}   {}",
            path.of_window(in_flight, 1) / 1e9,
            path.of_window(in_flight, 2) / 1e9,
            shown(written, 11),
            shown(read, 10),
        );
    }
    ExitCode::SUCCESS
}
