//! The metrics of the daemon.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use lustrine_config::Address;
use lustrine_metrics::{Page, WatchMetric};
use lustrine_node::metrics::{MetricsServer, MetricsSocket};
use lustrine_watch::{AlarmKind, Bandwidth, PathSample, Rtt};

use super::keeper::Taken;
use crate::output::Failure;

/// The latest values, which the server's thread reads.
#[derive(Clone, Default)]
pub(super) struct Scrape(Arc<Mutex<Values>>);

#[derive(Default)]
struct Values {
    peers: BTreeMap<String, PeerValues>,
    waiting: usize,
}

#[derive(Default)]
struct PeerValues {
    samples: u64,
    answered: u64,
    lost: u64,
    at_ms: u64,
    is_up: bool,
    loss: f64,
    rtt: Option<Rtt>,
    path: PathSample,
    bandwidth: Bandwidth,
    active: Vec<AlarmKind>,
    raised: BTreeMap<AlarmKind, u64>,
}

impl Scrape {
    /// Serves the values at an address.
    ///
    /// # Errors
    /// When the address cannot be used.
    pub(super) fn serve(&self, address: &Address) -> Result<MetricsServer, Failure> {
        let values = self.clone();
        let socket = MetricsSocket::bind(address).map_err(|error| error.to_string())?;
        let server = socket.serve_text(move || Ok(values.page().text()));
        Ok(server.map_err(|error| error.to_string())?)
    }

    /// Takes a sample in.
    pub(super) fn note(&self, taken: &Taken) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let values = all.peers.entry(taken.peer.clone()).or_default();
        let sample = &taken.sample;
        values.samples += 1;
        values.lost += u64::from(sample.lost);
        values.answered += u64::from(sample.sent.saturating_sub(sample.lost));
        values.at_ms = sample.at_ms;
        values.is_up = sample.is_answered();
        values.loss = f64::from(sample.lost) / f64::from(sample.sent.max(1));
        values.rtt = sample.rtt.or(values.rtt);
        if let Some(path) = &sample.path {
            values.path = path.clone();
        }
        if let Some(bandwidth) = sample.bandwidth {
            values.bandwidth.read = bandwidth.read.or(values.bandwidth.read);
            values.bandwidth.write = bandwidth.write.or(values.bandwidth.write);
        }
        values.active = taken.detector.active().iter().map(|alarm| alarm.kind.clone()).collect();
        for event in &taken.events {
            if event.alarm().over.is_none() {
                *values.raised.entry(event.alarm().kind.clone()).or_default() += 1;
            }
        }
    }

    /// How many samples wait for the file.
    pub(super) fn note_waiting(&self, waiting: usize) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).waiting = waiting;
    }

    fn page(&self) -> Page {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut page = Page::default();
        for (peer, values) in &all.peers {
            values.write(peer, &mut page);
        }
        page.watch_gauge(WatchMetric::Unstored, &[], all.waiting as f64);
        page
    }
}

impl PeerValues {
    fn write(&self, peer: &str, page: &mut Page) {
        page.watch_gauge(WatchMetric::Up, &[peer], f64::from(u8::from(self.is_up)));
        page.watch_count(WatchMetric::Samples, &[peer], self.samples);
        page.watch_gauge(WatchMetric::LastSample, &[peer], self.at_ms as f64 / 1e3);
        page.watch_count(WatchMetric::Pings, &[peer, "answered"], self.answered);
        page.watch_count(WatchMetric::Pings, &[peer, "lost"], self.lost);
        page.watch_gauge(WatchMetric::Loss, &[peer], self.loss);
        if let Some(rtt) = self.rtt {
            for (name, ns) in [
                ("min", rtt.min_ns),
                ("median", rtt.median_ns),
                ("p99", rtt.p99_ns),
                ("max", rtt.max_ns),
            ] {
                page.watch_gauge(WatchMetric::Rtt, &[peer, name], ns as f64 / 1e9);
            }
        }
        let PathSample { mtu_out, mtu_back, route } = &self.path;
        let (out, back) = ("out", "back");
        for (direction, bytes) in [(out, mtu_out), (back, mtu_back)] {
            if let Some(bytes) = bytes {
                page.watch_gauge(WatchMetric::Mtu, &[peer, direction], f64::from(*bytes));
            }
        }
        for (direction, hops) in [(out, route.hops_out), (back, route.hops_back)] {
            if let Some(hops) = hops {
                page.watch_gauge(WatchMetric::Hops, &[peer, direction], f64::from(hops));
            }
        }
        let Bandwidth { read, write } = self.bandwidth;
        for (direction, rate) in [("read", read), ("write", write)] {
            if let Some(rate) = rate {
                let bytes = rate as f64 / 8.0;
                page.watch_gauge(WatchMetric::Bandwidth, &[peer, direction], bytes);
            }
        }
        for kind in AlarmKind::ALL {
            let is_active = f64::from(u8::from(self.active.contains(&kind)));
            page.watch_gauge(WatchMetric::AlarmActive, &[peer, kind.name()], is_active);
            let raised = self.raised.get(&kind).copied().unwrap_or(0);
            page.watch_count(WatchMetric::Alarms, &[peer, kind.name()], raised);
        }
    }
}

#[cfg(test)]
mod tests {
    use lustrine_metrics::WATCH_TABLE;
    use lustrine_watch::{Detector, Route, Sample};

    use super::*;

    #[test]
    fn a_page_has_every_metric_of_the_table() {
        let scrape = Scrape::default();
        let sample = Sample {
            at_ms: 5000,
            sent: 4,
            lost: 1,
            rtt: Rtt::of(vec![1_000_000, 2_000_000, 3_000_000]),
            path: Some(PathSample {
                mtu_out: Some(9000),
                mtu_back: Some(1500),
                route: Route { hops_out: Some(1), ..Route::default() },
            }),
            bandwidth: Some(Bandwidth { read: Some(8_000), write: None }),
        };
        let detector = Detector::new(1, 1, 1);
        let peer = "10.0.0.2@tcp".to_owned();
        scrape.note(&Taken { peer, sample, events: Vec::new(), detector });
        let text = scrape.page().text();
        for row in WATCH_TABLE {
            assert!(text.contains(&format!("\n{}", row.name)), "{} is not in {text}", row.name);
        }
        for line in [
            "lustrine_watch_peer_up{peer=\"10.0.0.2@tcp\"} 1.0\n",
            "lustrine_watch_rtt_seconds{peer=\"10.0.0.2@tcp\",value=\"median\"} 0.002\n",
            "lustrine_watch_loss_ratio{peer=\"10.0.0.2@tcp\"} 0.25\n",
            "lustrine_watch_pings_total{peer=\"10.0.0.2@tcp\",event=\"lost\"} 1\n",
            "lustrine_watch_bandwidth_bytes_per_second{peer=\"10.0.0.2@tcp\",direction=\"read\"} \
             1000.0\n",
            "lustrine_watch_alarm_active{peer=\"10.0.0.2@tcp\",kind=\"rtt\"} 0.0\n",
        ] {
            assert!(text.contains(line), "{line} is not in {text}");
        }
    }
}
