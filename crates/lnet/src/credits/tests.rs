use proptest::prelude::*;
use slotmap::SlotMap;

use super::*;

proptest! {
    /// Against a model of two lists: order is first come first served, and credits plus queue
    /// are conserved.
    #[test]
    fn conserved_and_fair(
        mut max in 1u32..5,
        steps in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        let mut wanted = max;
        let mut keys: SlotMap<OpKey, ()> = SlotMap::with_key();
        let (mut credits, mut lines) = (Credits::new(max), WaitQueues::new());
        let (mut holding, mut queue): (Vec<OpKey>, Vec<OpKey>) = (vec![], vec![]);
        for step in steps {
            match step % 4 {
                0 => {
                    let op = keys.insert(());
                    let free = holding.len() < max as usize;
                    let want = if free { Acquire::Granted } else { Acquire::Queued };
                    prop_assert_eq!(credits.take(&mut lines, op), want);
                    if want == Acquire::Granted { holding.push(op) } else { queue.push(op) }
                }
                1 if !holding.is_empty() => {
                    holding.remove(usize::from(step) % holding.len());
                    let next = (!queue.is_empty()).then(|| queue.remove(0));
                    prop_assert_eq!(credits.give(&mut lines), next);
                    holding.extend(next);
                }
                2 if !queue.is_empty() => {
                    let op = queue.remove(usize::from(step) % queue.len());
                    prop_assert!(credits.leave(&mut lines, op));
                    prop_assert!(!credits.leave(&mut lines, op));
                }
                3 => {
                    wanted = u32::from(step >> 2) % 5 + 1;
                    credits.resize(wanted);
                }
                _ => {}
            }
            if holding.is_empty() {
                max = wanted;
            }
            prop_assert_eq!(credits.max(), max);
            prop_assert_eq!(
                credits.available(),
                i64::from(max) - holding.len() as i64 - queue.len() as i64
            );
            prop_assert_eq!(credits.waiting(), queue.len());
            prop_assert!(credits.low() <= credits.available());
            prop_assert_eq!(credits.idle(), holding.is_empty() && queue.is_empty());
        }
    }
}

#[test]
#[should_panic(expected = "given back twice")]
fn giving_what_nobody_took_is_our_mistake() {
    Credits::new(2).give(&mut WaitQueues::new());
}
