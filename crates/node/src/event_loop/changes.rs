//! Changes to a loop that runs.

use lustrine_lnet::shard::PeerTableFull;
use lustrine_lnet::time::Time;
use lustrine_sys::Interest;

use super::{Door, EventLoop};
use crate::letters::ChangeOrder;
use crate::loop_io::OTHER_TOKEN;
use crate::wait::Waiting;

impl EventLoop {
    /// Makes all changes of an order, in this turn.
    pub(super) fn change(&mut self, now: Time, order: ChangeOrder) -> Result<(), PeerTableFull> {
        if let Some((options, spin_us)) = order.options {
            for door in self.doors.iter_mut().flatten() {
                door.listener.set_options(options.clone());
            }
            self.io.set_options(options);
            self.waiting = Waiting::new(spin_us);
        }
        let mut changed = Ok(());
        for change in order.changes.iter() {
            changed = changed.and(self.partition.change(now, &mut self.io, change));
        }
        order.doors.into_iter().for_each(|door| self.add_door(door));
        self.close_doors();
        // The asker may have given up.
        let _ = order.reply.send(changed);
        changed
    }

    fn add_door(&mut self, door: Door) {
        let index = self.doors.iter().position(Option::is_none).unwrap_or(self.doors.len());
        let token = OTHER_TOKEN | index as u64;
        // While the doors rest they are not watched; the end of the rest adds this one too.
        if self.rest_until == Time::ZERO
            && let Err(error) = self.io.poller.add(&door.listener, token, Interest::Readable)
        {
            tracing::error!(%error, local = %door.local, "cannot listen");
        }
        if index == self.doors.len() {
            self.doors.push(None);
        }
        self.doors[index] = Some(door);
    }

    /// Closes those that lead to no interface any more. Dropping a listener closes it, which also
    /// takes it out of the poller.
    fn close_doors(&mut self) {
        let driver = self.partition.driver();
        for door in &mut self.doors {
            if door.as_ref().is_some_and(|door| driver.ni_at(door.local).is_none()) {
                *door = None;
            }
        }
    }
}
