use proptest::prelude::*;

use super::*;

fn names(text: &str) -> Vec<String> {
    TextRange::parse(text).unwrap().expand(100).unwrap().collect()
}

#[test]
fn brackets_are_expanded() {
    assert_eq!(names("10.0.0.1@tcp"), ["10.0.0.1@tcp"]);
    assert_eq!(names("10.0.0.[3,1-2]@tcp"), ["10.0.0.3@tcp", "10.0.0.1@tcp", "10.0.0.2@tcp"]);
    assert_eq!(names("oss[1-9/4]"), ["oss1", "oss5", "oss9"]);
    assert_eq!(names("r[1,2]n[7-8]"), ["r1n7", "r1n8", "r2n7", "r2n8"]);
    assert_eq!(names("[1-2][3,4]"), ["13", "14", "23", "24"]);
}

#[test]
fn malformed_text_is_refused() {
    use TextRangeError::{Brackets, Empty, NotANumber, ZeroStride};
    for (text, why) in [
        ("a[1", Brackets),
        ("a1]", Brackets),
        ("a[1[2]]", Brackets),
        ("a[]", NotANumber),
        ("a[1,]", NotANumber),
        ("a[x]", NotANumber),
        ("a[1-4294967296]", NotANumber),
        ("a[5-5]", Empty { low: 5, high: 5 }),
        ("a[5-4]", Empty { low: 5, high: 4 }),
        ("a[1-4/0]", ZeroStride),
    ] {
        assert_eq!(TextRange::parse(text), Err(why), "{text}");
    }
    let complex = "[1]".repeat(65);
    assert_eq!(TextRange::parse(&complex), Err(TextRangeError::TooComplex));
}

#[test]
fn huge_products_are_counted_not_built() {
    let huge = TextRange::parse(&"[0-4294967295]".repeat(3)).unwrap();
    assert_eq!(huge.count(), u64::MAX);
    let error = huge.expand(1000).map(|_| ()).unwrap_err();
    assert_eq!(error, TextRangeError::TooMany { count: u64::MAX, limit: 1000 });
}

proptest! {
    #[test]
    fn arbitrary_text_is_survived(text in "[a0-9,/\\[\\]-]{0,30}") {
        if let Ok(range) = TextRange::parse(&text)
            && let Ok(names) = range.expand(500)
        {
            prop_assert_eq!(names.count() as u64, range.count());
        }
    }
}
