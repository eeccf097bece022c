//! The file under crashes, power cuts, damage and full disks.

mod disk;

use std::fs;
use std::os::unix::fs::PermissionsExt;

use lustrine_watch::{Alarm, AlarmEnd, Row, Rtt, thin};
use proptest::prelude::*;
use tempfile::TempDir;

use super::*;
use crate::error::Wrong;
use crate::file::FILE_MIN;
use crate::snapshot::{read, settled};
use crate::tidy::KEPT;
use disk::{Disk, Failing, Image};

const LIMITS: Limits = Limits { samples_ms: 3_600_000, keep_ms: 86_400_000, bytes: FILE_MIN };
const PEERS: [&str; 2] = ["10.0.0.2@tcp", "10.0.0.3@tcp1"];
const SECOND: u64 = 1000;

fn sample(number: u64) -> Sample {
    Sample {
        at_ms: 1_764_000_000_000 + number * 10 * SECOND,
        sent: 10,
        lost: (number % 3) as u32,
        rtt: Rtt::of(vec![10_000_000 + number, 11_000_000 + number]),
        ..Sample::default()
    }
}

#[test]
fn a_file_that_cannot_be_made_is_named_as_the_user_named_it() {
    let scratch = TempDir::new().expect("a directory");
    let path = scratch.path().join("missing/watch.db");
    let said = Store::open(&path, LIMITS).expect_err("it cannot be made").to_string();
    assert!(said.starts_with(&format!("{} cannot be made: ", path.display())), "{said}");
    assert!(said.contains("make that directory") && !said.contains(".lustrine-watch-"), "{said}");
}

fn alarm(over: Option<(u64, AlarmEnd)>) -> Alarm {
    Alarm {
        kind: AlarmKind::Mtu,
        part: "out".to_owned(),
        since_ms: 1,
        raised_ms: 2,
        what: "it went".to_owned(),
        before: "9000 bytes".to_owned(),
        after: "1500 bytes".to_owned(),
        evidence: "2 looks".to_owned(),
        over,
    }
}

/// Appends the sample of this number for both peers; the first one has an alarm at times.
fn append(store: &mut Store, number: u64) -> Result<(), StoreError> {
    let (sample, detector) = (sample(number), Detector::new(1, 1, 1));
    let events = match number % 10 {
        3 => vec![Event::Raised(alarm(None))],
        7 => vec![Event::Over(alarm(Some((9, AlarmEnd::Back))))],
        _ => Vec::new(),
    };
    let new = |(at, peer)| NewSample {
        peer,
        sample: &sample,
        events: if at == 0 { &events[..] } else { &[] },
        detector: &detector,
    };
    let both: Vec<NewSample<'_>> = PEERS.into_iter().enumerate().map(new).collect();
    store.append(&both)
}

/// The whole history of a peer is there, up to and including this sample.
fn is_whole(contents: &Contents, last: Option<u64>) {
    for peer in 0..PEERS.len() as u32 {
        let samples = contents.samples.get(&peer).map_or(&[][..], Vec::as_slice);
        let hours = contents.hours.get(&peer).map_or(&[][..], Vec::as_slice);
        let count = samples.len() as u64 + hours.iter().map(|(_, row)| row.samples).sum::<u64>();
        assert_eq!(count, last.map_or(0, |last| last + 1), "peer {peer}");
        if let (Some(last), Some((_, newest))) = (last, samples.last()) {
            assert_eq!(*newest, sample(last), "peer {peer}");
        }
    }
}

/// A run of a daemon on a disk that remembers what was written when: two hours of samples, thinned
/// now and then.
fn run(disk: &Disk, samples: u64) -> Vec<(usize, u64)> {
    let mut store = Store::on(disk.clone(), None, LIMITS).expect("a new file");
    let mut acknowledged = vec![(disk.operations(), u64::MAX)];
    for number in 0..samples {
        append(&mut store, number).expect("it is written");
        acknowledged.push((disk.operations(), number));
        if number % 16 == 15 {
            store.tidy(Some(sample(number).at_ms + 2 * 3_600_000)).expect("it is written");
            acknowledged.push((disk.operations(), number));
        }
    }
    acknowledged
}

/// Whatever the moment of a crash is: of what was written since the last sync any part may be on
/// the disk, single writes in parts as well. At most the transaction that was in flight is lost.
#[test]
fn a_power_cut_loses_at_most_the_last_sample() {
    let disk = Disk::default();
    // Few samples, far apart: hours end in between. A third of all cuts: all of them take a minute.
    let acknowledged = run(&disk, 40);
    let begin = acknowledged[0].0;
    let mut cuts = 0;
    for cut in (begin..=disk.operations()).step_by(3) {
        // Another part of what was not synced at each cut.
        let seed = cut as u64;
        {
            let contents = match check(disk.after_power_cut(cut, seed)) {
                Ok(contents) => contents,
                Err(wrong) => panic!("cut at {cut} with seed {seed}: {wrong:?}"),
            };
            let known = |upto: usize| {
                let before = acknowledged.iter().take_while(|(at, _)| *at <= upto);
                before.last().and_then(|(_, number)| (*number != u64::MAX).then_some(*number))
            };
            let stored = contents.samples.get(&0).and_then(|list| list.last());
            let newest = stored.map(|(_, newest)| (newest.at_ms - sample(0).at_ms) / 10 / SECOND);
            let least = known(cut);
            let next = least.map_or(0, |last| last + 1);
            assert!(newest == least || newest == Some(next), "cut at {cut}: {newest:?} {least:?}");
            is_whole(&contents, newest);
            cuts += 1;
        }
    }
    assert!(cuts > 70, "{cuts}");
}

/// After an error of the disk nothing is lost that was stored, and the file can be opened again.
#[test]
fn a_disk_that_is_full_loses_nothing_that_was_stored() {
    for least in (0..200).step_by(7) {
        let disk = Disk::default();
        let failing = Failing::new(disk.clone());
        let mut store = Store::on(failing.clone(), None, LIMITS).expect("a new file");
        append(&mut store, 0).expect("there is room");
        failing.fail_after(least);
        let mut stored = 0;
        let failed = (1..100).find_map(|number| match append(&mut store, number) {
            Ok(()) => {
                stored = number;
                None
            }
            Err(error) => Some(error),
        });
        let Some(StoreError::Write { why, .. }) = failed else { panic!("{failed:?}") };
        assert!(!why.is_empty());
        drop(store);
        failing.fail_after(u64::MAX);
        let bytes = disk.now();
        let contents = check(bytes.clone()).expect("it is sound");
        let next = (stored + 1).min(99);
        let count = contents.samples[&0].len() as u64;
        assert!(count == stored + 1 || count == next + 1, "{count} of {stored}");
        let mut again = Store::on(Image::of(bytes.clone()), Some(bytes), LIMITS).expect("it opens");
        append(&mut again, count).expect("there is room");
    }
}

fn new_file(samples: u64) -> (TempDir, PathBuf, Store) {
    let dir = TempDir::new().expect("a directory");
    let path = dir.path().join("watch.db");
    let mut store = Store::open(&path, LIMITS).expect("a new file");
    for number in 0..samples {
        append(&mut store, number).expect("it is written");
    }
    (dir, path, store)
}

#[test]
fn a_file_is_read_while_it_is_written_and_is_not_changed_by_that() {
    let (_dir, path, mut store) = new_file(0);
    assert_eq!(read(&path).expect("it is sound"), []);
    for number in 0..20 {
        append(&mut store, number).expect("it is written");
        let before = fs::read(&path).expect("a file");
        let found = read(&path).expect("it is sound");
        assert_eq!(fs::read(&path).expect("a file"), before);
        assert_eq!(found.len(), 2);
        assert_eq!(
            (found[0].nid.as_str(), found[0].samples.len()),
            (PEERS[0], number as usize + 1)
        );
        assert_eq!(found[0].samples.last(), Some(&sample(number)));
    }
    let found = read(&path).expect("it is sound");
    let over: Vec<bool> = found[0].alarms.iter().map(|alarm| alarm.over.is_some()).collect();
    assert_eq!(over, [true, true], "an alarm is one row");
    // No user may write it, and only its owner may read it.
    fs::set_permissions(&path, fs::Permissions::from_mode(0o400)).expect("it is ours");
    assert_eq!(read(&path).expect("it is sound").len(), 2);
}

/// Readers meet a writer at any moment.
#[test]
fn readers_and_a_writer_do_not_disturb_each_other() {
    let (_dir, path, mut store) = new_file(1);
    let reader = {
        let path = path.clone();
        std::thread::spawn(move || {
            let mut newest = 0;
            while newest < 150 {
                let found = read(&path).expect("it is sound");
                let count = found[1].samples.len();
                assert!(count >= newest, "{count} after {newest}");
                newest = count;
            }
        })
    };
    let mut number = 1;
    while !reader.is_finished() {
        append(&mut store, number).expect("it is written");
        number += 1;
    }
    reader.join().expect("it does not panic");
}

#[test]
fn one_daemon_has_the_file() {
    let (_dir, path, store) = new_file(3);
    let second = Store::open(&path, LIMITS);
    assert!(matches!(second, Err(StoreError::InUse { .. })), "{second:?}");
    drop(store);
    let mut third = Store::open(&path, LIMITS).expect("it is free");
    append(&mut third, 3).expect("it is written");
    assert_eq!(read(&path).expect("it is sound")[0].samples.len(), 4);
    assert_eq!(fs::metadata(&path).expect("a file").permissions().mode() & 0o777, 0o600);
}

#[test]
fn what_is_no_file_of_this_program_is_left_alone() {
    let dir = TempDir::new().expect("a directory");
    let path = dir.path().join("other");
    let mut others: Vec<(Vec<u8>, &str)> = vec![
        (Vec::new(), "it is empty"),
        (b"a text".to_vec(), "does not begin"),
        (vec![0; 100_000], "does not begin"),
    ];
    let database = redb::Database::create(dir.path().join("db")).expect("a database");
    let other: redb::TableDefinition<'_, u8, u8> = redb::TableDefinition::new("other");
    let transaction = database.begin_write().expect("a transaction");
    transaction.open_table(other).expect("a table").insert(1, 2).expect("a row");
    transaction.commit().expect("it is written");
    drop(database);
    others.push((fs::read(dir.path().join("db")).expect("a file"), "meta"));
    for (bytes, why) in others {
        fs::write(&path, &bytes).expect("a file");
        let refused = [
            Store::open(&path, LIMITS).map(|_| ()).expect_err(why),
            read(&path).map(|_| ()).expect_err(why),
        ];
        for error in refused {
            assert!(matches!(error, StoreError::Foreign { .. }), "{error}");
            assert!(error.to_string().contains(why), "{error}");
        }
        assert_eq!(fs::read(&path).expect("a file"), bytes);
    }
    let nowhere = Store::open(&dir.path().join("no/such"), LIMITS).expect_err("no directory");
    assert!(matches!(nowhere, StoreError::Make { .. }), "{nowhere}");
    assert!(matches!(read(&dir.path().join("none")), Err(StoreError::Io { .. })));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    /// A damaged file is reported, or its rows are as they were: no panic, and nothing made up.
    #[test]
    fn damage_is_reported(
        flips in proptest::collection::vec((any::<prop::sample::Index>(), 1_u8..=255), 0..20),
        keep in proptest::option::of(any::<prop::sample::Index>()),
    ) {
        static WHOLE: std::sync::OnceLock<(Vec<u8>, Contents)> = std::sync::OnceLock::new();
        let (whole, contents) = WHOLE.get_or_init(|| {
            let (_dir, path, store) = new_file(30);
            drop(store);
            let bytes = fs::read(&path).expect("a file");
            let contents = check(bytes.clone()).expect("it is sound");
            (bytes, contents)
        });
        let mut bytes = whole.clone();
        for (at, flip) in &flips {
            // Half of them where there is something.
            let len = if at.index(2) == 0 { bytes.len() } else { bytes.len().min(60_000) };
            let at = at.index(len);
            bytes[at] ^= flip;
        }
        if let Some(keep) = keep {
            bytes.truncate(keep.index(bytes.len()));
        }
        match check(bytes) {
            Ok(found) => prop_assert_eq!(&found.samples, &contents.samples),
            Err(Wrong::Foreign(why) | Wrong::Damaged(why)) => prop_assert!(!why.is_empty()),
        }
    }
}

/// A file at its limit stays below it, and keeps the latest samples.
#[test]
fn the_size_has_a_limit() {
    let (_dir, path, mut store) = new_file(0);
    let detector = Detector::new(1, 1, 1);
    let (mut number, mut was_full, mut largest) = (0, false, 0);
    for _ in 0..130 {
        let samples: Vec<Sample> = (number..number + 1000).map(sample).collect();
        number += 1000;
        let new = |sample| NewSample { peer: PEERS[0], sample, events: &[], detector: &detector };
        store.append(&samples.iter().map(new).collect::<Vec<_>>()).expect("it is written");
        if store.is_due() {
            was_full |= store.tidy(None).expect("it is written").was_full;
        }
        largest = largest.max(fs::metadata(&path).expect("a file").len());
    }
    assert!(was_full && largest <= LIMITS.bytes, "{largest}");
    let found = read(&path).expect("it is sound").remove(0);
    assert_eq!(found.samples.last(), Some(&sample(number - 1)));
    let kept = found.samples.len() as u64 + found.hours.iter().map(|row| row.samples).sum::<u64>();
    assert_eq!(kept, number, "rows of hours take little: none had to be dropped");
}

/// Only as much is dropped as has to be.
#[test]
fn a_full_file_loses_a_quarter_of_its_oldest_rows() {
    let (_dir, path, mut store) = new_file(0);
    let detector = Detector::new(1, 1, 1);
    let hourly = |number: u64| Sample { at_ms: number * 3_600_000, ..sample(number) };
    let mut number = 0;
    let done = loop {
        let samples: Vec<Sample> = (number..number + 1000).map(hourly).collect();
        number += 1000;
        let new = |sample| NewSample { peer: PEERS[0], sample, events: &[], detector: &detector };
        store.append(&samples.iter().map(new).collect::<Vec<_>>()).expect("it is written");
        let done = store.tidy(None).expect("it is written");
        if done.dropped > 0 {
            break done;
        }
        assert!(number < 100_000, "it is never full");
    };
    let found = read(&path).expect("it is sound").remove(0);
    let kept = (found.samples.len() + found.hours.len()) as u64;
    assert_eq!((done.dropped, kept), (number.div_ceil(4), number - number.div_ceil(4)));
}

/// Alarms are bounded as everything is, and the latest ones stay.
#[test]
fn alarms_have_a_limit() {
    let (_dir, path, mut store) = new_file(1);
    let detector = Detector::new(1, 1, 1);
    let before = read(&path).expect("it is sound").remove(0).samples.len();
    let long = |over| Alarm { what: "x".repeat(2000), ..alarm(over) };
    let events: Vec<Event> = (0..1500)
        .flat_map(|at| [Event::Raised(long(None)), Event::Over(long(Some((at, AlarmEnd::Back))))])
        .collect();
    let sample = sample(1);
    let new = NewSample { peer: PEERS[0], sample: &sample, events: &events, detector: &detector };
    store.append(&[new]).expect("it is written");
    let done = store.tidy(None).expect("it is written");
    let found = read(&path).expect("it is sound").remove(0);
    let (count, last) = (found.alarms.len(), found.alarms.last().and_then(|one| one.over));
    assert_eq!((count as u64, last), (1500 - done.dropped, Some((1499, AlarmEnd::Back))));
    assert!((KEPT..=1024).contains(&count), "{count}");
    assert_eq!(found.samples.len(), before + 1, "alarms go before rows: {done:?}");
}

#[test]
fn a_file_that_changes_all_the_time_is_not_called_damaged() {
    let path = Path::new("watch.db");
    let once = std::time::Duration::ZERO;
    let busy = settled(path, once, || Ok(None)).expect_err("no copy");
    assert!(matches!(busy, StoreError::Busy { .. }), "{busy}");
    assert!(busy.to_string().contains("try again"), "{busy}");
    let (_dir, file, _store) = new_file(3);
    let bytes = fs::read(file).expect("a file");
    let cut = bytes[..bytes.len() / 2].to_vec();
    let damaged = settled(path, once, || Ok(Some(cut.clone()))).expect_err("it is cut");
    assert!(matches!(damaged, StoreError::Damaged { .. }), "{damaged}");
    let mut copies = vec![Some(bytes), None, Some(cut)];
    let found = settled(path, once, || Ok(copies.pop().flatten())).expect("the third one");
    assert_eq!(found.samples[&0].len(), 3);
}

/// What another release wrote is no damage.
#[test]
fn a_state_that_cannot_be_read_is_learnt_again() {
    let (_dir, path, store) = new_file(4);
    let transaction = store.database.begin_write().expect("a transaction");
    let state = br#"{"number":100,"detector":{"later":1}}"#.as_slice();
    transaction.open_table(STATES).expect("a table").insert(0, state).expect("a row");
    let alarm = json(&StoredAlarm { peer: 0, alarm: alarm(None) });
    let other = String::from_utf8(alarm).expect("JSON").replace("mtu", "jitter");
    let mut table = transaction.open_table(ALARMS).expect("a table");
    table.insert(50, other.as_bytes()).expect("a row");
    drop(table);
    transaction.commit().expect("it is written");
    drop(store);
    let found = read(&path).expect("it is sound").remove(0);
    assert_eq!(found.samples.len(), 4);
    assert_eq!(found.alarms.last().map(|alarm| alarm.kind.name()), Some("jitter"));
    let mut store = Store::open(&path, LIMITS).expect("it is sound");
    assert_eq!(store.unread().collect::<Vec<_>>(), [PEERS[0]]);
    assert_eq!((store.take_detector(PEERS[0]), store.next), (None, 101));
    assert!(store.take_detector(PEERS[1]).is_some());
}

/// A detector with an alarm of the round trip, and the alarm.
fn alarmed() -> (Detector, Alarm) {
    let mut detector = Detector::new(10_000, 10_000, 10_000);
    for number in 0..100 {
        let rtt = if number < 60 { sample(number).rtt } else { Rtt::of(vec![30_000_000]) };
        detector.observe(&Sample { rtt, lost: 0, ..sample(number) });
    }
    let [alarm] = detector.active() else { panic!("{:?}", detector.active()) };
    (detector.clone(), alarm.clone())
}

/// Alarms that last in the file and not in the detector: their end was lost, or the state was. They
/// end when the file is opened, and no others do.
#[test]
fn an_alarm_lasts_in_the_file_as_long_as_the_detector_has_it() {
    let (detector, alarm) = alarmed();
    let quiet = Detector::new(10_000, 10_000, 10_000);
    let last = sample(200);
    for (detector, state, lasting) in [
        (&detector, None, 1),
        (&quiet, None, 0),
        (&detector, Some(br#"{"number":0,"detector":{"later":1}}"#.as_slice()), 0),
    ] {
        let (_dir, path, mut store) = new_file(0);
        // One row too many, as after an error of the disk that was none.
        let events = [Event::Raised(alarm.clone()), Event::Raised(alarm.clone())];
        let new = NewSample { peer: PEERS[0], sample: &last, events: &events, detector };
        store.append(&[new]).expect("it is written");
        if let Some(state) = state {
            let transaction = store.database.begin_write().expect("a transaction");
            transaction.open_table(STATES).expect("a table").insert(0, state).expect("a row");
            transaction.commit().expect("it is written");
        }
        drop(store);
        let mut store = Store::open(&path, LIMITS).expect("it is free");
        store.append(&[]).expect("it is written");
        let alarms = read(&path).expect("it is sound").remove(0).alarms;
        let over: Vec<_> = alarms.iter().map(|alarm| alarm.over).collect();
        let end = Some((last.at_ms, AlarmEnd::Accepted));
        let expected = if lasting == 1 { [end, None] } else { [end, end] };
        assert_eq!(over, expected, "{state:?}");
        // The end of the one that lasts is still written to its row.
        let back = Some((last.at_ms + 1, AlarmEnd::Back));
        let over = [Event::Over(Alarm { over: back, ..alarm.clone() })];
        let new = NewSample { peer: PEERS[0], sample: &last, events: &over, detector: &quiet };
        store.append(&[new]).expect("it is written");
        let alarms = read(&path).expect("it is sound").remove(0).alarms;
        assert_eq!(
            alarms.last().map(|alarm| alarm.over),
            Some(if lasting == 1 { back } else { end })
        );
    }
}

#[test]
fn a_file_has_room_for_so_many_peers() {
    let (_dir, _path, mut store) = new_file(0);
    let (sample, detector) = (sample(0), Detector::new(1, 1, 1));
    let nids: Vec<String> = (0..PEERS_MAX).map(|at| format!("10.0.{at}.1@tcp")).collect();
    store.has_room_for(&nids).expect("it is empty");
    let new = |peer| NewSample { peer, sample: &sample, events: &[], detector: &detector };
    store.append(&nids[1..].iter().map(|nid| new(nid)).collect::<Vec<_>>()).expect("room");
    store.has_room_for(&nids).expect("one is new");
    let two = [nids[0].clone(), PEERS[0].to_owned(), PEERS[0].to_owned()];
    let full = store.has_room_for(&two).expect_err("two are new");
    assert!(matches!(full, StoreError::TooManyPeers { .. }), "{full}");
}

/// Old samples become rows, old rows go, and a clock that is not trusted decides nothing.
#[test]
fn what_is_old_is_thinned_and_dropped() {
    let (_dir, path, mut store) = new_file(1000);
    assert_eq!(store.tidy(None).expect("it is written"), crate::Tidied::default());
    let now = sample(999).at_ms;
    let done = store.tidy(Some(now)).expect("it is written");
    // 2.8 hours, of which the last one and a part of the one before are kept.
    assert!(done.thinned > 0 && done.dropped == 0 && !done.was_full, "{done:?}");
    let found = read(&path).expect("it is sound").remove(1);
    let first: Vec<(u64, Sample)> = (0..1000).map(|number| (number, sample(number))).collect();
    let expected: Vec<Row> =
        thin(&first, now - LIMITS.samples_ms).rows.into_iter().map(|(_, row)| row).collect();
    assert_eq!(found.hours, expected);
    assert_eq!(store.tidy(Some(now)).expect("it is written").thinned, 0);
    let done = store.tidy(Some(now + 10 * LIMITS.keep_ms)).expect("it is written");
    assert!(done.dropped > 0, "{done:?}");
    let found = read(&path).expect("it is sound").remove(1);
    assert!(found.hours.is_empty() && !found.samples.is_empty(), "the latest hour stays");
    assert_eq!(found.alarms, []);
    // Numbers go on, whatever was dropped.
    drop(store);
    let mut store = Store::open(&path, LIMITS).expect("it is free");
    append(&mut store, 1000).expect("it is written");
    let found = read(&path).expect("it is sound").remove(1);
    assert_eq!(found.samples.last(), Some(&sample(1000)));
}

/// The clock steps ahead by a year, and is corrected.
#[test]
fn a_clock_that_was_ahead_does_not_keep_old_samples() {
    let (_dir, path, mut store) = new_file(0);
    let detector = Detector::new(1, 1, 1);
    let ahead = 100..106;
    let stepped = |number: u64| {
        let at_ms =
            sample(number).at_ms + if ahead.contains(&number) { 365 * 24 * 3_600_000 } else { 0 };
        Sample { at_ms, ..sample(number) }
    };
    let samples: Vec<Sample> = (0..1000).map(stepped).collect();
    let new = |sample| NewSample { peer: PEERS[0], sample, events: &[], detector: &detector };
    store.append(&samples[..400].iter().map(new).collect::<Vec<_>>()).expect("it is written");
    let done = store.tidy(Some(sample(399).at_ms)).expect("it is written");
    assert_eq!(done.thinned, 0, "those after the step are young");
    store.append(&samples[400..].iter().map(new).collect::<Vec<_>>()).expect("it is written");
    let now = sample(999).at_ms;
    store.tidy(Some(now)).expect("it is written");
    let found = read(&path).expect("it is sound").remove(0);
    let oldest = found.samples.iter().map(|sample| sample.at_ms).min().expect("the latest");
    assert!(oldest >= now - LIMITS.samples_ms - 3_600_000, "{oldest}");
    assert!(found.samples.iter().all(|sample| sample.at_ms <= now), "those of the step as well");
    let kept = found.samples.len() as u64 + found.hours.iter().map(|row| row.samples).sum::<u64>();
    assert_eq!(kept, 1000);
}

/// A detector goes on after any stop as if there had been none.
#[test]
fn a_detector_is_resumed_where_it_was() {
    let (_dir, path, store) = new_file(0);
    let (mut store, mut detector) = (Some(store), Detector::new(10_000, 10_000, 10_000));
    for number in 0..400 {
        let mut sample = sample(number);
        if number >= 200 {
            sample.rtt = Rtt::of(vec![30_000_000, 31_000_000]);
        }
        let events = detector.observe(&sample);
        let new =
            NewSample { peer: PEERS[0], sample: &sample, events: &events, detector: &detector };
        let open = store.as_mut().expect("it is open");
        open.append(&[new]).expect("it is written");
        if number % 37 == 0 {
            drop(store.take());
            let mut again = Store::open(&path, LIMITS).expect("it is free");
            assert_eq!(again.take_detector(PEERS[0]), Some(detector.clone()), "{number}");
            assert_eq!(again.take_detector(PEERS[0]), None);
            store = Some(again);
        }
    }
    assert_eq!(detector.active().len(), 1);
    let alarms = read(&path).expect("it is sound").remove(0).alarms;
    assert_eq!(alarms, detector.active());
}
