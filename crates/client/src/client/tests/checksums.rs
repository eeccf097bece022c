//! Checksums of data on the network [OST-8].

use bytes::Bytes;
use lustrine_fswire::checksum::{ChecksumKind, crc32c};
use lustrine_fswire::ost::Obdo;

use super::*;
use crate::attr::FileOwner;
use crate::error::{ClientError, errno};

const OWNER: FileOwner = FileOwner { uid: 1, gid: 2, projid: 0 };
const DATA: &[u8] = b"some data";

/// A client that uses checksums, or does not.
fn world(checksums: bool) -> World {
    let mut world = World::new();
    world.act(|client, turn| {
        for ost in client.osts.values().copied().collect::<Vec<_>>() {
            client.tune(turn, ost, |tunables| tunables.checksums = checksums);
        }
    });
    world
}

/// A read of some bytes, and the obdo of its request.
fn read(world: &mut World) -> (Slot<Bytes>, Asked, Obdo) {
    let slot = world.start(|client, turn, done| {
        client.read(turn, Caller::ROOT, FILE, &striped(), (100, DATA.len() as u32), done);
    });
    let asked = world.next(Kind::OstRead);
    let body = asked.with(|request| match request {
        Request::OstRead(read) => read.body,
        other => panic!("{other:?}"),
    });
    (slot, asked, body)
}

/// Sends data and a reply with an obdo.
fn give(world: &mut World, asked: &Asked, body: Obdo) {
    world.put((portal::OST_BULK, asked.body.mbits, 0), DATA);
    let reply = ReplyBuffers::OstRead(ost::ReadReply { body, data: &[] });
    world.answer(asked, DATA.len() as i32, &reply);
}

#[test]
fn data_that_do_not_fit_their_checksum_are_an_error() {
    for (sum, outcome) in [
        (crc32c(DATA), Ok(Bytes::from_static(DATA))),
        (crc32c(DATA) ^ 1, Err(ClientError::Errno(errno::EIO))),
    ] {
        let mut world = world(true);
        let (slot, asked, mut body) = read(&mut world);
        assert_eq!(body.checksum().map(|(kind, _)| kind), Some(ChecksumKind::Crc32c));
        body.set_checksum(ChecksumKind::Crc32c, sum);
        give(&mut world, &asked, body);
        assert_eq!(slot.outcome(), outcome);
    }
}

#[test]
fn without_checksums_a_read_asks_for_none() {
    let mut world = world(false);
    let (slot, asked, body) = read(&mut world);
    assert_eq!(body.checksum(), None);
    give(&mut world, &asked, body);
    assert_eq!(slot.outcome(), Ok(Bytes::from_static(DATA)));
}

#[test]
fn a_write_has_the_checksum_of_its_data_or_none() {
    for checksums in [true, false] {
        let mut world = world(checksums);
        let slot = world.start(|client, turn, done| {
            client.write(turn, Caller::ROOT, (FILE, OWNER), &striped(), (7, DATA.into()), done);
        });
        let asked = world.next(Kind::OstWrite);
        let body = asked.with(|request| match request {
            Request::OstWrite(write) => write.body,
            other => panic!("{other:?}"),
        });
        let sum = checksums.then(|| (ChecksumKind::Crc32c, crc32c(DATA)));
        assert_eq!(body.checksum(), sum);
        let results = [0];
        let reply = ost::WriteReply { body, results: results.as_slice().into() };
        world.answer(&asked, 0, &ReplyBuffers::OstWrite(reply));
        assert_eq!(slot.outcome(), Ok(()));
    }
}
