//! Source as a flat list of tokens: the body of a macro before expansion.

use proc_macro2::{Spacing, TokenStream, TokenTree};

/// A token that checks look at. Literals are left out: their text is data, not code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    /// An identifier or keyword.
    Word(String),
    /// `::`.
    PathSep,
    /// Any other punctuation, or the edge of a group.
    Other(char),
}

/// A token and its line.
#[derive(Clone, Debug)]
pub(crate) struct Placed {
    pub(crate) token: Token,
    pub(crate) line: usize,
}

impl Placed {
    pub(crate) fn is_word(&self, word: &str) -> bool {
        matches!(&self.token, Token::Word(own) if own == word)
    }
}

/// All tokens, with groups flattened.
pub(crate) fn flat(stream: TokenStream) -> Vec<Placed> {
    let mut out = Vec::new();
    push_all(stream, &mut out);
    out
}

/// The tokens of a file.
///
/// # Panics
/// When the text is not Rust.
pub(crate) fn of_file(text: &str) -> Vec<Placed> {
    // A byte order mark or a `#!` line does not occur in this repository.
    flat(text.parse().expect("the file is Rust"))
}

fn push_all(stream: TokenStream, out: &mut Vec<Placed>) {
    let mut trees = stream.into_iter().peekable();
    while let Some(tree) = trees.next() {
        let line = tree.span().start().line;
        match tree {
            TokenTree::Ident(word) => {
                let word = word.to_string();
                let word = word.strip_prefix("r#").map(str::to_owned).unwrap_or(word);
                out.push(Placed { token: Token::Word(word), line });
            }
            TokenTree::Punct(punct) => {
                let first_colon = punct.as_char() == ':' && punct.spacing() == Spacing::Joint;
                let second =
                    matches!(trees.peek(), Some(TokenTree::Punct(p)) if p.as_char() == ':');
                if first_colon && second {
                    trees.next();
                    out.push(Placed { token: Token::PathSep, line });
                } else {
                    out.push(Placed { token: Token::Other(punct.as_char()), line });
                }
            }
            TokenTree::Group(group) => {
                let end = group.span_close().end().line;
                out.push(Placed { token: Token::Other('('), line });
                push_all(group.stream(), out);
                out.push(Placed { token: Token::Other(')'), line: end });
            }
            TokenTree::Literal(_) => {}
        }
    }
}

/// Runs of `a::b::c` with the line of their first word; a lone word is a run of one.
pub(crate) fn paths(tokens: &[Placed]) -> Vec<(Vec<String>, usize)> {
    let mut out: Vec<(Vec<String>, usize)> = Vec::new();
    let (mut joined, mut after_word) = (false, false);
    for placed in tokens {
        match &placed.token {
            Token::Word(word) if joined => {
                if let Some((path, _)) = out.last_mut() {
                    path.push(word.clone());
                }
                joined = false;
            }
            Token::Word(word) => out.push((vec![word.clone()], placed.line)),
            Token::PathSep => joined = after_word,
            Token::Other(_) => joined = false,
        }
        after_word = matches!(placed.token, Token::Word(_));
    }
    out
}

#[test]
fn paths_are_joined_and_literals_ignored() {
    let tokens = of_file("fn f() { a::b::c(x, \"std::fs\"); :: d; r#async }");
    let joined: Vec<String> = paths(&tokens).iter().map(|(path, _)| path.join("::")).collect();
    assert_eq!(joined, ["fn", "f", "a::b::c", "x", "d", "async"]);
}
