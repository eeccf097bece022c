//! A strict parser of the OpenMetrics text format, as far as Lustrine's pages use it; written from
//! the format's specification and without the library that writes the page.

use std::collections::BTreeMap;

/// A page.
#[derive(Debug)]
pub(crate) struct Exposition {
    pub(crate) families: Vec<Family>,
}

/// A metric with its metadata and samples.
#[derive(Debug)]
pub(crate) struct Family {
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) help: String,
    pub(crate) samples: Vec<Sample>,
}

/// One line.
#[derive(Debug, PartialEq)]
pub(crate) struct Sample {
    pub(crate) name: String,
    pub(crate) labels: Vec<(String, String)>,
    pub(crate) value: f64,
}

impl Exposition {
    /// Lines of this name.
    pub(crate) fn samples(&self, name: &str) -> impl Iterator<Item = &Sample> {
        self.families.iter().flat_map(|family| &family.samples).filter(move |s| s.name == name)
    }
}

impl Sample {
    /// Whether it has these labels, and no others.
    pub(crate) fn has(&self, labels: &[(&str, &str)]) -> bool {
        self.pairs() == labels
    }

    pub(crate) fn pairs(&self) -> Vec<(&str, &str)> {
        self.labels.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
    }

    fn without_le(&self) -> Vec<(&str, &str)> {
        self.pairs().into_iter().filter(|(name, _)| *name != "le").collect()
    }
}

/// Reads a page, or says what is wrong with it.
pub(crate) fn parse(text: &str) -> Result<Exposition, String> {
    let text = text.strip_suffix("# EOF\n").ok_or("the end is missing")?;
    let mut families: Vec<Family> = Vec::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let (name, help) = meta(line, "HELP")?;
        let (of, kind) = meta(lines.next().ok_or("no TYPE")?, "TYPE")?;
        if of != name || families.iter().any(|family| family.name == name) {
            return Err(format!("{name} is described twice, or with {of} inside"));
        }
        let (name, kind, help) = (name.to_owned(), kind.to_owned(), help.to_owned());
        let mut family = Family { name, kind, help, samples: Vec::new() };
        while let Some(line) = lines.next_if(|line| !line.starts_with('#')) {
            let sample = sample(line).ok_or_else(|| format!("{line:?} is no sample"))?;
            family.samples.push(sample);
        }
        check(&family).map_err(|why| format!("{}: {why}", family.name))?;
        families.push(family);
    }
    Ok(Exposition { families })
}

fn meta<'a>(line: &'a str, what: &str) -> Result<(&'a str, &'a str), String> {
    let rest = line.strip_prefix(&format!("# {what} "));
    let found = rest.and_then(|rest| rest.split_once(' '));
    found.filter(|(name, _)| is_name(name)).ok_or_else(|| format!("{line:?} is no {what}"))
}

fn is_name(name: &str) -> bool {
    let mut letters = name.bytes();
    let first = letters.next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_');
    first && letters.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

fn sample(line: &str) -> Option<Sample> {
    let (series, value) = line.rsplit_once(' ')?;
    let (name, labels) = match series.split_once('{') {
        None => (series, Vec::new()),
        Some((name, rest)) => (name, labels(rest.strip_suffix('}')?)?),
    };
    let number = value.parse::<f64>().ok().filter(|value| value.is_finite())?;
    let (name, value) = (is_name(name).then(|| name.to_owned())?, number);
    Some(Sample { name, labels, value })
}

fn labels(mut rest: &str) -> Option<Vec<(String, String)>> {
    let mut labels: Vec<(String, String)> = Vec::new();
    loop {
        let (name, behind) = rest.split_once("=\"")?;
        let end = behind.find(['"', '\\', '\n']).filter(|end| behind[*end..].starts_with('"'))?;
        if !is_name(name) || labels.iter().any(|(other, _)| other == name) {
            return None;
        }
        labels.push((name.to_owned(), behind[..end].to_owned()));
        rest = &behind[end + 1..];
        if rest.is_empty() {
            return Some(labels);
        }
        rest = rest.strip_prefix(',')?;
    }
}

fn check(family: &Family) -> Result<(), String> {
    let Family { name, kind, samples, .. } = family;
    let endings: &[&str] = match kind.as_str() {
        "counter" => &["_total"],
        "gauge" => &[""],
        "histogram" => &["_bucket", "_sum", "_count"],
        _ => return Err(format!("{kind} is no kind")),
    };
    for (index, sample) in samples.iter().enumerate() {
        let ending =
            sample.name.strip_prefix(name.as_str()).ok_or("a stranger among its samples")?;
        if !endings.contains(&ending) {
            return Err(format!("{} is not of a {kind}", sample.name));
        }
        if kind != "gauge" && sample.value < 0.0 {
            return Err(format!("{} is negative", sample.name));
        }
        let twin = |other: &Sample| other.name == sample.name && other.labels == sample.labels;
        if samples[index + 1..].iter().any(twin) {
            return Err(format!("{} twice", sample.name));
        }
    }
    if kind == "histogram" { check_histograms(name, samples) } else { Ok(()) }
}

/// Buckets ascend up to the count.
fn check_histograms(name: &str, samples: &[Sample]) -> Result<(), String> {
    let mut all: BTreeMap<String, Vec<&Sample>> = BTreeMap::new();
    for sample in samples {
        all.entry(format!("{:?}", sample.without_le())).or_default().push(sample);
    }
    for (labels, parts) in all {
        let part = |ending: &str| {
            let name = format!("{name}{ending}");
            parts.iter().filter(move |sample| sample.name == name)
        };
        let count = part("_count").map(|sample| sample.value).next().ok_or("no count")?;
        part("_sum").next().ok_or("no sum")?;
        let (mut end, mut below) = (f64::NEG_INFINITY, 0.0);
        for bucket in part("_bucket") {
            let (_, le) = bucket.labels.iter().find(|(name, _)| name == "le").ok_or("no le")?;
            let le: f64 =
                if le == "+Inf" { f64::INFINITY } else { le.parse().map_err(|_| "le")? };
            if le <= end || bucket.value < below {
                return Err(format!("{labels}: buckets do not rise at {le}"));
            }
            (end, below) = (le, bucket.value);
        }
        if end != f64::INFINITY || below != count {
            return Err(format!("{labels}: the last bucket has {below} of {count}"));
        }
    }
    Ok(())
}
