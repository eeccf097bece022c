//! A file system that passes everything on to a directory, with the same library as a mount, and as
//! many threads: what FUSE itself costs (`cargo xtask bench mount`).
//!
//! ```text
//! pass_through DIRECTORY MOUNTPOINT
//! ```
//!
//! The kernel keeps names and attributes for as long as those of a mount, and no data. It runs
//! until it is unmounted, and has what the benchmark needs: files are looked up, listed, made,
//! opened, read, written and unlinked.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use fuser::{
    BsdFileFlags, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags,
    Generation, INodeNo, InitFlags, KernelConfig, LockOwner, MountOption, OpenFlags, ReplyAttr,
    ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite, Request,
    Session, SessionACL, TimeOrNow, WriteFlags,
};

/// Bytes of a request at most, and requests in the background, as a mount has them.
const DATA_MAX: u32 = 1 << 20;
const BACKGROUND_MAX: u16 = 64;
/// What the kernel may do, of what a mount has it do.
const WANTED: [InitFlags; 4] = [
    InitFlags::FUSE_ASYNC_DIO,
    InitFlags::FUSE_PARALLEL_DIROPS,
    InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP,
    InitFlags::FUSE_AUTO_INVAL_DATA,
];
/// The kernel keeps no data.
const FILE_FLAGS: FopenFlags =
    FopenFlags::FOPEN_DIRECT_IO.union(FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES);
/// Threads that read requests.
const THREADS_MAX: usize = 4;
/// How long the kernel keeps names and attributes: as long as those of a mount.
const ENTRY_VALID: Duration = Duration::from_millis(100);
const ATTR_VALID: Duration = Duration::from_secs(1);

/// What the kernel knows by a number.
struct Node {
    path: Arc<Path>,
    lookups: u64,
}

/// The entries of a directory when it was opened.
type Listing = Vec<(u64, FileType, OsString)>;

/// The directory behind the mount.
struct PassThrough {
    nodes: Mutex<HashMap<u64, Node>>,
    files: Mutex<HashMap<u64, Arc<File>>>,
    listings: Mutex<HashMap<u64, Arc<Listing>>>,
    next_handle: AtomicU64,
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn errno(error: &io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::EIO, Errno::from_i32)
}

fn attr(path: &Path, number: Option<INodeNo>) -> io::Result<FileAttr> {
    let found = fs::symlink_metadata(path)?;
    let kind = match found.is_dir() {
        true => FileType::Directory,
        false => FileType::RegularFile,
    };
    Ok(FileAttr {
        ino: number.unwrap_or(INodeNo(found.ino())),
        size: found.size(),
        blocks: found.blocks(),
        atime: found.accessed()?,
        mtime: found.modified()?,
        ctime: found.modified()?,
        crtime: found.modified()?,
        kind,
        perm: (found.mode() & 0o7777) as u16,
        nlink: found.nlink() as u32,
        uid: found.uid(),
        gid: found.gid(),
        rdev: 0,
        blksize: 4096,
        flags: 0,
    })
}

impl PassThrough {
    fn new(dir: &Path) -> PassThrough {
        let root = Node { path: dir.into(), lookups: 1 };
        PassThrough {
            nodes: Mutex::new(HashMap::from([(INodeNo::ROOT.0, root)])),
            files: Mutex::default(),
            listings: Mutex::default(),
            next_handle: AtomicU64::new(1),
        }
    }

    fn path(&self, number: INodeNo) -> io::Result<Arc<Path>> {
        let path = locked(&self.nodes).get(&number.0).map(|node| Arc::clone(&node.path));
        path.ok_or_else(|| rustix::io::Errno::STALE.into())
    }

    fn child(&self, parent: INodeNo, name: &OsStr) -> io::Result<PathBuf> {
        Ok(self.path(parent)?.join(name))
    }

    /// The kernel knows a file from now on.
    fn entry(&self, path: PathBuf) -> io::Result<FileAttr> {
        let attr = attr(&path, None)?;
        let mut nodes = locked(&self.nodes);
        let new = || Node { path: path.into(), lookups: 0 };
        nodes.entry(attr.ino.0).or_insert_with(new).lookups += 1;
        Ok(attr)
    }

    fn opened(&self, file: File) -> FileHandle {
        let handle = self.next_handle.fetch_add(1, Ordering::Relaxed);
        locked(&self.files).insert(handle, Arc::new(file));
        FileHandle(handle)
    }

    fn file(&self, handle: FileHandle) -> io::Result<Arc<File>> {
        let file = locked(&self.files).get(&handle.0).cloned();
        file.ok_or_else(|| rustix::io::Errno::BADF.into())
    }

    fn list(&self, number: INodeNo) -> io::Result<Listing> {
        let entries = fs::read_dir(self.path(number)?)?.map(|entry| {
            let entry = entry?;
            let kind = match entry.file_type()?.is_dir() {
                true => FileType::Directory,
                false => FileType::RegularFile,
            };
            Ok((std::os::unix::fs::DirEntryExt::ino(&entry), kind, entry.file_name()))
        });
        entries.collect()
    }
}

/// Answers with an error, or goes on with a value.
macro_rules! or_error {
    ($reply:ident, $outcome:expr) => {
        match $outcome {
            Ok(value) => value,
            Err(error) => return $reply.error(errno(&error)),
        }
    };
}

impl Filesystem for PassThrough {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        for wanted in WANTED {
            // An older kernel does without.
            let _ = config.add_capabilities(wanted);
        }
        let _ = config.set_max_write(DATA_MAX);
        let _ = config.set_max_readahead(DATA_MAX);
        let _ = config.set_max_background(BACKGROUND_MAX);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let found = self.child(parent, name).and_then(|path| self.entry(path));
        let attr = or_error!(reply, found);
        reply.entry_with_ttls(&ATTR_VALID, &ENTRY_VALID, &attr, Generation(0));
    }

    fn forget(&self, _: &Request, number: INodeNo, lookups: u64) {
        let mut nodes = locked(&self.nodes);
        let Some(node) = nodes.get_mut(&number.0) else { return };
        node.lookups = node.lookups.saturating_sub(lookups);
        if node.lookups == 0 && number != INodeNo::ROOT {
            nodes.remove(&number.0);
        }
    }

    fn getattr(&self, _: &Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        let found = self.path(number).and_then(|path| attr(&path, Some(number)));
        let attr = or_error!(reply, found);
        reply.attr(&ATTR_VALID, &attr);
    }

    fn setattr(
        &self,
        _: &Request,
        number: INodeNo,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<std::time::SystemTime>,
        _: Option<FileHandle>,
        _: Option<std::time::SystemTime>,
        _: Option<std::time::SystemTime>,
        _: Option<std::time::SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let path = or_error!(reply, self.path(number));
        if let Some(size) = size {
            let file = OpenOptions::new().write(true).open(&path);
            or_error!(reply, file.and_then(|file| file.set_len(size)));
        }
        let attr = or_error!(reply, attr(&path, Some(number)));
        reply.attr(&ATTR_VALID, &attr);
    }

    fn mkdir(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        reply: ReplyEntry,
    ) {
        let path = or_error!(reply, self.child(parent, name));
        or_error!(reply, fs::DirBuilder::new().mode(mode).create(&path));
        let attr = or_error!(reply, self.entry(path));
        reply.entry_with_ttls(&ATTR_VALID, &ENTRY_VALID, &attr, Generation(0));
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        or_error!(reply, self.child(parent, name).and_then(fs::remove_file));
        reply.ok();
    }

    fn create(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        _: i32,
        reply: ReplyCreate,
    ) {
        let path = or_error!(reply, self.child(parent, name));
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create(true).mode(mode);
        let file = or_error!(reply, options.open(&path));
        let attr = or_error!(reply, self.entry(path));
        let handle = self.opened(file);
        reply.created(&ENTRY_VALID, &attr, Generation(0), handle, FILE_FLAGS);
    }

    fn open(&self, _: &Request, number: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let path = or_error!(reply, self.path(number));
        let writes = flags.0 & 3 != 0;
        let file = OpenOptions::new().read(flags.0 & 3 != 1).write(writes).open(path);
        let handle = self.opened(or_error!(reply, file));
        reply.opened(handle, FILE_FLAGS);
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        thread_local! {
            static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
        }
        let file = or_error!(reply, self.file(handle));
        BUFFER.with_borrow_mut(|buffer| {
            if buffer.len() < size as usize {
                buffer.resize(size as usize, 0);
            }
            let read = or_error!(reply, file.read_at(&mut buffer[..size as usize], offset));
            reply.data(&buffer[..read]);
        });
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let file = or_error!(reply, self.file(handle));
        or_error!(reply, file.write_all_at(data, offset));
        reply.written(data.len() as u32);
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        locked(&self.files).remove(&handle.0);
        reply.ok();
    }

    fn fsync(&self, _: &Request, _: INodeNo, handle: FileHandle, _: bool, reply: ReplyEmpty) {
        or_error!(reply, self.file(handle).and_then(|file| file.sync_all()));
        reply.ok();
    }

    fn opendir(&self, _: &Request, number: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let listing = or_error!(reply, self.list(number));
        let handle = self.next_handle.fetch_add(1, Ordering::Relaxed);
        locked(&self.listings).insert(handle, Arc::new(listing));
        reply.opened(FileHandle(handle), FopenFlags::empty());
    }

    fn readdir(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let listing = locked(&self.listings).get(&handle.0).cloned().unwrap_or_default();
        for (at, (inode, kind, name)) in listing.iter().enumerate().skip(offset as usize) {
            if reply.add(INodeNo(*inode), at as u64 + 1, *kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn releasedir(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        reply: ReplyEmpty,
    ) {
        locked(&self.listings).remove(&handle.0);
        reply.ok();
    }
}

fn run(dir: &Path, mount_point: &Path) -> io::Result<()> {
    let mut config = Config::default();
    config.mount_options = vec![MountOption::FSName("pass_through".to_owned()), MountOption::RW];
    config.acl = SessionACL::Owner;
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    config.n_threads = Some(cpus.min(THREADS_MAX));
    config.clone_fd = true;
    Session::new(PassThrough::new(dir), mount_point, &config)?.run()
}

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    let [dir, mount_point] = &words[..] else {
        eprintln!("usage: pass_through DIRECTORY MOUNTPOINT");
        return ExitCode::FAILURE;
    };
    match run(dir.as_ref(), mount_point.as_ref()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("pass_through: {error}");
            ExitCode::FAILURE
        }
    }
}
