//! Commands that a running node of ours cannot carry out: why, and what to do instead.

use super::Lnetctl;
use super::table::refused;
use crate::errno::EOPNOTSUPP;
use crate::node::Env;
use crate::shell::Exit;

impl<O: Env> Lnetctl<'_, O> {
    /// Says that a command of the table is not for nodes of ours.
    pub(super) fn refuse(&mut self, path: &[&str]) -> Exit {
        let verb = match path {
            ["set", ..] => "set",
            ["lnet", verb] => verb,
            [_, .., verb @ ("add" | "del" | "set" | "show" | "reset")] => verb,
            _ => "manage",
        };
        let noun = match path {
            ["set", key] => key,
            ["fault", kind, _] => kind,
            [noun, ..] => noun,
            [] => "lnetctl",
        };
        let said = match path {
            ["lnet", "configure"] => "start a node with `lustrine node --config FILE`".to_owned(),
            ["lnet", _] => "end the process of the node, `lustrine node`, with SIGTERM".to_owned(),
            ["set", key] if refused(key).is_some() => {
                refused(key).map(str::to_owned).unwrap_or_default()
            }
            ["route" | "routing", ..] => "nodes of this release have no routes and do not route: \
                                          name nodes on networks that they are on"
                .to_owned(),
            other => format!(
                "nodes of this release have no {}; docs/lnetctl.md tells what lnetctl can ask",
                other.join(" ")
            ),
        };
        self.fail(verb, noun, -(EOPNOTSUPP as i32), said)
    }
}
