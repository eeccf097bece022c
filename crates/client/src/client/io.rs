//! Operations on several objects: each is over when the last of its requests is answered.

use bytes::Bytes;
use lustrine_lnet::service::Turn;
use slotmap::new_key_type;

use super::data_attr::DataAttr;
use super::{Client, Done};
use crate::attr::{Attr, DirPage};
use crate::error::ClientError;

new_key_type! {
    /// An operation on several objects.
    pub(crate) struct IoKey;
}

/// An operation on several objects: it is over when the last of its requests is answered.
pub(crate) struct Io {
    left: usize,
    error: Option<ClientError>,
    pub(super) work: Work,
}

pub(super) enum Work {
    /// `data` is empty until there is something to put there; `whole` is all of it at once.
    Read {
        offset: u64,
        len: usize,
        data: Vec<u8>,
        whole: Option<Bytes>,
        present: u64,
        done: Done<ReadData>,
    },
    Change {
        done: Done<()>,
    },
    Size {
        found: DataAttr,
        done: Done<DataAttr>,
    },
    Seek {
        found: Option<u64>,
        done: Done<Option<u64>>,
    },
    Pages {
        parts: Vec<(usize, DirPage)>,
        done: Done<Vec<(usize, DirPage)>>,
    },
    Attrs {
        found: Vec<Attr>,
        done: Done<Vec<Attr>>,
    },
}

/// What was read of a file.
pub(super) struct ReadData {
    /// The bytes, with zeros where no object had any; those behind the last one that an object had
    /// may be left out.
    pub(super) bytes: Bytes,
    /// So many from the start are what objects had. Behind them is a hole, or the end of the file.
    pub(super) present: u64,
}

impl ReadData {
    /// The bytes, with zeros behind them up to this length.
    pub(super) fn padded(self, len: usize) -> Bytes {
        if self.bytes.len() == len {
            return self.bytes;
        }
        let mut bytes = Vec::with_capacity(len);
        bytes.extend_from_slice(&self.bytes);
        bytes.resize(len, 0);
        bytes.into()
    }
}

impl Client {
    /// Registers an operation of so many requests. One without requests is over at once.
    pub(super) fn start_io(
        &mut self,
        turn: &mut Turn<'_>,
        requests: usize,
        work: Work,
    ) -> Option<IoKey> {
        // One more than there are, so that it is not over while requests are made.
        let io = self.ios.insert(Io { left: requests.max(1), error: None, work });
        if requests == 0 {
            self.io_answered(turn, io);
            return None;
        }
        Some(io)
    }

    pub(super) fn io_failed(&mut self, turn: &mut Turn<'_>, io: IoKey, error: ClientError) {
        if let Some(io) = self.ios.get_mut(io) {
            io.error.get_or_insert(error);
        }
        self.io_answered(turn, io);
    }

    pub(super) fn io_answered(&mut self, turn: &mut Turn<'_>, io: IoKey) {
        let Some(state) = self.ios.get_mut(io) else { return };
        state.left -= 1;
        if state.left > 0 {
            return;
        }
        let Some(Io { error, work, .. }) = self.ios.remove(io) else { return };
        let failed = error.map_or(Ok(()), Err);
        match work {
            Work::Read { data, whole, present, done, .. } => {
                let bytes = whole.unwrap_or_else(|| data.into());
                done(self, turn, failed.map(|()| ReadData { bytes, present }));
            }
            Work::Change { done } => done(self, turn, failed),
            Work::Size { found, done } => done(self, turn, failed.map(|()| found)),
            Work::Seek { found, done } => done(self, turn, failed.map(|()| found)),
            Work::Pages { parts, done } => done(self, turn, failed.map(|()| parts)),
            Work::Attrs { found, done } => done(self, turn, failed.map(|()| found)),
        }
    }
}

/// What a part of an operation calls when it is over.
pub(super) fn part_of(io: IoKey) -> Done<()> {
    Box::new(move |client, turn, outcome| match outcome {
        Ok(()) => client.io_answered(turn, io),
        Err(error) => client.io_failed(turn, io, error),
    })
}
