//! The file as a whole [CFG-7], and lnetctl's `global` section [CFG-10].

use lustrine_document::{Entry, Key, Node, Problem, Problems, Reader, Section, Strictness, load};

use super::check;
use super::draft::Draft;
use super::problem::{FORMAT, Warning, warnings};
use super::{NodeConfig, lustrine_section, nets, peers};

/// What the examples of whole files show.
const EXAMPLE: &str = "\"net: [{net type: tcp}]\"";

pub(super) const TOP: Section = Section {
    name: "a configuration file",
    keys: TOP_KEYS,
    unlisted: GLOBAL_KEYS,
    example: EXAMPLE,
};

const TOP_KEYS: &[Key] = &[
    Key::read("net"),
    Key::read("peer"),
    Key::read("global"),
    Key::read("lustrine"),
    Key::shown("statistics"),
    Key::not_implemented("route", "this release does not route"),
    Key::not_implemented("routing", "this release does not route"),
    Key::not_implemented("buffers", "this release does not route and has no router buffers"),
    Key::not_implemented("numa", "paths are chosen without regard to NUMA distance"),
    Key::not_implemented("udsp", "there are no selection policies"),
    Key::not_implemented("ip2nets", "nets are not chosen by address patterns; list them under net"),
    Key::command("ping", "lnetctl ping 10.0.0.1@tcp"),
    Key::command("discover", "lnetctl discover 10.0.0.1@tcp"),
];

pub(super) const GLOBAL: Section = Section::new("global", GLOBAL_KEYS, "\"discovery: 1\"");

const NO_HEALTH: &str =
    "interfaces have no health values, as with health_sensitivity 0 on a kernel";

/// lnetctl reads these inside `global` and at the top level [CFG-7]. Those that are read are
/// tunables of the same name.
const GLOBAL_KEYS: &[Key] = &[
    Key::read("discovery"),
    Key::read("retry_count"),
    Key::read("transaction_timeout"),
    Key::read("max_interfaces"),
    // It follows from transaction_timeout and retry_count [CFG-10].
    Key::shown("lnd_timeout"),
    Key::not_implemented("numa_range", "paths are chosen without regard to NUMA distance"),
    Key::not_implemented("drop_asym_route", "this release does not route"),
    Key::not_implemented("health_sensitivity", NO_HEALTH),
    Key::not_implemented("recovery_interval", NO_HEALTH),
    Key::not_implemented("recovery_limit", NO_HEALTH),
    Key::not_implemented("max_recovery_ping_interval", NO_HEALTH),
    Key::not_implemented("router_sensitivity", "this release does not route"),
    Key::not_implemented(
        "response_tracking",
        "every PUT that wants an ACK and every GET is tracked",
    ),
];

pub(super) fn read(
    text: &str,
    source_name: &str,
    strictness: Strictness,
) -> Result<(NodeConfig, Vec<Warning>), Problems> {
    let (draft, warnings) =
        read_into(NodeConfig::default(), (text, source_name), strictness, None)?;
    Ok((draft.config, warnings))
}

/// The same over a configuration that is there: what the text does not say stays. Interfaces and
/// peers are those of the text alone. `all_cpts` is how an interface says that all CPU partitions
/// serve it.
pub(super) fn read_over(
    base: &NodeConfig,
    file: (&str, &str),
    strictness: Strictness,
    all_cpts: &str,
) -> Result<(Draft, Vec<Warning>), Problems> {
    let base = NodeConfig { nets: Vec::new(), peers: Vec::new(), ..base.clone() };
    read_into(base, file, strictness, Some(all_cpts))
}

fn read_into(
    base: NodeConfig,
    (text, source_name): (&str, &str),
    strictness: Strictness,
    all_cpts: Option<&str>,
) -> Result<(Draft, Vec<Warning>), Problems> {
    let root = load(text, &FORMAT).map_err(|problem| Problems::new(source_name, vec![problem]))?;
    let mut reader = Reader::new(strictness);
    let draft = draft(&mut reader, &root, base, all_cpts);
    let (problems, more) = reader.finish(source_name)?;
    Ok((draft, warnings(source_name, problems, more)))
}

fn draft(reader: &mut Reader, root: &Node, base: NodeConfig, all_cpts: Option<&str>) -> Draft {
    let mut draft = Draft::new(base);
    for entry in reader.entries(root, &TOP) {
        match entry.key {
            "net" => nets::read(reader, &mut draft, entry.value),
            "peer" => peers::read(reader, &mut draft, entry.value),
            "lustrine" => lustrine_section::read(reader, &mut draft, entry.value),
            "global" => {
                for inner in reader.entries(entry.value, &GLOBAL) {
                    global(reader, &mut draft, &inner);
                }
            }
            _ => global(reader, &mut draft, &entry),
        }
    }
    // What does not agree may follow from what is missing.
    if reader.is_good()
        && let Err(what) = draft.config.check()
    {
        reader.report(Problem::new(&draft.place_of(&what), what.to_string()));
    }
    nets::warn_of_the_ineffective(reader, &draft, all_cpts);
    draft
}

fn global(reader: &mut Reader, draft: &mut Draft, entry: &Entry<'_>) {
    reader.accept(draft.set(check::row(entry.key), entry.key, &entry.at, entry.value));
}

#[cfg(test)]
mod tests;
