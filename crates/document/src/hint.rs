//! Hints for unknown words.

use lustrine_yaml::clipped;

use crate::problem::{Location, Problem};

/// The word most like `word`: up to a third of its letters may differ; case, `_` and `-` do not
/// count.
pub fn nearest<'w>(word: &str, known: impl IntoIterator<Item = &'w str>) -> Option<&'w str> {
    let plain = |word: &str| clipped(word).to_lowercase().replace(['_', '-'], " ");
    let wanted = plain(word);
    let tolerance = (wanted.chars().count() / 3).max(1);
    let scored =
        known.into_iter().map(|known| (strsim::damerau_levenshtein(&wanted, &plain(known)), known));
    scored.min_by_key(|(distance, _)| *distance).filter(|(d, _)| *d <= tolerance).map(|(_, k)| k)
}

/// A key that is not known in a part of a document, where messages list the known ones like this.
/// The hint is the most similar of `names`, or the example.
pub fn unknown_key<'w>(
    at: &Location,
    key: &str,
    (within, known): (&str, &str),
    names: impl IntoIterator<Item = &'w str>,
    example: &str,
) -> Problem {
    let hint = match nearest(key, names) {
        Some(nearest) => format!("did you mean {nearest:?}?"),
        None => format!("for example {example}"),
    };
    let key = clipped(key);
    Problem::new(at, format!("{key:?} is not known in {within}; allowed: {known}; {hint}"))
}
