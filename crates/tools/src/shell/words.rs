//! Splits lines into words.

/// Why a line cannot be split.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WordsError {
    /// A quote is not closed.
    #[error("a quote {0} is not closed; a line is a whole command")]
    Open(char),
    /// A backslash at the end of the line.
    #[error("the line ends with a \\, but a line is a whole command")]
    Backslash,
}

/// The words of a line.
///
/// Blanks separate them. Between `'` and `'` everything is literal; between `"` and `"` too, except
/// `\"` and `\\`; elsewhere `\` makes the next character literal. `#` at the start of a word begins
/// a comment. Nothing else has a meaning: no variables, no patterns, no `;`.
///
/// # Errors
/// [`WordsError`].
pub fn split(line: &str) -> Result<Vec<String>, WordsError> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut rest = line.chars();
    while let Some(char) = rest.next() {
        match char {
            '#' if word.is_none() => break,
            blank if blank.is_whitespace() => words.extend(word.take()),
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match rest.next().ok_or(WordsError::Open('\''))? {
                        '\'' => break,
                        other => word.push(other),
                    }
                }
            }
            '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match rest.next().ok_or(WordsError::Open('"'))? {
                        '"' => break,
                        '\\' => match rest.next().ok_or(WordsError::Open('"'))? {
                            escaped @ ('"' | '\\') => word.push(escaped),
                            other => word.extend(['\\', other]),
                        },
                        other => word.push(other),
                    }
                }
            }
            '\\' => {
                let escaped = rest.next().ok_or(WordsError::Backslash)?;
                word.get_or_insert_default().push(escaped);
            }
            other => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word);
    Ok(words)
}
