//! A long link between two TUN devices: packets from one device come out of the other one later.
//!
//! `long_link FIRST SECOND BITS_PER_SECOND ONE_WAY_NS QUEUE_BYTES SECONDS_MAX` creates both devices
//! in its own network namespace and prints `ready`; the caller then moves them to other namespaces.
//! Each direction serialises packets at the rate, keeps waiting packets in a queue that drops new
//! packets when it is full, and then delays them. The program ends when its standard input ends, or
//! after `SECONDS_MAX`, and prints as JSON what it carried and how late it was itself. `cargo xtask
//! bench wan` uses it.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::num::NonZeroU64;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// What an IP packet needs on Ethernet in addition to its own bytes: preamble, header, checksum,
/// gap.
const FRAME_EXTRA: u64 = 8 + 14 + 4 + 12;

/// Longest packet.
const PACKET_MAX: usize = 2048;

/// How long it runs at a time when other programs are waiting.
const SLICE: Duration = Duration::from_micros(100);

/// Packets taken from one device before the other one is read.
const BATCH: usize = 32;

fn main() -> io::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [first, second, rate, delay, queue, limit] = &words[..] else {
        eprintln!("usage: long_link FIRST SECOND BITS_PER_SECOND ONE_WAY_NS QUEUE_BYTES SECONDS");
        std::process::exit(2);
    };
    let number = |word: &str| word.parse::<u64>().map_err(io::Error::other);
    let spec = Spec {
        rate: number(rate)?.max(1),
        delay: Duration::from_nanos(number(delay)?),
        queue: number(queue)?,
    };
    let limit = Duration::from_secs(number(limit)?);
    // Sleeps end on time and not 50 us later.
    rustix::thread::set_current_timer_slack(NonZeroU64::new(1))?;
    ask_for_short_slices()?;
    let devices = [device(first)?, device(second)?];
    println!("ready");
    let mut link = Link::new(spec, devices);
    link.run(Instant::now() + limit)?;
    println!("{}", link.report());
    Ok(())
}

/// Requests short time slices, so that it runs soon after it wakes: the scheduler gives no larger
/// share for that, only an earlier one.
fn ask_for_short_slices() -> io::Result<()> {
    // SAFETY: all fields of this C structure are integers.
    let mut wanted: libc::sched_attr = unsafe { std::mem::zeroed() };
    wanted.size = size_of::<libc::sched_attr>() as u32;
    wanted.sched_nice = rustix::process::getpriority_process(None)?;
    wanted.sched_runtime = SLICE.as_nanos() as u64;
    // SAFETY: the pointer leads to a whole `sched_attr` that holds its size and outlives the call;
    // 0 is this thread.
    let result = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const wanted, 0) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Creates a TUN device of this name, without a header before packets, and with segmentation left
/// to the kernel: no packet is longer than the device's MTU.
fn device(name: &str) -> io::Result<File> {
    let path = "/dev/net/tun";
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    // SAFETY: zero is a valid value of every field of this C structure.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if name.len() >= request.ifr_name.len() {
        return Err(io::Error::other(format!("{name}: names of devices have up to 15 letters")));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
    // SAFETY: the request is a whole `ifreq` that outlives the call, and the descriptor is open
    // because the file is.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw mut request) };
    if result != 0 {
        let error = io::Error::last_os_error();
        return Err(io::Error::other(format!("cannot make the TUN device {name}: {error}")));
    }
    Ok(file)
}

struct Spec {
    /// Bits per second.
    rate: u64,
    delay: Duration,
    /// Bytes, with those of the frame around a packet.
    queue: u64,
}

impl Spec {
    fn time_for(&self, bytes: u64) -> Duration {
        Duration::from_nanos(bytes * 8_000_000_000 / self.rate)
    }
}

struct Packet {
    bytes: Box<[u8; PACKET_MAX]>,
    len: usize,
    due: Instant,
}

/// One direction.
struct Direction {
    /// When the last packet in the queue has been sent.
    free_at: Instant,
    packets: VecDeque<Packet>,
    carried: u64,
    dropped: u64,
    refused: u64,
}

struct Link {
    spec: Spec,
    devices: [File; 2],
    directions: [Direction; 2],
    #[expect(clippy::vec_box, reason = "boxes go to and from the queue; their bytes stay")]
    spare: Vec<Box<[u8; PACKET_MAX]>>,
    /// Packets by how late they were delivered: below 2^n microseconds.
    late: [u64; 32],
    latest: Duration,
}

impl Link {
    fn new(spec: Spec, devices: [File; 2]) -> Link {
        let now = Instant::now();
        let direction = || Direction {
            free_at: now,
            packets: VecDeque::new(),
            carried: 0,
            dropped: 0,
            refused: 0,
        };
        let directions = [direction(), direction()];
        Link { spec, devices, directions, spare: Vec::new(), late: [0; 32], latest: Duration::ZERO }
    }

    fn run(&mut self, end: Instant) -> io::Result<()> {
        let stdin = io::stdin();
        while Instant::now() < end {
            let mut more = false;
            for side in 0..2 {
                more |= self.take(side)?;
                self.hand_over(side);
            }
            if more {
                continue;
            }
            let now = Instant::now();
            let due = self.directions.iter().filter_map(|way| way.packets.front()).map(|p| p.due);
            let wait = due.min().unwrap_or(end).min(end).saturating_duration_since(now);
            let wait =
                Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: i64::from(wait.subsec_nanos()) };
            let [first, second] = &self.devices;
            let mut waited = [
                PollFd::new(first, PollFlags::IN),
                PollFd::new(second, PollFlags::IN),
                PollFd::new(&stdin, PollFlags::IN),
            ];
            poll(&mut waited, Some(&wait))?;
            if !waited[2].revents().is_empty() {
                break;
            }
        }
        Ok(())
    }

    /// Reads packets from a device. Returns whether there may be more.
    fn take(&mut self, side: usize) -> io::Result<bool> {
        for _ in 0..BATCH {
            let mut bytes = self.spare.pop().unwrap_or_else(|| Box::new([0; PACKET_MAX]));
            let len = match (&self.devices[side]).read(&mut bytes[..]) {
                Ok(len) => len,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.spare.push(bytes);
                    return Ok(false);
                }
                // The caller has moved the device and not set it up yet.
                Err(error) if error.raw_os_error() == Some(libc::EIO) => return Ok(false),
                Err(error) => return Err(error),
            };
            let now = Instant::now();
            let on_link = len as u64 + FRAME_EXTRA;
            let way = &mut self.directions[side];
            let ahead = way.free_at.saturating_duration_since(now);
            let waiting = ahead.as_nanos() * u128::from(self.spec.rate) / 8_000_000_000;
            if waiting as u64 + on_link > self.spec.queue {
                way.dropped += 1;
                self.spare.push(bytes);
                continue;
            }
            way.free_at = way.free_at.max(now) + self.spec.time_for(on_link);
            way.packets.push_back(Packet { bytes, len, due: way.free_at + self.spec.delay });
        }
        Ok(true)
    }

    /// Delivers the packets that are due.
    fn hand_over(&mut self, side: usize) {
        for _ in 0..BATCH {
            let way = &mut self.directions[side];
            let now = Instant::now();
            if way.packets.front().is_none_or(|packet| packet.due > now) {
                return;
            }
            let packet = way.packets.pop_front().expect("it was just there");
            let late = now - packet.due;
            let micros = late.as_micros().min(u128::from(u32::MAX)) as u64;
            self.late[(u64::BITS - micros.leading_zeros()) as usize % 32] += 1;
            self.latest = self.latest.max(late);
            match (&self.devices[1 - side]).write(&packet.bytes[..packet.len]) {
                Ok(_) => way.carried += 1,
                Err(_) => way.refused += 1,
            }
            self.spare.push(packet.bytes);
        }
    }

    fn report(&self) -> String {
        let all: u64 = self.late.iter().sum();
        let part = |permille: u64| {
            let mut seen = 0;
            let reached = |count: &u64| {
                seen += count;
                seen * 1000 >= all * permille
            };
            self.late.iter().position(reached).map_or(0, |bits| 1u64 << bits)
        };
        let sum = |count: fn(&Direction) -> u64| self.directions.iter().map(count).sum::<u64>();
        format!(
            "{{\"carried\": {}, \"dropped\": {}, \"refused\": {}, \"late_us_p50\": {}, \
             \"late_us_p99\": {}, \"late_us_p999\": {}, \"late_us_max\": {}}}",
            sum(|way| way.carried),
            sum(|way| way.dropped),
            sum(|way| way.refused),
            part(500),
            part(990),
            part(999),
            self.latest.as_micros(),
        )
    }
}
