//! The events that a user of one shard must get: exactly one final event per descriptor, and no
//! events that were not requested.

use std::collections::BTreeMap;

use lustrine_lnet::event::{Event, EventKind};
use lustrine_lnet::md::{MdKey, Owner};
use lustrine_lnet::memory::VecMemory;
use lustrine_lnet::memory::{Memory, Span};

/// A descriptor that the user passed to the core.
#[derive(Debug)]
struct Account {
    key: MdKey,
    spans: Vec<Span>,
    /// PUTs and GETs started from it.
    puts: u32,
    gets: u32,
    acks_wanted: u32,
    sends: u32,
    acks: u32,
    replies: u32,
    passive: bool,
    ended: bool,
}

/// All descriptors of one node's user, by the value of `user` that they carry.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    accounts: BTreeMap<u64, Account>,
}

impl Ledger {
    /// The value of the next descriptor.
    pub(super) fn next_mark(&self) -> u64 {
        self.accounts.len() as u64
    }

    pub(super) fn open(&mut self, key: MdKey, spans: Vec<Span>, passive: bool) {
        let mark = self.next_mark();
        let account = Account {
            key,
            spans,
            puts: 0,
            gets: 0,
            acks_wanted: 0,
            sends: 0,
            acks: 0,
            replies: 0,
            passive,
            ended: false,
        };
        self.accounts.insert(mark, account);
    }

    /// A descriptor passed at any time, ended or not.
    pub(super) fn key(&self, which: u8) -> Option<MdKey> {
        let count = self.accounts.len().max(1);
        self.accounts.get(&(u64::from(which) % count as u64)).map(|account| account.key)
    }

    fn account(&mut self, key: MdKey) -> &mut Account {
        let found = self.accounts.values_mut().find(|account| account.key == key);
        found.expect("the operation was on a known descriptor")
    }

    pub(super) fn put_started(&mut self, key: MdKey, ack: bool) {
        let account = self.account(key);
        account.puts += 1;
        account.acks_wanted += u32::from(ack);
    }

    pub(super) fn get_started(&mut self, key: MdKey) {
        self.account(key).gets += 1;
    }

    /// Records an event; the last one frees the memory, so that a later use is detected.
    pub(super) fn book(&mut self, event: &Event, memory: &mut VecMemory) {
        assert_eq!(event.owner, Owner(1), "{event:?}");
        let account = self.accounts.get_mut(&event.user).expect("an event of a known descriptor");
        assert_eq!(event.md, account.key);
        assert!(!account.ended, "an event after the last one: {event:?}");
        let length: u32 = account.spans.iter().map(|span| span.len).sum();
        match event.kind {
            EventKind::Send => account.sends += 1,
            EventKind::Ack => account.acks += 1,
            EventKind::Reply => account.replies += 1,
            EventKind::Put | EventKind::Get => {
                assert!(account.passive, "{event:?}");
                assert!(event.offset <= length && event.moved <= length - event.offset);
            }
            EventKind::Unlink => assert!(event.unlinked, "{event:?}"),
        }
        assert!(account.sends <= account.puts + account.gets, "{event:?} {account:?}");
        assert!(account.acks <= account.acks_wanted, "{event:?} {account:?}");
        assert!(account.replies <= account.gets, "{event:?} {account:?}");
        if event.unlinked {
            account.ended = true;
            account.spans.drain(..).for_each(|span| memory.free(span));
        }
    }

    /// Descriptors that have not had their last event.
    pub(super) fn open_keys(&self) -> Vec<MdKey> {
        let open = self.accounts.values().filter(|account| !account.ended);
        open.map(|account| account.key).collect()
    }

    /// Asserts that everything requested has ended.
    pub(super) fn assert_settled(&self) {
        for (mark, account) in &self.accounts {
            assert!(account.ended, "descriptor {mark} never ended: {account:?}");
            assert_eq!(account.sends, account.puts + account.gets, "{mark}: {account:?}");
        }
    }
}
