//! `lustrine lctl`: shows a running node with the network commands of lctl. Grammar and layouts are
//! in [`lustrine_tools`].

use clap::Args;
use lustrine_tools::lctl::Lctl;

use super::tool;
use super::tool::running::ToolArgs;
use crate::output::Failure;

/// Show NIDs, peers and connections of a running node with the commands of lctl
#[derive(Args, Debug)]
#[command(after_help = "`lustrine lctl help` lists the commands, `lustrine lctl help CMD` \
                        explains one. See docs/lnetctl.md. A symbolic link named lctl to this \
                        program behaves as lctl.")]
pub(crate) struct LctlArgs {
    #[command(flatten)]
    tool: ToolArgs,
}

/// Runs the command.
pub(crate) fn run(args: &LctlArgs) -> Result<(), Failure> {
    let (mut node, settings) = args.tool.connect()?;
    let exit = tool::run(&mut Lctl::new(&mut node, &settings), &args.tool.words)?;
    node.terminal.end(exit)
}
