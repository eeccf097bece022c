//! A page of metrics, and its text.

use core::fmt;
use std::collections::BTreeMap;

use lustrine_lnet::latency::Histogram;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::exemplar::Exemplar;
use prometheus_client::registry::Registry;

use super::table::{Kind, Metric};

/// Marks of a histogram that are told: 1.024 us to 137 s.
const MARKS_TOLD: usize = 28;

/// Lines of a histogram: its marks, those beyond them, sum and count.
#[cfg(test)]
pub(super) const HISTOGRAM_LINES: usize = MARKS_TOLD + 3;

/// Values by metric.
#[derive(Debug, Default)]
pub(crate) struct Page(BTreeMap<Metric, Vec<Series>>);

#[derive(Debug)]
struct Series {
    /// Values of the metric's labels.
    labels: Vec<String>,
    value: Value,
}

#[derive(Debug)]
enum Value {
    Whole(i64),
    Float(f64),
    Counted(u64),
    Seconds(f64),
    Times(Times),
}

/// A histogram as it is told.
#[derive(Debug)]
struct Times {
    sum: f64,
    samples: u64,
    /// Ends, in seconds, and how many samples are between each and the one before.
    buckets: Vec<(f64, u64)>,
}

impl Page {
    /// What a gauge shows.
    pub(crate) fn gauge(&mut self, metric: Metric, labels: &[&str], value: i64) {
        self.add(metric, Kind::Gauge, labels, Value::Whole(value));
    }

    /// The same of one that is no whole number.
    pub(crate) fn gauge_of(&mut self, metric: Metric, value: f64) {
        self.add(metric, Kind::Gauge, &[], Value::Float(value));
    }

    /// What a counter has counted.
    pub(crate) fn count(&mut self, metric: Metric, labels: &[&str], value: u64) {
        self.add(metric, Kind::Counter, labels, Value::Counted(value));
    }

    /// Seconds that a counter has counted.
    pub(crate) fn seconds(&mut self, metric: Metric, value: f64) {
        self.add(metric, Kind::Counter, &[], Value::Seconds(value));
    }

    /// What a histogram has seen.
    pub(crate) fn times(&mut self, metric: Metric, labels: &[&str], histogram: &Histogram) {
        let summary = histogram.summary();
        let mut before = 0;
        let mut buckets: Vec<(f64, u64)> = histogram
            .cumulative()
            .take(MARKS_TOLD)
            .map(|(mark, below)| {
                (mark.as_secs_f64(), below - std::mem::replace(&mut before, below))
            })
            .collect();
        buckets.push((f64::INFINITY, summary.samples - before));
        let times = Times { sum: summary.sum as f64 / 1e9, samples: summary.samples, buckets };
        self.add(metric, Kind::Histogram, labels, Value::Times(times));
    }

    fn add(&mut self, metric: Metric, kind: Kind, labels: &[&str], value: Value) {
        let row = metric.row();
        assert!(row.kind == kind && row.labels.len() == labels.len(), "{} is another", row.name);
        let labels = labels.iter().map(|label| (*label).to_owned()).collect();
        self.0.entry(metric).or_default().push(Series { labels, value });
    }

    /// The page in the OpenMetrics text format.
    pub(crate) fn text(self) -> String {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(self));
        let mut page = String::new();
        text::encode(&mut page, &registry).expect("a String takes all");
        page
    }
}

impl Collector for Page {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for (metric, series) in &self.0 {
            let row = metric.row();
            let (name, kind) = match row.kind {
                // The format adds what the name of every counter ends in.
                Kind::Counter => {
                    (row.name.strip_suffix("_total").unwrap_or(row.name), MetricType::Counter)
                }
                Kind::Gauge => (row.name, MetricType::Gauge),
                Kind::Histogram => (row.name, MetricType::Histogram),
            };
            let mut family = encoder.encode_descriptor(name, row.help, None, kind)?;
            for Series { labels, value } in series {
                if labels.is_empty() {
                    encode(value, &mut family)?;
                    continue;
                }
                let values = labels.iter().map(String::as_str);
                let labels: Vec<(&str, &str)> = row.labels.iter().copied().zip(values).collect();
                encode(value, &mut family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}

fn encode(value: &Value, encoder: &mut MetricEncoder<'_>) -> fmt::Result {
    let no_exemplar: Option<&Exemplar<NoLabelSet, f64>> = None;
    match value {
        Value::Whole(value) => encoder.encode_gauge(value),
        Value::Float(value) => encoder.encode_gauge(value),
        Value::Counted(value) => encoder.encode_counter(value, no_exemplar),
        Value::Seconds(value) => encoder.encode_counter(value, no_exemplar),
        Value::Times(Times { sum, samples, buckets }) => {
            encoder.encode_histogram::<NoLabelSet>(*sum, *samples, buckets, None)
        }
    }
}

#[cfg(test)]
mod tests {
    use lustrine_lnet::time::Nanos;

    use super::*;

    #[test]
    fn a_page_is_written_in_the_order_of_the_table() {
        let mut histogram = Histogram::default();
        for nanos in [0, 1023, 1024, 5000, 200_000_000_000] {
            histogram.record(Nanos(nanos));
        }
        let mut page = Page::default();
        page.times(Metric::PeerLatency, &["10.0.0.2@tcp", "get_rtt"], &histogram);
        page.gauge(Metric::PeerCreditsFree, &["10.0.0.2@tcp"], -3);
        page.count(Metric::ResponseTimeouts, &[], 7);
        page.seconds(Metric::CpuSeconds, 1.5);
        let text = page.text();
        let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with("# HELP")).collect();
        let peer = "peer=\"10.0.0.2@tcp\"";
        let rtt = "lustrine_peer_latency_seconds";
        let labels = format!("{peer},operation=\"get_rtt\"");
        assert_eq!(
            lines[..9],
            [
                "# TYPE lustrine_cpu_seconds counter".to_owned(),
                "lustrine_cpu_seconds_total 1.5".to_owned(),
                "# TYPE lustrine_response_timeouts counter".to_owned(),
                "lustrine_response_timeouts_total 7".to_owned(),
                "# TYPE lustrine_peer_credits_free gauge".to_owned(),
                format!("lustrine_peer_credits_free{{{peer}}} -3"),
                format!("# TYPE {rtt} histogram"),
                format!("{rtt}_sum{{{labels}}} 200.000007047"),
                format!("{rtt}_count{{{labels}}} 5"),
            ]
        );
        let bucket = |le: &str, below| format!("{rtt}_bucket{{le=\"{le}\",{labels}}} {below}");
        assert!(lines.contains(&bucket("0.000001024", 2).as_str()), "{text}");
        assert!(lines.contains(&bucket("0.000002048", 3).as_str()), "{text}");
        assert!(lines.contains(&bucket("+Inf", 5).as_str()), "{text}");
        assert_eq!(lines.last(), Some(&"# EOF"));
    }
}
