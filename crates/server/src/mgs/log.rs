//! A configuration log: records in chunks, behind a header.

use lustrine_fswire::codec::{Wire, Writer};
use lustrine_fswire::llog::{
    CHUNK_SIZE, CfgCommand, LlogFlags, LlogHeader, LlogHeaderFields, LogId, LustreCfg, Marker,
    MarkerFlags, RECORD_MIN, Record, RecordHeader, RecordKind,
};
use lustrine_fswire::text::FixedText;
use lustrine_wire::nid::Nid;

/// The release in markers.
const RELEASE: u32 = 0x0211_0000;

/// A configuration log. Records are appended; nothing is ever taken out.
#[derive(Clone, Debug)]
pub(super) struct Log {
    /// By which requests name it.
    pub(super) id: LogId,
    chunks: Vec<Vec<u8>>,
    /// The number of the last record of each chunk.
    last: Vec<u32>,
    /// The number of the last record.
    index: u32,
    /// The bitmap of the records that count.
    live: Vec<u8>,
    step: u32,
}

impl Log {
    /// An empty log; `number` is one that no other log has.
    pub(super) fn new(number: u64) -> Log {
        Log {
            id: LogId { id: number, seq: 10, ogen: 0 },
            chunks: vec![Vec::new()],
            last: vec![0],
            index: 0,
            live: vec![1],
            step: 0,
        }
    }

    /// Number of bytes, without the zeros at the end of the last chunk, where a chunk ends.
    fn end_of(&self, at: usize) -> u64 {
        ((at + 1) * CHUNK_SIZE + self.chunks[at].len()) as u64
    }

    /// The first chunk that has a record with this number or a later one, filled with zeros: its
    /// last record, where it ends in the log, and its bytes.
    pub(super) fn chunk(&self, index: u32) -> Option<(u32, u64, Vec<u8>)> {
        let at = self.last.iter().position(|last| *last >= index && *last > 0)?;
        let mut bytes = self.chunks[at].clone();
        bytes.resize(CHUNK_SIZE, 0);
        Some((self.last[at], self.end_of(at), bytes))
    }

    fn record(&mut self, kind: RecordKind, payload: &[u8]) {
        self.index += 1;
        let record = Record { index: self.index, kind, id: 0, payload };
        record.write(&mut Writer::new(self.chunks.last_mut().expect("there is one")));
        *self.last.last_mut().expect("there is one") = self.index;
        if kind == RecordKind::CONFIG {
            let byte = self.index as usize / 8;
            if self.live.len() <= byte {
                self.live.resize(byte + 1, 0);
            }
            self.live[byte] |= 1 << (self.index % 8);
        }
    }

    pub(super) fn add(&mut self, config: &LustreCfg<'_>) {
        let mut payload = Vec::new();
        config.write(&mut Writer::new(&mut payload));
        let room = CHUNK_SIZE - self.chunks.last().map_or(0, Vec::len);
        let len = payload.len() + RECORD_MIN;
        // No record crosses a boundary of chunks [MGS-7].
        if room != len && room < len + RECORD_MIN {
            let filler = vec![0; room - RECORD_MIN];
            self.record(RecordKind::PADDING, &filler);
            self.chunks.push(Vec::new());
            self.last.push(0);
        }
        self.record(RecordKind::CONFIG, &payload);
        if self.chunks.last().is_some_and(|chunk| chunk.len() == CHUNK_SIZE) {
            self.chunks.push(Vec::new());
            self.last.push(self.index);
        }
    }

    pub(super) fn command(&mut self, command: CfgCommand, arguments: &[&str]) {
        let arguments: Vec<Vec<u8>> = arguments.iter().map(|text| terminated(text)).collect();
        let arguments: Vec<&[u8]> = arguments.iter().map(Vec::as_slice).collect();
        self.add(&LustreCfg::new(command, &arguments));
    }

    fn marker(&mut self, flags: MarkerFlags, target: &str, comment: &str) {
        let marker = Marker {
            step: self.step,
            flags,
            version: RELEASE,
            target: FixedText::new(target.as_bytes()).unwrap_or_default(),
            comment: FixedText::new(comment.as_bytes()).unwrap_or_default(),
            ..Marker::default()
        };
        self.add(&LustreCfg::new(CfgCommand::MARKER, &[&[], &marker.to_bytes()]));
    }

    /// Commands between their markers [MGS-9].
    pub(super) fn group(&mut self, target: &str, comment: &str, commands: impl FnOnce(&mut Log)) {
        self.step += 1;
        self.marker(MarkerFlags::START, target, comment);
        commands(self);
        self.marker(MarkerFlags::END, target, comment);
    }

    pub(super) fn nids(&mut self, nids: &[Nid]) -> String {
        let group = nids.first().map(ToString::to_string).unwrap_or_default();
        for nid in nids {
            let text = terminated(&nid.to_string());
            let name = terminated(&group);
            // A NID without a short form stands in a third argument.
            let short = nid.to_short();
            let mut config = match short {
                Some(_) => LustreCfg::new(CfgCommand::ADD_UUID, &[&[], &name]),
                None => LustreCfg::new(CfgCommand::ADD_UUID, &[&[], &name, &text]),
            };
            config.header.nid = short.unwrap_or_default();
            self.add(&config);
        }
        group
    }

    /// The header, as it is now.
    pub(super) fn header(&self) -> Vec<u8> {
        let fields = LlogHeaderFields {
            record: RecordHeader {
                len: CHUNK_SIZE as u32,
                index: 0,
                kind: RecordKind::HEADER,
                id: 0,
            },
            count: self.live.iter().map(|byte| byte.count_ones()).sum(),
            bitmap_offset: LlogHeaderFields::SIZE as u32,
            flags: LlogFlags::PLAIN,
            tgtuuid: FixedText::new(b"config_uuid").unwrap_or_default(),
            ..LlogHeaderFields::default()
        };
        let header = LlogHeader { fields, bitmap: &self.live, last_index: self.index };
        let mut bytes = Vec::new();
        header.write(&mut Writer::new(&mut bytes));
        bytes
    }
}

/// The bytes of a text with its zero.
pub(super) fn terminated(text: &str) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    if !bytes.is_empty() {
        bytes.push(0);
    }
    bytes
}
