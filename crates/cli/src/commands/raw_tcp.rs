//! The raw-socket rung: what plain TCP moves between two processes, as a yardstick for bulk.
//!
//! `lustrine raw-tcp` (hidden) is the other end, started by `lustrine selftest`; it ends when its
//! standard input is closed.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;

use crate::output::{Failure, print};

/// Bytes per call, iperf3's own choice for TCP.
pub(crate) const BLOCK: usize = 128 << 10;
/// Not measured: connecting and TCP's slow start.
const WARM_UP: Duration = Duration::from_millis(150);
/// A peer that is stuck for this long is given up.
const STUCK: Duration = Duration::from_secs(5);
/// Most connections served at once.
const CONNECTIONS_MAX: usize = 128;
/// How long to wait when nothing can be accepted: descriptors come back when others leave.
const REST: Duration = Duration::from_millis(50);

/// Which way the bytes go, seen from the measuring side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// We receive.
    Read,
    /// We send.
    Write,
}

/// The other end of the raw-socket rung.
#[derive(Args, Debug)]
pub(crate) struct RawTcpArgs {
    /// Address to listen on; the port is printed
    #[arg(long)]
    listen: IpAddr,
}

/// Runs the command.
pub(crate) fn run(args: &RawTcpArgs) -> Result<(), Failure> {
    let told = |error: io::Error| format!("raw-tcp: {error}");
    let listener = TcpListener::bind((args.listen, 0)).map_err(told)?;
    let addr = listener.local_addr().map_err(told)?;
    print(&format!("{addr}\n"))?;
    thread::spawn(move || serve_all(&listener));
    io::copy(&mut io::stdin(), &mut io::sink()).map_err(told)?;
    Ok(())
}

fn serve_all(listener: &TcpListener) {
    // As many copies as connections are being served, and this one.
    let place = Arc::new(());
    for stream in listener.incoming() {
        match stream {
            Ok(_) if Arc::strong_count(&place) > CONNECTIONS_MAX => {}
            Ok(stream) => {
                let place = Arc::clone(&place);
                // A measuring side that leaves ends its own connection only.
                thread::spawn(move || {
                    let _place = place;
                    serve_one(stream)
                });
            }
            Err(_) => thread::sleep(REST),
        }
    }
}

fn serve_one(mut stream: TcpStream) -> io::Result<()> {
    stream.set_read_timeout(Some(STUCK))?;
    stream.set_write_timeout(Some(STUCK))?;
    let mut wish = [0; 1];
    stream.read_exact(&mut wish)?;
    let mut block = vec![0x5a; BLOCK];
    loop {
        match wish[0] {
            b'r' => stream.write_all(&block)?,
            _ if stream.read(&mut block)? == 0 => return Ok(()),
            _ => {}
        }
    }
}

/// Moves bytes over `connections` streams for about `time`; MiB per second.
///
/// # Errors
/// When the other end cannot be reached or breaks off.
pub(crate) fn measure(
    server: SocketAddr,
    direction: Direction,
    connections: usize,
    time: Duration,
) -> io::Result<f64> {
    let workers: Vec<_> = (0..connections)
        .map(|_| thread::spawn(move || move_bytes(server, direction, time)))
        .collect();
    let mut total = 0.0;
    for worker in workers {
        total += worker.join().map_err(|_| io::Error::other("a measuring thread failed"))??;
    }
    Ok(total)
}

fn move_bytes(server: SocketAddr, direction: Direction, time: Duration) -> io::Result<f64> {
    let mut stream = TcpStream::connect(server)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(STUCK))?;
    stream.set_write_timeout(Some(STUCK))?;
    stream.write_all(if direction == Direction::Read { b"r" } else { b"w" })?;
    let mut block = vec![0xa5; BLOCK];
    let begin = Instant::now() + WARM_UP;
    let mut bytes = 0u64;
    let mut started = begin;
    loop {
        let moved = match direction {
            Direction::Read => stream.read(&mut block)?,
            Direction::Write => stream.write(&block)?,
        };
        if moved == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let now = Instant::now();
        if now < begin {
            started = now;
            continue;
        }
        bytes += moved as u64;
        if now.duration_since(begin) >= time {
            let seconds = now.duration_since(started).as_secs_f64();
            return Ok(bytes as f64 / seconds / f64::from(1 << 20));
        }
    }
}
