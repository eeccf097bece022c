use proptest::prelude::*;

use super::*;
use crate::golden::bytes;
use crate::nid::tests::any_nid;

fn nid(text: &str) -> Nid {
    text.parse().unwrap()
}

fn got(buf: &[u8]) -> Request {
    match Request::parse(buf) {
        Ok(Progress::Got(request, used)) if used == buf.len() => request,
        other => panic!("{other:?}"),
    }
}

#[test]
fn worked_example_version_1() {
    // [ACC-1]
    let raw = bytes("00 71 ce ac  01 00 00 00  02 00 00 0a 00 00 02 00");
    let request = Request::new(nid("10.0.0.2@tcp"));
    assert_eq!(got(&raw), request);
    let mut out = Vec::new();
    request.encode(&mut out).unwrap();
    assert_eq!(out, raw);
}

#[test]
fn worked_example_version_2() {
    // [ACC-2]
    let raw = bytes(
        "00 71 ce ac  02 00 00 00  0c 02 00 00 20 01 0d b8 00 00 00 00 00 00 00 00 00 00 00 02",
    );
    let request = Request::new(nid("2001:db8::2@tcp"));
    assert_eq!(got(&raw), request);
    let mut out = Vec::new();
    request.encode(&mut out).unwrap();
    assert_eq!(out, raw);
}

#[test]
fn reversed_order_swaps_the_short_nid_only() {
    // [ACC-3]
    let raw = bytes("ac ce 71 00  00 00 00 01  00 02 00 00 0a 00 00 02");
    let expected = Request { version: 1, order: ByteOrder::Big, target: nid("10.0.0.2@tcp") };
    assert_eq!(got(&raw), expected);
    let raw = bytes("ac ce 71 00  00 00 00 02  00 02 00 00 0a 00 00 02 00*12");
    assert_eq!(got(&raw), Request { version: 2, ..expected });
}

#[test]
fn each_wrong_request_has_its_reaction() {
    // [ACC-5] [ACC-6] [ACC-7]
    let error = |text| Request::parse(&bytes(text)).unwrap_err();
    let lnet = error("63 69 72 45");
    assert_eq!(lnet, AcceptorError::LnetMagic(ByteOrder::Little));
    assert_eq!(error("45 72 69 63"), AcceptorError::LnetMagic(ByteOrder::Big));
    let version = error("ac ce 71 00 00 00 00 09");
    assert_eq!(version, AcceptorError::UnknownVersion { version: 9, order: ByteOrder::Big });
    let magic = error("47 45 54 20");
    assert_eq!(magic, AcceptorError::BadMagic(0x2054_4547));
    let target = error("00 71 ce ac 02 00 00 00  07 02 00*18");
    assert_eq!(target, AcceptorError::BadTarget(NidError::BadSize(7)));
    assert_eq!(lnet.reaction(), Reaction::Answer);
    assert_eq!(version.reaction(), Reaction::Answer);
    assert_eq!(magic.reaction(), Reaction::CloseSilently);
    assert_eq!(target.reaction(), Reaction::CloseSilently);
}

#[test]
fn worked_example_of_an_answer() {
    // [ACC-5]
    let raw = bytes("00 71 ce ac  01 00 00 00  00*8");
    let mut out = Vec::new();
    Answer::OURS.encode(&mut out);
    assert_eq!(out, raw);
    assert_eq!(Answer::parse(&raw), Ok(Progress::Got(Answer::OURS, 16)));
    assert_eq!(Answer::parse(&raw[..9]), Ok(Progress::Need(16)));
    assert_eq!(Answer::parse(&[1, 2, 3, 4]), Err(AcceptorError::BadMagic(0x0403_0201)));
}

#[test]
fn version_1_cannot_carry_a_long_nid() {
    let request = Request { version: 1, ..Request::new(nid("::1@tcp")) };
    let mut out = Vec::new();
    assert_eq!(request.encode(&mut out), Err(NidTooLong(request.target)));
    assert!(out.is_empty());
}

proptest! {
    #[test]
    fn round_trip_in_pieces(target in any_nid(), big in any::<bool>(), tail in any::<[u8; 3]>()) {
        let order = if big { ByteOrder::Big } else { ByteOrder::Little };
        let request = Request { order, ..Request::new(target) };
        let mut raw = Vec::new();
        request.encode(&mut raw).unwrap();
        for end in 0..raw.len() {
            match Request::parse(&raw[..end]) {
                Ok(Progress::Need(n)) => prop_assert!(n > end && n <= raw.len()),
                other => prop_assert!(false, "{other:?}"),
            }
        }
        let len = raw.len();
        raw.extend(tail);
        prop_assert_eq!(Request::parse(&raw), Ok(Progress::Got(request, len)));
    }

    #[test]
    fn arbitrary_bytes_are_survived(
        mut raw in prop::collection::vec(any::<u8>(), 0..40),
        start in prop::sample::select(vec!["", "00 71 ce ac 02 00 00 00", "ac ce 71 00"]),
    ) {
        let start = bytes(start);
        let n = start.len().min(raw.len());
        raw[..n].copy_from_slice(&start[..n]);
        if let Ok(Progress::Got(request, used)) = Request::parse(&raw) {
            let mut out = Vec::new();
            request.encode(&mut out).unwrap();
            prop_assert_eq!(out.len(), used);
        }
        let _ = Answer::parse(&raw);
    }
}
