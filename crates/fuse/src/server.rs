//! What the kernel asks for, request by request.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Instant, SystemTime};

use fuser::{
    AccessFlags, BsdFileFlags, Errno, FileHandle, Filesystem, INodeNo, InitFlags, KernelConfig,
    LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory,
    ReplyEmpty, ReplyEntry, ReplyLock, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr,
    Request, TimeOrNow, WriteFlags,
};
use lustrine_client::{Attr, Caller, Changes, Client, ClientError, Done, Outcome, SetTime};
use lustrine_fswire::fid::Fid;
use lustrine_fswire::mdt::AclEntry;
use lustrine_lnet::service::Turn;

use crate::after_closes::SettingMtime;
use crate::closes::Awaits;
use crate::convert::{seconds, without_ids};
use crate::options::Locks;
use crate::reply::Asked;
use crate::requester::{CAP_FOWNER, MAY_WRITE, Requester, Seen};
use crate::settings;
use crate::shared::Shared;
use crate::status;

/// Bytes of the largest read and the largest write.
const DATA_MAX: u32 = 1 << 20;
/// Most requests of the kernel's own in flight, such as those of asynchronous reads.
const BACKGROUND_MAX: u16 = 256;

/// The file system as the kernel sees it: what the client knows is answered at once, and other
/// requests are handed to its event loop, which answers them. No thread waits for a server.
pub(crate) struct Server {
    pub(crate) shared: Arc<Shared>,
    /// Whether extended attributes of users are allowed.
    pub(crate) user_xattr: bool,
    /// What locks do.
    pub(crate) locks: Locks,
    /// Whether each write is at the servers when it is answered.
    pub(crate) sync: bool,
    /// Whether data are kept.
    pub(crate) caches: bool,
    /// What is mounted, as `/proc/mounts` shows it.
    pub(crate) source: String,
}

/// What the kernel may do, where it offers it.
const WANTED: [InitFlags; 6] = [
    // Parts of a large append come side by side then, see `AppendOrder`.
    InitFlags::FUSE_ASYNC_DIO,
    InitFlags::FUSE_PARALLEL_DIROPS,
    // The server applies the umask: a default ACL of the directory replaces it.
    InitFlags::FUSE_DONT_MASK,
    // Files without a cache can be mapped and shared.
    InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP,
    // What is mapped is read again when the file has changed.
    InitFlags::FUSE_AUTO_INVAL_DATA,
    InitFlags::FUSE_ABORT_ERROR,
];

impl Filesystem for Server {
    fn destroy(&mut self) {
        // fuser 0.18.0 now unmounts the directory although that has been done, and hits what was
        // mounted there since (cberner/fuser#703, which no release has): this thread stays.
        self.shared.session_ended();
        if self.shared.is_unmounted() {
            loop {
                thread::park();
            }
        }
    }

    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        for wanted in WANTED {
            // An older kernel does without.
            let _ = config.add_capabilities(wanted);
        }
        if self.locks != Locks::Local {
            // The kernel asks; otherwise it keeps the locks by itself.
            let locks = InitFlags::FUSE_POSIX_LOCKS | InitFlags::FUSE_FLOCK_LOCKS;
            let _ = config.add_capabilities(locks);
        }
        // Each fails only beyond a limit that is larger than this.
        let _ = config.set_max_write(DATA_MAX);
        let _ = config.set_max_readahead(DATA_MAX);
        let _ = config.set_max_background(BACKGROUND_MAX);
        // Lustre's times are whole seconds.
        let _ = config.set_time_granularity(std::time::Duration::from_secs(1));
        Ok(())
    }

    fn lookup(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.look_up_name(request, parent, name, reply);
    }

    fn forget(&self, _: &Request, number: INodeNo, lookups: u64) {
        let remains = self.shared.nodes().forget(number.0, lookups);
        if let Some(fid) = remains {
            // When it was looked up again, the kernel could not invalidate anything of it.
            self.shared.post(move |client, _| client.invalidate(fid));
        }
    }

    fn getattr(&self, request: &Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        self.show_attributes(request, number, reply);
    }

    fn setattr(
        &self,
        request: &Request,
        number: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _: Option<SystemTime>,
        handle: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let asked = Asked::of_file(&self.shared, request, reply);
        let Some((asked, node)) = asked.with(self.shared.node(number.0)) else { return };
        let now = SystemTime::now();
        let at = |time: TimeOrNow| match time {
            TimeOrNow::Now => SetTime::At(seconds(now)),
            TimeOrNow::SpecificTime(time) => SetTime::At(seconds(time)),
        };
        let open = handle.is_some();
        let uid = uid.map(|uid| self.shared.ids.user(uid));
        let gid = gid.map(|gid| self.shared.ids.group(gid));
        let (set_atime, set_mtime) = (atime.map(at), mtime.map(at));
        // With an owner the kernel sends the mode that it knows without the set-user-id and
        // set-group-id bits, and it knows of no sticky bit: the server clears them from its own.
        let mode = mode.filter(|_| uid.is_none() && gid.is_none());
        let changes = Changes {
            mode,
            clears_ids: false,
            uid,
            gid,
            size,
            atime: set_atime,
            mtime: set_mtime,
            open,
        };
        // The new group first: the owner of a file needs no right of its group.
        let groups: Vec<u32> = [gid, Some(node.gid)].into_iter().flatten().collect();
        let requester = self.shared.requester(request);
        let file = handle.and_then(|handle| self.shared.file(handle.0).ok());
        let opener = file.as_ref().map(|file| file.caller);
        let mut caller = who_changes(requester.caller(&groups), opener, &changes);
        let new_mtime = match mtime {
            Some(TimeOrNow::SpecificTime(time)) => Some(seconds(time)),
            _ => None,
        };
        let shared = Arc::clone(&self.shared);
        let note_times = move |setting: Option<SettingMtime>| {
            if let Some(SetTime::At(atime)) = set_atime {
                shared.accessed_at(node.fid, atime);
            }
            match (setting, size, mtime) {
                (Some(setting), ..) => setting.finish(),
                (None, _, Some(_)) | (None, Some(_), None) => {
                    shared.nodes().set_mtime(node.fid, None);
                }
                (None, None, None) => {}
            }
        };
        let size_alone = Changes { size, open, ..Changes::default() };
        if let Some((file, size)) = file.zip(size).filter(|_| changes == size_alone)
            && file.state().failed.take(Instant::now())
        {
            let note_times = move || note_times(None);
            let done =
                move |asked: Asked<_>| after_success(note_times, asked.attributes_set(caller));
            return self.cut_after_failure(asked, (caller, node.fid), (size, changes), done);
        }
        if atime.is_none() && mtime.is_none() {
            return self.shared.post(move |client, turn| {
                // A size that no program waits for any more would cut what others write later.
                if asked.is_interrupted() {
                    return;
                }
                let done = after_success(move || note_times(None), asked.attributes_set(caller));
                set_attributes(client, turn, (requester, caller), node.fid, changes, done);
            });
        }
        // As kernel clients do: both times are set to now by all who may write the file.
        let touches = matches!((atime, mtime), (Some(TimeOrNow::Now), Some(TimeOrNow::Now)))
            && (mode, uid, gid, size) == (None, None, None, None);
        let set = move |client: &mut Client, turn: &mut Turn<'_>| {
            if asked.is_interrupted() {
                return;
            }
            let then = asked.done(move |asked, client, turn, (attr, acl): Seen| {
                match times_allowed(&requester, &attr, &acl, touches) {
                    Ok(capability) => caller.capabilities |= capability,
                    Err(error) => return asked.fail(error),
                }
                // What is sent at a close meanwhile must not set another one. Who may not set the
                // time has no part in that.
                let setting =
                    new_mtime.map(|mtime| SettingMtime::begin(&asked.shared, node.fid, mtime));
                let done = after_success(move || note_times(setting), asked.attributes_set(caller));
                client.set_attributes(turn, caller, attr.fid, changes, done);
            });
            client.getattr_with_acl(turn, caller, node.fid, then);
        };
        match new_mtime.is_some() {
            true => self.shared.post_after_closes(node.fid, Awaits::Times, set),
            false => self.shared.post(set),
        }
    }

    fn readlink(&self, request: &Request, number: INodeNo, reply: ReplyData) {
        let asked = Asked::of_file(&self.shared, request, reply);
        let Some((asked, node)) = asked.with(self.shared.node(number.0)) else { return };
        let caller = self.shared.requester(request).caller(&[node.gid]);
        self.shared.post(move |client, turn| {
            let done = asked.done(|asked, _, _, target: Vec<u8>| asked.data(&target));
            client.readlink(turn, caller, node.fid, done);
        });
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        rdev: u32,
        reply: ReplyEntry,
    ) {
        let asked = Asked::new(&self.shared, request, reply);
        let Some((asked, dir)) = asked.with(self.shared.dir(parent.0)) else { return };
        let requester = self.shared.requester(request);
        let name = name.as_bytes().to_vec();
        self.shared.post_as(
            requester,
            &[dir],
            move |client, turn, caller, done| {
                client.mknod(turn, caller, dir.fid, &name, (mode, umask), rdev, done);
            },
            |client, turn, caller, made| asked.entry(caller)(client, turn, made),
        );
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        reply: ReplyEntry,
    ) {
        let asked = Asked::new(&self.shared, request, reply);
        let Some((asked, dir)) = asked.with(self.shared.dir(parent.0)) else { return };
        let requester = self.shared.requester(request);
        let name = name.as_bytes().to_vec();
        self.shared.post_as(
            requester,
            &[dir],
            move |client, turn, caller, done| {
                client.mkdir(turn, caller, dir.fid, &name, (mode, umask), done);
            },
            |client, turn, caller, made| asked.entry(caller)(client, turn, made),
        );
    }

    fn unlink(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.remove_name(request, (parent, name), false, reply);
    }

    fn rmdir(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.remove_name(request, (parent, name), true, reply);
    }

    fn symlink(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        let asked = Asked::new(&self.shared, request, reply);
        let Some((asked, dir)) = asked.with(self.shared.dir(parent.0)) else { return };
        let requester = self.shared.requester(request);
        let name = name.as_bytes().to_vec();
        let target = target.as_os_str().as_bytes().to_vec();
        let len = target.len() as u64;
        self.shared.post_as(
            requester,
            &[dir],
            move |client, turn, caller, done| {
                client.symlink(turn, caller, dir.fid, &name, &target, done);
            },
            move |client, turn, caller, made: Outcome<Attr>| {
                let made = made.map(|attr| Attr { size: attr.size.or(Some(len)), ..attr });
                asked.entry(caller)(client, turn, made);
            },
        );
    }

    fn rename(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        self.rename_file(request, (parent, name), (new_parent, new_name), flags, reply);
    }

    fn link(
        &self,
        request: &Request,
        number: INodeNo,
        new_parent: INodeNo,
        new_name: &OsStr,
        reply: ReplyEntry,
    ) {
        self.link_file(request, number, (new_parent, new_name), reply);
    }

    fn open(&self, request: &Request, number: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        self.open_file(request, number, flags, reply);
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        self.create_file(request, (parent, name), (mode, umask), flags, reply);
    }

    fn read(
        &self,
        request: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        flags: OpenFlags,
        owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let range = (offset, size.min(DATA_MAX));
        self.read_file(request, handle, range, (flags, owner), reply);
    }

    fn write(
        &self,
        request: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        write_flags: WriteFlags,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        self.write_file(request, handle, (offset, data), (write_flags, flags), reply);
    }

    fn fallocate(
        &self,
        request: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        len: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        self.allocate_file(request, handle, (offset, len), mode, reply);
    }

    fn lseek(
        &self,
        request: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        self.seek_file(request, handle, (offset, whence), reply);
    }

    fn release(
        &self,
        request: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        owner: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.close_file(request, handle, owner, reply);
    }

    fn flush(
        &self,
        request: &Request,
        _: INodeNo,
        handle: FileHandle,
        owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        match (self.locks, self.caches) {
            // What is written is at the servers, and the kernel does not ask again.
            (Locks::Local | Locks::Refused, false) => reply.error(Errno::ENOSYS),
            _ => self.flush_file(request, handle, owner, reply),
        }
    }

    fn getlk(
        &self,
        request: &Request,
        _: INodeNo,
        handle: FileHandle,
        owner: LockOwner,
        start: u64,
        end: u64,
        kind: i32,
        pid: u32,
        reply: ReplyLock,
    ) {
        self.test_lock(request, handle, owner, (start, end), (kind, pid), reply);
    }

    fn setlk(
        &self,
        request: &Request,
        _: INodeNo,
        handle: FileHandle,
        owner: LockOwner,
        start: u64,
        end: u64,
        kind: i32,
        pid: u32,
        sleep: bool,
        reply: ReplyEmpty,
    ) {
        self.set_lock((request, handle), owner, (start, end), (kind, pid), sleep, reply);
    }

    fn fsync(&self, request: &Request, _: INodeNo, handle: FileHandle, _: bool, reply: ReplyEmpty) {
        let asked = Asked::new(&self.shared, request, reply);
        let Some((asked, file)) = asked.with(self.shared.file(handle.0)) else { return };
        self.shared.post(move |client, turn| {
            let layout = file.state().layout.clone();
            client.fsync(turn, file.caller, file.fid, &layout, asked.finish());
        });
    }

    fn opendir(&self, request: &Request, number: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        self.open_dir(request, number, reply);
    }

    fn readdir(
        &self,
        request: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        reply: ReplyDirectory,
    ) {
        self.list_dir(request, handle, offset, reply);
    }

    fn releasedir(
        &self,
        request: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        reply: ReplyEmpty,
    ) {
        self.close_dir(request, handle, reply);
    }

    fn fsyncdir(
        &self,
        request: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: bool,
        reply: ReplyEmpty,
    ) {
        let asked = Asked::new(&self.shared, request, reply);
        let Some((asked, dir)) = asked.with(self.shared.opened_dir(handle.0)) else { return };
        self.shared.post(move |client, turn| {
            client.sync(turn, dir.caller, dir.fid, asked.finish());
        });
    }

    fn statfs(&self, request: &Request, _: INodeNo, reply: ReplyStatfs) {
        let asked = Asked::new(&self.shared, request, reply);
        self.shared.post(move |client, turn| {
            let done = asked.done(|asked, _, _, space| asked.space(&space));
            client.statfs(turn, done);
        });
    }

    fn setxattr(
        &self,
        request: &Request,
        number: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _: u32,
        reply: ReplyEmpty,
    ) {
        if number == INodeNo::ROOT && name == settings::NAME {
            return self.change_setting(request, value, reply);
        }
        self.set_xattr(request, number, (name, value), flags, reply);
    }

    fn getxattr(
        &self,
        request: &Request,
        number: INodeNo,
        name: &OsStr,
        size: u32,
        reply: ReplyXattr,
    ) {
        match status::asked(name.as_bytes()).filter(|_| number == INodeNo::ROOT) {
            Some(target) => self.answer_status(request, target, size, reply),
            None => self.get_xattr(request, number, name, size, reply),
        }
    }

    fn listxattr(&self, request: &Request, number: INodeNo, size: u32, reply: ReplyXattr) {
        self.list_xattrs(request, number, size, reply);
    }

    fn removexattr(&self, request: &Request, number: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.remove_xattr(request, number, name, reply);
    }

    fn access(&self, request: &Request, number: INodeNo, mask: AccessFlags, reply: ReplyEmpty) {
        self.check_access(request, number, mask, reply);
    }
}

/// Calls `note` if an operation succeeds, before it is answered.
fn after_success(note: impl FnOnce() + Send + 'static, done: Done<Attr>) -> Done<Attr> {
    Box::new(move |client, turn, outcome| {
        if outcome.is_ok() {
            note();
        }
        done(client, turn, outcome);
    })
}

/// In whose name attributes are set. A size is set in the name of the user who opened the file, if
/// it is open: rights are checked at the open, also those of a process that has given up its rights
/// since, or was handed the file.
fn who_changes(requester: Caller, opener: Option<Caller>, changes: &Changes) -> Caller {
    let Changes { uid, gid, size, atime, mtime, .. } = changes;
    let sets_size_alone =
        size.is_some() && uid.is_none() && gid.is_none() && atime.is_none() && mtime.is_none();
    opener.filter(|_| sets_size_alone).unwrap_or(requester)
}

/// Sets attributes. What the kernel sends with a size is the mode without the set-user-id bit: that
/// is cleared first, so that no cut file keeps it, if the process may write the file at all, and
/// from the mode of now, which another client may have changed.
fn set_attributes(
    client: &mut Client,
    turn: &mut Turn<'_>,
    (requester, caller): (Requester, Caller),
    fid: Fid,
    changes: Changes,
    done: Done<Attr>,
) {
    if changes.mode.is_none() || changes.size.is_none() {
        return client.set_attributes(turn, caller, fid, changes, done);
    }
    let cut = Changes { mode: None, ..changes };
    let then: Done<Seen> = Box::new(move |client, turn, seen| {
        let mode = match seen {
            Ok((attr, acl)) if changes.open || requester.may(&attr, &acl, MAY_WRITE) => {
                without_ids(attr.mode)
            }
            Ok(_) => return done(client, turn, Err(ClientError::Errno(EACCES))),
            Err(error) => return done(client, turn, Err(error)),
        };
        let Some(mode) = mode else {
            return client.set_attributes(turn, caller, fid, cut, done);
        };
        let clears = Changes { mode: Some(mode), clears_ids: true, ..Changes::default() };
        let then: Done<Attr> = Box::new(move |client, turn, cleared| match cleared {
            Ok(_) => client.set_attributes(turn, caller, fid, cut, done),
            Err(error) => done(client, turn, Err(error)),
        });
        client.set_attributes(turn, caller, fid, clears, then);
    });
    client.getattr_with_acl(turn, caller, fid, then);
}

/// The errno of Linux for who may not write a file.
const EACCES: i32 = 13;

/// Whether a process may set the times of a file, and the capability that it needs at the server.
fn times_allowed(
    requester: &Requester,
    attr: &Attr,
    acl: &[AclEntry],
    touches: bool,
) -> Result<u32, Errno> {
    match (requester.owns(attr), touches) {
        (true, _) => Ok(0),
        (false, true) if requester.may(attr, acl, MAY_WRITE) => Ok(CAP_FOWNER),
        (false, true) => Err(Errno::EACCES),
        (false, false) => Err(Errno::EPERM),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_set_by_owners_and_the_present_one_by_writers() {
        let attr = Attr { uid: 1, gid: 9, mode: 0o100_602, ..Attr::default() };
        let process = |uid, gid, capabilities| Requester { uid, gid, capabilities, groups: vec![] };
        let allowed = |who: Requester, touches| times_allowed(&who, &attr, &[], touches);
        assert_eq!(allowed(process(1, 1, 0), false), Ok(0));
        assert_eq!(allowed(process(2, 2, CAP_FOWNER), false), Ok(0));
        assert_eq!(allowed(process(2, 2, 0), true), Ok(CAP_FOWNER));
        assert_eq!(allowed(process(2, 2, 0), false), Err(Errno::EPERM));
        assert_eq!(allowed(process(2, 9, 0), true), Err(Errno::EACCES));
    }

    #[test]
    fn a_size_is_set_in_the_name_of_who_opened_the_file() {
        let caller = |uid| Caller { uid, ..Caller::ROOT };
        let who = |opener, changes| who_changes(caller(65534), opener, &changes).uid;
        let size = Changes { size: Some(5), open: true, ..Changes::default() };
        assert_eq!(who(Some(caller(0)), size), 0);
        assert_eq!(who(Some(caller(0)), Changes { mode: Some(0o755), ..size }), 0);
        // truncate(2), and what the rights of the process decide also for a file that is open.
        assert_eq!(who(None, size), 65534);
        for changes in [
            Changes { mode: Some(0o644), ..Changes::default() },
            Changes { uid: Some(7), ..Changes::default() },
            Changes { mtime: Some(SetTime::At(5)), ..size },
        ] {
            assert_eq!(who(Some(caller(0)), changes), 65534);
        }
    }
}
