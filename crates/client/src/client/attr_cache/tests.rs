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

/// A lock with these bits.
fn lock(handle: u64, bits: Ibits) -> InodeLock {
    InodeLock { import: AT(), handle: Handle(handle), bits }
}

/// A lock on all of a file.
fn whole(handle: u64) -> InodeLock {
    lock(handle, Ibits::LOOKUP | Ibits::UPDATE | Ibits::PERM | Ibits::LAYOUT)
}

/// A cache with some entries, each with the lock of its number, for caller 5.
fn filled(max: usize, entries: u32) -> AttrCache {
    let mut cache = AttrCache::new(max, Nanos(100));
    for oid in 1..=entries {
        let at = Time(u64::from(oid));
        assert!(cache.keep(whole(at.0), &attr(oid), at).is_empty());
        assert!(cache.allow(fid(oid), caller(5), at));
    }
    cache
}

#[test]
fn the_least_recently_used_goes_first_and_the_old_in_any_case() {
    let mut cache = filled(2, 3);
    assert!(cache.find(fid(1), &caller(5), Time(4)).is_some());
    assert_eq!(cache.surplus(0, Time(5)), Some(fid(2)));
    assert_eq!(cache.remove(fid(2), Handle(3)), None);
    assert_eq!(cache.remove(fid(2), Handle(2)), Some(AT()));
    assert_eq!(cache.remove(fid(2), Handle(2)), None);
    assert_eq!(cache.surplus(0, Time(102)), None);
    assert_eq!(cache.surplus(1, Time(5)), Some(fid(3)));
    assert_eq!(cache.surplus(0, Time(103)), Some(fid(3)));
    check(&cache);
}

#[test]
fn an_entry_is_given_to_those_whom_the_server_has_answered() {
    let mut cache = AttrCache::new(9, Nanos(100));
    assert!(!cache.allow(fid(1), caller(1), Time(1)));
    cache.keep(whole(1), &attr(1), Time(1));
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
    let found =
        |cache: &mut AttrCache, uid| cache.find_name((fid(1), fid(1)), b"a", &caller(uid), Time(9));
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
    assert_eq!(cache.named(fid(1), b"a"), Some(fid(2)));
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
    let found =
        |cache: &mut AttrCache, name| cache.find_name((fid(1), fid(1)), name, &caller(5), Time(1));
    assert_eq!(found(&mut cache, b"a"), Named::Unknown, "there is room for two");
    assert_eq!(found(&mut cache, b"c"), Named::Missing);
    assert_eq!(cache.find_name((fid(1), fid(1)), b"c", &caller(6), Time(1)), Named::Unknown);
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
        let mut name = |name: &[u8]| cache.find_name((fid(1), fid(1)), name, &caller(5), now);
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

/// Without a caller too.
#[test]
fn what_anybody_may_know_is_known_for_ten_minutes() {
    let mut cache = filled(9, 2);
    cache.add_name(fid(1), b"a", fid(2));
    cache.add_missing((fid(1), Handle(1)), b"b");
    let shown = |cache: &AttrCache, now| {
        let name =
            |name: &[u8]| cache.peek_name((fid(1), fid(1)), name, None, now) != Named::Unknown;
        (cache.peek(fid(2), None, now).is_some(), [name(b"a"), name(b"b")])
    };
    // No caller has been let in yet.
    assert_eq!(shown(&cache, Time(9)), (true, [false, false]));
    cache.allow_search((fid(1), Handle(1)), caller(6), Time(9));
    assert_eq!(shown(&cache, Time(9)), (true, [true, true]));
    // The answer about the file was earlier.
    assert_eq!(shown(&cache, Time(2) + ANSWER_AGE_MAX), (false, [false, true]));
    assert_eq!(shown(&cache, Time(9) + ANSWER_AGE_MAX), (false, [false, false]));
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
    cache.keep(whole(2), &older, Time(9));
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

/// Another metadata target than [`AT`].
fn elsewhere() -> ImportKey {
    ImportKey::from(slotmap::KeyData::from_ffi(7))
}

/// A directory whose name is on another target has two locks.
#[test]
fn a_name_on_another_target_has_its_own_lock() {
    let mut cache = filled(9, 1);
    cache.allow_search((fid(1), Handle(1)), caller(5), Time(1));
    let name_lock = lock(20, Ibits::LOOKUP);
    let attr_lock = InodeLock { import: elsewhere(), ..lock(21, Ibits::UPDATE | Ibits::PERM) };
    let found =
        |cache: &mut AttrCache| cache.find_name((fid(1), fid(1)), b"a", &caller(5), Time(9));
    assert!(cache.keep(name_lock, &Attr { fid: fid(2), ..Attr::default() }, Time(1)).is_empty());
    assert!(!cache.allow(fid(2), caller(5), Time(1)), "nothing is known of its permissions");
    cache.add_name(fid(1), b"a", fid(2));
    assert!(cache.is_away(fid(2)) && !cache.is_away(fid(1)));
    assert_eq!((found(&mut cache), cache.known(fid(2))), (Named::Unknown, None));
    assert_eq!(cache.named(fid(1), b"a"), Some(fid(2)));
    assert!(cache.keep(attr_lock, &attr(2), Time(1)).is_empty(), "both are of use");
    assert!(cache.allow(fid(2), caller(5), Time(1)));
    assert_eq!(found(&mut cache), Named::File(attr(2)));
    // A second one is not.
    let again = lock(22, Ibits::LOOKUP);
    assert_eq!(cache.keep(again, &attr(2), Time(1)).to_vec(), [again]);
    assert_eq!(cache.counts().entries, 2);
    // The name stays while the attributes are those of another client.
    assert_eq!(cache.remove(fid(2), Handle(21)), Some(elsewhere()));
    assert_eq!((found(&mut cache), cache.named(fid(1), b"a")), (Named::Unknown, Some(fid(2))));
    // Who takes the name changes an attribute too, but not who may search.
    cache.keep(attr_lock, &attr(2), Time(1));
    assert_eq!(cache.remove(fid(2), Handle(20)), Some(AT()));
    assert_eq!((cache.named(fid(1), b"a"), cache.known(fid(2))), (None, None));
    assert!(!cache.is_away(fid(2)) && cache.perm_lock_of(fid(2)).is_some());
    let later = InodeLock { handle: Handle(24), ..attr_lock };
    let surplus = InodeLock { bits: Ibits::PERM, ..attr_lock };
    assert_eq!(cache.keep(later, &attr(2), Time(1)).to_vec(), [surplus]);
    assert_eq!(cache.known(fid(2)), Some(attr(2)));
    // LOOKUP of the target that has the file is no lock on names of others.
    cache.keep(name_lock, &attr(2), Time(1));
    let all = InodeLock { import: elsewhere(), ..whole(23) };
    assert_eq!(cache.keep(all, &attr(2), Time(1)).to_vec(), [later]);
    assert_eq!(cache.locks_of(fid(2)).to_vec(), [name_lock, all]);
    check(&cache);
}

/// Permissions count without the other attributes: those of an earlier lock may be others.
#[test]
fn permissions_are_those_of_the_lock_that_protects_them() {
    let mut cache = AttrCache::new(9, Nanos(100));
    let of = |mode| Attr { mode, has_acl: Some(false), ..attr(1) };
    let mode = |cache: &AttrCache| cache.permissions_of(fid(1)).map(|(_, mode, _)| mode);
    cache.keep(lock(1, Ibits::LOOKUP), &Attr { fid: fid(1), ..Attr::default() }, Time(1));
    assert_eq!(mode(&cache), None);
    cache.keep(InodeLock { import: elsewhere(), ..lock(2, ATTR_BITS) }, &of(0o755), Time(1));
    assert_eq!(mode(&cache), Some(0o755));
    cache.remove(fid(1), Handle(2));
    assert_eq!(mode(&cache), None);
    cache.keep(InodeLock { import: elsewhere(), ..lock(3, Ibits::PERM) }, &of(0o700), Time(1));
    assert_eq!((mode(&cache), cache.known(fid(1))), (Some(0o700), None));
    check(&cache);
}

/// What the server has said. What it has said of users is old some time after it said so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fact {
    Allowed(u32, u32, Time),
    Searches(u32, u32, Time),
    Name(u32, u8, u32),
    Missing(u32, u8),
}

#[derive(Clone, Debug)]
enum Op {
    /// A lock with one of [`KINDS`].
    Grant(u32, usize),
    /// One of the locks of a file.
    Lose(u32, usize),
    /// All but names and permissions.
    Convert(u32, usize),
    Allow(u32, u32),
    Search(u32, u32),
    Name(u32, u8, u32),
    Missing(u32, u8),
    Forbid(u32, u32),
    /// Some minutes pass.
    Wait(u64),
}

/// What locks protect, and whether they are on the target of all names.
const KINDS: [(Ibits, bool); 3] =
    [(Ibits::LOOKUP.union(ATTR_BITS), true), (Ibits::LOOKUP, true), (ATTR_BITS, false)];

fn op() -> impl Strategy<Value = Op> {
    let (file, uid, name) = (|| 1..5u32, || 1..4u32, || 0..3u8);
    prop_oneof![
        4 => (file(), 0..3usize).prop_map(|(file, kind)| Op::Grant(file, kind)),
        1 => (file(), 0..2usize).prop_map(|(file, at)| Op::Lose(file, at)),
        1 => (file(), 0..2usize).prop_map(|(file, at)| Op::Convert(file, at)),
        3 => (file(), uid()).prop_map(|(file, uid)| Op::Allow(file, uid)),
        3 => (file(), uid()).prop_map(|(file, uid)| Op::Search(file, uid)),
        4 => (file(), name(), file()).prop_map(|(dir, name, file)| Op::Name(dir, name, file)),
        3 => (file(), name()).prop_map(|(dir, name)| Op::Missing(dir, name)),
        1 => (file(), uid()).prop_map(|(file, uid)| Op::Forbid(file, uid)),
        2 => (1..=10u64).prop_map(Op::Wait),
    ]
}

/// The locks of files.
#[derive(Default)]
struct Locks(BTreeMap<u32, Vec<InodeLock>>);

impl Locks {
    fn with(&self, file: u32, bits: Ibits) -> Option<Handle> {
        let locks = self.0.get(&file)?;
        locks.iter().find(|lock| lock.bits.contains(bits)).map(|lock| lock.handle)
    }

    /// What is not protected any more is not known.
    fn protect(&self, facts: &mut Vec<Fact>) {
        facts.retain(|fact| match *fact {
            Fact::Allowed(file, ..) | Fact::Searches(file, ..) => {
                self.with(file, Ibits::PERM).is_some()
            }
            Fact::Name(_, _, file) => self.with(file, Ibits::LOOKUP).is_some(),
            Fact::Missing(dir, _) => self.with(dir, ATTR_BITS).is_some(),
        });
    }
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
        let mut locks = Locks::default();
        let mut now = Time(0);
        for (at, op) in ops.iter().enumerate() {
            match *op {
                Op::Wait(minutes) => now = now + Nanos::from_secs(60 * minutes),
                Op::Grant(file, kind) => {
                    let (bits, is_here) = KINDS[kind];
                    let import = if is_here { AT() } else { elsewhere() };
                    let new = InodeLock { import, handle: Handle(at as u64 + 1), bits };
                    let said = match bits.contains(ATTR_BITS) {
                        true => attr(file),
                        false => Attr { fid: fid(file), ..Attr::default() },
                    };
                    let held = locks.0.entry(file).or_default();
                    held.push(new);
                    for surplus in cache.keep(new, &said, now) {
                        held.retain(|lock| *lock != surplus);
                        prop_assert!(held.iter().any(|lock| lock.bits.contains(surplus.bits)));
                    }
                    prop_assert!(held.len() <= 2);
                }
                Op::Lose(file, at) => {
                    let held = locks.0.entry(file).or_default();
                    if at < held.len() {
                        let lock = held.remove(at);
                        let import = cache.remove(fid(file), lock.handle);
                        prop_assert_eq!(import, Some(lock.import));
                        if lock.bits.contains(Ibits::LOOKUP) {
                            held.iter_mut().for_each(|lock| lock.bits -= Ibits::UPDATE);
                            facts.retain(|fact| {
                                !matches!(fact, Fact::Name(_, _, of) if *of == file)
                            });
                        }
                    }
                }
                Op::Convert(file, at) => {
                    if let Some(lock) = locks.0.entry(file).or_default().get_mut(at) {
                        lock.bits &= Ibits::LOOKUP | Ibits::PERM;
                        cache.narrow(fid(file), lock.handle, Ibits::LOOKUP | Ibits::PERM);
                    }
                }
                Op::Allow(file, uid) => {
                    let counts = locks.with(file, Ibits::PERM).is_some();
                    prop_assert_eq!(cache.allow(fid(file), caller(uid), now), counts);
                    facts.push(Fact::Allowed(file, uid, now));
                }
                Op::Search(dir, uid) => {
                    let lock = locks.with(dir, Ibits::PERM).unwrap_or(Handle(1000));
                    cache.allow_search((fid(dir), lock), caller(uid), now);
                    facts.push(Fact::Searches(dir, uid, now));
                }
                Op::Name(dir, name, file) => {
                    cache.add_name(fid(dir), &[name], fid(file));
                    let new = Fact::Name(dir, name, file);
                    facts.retain(|fact| match fact {
                        Fact::Name(of, other, _) | Fact::Missing(of, other) => {
                            (*of, *other) != (dir, name) || *fact == new
                        }
                        _ => true,
                    });
                    if !facts.contains(&new) {
                        facts.push(new);
                    }
                    // There is room for so many names of a file.
                    let is_name = |fact: &&Fact| {
                        matches!(fact, Fact::Name(_, _, of) if *of == file)
                    };
                    if facts.iter().filter(is_name).count() > NAMES_MAX {
                        let first = facts.iter().position(|fact| is_name(&fact)).unwrap();
                        facts.remove(first);
                    }
                }
                Op::Missing(dir, name) => {
                    let Some(lock) = locks.with(dir, ATTR_BITS) else { continue };
                    cache.add_missing((fid(dir), lock), &[name]);
                    facts.retain(|fact| {
                        !matches!(fact, Fact::Name(of, other, _) if (*of, *other) == (dir, name))
                    });
                    facts.push(Fact::Missing(dir, name));
                }
                Op::Forbid(file, uid) => {
                    cache.forbid(fid(file), &caller(uid));
                    facts.retain(|fact| match fact {
                        Fact::Allowed(of, by, _) | Fact::Searches(of, by, _) => {
                            (*of, *by) != (file, uid)
                        }
                        _ => true,
                    });
                }
            }
            locks.protect(&mut facts);
            check(&cache);
            let lasts = |said: &Time| now.since(*said) < Nanos::from_secs(600);
            let said = |wanted: &dyn Fn(&Fact) -> bool| facts.iter().any(wanted);
            for (dir, name, uid) in all() {
                let searches = said(&|fact| matches!(fact, Fact::Searches(of, by, at)
                    if (*of, *by) == (dir, uid) && lasts(at)));
                let file = facts.iter().find_map(|fact| match fact {
                    Fact::Name(of, other, file) if (*of, *other) == (dir, name) => Some(*file),
                    _ => None,
                });
                let whole = |file: u32| locks.with(file, ATTR_BITS).is_some();
                let allowed = |file: u32| whole(file)
                    && said(&|fact| matches!(fact, Fact::Allowed(of, by, at)
                        if (*of, *by) == (file, uid) && lasts(at)));
                let missing = said(&|fact| matches!(fact, Fact::Missing(of, other)
                    if (*of, *other) == (dir, name)));
                let expected = match file {
                    _ if !searches => Named::Unknown,
                    _ if missing => Named::Missing,
                    Some(file) if allowed(file) => Named::File(attr(file)),
                    _ => Named::Unknown,
                };
                prop_assert_eq!(cache.named(fid(dir), &[name]), file.map(fid));
                let found = cache.find_name((fid(dir), fid(dir)), &[name], &caller(uid), now);
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
    assert!(size_of::<Entry>() <= 272, "{}", size_of::<Entry>());
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
