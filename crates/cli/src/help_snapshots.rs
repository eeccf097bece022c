//! The help texts of all commands, held by files in `tests/snapshots/help`, so that a change of
//! words is visible in review. `UPDATE_SNAPSHOTS=1 cargo test -p lustrine-cli` writes the files
//! again.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use clap::{Command, CommandFactory};
use lustrine_tools::help;
use lustrine_tools::table::{CommandSyntax, Tool};

fn directory() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots/help")
}

/// The help of a command and its subcommands, by the name of its file.
fn add(command: &mut Command, name: &str, texts: &mut BTreeMap<String, String>) {
    texts.insert(format!("{name}.txt"), trimmed(&command.render_long_help().to_string()));
    for under in command.get_subcommands_mut().filter(|under| under.get_name() != "help") {
        let name = format!("{name}-{}", under.get_name());
        add(under, &name, texts);
    }
}

/// The help of a tool: its own, then that of each command.
fn of_tool(tool: &Tool) -> String {
    let mut text = help::tool_help(tool);
    tool.commands.iter().for_each(|command| add_command(tool, command, &mut text));
    trimmed(&text)
}

fn add_command(tool: &Tool, command: &CommandSyntax, text: &mut String) {
    *text += &format!("\n{}", help::command_help(tool, command));
    command.subcommands.iter().for_each(|under| add_command(tool, under, text));
}

/// Without blanks at the ends of lines, which editors remove.
fn trimmed(text: &str) -> String {
    text.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

fn all() -> BTreeMap<String, String> {
    let mut program = crate::Cli::command().term_width(100);
    program.build();
    let mut texts = BTreeMap::new();
    add(&mut program, "lustrine", &mut texts);
    for manual in lustrine_tools::ALL {
        texts.insert(format!("{}.txt", manual.tool.name), of_tool(manual.tool));
    }
    texts
}

#[test]
fn help_texts_are_as_recorded() {
    let (texts, directory) = (all(), directory());
    assert!(texts.len() > 20, "only {} commands found", texts.len());
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some_and(|value| value == "1") {
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir_all(&directory).unwrap();
        for (name, text) in &texts {
            fs::write(directory.join(name), text).unwrap();
        }
    }
    let hint = "if the change is meant, run the test with UPDATE_SNAPSHOTS=1 and commit the file";
    for (name, text) in &texts {
        let recorded = fs::read_to_string(directory.join(name)).unwrap_or_default();
        assert!(recorded == *text, "{name}: {hint}\nrecorded:\n{recorded}\nnow:\n{text}");
    }
    for entry in fs::read_dir(&directory).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(
            texts.contains_key(&name),
            "{name} belongs to a command that does not exist: {hint}"
        );
    }
}
