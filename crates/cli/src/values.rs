//! Values on the command line that several commands take, and the errors about invalid ones. clap
//! adds the name of the argument, and the exit status is 2.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use lustrine_partition::tunables::Tunables;
use lustrine_tools::nids;
use lustrine_wire::nid::Nid;

use crate::hosts::resolve;
use crate::output::Failure;

/// TCP ports at which a node can listen.
pub(crate) const PORTS: RangeInclusive<u64> = 1..=65_535;

/// The NID of a peer, or its host name, which is looked up.
pub(crate) fn nid(text: &str) -> Result<Nid, String> {
    let example = "a NID is an address or a host name and a network, such as 10.0.0.1@tcp";
    let found = nids::expand(text, resolve).map_err(|why| format!("{why}; {example}"))?;
    match found[..] {
        [nid] => Ok(nid),
        _ => Err(format!("this stands for {} nodes; name one; {example}", found.len())),
    }
}

/// A whole number in a range.
pub(crate) fn whole<T: TryFrom<u64>>(
    range: RangeInclusive<u64>,
) -> impl Fn(&str) -> Result<T, String> + Clone {
    move |text| {
        let value = text.parse().ok().filter(|value| range.contains(value));
        value.and_then(|value| T::try_from(value).ok()).ok_or_else(|| {
            format!("expected a whole number from {} to {}", range.start(), range.end())
        })
    }
}

/// A positive number of seconds, or a time with its unit.
pub(crate) fn seconds(text: &str) -> Result<f64, String> {
    let with_unit = || duration(text).ok().map(|time| time.as_secs_f64());
    match text.parse::<f64>().ok().or_else(with_unit) {
        Some(value) if value > 0.0 && value <= 86_400.0 => Ok(value),
        _ => Err("expected a number of seconds above 0 and at most 86400, such as 2.5, or a time \
                  with its unit, such as 500ms or 2m"
            .to_owned()),
    }
}

/// A length of time with its unit, such as 500ms, 10s, 5m, 1h or 90d.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || "expected a time with its unit, such as 500ms, 10s, 5m, 1h or 90d".to_owned();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit_ms = match &text[digits.len()..] {
        "ms" => 1,
        "s" => 1000,
        "m" | "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(wrong()),
    };
    let count: u64 = digits.parse().map_err(|_| wrong())?;
    let ms = count.checked_mul(unit_ms).filter(|ms| (1..=DURATION_MAX_MS).contains(ms));
    ms.map(Duration::from_millis).ok_or_else(wrong)
}

/// The longest time of [`duration`]: 10,000 days.
const DURATION_MAX_MS: u64 = 10_000 * 86_400_000;

/// Refuses a list of `--to` with one node twice.
///
/// # Errors
/// When it has.
pub(crate) fn distinct(nids: &[Nid]) -> Result<(), Failure> {
    match (1..nids.len()).any(|at| nids[..at].contains(&nids[at])) {
        true => Err(Failure::Usage("--to names a node twice".to_owned())),
        false => Ok(()),
    }
}

/// A time-out in seconds as milliseconds, at least 1.
pub(crate) fn millis(seconds: f64) -> u64 {
    (Duration::from_secs_f64(seconds).as_millis() as u64).max(1)
}

/// A number with a suffix.
fn scaled(text: &str, base: u64, what: &str) -> Result<u64, String> {
    let wrong = || format!("not {what}");
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let power = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" => 0,
        "k" => 1,
        "m" => 2,
        "g" => 3,
        "t" => 4,
        _ => return Err(wrong()),
    };
    let count: u64 = digits.parse().map_err(|_| wrong())?;
    let value = count.checked_mul(base.pow(power)).ok_or_else(wrong)?;
    (value > 0).then_some(value).ok_or_else(wrong)
}

/// Bytes, such as 4G, in binary units.
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    scaled(text, 1 << 10, "a number of bytes; examples are 512M and 4G (2^20 and 2^30)")
}

/// Bits per second, such as 10G, in decimal units. The unit is there: 10 bits per second are the
/// rate of no path.
pub(crate) fn rate(text: &str) -> Result<u64, String> {
    let wrong = || "not a rate in bits per second; examples are 100M, 2.5G and 10 Gb/s".to_owned();
    let text = text.trim();
    let plain = text.strip_suffix("b/s").or_else(|| text.strip_suffix("bit/s")).unwrap_or(text);
    let digits = plain.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let scale = match plain[digits.len()..].to_ascii_lowercase().as_str() {
        "" if digits.parse::<u64>().is_ok() => {
            return Err("the unit is missing: 10G is 10 Gb/s, and 100M is 100 Mb/s".to_owned());
        }
        "k" => 1e3,
        "m" => 1e6,
        "g" => 1e9,
        "t" => 1e12,
        _ => return Err(wrong()),
    };
    let digits = digits.trim_end();
    let is_decimal = digits.chars().all(|c| c.is_ascii_digit() || c == '.');
    let count: f64 = digits.parse().ok().filter(|_| is_decimal).ok_or_else(wrong)?;
    let value = (count * scale).round();
    // Below 2^53 every whole number is exact.
    (1.0..9e15).contains(&value).then_some(value as u64).ok_or_else(wrong)
}

/// A tunable and its value, `NAME=VALUE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    pub(crate) name: String,
    pub(crate) value: i64,
}

impl FromStr for Setting {
    type Err = String;

    fn from_str(text: &str) -> Result<Setting, String> {
        let example = "an example is --set peer_credits=32";
        let (name, value) = text.split_once('=').ok_or(format!("'=' is missing; {example}"))?;
        let (name, value) = (name.trim().to_owned(), value.trim());
        if let "selftest" | "tuning" | "accept" | "identity" = &*name {
            return Err(format!(
                "{name} is not a tunable: it is a key of the configuration, and the option \
                 --{name} of the commands that have it"
            ));
        }
        let value = value.parse().map_err(|_| format!("{value:?} is not a number; {example}"))?;
        Tunables::default().set(&name, value).map_err(|error| error.to_string())?;
        Ok(Setting { name, value })
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.name, self.value)
    }
}

/// A time in seconds since 1970 as text, in UTC.
pub(crate) fn utc(seconds: i64) -> String {
    jiff::Timestamp::from_second(seconds)
        .map_or_else(|_| seconds.to_string(), |time| time.strftime("%Y-%m-%d %H:%M:%S").to_string())
}

/// A time in milliseconds since 1970 as text for programs, in UTC (RFC 3339).
pub(crate) fn utc_millis(millis: u64) -> String {
    let time = i64::try_from(millis).ok().and_then(|at| jiff::Timestamp::from_millisecond(at).ok());
    time.map_or_else(
        || millis.to_string(),
        |time| time.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_three_digits_of_a_second() {
        assert_eq!(utc_millis(1_795_651_200_050), "2026-11-26T00:00:00.050Z");
        assert_eq!(utc_millis(u64::MAX), u64::MAX.to_string());
    }

    #[test]
    fn settings_are_checked_before_they_are_used() {
        let good: Setting = "peer_credits = 32".parse().unwrap();
        assert_eq!(good.to_string(), "peer_credits=32");
        for (text, words) in [
            ("peer_credits", "'=' is missing"),
            ("peer_credits=x", "is not a number"),
            ("peer_credits=0", "allowed: 1 to 65535"),
            ("perr_credits=1", "no tunable is called"),
        ] {
            let said = text.parse::<Setting>().unwrap_err();
            assert!(said.contains(words), "{said}");
        }
    }

    #[test]
    fn seconds_may_have_a_unit() {
        for (text, expected) in [("2.5", 2.5), ("5s", 5.0), ("500ms", 0.5), ("2m", 120.0)] {
            assert_eq!(seconds(text), Ok(expected));
        }
        for wrong in ["0", "-1", "0s", "2d", "5x", "", "nan", "inf"] {
            assert!(seconds(wrong).is_err_and(|said| said.contains("such as 2.5")), "{wrong}");
        }
    }

    #[test]
    fn bytes_are_binary_and_rates_decimal() {
        assert_eq!((bytes("4G"), rate("10g")), (Ok(4 << 30), Ok(10_000_000_000)));
        assert_eq!((bytes("7"), rate("100M")), (Ok(7), Ok(100_000_000)));
        assert_eq!((rate("2.5G"), rate("10 Gb/s")), (Ok(2_500_000_000), Ok(10_000_000_000)));
        assert_eq!((rate("100mbit/s"), rate(" 1T ")), (Ok(100_000_000), Ok(1_000_000_000_000)));
        for wrong in ["1e3G", "-1G", ".G", "G", "infG", "1GG", "1 G b", "0M", "99999999T", "1b/s"] {
            assert!(rate(wrong).is_err(), "{wrong}");
        }
        for wrong in ["", "G", "0", "-1", "4GB", "99999999999T"] {
            assert!(bytes(wrong).is_err() && rate(wrong).is_err(), "{wrong}");
        }
        assert!(bytes("1.5G").is_err() && bytes("4 G").is_err());
        for wrong in ["10", "10000000000"] {
            assert!(rate(wrong).is_err_and(|why| why.contains("10G is 10 Gb/s")), "{wrong}");
        }
    }

    #[test]
    fn times_have_units() {
        let seconds = |text: &str| duration(text).map(|time| time.as_millis());
        assert_eq!(seconds("500ms"), Ok(500));
        assert_eq!(["10s", "5m", "1h"].map(seconds), [Ok(10_000), Ok(300_000), Ok(3_600_000)]);
        assert_eq!(seconds("90d"), Ok(7_776_000_000));
        for wrong in ["", "10", "s", "0s", "-1s", "1.5h", "1w", "99999999999999999999d", "20000d"] {
            assert!(duration(wrong).is_err_and(|why| why.contains("90d")), "{wrong}");
        }
    }

    #[test]
    fn nids_have_an_address_and_a_net() {
        assert_eq!(nid("10.0.0.1@tcp1").unwrap().to_string(), "10.0.0.1@tcp1");
        // Host names are looked up, as in `lst` and `lnetctl`.
        assert_eq!(nid("localhost@tcp2").unwrap().to_string(), "127.0.0.1@tcp2");
        assert_eq!(nid("localhost").unwrap().to_string(), "127.0.0.1@tcp");
        for wrong in ["no.such.host.invalid@tcp", "10.0.0.1@tpc", "", "*", "10.0.0.[1-2]@tcp"] {
            let said = nid(wrong).unwrap_err();
            assert!(said.contains("such as 10.0.0.1@tcp"), "{wrong:?}: {said}");
        }
    }
}
