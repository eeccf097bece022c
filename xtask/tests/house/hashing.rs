//! Hash maps whose order changes from run to run: those with the standard library's hasher.

use crate::tokens::{Placed, Token};

pub(crate) const DEFAULT_HASHER: &str =
    "a hash map with the default hasher: name foldhash::fast::FixedState as the last parameter";

/// Collections with a hasher, and how many type parameters they have with it.
const COLLECTIONS: [(&str, usize); 2] = [("HashMap", 3), ("HashSet", 2)];

/// Constructors that exist for the default hasher only.
const DEFAULT_ONLY: [&str; 3] = ["new", "with_capacity", "from"];

pub(crate) fn is_hash_collection(name: &str) -> bool {
    COLLECTIONS.iter().any(|(collection, _)| *collection == name)
}

/// Whether a path calls a constructor of the default hasher, or names a crate's own alias for it.
pub(crate) fn seeded_at_random(path: &[String]) -> Option<String> {
    let constructs = path
        .windows(2)
        .any(|pair| is_hash_collection(&pair[0]) && DEFAULT_ONLY.contains(&pair[1].as_str()));
    let alias =
        path.len() == 2 && matches!(path[0].as_str(), "foldhash") && is_hash_collection(&path[1]);
    (constructs || alias).then(|| format!("{}: seeded at random", path.join("::")))
}

/// Whether a path names a collection's types but not its hasher.
pub(crate) fn has_default_hasher(path: &syn::Path) -> bool {
    path.segments.iter().any(|segment| {
        let Some((_, want)) = COLLECTIONS.iter().find(|(name, _)| segment.ident == name) else {
            return false;
        };
        match &segment.arguments {
            syn::PathArguments::AngleBracketed(list) => list.args.len() < *want,
            _ => false,
        }
    })
}

/// Lines in which a macro's body does the same.
pub(crate) fn short_argument_lists(tokens: &[Placed]) -> Vec<usize> {
    let mut lines = Vec::new();
    for (at, placed) in tokens.iter().enumerate() {
        let Token::Word(word) = &placed.token else { continue };
        let Some((_, want)) = COLLECTIONS.iter().find(|(name, _)| name == word) else { continue };
        if argument_count(&tokens[at + 1..]).is_some_and(|count| count < *want) {
            lines.push(placed.line);
        }
    }
    lines
}

/// Number of arguments in the angle brackets at the start; `None` when there are none.
fn argument_count(tokens: &[Placed]) -> Option<usize> {
    let mut tokens = tokens.iter().map(|placed| &placed.token).peekable();
    tokens.next_if(|token| **token == Token::PathSep);
    tokens.next_if(|token| **token == Token::Other('<'))?;
    let (mut depth, mut count) = (1, 1);
    for token in tokens {
        match token {
            Token::Other('<' | '(') => depth += 1,
            Token::Other('>' | ')') => depth -= 1,
            Token::Other(',') if depth == 1 => count += 1,
            _ => {}
        }
        if depth == 0 {
            return Some(count);
        }
    }
    None
}
