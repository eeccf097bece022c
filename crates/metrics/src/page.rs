//! A page of metrics and its text.

use core::fmt;
use std::collections::BTreeMap;

use lustrine_lnet::driver_report::DriverMetric;
use lustrine_lnet::latency::Histogram;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::exemplar::Exemplar;
use prometheus_client::registry::Registry;

use crate::table::{Metric, MetricKind, Row};
use crate::watch::WatchMetric;

/// The bounds of a histogram's buckets on a page: 1.024 us to 137 s.
const BOUNDS: usize = 28;

/// The lines of a histogram: its bounds, `+Inf`, sum and count.
#[cfg(test)]
pub(super) const HISTOGRAM_LINES: usize = BOUNDS + 3;

/// Values by metric.
#[derive(Debug, Default)]
pub struct Page {
    table: BTreeMap<Metric, Vec<Series>>,
    watch: BTreeMap<WatchMetric, Vec<Series>>,
    drivers: BTreeMap<&'static DriverMetric, Vec<Series>>,
}

#[derive(Debug)]
struct Series {
    /// Values of the metric's labels.
    labels: Vec<String>,
    value: Value,
}

impl Series {
    fn new(row: &Row, kind: MetricKind, labels: &[&str], value: Value) -> Series {
        assert!(
            row.kind == kind && row.labels.len() == labels.len(),
            "{} is of another kind",
            row.name
        );
        Series { labels: labels.iter().map(|label| (*label).to_owned()).collect(), value }
    }
}

#[derive(Debug)]
enum Value {
    Gauge(i64),
    GaugeF64(f64),
    Counter(u64),
    Seconds(f64),
    Histogram(Buckets),
}

/// A histogram as Prometheus sees it.
#[derive(Debug)]
struct Buckets {
    sum: f64,
    samples: u64,
    /// Upper bounds in seconds, and the number of samples between each and the one before.
    buckets: Vec<(f64, u64)>,
}

impl Page {
    /// Sets a gauge.
    pub fn gauge(&mut self, metric: Metric, labels: &[&str], value: i64) {
        self.add(metric, MetricKind::Gauge, labels, Value::Gauge(value));
    }

    /// Sets a gauge that is not a whole number.
    pub fn gauge_f64(&mut self, metric: Metric, value: f64) {
        self.add(metric, MetricKind::Gauge, &[], Value::GaugeF64(value));
    }

    /// Sets a counter.
    pub fn count(&mut self, metric: Metric, labels: &[&str], value: u64) {
        self.add(metric, MetricKind::Counter, labels, Value::Counter(value));
    }

    /// Sets a counter of a driver.
    ///
    /// # Panics
    /// When it has no label and its metric does, or the other way around.
    pub fn driver_count(
        &mut self,
        metric: &'static DriverMetric,
        label: Option<&'static str>,
        value: u64,
    ) {
        assert_eq!(metric.label.is_some(), label.is_some(), "labels of {}", metric.name);
        let labels = label.into_iter().map(str::to_owned).collect();
        let series = Series { labels, value: Value::Counter(value) };
        self.drivers.entry(metric).or_default().push(series);
    }

    /// Sets a counter of seconds.
    pub fn seconds(&mut self, metric: Metric, value: f64) {
        self.add(metric, MetricKind::Counter, &[], Value::Seconds(value));
    }

    /// Sets a histogram.
    pub fn histogram(&mut self, metric: Metric, labels: &[&str], histogram: &Histogram) {
        let summary = histogram.summary();
        let mut before = 0;
        let mut buckets: Vec<(f64, u64)> = histogram
            .cumulative()
            .take(BOUNDS)
            .map(|(bound, below)| {
                (bound.as_secs_f64(), below - std::mem::replace(&mut before, below))
            })
            .collect();
        buckets.push((f64::INFINITY, summary.samples - before));
        let value = Buckets { sum: summary.sum as f64 / 1e9, samples: summary.samples, buckets };
        self.add(metric, MetricKind::Histogram, labels, Value::Histogram(value));
    }

    /// Sets a gauge of `lustrine watch`.
    pub fn watch_gauge(&mut self, metric: WatchMetric, labels: &[&str], value: f64) {
        let series = Series::new(metric.row(), MetricKind::Gauge, labels, Value::GaugeF64(value));
        self.watch.entry(metric).or_default().push(series);
    }

    /// Sets a counter of `lustrine watch`.
    pub fn watch_count(&mut self, metric: WatchMetric, labels: &[&str], value: u64) {
        let series = Series::new(metric.row(), MetricKind::Counter, labels, Value::Counter(value));
        self.watch.entry(metric).or_default().push(series);
    }

    fn add(&mut self, metric: Metric, kind: MetricKind, labels: &[&str], value: Value) {
        let series = Series::new(metric.row(), kind, labels, value);
        self.table.entry(metric).or_default().push(series);
    }

    /// The page in the OpenMetrics text format.
    pub fn text(self) -> String {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(self));
        let mut page = String::new();
        text::encode(&mut page, &registry).expect("a String can be written to");
        page
    }
}

impl Collector for Page {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for (metric, series) in &self.table {
            encode_family(&mut encoder, metric.row(), series)?;
        }
        for (metric, series) in &self.watch {
            encode_family(&mut encoder, metric.row(), series)?;
        }
        for (metric, series) in &self.drivers {
            encode_family(&mut encoder, &Row::from(*metric), series)?;
        }
        Ok(())
    }
}

fn encode_family(encoder: &mut DescriptorEncoder<'_>, row: &Row, series: &[Series]) -> fmt::Result {
    let (name, kind) = match row.kind {
        // The format adds what the name of every counter ends in.
        MetricKind::Counter => {
            (row.name.strip_suffix("_total").unwrap_or(row.name), MetricType::Counter)
        }
        MetricKind::Gauge => (row.name, MetricType::Gauge),
        MetricKind::Histogram => (row.name, MetricType::Histogram),
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
    Ok(())
}

fn encode(value: &Value, encoder: &mut MetricEncoder<'_>) -> fmt::Result {
    let no_exemplar: Option<&Exemplar<NoLabelSet, f64>> = None;
    match value {
        Value::Gauge(value) => encoder.encode_gauge(value),
        Value::GaugeF64(value) => encoder.encode_gauge(value),
        Value::Counter(value) => encoder.encode_counter(value, no_exemplar),
        Value::Seconds(value) => encoder.encode_counter(value, no_exemplar),
        Value::Histogram(Buckets { sum, samples, buckets }) => {
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
        page.histogram(Metric::PeerLatency, &["10.0.0.2@tcp", "get_rtt"], &histogram);
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
