//! The session with the kernel, from the mount to the end.

use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use fuser::{Config, MountOption, Session, SessionACL, SessionUnmounter};
use lustrine_client::Sharing;
use lustrine_fs::{FileSystem, ImportView, LostWrites};
use lustrine_lnet::time::Nanos;
use rustix::io::Errno;
use rustix::mount::UnmountFlags;

use crate::atime::AtimeRule;
use crate::error::MountError;
use crate::options::Options;
use crate::server::Server;
use crate::shared::Shared;
use crate::unmount::{SUBTYPE, device_at, is_mounted_at};

/// Threads that read requests of the kernel. They answer what the client knows, and hand others on.
const THREADS_MAX: usize = 4;
/// How long operations that are in flight may take when the mount ends.
const END_TIMEOUT: Duration = Duration::from_secs(30);
/// How long it may take after the end of a mount until the servers have what programs have written:
/// a target that is down comes back within that, or does not.
pub const FLUSH_TIMEOUT: Duration = Duration::from_secs(600);

/// A mounted file system. Dropping it leaves the mount to the session, which ends with the process.
#[derive(Debug)]
pub struct Mount {
    dir: PathBuf,
    /// The device number, which tells it from what others mount at the directory.
    device: Option<String>,
    shared: Arc<Shared>,
    unmounter: SessionUnmounter,
    session: Option<JoinHandle<io::Result<()>>>,
}

impl Mount {
    /// Mounts a file system at a directory. `source` is what `/proc/mounts` shows.
    ///
    /// # Errors
    /// When the directory cannot be used, the root of the file system is no directory, or the
    /// kernel refuses.
    pub fn start(
        files: FileSystem,
        source: &str,
        dir: &Path,
        options: &Options,
    ) -> Result<Mount, MountError> {
        let dir = mount_point(dir)?;
        let root = files.walk("").ok();
        if root.as_ref().is_some_and(|root| !root.is_dir()) {
            return Err(MountError::NotADirectory);
        }
        // A read must not change anything either.
        let atime = if options.read_only { AtimeRule::Never } else { options.atime };
        let shared =
            Shared::new(files, root.as_ref(), atime, options.cache).map_err(MountError::Pipe)?;
        let shared = Arc::new(shared);
        let server = Server {
            shared: Arc::clone(&shared),
            user_xattr: options.user_xattr,
            locks: options.locks,
            sync: options.sync,
            caches: options.cache > 0,
            source: source.to_owned(),
        };
        let config = config(source, options);
        let mut session = Session::new(server, &dir, &config).map_err(|error| refused(&error))?;
        let number = device_at(&dir);
        let unmounter = session.unmount_callable();
        let device = session.as_fd().try_clone_to_owned().map_err(|error| refused(&error))?;
        shared.set_device(device);
        if options.names > 0 && !options.entry_timeout.is_zero() {
            let sharing = Sharing {
                entry_valid: Nanos::saturating_from(options.entry_timeout),
                is_for_one_user: !options.allows_others(),
            };
            shared.share_validity(sharing, session.notifier());
        }
        shared.watch_connections();
        shared.watch().map_err(MountError::Thread)?;
        let session = thread::Builder::new()
            .name("fuse".to_owned())
            .spawn(move || session.run())
            .map_err(MountError::Thread)?;
        Ok(Mount { dir, device: number, shared, unmounter, session: Some(session) })
    }

    /// Whether the mount has ended, because somebody has unmounted it.
    pub fn is_over(&self) -> bool {
        self.broke() || self.shared.is_unmounted()
    }

    /// Waits until the mount has ended, for at most this time or until a signal. Whether it has.
    pub fn wait(&self, most: Duration) -> bool {
        self.broke() || self.shared.wait_until_unmounted(most) || self.broke()
    }

    /// Whether the session has ended with an error.
    fn broke(&self) -> bool {
        self.session.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// The imports of the client.
    ///
    /// # Errors
    /// When the node does not answer.
    pub fn imports(&self) -> Result<Vec<ImportView>, lustrine_fs::FsError> {
        self.shared.files().imports()
    }

    /// What the client knows of its configuration.
    ///
    /// # Errors
    /// When the node does not answer.
    pub fn configuration(&self) -> Result<lustrine_fs::MgcView, lustrine_fs::FsError> {
        self.shared.files().configuration()
    }

    /// The bytes that programs have written and that are lost.
    ///
    /// # Errors
    /// When the node does not answer.
    pub fn lost(&self) -> Result<u64, lustrine_fs::FsError> {
        self.shared.files().lost()
    }

    /// What was lost since the last call, of at most 1,000 files and errors.
    ///
    /// # Errors
    /// When the node does not answer.
    pub fn take_losses(&self) -> Result<Vec<LostWrites>, lustrine_fs::FsError> {
        self.shared.files().take_losses()
    }

    /// Unmounts it. If programs use it, it disappears from the tree of directories at once, and
    /// ends when the last of them has closed its files.
    ///
    /// `false` if its directory does not lead to it any more: it has been detached, or moved, or
    /// something is mounted over it. Nothing is unmounted then.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn unmount(&mut self) -> Result<bool, MountError> {
        if self.is_over() {
            return Ok(true);
        }
        // As long as the connection with the kernel is there, no other file system gets the number.
        if self.device.is_none() || device_at(&self.dir) != self.device {
            return Ok(false);
        }
        if self.unmounter.unmount().is_ok() {
            return Ok(true);
        }
        match rustix::mount::unmount(&self.dir, UnmountFlags::DETACH) {
            // It was not there any more.
            Ok(()) | Err(Errno::INVAL) => Ok(true),
            Err(error) => {
                Err(MountError::MountPoint { dir: self.dir.clone(), why: error.to_string() })
            }
        }
    }

    /// Ends the client of a mount that has ended: waits for what is in flight, for at most 30
    /// seconds, writes what programs have written, and disconnects from the servers. While it waits
    /// for the servers to take that, `goes_on` is called ten times in a second, and gives up with
    /// `false`. `report` gets what could not be written, of at most 2,000 files and errors.
    ///
    /// # Errors
    /// When the session ended with an error, the servers do not answer, or some of the data cannot
    /// be written.
    pub fn finish(
        mut self,
        goes_on: impl FnMut() -> bool,
        report: impl FnOnce(Vec<LostWrites>),
    ) -> Result<(), MountError> {
        // The thread of a session that has not failed stays.
        let ended = match self.session.take().filter(JoinHandle::is_finished) {
            Some(session) => session.join().unwrap_or_else(|_| Err(io::Error::other("a panic"))),
            None => Ok(()),
        };
        // What waits for a lock would wait on.
        self.shared.give_up_locks(|_| true);
        self.shared.in_flight.wait_until_idle(END_TIMEOUT);
        // What cannot be written is lost when the client disconnects: the caller learns of it.
        let files = self.shared.files();
        let flushed = files.flush_all(FLUSH_TIMEOUT, goes_on).map_err(MountError::Unwritten);
        let mut losses = files.take_losses().unwrap_or_default();
        if flushed.is_err() {
            losses.extend(files.unwritten().unwrap_or_default());
        }
        report(losses);
        files.disconnect().map_err(MountError::Servers)?;
        flushed?;
        ended.map_err(MountError::Session)
    }
}

/// The settings of the session.
fn config(source: &str, options: &Options) -> Config {
    let is_root = rustix::process::geteuid().is_root();
    let choose = |on: bool, yes: MountOption, no: MountOption| if on { yes } else { no };
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName(source.to_owned()),
        MountOption::CUSTOM(format!("subtype={SUBTYPE}")),
        choose(options.read_only, MountOption::RO, MountOption::RW),
        // Only root may give rights.
        choose(options.suid && is_root, MountOption::Suid, MountOption::NoSuid),
        choose(options.leads_to_devices() && is_root, MountOption::Dev, MountOption::NoDev),
        choose(options.exec, MountOption::Exec, MountOption::NoExec),
    ];
    if options.default_permissions {
        config.mount_options.push(MountOption::DefaultPermissions);
    }
    // The kernel only shows it: times of access are the client's.
    if options.atime == AtimeRule::Never {
        config.mount_options.push(MountOption::NoAtime);
    }
    config.acl = match options.allows_others() {
        true => SessionACL::All,
        false => SessionACL::Owner,
    };
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    config.n_threads = Some(cpus.min(THREADS_MAX));
    config.clone_fd = true;
    config
}

/// The directory without symbolic links on the way, if a file system can be mounted there.
///
/// # Errors
/// When it is no directory, cannot be reached, or has a mount of this program already: the files of
/// that one would be out of reach.
pub fn mount_point(dir: &Path) -> Result<PathBuf, MountError> {
    let bad = |why: String| MountError::MountPoint { dir: dir.to_owned(), why };
    let unusable = |error: io::Error| match error.raw_os_error() {
        Some(code) if code == Errno::NOTCONN.raw_os_error() => bad(
            "a stale mount is here (its process has ended); remove it with `lustrine umount` or \
             umount(8)"
                .to_owned(),
        ),
        _ => bad(error.to_string()),
    };
    let whole = dir.canonicalize().map_err(unusable)?;
    match fs::metadata(&whole).map_err(unusable)?.is_dir() {
        true if is_mounted_at(&whole) => {
            Err(bad("a file system of `lustrine mount` is mounted there already".to_owned()))
        }
        true => Ok(whole),
        false => Err(bad("a mount point must be a directory".to_owned())),
    }
}

/// Why the file system cannot be mounted.
fn refused(error: &io::Error) -> MountError {
    let device = fs::OpenOptions::new().read(true).write(true).open("/dev/fuse");
    MountError::Fuse(explain(error, device.err().map(|error| error.kind())))
}

/// The same as text, by why the device cannot be opened, if it cannot.
fn explain(error: &io::Error, device: Option<io::ErrorKind>) -> String {
    let text = error.to_string();
    // The helper explains itself.
    if let Some(said) = text.trim().strip_prefix("fusermount3: ") {
        return format!("fusermount3 says: {said}");
    }
    let why = match error.kind() {
        io::ErrorKind::NotFound if device == Some(io::ErrorKind::NotFound) => {
            "there is no /dev/fuse; load the module with `modprobe fuse`, and give a container the \
             device with --device /dev/fuse"
        }
        io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied
            if device == Some(io::ErrorKind::PermissionDenied) =>
        {
            "this user may not open /dev/fuse; distributions let all users do so (`chmod 666 \
             /dev/fuse`, as root)"
        }
        io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied => {
            "this process may not mount; it needs CAP_SYS_ADMIN (root has it; in a container \
             --cap-add SYS_ADMIN), or fusermount3 of the package fuse3"
        }
        _ => return text,
    };
    why.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_point_is_a_directory() {
        let error = |path: &str| mount_point(Path::new(path)).unwrap_err().to_string();
        assert!(error("/proc/self/status").contains("must be a directory"));
        assert!(error("/no/such/place").contains("No such file"));
        assert_eq!(mount_point(Path::new("/proc/../proc")).unwrap(), Path::new("/proc"));
    }

    #[test]
    fn a_mount_that_is_refused_says_what_is_missing() {
        let not_found = io::Error::from_raw_os_error(2);
        let missing = Some(io::ErrorKind::NotFound);
        assert!(explain(&not_found, missing).starts_with("there is no /dev/fuse"));
        assert!(explain(&not_found, None).contains("--cap-add SYS_ADMIN"));
        let closed = Some(io::ErrorKind::PermissionDenied);
        assert!(explain(&not_found, closed).starts_with("this user may not open /dev/fuse"));
        let said = "fusermount3: mountpoint /tmp not owned by user\n";
        let helper = io::Error::new(io::ErrorKind::PermissionDenied, said);
        let expected = "fusermount3 says: mountpoint /tmp not owned by user";
        assert_eq!(explain(&helper, None), expected);
    }

    #[test]
    fn options_reach_the_kernel() {
        let options = Options { read_only: true, exec: false, ..Options::default() };
        let config = config("10.0.0.9@tcp:/lustre", &options);
        for wanted in [MountOption::RO, MountOption::NoExec] {
            assert!(config.mount_options.contains(&wanted), "{config:?}");
        }
        for other in [MountOption::DefaultPermissions, MountOption::NoAtime] {
            assert!(!config.mount_options.contains(&other), "{config:?}");
        }
    }
}
