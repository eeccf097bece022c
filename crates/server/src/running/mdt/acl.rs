//! Access control lists of files, as acl(5) has them.
//!
//! A list that says no more than the permissions is not kept. Otherwise the permissions show the
//! owner's entry, the mask, and that for all others, and a change of the permissions changes these.

use std::sync::Arc;

use lustrine_fswire::codec::{Array, Writer};
use lustrine_fswire::mdt::{Acl, AclEntry, AclTag};

use crate::errno;
use crate::store::files::Inode;

/// The attribute that has the list of a file.
pub(super) const ACL: &[u8] = b"system.posix_acl_access";

/// The entries of a file's list; none if its permissions say all.
pub(super) fn entries(inode: &Inode) -> Vec<AclEntry> {
    let list = inode.xattrs.get(ACL).and_then(|list| Acl::parse(list));
    list.iter().flat_map(|list| list.entries.iter()).collect()
}

/// The entry of those that there can be one of.
fn find(entries: &mut [AclEntry], tag: AclTag) -> Option<&mut AclEntry> {
    entries.iter_mut().find(|entry| entry.tag == tag)
}

/// The entries of a list that a client wants to set.
///
/// # Errors
/// EINVAL for what is no list.
pub(super) fn parse(value: &[u8]) -> Result<Vec<AclEntry>, i32> {
    let list = Acl::parse(value).ok_or(errno::EINVAL)?;
    let entries: Vec<AclEntry> = list.entries.iter().collect();
    let count = |tag| entries.iter().filter(|entry| entry.tag == tag).count();
    let needed = [AclTag::USER_OBJ, AclTag::GROUP_OBJ, AclTag::OTHER];
    let named = count(AclTag::USER) + count(AclTag::GROUP);
    let masks = count(AclTag::MASK);
    let known = needed.len() + named + masks == entries.len();
    let is_valid = needed.into_iter().all(|tag| count(tag) == 1)
        && (masks == 1 || masks == 0 && named == 0)
        && entries.iter().all(|entry| entry.perm <= 7);
    if known && is_valid { Ok(entries) } else { Err(errno::EINVAL) }
}

/// Gives a file a list.
pub(super) fn set(inode: &mut Inode, entries: &[AclEntry]) {
    let perm = |tag| {
        let entry = entries.iter().find(|entry| entry.tag == tag);
        entry.map(|entry| u32::from(entry.perm))
    };
    let group = perm(AclTag::MASK).or(perm(AclTag::GROUP_OBJ)).unwrap_or(0);
    let (owner, other) = (perm(AclTag::USER_OBJ).unwrap_or(0), perm(AclTag::OTHER).unwrap_or(0));
    inode.mode = inode.mode & !0o777 | owner << 6 | group << 3 | other;
    let says_more = perm(AclTag::MASK).is_some();
    keep(inode, says_more.then_some(entries));
}

/// The permissions of a file were set: its list says the same.
pub(super) fn follow_mode(inode: &mut Inode) {
    let mut entries = entries(inode);
    if entries.is_empty() {
        return;
    }
    for (tag, shift) in [(AclTag::USER_OBJ, 6), (AclTag::MASK, 3), (AclTag::OTHER, 0)] {
        if let Some(entry) = find(&mut entries, tag) {
            entry.perm = (inode.mode >> shift & 7) as u16;
        }
    }
    keep(inode, Some(&entries));
}

fn keep(inode: &mut Inode, entries: Option<&[AclEntry]>) {
    let xattrs = Arc::make_mut(&mut inode.xattrs);
    let Some(entries) = entries else {
        xattrs.remove(ACL);
        return;
    };
    let mut value = Vec::new();
    let list = Acl { version: Acl::VERSION, entries: Array::from(entries) };
    list.write(&mut Writer::new(&mut value));
    xattrs.insert(ACL.to_vec(), value);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(tag: AclTag, perm: u16, id: u32) -> AclEntry {
        AclEntry { tag, perm, id }
    }

    fn value(entries: &[AclEntry]) -> Vec<u8> {
        let mut value = Vec::new();
        let list = Acl { version: Acl::VERSION, entries: Array::from(entries) };
        list.write(&mut Writer::new(&mut value));
        value
    }

    #[test]
    fn permissions_and_lists_follow_each_other() {
        const NONE: u32 = u32::MAX;
        let plain = [
            entry(AclTag::USER_OBJ, 7, NONE),
            entry(AclTag::GROUP_OBJ, 5, NONE),
            entry(AclTag::OTHER, 0, NONE),
        ];
        let mut inode = Inode { mode: 0o042_700, ..Inode::default() };
        set(&mut inode, &parse(&value(&plain)).unwrap());
        assert_eq!((inode.mode, inode.xattrs.len()), (0o042_750, 0));
        let named = [&plain[..], &[entry(AclTag::USER, 7, 9), entry(AclTag::MASK, 1, NONE)]];
        let named = named.concat();
        set(&mut inode, &parse(&value(&named)).unwrap());
        assert_eq!((inode.mode, entries(&inode)), (0o042_710, named.clone()));
        inode.mode = 0o042_465;
        follow_mode(&mut inode);
        let perms: Vec<u16> = entries(&inode).iter().map(|entry| entry.perm).collect();
        assert_eq!(perms, [4, 5, 5, 7, 6], "the group's own entry and the named one stay");
        for bad in [&plain[..2], &named[..4], &[&named[..], &named[4..]].concat()] {
            assert_eq!(parse(&value(bad)), Err(errno::EINVAL), "{bad:?}");
        }
        assert_eq!(parse(b"junk"), Err(errno::EINVAL));
        assert_eq!(
            parse(&value(&[&named[1..], &[entry(AclTag::USER_OBJ, 8, NONE)]].concat())),
            Err(errno::EINVAL)
        );
    }
}
