use proptest::prelude::*;

use super::*;

const BYTES_MAX: usize = 1 << 20;
const DEPTH_MAX: usize = 32;
const LIMITS: Limits = Limits { bytes: BYTES_MAX, depth: DEPTH_MAX, values: 1 << 18 };

fn load(text: &str) -> Result<Rc<Node>, Failure> {
    super::load(text, &LIMITS)
}

fn failure(text: &str) -> (usize, usize, YamlError) {
    let (at, fault) = load(text).expect_err(text);
    (at.line, at.column, fault)
}

fn words(node: &Node) -> Vec<&str> {
    match &node.content {
        Content::Null => vec!["<nothing>"],
        Content::Scalar(text) => vec![text],
        Content::List(items) => items.iter().flat_map(|item| words(item)).collect(),
        Content::Mapping(pairs) => pairs
            .iter()
            .flat_map(|pair| [vec![pair.key.as_str()], words(&pair.value)].concat())
            .collect(),
    }
}

#[test]
fn values_keep_their_places() {
    let root = load("a: 1\nb:\n  - x\n  - {c: ~}\n").unwrap();
    assert_eq!(words(&root), ["a", "1", "b", "x", "c", "<nothing>"]);
    let Content::Mapping(pairs) = &root.content else { panic!("{root:?}") };
    assert_eq!(pairs[1].at, Position { line: 2, column: 1 });
    let Content::List(items) = &pairs[1].value.content else { panic!("{root:?}") };
    assert_eq!(items[0].at, Position { line: 3, column: 5 });
}

#[test]
fn an_empty_text_and_comments_are_nothing() {
    for text in ["", "# nothing\n", "---\n...\n", "~"] {
        assert_eq!(load(text).unwrap().shape(), Shape::Null, "{text:?}");
    }
}

#[test]
fn quoted_null_is_a_word() {
    assert_eq!(
        words(&load("[null, \"null\", '~', ~]").unwrap()),
        ["<nothing>", "null", "~", "<nothing>"]
    );
}

#[test]
fn a_key_given_twice_is_refused_with_both_places() {
    let first = Position { line: 1, column: 1 };
    let want = YamlError::DuplicateKey { key: "a".to_owned(), first };
    assert_eq!(failure("a: 1\nb: 2\n\"a\": 3\n"), (3, 1, want));
}

#[test]
fn keys_are_words() {
    for text in ["[a]: 1", "? {a: b}\n: 1", "a: &x b\n*x : 1"] {
        assert_eq!(failure(text).2, YamlError::NonScalarKey, "{text}");
    }
}

#[test]
fn one_document() {
    assert_eq!(failure("a: 1\n---\nb: 2\n"), (2, 1, YamlError::SecondDocument));
    assert!(load("---\na: 1\n...\n").is_ok());
}

#[test]
fn size_is_bounded() {
    let text = "#".repeat(BYTES_MAX + 1);
    assert_eq!(failure(&text), (1, 1, YamlError::TooLarge { bytes: BYTES_MAX + 1 }));
    assert!(load(&text[1..]).is_ok());
}

#[test]
fn depth_is_bounded_in_both_styles() {
    let flow = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert!(load(&flow(DEPTH_MAX)).is_ok());
    assert_eq!(failure(&flow(DEPTH_MAX + 1)), (1, DEPTH_MAX + 1, YamlError::TooDeep));
    let block = |depth: usize| format!("{}x", "- ".repeat(depth));
    assert!(load(&block(DEPTH_MAX)).is_ok());
    assert_eq!(failure(&block(DEPTH_MAX + 1)).2, YamlError::TooDeep);
    assert!(matches!(failure(&"[".repeat(BYTES_MAX)).2, YamlError::TooDeep));
}

#[test]
fn aliases_are_shared_values() {
    let root = load("a: &x [1, 2]\nb: *x\nc: *x\n").unwrap();
    assert_eq!(words(&root), ["a", "1", "2", "b", "1", "2", "c", "1", "2"]);
    assert_eq!(root.size, 1 + 3 * 3);
    assert!(matches!(failure("a: *nobody"), (1, _, YamlError::NotYaml { .. })));
    assert!(matches!(failure("a: &x [*x]"), (1, _, YamlError::NotYaml { .. })));
}

#[test]
fn an_alias_bomb_is_counted_as_if_written_out() {
    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..9 {
        let below = vec![format!("*a{}", level - 1); 9].join(", ");
        bomb.push_str(&format!("a{level}: &a{level} [{below}]\n"));
    }
    assert_eq!(failure(&bomb).2, YamlError::TooManyValues);
}

#[test]
fn a_chain_of_aliases_cannot_pile_up_depth() {
    let mut chain = "a0: &a0 [x]\n".to_owned();
    for level in 1..1000 {
        chain.push_str(&format!("a{level}: &a{level} [*a{}]\n", level - 1));
    }
    let (line, _, problem) = failure(&chain);
    // Line n has n lists within the mapping of the whole file.
    assert_eq!((line, problem), (DEPTH_MAX, YamlError::TooDeep));
}

#[test]
fn many_values_are_refused_in_good_time() {
    assert_eq!(failure(&"- a\n".repeat(BYTES_MAX / 4)).2, YamlError::TooManyValues);
    let mut keys = String::new();
    for key in 0..70_000 {
        keys.push_str(&format!("key{key}: 1\n"));
    }
    assert_eq!(load(&keys).unwrap().size, 70_001);
}

#[test]
fn broken_yaml_is_placed() {
    let (line, column, problem) = failure("net:\n  - [a, b\n");
    assert!(line >= 2 && column >= 1, "{line}:{column}");
    assert!(matches!(problem, YamlError::NotYaml { ref why } if !why.is_empty()));
}

/// Pieces that mean something to a YAML parser.
const PIECES: [&str; 27] = [
    "{",
    "}",
    "[",
    "]",
    ",",
    ": ",
    "- ",
    "? ",
    "\n",
    "\n  ",
    "\t",
    "a",
    "\"",
    "'",
    "|",
    ">",
    "&a ",
    "*a",
    "!t ",
    "---\n",
    "...",
    "%YAML 1.1\n",
    "#",
    "\\",
    "\r",
    "\u{feff}",
    "\u{e9}",
];

proptest! {
    #[test]
    fn any_text_gets_an_answer(
        pieces in proptest::collection::vec(proptest::sample::select(&PIECES[..]), 0..40),
    ) {
        let _ = load(&pieces.concat());
    }
}
