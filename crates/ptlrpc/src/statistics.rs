//! How long each operation takes at a target.

use std::collections::BTreeMap;

use lustrine_fswire::opcode::Opcode;
use lustrine_lnet::latency::Histogram;
use lustrine_lnet::time::Nanos;

/// The latencies of an import, by operation. A client sends some tens of operations, each of them
/// takes 2 KiB here.
#[derive(Clone, Debug, Default)]
pub struct Latencies(BTreeMap<u32, Box<Histogram>>);

impl Latencies {
    /// Adds a reply that took this long.
    pub(crate) fn record(&mut self, opcode: Opcode, took: Nanos) {
        self.0.entry(opcode.0).or_default().record(took);
    }

    /// Adds those of another import.
    pub fn add(&mut self, other: &Latencies) {
        for (opcode, histogram) in &other.0 {
            self.0.entry(*opcode).or_default().add(histogram);
        }
    }

    /// The operations with at least one reply, in the order of their numbers. The time of each
    /// begins when the request was last sent, and ends with its reply, whatever that says.
    pub fn iter(&self) -> impl Iterator<Item = (Opcode, &Histogram)> {
        self.0.iter().map(|(opcode, histogram)| (Opcode(*opcode), &**histogram))
    }
}

#[test]
fn operations_of_several_targets_are_added() {
    let mut one = Latencies::default();
    one.record(Opcode::OST_READ, Nanos(1000));
    let mut two = one.clone();
    two.record(Opcode::OST_READ, Nanos(3000));
    two.record(Opcode::OST_WRITE, Nanos(5000));
    one.add(&two);
    let found: Vec<_> =
        one.iter().map(|(opcode, histogram)| (opcode, histogram.summary())).collect();
    assert_eq!(found.len(), 2);
    assert_eq!((found[0].0, found[0].1.samples, found[0].1.sum), (Opcode::OST_READ, 3, 5000));
    assert_eq!((found[1].0, found[1].1.max), (Opcode::OST_WRITE, Nanos(5000)));
}
