//! Sessions, and pings.

use lustrine_selftest::console::{
    Answer, BatchSide, Command, Detail, NodeReply, NodeState, Refusal, Reply, SessionHolder, Target,
};
use lustrine_wire::nid::Nid;
use lustrine_wire::srpc::Name;

use super::talk::{CommandContext, id, said_more, verdict};
use super::{ConsoleError, Env, Lst};
use crate::errno;
use crate::parse::Parsed;
use crate::shell::{Compat, Exit};

impl<O: Env> Lst<'_, O> {
    pub(super) fn new_session(&mut self, parsed: &Parsed) -> Result<(), Exit> {
        let context = CommandContext { what: "session", action: "create session" };
        let name = match parsed.positional(0) {
            "" => shortened(&self.settings.whoami).to_owned(),
            given => given.to_owned(),
        };
        if name.is_empty() || Name::new(&name).is_err() {
            let limit = Name::LEN_MAX;
            return Err(self.refuse(format!("Name length is limited to {limit}: {name}")));
        }
        let key = self.key();
        let command = Command::NewSession {
            name,
            timeout: parsed.count("timeout"),
            force: parsed.has("force"),
            features: self.features().unwrap_or_default(),
        };
        let answer = self.env.new_session(key.unwrap_or_default(), command);
        let view = match answer.map_err(|error| self.failed(context, error))? {
            Answer::Session(view) => view,
            _ => return Err(self.misunderstood(context)),
        };
        let force = if view.force { "Yes" } else { "No" };
        self.say(format!(
            "SESSION: {} FEATURES: {:x} TIMEOUT: {} FORCE: {force}",
            view.name, view.features, view.timeout
        ));
        if key.is_none() {
            let what = match &self.settings.session {
                None => "LST_SESSION is not set".to_owned(),
                Some(value) => {
                    format!("LST_SESSION is {value:?}, which is not a number from 1 to 4294967295")
                }
            };
            self.warn(format!(
                "{what}, and no other command works without it: set it (export LST_SESSION=$$) \
                 and begin again with new_session --force"
            ));
        }
        Ok(())
    }

    pub(super) fn show_session(&mut self) -> Result<(), Exit> {
        let context = CommandContext { what: "session", action: "show session" };
        let view = match self.ask(context, Command::ShowSession)? {
            Answer::Session(view) => view,
            _ => return Err(self.misunderstood(context)),
        };
        let sid = view.sid();
        self.say(format!(
            "{} ID: {sid}, KEY: {} FEATURES: {:x} NODES: {}",
            view.name, view.key, view.features, view.nodes
        ));
        Ok(())
    }

    pub(super) fn end_session(&mut self) -> Result<(), Exit> {
        let context = CommandContext { what: "session", action: "end session" };
        self.say_what_is_stopped();
        let key = self.key().unwrap_or_default();
        let said = match self.env.ask(key, Command::EndSession) {
            // There is no session any more, which is the wanted result: scripts end sessions as a
            // precaution.
            Err(ConsoleError::NoConsole | ConsoleError::Refused(Refusal::NoSession))
                if self.settings.compat != Compat::V2_15 =>
            {
                return Ok(());
            }
            Err(error) => return Err(self.failed(context, error)),
            Ok(Answer::Replies(said)) => said,
            Ok(_) => return Err(self.misunderstood(context)),
        };
        if self.settings.compat == Compat::V2_15 {
            self.say("session is ended");
        }
        self.say_what_ran_on(&said);
        self.failures("end session", &said)
    }

    pub(super) fn ping(&mut self, parsed: &Parsed) -> Result<(), Exit> {
        let context = CommandContext { what: "ping", action: "ping" };
        let ways = ["session", "group", "batch", "nodes"];
        let chosen: Vec<&str> = ways.into_iter().filter(|way| parsed.has(way)).collect();
        let [way] = chosen[..] else { return Err(self.usage("ping")) };
        if parsed.has("server") && way != "batch" {
            return Err(self.usage("ping"));
        }
        let given = parsed.text(way).unwrap_or_default();
        let part = if parsed.has("server") { BatchSide::Servers } else { BatchSide::Clients };
        let target = match way {
            "session" => Target::Session,
            "group" => Target::Group(given.to_owned()),
            "batch" => Target::Batch(given.to_owned(), part),
            _ => Target::Nodes(self.nids_or_exit(given)?),
        };
        let timeout = parsed.count("timeout");
        let said = self.ask_nodes(context, Command::Ping { target, timeout })?;
        for one in &said {
            self.pinged(one);
        }
        verdict(&said)
    }

    fn pinged(&mut self, said: &NodeReply) {
        let known = !matches!(said.state, NodeState::Down | NodeState::Unknown);
        let (name, console) = match &said.reply {
            Reply::Good(Detail::Session(SessionHolder { name, console })) if known => {
                (name.as_str(), *console)
            }
            _ => ("<NULL>", Nid::ANY),
        };
        let node = id(&said.nid);
        self.say(format!("\t{node}: {} [session: {name} id: {console}]", said.state));
        if let Reply::None { errno, why, .. } = &said.reply {
            let text = said_more(&errno::text(*errno), why);
            self.warn(format!("ping RPC failed on {node}: {text}"));
        }
    }
}

/// The part of a text that fits a name.
fn shortened(text: &str) -> &str {
    let mut end = text.len().min(Name::LEN_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
