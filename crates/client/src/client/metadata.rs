//! Operations that read metadata, and what all operations on metadata need.

use lustrine_fswire::dir::{HASH_END, PageFlags, pages};
use lustrine_fswire::fid::{Fid, FldOp, SeqOp, SeqRange};
use lustrine_fswire::mdt::{AclEntry, LudaFlags, MdValid, MdtBody};
use lustrine_fswire::opcode::portal;
use lustrine_fswire::rpc::{AclBytes, Request, mds, obd};
use lustrine_fswire::text::Text;
use lustrine_lnet::service::Turn;
use lustrine_ptlrpc::ImportKey;

use super::striped::NameUse;
use super::{CallArgs, Caller, Client, Data, Done, or_again};
use crate::attr::{Attr, DirEntry, DirPage, Space};
use crate::error::{ClientError, Outcome, errno, malformed};
use crate::offers;
use crate::reply::reply_of;

/// Longest name in bytes.
const NAME_MAX: usize = 255;
/// Bytes of a page of a directory [MDT-14].
const PAGE_LEN: u64 = 4096;
/// Room for a layout unless the server says that its layouts are longer.
const EA_ROOM_MIN: u32 = 4096;
/// Largest room for a layout.
const EA_ROOM_MAX: u32 = 65536;
/// Bytes of the target of a symbolic link, with a zero byte.
pub(super) const LINK_ROOM: u32 = 4096;

impl Client {
    /// Asks the metadata server for the attributes of a file, without a lock.
    pub(super) fn getattr_uncached(
        &mut self,
        turn: &mut Turn<'_>,
        caller: Caller,
        fid: Fid,
        done: Done<Attr>,
    ) {
        self.ask_attributes(turn, caller, (fid, wanted()), done, |attr, _| Ok(attr));
    }

    /// The same with the access control list of the file; it is empty if the permissions say all.
    pub fn getattr_with_acl(
        &mut self,
        turn: &mut Turn<'_>,
        caller: Caller,
        fid: Fid,
        done: Done<(Attr, Vec<AclEntry>)>,
    ) {
        if let Some(attr) = self.kept_attr(turn.now, caller, fid)
            && attr.has_acl == Some(false)
        {
            return done(self, turn, Ok((attr, Vec::new())));
        }
        self.ask_attributes(turn, caller, (fid, wanted()), done, |attr, acl| {
            let acl = match acl.0 {
                [] => Vec::new(),
                _ => {
                    let acl = acl.acl().ok_or_else(|| malformed("the access control list"))?;
                    acl.entries.iter().collect()
                }
            };
            Ok((attr, acl))
        });
    }

    fn ask_attributes<T: 'static>(
        &mut self,
        turn: &mut Turn<'_>,
        caller: Caller,
        (fid, valid): (Fid, MdValid),
        done: Done<T>,
        read: impl FnOnce(Attr, AclBytes<'_>) -> Outcome<T> + Send + 'static,
    ) {
        self.at_mdt_of(turn, fid, done, move |client, turn, import, done| {
            let body = caller.body(MdtBody {
                fid1: fid,
                valid,
                eadatasize: client.ea_room(import),
                ..MdtBody::default()
            });
            let mut call = CallArgs::from(Request::MdsGetattr(mds::Getattr { body }));
            call.reply_len = 1024 + client.layout_room(import);
            call.caller = Some(caller);
            client.call(turn, import, call, move |client, turn, answer| {
                let found = answer.and_then(|answer| {
                    let reply = reply_of!(&answer.reply, MdsGetattr)?;
                    let attr = checked(Attr::of(&reply.body, reply.ea))?;
                    client.saw(&attr);
                    read(attr, reply.acl)
                });
                done(client, turn, found);
            });
        });
    }

    /// Looks a name up.
    pub fn lookup(
        &mut self,
        turn: &mut Turn<'_>,
        caller: Caller,
        parent: Fid,
        name: &[u8],
        done: Done<Attr>,
    ) {
        if let Err(error) = check_name(name) {
            return done(self, turn, Err(error));
        }
        let sought = name.to_vec();
        self.stat_ahead(turn, caller, parent, name);
        self.at_name(turn, (parent, name), NameUse::Find, done, move |client, turn, dir, done| {
            match client.home_of(parent, &sought) {
                Some(_) => client.lookup_kept(turn, caller, dir, sought, done),
                None => client.lookup_uncached(turn, caller, dir, sought, done),
            }
        });
    }

    /// Has the server look a name up in a directory or a stripe, without a lock.
    pub(super) fn lookup_uncached(
        &mut self,
        turn: &mut Turn<'_>,
        caller: Caller,
        dir: Fid,
        name: Vec<u8>,
        done: Done<Attr>,
    ) {
        self.lookup_again(turn, caller, (dir, name), LOOKUPS_MAX, done);
    }

    /// The same. While the file that the name leads to is gone, the name is looked up again,
    /// `lookups` times in all.
    pub(super) fn lookup_again(
        &mut self,
        turn: &mut Turn<'_>,
        caller: Caller,
        (dir, name): (Fid, Vec<u8>),
        lookups: u8,
        done: Done<Attr>,
    ) {
        self.at_mdt_of(turn, dir, done, move |client, turn, import, done| {
            let body = caller.body(MdtBody {
                fid1: dir,
                valid: wanted(),
                eadatasize: client.ea_room(import),
                ..MdtBody::default()
            });
            let text = name.clone();
            let request = mds::GetattrName { body, name: Text::new(&text) };
            let mut call = CallArgs::from(Request::MdsGetattrName(request));
            call.reply_len = 1024 + client.layout_room(import);
            call.caller = Some(caller);
            client.call(turn, import, call, move |client, turn, answer| {
                let found = answer.and_then(|answer| {
                    let reply = reply_of!(&answer.reply, MdsGetattrName)?;
                    let elsewhere = reply.body.valid.contains(MdValid::MDS);
                    Ok((Attr::of(&reply.body, reply.ea), elsewhere))
                });
                match found {
                    Ok((attr, true)) if attr.fid.is_sane() => {
                        let done = match lookups {
                            0..=1 => done,
                            _ => or_again(done, move |client, turn, done| {
                                client.lookup_again(turn, caller, (dir, name), lookups - 1, done);
                            }),
                        };
                        client.getattr(turn, caller, attr.fid, done);
                    }
                    Ok((attr, _)) => {
                        let attr = checked(attr).inspect(|attr| client.saw(attr));
                        done(client, turn, attr);
                    }
                    Err(error) => done(client, turn, Err(error)),
                }
            });
        });
    }

    /// Reads the target of a symbolic link.
    pub fn readlink(&mut self, turn: &mut Turn<'_>, caller: Caller, fid: Fid, done: Done<Vec<u8>>) {
        self.at_mdt_of(turn, fid, done, move |client, turn, import, done| {
            let body = caller.body(MdtBody {
                fid1: fid,
                // LINKNAME alone makes a server of 2.17 panic [MDT-20].
                valid: MdValid::GETATTR | MdValid::LINKNAME,
                eadatasize: LINK_ROOM,
                ..MdtBody::default()
            });
            let mut call = CallArgs::from(Request::MdsGetattr(mds::Getattr { body }));
            call.reply_len = 1024 + LINK_ROOM;
            call.caller = Some(caller);
            client.call_for(turn, import, call, done, |answer| {
                let reply = reply_of!(&answer.reply, MdsGetattr)?;
                if !reply.body.valid.contains(MdValid::LINKNAME) {
                    return Err(ClientError::Errno(errno::EINVAL));
                }
                // The text ends with one zero byte, and has no other.
                match reply.ea.0.split_last() {
                    Some((0, text)) if !text.is_empty() && !text.contains(&0) => Ok(text.to_vec()),
                    _ => Err(malformed("the target of a symbolic link")),
                }
            });
        });
    }

    /// Reads a part of a directory that is not striped, or of a stripe: at most so many bytes from
    /// a hash on.
    pub(super) fn read_part(
        &mut self,
        turn: &mut Turn<'_>,
        caller: Caller,
        (fid, from): (Fid, u64),
        most: u64,
        done: Done<DirPage>,
    ) {
        self.at_mdt_of(turn, fid, done, move |client, turn, import, done| {
            let granted = client.rpc.import(import).map_or(0, |import| import.granted().brw_size);
            let len = most.min(u64::from(granted.clamp(4096, offers::MDT_BRW)));
            let len = (len / PAGE_LEN * PAGE_LEN).max(PAGE_LEN);
            let body = caller.body(MdtBody {
                fid1: fid,
                valid: MdValid::ID,
                size: from,
                nlink: len as u32,
                mode: (LudaFlags::FID | LudaFlags::TYPE).bits(),
                ..MdtBody::default()
            });
            let mut call = CallArgs::from(Request::MdsReadpage(mds::Getattr { body }));
            call.bulk = Some((portal::MDS_BULK, Data::In { offset: 0, len }));
            call.caller = Some(caller);
            client.call_for(turn, import, call, done, move |answer| {
                reply_of!(&answer.reply, MdsReadpage)?;
                dir_page(&answer.data, from)
            });
        });
    }
    /// Asks for the space of the whole file system.
    pub fn statfs(&mut self, turn: &mut Turn<'_>, done: Done<Space>) {
        let import = match self.mdt(0) {
            Ok(import) => import,
            Err(error) => return done(self, turn, Err(error)),
        };
        let body = MdtBody { valid: MdValid::AGSTATFS, ..MdtBody::default() };
        let request = Request::MdsStatfs(mds::Statfs { body: Some(body) });
        self.call_for(turn, import, request, done, |answer| {
            let reply = reply_of!(&answer.reply, MdsStatfs)?;
            Ok(Space::from(reply.statfs))
        });
    }
    /// Goes on with the import of the metadata target that has a file, which is asked for first
    /// if it is not known.
    pub(crate) fn at_mdt_of<T: 'static>(
        &mut self,
        turn: &mut Turn<'_>,
        fid: Fid,
        done: Done<T>,
        then: impl FnOnce(&mut Client, &mut Turn<'_>, ImportKey, Done<T>) + Send + 'static,
    ) {
        match self.known_mdt_of(fid) {
            Some(Ok(import)) => return then(self, turn, import, done),
            Some(Err(error)) => return done(self, turn, Err(error)),
            None => {}
        }
        let import = match self.mdt(0) {
            Ok(import) => import,
            Err(error) => return done(self, turn, Err(error)),
        };
        let range = SeqRange { start: fid.seq, ..SeqRange::default() };
        let request = Request::FldQuery(obd::FldQuery { op: FldOp::LOOKUP, range });
        self.call(turn, import, request, move |client, turn, answer| {
            let found = answer.and_then(|answer| {
                let range = reply_of!(&answer.reply, FldQuery)?.range;
                match range.contains(fid.seq) {
                    true => Ok(range),
                    false => Err(malformed("the owner of another sequence")),
                }
            });
            let import = found.and_then(|range| {
                client.fids.learn(range.start, range.end, range.index);
                client.mdt(range.index)
            });
            match import {
                Ok(import) => then(client, turn, import, done),
                Err(error) => done(client, turn, Err(error)),
            }
        });
    }
    /// Goes on with a FID for a new file in a directory.
    pub(super) fn with_new_fid<T: 'static>(
        &mut self,
        turn: &mut Turn<'_>,
        parent: Fid,
        done: Done<T>,
        then: impl FnOnce(&mut Client, &mut Turn<'_>, ImportKey, Fid, Done<T>) + Send + 'static,
    ) {
        self.at_mdt_of(turn, parent, done, move |client, turn, import, done| {
            let index =
                client.mdts.iter().find(|(_, key)| **key == import).map(|(index, _)| *index);
            let index = index.unwrap_or_default();
            if let Some(fid) = client.fids.take(index) {
                return then(client, turn, import, fid, done);
            }
            let query = obd::SeqQuery { op: SeqOp::ALLOC_META, range: SeqRange::default() };
            client.call(turn, import, Request::SeqQuery(query), move |client, turn, answer| {
                let given = answer.and_then(|answer| {
                    let range = reply_of!(&answer.reply, SeqQuery)?.range;
                    match range.start >= Fid::SEQ_NORMAL && range.start < range.end {
                        true => Ok(range.start),
                        false => Err(malformed("a sequence that no file can have")),
                    }
                });
                match given {
                    Ok(sequence) => {
                        // Two operations may have asked: each uses what it was given.
                        client.fids.give(index, sequence);
                        let fid = client.fids.take(index).expect("the sequence is new");
                        then(client, turn, import, fid, done);
                    }
                    Err(error) => done(client, turn, Err(error)),
                }
            });
        });
    }
    /// The attributes of a file were seen.
    pub(super) fn saw(&mut self, attr: &Attr) {
        if attr.layout.len() as u64 > u64::from(self.layouts_seen) {
            self.layouts_seen = (attr.layout.len() as u32).next_power_of_two();
        }
        self.dirs.seen(attr);
    }

    /// Room for a layout in the reply of a target: for one as long as those that were seen. If it
    /// is longer, the reply is asked for again.
    pub(super) fn layout_room(&self, import: ImportKey) -> u32 {
        self.layouts_seen.min(self.ea_room(import))
    }

    /// The longest layout that a target may send.
    pub(crate) fn ea_room(&self, import: ImportKey) -> u32 {
        let granted = self.rpc.import(import).map_or(0, |import| import.granted().max_easize);
        granted.clamp(EA_ROOM_MIN, EA_ROOM_MAX)
    }
}

/// How often a name is looked up if it leads to a file on another target which does not have it:
/// another client has replaced the file meanwhile, or the entry is wrong.
pub(super) const LOOKUPS_MAX: u8 = 4;

/// What every request for attributes asks for.
pub(super) fn wanted() -> MdValid {
    MdValid::GETATTR | MdValid::EASIZE | MdValid::DIREA | MdValid::MEA | MdValid::ACL
}

pub(super) fn check_name(name: &[u8]) -> Outcome<()> {
    match name {
        [] => Err(ClientError::Errno(errno::ENOENT)),
        b"." | b".." => Err(ClientError::Errno(errno::EINVAL)),
        _ if name.len() > NAME_MAX => Err(ClientError::Errno(errno::ENAMETOOLONG)),
        _ if name.iter().any(|byte| b"\0/".contains(byte)) => {
            Err(ClientError::Errno(errno::EINVAL))
        }
        _ => Ok(()),
    }
}

/// A server never names a file by a FID that no file has.
pub(super) fn checked(attr: Attr) -> Outcome<Attr> {
    if attr.fid.is_sane() { Ok(attr) } else { Err(malformed("attributes without a FID")) }
}

/// The entries of a part of a directory that starts at a hash. They come in the order of hashes: a
/// position in a listing is a hash, and one that leads back would have it start again [MDT-14].
pub(super) fn dir_page(data: &[u8], from: u64) -> Outcome<DirPage> {
    let mut part = DirPage::default();
    let mut next = from;
    let mut last = from;
    let mut collides = false;
    for page in pages(data).map_err(|error| malformed(&error.to_string()))? {
        for entry in page.entries() {
            let entry = entry.map_err(|error| malformed(&error.to_string()))?;
            let hash = entry.header.hash;
            if hash < last || hash >= HASH_END {
                return Err(malformed("a directory that is not in the order of hashes"));
            }
            last = hash;
            part.entries.push(DirEntry {
                name: entry.name.to_vec(),
                fid: entry.header.fid,
                hash,
                file_type: entry.file_type,
            });
        }
        next = page.header.hash_end;
        if next < last {
            return Err(malformed("a page of a directory that leads back"));
        }
        collides = page.header.flags.contains(PageFlags::COLLIDE);
    }
    if next == HASH_END {
        return Ok(part);
    }
    if collides {
        // The next part starts with the last entries of this one. If there are only these, they
        // are left out there.
        let other = |entry: &DirEntry| entry.hash != next;
        let kept = part.entries.iter().rposition(other).map_or(0, |last| last + 1);
        if kept == 0 {
            next = next.saturating_add(1);
        } else {
            part.entries.truncate(kept);
        }
    }
    // A server that leads back, or on without entries, would be asked without end.
    if part.entries.is_empty() || next <= from {
        return Err(malformed("a part of a directory that leads nowhere"));
    }
    part.next = Some(next);
    Ok(part)
}

#[cfg(test)]
mod tests {
    use lustrine_fswire::dir::PageBuilder;

    use super::*;

    fn page(names: &[(&str, u64)], end: u64, collide: PageFlags) -> Vec<u8> {
        let mut page = PageBuilder::new(names.first().map_or(0, |(_, hash)| *hash));
        for (name, hash) in names {
            assert!(page.push(Fid::new(1 << 34, 1), *hash, name.as_bytes(), 0x8000));
        }
        page.finish(end, collide).to_vec()
    }

    fn names(page: &DirPage) -> Vec<&str> {
        page.entries.iter().map(|entry| core::str::from_utf8(&entry.name).unwrap()).collect()
    }

    #[test]
    fn a_directory_is_read_part_by_part() {
        let mut data = page(&[("a", 1), ("b", 5)], 9, PageFlags::empty());
        data.extend(page(&[("c", 9)], HASH_END, PageFlags::COLLIDE));
        let whole = dir_page(&data, 0).unwrap();
        assert_eq!((names(&whole), whole.next), (vec!["a", "b", "c"], None));
        let part = dir_page(&page(&[("a", 1)], 5, PageFlags::empty()), 0).unwrap();
        assert_eq!(part.next, Some(5));
    }

    #[test]
    fn entries_that_come_twice_are_shown_once() {
        let first = dir_page(&page(&[("a", 1), ("b", 5)], 5, PageFlags::COLLIDE), 0).unwrap();
        assert_eq!((names(&first), first.next), (vec!["a"], Some(5)));
        // If all have this hash, the next part starts behind them.
        let only = dir_page(&page(&[("b", 5), ("c", 5)], 5, PageFlags::COLLIDE), 5).unwrap();
        assert_eq!((names(&only), only.next), (vec!["b", "c"], Some(6)));
    }

    #[test]
    fn parts_that_lead_nowhere_are_errors() {
        assert!(dir_page(&[], 0).is_err());
        assert!(dir_page(&[0; 100], 0).is_err());
        assert!(dir_page(&page(&[("a", 9)], 3, PageFlags::empty()), 5).is_err());
        assert!(dir_page(&page(&[("a", 9)], 5, PageFlags::empty()), 5).is_err());
        assert!(dir_page(&page(&[("a", 9), ("b", 5)], 5, PageFlags::COLLIDE), 5).is_err());
        assert!(dir_page(&page(&[], 5, PageFlags::empty()), 5).is_err());
        assert!(dir_page(&page(&[], 6, PageFlags::empty()), 5).is_err());
        assert!(dir_page(&page(&[("a", 0)], 0, PageFlags::empty()), 0).is_err());
    }

    /// A position that is a hash of an entry leads a listing back if the entries are in disorder.
    #[test]
    fn entries_in_disorder_are_errors() {
        let end = |names: &[(&str, u64)]| dir_page(&page(names, HASH_END, PageFlags::empty()), 5);
        assert!(end(&[("a", 5), ("b", 5), ("c", 9)]).is_ok());
        assert!(end(&[("a", 9), ("b", 5)]).is_err());
        assert!(end(&[("a", 5), ("b", 0), ("c", 9)]).is_err());
        assert!(end(&[("a", 4)]).is_err());
        assert!(end(&[("a", HASH_END)]).is_err());
        // Of several pages too.
        let mut data = page(&[("a", 5)], 9, PageFlags::empty());
        data.extend(page(&[("b", 4)], HASH_END, PageFlags::empty()));
        assert!(dir_page(&data, 0).is_err());
        let mut data = page(&[("a", 5)], 3, PageFlags::empty());
        data.extend(page(&[("b", 9)], HASH_END, PageFlags::empty()));
        assert!(dir_page(&data, 0).is_err());
    }
}
