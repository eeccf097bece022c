//! What the log says about the network: refusals, losses and protocol violations, by comparing
//! counters.
//!
//! Whatever peers do, it is at most one line per kind and second of each event loop, and a loop
//! with nothing to do is woken for it once at most.

use std::fmt::Write;

use lustrine_lnet::time::{Nanos, Time};
use lustrine_socklnd::{Counters, Notice};

/// How often counters are compared.
const PERIOD: Nanos = Nanos::from_secs(1);

/// A kind of news, and the counters of the driver that tell it.
struct Kind {
    what: &'static str,
    counters: &'static [&'static str],
}

const KINDS: [Kind; 4] = [
    Kind {
        what: "connections refused",
        counters: &[
            "refused_full",
            "handshakes_evicted",
            "claims_refused",
            "foreign_address",
            "bad_source_port",
            "bad_request_magic",
            "bad_request_version",
            "bad_request_target",
            "wrong_target",
            "slow_handshake",
            "bad_hello_magic",
            "bad_hello_version",
            "bad_hello_kind",
            "bad_hello_source",
            "bad_hello",
        ],
    },
    Kind {
        what: "connections not made",
        counters: &[
            "handshakes_broken",
            "dials_failed",
            "dials_forbidden_ipv6",
            "dials_without_privilege",
            "rejected",
            "busy",
            "timeouts_dial",
            "bad_answer_identity",
            "bad_answer_kind",
        ],
    },
    Kind {
        what: "peers lost",
        counters: &[
            "broken",
            "closed_by_peer",
            "restarts_seen",
            "userland_evicted",
            "timeouts_receive",
            "timeouts_send",
            "timeouts_zero_copy",
        ],
    },
    Kind {
        what: "protocol violations",
        counters: &[
            "bad_frame",
            "bad_header",
            "bad_keepalive",
            "unknown_cookie",
            "ack_backlog",
            "bad_checksum",
            "truncated",
            "wrong_destination",
            "payload_on_ack_or_get",
            "payload_too_long",
            "unexpected_hello",
            "bad_source",
        ],
    },
];

/// What was told already, and when to look again.
#[derive(Default)]
pub(crate) struct Watch {
    told: Counters,
    next: Time,
    /// The loop has turned since the last look.
    stirred: bool,
}

impl Watch {
    /// After a turn of the loop: whether it is time to [`tell`](Watch::tell).
    pub(crate) fn is_due(&mut self, now: Time) -> bool {
        self.stirred = now < self.next;
        if !self.stirred {
            self.next = now + PERIOD;
        }
        !self.stirred
    }

    /// When the loop must turn so that nothing stays untold.
    pub(crate) fn deadline(&self) -> Time {
        if self.stirred { self.next } else { Time::NEVER }
    }

    /// Logs what has been counted since the last time.
    pub(crate) fn tell(&mut self, cpt: u16, counters: &Counters) {
        for (what, counted) in self.news(counters) {
            tracing::info!(cpt, counted, "{what}");
        }
    }

    /// Logs who was refused or evicted: a line for each reason and address, at most a few.
    pub(crate) fn report_strangers(cpt: u16, notices: &[Notice]) {
        for Notice { incident, address, count } in notices {
            match address {
                Some(address) => tracing::warn!(cpt, %address, count, "{incident}"),
                None => tracing::warn!(cpt, address = "others", count, "{incident}"),
            }
        }
    }

    /// The kinds with news, and by how much which of their counters grew.
    fn news(&mut self, counters: &Counters) -> Vec<(&'static str, String)> {
        if *counters == self.told {
            return Vec::new();
        }
        let mut news = Vec::new();
        for Kind { what, counters: names } in KINDS {
            let mut counted = String::new();
            for ((name, now), (_, before)) in counters.iter().zip(self.told.iter()) {
                if now > before && names.contains(&name) {
                    let gap = if counted.is_empty() { "" } else { " " };
                    write!(counted, "{gap}{name}={}", now - before).expect("a String takes all");
                }
            }
            if !counted.is_empty() {
                news.push((what, counted));
            }
        }
        self.told = *counters;
        news
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_a_counter_of_one_kind() {
        let all: Vec<_> = Counters::default().iter().map(|(name, _)| name).collect();
        let named: Vec<_> = KINDS.iter().flat_map(|kind| kind.counters).collect();
        for name in &named {
            assert!(all.contains(name), "{name} is no counter");
            assert_eq!(named.iter().filter(|other| *other == name).count(), 1, "{name}");
        }
    }

    #[test]
    fn what_was_counted_is_told_once() {
        let mut watch = Watch::default();
        let mut counters = Counters { refused_full: 3, bad_source_port: 1, ..Counters::default() };
        counters.messages_sent = 9;
        let refused = ("connections refused", "refused_full=3 bad_source_port=1".to_owned());
        assert_eq!(watch.news(&counters), [refused]);
        assert_eq!(watch.news(&counters), []);
        counters.messages_sent = 10;
        assert_eq!(watch.news(&counters), []);
        (counters.refused_full, counters.closed_by_peer, counters.bad_frame) = (5, 1, 1);
        let expected = [
            ("connections refused", "refused_full=2"),
            ("peers lost", "closed_by_peer=1"),
            ("protocol violations", "bad_frame=1"),
        ];
        let expected = expected.map(|(what, counted)| (what, counted.to_owned()));
        assert_eq!(watch.news(&counters), expected);
    }

    #[test]
    fn a_loop_at_rest_is_woken_once_and_the_first_news_do_not_wait() {
        let (mut watch, start) = (Watch::default(), Time::ZERO + PERIOD);
        assert!(watch.is_due(start), "nothing was told for a second");
        assert_eq!(watch.deadline(), Time::NEVER);
        assert!(!watch.is_due(start + Nanos(1)));
        assert_eq!(watch.deadline(), start + PERIOD);
        assert!(watch.is_due(start + PERIOD));
        assert_eq!(watch.deadline(), Time::NEVER);
    }
}
