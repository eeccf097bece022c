//! The live view of a plan: a table that is redrawn on a terminal, plain lines otherwise.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use lustrine_plan::{OpCounts, PlanProgress, Stage};
use lustrine_report::numbers::{count, latency, latency_text, operations, rate};

use crate::output::{note, print_error};

/// Clients that are shown individually: the slowest.
const CLIENTS_MAX: usize = 8;

/// Tests that are shown.
const TESTS_MAX: usize = 12;

/// The view of one user.
pub(super) struct View {
    bar: ProgressBar,
    title: String,
}

impl View {
    pub(super) fn new() -> View {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template("{msg}") {
            bar.set_style(style);
        }
        View { bar, title: String::new() }
    }

    pub(super) fn begin(&mut self, number: usize, of: usize, title: &str) {
        self.title = format!("[{number}/{of}] {title}");
        if self.bar.is_hidden() {
            note(&self.title);
        }
    }

    /// Says what is done, until there are results to show.
    pub(super) fn stage(&self, stage: Stage) {
        if !self.bar.is_hidden() {
            self.draw(&format!("{}: {stage}", self.title));
        }
    }

    /// Prints the results of a point, which stay above the live view.
    pub(super) fn finished(&self, rows: &[(String, Option<OpCounts>)]) {
        let lines = finished(&self.title, rows, self.bar.is_hidden());
        self.bar.suspend(|| note(&lines));
    }

    pub(super) fn show(&self, live: &PlanProgress) {
        let seconds = |nanos: u64| nanos / 1_000_000_000;
        let (elapsed, of) = (seconds(live.elapsed.0), seconds(live.of.0));
        if self.bar.is_hidden() {
            for (name, counted) in live.rows.iter().take(TESTS_MAX) {
                note(&format!("  {elapsed} s  {name}: {}", figures(counted.as_ref())));
            }
            return;
        }
        self.draw(&format!("{}  {elapsed} of {of} s\n{}", self.title, table(live)));
    }

    /// Prints a line that stays.
    pub(super) fn say(&self, what: &str) {
        self.bar.suspend(|| print_error(what));
    }

    pub(super) fn clear(&self) {
        self.bar.finish_and_clear();
    }

    fn draw(&self, text: &str) {
        self.bar.set_message(text.to_owned());
        self.bar.tick();
    }
}

/// The results of a point. Without a terminal, its title stands above them already.
fn finished(title: &str, rows: &[(String, Option<OpCounts>)], titled: bool) -> String {
    let rows: Vec<String> = rows
        .iter()
        .map(|(name, counted)| format!("  {name}: {}", figures(counted.as_ref())))
        .collect();
    let title = if titled { "  measured:" } else { title };
    format!("{title}\n{}", rows.join("\n"))
}

/// Tests, and the slowest clients.
fn table(live: &PlanProgress) -> String {
    let mut out = format!(
        "{:<34} {:>8} {:>8} {:>6} {:>6} {:>6}\n",
        "", "MiB/s", "ops/s", "p50", "p99", "err"
    );
    for (name, counted) in live.rows.iter().take(TESTS_MAX) {
        out += &line(name, counted.as_ref());
    }
    let mut clients: Vec<_> = live.clients.iter().collect();
    if clients.len() > 1 {
        clients.sort_by(|one, two| one.1.ops_per_s.total_cmp(&two.1.ops_per_s));
        let title = match clients.len() <= CLIENTS_MAX {
            true => "clients, the slowest first".to_owned(),
            false => format!("the {CLIENTS_MAX} slowest of {} clients", clients.len()),
        };
        out += &format!("{title}\n");
        for (nid, counted) in clients.iter().take(CLIENTS_MAX) {
            out += &line(&format!("  {nid}"), Some(counted));
        }
    }
    out.trim_end().to_owned()
}

fn line(name: &str, counted: Option<&OpCounts>) -> String {
    let short: String = name.chars().take(34).collect();
    let Some(counted) = counted else { return format!("{short:<34} {:>8} {:>8}\n", "-", "-") };
    let part = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), latency);
    let mib = match counted.mib_per_s {
        0.0 => "-".to_owned(),
        mib => rate(mib),
    };
    format!(
        "{short:<34} {mib:>8} {:>8} {:>6} {:>6} {:>6}\n",
        operations(counted.ops_per_s),
        part(counted.latency_us.map(|l| l.p50)),
        part(counted.latency_us.map(|l| l.p99)),
        count(counted.errors),
    )
}

/// The figures of a test. Kernel nodes report none; those of one test can be had from the counters
/// of the servers, those of several at once cannot.
fn figures(counted: Option<&OpCounts>) -> String {
    counted.map_or_else(|| "its clients report no results".to_owned(), in_words)
}

fn in_words(counted: &OpCounts) -> String {
    let mut words = Vec::new();
    if counted.mib_per_s > 0.0 {
        words.push(format!("{} MiB/s", rate(counted.mib_per_s)));
    }
    words.push(format!("{} ops/s", operations(counted.ops_per_s)));
    if let Some(latencies) = counted.latency_us {
        words.push(format!("p50 {}", latency_text(latencies.p50)));
        words.push(format!("p99 {}", latency_text(latencies.p99)));
    }
    if counted.errors > 0 {
        words.push(format!("{} failed", count(counted.errors)));
    }
    words.join("  ")
}

#[cfg(test)]
mod tests {
    use lustrine_lnet::time::Nanos;
    use lustrine_plan::Latency;

    use super::*;

    fn counted(ops_per_s: f64) -> OpCounts {
        let latency = Latency {
            mean: Some(9.0),
            p50: 8.0,
            p90: 9.0,
            p99: 12.0,
            p999: None,
            p9999: None,
            max: 80.0,
        };
        OpCounts { ops_per_s, mib_per_s: 12.5, latency_us: Some(latency), ..OpCounts::default() }
    }

    #[test]
    fn the_table_fits_a_terminal_with_any_number_of_clients() {
        let nid = |last: u32| lustrine_wire::nid::Nid::new4(lustrine_wire::nid::Net::TCP, last);
        let live = PlanProgress {
            elapsed: Nanos::from_secs(1),
            of: Nanos::from_secs(5),
            rows: (0..40).map(|_| ("r".repeat(90), Some(counted(1e7)))).collect(),
            clients: (0..5000).map(|last| (nid(last), counted(f64::from(last)))).collect(),
        };
        let text = table(&live);
        assert_eq!(text.lines().count(), 1 + TESTS_MAX + 1 + CLIENTS_MAX);
        assert!(text.lines().all(|line| line.len() <= 79), "{text}");
        assert!(text.contains("the 8 slowest of 5000 clients"), "{text}");
        let done = [("ping".to_owned(), Some(counted(10.0))), ("read".to_owned(), None)];
        let said = finished("[1/2] mixed", &done, false);
        assert!(said.starts_with("[1/2] mixed\n  ping: 12.5 MiB/s"), "{said}");
        assert!(said.ends_with("\n  read: its clients report no results"), "{said}");
        assert_eq!(in_words(&counted(10.0)), "12.5 MiB/s  10.0 ops/s  p50 8.00 us  p99 12.0 us");
    }
}
