use super::*;
use crate::table::{Arity, OptionSyntax, PositionalSyntax, ValueKind};

static TOOL: Tool = Tool {
    name: "tool",
    about: "for tests",
    commands: &[
        plain("stat"),
        CommandSyntax {
            usage: "fail [STATUS]",
            positionals: &[PositionalSyntax {
                name: "STATUS",
                kind: ValueKind::Number { what: "status", min: 0, max: 255 },
                arity: Arity::Optional,
                default: Some("255"),
            }],
            ..plain("fail")
        },
        CommandSyntax {
            usage: "net add|del",
            subcommands: &[
                CommandSyntax {
                    usage: "net add --nid NID",
                    options: &[OptionSyntax::value("nid", 'n', ValueKind::Nids, "the NID")],
                    ..plain("add")
                },
                plain("del"),
            ],
            ..plain("net")
        },
    ],
};

const fn plain(name: &'static str) -> CommandSyntax {
    CommandSyntax {
        name,
        about: "does it",
        usage: name,
        options: &[],
        positionals: &[],
        subcommands: &[],
    }
}

/// Records the commands that it is given.
#[derive(Default)]
struct Clerk {
    compat: Compat,
    text: String,
}

impl Terminal for Clerk {
    fn out(&mut self, text: &str) {
        self.text += text;
    }

    fn err(&mut self, text: &str) {
        self.text += &format!("! {text}");
    }
}

impl Program for Clerk {
    fn tool(&self) -> &'static Tool {
        &TOOL
    }

    fn compat(&self) -> Compat {
        self.compat
    }

    fn version(&self) -> &str {
        "1.2"
    }

    fn terminal(&mut self) -> &mut dyn Terminal {
        self
    }

    fn run(&mut self, path: &[&'static str], parsed: &Parsed) -> Result<(), Exit> {
        self.text += &format!("{} {:?}\n", path.join(" "), parsed.positionals());
        match path {
            ["fail"] => Err(Exit(parsed.positional(0).parse().unwrap())),
            _ => Ok(()),
        }
    }
}

fn strings(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn one(words: &[&str], names: NameMatching) -> (String, u8) {
    let mut clerk = Clerk::default();
    let exit = run(&mut clerk, &strings(words), names);
    (clerk.text, exit.0)
}

#[track_caller]
fn check(words: &[&str], text: &str, exit: u8) {
    assert_eq!(one(words, NameMatching::Exact), (text.to_owned(), exit), "{words:?}");
}

#[test]
fn commands_are_found_by_their_names() {
    check(&[], "", 0);
    check(&["stat"], "stat []\n", 0);
    check(&["fail", "7"], "fail [\"7\"]\n", 7);
    check(&["net", "del"], "net del []\n", 0);
    check(&["version"], "tool 1.2\n", 0);
    let unknown = "! tool: 'sta' is not a valid command. See 'tool --list-commands'.\n";
    check(&["sta"], unknown, 255);
    check(&["help", "net", "wrong"], &unknown.replace("sta", "net wrong"), 255);
}

#[test]
fn misuse_shows_usage_and_has_its_own_status() {
    let usage = "Usage: tool net add --nid NID\n";
    let wrong = "! add: unrecognized option '--wrong'\n";
    check(&["net", "add", "--wrong"], &format!("{wrong}{usage}"), 4);
    check(&["fail", "x"], "! Invalid status: x (allowed: 0 to 255)\n", 255);
    let mut clerk = Clerk { compat: Compat::V2_15, ..Clerk::default() };
    assert_eq!(run(&mut clerk, &strings(&["stat", "x"]), NameMatching::Exact), Exit(255));
    assert_eq!(clerk.text, "! stat: unexpected argument 'x'\nUsage: tool stat\n");
}

#[test]
fn help_is_made_from_the_table() {
    let add = "Usage: tool net add --nid NID\ndoes it\n  -n, --nid NIDS  the NID\n";
    check(&["help", "net", "add"], add, 0);
    check(&["net", "add", "--help"], add, 0);
    let net = "Usage: tool net add|del\ndoes it\n  add  does it\n  del  does it\n";
    check(&["help", "net"], net, 0);
    check(&["net"], net, 4);
    check(&["net", "--help"], net, 0);
    let unknown = "! tool: 'wrong' is not a valid command. See 'tool --list-commands'.\n";
    check(&["net", "wrong"], unknown, 255);
    let (text, exit) = one(&["--help"], NameMatching::Exact);
    assert!(text.starts_with("usage: tool [COMMAND] [OPTIONS]... [ARGS]\n"), "{text}");
    assert!(text.contains("\n  fail  does it\n") && exit == 0, "{text}");
}

#[test]
fn names_may_be_abbreviated_at_the_prompt() {
    for name in ["st", "STAT", "Stat"] {
        assert_eq!(one(&[name], NameMatching::Prefix), ("stat []\n".to_owned(), 0), "{name}");
    }
    let (text, exit) = one(&["e"], NameMatching::Prefix);
    assert_eq!((text.as_str(), exit), ("", 0), "exit");
    let ambiguous = "! tool: '' is ambiguous; possibilities: quit exit help version \
                     list-commands ignore_errors stat fail net\n";
    assert_eq!(one(&[""], NameMatching::Prefix), (ambiguous.to_owned(), 255));
    assert_eq!(one(&["x"], NameMatching::Prefix).1, 255);
}

#[test]
fn arguments_are_a_command_or_select_an_interpreter() {
    let lines = |ignore_errors| Invocation::Lines { ignore_errors };
    assert_eq!(invocation(&[]), lines(false));
    assert_eq!(invocation(&strings(&["--ignore_errors"])), lines(true));
    let command = strings(&["stat", "--ignore_errors"]);
    assert_eq!(invocation(&command), Invocation::Command(command.clone()));
    let command = Invocation::Command(strings(&["stat"]));
    assert_eq!(invocation(&strings(&["--ignore_errors", "stat"])), command);
}

/// Runs lines until one quits. Returns the commands that ran, and the exit status.
fn play(mode: Mode, lines: &[&str]) -> (String, Exit) {
    let mut clerk = Clerk::default();
    let mut interpreter = Interpreter::new(mode);
    for line in lines {
        if let LineOutcome::Quit(exit) = interpreter.line(&mut clerk, line) {
            return (clerk.text, exit);
        }
    }
    (clerk.text, interpreter.exit())
}

#[test]
fn a_script_ends_at_its_first_failure_unless_errors_are_ignored() {
    let strict = Mode::Script { ignore_errors: false };
    let lines = ["# a comment", "", "  stat # another\n", "fail 3", "stat"];
    let done = "stat []\nfail [\"3\"]\n";
    assert_eq!(play(strict, &lines), (done.to_owned(), Exit(3)));
    let lax = Mode::Script { ignore_errors: true };
    assert_eq!(play(lax, &lines), (format!("{done}stat []\n"), Exit::SUCCESS));
    let (text, exit) = play(strict, &["ignore_errors", "fail", "stat"]);
    assert_eq!((text.as_str(), exit), ("fail []\nstat []\n", Exit::SUCCESS));
    assert_eq!(play(lax, &["fail 130", "stat"]).1, Exit::INTERRUPTED);
    assert_eq!(play(strict, &["sta"]).1, Exit::FAILURE);
    assert_eq!(play(strict, &["stat", "quit", "fail"]), ("stat []\n".to_owned(), Exit::SUCCESS));
}

#[test]
fn a_prompt_continues_until_it_is_quit() {
    let (text, exit) = play(Mode::Prompt, &["fa 9", "'", "fail 130", "STA", "exit", "stat"]);
    let quote = "! tool: a quote ' is not closed; a line is a whole command\n";
    assert_eq!(text, format!("fail [\"9\"]\n{quote}fail [\"130\"]\nstat []\n"));
    assert_eq!(exit, Exit::SUCCESS);
    assert_eq!(play(Mode::Prompt, &["stat", "fail 9"]).1, Exit(9));
    let long = "x".repeat(LINE_MAX + 1);
    let (text, _) = play(Mode::Prompt, &[&long]);
    assert_eq!(text, "! tool: a line has at most 65536 bytes\n");
}

#[test]
fn each_release_has_its_prompt() {
    let prompt =
        |mode, compat| Interpreter::new(mode).prompt(&Clerk { compat, ..Clerk::default() });
    assert_eq!(prompt(Mode::Prompt, Compat::V2_16), "> ");
    assert_eq!(prompt(Mode::Prompt, Compat::V2_15), "tool > ");
    assert_eq!(prompt(Mode::Script { ignore_errors: false }, Compat::V2_16), "");
}

#[test]
fn lines_are_split_into_words() {
    let cases: [(&str, &[&str]); 12] = [
        ("", &[]),
        (" a\tb  c\n", &["a", "b", "c"]),
        ("a '' b", &["a", "", "b"]),
        ("'a b'c", &["a bc"]),
        (r#""a 'b' \"c\" \\ \n""#, &[r#"a 'b' "c" \ \n"#]),
        (r"'a\'b", &[r"a\b"]),
        (r"a\ b \# c", &["a b", "#", "c"]),
        ("a#b #c", &["a#b"]),
        ("a '#' b", &["a", "#", "b"]),
        ("10.0.0.[1,2]@tcp $x ; y", &["10.0.0.[1,2]@tcp", "$x", ";", "y"]),
        ("# all of it", &[]),
        ("a\\\\", &["a\\"]),
    ];
    for (line, wanted) in cases {
        assert_eq!(split(line).unwrap(), wanted, "{line:?}");
    }
    assert_eq!(split("a 'b"), Err(WordsError::Open('\'')));
    assert_eq!(split("a \"b\\"), Err(WordsError::Open('"')));
    assert_eq!(split("a\\"), Err(WordsError::Backslash));
}
