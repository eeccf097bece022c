//! Requests to the console, and reports of its errors.

use core::fmt::Display;

use lustrine_selftest::console::{Answer, Command, NodeReply, Refusal, Reply};
use lustrine_wire::nid::{Nid, PID_LUSTRE, ProcessId};
use lustrine_wire::srpc::{FEATURE_BULK_LEN, FEATURES_KNOWN};

use super::{ConsoleError, Env, Lst, NODE_REFUSED, RPC_FAILED};
use crate::errno::{self, EACCES, EEXIST, EFAULT, EINVAL, ENOENT, EPERM, EPROTO, ESHUTDOWN, ESRCH};
use crate::help;
use crate::nids::{self, NidsError};
use crate::shell::{Compat, Exit, Program};

/// The purpose of a command, for its errors.
#[derive(Clone, Copy, Debug)]
pub(super) struct CommandContext<'a> {
    /// The thing: `group`.
    pub(super) what: &'a str,
    /// The action: `add group`.
    pub(super) action: &'a str,
}

/// A node as `lst` prints it.
pub(super) fn id(nid: &Nid) -> impl Display + use<> {
    ProcessId { nid: *nid, pid: PID_LUSTRE }
}

impl<O: Env> Lst<'_, O> {
    /// Prints a line of output.
    pub(super) fn say(&mut self, line: impl Display) {
        self.env.out(&format!("{line}\n"));
    }

    /// Prints a line to standard error.
    pub(super) fn warn(&mut self, line: impl Display) {
        self.env.err(&format!("{line}\n"));
    }

    /// Prints why a command is refused and returns the exit status.
    pub(super) fn refuse(&mut self, line: impl Display) -> Exit {
        self.warn(line);
        Exit::FAILURE
    }

    /// Prints the usage of a command.
    pub(super) fn usage(&mut self, name: &str) -> Exit {
        let tool = self.tool();
        if let Some(syntax) = tool.commands.iter().find(|syntax| syntax.name == name) {
            self.env.out(&help::usage(tool, syntax));
        }
        Exit::usage(self.settings.compat)
    }

    /// The key of the session; `None` if there is no usable one.
    pub(super) fn key(&self) -> Option<u32> {
        let key: u32 = self.settings.session.as_deref()?.trim().parse().ok()?;
        (key != 0).then_some(key)
    }

    /// Stops a command that needs a key and has none.
    pub(super) fn check_key(&mut self, name: &str) -> Result<(), Exit> {
        let may_do_without = match self.settings.compat {
            Compat::V2_15 => name == "show_session",
            Compat::V2_16 => matches!(name, "show_session" | "new_session"),
        };
        if self.key().is_some() || may_do_without {
            return Ok(());
        }
        Err(self.refuse(
            "Can't find env LST_SESSION or value is not valid (a number above 0, the same for all \
             commands of a session: export LST_SESSION=$$)",
        ))
    }

    /// The features that a session should have.
    pub(super) fn features(&self) -> Option<u32> {
        let Some(text) = &self.settings.features else { return Some(FEATURE_BULK_LEN) };
        let text = text.trim();
        let digits = text.strip_prefix("0x").or(text.strip_prefix("0X")).unwrap_or(text);
        let mask = u32::from_str_radix(digits, 16).ok()?;
        (mask & !FEATURES_KNOWN == 0).then_some(mask)
    }

    pub(super) fn check_features(&mut self) -> Result<(), Exit> {
        if self.features().is_some() {
            return Ok(());
        }
        let given = self.settings.features.clone().unwrap_or_default();
        Err(self
            .refuse(format!("Invalid LST_FEATURES: {given} (a hex mask; only bit 1 is supported)")))
    }

    /// Sends a command to the console.
    pub(super) fn ask(
        &mut self,
        context: CommandContext<'_>,
        command: Command,
    ) -> Result<Answer, Exit> {
        let key = self.key().unwrap_or_default();
        let answer = self.env.ask(key, command);
        answer.map_err(|error| self.failed(context, error))
    }

    /// The same, if the answer is a list of nodes' replies, or nothing if no node was queried.
    pub(super) fn ask_nodes(
        &mut self,
        context: CommandContext<'_>,
        command: Command,
    ) -> Result<Vec<NodeReply>, Exit> {
        match self.ask(context, command)? {
            Answer::Replies(said) => Ok(said),
            Answer::Done => Ok(Vec::new()),
            _ => Err(self.misunderstood(context)),
        }
    }

    /// The same, if the answer is a list of names.
    pub(super) fn ask_names(
        &mut self,
        context: CommandContext<'_>,
        command: Command,
    ) -> Result<Vec<String>, Exit> {
        match self.ask(context, command)? {
            Answer::Names(names) => Ok(names),
            _ => Err(self.misunderstood(context)),
        }
    }

    /// The console sent an answer of another kind.
    pub(super) fn misunderstood(&mut self, context: CommandContext<'_>) -> Exit {
        let why = "unexpected reply from the console; the versions may differ".to_owned();
        self.failed(context, ConsoleError::Failed(why))
    }

    /// Prints why the console refused or failed.
    pub(super) fn failed(&mut self, context: CommandContext<'_>, error: ConsoleError) -> Exit {
        let CommandContext { what, action } = context;
        let refusal = match error {
            ConsoleError::Refused(refusal) => refusal,
            ConsoleError::NoConsole => Refusal::NoSession,
            ConsoleError::Interrupted => return Exit::INTERRUPTED,
            ConsoleError::Failed(why) => return self.refuse(format!("Failed to {action}: {why}")),
        };
        self.refuse(match refusal.errno() {
            // The refusal's own text would repeat it.
            ESRCH => "No session exists".to_owned(),
            ESHUTDOWN => "Session is shutting down".to_owned(),
            EACCES => format!("Unmatched session key or not root ({refusal})"),
            ENOENT => format!("Can't find {what} in current session ({refusal})"),
            EINVAL => format!("Invalid parameters list in command line: {refusal}"),
            EFAULT => format!("Bad parameter address ({refusal})"),
            EEXIST => format!("{what} already exists ({refusal})"),
            other => format!("Failed to {action}: {} ({refusal})", errno::text(other as i32)),
        })
    }

    /// Prints which nodes failed in `op`, and why.
    pub(super) fn failures(&mut self, op: &str, said: &[NodeReply]) -> Result<(), Exit> {
        for one in said {
            match &one.reply {
                Reply::Good(_) => {}
                Reply::None { errno, why, .. } => {
                    let text = said_more(&errno::text(*errno), why);
                    self.warn(format!("{op} RPC failed on {}: {text}", id(&one.nid)));
                }
                Reply::Refused(status) => {
                    let text = errno::text(*status as i32);
                    let holder = one.holder.as_ref().map_or(String::new(), |holder| {
                        format!(
                            " (session {} of {}; new_session --force takes it over, on a Lustrine \
                             node only if its `selftest_consoles` lists this console)",
                            holder.name, holder.console
                        )
                    });
                    self.warn(format!("operation {op} failed on {}: {text}{holder}", id(&one.nid)));
                }
            }
        }
        if said.iter().any(|one| one.reply == Reply::Refused(EPROTO)) {
            self.warn(
                "These nodes do not support the features of the session; begin it with \
                 LST_FEATURES=0, which all releases support",
            );
        }
        if said.iter().any(|one| one.reply == Reply::Refused(EPERM)) {
            self.warn(
                "A Lustrine node that answers \"Operation not permitted\" does not accept load \
                 requests from this console. On that node set `selftest: full`, or add this \
                 console's NID to `selftest_consoles`",
            );
        }
        verdict(said)
    }

    /// The NIDs of an argument; the error is the invalid part, and the reason.
    pub(super) fn nids(&mut self, text: &str) -> Result<Vec<Nid>, String> {
        match nids::expand(text, |host| self.env.resolve(host)) {
            Ok(nids) => match nids.iter().find(|nid| nid.to_short().is_none()) {
                None => Ok(nids),
                Some(large) => {
                    Err(format!("{large} (selftest messages hold 4-byte addresses only)"))
                }
            },
            Err(NidsError::Nid { nid, why }) => Err(format!("{nid} ({why})")),
            Err(NidsError::Host { nid, why }) => Err(format!("{nid} ({why})")),
            Err(other) => Err(format!("{text} ({other})")),
        }
    }

    /// The same for the value of an option.
    pub(super) fn nids_or_exit(&mut self, text: &str) -> Result<Vec<Nid>, Exit> {
        self.nids(text).map_err(|trouble| self.refuse(format!("Invalid nid: {trouble}")))
    }
}

/// The exit status for the replies of nodes.
pub(super) fn verdict(said: &[NodeReply]) -> Result<(), Exit> {
    if said.iter().any(|one| matches!(one.reply, Reply::None { .. })) {
        return Err(RPC_FAILED);
    }
    match said.iter().any(|one| matches!(one.reply, Reply::Refused(_))) {
        true => Err(NODE_REFUSED),
        false => Ok(()),
    }
}

/// The text of an errno with details.
pub(super) fn said_more(text: &str, why: &str) -> String {
    match why.is_empty() || why.eq_ignore_ascii_case(text) {
        true => text.to_owned(),
        false => format!("{text} ({why})"),
    }
}
