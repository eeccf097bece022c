use crate::help;
use crate::table::Syntax;

use super::*;

/// Every command with what leads to it.
fn walk(under: &'static [Syntax], path: &str, see: &mut impl FnMut(&str, &'static Syntax)) {
    for syntax in under {
        let path = format!("{path} {}", syntax.name);
        see(path.trim(), syntax);
        walk(syntax.under, &path, see);
    }
}

#[test]
fn a_usage_begins_with_the_command_and_options_have_names_of_their_own() {
    let mut seen = 0;
    walk(LNETCTL.commands, "", &mut |path, syntax| {
        seen += 1;
        let about_a_rule = syntax.usage.starts_with("fault drop|delay ");
        assert!(about_a_rule || syntax.usage.starts_with(path), "{path}: {}", syntax.usage);
        assert!(syntax.under.is_empty() || (syntax.options.is_empty() && syntax.words.is_empty()));
        let mut names: Vec<&str> = syntax.options.iter().map(|option| option.long).collect();
        let mut letters: Vec<char> = syntax.options.iter().filter_map(|o| o.short).collect();
        let counts = (names.len(), letters.len());
        names.sort_unstable();
        names.dedup();
        letters.sort_unstable();
        letters.dedup();
        assert_eq!((names.len(), letters.len()), counts, "{path}");
    });
    assert!(seen > 60, "{seen}");
}

#[test]
fn commands_are_listed_as_the_real_tool_does() {
    let theirs = include_str!("../../../../../testdata/lnetctl/list_commands.txt");
    let theirs: String = theirs.lines().skip(1).map(|line| format!("{line}\n")).collect();
    assert_eq!(help::list_commands(&LNETCTL), theirs);
}
