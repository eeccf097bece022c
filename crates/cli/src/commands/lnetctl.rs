//! `lustrine lnetctl`: shows and changes a running node with the commands of lnetctl. Grammar and
//! layouts are in [`lustrine_tools`].

use clap::Args;
use lustrine_tools::lnetctl::Lnetctl;

use super::tool;
use super::tool::running::ToolArgs;
use crate::output::Failure;

/// Show and change a running node with the commands of lnetctl
#[derive(Args, Debug)]
#[command(after_help = "`lustrine lnetctl help` lists the commands, `lustrine lnetctl help CMD` \
                        explains one. See docs/lnetctl.md. A symbolic link named lnetctl to this \
                        program behaves as lnetctl.")]
pub(crate) struct LnetctlArgs {
    #[command(flatten)]
    tool: ToolArgs,
}

/// Runs the command.
pub(crate) fn run(args: &LnetctlArgs) -> Result<(), Failure> {
    let (mut node, settings) = args.tool.connect()?;
    let exit = tool::run(&mut Lnetctl::new(&mut node, &settings), &args.tool.words)?;
    node.terminal.end(exit)
}
