//! `lustrine lnetctl`: a running node, in words that administrators know. Grammar and layouts are
//! [`lustrine_tools`]'.

use clap::Args;
use lustrine_tools::lnetctl::Lnetctl;

use super::tool;
use super::tool::running::TargetArgs;
use crate::output::Failure;

/// What a running node knows, and ping and discovery, in the words of lnetctl
#[derive(Args, Debug)]
#[command(after_help = "`lustrine lnetctl help` lists its commands, `lustrine lnetctl help CMD` \
                        explains one; docs/lnetctl.md tells the rest. A link named lnetctl to this \
                        program is lnetctl.")]
pub(crate) struct LnetctlArgs {
    #[command(flatten)]
    target: TargetArgs,

    /// A command of lnetctl and its words; without one, commands are read from standard input
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    words: Vec<String>,
}

/// Runs the command.
pub(crate) fn run(args: &LnetctlArgs) -> Result<(), Failure> {
    let (mut node, settings) = args.target.connect()?;
    let exit = tool::run(&mut Lnetctl::new(&mut node, &settings), &args.words)?;
    node.terminal.end(exit)
}
