//! Files as a whole: what the metadata server and the objects know of them together.

use bytes::Bytes;
use lustrine_fswire::fid::Fid;
use lustrine_lnet::service::Turn;

use super::data_attr::DataAttr;
use super::io::ReadData;
use super::{Caller, Client, Done};
use crate::attr::Attr;
use crate::layout::FileLayout;

/// A range of a file.
#[derive(Clone, Copy, Debug)]
struct Range {
    fid: Fid,
    offset: u64,
    len: u32,
}

/// Bytes of a file, and its layout if another one was needed than the caller had.
type ReadToEnd = (Bytes, Option<FileLayout>);

impl Client {
    /// Asks for the attributes of a file, with its size and with the times of its objects.
    pub fn stat(&mut self, turn: &mut Turn<'_>, caller: Caller, fid: Fid, done: Done<Attr>) {
        let then: Done<Attr> = Box::new(move |client, turn, attr| match attr {
            Ok(attr) => client.complete(turn, caller, attr, done),
            Err(error) => done(client, turn, Err(error)),
        });
        self.getattr(turn, caller, fid, then);
    }

    /// Adds to the attributes of a file what only its objects know: its size and blocks, and times
    /// that are later than those of the metadata server; to those of a striped directory what only
    /// its stripes know. Others are left as they are.
    pub fn complete(
        &mut self,
        turn: &mut Turn<'_>,
        caller: Caller,
        mut attr: Attr,
        done: Done<Attr>,
    ) {
        if attr.is_striped_dir() {
            return self.add_stripes(turn, caller, attr, done);
        }
        if !attr.is_file() || attr.size.is_some() {
            return done(self, turn, Ok(attr));
        }
        let layout = match FileLayout::parse(&attr.layout) {
            Ok(layout) => layout,
            Err(error) => return done(self, turn, Err(error)),
        };
        let fid = attr.fid;
        let then: Done<DataAttr> = Box::new(move |client, turn, found| {
            let whole = found.map(|found| {
                found.complete(&mut attr);
                attr
            });
            done(client, turn, whole);
        });
        self.data_attributes(turn, caller, fid, &layout, then);
    }

    /// Reads a range of a file up to the end of the file. What no object holds before it is zeros.
    /// If the layout has no objects there, it is asked for again, and handed back with the data:
    /// another client may have written there. So it is if the file ends there and not all of its
    /// components have objects, and that of a file with mirrors, of which any can have become
    /// stale.
    #[allow(clippy::too_many_arguments, reason = "the file, the range, and whom to answer")]
    pub fn read_to_end(
        &mut self,
        turn: &mut Turn<'_>,
        caller: Caller,
        fid: Fid,
        layout: &FileLayout,
        (offset, len): (u64, u32),
        done: Done<ReadToEnd>,
    ) {
        let range = Range { fid, offset, len };
        if layout.mirrors.is_none() && layout.covers(offset, u64::from(len)) {
            let known = layout.clone();
            let then: Done<Bytes> = Box::new(move |client, turn, read| match read {
                Ok(bytes) if bytes.len() < len as usize && !known.is_complete() => {
                    client.read_anew(turn, caller, range, Some((known, bytes)), done);
                }
                read => done(client, turn, read.map(|bytes| (bytes, None))),
            });
            return self.read_range(turn, caller, layout.clone(), range, then);
        }
        self.read_anew(turn, caller, range, None, done);
    }

    /// Reads with the layout of now, unless that is the one with which the range was read.
    fn read_anew(
        &mut self,
        turn: &mut Turn<'_>,
        caller: Caller,
        range: Range,
        read: Option<(FileLayout, Bytes)>,
        done: Done<ReadToEnd>,
    ) {
        let fid = range.fid;
        let then: Done<FileLayout> = Box::new(move |client, turn, layout| {
            let layout = match layout {
                Ok(layout) => layout,
                Err(error) => return done(client, turn, Err(error)),
            };
            let read = read.filter(|(known, _)| *known == layout);
            if let Some((_, bytes)) = read {
                return done(client, turn, Ok((bytes, None)));
            }
            let newer = layout.clone();
            let then: Done<Bytes> = Box::new(move |client, turn, read| {
                done(client, turn, read.map(|bytes| (bytes, Some(newer))));
            });
            client.read_range(turn, caller, layout, range, then);
        });
        self.layout_of(turn, caller, fid, then);
    }

    /// The layout that a file has now: it may have got objects since it was opened.
    pub fn layout_of(
        &mut self,
        turn: &mut Turn<'_>,
        caller: Caller,
        fid: Fid,
        done: Done<FileLayout>,
    ) {
        let then: Done<Attr> = Box::new(move |client, turn, attr| {
            let layout = attr.and_then(|attr| FileLayout::parse(&attr.layout));
            done(client, turn, layout);
        });
        self.getattr(turn, caller, fid, then);
    }

    fn read_range(
        &mut self,
        turn: &mut Turn<'_>,
        caller: Caller,
        layout: FileLayout,
        range: Range,
        done: Done<Bytes>,
    ) {
        let asked = layout.clone();
        let then: Done<ReadData> = Box::new(move |client, turn, read| match read {
            Ok(read) if read.present < u64::from(range.len) => {
                client.clip(turn, caller, layout, range, read, done);
            }
            Ok(read) => done(client, turn, Ok(read.bytes)),
            Err(error) => done(client, turn, Err(error)),
        });
        let Range { fid, offset, len } = range;
        self.read_objects(turn, caller, fid, &asked, (offset, len), then);
    }

    /// Objects had not all bytes: the size says whether the file ends there, or has a hole.
    fn clip(
        &mut self,
        turn: &mut Turn<'_>,
        caller: Caller,
        layout: FileLayout,
        range: Range,
        read: ReadData,
        done: Done<Bytes>,
    ) {
        let asked = layout.clone();
        let then: Done<(u64, u64)> = Box::new(move |client, turn, sized| {
            let size = match sized {
                Ok((size, _)) => size,
                Err(error) => return done(client, turn, Err(error)),
            };
            let left = size.saturating_sub(range.offset).min(u64::from(range.len));
            if left <= read.present {
                let mut bytes = read.bytes;
                bytes.truncate(left as usize);
                return done(client, turn, Ok(bytes));
            }
            // Zeros before the end are a hole, or the file has grown since they were read. What is
            // read now was there when the size was asked for.
            let Range { fid, offset, .. } = range;
            client.read(turn, caller, fid, &layout, (offset, left as u32), done);
        });
        self.size(turn, caller, range.fid, &asked, then);
    }
}
