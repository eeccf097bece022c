//! Pairs of nodes as a picture: clients down, servers across.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use lustrine_report::numbers::rate;
use lustrine_report::{Page, escaped};
use lustrine_wire::nid::Nid;

use crate::table::Combination;

/// Largest number of nodes on one side.
const SIDE_MAX: usize = 64;

/// Sizes in units of the picture.
const CELL: f64 = 22.0;
const LEFT: f64 = 220.0;
const TOP: f64 = 52.0;

/// With up to this number of servers, cells have room for their values.
const FIGURES_MAX: usize = 12;
const WIDE: f64 = 56.0;

/// Slowest pairs in the table below it.
const SLOWEST: usize = 10;

/// Shows the pairs of a combination, and the slowest of them.
pub(super) fn show(page: &mut Page, combination: &Combination<'_>) {
    let pairs = pairs(combination);
    if pairs.is_empty() {
        return;
    }
    let bulk = combination.points.iter().flat_map(|point| &point.rows).any(|row| row.size > 0);
    let unit = if bulk { "MiB/s" } else { "operations/s" };
    let title = match combination.labels.is_empty() {
        true => format!("Pairs: clients down, servers across, {unit}"),
        false => format!("Pairs, {}: clients down, servers across, {unit}", combination.title()),
    };
    page.figure(&picture(&pairs, &title));
    let mut slowest: Vec<_> = pairs.iter().collect();
    slowest.sort_by(|one, two| one.1.total_cmp(two.1));
    let rows: Vec<Vec<String>> = slowest
        .iter()
        .take(SLOWEST)
        .map(|((from, to), value)| vec![from.to_string(), to.to_string(), rate(**value)])
        .collect();
    page.table(&["<slowest: client", "<server", unit], &rows);
    let across: BTreeSet<Nid> = pairs.keys().map(|pair| pair.1).collect();
    let names = across.iter().take(SIDE_MAX).enumerate();
    let names: Vec<String> = names.map(|(at, nid)| format!("{} {nid}", at + 1)).collect();
    page.paragraph(&format!("Servers by number: {}.", names.join(", ")));
}

/// The result of each pair; of several repetitions, the mean.
pub(super) fn pairs(combination: &Combination<'_>) -> BTreeMap<(Nid, Nid), f64> {
    let mut sums: BTreeMap<(Nid, Nid), (f64, u32)> = BTreeMap::new();
    for point in &combination.points {
        for row in &point.rows {
            for client in &row.by_client {
                let Some(server) = client.server else { continue };
                let value = match row.size {
                    0 => client.counted.ops_per_s,
                    _ => client.counted.mib_per_s,
                };
                let sum = sums.entry((client.nid, server)).or_default();
                (sum.0, sum.1) = (sum.0 + value, sum.1 + 1);
            }
        }
    }
    sums.into_iter().map(|(pair, (sum, count))| (pair, sum / f64::from(count))).collect()
}

fn picture(pairs: &BTreeMap<(Nid, Nid), f64>, title: &str) -> String {
    let side = |pick: fn(&(Nid, Nid)) -> Nid| {
        let all: BTreeSet<Nid> = pairs.keys().map(pick).collect();
        all.into_iter().take(SIDE_MAX).collect::<Vec<Nid>>()
    };
    let (down, across) = (side(|pair| pair.0), side(|pair| pair.1));
    let most = pairs.values().copied().fold(f64::MIN_POSITIVE, f64::max);
    let roomy = across.len() <= FIGURES_MAX;
    let cell = if roomy { WIDE } else { CELL };
    let (width, height) =
        (LEFT + cell * across.len() as f64 + 20.0, TOP + CELL * down.len() as f64 + 12.0);
    let title = escaped(title);
    let mut out = format!(
        "<svg viewBox=\"0 0 {:.0} {height:.0}\" role=\"img\" aria-label=\"{title}\">\n\
         <text class=\"title\" x=\"0\" y=\"18\">{title}</text>\n",
        width.max(940.0)
    );
    // Servers have numbers at the top; the same node as a client has the number beside it.
    for x in 0..across.len() {
        let _ = writeln!(
            out,
            "<text class=\"dim\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            LEFT + cell * (x as f64 + 0.5) - 1.0,
            TOP - 6.0,
            x + 1
        );
    }
    for (y, from) in down.iter().enumerate() {
        let top = TOP + CELL * y as f64;
        let _ = writeln!(
            out,
            "<text class=\"dim\" x=\"{:.0}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            LEFT - 8.0,
            top + CELL / 2.0 + 4.5,
            match across.iter().position(|to| to == from) {
                Some(number) => escaped(&format!("{from}  {}", number + 1)),
                None => escaped(&from.to_string()),
            }
        );
        for (x, to) in across.iter().enumerate() {
            let Some(value) = pairs.get(&(*from, *to)) else { continue };
            let _ = writeln!(
                out,
                "<rect x=\"{:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{:.1}\" rx=\"3\" \
                 fill=\"var(--c0)\" fill-opacity=\"{:.3}\"><title>{} -&gt; {}: {}</title></rect>",
                LEFT + cell * x as f64,
                cell - 2.0,
                CELL - 2.0,
                0.06 + 0.54 * (value / most),
                escaped(&from.to_string()),
                escaped(&to.to_string()),
                rate(*value)
            );
            if roomy {
                let _ = writeln!(
                    out,
                    "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                    LEFT + cell * (x as f64 + 0.5) - 1.0,
                    top + CELL / 2.0 + 3.5,
                    rate(*value)
                );
            }
        }
    }
    out + "</svg>\n"
}
