//! Changes of files that exist: attributes, names, extended attributes.

use lustrine_client::{Attr, Changes, FileLayout};
use lustrine_fswire::fid::Fid;
use lustrine_fswire::mdt::XattrFlags;

use crate::error::FsError;
use crate::mount::FileSystem;

impl FileSystem {
    /// Sets attributes of a file, and gives it as it is then. Its size is known if it was set.
    ///
    /// # Errors
    /// When a server refuses, or the layout of the file cannot be used.
    pub fn set_attributes(&self, fid: Fid, changes: Changes) -> Result<Attr, FsError> {
        let caller = self.caller;
        self.ask(move |client, turn, done| {
            client.set_attributes(turn, caller, fid, changes, done);
        })
    }

    /// Adds a name for a file that is no directory.
    ///
    /// # Errors
    /// When the server refuses.
    pub fn link(&self, fid: Fid, parent: &Attr, name: &[u8]) -> Result<(), FsError> {
        let (caller, parent, name) = (self.caller, parent.fid, name.to_vec());
        self.ask(move |client, turn, done| client.link(turn, caller, fid, parent, &name, done))
    }

    /// Reads an extended attribute, such as `user.comment`.
    ///
    /// # Errors
    /// When the file does not have it, or the server refuses.
    pub fn getxattr(&self, attr: &Attr, name: &[u8]) -> Result<Vec<u8>, FsError> {
        let (caller, fid, name) = (self.caller, attr.fid, name.to_vec());
        self.ask(move |client, turn, done| client.getxattr(turn, caller, fid, &name, done))
    }

    /// Lists the names of the extended attributes of a file, those of the servers included.
    ///
    /// # Errors
    /// When the server refuses.
    pub fn listxattr(&self, fid: Fid) -> Result<Vec<Vec<u8>>, FsError> {
        let caller = self.caller;
        self.ask(move |client, turn, done| client.listxattr(turn, caller, fid, done))
    }

    /// Sets an extended attribute, whether it was there or not.
    ///
    /// # Errors
    /// When the server refuses, or the value has more than 65,536 bytes.
    pub fn setxattr(&self, attr: &Attr, name: &[u8], value: &[u8]) -> Result<(), FsError> {
        let (caller, fid, name, value) = (self.caller, attr.fid, name.to_vec(), value.to_vec());
        let flags = XattrFlags::empty();
        self.ask(move |client, turn, done| {
            client.setxattr(turn, caller, fid, &name, &value, flags, done);
        })
    }

    /// Removes an extended attribute.
    ///
    /// # Errors
    /// When the file does not have it, or the server refuses.
    pub fn removexattr(&self, attr: &Attr, name: &[u8]) -> Result<(), FsError> {
        let (caller, fid, name) = (self.caller, attr.fid, name.to_vec());
        self.ask(move |client, turn, done| client.removexattr(turn, caller, fid, &name, done))
    }

    /// Has the metadata server of a file commit all that it has done so far.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn sync(&self, fid: Fid) -> Result<(), FsError> {
        let caller = self.caller;
        self.ask(move |client, turn, done| client.sync(turn, caller, fid, done))
    }

    /// Has the metadata servers of files commit all that they have done so far. Files may have been
    /// removed since: a server is asked for one that is there [MDT-27].
    ///
    /// # Errors
    /// When a server does not answer. All others have committed then.
    pub fn sync_all(&self, mut fids: Vec<Fid>) -> Result<(), FsError> {
        loop {
            let all = fids.clone();
            let chosen = self.ask(move |client, turn, done| {
                let chosen = client.one_for_each_mdt(&all);
                done(client, turn, Ok(chosen));
            })?;
            let (mut synced, mut gone) = (Ok(()), Vec::new());
            for fid in chosen {
                match self.sync(fid) {
                    Err(error) if error.is_not_found() => gone.push(fid),
                    outcome => synced = synced.and(outcome),
                }
            }
            if gone.is_empty() {
                return synced;
            }
            fids.retain(|fid| !gone.contains(fid));
        }
    }

    /// Makes a file durable: attributes, and the data of its objects.
    ///
    /// # Errors
    /// When a server does not answer, or the layout cannot be used.
    pub fn fsync(&self, attr: &Attr) -> Result<(), FsError> {
        let layout = match attr.is_file() {
            true => FileLayout::parse(&attr.layout)?,
            false => FileLayout::default(),
        };
        let (caller, fid) = (self.caller, attr.fid);
        self.ask(move |client, turn, done| client.fsync(turn, caller, fid, &layout, done))
    }
}
