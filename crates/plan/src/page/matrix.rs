//! Pairs of nodes as a picture: clients down, servers across.

use std::collections::BTreeSet;

use lustrine_report::numbers::{grouped, percent};
use lustrine_report::{Matrix, Page};
use lustrine_wire::nid::Nid;

use crate::combination::Combination;
use crate::pairs::{Pairs, SLOW_WORDS};
use crate::results::named;

/// Largest number of nodes on one side.
const SIDE_MAX: usize = 64;

/// Slowest pairs in the table below it.
const SLOWEST: usize = 10;

/// Shows the pairs of a combination, the slowest of them, and what is slow.
pub(super) fn show(page: &mut Page, combination: &Combination<'_>) {
    for pairs in Pairs::all_of(combination) {
        show_pairs(page, combination, &pairs);
    }
    let rows = combination.points.iter().flat_map(|point| &point.rows);
    let lost: BTreeSet<Nid> = rows.flat_map(|row| &row.lost).copied().collect();
    if !lost.is_empty() {
        let lost: Vec<Nid> = lost.into_iter().collect();
        page.hints(&[format!("without some pairs of {}, which did not answer", named(&lost))]);
    }
}

fn show_pairs(page: &mut Page, combination: &Combination<'_>, pairs: &Pairs) {
    let Some(median) = pairs.median() else { return };
    let unit = pairs.metric().name();
    let title = match combination.labels.is_empty() {
        true => format!("{}, each pair", pairs.name()),
        false => format!("{}, each pair, {}", pairs.name(), combination.title()),
    };
    let (down, across) = (pairs.side(|pair| pair.0), pairs.side(|pair| pair.1));
    page.figure(&matrix(pairs, &title, unit));
    for (side, nids) in [("clients", down), ("servers", across)] {
        if nids.len() > SIDE_MAX {
            let (all, out) = (nids.len(), nids.len() - SIDE_MAX);
            page.paragraph(&format!(
                "The picture has the first {SIDE_MAX} of {all} {side}; {out} are left out of it. \
                 The sentences and the table are about all pairs."
            ));
        }
    }
    page.paragraph(&pairs.sentence());
    let mut slowest: Vec<_> = pairs.values.iter().collect();
    slowest.sort_by(|one, two| one.1.total_cmp(two.1));
    let part = |value: f64| match median > 0.0 {
        true => percent(value / median),
        false => "-".to_owned(),
    };
    let row = |((from, to), value): &(&(Nid, Nid), &f64)| {
        vec![from.to_string(), to.to_string(), grouped(**value), part(**value)]
    };
    let rows: Vec<Vec<String>> = slowest.iter().take(SLOWEST).map(row).collect();
    page.table(&["<slowest: client", "<server", unit, "of the median"], &rows);
}

fn matrix(pairs: &Pairs, title: &str, unit: &str) -> Matrix {
    let side = |pick| pairs.side(pick).into_iter().take(SIDE_MAX).collect::<Vec<Nid>>();
    let (down, across) = (side(|pair| pair.0), side(|pair| pair.1));
    let place = |nids: &[Nid], nid: &Nid| nids.iter().position(|other| other == nid);
    let marked: BTreeSet<(usize, usize)> = pairs
        .slow()
        .filter_map(|(from, to)| Some((place(&down, from)?, place(&across, to)?)))
        .collect();
    let value = |from: &Nid, to: &Nid| pairs.values.get(&(*from, *to)).copied();
    let values = down.iter().map(|from| across.iter().map(|to| value(from, to)).collect());
    let values = values.collect();
    let names = |nids: &[Nid]| nids.iter().map(Nid::to_string).collect();
    Matrix {
        title: title.to_owned(),
        unit: unit.to_owned(),
        sides: ("clients".to_owned(), "servers".to_owned()),
        down: names(&down),
        across: names(&across),
        values,
        marked,
        meaning: SLOW_WORDS.to_owned(),
    }
}
