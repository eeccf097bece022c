//! The log of network events: refusals, losses and protocol violations, found by comparing
//! counters.
//!
//! There is at most one line per kind and second of each event loop, whatever peers do, and one per
//! kind and minute of what goes on for longer. An idle loop is woken once for each.

use std::fmt::Write;

use lustrine_lnet::driver_report::{DriverCounter, DriverNotice, DriverOffender};
use lustrine_lnet::time::{Nanos, Time};

/// The interval at which counters are compared.
const PERIOD: Nanos = Nanos::from_secs(1);

/// The longest time between two lines of one kind while their events go on.
const PAUSE_MAX: Nanos = Nanos::from_secs(60);

/// Most peers and addresses that are kept for one line.
const NAMED_MAX: usize = 4;

/// What was logged already, and when to check again.
#[derive(Default)]
pub(crate) struct Watch {
    logged: Vec<DriverCounter>,
    lines: Vec<Line>,
    /// Whom the lines that are not logged yet concern, the latest last.
    held: Vec<DriverOffender>,
    next: Time,
    /// Whether the loop has turned since the last check.
    stirred: bool,
}

/// A kind of line in the log.
struct Line {
    what: &'static str,
    /// It is not logged again before.
    next: Time,
    /// How long that was from the line before.
    pause: Nanos,
    /// Whether something is to be logged then.
    is_held: bool,
}

impl Line {
    /// It is logged now. What comes again within a minute after it may be logged goes on, and is
    /// logged at twice the interval each time.
    fn logged(&mut self, now: Time) {
        let goes_on = self.pause > Nanos::ZERO && now < self.next + PAUSE_MAX;
        let longer = Nanos((self.pause.0 * 2).min(PAUSE_MAX.0));
        self.pause = if goes_on { longer } else { PERIOD };
        self.next = now + self.pause;
    }
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
        if self.stirred {
            return self.next;
        }
        let held = self.lines.iter().filter(|line| line.is_held).map(|line| line.next).min();
        held.map_or(Time::NEVER, |held| held.max(self.next))
    }

    /// Logs what has been counted since the last time, with the latest peers and addresses that
    /// the driver has seen in it. Without a time, which is the end of the loop, nothing is held
    /// back.
    pub(crate) fn log_changes(
        &mut self,
        now: Option<Time>,
        cpt: u16,
        counters: &[DriverCounter],
        offenders: &[DriverOffender],
    ) {
        let news = self.news(now, counters);
        for offender in offenders {
            self.held.retain(|held| held != offender);
            let is_same = |held: &DriverOffender| held.what == offender.what;
            // The oldest goes, of this line: others are not pushed out.
            if self.held.iter().filter(|held| is_same(held)).count() >= NAMED_MAX
                && let Some(oldest) = self.held.iter().position(is_same)
            {
                self.held.remove(oldest);
            }
            self.held.push(*offender);
        }
        for (what, counted) in news {
            match latest(what, &self.held) {
                Some(latest) => tracing::info!(cpt, counted, latest, "{what}"),
                None => tracing::info!(cpt, counted, "{what}"),
            }
            self.held.retain(|held| held.what != what);
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

    /// The kinds with new events, and the growth of their counters. Those that were logged a short
    /// time ago are held back.
    fn news(
        &mut self,
        now: Option<Time>,
        counters: &[DriverCounter],
    ) -> Vec<(&'static str, String)> {
        let mut news: Vec<(&'static str, String)> = Vec::new();
        self.lines.iter_mut().for_each(|line| line.is_held = false);
        for counter in counters {
            let Some(what) = counter.log else { continue };
            let is_same = |other: &DriverCounter| {
                (other.driver, other.name) == (counter.driver, counter.name)
            };
            let before = self.logged.iter().position(is_same).unwrap_or_else(|| {
                self.logged.push(DriverCounter { value: 0, ..*counter });
                self.logged.len() - 1
            });
            let growth = counter.value.saturating_sub(self.logged[before].value);
            if growth == 0 {
                continue;
            }
            let line = self.lines.iter().position(|line| line.what == what).unwrap_or_else(|| {
                let (next, pause) = (Time::ZERO, Nanos::ZERO);
                self.lines.push(Line { what, next, pause, is_held: false });
                self.lines.len() - 1
            });
            let line = &mut self.lines[line];
            if now.is_some_and(|now| now < line.next) {
                line.is_held = true;
                continue;
            }
            self.logged[before] = *counter;
            let at = news.iter().position(|(other, _)| *other == what).unwrap_or_else(|| {
                news.push((what, String::new()));
                news.len() - 1
            });
            let counted = &mut news[at].1;
            let gap = if counted.is_empty() { "" } else { " " };
            write!(counted, "{gap}{}={growth}", counter.name).expect("a String takes all");
        }
        if let Some(now) = now {
            let is_news = |line: &&mut Line| news.iter().any(|(what, _)| *what == line.what);
            self.lines.iter_mut().filter(is_news).for_each(|line| line.logged(now));
        }
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

    fn second(second: u64) -> Option<Time> {
        Some(Time::ZERO + Nanos::from_secs(second))
    }

    #[test]
    fn counted_events_are_logged_once() {
        let mut watch = Watch::default();
        let mut counters = Counters { refused_full: 3, bad_source_port: 1, ..Counters::default() };
        counters.messages_sent = 9;
        let refused = ("connections refused", "refused_full=3 bad_source_port=1".to_owned());
        assert_eq!(watch.news(second(10), &rows(&counters)), [refused]);
        assert_eq!(watch.news(second(11), &rows(&counters)), []);
        counters.messages_sent = 10;
        assert_eq!(watch.news(second(12), &rows(&counters)), []);
        (counters.refused_full, counters.closed_midway, counters.bad_frame) = (5, 1, 1);
        counters.closed_by_peer = 2;
        let expected = [
            ("connections refused", "refused_full=2"),
            ("peers lost", "closed_midway=1"),
            ("protocol violations", "bad_frame=1"),
        ];
        let expected = expected.map(|(what, counted)| (what, counted.to_owned()));
        assert_eq!(watch.news(second(13), &rows(&counters)), expected);
    }

    #[test]
    fn what_goes_on_is_logged_ever_less_often_and_nothing_is_lost() {
        let mut watch = Watch::default();
        let mut counters = Counters::default();
        let mut logged = Vec::new();
        let mut counted = 0;
        for at in 100..400 {
            counters.dials_failed += 1;
            for (what, text) in watch.news(second(at), &rows(&counters)) {
                assert_eq!(what, "connections not made");
                counted += text.strip_prefix("dials_failed=").unwrap().parse::<u64>().unwrap();
                logged.push(at);
            }
            // Another kind does not wait for it.
            if at == 250 {
                counters.closed_midway += 1;
                let others = watch.news(second(at), &rows(&counters));
                assert_eq!(others, [("peers lost", "closed_midway=1".to_owned())]);
            }
        }
        assert_eq!(logged, [100, 101, 103, 107, 115, 131, 163, 223, 283, 343]);
        let rest = watch.news(None, &rows(&counters));
        assert_eq!(rest, [("connections not made", format!("dials_failed={}", 300 - counted))]);
        // After a time without any, the next is logged at once, and the one after soon.
        for at in [600, 601] {
            counters.dials_failed += 1;
            assert_eq!(watch.news(second(at), &rows(&counters)).len(), 1, "{at}");
        }
    }

    /// A peer that is away is dialled every few seconds.
    #[test]
    fn what_comes_every_few_seconds_is_logged_ever_less_often_too() {
        let (mut watch, mut counters) = (Watch::default(), Counters::default());
        let mut logged = Vec::new();
        for at in (100..400).step_by(5) {
            counters.dials_failed += 1;
            if !watch.news(second(at), &rows(&counters)).is_empty() {
                logged.push(at);
            }
        }
        assert_eq!(logged, [100, 105, 110, 115, 125, 145, 180, 240, 300, 360]);
    }

    #[test]
    fn the_loop_is_woken_for_what_is_held() {
        let mut watch = Watch::default();
        let mut counters = Counters { dials_failed: 1, ..Counters::default() };
        let start = second(10).unwrap();
        assert!(watch.is_due(start));
        assert_eq!(watch.news(Some(start), &rows(&counters)).len(), 1);
        assert_eq!(watch.deadline(), Time::NEVER);
        counters.dials_failed = 2;
        assert!(watch.is_due(start + PERIOD));
        assert_eq!(watch.news(Some(start + PERIOD), &rows(&counters)).len(), 1);
        counters.dials_failed = 3;
        let third = start + PERIOD + PERIOD;
        assert!(watch.is_due(third));
        assert_eq!(watch.news(Some(third), &rows(&counters)), []);
        assert_eq!(watch.deadline(), third + PERIOD);
        assert!(watch.is_due(third + PERIOD));
        assert_eq!(watch.news(Some(third + PERIOD), &rows(&counters)).len(), 1);
        assert_eq!(watch.deadline(), Time::NEVER);
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
