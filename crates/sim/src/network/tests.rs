use core::net::Ipv4Addr;

use lustrine_socklnd::io::SourcePort;

use super::*;
use crate::memory::Rope;
use crate::script::StreamEnd;

fn ip(last: u8) -> IpAddr {
    Ipv4Addr::new(10, 0, 0, last).into()
}

fn address(last: u8, port: u16) -> SocketAddr {
    SocketAddr::new(ip(last), port)
}

struct Pair {
    net: Network,
    one: HostId,
    two: HostId,
}

fn pair_with(link: Link) -> Pair {
    let mut net = Network::new(Time(1), Rng::new(1));
    net.set_usual_link(link);
    let one = net.add_host(&[ip(1)], true);
    let two = net.add_host(&[ip(2)], true);
    net.listen(two, address(2, 988));
    Pair { net, one, two }
}

impl Pair {
    /// Lets everything arrive.
    fn settle(&mut self) {
        while self.net.next_due() != Time::NEVER {
            let next = self.net.next_due();
            self.net.advance(next);
        }
    }

    fn connect(&mut self) -> (SockId, SockId) {
        let near = self
            .net
            .connect(self.one, None, SourcePort::Privileged, address(2, 988))
            .expect("a port is free");
        self.settle();
        (near, self.net.next_incoming(self.two).expect("it arrived").sock)
    }

    fn write(&mut self, sock: SockId, bytes: &[u8]) -> Offer {
        let cut = self.net.chunking_of(sock);
        let offer = self.net.writable(sock, bytes.len(), cut);
        if let Offer::Bytes(len) = offer {
            self.net.send(sock, Rope::from_bytes(&bytes[..len]));
        }
        offer
    }

    fn read(&mut self, sock: SockId, len: usize) -> Result<Vec<u8>, Offer> {
        let cut = self.net.chunking_of(sock);
        match self.net.readable(sock, len, cut) {
            Offer::Bytes(len) => {
                let mut bytes = vec![0; len];
                self.net.take(sock, len).read(&mut bytes);
                Ok(bytes)
            }
            other => Err(other),
        }
    }

    fn reports(&mut self, host: HostId) -> Vec<(SockId, Readiness)> {
        core::iter::from_fn(|| self.net.next_report(host))
            .map(|(sock, report)| (sock, report.readiness))
            .collect()
    }
}

const READABLE: Readiness = Readiness {
    readable: true,
    writable: false,
    hangup: false,
    zero_copy_done: 0,
    zero_copy_copied: 0,
};
const WRITABLE: Readiness = Readiness {
    readable: false,
    writable: true,
    hangup: false,
    zero_copy_done: 0,
    zero_copy_copied: 0,
};

#[test]
fn bytes_arrive_after_the_latency_and_are_reported_once() {
    let mut pair = pair_with(Link { latency: Nanos(5000), ..Link::default() });
    let (near, far) = pair.connect();
    assert_eq!(pair.reports(pair.one), [(near, WRITABLE)]);
    let sent = pair.net.now();
    pair.write(near, b"hello");
    assert_eq!(pair.net.next_due(), sent + Nanos(5000));
    assert_eq!(pair.read(far, 10), Err(Offer::WouldBlock));
    pair.settle();
    assert_eq!(pair.reports(pair.two), [(far, READABLE)]);
    assert!(pair.reports(pair.two).is_empty(), "edges, not levels");
    assert_eq!(pair.read(far, 10).unwrap(), b"hello");
}

#[test]
fn a_full_window_stops_the_writer_until_it_is_read() {
    let mut pair = pair_with(Link { window: 8, ..Link::default() });
    let (near, far) = pair.connect();
    pair.settle();
    pair.reports(pair.one);
    assert_eq!(pair.write(near, b"123456789"), Offer::Bytes(8));
    assert_eq!(pair.write(near, b"9"), Offer::WouldBlock);
    pair.settle();
    assert!(pair.reports(pair.one).is_empty());
    assert_eq!(pair.read(far, 1).unwrap(), b"1");
    pair.settle();
    assert!(pair.reports(pair.one).is_empty(), "not for a single byte");
    assert_eq!(pair.read(far, 2).unwrap(), b"23");
    pair.settle();
    assert_eq!(pair.reports(pair.one), [(near, WRITABLE)]);
    assert_eq!(pair.write(near, b"9abcd"), Offer::Bytes(3));
}

#[test]
fn divided_calls_move_everything_in_the_end() {
    let mut pair = pair_with(Link { chunking: Chunking::Random, ..Link::default() });
    let (near, far) = pair.connect();
    let bytes: Vec<u8> = (0..2000).map(|at| at as u8).collect();
    let (mut sent, mut got) = (0, Vec::new());
    let mut turns = 0;
    while got.len() < bytes.len() {
        turns += 1;
        assert!(turns < 10_000, "a report that was owed did not come");
        let next = &bytes[sent..(sent + 10).min(bytes.len())];
        if !next.is_empty()
            && let Offer::Bytes(len) = pair.write(near, next)
        {
            sent += len;
        }
        // Reads only when a report says so, as a driver does.
        for (sock, report) in pair.reports(pair.two) {
            assert!(report.readable && sock == far);
            while let Ok(bytes) = pair.read(far, 64) {
                let drained = bytes.len() < 64;
                got.extend(bytes);
                if drained {
                    break;
                }
            }
        }
        pair.settle();
        if sent == bytes.len() && got.len() < bytes.len() {
            assert!(!pair.net.hosts[1].ready.is_empty(), "bytes left and no report");
        }
    }
    assert_eq!(got, bytes);
}

#[test]
fn closing_is_read_after_the_last_byte_and_the_other_half_still_works() {
    let mut pair = pair_with(Link::default());
    let (near, far) = pair.connect();
    pair.write(near, b"last");
    pair.net.finish(near);
    pair.settle();
    assert!(pair.reports(pair.two)[0].1.hangup);
    assert_eq!(pair.read(far, 10).unwrap(), b"last");
    assert_eq!(pair.read(far, 10), Err(Offer::Closed));
    assert_eq!(pair.net.how_ended(far), Some(StreamEnd::Closed));
    assert_eq!(pair.write(far, b"answer"), Offer::Bytes(6));
    pair.settle();
    assert_eq!(pair.read(near, 10).unwrap(), b"answer");
    pair.net.close(far);
    pair.net.close(near);
    pair.settle();
    assert_eq!(pair.net.connections(), 0);
    assert!(pair.net.dialled.is_empty());
}

#[test]
fn unread_bytes_make_closing_a_reset_and_late_ones_are_answered_by_one() {
    let mut pair = pair_with(Link::default());
    let (near, far) = pair.connect();
    pair.write(near, b"unread");
    pair.settle();
    pair.net.close(far);
    pair.settle();
    assert_eq!(pair.read(near, 1), Err(Offer::Failed(IoError::Reset)));

    let (near, far) = pair.connect();
    pair.net.close(far);
    pair.settle();
    assert_eq!(pair.read(near, 1), Err(Offer::Closed));
    pair.write(near, b"too late");
    pair.settle();
    assert_eq!(pair.write(near, b"more"), Offer::Failed(IoError::Reset));
}

#[test]
fn privileged_ports_are_taken_downwards_and_used_again() {
    let mut pair = pair_with(Link::default());
    let port = |pair: &Pair, sock| pair.net.addresses(sock).unwrap().0.port();
    let first = pair.connect();
    let second = pair.connect();
    assert_eq!((port(&pair, first.0), port(&pair, second.0)), (1023, 1022));
    pair.net.close(first.0);
    pair.net.close(first.1);
    pair.settle();
    let third = pair.connect();
    assert_eq!(port(&pair, third.0), 1023);
    for _ in 0..510 {
        pair.connect();
    }
    let none = pair.net.connect(pair.one, None, SourcePort::Privileged, address(2, 988));
    assert_eq!(none, Err(IoError::Exhausted));
    let any = pair.net.connect(pair.one, None, SourcePort::Any, address(2, 988)).unwrap();
    assert_eq!(port(&pair, any), 32_768);
    pair.net.hosts[0].privileged = false;
    let none = pair.net.connect(pair.one, None, SourcePort::Privileged, address(2, 989));
    assert_eq!(none, Err(IoError::NoPrivilege));
}

#[test]
fn dials_fail_as_they_do_in_linux() {
    let mut pair = pair_with(Link::default());
    let mut dial = |to| {
        let began = pair.net.now();
        let sock = pair.net.connect(pair.one, None, SourcePort::Any, to).unwrap();
        assert_eq!(pair.net.connected(sock), Err(IoError::Other));
        while pair.net.connected(sock) == Err(IoError::Other) {
            let next = pair.net.next_due();
            pair.net.advance(next);
        }
        (pair.net.connected(sock), pair.net.now().since(began))
    };
    assert_eq!(dial(address(2, 988)), (Ok(()), Nanos(100_000)));
    assert_eq!(dial(address(2, 80)), (Err(IoError::Refused), Nanos(100_000)));
    let (absent, after) = dial(address(9, 988));
    assert_eq!(absent, Err(IoError::HostUnreachable));
    assert!(after >= NO_SUCH_HOST);
    pair.net.sever(pair.one, pair.two);
    let sock = pair.net.connect(pair.one, None, SourcePort::Any, address(2, 988)).unwrap();
    // A request is repeated after twice as long each time.
    let (began, mut seen) = (pair.net.now(), Vec::new());
    while pair.net.next_due() != Time::NEVER {
        let next = pair.net.next_due();
        pair.net.advance(next);
        seen.push(next.since(began).0 / 1_000_000_000);
    }
    assert_eq!(seen, [0, 1, 3, 7, 15, 31, 63, 127]);
    assert_eq!(pair.net.connected(sock), Err(IoError::TimedOut));
}

#[test]
fn a_reset_is_lost_at_a_cut_and_later_data_are_answered_by_one() {
    for finishes in [false, true] {
        let mut pair = pair_with(Link::default());
        let (near, far) = pair.connect();
        pair.net.sever(pair.one, pair.two);
        pair.net.abort(far);
        pair.settle();
        pair.net.restore(pair.one, pair.two);
        pair.settle();
        assert_eq!(pair.read(near, 1), Err(Offer::WouldBlock));
        match finishes {
            true => pair.net.finish(near),
            false => assert_eq!(pair.write(near, b"still there?"), Offer::Bytes(12)),
        }
        pair.settle();
        assert_eq!(pair.read(near, 1), Err(Offer::Failed(IoError::Reset)), "{finishes}");
        pair.net.close(near);
        pair.settle();
        assert_eq!(pair.net.connections(), 0);
    }
}

#[test]
fn data_held_back_by_a_cut_arrives_in_order_when_the_link_is_restored() {
    let mut pair = pair_with(Link { jitter: Nanos(40_000), ..Link::default() });
    let (near, far) = pair.connect();
    pair.write(near, b"one ");
    pair.net.sever(pair.one, pair.two);
    pair.write(near, b"two ");
    pair.settle();
    assert_eq!(pair.read(far, 100), Err(Offer::WouldBlock));
    pair.write(near, b"three ");
    pair.net.restore(pair.one, pair.two);
    pair.write(near, b"four");
    pair.settle();
    assert_eq!(pair.read(far, 100).unwrap(), b"one two three four");
}

#[test]
fn broken_streams_and_crashed_hosts_are_noticed() {
    let mut pair = pair_with(Link::default());
    let (near, far) = pair.connect();
    pair.net.break_stream(far);
    assert_eq!(pair.read(near, 1), Err(Offer::Failed(IoError::Reset)));
    assert_eq!(pair.read(far, 1), Err(Offer::Failed(IoError::Reset)));

    let (near, _) = pair.connect();
    pair.net.fell(pair.two, true);
    pair.write(near, b"into the void");
    pair.settle();
    assert_eq!(pair.read(near, 1), Err(Offer::WouldBlock), "silence");
    pair.net.raise_host(pair.two);
    pair.write(near, b"hello?");
    pair.settle();
    assert_eq!(pair.read(near, 1), Err(Offer::Failed(IoError::Reset)), "it has no such stream");

    pair.net.listen(pair.two, address(2, 988));
    let (near, _) = pair.connect();
    pair.net.fell(pair.two, false);
    pair.settle();
    assert_eq!(pair.read(near, 1), Err(Offer::Failed(IoError::Reset)));
}
