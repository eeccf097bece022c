use lustrine_testing::{Need, not_run};

use super::*;

#[test]
fn a_pinned_thread_runs_where_it_was_put() {
    let all = allowed_cpus().unwrap();
    let last = *all.last().unwrap();
    let pinned = std::thread::spawn(move || {
        pin(&[last]).unwrap();
        let here = rustix::thread::sched_getcpu();
        (here, allowed_cpus().unwrap())
    });
    assert_eq!(pinned.join().unwrap(), (last as usize, vec![last]));
    assert_eq!(allowed_cpus().unwrap(), all, "other threads are left alone");
}

#[test]
fn a_cpu_that_is_not_there_is_refused() {
    for cpus in [&[][..], &[1023], &[1024], &[u32::MAX]] {
        if allowed_cpus().unwrap().contains(&1023) {
            not_run(Need::Resources, "this machine has more than 1023 CPUs");
            return;
        }
        assert_eq!(pin(cpus).unwrap_err().kind(), io::ErrorKind::InvalidInput, "{cpus:?}");
    }
}

#[test]
fn exact_timeouts_apply_to_one_thread() {
    let before = rustix::thread::current_timer_slack().unwrap();
    let there = std::thread::spawn(|| {
        minimize_timer_slack().unwrap();
        rustix::thread::current_timer_slack().unwrap()
    });
    assert_eq!(there.join().unwrap(), 1);
    assert_eq!(rustix::thread::current_timer_slack().unwrap(), before);
}
