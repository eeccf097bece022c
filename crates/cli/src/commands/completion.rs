//! `lustrine completion SHELL`: the script with which a shell completes `lustrine` and the tools;
//! and the hidden command `complete`, which these scripts call.

use clap::{Args, Command, CommandFactory, ValueEnum};
use clap_complete::aot;
use lustrine_tools::complete::{self, Shell};

use crate::output::{Failure, print};

/// Print a completion script for a shell
#[derive(Args, Debug)]
#[command(after_help = "For the current shell: `source <(lustrine completion bash)`, or \
                        `lustrine completion fish | source`. See docs/completion.md for where to \
                        install scripts.")]
pub(crate) struct CompletionArgs {
    /// The shell
    #[arg(value_enum)]
    shell: ShellWord,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ShellWord {
    /// bash 4.3 or later
    Bash,
    /// zsh
    Zsh,
    /// fish
    Fish,
}

/// Runs the command.
pub(crate) fn run(args: &CompletionArgs) -> Result<(), Failure> {
    let (shell, own) = match args.shell {
        ShellWord::Bash => (Shell::Bash, own_script(aot::Bash, FUNCTION)?),
        // The first line names the commands to complete; the whole script has its own such line.
        ShellWord::Zsh => (Shell::Zsh, without_first_line(&own_script(aot::Zsh, FUNCTION)?)),
        ShellWord::Fish => (Shell::Fish, own_script(aot::Fish, NAME)?),
    };
    let tools: Vec<_> = lustrine_tools::ALL.iter().map(|manual| manual.tool).collect();
    print(&complete::script(shell, &own, &tools))
}

const NAME: &str = "lustrine";

/// The name of clap's functions, which [`complete::script`] calls.
const FUNCTION: &str = "lustrine_own";

fn own_script(generator: impl aot::Generator, name: &str) -> Result<String, Failure> {
    let mut script = Vec::new();
    aot::generate(generator, &mut shown(), name, &mut script);
    String::from_utf8(script).map_err(|_| "the script is not UTF-8".to_owned().into())
}

/// The program without its hidden commands, which scripts would offer.
fn shown() -> Command {
    let whole = crate::Cli::command();
    let commands = whole.get_subcommands().filter(|command| !command.is_hide_set());
    Command::new(NAME)
        .version(env!("CARGO_PKG_VERSION"))
        .args(whole.get_arguments().cloned())
        .subcommands(commands.cloned())
}

fn without_first_line(text: &str) -> String {
    text.split_once('\n').map_or_else(String::new, |(_, rest)| rest.to_owned())
}

/// Print the candidates for the last argument, for completion scripts
#[derive(Args, Debug)]
pub(crate) struct CompleteArgs {
    /// A tool; or lustrine, in which case the first word is a tool
    command: String,

    /// The words after its name, up to the one to complete
    #[arg(last = true)]
    words: Vec<String>,
}

/// Runs `complete`. It never fails, as a shell has nowhere to show an error.
pub(crate) fn answer(args: &CompleteArgs) -> Result<(), Failure> {
    let (name, words) = match args.command.as_str() {
        NAME => match args.words.split_first() {
            Some((name, rest)) => {
                (name.as_str(), after_options(&crate::Cli::command(), name, rest))
            }
            None => return Ok(()),
        },
        name => (name, Some(&args.words[..])),
    };
    match (lustrine_tools::tool(name), words) {
        (Some(tool), Some(words)) => {
            let place = words.len().saturating_sub(1);
            print(&complete::complete(tool, words, place).to_string())
        }
        _ => Ok(()),
    }
}

/// The words of a tool after the options of the command of this name; `None` if the last word is
/// one of the options, or the value of one.
fn after_options<'a>(program: &Command, name: &str, words: &'a [String]) -> Option<&'a [String]> {
    let command = program.find_subcommand(name)?;
    let mut rest = words;
    loop {
        let (first, after) = rest.split_first()?;
        if first == "--" {
            return (!after.is_empty()).then_some(after);
        }
        let Some(option) = first.strip_prefix('-') else { return Some(rest) };
        // The word to complete is an option.
        if after.is_empty() {
            return None;
        }
        let takes_next = command.get_arguments().any(|argument| {
            let long =
                option.strip_prefix('-').is_some_and(|long| argument.get_long() == Some(long));
            let short = argument.get_short().is_some_and(|letter| option == letter.to_string());
            (long || short) && argument.get_action().takes_values()
        });
        rest = if takes_next { after.get(1..)? } else { after };
        if rest.is_empty() {
            return None;
        }
    }
}

#[cfg(test)]
mod tests;
