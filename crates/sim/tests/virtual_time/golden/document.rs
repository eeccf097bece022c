//! Keeps tables in documents in step with the tables of the tests.

use std::path::Path;

/// Asserts that the part of `docs/FILE` between the marks of a name is this text.
///
/// With `LUSTRINE_BLESS` set, the part is written instead of compared.
pub(crate) fn assert_in_step(file: &str, name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(file);
    let document = std::fs::read_to_string(&path).expect("the document");
    let (open, close) = (format!("<!-- {name} -->\n"), format!("<!-- end of {name} -->\n"));
    let start = document.find(&open).expect("the opening mark") + open.len();
    let end = document.find(&close).expect("the closing mark");
    if std::env::var_os("LUSTRINE_BLESS").is_some() {
        let written = format!("{}{text}{}", &document[..start], &document[end..]);
        std::fs::write(&path, written).expect("the document can be written");
        return;
    }
    assert_eq!(
        &document[start..end],
        text,
        "docs/{file} is out of step: run the test with LUSTRINE_BLESS=1 and look at the difference"
    );
}

/// The reasons of differences, each once, in the order of the table.
pub(crate) fn reasons(allowed: &[(super::Allow, &'static str)]) -> String {
    let mut all: Vec<&str> = allowed.iter().map(|(_, why)| *why).collect();
    all.dedup();
    all.join("; ")
}
