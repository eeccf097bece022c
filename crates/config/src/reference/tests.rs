use std::path::PathBuf;

use super::*;
use crate::{NodeConfig, Strictness, lnetctl, lustrine_section, nets};
use lustrine_document::{Role, Section};

fn page(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name)
}

fn read(name: &str) -> String {
    let path = page(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The fenced blocks of a page: the word behind the fence, and the text.
fn blocks(page: &str) -> Vec<(String, String)> {
    let mut blocks: Vec<(String, String)> = Vec::new();
    let mut inside = false;
    for line in page.lines() {
        match line.strip_prefix("```") {
            Some(_) if inside => inside = false,
            Some(kind) => {
                inside = true;
                blocks.push((kind.to_owned(), String::new()));
            }
            None if inside => {
                let (_, text) = blocks.last_mut().expect("a fence opened it");
                text.push_str(line);
                text.push('\n');
            }
            None => {}
        }
    }
    assert!(!inside, "a fence is not closed");
    blocks
}

#[test]
fn the_page_of_tunables_is_the_table() {
    if std::env::var_os("UPDATE_DOCS").is_some_and(|value| value == "1") {
        std::fs::write(page("tunables.md"), tunables_page()).unwrap();
    }
    let found = read("tunables.md");
    assert!(
        found == tunables_page(),
        "docs/tunables.md is not what the table says; run this test with UPDATE_DOCS=1"
    );
}

#[test]
fn the_page_has_a_row_per_tunable() {
    let page = tunables_page();
    assert_eq!(page.lines().filter(|line| line.starts_with("| `")).count(), TABLE.len());
    let row = "| `retry_count` | `lnet_retry_count` | - | 2 | 0 to 255 | ";
    assert!(page.contains(row), "{page}");
    assert!(page.contains("| `credits` | same | messages | 256 | 1 to 65535 | "));
}

#[test]
fn every_example_of_the_reference_is_taken_strictly() {
    let page = read("configuration.md");
    let examples: Vec<_> = blocks(&page).into_iter().filter(|(kind, _)| kind == "yaml").collect();
    assert!(examples.len() >= 4, "{examples:?}");
    for (_, text) in examples {
        let read = NodeConfig::from_yaml(&text, "docs/configuration.md", Strictness::Strict);
        let (config, _) = read.unwrap_or_else(|error| panic!("{error}\n{text}"));
        assert!(!config.nets.is_empty(), "{text}");
    }
}

#[test]
fn every_refusal_of_the_reference_is_word_for_word() {
    let page = read("configuration.md");
    let blocks = blocks(&page);
    let wrong = blocks.iter().enumerate().filter(|(_, (kind, _))| kind == "yaml,wrong");
    let mut seen = 0;
    for (index, (_, text)) in wrong {
        let error = NodeConfig::from_yaml(text, "net.yaml", Strictness::Strict).expect_err(text);
        assert_eq!(blocks[index + 1], ("text".to_owned(), format!("{error}\n")));
        seen += 1;
    }
    assert!(seen >= 3);
}

#[test]
fn every_net_word_of_the_reference_is_taken() {
    let page = read("configuration.md");
    let rows = page.lines().filter(|line| line.starts_with("| `tcp"));
    let words: Vec<&str> = rows
        .filter_map(|row| row.split('|').nth(1))
        .flat_map(|cell| cell.split('`').skip(1).step_by(2))
        .collect();
    assert!(words.len() >= 9, "{words:?}");
    for word in words {
        word.parse::<crate::NetConfig>().unwrap_or_else(|error| panic!("{error}"));
    }
}

#[test]
fn every_known_key_is_in_the_reference() {
    let page = read("configuration.md");
    let sections: [Section; 7] = [
        lnetctl::TOP,
        lnetctl::GLOBAL,
        nets::NET,
        nets::NI,
        nets::TUNABLES,
        nets::LND_TUNABLES,
        lustrine_section::LUSTRINE,
    ];
    for key in sections.iter().flat_map(|section| section.all()) {
        assert!(page.contains(&format!("`{}`", key.name)), "{} is not explained", key.name);
        if matches!(key.role, Role::NotImplemented(_)) {
            let (_, not_yet) = page.split_once("## Not implemented yet").expect("that chapter");
            assert!(not_yet.contains(&format!("`{}`", key.name)), "{} is not listed", key.name);
        }
    }
}
