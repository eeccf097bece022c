use proptest::prelude::*;

use super::*;
use crate::codec::Wire;
use crate::message::{Header, MessageBuilder};

fn block(counted: u16, messages: u32) -> Vec<u8> {
    let header = BlockHeader { magic: Block::REPLY_MAGIC, count: counted };
    let mut bytes = header.to_bytes();
    for opc in 0..messages {
        let mut message = MessageBuilder::new(&mut bytes, &Header { opc, ..Header::default() }, 1);
        message.bytes(b"x");
        message.finish();
    }
    bytes.resize(512, 0);
    bytes
}

/// The message that failed follows, without being counted [MDT-19].
#[test]
fn the_messages_of_a_block() {
    let found = |counted, messages| {
        let bytes = block(counted, messages);
        let block = Block::parse(&bytes).unwrap();
        block.messages().map(|message| message.map(|m| m.header().opc)).collect::<Vec<_>>()
    };
    assert_eq!(found(2, 2), [Ok(0), Ok(1)]);
    assert_eq!(found(1, 2), [Ok(0), Ok(1)]);
    assert_eq!(found(0, 0), []);
    assert_eq!(found(2, 1), [Ok(0), Err(MessageError::BadMagic(0))]);
    assert_eq!(Block::parse(&[0; 8]), Err(BlockError::BadMagic(0)));
}

proptest! {
    #[test]
    fn any_block_ends(bytes in prop::collection::vec(any::<u8>(), 0..300), requests: bool) {
        let magic = if requests { Block::REQUEST_MAGIC } else { Updates::MAGIC };
        let bytes = [&magic.to_le_bytes()[..], &bytes].concat();
        let _ = Block::parse(&bytes).map(|block| block.describe());
        let _ = Updates::parse(&bytes).map(|updates| updates.describe());
        let _ = BatchHeader::parse(&bytes).map(|header| header.describe());
    }
}
