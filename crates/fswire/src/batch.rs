//! Blocks of several requests in one, and of updates among servers [MDT-19].

#[cfg(test)]
mod tests;

use crate::codec::{Array, Reader, Short, Writer};
use crate::describe::{Describe, Value};
use crate::fid::Fid;
use crate::message::{Message, MessageError};

wire_struct! {
    /// The head of a batch; if it is inline, its block follows.
    pub struct BatchHeaderFields [24] {
        /// [`BatchHeader::MAGIC`].
        magic: u32 => hex;
        /// The number of buffers.
        count: u32;
        /// Bytes of the block that follows; 0 if blocks come by bulk.
        inline_len: u32;
        /// Bytes wanted for the reply.
        reply_size: u32;
        /// The number of sub-requests.
        updates: u32, pad 4;
    }
}

wire_struct! {
    /// The head of updates among servers; if they are inline, they follow.
    pub struct UpdateHeaderFields [16] {
        /// [`UpdateHeader::MAGIC`].
        magic: u32 => hex;
        /// The number of buffers.
        count: u32;
        /// Bytes of the updates that follow; 0 if they come by bulk.
        inline_len: u32;
        /// Bytes wanted for the reply.
        reply_size: u32;
    }
}

wire_struct! {
    /// A buffer of a bulk transfer.
    pub struct BulkBuffer [8] {
        /// Its bytes; 0 if data are inline.
        size: u32, pad 4;
    }
}

macro_rules! with_inline {
    ($(#[$meta:meta])* $name:ident, $fields:ident) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct $name<'a> {
            /// Its fields.
            pub fields: $fields,
            /// What follows the head.
            pub inline: &'a [u8],
        }

        impl<'a> $name<'a> {
            /// Reads the buffer.
            ///
            /// # Errors
            /// [`Short`].
            pub fn parse(bytes: &'a [u8]) -> Result<$name<'a>, Short> {
                let mut from = Reader::new(bytes);
                Ok($name { fields: from.value()?, inline: from.rest() })
            }

            /// Appends the buffer.
            pub fn write(&self, to: &mut Writer<'_>) {
                to.put(&self.fields);
                to.bytes(self.inline);
            }
        }
    };
}

with_inline! {
    /// The head of a batch.
    BatchHeader, BatchHeaderFields
}

with_inline! {
    /// The head of updates among servers.
    UpdateHeader, UpdateHeaderFields
}

impl BatchHeader<'_> {
    /// The magic number.
    pub const MAGIC: u32 = 0xbadf_0001;
}

impl UpdateHeader<'_> {
    /// The magic number.
    pub const MAGIC: u32 = 0xbddf_0001;
}

impl Describe for BatchHeader<'_> {
    fn describe(&self) -> Value {
        let Value::Fields(mut fields) = self.fields.describe() else {
            unreachable!("structures have fields")
        };
        let inline = match self.inline {
            [] => Value::List(Vec::new()),
            bytes => Block::parse(bytes).map_or_else(Value::text, |block| block.describe()),
        };
        fields.push(("inline", inline));
        Value::Fields(fields)
    }
}

impl Describe for UpdateHeader<'_> {
    fn describe(&self) -> Value {
        let Value::Fields(mut fields) = self.fields.describe() else {
            unreachable!("structures have fields")
        };
        let inline = match self.inline {
            [] => Value::List(Vec::new()),
            bytes => Updates::parse(bytes).map_or_else(Value::text, |updates| updates.describe()),
        };
        fields.push(("inline", inline));
        Value::Fields(fields)
    }
}

wire_struct! {
    /// The head of a block.
    pub struct BlockHeader [8] {
        /// [`Block::REQUEST_MAGIC`] or [`Block::REPLY_MAGIC`].
        magic: u32 => hex;
        /// The number of messages; in a reply those before the first failure.
        count: u16, pad 2;
    }
}

/// Why bytes are not a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BlockError {
    /// They end too early.
    #[error(transparent)]
    Short(#[from] Short),
    /// The magic number is wrong.
    #[error("{0:#010x} is not the magic number of a block")]
    BadMagic(u32),
    /// A message is malformed.
    #[error(transparent)]
    Message(#[from] MessageError),
}

/// A block of messages without `ptlrpc_body`, one behind the other [MDT-19].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block<'a> {
    /// Its head.
    pub header: BlockHeader,
    rest: &'a [u8],
}

impl<'a> Block<'a> {
    /// The magic number of a request.
    pub const REQUEST_MAGIC: u32 = 0xbade_0001;
    /// The magic number of a reply.
    pub const REPLY_MAGIC: u32 = 0x00ad_0001;
    /// What the header of a message names a getattr intent by.
    pub const GETATTR: u32 = 1;

    /// Reads the head.
    ///
    /// # Errors
    /// [`BlockError`].
    pub fn parse(bytes: &'a [u8]) -> Result<Block<'a>, BlockError> {
        let mut from = Reader::new(bytes);
        let header: BlockHeader = from.value()?;
        if !matches!(header.magic, Block::REQUEST_MAGIC | Block::REPLY_MAGIC) {
            return Err(BlockError::BadMagic(header.magic));
        }
        Ok(Block { header, rest: from.rest() })
    }

    /// The messages. In the reply of a failed batch one more than counted follows, the one that
    /// failed: the iterator goes on as long as there are messages, and ends with the first error.
    pub fn messages(&self) -> Messages<'a> {
        Messages { counted: self.header.count, rest: self.rest }
    }
}

impl Describe for Block<'_> {
    fn describe(&self) -> Value {
        let messages = self.messages().map(|message| match message {
            Ok(message) => {
                let mut fields = message.header_fields();
                let buffers = message.buffers().map(|buffer| buffer.describe());
                fields.push(("buffers", Value::List(buffers.collect())));
                Value::Fields(fields)
            }
            Err(error) => Value::text(error),
        });
        Value::List(messages.collect())
    }
}

/// The messages of a block.
#[derive(Debug, Clone)]
pub struct Messages<'a> {
    counted: u16,
    rest: &'a [u8],
}

impl<'a> Messages<'a> {
    /// What follows the messages taken so far.
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }
}

impl<'a> Iterator for Messages<'a> {
    type Item = Result<Message<'a>, MessageError>;

    fn next(&mut self) -> Option<Result<Message<'a>, MessageError>> {
        let message = Message::parse(self.rest);
        match (&message, self.counted) {
            (Ok(message), _) => self.rest = &self.rest[message.bytes().len()..],
            (Err(_), 0) => return None,
            (Err(_), _) => self.rest = &[],
        }
        self.counted = match message {
            Ok(_) => self.counted.saturating_sub(1),
            Err(_) => 0,
        };
        Some(message)
    }
}

wire_enum! {
    /// An update that one server makes on another.
    pub struct UpdateOp: u16 {
        /// Start.
        START = 0, "start";
        /// Create an object.
        CREATE = 1, "create";
        /// Destroy an object.
        DESTROY = 2, "destroy";
        /// One link more.
        REF_ADD = 3, "ref_add";
        /// One link less.
        REF_DEL = 4, "ref_del";
        /// Set attributes.
        ATTR_SET = 5, "attr_set";
        /// Get attributes.
        ATTR_GET = 6, "attr_get";
        /// Set an extended attribute.
        XATTR_SET = 7, "xattr_set";
        /// Get an extended attribute.
        XATTR_GET = 8, "xattr_get";
        /// Find a name.
        LOOKUP = 9, "lookup";
        /// Insert a name.
        INSERT = 10, "insert";
        /// Delete a name.
        DELETE = 11, "delete";
        /// Write data.
        WRITE = 12, "write";
        /// Remove an extended attribute.
        XATTR_DEL = 13, "xattr_del";
        /// Free a range.
        PUNCH = 14, "punch";
        /// Read data.
        READ = 15, "read";
        /// Nothing.
        NOOP = 16, "noop";
        /// List extended attributes.
        XATTR_LIST = 17, "xattr_list";
    }
}

wire_struct! {
    /// The head of an update.
    pub struct UpdateFields [40] {
        /// What is done.
        op: UpdateOp;
        /// The number of parameters.
        params: u16;
        /// Bytes of the result.
        result_size: u32;
        /// Flags.
        flags: u32 => hex, pad 4;
        /// Number of the batch.
        batch: u64;
        /// The object.
        fid: Fid;
    }
}

wire_struct! {
    /// The head of updates, or of their results: magic number and number.
    pub struct UpdatesHeader [8] {
        /// The magic number.
        magic: u32 => hex;
        /// How many follow.
        count: u16, pad 2;
    }
}

/// Updates that one server makes on another: opaque to clients, read for captures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Updates<'a> {
    /// Its head.
    pub header: UpdatesHeader,
    rest: &'a [u8],
}

/// An update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Update<'a> {
    /// Its head.
    pub fields: UpdateFields,
    /// The parameters, each behind a head of 8 bytes with its length.
    params: &'a [u8],
}

impl<'a> Updates<'a> {
    /// The magic number.
    pub const MAGIC: u32 = 0xbdde_0002;
    /// The most parameters of an update that are read.
    const PARAMS_MAX: u16 = 64;

    /// Reads the head.
    ///
    /// # Errors
    /// [`BlockError`].
    pub fn parse(bytes: &'a [u8]) -> Result<Updates<'a>, BlockError> {
        let mut from = Reader::new(bytes);
        let header: UpdatesHeader = from.value()?;
        if header.magic != Updates::MAGIC {
            return Err(BlockError::BadMagic(header.magic));
        }
        Ok(Updates { header, rest: from.rest() })
    }

    /// The updates; the iterator ends where they do.
    pub fn updates(&self) -> impl Iterator<Item = Update<'a>> + use<'a> {
        let mut from = Reader::new(self.rest);
        (0..self.header.count).map_while(move |_| {
            let fields: UpdateFields = from.value().ok()?;
            if fields.params > Updates::PARAMS_MAX {
                return None;
            }
            let start = from.rest();
            for _ in 0..fields.params {
                let len = usize::from(from.value::<u16>().ok()?);
                from.skip(6 + len.next_multiple_of(8)).ok()?;
            }
            let used = start.len() - from.rest().len();
            Some(Update { fields, params: &start[..used] })
        })
    }
}

impl<'a> Update<'a> {
    /// The parameters.
    pub fn params(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let mut from = Reader::new(self.params);
        core::iter::from_fn(move || {
            let len = usize::from(from.value::<u16>().ok()?);
            from.skip(6).ok()?;
            let param = from.take(len).ok()?;
            from.skip(len.next_multiple_of(8) - len).ok()?;
            Some(param)
        })
    }
}

impl Describe for Updates<'_> {
    fn describe(&self) -> Value {
        let updates = self.updates().map(|update| {
            let Value::Fields(mut fields) = update.fields.describe() else {
                unreachable!("structures have fields")
            };
            let params = update.params().map(|param| param.describe());
            fields.push(("values", Value::List(params.collect())));
            Value::Fields(fields)
        });
        Value::List(updates.collect())
    }
}

/// The buffers of a bulk transfer.
pub type BulkBuffers<'a> = Array<'a, BulkBuffer>;
