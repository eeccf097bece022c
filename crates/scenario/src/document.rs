//! YAML as a tree with places, of bounded size, whose values can be replaced.
//!
//! The parser is `granit-parser`, as for the configuration of nodes and for the same reasons: it
//! reports places and holds limits. What it leaves to its caller is here: duplicate keys, aliases
//! that cannot explode, one document per file.

use std::collections::BTreeMap;
use std::rc::Rc;

use granit_parser::{ErrorKind, Event, Marker, Options, Parser, ScalarStyle, ScanError};

use crate::problem::{Place, Problem, clipped};

/// Longest text in bytes: 1 MiB.
const BYTES_MAX: usize = 1 << 20;
/// Most lists and mappings around a value.
const DEPTH_MAX: usize = 16;
/// Most values, with every alias written out.
const VALUES_MAX: usize = 1 << 16;

/// A value and its place. Aliases share theirs with the anchor, whose place it is.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) at: Place,
    pub(crate) content: Content,
    /// Values below and including this one, with every alias written out.
    size: usize,
    /// Lists and mappings from here to the deepest value.
    height: usize,
}

/// What a value is. Tags are not kept: what a value means is decided by its key.
#[derive(Clone, Debug)]
pub(crate) enum Content {
    /// Nothing, `~` or `null`.
    Empty,
    Word(String),
    List(Vec<Rc<Node>>),
    Mapping(Vec<Pair>),
}

/// A key and its value. Keys are unique within their mapping.
#[derive(Clone, Debug)]
pub(crate) struct Pair {
    pub(crate) key: String,
    pub(crate) at: Place,
    pub(crate) value: Rc<Node>,
}

impl Node {
    /// What it is made of, in words.
    pub(crate) fn shape(&self) -> &'static str {
        match self.content {
            Content::Empty => "nothing",
            Content::Word(_) => "a word or number",
            Content::List(_) => "a list",
            Content::Mapping(_) => "keys with values",
        }
    }

    /// A value with nothing below it.
    pub(crate) fn leaf(at: Place, content: Content) -> Node {
        Node { at, content, size: 1, height: 0 }
    }

    /// The value of a key, if this is a mapping that has it.
    pub(crate) fn value(&self, key: &str) -> Option<&Rc<Node>> {
        let Content::Mapping(pairs) = &self.content else { return None };
        pairs.iter().find(|pair| pair.key == key).map(|pair| &pair.value)
    }

    /// The same to change.
    pub(crate) fn value_mut(&mut self, key: &str) -> Option<&mut Node> {
        let Content::Mapping(pairs) = &mut self.content else { return None };
        pairs.iter_mut().find(|pair| pair.key == key).map(|pair| Rc::make_mut(&mut pair.value))
    }

    /// Gives a key a value, whether it had one or not. Nothing becomes a mapping; a word or a list
    /// stays what it is, for its reader to complain of.
    pub(crate) fn set(&mut self, key: &str, value: Node) {
        if let Content::Empty = self.content {
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

/// Reads one document; an empty text is [`Content::Empty`].
pub(crate) fn load(text: &str) -> Result<Node, Problem> {
    if text.len() > BYTES_MAX {
        let what = format!(
            "{} bytes are too many; allowed: at most {BYTES_MAX}; for example groups with a \
             \"count\" instead of one group per node",
            text.len()
        );
        return Err(Problem::new(&Place::START, what));
    }
    let mut builder = Builder::default();
    for next in Parser::new_from_str_with_options(text, options()) {
        let (event, span) = next.map_err(|error| refusal(&error))?;
        builder.event(event, &place(&span.start))?;
    }
    let empty = || Node::leaf(Place::START, Content::Empty);
    Ok(builder.root.map_or_else(empty, |root| (*root).clone()))
}

fn options() -> Options {
    granit_parser::options! {
        emit_comments: false,
        // One more than ours, so that it is our message that people see.
        flow_nesting_limit: DEPTH_MAX + 1,
        block_nesting_limit: DEPTH_MAX + 1,
    }
}

fn refusal(error: &ScanError) -> Problem {
    let at = place(error.marker());
    match error.kind() {
        ErrorKind::RecursionLimitExceeded => too_deep(&at),
        _ => not_yaml(&at, &clipped(&error.info())),
    }
}

/// The parser counts lines from 1 and columns from 0.
fn place(marker: &Marker) -> Place {
    Place::File { line: marker.line().max(1), column: marker.col() + 1 }
}

fn not_yaml(at: &Place, why: &str) -> Problem {
    let what = format!(
        "not YAML: {why}; allowed: blanks for indentation, one \"key: value\" or \"- item\" per \
         line; for example \"groups: {{clients: {{count: 2}}}}\""
    );
    Problem::new(at, what)
}

fn too_deep(at: &Place) -> Problem {
    let what = format!(
        "nested too deeply; allowed: {DEPTH_MAX} levels; for example \
         \"groups: {{clients: {{count: 2}}}}\" has 3"
    );
    Problem::new(at, what)
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
    at: Place,
    anchor: usize,
    inside: Inside,
    size: usize,
    height: usize,
}

enum Inside {
    List(Vec<Rc<Node>>),
    Mapping { pairs: Vec<Pair>, seen: BTreeMap<String, Place>, key: Option<(String, Place)> },
}

impl Builder {
    fn event(&mut self, event: Event<'_>, at: &Place) -> Result<(), Problem> {
        match event {
            Event::DocumentStart(..) => {
                self.documents += 1;
                if self.documents > 1 {
                    let what = "a second YAML document begins; allowed: one in a file; for \
                                example remove this \"---\"";
                    return Err(Problem::new(at, what));
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
        at: &Place,
        text: &str,
        style: ScalarStyle,
        anchor: usize,
    ) -> Result<(), Problem> {
        if let Some(Open { inside: Inside::Mapping { seen, key: key @ None, .. }, .. }) =
            self.open.last_mut()
        {
            if let Some(first) = seen.insert(text.to_owned(), at.clone()) {
                let key = clipped(text);
                let before = match first {
                    Place::File { line, column } => format!("{line}:{column}"),
                    Place::Words(words) => words.to_string(),
                };
                let what = format!(
                    "{key:?} is given again; allowed: once, and {before} has it; for example \
                     remove this"
                );
                return Err(Problem::new(at, what));
            }
            *key = Some((text.to_owned(), at.clone()));
            return Ok(());
        }
        let nothing = style == ScalarStyle::Plain && matches!(text, "" | "~" | "null");
        let content = if nothing { Content::Empty } else { Content::Word(text.to_owned()) };
        self.place(at, anchor, Rc::new(Node::leaf(at.clone(), content)))
    }

    fn begin(&mut self, at: &Place, anchor: usize, inside: Inside) -> Result<(), Problem> {
        self.refuse_as_key(at)?;
        if self.open.len() >= DEPTH_MAX {
            return Err(too_deep(at));
        }
        self.open.push(Open { at: at.clone(), anchor, inside, size: 1, height: 0 });
        Ok(())
    }

    fn end(&mut self) -> Result<(), Problem> {
        let Some(open) = self.open.pop() else { return Ok(()) };
        let content = match open.inside {
            Inside::List(items) => Content::List(items),
            Inside::Mapping { pairs, .. } => Content::Mapping(pairs),
        };
        let (at, anchor) = (open.at.clone(), open.anchor);
        let node = Node { at: open.at, content, size: open.size, height: open.height + 1 };
        self.place(&at, anchor, Rc::new(node))
    }

    fn alias(&mut self, at: &Place, anchor: usize) -> Result<(), Problem> {
        self.refuse_as_key(at)?;
        let Some(node) = self.anchors.get(&anchor).cloned() else {
            return Err(not_yaml(at, "an alias inside the value it stands for"));
        };
        // What is shared costs no memory, yet every reader of the tree meets it again.
        self.size = self.size.saturating_add(node.size - 1);
        if self.open.len() + node.height > DEPTH_MAX {
            return Err(too_deep(at));
        }
        self.place(at, 0, node)
    }

    fn refuse_as_key(&self, at: &Place) -> Result<(), Problem> {
        match self.open.last() {
            Some(Open { inside: Inside::Mapping { key: None, .. }, .. }) => Err(key_no_word(at)),
            _ => Ok(()),
        }
    }

    /// Puts a finished value where it belongs.
    fn place(&mut self, at: &Place, anchor: usize, node: Rc<Node>) -> Result<(), Problem> {
        self.size += 1;
        if self.size > VALUES_MAX {
            let what = format!(
                "too many values; allowed: {VALUES_MAX}, aliases (*name) written out; for example \
                 groups with a \"count\" instead of one group per node"
            );
            return Err(Problem::new(at, what));
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
                let Some((key, at)) = key.take() else { return Err(key_no_word(at)) };
                pairs.push(Pair { key, at, value: node });
            }
        }
        Ok(())
    }
}

fn key_no_word(at: &Place) -> Problem {
    let what = "a key that is no word; allowed: words with or without quotes; for example \
                \"groups:\"";
    Problem::new(at, what)
}
