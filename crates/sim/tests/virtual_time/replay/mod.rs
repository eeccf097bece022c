//! Golden replay: a Lustrine node in the place of a kernel node, in the captured conversations.
//!
//! Each capture of kernel nodes is played to the node as the other kernels played it, and every
//! message that it sends must be the one that the captured node sent, except for the fields that
//! docs/replay.md names. `table.rs` lists what is replayed, and what is not and why.

mod table;

use lustrine_sim::{Chunking, Link};

use crate::golden::{assert_in_step, names_in, play, reasons};
use table::ROWS;

fn check_rows(wanted: impl Fn(&str, &str) -> bool) {
    let mut failures = Vec::new();
    let mut compared = 0;
    for row in ROWS.iter().filter(|row| wanted(row.folder, row.name)) {
        for role in row.roles {
            let link = Link { window: 1 << 30, ..Link::default() };
            match play(row.folder, row.name, role, link) {
                Ok(count) => {
                    compared += count;
                    if std::env::var_os("LUSTRINE_SHOW").is_some() {
                        println!("{}/{} as {}: {count}", row.folder, row.name, role.nids[0]);
                    }
                }
                Err(wrong) => {
                    failures.push(format!(
                        "{}/{} as {}:\n  {wrong}",
                        row.folder, row.name, role.nids[0]
                    ));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
    assert!(compared > 0, "nothing was compared");
}

fn in_lnet(letters: &'static [char]) -> impl Fn(&str, &str) -> bool {
    move |folder, name| folder == "lnet" && name.starts_with(letters)
}

#[test]
fn setup_and_discovery_match_the_captures() {
    check_rows(in_lnet(&['a', 'b', 'e']));
}

#[test]
fn selftest_sessions_match_the_captures() {
    check_rows(in_lnet(&['c']));
}

#[test]
fn driver_variants_match_the_captures() {
    check_rows(in_lnet(&['f']));
}

#[test]
fn userland_peers_match_the_captures() {
    check_rows(|folder, _| folder == "userland");
}

/// The result must be the same with streams that are cut into pieces at random.
#[test]
fn streams_in_pieces_match_the_captures() {
    for name in [
        "a3_discover_cold",
        "c01_session_console_vm4_brw_mix",
        "c19_brw_read_1M_simple_c1",
        "c29_brw_write_1M_none_c1",
        "f5_zc_boundary",
        "f21_proto_v2_csum",
        "f23_proto_v1",
    ] {
        let row = ROWS.iter().find(|row| row.name == name).expect("a row");
        for role in row.roles {
            let link = Link { window: 1 << 30, chunking: Chunking::Random, ..Link::default() };
            play(row.folder, name, role, link).unwrap_or_else(|wrong| panic!("{name}: {wrong}"));
        }
    }
}

#[test]
fn every_capture_has_its_row() {
    for folder in ["lnet", "userland"] {
        let rows: Vec<&str> =
            ROWS.iter().filter(|row| row.folder == folder).map(|row| row.name).collect();
        assert_eq!(rows, names_in(folder), "{folder}");
    }
    for row in ROWS {
        assert!(
            !row.roles.is_empty() || !row.not.is_empty(),
            "{}: why is it not replayed?",
            row.name
        );
    }
}

#[test]
fn the_document_lists_all_captures() {
    let mut text = String::from(
        "| capture | Lustrine in the place of | differences | not replayed |\n|---|---|---|---|\n",
    );
    for row in ROWS {
        let roles: Vec<&str> = row.roles.iter().map(|role| role.nids[0]).collect();
        let mut differs: Vec<String> = row
            .roles
            .iter()
            .map(|role| reasons(role.allow))
            .filter(|why| !why.is_empty())
            .collect();
        differs.dedup();
        text += &format!(
            "| `{}/{}` | {} | {} | {} |\n",
            row.folder,
            row.name,
            roles.join(", "),
            differs.join("; "),
            row.not
        );
    }
    assert_in_step("replay.md", "captures", &text);
}
