//! Both ends of plain TCP streams, whose bytes are counted as they arrive.
//!
//! `long_streams receive ADDRESS STREAMS MARKS_NS,...` prints one line of JSON: for each stream,
//! the bytes that had arrived at each mark (nanoseconds since its first write), the total, and the
//! time of the last byte. `long_streams send ADDRESS STREAMS CONGESTION BYTES UNTIL_NS SEND_BUFFER`
//! sends this many bytes on each stream, or until this time after the first write; a `SEND_BUFFER`
//! of 0 leaves the size to the kernel. Both ends must be on one machine, because the sender's clock
//! is in the stream. `cargo xtask bench wan` uses it.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::net::sockopt;
use rustix::time::{ClockId, clock_gettime};

/// Bytes written at once.
const WRITE: usize = 64 << 10;

/// Time-out of reads and writes.
const PATIENCE: Duration = Duration::from_secs(60);

fn main() -> io::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["receive", address, streams, marks] => {
            let marks = marks.split(',').map(number).collect::<io::Result<Vec<_>>>()?;
            receive(parse(address)?, number(streams)?, &marks)
        }
        ["send", address, streams, congestion, bytes, until, send_buffer] => {
            let load = Load {
                address: parse(address)?,
                congestion: congestion.to_owned(),
                bytes: number(bytes)?,
                until: number(until)?,
                send_buffer: number(send_buffer)? as usize,
            };
            send(&load, number(streams)?)
        }
        _ => {
            eprintln!(
                "usage: long_streams receive ADDRESS STREAMS MARKS_NS,...\n       \
                 long_streams send ADDRESS STREAMS CONGESTION BYTES UNTIL_NS SEND_BUFFER"
            );
            std::process::exit(2);
        }
    }
}

fn parse(word: &str) -> io::Result<SocketAddr> {
    word.parse().map_err(|error| io::Error::other(format!("{word}: {error}")))
}

fn number(word: &str) -> io::Result<u64> {
    word.parse().map_err(|error| io::Error::other(format!("{word}: {error}")))
}

/// Nanoseconds of a clock that all processes of a machine share.
fn clock() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

fn finish<T>(threads: Vec<JoinHandle<io::Result<T>>>) -> io::Result<Vec<T>> {
    let joined = |thread: JoinHandle<io::Result<T>>| thread.join().expect("it does not panic");
    threads.into_iter().map(joined).collect()
}

fn receive(address: SocketAddr, streams: u64, marks: &[u64]) -> io::Result<()> {
    let listener = TcpListener::bind(address)?;
    println!("ready");
    let mut threads = Vec::new();
    for _ in 0..streams {
        let (stream, _) = listener.accept()?;
        let marks = marks.to_vec();
        threads.push(thread::spawn(move || count(stream, &marks)));
    }
    println!("{{\"streams\": [{}]}}", finish(threads)?.join(", "));
    Ok(())
}

/// Reads to the end.
fn count(mut stream: TcpStream, marks: &[u64]) -> io::Result<String> {
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut begin = [0; 8];
    stream.read_exact(&mut begin)?;
    let begin = u64::from_le_bytes(begin);
    let (mut total, mut last) = (8, clock());
    let mut at = vec![0; marks.len()];
    let mut buffer = vec![0; 1 << 20];
    loop {
        for (mark, at) in marks.iter().zip(&mut at) {
            if last - begin <= *mark {
                *at = total;
            }
        }
        match stream.read(&mut buffer)? {
            0 => break,
            len => total += len as u64,
        }
        last = clock();
    }
    let last = last - begin;
    Ok(format!("{{\"at\": {at:?}, \"total\": {total}, \"last_ns\": {last}}}"))
}

struct Load {
    address: SocketAddr,
    congestion: String,
    bytes: u64,
    until: u64,
    send_buffer: usize,
}

fn send(load: &Load, streams: u64) -> io::Result<()> {
    let mut ready = Vec::new();
    for _ in 0..streams {
        let stream = TcpStream::connect(load.address)?;
        sockopt::set_tcp_congestion(&stream, &load.congestion)?;
        if load.send_buffer != 0 {
            sockopt::set_socket_send_buffer_size(&stream, load.send_buffer)?;
        }
        stream.set_write_timeout(Some(PATIENCE))?;
        ready.push(stream);
    }
    let (bytes, until) = (load.bytes, load.until);
    let threads = ready.into_iter().map(|stream| thread::spawn(move || pour(stream, bytes, until)));
    finish(threads.collect())?;
    Ok(())
}

fn pour(mut stream: TcpStream, bytes: u64, until: u64) -> io::Result<()> {
    let mut buffer = vec![0; WRITE];
    let begin = clock();
    buffer[..8].copy_from_slice(&begin.to_le_bytes());
    let mut left = bytes.max(8);
    while left > 0 && clock() - begin < until {
        let len = stream.write(&buffer[..left.min(WRITE as u64) as usize])?;
        // Only the first bytes of the stream hold the clock; the rest is ignored.
        left -= len as u64;
    }
    Ok(())
}
