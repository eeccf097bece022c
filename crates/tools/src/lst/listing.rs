//! The layouts that several listings share [TOOL-7].

use lustrine_selftest::console::{NodeState, NodeView};

use super::talk::id;
use super::{Env, Lst};
use crate::parse::Parsed;

/// The row above counts.
pub(super) const HEADER: &str = "\tACTIVE\tBUSY\tDOWN\tUNKNOWN\tTOTAL";

/// Which nodes are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct States([bool; 4]);

impl States {
    const ALL: [NodeState; 4] =
        [NodeState::Active, NodeState::Busy, NodeState::Down, NodeState::Unknown];

    /// The states that the switches of these names select; `None` if no switch is given. `--all`
    /// selects all nodes, and `--invalid` all that are not active.
    pub(super) fn of(parsed: &Parsed, switches: &[&str]) -> Option<States> {
        let given = |name: &str| switches.contains(&name) && parsed.has(name);
        let names = ["active", "busy", "down", "unknown"];
        let wanted = core::array::from_fn(|place| {
            given(names[place]) || given("all") || (place > 0 && given("invalid"))
        });
        wanted.contains(&true).then_some(States(wanted))
    }

    fn has(self, state: NodeState) -> bool {
        let place = States::ALL.iter().position(|one| *one == state);
        place.is_some_and(|place| self.0[place])
    }
}

/// The number of nodes in each state, and the total.
pub(super) fn counts(nodes: &[NodeView]) -> String {
    let of = |state: NodeState| nodes.iter().filter(|node| node.state == state).count();
    let [active, busy, down, unknown] = States::ALL.map(of);
    format!("{active}\t{busy}\t{down}\t{unknown}\t{}", nodes.len())
}

impl<O: Env> Lst<'_, O> {
    /// Names with numbers.
    pub(super) fn say_names(&mut self, names: &[String], plural: &str) {
        for (number, name) in (1..).zip(names) {
            self.say(format!("{number}) {name}"));
        }
        self.say(format!("Total {} {plural}", names.len()));
    }

    /// Rows of counts of clients and servers.
    pub(super) fn say_parts(&mut self, clients: &[NodeView], servers: &[NodeView]) {
        self.say(HEADER);
        self.say(format!("client\t{}", counts(clients)));
        self.say(format!("server\t{}", counts(servers)));
    }

    /// Prints one line for each selected node, and returns their number.
    pub(super) fn say_nodes(&mut self, nodes: &[NodeView], states: States) -> usize {
        let wanted: Vec<&NodeView> = nodes.iter().filter(|node| states.has(node.state)).collect();
        for node in &wanted {
            self.say(format!("\t{}: {}", id(&node.nid), node.state));
        }
        wanted.len()
    }
}
