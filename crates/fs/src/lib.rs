//! Files of a Lustre file system, without a mount.
//!
//! A [`FileSystem`] is a client in an event loop of a [`Node`](lustrine_node::Node). Its methods
//! block until the servers have answered, and may be called by several threads at once.
//!
//! ```no_run
//! use lustrine_fs::{FileSystem, FsUrl, MountOptions};
//! use lustrine_node::Node;
//!
//! fn list(node: &Node) -> Result<(), Box<dyn std::error::Error>> {
//!     let url: FsUrl = "lustre://10.0.0.9@tcp/lustre/projects".parse()?;
//!     let files = FileSystem::mount(node, &url, &MountOptions::default())?;
//!     for entry in files.list(&files.walk(&url.path)?)? {
//!         println!("{}", String::from_utf8_lossy(&entry.name));
//!     }
//!     files.unmount()?;
//!     Ok(())
//! }
//! ```
#![forbid(unsafe_code)]

mod change;
mod error;
mod file;
mod identity;
mod mount;
mod room;
mod shown;
mod status;
mod url;
mod walk;

pub use error::FsError;
pub use file::{File, Piece, WRITE_AHEAD};
pub use identity::{IdMaps, unique_name};
pub use lustrine_client::{
    Attr, CacheTunables, Changes, ClientError, DirEntry, LostWrites, MgcTunables, MgcView, SetTime,
    Space,
};
pub use lustrine_fswire::fid::Fid;
pub use lustrine_ptlrpc::{ImportState, ImportView};
pub use mount::{FileSystem, MountOptions};
pub use shown::shown;
pub use status::{
    CacheRow, ConfigRow, ConfigurationRow, NamesRow, OperationRow, Status, TargetRow,
};
pub use url::{FsUrl, UrlError};
pub use walk::{FollowLinks, umask};
