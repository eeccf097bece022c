//! Two runs side by side. Nothing is called a difference that lies within the spread of
//! repetitions, and without repetitions nothing is said of the noise.

use std::collections::BTreeMap;

use lustrine_report::Page;
use lustrine_report::numbers::counted;
use serde::Serialize;

use crate::lines::{MeasuredLine, Metric, Range, UNKNOWN, lines};
use crate::results::{Results, named};
use crate::start::printable;

/// Most characters of a host's name in a difference.
const HOST_MAX: usize = 64;

/// A run compared with another one.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// The name of the run that the other one is compared with.
    pub base: String,
    /// The name of the other one.
    pub other: String,
    /// In what the machines, versions, groups of nodes and circumstances of lines that both have
    /// differ, in words; also what one of them does not report.
    pub differs: Vec<String>,
    /// The values of lines that both have.
    pub values: Vec<ComparedValue>,
    /// Lines that only the base has.
    pub only_in_base: Vec<String>,
    /// Lines that only the other one has.
    pub only_in_other: Vec<String>,
    /// How many of the values are expected to be beyond the spread if nothing differs.
    pub expected_by_chance: f64,
}

/// One value of one line in both runs.
#[derive(Clone, Debug, Serialize)]
pub struct ComparedValue {
    /// The line, in words.
    pub line: String,
    metric: Metric,
    /// In the base.
    pub base: Range,
    /// In the other run.
    pub other: Range,
    /// The change of the median in percent of the base's; absent if that is 0.
    pub change_percent: Option<f64>,
    /// What can be said of the change.
    pub verdict: Verdict,
}

/// How the change between two runs compares with the spread of their repetitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// At least one of the runs has a single sample: the noise is unknown.
    OneSample,
    /// The ranges of the repetitions have values in common.
    WithinSpread,
    /// All repetitions of one run are above all of the other. It happens by chance too.
    BeyondSpread,
    /// The line has other numbers of clients or servers in the other run, so that its values are of
    /// something else.
    OtherNodes,
}

impl Verdict {
    fn of(base: &Range, other: &Range) -> Verdict {
        if base.samples < 2 || other.samples < 2 {
            return Verdict::OneSample;
        }
        match base.high < other.low || other.high < base.low {
            true => Verdict::BeyondSpread,
            false => Verdict::WithinSpread,
        }
    }

    /// Whether it says something about a spread.
    fn has_spread(self) -> bool {
        matches!(self, Verdict::WithinSpread | Verdict::BeyondSpread)
    }

    fn words(self) -> &'static str {
        match self {
            Verdict::OneSample => "one sample, noise unknown",
            Verdict::WithinSpread => "within the spread",
            Verdict::BeyondSpread => "beyond the spread",
            Verdict::OtherNodes => "different numbers of nodes",
        }
    }
}

/// The part of cases in which the ranges of so many samples have nothing in common by chance
/// alone: 2 of all orders of `m + n` samples that are equally likely.
fn chance_apart(base: usize, other: usize) -> f64 {
    let orders = (1..=other).fold(1.0, |orders, k| orders * (base + k) as f64 / k as f64);
    2.0 / orders
}

/// Compares a run with a base; each has a name for people.
pub fn compare(
    (base_name, base): (&str, &Results),
    (other_name, other): (&str, &Results),
) -> Comparison {
    let (before, after) = (lines(base), lines(other));
    let (mut values, mut differs) = (Vec::new(), differences(base, other));
    for line in &before {
        let Some(same) = after.iter().find(|other| other.key == line.key) else { continue };
        differs.extend(differences_of(line, same));
        let other_nodes = line.nodes() != same.nodes();
        for metric in [Metric::rate_of(line.key.size), Metric::P50, Metric::P99] {
            let (Some(one), Some(two)) = (line.range(metric), same.range(metric)) else { continue };
            let change = (two.median - one.median) / one.median * 100.0;
            values.push(ComparedValue {
                line: line.key.to_string(),
                metric,
                base: one,
                other: two,
                change_percent: change.is_finite().then_some(change),
                verdict: match other_nodes {
                    true => Verdict::OtherNodes,
                    false => Verdict::of(&one, &two),
                },
            });
        }
    }
    let missing = |from: &[MeasuredLine<'_>], in_other: &[MeasuredLine<'_>]| {
        let lost = from.iter().filter(|line| !in_other.iter().any(|other| other.key == line.key));
        lost.map(|line| line.key.to_string()).collect::<Vec<String>>()
    };
    let repeated = values.iter().filter(|value| value.verdict.has_spread());
    let expected = repeated.map(|v| chance_apart(v.base.samples, v.other.samples)).sum();
    Comparison {
        base: base_name.to_owned(),
        other: other_name.to_owned(),
        differs,
        only_in_base: missing(&before, &after),
        only_in_other: missing(&after, &before),
        values,
        expected_by_chance: expected,
    }
}

/// In what the circumstances of two runs differ.
fn differences(base: &Results, other: &Results) -> Vec<String> {
    let (one, two) = (circumstances(base), circumstances(other));
    let mut names: Vec<&String> = one.keys().chain(two.keys()).collect();
    names.sort_unstable();
    names.dedup();
    let unknown = "unknown".to_owned();
    let of = |name: &String| {
        let (one, two) = (one.get(name).unwrap_or(&unknown), two.get(name).unwrap_or(&unknown));
        (one != two).then(|| format!("{name}: {one} | {two}"))
    };
    names.into_iter().filter_map(of).collect()
}

/// In what a line that both runs have differs, beside what was measured.
fn differences_of(base: &MeasuredLine<'_>, other: &MeasuredLine<'_>) -> Vec<String> {
    let lost = |line: &MeasuredLine<'_>| match line.lost().as_slice() {
        [] => "none".to_owned(),
        lost => named(lost),
    };
    let pairs = [
        ("nodes", base.nodes(), other.nodes()),
        ("check", base.check(), other.check()),
        ("clients without answer", lost(base), lost(other)),
        ("clients without statistics", base.silent().to_string(), other.silent().to_string()),
        ("errors", base.errors().to_string(), other.errors().to_string()),
    ];
    let differs = pairs.into_iter().filter(|(_, one, two)| one != two);
    let differs = differs.filter(|(_, one, two)| one != UNKNOWN && two != UNKNOWN);
    differs.map(|(name, one, two)| format!("{name} of {}: {one} | {two}", base.key)).collect()
}

fn circumstances(results: &Results) -> BTreeMap<String, String> {
    let mut all: BTreeMap<String, String> = BTreeMap::new();
    let mut add = |name: &str, value: String| all.insert(name.to_owned(), value);
    add("version", results.version.clone());
    add("host", results.host.clone());
    for (group, nids) in &results.groups {
        add(&format!("nodes of group {group}"), nids.len().to_string());
    }
    let missing = results.start.iter().flat_map(|start| &start.missing);
    let missing: Vec<String> = missing.map(|host| printable(&host.host, HOST_MAX)).collect();
    add(
        "hosts without a node",
        match missing.is_empty() {
            true => "none".to_owned(),
            false => missing.join(", "),
        },
    );
    let Some(provenance) = &results.provenance else { return all };
    let machine = &provenance.machine;
    machine.kernel.iter().for_each(|kernel| drop(add("kernel", kernel.clone())));
    machine.cpu_model.iter().for_each(|model| drop(add("CPU", model.clone())));
    machine.cpus.iter().for_each(|cpus| drop(add("logical CPUs", cpus.to_string())));
    machine.sysctls.iter().for_each(|(name, value)| drop(add(name, value.clone())));
    for node in &provenance.nodes {
        for device in &node.devices {
            add(&format!("device of {}", node.nid), device.to_string());
        }
        for (name, changed) in node.changed_tunables.iter().flatten() {
            // A default in the other run has no entry there.
            add(&format!("{name} of {}", node.nid), changed.value.to_string());
        }
    }
    all
}

impl Comparison {
    /// One sentence about all values.
    pub fn verdict(&self) -> String {
        self.sentences().join(" ")
    }

    fn sentences(&self) -> Vec<String> {
        let count = |wanted| self.values.iter().filter(|v| v.verdict == wanted).count();
        let (single, beyond) = (count(Verdict::OneSample), count(Verdict::BeyondSpread));
        let repeated = self.values.iter().filter(|v| v.verdict.has_spread()).count();
        let unlike = count(Verdict::OtherNodes);
        let mut words = Vec::new();
        if self.values.is_empty() {
            words.push("The runs have no line in common, so nothing can be compared.".to_owned());
        }
        if repeated > 0 {
            words.push(format!(
                "{beyond} of {repeated} values are beyond the spread; about {:.1} would be if \
                 nothing differed.",
                self.expected_by_chance
            ));
            words.push("Of a value with repetitions, its median is shown.".to_owned());
        }
        if single > 0 {
            words.push(format!(
                "{} {} one sample in a run: the noise is unknown, and a change may be noise.",
                counted(single as u64, "value"),
                if single == 1 { "has" } else { "have" },
            ));
            words.push("A plan with repeat: 3 or more gives a spread.".to_owned());
        }
        if unlike > 0 {
            words.push(format!(
                "{} from different numbers of clients or servers, and cannot be compared.",
                match unlike {
                    1 => "1 value is".to_owned(),
                    many => format!("{many} values are"),
                }
            ));
        }
        words
    }

    /// The comparison as text, 100 columns wide.
    pub fn text(&self) -> String {
        let verdict = self.sentences().join("\n");
        let mut out = format!("{} compared with {}\n{verdict}\n", self.other, self.base);
        if !self.values.is_empty() {
            let heads = ("line", "", "base", "now", "change");
            let (line, metric, base, now, change) = heads;
            out += &format!("{line:<26} {metric:<5} {base:>16} {now:>16} {change:>7}\n");
        }
        for value in &self.values {
            let [line, metric, base, now, change, verdict] = value.cells();
            out += &format!("{line:<26} {metric:<5} {base:>16} {now:>16} {change:>7} {verdict}\n");
        }
        for (what, lines) in self.unmatched() {
            out += &format!("{what}: {}\n", lines.join(", "));
        }
        self.differs.iter().for_each(|differs| out += &format!("differs: {differs}\n"));
        out
    }

    fn unmatched(&self) -> impl Iterator<Item = (String, &Vec<String>)> {
        let sides = [(&self.base, &self.only_in_base), (&self.other, &self.only_in_other)];
        let there = sides.into_iter().filter(|(_, lines)| !lines.is_empty());
        there.map(|(name, lines)| (format!("only in {name}"), lines))
    }

    /// Adds the comparison to a page.
    pub(crate) fn show(&self, page: &mut Page) {
        page.heading(&format!("{} compared with {}", self.other, self.base));
        page.verdict(&self.verdict());
        let rows: Vec<Vec<String>> =
            self.values.iter().map(|value| value.cells().to_vec()).collect();
        if !rows.is_empty() {
            page.table(&["<line", "<value", "base", "now", "change", "<"], &rows);
        }
        for (what, lines) in self.unmatched() {
            page.paragraph(&format!("{what}: {}.", lines.join(", ")));
        }
        if !self.differs.is_empty() {
            let differs = self.differs.join("; ");
            page.paragraph(&format!("The runs differ in (base | now): {differs}."));
        }
    }
}

impl ComparedValue {
    /// Line, name of the value, base, other, change, verdict.
    fn cells(&self) -> [String; 6] {
        let change = self.change_percent.map_or("-".to_owned(), |change| format!("{change:+.1}%"));
        let text = |value| match self.metric {
            Metric::OpsPerS => format!("{}/s", lustrine_report::numbers::grouped(value)),
            metric => metric.text(value),
        };
        let name = match self.metric {
            Metric::MibPerS | Metric::OpsPerS => "rate",
            metric => metric.name(),
        };
        [
            self.line.clone(),
            name.to_owned(),
            text(self.base.median),
            text(self.other.median),
            change,
            self.verdict.words().to_owned(),
        ]
    }
}

#[cfg(test)]
pub(crate) mod tests;
