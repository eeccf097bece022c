//! The control socket: one JSON request per line in, one JSON answer per line out.
//!
//! A Unix stream socket with mode 0600. Requests are bounded in length, callers in number; a
//! caller that says nothing for a while is let go.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use crate::call::{Answer, Request};
use crate::config::FILE_MAX;
use crate::node::NodeHandle;

/// Longest request, in bytes: a console takes lists of 16,384 NIDs, an import a file, the
/// line ends and quotes of which take two bytes each.
const REQUEST_LEN_MAX: u64 = 2 * FILE_MAX as u64 + 4096;
/// Callers that may wait to be accepted.
const BACKLOG: i32 = 64;
/// Callers served at once.
const CALLERS_MAX: usize = 32;
/// A caller silent for this long is let go.
const SILENCE_MAX: Duration = Duration::from_secs(60);
/// How much longer than the question itself an answer may take: a node that lives tells even that
/// its event loops do not answer before this is over.
const ANSWER_SLACK: Duration = Duration::from_secs(8);

/// Why the control socket cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// Another node answers there.
    #[error("another node is running with control socket {0}; choose another with --control")]
    InUse(PathBuf),
    /// Something that is not a socket stands there.
    #[error("{0} exists and is not a socket; choose another path with --control")]
    NotASocket(PathBuf),
    /// It is another user's.
    #[error(
        "control socket {0}: permission denied; it is for the user who runs the node (and root): \
         ask as that user, or name another node's with --control"
    )]
    PermissionDenied(PathBuf),
    /// Nobody answers there.
    #[error("no node answers at {path} ({error}); start one with `lustrine node --control {path}`")]
    NotRunning {
        /// The socket.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// It cannot be made where there is no directory.
    #[error(
        "control socket {path}: there is no directory {directory}; make the directory \
         (mkdir -p {directory}), or choose another path with --control"
    )]
    NoDirectory {
        /// The socket to be.
        path: PathBuf,
        /// The directory it would be in.
        directory: PathBuf,
    },
    /// Anything else.
    #[error("control socket {path}: {error}")]
    System {
        /// The socket.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// The node is there and says nothing.
    #[error("the node at {0} does not answer: its process is stopped, or the machine overloaded")]
    TimedOut(PathBuf),
    /// The node hung up instead of answering.
    #[error("the node at {0} closed the control socket: it is stopping, or has too many callers")]
    Closed(PathBuf),
    /// The answer makes no sense.
    #[error("control socket {path}: the answer makes no sense: {error}")]
    BadAnswer {
        /// The socket.
        path: PathBuf,
        /// What the parser said.
        error: serde_json::Error,
    },
}

/// A control socket of which nobody is served yet: callers wait. Dropping it removes the socket.
pub struct ControlSocket {
    path: PathBuf,
    listener: UnixListener,
    place: Place,
}

/// A control socket that is served. Dropping it hangs up on the callers and removes the socket.
pub struct ControlServer {
    place: Option<Place>,
    /// The server ends when this end closes.
    rope: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

impl ControlSocket {
    /// Takes `path`, before there is a node: one that cannot be asked shall not start. A socket
    /// that nobody serves any more is replaced.
    ///
    /// # Errors
    /// When another node serves it, or the path cannot be used.
    pub fn bind(path: &Path) -> Result<ControlSocket, ControlError> {
        let system = |error| ControlError::System { path: path.to_owned(), error };
        match fs::symlink_metadata(path) {
            Ok(meta) if !meta.file_type().is_socket() => {
                return Err(ControlError::NotASocket(path.to_owned()));
            }
            Ok(_) if is_served(path).map_err(system)? => {
                return Err(ControlError::InUse(path.to_owned()));
            }
            Ok(_) => fs::remove_file(path).map_err(system)?,
            Err(_) => {}
        }
        let (listener, place) = listen(path).map_err(|error| match path.parent() {
            Some(directory) if error.kind() == io::ErrorKind::NotFound => {
                let (path, directory) = (path.to_owned(), directory.to_owned());
                ControlError::NoDirectory { path, directory }
            }
            _ => system(error),
        })?;
        Ok(ControlSocket { path: path.to_owned(), listener, place })
    }

    /// Serves `node` to those who wait and those who come.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn serve(self, node: NodeHandle) -> Result<ControlServer, ControlError> {
        let ControlSocket { path, listener, place } = self;
        let system = |error| ControlError::System { path: path.clone(), error };
        let (rope, bell) = UnixStream::pair().map_err(system)?;
        let thread = std::thread::Builder::new()
            .name("lustrine-control".to_owned())
            .spawn(move || serve(&listener, &bell, &node))
            .map_err(system)?;
        Ok(ControlServer { place: Some(place), rope: Some(rope), thread: Some(thread) })
    }
}

impl Drop for ControlServer {
    fn drop(&mut self) {
        // While we listen the inode cannot be another's.
        drop(self.place.take());
        drop(self.rope.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The file of a listening socket, removed when this is dropped, unless another one has taken its
/// name meanwhile.
struct Place {
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Ok(meta) = fs::symlink_metadata(&self.path)
            && (meta.dev(), meta.ino()) == (self.device, self.inode)
        {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Whether anybody listens there. Never waits, as connecting to one with too many callers would.
fn is_served(path: &Path) -> io::Result<bool> {
    let socket = stream_socket()?;
    match rustix::net::connect(&socket, &SocketAddrUnix::new(path)?) {
        Ok(()) | Err(Errno::AGAIN) => Ok(true),
        Err(Errno::CONNREFUSED | Errno::NOENT) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// A socket whose calls never wait.
fn stream_socket() -> rustix::io::Result<std::os::fd::OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
}

/// Listens at a path which is free. The mode is set before anybody can connect.
fn listen(path: &Path) -> io::Result<(UnixListener, Place)> {
    let socket = stream_socket()?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    let meta = fs::symlink_metadata(path)?;
    let place = Place { path: path.to_owned(), device: meta.dev(), inode: meta.ino() };
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok((socket.into(), place))
}

/// A caller being served by a thread of its own.
struct Caller {
    thread: JoinHandle<()>,
    /// To hang up.
    stream: Arc<UnixStream>,
}

impl Drop for Caller {
    fn drop(&mut self) {
        // The thread is not waited for: a long ping may be under way. It keeps nothing alive.
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
    }
}

/// Serves callers until the other end of `bell` closes.
fn serve(listener: &UnixListener, bell: &UnixStream, node: &NodeHandle) {
    let mut callers: Vec<Caller> = Vec::new();
    loop {
        let mut polled = [PollFd::new(bell, PollFlags::IN), PollFd::new(listener, PollFlags::IN)];
        match poll(&mut polled, None) {
            Ok(_) if !polled[0].revents().is_empty() => return,
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(error) => {
                tracing::error!(%error, "the control socket is given up");
                return;
            }
        }
        callers.retain(|caller| !caller.thread.is_finished());
        match listener.accept() {
            // Too many: hang up.
            Ok(_) if callers.len() >= CALLERS_MAX => {}
            Ok((stream, _)) => callers.extend(start_caller(stream, node)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            // Out of descriptors: they come back when callers leave.
            Err(_) => std::thread::sleep(Duration::from_millis(50)),
        }
    }
}

/// Starts to serve a caller; one that cannot be served is hung up on.
fn start_caller(stream: UnixStream, node: &NodeHandle) -> Option<Caller> {
    let (node, stream) = (node.clone(), Arc::new(stream));
    let thread = std::thread::Builder::new().name("lustrine-caller".to_owned()).spawn({
        let stream = Arc::clone(&stream);
        move || {
            // A caller that breaks off is none of our business.
            let _ = serve_caller(&stream, &node);
            // Its end is seen now, not when the server looks at its callers again.
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
    });
    Some(Caller { thread: thread.ok()?, stream })
}

fn serve_caller(stream: &UnixStream, node: &NodeHandle) -> io::Result<()> {
    // Linux gives accepted streams no flags of the listener's; be sure of it.
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(SILENCE_MAX))?;
    stream.set_write_timeout(Some(SILENCE_MAX))?;
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    loop {
        line.clear();
        let length = reader.by_ref().take(REQUEST_LEN_MAX).read_line(&mut line)?;
        if length == 0 {
            return Ok(());
        }
        let whole = line.ends_with('\n');
        let answer = match serde_json::from_str(&line) {
            Ok(request) => node.call(&request),
            Err(error) => {
                let message = format!("not a request: {error}");
                Answer::Error { errno: -22, message, hint: String::new() }
            }
        };
        let mut text = serde_json::to_string(&answer)?;
        text.push('\n');
        (&mut &*stream).write_all(text.as_bytes())?;
        if !whole {
            return Ok(());
        }
    }
}

/// Asks the node at `path`.
///
/// # Errors
/// When nobody answers there in time, or the answer makes no sense.
pub fn ask(path: &Path, request: &Request) -> Result<Answer, ControlError> {
    ask_within(path, request, request.duration_max() + ANSWER_SLACK)
}

/// As [`ask`]; connecting, asking and the answer may take `patience` each.
fn ask_within(path: &Path, request: &Request, patience: Duration) -> Result<Answer, ControlError> {
    let system = |error: io::Error| match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            ControlError::TimedOut(path.to_owned())
        }
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => {
            ControlError::Closed(path.to_owned())
        }
        io::ErrorKind::PermissionDenied => ControlError::PermissionDenied(path.to_owned()),
        _ => ControlError::System { path: path.to_owned(), error },
    };
    let stream = connect(path, patience).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
            ControlError::NotRunning { path: path.to_owned(), error }
        }
        _ => system(error),
    })?;
    stream.set_read_timeout(Some(patience)).map_err(system)?;
    let mut text = serde_json::to_string(request)
        .map_err(|error| ControlError::BadAnswer { path: path.to_owned(), error })?;
    text.push('\n');
    (&mut &stream).write_all(text.as_bytes()).map_err(system)?;
    let mut line = String::new();
    BufReader::new(&stream).read_line(&mut line).map_err(system)?;
    if line.is_empty() {
        return Err(ControlError::Closed(path.to_owned()));
    }
    serde_json::from_str(&line)
        .map_err(|error| ControlError::BadAnswer { path: path.to_owned(), error })
}

/// Connects within `patience`: Linux waits for room in a listener's backlog as long as the
/// socket's time-out for sending says, which without one is for ever.
fn connect(path: &Path, patience: Duration) -> io::Result<UnixStream> {
    let address = SocketAddrUnix::new(path)?;
    let kind = (AddressFamily::UNIX, SocketType::STREAM);
    let socket = rustix::net::socket_with(kind.0, kind.1, SocketFlags::CLOEXEC, None)?;
    let stream = UnixStream::from(socket);
    stream.set_write_timeout(Some(patience))?;
    rustix::net::connect(&stream, &address)?;
    Ok(stream)
}

#[cfg(test)]
mod tests;
