//! Lists of hosts as Slurm and pdsh write them: `c[01-16,20],login1`.
//!
//! | notation | meaning |
//! |---|---|
//! | `a,b` or `a b` | several hosts |
//! | `c[1-3,7]` | `c1`, `c2`, `c3`, `c7` |
//! | `c[08-11]` | `c08`, `c09`, `c10`, `c11`: the first end of a range has the width |
//! | `r[1-2]n[1-4]` | all combinations, the last bracket fastest |
//! | `-c[07-08]` | not these, wherever in the list this stands, as in pdsh |

use std::collections::BTreeSet;

use lustrine_yaml::clipped;

/// Longest name of a host, as in the DNS.
const NAME_MAX: usize = 253;

/// Digits of the largest number in a range.
const DIGITS_MAX: usize = 9;

/// Why a text is not a list of hosts.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostListError {
    /// There is no host in it.
    #[error("no hosts; an example is c[01-16],login1")]
    Empty,
    /// It has more names than the caller wants.
    #[error("with {word:?} the list has more than {most} names")]
    TooMany {
        /// The part of the list with which it is too much.
        word: String,
        /// The limit.
        most: usize,
    },
    /// Brackets that do not match, or stand in each other.
    #[error("{0:?}: the brackets do not match; an example is c[01-16]")]
    Brackets(String),
    /// The inside of a bracket.
    #[error("{word:?}: {range:?} is not a number or range; examples are 7 and 01-16")]
    Range {
        /// The part of the list.
        word: String,
        /// The part in the brackets.
        range: String,
    },
    /// A character that names of hosts do not have.
    #[error(
        "{0:?} is not the name of a host: names have letters, digits, '.', '_' and '-', and begin \
         with a letter or digit"
    )]
    Name(String),
    /// More characters than names of hosts have.
    #[error("{0:?} makes a name of more than {NAME_MAX} characters")]
    Long(String),
}

/// The hosts of a list, each once, in its order.
///
/// The work and the memory are bounded by the text's length and by `most`, whatever ranges the
/// text has.
///
/// # Errors
/// When the text is not a list of hosts, has none, or has more than `most` names; repeated names
/// and those that are not wanted count too.
pub fn host_list(text: &str, most: usize) -> Result<Vec<String>, HostListError> {
    let (mut hosts, mut excluded) = (Vec::new(), BTreeSet::new());
    let (mut seen, mut names) = (BTreeSet::new(), 0);
    for word in words(text)? {
        let found = expand(word.strip_prefix('-').unwrap_or(word), most)?;
        names += found.len();
        if names > most {
            return Err(HostListError::TooMany { word: clipped(word), most });
        }
        match word.starts_with('-') {
            true => excluded.extend(found),
            false => hosts.extend(found.into_iter().filter(|host| seen.insert(host.clone()))),
        }
    }
    hosts.retain(|host| !excluded.contains(host));
    if hosts.is_empty() { Err(HostListError::Empty) } else { Ok(hosts) }
}

/// The parts between commas and blanks outside of brackets.
fn words(text: &str) -> Result<Vec<&str>, HostListError> {
    let (mut words, mut begin, mut inside) = (Vec::new(), 0, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'[' if !inside => inside = true,
            b']' if inside => inside = false,
            b'[' | b']' => return Err(HostListError::Brackets(clipped(&text[begin..]))),
            b',' | b' ' | b'\t' | b'\n' | b'\r' if !inside => {
                words.push(&text[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    if inside {
        return Err(HostListError::Brackets(clipped(&text[begin..])));
    }
    words.push(&text[begin..]);
    words.retain(|word| !word.is_empty());
    Ok(words)
}

/// Part of a word: text, or the ranges of a bracket.
enum Part<'t> {
    Text(&'t str),
    Ranges(Vec<Range>),
}

/// Numbers with at least this many digits.
#[derive(Clone, Copy)]
struct Range {
    first: u64,
    last: u64,
    width: usize,
}

/// The hosts of one word, whose brackets match.
fn expand(word: &str, most: usize) -> Result<Vec<String>, HostListError> {
    let parts = parts(word)?;
    let count = parts.iter().fold(1_u64, |count, part| match part {
        Part::Text(_) => count,
        Part::Ranges(ranges) => {
            let sizes = ranges.iter().map(|range| range.last - range.first + 1);
            count.saturating_mul(sizes.sum())
        }
    });
    if count > most as u64 {
        return Err(HostListError::TooMany { word: clipped(word), most });
    }
    // A number has at least one digit.
    let shortest = parts.iter().map(|part| match part {
        Part::Text(text) => text.len(),
        Part::Ranges(_) => 1,
    });
    if shortest.sum::<usize>() > NAME_MAX {
        return Err(HostListError::Long(clipped(word)));
    }
    let mut hosts = vec![String::new()];
    for part in &parts {
        match part {
            Part::Text(text) => hosts.iter_mut().for_each(|host| host.push_str(text)),
            Part::Ranges(ranges) => {
                let numbers = ranges.iter().flat_map(|range| {
                    (range.first..=range.last).map(|n| format!("{n:0width$}", width = range.width))
                });
                let numbers: Vec<String> = numbers.collect();
                let with = |host: &String| -> Vec<String> {
                    numbers.iter().map(|number| format!("{host}{number}")).collect()
                };
                hosts = hosts.iter().flat_map(with).collect();
            }
        }
        if hosts.iter().any(|host| host.len() > NAME_MAX) {
            return Err(HostListError::Long(clipped(word)));
        }
    }
    match hosts.iter().find(|host| !is_host(host)) {
        Some(host) => Err(HostListError::Name(clipped(host))),
        None => Ok(hosts),
    }
}

fn parts(word: &str) -> Result<Vec<Part<'_>>, HostListError> {
    let (mut parts, mut rest) = (Vec::new(), word);
    while let Some((before, after)) = rest.split_once('[') {
        let Some((inside, behind)) = after.split_once(']') else {
            return Err(HostListError::Brackets(clipped(word)));
        };
        let wrong =
            |range: &str| HostListError::Range { word: clipped(word), range: clipped(range) };
        let ranges = inside.split(',').map(|text| range(text.trim()).ok_or_else(|| wrong(text)));
        parts.push(Part::Text(before));
        parts.push(Part::Ranges(ranges.collect::<Result<_, _>>()?));
        rest = behind;
    }
    parts.push(Part::Text(rest));
    Ok(parts)
}

fn range(text: &str) -> Option<Range> {
    let number = |text: &str| {
        let is_number = (1..=DIGITS_MAX).contains(&text.len());
        let is_number = is_number && text.bytes().all(|byte| byte.is_ascii_digit());
        if is_number { text.parse::<u64>().ok() } else { None }
    };
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    // In "1-010" it would be unclear how many digits the numbers have.
    if last.len() > first.len() && last.starts_with('0') {
        return None;
    }
    let (width, first, last) = (first.len(), number(first)?, number(last)?);
    (first <= last).then_some(Range { first, last, width })
}

fn is_host(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    name.starts_with(|c: char| c.is_ascii_alphanumeric()) && name.chars().all(plain)
}

#[cfg(test)]
mod tests;
