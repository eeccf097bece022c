//! Reading and writing.

use std::vec;

use bytes::Bytes;
use lustrine_fswire::checksum::{Checksum, ChecksumKind, crc32c};
use lustrine_fswire::codec::Array;
use lustrine_fswire::ldlm::LockMode;
use lustrine_fswire::mdt::MdValid;
use lustrine_fswire::opcode::portal;
use lustrine_fswire::ost::{
    BulkPiece, Niobuf, NiobufFlags, Obdo, ObdoFlags, bulk_pieces, check_niobufs,
};
use lustrine_fswire::rpc::{Reply, ost};
use lustrine_lnet::time::Time;

use crate::errno;
use crate::offers::OST_BRW;
use crate::running::{Job, Step, Target};
use crate::store::objects::{CHUNK, PAGE, Part};

/// Most bytes within a request or a reply.
const SHORT_MAX: u64 = 64 << 10;

/// A transfer whose form was checked.
struct Transfer {
    niobufs: Vec<Niobuf>,
    total: u64,
    short: bool,
    /// Whether the server is to take the lock.
    by_server: bool,
}

impl Transfer {
    fn parse(request: &ost::Brw<'_>) -> Result<Transfer, i32> {
        let total = check_niobufs(&request.object, &request.niobufs).map_err(|_| errno::EPROTO)?;
        let niobufs: Vec<Niobuf> = request.niobufs.iter().collect();
        let flags = request.body.valid.contains(MdValid::FLAGS);
        let short = flags && request.body.flags.contains(ObdoFlags::SHORT_IO);
        let most = if short { SHORT_MAX } else { u64::from(OST_BRW) };
        if total > most {
            return Err(errno::EPROTO);
        }
        let by_server = niobufs[0].flags.contains(NiobufFlags::SRVLOCK);
        if niobufs.iter().any(|niobuf| niobuf.flags.contains(NiobufFlags::SRVLOCK) != by_server) {
            return Err(errno::EFAULT);
        }
        Ok(Transfer { niobufs, total, short, by_server })
    }

    /// First and last byte.
    fn range(&self) -> (u64, u64) {
        let (first, last) = (self.niobufs[0], self.niobufs[self.niobufs.len() - 1]);
        (first.offset, last.offset + u64::from(last.len) - 1)
    }

    fn pieces(&self, job: &Job, request: &ost::Brw<'_>) -> Result<Vec<BulkPiece>, i32> {
        let step = request.object.bulk_step().ok_or(errno::EPROTO)?;
        let niobufs: Array<'_, Niobuf> = self.niobufs.as_slice().into();
        bulk_pieces(job.body().mbits, step, &niobufs).map_err(|_| errno::EPROTO)
    }

    /// The checksum of its data: blocks of one niobuf, or one block of several. What is known of
    /// the blocks then goes to `crcs`.
    fn sum(&self, kind: ChecksumKind, data: &[Bytes], crcs: &mut [Option<u32>]) -> u32 {
        let mut sum = Checksum::new(kind);
        match (self.niobufs.as_slice(), data) {
            ([_], blocks) if kind == ChecksumKind::Crc32c => {
                for (block, crc) in blocks.iter().zip(crcs) {
                    if block.len() as u64 == CHUNK {
                        sum.add_64k_with_crc32c(*crc.insert(crc32c(block)));
                    } else {
                        sum.range(0, &[block]);
                    }
                }
            }
            ([niobuf], blocks) => {
                let blocks: Vec<&[u8]> = blocks.iter().map(Bytes::as_ref).collect();
                sum.range(niobuf.offset, &blocks);
            }
            (_, all) => {
                let mut rest = all.first().map(Bytes::as_ref).unwrap_or_default();
                for (offset, len, _) in self.ranges() {
                    let (now, others) = rest.split_at(len as usize);
                    sum.range(offset, &[now]);
                    rest = others;
                }
            }
        }
        sum.value()
    }

    /// First and last byte of each niobuf.
    fn bytes(&self) -> Vec<(u64, u64)> {
        self.ranges().map(|(at, len, _)| (at, at + len - 1)).collect()
    }

    fn ranges(&self) -> impl Iterator<Item = (u64, u64, NiobufFlags)> + '_ {
        self.niobufs.iter().map(|niobuf| (niobuf.offset, u64::from(niobuf.len), niobuf.flags))
    }
}

/// Adds the parts of a range of an object to a checksum. The bytes are not looked at where their
/// CRC-32C is known.
fn add_parts((kind, sum): (ChecksumKind, &mut Checksum), offset: u64, parts: &[Part<'_>]) {
    if kind == ChecksumKind::Crc32c {
        for part in parts {
            match part.crc32c_of_64k() {
                Some(crc) => {
                    sum.add_64k_with_crc32c(crc);
                }
                None => sum.range(0, &[&part.bytes]),
            }
        }
        return;
    }
    let bytes: Vec<&[u8]> = parts.iter().map(|part| &*part.bytes).collect();
    sum.range(offset, &bytes);
}

/// Takes so many bytes from the start of data, or all if there are fewer: `first`, and then `rest`.
fn take_front(first: &mut Bytes, rest: &mut vec::IntoIter<Bytes>, len: usize) -> Vec<Bytes> {
    let (mut taken, mut left) = (Vec::new(), len);
    while left > 0 {
        if first.is_empty() {
            match rest.next() {
                Some(next) => *first = next,
                None => break,
            }
            continue;
        }
        let part = first.split_to(left.min(first.len()));
        left -= part.len();
        taken.push(part);
    }
    taken
}

impl Target {
    /// OST_READ.
    pub(super) fn read(&mut self, now: Time, job: &mut Job, request: &ost::Brw<'_>) -> Step {
        match self.try_read(now, job, request) {
            Ok(step) => step,
            Err(error) => {
                self.release(now, job);
                job.refuse(error)
            }
        }
    }

    fn try_read(&mut self, now: Time, job: &mut Job, request: &ost::Brw<'_>) -> Result<Step, i32> {
        let transfer = Transfer::parse(request)?;
        let pieces = match transfer.short {
            true => Vec::new(),
            false => transfer.pieces(job, request)?,
        };
        let how = (LockMode::PR, transfer.by_server);
        if self.lock_ranges(now, job, &request.body, how, &transfer.bytes())?.is_none() {
            return Ok(Step::Wait);
        }
        let oi = request.body.oi;
        let size = self.objects().get(oi).map_or(0, |object| object.size);
        // Whole pages are read, up to the one that has the end of the object [OST-13].
        let end_of_data = size.div_ceil(PAGE) * PAGE;
        let mut sum = request.body.checksum().map(|(kind, _)| (kind, Checksum::new(kind)));
        let mut data = Vec::new();
        for (offset, len, _) in transfer.ranges() {
            let len = len.min(end_of_data.saturating_sub(offset));
            let parts = self.objects().read(oi, offset, len);
            if let Some((kind, sum)) = &mut sum {
                add_parts((*kind, sum), offset, &parts);
            }
            data.extend(parts.into_iter().map(|part| part.bytes));
        }
        self.release(now, job);
        self.grant_for_read(job.export, &request.body);
        let mut body = request.body;
        body.valid &= MdValid::ID | MdValid::GROUP | MdValid::GRANT;
        body.grant = 0;
        if let Some((kind, sum)) = sum {
            body.set_checksum(kind, sum.value());
        }
        let status = data.iter().map(Bytes::len).sum::<usize>() as i32;
        let inline = if transfer.short { data.concat() } else { Vec::new() };
        let reply = ost::ReadReply { body, data: &inline };
        let Step::Reply(reply) = job.answer(status, &Reply::OstRead(reply)) else {
            unreachable!("it is a reply")
        };
        if transfer.short {
            return Ok(Step::Reply(reply));
        }
        let mut rest = data.into_iter();
        let mut first = Bytes::new();
        let puts = pieces
            .iter()
            .map(|piece| (piece.match_bits, take_front(&mut first, &mut rest, piece.len as usize)));
        Ok(Step::Put(portal::OST_BULK, puts.collect(), reply))
    }

    /// OST_WRITE.
    pub(super) fn write(&mut self, now: Time, job: &mut Job, request: &ost::Brw<'_>) -> Step {
        match self.try_write(now, job, request) {
            Ok(step) => step,
            Err(error) => {
                self.release(now, job);
                job.refuse(error)
            }
        }
    }

    fn try_write(&mut self, now: Time, job: &mut Job, request: &ost::Brw<'_>) -> Result<Step, i32> {
        let transfer = Transfer::parse(request)?;
        let how = (LockMode::PW, transfer.by_server);
        let data = match (transfer.short, job.bulk.take()) {
            (true, _) => vec![Bytes::copy_from_slice(request.data)],
            (false, Some(blocks)) if transfer.niobufs.len() == 1 => blocks,
            (false, Some(blocks)) => vec![blocks.concat().into()],
            (false, None) => {
                // Nothing is moved for who has no lock.
                if !transfer.by_server {
                    self.lock_ranges(now, job, &request.body, how, &transfer.bytes())?;
                }
                let pieces = transfer.pieces(job, request)?;
                let pieces = pieces.iter().map(|piece| (piece.match_bits, piece.len as u32));
                return Ok(Step::Get(portal::OST_BULK, pieces.collect()));
            }
        };
        if data.iter().map(|block| block.len() as u64).sum::<u64>() != transfer.total {
            return Err(errno::EPROTO);
        }
        if self.lock_ranges(now, job, &request.body, how, &transfer.bytes())?.is_none() {
            // It is needed again when the lock is there.
            job.bulk = Some(data);
            return Ok(Step::Wait);
        }
        let oi = request.body.oi;
        let full = transfer.ranges().any(|range| self.lacks_space(job.export, oi, range));
        // Quota does not stop who may exceed it [OST-19].
        let may_exceed =
            transfer.niobufs.iter().all(|niobuf| niobuf.flags.contains(NiobufFlags::SYS_RESOURCE));
        let (_, last) = transfer.range();
        let quota = self.objects().check_quota(oi, &request.body, last + 1);
        let refused = quota.refused && !may_exceed && job.replayed().is_none();
        let mut results = vec![0; transfer.niobufs.len()];
        let mut crcs = vec![None; data.len()];
        let sum = request.body.checksum();
        let sum = sum.map(|(kind, _)| (kind, transfer.sum(kind, &data, &mut crcs)));
        let mut body = request.body;
        if refused {
            // The status says so [OST-21].
        } else if full {
            results[0] = -errno::ENOSPC;
        } else {
            let step = self.begin(now, job).step;
            match (transfer.niobufs.as_slice(), data.as_slice()) {
                ([niobuf], _) => {
                    let blocks = data.into_iter().zip(crcs);
                    self.objects_mut().write_blocks(step, oi, niobuf.offset, blocks);
                }
                (_, all) => {
                    let mut rest = all.first().map(Bytes::as_ref).unwrap_or_default();
                    for (offset, len, _) in transfer.ranges() {
                        let (now, others) = rest.split_at(len as usize);
                        self.objects_mut().write(step, oi, offset, now);
                        rest = others;
                    }
                }
            }
            let asked = &request.body;
            self.objects_mut().change(step, oi, |object| {
                super::set_times(object, asked);
                if asked.valid.contains(MdValid::UID) {
                    (object.uid, object.gid) = (asked.uid, asked.gid);
                    object.projid = asked.projid;
                }
            });
        }
        self.release(now, job);
        let grant = match job.replayed() {
            // The client has connected since, and has claimed what it needs.
            Some(_) => 0,
            None => self.grant_for_write(job.export, &request.body, transfer.ranges()),
        };
        self.describe_written(&mut body, sum, grant);
        body.flags |= quota.over;
        let status = if refused { -errno::EDQUOT } else { 0 };
        let results = results.as_slice();
        if grant > 0 {
            // Who asks again has connected since, too.
            let body = Obdo { grant: 0, ..body };
            let reply = Reply::OstWrite(ost::WriteReply { body, results: results.into() });
            if let Step::Reply(reply) = job.answer(status, &reply) {
                job.kept_reply = Some(reply);
            }
        }
        let reply = ost::WriteReply { body, results: results.into() };
        let step = job.answer(status, &Reply::OstWrite(reply));
        let sync = transfer.niobufs.iter().any(|niobuf| niobuf.flags.contains(NiobufFlags::SYNC));
        Ok(match step {
            Step::Reply(reply) if sync && !full && !refused => Step::ReplyAfterCommit(reply),
            other => other,
        })
    }

    /// What the reply to a write says.
    fn describe_written(&self, body: &mut Obdo, sum: Option<(ChecksumKind, u32)>, grant: u64) {
        let asked = *body;
        let object = self.objects().get(asked.oi).cloned().unwrap_or_default();
        body.valid &= MdValid::ID | MdValid::GROUP;
        body.flags = ObdoFlags::empty();
        object.describe(body);
        body.valid.remove(MdValid::ATIME | MdValid::MTIME);
        body.valid |= MdValid::USRQUOTA | MdValid::GRPQUOTA | MdValid::PRJQUOTA | MdValid::FLAGS;
        body.grant = grant;
        body.valid.set(MdValid::GRANT, asked.valid.contains(MdValid::GRANT));
        if let Some((kind, sum)) = sum {
            body.set_checksum(kind, sum);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_cut_where_the_pieces_end() {
        let all: Vec<u8> = (0..100).collect();
        let all = Bytes::from(all);
        let parts = vec![all.slice(..30), all.slice(30..30), all.slice(30..75), all.slice(75..)];
        let (mut first, mut rest) = (Bytes::new(), parts.into_iter());
        let mut at = 0;
        for (len, count) in [(10, 1), (20, 1), (40, 1), (10, 2), (15, 1), (0, 0), (20, 1), (5, 0)] {
            let taken = take_front(&mut first, &mut rest, len);
            let bytes = taken.concat();
            assert_eq!(taken.len(), count, "{len} at {at}");
            assert_eq!(bytes, all[at..(at + len).min(100)]);
            at = (at + len).min(100);
        }
        assert_eq!(at, 100);
    }
}
