//! What goes on after a pause: requests that a server had no time or no memory for.

use std::collections::BTreeMap;

use lustrine_lnet::service::Turn;
use lustrine_lnet::time::{Nanos, Time};
use lustrine_ptlrpc::RpcError;

use super::{Client, Done};
use crate::error::ClientError;

type Act = Box<dyn FnOnce(&mut Client, &mut Turn<'_>) + Send>;

/// What goes on later, by its time and a number.
#[derive(Default)]
pub(super) struct Later {
    acts: BTreeMap<(Time, u64), Act>,
    last: u64,
}

/// The pause before a server is asked again for what it has refused so many times: a second longer
/// each time, up to a minute [IMP-9].
pub(super) fn pause_after(refusals: u32) -> Nanos {
    Nanos::from_secs(u64::from(refusals.clamp(1, 60)))
}

impl Client {
    /// Goes on with an operation after a pause. It fails if the client is unmounted until then.
    pub(super) fn after<T: 'static>(
        &mut self,
        turn: &Turn<'_>,
        pause: Nanos,
        done: Done<T>,
        act: impl FnOnce(&mut Client, &mut Turn<'_>, Done<T>) + Send + 'static,
    ) {
        self.later.last += 1;
        let act: Act = Box::new(move |client, turn| match client.unmounted {
            true => done(client, turn, Err(ClientError::Rpc(RpcError::Closed))),
            false => act(client, turn, done),
        });
        self.later.acts.insert((turn.now + pause, self.later.last), act);
    }

    /// Goes on with what is due; with everything when the client is unmounted.
    pub(super) fn drive_later(&mut self, turn: &mut Turn<'_>) {
        let due = match self.unmounted {
            true => core::mem::take(&mut self.later.acts),
            false => {
                let rest = self.later.acts.split_off(&(turn.now + Nanos(1), 0));
                core::mem::replace(&mut self.later.acts, rest)
            }
        };
        for act in due.into_values() {
            act(self, turn);
        }
    }

    /// When the first of it is due.
    pub(super) fn later_deadline(&self) -> Time {
        match self.later.acts.first_key_value() {
            Some(_) if self.unmounted => Time::ZERO,
            Some(((at, _), _)) => *at,
            None => Time::NEVER,
        }
    }
}
