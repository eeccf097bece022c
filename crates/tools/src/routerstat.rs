//! `routerstat`: rates from a node's counters, one line per interval [TOOL-19].

#[cfg(test)]
mod tests;

use core::time::Duration;
use std::collections::BTreeMap;

/// Bytes of a MiB.
const MIB: f64 = 1_048_576.0;

/// The counters it shows. Lustrine nodes do not route, so nothing is ever forwarded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    msgs_alloc: u64,
    msgs_max: u64,
    errors: u64,
    send: Flow,
    recv: Flow,
    route: Flow,
    drop: Flow,
}

/// Messages and bytes in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Flow {
    count: u64,
    length: u64,
}

impl Counters {
    /// The totals in a node's counters, by LNet's names; a missing counter is 0.
    pub fn from_map(counters: &BTreeMap<String, u64>) -> Counters {
        let value = |name: &str| counters.get(name).copied().unwrap_or(0);
        let flow = |name: &str| Flow {
            count: value(&format!("{name}_count")),
            length: value(&format!("{name}_length")),
        };
        Counters {
            msgs_alloc: value("msgs_alloc"),
            msgs_max: value("msgs_max"),
            errors: value("errors"),
            send: flow("send"),
            recv: flow("recv"),
            route: flow("route"),
            drop: flow("drop"),
        }
    }

    /// The first line: totals.
    pub fn totals(&self) -> String {
        format!(
            "M {}({}) E {} S {} R {} F {} D {}\n",
            self.msgs_alloc,
            self.msgs_max,
            self.errors,
            self.send.total(),
            self.recv.total(),
            self.route.total(),
            self.drop.total(),
        )
    }

    /// A line for the time since `before`: MiB and messages per second, and new errors.
    pub fn rates(&self, before: &Counters, time: Duration) -> String {
        let rate = |now: &Flow, before: &Flow| now.rate(before, time);
        let (send, recv) = (rate(&self.send, &before.send), rate(&self.recv, &before.recv));
        let (route, drop) = (rate(&self.route, &before.route), rate(&self.drop, &before.drop));
        format!(
            "M {:3}({:3}) E {} S {:7.2}/{:6.0} R {:7.2}/{:6.0} F {:7.2}/{:6.0} D {:4.2}/{:.0}\n",
            self.msgs_alloc,
            self.msgs_max,
            grown(self.errors, before.errors),
            send.0,
            send.1,
            recv.0,
            recv.1,
            route.0,
            route.1,
            drop.0,
            drop.1,
        )
    }
}

impl Flow {
    fn total(&self) -> String {
        format!("{}/{}", self.length, self.count)
    }

    /// MiB and messages per second.
    fn rate(&self, before: &Flow, time: Duration) -> (f64, f64) {
        let seconds = time.as_secs_f64().max(1e-3);
        let length = grown(self.length, before.length) as f64;
        let count = grown(self.count, before.count) as f64;
        (length / MIB / seconds, count / seconds)
    }
}

/// The growth of a counter. Lustrine's counters have 64 bits and never wrap: a counter that
/// decreased belongs to a node that was restarted, and began at 0.
fn grown(now: u64, before: u64) -> u64 {
    now.checked_sub(before).unwrap_or(now)
}
