//! What the client answers at once from what it keeps: without a turn of its event loop, so that a
//! thread that uses the client between two turns need not wait for one.
//!
//! An answer is for a caller, or for anyone: then it does not matter who asks. Anyone may know the
//! names in a directory that all users may search. A user who has found a file by a name may know
//! its attributes.

use lustrine_fswire::fid::Fid;
use lustrine_lnet::service::Turn;
use lustrine_lnet::time::Time;

use super::attr_cache::Named;
use super::statahead::NextNames;
use super::validity::Valid;
use super::{Caller, Client, xattr};
use crate::attr::Attr;
use crate::error::{ClientError, Outcome, errno};

/// A file as it is known under locks: all attributes, with what its objects know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cached {
    /// What [`Client::getattr`] and [`Client::complete`] would find.
    pub attr: Attr,
    /// What [`Client::valid`] says of it.
    pub valid: Valid,
}

/// Files that are to be asked for because a program looks at the files of a directory in their
/// order: [`Client::start_ahead`] asks for them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ahead {
    dir: Fid,
    next: NextNames,
}

impl Client {
    /// The attributes of a file that the user of the client has looked up, if all of them are
    /// known.
    pub fn cached_attr(&mut self, now: Time, fid: Fid) -> Option<Cached> {
        let attr = self.peek_attr(now, fid)?;
        let (attr, objects) = self.with_objects(attr)?;
        self.attrs.count_hit(fid, now);
        let valid = Valid { attr: self.attr_valid(now, &attr, objects), ..Valid::default() };
        Some(Cached { attr, valid })
    }

    /// The file that a name leads to, or ENOENT, if that is known and the caller may know it; with
    /// no caller, if anyone may. And what is to be asked for ahead, if the caller goes through the
    /// directory.
    pub fn cached_lookup(
        &mut self,
        now: Time,
        caller: Option<Caller>,
        (dir, name): (Fid, &[u8]),
    ) -> Option<(Outcome<Cached>, Option<Ahead>)> {
        let home = self.home_of(dir, name)?;
        if self.unmounted || caller.is_none() && !self.is_open_to_all(dir) {
            return None;
        }
        let found = match self.attrs.peek_name((dir, home), name, caller.as_ref(), now) {
            Named::Unknown => return None,
            Named::Missing => {
                self.attrs.count_name_hit(dir, None, now);
                self.ahead.note_missing(name);
                return Some((Err(ClientError::Errno(errno::ENOENT)), None));
            }
            Named::File(attr) => {
                let (attr, objects) = self.with_objects(attr)?;
                self.attrs.count_name_hit(dir, Some(attr.fid), now);
                let entry = self.entry_valid(now, (dir, name), attr.fid);
                let valid = Valid { entry, attr: self.attr_valid(now, &attr, objects) };
                Cached { attr, valid }
            }
        };
        Some((Ok(found), self.ahead_of(now, caller, dir, name)))
    }

    /// Whether [`Client::cached_xattr`] can know an extended attribute of this name.
    pub fn knows_xattr(name: &[u8]) -> bool {
        name == xattr::ACL
    }

    /// The value of an extended attribute of a file that the user of the client has looked up, or
    /// why there is none, if that is known.
    pub fn cached_xattr(
        &mut self,
        now: Time,
        (fid, name): (Fid, &[u8]),
    ) -> Option<Outcome<Vec<u8>>> {
        let has_acl = Client::knows_xattr(name).then(|| self.peek_attr(now, fid)?.has_acl)?;
        (has_acl == Some(false)).then(|| {
            self.attrs.count_hit(fid, now);
            Err(ClientError::Errno(errno::ENODATA))
        })
    }

    fn peek_attr(&self, now: Time, fid: Fid) -> Option<Attr> {
        (!self.unmounted).then(|| self.attrs.peek(fid, None, now))?
    }

    /// The next files of a directory that are not known, if a program asks for all of them.
    fn ahead_of(
        &mut self,
        now: Time,
        caller: Option<Caller>,
        dir: Fid,
        name: &[u8],
    ) -> Option<Ahead> {
        let mut next = self.next_names(now, caller.as_ref(), dir, name);
        next.names.retain(|name| match self.peek_name(now, caller.as_ref(), dir, name) {
            Named::File(attr) => self.with_objects(attr).is_none(),
            Named::Missing => false,
            Named::Unknown => true,
        });
        (!next.names.is_empty()).then_some(Ahead { dir, next })
    }

    /// Asks servers for files before a program does.
    pub fn start_ahead(&mut self, turn: &mut Turn<'_>, caller: Caller, ahead: Ahead) {
        if !self.unmounted {
            self.names_ahead(turn, caller, ahead.dir, ahead.next);
        }
    }
}
