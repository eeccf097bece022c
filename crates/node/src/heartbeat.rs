//! Heartbeats of the event loops, for a watchdog.
//!
//! A loop that sleeps is alive, and one that never finishes a turn is not, although its thread
//! runs. So each loop is sent a message, which wakes it, and answers when it reads its mailbox.

use std::sync::{Arc, mpsc};

use lustrine_sys::{PushError, Sender};

use crate::handle::NodeHandle;
use crate::mailbox::LoopMessage;

/// A question to all event loops whether they are alive.
pub struct Heartbeat {
    loops: Arc<[Sender<LoopMessage>]>,
    reply: mpsc::Sender<u16>,
    answers: mpsc::Receiver<u16>,
    /// The loops whose mailboxes had no room for the question so far, by CPU partition.
    unasked: Vec<u16>,
    /// The loops that have not answered, by CPU partition.
    silent: Vec<u16>,
}

impl NodeHandle {
    /// Asks all event loops for a heartbeat. It does not wait.
    pub fn heartbeat(&self) -> Heartbeat {
        let (reply, answers) = mpsc::channel();
        let all: Vec<u16> = (0..self.loops.len() as u16).collect();
        let loops = Arc::clone(&self.loops);
        let mut heartbeat = Heartbeat { loops, reply, answers, unasked: all.clone(), silent: all };
        heartbeat.ask();
        heartbeat
    }
}

impl Heartbeat {
    /// The loops that have not answered so far, by CPU partition. A loop whose mailbox was full is
    /// asked again.
    pub fn silent(&mut self) -> &[u16] {
        self.ask();
        for cpt in self.answers.try_iter() {
            self.silent.retain(|other| *other != cpt);
        }
        &self.silent
    }

    fn ask(&mut self) {
        let Heartbeat { loops, reply, unasked, .. } = self;
        unasked.retain(|cpt| {
            let question = LoopMessage::Heartbeat(reply.clone());
            // A loop that has ended is silent forever.
            matches!(loops[usize::from(*cpt)].push(question), Err(PushError::Full(_)))
        });
    }
}

#[cfg(test)]
mod tests {
    use lustrine_sys::{Mailbox, Sleeper, mailbox};

    use super::*;

    fn answer(cpt: u16, messages: &mut Mailbox<LoopMessage>) {
        messages.drain(|message| {
            if let LoopMessage::Heartbeat(reply) = message {
                reply.send(cpt).expect("the receiver exists");
            }
        });
    }

    #[test]
    fn only_loops_that_read_their_mailboxes_are_alive() {
        let sleeper = Sleeper::new().expect("a descriptor is free");
        let [(first, mut reading), (second, mut late), (third, ended)] =
            [(); 3].map(|()| mailbox(1, sleeper.waker()));
        drop(ended);
        // The second mailbox has no room for the question at first.
        assert!(second.push(LoopMessage::Stop).is_ok());
        let handle = crate::control::tests::handle_to(&[first, second, third]);
        let mut heartbeat = handle.heartbeat();
        assert_eq!(heartbeat.silent(), [0, 1, 2]);
        answer(0, &mut reading);
        answer(1, &mut late);
        assert_eq!(heartbeat.silent(), [1, 2]);
        answer(1, &mut late);
        assert_eq!(heartbeat.silent(), [2]);
        assert_eq!(handle.heartbeat().silent(), [0, 1, 2]);
    }
}
