//! Positions of the marks of an axis.

/// How values are laid out along an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Equal steps.
    Linear,
    /// Equal factors, marks at powers of ten; values of 0 and less are not shown.
    Log,
    /// The same, with marks at powers of two where these are few.
    Doubling,
}

/// Marks from `low` to `high`, about `wanted` of them, at round values.
pub fn ticks(scale: Scale, low: f64, high: f64, wanted: usize) -> Vec<f64> {
    match scale {
        Scale::Linear => linear(low, high, wanted),
        Scale::Log => log(low, high, wanted),
        Scale::Doubling => doubling(low, high, wanted),
    }
}

/// The nearest of 1, 2, 5 times a power of ten, by factors.
fn nice(value: f64) -> f64 {
    let power = 10f64.powf(value.log10().floor());
    let digit = value / power;
    let limits = [(2f64.sqrt(), 1.0), (10f64.sqrt(), 2.0), (50f64.sqrt(), 5.0)];
    let best = limits.into_iter().find(|(limit, _)| digit < *limit).map_or(10.0, |(_, best)| best);
    best * power
}

fn linear(low: f64, high: f64, wanted: usize) -> Vec<f64> {
    if high <= low || wanted == 0 || !(high - low).is_finite() {
        return vec![low];
    }
    let step = nice((high - low) / wanted as f64);
    let first = (low / step - 1e-9).ceil();
    let count = ((high / step + 1e-9).floor() - first) as usize + 1;
    (0..count.min(4 * wanted)).map(|index| (first + index as f64) * step).collect()
}

/// The digits times powers of the base, from `low` to `high`.
fn series(base: f64, digits: &[f64], low: f64, high: f64) -> Vec<f64> {
    // No power of 2 or more beyond these is a finite number above 0.
    let exponent = |exponent: f64| exponent.clamp(-1100.0, 1100.0) as i32;
    let (first, last) = (exponent(low.log(base).floor()), exponent(high.log(base).ceil()));
    let powers = (first..=last)
        .flat_map(|exponent| digits.iter().map(move |digit| digit * base.powi(exponent)));
    let powers = powers.filter(|v| v.is_finite() && *v > 0.0);
    powers.filter(|v| *v >= low * (1.0 - 1e-9) && *v <= high * (1.0 + 1e-9)).collect()
}

/// Powers of two where these are few.
fn doubling(low: f64, high: f64, wanted: usize) -> Vec<f64> {
    if high > low && low >= 1.0 && high <= 4096.0 {
        let twos = series(2.0, &[1.0], low, high);
        if (2..=wanted + 4).contains(&twos.len()) {
            return twos;
        }
    }
    log(low, high, wanted)
}

/// 1, 2, 5 or 1, 3 or 1 times powers of ten.
fn log(low: f64, high: f64, wanted: usize) -> Vec<f64> {
    if high <= low {
        return vec![low];
    }
    for digits in [&[1.0, 2.0, 5.0][..], &[1.0, 3.0], &[1.0]] {
        let found = series(10.0, digits, low, high);
        if found.len() <= wanted + 2 && found.len() >= 2 {
            return found;
        }
    }
    let decades = series(10.0, &[1.0], low, high);
    if decades.len() < 2 {
        // Too narrow for any power.
        return linear(low, high, wanted);
    }
    let every = decades.len().div_ceil(wanted.max(1)).max(1);
    decades.into_iter().step_by(every).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_have_round_values() {
        assert_eq!(ticks(Scale::Linear, 0.0, 1000.0, 5), [0.0, 200.0, 400.0, 600.0, 800.0, 1000.0]);
        assert_eq!(ticks(Scale::Linear, 0.0, 7.0, 4), [0.0, 2.0, 4.0, 6.0]);
        // Two marks and 0 are too few to read a value.
        assert_eq!(ticks(Scale::Linear, 0.0, 2860.0, 5).len(), 6);
        assert_eq!(ticks(Scale::Doubling, 1.0, 256.0, 6).len(), 9);
        assert_eq!(ticks(Scale::Log, 85.0, 2000.0, 5), [100.0, 200.0, 500.0, 1000.0, 2000.0]);
        assert_eq!(ticks(Scale::Log, 0.1, 1e4, 6), [0.1, 1.0, 10.0, 100.0, 1e3, 1e4]);
        assert_eq!(ticks(Scale::Linear, 3.0, 3.0, 5), [3.0]);
    }

    #[test]
    fn they_are_few_whatever_the_range() {
        let usual = [(0.0, 1e-9), (0.0, 1e18), (1e-6, 1e12), (5.0, 5.001), (0.99, 4097.0)];
        let extreme = [(1.0, f64::INFINITY), (0.0, f64::MAX), (5e-324, 1.0), (-f64::MAX, f64::MAX)];
        for (low, high) in usual.into_iter().chain(extreme) {
            for scale in [Scale::Linear, Scale::Log, Scale::Doubling] {
                let low = if scale != Scale::Linear && low <= 0.0 { 1e-9 } else { low };
                let marks = ticks(scale, low, high, 6);
                assert!((1..=24).contains(&marks.len()), "{scale:?} {low} {high}: {marks:?}");
            }
        }
    }
}
