//! Services and message types [LST-1].

use super::{FRAMEWORK_PORTAL, TEST_PORTAL};

/// A service of a node; its number is the match bits of its requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u32)]
pub enum Service {
    /// Reports the session; also the console's ping.
    Debug = 0,
    /// Joins the node to a session.
    MakeSession = 1,
    /// Ends a session on the node.
    RemoveSession = 2,
    /// Runs, stops or queries a batch.
    Batch = 3,
    /// Adds a test to a batch.
    Test = 4,
    /// Reads counters.
    Stat = 5,
    /// Requests membership from the console.
    Join = 6,
    /// Bulk read and write test.
    Brw = 11,
    /// Small message test.
    Ping = 12,
    /// Reports a client's statistics of a test. An extension of Lustrine, which is requested from
    /// no other node ([`super::EXTENSIONS_MAGIC`]).
    ClientStats = 64,
}

impl Service {
    /// Every service.
    pub const ALL: [Service; 10] = [
        Service::Debug,
        Service::MakeSession,
        Service::RemoveSession,
        Service::Batch,
        Service::Test,
        Service::Stat,
        Service::Join,
        Service::Brw,
        Service::Ping,
        Service::ClientStats,
    ];

    /// The service with this number.
    pub const fn from_id(id: u32) -> Option<Service> {
        Some(match id {
            0 => Service::Debug,
            1 => Service::MakeSession,
            2 => Service::RemoveSession,
            3 => Service::Batch,
            4 => Service::Test,
            5 => Service::Stat,
            6 => Service::Join,
            11 => Service::Brw,
            12 => Service::Ping,
            64 => Service::ClientStats,
            _ => return None,
        })
    }

    /// The number: also the match bits of requests.
    pub const fn id(self) -> u32 {
        self as u32
    }

    /// The portal that takes its requests.
    pub const fn portal(self) -> u32 {
        match self {
            Service::Brw | Service::Ping => TEST_PORTAL,
            _ => FRAMEWORK_PORTAL,
        }
    }

    /// The type of its requests.
    pub const fn request(self) -> MessageType {
        match self {
            Service::Debug => MessageType::DebugRequest,
            Service::MakeSession => MessageType::MakeSessionRequest,
            Service::RemoveSession => MessageType::RemoveSessionRequest,
            Service::Batch => MessageType::BatchRequest,
            Service::Test => MessageType::TestRequest,
            Service::Stat => MessageType::StatRequest,
            Service::Join => MessageType::JoinRequest,
            Service::Brw => MessageType::BrwRequest,
            Service::Ping => MessageType::PingRequest,
            Service::ClientStats => MessageType::ClientStatsRequest,
        }
    }
}

macro_rules! message_types {
    ($($variant:ident = $number:literal $name:literal,)*) => {
        /// The types of messages; a reply has its request's number plus one.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u32)]
        #[allow(missing_docs)]
        pub enum MessageType {
            $($variant = $number,)*
        }

        impl MessageType {
            /// Every type.
            pub const ALL: [MessageType; 20] = [$(MessageType::$variant,)*];

            /// The type with this number.
            pub const fn from_number(number: u32) -> Option<MessageType> {
                match number {
                    $($number => Some(MessageType::$variant),)*
                    _ => None,
                }
            }

            /// The number on the wire.
            pub const fn number(self) -> u32 {
                self as u32
            }

            /// A short name for people.
            pub const fn name(self) -> &'static str {
                match self {
                    $(MessageType::$variant => $name,)*
                }
            }

            /// The type of the reply to this request, `None` for a reply.
            pub const fn reply(self) -> Option<MessageType> {
                match self.number() % 2 {
                    0 => MessageType::from_number(self.number() + 1),
                    _ => None,
                }
            }
        }
    };
}

message_types! {
    MakeSessionRequest = 0 "MAKE_SESSION",
    MakeSessionReply = 1 "MAKE_SESSION reply",
    RemoveSessionRequest = 2 "REMOVE_SESSION",
    RemoveSessionReply = 3 "REMOVE_SESSION reply",
    BatchRequest = 4 "BATCH",
    BatchReply = 5 "BATCH reply",
    StatRequest = 6 "QUERY_STAT",
    StatReply = 7 "QUERY_STAT reply",
    TestRequest = 8 "TEST",
    TestReply = 9 "TEST reply",
    DebugRequest = 10 "DEBUG",
    DebugReply = 11 "DEBUG reply",
    BrwRequest = 12 "BRW",
    BrwReply = 13 "BRW reply",
    PingRequest = 14 "PING",
    PingReply = 15 "PING reply",
    JoinRequest = 16 "JOIN",
    JoinReply = 17 "JOIN reply",
    ClientStatsRequest = 64 "CLIENT_STATS",
    ClientStatsReply = 65 "CLIENT_STATS reply",
}
