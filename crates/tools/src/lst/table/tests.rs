use std::collections::BTreeSet;

use super::*;
use crate::help::{self, BUILTINS};
use crate::parse::parse;

#[test]
fn names_and_letters_are_unique() {
    let mut names: BTreeSet<&str> = BUILTINS.into_iter().collect();
    for syntax in LST.commands {
        assert!(names.insert(syntax.name), "{}", syntax.name);
        let mut long = BTreeSet::from(["help"]);
        let mut short = BTreeSet::new();
        for option in syntax.options {
            assert!(long.insert(option.long), "{} --{}", syntax.name, option.long);
            let fresh = option.short.is_none_or(|letter| short.insert(letter));
            assert!(fresh && option.short != Some(' '), "{} {:?}", syntax.name, option.short);
        }
    }
}

#[test]
fn defaults_are_valid_values() {
    for syntax in LST.commands {
        let needed = syntax.positionals.iter().filter(|word| word.arity.bounds().0 > 0);
        let needed: Vec<String> = needed.map(|_| "x".to_owned()).collect();
        for option in syntax.options {
            let Some(default) = option.default else { continue };
            let mut arguments = needed.clone();
            arguments.extend([format!("--{}", option.long), default.to_owned()]);
            let parsed = parse(syntax, &arguments).unwrap();
            assert_eq!(parsed.text(option.long), Some(default), "{}", syntax.name);
            assert_eq!(parse(syntax, &needed).unwrap().text(option.long), Some(default));
        }
    }
}

#[test]
fn only_the_last_word_may_be_missing_or_repeated() {
    for syntax in LST.commands {
        if let Some((_, first)) = syntax.positionals.split_last() {
            assert!(first.iter().all(|word| word.arity == Arity::One), "{}", syntax.name);
        }
    }
}

#[test]
fn usage_is_one_line_and_help_names_every_option() {
    for syntax in LST.commands {
        let usage = help::usage(&LST, syntax);
        assert!(usage.starts_with("Usage: lst ") && usage.ends_with('\n'), "{usage:?}");
        assert_eq!(usage.lines().count(), 1, "{usage:?}");
        let help = help::command_help(&LST, syntax);
        for option in syntax.options {
            assert!(help.contains(&format!("--{}", option.long)), "{help}");
        }
    }
}

#[test]
fn recorded_usages_are_those_of_the_real_tool() {
    let usage = |name: &str| {
        let syntax = LST.commands.iter().find(|syntax| syntax.name == name).unwrap();
        help::usage(&LST, syntax)
    };
    assert_eq!(usage("add_group"), "Usage: lst group NAME IDs [IDs]...\n");
    assert_eq!(usage("list_batch"), "Usage: lst list_batch NAME [--test ID] [--server]\n");
    assert_eq!(
        usage("ping"),
        "Usage: lst ping  [--group NAME] [--batch NAME] [--session]  [--nodes IDS]\n"
    );
}
