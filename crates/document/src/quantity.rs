//! Figures with their units, read exactly: no floating point decides what is simulated.

use std::fmt;

/// A kind of quantity.
#[derive(Clone, Copy, Debug)]
pub struct Quantity {
    /// How messages call what is allowed.
    pub allowed: &'static str,
    /// One that is right.
    pub example: &'static str,
    /// Units, each with how many of the smallest it is.
    units: &'static [(&'static str, u64)],
}

/// Bits per second.
pub const BANDWIDTH: Quantity = Quantity {
    allowed: "a number with kb/s, Mb/s, Gb/s, Tb/s, or in bytes MB/s, GB/s",
    example: "10 Gb/s",
    units: &[
        ("kb/s", 1_000),
        ("Mb/s", 1_000_000),
        ("Gb/s", 1_000_000_000),
        ("Tb/s", 1_000_000_000_000),
        ("MB/s", 8_000_000),
        ("GB/s", 8_000_000_000),
    ],
};

/// A time; its values are nanoseconds.
pub const DURATION: Quantity = Quantity {
    allowed: "a number with ns, us, ms, s, min or h",
    example: "25.25 ms",
    units: &[
        ("ns", 1),
        ("us", 1_000),
        ("ms", 1_000_000),
        ("s", 1_000_000_000),
        ("min", 60_000_000_000),
        ("h", 3_600_000_000_000),
    ],
};

/// A size; its values are bytes.
pub const BYTES: Quantity = Quantity {
    allowed: "a number with B, KiB, MiB, GiB, or decimal kB, MB, GB",
    example: "64 MiB",
    units: &[
        ("B", 1),
        ("KiB", 1 << 10),
        ("MiB", 1 << 20),
        ("GiB", 1 << 30),
        ("kB", 1_000),
        ("MB", 1_000_000),
        ("GB", 1_000_000_000),
    ],
};

/// Parts of 1,000,000,000.
pub const FRACTION: Quantity = Quantity {
    allowed: "a number with %, down to 0.0000001 %",
    example: "0.1 %",
    units: &[("%", 10_000_000)],
};

/// Why a text is not a quantity of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuantityError {
    /// A number alone.
    MissingUnit,
    /// A unit of something else, or none at all.
    UnknownUnit,
    /// Not even a number.
    NotANumber,
    /// Finer than the smallest unit.
    TooPrecise,
    /// Larger than anything.
    TooLarge,
}

impl QuantityError {
    /// In words, to stand in brackets.
    pub fn why(self) -> &'static str {
        match self {
            QuantityError::MissingUnit => "the unit is missing",
            QuantityError::UnknownUnit => "the unit is unknown",
            QuantityError::NotANumber => "it is not a number",
            QuantityError::TooPrecise => "it is finer than the smallest unit",
            QuantityError::TooLarge => "it is too large",
        }
    }
}

impl Quantity {
    /// Reads a quantity in its smallest unit.
    pub fn read(&self, text: &str) -> Result<u64, QuantityError> {
        let text = text.trim();
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, unit) = (&text[..end], text[end..].trim());
        let decimal = Decimal::read(number).ok_or(QuantityError::NotANumber)?;
        if unit.is_empty() {
            // Nothing is nothing in any unit, and yet: who leaves it out once does it again.
            return Err(QuantityError::MissingUnit);
        }
        let known = self.units.iter().find(|(name, _)| *name == unit);
        let (_, scale) = known.ok_or(QuantityError::UnknownUnit)?;
        decimal.times(*scale)
    }

    /// Writes a quantity with the largest unit that keeps it whole.
    pub fn write(&self, value: u64) -> String {
        let whole = |(_, scale): &&(&str, u64)| value != 0 && value.is_multiple_of(*scale);
        let best = self.units.iter().filter(whole).max_by_key(|(_, scale)| *scale);
        match best {
            Some((unit, scale)) => format!("{} {unit}", value / scale),
            None => {
                let (unit, scale) = self.units[0];
                format!("{} {unit}", value as f64 / scale as f64)
            }
        }
    }
}

/// Digits with a point somewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Decimal {
    /// In units of 10^-9.
    billionths: u128,
}

/// Most values of one range.
const RANGE_MAX: usize = 1_000;

const BILLION: u128 = 1_000_000_000;

/// More digits than any quantity here needs; products of such numbers fit `u128`.
const DIGITS_MAX: usize = 18;

impl Decimal {
    /// Reads digits, perhaps with a point and up to nine more.
    pub fn read(text: &str) -> Option<Decimal> {
        let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        if !digits(whole) || !digits(part) || whole.len() > DIGITS_MAX || part.len() > 9 {
            return None;
        }
        let part: u128 = format!("{part:0<9}").parse().ok()?;
        Some(Decimal { billionths: whole.parse::<u128>().ok()? * BILLION + part })
    }

    fn times(self, scale: u64) -> Result<u64, QuantityError> {
        let product = self.billionths * u128::from(scale);
        if !product.is_multiple_of(BILLION) {
            return Err(QuantityError::TooPrecise);
        }
        u64::try_from(product / BILLION).map_err(|_| QuantityError::TooLarge)
    }

    /// The sum; `None` if that is out of range.
    pub fn checked_add(self, other: Decimal) -> Option<Decimal> {
        let sum = self.billionths + other.billionths;
        (sum < 10u128.pow(27)).then_some(Decimal { billionths: sum })
    }

    /// The product; `None` if that is out of range, or not exact.
    pub fn checked_mul(self, other: Decimal) -> Option<Decimal> {
        let product = self.billionths.checked_mul(other.billionths)?;
        let whole = product % BILLION == 0 && product / BILLION < 10u128.pow(27);
        whole.then_some(Decimal { billionths: product / BILLION })
    }

    /// Whether it is above the other one, which is what makes a factor of a range end.
    pub fn is_above(self, whole: u32) -> bool {
        self.billionths > u128::from(whole) * BILLION
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, part) = (self.billionths / BILLION, self.billionths % BILLION);
        match part {
            0 => write!(f, "{whole}"),
            part => write!(f, "{whole}.{}", format!("{part:09}").trim_end_matches('0')),
        }
    }
}

/// The values of `a..b`, `a..b+step` or `a..b*factor`, each perhaps with a unit behind it, as text.
///
/// # Errors
/// When it is none of that, or has more than 1,000 values; for people.
pub fn range(text: &str) -> Result<Vec<String>, String> {
    let why = || format!("{text:?} is not a range");
    let is_unit = |c: char| !(c.is_ascii_digit() || matches!(c, '.' | '+' | '*'));
    let end = text.find(is_unit).unwrap_or(text.len());
    let (numbers, unit) = (&text[..end], text[end..].trim());
    let (first, rest) = numbers.split_once("..").ok_or_else(why)?;
    let (last, step, factor) = if let Some((last, step)) = rest.split_once('+') {
        (last, Some(step), None)
    } else if let Some((last, factor)) = rest.split_once('*') {
        (last, None, Some(factor))
    } else {
        (rest, Some("1"), None)
    };
    let number = |text: &str| Decimal::read(text).ok_or_else(why);
    let (mut value, last) = (number(first)?, number(last)?);
    let step = step.map(number).transpose()?;
    let factor = factor.map(number).transpose()?;
    if value > last {
        return Err(format!("{text:?} ends before it begins"));
    }
    if step.is_some_and(|step| !step.is_above(0))
        || factor.is_some_and(|factor| !factor.is_above(1) || !value.is_above(0))
    {
        return Err(format!("{text:?} never ends"));
    }
    let mut values = Vec::new();
    while value <= last {
        if values.len() == RANGE_MAX {
            return Err(format!("{text:?} has more than {RANGE_MAX} values"));
        }
        values.push(if unit.is_empty() { value.to_string() } else { format!("{value} {unit}") });
        let next = match (step, factor) {
            (Some(step), _) => value.checked_add(step),
            (_, Some(factor)) => value.checked_mul(factor),
            _ => None,
        };
        let Some(next) = next else { break };
        value = next;
    }
    Ok(values)
}

/// Reads a length of time, such as `25.25 ms`, in nanoseconds.
///
/// # Errors
/// What is wrong with it, and what is allowed.
pub fn parse_duration(text: &str) -> Result<u64, String> {
    let Quantity { allowed, example, .. } = DURATION;
    DURATION
        .read(text)
        .map_err(|no| format!("{}; allowed: {allowed}, such as \"{example}\"", no.why()))
}

/// Nanoseconds for people, such as `25.25 ms`.
pub fn format_duration(nanos: u64) -> String {
    let (unit, scale) = match nanos {
        0 => return "0 s".to_owned(),
        1..1_000 => ("ns", 1.0),
        1_000..1_000_000 => ("us", 1e3),
        1_000_000..1_000_000_000 => ("ms", 1e6),
        _ => ("s", 1e9),
    };
    let text = format!("{:.3}", nanos as f64 / scale);
    format!("{} {unit}", text.trim_end_matches('0').trim_end_matches('.'))
}

/// A number of bytes for people, such as `64 MiB`.
pub fn format_bytes(bytes: u64) -> String {
    let (unit, shift) = match bytes {
        0..0x400 => return format!("{bytes} B"),
        0x400..0x10_0000 => ("KiB", 10),
        0x10_0000..0x4000_0000 => ("MiB", 20),
        0x4000_0000..0x100_0000_0000 => ("GiB", 30),
        _ => ("TiB", 40),
    };
    let text = format!("{:.1}", bytes as f64 / (1u64 << shift) as f64);
    format!("{} {unit}", text.trim_end_matches(".0"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_exact() {
        assert_eq!(DURATION.read("25.25 ms"), Ok(25_250_000));
        assert_eq!(DURATION.read("2us"), Ok(2000));
        assert_eq!(BANDWIDTH.read("0.1 Gb/s"), Ok(100_000_000));
        assert_eq!(BANDWIDTH.read("1.25 GB/s"), Ok(10_000_000_000));
        assert_eq!(BYTES.read("1 MiB"), Ok(1 << 20));
        assert_eq!(FRACTION.read("0.0000001 %"), Ok(1));
        assert_eq!(FRACTION.read("100 %"), Ok(1_000_000_000));
        for (kind, text, why) in [
            (BANDWIDTH, "10", QuantityError::MissingUnit),
            (BANDWIDTH, "10 Gbit", QuantityError::UnknownUnit),
            (BYTES, "x MiB", QuantityError::NotANumber),
            (BYTES, "1..2 MiB", QuantityError::NotANumber),
            (BYTES, "0.3 B", QuantityError::TooPrecise),
            (BYTES, "99999999999999999 GiB", QuantityError::TooLarge),
            (BYTES, "9999999999999999999 B", QuantityError::NotANumber),
        ] {
            assert_eq!(kind.read(text), Err(why), "{text}");
        }
    }

    #[test]
    fn figures_are_written_as_people_write_them() {
        assert_eq!(BYTES.write(1 << 20), "1 MiB");
        assert_eq!(FRACTION.write(1_000_000_000), "100 %");
        assert_eq!(format_duration(25_250_000), "25.25 ms");
        assert_eq!(
            (format_duration(0), format_duration(90_000_000_000)),
            ("0 s".into(), "90 s".into())
        );
        assert_eq!(
            (format_bytes(1023), format_bytes(3 << 19)),
            ("1023 B".into(), "1.5 MiB".into())
        );
    }
}
