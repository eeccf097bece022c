//! Plain TCP streams over one simulated link, counted as they arrive.
//!
//! `streams BITS_PER_SECOND ONE_WAY_NS QUEUE_BYTES CONGESTION STREAMS BYTES UNTIL_NS SEND_BUFFER
//! RECEIVE_BUFFER MARKS_NS,...` prints JSON: for each stream, the bytes that had arrived at each
//! mark (nanoseconds since its first write), the total, and the time of the last byte. `cargo xtask
//! bench wan` compares it with the same over real sockets.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::ExitCode;

use lustrine_lnet::time::{Nanos, Time};
use lustrine_sim::fabric::{Hashing, LinkSpec, Rate};
use lustrine_sim::tcp::{Algorithm, TcpSpec};
use lustrine_sim::{CpuCost, HostId, Placement, Script, ScriptIo, Simulation, StreamSim};
use lustrine_socklnd::io::SockId;

const PORT: u16 = 5000;

/// Bytes written at once.
const WRITE: u64 = 64 << 10;

/// The longest wait for the last byte.
const PATIENCE: Nanos = Nanos::from_secs(300);

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match Run::parse(&words) {
        Some(run) => {
            println!("{}", run.result());
            ExitCode::SUCCESS
        }
        None => {
            eprintln!(
                "usage: streams BITS_PER_SECOND ONE_WAY_NS QUEUE_BYTES cubic|bbr|bic|fixed STREAMS \
                 BYTES UNTIL_NS SEND_BUFFER RECEIVE_BUFFER MARKS_NS,..."
            );
            ExitCode::FAILURE
        }
    }
}

struct Run {
    link: LinkSpec,
    tcp: TcpSpec,
    streams: u64,
    bytes: u64,
    until: Nanos,
    marks: Vec<u64>,
}

impl Run {
    fn parse(words: &[String]) -> Option<Run> {
        let [rate, delay, queue, congestion, streams, bytes, until, send, receive, marks] = words
        else {
            return None;
        };
        let number = |word: &str| word.parse::<u64>().ok();
        let algorithm = match &congestion[..] {
            "cubic" => Algorithm::Cubic,
            "bbr" => Algorithm::Bbr,
            "bic" => Algorithm::Bic,
            "fixed" => Algorithm::Fixed,
            _ => return None,
        };
        Some(Run {
            link: LinkSpec {
                rate: Rate::from_bits(number(rate)?),
                delay: Nanos(number(delay)?),
                queue: number(queue)?,
                ..LinkSpec::default()
            },
            tcp: TcpSpec {
                algorithm,
                send_buffer: number(send)?,
                receive_buffer: number(receive)?,
                ..TcpSpec::default()
            },
            streams: number(streams)?,
            bytes: number(bytes)?,
            until: Nanos(number(until)?),
            marks: marks.split(',').map(number).collect::<Option<_>>()?,
        })
    }

    fn result(&self) -> String {
        let mut world = StreamSim::new(1);
        let fabric = world.fabric();
        let sites = [fabric.add_site(), fabric.add_site()];
        fabric.add_trunk((sites[0], sites[1]), &[self.link], Hashing::Hosts);
        // An interface that never limits a stream.
        let interface = LinkSpec { rate: Rate::from_bits(100_000_000_000), ..LinkSpec::default() };
        let place = |site| Placement { site, interface, cost: CpuCost::default(), tcp: self.tcp };
        let receiver = Receiver { expected: self.streams as usize, streams: Vec::new() };
        let door = SocketAddr::new(address(1), PORT);
        let sender = Sender {
            door,
            until: self.until,
            streams: vec![Outgoing::new(self.bytes); self.streams as usize],
        };
        let receiver = world.place_script(&[address(1)], place(sites[1]), receiver);
        let sender = world.place_script(&[address(0)], place(sites[0]), sender);
        world.run_until(PATIENCE, |world| world.script::<Receiver>(receiver).is_over());
        self.report(&mut world, sender, receiver)
    }

    fn report(&self, world: &mut StreamSim, sender: HostId, receiver: HostId) -> String {
        let begins: Vec<(u16, Time)> = (world.script::<Sender>(sender).streams.iter())
            .map(|stream| (stream.port, stream.begin))
            .collect();
        let streams = world.script::<Receiver>(receiver).streams.iter().map(|stream| {
            let begin =
                begins.iter().find(|(port, _)| *port == stream.port).expect("it was opened");
            stream.report(begin.1, &self.marks)
        });
        format!("{{\"streams\": [{}]}}", streams.collect::<Vec<_>>().join(", "))
    }
}

fn address(last: u8) -> IpAddr {
    Ipv4Addr::new(10, 0, 0, last + 1).into()
}

#[derive(Clone)]
struct Outgoing {
    sock: Option<SockId>,
    port: u16,
    begin: Time,
    left: u64,
}

impl Outgoing {
    fn new(bytes: u64) -> Outgoing {
        Outgoing { sock: None, port: 0, begin: Time::NEVER, left: bytes }
    }
}

/// Dials all its streams, and writes what there is room for.
struct Sender {
    door: SocketAddr,
    until: Nanos,
    streams: Vec<Outgoing>,
}

impl Script for Sender {
    fn act(&mut self, io: &mut ScriptIo<'_>) {
        while io.next_report().is_some() {}
        let now = io.now();
        for (stream, port) in self.streams.iter_mut().zip(10_000..) {
            let sock = *stream.sock.get_or_insert_with(|| {
                stream.port = port;
                io.dial(SocketAddr::new(address(0), port), self.door)
            });
            if stream.left == 0 || io.connected(sock).is_err() {
                continue;
            }
            stream.begin = stream.begin.min(now);
            let is_late = now.since(stream.begin) >= self.until;
            while stream.left > 0 && !is_late {
                let wanted = stream.left.min(WRITE);
                let written = io.write(sock, &[0; WRITE as usize][..wanted as usize]) as u64;
                stream.left -= written;
                if written < wanted {
                    break;
                }
            }
            if stream.left == 0 || is_late {
                stream.left = 0;
                io.finish(sock);
            }
        }
    }
}

struct Incoming {
    sock: SockId,
    port: u16,
    arrived: Vec<(Time, u64)>,
    ended: bool,
}

impl Incoming {
    fn report(&self, begin: Time, marks: &[u64]) -> String {
        let sum = |until: Time| {
            let before = self.arrived.iter().take_while(|(at, _)| *at <= until);
            before.map(|(_, len)| len).sum::<u64>()
        };
        let at: Vec<u64> = marks.iter().map(|mark| sum(Time(begin.0 + mark))).collect();
        let last = self.arrived.last().map_or(0, |(at, _)| at.since(begin).0);
        let total = sum(Time::NEVER);
        format!("{{\"at\": {at:?}, \"total\": {total}, \"last_ns\": {last}}}")
    }
}

/// Reads everything.
struct Receiver {
    expected: usize,
    streams: Vec<Incoming>,
}

impl Receiver {
    fn is_over(&self) -> bool {
        self.streams.len() == self.expected && self.streams.iter().all(|stream| stream.ended)
    }
}

impl Script for Receiver {
    fn act(&mut self, io: &mut ScriptIo<'_>) {
        if self.streams.is_empty() {
            io.listen(SocketAddr::new(address(1), PORT));
        }
        while io.next_report().is_some() {}
        while let Some(incoming) = io.next_incoming() {
            let (_, remote) = io.addresses(incoming.sock).expect("it was just opened");
            let (sock, port) = (incoming.sock, remote.port());
            self.streams.push(Incoming { sock, port, arrived: Vec::new(), ended: false });
        }
        for stream in self.streams.iter_mut().filter(|stream| !stream.ended) {
            let len = io.read(stream.sock).len() as u64;
            if len != 0 {
                stream.arrived.push((io.now(), len));
            }
            stream.ended = io.ended(stream.sock).is_some();
        }
    }
}
