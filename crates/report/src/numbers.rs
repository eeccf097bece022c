//! Numbers as tables for people show them: three significant digits, and columns of constant width.

/// Three significant digits.
pub fn three_digits(value: f64) -> String {
    match value {
        ..9.995 => format!("{value:.2}"),
        ..99.95 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// Microseconds, in a suitable unit; five columns below 1000 s.
pub fn latency(us: f64) -> String {
    match us {
        ..999.5 => three_digits(us) + "u",
        ..999_500.0 => three_digits(us / 1e3) + "m",
        _ => three_digits(us / 1e6) + "s",
    }
}

/// Microseconds as they appear in text, such as `17.8 ms`.
pub fn latency_text(us: f64) -> String {
    match us {
        ..999.5 => three_digits(us) + " us",
        ..999_500.0 => three_digits(us / 1e3) + " ms",
        _ => three_digits(us / 1e6) + " s",
    }
}

/// MiB per second; five columns below 100 GiB/s.
pub fn rate(mib: f64) -> String {
    if (99.95..999.95).contains(&mib) { format!("{mib:.1}") } else { three_digits(mib) }
}

/// Operations per second; six columns below 1,000,000,000.
pub fn operations(per_s: f64) -> String {
    if per_s < 999_999.5 { three_digits(per_s) } else { format!("{:.0}k", per_s / 1e3) }
}

/// A number of errors; three columns below 100,000.
pub fn count(errors: u64) -> String {
    if errors < 1000 { errors.to_string() } else { format!("{}k", errors / 1000) }
}

/// Bytes per operation as in selftest's tables: `4k`, `1M`; a dash for none.
pub fn size(bytes: u32) -> String {
    match bytes {
        0 => "-".to_owned(),
        size if size.is_multiple_of(1 << 20) => format!("{}M", size >> 20),
        size if size.is_multiple_of(1 << 10) => format!("{}k", size >> 10),
        size => size.to_string(),
    }
}

/// A whole number with its digits in groups of three.
pub fn grouped_count(count: u64) -> String {
    if count < 1000 { count.to_string() } else { grouped(count as f64) }
}

/// A number of at least 1000 without decimals, its digits in groups of three; a smaller one with
/// three significant digits.
pub fn grouped(value: f64) -> String {
    if value < 999.5 {
        return three_digits(value);
    }
    let digits = format!("{value:.0}");
    let mut out = String::with_capacity(digits.len() * 4 / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A number of things with their noun, whose plural ends in `s`.
pub fn counted(count: u64, noun: &str) -> String {
    let end = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{end}")
}

/// A part of a whole in percent; four columns up to 999 %.
pub fn percent(part: f64) -> String {
    let value = part * 100.0;
    if value < 9.95 && value > 0.0 { format!("{value:.1}%") } else { format!("{value:.0}%") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_fit_their_columns() {
        assert_eq!([0.5, 14.26, 999.6, 2e6].map(latency), ["0.50u", "14.3u", "1.00m", "2.00s"]);
        assert_eq!(latency_text(17_842.0), "17.8 ms");
        assert_eq!([0.004, 99.96, 999.96, 5777.8].map(rate), ["0.00", "100.0", "1000", "5778"]);
        assert_eq!([12.0, 999_999.6].map(operations), ["12.0", "1000k"]);
        assert_eq!([0, 8, 4096, 1 << 20].map(size), ["-", "8", "4k", "1M"]);
        assert_eq!([0.0, 0.001, 0.0996, 1.03].map(percent), ["0%", "0.1%", "10%", "103%"]);
        assert_eq!([999, 12_345].map(count), ["999", "12k"]);
        let things = [0, 1, 2, 1000].map(|count| counted(count, "node"));
        assert_eq!(things, ["0 nodes", "1 node", "2 nodes", "1000 nodes"]);
        let texts = [0.5, 999.4, 999.6, 12_345.6, 1e6].map(grouped);
        assert_eq!(texts, ["0.50", "999", "1,000", "12,346", "1,000,000"]);
        assert_eq!(
            [0, 7, 999, 1000, 1_234_567].map(grouped_count).join(" "),
            "0 7 999 1,000 1,234,567"
        );
    }
}
