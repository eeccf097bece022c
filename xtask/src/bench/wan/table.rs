//! The comparison for people.

use std::fmt::Write as _;

use super::ends::Congestion;
use super::lab::Carried;
use super::values::Kind;
use super::{LinkSpec, Row, Wan};

pub(super) fn render(wan: &Wan) -> String {
    let run = format!("{} rounds, {} links at a time", wan.rounds, wan.parallel);
    let mut out = wan.machine.heading(&wan.date, &run, &wan.versions);
    for congestion in &wan.not_run {
        let name = congestion.name();
        let _ = writeln!(out, "\nnot run: {name} over real sockets; the kernel has no tcp_{name}");
    }
    lateness(&mut out, wan);
    errors(&mut out, &wan.rows);
    let mut before = None;
    for row in &wan.rows {
        if before.replace((row.link, row.congestion)) != Some((row.link, row.congestion)) {
            let _ = writeln!(
                out,
                "\n{} Mb/s, round trip {} ms, queue {} products, {}\n\
                 {:32} {:>5} {:>30} {:>10} {:>8}",
                row.link.megabits,
                row.link.round_trip_ms,
                row.link.queue_products,
                row.congestion.name(),
                "",
                "unit",
                "real (min..max)",
                "simulated",
                "error"
            );
        }
        let real = row.real.as_ref().map_or("-".to_owned(), |real| {
            format!("{} ({}..{})", number(real.median), number(real.min), number(real.max))
        });
        let error = row.error_percent.map_or("-".to_owned(), |error| format!("{error:+.1} %"));
        let Row { what, unit, simulated, .. } = row;
        let _ =
            writeln!(out, "{what:32} {unit:>5} {real:>30} {:>10} {error:>8}", number(*simulated));
    }
    out
}

/// How late the emulated links were themselves: the worst values of all rounds.
fn lateness(out: &mut String, wan: &Wan) {
    let mut specs: Vec<LinkSpec> = Vec::new();
    for (spec, _) in &wan.links {
        if !specs.contains(spec) {
            specs.push(*spec);
        }
    }
    let _ = writeln!(out, "\nthe emulated links handed packets over late by at most, in us:");
    for spec in specs {
        let worst = |value: fn(&Carried) -> u64| {
            let same = wan.links.iter().filter(|(other, _)| *other == spec);
            same.map(|(_, carried)| value(carried)).max().unwrap_or(0)
        };
        let _ = writeln!(
            out,
            "{:>4} Mb/s, {} ms, {} products: {} for half of them, {} for 99 %, {} at worst",
            spec.megabits,
            spec.round_trip_ms,
            spec.queue_products,
            worst(|one| one.late_us_p50),
            worst(|one| one.late_us_p99),
            worst(|one| one.late_us_max),
        );
    }
}

/// As many digits as are significant.
fn number(value: f64) -> String {
    let digits = match value {
        1000.0.. => 0,
        10.0.. => 1,
        _ => 3,
    };
    format!("{value:.digits$}")
}

/// By kind and algorithm: the errors of the simulator.
fn errors(out: &mut String, rows: &[Row]) {
    let _ = writeln!(
        out,
        "\n{:12} {:6} {:>7} {:>14} {:>8}  worst at",
        "values of", "", "values", "median |error|", "worst"
    );
    for kind in Kind::ALL {
        for congestion in Congestion::ALL {
            let of_kind = |row: &&Row| row.kind == kind && row.congestion == congestion;
            let mut errors: Vec<(f64, &Row)> = (rows.iter().filter(of_kind))
                .filter_map(|row| row.error_percent.map(|error| (error, row)))
                .collect();
            errors.sort_by(|one, two| one.0.abs().total_cmp(&two.0.abs()));
            let Some((worst, row)) = errors.last() else { continue };
            let link = row.link;
            let _ = writeln!(
                out,
                "{:12} {:6} {:>7} {:>12.1} % {:>+6.1} %  {} Mb/s, {} ms, {} products: {}",
                kind.name(),
                congestion.name(),
                errors.len(),
                errors[errors.len() / 2].0.abs(),
                worst,
                link.megabits,
                link.round_trip_ms,
                link.queue_products,
                row.what
            );
        }
    }
}
