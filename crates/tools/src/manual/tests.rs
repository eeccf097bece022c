use super::*;
use crate::ALL;

#[test]
fn text_is_shown_unchanged() {
    for (text, roff) in [
        ("plain words", "plain words"),
        ("--long -s", "\\-\\-long \\-s"),
        (".TH is text", "\\&.TH is text"),
        ("a.b", "a.b"),
        ("'quoted'", "\\(aqquoted\\(aq"),
        ("say \"it\"", "say \\(dqit\\(dq"),
        ("back\\slash", "back\\(rsslash"),
        ("`~^", "\\(ga\\(ti\\(ha"),
        ("two\nlines\there", "two lines here"),
        ("\u{e9}", "\\[u00E9]"),
        ("", ""),
    ] {
        assert_eq!(escaped(text), roff, "{text:?}");
    }
    assert_eq!(bold(".x-y"), "\\fB\\&.x\\-y\\fR");
}

#[test]
fn sentences_have_a_beginning_and_an_end() {
    for (text, sentence_of_it) in [
        ("shows the session", "Shows the session."),
        ("done.", "Done."),
        ("new_session first", "new_session first."),
        ("", ""),
    ] {
        assert_eq!(sentence(text), sentence_of_it);
    }
}

#[test]
fn every_command_option_and_value_is_on_its_page() {
    for manual in ALL {
        let page = manual.page("lustrine 1.0");
        for syntax in manual.tool.commands {
            every_word_of(&page, syntax, "");
        }
        for (status, meaning) in manual.statuses {
            assert!(page.contains(&format!("{}\n{}\n", bold(status), escaped(meaning))), "{page}");
        }
        for (name, _) in manual.environment {
            assert!(page.contains(&format!(".TP\n{}\n", bold(name))), "{name}: {page}");
        }
    }
}

fn every_word_of(page: &str, syntax: &CommandSyntax, path: &str) {
    let path = format!("{path} {}", syntax.name).trim_start().to_owned();
    syntax.subcommands.iter().for_each(|under| every_word_of(page, under, &path));
    if !syntax.subcommands.is_empty() {
        return;
    }
    let heading = format!(".SS \"{}\"\n", escaped(&path));
    let (_, rest) = page.split_once(&heading).unwrap_or_else(|| panic!("no {path} in {page}"));
    let part = rest.split(".SS").next().unwrap_or_default();
    assert!(part.contains(&escaped(&sentence(syntax.about))), "{part}");
    for option in syntax.options {
        assert!(part.contains(&bold(&format!("--{}", option.long))), "--{}: {part}", option.long);
    }
    for word in syntax.positionals {
        assert!(part.contains(&escaped(word.name)), "{}: {part}", word.name);
    }
}

#[test]
fn lines_are_valid_roff() {
    for manual in ALL {
        let page = manual.page("lustrine 1.0");
        let title = manual.tool.name.to_uppercase();
        let section = manual.section;
        let begin = format!(".TH \"{title}\" \"{section}\" \"\" \"lustrine 1.0\" \"Lustrine\"\n");
        assert!(page.starts_with(&begin), "{page}");
        assert!(page.is_ascii() && page.ends_with('\n') && !page.contains("\n\n"), "{page}");
        let known = [".TH ", ".SH ", ".SS ", ".PP", ".TP", ".BR ", ".br"];
        for line in page.lines().filter(|line| line.starts_with(['.', '\''])) {
            assert!(known.iter().any(|request| line.starts_with(request)), "{line}");
        }
    }
}

#[test]
fn an_option_has_its_paragraph() {
    let page = crate::lst::MANUAL.page("lustrine 1.0");
    let concurrency = ".TP\n\\fB\\-c\\fR, \\fB\\-\\-concurrency\\fR \\fIN\\fR\n\
                       RPCs in flight from a client to each server. 1 to 1024; default: 1.\n";
    assert!(page.contains(concurrency), "{page}");
    let usage = "\\fBlst add_test\\fR\\fI [OPTION]... TEST [PARAMETER]...\\fR\n";
    assert!(page.contains(usage), "{page}");
    assert!(page.contains(".BR lustrine (1)\n"), "{page}");
}
