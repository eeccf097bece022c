//! Open files: reading, writing, closing.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use fuser::{
    Errno, FileHandle, FopenFlags, INodeNo, LockOwner, OpenFlags, ReplyCreate, ReplyData,
    ReplyEmpty, ReplyOpen, ReplyWrite, Request, WriteFlags,
};
use lustrine_client::{
    Appended, Attr, Caller, Changes, Client, FileLayout, OpenArgs, OpenFile, Outcome, TargetKey,
    Written,
};
use lustrine_fswire::fid::Fid;
use lustrine_fswire::mdt::OpenFlags as Wanted;
use lustrine_lnet::service::Turn;

use crate::after_closes::Close;
use crate::closes::Awaits;
use crate::convert::{errno, without_ids};
use crate::held::Held;
use crate::reply::Asked;
use crate::server::Server;
use crate::shared::{OpenedFile, Permit};

/// The kernel keeps no data, and writes of several threads reach the servers together.
pub(crate) const FILE_FLAGS: FopenFlags =
    FopenFlags::FOPEN_DIRECT_IO.union(FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES);

/// Flags of open(2) in Linux, on all its machines that this program runs on.
const O_ACCMODE: i32 = 0o3;
const O_WRONLY: i32 = 0o1;
const O_RDWR: i32 = 0o2;
const O_EXCL: i32 = 0o200;
const O_TRUNC: i32 = 0o1000;
const O_APPEND: i32 = 0o2000;
const O_DSYNC: i32 = 0o10000;
const O_DIRECT: i32 = 0o40000;
const O_NOATIME: i32 = 0o1000000;
/// The kernel opens a program to run it.
const FMODE_EXEC: i32 = 0o40;

/// A write that is in flight.
struct Write {
    file: Arc<OpenedFile>,
    offset: u64,
    data: Bytes,
    /// Whether it goes to the end of the file, wherever that is.
    append: bool,
    /// Whether the file was opened with O_DIRECT.
    is_direct: bool,
    /// An append with O_DIRECT, or a part of one.
    part: Option<AppendPart>,
    /// Whether it is over when the data are at the servers.
    sync: bool,
    asked: Asked<ReplyWrite>,
    permit: Permit,
    /// Room for the data until they are handed on.
    held: Option<Held>,
}

impl Server {
    pub(crate) fn open_file(
        &self,
        request: &Request,
        number: INodeNo,
        flags: OpenFlags,
        reply: ReplyOpen,
    ) {
        let asked = Asked::of_file(&self.shared, request, reply);
        let Some((asked, node)) = asked.with(self.shared.node(number.0)) else { return };
        let caller = self.shared.requester(request).caller(&[node.gid]);
        let args = OpenArgs { flags: wanted(flags.0), mode: 0, umask: 0 };
        let awaits = self.shared.closes.are_awaited(node.fid, Awaits::Opens, Instant::now());
        let open = Open { caller, fid: node.fid, args, awaits: Some(awaits) };
        self.shared.post(move |client, turn| open.start(asked, client, turn));
    }

    pub(crate) fn create_file(
        &self,
        request: &Request,
        (parent, name): (INodeNo, &OsStr),
        (mode, umask): (u32, u32),
        flags: i32,
        reply: ReplyCreate,
    ) {
        let asked = Asked::new(&self.shared, request, reply);
        let Some((asked, dir)) = asked.with(self.shared.dir(parent.0)) else { return };
        let requester = self.shared.requester(request);
        let mut how = wanted(flags) | Wanted::CREAT;
        how.set(Wanted::EXCL, flags & O_EXCL != 0);
        let args = OpenArgs { flags: how, mode, umask };
        let name = name.as_bytes().to_vec();
        // The kernel cuts a file that it knows. It did not know this one when it asked.
        let cut = flags & O_TRUNC != 0;
        self.shared.post_as(
            requester,
            &[dir],
            move |client, turn, caller, done| {
                client.create(turn, caller, dir.fid, &name, args, done);
            },
            move |client, turn, caller, opened: Outcome<OpenFile>| {
                let open = match opened {
                    Ok(open) => open,
                    Err(error) => return asked.fail_with(&error),
                };
                if open.created || !cut {
                    return created(asked, client, turn, (caller, how), open);
                }
                let (fid, changes) =
                    (open.attr.fid, Changes { size: Some(0), ..Changes::default() });
                let then =
                    move |client: &mut Client, turn: &mut Turn<'_>, cut: Outcome<Attr>| match cut {
                        Ok(_) => created(asked, client, turn, (caller, how), open),
                        Err(error) => give_up(asked, client, turn, caller, open, errno(&error)),
                    };
                client.set_attributes(turn, caller, fid, changes, Box::new(then));
            },
        );
    }

    pub(crate) fn read_file(
        &self,
        request: &Request,
        handle: FileHandle,
        (offset, len): (u64, u32),
        (flags, owner): (OpenFlags, Option<LockOwner>),
        reply: ReplyData,
    ) {
        let asked = Asked::new(&self.shared, request, reply);
        let Some((asked, file)) = asked.with(self.shared.file(handle.0)) else { return };
        // The kernel names an owner if a program reads, and none if it reads a page for a mapping.
        if owner.is_none() {
            self.shared.nodes().set_mapped(file.fid, true);
        }
        let notes_time = flags.0 & O_NOATIME == 0;
        let bytes = u64::from(len);
        let targets = targets_of(&file, (offset, bytes), false);
        let job = move |client: &mut Client, turn: &mut Turn<'_>, permit: Permit| {
            if asked.is_interrupted() {
                return;
            }
            if notes_time {
                file.state().read = Some(client.wall(turn));
            }
            let layout = file.state().layout.clone();
            let (caller, fid) = (file.caller, file.fid);
            let done = move |_: &mut Client, _: &mut Turn<'_>, read: Outcome<_>| {
                match read {
                    Ok((data, layout)) => {
                        if let Some(layout) = layout {
                            asked.shared.found_layout(&file, layout);
                        }
                        let data: Bytes = data;
                        asked.data(&data);
                    }
                    Err(error) => asked.fail_with(&error),
                }
                drop(permit);
            };
            client.read_to_end(turn, caller, fid, &layout, (offset, len), Box::new(done));
        };
        self.shared.post_with_data(bytes, targets, Box::new(job));
    }

    pub(crate) fn write_file(
        &self,
        request: &Request,
        handle: FileHandle,
        (offset, data): (u64, &[u8]),
        (write_flags, flags): (WriteFlags, OpenFlags),
        reply: ReplyWrite,
    ) {
        let is_mapped = write_flags.contains(WriteFlags::FUSE_WRITE_CACHE);
        let is_direct = flags.0 & O_DIRECT != 0 && !is_mapped;
        let file = self.shared.file(handle.0);
        let asked = match &file {
            // A write-back that fails is an error of the file.
            _ if is_mapped => Asked::not_interrupted(&self.shared, reply),
            Ok(file) if is_direct => {
                let file = Arc::clone(file);
                let before = move || {
                    file.state().failed.note(Instant::now());
                    true
                };
                Asked::with_before(&self.shared, request, reply, Box::new(before))
            }
            _ => Asked::new(&self.shared, request, reply),
        };
        let Some((asked, file)) = asked.with(file) else { return };
        // What is written back from a mapping has its place.
        let append = flags.0 & O_APPEND != 0 && !is_mapped;
        let sync = self.sync || flags.0 & (O_DSYNC | O_DIRECT) != 0;
        let bytes = data.len() as u64;
        let part = (append && is_direct).then(|| AppendPart::begun(&file, (offset, bytes)));
        let kills = write_flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID);
        // Both ask the metadata server first.
        let targets = targets_of(&file, (offset, bytes), append || kills);
        // The thread waits if too many data wait, and takes no other request then.
        let held = Some(self.shared.held.take(bytes));
        let data = self.shared.memory.copy(data);
        let job = move |client: &mut Client, turn: &mut Turn<'_>, permit: Permit| {
            if asked.is_interrupted() {
                return;
            }
            let write =
                Write { file, offset, data, append, is_direct, part, sync, asked, permit, held };
            match kills {
                true => write.clear_ids(client, turn),
                false => write.start(client, turn),
            }
        };
        self.shared.post_with_data(bytes, targets, Box::new(job));
    }

    /// Closes a file. The owner is that of a lock of flock(2), which ends with it, as do locks of
    /// the open file itself.
    pub(crate) fn close_file(
        &self,
        request: &Request,
        handle: FileHandle,
        owner: Option<LockOwner>,
        reply: ReplyEmpty,
    ) {
        let removed = self.shared.remove_file(handle.0);
        // OnInterrupt it waits for anything: what comes next may have to wait for it.
        let closing = removed
            .as_ref()
            .ok()
            .map(|file| Arc::new(Close::begin(&self.shared, handle.0, file, owner.is_some())));
        let asked = Asked::new(&self.shared, request, reply);
        let Some((asked, file)) = asked.with(removed) else { return };
        let (caller, fid) = (file.caller, file.fid);
        // At once: the owner's number may soon be that of another open file.
        let mut owners = self.shared.locks.forget_all(fid, handle.0);
        if let Some(LockOwner(owner)) = owner.filter(|owner| !owners.contains(&owner.0)) {
            self.shared.locks.forget(fid, owner);
            owners.push(owner);
        }
        self.shared.post(move |client, turn| {
            for owner in owners {
                let unlocking = closing.clone();
                let then = Box::new(move |_: &mut Client, _: &mut Turn<'_>, _| drop(unlocking));
                let key = client.unlock_all(turn, caller, fid, owner, then);
                // Only the next owner with this number has to wait for it.
                client.abandon_flock(turn, key);
            }
            let (layout, written) = {
                let state = file.state();
                (state.layout.clone(), state.written)
            };
            let Some(at) = written else {
                return close(asked, client, turn, (&file, closing), None);
            };
            let set_before = asked.shared.nodes().mtime_set(fid);
            // A hint for others, which ask the objects if there is none. None is better than a
            // wrong one.
            let then = move |client: &mut Client,
                             turn: &mut Turn<'_>,
                             size: Outcome<(u64, u64)>| {
                // What a program has set is not changed by a write before it. The kernel may have
                // forgotten the file.
                let mtime = asked.shared.nodes().mtime_set(fid).or(set_before).unwrap_or(at);
                let hint =
                    size.ok().map(|(size, blocks)| Written { size, blocks, mtime: Some(mtime) });
                close(asked, client, turn, (&file, closing), hint);
            };
            client.size(turn, caller, fid, &layout, Box::new(then));
        });
    }
}

/// An open of a file that the kernel knows.
#[derive(Clone, Copy)]
struct Open {
    caller: Caller,
    fid: Fid,
    args: OpenArgs,
    /// Whether closes were under way when the kernel asked; none if it has waited for them.
    awaits: Option<bool>,
}

impl Open {
    fn start(self, asked: Asked<ReplyOpen>, client: &mut Client, turn: &mut Turn<'_>) {
        let Open { caller, fid, args, awaits } = self;
        let then = move |client: &mut Client, turn: &mut Turn<'_>, opened: Outcome<OpenFile>| {
            let shared = Arc::clone(&asked.shared);
            let again = |awaits, error| shared.may_succeed(fid, Awaits::Opens, awaits, error);
            match opened {
                Ok(open) if !asked.claim() => close_unused(client, turn, caller, open),
                Ok(open) => {
                    let handle = shared.add_file(OpenedFile::new(open, caller, args.flags));
                    asked.opened(handle, FILE_FLAGS);
                }
                // A program has closed the file that it executes now.
                Err(error) if awaits.is_some_and(|awaits| again(awaits, &error)) => {
                    let open = Open { awaits: None, ..self };
                    shared.post_after_closes(fid, Awaits::Opens, move |client, turn| {
                        if !asked.is_interrupted() {
                            open.start(asked, client, turn);
                        }
                    });
                }
                Err(error) => asked.fail_with(&error),
            }
        };
        client.open(turn, caller, fid, args, Box::new(then));
    }
}

/// A part of an append with O_DIRECT that is in flight through an open file.
struct AppendPart {
    file: Arc<OpenedFile>,
    /// Where the kernel means it to be, and its length.
    meant: (u64, u64),
    is_over: bool,
}

impl AppendPart {
    fn begun(file: &Arc<OpenedFile>, meant: (u64, u64)) -> AppendPart {
        file.state().appends.begun();
        AppendPart { file: Arc::clone(file), meant, is_over: false }
    }

    /// It is at a place, or has failed. Whether the parts have their order.
    fn ended(mut self, at: Option<u64>) -> bool {
        self.is_over = true;
        self.file.state().appends.ended(self.meant, at)
    }
}

impl Drop for AppendPart {
    /// It was not begun, or has failed.
    fn drop(&mut self) {
        if !self.is_over {
            self.file.state().appends.ended(self.meant, None);
        }
    }
}

impl Write {
    /// Takes the rights of the owner and the group away that the file gives to who executes it. The
    /// permissions are those of now: another client may have changed them.
    fn clear_ids(self, client: &mut Client, turn: &mut Turn<'_>) {
        let (caller, fid) = (self.file.caller, self.file.fid);
        let then = move |client: &mut Client, turn: &mut Turn<'_>, attr: Outcome<Attr>| {
            let mode = match attr.map(|attr| without_ids(attr.mode)) {
                Ok(Some(mode)) => mode,
                Ok(None) => return self.start(client, turn),
                Err(error) => return self.end(errno(&error)),
            };
            let changes = Changes { mode: Some(mode), clears_ids: true, ..Changes::default() };
            let then = move |client: &mut Client, turn: &mut Turn<'_>, set: Outcome<Attr>| match set
            {
                Ok(_) => self.start(client, turn),
                Err(error) => self.end(errno(&error)),
            };
            client.set_attributes(turn, caller, fid, changes, Box::new(then));
        };
        client.getattr(turn, caller, fid, Box::new(then));
    }

    /// Finds out where it goes, and whether the file has objects there.
    fn start(self, client: &mut Client, turn: &mut Turn<'_>) {
        self.asked.shared.nodes().set_mtime(self.file.fid, None);
        match self.append {
            true => self.add(client, turn),
            false => self.place(client, turn),
        }
    }

    /// Writes at the end of the file.
    fn add(mut self, client: &mut Client, turn: &mut Turn<'_>) {
        let (caller, layout) = (self.file.caller, self.file.state().layout.clone());
        let file = (self.file.fid, self.file.state().open.attr.owner());
        let data = std::mem::take(&mut self.data);
        let len = data.len() as u64;
        let now = client.wall(turn);
        let then = move |client: &mut Client, turn: &mut Turn<'_>, done: Outcome<Appended>| {
            let at = done.as_ref().ok().map(|appended| appended.offset);
            let keeps = self.part.take().is_none_or(|part| part.ended(at));
            match done {
                Ok(Appended { offset, layout }) => {
                    if let Some(layout) = layout {
                        self.asked.shared.found_layout(&self.file, layout);
                    }
                    if !keeps {
                        // The program learns that its append is not as it should be.
                        self.asked.shared.nodes().written(self.file.fid, (offset, len));
                        return self.end(Errno::EIO);
                    }
                    self.written(client, turn, (offset, len), now);
                }
                Err(error) => self.end(errno(&error)),
            }
        };
        client.append(turn, caller, file, layout, data, Box::new(then));
    }

    /// Has the metadata server make objects if there are none.
    fn place(mut self, client: &mut Client, turn: &mut Turn<'_>) {
        let (offset, len) = (self.offset, self.data.len() as u64);
        let layout = self.file.state().layout.clone();
        if layout.may_write(offset, len) {
            return self.send(client, turn, &layout);
        }
        let (caller, fid) = (self.file.caller, self.file.fid);
        let range = (offset, offset.saturating_add(len));
        let then =
            move |client: &mut Client, turn: &mut Turn<'_>, made: Outcome<FileLayout>| match made {
                Ok(layout) => {
                    self.asked.shared.found_layout(&self.file, layout.clone());
                    self.permit.recharge(client.targets_of(fid, &layout, false));
                    self.send(client, turn, &layout);
                }
                Err(error) => self.end(errno(&error)),
            };
        client.instantiate(turn, caller, fid, range, Box::new(then));
    }

    fn send(mut self, client: &mut Client, turn: &mut Turn<'_>, layout: &FileLayout) {
        let (caller, offset) = (self.file.caller, self.offset);
        let file = (self.file.fid, self.file.state().open.attr.owner());
        let (data, held) = (std::mem::take(&mut self.data), self.held.take());
        let len = data.len() as u64;
        // The time that the write has at the object servers: the close repeats it.
        let now = client.wall(turn);
        let then = move |client: &mut Client, turn: &mut Turn<'_>, done: Outcome<()>| match done {
            Ok(()) => self.written(client, turn, (offset, len), now),
            Err(error) => self.end(errno(&error)),
        };
        client.write(turn, caller, file, layout, (offset, data), Box::new(then));
        // From now on the permit counts the data.
        drop(held);
    }

    fn written(self, client: &mut Client, turn: &mut Turn<'_>, range: (u64, u64), now: i64) {
        let mut state = self.file.state();
        state.written = state.written.max(Some(now));
        let layout = state.layout.clone();
        drop(state);
        let (fid, (_, len)) = (self.file.fid, range);
        self.asked.shared.nodes().written(fid, range);
        if !self.sync {
            return self.asked.written(len as u32);
        }
        let then = move |_: &mut Client, _: &mut Turn<'_>, flushed: Outcome<()>| match flushed {
            Ok(()) => self.asked.written(len as u32),
            Err(error) => self.end(errno(&error)),
        };
        client.write_through(turn, fid, &layout, range, Box::new(then));
    }

    fn end(self, error: Errno) {
        if self.is_direct {
            self.file.state().failed.note(Instant::now());
        }
        self.asked.fail(error);
    }
}

/// Which targets an operation on a range of a file can wait for, `asks_mdt` if it asks the metadata
/// server in any case.
fn targets_of(
    file: &Arc<OpenedFile>,
    (offset, len): (u64, u64),
    asks_mdt: bool,
) -> impl FnOnce(&Client) -> Vec<TargetKey> + Send + 'static {
    let file = Arc::clone(file);
    move |client| {
        let state = file.state();
        let asks_mdt = asks_mdt || !state.layout.covers(offset, len);
        client.targets_of(file.fid, &state.layout, asks_mdt)
    }
}

/// Answers with a file that is open.
fn created(
    asked: Asked<ReplyCreate>,
    client: &mut Client,
    turn: &mut Turn<'_>,
    (caller, how): (Caller, Wanted),
    open: OpenFile,
) {
    let mut attr = open.attr.clone();
    if open.created {
        (attr.size, attr.blocks) = (Some(0), attr.blocks.or(Some(0)));
    }
    let then = move |client: &mut Client, turn: &mut Turn<'_>, attr: Outcome<Attr>| match attr {
        Ok(_) if !asked.claim() => close_unused(client, turn, caller, open),
        Ok(attr) => {
            let handle = asked.shared.add_file(OpenedFile::new(open, caller, how));
            asked.created(&attr, handle, FILE_FLAGS);
        }
        Err(error) => give_up(asked, client, turn, caller, open, errno(&error)),
    };
    client.complete(turn, caller, attr, Box::new(then));
}

/// Closes a file or a directory whose open was interrupted.
pub(crate) fn close_unused(
    client: &mut Client,
    turn: &mut Turn<'_>,
    caller: Caller,
    open: OpenFile,
) {
    client.close(turn, caller, open, None, Box::new(|_, _, _| {}));
}

/// Closes a file that is open and cannot be used, and answers why.
fn give_up(
    asked: Asked<ReplyCreate>,
    client: &mut Client,
    turn: &mut Turn<'_>,
    caller: Caller,
    open: OpenFile,
    error: Errno,
) {
    let then = move |_: &mut Client, _: &mut Turn<'_>, _: Outcome<()>| asked.fail(error);
    client.close(turn, caller, open, None, Box::new(then));
}

fn close(
    asked: Asked<ReplyEmpty>,
    client: &mut Client,
    turn: &mut Turn<'_>,
    (file, closing): (&OpenedFile, Option<Arc<Close>>),
    written: Option<Written>,
) {
    let open = {
        let state = file.state();
        let mut open = state.open.clone();
        let rule = asked.shared.atime;
        open.accessed = state.read.and_then(|at| rule.after_read(&open.attr, at));
        open
    };
    let then = move |_: &mut Client, _: &mut Turn<'_>, closed: Outcome<()>| {
        drop(closing);
        match closed {
            Ok(()) => asked.ok(),
            Err(error) => asked.fail_with(&error),
        }
    };
    client.close(turn, file.caller, open, written, Box::new(then));
}

/// How the server is to open a file.
fn wanted(flags: i32) -> Wanted {
    if flags & FMODE_EXEC != 0 {
        return Wanted::EXEC | Wanted::READ;
    }
    let mut wanted = match flags & O_ACCMODE {
        O_WRONLY => Wanted::WRITE,
        O_RDWR => Wanted::READ | Wanted::WRITE,
        _ => Wanted::READ,
    };
    wanted.set(Wanted::APPEND, flags & O_APPEND != 0);
    wanted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_of_open_become_those_of_the_server() {
        assert_eq!(wanted(0), Wanted::READ);
        assert_eq!(wanted(O_WRONLY | O_APPEND), Wanted::WRITE | Wanted::APPEND);
        assert_eq!(wanted(O_RDWR), Wanted::READ | Wanted::WRITE);
        assert_eq!(wanted(FMODE_EXEC), Wanted::EXEC | Wanted::READ);
    }
}
