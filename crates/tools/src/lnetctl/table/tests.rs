use crate::help;
use crate::table::CommandSyntax;

use super::*;

/// Every command with its path.
fn walk(
    under: &'static [CommandSyntax],
    path: &str,
    see: &mut impl FnMut(&str, &'static CommandSyntax),
) {
    for syntax in under {
        let path = format!("{path} {}", syntax.name);
        see(path.trim(), syntax);
        walk(syntax.subcommands, &path, see);
    }
}

#[test]
fn a_usage_begins_with_the_command_and_options_have_unique_names() {
    let mut seen = 0;
    walk(LNETCTL.commands, "", &mut |path, syntax| {
        seen += 1;
        let about_a_rule = syntax.usage.starts_with("fault drop|delay ");
        assert!(about_a_rule || syntax.usage.starts_with(path), "{path}: {}", syntax.usage);
        assert!(
            syntax.subcommands.is_empty()
                || (syntax.options.is_empty() && syntax.positionals.is_empty())
        );
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

/// The table of tunables is authoritative; its texts are repeated here for help and pages.
#[test]
fn every_tunable_is_a_key_of_set() {
    use lustrine_lnet::tunables::Change;
    use lustrine_partition::tunables::TABLE;
    for row in TABLE {
        let key = SET.iter().find(|syntax| syntax.name == row.name);
        let key = key.unwrap_or_else(|| panic!("{} is no key of set", row.name));
        let unit = if row.unit == "0/1" || row.unit.is_empty() {
            String::new()
        } else {
            format!(" {}", row.unit)
        };
        let about = match row.change {
            Change::Live => {
                format!("{} {} to {}{unit}, {} by default", row.help, row.min, row.max, row.default)
            }
            Change::Start => {
                "Takes effect when a node starts: `lustrine node --set NAME=VALUE`.".into()
            }
        };
        assert_eq!(key.about, about, "{}", row.name);
        assert_eq!(refused(row.name).is_some(), row.change == Change::Start, "{}", row.name);
    }
    assert_eq!(SET.len(), TABLE.len() + 12, "and those of LNet that nodes do not have");
}
