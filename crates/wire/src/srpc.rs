//! Messages of LNet selftest: every request and every reply is 160 bytes [LST-2].

mod body;
mod client_stats;
mod cursor;
mod service;
#[cfg(test)]
mod tests;
mod values;

use crate::byte_order::{ByteOrder, array_at};

pub use body::{
    BatchReply, BatchRequest, BrwReply, BrwRequest, ClientStatsReply, ClientStatsRequest, Counters,
    DebugReply, DebugRequest, FrameworkCounters, JoinReply, JoinRequest, LnetCounters,
    MakeSessionReply, MakeSessionRequest, PingReply, PingRequest, RemoveSessionReply,
    RemoveSessionRequest, RpcCounters, StatReply, StatRequest, TestReply, TestRequest,
};
pub use client_stats::{
    CLIENT_STATS_LEN_MAX, ClientStats, ClientStatsDetails, ClientStatsError, ERROR_KINDS_MAX,
    LATENCY_BUCKETS, bucket_start,
};
pub use service::{MessageType, Service};
pub use values::{
    BatchOp, BrwCheck, BrwOp, Destination, Name, NameError, Role, Sid, TestParams, destination_at,
};

use cursor::{Reader, Writer};

/// First word of every message.
pub const MAGIC: u32 = 0xeeb0_f00d;
/// The only version there is.
pub const VERSION: u32 = 1;
/// Length of every request and reply in bytes.
pub const MESSAGE_LEN: usize = 160;
/// Length of the part before the body in bytes.
pub const HEADER_LEN: usize = 24;

/// Portal of the test services' requests.
pub const TEST_PORTAL: u32 = 50;
/// Portal of the framework's requests.
pub const FRAMEWORK_PORTAL: u32 = 51;
/// Portal of all replies and bulk transfers.
pub const REPLY_PORTAL: u32 = 52;

/// The session feature "bulk parameters are in bytes" (parameters v1); the only one known.
pub const FEATURE_BULK_LEN: u32 = 1;
/// All known session features.
pub const FEATURES_KNOWN: u32 = FEATURE_BULK_LEN;

/// Magic number within PING requests and replies.
pub const PING_MAGIC: u32 = 0xbabe_face;
/// Every 8-byte word of checked bulk data, in the writer's byte order.
pub const DATA_MAGIC: u64 = 0xeeb0_eeb1_eeb2_eeb3;
/// What receivers write to the words where they will look for [`DATA_MAGIC`].
pub const DATA_POISON: u64 = 0xbeef_beef_beef_beef;

/// The value of [`DebugReply::batches`], which kernels never set, if the node supports
/// [`Service::ClientStats`] and [`TestRequest::rate`]. They are sent to no other node, because a
/// kernel keeps a request for an unknown service for ever.
pub const EXTENSIONS_MAGIC: u32 = 0x4c75_7301;
/// Precedes [`TestRequest::rate`] if there is one, in the tail that kernels ignore.
pub const RATE_MAGIC: u32 = 0x4c75_7302;

/// Largest bulk transfer of one RPC, in bytes.
pub const BULK_MAX: u32 = 1 << 20;
/// Most RPCs that one test keeps outstanding towards one destination.
pub const CONCURRENCY_MAX: u32 = 1024;

/// One request or reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message {
    /// Byte order of the sender.
    pub order: ByteOrder,
    /// [`VERSION`]; a request with another one is answered with status 71 (EPROTO).
    pub version: u32,
    /// Session features.
    pub features: u32,
    /// Its body.
    pub body: Body,
}

/// Why bytes are not a selftest message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SrpcError {
    /// The length is not 160.
    #[error("selftest message of {0} bytes: 160 are required")]
    BadLength(usize),
    /// The magic number is wrong.
    #[error("{0:#010x} is not the magic number of a selftest message")]
    BadMagic(u32),
    /// The message type is none of the known ones.
    #[error("selftest message of unknown type {0}")]
    UnknownType(u32),
}

macro_rules! bodies {
    ($($variant:ident($body:ty),)*) => {
        /// The part of a message that depends on its type.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Body {
            $(
                #[doc = concat!("See [`", stringify!($body), "`].")]
                $variant($body),
            )*
        }

        impl Body {
            /// The type of the message.
            pub const fn message_type(&self) -> MessageType {
                match self {
                    $(Body::$variant(_) => MessageType::$variant,)*
                }
            }

            fn read(kind: MessageType, from: &mut Reader<'_>) -> Body {
                match kind {
                    $(MessageType::$variant => Body::$variant(<$body>::read(from)),)*
                }
            }

            fn write(&self, to: &mut Writer<'_>) {
                match self {
                    $(Body::$variant(body) => body.write(to),)*
                }
            }
        }
    };
}

bodies! {
    MakeSessionRequest(MakeSessionRequest),
    MakeSessionReply(MakeSessionReply),
    RemoveSessionRequest(RemoveSessionRequest),
    RemoveSessionReply(RemoveSessionReply),
    BatchRequest(BatchRequest),
    BatchReply(BatchReply),
    StatRequest(StatRequest),
    StatReply(StatReply),
    TestRequest(TestRequest),
    TestReply(TestReply),
    DebugRequest(DebugRequest),
    DebugReply(DebugReply),
    BrwRequest(BrwRequest),
    BrwReply(BrwReply),
    PingRequest(PingRequest),
    PingReply(PingReply),
    JoinRequest(JoinRequest),
    JoinReply(JoinReply),
    ClientStatsRequest(ClientStatsRequest),
    ClientStatsReply(ClientStatsReply),
}

impl Message {
    /// Parses a message. Unused bytes are ignored.
    ///
    /// # Errors
    /// [`SrpcError`]; the receiver of such a request drops it without reply.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<Message, SrpcError> {
        let raw: &[u8; MESSAGE_LEN] =
            bytes.try_into().map_err(|_| SrpcError::BadLength(bytes.len()))?;
        let word = array_at(raw, 0);
        let order = ByteOrder::of_magic(word, MAGIC)
            .ok_or(SrpcError::BadMagic(u32::from_le_bytes(word)))?;
        let number = order.u32_at(raw, 8);
        let kind = MessageType::from_number(number).ok_or(SrpcError::UnknownType(number))?;
        let features = order.u32_at(raw, 20);
        let mut reader = Reader::new(order, features, raw);
        let version = order.u32_at(raw, 4);
        Ok(Message { order, version, features, body: Body::read(kind, &mut reader) })
    }

    /// Writes the message; bytes that it does not use become 0.
    pub fn encode(&self, raw: &mut [u8; MESSAGE_LEN]) {
        *raw = [0; MESSAGE_LEN];
        self.encode_over(raw);
    }

    /// Writes the message and leaves the bytes that it does not use as they are: the two reserved
    /// words and the tail, where kernels leave whatever was there before [LST-2].
    pub fn encode_over(&self, raw: &mut [u8; MESSAGE_LEN]) {
        self.order.put_u32(raw, 0, MAGIC);
        self.order.put_u32(raw, 4, self.version);
        self.order.put_u32(raw, 8, self.body.message_type().number());
        self.order.put_u32(raw, 20, self.features);
        let mut writer = Writer::new(self.order, raw);
        self.body.write(&mut writer);
    }
}
