use super::*;

fn operation(name: &str, count: u64, sum_us: f64) -> OperationSample {
    OperationSample { name: name.to_owned(), count, sum_us, p50_us: 1.0, p99_us: 2.0 }
}

fn mount(mounted_s: f64, count: u64) -> MountSample {
    let operations = vec![operation("OST_READ", count, count as f64 * 100.0)];
    let target = TargetSample {
        name: "lustre-OST0000".to_owned(),
        state: "FULL".to_owned(),
        in_flight: 5,
        waiting: 2,
        operations: Some(operations.clone()),
        ..TargetSample::default()
    };
    MountSample {
        dir: "/mnt".to_owned(),
        pid: 7,
        mounted_s,
        rpcs_sent: count,
        bulk_received: count << 20,
        targets: vec![target],
        operations,
        ..MountSample::default()
    }
}

#[test]
fn rates_are_growth_per_second_of_the_mount() {
    let view = MountView::between(Some(&mount(10.0, 100)), &mount(12.0, 140));
    assert_eq!((view.rpcs_per_s, view.read_bytes_per_s), (Some(20.0), Some(20.0 * 1048576.0)));
    let target = &view.targets[0];
    assert_eq!((target.replies_per_s, target.mean_us), (Some(20.0), Some(100.0)));
    assert_eq!((target.in_flight, target.waiting), (5, 2));
    assert_eq!(view.operations.len(), 1);
    assert_eq!((view.operations[0].replies_per_s, view.operations[0].mean_us), (20.0, 100.0));
}

#[test]
fn without_replies_there_is_no_mean() {
    let view = MountView::between(Some(&mount(10.0, 100)), &mount(12.0, 100));
    assert_eq!((view.targets[0].replies_per_s, view.targets[0].mean_us), (Some(0.0), None));
    assert!(view.operations.is_empty());
}

#[test]
fn a_new_mount_and_counters_that_have_begun_again_have_no_rates() {
    for then in [None, Some(mount(10.0, 300))] {
        let view = MountView::between(then.as_ref(), &mount(12.0, 100));
        assert_eq!((view.rpcs_per_s, view.targets[0].replies_per_s), (None, None));
        assert!(view.operations.is_empty());
    }
    // Clocks that stand still divide nothing by zero.
    let view = MountView::between(Some(&mount(12.0, 10)), &mount(12.0, 100));
    assert_eq!((view.rpcs_per_s, view.targets[0].replies_per_s), (None, None));
}

#[test]
fn another_program_at_the_same_place_is_another_mount() {
    let sample = |mount| crate::Sample { mounts: vec![mount], ..crate::Sample::default() };
    let then = sample(MountSample { pid: 6, ..mount(10.0, 1) });
    let view = crate::View::between(&then, &sample(mount(12.0, 100)));
    assert_eq!(view.mounts[0].rpcs_per_s, None);
    let view = crate::View::between(&sample(mount(10.0, 1)), &sample(mount(12.0, 101)));
    assert_eq!(view.mounts[0].rpcs_per_s, Some(50.0));
}
