//! Numbers for people.

/// A number of things, or things per second, in at most five characters.
pub(crate) fn count(value: f64) -> String {
    match value {
        value if value < 0.05 => "0".to_owned(),
        value if value < 9.95 => format!("{value:.1}"),
        value if value < 9_999.5 => format!("{value:.0}"),
        value if value < 999_500.0 => format!("{:.0}k", value / 1e3),
        value if value < 9_950_000.0 => format!("{:.1}M", value / 1e6),
        value if value < 999_500_000.0 => format!("{:.0}M", value / 1e6),
        value => format!("{:.1e}", value),
    }
}

/// Bytes with a binary unit.
pub(crate) fn bytes(value: f64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if value < 1024.0 {
        return format!("{value:.0} B");
    }
    let mut scaled = value / 1024.0;
    let mut unit = UNITS[0];
    for next in &UNITS[1..] {
        if scaled < 1024.0 {
            break;
        }
        scaled /= 1024.0;
        unit = next;
    }
    format!("{scaled:.1} {unit}")
}

/// A time in microseconds.
pub(crate) fn time(micros: f64) -> String {
    match micros {
        micros if micros < 9.95 => format!("{micros:.1}us"),
        micros if micros < 999.5 => format!("{micros:.0}us"),
        micros if micros < 9_950.0 => format!("{:.1}ms", micros / 1e3),
        micros if micros < 999_500.0 => format!("{:.0}ms", micros / 1e3),
        micros => format!("{:.1}s", micros / 1e6),
    }
}

/// What a function makes of a value, or that it is not known.
pub(crate) fn known<T>(value: Option<T>, shown: impl FnOnce(T) -> String) -> String {
    value.map_or_else(|| "-".to_owned(), shown)
}

/// Text of others without characters that are commands of a terminal.
pub(crate) fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let counts = [(0.0, "0"), (1.25, "1.2"), (9.96, "10"), (1234.0, "1234"), (45_678.0, "46k")];
        counts.iter().for_each(|(value, text)| assert_eq!(count(*value), *text));
        assert_eq!(
            (count(3.2e6), count(45e6), count(2e12)),
            ("3.2M".into(), "45M".into(), "2.0e12".into())
        );
        let sizes = [(3.0, "3 B"), (1536.0, "1.5 KiB"), (3.0 * 1024f64.powi(3), "3.0 GiB")];
        sizes.iter().for_each(|(value, text)| assert_eq!(bytes(*value), *text));
        let times =
            [(1.5, "1.5us"), (123.0, "123us"), (4_500.0, "4.5ms"), (5e4, "50ms"), (2e6, "2.0s")];
        times.iter().for_each(|(value, text)| assert_eq!(time(*value), *text));
        assert_eq!(plain("a\x1b[2Jb"), "a?[2Jb");
    }
}
