//! Counters of nodes: `stat` and `show_error` [TOOL-8] [TOOL-9].

mod rates;

use core::time::Duration;

use lustrine_selftest::console::{Command, Detail, NodeReply, Reply, Target};
use lustrine_wire::nid::Nid;
use lustrine_wire::srpc::Counters;

use super::talk::{CommandContext, id, said_more, verdict};
use super::{Env, Lst};
use crate::errno;
use crate::parse::Parsed;
use crate::shell::Exit;
use rates::{Layout, Rates};

/// How long `show_error` waits for nodes, in seconds.
const TIMEOUT: u32 = 5;

const STAT: CommandContext<'_> = CommandContext { what: "stat", action: "stat" };

/// Nodes whose counters are polled, and their last counters.
struct Watched {
    /// The argument of the command.
    name: String,
    target: Target,
    /// In the order of the nodes.
    before: Vec<Reading>,
}

/// The counters of a node; `None` if it did not answer.
struct Reading {
    nid: Nid,
    counters: Option<Counters>,
}

impl<O: Env> Lst<'_, O> {
    pub(super) fn stat(&mut self, parsed: &Parsed) -> Result<(), Exit> {
        let layout = Layout::of(parsed);
        let timeout = parsed.count("timeout");
        let delay = Duration::from_secs(u64::from(parsed.count("delay")));
        if !layout.shows_lnet() {
            self.warn("--rpc has no rates in any release; use --lnet");
        }
        let mut watched = Vec::new();
        for (name, target) in self.targets(parsed.positionals())? {
            // The first poll yields no rates: there is nothing to compare with.
            let before = counted(&self.poll(&target, timeout)?);
            watched.push(Watched { name, target, before });
        }
        let mut outcome = Ok(());
        let mut left = parsed.number("count");
        while left != Some(0) {
            left = left.map(|left| left - 1);
            self.wait(delay)?;
            let mut polls = Vec::new();
            for one in &watched {
                polls.push(self.poll(&one.target, timeout)?);
            }
            outcome = Ok(());
            for (one, said) in watched.iter_mut().zip(&polls) {
                let before = core::mem::replace(&mut one.before, counted(said));
                self.say_rates(&layout, &one.name, &before, &one.before)?;
                outcome = outcome.and(verdict(said));
            }
        }
        outcome
    }

    pub(super) fn show_error(&mut self, parsed: &Parsed) -> Result<(), Exit> {
        let mut outcome = Ok(());
        for (name, target) in self.targets(parsed.positionals())? {
            let said = self.poll(&target, TIMEOUT)?;
            self.say(format!("{name}:"));
            let mut bad = 0;
            for one in &said {
                bad += u32::from(self.show_bad(one, parsed.has("session")));
            }
            self.say(format!("Total {bad} error nodes in {name}"));
            outcome = outcome.and(verdict(&said));
        }
        outcome
    }

    /// What the arguments name: a group, or NIDs.
    fn targets(&mut self, words: &[String]) -> Result<Vec<(String, Target)>, Exit> {
        let groups = self.ask_names(STAT, Command::ListGroups)?;
        let mut targets = Vec::new();
        for word in words {
            let target = match groups.contains(word) {
                true => Target::Group(word.clone()),
                false => match self.nids(word) {
                    Ok(nids) => Target::Nodes(nids),
                    Err(trouble) => {
                        return Err(self.refuse(format!(
                            "Can't find {word} in current session (no group has this name; as \
                             NIDs: {trouble})"
                        )));
                    }
                },
            };
            targets.push((word.clone(), target));
        }
        Ok(targets)
    }

    fn poll(&mut self, target: &Target, timeout: u32) -> Result<Vec<NodeReply>, Exit> {
        self.ask_nodes(STAT, Command::Stat { target: target.clone(), timeout })
    }

    fn say_rates(
        &mut self,
        layout: &Layout,
        name: &str,
        before: &[Reading],
        now: &[Reading],
    ) -> Result<(), Exit> {
        if !before.iter().map(|one| one.nid).eq(now.iter().map(|one| one.nid)) {
            return Err(self.refuse("Group is changed, re-run stat"));
        }
        let pairs = before.iter().zip(now).filter_map(|(before, now)| {
            Rates::between(before.counters.as_ref()?, now.counters.as_ref()?)
        });
        let rates: Vec<Rates> = pairs.collect();
        if rates.len() < now.len() {
            self.say(format!("Failed to stat on {} nodes", now.len() - rates.len()));
        }
        self.env.out(&layout.rows(name, &rates));
        Ok(())
    }

    /// Prints a node that has counted errors; returns whether it has.
    fn show_bad(&mut self, said: &NodeReply, session_only: bool) -> bool {
        let node = id(&said.nid);
        let line = match &said.reply {
            Reply::Good(Detail::Counters(counters)) => {
                let (session, rpc) = (counters.framework, counters.rpc);
                let (brw, ping) = (session.brw_errors, session.ping_errors);
                let mut line = format!("{node}: [Session {brw} brw errors, {ping} ping errors]");
                let mut bad = brw > 0 || ping > 0;
                if !session_only {
                    let (errors, dropped, expired) = (rpc.errors, rpc.dropped, rpc.expired);
                    bad |= errors > 0 || dropped > 0 || expired > 0;
                    line +=
                        &format!(" [RPC: {errors} errors, {dropped} dropped, {expired} expired]");
                }
                if !bad {
                    return false;
                }
                line
            }
            Reply::None { errno, why, .. } => {
                let why = said_more(&errno::text(*errno), why);
                format!("RPC failure, can't show error on {node} ({why})")
            }
            Reply::Refused(status) => {
                let why = errno::text(*status as i32);
                format!("Framework failure, can't show error on {node} ({why})")
            }
            Reply::Good(_) => format!("Framework failure, can't show error on {node}"),
        };
        self.warn(line);
        true
    }
}

/// The counters of a poll.
fn counted(said: &[NodeReply]) -> Vec<Reading> {
    let readings = said.iter().map(|one| {
        let counters = match &one.reply {
            Reply::Good(Detail::Counters(counters)) => Some(**counters),
            _ => None,
        };
        Reading { nid: one.nid, counters }
    });
    readings.collect()
}
