//! Reads and writes structures field by field, and declares them.
//!
//! All numbers are little-endian [RPC-4].

mod array;
#[macro_use]
mod macros;
#[cfg(test)]
mod tests;

pub use array::Array;

/// Bytes end before the value does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{wanted} bytes are needed, {have} are there")]
pub struct Short {
    /// The bytes needed next.
    pub wanted: usize,
    /// The bytes left.
    pub have: usize,
}

/// Takes fields from the front of a slice.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Reads from the start of `bytes`.
    pub const fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { rest: bytes }
    }

    /// What has not been read.
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// The next `len` bytes.
    ///
    /// # Errors
    /// [`Short`] if there are fewer.
    pub fn take(&mut self, len: usize) -> Result<&'a [u8], Short> {
        match self.rest.split_at_checked(len) {
            Some((taken, rest)) => {
                self.rest = rest;
                Ok(taken)
            }
            None => Err(Short { wanted: len, have: self.rest.len() }),
        }
    }

    /// The next `N` bytes.
    ///
    /// # Errors
    /// [`Short`] if there are fewer.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Short> {
        match self.rest.split_first_chunk::<N>() {
            Some((taken, rest)) => {
                self.rest = rest;
                Ok(*taken)
            }
            None => Err(Short { wanted: N, have: self.rest.len() }),
        }
    }

    /// Passes over `len` bytes.
    ///
    /// # Errors
    /// [`Short`] if there are fewer.
    pub fn skip(&mut self, len: usize) -> Result<(), Short> {
        self.take(len).map(|_| ())
    }

    /// The next value.
    ///
    /// # Errors
    /// [`Short`] if the bytes end before.
    pub fn value<T: Wire>(&mut self) -> Result<T, Short> {
        T::read(self)
    }
}

/// Appends fields to a vector.
#[derive(Debug)]
pub struct Writer<'a> {
    out: &'a mut Vec<u8>,
}

impl<'a> Writer<'a> {
    /// Appends to `out`.
    pub fn new(out: &'a mut Vec<u8>) -> Writer<'a> {
        Writer { out }
    }

    /// Bytes as they are.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// `len` bytes of 0.
    pub fn zeros(&mut self, len: usize) {
        self.out.resize(self.out.len() + len, 0);
    }

    /// A value.
    pub fn put<T: Wire>(&mut self, value: &T) {
        value.write(self);
    }
}

/// Writes the fields of a value of fixed size one after another. The length is known at compile
/// time, so that most fields are one store.
#[derive(Debug)]
pub struct SliceWriter<'a> {
    rest: &'a mut [u8],
}

impl SliceWriter<'_> {
    /// Bytes as they are.
    ///
    /// # Panics
    /// If they are more than the value has left, as in all methods.
    #[inline]
    pub fn bytes(&mut self, bytes: &[u8]) {
        let (now, rest) = core::mem::take(&mut self.rest).split_at_mut(bytes.len());
        now.copy_from_slice(bytes);
        self.rest = rest;
    }

    /// `len` bytes of 0.
    #[inline]
    pub fn zeros(&mut self, len: usize) {
        let (now, rest) = core::mem::take(&mut self.rest).split_at_mut(len);
        now.fill(0);
        self.rest = rest;
    }

    /// A value.
    #[inline]
    pub fn put<T: Wire>(&mut self, value: &T) {
        value.write_to(self);
    }
}

/// A value of fixed size.
pub trait Wire: Sized {
    /// Its length in bytes.
    const SIZE: usize;

    /// Reads it.
    ///
    /// # Errors
    /// [`Short`] if fewer than [`Wire::SIZE`] bytes are left.
    fn read(from: &mut Reader<'_>) -> Result<Self, Short>;

    /// Writes it: exactly [`Wire::SIZE`] bytes.
    fn write_to(&self, to: &mut SliceWriter<'_>);

    /// Appends it.
    fn write(&self, to: &mut Writer<'_>) {
        let at = to.out.len();
        to.out.resize(at + Self::SIZE, 0);
        self.overwrite(&mut to.out[at..]);
    }

    /// Writes it over the start of `bytes`; what follows stays.
    ///
    /// # Panics
    /// If there are fewer than [`Wire::SIZE`] bytes.
    #[inline]
    fn overwrite(&self, bytes: &mut [u8]) {
        let mut to = SliceWriter { rest: &mut bytes[..Self::SIZE] };
        self.write_to(&mut to);
        debug_assert!(to.rest.is_empty(), "{} bytes are not written", to.rest.len());
    }

    /// Reads it from the start of `bytes`; what follows is ignored.
    ///
    /// # Errors
    /// [`Short`] if there are fewer than [`Wire::SIZE`] bytes.
    fn parse(bytes: &[u8]) -> Result<Self, Short> {
        match bytes.get(..Self::SIZE) {
            Some(bytes) => Self::read(&mut Reader::new(bytes)),
            None => Err(Short { wanted: Self::SIZE, have: bytes.len() }),
        }
    }

    /// Its bytes.
    fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(Self::SIZE);
        self.write(&mut Writer::new(&mut out));
        out
    }
}

macro_rules! wire_numbers {
    ($($number:ty)*) => {$(
        impl Wire for $number {
            const SIZE: usize = size_of::<$number>();

            #[inline]
            fn read(from: &mut Reader<'_>) -> Result<$number, Short> {
                from.array().map(<$number>::from_le_bytes)
            }

            #[inline]
            fn write_to(&self, to: &mut SliceWriter<'_>) {
                to.bytes(&self.to_le_bytes());
            }
        }
    )*};
}

wire_numbers! { u8 u16 u32 i32 u64 i64 }

impl<T: Wire + Copy + Default, const N: usize> Wire for [T; N] {
    const SIZE: usize = N * T::SIZE;

    fn read(from: &mut Reader<'_>) -> Result<[T; N], Short> {
        let mut values = [T::default(); N];
        for value in &mut values {
            *value = from.value()?;
        }
        Ok(values)
    }

    #[inline]
    fn write_to(&self, to: &mut SliceWriter<'_>) {
        for value in self {
            to.put(value);
        }
    }
}
