//! Changes to a loop that runs.

use lustrine_lnet::shard::PeerTableFull;
use lustrine_lnet::time::Time;
use lustrine_sys::Interest;

use super::EventLoop;
use crate::idle::IdlePolicy;
use crate::listener::BoundListener;
use crate::loop_io::OTHER_TOKEN;
use crate::mailbox::ChangeOrder;

impl EventLoop {
    /// Makes all changes of an order, in this turn.
    pub(super) fn change(&mut self, now: Time, order: ChangeOrder) -> Result<(), PeerTableFull> {
        if let Some((options, spin_us)) = order.options {
            for listener in self.listeners.iter_mut().flatten() {
                listener.socket.set_options(options.clone());
            }
            self.io.set_options(options);
            self.waiting = IdlePolicy::new(spin_us);
        }
        let mut changed = Ok(());
        for change in order.changes.iter() {
            changed = changed.and(self.partition.change(now, &mut self.io, change));
        }
        if let Some(policy) = order.selftest {
            self.partition.set_selftest_policy(now, &mut self.io, &policy);
        }
        order.bound.listeners.into_iter().for_each(|listener| self.add_listener(listener));
        self.claims.extend(order.bound.claims);
        self.close_unused_listeners();
        // The caller may have given up.
        let _ = order.reply.send(changed);
        changed
    }

    fn add_listener(&mut self, listener: BoundListener) {
        let index = self.listeners.iter().position(Option::is_none).unwrap_or(self.listeners.len());
        let token = OTHER_TOKEN | index as u64;
        // While the listeners rest they are not watched; the end of the rest adds this one too.
        if self.accept_paused_until == Time::ZERO
            && let Err(error) = self.io.poller.add(&listener.socket, token, Interest::Readable)
        {
            tracing::error!(%error, local = %listener.local, "cannot listen");
        }
        if index == self.listeners.len() {
            self.listeners.push(None);
        }
        self.listeners[index] = Some(listener);
    }

    /// Closes those that lead to no interface any more. Dropping a listener closes it, which also
    /// takes it out of the poller.
    fn close_unused_listeners(&mut self) {
        let driver = self.partition.driver();
        for listener in &mut self.listeners {
            if listener.as_ref().is_some_and(|listener| driver.ni_at(listener.local).is_none()) {
                *listener = None;
            }
        }
        self.claims.retain(|claim| driver.ni_at(claim.local).is_some());
    }
}
