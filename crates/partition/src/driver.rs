//! What a partition asks of its driver.

use lustrine_lnet::lnd::Action;
use lustrine_lnet::memory::Memory;
use lustrine_lnet::shard::Shard;
use lustrine_lnet::status::Status;
use lustrine_lnet::time::Time;
use lustrine_socklnd::Socklnd;
use lustrine_socklnd::io::Io;

/// A driver as a loop sees it that asks when to go on.
pub trait Driver {
    /// Whether [`DriverOn::flush`] would do something now.
    fn has_work(&self) -> bool;

    /// When [`DriverOn::tick`] has something to do next; [`Time::NEVER`] if only an event can bring
    /// that about.
    fn next_deadline(&self) -> Time;
}

/// A driver at work on `O`: on what there is outside of core and driver, the node's memory and the
/// driver's way to the network.
pub trait DriverOn<O: Memory>: Driver {
    /// Does what is due by the clock.
    fn tick(&mut self, now: Time, core: &mut Shard, outside: &mut O);

    /// Takes an action of the core without doing any I/O; more actions may follow from it.
    fn submit(&mut self, now: Time, core: &mut Shard, outside: &mut O, action: &Action);

    /// Does all I/O that can be done now, as far as is fair.
    fn flush(&mut self, now: Time, core: &mut Shard, outside: &mut O);

    /// Ends everything; operations end with `status`, those submitted from now on too.
    fn close_all(&mut self, now: Time, core: &mut Shard, outside: &mut O, status: Status);
}

impl Driver for Socklnd {
    #[inline]
    fn has_work(&self) -> bool {
        Socklnd::has_work(self)
    }

    #[inline]
    fn next_deadline(&self) -> Time {
        Socklnd::next_deadline(self)
    }
}

impl<I: Io> DriverOn<I> for Socklnd {
    fn tick(&mut self, now: Time, core: &mut Shard, outside: &mut I) {
        Socklnd::tick(self, now, core, outside);
    }

    #[inline]
    fn submit(&mut self, now: Time, core: &mut Shard, outside: &mut I, action: &Action) {
        Socklnd::submit(self, now, core, outside, action);
    }

    #[inline]
    fn flush(&mut self, now: Time, core: &mut Shard, outside: &mut I) {
        Socklnd::flush(self, now, core, outside);
    }

    fn close_all(&mut self, now: Time, core: &mut Shard, outside: &mut I, status: Status) {
        Socklnd::close_all(self, now, core, outside, status);
    }
}
