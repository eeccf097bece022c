//! Holes of files: where they are in originals, and how copies get them.

use std::fs;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;

use bytes::Bytes;
use lustrine_fs::{File, Piece};
use rustix::fs::seek;
use rustix::io::Errno;

use super::pieces::{PIECE, read_here};
use crate::output::Failure;

/// Zeros that are left out of a copy on this machine: a block of most file systems.
const BLOCK_HERE: u64 = 4 << 10;
/// Zeros that are left out of a copy in a file system. Each hole makes one more write.
const BLOCK_THERE: u64 = 64 << 10;
static ZEROS: [u8; BLOCK_THERE as usize] = [0; BLOCK_THERE as usize];

/// Takes the pieces of a file.
type Take<'t> = &'t mut dyn FnMut(Piece) -> Result<(), Failure>;

/// Whether a file has less space than bytes, and with that holes.
fn is_sparse(size: u64, blocks: Option<u64>) -> bool {
    blocks.is_none_or(|blocks| blocks.saturating_mul(512) < size)
}

/// Reads a file of a file system from an offset on, with its holes. Holes of less than a piece are
/// found among the zeros that were read: to ask for each of them would take longer.
pub(super) fn pieces_there(file: &File<'_>, start: u64, take: Take<'_>) -> Result<(), Failure> {
    let size = file.size();
    if !is_sparse(size, file.attr().blocks) {
        return file.read_from(start, |data| take(Piece::Data(data)));
    }
    let mut at = start;
    while at < size {
        let Some((data, hole)) = file.data_from(at)? else { return take(Piece::Hole(size - at)) };
        if data > at {
            take(Piece::Hole(data - at))?;
        }
        at = data;
        file.read_range((data, hole.max(data.saturating_add(PIECE))), |data| {
            let offset = at;
            at += data.len() as u64;
            split(offset, data, BLOCK_THERE, take)
        })?;
    }
    Ok(())
}

/// The same of a file of this machine, which may grow meanwhile.
pub(super) fn pieces_here(
    mut file: &fs::File,
    start: u64,
    take: Take<'_>,
) -> io::Result<Result<(), Failure>> {
    let meta = file.metadata()?;
    let mut at = start;
    while is_sparse(meta.len(), Some(meta.blocks())) {
        let found = seek(file, rustix::fs::SeekFrom::Data(at));
        let (data, end) = match found {
            Ok(data) => (data, data.saturating_add(PIECE)),
            Err(Errno::NXIO) => {
                let end = file.seek(SeekFrom::End(0))?;
                let hole = end.checked_sub(at).filter(|len| *len > 0);
                return Ok(hole.map_or(Ok(()), |len| take(Piece::Hole(len))));
            }
            // Its file system does not know.
            Err(_) => break,
        };
        let hole = seek(file, rustix::fs::SeekFrom::Hole(data)).unwrap_or(end);
        file.seek(SeekFrom::Start(data))?;
        if data > at
            && let Err(failure) = take(Piece::Hole(data - at))
        {
            return Ok(Err(failure));
        }
        at = data;
        let mut part = file.take(hole.max(end) - data);
        let read = read_here(&mut part, |data| {
            let offset = at;
            at += data.len() as u64;
            split(offset, data, BLOCK_THERE, take)
        })?;
        // It ends before its size, as files of the kernel do.
        if read.is_err() || at == data {
            return Ok(read);
        }
    }
    file.seek(SeekFrom::Start(at))?;
    read_here(&mut file, |data| take(Piece::Data(data)))
}

/// Writes a piece of a copy on this machine, without its blocks of zeros. Whether it ends in a
/// hole: then the size of the file has to be set when this was the last one.
pub(super) fn write_here(file: &mut fs::File, piece: Piece) -> io::Result<bool> {
    let mut failed = Ok(());
    let mut in_hole = false;
    let mut write = |file: &mut fs::File, piece: Piece| {
        in_hole = matches!(piece, Piece::Hole(_));
        match piece {
            Piece::Data(data) => file.write_all(&data),
            Piece::Hole(len) => {
                let len = i64::try_from(len).map_err(io::Error::other)?;
                file.seek(SeekFrom::Current(len)).map(drop)
            }
        }
    };
    match piece {
        Piece::Data(data) => {
            let offset = file.stream_position()?;
            // The error is the one below.
            let _ = split(offset, data, BLOCK_HERE, &mut |piece| {
                failed = write(file, piece);
                if failed.is_ok() { Ok(()) } else { Err(Failure::Interrupted) }
            });
        }
        hole => failed = write(file, hole),
    }
    failed.map(|()| in_hole)
}

/// Divides data at an offset of a file into those that are written and blocks of zeros.
fn split(offset: u64, mut data: Bytes, block: u64, take: Take<'_>) -> Result<(), Failure> {
    let zeros = |data: &[u8]| data == &ZEROS[..data.len()];
    // From a boundary of blocks to the next one.
    let next = |at: u64| (block - at % block) as usize;
    let (mut from, mut at) = (offset, 0);
    let mut was_hole = false;
    loop {
        let position = from + at as u64;
        let len = next(position).min(data.len() - at);
        let is_hole = len as u64 == block && zeros(&data[at..at + len]);
        if at > 0 && (len == 0 || is_hole != was_hole) {
            let run = data.split_to(at);
            from = position;
            at = 0;
            take(if was_hole { Piece::Hole(run.len() as u64) } else { Piece::Data(run) })?;
        }
        if len == 0 {
            return Ok(());
        }
        was_hole = is_hole;
        at += len;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_of_whole_blocks_are_holes() {
        let mut data = vec![0; 5 * 4096];
        data[2 * 4096] = 1;
        let pieces = |offset, data: &[u8]| {
            let mut pieces = Vec::new();
            split(offset, Bytes::copy_from_slice(data), 4096, &mut |piece| {
                pieces.push(match piece {
                    Piece::Data(data) => data.len() as i64,
                    Piece::Hole(len) => -(len as i64),
                });
                Ok(())
            })
            .unwrap();
            pieces
        };
        assert_eq!(pieces(0, &data), [-8192, 4096, -8192]);
        // Less than a block at either end is written.
        assert_eq!(pieces(4095, &data[..3 * 4096]), [1, -4096, 4096 + 4095]);
        assert_eq!(pieces(0, &[0; 4097]), [-4096, 1]);
        assert_eq!(pieces(7, &[0; 100]), [100]);
        assert!(pieces(0, &[]).is_empty());
    }
}
