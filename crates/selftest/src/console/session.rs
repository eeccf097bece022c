//! What a console keeps of its session: nodes, groups, batches.

use std::collections::{BTreeMap, BTreeSet};

use lustrine_lnet::time::{Nanos, Time};
use lustrine_wire::nid::Nid;
use lustrine_wire::srpc::{Name, Sid};

use super::command::{
    BatchSide, BatchView, NewTest, NodeState, NodeView, SessionView, Target, TestView,
};
use super::refusal::Refusal;

/// Most nodes of a session.
pub(super) const NODES_MAX: usize = 16_384;

/// Most groups of a session.
const GROUPS_MAX: usize = 1024;

/// Most batches of a session, and most tests of a batch: what our own nodes take.
const BATCHES_MAX: usize = crate::limits::BATCHES_MAX;
const TESTS_MAX: usize = crate::limits::TESTS_MAX;

/// The name of the batch that every session has.
pub(super) const FIRST_BATCH: &str = "batch";

/// A session, as its console sees it.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) sid: Sid,
    pub(super) name: Name,
    pub(super) key: u32,
    pub(super) force: bool,
    /// Seconds without a command; 0 for any number.
    pub(super) timeout: u32,
    pub(super) features: u32,
    /// Whether a node has agreed to them: then they stay.
    pub(super) agreed: bool,
    pub(super) nodes: BTreeMap<Nid, Node>,
    groups: Vec<Group>,
    batches: Vec<Batch>,
}

/// A node of the session.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) state: NodeState,
    /// After so long without a request it leaves the session; zero for never.
    pub(super) timeout: Nanos,
    /// When it last answered.
    pub(super) heard_at: Time,
    /// Whether it said that it is one of ours.
    pub(super) ours: bool,
    /// The same as it was last said, also if it may be another node by now.
    pub(super) was_ours: bool,
}

#[derive(Debug)]
pub(super) struct Group {
    name: String,
    /// In the order in which they came.
    pub(super) nodes: Vec<Nid>,
}

#[derive(Debug)]
pub(super) struct Batch {
    name: String,
    pub(super) id: u64,
    pub(super) running: bool,
    pub(super) tests: Vec<BatchTest>,
}

/// A test of a batch.
#[derive(Debug)]
pub(super) struct BatchTest {
    asked: NewTest,
    /// Whether its clients were told of it: they are not when a server could not be made ready, and
    /// have no place for it in their lists then.
    at_clients: bool,
}

impl BatchTest {
    /// A test of which the servers know.
    pub(super) fn new(asked: NewTest, at_clients: bool) -> BatchTest {
        BatchTest { asked, at_clients }
    }
}

impl Session {
    /// A session without nodes, with its first batch.
    pub(super) fn new(sid: Sid, name: Name, key: u32, batch: u64) -> Session {
        Session {
            sid,
            name,
            key,
            force: false,
            timeout: 0,
            features: 0,
            agreed: false,
            nodes: BTreeMap::new(),
            groups: Vec::new(),
            batches: vec![Batch::new(FIRST_BATCH, batch)],
        }
    }

    pub(super) fn view(&self) -> SessionView {
        SessionView {
            name: self.name.to_string(),
            console: self.sid.nid,
            stamp: self.sid.stamp,
            key: self.key,
            features: self.features,
            timeout: self.timeout,
            force: self.force,
            nodes: self.nodes.len() as u32,
        }
    }

    pub(super) fn state(&self, nid: &Nid) -> NodeState {
        self.nodes.get(nid).map_or(NodeState::Unknown, |node| node.state)
    }

    /// Whether a node was seen to be one of ours.
    pub(super) fn is_ours(&self, nid: &Nid) -> bool {
        self.nodes.get(nid).is_some_and(|node| node.ours)
    }

    /// Whether a node was one of ours when it last said which it is: it may be away.
    pub(super) fn was_ours(&self, nid: &Nid) -> bool {
        self.nodes.get(nid).is_some_and(|node| node.was_ours)
    }

    pub(super) fn is_active(&self, nid: &Nid) -> bool {
        self.state(nid) == NodeState::Active
    }

    /// Whether a node may be in the session: it is, or it did not answer.
    pub(super) fn may_be_in(&self, nid: &Nid) -> bool {
        matches!(self.state(nid), NodeState::Active | NodeState::Down)
    }

    /// All nodes that may be in the session.
    pub(super) fn members_to_leave(&self) -> Vec<Nid> {
        self.nodes.keys().copied().filter(|nid| self.may_be_in(nid)).collect()
    }

    /// The batches that may run, by their ids, at each client that may be in the session. Nothing
    /// more is known of them, so each counts as one test.
    pub(super) fn may_run(&self) -> BTreeMap<(u64, Nid), u32> {
        let running = self.batches.iter().filter(|batch| batch.running);
        let parts = running.flat_map(|batch| {
            let clients = self.nodes_of(batch, BatchSide::Clients).into_iter();
            clients.map(|nid| (batch.id, nid))
        });
        parts.filter(|(_, nid)| self.may_be_in(nid)).map(|part| (part, 1)).collect()
    }

    pub(super) fn views(&self, nids: &[Nid]) -> Vec<NodeView> {
        let view =
            |nid: &Nid| NodeView { nid: *nid, state: self.state(nid), ours: self.is_ours(nid) };
        nids.iter().map(view).collect()
    }

    /// Refuses unless all these nodes are active.
    pub(super) fn all_active<'a>(
        &self,
        nids: impl IntoIterator<Item = &'a Nid>,
    ) -> Result<(), Refusal> {
        let states = nids.into_iter().map(|nid| (*nid, self.state(nid)));
        let others: BTreeMap<Nid, NodeState> =
            states.filter(|(_, state)| *state != NodeState::Active).collect();
        match others.is_empty() {
            true => Ok(()),
            false => Err(Refusal::NotActive(others.into_iter().collect())),
        }
    }

    pub(super) fn add_group(&mut self, name: &str) -> Result<(), Refusal> {
        named(name)?;
        if self.group(name).is_ok() {
            return Err(Refusal::GroupExists(name.to_owned()));
        }
        room("groups", self.groups.len() + 1, GROUPS_MAX)?;
        self.groups.push(Group { name: name.to_owned(), nodes: Vec::new() });
        Ok(())
    }

    pub(super) fn group_names(&self) -> Vec<String> {
        self.groups.iter().map(|group| group.name.clone()).collect()
    }

    pub(super) fn group(&self, name: &str) -> Result<&Group, Refusal> {
        let found = self.groups.iter().find(|group| group.name == name);
        found.ok_or_else(|| Refusal::NoGroup(name.to_owned()))
    }

    /// A group that may change: no test has it.
    pub(super) fn free_group(&mut self, name: &str) -> Result<&mut Group, Refusal> {
        let mut tests = self.batches.iter().flat_map(|batch| &batch.tests);
        if tests.any(|test| test.asked.from == name || test.asked.to == name) {
            return Err(Refusal::GroupInUse(name.to_owned()));
        }
        let found = self.groups.iter_mut().find(|group| group.name == name);
        found.ok_or_else(|| Refusal::NoGroup(name.to_owned()))
    }

    /// Takes nodes into a group; the answer is those that were not in it.
    pub(super) fn join(
        &mut self,
        now: Time,
        name: &str,
        nids: &[Nid],
    ) -> Result<Vec<Nid>, Refusal> {
        carried(nids)?;
        let fresh = nids.iter().filter(|nid| !self.nodes.contains_key(nid));
        let fresh = fresh.collect::<BTreeSet<_>>().len();
        room("nodes", self.nodes.len() + fresh, NODES_MAX)?;
        let group = self.free_group(name)?;
        let mut known: BTreeSet<Nid> = group.nodes.iter().copied().collect();
        let joined: Vec<Nid> = nids.iter().copied().filter(|nid| known.insert(*nid)).collect();
        group.nodes.extend(&joined);
        for nid in &joined {
            let state = NodeState::Unknown;
            let node =
                Node { state, timeout: Nanos::ZERO, heard_at: now, ours: false, was_ours: false };
            self.nodes.entry(*nid).or_insert(node);
        }
        Ok(joined)
    }

    pub(super) fn remove_group(&mut self, name: &str) {
        self.groups.retain(|group| group.name != name);
    }

    /// Those of these nodes that no group but this one has.
    pub(super) fn only_in(&self, name: &str, nids: &[Nid]) -> Vec<Nid> {
        let others = self.groups.iter().filter(|group| group.name != name);
        let held: BTreeSet<&Nid> = others.flat_map(|group| &group.nodes).collect();
        nids.iter().filter(|nid| !held.contains(nid)).copied().collect()
    }

    /// Forgets the nodes that are in no group any more.
    pub(super) fn sweep(&mut self) {
        let held: BTreeSet<Nid> =
            self.groups.iter().flat_map(|group| &group.nodes).copied().collect();
        self.nodes.retain(|nid, _| held.contains(nid));
    }

    pub(super) fn add_batch(&mut self, name: &str, id: u64) -> Result<(), Refusal> {
        named(name)?;
        if self.batch(name).is_ok() {
            return Err(Refusal::BatchExists(name.to_owned()));
        }
        room("batches", self.batches.len() + 1, BATCHES_MAX)?;
        self.batches.push(Batch::new(name, id));
        Ok(())
    }

    pub(super) fn batch_names(&self) -> Vec<String> {
        self.batches.iter().map(|batch| batch.name.clone()).collect()
    }

    pub(super) fn batch(&self, name: &str) -> Result<&Batch, Refusal> {
        let found = self.batches.iter().find(|batch| batch.name == name);
        found.ok_or_else(|| Refusal::NoBatch(name.to_owned()))
    }

    pub(super) fn batch_mut(&mut self, name: &str) -> Result<&mut Batch, Refusal> {
        let found = self.batches.iter_mut().find(|batch| batch.name == name);
        found.ok_or_else(|| Refusal::NoBatch(name.to_owned()))
    }

    pub(super) fn batch_view(&self, name: &str) -> Result<BatchView, Refusal> {
        let batch = self.batch(name)?;
        let tests = batch.tests.iter().map(|test| TestView {
            asked: test.asked.clone(),
            clients: self.views(self.members(&test.asked.from)),
            servers: self.views(self.members(&test.asked.to)),
        });
        Ok(BatchView {
            name: batch.name.clone(),
            running: batch.running,
            clients: self.views(&self.nodes_of(batch, BatchSide::Clients)),
            servers: self.views(&self.nodes_of(batch, BatchSide::Servers)),
            tests: tests.collect(),
        })
    }

    /// The nodes of a group that a test has, which cannot go away.
    pub(super) fn members(&self, group: &str) -> &[Nid] {
        self.group(group).map_or(&[], |group| &group.nodes)
    }

    /// All nodes of a batch in one of the two parts, each once.
    pub(super) fn nodes_of(&self, batch: &Batch, part: BatchSide) -> Vec<Nid> {
        let mut seen = BTreeSet::new();
        let groups = batch.tests.iter().map(|test| match part {
            BatchSide::Clients => &test.asked.from,
            BatchSide::Servers => &test.asked.to,
        });
        let all = groups.flat_map(|group| self.members(group)).copied();
        all.filter(|nid| seen.insert(*nid)).collect()
    }

    /// The place that each client's part in a test has in its own list of the batch, from 1: a node
    /// in both groups of a test has two places there, the server's first [LST-24]. Clients that
    /// were not told of the test have none.
    pub(super) fn client_places(&self, batch: &Batch, test: u32) -> BTreeMap<Nid, u32> {
        let mut entries: BTreeMap<Nid, u32> = BTreeMap::new();
        let mut clients: &[Nid] = &[];
        for one in batch.tests.iter().take(test as usize) {
            clients = if one.at_clients { self.members(&one.asked.from) } else { &[] };
            for nid in self.members(&one.asked.to).iter().chain(clients) {
                *entries.entry(*nid).or_default() += 1;
            }
        }
        clients.iter().map(|nid| (*nid, entries[nid])).collect()
    }

    /// The nodes a question goes to, each once.
    pub(super) fn target(&self, target: Target) -> Result<Vec<Nid>, Refusal> {
        let mut seen = BTreeSet::new();
        let mut nids = match target {
            Target::Session => self.nodes.keys().copied().collect(),
            Target::Group(name) => self.group(&name)?.nodes.clone(),
            Target::Batch(name, part) => self.nodes_of(self.batch(&name)?, part),
            Target::Nodes(nids) => nids,
        };
        carried(&nids)?;
        room("nodes", nids.len(), NODES_MAX)?;
        nids.retain(|nid| seen.insert(*nid));
        Ok(nids)
    }
}

impl Batch {
    fn new(name: &str, id: u64) -> Batch {
        Batch { name: name.to_owned(), id, running: false, tests: Vec::new() }
    }

    /// Refuses unless a test can be added.
    pub(super) fn takes_test(&self) -> Result<(), Refusal> {
        if self.running {
            return Err(Refusal::BatchRuns(self.name.clone()));
        }
        room("tests in a batch", self.tests.len() + 1, TESTS_MAX)
    }
}

/// A name as it goes over the wire.
pub(super) fn named(text: &str) -> Result<Name, Refusal> {
    match Name::new(text) {
        Ok(name) if !text.is_empty() => Ok(name),
        _ => Err(Refusal::BadName(text.to_owned())),
    }
}

fn room(what: &str, wanted: usize, limit: usize) -> Result<(), Refusal> {
    match wanted <= limit {
        true => Ok(()),
        false => Err(Refusal::TooMany { what: what.to_owned(), limit: limit as u32 }),
    }
}

/// Refuses NIDs that no message of the selftest can carry.
fn carried(nids: &[Nid]) -> Result<(), Refusal> {
    match nids.iter().find(|nid| nid.is_any() || nid.to_short().is_none()) {
        Some(nid) => Err(Refusal::LargeNid(*nid)),
        None => Ok(()),
    }
}
