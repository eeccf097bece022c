//! Attributes that servers are asked for before a program asks for them.
//!
//! A program that lists a directory and then asks for its files one after another, as `ls -l` does,
//! would wait for a server twice for each file: for the attributes, and for the size, which the
//! objects know. So the next files of the listing are asked for while it looks at this one. The
//! same goes for a program that asks for names in the order of their numbers. Kernel clients do
//! both, and call it statahead.
//!
//! An answer is kept as if the program had asked: under a lock, and for the same caller. What is
//! not kept is asked for again when the program does.

use std::collections::{BTreeMap, VecDeque};

use lustrine_fswire::fid::Fid;
use lustrine_lnet::service::Turn;
use lustrine_lnet::time::Time;

use super::attr_cache::Named;
use super::batch::Unanswered;
use super::cache::ObjectKey;
use super::data_attr::DataAttr;
use super::metadata::check_name;
use super::numbered::{NumberedNames, STEP_MIN, WINDOW_MIN};
use super::{Caller, Client, Done, TargetKey};
use crate::attr::{Attr, DirPage};
use crate::layout::FileLayout;

/// Most listings that are remembered, and most names of all together.
const LISTINGS_MAX: usize = 8;
const NAMES_MAX: usize = 65_536;
/// A program may leave out as many names and is followed all the same: `ls` shows no hidden files.
const SKIPPED_MAX: usize = 8;
/// A program asks for as many names in their order before others are asked for ahead.
const FOLLOWED_MIN: usize = 2;
/// Most objects that are asked for ahead at once.
const OBJECTS_MAX: usize = 256;

/// What goes on when an answer is there that was asked for ahead.
type Waiting = Box<dyn FnOnce(&mut Client, &mut Turn<'_>) + Send>;

/// Names of a directory to ask for ahead.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct NextNames {
    pub(super) names: Vec<Box<[u8]>>,
    /// Whether they were listed. Others are guessed, and need not be there.
    pub(super) are_listed: bool,
}

/// The names of a directory, and how far a program has asked for them.
struct Listing {
    dir: Fid,
    /// The names as the server lists them, without those that the program has passed.
    names: VecDeque<Box<[u8]>>,
    /// Where the part behind them starts; none at the end.
    next: Option<u64>,
    /// The last name that the program asked for.
    last: Box<[u8]>,
    /// How many names it asked for in their order.
    followed: usize,
    /// How many of `names` were asked for ahead, and how many may be.
    asked: usize,
    window: usize,
}

impl Listing {
    /// A program asks for a name. The names to ask for ahead; none if it is not one of the next.
    fn follow(&mut self, name: &[u8], most: usize) -> Option<Vec<Box<[u8]>>> {
        if *self.last == *name {
            return Some(Vec::new());
        }
        let at = self.names.iter().take(SKIPPED_MAX + 1).position(|other| **other == *name)?;
        self.last = name.into();
        self.names.drain(..=at);
        self.asked = self.asked.saturating_sub(at + 1);
        self.followed += 1;
        if self.followed < FOLLOWED_MIN {
            return Some(Vec::new());
        }
        let until = self.window.min(most).min(self.names.len());
        let is_rest = until == self.names.len() && self.next.is_none();
        if until.saturating_sub(self.asked) < STEP_MIN.min(most) && !is_rest {
            return Some(Vec::new());
        }
        let ahead = self.names.range(self.asked.min(until)..until).cloned().collect();
        self.asked = self.asked.max(until);
        self.window = self.window.saturating_mul(2).min(most);
        Some(ahead)
    }
}

/// Directories that were listed, and what is asked for ahead.
pub(super) struct StatAhead {
    /// Most files of a directory that are asked for ahead; 0 for none.
    most: usize,
    /// Most that there may be: others would have gone before the program asks for them.
    limit: usize,
    /// The one that was used last is the last one.
    listings: Vec<Listing>,
    numbered: NumberedNames,
    /// Names that servers are asked for, and what waits for the answers.
    names: BTreeMap<(Fid, Box<[u8]>), Vec<Waiting>>,
    /// The same for objects.
    objects: BTreeMap<ObjectKey, Vec<Waiting>>,
    /// How many names were asked for.
    total: u64,
}

impl StatAhead {
    /// `attrs` is how many files are kept.
    pub(super) fn new(most: usize, attrs: usize) -> StatAhead {
        let limit = attrs / 8;
        StatAhead {
            most: most.min(limit),
            limit,
            listings: Vec::new(),
            numbered: NumberedNames::default(),
            names: BTreeMap::new(),
            objects: BTreeMap::new(),
            total: 0,
        }
    }

    pub(super) fn set_max(&mut self, most: usize) {
        self.most = most.min(self.limit);
    }

    /// How many names servers were asked for ahead.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// A server has listed a part of a directory, from a hash on.
    pub(super) fn listed(&mut self, dir: Fid, from: u64, page: &DirPage) {
        if self.most == 0 {
            return;
        }
        let at = self.listings.iter().position(|listing| listing.dir == dir);
        let known = at.map(|at| self.listings.remove(at));
        let goes_on = known.filter(|listing| from != 0 && listing.next == Some(from));
        let mut listing = goes_on.unwrap_or_else(|| Listing {
            dir,
            names: VecDeque::new(),
            next: None,
            last: Box::default(),
            followed: 0,
            asked: 0,
            window: WINDOW_MIN,
        });
        let names = page.entries.iter().map(|entry| &entry.name[..]);
        let names = names.filter(|name| !matches!(*name, b"." | b".."));
        listing.names.extend(names.map(Box::from));
        // Those that are too many are not asked for ahead.
        listing.names.truncate(NAMES_MAX);
        listing.next = page.next;
        self.listings.push(listing);
        let all = |listings: &[Listing]| -> usize {
            listings.iter().map(|listing| listing.names.len()).sum()
        };
        while self.listings.len() > LISTINGS_MAX || all(&self.listings) > NAMES_MAX {
            self.listings.remove(0);
        }
    }

    /// Nothing is known of a directory any more: its listing is of no use.
    pub(super) fn forget(&mut self, dir: Fid) {
        self.listings.retain(|listing| listing.dir != dir);
        self.numbered.forget(dir);
    }

    /// There is no file of a name: nothing is guessed from it.
    pub(super) fn note_missing(&mut self, name: &[u8]) {
        self.numbered.note_missing(name);
    }

    /// A program asks for a name. The names to ask for ahead.
    pub(super) fn follow(&mut self, dir: Fid, name: &[u8]) -> NextNames {
        match self.follow_listing(dir, name) {
            Some(names) => NextNames { names, are_listed: true },
            None => {
                let names = self.numbered.follow(dir, name, self.most);
                NextNames { names, are_listed: false }
            }
        }
    }

    /// None if the directory was not listed, or the name is not one of the next in its listing.
    fn follow_listing(&mut self, dir: Fid, name: &[u8]) -> Option<Vec<Box<[u8]>>> {
        let at = self.listings.iter().position(|listing| listing.dir == dir)?;
        let ahead = self.listings[at].follow(name, self.most)?;
        if self.listings[at].names.is_empty() && self.listings[at].next.is_none() {
            self.listings.remove(at);
        } else if !ahead.is_empty() {
            self.listings[at..].rotate_left(1);
        }
        Some(ahead)
    }
}

impl Client {
    /// A program asks for a name: the next ones of the directory are asked for, if it asks for all
    /// of them.
    pub(super) fn stat_ahead(
        &mut self,
        turn: &mut Turn<'_>,
        caller: Caller,
        dir: Fid,
        name: &[u8],
    ) {
        // Without a lock on the directory no name is shown to anybody.
        if self.unmounted || self.attrs.perm_lock_of(dir).is_none() {
            return;
        }
        let next = self.next_names(turn.now, Some(&caller), dir, name);
        self.names_ahead(turn, caller, dir, next);
    }

    /// A program asks for a name. The names to ask for ahead.
    pub(super) fn next_names(
        &mut self,
        now: Time,
        caller: Option<&Caller>,
        dir: Fid,
        name: &[u8],
    ) -> NextNames {
        let mut next = self.ahead.follow(dir, name);
        if !next.are_listed {
            // What is missing is the end of the series.
            let is_missing =
                |name: &[u8]| matches!(self.peek_name(now, caller, dir, name), Named::Missing);
            if let Some(end) = next.names.iter().position(|name| is_missing(name)) {
                self.ahead.note_missing(&next.names[end]);
                next.names.truncate(end);
            }
        }
        next
    }

    /// What a caller may see of a name, or without one anybody.
    pub(super) fn peek_name(
        &self,
        now: Time,
        caller: Option<&Caller>,
        dir: Fid,
        name: &[u8],
    ) -> Named {
        let home = self.home_of(dir, name);
        home.map_or(Named::Unknown, |home| self.attrs.peek_name((dir, home), name, caller, now))
    }

    /// Asks for names ahead that are not known, and for the objects of files that are.
    pub(super) fn names_ahead(
        &mut self,
        turn: &mut Turn<'_>,
        caller: Caller,
        dir: Fid,
        next: NextNames,
    ) {
        let NextNames { names, are_listed } = next;
        // Without a lock on the directory no name is shown to anybody.
        if self.attrs.perm_lock_of(dir).is_none() {
            return;
        }
        let unanswered = if are_listed { Unanswered::AskAlone } else { Unanswered::Leave };
        for (home, names) in self.at_homes(dir, names) {
            let names = names.into_iter();
            let wanted = names.filter_map(|name| self.name_ahead(turn, caller, home, name));
            let wanted = wanted.collect();
            self.ask_names(turn, caller, home, wanted, unanswered);
        }
    }

    /// Names of a directory by the stripes that have them.
    fn at_homes(&self, dir: Fid, names: Vec<Box<[u8]>>) -> BTreeMap<Fid, Vec<Box<[u8]>>> {
        let mut homes: BTreeMap<Fid, Vec<Box<[u8]>>> = BTreeMap::new();
        for name in names {
            if let Some(home) = self.home_of(dir, &name) {
                homes.entry(home).or_default().push(name);
            }
        }
        homes
    }

    /// A name that a server is to be asked for, and what goes on then.
    fn name_ahead(
        &mut self,
        turn: &mut Turn<'_>,
        caller: Caller,
        dir: Fid,
        name: Box<[u8]>,
    ) -> Option<(Vec<u8>, Done<Attr>)> {
        let whole = self.whole_of(dir);
        if check_name(&name).is_err() {
            return None;
        }
        match self.attrs.peek_name((whole, dir), &name, Some(&caller), turn.now) {
            Named::File(attr) => {
                self.objects_ahead(turn, caller, &attr);
                return None;
            }
            Named::Missing => return None,
            Named::Unknown => {}
        }
        let key = (dir, name);
        if self.ahead.names.contains_key(&key) {
            return None;
        }
        self.ahead.total += 1;
        let sought = key.1.to_vec();
        self.ahead.names.insert(key.clone(), Vec::new());
        let then: Done<Attr> = Box::new(move |client, turn, found| {
            if let Ok(attr) = &found {
                client.objects_ahead(turn, caller, attr);
            }
            for waiting in client.ahead.names.remove(&key).unwrap_or_default() {
                waiting(client, turn);
            }
        });
        Some((sought, then))
    }

    /// Asks for the size of a file ahead, unless it would not be kept.
    fn objects_ahead(&mut self, turn: &mut Turn<'_>, caller: Caller, attr: &Attr) {
        if !attr.is_file() || attr.size.is_some() {
            return;
        }
        let Ok(layout) = FileLayout::parse(&attr.layout) else { return };
        if !self.caches(&layout) {
            return;
        }
        for (component, stripe, _) in layout.objects() {
            let Ok(target) = self.target_of(attr.fid, &layout, (component, stripe)) else { return };
            let key = ObjectKey { import: target.import, oi: target.oi };
            // A target that is away would keep the room from others.
            if self.ahead.objects.len() >= OBJECTS_MAX
                || !self.is_connected(TargetKey(target.import))
            {
                return;
            }
            if self.known_object(key).is_some() || self.ahead.objects.contains_key(&key) {
                continue;
            }
            self.ahead.objects.insert(key, Vec::new());
            let then: Done<DataAttr> = Box::new(move |client, turn, _| {
                for waiting in client.ahead.objects.remove(&key).unwrap_or_default() {
                    waiting(client, turn);
                }
            });
            self.ask_object(turn, key, caller, then);
        }
    }

    /// If a name is asked for ahead, goes on when the answer is there; otherwise at once.
    pub(super) fn after_name_ahead<T: 'static>(
        &mut self,
        turn: &mut Turn<'_>,
        (dir, name): (Fid, Vec<u8>),
        done: Done<T>,
        then: impl FnOnce(&mut Client, &mut Turn<'_>, Vec<u8>, Done<T>) + Send + 'static,
    ) {
        if self.ahead.names.is_empty() {
            return then(self, turn, name, done);
        }
        let key = (dir, name.into_boxed_slice());
        match self.ahead.names.get_mut(&key) {
            Some(waiting) => waiting.push(Box::new(move |client, turn| {
                then(client, turn, key.1.into_vec(), done);
            })),
            None => then(self, turn, key.1.into_vec(), done),
        }
    }

    /// The same for an object.
    pub(super) fn after_object_ahead<T: 'static>(
        &mut self,
        turn: &mut Turn<'_>,
        key: ObjectKey,
        done: Done<T>,
        then: impl FnOnce(&mut Client, &mut Turn<'_>, Done<T>) + Send + 'static,
    ) {
        match self.ahead.objects.get_mut(&key) {
            Some(waiting) => waiting.push(Box::new(move |client, turn| then(client, turn, done))),
            None => then(self, turn, done),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attr::DirEntry;

    const DIR: Fid = Fid::new(1 << 34, 7);

    fn page(names: core::ops::Range<u64>, next: Option<u64>) -> DirPage {
        let entry = |number: u64| DirEntry {
            name: number.to_string().into_bytes(),
            fid: Fid::new(1 << 34, 100),
            hash: number,
            file_type: None,
        };
        let mut entries: Vec<DirEntry> = names.map(entry).collect();
        entries.insert(0, DirEntry { name: b".".to_vec(), ..entry(0) });
        DirPage { entries, next }
    }

    /// The numbers that are to be asked for ahead.
    fn ask(ahead: &mut StatAhead, number: u64) -> Vec<u64> {
        let next = ahead.follow(DIR, number.to_string().as_bytes());
        assert!(next.are_listed || next.names.is_empty());
        next.names.iter().map(|name| String::from_utf8_lossy(name).parse().unwrap()).collect()
    }

    #[test]
    fn who_asks_in_the_order_of_the_listing_is_followed() {
        let mut ahead = StatAhead::new(20, 1000);
        ahead.listed(DIR, 0, &page(0..40, Some(40)));
        assert_eq!(ask(&mut ahead, 0), []);
        assert_eq!(ask(&mut ahead, 0), [], "the same name again");
        assert_eq!(ask(&mut ahead, 1), Vec::from_iter(2..10));
        assert_eq!(ask(&mut ahead, 1), []);
        // The window grows up to its limit.
        assert_eq!(ask(&mut ahead, 2), Vec::from_iter(10..19));
        // Not one by one.
        for number in 3..6 {
            assert_eq!(ask(&mut ahead, number), []);
        }
        assert_eq!(ask(&mut ahead, 6), Vec::from_iter(19..27));
        assert_eq!(ask(&mut ahead, 9), []);
        // Some were left out.
        assert_eq!(ask(&mut ahead, 14), Vec::from_iter(27..35));
        // These are too far away, or behind.
        assert_eq!(ask(&mut ahead, 30), []);
        assert_eq!(ask(&mut ahead, 3), []);
        ahead.listed(DIR, 40, &page(40..50, None));
        let all: Vec<u64> = (10..50).flat_map(|number| ask(&mut ahead, number)).collect();
        assert_eq!(all, Vec::from_iter(35..50), "each is asked for once");
        assert!(ahead.listings.is_empty(), "it is over");
    }

    #[test]
    fn a_new_listing_starts_anew_and_0_follows_nobody() {
        let mut ahead = StatAhead::new(20, 64);
        for _ in 0..2 {
            ahead.listed(DIR, 0, &page(0..40, None));
            assert_eq!((ask(&mut ahead, 0).len(), ask(&mut ahead, 1).len()), (0, 8));
        }
        // A part of another listing replaces it.
        ahead.listed(DIR, 7, &page(7..9, None));
        assert_eq!(ask(&mut ahead, 2), []);
        let mut ahead = StatAhead::new(0, 1000);
        ahead.listed(DIR, 0, &page(0..40, None));
        assert!(ahead.listings.is_empty());
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut ahead = StatAhead::new(8, 1000);
        let dir = |number: u32| Fid::new(1 << 34, number);
        for number in 0..20 {
            ahead.listed(dir(number), 0, &page(0..5, None));
        }
        let known: Vec<u32> = ahead.listings.iter().map(|listing| listing.dir.oid).collect();
        assert_eq!(known, Vec::from_iter(12..20));
        ahead.listed(dir(50), 0, &page(0..NAMES_MAX as u64 + 9, None));
        assert_eq!(ahead.listings.len(), 1);
        assert_eq!(ahead.listings[0].names.len(), NAMES_MAX);
        // Who is followed keeps the place.
        ahead.listed(DIR, 0, &page(0..5, None));
        assert_eq!(ahead.listings.len(), 1, "the large one has gone");
        for number in 0..LISTINGS_MAX as u32 - 1 {
            ahead.listed(dir(number), 0, &page(0..5, None));
        }
        assert_eq!((ask(&mut ahead, 0).len(), ask(&mut ahead, 1).len()), (0, 3));
        ahead.listed(dir(99), 0, &page(0..5, None));
        assert!(ahead.listings.iter().any(|listing| listing.dir == DIR));
    }
}
