//! The clients of a target: connections, and the rules by which they are made.

use std::collections::BTreeMap;

use lustrine_fswire::connect::ConnectData;
use lustrine_fswire::connect::ConnectFlags2;
use lustrine_fswire::fid::Handle;
use lustrine_fswire::opcode::Opcode;
use lustrine_fswire::xid::{RepMbits, reply_match_bits};
use lustrine_lnet::time::Time;
use lustrine_wire::nid::{Nid, ProcessId};

/// Errors of Linux with which connects and requests are refused.
mod errno {
    pub(super) const EBUSY: i32 = 16;
    pub(super) const EPROTO: i32 = 71;
    pub(super) const EALREADY: i32 = 114;
}

/// The connection of a client.
#[derive(Clone, Debug)]
pub struct Export {
    /// The client, as it names itself.
    pub uuid: Vec<u8>,
    /// The server's handle, which requests carry.
    pub cookie: Handle,
    /// The client's handle, which callbacks carry.
    pub client_handle: Handle,
    /// The connects of the import so far: requests of earlier ones are dropped.
    pub conn_cnt: u32,
    /// Where the client is.
    pub peer: ProcessId,
    /// The NID of the server that the client uses.
    pub local: Nid,
    /// What was granted.
    pub granted: ConnectData,
    /// The client has the replies to all requests up to this [RPC-13].
    pub last_xid: u64,
    /// When the client was heard of.
    pub last_heard: Time,
}

impl Export {
    /// Where the reply to a request goes [RPC-2].
    pub fn reply_bits(&self, xid: u64, mbits: u64, opcode: Opcode) -> u64 {
        let granted = match self.granted.flags2.contains(ConnectFlags2::REP_MBITS) {
            true => RepMbits::Granted,
            false => RepMbits::Absent,
        };
        reply_match_bits(xid, mbits, opcode, granted)
    }
}

/// A connect that was asked for.
#[derive(Clone, Debug)]
pub struct ConnectArgs<'a> {
    /// The client, as it names itself.
    pub uuid: &'a [u8],
    /// The server's handle that the client knows; none in a first connect.
    pub cookie: Handle,
    /// The client's handle.
    pub client_handle: Handle,
    /// The number of the connect.
    pub conn_cnt: u32,
    /// Whether it is the first connect of the import.
    pub initial: bool,
    /// Who asks.
    pub peer: ProcessId,
    /// The NID that was asked.
    pub local: Nid,
    /// What the server grants.
    pub granted: ConnectData,
}

/// What came of a connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connected {
    /// The client is new.
    New(Handle),
    /// The client was connected before: its locks, open files and saved replies are there.
    Again(Handle),
}

/// The clients of a target.
#[derive(Debug)]
pub struct Exports {
    exports: BTreeMap<Handle, Export>,
    cookies: u64,
}

impl Exports {
    /// No clients. `seed` makes the handles other ones than those of an earlier life.
    pub fn new(seed: u64) -> Exports {
        Exports { exports: BTreeMap::new(), cookies: seed }
    }

    fn next_cookie(&mut self) -> Handle {
        // A step of SplitMix64, which visits all numbers.
        self.cookies = self.cookies.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.cookies;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        Handle((mixed ^ (mixed >> 31)).max(1))
    }

    /// Connects a client.
    ///
    /// `busy` says of an export whether requests of it are executed: a client that does not know
    /// its handle any more has to wait for them.
    ///
    /// # Errors
    /// The errno of Linux of the reply, positive.
    pub fn connect(
        &mut self,
        now: Time,
        args: &ConnectArgs<'_>,
        busy: impl FnOnce(Handle) -> bool,
    ) -> Result<Connected, i32> {
        let found = self.exports.values().find(|export| export.uuid == args.uuid);
        let Some(found) = found.map(|export| export.cookie) else {
            let cookie = self.next_cookie();
            let export = Export {
                uuid: args.uuid.to_vec(),
                cookie,
                client_handle: args.client_handle,
                conn_cnt: args.conn_cnt,
                peer: args.peer,
                local: args.local,
                granted: args.granted,
                last_xid: 0,
                last_heard: now,
            };
            self.exports.insert(cookie, export);
            return Ok(Connected::New(cookie));
        };
        let export = self.exports.get_mut(&found).expect("it was just found");
        let elsewhere = args.initial && args.peer.nid != export.peer.nid;
        if elsewhere || args.client_handle != export.client_handle {
            return Err(errno::EALREADY);
        }
        if args.cookie != found && busy(found) {
            return Err(errno::EBUSY);
        }
        if args.conn_cnt <= export.conn_cnt {
            return Err(errno::EALREADY);
        }
        export.conn_cnt = args.conn_cnt;
        export.peer = args.peer;
        export.local = args.local;
        export.granted = args.granted;
        export.last_xid = 0;
        export.last_heard = now;
        Ok(Connected::Again(found))
    }

    /// Takes note of a request. `None` if it belongs to an earlier connection and is to be dropped.
    ///
    /// # Errors
    /// EPROTO for a request whose reply the client has, as it said [RPC-13].
    pub fn heard(
        &mut self,
        now: Time,
        cookie: Handle,
        (conn_cnt, xid, last_xid): (u32, u64, u64),
        replay: bool,
    ) -> Option<Result<&Export, i32>> {
        let export = self.exports.get_mut(&cookie)?;
        if conn_cnt < export.conn_cnt {
            return None;
        }
        export.last_heard = now;
        if !replay && xid <= export.last_xid {
            return Some(Err(errno::EPROTO));
        }
        export.last_xid = export.last_xid.max(last_xid);
        Some(Ok(export))
    }

    /// Counts the silence of all clients from now on: none could be expected to say anything while
    /// what it last asked for waited for the others.
    pub fn forgive_silence(&mut self, now: Time) {
        self.exports.values_mut().for_each(|export| export.last_heard = now);
    }

    /// A client.
    pub fn get(&self, cookie: Handle) -> Option<&Export> {
        self.exports.get(&cookie)
    }

    /// The connection of a client that names itself so.
    pub fn find(&self, uuid: &[u8]) -> Option<&Export> {
        self.exports.values().find(|export| export.uuid == uuid)
    }

    /// Forgets a client.
    pub fn remove(&mut self, cookie: Handle) -> Option<Export> {
        self.exports.remove(&cookie)
    }

    /// All clients.
    pub fn iter(&self) -> impl Iterator<Item = &Export> {
        self.exports.values()
    }

    /// Number of clients.
    pub fn len(&self) -> usize {
        self.exports.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.exports.is_empty()
    }
}
