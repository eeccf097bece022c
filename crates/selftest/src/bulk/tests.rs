use lustrine_lnet::memory::VecMemory;
use lustrine_wire::srpc::BrwCheck;

use super::*;
use crate::pattern::OUR_ORDER;

#[test]
fn the_source_is_filled_once_and_serves_any_part() {
    let (mut memory, mut source) = (VecMemory::default(), Source::default());
    for (offset, len) in [(0, BULK_MAX), (8, 8), (4088, BULK_MAX)] {
        let span = source.part(&mut memory, offset, len).unwrap();
        assert_eq!(pattern::verify(&memory, span, BrwCheck::Full, OUR_ORDER), Ok(()));
    }
    assert_eq!(memory.live, 1);
    source.release(&mut memory);
    assert_eq!(memory.live, 0);
}

#[test]
fn a_budget_is_divided_and_kept() {
    let mut memory = VecMemory::default();
    let mut budget = Budget::new(16, 2);
    let mut grants: Vec<Grant> = Vec::new();
    while let Some(grant) = budget.take(&mut memory, 1 << 20, Term::Rpc) {
        grants.push(grant);
    }
    assert_eq!(grants.len(), 8);
    assert!(budget.take(&mut memory, 8, Term::Rpc).is_none(), "not even 8 bytes are left");
    budget.give(&mut memory, grants.pop().unwrap());
    assert!(budget.take(&mut memory, 8, Term::Rpc).is_some());
}

#[test]
fn a_length_costs_the_block_it_is_in() {
    const MIB: u32 = 1 << 20;
    for (len, cost) in [
        (1, 64),
        (64, 64),
        (65, 128),
        (4096, 4096),
        (4104, 8192),
        (MIB / 2 + 8, MIB),
        (MIB, MIB),
        (MIB + 8, 2 * MIB),
        (2 * MIB + 8, 4 * MIB),
        (3 * MIB, 4 * MIB),
    ] {
        assert_eq!(charge(len), u64::from(cost), "{len} bytes");
    }
    // Half a mebibyte and a bit: the budget is used up as fast as the memory is.
    let mut memory = VecMemory::default();
    let mut budget = Budget::new(16, 1);
    let mut taken = 0;
    while budget.take(&mut memory, MIB / 2 + 8, Term::Rpc).is_some() {
        taken += 1;
    }
    assert_eq!(taken, 16);
}

#[test]
fn tests_leave_half_of_it_to_others() {
    let mut memory = VecMemory::default();
    let mut budget = Budget::new(16, 1);
    let mut held = 0;
    while budget.take(&mut memory, 1 << 20, Term::Test).is_some() {
        held += 1;
    }
    assert_eq!(held, 8);
    assert!(budget.take(&mut memory, 1 << 20, Term::Rpc).is_some());
}

#[test]
fn the_smallest_budget_serves_one_of_each() {
    let mut memory = VecMemory::default();
    let mut budget = Budget::new(2, 16);
    assert!(budget.take(&mut memory, BULK_MAX + 4088, Term::Test).is_some());
    assert!(budget.take(&mut memory, BULK_MAX, Term::Rpc).is_some());
}

#[test]
fn memory_that_is_used_up_costs_the_budget_nothing() {
    let mut memory = VecMemory::default();
    memory.limit = 1;
    let mut budget = Budget::new(16, 1);
    let first = budget.take(&mut memory, 4096, Term::Test).unwrap();
    for _ in 0..10_000 {
        assert!(budget.take(&mut memory, 4096, Term::Test).is_none());
    }
    budget.give(&mut memory, first);
    assert!(budget.take(&mut memory, 4096, Term::Test).is_some());
}
