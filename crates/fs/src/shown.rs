//! Names of files as text.

/// A name or a path that a terminal can show: names with control characters, and those that are no
/// UTF-8, are escaped. What it gives stays as it is when it is shown again.
pub fn shown(path: &[u8]) -> String {
    let names = path.split(|byte| *byte == b'/').map(|name| match std::str::from_utf8(name) {
        Ok(text) if !text.chars().any(char::is_control) => text.to_owned(),
        _ => name.escape_ascii().to_string(),
    });
    names.collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_do_not_reach_the_terminal_as_commands() {
        assert_eq!(shown("Gr\u{f6}\u{df}e".as_bytes()), "Gr\u{f6}\u{df}e");
        assert_eq!(shown(b"a\x1b[2J"), "a\\x1b[2J");
        assert_eq!(shown(b"\xff"), "\\xff");
        assert_eq!(shown("\u{f6}/".as_bytes()) + &shown(b"\xff/"), "\u{f6}/\\xff/");
        assert_eq!(shown(&[b"\xc3\xb6/", &b"\xff/"[..]].concat()), "\u{f6}/\\xff/");
    }
}
