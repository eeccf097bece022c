//! Groups of nodes.

use lustrine_selftest::console::{Answer, Command, NodeState, NodeView};

use super::listing::{HEADER, States, counts};
use super::talk::CommandContext;
use super::{Env, Lst};
use crate::parse::Parsed;
use crate::shell::Exit;

const UPDATE: CommandContext<'_> = CommandContext { what: "group", action: "update group" };

impl<O: Env> Lst<'_, O> {
    pub(super) fn add_group(&mut self, parsed: &Parsed) -> Result<(), Exit> {
        let context = CommandContext { what: "group", action: "add group" };
        let group = parsed.positional(0).to_owned();
        self.ask(context, Command::AddGroup { group: group.clone() })?;
        let mut outcome = Ok(());
        let mut added = false;
        for argument in &parsed.positionals()[1..] {
            let nids = match self.nids(argument) {
                Ok(nids) => nids,
                Err(trouble) => {
                    self.warn(format!("Invalid nid: {trouble}"));
                    self.warn(format!("Ignore invalid id list {argument}"));
                    outcome = Err(Exit::FAILURE);
                    continue;
                }
            };
            let command = Command::AddNodes { group: group.clone(), nids };
            let said = self.ask_nodes(context, command);
            match said.and_then(|said| self.failures("create session", &said)) {
                Ok(()) => {
                    self.say(format!("{argument} are added to session"));
                    added = true;
                }
                Err(exit) => {
                    outcome = Err(exit);
                    break;
                }
            }
        }
        if !added {
            self.warn(format!("No nodes added successfully, deleting group {group}"));
            self.del_group(&group)?;
        }
        outcome
    }

    pub(super) fn del_group(&mut self, group: &str) -> Result<(), Exit> {
        let context = CommandContext { what: "group", action: "delete group" };
        let said = self.ask_nodes(context, Command::DeleteGroup { group: group.to_owned() })?;
        let outcome = self.failures("end session", &said);
        self.say("Group is deleted");
        outcome
    }

    pub(super) fn update_group(&mut self, parsed: &Parsed) -> Result<(), Exit> {
        let group = parsed.positional(0).to_owned();
        let ways = ["refresh", "clean", "remove"];
        let chosen: Vec<&str> = ways.into_iter().filter(|way| parsed.has(way)).collect();
        let [way] = chosen[..] else { return Err(self.usage("update_group")) };
        let given = parsed.text(way).unwrap_or_default();
        let command = match way {
            "refresh" => Command::RefreshGroup { group },
            "clean" => Command::CleanGroup { group, states: states_named(given) },
            _ => {
                let nids = self.nids_or_exit(given)?;
                Command::RemoveNodes { group, nids }
            }
        };
        let said = self.ask_nodes(UPDATE, command)?;
        self.failures("Updating group", &said)
    }

    pub(super) fn list_group(&mut self, parsed: &Parsed) -> Result<(), Exit> {
        let context = CommandContext { what: "group", action: "list groups" };
        if parsed.positionals().is_empty() {
            let names = self.ask_names(context, Command::ListGroups)?;
            self.say_names(&names, "groups");
            return Ok(());
        }
        let states = States::of(parsed, &["active", "busy", "down", "unknown", "all"]);
        let mut outcome = Ok(());
        let mut header = states.is_none();
        for group in parsed.positionals() {
            let nodes = match self.ask(context, Command::ShowGroup { group: group.clone() }) {
                Ok(Answer::Nodes(nodes)) => nodes,
                Ok(_) => return Err(self.misunderstood(context)),
                // The error is printed; the other groups are listed as well.
                Err(exit) => {
                    outcome = Err(exit);
                    continue;
                }
            };
            if core::mem::take(&mut header) {
                self.say(HEADER);
            }
            match states {
                None => self.say(format!("\t{}\t{group}", counts(&nodes))),
                Some(states) => self.list_nodes(group, &nodes, states),
            }
        }
        outcome
    }

    fn list_nodes(&mut self, group: &str, nodes: &[NodeView], states: States) {
        self.say(format!("Group [ {group} ]"));
        match self.say_nodes(nodes, states) {
            0 => self.say(format!("No nodes found [ {group} ]")),
            listed => self.say(format!("Total {listed} nodes [ {group} ]")),
        }
    }
}

/// The states that `--clean` names.
fn states_named(status: &str) -> Vec<NodeState> {
    match status {
        "active" => vec![NodeState::Active],
        "busy" => vec![NodeState::Busy],
        "down" => vec![NodeState::Down],
        "unknown" => vec![NodeState::Unknown],
        _ => vec![NodeState::Busy, NodeState::Down, NodeState::Unknown],
    }
}
