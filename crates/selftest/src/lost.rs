//! Which process a loss that LNet reports is about.

use lustrine_wire::nid::ProcessId;

/// Whether what is awaited of `party` will not come now that `lost` is lost. A userland process
/// has its own connections, so it is lost by itself. Of the others a NID has one, the node: its
/// RPCs go to any plain pid.
pub(crate) fn covers(lost: &ProcessId, party: &ProcessId) -> bool {
    let same = match lost.is_userland() {
        true => party.pid == lost.pid,
        false => !party.is_userland(),
    };
    same && party.nid == lost.nid
}

#[cfg(test)]
mod tests {
    use lustrine_lnet_testing::test_nid;
    use lustrine_wire::nid::PID_USERLAND;

    use super::*;

    #[test]
    fn a_loss_takes_one_process_or_the_node_but_not_both() {
        let at = |index, pid| ProcessId { nid: test_nid(index), pid };
        let node = ProcessId::lustre(test_nid(0));
        let (one, other) = (at(0, PID_USERLAND | 1), at(0, PID_USERLAND | 2));
        for (lost, party, covered) in [
            (node, node, true),
            (node, at(0, 7), true),
            (node, one, false),
            (node, at(1, node.pid), false),
            (one, one, true),
            (one, other, false),
            (one, node, false),
            (one, at(1, one.pid), false),
        ] {
            assert_eq!(covers(&lost, &party), covered, "{lost:?} {party:?}");
        }
    }
}
