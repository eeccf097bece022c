//! Liveness of life: what arrives of the node that is loaded.
//!
//! One message of it proves that it is there, whatever the message is: a reply, a GET for the
//! data of a write, an acknowledgement. So silence is judged by LNet's count of what it received.

use lustrine_lnet::time::Time;

/// What is known of the node's traffic.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Liveness {
    /// Messages received of it so far, as LNet counts them.
    received: u64,
    heard_at: Option<Time>,
    load_at: Option<Time>,
}

impl Liveness {
    /// Looks at LNet's count, which starts anew when LNet forgets the peer. `control` of what is
    /// new are replies to control RPCs: signs of life, but none of the load's.
    pub(super) fn look(&mut self, now: Time, received: u64, control: u64) {
        let more = received.saturating_sub(self.received);
        self.received = received;
        if more > 0 {
            self.heard_at = Some(now);
        }
        if more > control {
            self.load_at = Some(now);
        }
    }

    /// When something arrived last; to within a turn of the loop.
    pub(super) fn heard_at(&self) -> Option<Time> {
        self.heard_at
    }

    /// When something other than the reply to a control RPC arrived last.
    pub(super) fn load_at(&self) -> Time {
        self.load_at.unwrap_or(Time::ZERO)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_to_control_are_life_but_no_load() {
        let mut signs = Liveness::default();
        signs.look(Time(5), 0, 0);
        assert_eq!((signs.heard_at(), signs.load_at()), (None, Time::ZERO));
        signs.look(Time(6), 3, 0);
        assert_eq!((signs.heard_at(), signs.load_at()), (Some(Time(6)), Time(6)));
        signs.look(Time(7), 4, 1);
        assert_eq!((signs.heard_at(), signs.load_at()), (Some(Time(7)), Time(6)));
        signs.look(Time(8), 6, 1);
        assert_eq!(signs.load_at(), Time(8));
        // The peer was forgotten; counting goes on from what it has now.
        signs.look(Time(9), 1, 0);
        signs.look(Time(10), 2, 0);
        assert_eq!((signs.heard_at(), signs.load_at()), (Some(Time(10)), Time(10)));
    }
}
