use std::collections::VecDeque;

use proptest::prelude::*;

use super::Chains;

const LISTS: usize = 3;
const NODES: u32 = 6;

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 4 } else { 256 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// The ends are those of ordinary double-ended queues after any operations.
    #[test]
    fn behaves_like_queues(steps in prop::collection::vec((0..LISTS, 0..NODES), 0..200)) {
        let mut chains = Chains::new(LISTS);
        let mut model = vec![VecDeque::new(); LISTS];
        chains.admit(NODES - 1);
        for (list, node) in steps {
            match model.iter().position(|l| l.contains(&node)) {
                Some(home) => {
                    chains.remove(home, node);
                    model[home].retain(|&n| n != node);
                }
                None => {
                    chains.push_front(list, node);
                    model[list].push_front(node);
                }
            }
            for (list, expected) in model.iter().enumerate() {
                prop_assert_eq!(chains.front(list), expected.front().copied());
                prop_assert_eq!(chains.back(list), expected.back().copied());
            }
        }
    }
}

#[test]
#[should_panic(expected = "is not in list")]
fn removing_a_node_from_a_list_it_is_not_in_is_noticed() {
    let mut chains = Chains::new(2);
    chains.admit(0);
    chains.push_front(0, 0);
    chains.remove(1, 0);
}
