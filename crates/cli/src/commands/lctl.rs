//! `lustrine lctl`: shows a running node with the network commands of lctl. Grammar and layouts are
//! in [`lustrine_tools`].

use clap::Args;
use lustrine_tools::lctl::Lctl;

use super::tool;
use super::tool::running::TargetArgs;
use crate::output::Failure;

/// Show NIDs, peers and connections of a running node with the commands of lctl
#[derive(Args, Debug)]
#[command(after_help = "`lustrine lctl help` lists the commands, `lustrine lctl help CMD` \
                        explains one. See docs/lnetctl.md. A symbolic link named lctl to this \
                        program behaves as lctl.")]
pub(crate) struct LctlArgs {
    #[command(flatten)]
    target: TargetArgs,

    /// A command of lctl with its arguments; without one, commands are read from standard input
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    words: Vec<String>,
}

/// Runs the command.
pub(crate) fn run(args: &LctlArgs) -> Result<(), Failure> {
    let (mut node, settings) = args.target.connect(&args.words)?;
    let exit = tool::run(&mut Lctl::new(&mut node, &settings), &args.words)?;
    node.terminal.end(exit)
}
