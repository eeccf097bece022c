//! The text of `cpu_pattern`, parsed without reference to a machine.

use super::CptError;
use crate::number_list;

/// The content of a pattern.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Pattern {
    /// A layout without changes: `N`, or nothing.
    Layout(Base),
    /// A layout with some CPUs removed: `N C[list]`, `C[list]`, `N X[list]`, `X[list]`.
    Without { base: Base, exclude: Exclude, list: Vec<u32> },
    /// Partitions by number: `0[0-3] 1[4,5]`, `N 0[0,1] 1[2]`. At least one.
    Listed { unit: Unit, entries: Vec<(u32, Vec<u32>)> },
}

/// How the partitions are found that the pattern does not list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Base {
    /// The default for the number of CPUs.
    Default,
    /// One per NUMA node.
    Nodes,
}

/// What the numbers in the list of a listed partition mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    Cpu,
    Node,
}

/// What the numbers of an exclusion mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Exclude {
    /// Positions inside each partition.
    Position,
    /// The kernel's CPU numbers.
    Cpu,
}

pub(super) fn parse(text: &str) -> Result<Pattern, CptError> {
    let text = text.trim();
    let (base, unit, rest) = match text.strip_prefix('N') {
        Some(rest) => (Base::Nodes, Unit::Node, rest.trim_start()),
        None => (Base::Default, Unit::Cpu, text),
    };
    if rest.is_empty() {
        return Ok(Pattern::Layout(base));
    }
    for (letter, exclude) in [('C', Exclude::Position), ('X', Exclude::Cpu)] {
        if let Some(after) = rest.strip_prefix(letter) {
            let (list, after) = bracketed(after)?;
            return match after {
                "" => Ok(Pattern::Without { base, exclude, list }),
                _ => Err(syntax(after)),
            };
        }
    }
    let mut entries = Vec::new();
    let mut rest = rest;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let index = rest[..digits].parse().map_err(|_| syntax(rest))?;
        let (list, after) = bracketed(&rest[digits..])?;
        entries.push((index, list));
        rest = after;
    }
    Ok(Pattern::Listed { unit, entries })
}

/// A list in brackets at the start of `text`, and what follows it.
fn bracketed(text: &str) -> Result<(Vec<u32>, &str), CptError> {
    let inside = text.trim_start().strip_prefix('[').ok_or_else(|| syntax(text))?;
    let (list, after) = inside.split_once(']').ok_or_else(|| syntax(text))?;
    let numbers = number_list::parse(list).map_err(|_| CptError::BadList(list.to_owned()))?;
    Ok((numbers, after.trim_start()))
}

fn syntax(rest: &str) -> CptError {
    CptError::Syntax { rest: rest.to_owned() }
}
