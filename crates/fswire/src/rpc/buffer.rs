//! What a buffer holds, and how lists of buffers are read and written.

use crate::batch::{BatchHeader, UpdateHeader};
use crate::codec::{Array, Short, Wire, Writer};
use crate::describe::{Describe, Fields};
use crate::layout::Ea;
use crate::ldlm::LdlmRequest;
use crate::llog::{Chunk, LlogError, LlogHeader};
use crate::message::{Buffers, Message, MessageBuilder};
use crate::mgs::TargetInfo;
use crate::quota::PoolQuotactl;
use crate::rpc::views::{AclBytes, Lvb, Names};
use crate::text::Text;

/// Why a buffer is not what must be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BufferError {
    /// It is too short.
    #[error(transparent)]
    Short(#[from] Short),
    /// A list has a length that is no multiple of an element's.
    #[error("{len} bytes are no multiple of {element}")]
    NotMultiple {
        /// Bytes of the buffer.
        len: usize,
        /// Bytes of an element.
        element: usize,
    },
    /// It is no header of a log.
    #[error(transparent)]
    Log(#[from] LlogError),
}

/// Why the buffers of a message are not those of its operation. A server answers such a request
/// with EFAULT or EPROTO.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("buffer {index} ({name}): {why}")]
pub struct RpcError {
    /// The number of the buffer.
    pub index: usize,
    /// What it is called in the list of its operation.
    pub name: &'static str,
    /// What is wrong.
    pub why: BufferError,
}

/// What a buffer holds.
pub trait Buffer<'a>: Sized + Describe {
    /// Reads the whole buffer.
    ///
    /// # Errors
    /// [`BufferError`].
    fn parse_buffer(bytes: &'a [u8]) -> Result<Self, BufferError>;

    /// Writes it.
    fn write_buffer(&self, to: &mut Writer<'_>);
}

/// Structures of fixed size: a longer buffer is accepted [RPC-6].
impl<'a, T: Wire + Describe> Buffer<'a> for T {
    fn parse_buffer(bytes: &'a [u8]) -> Result<T, BufferError> {
        Ok(T::parse(bytes)?)
    }

    fn write_buffer(&self, to: &mut Writer<'_>) {
        to.put(self);
    }
}

/// Structures that may be left out: the buffer is empty then.
impl<'a, T: Buffer<'a>> Buffer<'a> for Option<T> {
    fn parse_buffer(bytes: &'a [u8]) -> Result<Option<T>, BufferError> {
        if bytes.is_empty() { Ok(None) } else { T::parse_buffer(bytes).map(Some) }
    }

    fn write_buffer(&self, to: &mut Writer<'_>) {
        if let Some(value) = self {
            value.write_buffer(to);
        }
    }
}

impl<'a> Buffer<'a> for &'a [u8] {
    fn parse_buffer(bytes: &'a [u8]) -> Result<&'a [u8], BufferError> {
        Ok(bytes)
    }

    fn write_buffer(&self, to: &mut Writer<'_>) {
        to.bytes(self);
    }
}

impl<'a, T: Wire + Copy + Describe> Buffer<'a> for Array<'a, T> {
    fn parse_buffer(bytes: &'a [u8]) -> Result<Array<'a, T>, BufferError> {
        let (len, element) = (bytes.len(), T::SIZE);
        Array::parse(bytes).ok_or(BufferError::NotMultiple { len, element })
    }

    fn write_buffer(&self, to: &mut Writer<'_>) {
        self.write(to);
    }
}

/// Views whose reading cannot fail.
macro_rules! view_buffers {
    ($($view:ident)+) => {$(
        impl<'a> Buffer<'a> for $view<'a> {
            fn parse_buffer(bytes: &'a [u8]) -> Result<$view<'a>, BufferError> {
                Ok($view(bytes))
            }

            fn write_buffer(&self, to: &mut Writer<'_>) {
                to.bytes(self.0);
            }
        }
    )+};
}

view_buffers! { Ea Chunk AclBytes Names Lvb }

/// Views with parsers of their own.
macro_rules! parsed_buffers {
    ($($view:ident)+) => {$(
        impl<'a> Buffer<'a> for $view<'a> {
            fn parse_buffer(bytes: &'a [u8]) -> Result<$view<'a>, BufferError> {
                Ok($view::parse(bytes)?)
            }

            fn write_buffer(&self, to: &mut Writer<'_>) {
                self.write(to);
            }
        }
    )+};
}

parsed_buffers! { LdlmRequest LlogHeader TargetInfo BatchHeader UpdateHeader }

impl<'a> Buffer<'a> for Text<'a> {
    fn parse_buffer(bytes: &'a [u8]) -> Result<Text<'a>, BufferError> {
        Ok(Text::parse(bytes))
    }

    fn write_buffer(&self, to: &mut Writer<'_>) {
        self.write(to);
    }
}

impl<'a> Buffer<'a> for PoolQuotactl {
    fn parse_buffer(bytes: &'a [u8]) -> Result<PoolQuotactl, BufferError> {
        Ok(PoolQuotactl::parse(bytes)?)
    }

    fn write_buffer(&self, to: &mut Writer<'_>) {
        self.write(to);
    }
}

/// A list of buffers: what an operation has after `ptlrpc_body`.
pub trait BufferList<'a>: Sized {
    /// Reads the buffers of a message from number `first` on: 1, or 0 within a batch.
    ///
    /// # Errors
    /// [`RpcError`] for the first buffer that is not what it must be.
    fn parse_list(message: &Message<'a>, first: usize) -> Result<Self, RpcError>;

    /// How many buffers will be written.
    fn count(&self) -> usize;

    /// Writes them.
    fn write_list(&self, to: &mut MessageBuilder<'_>);

    /// Their contents by name.
    fn fields(&self) -> Fields;
}

/// Takes the buffers of a message one after the other.
#[derive(Debug)]
pub(super) struct Cursor<'a> {
    buffers: Buffers<'a>,
    index: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(message: &Message<'a>, first: usize) -> Cursor<'a> {
        let mut cursor = Cursor { buffers: message.buffers(), index: 0 };
        cursor.skip(first);
        cursor
    }

    /// The next buffer; a missing one is read as empty.
    pub(super) fn required<T: Buffer<'a>>(&mut self, name: &'static str) -> Result<T, RpcError> {
        let bytes = self.buffers.next().unwrap_or_default();
        self.parsed(name, bytes)
    }

    /// The next buffer, if it is there.
    pub(super) fn optional<T: Buffer<'a>>(
        &mut self,
        name: &'static str,
    ) -> Result<Option<T>, RpcError> {
        let next = self.buffers.next();
        next.map(|bytes| self.parsed(name, bytes)).transpose()
    }

    fn parsed<T: Buffer<'a>>(
        &mut self,
        name: &'static str,
        bytes: &'a [u8],
    ) -> Result<T, RpcError> {
        let index = self.index;
        self.index += 1;
        T::parse_buffer(bytes).map_err(|why| RpcError { index, name, why })
    }

    /// Passes over buffers that are always empty.
    pub(super) fn skip(&mut self, count: usize) {
        self.index += count;
        for _ in 0..count {
            self.buffers.next();
        }
    }
}
