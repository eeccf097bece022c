//! The server of the metrics page, with separate threads and limits for everything.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use lustrine_config::Address;
use lustrine_metrics::http::{self, HEAD_MAX};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use self::pool::{Client, Collect, ConnectionPool};
use super::collect::collect;
use crate::handle::NodeHandle;

mod pool;

/// Callers served at once; a new one evicts the oldest one.
const CALLERS_MAX: usize = 16;
/// The time limit for receiving a request.
const REQUEST_TIME: Duration = Duration::from_secs(5);
/// The time limit for sending an answer.
const ANSWER_TIME: Duration = Duration::from_secs(10);
/// How long, and how much, data of a caller is read after its request: its system would discard the
/// answer if the connection were closed first.
const LINGER_TIME: Duration = Duration::from_secs(1);
const LINGER_BYTES: usize = 64 * 1024;
/// The name of callers' threads; the system keeps no longer names.
const CALLER_THREAD: &str = "lustrine-scrape";

/// Why metrics cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum MetricsError {
    /// The host has no address.
    #[error("metrics at {address}: the host is not known: {error}")]
    Host {
        /// The requested address.
        address: Address,
        /// The system's error.
        error: io::Error,
    },
    /// The address cannot be used.
    #[error("cannot serve metrics at {address}: {error}; choose another address with --metrics")]
    Listen {
        /// The requested address.
        address: Address,
        /// The system's error.
        error: io::Error,
    },
    /// Anything else.
    #[error("cannot serve metrics: {0}")]
    System(#[from] io::Error),
}

/// An address at which metrics will be served: callers wait.
pub struct MetricsSocket {
    listener: TcpListener,
    local: SocketAddr,
}

/// A server of metrics. Dropping it disconnects the callers.
pub struct MetricsServer {
    local: SocketAddr,
    /// The server ends when this end closes.
    rope: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

impl MetricsSocket {
    /// Binds the address before the node starts.
    ///
    /// # Errors
    /// When the host has no address, or the address is in use.
    pub fn bind(address: &Address) -> Result<MetricsSocket, MetricsError> {
        let addresses: Vec<SocketAddr> = address
            .host_and_port()
            .to_socket_addrs()
            .map_err(|error| MetricsError::Host { address: address.clone(), error })?
            .collect();
        let listen = |error| MetricsError::Listen { address: address.clone(), error };
        let listener = TcpListener::bind(&addresses[..]).map_err(listen)?;
        listener.set_nonblocking(true)?;
        let local = listener.local_addr()?;
        Ok(MetricsSocket { listener, local })
    }

    /// Serves `node` to the callers that wait and to later ones.
    ///
    /// # Errors
    /// When the system cannot start a thread.
    pub fn serve(self, node: NodeHandle) -> Result<MetricsServer, MetricsError> {
        self.serve_pages(Box::new(move |own| match collect(&node, own) {
            Ok(page) => Ok(page.text()),
            Err(error) => Err(error.to_string()),
        }))
    }

    /// Serves pages of another program than a node: `page` returns a text in the OpenMetrics
    /// format, or why there is none.
    ///
    /// # Errors
    /// When the system cannot start a thread.
    pub fn serve_text(
        self,
        page: impl Fn() -> Result<String, String> + Send + Sync + 'static,
    ) -> Result<MetricsServer, MetricsError> {
        self.serve_pages(Box::new(move |_| page()))
    }

    fn serve_pages(self, collect: Box<Collect>) -> Result<MetricsServer, MetricsError> {
        let MetricsSocket { listener, local } = self;
        let (rope, bell) = UnixStream::pair()?;
        let pool = Arc::new(ConnectionPool::new(collect));
        let named = |name: &str| std::thread::Builder::new().name(name.to_owned());
        let collector = named("lustrine-pages").spawn({
            let pool = Arc::clone(&pool);
            move || pool.collect_pages()
        })?;
        let thread = named("lustrine-metric").spawn({
            let pool = Arc::clone(&pool);
            move || {
                serve(&listener, &bell, &pool);
                pool.close();
                let _ = collector.join();
            }
        });
        let thread = thread.inspect_err(|_| pool.close())?;
        Ok(MetricsServer { local, rope: Some(rope), thread: Some(thread) })
    }
}

impl MetricsServer {
    /// Its address.
    pub fn local(&self) -> SocketAddr {
        self.local
    }
}

impl Drop for MetricsServer {
    fn drop(&mut self) {
        drop(self.rope.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A caller being served by a separate thread.
struct Caller {
    thread: Option<JoinHandle<()>>,
    /// For disconnecting the caller.
    stream: Arc<TcpStream>,
    client: Arc<Client>,
    pool: Arc<ConnectionPool>,
}

impl Drop for Caller {
    fn drop(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Both);
        self.pool.show_out(&self.client);
        // It has nothing to wait for: there are never more threads than callers.
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Serves callers until the other end of `bell` closes.
fn serve(listener: &TcpListener, bell: &UnixStream, pool: &Arc<ConnectionPool>) {
    let mut callers: Vec<Caller> = Vec::new();
    loop {
        let mut polled = [PollFd::new(bell, PollFlags::IN), PollFd::new(listener, PollFlags::IN)];
        match poll(&mut polled, None) {
            Ok(_) if !polled[0].revents().is_empty() => return,
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(error) => {
                tracing::error!(%error, "the metrics server is closed");
                return;
            }
        }
        callers.retain(|caller| !caller.thread.as_ref().is_none_or(JoinHandle::is_finished));
        match listener.accept() {
            Ok((stream, _)) => {
                if callers.len() >= CALLERS_MAX {
                    // The oldest of this many callers has probably been abandoned.
                    callers.remove(0);
                }
                callers.extend(start_caller(stream, pool));
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            // Out of descriptors: they become free when callers leave.
            Err(_) => std::thread::sleep(Duration::from_millis(50)),
        }
    }
}

/// Starts to serve a caller; one that cannot be served is disconnected.
fn start_caller(stream: TcpStream, pool: &Arc<ConnectionPool>) -> Option<Caller> {
    let (stream, client, pool) = (Arc::new(stream), Arc::new(Client::default()), Arc::clone(pool));
    let thread = std::thread::Builder::new().name(CALLER_THREAD.to_owned()).spawn({
        let (stream, client, pool) = (Arc::clone(&stream), Arc::clone(&client), Arc::clone(&pool));
        move || {
            let counter = match serve_caller(&stream, &pool, &client) {
                Ok(()) => &pool.answered,
                Err(_) => &pool.dropped,
            };
            counter.fetch_add(1, Ordering::Relaxed);
            let _ = stream.shutdown(Shutdown::Both);
        }
    });
    if thread.is_err() {
        pool.dropped.fetch_add(1, Ordering::Relaxed);
    }
    Some(Caller { thread: Some(thread.ok()?), stream, client, pool })
}

fn serve_caller(stream: &TcpStream, pool: &ConnectionPool, client: &Client) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    let wanted = hear(stream)?;
    let answer = http::answer(wanted, || pool.page(client));
    send(stream, &answer)?;
    stream.shutdown(Shutdown::Write)?;
    linger(stream);
    Ok(())
}

/// Reads a request.
fn hear(mut stream: &TcpStream) -> io::Result<http::Request> {
    let deadline = Instant::now() + REQUEST_TIME;
    let mut head = [0; HEAD_MAX];
    let mut length = 0;
    loop {
        stream.set_read_timeout(Some(left(deadline)?))?;
        match stream.read(&mut head[length..])? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            more => length += more,
        }
        if let Some(wanted) = http::read(&head[..length]) {
            return Ok(wanted);
        }
    }
}

/// Writes an answer.
fn send(mut stream: &TcpStream, mut answer: &[u8]) -> io::Result<()> {
    let deadline = Instant::now() + ANSWER_TIME;
    while !answer.is_empty() {
        stream.set_write_timeout(Some(left(deadline)?))?;
        match stream.write(answer)? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            written => answer = &answer[written..],
        }
    }
    Ok(())
}

/// Waits a short time until the caller has closed the connection.
fn linger(mut stream: &TcpStream) {
    let deadline = Instant::now() + LINGER_TIME;
    let (mut bytes, mut heard) = ([0; 4096], 0);
    while heard < LINGER_BYTES
        && left(deadline).and_then(|left| stream.set_read_timeout(Some(left))).is_ok()
    {
        match stream.read(&mut bytes) {
            Ok(more) if more > 0 => heard += more,
            _ => return,
        }
    }
}

fn left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    // A time-out of 0 would mean none.
    if left < Duration::from_millis(1) { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

#[cfg(test)]
mod tests;
