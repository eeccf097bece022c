//! Malformed conversations: a Lustrine node compared with a kernel node, and rogue peers without a
//! capture.

mod peers;
mod portal_zero;
mod scene;
mod strangers;
mod table;

use crate::golden::{assert_in_step, names_in, play, reasons};
use lustrine_sim::Link;
use peers::ROGUES;
use table::ROWS;

#[test]
fn hand_made_clients_get_the_answers_of_the_kernel() {
    let mut failures = Vec::new();
    for row in ROWS {
        let link = Link { window: 1 << 30, ..Link::default() };
        if let Err(wrong) = play("rogue", row.name, &row.replay, link) {
            failures.push(format!("{}:\n  {wrong}", row.name));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

#[test]
fn every_capture_has_its_row() {
    let rows: Vec<&str> = ROWS.iter().map(|row| row.name).collect();
    assert_eq!(rows, names_in("rogue"));
}

#[test]
fn the_document_lists_all_captures() {
    let mut text =
        String::from("| capture | the client | the kernel node | Lustrine |\n|---|---|---|---|\n");
    for row in ROWS {
        let ours = match row.replay.allow {
            [] => "the same".to_owned(),
            allowed => reasons(allowed),
        };
        text += &format!("| `{}` | {} | {} | {ours} |\n", row.name, row.client, row.kernel);
    }
    assert_in_step("rogue-peers.md", "captures", &text);
    let mut text = String::from("| rogue | counter |\n|---|---|\n");
    for rogue in ROGUES {
        text += &format!("| {} | `{}` |\n", rogue.name, rogue.counter);
    }
    assert_in_step("rogue-peers.md", "rogues", &text);
}
