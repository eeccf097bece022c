//! Overdue operations and connections, for tests and the simulator's checks.

use lustrine_lnet::time::Time;

use crate::driver::Socklnd;

impl Socklnd {
    /// A description of each overdue item: messages that wait for a connection past their deadline;
    /// handshakes past theirs; connections without progress, and zero-copy payloads unacknowledged,
    /// for longer than `sock_timeout` and the time from one check to the next. A message on a
    /// connection with progress has no limit here.
    ///
    /// Empty in a driver whose `tick` was called at every deadline that it gave.
    pub fn overdue(&self, now: Time) -> Vec<String> {
        let mut wrong = Vec::new();
        let looked_at = now - self.timing.scan;
        let still_since = looked_at - self.timing.sock_timeout;
        for (_, peer) in self.peers.iter() {
            let waiting = peer.queue.iter().map(|send| send.deadline);
            if let Some(deadline) = waiting.min().filter(|deadline| *deadline < now) {
                let late = now.since(deadline);
                wrong.push(format!(
                    "a message to {} waits {late:?} after its deadline",
                    peer.id.nid
                ));
            }
            if peer.zero_copy.overdue(still_since) {
                wrong.push(format!("{} has not acknowledged a payload for too long", peer.id.nid));
            }
        }
        for conn in self.conns.values() {
            match conn.open() {
                Some(_) if conn.stall(looked_at, &self.timing).is_some() => {
                    wrong.push(format!("a connection with {} stands still", conn.remote));
                }
                None if conn.deadline < now => {
                    wrong.push(format!("a handshake with {} is late", conn.remote));
                }
                _ => {}
            }
        }
        wrong
    }

    /// How many of the core's messages this driver has: waiting for a connection, being sent,
    /// awaiting a zero-copy acknowledgement, or being received.
    pub fn operations(&self) -> usize {
        let of_peers = self.peers.iter().map(|(_, peer)| peer.queue.len() + peer.zero_copy.len());
        let of_conns = self.conns.values().map(|conn| {
            let receiving = conn.open().is_some_and(|open| open.reader.storing());
            conn.tx.operations() + usize::from(receiving)
        });
        of_peers.sum::<usize>() + of_conns.sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use lustrine_lnet::time::Nanos;

    use crate::testing::{Chaos, World, config, process};

    fn pair() -> World {
        let mut world = World::new(1, Chaos::None);
        world.add(config(1));
        world.add(config(2));
        world
    }

    #[test]
    fn a_message_whose_deadline_is_not_checked() {
        let mut world = pair();
        let deadline = world.now + Nanos::from_secs(7);
        world.put_until(0, process(2), 1, b"late", deadline);
        let driver = world.driver(0);
        assert_eq!((driver.operations(), driver.overdue(deadline)), (1, vec![]));
        let wrong = driver.overdue(deadline + Nanos(1));
        assert!(wrong.len() == 1 && wrong[0].contains("waits Nanos(1) after"), "{wrong:?}");
        world.run();
        assert_eq!(world.driver(0).operations(), 0);
    }

    #[test]
    fn a_connection_without_progress_that_is_not_closed() {
        let mut world = pair();
        world.put(0, process(2), 1, b"hello");
        world.run();
        world.put(0, process(2), 2, &[7; 1 << 20]);
        while world.turn(0) {}
        let (driver, now) = (world.driver(0), world.now);
        let (limit, scan) = (driver.timing.sock_timeout, driver.timing.scan);
        assert_eq!(driver.operations(), 1);
        assert_eq!(driver.overdue(now + limit + scan), Vec::<String>::new());
        let wrong = driver.overdue(now + limit + scan + Nanos(1));
        assert!(wrong.len() == 1 && wrong[0].contains("stands still"), "{wrong:?}");
        world.run();
        assert_eq!(world.driver(0).operations(), 0);
    }
}
