//! YAML as a tree with places, of bounded size.
//!
//! [`load`] reads one document; its caller walks the tree, in which every value has its place, and
//! words its own errors. A tree can be changed before it is read, by
//! values that stand elsewhere: its type of place is its owner's.
//!
//! The parser is `granit-parser`: it reports events with places, holds limits of its own on
//! nesting, forbids `unsafe` and is fuzzed by its makers. The serde-based readers were passed
//! over because a place is lost as soon as a value is turned into a type, and every message here
//! must name one. This crate adds what a parser leaves to its caller: duplicate keys, aliases
//! that cannot explode, one document per file.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

use granit_parser::{ErrorKind, Event, Marker, Options, Parser, ScalarStyle, ScanError};

/// What a text may have at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Length of the text, in bytes.
    pub bytes: usize,
    /// Lists and mappings around a value.
    pub depth: usize,
    /// Values, with every alias written out.
    pub values: usize,
}

/// A place in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Position {
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
}

impl Position {
    /// Where a text begins; stands for the text as a whole.
    pub const START: Position = Position { line: 1, column: 1 };
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// Why a text is no tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum YamlError {
    /// More bytes than [`Limits::bytes`].
    TooLarge {
        /// Length of the text.
        bytes: usize,
    },
    /// Not YAML at all.
    NotYaml {
        /// The parser's words, [`clipped`].
        why: String,
    },
    /// Deeper than [`Limits::depth`].
    TooDeep,
    /// More values than [`Limits::values`].
    TooManyValues,
    /// A second document.
    SecondDocument,
    /// A list or mapping as key, or an alias.
    NonScalarKey,
    /// The same key twice in one mapping.
    DuplicateKey {
        /// The key, [`clipped`].
        key: String,
        /// Where it was given first.
        first: Position,
    },
}

/// Most characters of the text of a document that a message should repeat.
const CLIP_MAX: usize = 64;

/// The beginning of a text from a document, short enough for a message.
pub fn clipped(text: &str) -> String {
    match text.char_indices().nth(CLIP_MAX) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

/// A value and its place. Aliases share theirs with the anchor, whose place it is.
#[derive(Clone, Debug)]
pub struct Node<P = Position> {
    /// Where it stands.
    pub at: P,
    /// The content of the value.
    pub content: Content<P>,
    /// Values below and including this one, with every alias written out.
    size: usize,
    /// Lists and mappings from here to the deepest value.
    height: usize,
}

/// What a value is. Tags are not kept: what a value means is decided by its key.
#[derive(Clone, Debug)]
pub enum Content<P = Position> {
    /// Nothing, `~` or `null`.
    Null,
    /// A word or number, as it is written.
    Scalar(String),
    /// A list (YAML: sequence).
    List(Vec<Rc<Node<P>>>),
    /// Keys with values.
    Mapping(Vec<Pair<P>>),
}

/// A key and its value. Keys are unique within their mapping.
#[derive(Clone, Debug)]
pub struct Pair<P = Position> {
    /// The key.
    pub key: String,
    /// Where the key stands.
    pub at: P,
    /// The value.
    pub value: Rc<Node<P>>,
}

/// The kind of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Nothing stands there.
    Null,
    /// A word or number.
    Scalar,
    /// A list (YAML: sequence).
    List,
    /// Keys with values.
    Mapping,
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Shape::Null => "nothing",
            Shape::Scalar => "a word or number",
            Shape::List => "a list, each item behind a dash",
            Shape::Mapping => "keys with values",
        })
    }
}

impl<P> Node<P> {
    /// The kind of the value.
    pub fn shape(&self) -> Shape {
        match self.content {
            Content::Null => Shape::Null,
            Content::Scalar(_) => Shape::Scalar,
            Content::List(_) => Shape::List,
            Content::Mapping(_) => Shape::Mapping,
        }
    }

    /// A value with nothing below it.
    pub fn leaf(at: P, content: Content<P>) -> Node<P> {
        Node { at, content, size: 1, height: 0 }
    }

    /// The value of a key, if this is a mapping that has it.
    pub fn value(&self, key: &str) -> Option<&Rc<Node<P>>> {
        let Content::Mapping(pairs) = &self.content else { return None };
        pairs.iter().find(|pair| pair.key == key).map(|pair| &pair.value)
    }
}

impl<P: Clone> Node<P> {
    /// The value of a key to change.
    pub fn value_mut(&mut self, key: &str) -> Option<&mut Node<P>> {
        let Content::Mapping(pairs) = &mut self.content else { return None };
        pairs.iter_mut().find(|pair| pair.key == key).map(|pair| Rc::make_mut(&mut pair.value))
    }

    /// Gives a key a value, whether it had one or not. Nothing becomes a mapping; a word or a list
    /// stays what it is, for its reader to complain of.
    pub fn set(&mut self, key: &str, value: Node<P>) {
        if let Content::Null = self.content {
            self.content = Content::Mapping(Vec::new());
        }
        let Content::Mapping(pairs) = &mut self.content else { return };
        let at = value.at.clone();
        let value = Rc::new(value);
        match pairs.iter_mut().find(|pair| pair.key == key) {
            Some(pair) => pair.value = value,
            None => pairs.push(Pair { key: key.to_owned(), at, value }),
        }
    }
}

/// An error and its position in the document.
pub type Failure = (Position, YamlError);

/// Reads one document; an empty text is [`Content::Null`].
///
/// # Errors
/// When it is not YAML, too much of it, or says something twice.
pub fn load<P: Clone + From<Position>>(
    text: &str,
    limits: &Limits,
) -> Result<Rc<Node<P>>, Failure> {
    if text.len() > limits.bytes {
        return Err((Position::START, YamlError::TooLarge { bytes: text.len() }));
    }
    let mut builder = Builder::new(limits);
    for next in Parser::new_from_str_with_options(text, options(limits)) {
        let (event, span) = next.map_err(|error| refusal(&error))?;
        builder.event(event, position(&span.start))?;
    }
    let empty = || Rc::new(Node::leaf(Position::START.into(), Content::Null));
    Ok(builder.root.unwrap_or_else(empty))
}

fn options(limits: &Limits) -> Options {
    granit_parser::options! {
        emit_comments: false,
        // One more than ours, so that it is our message that people see.
        flow_nesting_limit: limits.depth + 1,
        block_nesting_limit: limits.depth + 1,
    }
}

fn refusal(error: &ScanError) -> Failure {
    let fault = match error.kind() {
        ErrorKind::RecursionLimitExceeded => YamlError::TooDeep,
        _ => YamlError::NotYaml { why: clipped(&error.info()) },
    };
    (position(error.marker()), fault)
}

/// The parser counts lines from 1 and columns from 0.
fn position(marker: &Marker) -> Position {
    Position { line: marker.line().max(1), column: marker.col() + 1 }
}

/// Turns events into a tree.
struct Builder<'a, P> {
    limits: &'a Limits,
    open: Vec<Open<P>>,
    root: Option<Rc<Node<P>>>,
    /// Finished values that have an anchor, by the parser's number for it.
    anchors: BTreeMap<usize, Rc<Node<P>>>,
    /// Values so far, with every alias written out.
    size: usize,
    documents: usize,
}

/// A list or mapping whose end has not come.
struct Open<P> {
    at: Position,
    anchor: usize,
    inside: Collection<P>,
    size: usize,
    height: usize,
}

enum Collection<P> {
    List(Vec<Rc<Node<P>>>),
    Mapping {
        pairs: Vec<Pair<P>>,
        seen: BTreeMap<String, Position>,
        key: Option<(String, Position)>,
    },
}

impl<'a, P: Clone + From<Position>> Builder<'a, P> {
    fn new(limits: &'a Limits) -> Builder<'a, P> {
        let (open, anchors) = (Vec::new(), BTreeMap::new());
        Builder { limits, open, root: None, anchors, size: 0, documents: 0 }
    }

    fn event(&mut self, event: Event<'_>, at: Position) -> Result<(), Failure> {
        match event {
            Event::DocumentStart(..) => {
                self.documents += 1;
                if self.documents > 1 {
                    return Err((at, YamlError::SecondDocument));
                }
                Ok(())
            }
            Event::Scalar(text, style, anchor, _) => self.scalar(at, &text, style, anchor),
            Event::SequenceStart(_, anchor, _) => {
                self.begin(at, anchor, Collection::List(Vec::new()))
            }
            Event::MappingStart(_, anchor, _) => {
                let inside =
                    Collection::Mapping { pairs: Vec::new(), seen: BTreeMap::new(), key: None };
                self.begin(at, anchor, inside)
            }
            Event::SequenceEnd | Event::MappingEnd => self.end(),
            Event::Alias(anchor) => self.alias(at, anchor),
            _ => Ok(()),
        }
    }

    fn scalar(
        &mut self,
        at: Position,
        text: &str,
        style: ScalarStyle,
        anchor: usize,
    ) -> Result<(), Failure> {
        if let Some(Open { inside: Collection::Mapping { seen, key: key @ None, .. }, .. }) =
            self.open.last_mut()
        {
            if let Some(first) = seen.insert(text.to_owned(), at) {
                return Err((at, YamlError::DuplicateKey { key: clipped(text), first }));
            }
            *key = Some((text.to_owned(), at));
            return Ok(());
        }
        let nothing = style == ScalarStyle::Plain && matches!(text, "" | "~" | "null");
        let content = if nothing { Content::Null } else { Content::Scalar(text.to_owned()) };
        self.place(at, anchor, Rc::new(Node::leaf(at.into(), content)))
    }

    fn begin(&mut self, at: Position, anchor: usize, inside: Collection<P>) -> Result<(), Failure> {
        self.refuse_as_key(at)?;
        if self.open.len() >= self.limits.depth {
            return Err((at, YamlError::TooDeep));
        }
        self.open.push(Open { at, anchor, inside, size: 1, height: 0 });
        Ok(())
    }

    fn end(&mut self) -> Result<(), Failure> {
        let Some(open) = self.open.pop() else { return Ok(()) };
        let content = match open.inside {
            Collection::List(items) => Content::List(items),
            Collection::Mapping { pairs, .. } => Content::Mapping(pairs),
        };
        let node = Node { at: open.at.into(), content, size: open.size, height: open.height + 1 };
        self.place(open.at, open.anchor, Rc::new(node))
    }

    fn alias(&mut self, at: Position, anchor: usize) -> Result<(), Failure> {
        self.refuse_as_key(at)?;
        let Some(node) = self.anchors.get(&anchor).cloned() else {
            let why = "an alias inside the value it stands for".to_owned();
            return Err((at, YamlError::NotYaml { why }));
        };
        // What is shared costs no memory, yet every reader of the tree meets it again.
        self.size = self.size.saturating_add(node.size - 1);
        if self.open.len() + node.height > self.limits.depth {
            return Err((at, YamlError::TooDeep));
        }
        self.place(at, 0, node)
    }

    fn refuse_as_key(&self, at: Position) -> Result<(), Failure> {
        match self.open.last() {
            Some(Open { inside: Collection::Mapping { key: None, .. }, .. }) => {
                Err((at, YamlError::NonScalarKey))
            }
            _ => Ok(()),
        }
    }

    /// Puts a finished value where it belongs.
    fn place(&mut self, at: Position, anchor: usize, node: Rc<Node<P>>) -> Result<(), Failure> {
        self.size += 1;
        if self.size > self.limits.values {
            return Err((at, YamlError::TooManyValues));
        }
        if anchor != 0 {
            self.anchors.insert(anchor, Rc::clone(&node));
        }
        let Some(open) = self.open.last_mut() else {
            self.root = Some(node);
            return Ok(());
        };
        open.size += node.size;
        open.height = open.height.max(node.height);
        match &mut open.inside {
            Collection::List(items) => items.push(node),
            Collection::Mapping { pairs, key, .. } => {
                // A value follows its key: `scalar` took one before anything could come here.
                let Some((key, at)) = key.take() else { return Err((at, YamlError::NonScalarKey)) };
                pairs.push(Pair { key, at: at.into(), value: node });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
