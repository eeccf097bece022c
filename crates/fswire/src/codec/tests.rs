#![allow(unreachable_pub, dead_code, reason = "declared by the macros under test")]

use super::*;
use crate::describe::{Describe, Value};

wire_struct! {
    /// For tests.
    pub struct Sample [24, lead 2] {
        /// First.
        a: u16 => hex;
        /// Second.
        b: u32, pad 8;
        /// Third.
        c: u64 => octal;
    }
}

wire_flags! {
    /// For tests.
    pub struct Bits: u16 {
        /// One.
        ONE = 0x1;
        /// Two.
        TWO = 0x2;
    }
}

wire_enum! {
    /// For tests.
    pub struct Number: u16 {
        /// Seven.
        SEVEN = 7, "seven";
    }
}

#[test]
fn a_declared_structure_has_its_fields_at_their_places() {
    let sample = Sample { a: 0x0201, b: 3, c: 0o644 };
    let bytes = sample.to_bytes();
    assert_eq!(bytes.len(), Sample::SIZE);
    assert_eq!(bytes[..8], [0, 0, 1, 2, 3, 0, 0, 0]);
    assert_eq!(bytes[16..18], [0xa4, 1]);
    assert_eq!(Sample::parse(&bytes), Ok(sample));
    let fields = vec![
        ("a", Value::Hex(0x201)),
        ("b", Value::Number(3)),
        ("c", Value::Text("0644".to_owned())),
    ];
    assert_eq!(sample.describe(), Value::Fields(fields));
}

#[test]
fn reserved_bytes_are_ignored_and_written_as_zero() {
    let sample = Sample::parse(&[0xff; 24]).unwrap();
    assert_eq!(sample.to_bytes()[..2], [0, 0]);
    assert_eq!(sample.to_bytes()[8..16], [0; 8]);
}

#[test]
fn a_structure_is_written_over_its_own_bytes_only() {
    let sample = Sample { a: 1, b: 2, c: 3 };
    let mut bytes = [0xff; 30];
    sample.overwrite(&mut bytes[3..]);
    assert_eq!(bytes[3..27], sample.to_bytes());
    assert_eq!((&bytes[..3], &bytes[27..]), (&[0xff; 3][..], &[0xff; 3][..]));
    // It is appended to what is there.
    let mut bytes = vec![7];
    sample.write(&mut Writer::new(&mut bytes));
    assert_eq!((bytes[0], &bytes[1..]), (7, &sample.to_bytes()[..]));
}

#[test]
fn a_structure_that_ends_early_is_an_error() {
    assert_eq!(Sample::parse(&[0; 23]), Err(Short { wanted: 24, have: 23 }));
    assert_eq!(Sample::read(&mut Reader::new(&[0; 5])), Err(Short { wanted: 4, have: 1 }));
}

#[test]
fn flags_keep_and_show_what_has_no_name() {
    let bits = Bits::parse(&[0x83, 0]).unwrap();
    assert_eq!(bits.to_bytes(), [0x83, 0]);
    assert_eq!((bits.to_string(), bits.unknown()), ("ONE|TWO|0x80".to_owned(), 0x80));
    assert_eq!(Bits::empty().to_string(), "0");
    assert_eq!(Bits::TWO.to_string(), "TWO");
}

#[test]
fn numbers_without_a_name_are_kept() {
    assert_eq!(Number::parse(&[7, 0]).unwrap().to_string(), "seven");
    let other = Number::parse(&[9, 0]).unwrap();
    assert_eq!((other.name(), other.to_string()), (None, "0x9".to_owned()));
}

#[test]
fn arrays_of_bytes_and_of_values_are_equal() {
    let values = [1u32, 2, 3];
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    let (parsed, given) = (Array::<u32>::parse(&bytes).unwrap(), Array::from(&values[..]));
    assert_eq!(parsed, given);
    assert_eq!(parsed.iter().collect::<Vec<_>>(), values);
    assert_eq!((parsed.get(2), parsed.get(3), parsed.get(usize::MAX)), (Some(3), None, None));
    let mut out = Vec::new();
    given.write(&mut Writer::new(&mut out));
    assert_eq!(out, bytes);
    // [RPC-6]
    assert_eq!(Array::<u32>::parse(&bytes[1..]), None);
}
