//! How much may be in flight to the target, beside `max_rpcs_in_flight`.

use core::time::Duration;

use lustrine_congestion::{Class, Controller, Limits, Wait};
use lustrine_fswire::opcode::Opcode;
use lustrine_lnet::time::{Nanos, Time, WallClock};

use super::Import;
use crate::request::RequestKey;

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The reply is there.
    Answered,
    /// There is none in time.
    Lost,
}

/// The bounds of a window: three of Lustre's usual bulk requests of 4 MiB at least, and eight at
/// first, which is its default of `max_rpcs_in_flight`.
const LIMITS: Limits = Limits { min: 13 << 20, brief: 0, initial: 33 << 20, max: 1 << 30 };

impl Import {
    /// Takes a request into the window; `false` if it has to wait.
    pub(super) fn enter_window(&mut self, now: Time, key: RequestKey) -> bool {
        let Some(wall) = self.tunables.window else { return true };
        let Some(request) = self.requests.get_mut(key) else { return true };
        let kind = match request.opcode_to_send() {
            Opcode::OST_READ => 0,
            Opcode::OST_WRITE => 1,
            _ => 2,
        };
        let class = Class::new(kind, u64::from(request.args.payload));
        let window = self.window.get_or_insert_with(|| Controller::new(LIMITS));
        let at = since_1970(wall, now);
        match window.admit(at, class) {
            Ok(ticket) => request.ticket = Some(ticket),
            Err(Wait::Full) => return false,
            Err(Wait::For(wait)) => {
                self.paced_until = self.paced_until.min(now + Nanos::saturating_from(wait));
                return false;
            }
        }
        true
    }

    /// Gives back the place of a request that says nothing about the way any more.
    pub(super) fn abandon_ticket(&mut self, key: RequestKey) {
        let ticket = self.requests.get_mut(key).and_then(|request| request.ticket.take());
        if let (Some(ticket), Some(window)) = (ticket, &mut self.window) {
            window.abandoned(ticket);
        }
    }

    /// Takes a request out of the window.
    pub(super) fn leave_window(&mut self, now: Time, key: RequestKey, outcome: Outcome) {
        let Some(request) = self.requests.get_mut(key) else { return };
        let (Some(ticket), Some(window)) = (request.ticket.take(), &mut self.window) else {
            return;
        };
        match (outcome, self.tunables.window) {
            (Outcome::Answered, Some(wall)) => window.done(since_1970(wall, now), ticket),
            (Outcome::Lost, Some(wall)) => window.failed(since_1970(wall, now), ticket),
            // It limits nothing any more.
            (_, None) => window.abandoned(ticket),
        }
    }
}

fn since_1970(wall: WallClock, now: Time) -> Duration {
    Duration::from_nanos(wall.at(now).0)
}
