//! The difference between two texts, line by line, in the format of `diff -u`.

#[cfg(test)]
mod tests;

/// Unchanged lines around a difference.
const AROUND: usize = 3;

/// Limit of comparisons for the best match; beyond it, everything between the common ends counts as
/// changed.
const EFFORT_MAX: usize = 4_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line<'a> {
    Same(&'a str),
    Gone(&'a str),
    New(&'a str),
}

/// The difference, as whole lines; empty if there is none.
pub(crate) fn unified(before: &str, after: &str, names: (&str, &str)) -> String {
    let old: Vec<&str> = before.lines().collect();
    let new: Vec<&str> = after.lines().collect();
    let lines = aligned(&old, &new);
    if lines.iter().all(|line| matches!(line, Line::Same(_))) {
        return String::new();
    }
    let mut text = format!("--- {}\n+++ {}\n", names.0, names.1);
    for part in parts(&lines) {
        let counted = |is: fn(&Line<'_>) -> bool, lines: &[Line<'_>]| {
            lines.iter().filter(|line| is(line)).count()
        };
        let old = |line: &Line<'_>| !matches!(line, Line::New(_));
        let new = |line: &Line<'_>| !matches!(line, Line::Gone(_));
        let (hunk, head) = (&lines[part.clone()], &lines[..part.start]);
        text += &format!(
            "@@ -{},{} +{},{} @@\n",
            counted(old, head) + 1,
            counted(old, hunk),
            counted(new, head) + 1,
            counted(new, hunk)
        );
        for line in hunk {
            text += &match line {
                Line::Same(line) => format!(" {line}\n"),
                Line::Gone(line) => format!("-{line}\n"),
                Line::New(line) => format!("+{line}\n"),
            };
        }
    }
    text
}

/// Ranges of lines that are shown.
fn parts(lines: &[Line<'_>]) -> Vec<core::ops::Range<usize>> {
    let mut parts: Vec<core::ops::Range<usize>> = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        if matches!(line, Line::Same(_)) {
            continue;
        }
        let (from, to) = (at.saturating_sub(AROUND), (at + AROUND + 1).min(lines.len()));
        match parts.last_mut() {
            Some(last) if from <= last.end => last.end = to,
            _ => parts.push(from..to),
        }
    }
    parts
}

fn aligned<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<Line<'a>> {
    let begin = old.iter().zip(new).take_while(|(one, other)| one == other).count();
    let (old_rest, new_rest) = (&old[begin..], &new[begin..]);
    let end = old_rest.iter().rev().zip(new_rest.iter().rev());
    let end = end.take_while(|(one, other)| one == other).count();
    let (old_mid, new_mid) = (&old_rest[..old_rest.len() - end], &new_rest[..new_rest.len() - end]);
    let mut lines: Vec<Line<'a>> = old[..begin].iter().map(|line| Line::Same(line)).collect();
    lines.extend(middle(old_mid, new_mid));
    lines.extend(old[old.len() - end..].iter().map(|line| Line::Same(line)));
    lines
}

/// The longest common subsequence of lines stays, by the table of lengths.
fn middle<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<Line<'a>> {
    if old.len().saturating_mul(new.len()) > EFFORT_MAX {
        let gone = old.iter().map(|line| Line::Gone(line));
        return gone.chain(new.iter().map(|line| Line::New(line))).collect();
    }
    let width = new.len() + 1;
    let mut longest = vec![0_u32; (old.len() + 1) * width];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            longest[i * width + j] = match old[i] == new[j] {
                true => longest[(i + 1) * width + j + 1] + 1,
                false => longest[(i + 1) * width + j].max(longest[i * width + j + 1]),
            };
        }
    }
    let (mut i, mut j, mut lines) = (0, 0, Vec::new());
    while i < old.len() || j < new.len() {
        if i < old.len() && j < new.len() && old[i] == new[j] {
            lines.push(Line::Same(old[i]));
            (i, j) = (i + 1, j + 1);
        } else if j == new.len()
            || i < old.len() && longest[(i + 1) * width + j] >= longest[i * width + j + 1]
        {
            lines.push(Line::Gone(old[i]));
            i += 1;
        } else {
            lines.push(Line::New(new[j]));
            j += 1;
        }
    }
    lines
}
