//! Configuration logs that are read from their start once more.

use super::*;

#[test]
fn a_log_that_was_written_anew_is_read_from_its_start() {
    let (mut world, [targets, ..]) = World::mounted(&Log::default(), &[], (2, 2));
    let (old, mut longer) = (Log::of_targets(), Log::of_targets());
    longer.target("OST", 2);
    let mut lock = targets;
    for (log, first) in [(&longer, old.index + 1), (&old, 1)] {
        world.call_back(lock);
        world.canceled();
        world.pause();
        lock = world.grant_config("lustre", ConfigKind::CONFIG);
        world.opened("lustre-client");
        world.header(log.index);
        assert_eq!(world.block(log), first);
        // That of the target that is added.
        world.asked.retain(|asked| asked.kind != Kind::OstConnect);
    }
    // It may register again.
    let added = world.client.osts[&2];
    assert!(!world.client.rpc.import(added).is_some_and(Import::is_deactivated));
    assert_eq!(world.view().configs[1].last, u64::from(old.index));
}

/// The targets that were not read are there all the same.
#[test]
fn a_log_that_was_written_anew_counts_when_all_of_it_is_read() {
    let (mut world, [targets, ..]) = World::mounted(&Log::default(), &[], (2, 2));
    world.call_back(targets);
    world.canceled();
    world.pause();
    let mut shorter = Log::default();
    shorter.target("MDT", 0);
    world.grant_config("lustre", ConfigKind::CONFIG);
    world.opened("lustre-client");
    // It has one record more, and that is not read.
    world.header(shorter.index + 1);
    assert_eq!(world.block(&shorter), 1);
    let asked = world.next(Kind::LlogNextBlock);
    world.answer(&asked, -5, &ReplyBuffers::Bare);
    let imports = world.client.osts.values().chain(world.client.mdts.values());
    let active = imports
        .filter(|import| !world.client.rpc.import(**import).is_some_and(Import::is_deactivated));
    assert_eq!(active.count(), 3);
    assert_eq!(world.client.config.osts.len(), 2);
}
