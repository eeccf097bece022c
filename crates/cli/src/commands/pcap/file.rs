//! Reads capture files, frame by frame.

use std::io::{self, Read};

use lustrine_capture::LinkType;
use pcap_parser::traits::{PcapNGPacketBlock, PcapReaderIterator};
use pcap_parser::{Block, PcapBlockOwned, PcapError, PcapHeader, create_reader};

/// Initial size of the buffer, in bytes.
const BUFFER_START: usize = 1 << 18;
/// The largest frame, in bytes; capture programs write at most 256 KiB.
const BUFFER_MAX: usize = 1 << 24;
/// The most interfaces in one file.
const INTERFACES_MAX: usize = 1 << 16;

const NS_PER_S: u64 = 1_000_000_000;

/// Why a capture file cannot be read completely.
#[derive(Debug)]
pub(super) enum FileError {
    /// The file cannot be opened or read.
    Open(io::Error),
    /// A directory.
    Directory,
    /// A terminal.
    Terminal,
    /// An unknown format.
    Format,
    /// The only link type in the file is not supported.
    Link(i32),
    /// Malformed, or unreadable from this byte.
    At(usize, &'static str),
}

impl std::fmt::Display for FileError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            FileError::Open(error) => write!(f, "{error}"),
            FileError::Directory => f.write_str("a directory; name one capture in it"),
            FileError::Terminal => f.write_str(
                "a terminal; pipe a capture into it, such as from `tcpdump -U -w - tcp port 988`",
            ),
            FileError::Format => f.write_str(
                "neither a libpcap nor a pcapng file; if it is compressed, such as FILE.xz, try \
                 `xz -dc FILE | lustrine pcap -`",
            ),
            FileError::Link(number) => write!(
                f,
                "frames of link type {number} cannot be read; Ethernet, raw IP, loopback and \
                 Linux cooked (\"any\") can"
            ),
            FileError::At(offset, what) => write!(f, "at byte {offset}: {what}"),
        }
    }
}

/// A capture from its beginning, as the library needs it: all of the first block with the first
/// read, after which the library reads once more although it has what it needs.
struct Beginning<R> {
    input: R,
    reads: u32,
}

/// Bytes of the header of a libpcap file, and least bytes of the first block of a pcapng file.
const HEADER_LEN: usize = 24;
const SECTION_LEN: usize = 28;

/// Bytes of the first block of a capture, as far as its first bytes say.
fn first_block_len(bytes: &[u8]) -> usize {
    let word = |at: usize| -> Option<[u8; 4]> { bytes.get(at..at + 4)?.try_into().ok() };
    if word(0) != Some([0x0a, 0x0d, 0x0d, 0x0a]) {
        return HEADER_LEN;
    }
    let len = match (word(4), word(8)) {
        (Some(len), Some([0x4d, 0x3c, 0x2b, 0x1a])) => u32::from_le_bytes(len),
        (Some(len), Some(_)) => u32::from_be_bytes(len),
        _ => 0,
    };
    (len as usize).max(SECTION_LEN)
}

impl<R: Read> Read for Beginning<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.reads = self.reads.saturating_add(1);
        match self.reads {
            1 => {
                let mut have = 0;
                while have < bytes.len() && have < first_block_len(&bytes[..have]) {
                    match self.input.read(&mut bytes[have..])? {
                        0 => break,
                        more => have += more,
                    }
                }
                Ok(have)
            }
            2 => Ok(0),
            _ => self.input.read(bytes),
        }
    }
}

/// How the frames of one interface are read.
#[derive(Debug, Clone, Copy)]
struct Interface {
    link: Option<LinkType>,
    /// Units of time stamps per second.
    resolution: u64,
    /// Seconds to add to time stamps.
    offset_s: i64,
}

/// One frame.
#[derive(Debug)]
pub(super) struct Found<'a> {
    pub(super) time_ns: u64,
    pub(super) link: LinkType,
    pub(super) bytes: &'a [u8],
}

/// The frames of a capture file, in order.
pub(super) struct Frames {
    reader: Box<dyn PcapReaderIterator + Send>,
    capacity: usize,
    /// The interfaces of the current section; a libpcap file has one.
    interfaces: Vec<Interface>,
    /// Bytes of the block that was returned last.
    pending: usize,
    foreign_links: u64,
}

/// The position of a frame in the block at the front of the reader's buffer.
struct Located {
    time_ns: u64,
    link: LinkType,
}

impl Frames {
    /// Recognises the format of a file.
    pub(super) fn open(file: impl Read + Send + 'static) -> Result<Frames, FileError> {
        let file = Beginning { input: file, reads: 0 };
        let reader = create_reader(BUFFER_START, file).map_err(|error| match error {
            PcapError::Eof => FileError::At(0, "the file is empty"),
            PcapError::ReadError => FileError::At(0, "cannot be read"),
            _ => FileError::Format,
        })?;
        Ok(Frames {
            reader,
            capacity: BUFFER_START,
            interfaces: Vec::new(),
            pending: 0,
            foreign_links: 0,
        })
    }

    /// Frames that were skipped because their link type is not supported.
    pub(super) fn foreign_links(&self) -> u64 {
        self.foreign_links
    }

    /// The next frame; `None` at the end of the file.
    pub(super) fn next_frame(&mut self) -> Result<Option<Found<'_>>, FileError> {
        let located = loop {
            self.reader.consume(std::mem::take(&mut self.pending));
            if !self.fill()? {
                return Ok(None);
            }
            if let Some(located) = self.look()? {
                break located;
            }
        };
        // The block is buffered, so that reading it again costs little and cannot fail. It borrows
        // from the reader, which the loop must not do.
        let bytes = match self.reader.next() {
            Ok((_, PcapBlockOwned::Legacy(block))) => block.data,
            Ok((_, PcapBlockOwned::NG(Block::EnhancedPacket(block)))) => enhanced_data(&block),
            Ok((_, PcapBlockOwned::NG(Block::SimplePacket(block)))) => simple_data(&block),
            _ => &[],
        };
        Ok(Some(Found { time_ns: located.time_ns, link: located.link, bytes }))
    }

    /// Makes sure that a whole block is in the buffer; false at the end of the file.
    fn fill(&mut self) -> Result<bool, FileError> {
        loop {
            let at = self.reader.consumed();
            let fault = |what| Err(FileError::At(at, what));
            match self.reader.next() {
                Ok(_) => return Ok(true),
                Err(PcapError::Eof) => return Ok(false),
                Err(PcapError::Incomplete(_)) => {}
                Err(PcapError::BufferTooSmall) => {
                    if self.capacity >= BUFFER_MAX {
                        return fault("a frame of more than 16 MiB");
                    }
                    self.capacity *= 2;
                    self.reader.grow(self.capacity);
                }
                Err(PcapError::UnexpectedEof) => return fault("the file ends within a frame"),
                Err(_) => return fault("malformed frame"),
            }
            if self.reader.refill().is_err() {
                return fault("cannot be read");
            }
        }
    }

    /// Examines the block in the buffer: the position of its frame, if it has one that is
    /// supported.
    fn look(&mut self) -> Result<Option<Located>, FileError> {
        let at = self.reader.consumed();
        let Ok((len, block)) = self.reader.next() else {
            return Err(FileError::At(at, "malformed frame"));
        };
        self.pending = len;
        let (interface, stamp) = match block {
            PcapBlockOwned::LegacyHeader(header) => {
                self.interfaces = vec![legacy_interface(&header)];
                if self.interfaces[0].link.is_none() {
                    return Err(FileError::Link(header.network.0));
                }
                return Ok(None);
            }
            PcapBlockOwned::Legacy(block) => {
                let resolution = self.interfaces.first().map_or(1, |i| i.resolution);
                let stamp = u64::from(block.ts_sec) * resolution + u64::from(block.ts_usec);
                (self.interfaces.first(), stamp)
            }
            PcapBlockOwned::NG(Block::SectionHeader(_)) => {
                self.interfaces.clear();
                return Ok(None);
            }
            PcapBlockOwned::NG(Block::InterfaceDescription(block)) => {
                if self.interfaces.len() >= INTERFACES_MAX {
                    return Err(FileError::At(at, "too many interfaces"));
                }
                self.interfaces.push(Interface {
                    link: LinkType::from_number(block.linktype.0),
                    resolution: resolution(block.if_tsresol),
                    offset_s: block.if_tsoffset,
                });
                return Ok(None);
            }
            PcapBlockOwned::NG(Block::EnhancedPacket(block)) => {
                let stamp = u64::from(block.ts_high) << 32 | u64::from(block.ts_low);
                (self.interfaces.get(block.if_id as usize), stamp)
            }
            PcapBlockOwned::NG(Block::SimplePacket(_)) => (self.interfaces.first(), 0),
            PcapBlockOwned::NG(_) => return Ok(None),
        };
        let Some(interface) = interface else {
            return Err(FileError::At(at, "a frame of an interface that is not described"));
        };
        let Some(link) = interface.link else {
            self.foreign_links += 1;
            return Ok(None);
        };
        Ok(Some(Located { time_ns: interface.time_ns(stamp), link }))
    }
}

impl Interface {
    /// Nanoseconds since 1970, at most what 64 bits hold.
    fn time_ns(&self, stamp: u64) -> u64 {
        let ns = u128::from(stamp) * u128::from(NS_PER_S) / u128::from(self.resolution);
        let ns = u64::try_from(ns).unwrap_or(u64::MAX);
        let offset = self.offset_s.unsigned_abs().saturating_mul(NS_PER_S);
        if self.offset_s < 0 { ns.saturating_sub(offset) } else { ns.saturating_add(offset) }
    }
}

fn legacy_interface(header: &PcapHeader) -> Interface {
    let resolution = if header.is_nanosecond_precision() { NS_PER_S } else { 1_000_000 };
    Interface { link: LinkType::from_number(header.network.0), resolution, offset_s: 0 }
}

/// Units per second; an invalid code counts as the usual microseconds.
fn resolution(code: u8) -> u64 {
    let exponent = u32::from(code & 0x7f);
    let base: u64 = if code & 0x80 == 0 { 10 } else { 2 };
    base.checked_pow(exponent).unwrap_or(1_000_000)
}

/// The frame without the padding that follows it in the file.
fn enhanced_data<'a>(block: &pcap_parser::EnhancedPacketBlock<'a>) -> &'a [u8] {
    block.data.get(..block.caplen as usize).unwrap_or(block.data)
}

/// As [`enhanced_data`]; the block holds only the length of the whole frame.
fn simple_data<'a>(block: &pcap_parser::SimplePacketBlock<'a>) -> &'a [u8] {
    debug_assert!(block.packet_data().len() <= block.data.len());
    block.data.get(..block.origlen as usize).unwrap_or(block.data)
}
