//! Lists of values of fixed size that fill a buffer.

use core::fmt;
use core::marker::PhantomData;

use super::{Reader, Wire, Writer};
use crate::describe::{Describe, Value};

/// A list of values, either as received or as the caller has them.
#[derive(Clone, Copy)]
pub struct Array<'a, T> {
    source: Source<'a, T>,
}

#[derive(Clone, Copy)]
enum Source<'a, T> {
    /// A multiple of the size of a value.
    Bytes(&'a [u8], PhantomData<T>),
    Values(&'a [T]),
}

impl<'a, T: Wire + Copy> Array<'a, T> {
    /// No values.
    pub const EMPTY: Array<'a, T> = Array { source: Source::Values(&[]) };

    /// The values in `bytes`; none if the length is not a multiple of a value's [RPC-6].
    pub fn parse(bytes: &'a [u8]) -> Option<Array<'a, T>> {
        let whole = bytes.len().is_multiple_of(T::SIZE);
        whole.then_some(Array { source: Source::Bytes(bytes, PhantomData) })
    }

    /// How many values there are.
    pub fn len(&self) -> usize {
        match self.source {
            Source::Bytes(bytes, _) => bytes.len() / T::SIZE,
            Source::Values(values) => values.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Value `index`.
    pub fn get(&self, index: usize) -> Option<T> {
        match self.source {
            Source::Bytes(bytes, _) => {
                let start = index.checked_mul(T::SIZE)?;
                T::read(&mut Reader::new(bytes.get(start..)?)).ok()
            }
            Source::Values(values) => values.get(index).copied(),
        }
    }

    /// All values in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = T> + use<'a, T> {
        let array = *self;
        // Every index below the length is there.
        (0..self.len()).map(move |index| match array.get(index) {
            Some(value) => value,
            None => unreachable!("value {index} of {}", array.len()),
        })
    }

    /// Appends all values.
    pub fn write(&self, to: &mut Writer<'_>) {
        match self.source {
            Source::Bytes(bytes, _) => to.bytes(bytes),
            Source::Values(values) => values.iter().for_each(|value| to.put(value)),
        }
    }
}

impl<'a, T> From<&'a [T]> for Array<'a, T> {
    fn from(values: &'a [T]) -> Array<'a, T> {
        Array { source: Source::Values(values) }
    }
}

impl<T> Default for Array<'_, T> {
    fn default() -> Self {
        Array { source: Source::Values(&[]) }
    }
}

impl<T: Wire + Copy + PartialEq> PartialEq for Array<'_, T> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl<T: Wire + Copy + Eq> Eq for Array<'_, T> {}

impl<T: Wire + Copy + fmt::Debug> fmt::Debug for Array<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<T: Wire + Copy + Describe> Describe for Array<'_, T> {
    fn describe(&self) -> Value {
        Value::List(self.iter().map(|value| value.describe()).collect())
    }
}
