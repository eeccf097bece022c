//! A mount of a Lustre file system through FUSE.
//!
//! [`Mount`] joins the kernel's FUSE and a [`FileSystem`](lustrine_fs::FileSystem): threads of a
//! session read requests, answer what the client knows, and post others to the event loop of the
//! client; the loop answers them when the servers have. Many requests are in flight at once, and no
//! thread waits for one.
//!
//! Data, names and attributes are cached by the client, under locks of the servers; the kernel uses
//! names and attributes for a moment without asking, while the client keeps the locks. So a mount
//! is coherent with all other clients of the file system.
//!
//! ```no_run
//! use std::path::Path;
//! use std::time::Duration;
//!
//! use lustrine_fs::{FileSystem, FsUrl, MountOptions};
//! use lustrine_fuse::{Mount, Options};
//!
//! fn mount(node: &lustrine_node::Node) -> Result<(), Box<dyn std::error::Error>> {
//!     let url: FsUrl = "lustre://10.0.0.9@tcp/lustre".parse()?;
//!     let files = FileSystem::mount(node, &url, &MountOptions::default())?;
//!     let options = Options::default();
//!     let mount = Mount::start(files, &url.to_string(), Path::new("/mnt"), &options)?;
//!     while !mount.wait(Duration::from_secs(60)) {}
//!     mount.finish(|| true, |_| ())?;
//!     Ok(())
//! }
//! ```
#![forbid(unsafe_code)]

mod after_closes;
mod at_once;
mod atime;
mod attributes;
mod budget;
mod closes;
mod convert;
mod data;
mod dirs;
mod error;
mod failed_writes;
mod groups;
mod held;
mod in_flight;
mod listings;
mod lock_table;
mod locks;
mod names;
mod nodes;
mod options;
mod program;
mod reply;
mod requester;
mod server;
mod session;
mod settings;
mod shared;
mod signals;
mod size_after_failure;
mod space;
mod status;
mod unmount;

pub use atime::AtimeRule;
pub use error::MountError;
pub use options::{Locks, OptionError, Options};
pub use program::MountProgram;
pub use session::{FLUSH_TIMEOUT, Mount, mount_point};
pub use settings::set;
pub use status::{MountStatus, status};
pub use unmount::{MountedAt, UnmountMode, Unmounted, mount_points, mounted_at, unmount};
