use super::*;

#[test]
fn the_words_of_a_tool_begin_after_the_options_of_its_command() {
    let program = crate::Cli::command();
    for (line, expected) in [
        ("", Some("")),
        ("st", Some("st")),
        ("stop --", Some("stop --")),
        ("--net tcp=127.0.0.2 st", Some("st")),
        ("--net=tcp=127.0.0.2 stop b", Some("stop b")),
        ("--lenient st", Some("st")),
        ("-- stop ", Some("stop ")),
        ("--net ", None),
        ("--net tcp", None),
        ("--", None),
        ("--compat 2.15 --", None),
    ] {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let found = after_options(&program, "lst", &words).map(|words| words.join(" "));
        assert_eq!(found.as_deref(), expected, "{line:?}");
    }
    assert_eq!(after_options(&program, "no-command", &["x".to_owned()]), None);
}

#[test]
fn every_tool_is_a_command() {
    let program = crate::Cli::command();
    for manual in lustrine_tools::ALL {
        let command = program.find_subcommand(manual.tool.name);
        assert!(command.is_some_and(|command| !command.is_hide_set()), "{}", manual.tool.name);
    }
}

#[test]
fn the_generated_script_defines_the_function_that_is_called() {
    for script in [own_script(aot::Bash, FUNCTION), own_script(aot::Zsh, FUNCTION)] {
        let script = script.unwrap();
        assert!(script.lines().any(|line| line == "_lustrine_own() {"), "{script}");
    }
    assert!(own_script(aot::Fish, "lustrine").unwrap().contains("complete -c lustrine "));
}
