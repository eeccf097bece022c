//! Steps, their tests, and what varies.

use lustrine_document::{
    BYTES, DURATION, Fields, Node, Problem, Quantity, Reader, Section, decimal, range, read_keys,
};
use lustrine_lnet::time::Nanos;
use lustrine_wire::srpc::{BULK_MAX, BrwCheck, CONCURRENCY_MAX};
use lustrine_yaml::Content;

use super::{group, is_name, name_rule};
use crate::model::{Dimension, Group, Size, Spread, Step, Test, TestKind};

/// Largest number of steps.
const STEPS_MAX: usize = 256;

/// Largest number of tests in a step.
const TESTS_MAX: usize = 64;

/// Largest number of sizes in a mix.
const SIZES_MAX: usize = 16;

/// Largest number of values in one dimension of a sweep.
const VALUES_MAX: usize = 256;

/// A day.
const TIME_MAX: u64 = 86_400_000_000_000;

/// Largest rate in RPCs per second.
const RATE_MAX: u64 = 10_000_000;

const STEP: Section = Section::new(
    "a step",
    &read_keys(["name", "time", "warm_up", "repeat", "tests", "sweep"]),
    "\"{name: read, time: 5 s, tests: [{do: read, from: clients, to: servers}]}\"",
);

const TEST: Section = Section::new(
    "a test",
    &read_keys([
        "do",
        "from",
        "to",
        "spread",
        "size",
        "mix",
        "concurrency",
        "check",
        "rate",
        "offset",
    ]),
    "\"{do: read, from: clients, to: servers, size: 1 MiB, concurrency: 8}\"",
);

const SWEEP: &str = "\"sweep: {concurrency: 1..64*2, size: [4 KiB, 1 MiB], clients: 1..4}\"";

const WHATS: [(&str, TestKind); 3] =
    [("read", TestKind::Read), ("write", TestKind::Write), ("ping", TestKind::Ping)];

const CHECKS: [(&str, BrwCheck); 3] =
    [("simple", BrwCheck::Simple), ("none", BrwCheck::None), ("full", BrwCheck::Full)];

const SPREADS: [(&str, Spread); 4] = [
    ("all", Spread::All),
    ("others", Spread::Others),
    ("pairs", Spread::Pairs),
    ("rounds", Spread::Rounds),
];

pub(super) fn read(reader: &mut Reader, file: &Fields<'_>, groups: &[Group]) -> Vec<Step> {
    let example = format!("\"steps: [{}]\"", STEP.example.trim_matches('"'));
    let items = reader.items(file.value("steps"), "steps", &example);
    if let (Some(node), true) = (file.value("steps"), items.is_empty()) {
        let what = format!("no steps; allowed: one and more; for example {example}");
        reader.report(Problem::new(&node.at, what));
    } else if items.is_empty() {
        reader.missing(file, "steps", &example);
    }
    let mut steps = Vec::new();
    for item in items {
        let fields = reader.fields(item, STEP);
        if steps.len() == STEPS_MAX {
            let what = format!("too many steps; allowed: {STEPS_MAX}; for example remove this");
            reader.report(Problem::new(&fields.at, what));
            break;
        }
        let number = steps.len() + 1;
        steps.extend(step(reader, &fields, groups, number));
    }
    steps
}

fn step(reader: &mut Reader, fields: &Fields<'_>, groups: &[Group], number: usize) -> Option<Step> {
    let name = match fields.value("name") {
        None => format!("step{number}"),
        Some(node) => {
            let word = reader.word(node, "name", "\"name: read\"")?;
            if !is_name(word) {
                let example = "\"name: read\"";
                reader.report(Problem::value(&node.at, "name", word, &name_rule(), example));
            }
            word.to_owned()
        }
    };
    let mut time = |key, range| reader.quantity(fields, key, &DURATION, range).map(Nanos);
    let measured = time("time", 100_000_000..=TIME_MAX).unwrap_or(Nanos::from_secs(5));
    let warm_up = time("warm_up", 0..=TIME_MAX).unwrap_or(Nanos::from_millis(500));
    let repeat = reader.count(fields, "repeat", 1..=100, "\"repeat: 3\"").unwrap_or(1);
    let mut tests = Vec::new();
    let items = reader.items(fields.value("tests"), "tests", TEST.example);
    if items.is_empty() {
        reader.missing(
            fields,
            "tests",
            &format!("\"tests: [{}]\"", TEST.example.trim_matches('"')),
        );
    }
    for item in items {
        let fields = reader.fields(item, TEST);
        if tests.len() == TESTS_MAX {
            let what = format!("too many tests; allowed: {TESTS_MAX}; for example remove this");
            reader.report(Problem::new(&fields.at, what));
            break;
        }
        tests.extend(test(reader, &fields, groups));
    }
    if tests.iter().any(|test: &Test| test.spread.is_in_turns()) && tests.len() > 1 {
        let what = "\"pairs\" and \"rounds\" beside other tests; allowed: one test in such a step; \
                    for example a step for each";
        reader.report(Problem::new(fields.place("tests"), what));
    }
    let sweep = sweep(reader, fields, groups, &tests);
    Some(Step { name, time: measured, warm_up, repeat: repeat as u32, tests, sweep })
}

fn test(reader: &mut Reader, fields: &Fields<'_>, groups: &[Group]) -> Option<Test> {
    let what = reader.choice(fields, "do", &WHATS);
    if !fields.has("do") {
        reader.missing(fields, "do", "\"do: read\"");
    }
    let concurrency = reader
        .count(fields, "concurrency", 1..=u64::from(CONCURRENCY_MAX), "\"concurrency: 8\"")
        .unwrap_or(1) as u32;
    let rate = reader.count(fields, "rate", 1..=RATE_MAX, "\"rate: 1000\"").unwrap_or(0) as u32;
    let check = reader.choice(fields, "check", &CHECKS).unwrap_or(BrwCheck::Simple);
    let offset = reader.count(fields, "offset", 0..=4088, "\"offset: 8\"").unwrap_or(0) as u32;
    if !offset.is_multiple_of(8) {
        let allowed = "a multiple of 8 up to 4088";
        let found = offset.to_string();
        let at = fields.place("offset");
        reader.report(Problem::value(at, "offset", &found, allowed, "\"offset: 8\""));
    }
    let sizes = sizes(reader, fields, what, concurrency);
    let spread = spread(reader, fields);
    let from = group(reader, fields, "from", groups);
    let to = group(reader, fields, "to", groups);
    Some(Test {
        what: what?,
        from: from?,
        to: to?,
        spread: spread?,
        sizes: sizes?,
        concurrency,
        check,
        rate,
        offset,
    })
}

fn sizes(
    reader: &mut Reader,
    fields: &Fields<'_>,
    what: Option<TestKind>,
    concurrency: u32,
) -> Option<Vec<Size>> {
    let given = ["size", "mix"].into_iter().find(|key| fields.has(key));
    if let (Some(TestKind::Ping), Some(key)) = (what, given) {
        let text = format!(
            "a ping with {key:?}; allowed: for reads and writes; for example \
                            remove this"
        );
        reader.report(Problem::new(fields.place(key), text));
        return None;
    }
    if what == Some(TestKind::Ping) {
        return Some(Vec::new());
    }
    let Some(mix) = fields.value("mix") else {
        let bytes = reader.quantity(fields, "size", &BYTES, 8..=u64::from(BULK_MAX));
        if fields.has("size") && bytes.is_none() {
            return None;
        }
        let bytes = words(reader, fields.place("size"), bytes.unwrap_or(1 << 20))?;
        return Some(vec![Size { bytes, weight: 1 }]);
    };
    const EXAMPLE: &str = "\"mix: {4 KiB: 3, 1 MiB: 1}\"";
    if fields.has("size") {
        let what = format!("\"size\" and \"mix\"; allowed: one of them; for example {EXAMPLE}");
        reader.report(Problem::new(fields.place("size"), what));
    }
    let Content::Mapping(pairs) = &mix.content else {
        reader.wrong_shape(mix, "mix", "sizes with weights", EXAMPLE);
        return None;
    };
    let mut sizes = Vec::new();
    for pair in pairs {
        let bytes = quantity(reader, &pair.at, "a size", &pair.key, &BYTES, u64::from(BULK_MAX));
        let weight = reader.word(&pair.value, "a weight", EXAMPLE).and_then(decimal);
        let Some(weight) = weight.filter(|weight| (1..=1000).contains(weight)) else {
            let what = format!("an invalid weight; allowed: 1 to 1000; for example {EXAMPLE}");
            reader.report(Problem::new(&pair.value.at, what));
            continue;
        };
        let Some(bytes) = bytes.and_then(|bytes| words(reader, &pair.at, bytes)) else { continue };
        sizes.push(Size { bytes, weight: weight as u32 });
    }
    if !(1..=SIZES_MAX).contains(&sizes.len()) || sizes.len() > concurrency as usize {
        let most = SIZES_MAX.min(concurrency as usize);
        let what = format!(
            "a mix of {} sizes at concurrency {concurrency}; allowed: 1 to {most}, since each \
             size needs an RPC in flight; for example \"concurrency: 8\"",
            sizes.len()
        );
        reader.report(Problem::new(&mix.at, what));
        return None;
    }
    Some(sizes)
}

/// A quantity that is not the value of a key.
fn quantity(
    reader: &mut Reader,
    at: &lustrine_document::Location,
    what: &str,
    text: &str,
    kind: &Quantity,
    most: u64,
) -> Option<u64> {
    match kind.read(text) {
        Ok(value) if (1..=most).contains(&value) => Some(value),
        _ => {
            let allowed = format!("{}, up to {}", kind.allowed, kind.write(most));
            reader.report(Problem::value(at, what, text, &allowed, kind.example));
            None
        }
    }
}

/// Sizes are multiples of 8: others crash kernel nodes [LST-19].
fn words(reader: &mut Reader, at: &lustrine_document::Location, bytes: u64) -> Option<u32> {
    if bytes.is_multiple_of(8) {
        return u32::try_from(bytes).ok();
    }
    let allowed = "a multiple of 8 bytes, since others crash kernel nodes";
    reader.report(Problem::value(at, "a size", &format!("{bytes} B"), allowed, "\"4 KiB\""));
    None
}

fn spread(reader: &mut Reader, fields: &Fields<'_>) -> Option<Spread> {
    const EXAMPLE: &str = "\"spread: 1:1\"";
    let Some(node) = fields.value("spread") else {
        return Some(Spread::Rows { clients: 1, servers: 1 });
    };
    let word = reader.word(node, "spread", EXAMPLE)?;
    if let Some((_, spread)) = SPREADS.iter().find(|(name, _)| *name == word) {
        return Some(*spread);
    }
    let number = |text: &str| decimal(text).filter(|number| (1..=4096).contains(number));
    let rows = word.split_once(':').and_then(|(clients, servers)| {
        Some(Spread::Rows { clients: number(clients)? as u32, servers: number(servers)? as u32 })
    });
    if rows.is_none() {
        let allowed = "CLIENTS:SERVERS, all, others, pairs or rounds";
        reader.report(Problem::value(&node.at, "spread", word, allowed, EXAMPLE));
    }
    rows
}

fn sweep(
    reader: &mut Reader,
    fields: &Fields<'_>,
    groups: &[Group],
    tests: &[Test],
) -> Vec<Dimension> {
    let Some(node) = fields.value("sweep") else { return Vec::new() };
    let Content::Mapping(pairs) = &node.content else {
        reader.wrong_shape(node, "sweep", "names with values", SWEEP);
        return Vec::new();
    };
    let mut axes = Vec::new();
    for pair in pairs {
        let texts = values(reader, &pair.key, &pair.value);
        let mut read = |kind: Option<&Quantity>, least: u64, most: u64| {
            let mut numbers = Vec::new();
            for text in &texts {
                let number = match kind {
                    Some(kind) => kind.read(text).ok(),
                    None => decimal(text).and_then(|number| u64::try_from(number).ok()),
                };
                match number.filter(|number| (least..=most).contains(number)) {
                    Some(number) => numbers.push(number as u32),
                    None => {
                        let (unit, least, most) = match kind {
                            Some(kind) => (kind.allowed, kind.write(least), kind.write(most)),
                            None => ("a whole number", least.to_string(), most.to_string()),
                        };
                        let allowed = format!("{unit} from {least} to {most}");
                        let at = &pair.value.at;
                        reader.report(Problem::value(at, &pair.key, text, &allowed, SWEEP));
                        break;
                    }
                }
            }
            numbers
        };
        let group = groups.iter().position(|group| group.name == pair.key);
        let axis = match pair.key.as_str() {
            "concurrency" => Dimension::Concurrency(read(None, 1, u64::from(CONCURRENCY_MAX))),
            "rate" => Dimension::Rate(read(None, 1, RATE_MAX)),
            "size" => {
                let sizes = read(Some(&BYTES), 8, u64::from(BULK_MAX));
                sizes.iter().for_each(|size| {
                    words(reader, &pair.value.at, u64::from(*size));
                });
                Dimension::Size(sizes)
            }
            _ => {
                if let Some(group) = group {
                    axes.push(Dimension::Nodes(group, read(None, 1, 16_384)));
                    continue;
                }
                let names: Vec<&str> = groups.iter().map(|group| group.name.as_str()).collect();
                let allowed = format!("concurrency, size, rate, or a group ({})", names.join(", "));
                reader.report(Problem::value(&pair.at, "sweep", &pair.key, &allowed, SWEEP));
                continue;
            }
        };
        if axis.len() > 0 {
            axes.push(axis);
        }
    }
    let sized = axes.iter().any(|axis| matches!(axis, Dimension::Size(_)));
    if sized && tests.iter().any(|test| test.sizes.len() != 1) {
        let what = "a sweep of sizes with a ping or a mix; allowed: reads and writes of one size; \
                    for example a step of its own for the others";
        reader.report(Problem::new(&node.at, what));
    }
    axes
}

/// The values of a list, a range, or one value, as text.
fn values(reader: &mut Reader, key: &str, node: &Node) -> Vec<String> {
    let mut texts = Vec::new();
    let mut take = |reader: &mut Reader, node: &Node| {
        let Some(word) = reader.word(node, key, SWEEP) else { return };
        for part in word.split(',').map(str::trim) {
            if texts.len() > VALUES_MAX {
                return;
            }
            match part.contains("..").then(|| range(part)) {
                None => texts.push(part.to_owned()),
                Some(Ok(values)) => texts.extend(values),
                Some(Err(why)) => {
                    let allowed = format!("values, or a range ({why})");
                    reader.report(Problem::value(&node.at, key, part, &allowed, SWEEP));
                }
            }
        }
    };
    match &node.content {
        Content::List(items) => items.iter().for_each(|item| take(reader, item)),
        _ => take(reader, node),
    }
    if texts.is_empty() || texts.len() > VALUES_MAX {
        let found =
            if texts.is_empty() { "no".to_owned() } else { format!("{} or more", texts.len()) };
        let what =
            format!("{key} with {found} values; allowed: 1 to {VALUES_MAX}; for example {SWEEP}");
        reader.report(Problem::new(&node.at, what));
        texts.clear();
    }
    texts
}
