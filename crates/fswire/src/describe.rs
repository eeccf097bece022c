//! Structures as named values, for people and programs that read captures.
//!
//! A description is made from the same declaration as the parser, so that it never misses a field.

use core::fmt::Write as _;

/// A described value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// A count, a size, a time.
    Number(u64),
    /// The same with a sign.
    Signed(i64),
    /// A number that identifies something; it is printed in hexadecimal.
    Hex(u64),
    /// Text: names, flags, FIDs. Bytes that are not printable ASCII are escaped.
    Text(String),
    /// Several values of one kind.
    List(Vec<Value>),
    /// A structure.
    Fields(Fields),
}

/// The fields of a structure by name, in their order on the wire.
pub type Fields = Vec<(&'static str, Value)>;

/// Values that describe themselves.
pub trait Describe {
    /// The description.
    fn describe(&self) -> Value;
}

impl Value {
    /// A text.
    pub fn text(value: impl core::fmt::Display) -> Value {
        Value::Text(value.to_string())
    }

    /// Bytes of a text that came from the network.
    pub fn escaped(bytes: &[u8]) -> Value {
        Value::Text(bytes.escape_ascii().to_string())
    }

    /// Two digits for each byte.
    pub fn digits(bytes: &[u8]) -> Value {
        let mut text = String::with_capacity(2 * bytes.len());
        for byte in bytes {
            // Writing to a string does not fail.
            let _ = write!(text, "{byte:02x}");
        }
        Value::Text(text)
    }

    /// A number in hexadecimal.
    #[must_use]
    pub fn hex(self) -> Value {
        match self {
            Value::Number(number) => Value::Hex(number),
            Value::List(list) => Value::List(list.into_iter().map(Value::hex).collect()),
            other => other,
        }
    }

    /// A number in octal, as file modes are written.
    #[must_use]
    pub fn octal(self) -> Value {
        match self {
            Value::Number(0) => Value::Text("0".to_owned()),
            Value::Number(number) => Value::Text(format!("0{number:o}")),
            other => other,
        }
    }

    /// A 32-bit number that is -1 for none, such as a group.
    #[must_use]
    pub fn or_none(self) -> Value {
        match self {
            Value::Number(number) if number == u64::from(u32::MAX) => Value::Signed(-1),
            other => other,
        }
    }

    /// Whether this is 0, empty, or made of such values only: what unused fields hold.
    pub fn is_empty(&self) -> bool {
        match self {
            Value::Number(number) | Value::Hex(number) => *number == 0,
            Value::Signed(number) => *number == 0,
            Value::Text(text) => text.is_empty() || text == "0",
            Value::List(list) => list.iter().all(Value::is_empty),
            Value::Fields(fields) => fields.iter().all(|(_, value)| value.is_empty()),
        }
    }

    /// The value of a field of a structure, at any depth: `"record.mode"`.
    pub fn at(&self, path: &str) -> Option<&Value> {
        let (first, rest) = match path.split_once('.') {
            Some((first, rest)) => (first, Some(rest)),
            None => (path, None),
        };
        let Value::Fields(fields) = self else { return None };
        let (_, value) = fields.iter().find(|(name, _)| *name == first)?;
        match rest {
            Some(rest) => value.at(rest),
            None => Some(value),
        }
    }
}

macro_rules! describe_numbers {
    ($($signed:ident: $($number:ty)*;)*) => {$($(
        impl Describe for $number {
            fn describe(&self) -> Value {
                Value::$signed((*self).into())
            }
        }
    )*)*};
}

describe_numbers! {
    Number: u8 u16 u32 u64;
    Signed: i32 i64;
}

impl<T: Describe> Describe for Option<T> {
    fn describe(&self) -> Value {
        self.as_ref().map_or_else(|| Value::List(Vec::new()), Describe::describe)
    }
}

impl<T: Describe, const N: usize> Describe for [T; N] {
    fn describe(&self) -> Value {
        Value::List(self.iter().map(Describe::describe).collect())
    }
}

impl Describe for &[u8] {
    /// The digits of up to 64 bytes, and how many there are.
    fn describe(&self) -> Value {
        if self.is_empty() {
            return Value::Text(String::new());
        }
        let Value::Text(mut text) = Value::digits(&self[..self.len().min(64)]) else {
            return Value::Text(String::new());
        };
        if self.len() > 64 {
            let _ = write!(text, "... ({} bytes)", self.len());
        }
        Value::Text(text)
    }
}
