//! A file system that is mounted into the process.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant, SystemTime};

use lustrine_client::{
    CacheTunables, Caller, Client, ClientArgs, Done, LostWrites, MgcTunables, MgcView, Space,
};
use lustrine_fswire::fid::Fid;
use lustrine_lnet::service::Turn;
use lustrine_lnet::time::Time;
use lustrine_node::{NodeHandle, SharedService};
use lustrine_ptlrpc::{ImportTunables, ImportView};

use crate::error::FsError;
use crate::identity;
use crate::room::{Permit, Room};
use crate::status::Status;
use crate::url::FsUrl;

/// How a file system is mounted.
#[derive(Clone, Debug)]
pub struct MountOptions {
    /// How long each operation may take, the mount included. A server that restarts needs minutes.
    pub timeout: Duration,
    /// The settings of all imports.
    pub imports: ImportTunables,
    /// A directory of the file system that is to be the root, such as `/projects`; empty for the
    /// whole.
    pub subdirectory: String,
    /// How much it keeps of the data of files, their names and attributes.
    pub cache: CacheTunables,
    /// How it follows the configuration of the file system.
    pub mgc: MgcTunables,
}

impl Default for MountOptions {
    fn default() -> MountOptions {
        MountOptions {
            timeout: Duration::from_secs(60),
            imports: ImportTunables::default(),
            subdirectory: String::new(),
            cache: CacheTunables::NONE,
            mgc: MgcTunables::default(),
        }
    }
}

/// A mounted file system. Dropping it disconnects from the servers in the background, and gives the
/// node's memory and descriptors back; [`FileSystem::unmount`] waits for the servers.
#[derive(Debug)]
pub struct FileSystem {
    service: SharedService<Client>,
    root: Fid,
    pub(crate) caller: Caller,
    /// Bounds the data of all reads in flight, in pieces.
    pub(crate) reads: Room,
    /// The same for writes. They have room of their own: a copy reads and writes.
    pub(crate) writes: Room,
    timeout: Duration,
}

/// Pieces of 4 MiB of all files together that are read, and that are written, at once. The node has
/// memory for several times as many.
const PIECES: usize = 24;

/// The mounts of this process so far: each has a number of its own in its node. After 128 mounts
/// the numbers come again, with other times.
static MOUNTS: AtomicU8 = AtomicU8::new(0);

/// How often one who waits for servers is asked whether it is to go on.
const LOOK: Duration = Duration::from_millis(100);

/// How long the servers may take to answer a disconnect.
const UNMOUNT_TIMEOUT: Duration = Duration::from_secs(10);

impl FileSystem {
    /// Mounts the file system of a URL, with a client in an event loop of the node.
    ///
    /// # Errors
    /// When the servers do not answer in time, or there is no such file system.
    pub fn mount(
        node: &NodeHandle,
        url: &FsUrl,
        options: &MountOptions,
    ) -> Result<FileSystem, FsError> {
        FileSystem::mount_while(node, url, options, |_| true)
    }

    /// The same; while it waits for servers `goes_on` is called ten times in a second, and ends the
    /// attempt with `false`. The file system that it gets can say what is waited for.
    ///
    /// # Errors
    /// As [`FileSystem::mount`], and [`FsError::GivenUp`].
    pub fn mount_while(
        node: &NodeHandle,
        url: &FsUrl,
        options: &MountOptions,
        goes_on: impl FnMut(&FileSystem) -> bool,
    ) -> Result<FileSystem, FsError> {
        let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let args = ClientArgs {
            mgs: url.mgs.clone(),
            fsname: url.fsname.clone(),
            fileset: options.subdirectory.clone(),
            mgc_uuid: identity::uuid()?,
            uuid: identity::uuid()?,
            seed: identity::random()? as u64,
            number: MOUNTS.fetch_add(1, Ordering::Relaxed) & 0x7f,
            wall_seconds: wall.as_secs(),
            wall_nanos: wall.subsec_nanos(),
            imports: options.imports,
            cache: options.cache,
            mgc: options.mgc,
        };
        let service = node.register_shared(&url.mgs[0], move |owner| Client::new(owner, args))?;
        let mut files = FileSystem {
            service,
            root: Fid::ZERO,
            caller: identity::caller(),
            reads: Room::new(PIECES),
            writes: Room::new(PIECES),
            timeout: options.timeout,
        };
        match files.root_while(goes_on) {
            Ok(root) => {
                files.root = root;
                Ok(files)
            }
            Err(error) => {
                // The servers that answered keep nothing of this client.
                let _ = files.unmount();
                Err(error)
            }
        }
    }

    fn root_while(&self, mut goes_on: impl FnMut(&FileSystem) -> bool) -> Result<Fid, FsError> {
        let pending = self.start(Client::mount)?;
        self.wait_while(&pending, self.timeout, || goes_on(self))
    }

    /// Waits for the outcome of an operation, for at most this time. Meanwhile `goes_on` is called
    /// ten times in a second.
    fn wait_while<T>(
        &self,
        pending: &Pending<T>,
        most: Duration,
        mut goes_on: impl FnMut() -> bool,
    ) -> Result<T, FsError> {
        let end = Instant::now() + most;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            match pending.0.recv_timeout(left.min(LOOK)) {
                Ok(outcome) => return Ok(outcome?),
                Err(mpsc::RecvTimeoutError::Timeout) if left > LOOK => {}
                // The time is over, or the client has ended.
                Err(_) => return Err(self.timed_out(most)),
            }
            if !goes_on() {
                return Err(FsError::GivenUp);
            }
        }
    }

    /// Disconnects from all servers.
    ///
    /// # Errors
    /// When they do not answer within 10 seconds: then they find out by themselves.
    pub fn unmount(self) -> Result<(), FsError> {
        self.disconnect()
    }

    /// The same for a file system that others hold: their operations fail from now on.
    ///
    /// # Errors
    /// As [`FileSystem::unmount`].
    pub fn disconnect(&self) -> Result<(), FsError> {
        let pending = self.start(Client::unmount)?;
        self.wait_for(&pending, UNMOUNT_TIMEOUT)
    }

    /// Waits until the servers have what programs have written, for at most this time. Meanwhile
    /// `goes_on` is called ten times in a second, and gives up with `false`.
    ///
    /// # Errors
    /// When they do not have it in time, or some of it cannot be written; [`FsError::GivenUp`].
    pub fn flush_all(&self, most: Duration, goes_on: impl FnMut() -> bool) -> Result<(), FsError> {
        let pending = self.start(Client::flush_all)?;
        self.wait_while(&pending, most, goes_on)
    }

    /// Has the event loop of the client start an operation, which calls what goes on when it is
    /// over, in the loop: that must not wait for anything. This is how adapters have many
    /// operations in flight without a thread for each.
    ///
    /// # Errors
    /// When the node has stopped, or its event loop is overloaded: the operation is dropped.
    pub fn post(
        &self,
        operation: impl FnOnce(&mut Client, &mut Turn<'_>) + Send + 'static,
    ) -> Result<(), FsError> {
        Ok(self.service.post(operation)?)
    }

    /// Uses the client in this thread, for what it can answer at once. The event loop of the client
    /// waits meanwhile. It must not be called by an operation, which is in the loop.
    ///
    /// None when the node has stopped.
    pub fn with_client<T>(&self, act: impl FnOnce(&mut Client, Time) -> T) -> Option<T> {
        self.service.with(act)
    }

    /// The user whose rights count, as requests name them.
    pub fn user(&self) -> u32 {
        self.caller.uid
    }

    /// Whether another mount is of the same file system: a target has the same name and the same
    /// NID in both.
    ///
    /// # Errors
    /// When the node does not answer.
    pub fn is_same(&self, other: &FileSystem) -> Result<bool, FsError> {
        if std::ptr::eq(self, other) {
            return Ok(true);
        }
        let (ours, theirs) = (self.imports()?, other.imports()?);
        let same = |a: &ImportView, b: &ImportView| {
            a.target == b.target && a.peer.nid == b.peer.nid && !a.target.starts_with("MGS")
        };
        Ok(ours.iter().any(|a| theirs.iter().any(|b| same(a, b))))
    }

    /// The root of the file system.
    pub fn root(&self) -> Fid {
        self.root
    }

    /// The imports of the client.
    ///
    /// # Errors
    /// When the node does not answer.
    pub fn imports(&self) -> Result<Vec<ImportView>, FsError> {
        self.ask(|client, turn, done| {
            let imports = client.imports();
            done(client, turn, Ok(imports));
        })
    }

    /// What the client knows of its configuration.
    ///
    /// # Errors
    /// When the node does not answer.
    pub fn configuration(&self) -> Result<MgcView, FsError> {
        self.ask(|client, turn, done| {
            let view = client.mgc(turn.now);
            done(client, turn, Ok(view));
        })
    }

    /// The bytes that programs have written and that are lost.
    ///
    /// # Errors
    /// When the node does not answer.
    pub fn lost(&self) -> Result<u64, FsError> {
        self.ask(|client, turn, done| {
            let lost = client.cache_counts().lost;
            done(client, turn, Ok(lost));
        })
    }

    /// What was lost since the last call, of at most 1,000 files and errors.
    ///
    /// # Errors
    /// When the node does not answer.
    pub fn take_losses(&self) -> Result<Vec<LostWrites>, FsError> {
        self.ask(|client, turn, done| {
            let losses = client.take_losses();
            done(client, turn, Ok(losses));
        })
    }

    /// What is lost if the client disconnects now, of at most 1,000 files.
    ///
    /// # Errors
    /// When the node does not answer.
    pub fn unwritten(&self) -> Result<Vec<LostWrites>, FsError> {
        self.ask(|client, turn, done| {
            let losses = client.unwritten();
            done(client, turn, Ok(losses));
        })
    }

    /// What the client does now, and what it has done.
    ///
    /// # Errors
    /// When the node does not answer.
    pub fn status(&self) -> Result<Status, FsError> {
        self.ask(|client, turn, done| {
            let status = Status::of(client, turn.now);
            done(client, turn, Ok(status));
        })
    }

    /// The space of the file system.
    ///
    /// # Errors
    /// When the servers do not answer in time.
    pub fn space(&self) -> Result<Space, FsError> {
        self.ask(Client::statfs)
    }

    /// Has the event loop start an operation; the receiver gets its outcome.
    pub(crate) fn start<T: Send + 'static>(
        &self,
        operation: impl FnOnce(&mut Client, &mut Turn<'_>, Done<T>) + Send + 'static,
    ) -> Result<Pending<T>, FsError> {
        let (pending, done) = Pending::new();
        self.act(move |client, turn| operation(client, turn, done))?;
        Ok(pending)
    }

    /// Has the event loop do something with the client.
    pub(crate) fn act(
        &self,
        action: impl FnOnce(&mut Client, &mut Turn<'_>) + Send + 'static,
    ) -> Result<(), FsError> {
        Ok(self.service.post(action)?)
    }

    /// Starts an operation and waits for its outcome.
    pub(crate) fn ask<T: Send + 'static>(
        &self,
        operation: impl FnOnce(&mut Client, &mut Turn<'_>, Done<T>) + Send + 'static,
    ) -> Result<T, FsError> {
        let pending = self.start(operation)?;
        self.wait(&pending)
    }

    /// Waits for the outcome of an operation.
    pub(crate) fn wait<T>(&self, pending: &Pending<T>) -> Result<T, FsError> {
        self.wait_for(pending, self.timeout)
    }

    fn wait_for<T>(&self, pending: &Pending<T>, timeout: Duration) -> Result<T, FsError> {
        match pending.0.recv_timeout(timeout) {
            Ok(outcome) => Ok(outcome?),
            Err(_) => Err(self.timed_out(timeout)),
        }
    }

    /// Waits for a place. A server that is down keeps the places of its requests: then this waits
    /// no longer than an operation may take.
    pub(crate) fn place(&self, room: &Room) -> Result<Permit, FsError> {
        room.take(self.timeout).ok_or_else(|| self.timed_out(self.timeout))
    }

    fn timed_out(&self, timeout: Duration) -> FsError {
        FsError::TimedOut { seconds: timeout.as_secs(), waiting: self.waiting() }
    }

    /// The targets that are not connected, as text.
    fn waiting(&self) -> String {
        let pending = self.start(|client, turn, done: Done<Vec<ImportView>>| {
            let imports = client.imports();
            done(client, turn, Ok(imports));
        });
        let imports = pending
            .ok()
            .and_then(|pending| pending.0.recv_timeout(Duration::from_secs(5)).ok()?.ok());
        let Some(imports) = imports else { return "the client does not answer".to_owned() };
        let waiting: Vec<String> = imports
            .iter()
            .filter(|import| !import.state.is_usable())
            .map(|import| {
                let ImportView { target, peer, state, .. } = import;
                format!("{target} at {} is {}", peer.nid, state.name())
            })
            .collect();
        match waiting.is_empty() {
            true => "all targets are connected, and a request is not answered".to_owned(),
            false => waiting.join(", "),
        }
    }
}

/// An operation that is in flight.
#[derive(Debug)]
pub(crate) struct Pending<T>(mpsc::Receiver<lustrine_client::Outcome<T>>);

impl<T: Send + 'static> Pending<T> {
    /// One that is to be started, and what it calls when it is over.
    pub(crate) fn new() -> (Pending<T>, Done<T>) {
        let (sender, receiver) = mpsc::channel();
        let done: Done<T> = Box::new(move |_, _, outcome| {
            // Who waits may have given up.
            let _ = sender.send(outcome);
        });
        (Pending(receiver), done)
    }
}
