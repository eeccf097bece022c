use signal_hook::low_level::raise;

use super::*;
use crate::poller::{Interest, Poller};
use crate::testing::wait_for;

#[test]
fn a_thread_that_blocks_new_sizes_of_the_terminal_gets_none() {
    let came = Arc::new(AtomicBool::new(false));
    let handler = flag::register(libc::SIGWINCH, Arc::clone(&came)).unwrap();
    let blocked = std::thread::spawn(|| {
        block_window_changes().unwrap();
        raise(libc::SIGWINCH).unwrap();
    });
    blocked.join().unwrap();
    assert!(!came.load(Ordering::SeqCst), "raise() is of one thread, which had blocked it");
    raise(libc::SIGWINCH).unwrap();
    assert!(came.load(Ordering::SeqCst), "other threads get it");
    low_level::unregister(handler);
}

/// One test for all, because signals belong to the process, and tests run in parallel.
#[test]
fn signals_are_reported_and_taken_once() {
    let signals = Signals::install().unwrap();
    let mut poller = Poller::new(1).unwrap();
    poller.add(&signals, 4, Interest::Readable).unwrap();
    assert_eq!(signals.take(), Pending::default());

    raise(SIGHUP).unwrap();
    raise(SIGHUP).unwrap();
    wait_for(&mut poller, 4, |r| r.readable);
    assert_eq!(signals.take(), Pending { hangup: true, ..Pending::default() });
    assert_eq!(signals.take(), Pending::default());
    let mut ready = Vec::new();
    poller.wait(Some(std::time::Duration::ZERO), &mut ready).unwrap();
    assert_eq!(ready, [], "the bell is silent again");

    for signal in [SIGTERM, SIGINT] {
        raise(signal).unwrap();
        signals.wait(std::time::Duration::from_secs(60));
        wait_for(&mut poller, 4, |r| r.readable);
        let interrupt = signal == SIGINT;
        assert_eq!(signals.take(), Pending { terminate: true, interrupt, hangup: false });
    }

    // These are never taken; a full pipe must not block the handler.
    (0..100_000).for_each(|_| raise(SIGHUP).unwrap());
    assert!(signals.take().hangup);

    raise(libc::SIGPIPE).unwrap(); // would end the process
}
