//! Usage, help and lists of commands, from the table.

use core::fmt::Write;

use crate::table::{CommandSyntax, OptionSyntax, Tool, ValueKind};

/// The commands that every tool has, in the order of [`list_commands`].
pub const BUILTINS: [&str; 10] = [
    "quit",
    "exit",
    "help",
    "--help",
    "version",
    "--version",
    "list-commands",
    "--list-commands",
    "--ignore_errors",
    "ignore_errors",
];

/// Width of a column of [`list_commands`], and how many there are.
const CELL: usize = 20;
const CELLS: usize = 4;

/// The usage of a command: one line.
pub fn usage(tool: &Tool, syntax: &CommandSyntax) -> String {
    format!("Usage: {} {}\n", tool.name, syntax.usage)
}

/// The output of `help` without a command.
pub fn tool_help(tool: &Tool) -> String {
    let name = tool.name;
    let mut text = format!(
        "usage: {name} [COMMAND] [OPTIONS]... [ARGS]\n\
         Without any parameters, interactive mode is invoked\n\
         Try '{name} help <COMMAND>', or '{name} --list-commands' for a list of commands.\n"
    );
    rows(&mut text, tool.commands.iter().map(|syntax| (syntax.name.to_owned(), syntax.about)));
    text
}

/// The output of `help` for a command: its usage and its options.
pub fn command_help(tool: &Tool, syntax: &CommandSyntax) -> String {
    let mut text = usage(tool, syntax);
    let _ = writeln!(text, "{}", syntax.about);
    rows(&mut text, syntax.subcommands.iter().map(|under| (under.name.to_owned(), under.about)));
    let abouts: Vec<String> = syntax.options.iter().map(about).collect();
    let shown = syntax.options.iter().map(shown);
    rows(&mut text, shown.zip(abouts.iter().map(String::as_str)));
    text
}

/// All commands in four columns, as completion scripts read them.
pub fn list_commands(tool: &Tool) -> String {
    let names: Vec<&str> =
        BUILTINS.into_iter().chain(tool.commands.iter().map(|syntax| syntax.name)).collect();
    let mut text = String::new();
    for row in names.chunks(CELLS) {
        row.iter().for_each(|name| _ = write!(text, "{name:<CELL$}"));
        text.push('\n');
    }
    text
}

fn shown(option: &OptionSyntax) -> String {
    let letter = option.short.map_or("    ".to_owned(), |letter| format!("-{letter}, "));
    match option.kind {
        ValueKind::None => format!("{letter}--{}", option.long),
        kind => format!("{letter}--{} {}", option.long, kind.placeholder()),
    }
}

fn about(option: &OptionSyntax) -> String {
    match option.default {
        Some(default) => format!("{} ({default})", option.about),
        None => option.about.to_owned(),
    }
}

/// Rows of two columns, the first as wide as it needs to be.
fn rows<'a>(text: &mut String, rows: impl Iterator<Item = (String, &'a str)>) {
    let rows: Vec<(String, &str)> = rows.collect();
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    for (name, about) in rows {
        let _ = writeln!(text, "  {name:<width$}  {about}");
    }
}
