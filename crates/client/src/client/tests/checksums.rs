//! Checksums of data on the network [OST-8].

use bytes::Bytes;
use lustrine_fswire::checksum::{ChecksumKind, crc32c};
use lustrine_fswire::ost::{Obdo, ObdoFlags};

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
    let (asked, body) = next_read(world);
    (slot, asked, body)
}

/// The next request beside pings, which must be a read, and its obdo.
fn next_read(world: &mut World) -> (Asked, Obdo) {
    while world.asked.front().is_some_and(|asked| asked.kind == Kind::ObdPing) {
        let ping = world.next(Kind::ObdPing);
        world.answer(&ping, 0, &ReplyBuffers::Bare);
    }
    let asked = world.next(Kind::OstRead);
    let body = asked.with(|request| match request {
        Request::OstRead(read) => read.body,
        other => panic!("{other:?}"),
    });
    (asked, body)
}

/// Sends data and a reply with an obdo.
fn give(world: &mut World, asked: &Asked, body: Obdo) {
    world.put((portal::OST_BULK, asked.body.mbits, 0), DATA);
    let reply = ReplyBuffers::OstRead(ost::ReadReply { body, data: &[] });
    world.answer(asked, DATA.len() as i32, &reply);
}

/// The data of a read come whole, or after they were asked for once more [OST-23].
#[test]
fn data_that_do_not_fit_their_checksum_are_asked_for_again() {
    for wrong in [0, 1, 3] {
        let mut world = world(true);
        let (slot, mut asked, mut body) = read(&mut world);
        assert_eq!(body.checksum().map(|(kind, _)| kind), Some(ChecksumKind::Crc32c));
        assert!(!body.flags.contains(ObdoFlags::RECOV_RESEND));
        for attempt in 0..wrong {
            body.set_checksum(ChecksumKind::Crc32c, crc32c(DATA) ^ 1);
            give(&mut world, &asked, body);
            world.pass(Nanos(attempt * 1_000_000_000 + 999_999_999));
            assert!(slot.is_pending() && world.asked.is_empty(), "not before its time");
            world.pass(Nanos(1));
            (asked, body) = next_read(&mut world);
            assert!(body.flags.contains(ObdoFlags::RECOV_RESEND));
        }
        body.set_checksum(ChecksumKind::Crc32c, crc32c(DATA));
        give(&mut world, &asked, body);
        assert_eq!(slot.outcome(), Ok(Bytes::from_static(DATA)));
    }
}

#[test]
fn data_that_never_come_whole_are_an_error() {
    for is_unmounted in [false, true] {
        let mut world = world(true);
        let (slot, mut asked, mut body) = read(&mut world);
        let mut again = 0;
        loop {
            body.set_checksum(ChecksumKind::Crc32c, crc32c(DATA) ^ 1);
            give(&mut world, &asked, body);
            if is_unmounted {
                world.start(Client::unmount);
                world.asked.clear();
            }
            world.pass(Nanos::from_secs(again + 1));
            if !slot.is_pending() {
                break;
            }
            (asked, body) = next_read(&mut world);
            again += 1;
        }
        let outcome = slot.outcome().map_err(|error| error == ClientError::Errno(errno::EIO));
        assert_eq!((again, outcome), if is_unmounted { (0, Err(false)) } else { (10, Err(true)) });
    }
}

/// A server stores what arrived, and says what it was: the data have to be written once more
/// [OST-23].
#[test]
fn a_write_that_arrived_damaged_is_repeated() {
    let mut world = world(true);
    let slot = world.start(|client, turn, done| {
        client.write(turn, Caller::ROOT, (FILE, OWNER), &striped(), (7, DATA.into()), done);
    });
    for (attempt, stored) in [crc32c(DATA) ^ 1, crc32c(DATA)].into_iter().enumerate() {
        let asked = world.next(Kind::OstWrite);
        let mut body = asked.with(|request| match request {
            Request::OstWrite(write) => write.body,
            other => panic!("{other:?}"),
        });
        assert_eq!(body.checksum(), Some((ChecksumKind::Crc32c, crc32c(DATA))));
        assert_eq!(body.flags.contains(ObdoFlags::RECOV_RESEND), attempt > 0);
        body.set_checksum(ChecksumKind::Crc32c, stored);
        let results = [0];
        let reply = ost::WriteReply { body, results: results.as_slice().into() };
        world.answer(&asked, 0, &ReplyBuffers::OstWrite(reply));
        world.pass(Nanos::from_secs(1));
    }
    assert_eq!(slot.outcome(), Ok(()));
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
