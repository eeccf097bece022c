//! `lustrine lctl`: a running node, in words that administrators know. Grammar and layouts are
//! [`lustrine_tools`]'.

use clap::Args;
use lustrine_tools::lctl::Lctl;

use super::tool;
use super::tool::running::TargetArgs;
use crate::output::Failure;

/// NIDs, peers and connections of a running node, in the words of lctl
#[derive(Args, Debug)]
#[command(after_help = "`lustrine lctl help` lists its commands, `lustrine lctl help CMD` \
                        explains one; docs/lnetctl.md tells the rest. A link named lctl to this \
                        program is lctl.")]
pub(crate) struct LctlArgs {
    #[command(flatten)]
    target: TargetArgs,

    /// A command of lctl and its words; without one, commands are read from standard input
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    words: Vec<String>,
}

/// Runs the command.
pub(crate) fn run(args: &LctlArgs) -> Result<(), Failure> {
    let (mut node, settings) = args.target.connect()?;
    let exit = tool::run(&mut Lctl::new(&mut node, &settings), &args.words)?;
    node.terminal.end(exit)
}
