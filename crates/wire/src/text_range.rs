//! Lists of names in brackets, as `lst` takes them: `10.0.0.[1-4,9]@tcp`, `oss[1,3-9/2]@o2ib`
//! [NID-8]. The text need not be a NID; host names are legal.

#[cfg(test)]
mod tests;

/// The most numbers and ranges in one pair of brackets.
const ITEMS_MAX: usize = 4096;
/// The most pieces (plain text or brackets) of one text.
const PIECES_MAX: usize = 64;

/// Why a text cannot be expanded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TextRangeError {
    /// `[` without `]`, or the other way round, or one within another.
    #[error("brackets that do not match")]
    Brackets,
    /// Text in brackets is neither a number nor a range of numbers.
    #[error("in brackets only numbers and ranges such as 3-9 or 3-9/2 are allowed")]
    NotANumber,
    /// The end of a range is not above its start.
    #[error("the range {low}-{high} is empty: its end must be above its start")]
    Empty {
        /// Start of the range.
        low: u32,
        /// End of the range.
        high: u32,
    },
    /// A range with a stride of 0.
    #[error("a range with a stride of 0")]
    ZeroStride,
    /// More pieces or items than the limits.
    #[error("too many brackets or too many items in one")]
    TooComplex,
    /// More names than the caller allows.
    #[error("stands for {count} names; {limit} are allowed")]
    TooMany {
        /// The number of names, at most `u64::MAX`.
        count: u64,
        /// What the caller allows.
        limit: u64,
    },
}

/// `low`, `low + stride`, ... up to `high`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) low: u32,
    pub(crate) high: u32,
    pub(crate) stride: u32,
}

impl Span {
    /// How many numbers.
    pub(crate) fn count(&self) -> u64 {
        u64::from((self.high - self.low) / self.stride) + 1
    }

    /// The number at `index`, which must be below [`Span::count`].
    pub(crate) fn nth(&self, index: u64) -> u32 {
        self.low + self.stride * index as u32
    }

    /// Whether `number` is one of them.
    pub(crate) fn contains(&self, number: u32) -> bool {
        (self.low..=self.high).contains(&number) && (number - self.low).is_multiple_of(self.stride)
    }

    /// Reads `n`, `low-high` or `low-high/stride`.
    pub(crate) fn parse(text: &str, number: fn(&str) -> Option<u32>) -> Option<Span> {
        let Some((low, rest)) = text.split_once('-') else {
            let n = number(text)?;
            return Some(Span { low: n, high: n, stride: 1 });
        };
        let (high, stride) = match rest.split_once('/') {
            Some((high, stride)) => (high, number(stride)?),
            None => (rest, 1),
        };
        Some(Span { low: number(low)?, high: number(high)?, stride })
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(String),
    Numbers(Vec<Span>),
}

impl Piece {
    fn count(&self) -> u64 {
        match self {
            Piece::Text(_) => 1,
            Piece::Numbers(spans) => spans.iter().map(Span::count).fold(0, u64::saturating_add),
        }
    }
}

/// A text with bracketed lists, which stands for the product of all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextRange {
    pieces: Vec<Piece>,
}

impl TextRange {
    /// Reads the notation. Text without brackets stands for itself.
    ///
    /// # Errors
    /// [`TextRangeError`], one variant per reason; never [`TextRangeError::TooMany`].
    pub fn parse(text: &str) -> Result<TextRange, TextRangeError> {
        let mut pieces = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            if pieces.len() >= PIECES_MAX {
                return Err(TextRangeError::TooComplex);
            }
            let end = rest.find(['[', ']']).unwrap_or(rest.len());
            if end > 0 {
                pieces.push(Piece::Text(rest[..end].to_owned()));
                rest = &rest[end..];
                continue;
            }
            let inner = rest.strip_prefix('[').ok_or(TextRangeError::Brackets)?;
            let (list, after) = inner.split_once(']').ok_or(TextRangeError::Brackets)?;
            if list.contains('[') {
                return Err(TextRangeError::Brackets);
            }
            pieces.push(Piece::Numbers(parse_list(list)?));
            rest = after;
        }
        Ok(TextRange { pieces })
    }

    /// How many names it stands for, at most `u64::MAX`.
    pub fn count(&self) -> u64 {
        self.pieces.iter().map(Piece::count).fold(1, u64::saturating_mul)
    }

    /// All names; the last bracket varies fastest.
    ///
    /// # Errors
    /// [`TextRangeError::TooMany`] if there are more than `limit`.
    pub fn expand(&self, limit: u64) -> Result<Names<'_>, TextRangeError> {
        let count = self.count();
        if count > limit {
            return Err(TextRangeError::TooMany { count, limit });
        }
        Ok(Names { range: self, next: 0, count })
    }

    fn nth(&self, mut index: u64) -> String {
        // The last bracket varies fastest, so digits of the index are taken from the back.
        let mut chosen = Vec::with_capacity(self.pieces.len());
        for piece in self.pieces.iter().rev() {
            if let Piece::Numbers(spans) = piece {
                let count = piece.count();
                chosen.push(nth_of(spans, index % count));
                index /= count;
            }
        }
        let mut name = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => name.push_str(text),
                Piece::Numbers(_) => {
                    let number = chosen.pop().unwrap_or_default();
                    name.push_str(&number.to_string());
                }
            }
        }
        name
    }
}

/// The number at `index` of several spans, one after the other.
pub(crate) fn nth_of(spans: &[Span], mut index: u64) -> u32 {
    for span in spans {
        if index < span.count() {
            return span.nth(index);
        }
        index -= span.count();
    }
    unreachable!("the index is below the sum of the counts")
}

fn parse_list(list: &str) -> Result<Vec<Span>, TextRangeError> {
    let mut spans = Vec::new();
    for item in list.split(',') {
        if spans.len() >= ITEMS_MAX {
            return Err(TextRangeError::TooComplex);
        }
        let item = item.trim();
        let span = Span::parse(item, crate::nid::decimal).ok_or(TextRangeError::NotANumber)?;
        if span.stride == 0 {
            return Err(TextRangeError::ZeroStride);
        }
        if span.high <= span.low && item.contains('-') {
            return Err(TextRangeError::Empty { low: span.low, high: span.high });
        }
        spans.push(span);
    }
    Ok(spans)
}

/// Iterator over the names that a [`TextRange`] stands for.
#[derive(Debug, Clone)]
pub struct Names<'a> {
    range: &'a TextRange,
    next: u64,
    count: u64,
}

impl Iterator for Names<'_> {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        if self.next >= self.count {
            return None;
        }
        let name = self.range.nth(self.next);
        self.next += 1;
        Some(name)
    }
}
