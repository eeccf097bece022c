//! What the shell on a host does: it takes the program into a private directory, runs it as a node,
//! and removes the directory whatever happens.

use super::program::Program;
use crate::commands::plan_node::{DIRECTORY, MARK, PROGRAM};

/// How a line begins that reports a failed step.
pub(super) const FAILED: &str = "failed ";

/// The shell runs; the system and the machine follow.
pub(super) const SHELL: &str = "shell ";

/// The program was copied and runs.
pub(super) const COPIED: &str = "copied";

/// The directory is removed, at the end or after a failure.
pub(super) const GONE: &str = "gone";

/// The values of a script.
pub(super) struct Script<'a> {
    /// The directory in which a new one is made; `None` for the host's own choice.
    pub(super) directory: Option<&'a str>,
    /// The program that the script takes from its standard input.
    pub(super) program: &'a Program,
    /// The arguments of the node.
    pub(super) args: Vec<String>,
}

impl Script<'_> {
    /// The script, for a POSIX shell. It is one command, so that a shell has read all of it before
    /// the program's bytes arrive, which are sent after its first report. Small systems may have no
    /// cksum; there the size must do. A signal that ends the group does not end mktemp, which would
    /// leave a directory whose name the shell never learns; the shell's own trap runs after it.
    pub(super) fn text(&self) -> String {
        let base = match self.directory {
            Some(path) => quoted(path),
            None => "\"${TMPDIR:-/tmp}\"".to_owned(),
        };
        let args: Vec<String> = self.args.iter().map(|word| quoted(word)).collect();
        let (size, sum) = (self.program.bytes.len(), self.program.cksum);
        let file = format!("\"$d\"/{PROGRAM}");
        format!(
            "{{\n\
             umask 077\n\
             say() {{ echo \"{MARK}$*\"; }}\n\
             fail() {{ say failed \"$1\"; exit 1; }}\n\
             d=\n\
             trap 'test -z \"$d\" || {{ rm -rf \"$d\" && say {GONE}; }}' EXIT\n\
             trap 'exit 1' HUP INT PIPE TERM\n\
             d=$(trap '' HUP INT PIPE TERM; mktemp -d {base}/{DIRECTORY}XXXXXX) ||\n\
             fail directory\n\
             say shell \"$(uname -s)\" \"$(uname -m)\"\n\
             head -c {size} >{file} || fail copy\n\
             if command -v cksum >/dev/null; then have=$(cksum <{file})\n\
             else have=\"{sum} $(($(wc -c <{file})))\"; fi\n\
             test \"$have\" = '{sum} {size}' || {{\n\
             echo 'the program did not arrive as it was sent' >&2; fail copy; }}\n\
             chmod 700 {file} || fail copy\n\
             {file} --version </dev/null >/dev/null || fail run\n\
             say {COPIED}\n\
             LUSTRINE_LOG=warn {file} plan-node --remove-program {} || fail node\n\
             exit\n\
             }}\n",
            args.join(" ")
        )
    }
}

/// A word that a shell reads as this text.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_shell_reads_a_quoted_word_as_it_was() {
        for text in ["", "a b", "it's", "$(reboot)", "`x`", "a\\'b", "\"", "*", "-n", "''"] {
            let script = format!("printf %s {}", quoted(text));
            let done = Command::new("sh").args(["-c", &script]).output().expect("a shell");
            assert_eq!(String::from_utf8_lossy(&done.stdout), text);
        }
    }
}
