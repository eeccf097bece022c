//! Data of reads and writes, directory pages, tables of NIDs.

use std::collections::BTreeMap;

use lustrine_capture::Bulk;
use lustrine_fswire::checksum::Checksum;
use lustrine_fswire::codec::Writer;
use lustrine_fswire::dir;
use lustrine_fswire::message::Message;
use lustrine_fswire::mgs::{ConfigKind, nid_table};
use lustrine_fswire::ost::{NIOBUFS_MAX, Obdo, bulk_pieces, check_niobufs};
use lustrine_fswire::rpc::{Kind, Reply, Request, ost};
use lustrine_wire::Nid;

/// The data of all RPCs, by client and xid, then by number.
#[derive(Default)]
pub(crate) struct Transfers(BTreeMap<(Nid, u64), BTreeMap<u32, Vec<u8>>>);

impl Transfers {
    pub(crate) fn add(&mut self, client: Nid, bulk: &Bulk, data: &[u8]) {
        let transfers = self.0.entry((client, bulk.xid)).or_default();
        // A request that is sent again repeats its data.
        transfers.insert(bulk.index, data.to_vec());
    }

    pub(crate) fn of(&self, client: Nid, xid: u64) -> Option<&BTreeMap<u32, Vec<u8>>> {
        self.0.get(&(client, xid))
    }
}

type Parts<'a> = Option<&'a BTreeMap<u32, Vec<u8>>>;

/// Checks what an RPC has moved, and says what was checked.
pub(crate) fn check(request: &[u8], reply: &[u8], parts: Parts<'_>, name: &str) -> Option<String> {
    let (message, body) = Message::parse_request(request).unwrap();
    let request = Request::parse(&message, &body).unwrap();
    let (message, status) = Message::parse_reply(reply).unwrap();
    let reply = Reply::parse(request.kind(), &message).unwrap();
    let whole: Vec<u8> =
        parts.into_iter().flat_map(|parts| parts.values()).flatten().copied().collect();
    match (&request, &reply) {
        (Request::OstRead(brw), Reply::OstRead(reply)) if status.status >= 0 => {
            let data = if reply.data.is_empty() { &whole } else { &reply.data.to_vec() };
            assert_eq!(data.len(), status.status as usize, "{name}: bytes of a read");
            check_brw(brw, &reply.body, data, name)
        }
        (Request::OstWrite(brw), Reply::OstWrite(reply)) if status.status >= 0 => {
            let data = if brw.data.is_empty() { &whole } else { &brw.data.to_vec() };
            let total = check_niobufs(&brw.object, &brw.niobufs).unwrap();
            assert_eq!(data.len() as u64, total, "{name}: bytes of a write");
            assert_eq!(reply.results.len(), brw.niobufs.len());
            if let Some(parts) = parts {
                check_cut(brw, body.mbits, parts);
            }
            if let Some((_, sum)) = brw.body.checksum() {
                assert_eq!(reply.body.cksum(), sum, "{name}: checksum in the reply to a write");
            }
            check_brw(brw, &brw.body, data, name)
        }
        (Request::MdsReadpage(_), _) => {
            let entries = pages(&whole);
            (status.status == 0).then(|| format!("entries={entries}").replace('=', ":"))
        }
        (Request::MgsConfigRead(read), _) if read.body.kind == ConfigKind::RECOVER => {
            let mut again = Vec::new();
            for entry in nid_table(&whole) {
                let entry = entry.unwrap();
                assert_eq!(entry.nids().count(), usize::from(entry.header.nid_count));
                entry.write(&mut Writer::new(&mut again));
            }
            assert_eq!(again, whole, "{name}: table of NIDs");
            Some("nid table".to_owned())
        }
        (Request::MdsBatch(batch), _) if batch.header.inline.is_empty() => {
            let mut rest = &whole[..];
            for buffer in batch.buffers.iter() {
                let (now, later) = rest.split_at(buffer.size as usize);
                crate::check::block(now, &|| format!("{name}: block"));
                rest = later;
            }
            Some("blocks".to_owned())
        }
        _ => None,
    }
}

/// Client and server cut data alike [RPC-15].
fn check_cut(brw: &ost::Brw<'_>, last_bits: u64, parts: &BTreeMap<u32, Vec<u8>>) {
    let step = brw.object.bulk_step().unwrap();
    let pieces = bulk_pieces(last_bits, step, &brw.niobufs).unwrap();
    let lens: Vec<_> = pieces.iter().map(|piece| piece.len).collect();
    assert_eq!(lens, parts.values().map(|part| part.len() as u64).collect::<Vec<_>>());
}

fn check_brw(brw: &ost::Brw<'_>, summed: &Obdo, data: &[u8], name: &str) -> Option<String> {
    assert!(brw.niobufs.len() <= NIOBUFS_MAX);
    let (kind, wanted) = summed.checksum()?;
    let mut sum = Checksum::new(kind);
    let mut rest = data;
    for niobuf in brw.niobufs.iter() {
        let (now, later) = rest.split_at((niobuf.len as usize).min(rest.len()));
        sum.range(niobuf.offset, &[now]);
        rest = later;
    }
    assert_eq!(sum.value(), wanted, "{name}: {kind:?} of {} bytes", data.len());
    Some(format!("{kind:?}"))
}

/// Decodes directory pages, and counts their entries.
fn pages(bytes: &[u8]) -> usize {
    let mut entries = 0;
    for page in dir::pages(bytes).unwrap() {
        for entry in page.entries() {
            let entry = entry.unwrap();
            assert!(entry.header.fid.is_sane());
            if entry.header.reclen != 0 && entry.file_type.is_some() {
                assert_eq!(usize::from(entry.header.reclen), dir::reclen(entry.name.len()));
            }
            entries += 1;
        }
    }
    entries
}

/// All kinds are distinct.
#[test]
fn names_of_kinds_are_unique() {
    let names: std::collections::BTreeSet<_> = Kind::ALL.iter().map(|kind| kind.name()).collect();
    assert_eq!(names.len(), Kind::ALL.len());
}
