//! Peers that misbehave in ways in which no node of ours does.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use lustrine_wire::acceptor::Request;
use lustrine_wire::frame::{FrameHeader, FrameKind};
use lustrine_wire::header::Body;
use lustrine_wire::hello::{ConnType, Hello, Ips, Version};
use lustrine_wire::ping::{Features, NiStatus, PingEntry, PingInfo};
use lustrine_wire::{ByteOrder, Header, Nid, PID_LUSTRE, ProcessId, Progress};
use rustix::event::{PollFd, PollFlags, poll};

use super::super::lab::Laboratory;

/// The port of all peers.
const AT: &str = "0.0.0.0:988";

/// Listens on a host of a laboratory, and hands each connection to a thread of its own. The threads
/// end with the test's process at the latest, and with the laboratory's connections mostly.
pub(super) fn serve(
    lab: &Laboratory,
    host: &str,
    each: impl Fn(TcpStream) -> Option<()> + Send + Sync + 'static,
) {
    let listener = lab.at(host, || TcpListener::bind(AT).expect("a port"));
    let listener = listener.join().expect("it does not panic");
    let each = Arc::new(each);
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let each = Arc::clone(&each);
            thread::spawn(move || each(stream));
        }
    });
}

/// Answers as a server of SSH does.
pub(super) fn ssh(lab: &Laboratory, host: &str) {
    serve(lab, host, |mut stream| {
        stream.write_all(b"SSH-2.0-OpenSSH_9.9\r\n").ok()?;
        let _ = stream.read(&mut [0; 256]);
        Some(())
    });
}

/// Keeps connections open without reading.
pub(super) fn silent(lab: &Laboratory, host: &str) {
    let kept = Mutex::new(Vec::new());
    serve(lab, host, move |stream| {
        kept.lock().ok()?.push(stream);
        Some(())
    });
}

/// A node that is healthy, but for what a test changes.
#[derive(Clone, Debug)]
pub(super) struct Peer {
    /// The NID in its HELLO.
    pub(super) nid: Nid,
    /// The incarnations of its connections in turn.
    pub(super) incarnations: Vec<u64>,
    pub(super) kind: ConnType,
    pub(super) answers: bool,
    /// Its interfaces.
    pub(super) nis: Vec<(Nid, NiStatus)>,
    /// It stops reading a connection after so many bytes.
    pub(super) reads: usize,
}

impl Peer {
    pub(super) fn new(nid: &str) -> Peer {
        let nid: Nid = nid.parse().expect("a NID");
        Peer {
            nid,
            incarnations: vec![now_ns()],
            kind: ConnType::Control,
            answers: true,
            nis: vec![(nid, NiStatus::Up)],
            reads: usize::MAX,
        }
    }

    pub(super) fn serve(self, lab: &Laboratory, host: &str) {
        let turn = AtomicUsize::new(0);
        serve(lab, host, move |stream| {
            let at = turn.fetch_add(1, Ordering::Relaxed);
            self.converse(stream, self.incarnations[at % self.incarnations.len()])
        });
    }

    fn converse(&self, mut stream: TcpStream, incarnation: u64) -> Option<()> {
        let mut bytes = Vec::new();
        let (_, len) = parsed(&mut stream, &mut bytes, |bytes| Request::parse(bytes).ok())?;
        bytes.drain(..len);
        let (asked, len) = parsed(&mut stream, &mut bytes, |bytes| Hello::parse(bytes).ok())?;
        bytes.drain(..len);
        let hello = Hello {
            version: Version::V3,
            order: ByteOrder::Little,
            src: ProcessId::lustre(self.nid),
            dst: asked.src,
            src_incarnation: incarnation,
            dst_incarnation: 0,
            kind: self.kind,
            ips: Ips::NONE,
        };
        let mut answer = Vec::new();
        hello.encode(&mut answer).ok()?;
        stream.write_all(&answer).ok()?;
        let mut read = bytes.len();
        loop {
            while let Some((answer, len)) = self.answer(&bytes) {
                bytes.drain(..len);
                stream.write_all(&answer).ok()?;
            }
            if read >= self.reads {
                // The connection stays open until the other side ends it.
                let ended = PollFlags::empty();
                poll(&mut [PollFd::new(&stream, ended)], None).ok()?;
                return None;
            }
            read += more(&mut stream, &mut bytes)?;
        }
    }

    /// The answer to the first message, which is a ping or a keepalive, and the message's length.
    fn answer(&self, bytes: &[u8]) -> Option<(Vec<u8>, usize)> {
        let frame = FrameHeader::parse(bytes.first_chunk()?, ByteOrder::Little).ok()?;
        if frame.kind == FrameKind::Noop {
            return Some((Vec::new(), FrameHeader::LEN));
        }
        let header = Header::parse_short(bytes[FrameHeader::LEN..].first_chunk()?).ok()?;
        let len = FrameHeader::LEN + Header::SHORT_LEN;
        let Body::Get { return_md, .. } = header.body else { return None };
        if !self.answers {
            return Some((Vec::new(), len));
        }
        let mut info = Vec::new();
        let entries: Vec<PingEntry> =
            self.nis.iter().map(|(nid, status)| PingEntry { nid: *nid, status: *status }).collect();
        PingInfo::build(Features::NI_STATUS, PID_LUSTRE, 1, &entries, &mut info);
        let reply = Header {
            dst: header.src,
            src: ProcessId::lustre(self.nid),
            payload_len: info.len() as u32,
            body: Body::Reply { md: return_md },
        };
        let mut raw = [0; Header::SHORT_LEN];
        reply.encode_short(&mut raw).ok()?;
        let frame = FrameHeader::LNET.encode(ByteOrder::Little);
        Some(([&frame[..], &raw, &info].concat(), len))
    }
}

/// Reads until there is a value.
fn parsed<T>(
    stream: &mut TcpStream,
    bytes: &mut Vec<u8>,
    parse: impl Fn(&[u8]) -> Option<Progress<T>>,
) -> Option<(T, usize)> {
    loop {
        match parse(bytes)? {
            Progress::Got(value, len) => return Some((value, len)),
            Progress::Need(_) => more(stream, bytes)?,
        };
    }
}

fn more(stream: &mut TcpStream, bytes: &mut Vec<u8>) -> Option<usize> {
    let mut chunk = [0; 4096];
    let count = stream.read(&mut chunk).ok().filter(|count| *count > 0)?;
    bytes.extend(&chunk[..count]);
    Some(count)
}

pub(super) fn now_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time after 1970");
    u64::try_from(since.as_nanos()).expect("a time before 2554")
}
