//! YAML as a tree with places, of bounded size.
//!
//! The parser is `granit-parser`: it reports events with places, holds limits of its own on
//! nesting, forbids `unsafe` and is fuzzed by its makers. The serde-based readers were passed
//! over because a place is lost as soon as a value is turned into a type, and every message here
//! must name one. This module adds what a parser leaves to its caller: duplicate keys, aliases
//! that cannot explode, one document per file.

use std::collections::BTreeMap;
use std::rc::Rc;

use granit_parser::{ErrorKind, Event, Marker, Options, Parser, ScalarStyle, ScanError};

use super::problem::{Position, Problem, Shape, clipped};

/// Longest text in bytes: 1 MiB.
pub(super) const BYTES_MAX: usize = 1 << 20;
/// Most lists and mappings around a value.
pub(super) const DEPTH_MAX: usize = 32;
/// Most values, with every alias written out.
pub(super) const VALUES_MAX: usize = 1 << 18;

/// A value and its place. Aliases share theirs with the anchor, whose place it is.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) at: Position,
    pub(super) content: Content,
    /// Values below and including this one, with every alias written out.
    size: usize,
    /// Lists and mappings from here to the deepest value.
    height: usize,
}

/// What a value is. Tags are not kept: what a value means is decided by its key.
#[derive(Debug)]
pub(super) enum Content {
    /// Nothing, `~` or `null`.
    Empty,
    Word(String),
    List(Vec<Rc<Node>>),
    Mapping(Vec<Pair>),
}

/// A key and its value. Keys are unique within their mapping.
#[derive(Debug)]
pub(super) struct Pair {
    pub(super) key: String,
    pub(super) at: Position,
    pub(super) value: Rc<Node>,
}

impl Node {
    pub(super) fn shape(&self) -> Shape {
        match self.content {
            Content::Empty => Shape::Nothing,
            Content::Word(_) => Shape::Word,
            Content::List(_) => Shape::List,
            Content::Mapping(_) => Shape::Mapping,
        }
    }

    fn leaf(at: Position, content: Content) -> Node {
        Node { at, content, size: 1, height: 0 }
    }
}

/// A problem and its place, before the file has a name.
pub(super) type Failure = (Position, Problem);

/// Reads one document; an empty text is [`Content::Empty`].
pub(super) fn load(text: &str) -> Result<Rc<Node>, Failure> {
    if text.len() > BYTES_MAX {
        return Err((Position::START, Problem::TooLarge { bytes: text.len() }));
    }
    let mut builder = Builder::default();
    for next in Parser::new_from_str_with_options(text, options()) {
        let (event, span) = next.map_err(|error| refusal(&error))?;
        builder.event(event, position(&span.start))?;
    }
    let empty = || Rc::new(Node::leaf(Position::START, Content::Empty));
    Ok(builder.root.unwrap_or_else(empty))
}

fn options() -> Options {
    granit_parser::options! {
        emit_comments: false,
        // One more than ours, so that it is our message that people see.
        flow_nesting_limit: DEPTH_MAX + 1,
        block_nesting_limit: DEPTH_MAX + 1,
    }
}

fn refusal(error: &ScanError) -> Failure {
    let problem = match error.kind() {
        ErrorKind::RecursionLimitExceeded => Problem::TooDeep,
        _ => Problem::NotYaml { why: clipped(&error.info()) },
    };
    (position(error.marker()), problem)
}

/// The parser counts lines from 1 and columns from 0.
fn position(marker: &Marker) -> Position {
    Position { line: marker.line().max(1), column: marker.col() + 1 }
}

/// Turns events into a tree.
#[derive(Default)]
struct Builder {
    open: Vec<Open>,
    root: Option<Rc<Node>>,
    /// Finished values that have an anchor, by the parser's number for it.
    anchors: BTreeMap<usize, Rc<Node>>,
    /// Values so far, with every alias written out.
    size: usize,
    documents: usize,
}

/// A list or mapping whose end has not come.
struct Open {
    at: Position,
    anchor: usize,
    inside: Inside,
    size: usize,
    height: usize,
}

enum Inside {
    List(Vec<Rc<Node>>),
    Mapping { pairs: Vec<Pair>, seen: BTreeMap<String, Position>, key: Option<(String, Position)> },
}

impl Builder {
    fn event(&mut self, event: Event<'_>, at: Position) -> Result<(), Failure> {
        match event {
            Event::DocumentStart(..) => {
                self.documents += 1;
                if self.documents > 1 {
                    return Err((at, Problem::SecondDocument));
                }
                Ok(())
            }
            Event::Scalar(text, style, anchor, _) => self.scalar(at, &text, style, anchor),
            Event::SequenceStart(_, anchor, _) => self.begin(at, anchor, Inside::List(Vec::new())),
            Event::MappingStart(_, anchor, _) => {
                let inside =
                    Inside::Mapping { pairs: Vec::new(), seen: BTreeMap::new(), key: None };
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
        if let Some(Open { inside: Inside::Mapping { seen, key: key @ None, .. }, .. }) =
            self.open.last_mut()
        {
            if let Some(first) = seen.insert(text.to_owned(), at) {
                return Err((at, Problem::GivenTwice { key: clipped(text), first }));
            }
            *key = Some((text.to_owned(), at));
            return Ok(());
        }
        let nothing = style == ScalarStyle::Plain && matches!(text, "" | "~" | "null");
        let content = if nothing { Content::Empty } else { Content::Word(text.to_owned()) };
        self.place(at, anchor, Rc::new(Node::leaf(at, content)))
    }

    fn begin(&mut self, at: Position, anchor: usize, inside: Inside) -> Result<(), Failure> {
        self.refuse_as_key(at)?;
        if self.open.len() >= DEPTH_MAX {
            return Err((at, Problem::TooDeep));
        }
        self.open.push(Open { at, anchor, inside, size: 1, height: 0 });
        Ok(())
    }

    fn end(&mut self) -> Result<(), Failure> {
        let Some(open) = self.open.pop() else { return Ok(()) };
        let content = match open.inside {
            Inside::List(items) => Content::List(items),
            Inside::Mapping { pairs, .. } => Content::Mapping(pairs),
        };
        let node = Node { at: open.at, content, size: open.size, height: open.height + 1 };
        self.place(open.at, open.anchor, Rc::new(node))
    }

    fn alias(&mut self, at: Position, anchor: usize) -> Result<(), Failure> {
        self.refuse_as_key(at)?;
        let Some(node) = self.anchors.get(&anchor).cloned() else {
            let why = "an alias inside the value it stands for".to_owned();
            return Err((at, Problem::NotYaml { why }));
        };
        // What is shared costs no memory, yet every reader of the tree meets it again.
        self.size = self.size.saturating_add(node.size - 1);
        if self.open.len() + node.height > DEPTH_MAX {
            return Err((at, Problem::TooDeep));
        }
        self.place(at, 0, node)
    }

    fn refuse_as_key(&self, at: Position) -> Result<(), Failure> {
        match self.open.last() {
            Some(Open { inside: Inside::Mapping { key: None, .. }, .. }) => {
                Err((at, Problem::KeyNoWord))
            }
            _ => Ok(()),
        }
    }

    /// Puts a finished value where it belongs.
    fn place(&mut self, at: Position, anchor: usize, node: Rc<Node>) -> Result<(), Failure> {
        self.size += 1;
        if self.size > VALUES_MAX {
            return Err((at, Problem::TooMany));
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
            Inside::List(items) => items.push(node),
            Inside::Mapping { pairs, key, .. } => {
                // A value follows its key: `scalar` took one before anything could come here.
                let Some((key, at)) = key.take() else { return Err((at, Problem::KeyNoWord)) };
                pairs.push(Pair { key, at, value: node });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
