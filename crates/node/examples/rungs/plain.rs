//! Plain TCP below the driver: one stream, whose data are in several buffers in turn.
//!
//! With as many buffers as operations in flight, this shows what the memory of the data alone
//! costs: the more there is, the less of it is in the CPU's caches.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{RungArgs, SERVER, STUCK, Server, WARM_UP, cpu_seconds};
use crate::rig::Shape;

/// The direction of the data, as an end sees it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Out,
    In,
}

/// How an end waits until it can move data.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waiting {
    /// It calls again and again.
    Polling,
    /// It sleeps in its call.
    Sleeping,
}

impl Waiting {
    const ALL: [Waiting; 2] = [Waiting::Polling, Waiting::Sleeping];

    /// As on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Waiting::Polling => "polling",
            Waiting::Sleeping => "sleeping",
        }
    }

    /// The one with this name.
    pub(crate) fn named(name: &str) -> Option<Waiting> {
        Waiting::ALL.into_iter().find(|waiting| waiting.name() == name)
    }
}

/// One end of the stream.
struct End {
    stream: TcpStream,
    direction: Direction,
    buffers: Vec<Vec<u8>>,
    /// The buffer in use, and how much of it has been moved.
    current: usize,
    done: usize,
}

impl End {
    fn new(stream: TcpStream, shape: Shape, waiting: Waiting) -> io::Result<End> {
        match waiting {
            Waiting::Polling => stream.set_nonblocking(true)?,
            Waiting::Sleeping => {
                let patience = Some(Duration::from_nanos(STUCK.0));
                stream.set_read_timeout(patience)?;
                stream.set_write_timeout(patience)?;
            }
        }
        stream.set_nodelay(true)?;
        let direction = if shape.send >= shape.recv { Direction::Out } else { Direction::In };
        let len = shape.send.max(shape.recv) as usize;
        // Not zero, so that each page is memory of its own.
        let buffers = (0..shape.slots).map(|_| vec![0x5a; len]).collect();
        Ok(End { stream, direction, buffers, current: 0, done: 0 })
    }

    /// Moves what a call moves; `None` if there is nothing to do now.
    fn step(&mut self) -> io::Result<Option<usize>> {
        let buffer = &mut self.buffers[self.current][self.done..];
        let moved = match self.direction {
            Direction::Out => self.stream.write(buffer),
            Direction::In => self.stream.read(buffer),
        };
        let moved = match moved {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(moved) => moved,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(error) => return Err(error),
        };
        self.done += moved;
        if self.done == self.buffers[self.current].len() {
            self.done = 0;
            self.current = (self.current + 1) % self.buffers.len();
        }
        Ok(Some(moved))
    }
}

/// The other end: moves data until the measuring one leaves.
pub(crate) fn serve(shape: Shape, waiting: Waiting, port: u16) -> io::Result<()> {
    let listener = TcpListener::bind((SERVER, port))?;
    println!("ready");
    let mut end = End::new(listener.accept()?.0, shape, waiting)?;
    loop {
        end.step()?;
    }
}

/// Measures for as long as the arguments say.
pub(crate) fn measure(args: &RungArgs, port: u16, server: &Server) -> io::Result<Value> {
    let (shape, seconds) = (args.shape, args.seconds);
    let stream = TcpStream::connect((SERVER, port))?;
    let mut end = End::new(stream, shape, args.waiting)?;
    let server = server.0.id().to_string();
    let (mut bytes, mut moved_at, mut begin) = (0, Instant::now(), None);
    let mut before = (0.0, 0.0);
    let warm = Instant::now() + Duration::from_nanos(WARM_UP.0);
    loop {
        let moved = end.step()?;
        let now = Instant::now();
        match moved {
            None if now.duration_since(moved_at) > Duration::from_nanos(STUCK.0) => {
                return Err(io::Error::other("no more data"));
            }
            None => {}
            Some(moved) => {
                bytes += moved;
                moved_at = now;
            }
        }
        match begin {
            None if now >= warm => {
                before = (cpu_seconds("self")?, cpu_seconds(&server)?);
                (bytes, begin) = (0, Some(now));
            }
            Some(begin) if now.duration_since(begin) >= Duration::from_secs(seconds) => {
                let used = (cpu_seconds("self")? - before.0, cpu_seconds(&server)? - before.1);
                let took = now.duration_since(begin).as_secs_f64();
                return Ok(result(shape, bytes, took, used));
            }
            _ => {}
        }
    }
}

fn result(shape: Shape, bytes: usize, seconds: f64, (client, server): (f64, f64)) -> Value {
    let ops = bytes / shape.send.max(shape.recv) as usize;
    json!({"results": [{
        "seconds": seconds,
        "ops": ops,
        "ops_per_s": ops as f64 / seconds,
        "mib_per_s": bytes as f64 / seconds / f64::from(1 << 20),
        "latency_us": {"p50": 0.0},
        "errors": 0,
        "cpu_s": {"client": client, "server": server},
        "raw_tcp_mib_per_s": null,
    }]})
}
