//! The page: text written by hand, with generated tables between marks.
//!
//! ```text
//! <!-- table NAME -->
//! ...
//! <!-- end -->
//! ```

use anyhow::{Context, Result, ensure};

const BEGIN: &str = "<!-- table ";
const BEGIN_END: &str = " -->";
const END: &str = "<!-- end -->";

/// The page with every table replaced by the result of `table`.
pub(super) fn renewed(page: &str, mut table: impl FnMut(&str) -> Result<String>) -> Result<String> {
    let mut out = String::new();
    let mut lines = page.lines().enumerate();
    while let Some((at, line)) = lines.next() {
        out.push_str(line);
        out.push('\n');
        ensure!(line != END, "line {}: {END:?} without a table", at + 1);
        let Some(name) = table_at(line) else { continue };
        lines
            .find(|(_, line)| *line == END)
            .with_context(|| format!("line {}: table {name} has no {END:?}", at + 1))?;
        out.push_str(&table(name).with_context(|| format!("line {}", at + 1))?);
        out.push_str(END);
        out.push('\n');
    }
    Ok(out)
}

/// The name of the table that begins with this line.
fn table_at(line: &str) -> Option<&str> {
    line.strip_prefix(BEGIN)?.strip_suffix(BEGIN_END)
}

/// Names of the tables on the page.
#[cfg(test)]
pub(super) fn tables(page: &str) -> Vec<&str> {
    page.lines().filter_map(table_at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tables_change() {
        let page = "one\n<!-- table a -->\nold\n<!-- end -->\ntwo\n";
        let new = renewed(page, |name| Ok(format!("new {name}\n"))).expect("it is in order");
        assert_eq!(new, "one\n<!-- table a -->\nnew a\n<!-- end -->\ntwo\n");
        assert_eq!(tables(page), ["a"]);
    }

    #[test]
    fn marks_come_in_pairs() {
        for page in ["<!-- table a -->\nold\n", "<!-- end -->\n"] {
            let error = renewed(page, |_| Ok(String::new())).expect_err(page).to_string();
            assert!(error.starts_with("line 1: "), "{error}");
        }
    }
}
