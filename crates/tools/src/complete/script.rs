//! Scripts for shells.

use crate::table::Tool;

/// A shell that completes words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shell {
    /// bash, from 4.3 on.
    Bash,
    /// zsh.
    Zsh,
    /// fish.
    Fish,
}

/// The script that completes tools, under their own names and as words of `lustrine`.
/// `own` is a script that completes everything else of `lustrine`. For bash and zsh it defines a
/// function `_lustrine_own`, which is called in the shell's usual way for completion functions.
pub fn script(shell: Shell, own: &str, tools: &[&Tool]) -> String {
    let names: Vec<&str> = tools.iter().map(|tool| tool.name).collect();
    let template = match shell {
        Shell::Bash => include_str!("script/lustrine.bash"),
        Shell::Zsh => include_str!("script/lustrine.zsh"),
        Shell::Fish => include_str!("script/lustrine.fish"),
    };
    // `own` is inserted last, so that no placeholder in it is replaced.
    let text = template.replace("@TOOLS@", &names.join(" "));
    text.replace("@CASES@", &names.join("|")).replace("# @OWN@\n", own)
}
