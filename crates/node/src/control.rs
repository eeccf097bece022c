//! The control socket: a Unix stream socket with mode 0600 that carries the lines of
//! [`lustrine_control`].
//!
//! Requests are bounded in length and callers in number. A caller that is silent for a minute is
//! disconnected; one for which the node sends a load may be silent for ten minutes, and one that
//! holds a session of the console for a day and ten minutes.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use lustrine_control::{
    ANSWER_LEN_MAX, Answer, AnswerError, Greeting, LineResponse, NodeAbout, REQUEST_LEN_MAX,
    Request, Session, VersionError,
};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Mode, fchmod};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use crate::call;
use crate::caller::Caller;
use crate::handle::NodeHandle;

mod lock;

use lock::PlaceLock;

/// Largest number of connections that wait to be accepted.
const BACKLOG: i32 = 64;
/// Largest number of callers served at once.
const CALLERS_MAX: usize = 32;
/// How long callers may take to receive their answers when the server ends.
const LAST_ANSWERS: Duration = Duration::from_millis(500);
/// A caller that is silent for this long is disconnected.
const SILENCE_MAX: Duration = Duration::from_secs(60);
/// The same for a caller with a load. `lustrine selftest` asks for the progress several times a
/// second, and at most some seconds pass between two rows, when plain TCP is measured.
const LOAD_SILENCE_MAX: Duration = Duration::from_secs(600);
/// The same for a caller with a session of the console. `lustrine selftest --plan` sends nothing
/// during a warm-up, which lasts at most a day; all other pauses are of a few minutes at most.
const SESSION_SILENCE_MAX: Duration = Duration::from_secs(86_400 + 600);
/// How much longer than the request an answer may take. A running node reports within this time
/// even that its event loops do not answer.
const ANSWER_SLACK: Duration = Duration::from_secs(8);
/// How long a process that ends may take to close its listening socket after its connections.
const CLOSING_MAX: Duration = Duration::from_secs(1);
/// Pause between two attempts to reach it.
const CLOSING_STEP: Duration = Duration::from_millis(20);

/// Why the control socket cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// Another node listens there.
    #[error("another node is running with control socket {0}; choose another with --control")]
    InUse(PathBuf),
    /// The path exists and is not a socket.
    #[error("{0} exists and is not a socket; choose another path with --control")]
    NotASocket(PathBuf),
    /// It belongs to another user.
    #[error(
        "control socket {0}: permission denied; only root and the user of the node may use it: \
         run this command as that user, or choose another node with --control"
    )]
    PermissionDenied(PathBuf),
    /// This user may not make a socket there.
    #[error(
        "control socket {0}: permission denied; run as a user who may write to that directory, or \
         choose another path with --control"
    )]
    NotWritable(PathBuf),
    /// No node listens there.
    #[error(
        "no node answers at {path} ({error}); start one, for example with `lustrine node --net \
         tcp=eth0 --control {path}`"
    )]
    NotRunning {
        /// The socket.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// Its directory does not exist.
    #[error(
        "control socket {path}: there is no directory {directory}; make the directory \
         (mkdir -p {directory}), or choose another path with --control"
    )]
    NoDirectory {
        /// The socket.
        path: PathBuf,
        /// The missing directory.
        directory: PathBuf,
    },
    /// Anything else.
    #[error("control socket {path}: {error}")]
    System {
        /// The socket.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// The node does not answer in time.
    #[error(
        "the node at {0} does not answer: its process is stopped, or the machine is overloaded"
    )]
    TimedOut(PathBuf),
    /// The node closed the connection instead of answering.
    #[error("the node at {0} closed the control socket: it is stopping, or has too many callers")]
    Closed(PathBuf),
    /// The node speaks another version of the control API.
    #[error("control socket {path}: {error}")]
    Version {
        /// The socket.
        path: PathBuf,
        /// How the versions differ.
        error: VersionError,
    },
    /// The answer cannot be read.
    #[error("control socket {path}: the node's answer cannot be read: {error}")]
    BadAnswer {
        /// The socket.
        path: PathBuf,
        /// What the parser reported.
        error: AnswerError,
    },
}

/// A control socket that is not served yet: callers wait. Dropping it removes the socket.
pub struct ControlSocket {
    path: PathBuf,
    listener: UnixListener,
    file: SocketFile,
}

/// A control socket that is served. Dropping it disconnects the callers and removes the socket.
pub struct ControlServer {
    file: Option<SocketFile>,
    /// The server ends when this end is closed.
    shutdown: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

impl ControlSocket {
    /// Creates the socket at `path` before the node starts, since a node that cannot be controlled
    /// must not start. A socket that is no longer served is replaced.
    ///
    /// # Errors
    /// When another node serves it, or the path cannot be used.
    pub fn bind(path: &Path) -> Result<ControlSocket, ControlError> {
        let system = |error| ControlError::System { path: path.to_owned(), error };
        let refused = |error: io::Error| match path.parent() {
            Some(directory) if error.kind() == io::ErrorKind::NotFound => {
                let (path, directory) = (path.to_owned(), directory.to_owned());
                ControlError::NoDirectory { path, directory }
            }
            _ if error.kind() == io::ErrorKind::PermissionDenied => {
                ControlError::NotWritable(path.to_owned())
            }
            _ => system(error),
        };
        match fs::symlink_metadata(path) {
            Ok(meta) if !meta.file_type().is_socket() => {
                return Err(ControlError::NotASocket(path.to_owned()));
            }
            _ => {}
        }
        let _lock = PlaceLock::of(path).map_err(refused)?;
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
        let (listener, file) = listen(path).map_err(refused)?;
        Ok(ControlSocket { path: path.to_owned(), listener, file })
    }

    /// Serves `node` to the callers that wait and to later ones.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn serve(self, node: NodeHandle) -> Result<ControlServer, ControlError> {
        let ControlSocket { path, listener, file } = self;
        let system = |error| ControlError::System { path: path.clone(), error };
        let (shutdown, closed) = UnixStream::pair().map_err(system)?;
        let thread = std::thread::Builder::new()
            .name("lustrine-control".to_owned())
            .spawn(move || serve(&listener, &closed, &node))
            .map_err(system)?;
        Ok(ControlServer { file: Some(file), shutdown: Some(shutdown), thread: Some(thread) })
    }
}

impl ControlServer {
    /// Removes the socket, so that no new caller finds it. Present callers are still answered.
    pub fn remove_socket(&mut self) {
        drop(self.file.take());
    }
}

impl Drop for ControlServer {
    fn drop(&mut self) {
        // While this process listens, no other file can have the inode.
        drop(self.file.take());
        drop(self.shutdown.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The file of a listening socket, which is removed when this is dropped, unless another one has
/// taken its name in the meantime.
struct SocketFile {
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if let Ok(meta) = fs::symlink_metadata(&self.path)
            && (meta.dev(), meta.ino()) == (self.device, self.inode)
        {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Whether a process listens there. Never blocks, as connecting to a full backlog would.
///
/// # Errors
/// When the system refuses for another reason than that no process listens.
pub fn is_served(path: &Path) -> io::Result<bool> {
    let socket = stream_socket()?;
    match rustix::net::connect(&socket, &SocketAddrUnix::new(path)?) {
        Ok(()) | Err(Errno::AGAIN) => Ok(true),
        Err(Errno::CONNREFUSED | Errno::NOENT) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// A non-blocking socket.
fn stream_socket() -> rustix::io::Result<std::os::fd::OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
}

/// Whether something else than a socket is at the path, also at the end of a symbolic link.
fn is_no_socket(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|meta| !meta.file_type().is_socket())
}

/// Listens at a free path. The mode is set before the file exists: Linux gives it the mode of the
/// socket, so that there is no path through which another user could be given access.
fn listen(path: &Path) -> io::Result<(UnixListener, SocketFile)> {
    let socket = stream_socket()?;
    fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    let meta = fs::symlink_metadata(path)?;
    let file = SocketFile { path: path.to_owned(), device: meta.dev(), inode: meta.ino() };
    rustix::net::listen(&socket, BACKLOG)?;
    Ok((socket.into(), file))
}

/// A caller being served by a separate thread.
struct CallerThread {
    thread: JoinHandle<()>,
    /// For disconnecting the caller.
    stream: Arc<UnixStream>,
}

impl Drop for CallerThread {
    fn drop(&mut self) {
        // The thread is not waited for: a long ping may be in flight. It does not keep the node
        // running.
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
    }
}

/// Serves callers until the other end of `closed` closes.
fn serve(listener: &UnixListener, closed: &UnixStream, node: &NodeHandle) {
    let mut callers: Vec<CallerThread> = Vec::new();
    loop {
        let mut polled = [PollFd::new(closed, PollFlags::IN), PollFd::new(listener, PollFlags::IN)];
        match poll(&mut polled, None) {
            Ok(_) if !polled[0].revents().is_empty() => return end(&callers),
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(error) => {
                tracing::error!(%error, "the control socket is closed");
                return;
            }
        }
        callers.retain(|caller| !caller.thread.is_finished());
        match listener.accept() {
            // Too many: close the connection.
            Ok(_) if callers.len() >= CALLERS_MAX => {}
            Ok((stream, _)) => callers.extend(start_caller(stream, node)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            // Out of descriptors: they become free when callers leave.
            Err(_) => std::thread::sleep(Duration::from_millis(50)),
        }
    }
}

/// Lets callers receive the answers to what they have asked, and no others. A request that takes
/// longer, such as a ping, gets none.
fn end(callers: &[CallerThread]) {
    for caller in callers {
        let _ = caller.stream.shutdown(std::net::Shutdown::Read);
    }
    let deadline = Instant::now() + LAST_ANSWERS;
    while callers.iter().any(|caller| !caller.thread.is_finished()) && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Starts to serve a caller; disconnects it if that fails.
fn start_caller(stream: UnixStream, node: &NodeHandle) -> Option<CallerThread> {
    let (node, stream) = (node.clone(), Arc::new(stream));
    let thread = std::thread::Builder::new().name("lustrine-caller".to_owned()).spawn({
        let stream = Arc::clone(&stream);
        move || {
            // A caller that disconnects is not an error.
            let _ = serve_caller(&stream, &node);
            // The caller sees the end at once, not only when the server checks its callers.
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
    });
    Some(CallerThread { thread: thread.ok()?, stream })
}

fn serve_caller(stream: &UnixStream, node: &NodeHandle) -> io::Result<()> {
    // On Linux an accepted stream does not inherit this flag; other systems differ.
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(SILENCE_MAX))?;
    stream.set_write_timeout(Some(SILENCE_MAX))?;
    let mut reader = BufReader::new(stream);
    let mut session = Session::of(node.about());
    let mut caller = Caller::of(node.clone());
    let mut line = String::new();
    loop {
        line.clear();
        let length = reader.by_ref().take(REQUEST_LEN_MAX as u64).read_line(&mut line)?;
        if length == 0 {
            return Ok(());
        }
        let (text, open) = match session.on_line(&line) {
            LineResponse::Call(request) => (caller.call(&request).to_line(), true),
            LineResponse::Reply(text) => (text, true),
            LineResponse::Close(text) => (text, false),
        };
        (&mut &*stream).write_all(text.as_bytes())?;
        stream.set_read_timeout(Some(silence_max(&caller)))?;
        // An incomplete line is the last one, or a part of one that is too long.
        if !open || !line.ends_with('\n') {
            return Ok(());
        }
    }
}

/// How long a caller may be silent. A stopped client must not keep its place for ever.
fn silence_max(caller: &Caller) -> Duration {
    if caller.holds_session() {
        SESSION_SILENCE_MAX
    } else if caller.holds_load() {
        LOAD_SILENCE_MAX
    } else {
        SILENCE_MAX
    }
}

/// Sends a request to the node at `path`, and waits for the answer.
///
/// # Errors
/// When no node answers there in time, when it speaks another version, or when its answer cannot be
/// read.
pub fn ask(path: &Path, request: &Request) -> Result<Answer, ControlError> {
    ask_within(path, request, call::duration_max(request) + ANSWER_SLACK)
}

/// As [`ask`]; connecting and each line may take `patience`.
fn ask_within(path: &Path, request: &Request, patience: Duration) -> Result<Answer, ControlError> {
    Connection::open_within(path, patience)?.exchange(request, patience)
}

/// A connection to a running node, for several requests.
#[derive(Debug)]
pub struct Connection {
    path: PathBuf,
    reader: BufReader<UnixStream>,
    about: NodeAbout,
}

impl Connection {
    /// Connects to the node at `path`.
    ///
    /// # Errors
    /// When no node answers there in time, or it speaks another version.
    pub fn open(path: &Path) -> Result<Connection, ControlError> {
        Connection::open_within(path, ANSWER_SLACK)
    }

    /// A connection that is closed before the node has answered is opened again for a short time:
    /// a process that ends closes its sockets one by one, and whether a node answers is clear when
    /// its listening socket has gone.
    fn open_within(path: &Path, patience: Duration) -> Result<Connection, ControlError> {
        let limit = Instant::now() + patience.min(CLOSING_MAX);
        loop {
            match Connection::open_once(path, patience) {
                Err(ControlError::Closed(_)) if Instant::now() < limit => {
                    std::thread::sleep(CLOSING_STEP);
                }
                result => return result,
            }
        }
    }

    fn open_once(path: &Path, patience: Duration) -> Result<Connection, ControlError> {
        let stream = connect(path, patience).map_err(|error| match error.kind() {
            io::ErrorKind::ConnectionRefused if is_no_socket(path) => {
                ControlError::NotASocket(path.to_owned())
            }
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                ControlError::NotRunning { path: path.to_owned(), error }
            }
            _ => system_error(path, error),
        })?;
        let (path, about) = (path.to_owned(), NodeAbout::default());
        let mut connection = Connection { path, reader: BufReader::new(stream), about };
        let reply = connection.line(&Greeting::line(), patience)?;
        connection.about = Greeting::check(&reply).map_err(|error| {
            let path = connection.path.clone();
            ControlError::Version { path, error }
        })?;
        Ok(connection)
    }

    /// What the node said of itself.
    pub fn about(&self) -> &NodeAbout {
        &self.about
    }

    /// Sends a request, and waits for the answer.
    ///
    /// # Errors
    /// When the node does not answer in time, or its answer cannot be read.
    pub fn ask(&mut self, request: &Request) -> Result<Answer, ControlError> {
        self.exchange(request, call::duration_max(request) + ANSWER_SLACK)
    }

    /// Waits until the node closes the connection, for at most `patience`; whether it did.
    pub fn wait_for_end(mut self, patience: Duration) -> bool {
        let limited = self.reader.get_ref().set_read_timeout(Some(patience));
        limited.is_ok() && matches!(self.reader.read(&mut [0]), Ok(0))
    }

    fn exchange(&mut self, request: &Request, patience: Duration) -> Result<Answer, ControlError> {
        let reply = self.line(&request.to_line(), patience)?;
        Answer::from_line(&reply)
            .map_err(|error| ControlError::BadAnswer { path: self.path.clone(), error })
    }

    /// Sends a line, and waits for one.
    fn line(&mut self, text: &str, patience: Duration) -> Result<String, ControlError> {
        let mut line = String::new();
        let mut exchange = || {
            let mut stream = self.reader.get_ref();
            stream.set_read_timeout(Some(patience))?;
            stream.write_all(text.as_bytes())?;
            self.reader.by_ref().take(ANSWER_LEN_MAX as u64).read_line(&mut line)
        };
        match exchange() {
            Ok(0) => Err(ControlError::Closed(self.path.clone())),
            Ok(_) => Ok(line),
            Err(error) => Err(system_error(&self.path, error)),
        }
    }
}

fn system_error(path: &Path, error: io::Error) -> ControlError {
    let path = path.to_owned();
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => ControlError::TimedOut(path),
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => ControlError::Closed(path),
        io::ErrorKind::PermissionDenied => ControlError::PermissionDenied(path),
        _ => ControlError::System { path, error },
    }
}

/// Connects within `patience`. Linux waits for room in a listener's backlog for the socket's send
/// time-out, which is unlimited by default.
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
pub(crate) mod tests;
