//! What the threads of a mount share: the client, the files that the kernel knows, open files.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use fuser::{Errno, FileAttr, FileType, INodeNo, Notifier, Request};
use lustrine_client::{Attr, Caller, Client, FileLayout, OpenFile, Sharing, TargetKey, Valid};
use lustrine_fs::{FileSystem, IdMaps};
use lustrine_fswire::fid::Fid;
use lustrine_fswire::mdt::OpenFlags as Wanted;
use lustrine_lnet::service::Turn;
use lustrine_mem::Pool;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::atime::AtimeRule;
use crate::budget::{Budget, Charge};
use crate::closes::Closes;
use crate::convert::{SET_GROUP_ID, SET_USER_ID, duration, file_attr};
use crate::failed_writes::{AppendOrder, FailedWrite};
use crate::held::{self, Room};
use crate::in_flight::InFlight;
use crate::listings::{Listings, Part};
use crate::lock_table::LockTable;
use crate::nodes::{Node, Nodes};
use crate::requester::Requester;
use crate::signals::is_killed;

/// How often threads that wait are looked at for a signal that kills them.
const SIGNALS_INTERVAL: Duration = Duration::from_millis(500);
/// Memory that was not in use for so many of these intervals is given back to the system. A minute:
/// programs that write large files one after the other get warm memory.
const MEMORY_INTERVALS: u32 = 120;
/// How often the device is looked at for the end of the mount, if nothing else says so.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// How long the kernel may use attributes that are to be valid for the system call that has asked:
/// it makes of that one or two ticks of its clock.
pub(crate) fn moment(valid: Valid) -> Duration {
    duration(valid.attr).min(Duration::from_nanos(1))
}

/// What the threads of a mount share.
pub(crate) struct Shared {
    files: FileSystem,
    nodes: Mutex<Nodes>,
    open: Mutex<Handles>,
    data: Mutex<Data>,
    /// Room for the data of requests that wait.
    pub(crate) held: Arc<Room>,
    /// Where data are copied to that programs write: requests and the cache keep them.
    pub(crate) memory: Pool,
    listings: Mutex<Listings>,
    /// Locks that programs have and wait for.
    pub(crate) locks: LockTable,
    /// Closes that are in flight.
    pub(crate) closes: Closes,
    /// Operations that programs wait for.
    pub(crate) in_flight: InFlight,
    /// The connection with the kernel, once the file system is mounted.
    device: OnceLock<OwnedFd>,
    /// A pipe whose writing end is closed when the threads that read requests have ended.
    session: (PipeReader, Mutex<Option<PipeWriter>>),
    pub(crate) atime: AtimeRule,
    pub(crate) ids: IdMaps,
}

/// An operation with data that is about to be started.
type Job = Box<dyn FnOnce(&mut Client, &mut Turn<'_>, Permit) + Send>;

/// Data that are in flight.
#[derive(Default)]
struct Data {
    budget: Budget<TargetKey, Job>,
    /// Whether the event loop is about to look for operations that may start.
    looking: bool,
}

/// The permission for an operation with data to be in flight, until it is dropped.
pub(crate) struct Permit {
    shared: Arc<Shared>,
    charge: Option<Charge<TargetKey>>,
}

impl Permit {
    /// The operation needs other targets than was known when it started.
    pub(crate) fn recharge(&mut self, targets: Vec<TargetKey>) {
        if let Some(charge) = &mut self.charge {
            locked(&self.shared.data).budget.recharge(charge, targets);
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(charge) = self.charge.take() {
            locked(&self.shared.data).budget.give(charge);
        }
        self.shared.look_for_ready();
    }
}

/// Files and directories that programs have open.
#[derive(Default)]
struct Handles {
    last: u64,
    files: BTreeMap<u64, Arc<OpenedFile>>,
    /// The same files by their FIDs.
    by_fid: BTreeSet<(Fid, u64)>,
    dirs: BTreeMap<u64, Arc<OpenedDir>>,
}

impl Handles {
    /// All that have a file open.
    fn of(&self, fid: Fid) -> impl Iterator<Item = &Arc<OpenedFile>> {
        let handles = self.by_fid.range((fid, 0)..=(fid, u64::MAX));
        handles.filter_map(|(_, handle)| self.files.get(handle))
    }
}

/// A file that a program has open.
pub(crate) struct OpenedFile {
    /// Its FID.
    pub(crate) fid: Fid,
    /// Who opened it. Data are read and written in this user's name, also for a process that the
    /// file was handed to.
    pub(crate) caller: Caller,
    /// Whether it is open to be read and to be written: then a mapping of it can be written to.
    takes_mapped_writes: bool,
    state: Mutex<FileState>,
}

/// What changes while a file is open.
pub(crate) struct FileState {
    /// The file as the server opened it.
    pub(crate) open: OpenFile,
    /// Where its data are.
    pub(crate) layout: FileLayout,
    /// When it was last written to through this handle, in seconds since 1970.
    pub(crate) written: Option<i64>,
    /// When it was last read through this handle, in seconds since 1970.
    pub(crate) read: Option<i64>,
    /// The last write with O_DIRECT through this handle that has failed.
    pub(crate) failed: FailedWrite,
    /// Where appends with O_DIRECT through it have gone.
    pub(crate) appends: AppendOrder,
}

impl FileState {
    /// Takes a layout that is not older than the known one. Whether it is another one.
    fn take_layout(&mut self, layout: &FileLayout) -> bool {
        // Generations are compared across their wrap-around.
        let age = self.layout.generation.wrapping_sub(layout.generation) as i32;
        let is_taken = age <= 0 && self.layout != *layout;
        if is_taken {
            self.layout = layout.clone();
        }
        is_taken
    }
}

/// A directory that a program has open.
pub(crate) struct OpenedDir {
    /// Its FID.
    pub(crate) fid: Fid,
    /// Who opened it.
    pub(crate) caller: Caller,
    state: Mutex<DirState>,
}

/// What changes while a directory is open.
pub(crate) struct DirState {
    /// The directory as the server opened it.
    pub(crate) open: OpenFile,
    /// Where the listing is.
    pub(crate) part: Part,
}

impl OpenedFile {
    pub(crate) fn new(open: OpenFile, caller: Caller, how: Wanted) -> OpenedFile {
        let (fid, layout) = (open.attr.fid, open.layout.clone());
        let (failed, appends) = (FailedWrite::default(), AppendOrder::default());
        let state = FileState { open, layout, written: None, read: None, failed, appends };
        let takes_mapped_writes = how.contains(Wanted::READ | Wanted::WRITE);
        OpenedFile { fid, caller, takes_mapped_writes, state: Mutex::new(state) }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, FileState> {
        locked(&self.state)
    }
}

impl OpenedDir {
    pub(crate) fn new(open: OpenFile, caller: Caller) -> OpenedDir {
        let fid = open.attr.fid;
        let state = DirState { open, part: Part::default() };
        OpenedDir { fid, caller, state: Mutex::new(state) }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, DirState> {
        locked(&self.state)
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("files", &self.files).finish_non_exhaustive()
    }
}

impl Shared {
    /// `cache` is how many bytes of data the client may keep.
    ///
    /// # Errors
    /// When there can be no pipe.
    pub(crate) fn new(
        files: FileSystem,
        root: Option<&Attr>,
        atime: AtimeRule,
        cache: u64,
    ) -> io::Result<Shared> {
        let (reader, writer) = io::pipe()?;
        let mut nodes = Nodes::new(files.root());
        // A request names a supplementary group of the process only if it is that of the directory.
        // If that of the root is not known now, it is once a program has asked for its attributes.
        if let Some(root) = root {
            nodes.seen(root);
        }
        Ok(Shared {
            files,
            nodes: Mutex::new(nodes),
            open: Mutex::default(),
            data: Mutex::default(),
            held: Room::new(),
            memory: Pool::new(cache.saturating_add(held::LIMIT)),
            listings: Mutex::default(),
            locks: LockTable::default(),
            closes: Closes::default(),
            in_flight: InFlight::default(),
            device: OnceLock::new(),
            session: (reader, Mutex::new(Some(writer))),
            atime,
            ids: IdMaps::of_this_process(),
        })
    }

    /// The file system that is mounted.
    pub(crate) fn files(&self) -> &FileSystem {
        &self.files
    }

    /// The file system is mounted through this device.
    pub(crate) fn set_device(&self, device: OwnedFd) {
        // There is one session, so there is no other device.
        let _ = self.device.set(device);
    }

    /// Lets the kernel use names for a while, and attributes until this invalidates them.
    pub(crate) fn share_validity(self: &Arc<Shared>, sharing: Sharing, notifier: Notifier) {
        let shared = Arc::downgrade(self);
        let invalidate = move |fid| {
            if let Some(shared) = shared.upgrade() {
                shared.forget_attributes(&notifier, fid);
            }
        };
        self.post(move |client, _| client.share_validity(sharing, invalidate));
    }

    /// How long the kernel may use the attributes of a file that it has asked for: only a moment
    /// those of a file that is open, since reads and writes change it.
    pub(crate) fn attr_valid(&self, valid: Valid, attr: &Attr) -> Duration {
        match self.is_open(attr.fid) {
            true => moment(valid),
            false => duration(valid.attr),
        }
    }

    /// Has the kernel forget the attributes of a file. It does not wait for anything then, as it
    /// would to forget a name, or data.
    fn forget_attributes(&self, notifier: &Notifier, fid: Fid) {
        const ATTRIBUTES_ALONE: i64 = -1;
        let number = self.nodes().number_of(fid);
        if let Some(number) = number {
            // It fails if the file system is not mounted any more.
            let _ = notifier.inval_inode(INodeNo(number), ATTRIBUTES_ALONE, 0);
        }
    }

    /// Whether the kernel has ended the connection because the file system is not mounted any more.
    /// It never has before the file system is mounted.
    pub(crate) fn is_unmounted(&self) -> bool {
        let Some(device) = self.device.get() else { return false };
        let mut devices = [PollFd::new(device, PollFlags::empty())];
        let polled = poll(&mut devices, Some(&Timespec::default()));
        polled.is_ok() && devices[0].revents().contains(PollFlags::ERR)
    }

    /// The threads that read requests have ended.
    pub(crate) fn session_ended(&self) {
        drop(locked(&self.session.1).take());
    }

    /// Waits until the kernel has ended the connection, for at most this time or until a signal.
    /// Whether that is so.
    ///
    /// The kernel wakes who waits for the device at each request, so this waits for the threads
    /// that read them. These may have to wait for servers: the device is looked at each second.
    pub(crate) fn wait_until_unmounted(&self, most: Duration) -> bool {
        let start = Instant::now();
        loop {
            if self.is_unmounted() {
                return true;
            }
            let left = most.saturating_sub(start.elapsed()).min(LOOK_INTERVAL);
            if left.is_zero() {
                return false;
            }
            let mut session = [PollFd::new(&self.session.0, PollFlags::empty())];
            let polled = poll(&mut session, Timespec::try_from(left).ok().as_ref());
            if polled != Ok(0) {
                return self.is_unmounted();
            }
        }
    }

    /// Answers operations of threads that are killed, as long as this is in use: servers may not
    /// answer them for hours. Gives memory back that has not been in use for a minute.
    ///
    /// # Errors
    /// When there can be no thread for it.
    pub(crate) fn watch(self: &Arc<Shared>) -> io::Result<()> {
        let shared: Weak<Shared> = Arc::downgrade(self);
        let watch = move || {
            for interval in 1_u32.. {
                let Some(shared) = shared.upgrade() else { break };
                shared.in_flight.interrupt(Instant::now(), is_killed);
                if interval.is_multiple_of(MEMORY_INTERVALS) {
                    shared.memory.end_period();
                }
                drop(shared);
                thread::sleep(SIGNALS_INTERVAL);
            }
        };
        thread::Builder::new().name("fuse-watch".to_owned()).spawn(watch).map(drop)
    }

    /// Has the event loop of the client start an operation. If the loop has ended, the operation
    /// is dropped, and with it the reply, which then is an input/output error.
    pub(crate) fn post(&self, act: impl FnOnce(&mut Client, &mut Turn<'_>) + Send + 'static) {
        let _ = self.try_post(act);
    }

    /// The same; whether there was room for it.
    #[must_use]
    pub(crate) fn try_post(
        &self,
        act: impl FnOnce(&mut Client, &mut Turn<'_>) + Send + 'static,
    ) -> bool {
        self.files.post(act).is_ok()
    }

    /// The same for an operation with data, which waits while too many bytes are in flight.
    /// `targets` says which targets it can wait for.
    pub(crate) fn post_with_data(
        self: &Arc<Shared>,
        bytes: u64,
        targets: impl FnOnce(&Client) -> Vec<TargetKey> + Send + 'static,
        job: Job,
    ) {
        let shared = Arc::clone(self);
        self.post(move |client, turn| {
            let targets = targets(client);
            locked(&shared.data).budget.add(bytes, targets, job);
            shared.start_ready(client, turn);
        });
    }

    /// Starts the operations for which there is room now.
    fn start_ready(self: &Arc<Shared>, client: &mut Client, turn: &mut Turn<'_>) {
        let ready = {
            let mut data = locked(&self.data);
            data.looking = false;
            data.budget.ready(|target| client.is_connected(target))
        };
        for (job, charge) in ready {
            let permit = Permit { shared: Arc::clone(self), charge: Some(charge) };
            job(client, turn, permit);
        }
    }

    /// Has the event loop start what is ready soon. Not at once: an operation that fails when it is
    /// started would lead here again, and so on.
    fn look_for_ready(self: &Arc<Shared>) {
        {
            let mut data = locked(&self.data);
            if data.looking || !data.budget.is_waited_for() {
                return;
            }
            data.looking = true;
        }
        let shared = Arc::clone(self);
        let posted = self.files.post(move |client, turn| shared.start_ready(client, turn));
        if posted.is_err() {
            locked(&self.data).looking = false;
        }
    }

    /// Has operations that wait for a target that is not connected start when it is.
    pub(crate) fn watch_connections(self: &Arc<Shared>) {
        let shared: Weak<Shared> = Arc::downgrade(self);
        self.post(move |client, _| {
            client.watch_connections(move || {
                if let Some(shared) = shared.upgrade() {
                    shared.look_for_ready();
                }
            });
        });
    }

    /// The files that the kernel knows.
    pub(crate) fn nodes(&self) -> MutexGuard<'_, Nodes> {
        locked(&self.nodes)
    }

    /// A file that the kernel knows.
    pub(crate) fn node(&self, number: u64) -> Result<Node, Errno> {
        self.nodes().get(number).ok_or(Errno::ESTALE)
    }

    /// A directory in which names are to be used.
    pub(crate) fn dir(&self, number: u64) -> Result<Node, Errno> {
        self.node(number)
    }

    /// Gives the kernel a reference to a file. The file's number.
    pub(crate) fn look_up(&self, attr: &Attr) -> u64 {
        self.nodes().look_up(attr)
    }

    /// The attributes of a file as programs see them. In a user namespace, an owner who has no
    /// number there is shown as 65534. If the namespace lacks that number too, the owner is invalid
    /// for the kernel, which then refuses all writes; an unknown group is shown as that of this
    /// process then, as files of the user's own can have such a group.
    pub(crate) fn shown(&self, attr: &Attr, number: u64) -> FileAttr {
        const NO_ID: u32 = u32::MAX;
        let own_group = || rustix::process::getegid().as_raw();
        let uid = self.ids.user_inside(attr.uid).unwrap_or(NO_ID);
        let gid = self.ids.group_inside(attr.gid).unwrap_or_else(own_group);
        let mut shown = file_attr(attr, number, (uid, gid));
        if shown.kind == FileType::RegularFile {
            // Programs take a file with fewer blocks for one with holes, and without any for one
            // hole.
            if self.has_mapped_writes(attr.fid) {
                shown.blocks = shown.blocks.max(shown.size.div_ceil(512));
            }
            // They would give the rights of the user who is shown, and not of the owner.
            let mut clear = |known: bool, bit: u16| shown.perm &= if known { !0 } else { !bit };
            clear(self.ids.knows_user(attr.uid), SET_USER_ID as u16);
            clear(self.ids.knows_group(attr.gid), SET_GROUP_ID as u16);
        }
        shown
    }

    /// Registers an open file. The number by which the kernel names it.
    pub(crate) fn add_file(&self, file: OpenedFile) -> u64 {
        let mut open = locked(&self.open);
        open.last += 1;
        let handle = open.last;
        open.by_fid.insert((file.fid, handle));
        open.files.insert(handle, Arc::new(file));
        handle
    }

    pub(crate) fn file(&self, handle: u64) -> Result<Arc<OpenedFile>, Errno> {
        locked(&self.open).files.get(&handle).cloned().ok_or(Errno::EBADF)
    }

    /// Whether a program has a file open.
    pub(crate) fn is_open(&self, fid: Fid) -> bool {
        locked(&self.open).of(fid).next().is_some()
    }

    /// A file has got more objects. All that have it open learn of it: an fsync(2) is for what was
    /// written through any of them.
    pub(crate) fn found_layout(&self, file: &OpenedFile, layout: FileLayout) {
        if !file.state().take_layout(&layout) {
            return;
        }
        let others: Vec<_> = locked(&self.open).of(file.fid).cloned().collect();
        for other in others {
            other.state().take_layout(&layout);
        }
    }

    /// A program has set the time of the last access of a file. Reads before that do not change it
    /// any more.
    pub(crate) fn accessed_at(&self, fid: Fid, atime: i64) {
        let files: Vec<_> = locked(&self.open).of(fid).cloned().collect();
        for file in files {
            let mut state = file.state();
            (state.open.attr.atime, state.read) = (atime, None);
        }
    }

    pub(crate) fn remove_file(&self, handle: u64) -> Result<Arc<OpenedFile>, Errno> {
        let file = {
            let mut open = locked(&self.open);
            let file = open.files.remove(&handle).ok_or(Errno::EBADF)?;
            open.by_fid.remove(&(file.fid, handle));
            file
        };
        // The kernel drops the pages of a file at its next open.
        let was_mapped = self.nodes().is_mapped(file.fid);
        if was_mapped && !self.is_open(file.fid) {
            self.nodes().set_mapped(file.fid, false);
        }
        Ok(file)
    }

    /// Whether the kernel can hold pages of a file to which a program has written through a
    /// mapping: the mount learns of them when the kernel writes them back.
    pub(crate) fn has_mapped_writes(&self, fid: Fid) -> bool {
        let is_mapped = self.nodes().is_mapped(fid);
        is_mapped && locked(&self.open).of(fid).any(|file| file.takes_mapped_writes)
    }

    /// Registers an open directory. The number by which the kernel names it.
    pub(crate) fn add_dir(&self, dir: OpenedDir) -> u64 {
        let mut open = locked(&self.open);
        open.last += 1;
        let handle = open.last;
        open.dirs.insert(handle, Arc::new(dir));
        handle
    }

    pub(crate) fn opened_dir(&self, handle: u64) -> Result<Arc<OpenedDir>, Errno> {
        locked(&self.open).dirs.get(&handle).cloned().ok_or(Errno::EBADF)
    }

    pub(crate) fn remove_dir(&self, handle: u64) -> Result<Arc<OpenedDir>, Errno> {
        locked(&self.listings).keep(handle, 0);
        locked(&self.open).dirs.remove(&handle).ok_or(Errno::EBADF)
    }

    /// An open directory keeps the part that it has now. Others drop theirs if there are too many.
    pub(crate) fn keep_part(&self, handle: u64, dir: &OpenedDir) {
        let bytes = dir.state().part.bytes();
        let dropped = locked(&self.listings).keep(handle, bytes);
        for dropped in dropped.into_iter().filter_map(|handle| self.opened_dir(handle).ok()) {
            dropped.state().part.clear();
        }
    }

    /// The process that asks.
    pub(crate) fn requester(&self, request: &Request) -> Requester {
        Requester::of(&self.ids, request.pid(), request.uid(), request.gid())
    }
}

/// What a mutex guards. A thread that panicked under it has changed nothing by halves: nothing here
/// panics between two changes.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
