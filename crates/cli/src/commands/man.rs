//! `lustrine man`: manual pages of the program, its commands and the tools.

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Args, Command, CommandFactory};

use crate::output::{Failure, print};

/// Print a manual page, or write all of them to a directory
#[derive(Args, Debug)]
#[command(after_help = "To read a page: `lustrine man lst | man -l -`. See docs/completion.md \
                        for where to install pages.")]
pub(crate) struct ManArgs {
    /// lustrine, a tool such as lst, or a command such as lustrine-node [default: lustrine]
    #[arg(value_name = "PAGE", conflicts_with = "all")]
    page: Option<String>,

    /// Write all pages to this directory, which is created if it is missing
    #[arg(long, value_name = "DIR")]
    all: Option<PathBuf>,
}

/// Runs the command.
pub(crate) fn run(args: &ManArgs) -> Result<(), Failure> {
    let pages = pages()?;
    match (&args.all, args.page.as_deref().unwrap_or(PROGRAM)) {
        (Some(directory), _) => write_all(&pages, directory),
        (None, name) => match pages.iter().find(|page| page.name == name) {
            Some(page) => print(&page.text),
            None => {
                let names: Vec<&str> = pages.iter().map(|page| page.name.as_str()).collect();
                let of_command = format!("{PROGRAM}-{name}");
                let hint = match names.contains(&&*of_command) {
                    true => format!("that of the command is {of_command}"),
                    false => format!("the pages are {}", names.join(", ")),
                };
                Err(Failure::Usage(format!("there is no page {name:?}; {hint}")))
            }
        },
    }
}

const PROGRAM: &str = "lustrine";

/// A manual page.
struct Page {
    name: String,
    file_name: String,
    text: String,
}

/// All pages: the program's own, then those of the tools, then those of the commands.
fn pages() -> Result<Vec<Page>, Failure> {
    let version = format!("{PROGRAM} {}", env!("CARGO_PKG_VERSION"));
    let mut program = without_help(crate::Cli::command());
    program.build();
    let mut pages = Vec::new();
    pages_of(&program, PROGRAM, &mut pages)?;
    let tools = lustrine_tools::ALL.iter().map(|manual| Page {
        name: manual.tool.name.to_owned(),
        file_name: manual.file_name(),
        text: manual.page(&version),
    });
    let tools: Vec<Page> = tools.chain([routerstat(&program)?]).collect();
    pages.splice(1..1, tools);
    Ok(pages)
}

/// The page of `routerstat`, which has no commands of its own: that of `lustrine routerstat` under
/// the name by which administrators call it, in their section.
fn routerstat(program: &Command) -> Result<Page, Failure> {
    let name = crate::ROUTERSTAT;
    let command = program.find_subcommand(name).expect("it is a command of the program");
    let command = command.clone().bin_name(name).display_name(name);
    page_of(command, name, "8")
}

/// The page of a command, and those of its own commands.
fn pages_of(command: &Command, name: &str, pages: &mut Vec<Page>) -> Result<(), Failure> {
    pages.push(page_of(command.clone(), name, "1")?);
    for under in command.get_subcommands().filter(|under| !under.is_hide_set()) {
        pages_of(under, &format!("{name}-{}", under.get_name()), pages)?;
    }
    Ok(())
}

fn page_of(command: Command, name: &str, section: &str) -> Result<Page, Failure> {
    let mut text = Vec::new();
    let source = format!("{PROGRAM} {}", env!("CARGO_PKG_VERSION"));
    // An empty date would be left out, and the next field would take its place.
    let man = clap_mangen::Man::new(command).title(name).section(section).date(" ");
    man.manual("Lustrine")
        .source(source)
        .render(&mut text)
        .map_err(|error| format!("cannot make the page of {name}: {error}"))?;
    let text = String::from_utf8(text).map_err(|_| format!("the page of {name} is not UTF-8"))?;
    Ok(Page { name: name.to_owned(), file_name: format!("{name}.{section}"), text })
}

/// The same command without its `help` subcommands, which have no page.
fn without_help(command: Command) -> Command {
    command.disable_help_subcommand(true).mut_subcommands(without_help)
}

fn write_all(pages: &[Page], directory: &Path) -> Result<(), Failure> {
    fs::create_dir_all(directory)
        .map_err(|error| format!("cannot create the directory {}: {error}", directory.display()))?;
    for page in pages {
        let path = directory.join(&page.file_name);
        lustrine_sys::files::write(&path, &page.text)
            .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    }
    print(&format!("{} pages written to {}\n", pages.len(), directory.display()))
}
