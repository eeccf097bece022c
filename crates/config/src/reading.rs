//! Values of configuration files.

use lustrine_document::{Entry, Node, Problem, Reader, Section, decimal, word};
use lustrine_lnet::tunables::Tunable;

/// A whole number in the range of a tunable. Where that is `0/1`, YAML's truth values are taken
/// too.
///
/// # Errors
/// When something else stands there.
pub(super) fn number(node: &Node, key: &str, row: &Tunable) -> Result<i64, Problem> {
    let example = format!("\"{key}: {}\"", row.default);
    let text = word(node, key, &example)?;
    let value = match text {
        "true" | "True" if row.unit == "0/1" => Some(1),
        "false" | "False" if row.unit == "0/1" => Some(0),
        _ => decimal(text),
    };
    value.filter(|value| (row.min..=row.max).contains(value)).ok_or_else(|| {
        let unit = if row.unit.is_empty() || row.unit == "0/1" { "" } else { row.unit };
        let allowed = format!("a number from {} to {} {unit}", row.min, row.max);
        Problem::value(&node.at, key, text, allowed.trim_end(), &example)
    })
}

/// The entries of a mapping that must have this key. Where its keys are wrong already, or something
/// else than a mapping stands there, that is the problem, and the missing key is not another one.
pub(super) fn entries_with<'n>(
    reader: &mut Reader,
    node: &'n Node,
    section: &Section,
    key: &str,
) -> Vec<Entry<'n>> {
    let before = reader.problem_count();
    let entries = reader.entries(node, section);
    if reader.problem_count() == before && !entries.iter().any(|entry| entry.key == key) {
        reader.report(Problem::missing(&node.at, section.name, key, section.example));
    }
    entries
}
