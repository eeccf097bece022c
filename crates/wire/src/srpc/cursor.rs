//! Reads and writes fields one after the other, without padding, after the message header.

use super::{HEADER_LEN, MESSAGE_LEN};
use crate::byte_order::{ByteOrder, array_at};

pub(super) struct Reader<'a> {
    pub(super) order: ByteOrder,
    /// Session features of the message: they select the layout of test parameters.
    pub(super) features: u32,
    raw: &'a [u8; MESSAGE_LEN],
    at: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(order: ByteOrder, features: u32, raw: &'a [u8; MESSAGE_LEN]) -> Reader<'a> {
        Reader { order, features, raw, at: HEADER_LEN }
    }

    /// The next `N` bytes. The bodies have a fixed size that fits, so this never reads past the
    /// end.
    pub(super) fn array<const N: usize>(&mut self) -> [u8; N] {
        let bytes = array_at(self.raw, self.at);
        self.at += N;
        bytes
    }

    pub(super) fn next<T: Field>(&mut self) -> T {
        T::read(self)
    }
}

pub(super) struct Writer<'a> {
    pub(super) order: ByteOrder,
    raw: &'a mut [u8; MESSAGE_LEN],
    at: usize,
}

impl<'a> Writer<'a> {
    pub(super) fn new(order: ByteOrder, raw: &'a mut [u8; MESSAGE_LEN]) -> Writer<'a> {
        Writer { order, raw, at: HEADER_LEN }
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.raw[self.at..self.at + bytes.len()].copy_from_slice(bytes);
        self.at += bytes.len();
    }

    pub(super) fn put<T: Field>(&mut self, value: &T) {
        value.write(self);
    }
}

/// A field of a message body.
pub(super) trait Field {
    fn read(from: &mut Reader<'_>) -> Self;
    fn write(&self, to: &mut Writer<'_>);
}

macro_rules! number_fields {
    ($($number:ty,)*) => {$(
        impl Field for $number {
            fn read(from: &mut Reader<'_>) -> $number {
                let raw = from.array();
                match from.order {
                    ByteOrder::Little => <$number>::from_le_bytes(raw),
                    ByteOrder::Big => <$number>::from_be_bytes(raw),
                }
            }

            fn write(&self, to: &mut Writer<'_>) {
                match to.order {
                    ByteOrder::Little => to.bytes(&self.to_le_bytes()),
                    ByteOrder::Big => to.bytes(&self.to_be_bytes()),
                }
            }
        }
    )*};
}

number_fields! { u8, u16, u32, i32, u64, i64, }
