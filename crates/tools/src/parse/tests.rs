use proptest::prelude::*;

use super::*;
use crate::lst::LST;
use crate::table::{Arity, PositionalSyntax};

const NUMBER: ValueKind = ValueKind::Number { what: "count", min: -1, max: 9 };

static SYNTAX: CommandSyntax = CommandSyntax {
    name: "try",
    about: "for tests",
    usage: "try",
    options: &[
        OptionSyntax::switch("force", 'f', "a switch"),
        OptionSyntax::switch("fold", 'o', "another"),
        OptionSyntax::value("count", 'c', NUMBER, "a number").or("7"),
        OptionSyntax::value("to", 't', ValueKind::Text("WHERE"), "a text"),
        OptionSyntax::value("total", ' ', ValueKind::Text("T"), "begins with another").only_long(),
        OptionSyntax::value("state", 's', ValueKind::OneOf(&["up", "down"]), "one of two"),
    ],
    positionals: &[
        PositionalSyntax {
            name: "A",
            kind: ValueKind::Text("A"),
            arity: Arity::One,
            default: None,
        },
        PositionalSyntax { name: "B", kind: NUMBER, arity: Arity::Optional, default: Some("3") },
    ],
    subcommands: &[],
};

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

/// The result of a line: the options given, in the order of the table, and the arguments.
fn read(line: &str) -> String {
    let parsed = match parse(&SYNTAX, &words(line)) {
        Ok(parsed) => parsed,
        Err(misuse) => return misuse.to_string(),
    };
    let names = SYNTAX.options.iter().map(|option| option.long);
    let given = names.filter(|name| parsed.has(name));
    let mut read: Vec<String> =
        given.map(|name| format!("{name}={}", parsed.text(name).unwrap_or_default())).collect();
    read.push(format!("{:?}", parsed.positionals()));
    read.join(" ")
}

#[test]
fn arguments_are_read_as_getopt_long_does() {
    let cases = [
        ("a", r#"["a"]"#),
        ("a 5", r#"["a", "5"]"#),
        ("--force a", r#"force= ["a"]"#),
        ("a --force 2", r#"force= ["a", "2"]"#),
        ("a -f -o", r#"force= fold= ["a"]"#),
        ("a -fo", r#"force= fold= ["a"]"#),
        ("a -fc8", r#"force= count=8 ["a"]"#),
        ("a -fc 8", r#"force= count=8 ["a"]"#),
        ("a -c -1", r#"count=-1 ["a"]"#),
        ("a --count -1", r#"count=-1 ["a"]"#),
        ("a --count=4", r#"count=4 ["a"]"#),
        ("a --cou 4 --count 5", r#"count=5 ["a"]"#),
        ("a --to x", r#"to=x ["a"]"#),
        ("a --to=x=y", r#"to=x=y ["a"]"#),
        ("a --to=", r#"to= ["a"]"#),
        ("a --tot x", r#"total=x ["a"]"#),
        ("a --to --force", r#"to=--force ["a"]"#),
        ("--force -- --count", r#"force= ["--count"]"#),
        ("-", r#"["-"]"#),
        ("a --state up", r#"state=up ["a"]"#),
        ("", "missing argument A"),
        ("a 1 c", "unexpected argument 'c'"),
        ("a b", "Invalid count: b (allowed: -1 to 9)"),
        ("a --help --wrong", "help requested"),
        ("a --wrong", "unrecognized option '--wrong'"),
        ("a -x", "invalid option -- 'x'"),
        ("a -fx", "invalid option -- 'x'"),
        ("a --fo", "option '--fo' is ambiguous; possibilities: '--force' '--fold'"),
        ("a --count", "option '--count' requires an argument"),
        ("a -fc", "option requires an argument -- 'c'"),
        ("a --force=1", "option '--force' doesn't allow an argument"),
        ("a --count 10", "Invalid count: 10 (allowed: -1 to 9)"),
        ("a --count many", "Invalid count: many (allowed: -1 to 9)"),
        ("a -s sideways", "Invalid state: sideways (allowed: up, down)"),
    ];
    for (line, wanted) in cases {
        assert_eq!(read(line), wanted, "{line:?}");
    }
}

#[test]
fn options_that_are_not_given_have_their_defaults() {
    let parsed = parse(&SYNTAX, &words("a")).unwrap();
    assert_eq!((parsed.number("count"), parsed.count("count")), (Some(7), 7));
    assert_eq!((parsed.text("to"), parsed.number("to")), (None, None));
    assert_eq!((parsed.positional(0), parsed.positional(1), parsed.positional(2)), ("a", "3", ""));
    let parsed = parse(&SYNTAX, &words("a 4 --count -1")).unwrap();
    assert_eq!((parsed.number("count"), parsed.count("count")), (Some(-1), 0));
    assert_eq!(parsed.positional(1), "4");
}

#[test]
fn the_usage_is_printed_unless_a_value_is_wrong() {
    let wants = |line: &str| parse(&SYNTAX, &words(line)).unwrap_err().shows_usage();
    assert!(wants("a --wrong") && wants("") && wants("a --help"));
    assert!(!wants("a -c x") && !wants("a -s x"));
}

proptest! {
    /// The parser accepts any words without panic, and accepted values are within the table's
    /// bounds.
    #[test]
    fn any_words_are_read_or_refused(
        command in 0..LST.commands.len(),
        words in prop::collection::vec(
            prop_oneof!["\\PC{0,12}", "-{1,3}[a-z_]{0,8}=?.{0,4}", "-[a-z]{1,4}[0-9]*"],
            0..8,
        ),
    ) {
        let syntax = &LST.commands[command];
        if let Ok(parsed) = parse(syntax, &words) {
            let (min, max) = syntax.positional_bounds();
            prop_assert!((min..=max).contains(&parsed.positionals().len()));
            for option in syntax.options {
                if let (ValueKind::Number { min, max, .. }, Some(number)) =
                    (option.kind, parsed.number(option.long))
                {
                    prop_assert!((min..=max).contains(&number), "{} {number}", option.long);
                }
            }
        }
    }
}

static LEVEL: CommandSyntax = CommandSyntax {
    name: "show",
    about: "for tests",
    usage: "show",
    options: &[
        OptionSyntax::value(
            "verbose",
            'v',
            ValueKind::OptionalNumber { what: "verbosity", min: 0, max: 9, bare: "1" },
            "a number or none",
        ),
        OptionSyntax::switch("force", 'f', "a switch"),
    ],
    positionals: &[PositionalSyntax {
        name: "A",
        kind: ValueKind::Text("A"),
        arity: Arity::ZeroOrMore,
        default: None,
    }],
    subcommands: &[],
};

#[test]
fn the_number_of_an_option_may_be_optional() {
    let cases = [
        ("", None, 0),
        ("-v", Some("1"), 0),
        ("-v 4", Some("4"), 0),
        ("-v4", Some("4"), 0),
        ("-fv", Some("1"), 0),
        ("-v -f", Some("1"), 0),
        ("-v a", Some("1"), 1),
        ("--verbose 2 3", Some("2"), 1),
        ("--verb=3 4", Some("3"), 1),
    ];
    for (line, level, count) in cases {
        let parsed = parse(&LEVEL, &words(line)).unwrap();
        assert_eq!((parsed.text("verbose"), parsed.positionals().len()), (level, count), "{line}");
    }
    for line in ["-vf", "-v 12", "--verbose=x", "--verbose="] {
        assert!(matches!(parse(&LEVEL, &words(line)), Err(UsageError::BadNumber { .. })), "{line}");
    }
}
