//! Scripts for shells and manual pages, checked with their readers: bash, man, groff; zsh and fish
//! if they are installed.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};

use lustrine_tools::ALL;
use lustrine_tools::table::CommandSyntax;

use lustrine_testing::{Need, not_run};

use crate::common::{Scratch, clean, finish, lustrine};

/// A user of bash with the script, the program and links for the tools.
struct User {
    scratch: Scratch,
}

impl User {
    fn new() -> User {
        let scratch = Scratch::new();
        scratch.write("script", &script("bash"));
        let names = ALL.iter().map(|manual| manual.tool.name).chain(["lustrine"]);
        for name in names {
            symlink(env!("CARGO_BIN_EXE_lustrine"), scratch.file(name)).expect("a link");
        }
        User { scratch }
    }

    /// The output of bash for a script, after it has read the completion script.
    #[track_caller]
    fn bash(&self, text: &str) -> String {
        let mut command = Command::new("bash");
        clean(&mut command);
        let path = std::env::var("PATH").unwrap_or_default();
        let text = format!("source script || exit 9\n{text}");
        command.args(["--norc", "-u", "-c", &text]).current_dir(self.scratch.path());
        command.env("PATH", format!("{}:{path}", self.scratch.path().display()));
        let done = finish(&mut command).ok();
        assert_eq!(done.stderr, "", "{text}");
        done.stdout
    }

    /// The candidates for the last of the words, as bash splits them.
    #[track_caller]
    fn offered(&self, words: &[&str]) -> Vec<String> {
        let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
        let last = words.len() - 1;
        let said = self.bash(&format!(
            "COMP_WORDS=({}); COMP_CWORD={last}\n\
             COMP_LINE=\"${{COMP_WORDS[*]}}\"; COMP_POINT=${{#COMP_LINE}}\n\
             _lustrine_any '{}' '{}' '{}'\n\
             printf '%s\\n' \"${{COMPREPLY[@]}}\"",
            quoted.join(" "),
            words[0],
            words[last],
            words[last - 1],
        ));
        said.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
    }
}

/// The script of a shell.
fn script(shell: &str) -> String {
    finish(lustrine().args(["completion", shell])).ok().stdout
}

#[test]
fn bash_completes_words_of_tools() {
    let user = User::new();
    for (words, expected) in [
        (&["lst", "list_"][..], &["list_group", "list_batch"][..]),
        (&["lst", "stop", "--f"], &["--force"]),
        (&["lst", "update_group", "g", "--clean", "d"], &["down"]),
        // bash splits words at = and @.
        (&["lst", "update_group", "g", "--clean", "=", "d"], &["down"]),
        (
            &["lst", "update_group", "g", "--clean", "="],
            &["active", "busy", "down", "unknown", "invalid"],
        ),
        (&["lst", "add_test", "brw", "size"], &["size="]),
        (&["lst", "add_test", "brw", "check", "=", "f"], &["full"]),
        (&["lst", "ping", "--nodes", "10.0.0.1", "@", "tcp", "--se"], &["--session", "--server"]),
        (&["lst", "add_group", "g", ""], &[]),
        (&["lst", "no_such_command", ""], &[]),
        // As words of the program, also after its options.
        (&["lustrine", "lst", "list_"], &["list_group", "list_batch"]),
        (
            &["lustrine", "lst", "--net", "tcp", "=", "127.0.0.2", "stop", "--"],
            &["--force", "--help"],
        ),
        (&["lustrine", "--he"], &["--help"]),
        (&["lustrine", "disc"], &["discover"]),
        (&["lustrine", "lst", "--comp"], &["--compat"]),
        (&["lustrine", "show", "st"], &["stats"]),
        (&["lustrine", "completion", "b"], &["bash"]),
    ] {
        assert_eq!(user.offered(words), expected, "{words:?}");
    }
    let commands = user.offered(&["lustrine", ""]);
    assert!(commands.iter().all(|name| name != "complete" && name != "raw-tcp"), "{commands:?}");
    let bound = user.bash("complete -p lustrine lst");
    assert_eq!(bound.matches("-F _lustrine_any").count(), 2, "{bound}");
}

/// As in scripts of administrators: a list in columns, and a function of their own.
#[test]
fn bash_completes_by_lists_of_commands() {
    let user = User::new();
    for tool in ALL.iter().map(|manual| manual.tool) {
        let name = tool.name;
        let said = user.bash(&format!("compgen -W \"$({name} --list-commands)\" -- ''"));
        let listed: BTreeSet<&str> = said.lines().collect();
        for syntax in tool.commands {
            assert!(listed.contains(syntax.name), "{name} {}: {said}", syntax.name);
        }
    }
}

#[test]
fn every_command_of_every_tool_is_offered_and_on_its_page() {
    let user = User::new();
    for manual in ALL {
        let name = manual.tool.name;
        let page = finish(lustrine().args(["man", name])).ok().stdout;
        let commands = user.offered(&[name, ""]);
        for syntax in manual.tool.commands {
            assert!(commands.iter().any(|command| command == syntax.name), "{commands:?}");
            for leaf in leaves(syntax) {
                let heading = format!(".SS \"{}\"\n", leaf.replace('-', "\\-"));
                assert!(page.contains(&heading), "{leaf:?} is not in {page}");
            }
        }
    }
}

/// A command with its path, or its subcommands.
fn leaves(syntax: &CommandSyntax) -> Vec<String> {
    if syntax.subcommands.is_empty() {
        return vec![syntax.name.to_owned()];
    }
    let under = syntax.subcommands.iter().flat_map(leaves);
    under.map(|leaf| format!("{} {leaf}", syntax.name)).collect()
}

#[test]
fn shells_can_read_their_scripts() {
    let scratch = Scratch::new();
    for shell in ["bash", "zsh", "fish"] {
        let path = scratch.write(shell, &script(shell));
        match is_installed(shell) {
            true => _ = finish(Command::new(shell).arg("-n").arg(path)).ok().expect_stderr(&[]),
            false => not_run(Need::Program, &format!("{shell} is not installed")),
        }
    }
}

#[test]
fn the_program_answers_completion_scripts() {
    let answer = |words: &[&str]| finish(lustrine().arg("complete").args(words)).ok().stdout;
    assert_eq!(answer(&["lst", "--", "run", ""]), ":batch\n");
    let shown = "--force\taborts RPCs in flight\n";
    assert_eq!(answer(&["lst", "--", "stop", "--f"]), shown);
    assert_eq!(answer(&["lustrine", "--", "lst", "stop", "--f"]), shown);
    for nothing in [&["lst", "--", "x", ""][..], &["no-tool", "--", ""], &["lustrine"], &["lst"]] {
        let said = answer(nothing);
        assert!(said.is_empty() || nothing == ["lst"], "{nothing:?}: {said}");
    }
}

#[test]
fn pages_are_read_without_warnings() {
    let scratch = Scratch::new();
    let directory = scratch.file("pages/of/lustrine");
    let said = finish(lustrine().arg("man").arg("--all").arg(&directory)).ok().stdout;
    let mut paths: Vec<_> = fs::read_dir(&directory)
        .expect("the directory was made")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    paths.sort();
    assert_eq!(said, format!("{} pages written to {}\n", paths.len(), directory.display()));
    for name in ["lustrine.1", "lustrine-node.1", "lustrine-lst.1", "lst.8", "routerstat.8"] {
        assert!(paths.contains(&directory.join(name)), "no {name} in {paths:?}");
    }
    for name in ["lustrine-complete.1", "lustrine-raw-tcp.1", "lustrine-help.1"] {
        assert!(!paths.contains(&directory.join(name)), "{name} is internal");
    }
    // -ww enables every warning; the formatted text does not matter.
    reads(&paths, "groff", &["-ww", "-man", "-Tutf8", "-z"]);
    reads(&paths, "man", &["--warnings=w", "-l", "--"]);
    reads(&paths, "mandoc", &["-Tlint", "-Werror"]);
}

/// It is called by its own name, and has no command before its interval.
#[test]
fn routerstat_has_a_page_of_its_own() {
    let page = finish(lustrine().args(["man", "routerstat"])).ok().stdout;
    assert!(page.contains(".TH routerstat 8 "), "{page}");
    assert!(page.contains("\\fBrouterstat\\fR [\\fB\\-\\-json\\fR]"), "{page}");
    assert!(
        !page.contains("lustrine routerstat") && !page.contains("lustrine\\-routerstat"),
        "{page}"
    );
}

/// Asserts that a formatter reads the pages without a warning.
#[track_caller]
fn reads(paths: &[impl AsRef<Path>], reader: &str, options: &[&str]) {
    if !is_installed(reader) {
        not_run(Need::Program, &format!("{reader} is not installed"));
        return;
    }
    for path in paths.iter().map(AsRef::as_ref) {
        let mut command = Command::new(reader);
        command.args(options).arg(path).env("LC_ALL", "C.UTF-8").env("MANPAGER", "cat");
        let done = finish(&mut command).ok();
        assert_eq!(done.stderr, "", "{reader} of {}", path.display());
    }
}

#[test]
fn usage_errors_are_explained() {
    finish(lustrine().args(["man", "unknown"])).expect_code(2).expect_stderr(&[
        "there is no page \"unknown\"",
        "lustrine, lst, lnetctl, lctl, routerstat, lustrine-",
    ]);
    finish(lustrine().args(["man", "lst", "--all", "x"])).expect_code(2);
    finish(lustrine().args(["completion", "tcsh"]))
        .expect_code(2)
        .expect_stderr(&["bash, zsh, fish"]);
    let scratch = Scratch::new();
    let file = scratch.write("file", "");
    finish(lustrine().arg("man").arg("--all").arg(&file))
        .expect_error(&["cannot create the directory"]);
}

fn is_installed(program: &str) -> bool {
    let mut command = Command::new(program);
    command.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // A program without the option may be installed as well.
    command.status().is_ok()
}
