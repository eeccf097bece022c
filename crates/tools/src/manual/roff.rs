//! Text as roff.

use core::fmt::Write;

/// Text that is printed unchanged anywhere in a line, also within `"` and `"`.
pub(super) fn escaped(text: &str) -> String {
    let mut roff = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '\\' => roff.push_str("\\(rs"),
            // Terminals replace these otherwise, and the shown text cannot be typed.
            '-' => roff.push_str("\\-"),
            '\'' => roff.push_str("\\(aq"),
            '`' => roff.push_str("\\(ga"),
            '^' => roff.push_str("\\(ha"),
            '~' => roff.push_str("\\(ti"),
            '"' => roff.push_str("\\(dq"),
            // Otherwise it is a request at the beginning of a line.
            '.' if roff.is_empty() => roff.push_str("\\&."),
            '\n' | '\t' => roff.push(' '),
            plain if plain.is_ascii() => roff.push(plain),
            other => _ = write!(roff, "\\[u{:04X}]", u32::from(other)),
        }
    }
    roff
}

/// The same in bold.
pub(super) fn bold(text: &str) -> String {
    format!("\\fB{}\\fR", escaped(text))
}

/// The same in italics.
pub(super) fn italic(text: &str) -> String {
    format!("\\fI{}\\fR", escaped(text))
}
