//! Text in fields of fixed size, and text that fills a buffer.

use core::fmt;

use crate::codec::{Reader, Short, SliceWriter, Wire, Writer};
use crate::describe::{Describe, Value};

/// A field of `N` bytes that holds a text ended by a zero byte. What stands behind that byte is
/// kept: kernels leave rubbish there in some structures [MGS-9].
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct FixedText<const N: usize>(pub [u8; N]);

/// A text does not fit a field, which needs room for the zero byte at its end, or holds a zero
/// byte itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TextError {
    /// It is too long.
    #[error("a text of {len} bytes: {max} are allowed")]
    TooLong {
        /// Its length.
        len: usize,
        /// The largest length allowed.
        max: usize,
    },
    /// It has a zero byte within.
    #[error("a text with a zero byte")]
    ZeroByte,
}

impl<const N: usize> FixedText<N> {
    /// All bytes 0.
    pub const EMPTY: FixedText<N> = FixedText([0; N]);

    /// The field with this text, filled with zero bytes.
    ///
    /// # Errors
    /// [`TextError`] if it does not fit.
    pub fn new(text: &[u8]) -> Result<FixedText<N>, TextError> {
        if text.len() >= N {
            return Err(TextError::TooLong { len: text.len(), max: N.saturating_sub(1) });
        }
        if text.contains(&0) {
            return Err(TextError::ZeroByte);
        }
        let mut raw = [0; N];
        raw[..text.len()].copy_from_slice(text);
        Ok(FixedText(raw))
    }

    /// The bytes before the first zero byte; all of them if there is none.
    pub fn as_bytes(&self) -> &[u8] {
        let end = self.0.iter().position(|&byte| byte == 0).unwrap_or(N);
        &self.0[..end]
    }

    /// Whether a zero byte ends it, as it must [RPC-6].
    pub fn is_terminated(&self) -> bool {
        self.0.contains(&0)
    }
}

impl<const N: usize> Default for FixedText<N> {
    fn default() -> Self {
        FixedText::EMPTY
    }
}

impl<const N: usize> fmt::Display for FixedText<N> {
    /// Printable ASCII as it is, all other bytes escaped.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_bytes().escape_ascii().fmt(f)
    }
}

impl<const N: usize> fmt::Debug for FixedText<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

impl<const N: usize> Wire for FixedText<N> {
    const SIZE: usize = N;

    fn read(from: &mut Reader<'_>) -> Result<Self, Short> {
        from.array().map(FixedText)
    }

    #[inline]
    fn write_to(&self, to: &mut SliceWriter<'_>) {
        to.bytes(&self.0);
    }
}

impl<const N: usize> Describe for FixedText<N> {
    fn describe(&self) -> Value {
        Value::text(self)
    }
}

/// A text that fills a buffer: its length is that of the text and one zero byte [RPC-6].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Text<'a> {
    bytes: &'a [u8],
    end: End,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
enum End {
    /// The buffer is empty, or its last byte is not 0.
    #[default]
    Bare,
    /// A zero byte.
    Zero,
}

impl<'a> Text<'a> {
    /// A buffer of length 0: no text.
    pub const NONE: Text<'a> = Text { bytes: &[], end: End::Bare };

    /// A text, to be written with a zero byte.
    pub const fn new(bytes: &'a [u8]) -> Text<'a> {
        Text { bytes, end: End::Zero }
    }

    /// A text that is written without a zero byte, as the key of one request is [MDT-15].
    pub const fn bare(bytes: &'a [u8]) -> Text<'a> {
        Text { bytes, end: End::Bare }
    }

    /// The text in a buffer.
    pub const fn parse(buffer: &'a [u8]) -> Text<'a> {
        match buffer.split_last() {
            Some((0, bytes)) => Text { bytes, end: End::Zero },
            _ => Text { bytes: buffer, end: End::Bare },
        }
    }

    /// The bytes without the one at the end.
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Whether the buffer has length 0. A buffer with an empty text has length 1.
    pub const fn is_none(&self) -> bool {
        self.bytes.is_empty() && matches!(self.end, End::Bare)
    }

    /// Whether exactly one zero byte stands in it, at its end, as must be with a name [RPC-6].
    pub fn is_well_formed(&self) -> bool {
        matches!(self.end, End::Zero) && !self.bytes.contains(&0)
    }

    /// Appends the buffer.
    pub fn write(&self, to: &mut Writer<'_>) {
        to.bytes(self.bytes);
        if self.end == End::Zero {
            to.bytes(&[0]);
        }
    }
}

impl fmt::Display for Text<'_> {
    /// Printable ASCII as it is, all other bytes escaped.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.bytes.escape_ascii().fmt(f)
    }
}

impl fmt::Debug for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

impl Describe for Text<'_> {
    fn describe(&self) -> Value {
        Value::text(self)
    }
}
