//! Paths, and operations on names.

use std::collections::VecDeque;
use std::sync::OnceLock;

use lustrine_client::{Attr, Client, DirEntry, DirPage, OpenArgs};
use lustrine_fswire::fid::Fid;
use lustrine_fswire::mdt::OpenFlags;

use crate::error::FsError;
use crate::mount::{FileSystem, Pending};

/// What becomes of a symbolic link at the end of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FollowLinks {
    /// It is followed, as in the middle of a path.
    Yes,
    /// It is what the path names.
    No,
}

/// Most symbolic links in a path.
const LINKS_MAX: usize = 40;
/// Most entries of a directory that is listed: a listing is held in memory.
const ENTRIES_MAX: usize = 10_000_000;
/// Most lookups in flight at once, and how many are started together.
const LOOKUPS_MAX: usize = 64;
const LOOKUPS_TOGETHER: usize = 32;

impl FileSystem {
    /// The attributes of the file at a path from the root. Symbolic links are followed. A path that
    /// ends with a slash names a directory.
    ///
    /// # Errors
    /// When it does not exist or is no directory, or a server refuses.
    pub fn walk(&self, path: impl AsRef<[u8]>) -> Result<Attr, FsError> {
        self.find(path, FollowLinks::Yes)
    }

    /// As [`FileSystem::walk`], with a choice for a symbolic link at the end. One before a slash at
    /// the end is followed.
    ///
    /// # Errors
    /// As [`FileSystem::walk`].
    pub fn find(&self, path: impl AsRef<[u8]>, links: FollowLinks) -> Result<Attr, FsError> {
        let path = path.as_ref();
        self.find_from_root(path, links).map_err(|error| error.at(path))
    }

    fn find_from_root(&self, path: &[u8], links: FollowLinks) -> Result<Attr, FsError> {
        let caller = self.caller;
        let root = self.root();
        let mut here = self.ask(move |client, turn, done| {
            client.getattr(turn, caller, root, done);
        })?;
        // The directories on the way: `..` leads back.
        let mut above: Vec<Attr> = Vec::new();
        let mut names: Vec<Vec<u8>> = names_of(path);
        let mut links_left = LINKS_MAX;
        let is_dir = path.ends_with(b"/") || path.ends_with(b"/.");
        while let Some(name) = names.pop() {
            if name == b".." {
                if !here.is_dir() {
                    return Err(FsError::NotADirectory);
                }
                here = above.pop().unwrap_or(here);
                continue;
            }
            let next = self.look(&here, &name)?;
            let last = names.is_empty();
            if next.is_symlink() && !(last && links == FollowLinks::No && !is_dir) {
                links_left = links_left.checked_sub(1).ok_or(FsError::TooManyLinks)?;
                let target = self.readlink(next.fid)?;
                if target.starts_with(b"/") {
                    let text = String::from_utf8_lossy(&target).into_owned();
                    return Err(FsError::AbsoluteLink(text));
                }
                names.extend(names_of_bytes(&target));
                continue;
            }
            above.push(std::mem::replace(&mut here, next));
        }
        if is_dir && !here.is_dir() { Err(FsError::NotADirectory) } else { Ok(here) }
    }

    /// Looks a name up in a directory. A symbolic link is not followed.
    ///
    /// # Errors
    /// When it does not exist, or the server refuses.
    pub fn look(&self, parent: &Attr, name: &[u8]) -> Result<Attr, FsError> {
        let (caller, fid, name) = (self.caller, parent.fid, name.to_vec());
        self.ask(move |client, turn, done| client.lookup(turn, caller, fid, &name, done))
    }

    /// Looks many names of a directory up, several at a time, in their order. If names are kept
    /// ([`MountOptions::cache`]), servers are asked for several with one request.
    ///
    /// [`MountOptions::cache`]: crate::MountOptions::cache
    ///
    /// # Errors
    /// When the node does not answer. What a server refuses is the outcome of its name.
    pub fn look_all(
        &self,
        parent: &Attr,
        names: &[&[u8]],
    ) -> Result<Vec<Result<Attr, FsError>>, FsError> {
        let (caller, fid) = (self.caller, parent.fid);
        let mut found = Vec::with_capacity(names.len());
        let mut in_flight = VecDeque::new();
        let mut names = names.chunks(LOOKUPS_TOGETHER);
        loop {
            while in_flight.len() + LOOKUPS_TOGETHER <= LOOKUPS_MAX
                && let Some(some) = names.next()
            {
                let (pending, asked): (Vec<_>, Vec<_>) = some
                    .iter()
                    .map(|name| {
                        let (pending, done) = Pending::new();
                        (pending, (name.to_vec(), done))
                    })
                    .unzip();
                self.act(move |client, turn| client.lookup_all(turn, caller, fid, asked))?;
                in_flight.extend(pending);
            }
            let Some(first) = in_flight.pop_front() else { return Ok(found) };
            found.push(self.wait(&first));
        }
    }

    /// The attributes of many files, each as [`FileSystem::with_size`] gives them, asked for
    /// several at a time, in their order.
    ///
    /// # Errors
    /// When the node does not answer. What a server refuses is the outcome of its file.
    pub fn all_with_sizes(&self, attrs: Vec<Attr>) -> Result<Vec<Result<Attr, FsError>>, FsError> {
        let mut sized = Vec::with_capacity(attrs.len());
        let mut in_flight = VecDeque::new();
        let mut attrs = attrs.into_iter();
        loop {
            while in_flight.len() < LOOKUPS_MAX
                && let Some(attr) = attrs.next()
            {
                in_flight.push_back(self.start_completing(attr)?);
            }
            let Some(pending) = in_flight.pop_front() else { return Ok(sized) };
            sized.push(self.wait(&pending));
        }
    }

    /// The target of a symbolic link.
    ///
    /// # Errors
    /// When the server refuses, or it is no symbolic link.
    pub fn readlink(&self, fid: Fid) -> Result<Vec<u8>, FsError> {
        let caller = self.caller;
        self.ask(move |client, turn, done| client.readlink(turn, caller, fid, done))
    }

    /// Lists a directory, without `.` and `..`, in the order of names.
    ///
    /// # Errors
    /// When the server refuses.
    pub fn list(&self, dir: &Attr) -> Result<Vec<DirEntry>, FsError> {
        let (caller, fid) = (self.caller, dir.fid);
        // Only an open is checked.
        let args = OpenArgs { flags: OpenFlags::READ | OpenFlags::DIRECTORY, mode: 0, umask: 0 };
        let open = self.ask(move |client, turn, done| {
            client.open(turn, caller, fid, args, done);
        })?;
        let listed = self.pages(fid);
        self.ask(move |client: &mut Client, turn, done| {
            client.close(turn, caller, open, None, done);
        })?;
        let mut entries = listed?;
        entries.retain(|entry| entry.name != b"." && entry.name != b"..");
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    fn pages(&self, fid: Fid) -> Result<Vec<DirEntry>, FsError> {
        let caller = self.caller;
        let mut entries = Vec::new();
        let mut next = Some(0);
        while let Some(from) = next {
            let page: DirPage = self.ask(move |client, turn, done| {
                client.readdir(turn, caller, fid, from, done);
            })?;
            entries.extend(page.entries);
            if entries.len() > ENTRIES_MAX {
                return Err(FsError::DirectoryTooLarge(ENTRIES_MAX));
            }
            next = page.next;
        }
        Ok(entries)
    }

    fn start_completing(&self, attr: Attr) -> Result<Pending<Attr>, FsError> {
        let caller = self.caller;
        self.start(move |client, turn, done| client.complete(turn, caller, attr, done))
    }

    /// The attributes of a file with its size and the times of its objects, which may have to be
    /// asked; those of a striped directory with what its stripes know.
    ///
    /// # Errors
    /// When a server refuses, or the layout cannot be used.
    pub fn with_size(&self, attr: Attr) -> Result<Attr, FsError> {
        let pending = self.start_completing(attr)?;
        self.wait(&pending)
    }

    /// Makes a directory.
    ///
    /// # Errors
    /// When the server refuses.
    pub fn mkdir(&self, parent: &Attr, name: &[u8], mode: u32) -> Result<Attr, FsError> {
        let (caller, fid, name) = (self.caller, parent.fid, name.to_vec());
        let mode = (mode, umask());
        self.ask(move |client, turn, done| client.mkdir(turn, caller, fid, &name, mode, done))
    }

    /// Makes a symbolic link.
    ///
    /// # Errors
    /// When the server refuses.
    pub fn symlink(&self, parent: &Attr, name: &[u8], target: &[u8]) -> Result<Attr, FsError> {
        let (caller, fid) = (self.caller, parent.fid);
        let (name, target) = (name.to_vec(), target.to_vec());
        self.ask(move |client, turn, done| {
            client.symlink(turn, caller, fid, &name, &target, done);
        })
    }

    /// Removes a name: of an empty directory if `dir`, of anything else if not.
    ///
    /// # Errors
    /// When the server refuses.
    pub fn unlink(&self, parent: &Attr, name: &[u8], dir: bool) -> Result<(), FsError> {
        let (caller, fid, name) = (self.caller, parent.fid, name.to_vec());
        self.ask(move |client, turn, done| client.unlink(turn, caller, fid, &name, dir, done))
    }

    /// Changes a name. What had the new name is replaced.
    ///
    /// # Errors
    /// When the server refuses.
    pub fn rename(
        &self,
        (parent, name): (&Attr, &[u8]),
        (new_parent, new_name): (&Attr, &[u8]),
    ) -> Result<(), FsError> {
        let object = self.look(parent, name)?;
        let caller = self.caller;
        let (from, to) = (parent.fid, new_parent.fid);
        let (name, new_name) = (name.to_vec(), new_name.to_vec());
        self.ask(move |client, turn, done| {
            client.rename(turn, caller, (from, &name), (to, &new_name), object.mode, done);
        })
    }
}

/// The permissions that this process takes away from new files. They are read once: the system has
/// no call that reads them without setting them, which other threads would see.
pub fn umask() -> u32 {
    static UMASK: OnceLock<u32> = OnceLock::new();
    *UMASK.get_or_init(|| {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let known = status.lines().find_map(|line| line.strip_prefix("Umask:"));
        let known = known.and_then(|mask| u32::from_str_radix(mask.trim(), 8).ok());
        known.unwrap_or_else(|| {
            let mask = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
            rustix::process::umask(mask);
            mask.as_raw_mode()
        })
    })
}

/// The names of a path, the last one first.
fn names_of(path: &[u8]) -> Vec<Vec<u8>> {
    names_of_bytes(path).collect()
}

fn names_of_bytes(path: &[u8]) -> impl Iterator<Item = Vec<u8>> + '_ {
    let names = path.split(|byte| *byte == b'/').filter(|name| !name.is_empty() && *name != b".");
    names.rev().map(<[u8]>::to_vec)
}
