//! Notations.

use lustrine_wire::nid_range::NidRanges;
use lustrine_wire::text_range::TextRange;
use lustrine_wire::{Net, Nid, ProcessId};

/// Largest number of names of an expansion here.
const NAMES_MAX: u64 = 300;

pub(super) fn nids(text: &str) {
    if let Ok(net) = text.parse::<Net>() {
        assert_eq!(net.to_string().parse(), Ok(net));
    }
    if let Ok(nid) = text.parse::<Nid>() {
        assert_eq!(nid.to_string().parse(), Ok(nid));
        assert_eq!(Nid::parse_or_any(text), Ok(nid));
        assert_eq!(Nid::from_long(&nid.to_long()), Ok(nid));
        if let Some(short) = nid.to_short() {
            assert_eq!(Nid::from_short(short), nid);
        }
    }
    if let Ok(process) = text.parse::<ProcessId>() {
        assert_eq!(process.to_string().parse(), Ok(process));
    }
}

pub(super) fn nid_ranges(text: &str) {
    let Ok(ranges) = text.parse::<NidRanges>() else { return };
    let total = ranges
        .ranges()
        .iter()
        .map(|range| range.count())
        .try_fold(0u64, |sum, count| Some(sum.saturating_add(count?)));
    match (ranges.expand(NAMES_MAX), total) {
        (Ok(nids), Some(total)) => {
            let nids: Vec<Nid> = nids.collect();
            assert_eq!(nids.len() as u64, total);
            // A pattern on the wildcard's network gives the wildcard, which only `*` matches.
            let matched = |nid: &Nid| nid.is_any() || ranges.matches(nid);
            assert!(nids.iter().all(matched), "{text:?} gives {nids:?}");
        }
        (Ok(_), None) => panic!("{text:?}: a whole network was expanded"),
        (Err(_), total) => assert!(total.is_none_or(|total| total > NAMES_MAX), "{text:?}"),
    }
    let stranger = Nid::new4(Net::TCP, 0x0a00_0001);
    let any = ranges.ranges().iter().any(|range| range.matches(&stranger));
    assert_eq!(ranges.matches(&stranger), any);
}

pub(super) fn text_range(text: &str) {
    let Ok(range) = TextRange::parse(text) else { return };
    match range.expand(NAMES_MAX) {
        Ok(names) => assert_eq!(names.count() as u64, range.count()),
        Err(_) => assert!(range.count() > NAMES_MAX),
    }
}
