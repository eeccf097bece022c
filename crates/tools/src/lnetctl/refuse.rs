//! Commands that a Lustrine node does not support: the reason, and what to do instead.

use super::Lnetctl;
use super::table::refused;
use crate::errno::EOPNOTSUPP;
use crate::node::Env;
use crate::shell::Exit;

impl<O: Env> Lnetctl<'_, O> {
    /// Refuses a command of the table that Lustrine nodes do not support.
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
            ["lnet", _] => "stop the process `lustrine node` with SIGTERM".to_owned(),
            ["set", key] if refused(key).is_some() => {
                refused(key).map(str::to_owned).unwrap_or_default()
            }
            ["route" | "routing", ..] => "routing is not supported in this release: use NIDs on \
                                          networks of this node"
                .to_owned(),
            other => format!(
                "{} is not supported in this release; docs/lnetctl.md lists what is",
                other.join(" ")
            ),
        };
        self.fail(verb, noun, -(EOPNOTSUPP as i32), said)
    }
}
