//! What is kept, against a list of facts.

use proptest::prelude::*;

use super::*;

const AT: fn() -> ImportKey = ImportKey::default;

fn fid(oid: u32) -> Fid {
    Fid::new(1 << 34, oid)
}

fn attr(oid: u32) -> Attr {
    Attr { fid: fid(oid), mode: 0o100_644, ..Attr::default() }
}

fn caller(uid: u32) -> Caller {
    Caller { uid, capabilities: 0, ..Caller::ROOT }
}

/// A cache with some entries, each with the lock of its number, for caller 5.
fn filled(max: usize, entries: u32) -> AttrCache {
    let mut cache = AttrCache::new(max, Nanos(100));
    for oid in 1..=entries {
        let at = Time(u64::from(oid));
        cache.insert((AT(), Handle(at.0)), attr(oid), at);
        assert!(cache.allow(fid(oid), caller(5), at));
    }
    cache
}

#[test]
fn the_least_recently_used_goes_first_and_the_old_in_any_case() {
    let mut cache = filled(2, 3);
    assert!(cache.find(fid(1), &caller(5), Time(4)).is_some());
    assert_eq!(cache.surplus(0, Time(5)), Some((AT(), fid(2), Handle(2))));
    assert_eq!(cache.remove(fid(2), Handle(3)), None);
    assert_eq!(cache.remove(fid(2), Handle(2)), Some(AT()));
    assert_eq!(cache.remove(fid(2), Handle(2)), None);
    assert_eq!(cache.surplus(0, Time(102)), None);
    assert_eq!(cache.surplus(1, Time(5)), Some((AT(), fid(3), Handle(3))));
    assert_eq!(cache.surplus(0, Time(103)), Some((AT(), fid(3), Handle(3))));
    check(&cache);
}

#[test]
fn an_entry_is_given_to_those_whom_the_server_has_answered() {
    let mut cache = AttrCache::new(9, Nanos(100));
    assert!(!cache.allow(fid(1), caller(1), Time(1)));
    cache.insert((AT(), Handle(1)), attr(1), Time(1));
    assert!(cache.find(fid(1), &caller(1), Time(1)).is_none());
    for uid in 1..=5 {
        assert!(cache.allow(fid(1), caller(uid), Time(1)));
    }
    // Others of the same user have other groups.
    let other = Caller { suppgid: 7, ..caller(5) };
    assert!(cache.find(fid(1), &other, Time(1)).is_none());
    assert!(cache.find(fid(1), &caller(1), Time(1)).is_none(), "there are five callers");
    assert_eq!(cache.find(fid(1), &caller(5), Time(1)), Some(attr(1)));
    assert_eq!((cache.counts.hits, cache.counts.misses), (1, 3));
    cache.forbid(fid(1), &caller(5));
    assert!(cache.find(fid(1), &caller(5), Time(1)).is_none());
}

#[test]
fn a_name_is_given_to_those_who_may_search_the_directory() {
    let mut cache = filled(9, 2);
    let found = |cache: &mut AttrCache, uid| cache.find_name(fid(1), b"a", &caller(uid), Time(9));
    cache.add_name(fid(1), b"a", fid(2));
    assert_eq!(found(&mut cache, 5), Named::Unknown);
    // The directory had another lock when the server was asked.
    cache.allow_search((fid(1), Handle(7)), caller(5), Time(1));
    assert_eq!(found(&mut cache, 5), Named::Unknown);
    cache.allow_search((fid(1), Handle(1)), caller(5), Time(1));
    assert_eq!(found(&mut cache, 5), Named::File(attr(2)));
    // To search is not enough: the server has not answered this one about the file.
    cache.allow_search((fid(1), Handle(1)), caller(6), Time(1));
    assert_eq!(found(&mut cache, 6), Named::Unknown);
    assert_eq!((cache.counts.name_hits, cache.counts.name_misses), (1, 3));
    // Each lock that is lost takes it away.
    cache.remove(fid(1), Handle(1));
    assert_eq!(found(&mut cache, 5), Named::Unknown);
    assert_eq!(cache.named(fid(1), b"a"), Some((fid(2), Handle(2))));
    cache.remove(fid(2), Handle(2));
    assert_eq!(cache.named(fid(1), b"a"), None);
    check(&cache);
}

#[test]
fn a_missing_name_goes_with_the_lock_of_its_directory() {
    let mut cache = filled(2, 1);
    cache.allow_search((fid(1), Handle(1)), caller(5), Time(1));
    cache.add_missing((fid(1), Handle(9)), b"a");
    assert_eq!(cache.counts().missing, 0, "it had another lock then");
    for name in [b"a", b"b", b"c"] {
        cache.add_missing((fid(1), Handle(1)), name);
    }
    let found = |cache: &mut AttrCache, name| cache.find_name(fid(1), name, &caller(5), Time(1));
    assert_eq!(found(&mut cache, b"a"), Named::Unknown, "there is room for two");
    assert_eq!(found(&mut cache, b"c"), Named::Missing);
    assert_eq!(cache.find_name(fid(1), b"c", &caller(6), Time(1)), Named::Unknown);
    cache.remove(fid(1), Handle(1));
    assert_eq!(found(&mut cache, b"c"), Named::Unknown);
    assert_eq!(cache.counts().missing, 0);
}

#[test]
fn a_directory_is_worth_a_request_at_the_second_name() {
    let mut cache = filled(9, 1);
    assert!(!cache.note_lookup(fid(1)));
    assert!(cache.note_lookup(fid(1)) && cache.note_lookup(fid(1)));
    cache.forget_lookups(fid(1));
    assert!(!cache.note_lookup(fid(1)));
    // So it is when somebody has changed it.
    cache.remove(fid(1), Handle(1));
    assert!(!cache.note_lookup(fid(1)));
    // Programs in several directories do not hide each other, unless they are many.
    (2..10).for_each(|oid| assert!(!cache.note_lookup(fid(oid))));
    assert!(cache.note_lookup(fid(1)));
    (10..30).for_each(|oid| assert!(!cache.note_lookup(fid(oid))));
    assert!(!cache.note_lookup(fid(1)));
}

#[test]
fn times_that_a_close_has_told_move_forward() {
    let mut cache = filled(9, 1);
    cache.closed((fid(1), Handle(1)), Some(50), None);
    cache.closed((fid(1), Handle(1)), Some(40), Some((60, 70)));
    cache.closed((fid(1), Handle(2)), Some(90), Some((90, 90)));
    cache.closed((fid(2), Handle(1)), Some(40), None);
    let seen = cache.find(fid(1), &caller(5), Time(9)).unwrap();
    assert_eq!((seen.atime, seen.mtime, seen.ctime), (50, 60, 70));
}

/// A user's group, which no lock protects, may be gone: uses do not make the answer younger.
#[test]
fn the_server_is_asked_again_ten_minutes_after_its_answer_however_often_it_is_used() {
    let mut cache = filled(9, 2);
    let start = Time(5);
    for oid in [1, 2] {
        assert!(cache.allow(fid(oid), caller(5), start));
    }
    cache.allow_search((fid(1), Handle(1)), caller(5), start);
    cache.add_name(fid(1), b"a", fid(2));
    cache.add_missing((fid(1), Handle(1)), b"b");
    let shown = |cache: &mut AttrCache, now| {
        let mut name = |name: &[u8]| cache.find_name(fid(1), name, &caller(5), now);
        let names = [name(b"a") == Named::File(attr(2)), name(b"b") == Named::Missing];
        (cache.find(fid(1), &caller(5), now).is_some(), names)
    };
    for minute in 0..10 {
        let now = start + Nanos::from_secs(60 * minute);
        assert_eq!(shown(&mut cache, now), (true, [true, true]), "minute {minute}");
    }
    let end = start + ANSWER_AGE_MAX;
    assert_eq!(shown(&mut cache, Time(end.0 - 1)), (true, [true, true]));
    assert_eq!(shown(&mut cache, end), (false, [false, false]));
    // The locks, and so the entries, are still there: each answer counts again from now on.
    assert!(cache.allow(fid(1), caller(5), end));
    assert_eq!(shown(&mut cache, end), (true, [false, false]));
    cache.allow_search((fid(1), Handle(1)), caller(5), end);
    assert_eq!(shown(&mut cache, end), (true, [false, true]));
    assert!(cache.allow(fid(2), caller(5), end));
    assert_eq!(shown(&mut cache, end), (true, [true, true]));
    check(&cache);
}

#[test]
fn the_caller_with_the_oldest_answer_makes_room() {
    let mut cache = filled(9, 1);
    for uid in [6, 7, 8, 5, 9] {
        assert!(cache.allow(fid(1), caller(uid), Time(2)));
    }
    let known = (5..10).filter(|uid| cache.find(fid(1), &caller(*uid), Time(3)).is_some());
    assert_eq!(known.collect::<Vec<_>>(), [5, 7, 8, 9]);
}

/// The server keeps an older time of access than a close has sent, and an answer can be older than
/// a close.
#[test]
fn an_answer_takes_no_time_back_under_the_same_lock() {
    let mut cache = filled(9, 1);
    let times = |attr: Attr| (attr.atime, attr.mtime, attr.ctime);
    cache.closed((fid(1), Handle(1)), Some(50), Some((60, 70)));
    let older = Attr { atime: 10, mtime: 20, ctime: 80, uid: 3, ..attr(1) };
    assert_eq!(times(cache.refresh(Handle(1), older.clone()).0), (50, 60, 80));
    let seen = cache.find(fid(1), &caller(5), Time(9)).unwrap();
    assert_eq!((seen.uid, times(seen)), (3, (50, 60, 80)));
    // Under another lock somebody may have set them back.
    assert_eq!(times(cache.refresh(Handle(2), older.clone()).0), (10, 20, 80));
    cache.remove(fid(1), Handle(1));
    cache.insert((AT(), Handle(2)), older, Time(9));
    cache.allow(fid(1), caller(5), Time(9));
    assert_eq!(times(cache.find(fid(1), &caller(5), Time(9)).unwrap()), (10, 20, 80));
}

/// All parts say the same, and have their limits.
fn check(cache: &AttrCache) {
    assert_eq!(cache.files.len(), cache.entries.len());
    let (mut names, mut missing) = (0, 0);
    for (fid, key) in &cache.files {
        let entry = cache.entries.get(*key).expect("an entry");
        assert_eq!(entry.attr.fid, *fid);
        assert!(entry.names.len() <= NAMES_MAX);
        assert!(entry.callers.0.len() <= CALLERS_MAX);
        for (dir, name) in &entry.names {
            assert_eq!(cache.names[&number_of(*dir, name)], *fid);
        }
        names += entry.names.len();
        let Some(dir) = &entry.dir else { continue };
        assert!(dir.searchers.0.len() <= CALLERS_MAX);
        for (name, number) in &dir.missing {
            assert_eq!(cache.missing[number], (*fid, Arc::clone(name)));
            assert!(cache.named(*fid, name).is_none());
        }
        missing += dir.missing.len();
    }
    assert_eq!((cache.names.len(), cache.counts().names), (names, names));
    assert_eq!(cache.missing.len(), missing);
    assert!(cache.missing.len() <= cache.max);
}

/// What the server has said, and the locks under which it is true. What it has said of users is old
/// some time after it said so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fact {
    Allowed(Handle, u32, u32, Time),
    Searches(Handle, u32, u32, Time),
    Name(Handle, u32, u8, u32),
    Missing(Handle, u32, u8),
}

impl Fact {
    fn lock(self) -> Handle {
        match self {
            Fact::Allowed(lock, ..)
            | Fact::Searches(lock, ..)
            | Fact::Name(lock, ..)
            | Fact::Missing(lock, ..) => lock,
        }
    }
}

#[derive(Clone, Debug)]
enum Op {
    Grant(u32),
    Lose(u32),
    Allow(u32, u32),
    Search(u32, u32),
    Name(u32, u8, u32),
    Missing(u32, u8),
    Forbid(u32, u32),
    /// Some minutes pass.
    Wait(u64),
}

fn op() -> impl Strategy<Value = Op> {
    let (file, uid, name) = (|| 1..5u32, || 1..4u32, || 0..3u8);
    prop_oneof![
        3 => file().prop_map(Op::Grant),
        1 => file().prop_map(Op::Lose),
        3 => (file(), uid()).prop_map(|(file, uid)| Op::Allow(file, uid)),
        3 => (file(), uid()).prop_map(|(file, uid)| Op::Search(file, uid)),
        4 => (file(), name(), file()).prop_map(|(dir, name, file)| Op::Name(dir, name, file)),
        3 => (file(), name()).prop_map(|(dir, name)| Op::Missing(dir, name)),
        1 => (file(), uid()).prop_map(|(file, uid)| Op::Forbid(file, uid)),
        2 => (1..=10u64).prop_map(Op::Wait),
    ]
}

proptest! {
    /// What is found is what the server has said under locks that are held; nothing is lost before
    /// that but what there is no room for.
    #[test]
    fn what_is_found_is_what_was_said_under_locks_that_are_held(
        ops in prop::collection::vec(op(), 1..60),
    ) {
        let mut cache = AttrCache::new(9, Nanos(1000));
        let mut facts: Vec<Fact> = Vec::new();
        let mut locks: BTreeMap<u32, Handle> = BTreeMap::new();
        let mut now = Time(0);
        for (at, op) in ops.iter().enumerate() {
            match *op {
                Op::Wait(minutes) => now = now + Nanos::from_secs(60 * minutes),
                Op::Grant(file) => {
                    locks.entry(file).or_insert_with(|| {
                        let lock = Handle(at as u64 + 1);
                        cache.insert((AT(), lock), attr(file), now);
                        lock
                    });
                }
                Op::Lose(file) => {
                    if let Some(lock) = locks.remove(&file) {
                        prop_assert_eq!(cache.remove(fid(file), lock), Some(AT()));
                        facts.retain(|fact| fact.lock() != lock);
                    }
                }
                Op::Allow(file, uid) => {
                    let is_kept = cache.allow(fid(file), caller(uid), now);
                    prop_assert_eq!(is_kept, locks.contains_key(&file));
                    facts.extend(locks.get(&file).map(|lock| Fact::Allowed(*lock, file, uid, now)));
                }
                Op::Search(dir, uid) => {
                    let lock = locks.get(&dir).copied().unwrap_or(Handle(1000));
                    cache.allow_search((fid(dir), lock), caller(uid), now);
                    facts.extend(locks.get(&dir).map(|lock| Fact::Searches(*lock, dir, uid, now)));
                }
                Op::Name(dir, name, file) => {
                    cache.add_name(fid(dir), &[name], fid(file));
                    let lock = locks.get(&file).copied();
                    let new = lock.map(|lock| Fact::Name(lock, dir, name, file));
                    facts.retain(|fact| match fact {
                        Fact::Name(_, of, other, _) | Fact::Missing(_, of, other) => {
                            (*of, *other) != (dir, name) || Some(*fact) == new
                        }
                        _ => true,
                    });
                    if let Some(new) = new.filter(|new| !facts.contains(new)) {
                        facts.push(new);
                    }
                    // There is room for so many names of a file.
                    let is_name = |fact: &&Fact| {
                        matches!(fact, Fact::Name(of, ..) if Some(*of) == lock)
                    };
                    if facts.iter().filter(is_name).count() > NAMES_MAX {
                        let first = facts.iter().position(|fact| is_name(&fact)).unwrap();
                        facts.remove(first);
                    }
                }
                Op::Missing(dir, name) => {
                    let Some(lock) = locks.get(&dir).copied() else { continue };
                    cache.add_missing((fid(dir), lock), &[name]);
                    facts.retain(|fact| {
                        !matches!(fact, Fact::Name(_, of, other, _) if (*of, *other) == (dir, name))
                    });
                    facts.push(Fact::Missing(lock, dir, name));
                }
                Op::Forbid(file, uid) => {
                    cache.forbid(fid(file), &caller(uid));
                    facts.retain(|fact| match fact {
                        Fact::Allowed(_, of, by, _) | Fact::Searches(_, of, by, _) => {
                            (*of, *by) != (file, uid)
                        }
                        _ => true,
                    });
                }
            }
            check(&cache);
            let lasts = |said: &Time| now.since(*said) < Nanos::from_secs(600);
            let said = |wanted: &dyn Fn(&Fact) -> bool| facts.iter().any(wanted);
            for (dir, name, uid) in all() {
                let searches = said(&|fact| matches!(fact, Fact::Searches(_, of, by, at)
                    if (*of, *by) == (dir, uid) && lasts(at)));
                let file = facts.iter().find_map(|fact| match fact {
                    Fact::Name(_, of, other, file) if (*of, *other) == (dir, name) => Some(*file),
                    _ => None,
                });
                let allowed = |file: u32| said(&|fact| matches!(fact, Fact::Allowed(_, of, by, at)
                    if (*of, *by) == (file, uid) && lasts(at)));
                let missing = said(&|fact| matches!(fact, Fact::Missing(_, of, other)
                    if (*of, *other) == (dir, name)));
                let expected = match file {
                    _ if !searches => Named::Unknown,
                    _ if missing => Named::Missing,
                    Some(file) if allowed(file) => Named::File(attr(file)),
                    _ => Named::Unknown,
                };
                let found = cache.find_name(fid(dir), &[name], &caller(uid), now);
                prop_assert_eq!(found, expected);
                let found = cache.find(fid(dir), &caller(uid), now);
                prop_assert_eq!(found, allowed(dir).then(|| attr(dir)));
            }
        }
    }
}

/// All directories, names and users of the test.
fn all() -> impl Iterator<Item = (u32, u8, u32)> {
    (1..5).flat_map(|dir| (0..3).flat_map(move |name| (1..4).map(move |uid| (dir, name, uid))))
}

/// There is one for each file that is kept. `cargo xtask bench library` measures all of it.
#[test]
fn an_entry_is_small() {
    assert!(size_of::<Entry>() <= 248, "{}", size_of::<Entry>());
}

/// A number stands for a name; if two names had the same one, one of them would not be kept.
#[test]
fn names_have_numbers_of_their_own() {
    let dirs = [fid(1), fid(2), Fid { ver: 1, ..fid(1) }, Fid { oid: 0, ..fid(1) }];
    let texts: [&[u8]; 5] =
        [b"a", b"a\x01", b"a\x01\x01\x01\x01\x01\x01\x01", b"12345678", b"123456789"];
    let numbered = (0..10_000).map(|number| format!("file{number}").into_bytes());
    let names: Vec<Vec<u8>> = numbered.chain(texts.map(<[u8]>::to_vec)).collect();
    let numbers = dirs.iter().flat_map(|dir| names.iter().map(|name| number_of(*dir, name)));
    let all: BTreeSet<u64> = numbers.collect();
    assert_eq!(all.len(), dirs.len() * names.len());
}
