//! The log of network events: refusals, losses and protocol violations, found by comparing
//! counters.
//!
//! There is at most one line per kind and second of each event loop, whatever peers do, and an idle
//! loop is woken for it at most once.

use std::fmt::Write;

use lustrine_lnet::driver_report::{DriverCounter, DriverNotice, DriverOffender};
use lustrine_lnet::time::{Nanos, Time};

/// The interval at which counters are compared.
const PERIOD: Nanos = Nanos::from_secs(1);

/// What was logged already, and when to check again.
#[derive(Default)]
pub(crate) struct Watch {
    logged: Vec<DriverCounter>,
    next: Time,
    /// Whether the loop has turned since the last check.
    stirred: bool,
}

impl Watch {
    /// After a turn of the loop: whether it is time to [`log_changes`](Watch::log_changes).
    pub(crate) fn is_due(&mut self, now: Time) -> bool {
        self.stirred = now < self.next;
        if !self.stirred {
            self.next = now + PERIOD;
        }
        !self.stirred
    }

    /// When the loop must turn so that everything is logged.
    pub(crate) fn deadline(&self) -> Time {
        if self.stirred { self.next } else { Time::NEVER }
    }

    /// Logs what has been counted since the last time, with the latest peers and addresses that
    /// the driver has seen in it.
    pub(crate) fn log_changes(
        &mut self,
        cpt: u16,
        counters: &[DriverCounter],
        offenders: &[DriverOffender],
    ) {
        for (what, counted) in self.news(counters) {
            match latest(what, offenders) {
                Some(latest) => tracing::info!(cpt, counted, latest, "{what}"),
                None => tracing::info!(cpt, counted, "{what}"),
            }
        }
    }

    /// Logs which addresses were refused or evicted: a line for each reason and address, at most a
    /// few.
    pub(crate) fn report_strangers(cpt: u16, notices: &[DriverNotice]) {
        for DriverNotice { what, address, count } in notices {
            match address {
                Some(address) => tracing::warn!(cpt, %address, count, "{what}"),
                None => tracing::warn!(cpt, address = "others", count, "{what}"),
            }
        }
    }

    /// The kinds with new events, and the growth of their counters.
    fn news(&mut self, counters: &[DriverCounter]) -> Vec<(&'static str, String)> {
        if *counters == self.logged {
            return Vec::new();
        }
        let mut news: Vec<(&'static str, String)> = Vec::new();
        for counter in counters {
            let Some(what) = counter.log else { continue };
            let same = |other: &&DriverCounter| {
                (other.driver, other.name) == (counter.driver, counter.name)
            };
            let before = self.logged.iter().find(same).map_or(0, |other| other.value);
            let at = news.iter().position(|(other, _)| *other == what).unwrap_or_else(|| {
                news.push((what, String::new()));
                news.len() - 1
            });
            let counted = &mut news[at].1;
            if counter.value > before {
                let gap = if counted.is_empty() { "" } else { " " };
                write!(counted, "{gap}{}={}", counter.name, counter.value - before)
                    .expect("a String takes all");
            }
        }
        news.retain(|(_, counted)| !counted.is_empty());
        self.logged = counters.to_vec();
        news
    }
}

/// With whom the latest events of a line were, the latest one first; `None` if the driver does not
/// know.
fn latest(what: &str, offenders: &[DriverOffender]) -> Option<String> {
    let of_line = offenders.iter().rev().filter(|one| one.what == what);
    let names: Vec<String> = of_line.map(|one| one.who.to_string()).collect();
    (!names.is_empty()).then(|| names.join(" "))
}

#[cfg(test)]
mod tests {
    use lustrine_socklnd::Counters;

    use super::*;

    fn rows(counters: &Counters) -> Vec<DriverCounter> {
        counters.rows().collect()
    }

    #[test]
    fn counted_events_are_logged_once() {
        let mut watch = Watch::default();
        let mut counters = Counters { refused_full: 3, bad_source_port: 1, ..Counters::default() };
        counters.messages_sent = 9;
        let refused = ("connections refused", "refused_full=3 bad_source_port=1".to_owned());
        assert_eq!(watch.news(&rows(&counters)), [refused]);
        assert_eq!(watch.news(&rows(&counters)), []);
        counters.messages_sent = 10;
        assert_eq!(watch.news(&rows(&counters)), []);
        (counters.refused_full, counters.closed_by_peer, counters.bad_frame) = (5, 1, 1);
        let expected = [
            ("connections refused", "refused_full=2"),
            ("peers lost", "closed_by_peer=1"),
            ("protocol violations", "bad_frame=1"),
        ];
        let expected = expected.map(|(what, counted)| (what, counted.to_owned()));
        assert_eq!(watch.news(&rows(&counters)), expected);
    }

    #[test]
    fn a_line_names_the_latest_first() {
        use lustrine_lnet::driver_report::OtherEnd;

        let nid: lustrine_wire::nid::Nid = "10.0.0.1@tcp".parse().unwrap();
        let offenders = [
            ("peers lost", OtherEnd::Peer(nid)),
            ("connections refused", OtherEnd::Address([10, 0, 0, 7].into())),
            ("connections refused", OtherEnd::Peer(nid)),
        ]
        .map(|(what, who)| DriverOffender { what, who });
        let named = latest("connections refused", &offenders);
        assert_eq!(named.as_deref(), Some("10.0.0.1@tcp 10.0.0.7"));
        assert_eq!(latest("connections not made", &offenders), None);
    }

    #[test]
    fn an_idle_loop_is_woken_once_and_the_first_event_is_logged_at_once() {
        let (mut watch, start) = (Watch::default(), Time::ZERO + PERIOD);
        assert!(watch.is_due(start), "nothing was logged for a second");
        assert_eq!(watch.deadline(), Time::NEVER);
        assert!(!watch.is_due(start + Nanos(1)));
        assert_eq!(watch.deadline(), start + PERIOD);
        assert!(watch.is_due(start + PERIOD));
        assert_eq!(watch.deadline(), Time::NEVER);
    }
}
