//! Reference pages that are made from tables, so that they cannot fall behind them.

use std::fmt::Write as _;

use lustrine_lnet::tunables::{Change, Tunable};
use lustrine_partition::tunables::TABLE;

const HEAD: &str = "\
# Tunables

<!-- Made from the tables in tunables.rs of lnet, socklnd, selftest and partition: change them
     there, then run
     UPDATE_DOCS=1 cargo test -p lustrine-config reference -->

Every value this node can be tuned by, under the name LNet gave it where LNet has it. Set them in a
[configuration file](configuration.md) under `lustrine: tunables:`, by either name. A value outside
its range is refused; nothing is rounded or cut. `lnetctl set NAME VALUE` and
`lnetctl import` change a node that runs where the column says so; all other values take effect
when a node starts. The exception is `conns_per_peer`: `lnetctl net set` and `lnetctl import` change
it for each interface of a running node.

| name | LNet's name | unit | default | range | while it runs | what it does |
|---|---|---|---|---|---|---|
";

/// The text of `docs/tunables.md`: every row of [`TABLE`].
pub fn tunables_page() -> String {
    let mut page = HEAD.to_owned();
    for row in TABLE {
        let Tunable { name, lnet_name, unit, default, min, max, change, help } = *row;
        let lnet_name = match lnet_name {
            "" => "-".to_owned(),
            same if same == name => "same".to_owned(),
            other => format!("`{other}`"),
        };
        let unit = if unit.is_empty() { "-" } else { unit };
        let help = help.replace('|', "\\|");
        let change = match change {
            Change::Live => "yes",
            Change::Start => "-",
        };
        let range = format!("{min} to {max}");
        writeln!(
            page,
            "| `{name}` | {lnet_name} | {unit} | {default} | {range} | {change} | {help} |"
        )
        .expect("a String can be written to");
    }
    page
}

#[cfg(test)]
mod tests;
