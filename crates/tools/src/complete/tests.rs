use super::*;
use crate::table::{Arity, PositionalSyntax};
use crate::{ALL, lst::LST};

/// Completes the last word of a line; a blank at its end begins a new one.
fn at_end(tool: &Tool, line: &str) -> Completion {
    let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
    complete(tool, &words, words.len() - 1)
}

fn texts(completion: &Completion) -> Vec<&str> {
    completion.candidates.iter().map(|candidate| candidate.text.as_str()).collect()
}

#[track_caller]
fn offers(tool: &Tool, line: &str, expected: &str) {
    let found = at_end(tool, line);
    let mut shown = texts(&found).join(" ");
    if let Some(hint) = found.hint {
        shown = format!("{shown} <{hint}>").trim_start().to_owned();
    }
    assert_eq!(shown, expected, "{line:?}");
}

static NESTED: Tool = Tool { name: "nested", about: "for tests", commands: COMMANDS };

const PLAIN: CommandSyntax = CommandSyntax {
    name: "",
    about: "",
    usage: "",
    options: &[],
    positionals: &[],
    subcommands: &[],
};

static COMMANDS: &[CommandSyntax] = &[
    CommandSyntax {
        name: "net",
        subcommands: &[
            CommandSyntax {
                name: "add",
                options: &[
                    OptionSyntax::value("net", 'n', ValueKind::Text("NET"), "the net"),
                    OptionSyntax::value("file", 'f', ValueKind::File, "a file"),
                ],
                ..PLAIN
            },
            CommandSyntax { name: "show", ..PLAIN },
        ],
        ..PLAIN
    },
    CommandSyntax {
        name: "import",
        positionals: &[
            PositionalSyntax {
                name: "HOW",
                kind: ValueKind::OneOf(&["yaml", "text"]),
                arity: Arity::One,
                default: None,
            },
            PositionalSyntax {
                name: "FILE",
                kind: ValueKind::File,
                arity: Arity::One,
                default: None,
            },
        ],
        ..PLAIN
    },
];

#[test]
fn commands_are_completed() {
    for (line, expected) in [
        ("list_", "list_group list_batch"),
        ("new_session", "new_session"),
        ("he", "help"),
        ("nothing_like_it", ""),
        ("-", "--help --version --list-commands --ignore_errors"),
        ("--ignore_errors del", "del_group"),
        ("help up", "update_group"),
        ("--help up", "update_group"),
        ("help update_group ", ""),
        ("unknown ", ""),
    ] {
        offers(&LST, line, expected);
    }
    let all = at_end(&LST, "");
    assert!(texts(&all).starts_with(&["new_session", "end_session", "show_session", "ping"]));
    assert!(!texts(&all).contains(&"quit") && !texts(&all).contains(&"--help"));
}

#[test]
fn subcommands_are_completed() {
    for (line, expected) in [
        ("net ", "add show"),
        ("net a", "add"),
        ("net wrong ", ""),
        ("help net s", "show"),
        ("net add --", "--net --file --help"),
        ("net add --file ", "<file>"),
        ("net add --net ", "<NET>"),
        ("import ", "yaml text"),
        ("import yaml ", "<file>"),
        ("import yaml a ", "--help"),
    ] {
        offers(&NESTED, line, expected);
    }
}

#[test]
fn options_are_completed() {
    for (line, expected) in [
        ("stop --", "--force --help"),
        ("stop --f", "--force"),
        // An option that was given is not offered again, neither by its letter nor abbreviated.
        ("stop --force --", "--help"),
        ("stop -f --", "--help"),
        ("stop --fo --", "--help"),
        ("stop batch --f", "--force"),
        // No other word may follow.
        ("stop b ", "--force --help"),
        ("end_session ", "--help"),
        ("stop -- --", "<batch>"),
        ("stop -- x ", ""),
        ("stat -alx --m", "--min --mbs"),
    ] {
        offers(&LST, line, expected);
    }
}

#[test]
fn values_of_options_are_completed() {
    for (line, expected) in [
        ("update_group --clean ", "active busy down unknown invalid"),
        (
            "update_group --clean=",
            "--clean=active --clean=busy --clean=down --clean=unknown \
                                   --clean=invalid",
        ),
        ("update_group g --cl=un", "--cl=unknown"),
        ("update_group -c d", "down"),
        ("update_group -fc d", "down"),
        ("update_group -cdown ", "<group>"),
        ("update_group --rem x ", "<group>"),
        ("update_group --remove ", "<nids>"),
        ("update_group --remove=10", "<nids>"),
        ("ping --batch ", "<batch>"),
        // A word that begins with - is a value in the position of a value.
        ("ping --batch --", "<batch>"),
        ("add_test --loop ", "<loop number>"),
        ("add_test --distribute ", "<C:S>"),
        ("add_test --wrong=", ""),
        ("stop --force=", ""),
    ] {
        offers(&LST, line, expected);
    }
}

#[test]
fn positional_arguments_are_completed() {
    for (line, expected) in [
        ("add_group ", "<NAME>"),
        ("add_group g ", "<nids>"),
        ("add_group g 10.0.0.1@tcp ", "<nids>"),
        ("list_group a b ", "<group>"),
        ("list_group - ", "<group>"),
        ("add_test ", "ping brw"),
        ("add_test --from a --to=b b", "brw"),
        ("add_test --from a --to b brw ", "read write size= check=simple check=full off="),
        ("add_test brw read check", "check=simple check=full"),
        ("run ", "<batch>"),
    ] {
        offers(&LST, line, expected);
    }
}

#[test]
fn words_after_the_position_are_ignored() {
    let words = ["stop", "--f", "--force"].map(str::to_owned);
    assert_eq!(texts(&complete(&LST, &words, 1)), ["--force"]);
    assert_eq!(texts(&complete(&LST, &words, 3)), [""; 0]);
    // At a position that does not exist, nothing was typed.
    assert_eq!(complete(&LST, &words, 9), complete(&LST, &words, 3));
    assert!(!complete(&LST, &[], 0).candidates.is_empty());
}

#[test]
fn every_command_and_option_of_every_tool_is_offered() {
    for tool in ALL.iter().map(|manual| manual.tool) {
        for syntax in tool.commands {
            every_one_of(tool, &[], syntax);
        }
    }
}

fn every_one_of(tool: &Tool, path: &[String], syntax: &CommandSyntax) {
    let has = |words: &[String], text: &str| {
        let found = complete(tool, words, words.len() - 1);
        let here = found.candidates.iter().find(|candidate| candidate.text == text);
        here.map(|candidate| candidate.about).unwrap_or_else(|| panic!("{words:?}: {found:?}"))
    };
    let here = [path, &[syntax.name.to_owned()]].concat();
    assert_eq!(has(&[path, &[String::new()]].concat(), syntax.name), syntax.about);
    syntax.subcommands.iter().for_each(|under| every_one_of(tool, &here, under));
    for option in syntax.options {
        let long = format!("--{}", option.long);
        assert_eq!(has(&[&here[..], &["--".to_owned()]].concat(), &long), option.about);
    }
}

#[test]
fn an_optional_number_takes_no_other_word() {
    let net = |typed: &str| at_end(&crate::lnetctl::LNETCTL, typed).to_string();
    assert!(net("net show -v --n").starts_with("--net\t"), "{}", net("net show -v --n"));
    assert!(net("net show -v 2 --n").starts_with("--net\t"), "{}", net("net show -v 2 --n"));
    assert_eq!(net("net show -v "), ":verbosity\n");
}

#[test]
fn the_answer_has_a_text_form() {
    let text = at_end(&LST, "stop --").to_string();
    assert_eq!(text, "--force\taborts RPCs in flight\n--help\texplains the command\n");
    assert_eq!(at_end(&LST, "run ").to_string(), ":batch\n");
    assert_eq!(at_end(&LST, "unknown ").to_string(), "");
    assert_eq!(at_end(&NESTED, "import yaml ").to_string(), ":file\n");
}

#[test]
fn scripts_complete_the_program_and_every_tool() {
    let own = "own @TOOLS@ stays\n";
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        let text = script(shell, own, &[&LST, &NESTED]);
        assert_eq!(text.matches(own).count(), 1, "{text}");
        let rest = text.replace(own, "");
        assert!(
            rest.contains("lst nested") && !rest.contains("@T") && !rest.contains("@C"),
            "{rest}"
        );
        assert!(rest.contains("lustrine complete"), "{rest}");
    }
}
