//! The table of NIDs, and what follows from it: imperative recovery [MGS-12] [MGS-13] [IMP-15].

use std::collections::BTreeMap;

use lustrine_fswire::mgs::{ConfigBody, ConfigKind, TargetKind, nid_table};
use lustrine_fswire::opcode::portal;
use lustrine_fswire::rpc::{Request, obd};
use lustrine_fswire::text::FixedText;
use lustrine_lnet::service::Turn;
use lustrine_ptlrpc::ImportKey;
use lustrine_wire::nid::{Nid, ProcessId};

use super::Which;
use crate::client::{Answer, CallArgs, Client, Data};
use crate::error::{Outcome, malformed};
use crate::reply::reply_of;

/// Units of 4096 bytes that are asked for at once.
const UNITS: u32 = 16;
/// A unit as a power of two.
const UNIT_BITS: u8 = 12;
/// Most parts of a table that are read at a time: 1 MiB.
const PARTS_MAX: u32 = 16;
/// Most NIDs of an entry that are used.
const NIDS_MAX: usize = 32;

/// What the table says of a target.
struct Entry {
    version: u64,
    kind: TargetKind,
    index: u32,
    instance: u32,
    nids: Vec<Nid>,
}

/// A part of the table.
struct Part {
    entries: Vec<Entry>,
    /// The last version that it covers, and the last one of the table.
    offset: u64,
    size: u64,
}

impl Client {
    /// Reads the table from the first version that is not known, in so many parts already.
    pub(super) fn read_table(&mut self, turn: &mut Turn<'_>, parts: u32) {
        let Some(mgs) = self.mgs else { return };
        let name = Which::Recover.name(&self.args.fsname);
        let from = self.mgc.table_version.saturating_add(1);
        let body = ConfigBody {
            name: FixedText::new(name.as_bytes()).unwrap_or_default(),
            offset: from,
            kind: ConfigKind::RECOVER,
            nid_size: 20,
            bits: UNIT_BITS,
            units: UNITS,
        };
        let mut call = CallArgs::from(Request::MgsConfigRead(obd::ConfigRead { body }));
        let len = u64::from(UNITS) << UNIT_BITS;
        call.bulk = Some((portal::MGS_BULK, Data::In { offset: 0, len }));
        self.call(turn, mgs, call, move |client, turn, answer| {
            let part = answer.and_then(|answer| part_of(&answer));
            let settled = match part {
                Ok(part) => client.take_part(turn, from, part),
                Err(error) => Some(Err(error)),
            };
            match settled {
                Some(outcome) => client.config_settled(turn, Which::Recover, outcome),
                None if parts + 1 < PARTS_MAX => client.read_table(turn, parts + 1),
                None => {
                    let error = malformed("the table of NIDs does not end");
                    client.config_settled(turn, Which::Recover, Err(error));
                }
            }
        });
    }

    /// Does what a part of the table says. None if there is more.
    fn take_part(&mut self, turn: &mut Turn<'_>, from: u64, part: Part) -> Option<Outcome<()>> {
        let known = self.mgc.table_version;
        if part.size < known {
            // The MGS has begun anew.
            self.mgc.table_version = 0;
            return None;
        }
        let goes_on = part.offset < part.size;
        if part.offset > part.size || goes_on && (part.offset < from || part.entries.is_empty()) {
            return Some(Err(malformed("the table of NIDs does not go on")));
        }
        // A target that has started several times is where it was last.
        let new = part.entries.iter().filter(|entry| entry.version > known);
        let last: BTreeMap<_, _> = new.map(|entry| ((entry.kind.0, entry.index), entry)).collect();
        for entry in last.into_values() {
            self.target_started(turn, entry);
        }
        self.mgc.table_version = part.offset;
        (part.offset == part.size).then_some(Ok(()))
    }

    /// A target was started, and says where it is.
    fn target_started(&mut self, turn: &mut Turn<'_>, entry: &Entry) {
        let (targets, kind) = match entry.kind {
            TargetKind::MDT => (&self.mdts, "MDT"),
            TargetKind::OST => (&self.osts, "OST"),
            _ => return,
        };
        let Some(import) = targets.get(&entry.index).copied() else { return };
        if self.starts_anew(turn, import, entry) {
            let name = format!("{}-{kind}{:04x}", self.args.fsname, entry.index);
            let place = entry.nids.first().map(ToString::to_string).unwrap_or_default();
            self.mgc.reconnects += 1;
            self.mgc.changed(turn.now, format!("{name} started at {place}"));
        }
    }

    fn starts_anew(&mut self, turn: &mut Turn<'_>, import: ImportKey, entry: &Entry) -> bool {
        let peers: Vec<ProcessId> = entry.nids.iter().copied().map(ProcessId::lustre).collect();
        let instance = entry.instance;
        let connects = self.rpc.with(turn, import, |import, now, xids| {
            import.target_started(now, xids, &peers, instance)
        });
        connects == Some(true)
    }
}

/// Reads an answer. A table that is malformed says nothing at all.
fn part_of(answer: &Answer) -> Outcome<Part> {
    let res = reply_of!(&answer.reply, MgsConfigRead)?.res;
    let mut entries = Vec::new();
    for entry in nid_table(&answer.data) {
        let entry = entry.map_err(|error| malformed(&error.to_string()))?;
        let header = entry.header;
        entries.push(Entry {
            version: header.version,
            kind: header.kind,
            index: header.index,
            instance: header.instance,
            nids: entry.nids().take(NIDS_MAX).collect(),
        });
    }
    Ok(Part { entries, offset: res.offset, size: res.size })
}
