//! Plain TCP between two processes, for comparison with bulk tests: with sockets that sleep until
//! there is something to do, and with sockets that poll.
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

/// Bytes per call: iperf3's default for TCP.
pub(crate) const BLOCK: usize = 128 << 10;
/// Time before the measurement, for connecting and TCP's slow start.
const WARM_UP: Duration = Duration::from_millis(80);
/// A peer that makes no progress for this long is given up.
const STUCK: Duration = Duration::from_secs(5);
/// Largest number of connections at once.
const CONNECTIONS_MAX: usize = 128;
/// The pause when nothing can be accepted: other connections may free descriptors.
const RETRY_INTERVAL: Duration = Duration::from_millis(50);

/// The direction of the data, as the measuring side sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// The measuring side receives.
    Read,
    /// The measuring side sends.
    Write,
}

/// How both ends wait for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waiting {
    /// In the kernel, in a blocking call.
    Sleeping,
    /// In a loop, with calls that do not block; other threads may use the CPU in between.
    Polling,
}

/// The other end of a measurement of plain TCP.
#[derive(Args, Debug)]
pub(crate) struct RawTcpArgs {
    /// Address to listen on; the port is printed
    #[arg(long)]
    listen: IpAddr,
}

/// Runs the command.
pub(crate) fn run(args: &RawTcpArgs) -> Result<(), Failure> {
    let named = |error: io::Error| format!("raw-tcp: {error}");
    let listener = TcpListener::bind((args.listen, 0)).map_err(named)?;
    let addr = listener.local_addr().map_err(named)?;
    print(&format!("{addr}\n"))?;
    thread::spawn(move || serve_all(&listener));
    io::copy(&mut io::stdin(), &mut io::sink()).map_err(named)?;
    Ok(())
}

fn serve_all(listener: &TcpListener) {
    // One clone for each connection that is being served, and this one.
    let place = Arc::new(());
    for stream in listener.incoming() {
        match stream {
            Ok(_) if Arc::strong_count(&place) > CONNECTIONS_MAX => {}
            Ok(stream) => {
                let place = Arc::clone(&place);
                // A measuring side that leaves ends only its own connection.
                thread::spawn(move || {
                    let _place = place;
                    serve_one(stream)
                });
            }
            Err(_) => thread::sleep(RETRY_INTERVAL),
        }
    }
}

fn serve_one(mut stream: TcpStream) -> io::Result<()> {
    stream.set_read_timeout(Some(STUCK))?;
    stream.set_write_timeout(Some(STUCK))?;
    let mut request = [0; 1];
    stream.read_exact(&mut request)?;
    let mut block = vec![0x5a; BLOCK];
    let (direction, waiting) = decode(request[0])?;
    stream.set_nonblocking(waiting == Waiting::Polling)?;
    loop {
        let moved = match direction {
            Direction::Read => poll(|| stream.write(&block))?,
            Direction::Write => poll(|| stream.read(&mut block))?,
        };
        if moved == 0 {
            return Ok(());
        }
    }
}

/// The request of a measuring side: one byte, sent before any data.
fn encode(direction: Direction, waiting: Waiting) -> u8 {
    match (direction, waiting) {
        (Direction::Read, Waiting::Sleeping) => b'r',
        (Direction::Write, Waiting::Sleeping) => b'w',
        (Direction::Read, Waiting::Polling) => b'R',
        (Direction::Write, Waiting::Polling) => b'W',
    }
}

fn decode(request: u8) -> io::Result<(Direction, Waiting)> {
    match request {
        b'r' => Ok((Direction::Read, Waiting::Sleeping)),
        b'w' => Ok((Direction::Write, Waiting::Sleeping)),
        b'R' => Ok((Direction::Read, Waiting::Polling)),
        b'W' => Ok((Direction::Write, Waiting::Polling)),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// Repeats a call until it does not block. A blocking socket that times out returns the same error;
/// the deadline applies to both.
fn poll(mut call: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    let mut deadline = None;
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let now = Instant::now();
                if now >= *deadline.get_or_insert(now + STUCK) {
                    return Err(io::ErrorKind::TimedOut.into());
                }
                // On a machine with few CPUs the other end may need this one.
                thread::yield_now();
            }
            done => return done,
        }
    }
}

/// Moves bytes over `connections` streams for about `time`, after a short warm-up. Returns the sum
/// of their rates in MiB per second.
///
/// # Errors
/// When the other end cannot be reached or closes the connection.
pub(crate) fn measure(
    server: SocketAddr,
    (direction, waiting): (Direction, Waiting),
    connections: usize,
    time: Duration,
) -> io::Result<f64> {
    let workers: Vec<_> = (0..connections)
        .map(|_| thread::spawn(move || move_bytes(server, direction, waiting, time)))
        .collect();
    let mut total = 0.0;
    for worker in workers {
        total += worker.join().map_err(|_| io::Error::other("a measuring thread failed"))??;
    }
    Ok(total)
}

fn move_bytes(
    server: SocketAddr,
    direction: Direction,
    waiting: Waiting,
    time: Duration,
) -> io::Result<f64> {
    let mut stream = TcpStream::connect(server)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(STUCK))?;
    stream.set_write_timeout(Some(STUCK))?;
    stream.write_all(&[encode(direction, waiting)])?;
    stream.set_nonblocking(waiting == Waiting::Polling)?;
    let mut block = vec![0xa5; BLOCK];
    let begin = Instant::now() + WARM_UP;
    let mut bytes = 0u64;
    let mut started = begin;
    loop {
        let moved = match direction {
            Direction::Read => poll(|| stream.read(&mut block))?,
            Direction::Write => poll(|| stream.write(&block))?,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_of_waiting_moves_bytes_both_ways() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let addr = listener.local_addr().expect("an address");
        thread::spawn(move || serve_all(&listener));
        for direction in [Direction::Read, Direction::Write] {
            for waiting in [Waiting::Sleeping, Waiting::Polling] {
                assert_eq!(decode(encode(direction, waiting)).ok(), Some((direction, waiting)));
                let rate = measure(addr, (direction, waiting), 2, Duration::from_millis(1));
                assert!(rate.expect("it is there") > 0.0, "{direction:?} {waiting:?}");
            }
        }
        assert!(decode(b'x').is_err());
    }
}
