//! Blocks of a batch, written.

use super::buffer::BufferList;
use crate::batch::BlockHeader;
use crate::codec::Wire;
use crate::message::{Header, MessageBuilder};

/// Writes a block, message by message.
///
/// ```
/// use lustrine_fswire::batch::Block;
/// use lustrine_fswire::message::Header;
/// use lustrine_fswire::rpc::{BlockBuilder, BufferList, dlm};
/// use lustrine_fswire::text::Text;
///
/// let mut block = BlockBuilder::new(Block::REQUEST_MAGIC);
/// let sent = dlm::GetattrIntent { name: Text::new(b"a"), ..Default::default() };
/// block.push(&Header { opc: Block::GETATTR, ..Header::default() }, &sent);
/// let bytes = block.finish();
/// let message = Block::parse(&bytes).unwrap().messages().next().unwrap().unwrap();
/// let read = dlm::GetattrIntent::parse_list(&message, 0).unwrap();
/// assert_eq!(read.name, sent.name);
/// ```
#[derive(Debug, Clone)]
pub struct BlockBuilder {
    bytes: Vec<u8>,
    header: BlockHeader,
}

impl BlockBuilder {
    /// A block without messages, with
    /// [`REQUEST_MAGIC`](crate::batch::Block::REQUEST_MAGIC) or
    /// [`REPLY_MAGIC`](crate::batch::Block::REPLY_MAGIC).
    pub fn new(magic: u32) -> BlockBuilder {
        let header = BlockHeader { magic, count: 0 };
        BlockBuilder { bytes: header.to_bytes(), header }
    }

    /// Appends a message.
    ///
    /// # Panics
    /// If it is more than the 65,535th.
    pub fn push<'a>(&mut self, header: &Header, list: &impl BufferList<'a>) {
        self.push_failed(header, list);
        self.header.count =
            self.header.count.checked_add(1).expect("a block below 65,536 messages");
    }

    /// Appends the reply of a message that failed: it is the last one, and not counted.
    pub fn push_failed<'a>(&mut self, header: &Header, list: &impl BufferList<'a>) {
        let mut message = MessageBuilder::new(&mut self.bytes, header, list.count());
        list.write_list(&mut message);
        message.finish();
    }

    /// Bytes so far.
    #[allow(clippy::len_without_is_empty, reason = "there is always the head")]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// The block.
    pub fn finish(mut self) -> Vec<u8> {
        let header = self.header.to_bytes();
        self.bytes[..header.len()].copy_from_slice(&header);
        self.bytes
    }
}
