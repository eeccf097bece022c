//! The bodies of all messages [LST-4] [LST-11]. Fields follow each other without padding, in the
//! order in which they are declared here.

use super::RATE_MAGIC;
use super::cursor::{Field, Reader, Writer};
use super::values::{Name, Role, Sid, TestParams};

/// Declares packed structures: the fields, in sequence, are the layout.
macro_rules! packed {
    ($(
        $(#[$doc:meta])*
        $name:ident {
            $($(#[$field_doc:meta])* $field:ident: $type:ty,)*
        }
    )*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $type,)*
        }

        impl $name {
            pub(super) fn read(from: &mut Reader<'_>) -> $name {
                $name { $($field: from.next(),)* }
            }

            pub(super) fn write(&self, to: &mut Writer<'_>) {
                $(to.put(&self.$field);)*
            }
        }
    )*};
}

packed! {
    /// Joins the node to a session.
    MakeSessionRequest {
        /// Match bits for the reply.
        reply_bits: u64,
        /// The session.
        sid: Sid,
        /// Non-zero: end another session that the node may be in.
        force: u32,
        /// Name of the session.
        name: Name,
    }

    /// Answers [`MakeSessionRequest`].
    MakeSessionReply {
        /// 0 or an errno.
        status: u32,
        /// The session that the node is in now.
        sid: Sid,
        /// Seconds without a request after which the node leaves the session.
        timeout: u32,
        /// Name of the session that keeps the node busy; filled only with status EBUSY.
        name: Name,
    }

    /// Ends a session on the node.
    RemoveSessionRequest {
        /// Match bits for the reply.
        reply_bits: u64,
        /// The session.
        sid: Sid,
    }

    /// Answers [`RemoveSessionRequest`].
    RemoveSessionReply {
        /// 0 or an errno.
        status: u32,
        /// The session that the node is in now.
        sid: Sid,
    }

    /// Requests the session; any node may send it.
    DebugRequest {
        /// Match bits for the reply.
        reply_bits: u64,
        /// The requester's session.
        sid: Sid,
        /// 0.
        flags: u32,
    }

    /// Answers [`DebugRequest`].
    DebugReply {
        /// 0 or an errno.
        status: u32,
        /// The session that the node is in.
        sid: Sid,
        /// Seconds without a request after which the node leaves the session.
        timeout: u32,
        /// Kernels never set it; see [`super::EXTENSIONS_MAGIC`].
        batches: u32,
        /// Name of the session.
        name: Name,
    }

    /// Runs, stops or queries a batch.
    BatchRequest {
        /// Match bits for the reply.
        reply_bits: u64,
        /// The session.
        sid: Sid,
        /// The batch.
        batch: u64,
        /// What to do; see [`super::BatchOp`].
        op: u32,
        /// With a query: 0 for the batch, else the number of a test.
        test: u32,
        /// With run, seconds after which the node stops the batch, 0 for never; kernels ignore it.
        /// With stop, non-zero to abort RPCs.
        arg: u32,
    }

    /// Answers [`BatchRequest`].
    BatchReply {
        /// 0 or an errno.
        status: u32,
        /// The session that the node is in.
        sid: Sid,
        /// Active tests of the batch, or active units of the test.
        active: u32,
        /// Kernels never set it.
        time: u32,
    }

    /// Requests counters.
    StatRequest {
        /// Match bits for the reply.
        reply_bits: u64,
        /// The session.
        sid: Sid,
        /// 0.
        kind: u32,
    }

    /// Answers [`StatRequest`].
    StatReply {
        /// 0 or an errno.
        status: u32,
        /// The session that the node is in.
        sid: Sid,
        /// The counters.
        counters: Counters,
    }

    /// All counters of a node.
    #[derive(serde::Serialize, serde::Deserialize)]
    Counters {
        /// Of the selftest framework.
        framework: FrameworkCounters,
        /// Of selftest's RPCs.
        rpc: RpcCounters,
        /// Of the node's whole LNet.
        lnet: LnetCounters,
    }

    /// Counters of the selftest framework.
    #[derive(serde::Serialize, serde::Deserialize)]
    FrameworkCounters {
        /// Milliseconds since the session was made on the node.
        running_ms: u32,
        /// Batches that are running.
        active_batches: u32,
        /// Sessions that ended but still have work to finish.
        zombie_sessions: u32,
        /// Failed bulk RPCs as client in this session.
        brw_errors: u32,
        /// Failed ping RPCs as client in this session.
        ping_errors: u32,
    }

    /// Counters of selftest's RPCs since the service was started.
    #[derive(serde::Serialize, serde::Deserialize)]
    RpcCounters {
        /// LNet events with an error other than a cancellation.
        errors: u32,
        /// Requests sent.
        sent: u32,
        /// Requests received, bad ones too.
        received: u32,
        /// Requests not served with success.
        dropped: u32,
        /// Own requests that timed out.
        expired: u32,
        /// Bytes pulled as server.
        bulk_get: u64,
        /// Bytes pushed as server.
        bulk_put: u64,
    }

    /// Counters of the node's whole LNet.
    #[derive(serde::Serialize, serde::Deserialize)]
    LnetCounters {
        /// Messages in existence.
        msgs_alloc: u32,
        /// The most there ever were.
        msgs_max: u32,
        /// Messages that failed.
        errors: u32,
        /// Messages sent.
        send_count: u32,
        /// Messages received.
        recv_count: u32,
        /// Messages forwarded.
        route_count: u32,
        /// Messages dropped.
        drop_count: u32,
        /// Bytes of payload sent.
        send_length: u64,
        /// Bytes of payload received.
        recv_length: u64,
        /// Bytes of payload forwarded.
        route_length: u64,
        /// Bytes of payload dropped.
        drop_length: u64,
    }

    /// Answers [`TestRequest`].
    TestReply {
        /// 0 or an errno.
        status: u32,
        /// The session that the node is in.
        sid: Sid,
    }

    /// Requests membership in a group from a console.
    JoinRequest {
        /// Match bits for the reply.
        reply_bits: u64,
        /// The session; a wildcard NID means any.
        sid: Sid,
        /// Name of the group.
        group: Name,
    }

    /// Answers [`JoinRequest`].
    JoinReply {
        /// 0 or an errno.
        status: u32,
        /// The session.
        sid: Sid,
        /// Seconds without a request after which the node leaves the session.
        timeout: u32,
        /// Name of the session.
        name: Name,
    }

    /// Requests a client's statistics of a test; an extension of Lustrine.
    ClientStatsRequest {
        /// Match bits for the reply.
        reply_bits: u64,
        /// Match bits for the statistics, which are put there in the form of
        /// [`super::ClientStats::encode`].
        bulk_bits: u64,
        /// The session.
        sid: Sid,
        /// The batch.
        batch: u64,
        /// The test, counted from 1.
        test: u32,
        /// Bytes that the requester has room for.
        room: u32,
    }

    /// Answers [`ClientStatsRequest`].
    ClientStatsReply {
        /// 0 or an errno.
        status: u32,
        /// The session that the node is in.
        sid: Sid,
        /// Bytes that were put.
        len: u32,
    }

    /// A small message test's RPC.
    PingRequest {
        /// Match bits for the reply.
        reply_bits: u64,
        /// [`super::PING_MAGIC`].
        magic: u32,
        /// Sequence number.
        seq: u32,
        /// Sender's wall clock, whole seconds.
        time_s: u64,
        /// Sender's wall clock, nanoseconds.
        time_ns: u64,
    }

    /// Answers [`PingRequest`].
    PingReply {
        /// 0 or an errno.
        status: u32,
        /// [`super::PING_MAGIC`].
        magic: u32,
        /// Sequence number of the request.
        seq: u32,
    }

    /// A bulk test's RPC.
    BrwRequest {
        /// Match bits for the reply.
        reply_bits: u64,
        /// Match bits for the bulk transfer.
        bulk_bits: u64,
        /// See [`super::BrwOp`].
        rw: u32,
        /// Length of the bulk transfer, in bytes.
        len: u32,
        /// See [`super::BrwCheck`].
        check: u32,
    }

    /// Answers [`BrwRequest`].
    BrwReply {
        /// 0 or an errno.
        status: u32,
    }
}

impl Counters {
    /// All zero, as a kernel sends them with an error (capture c03).
    pub const ZERO: Counters = Counters {
        framework: FrameworkCounters {
            running_ms: 0,
            active_batches: 0,
            zombie_sessions: 0,
            brw_errors: 0,
            ping_errors: 0,
        },
        rpc: RpcCounters {
            errors: 0,
            sent: 0,
            received: 0,
            dropped: 0,
            expired: 0,
            bulk_get: 0,
            bulk_put: 0,
        },
        lnet: LnetCounters {
            msgs_alloc: 0,
            msgs_max: 0,
            errors: 0,
            send_count: 0,
            recv_count: 0,
            route_count: 0,
            drop_count: 0,
            send_length: 0,
            recv_length: 0,
            route_length: 0,
            drop_length: 0,
        },
    };
}

macro_rules! packed_within_packed {
    ($($name:ident,)*) => {$(
        impl Field for $name {
            fn read(from: &mut Reader<'_>) -> $name {
                $name::read(from)
            }

            fn write(&self, to: &mut Writer<'_>) {
                $name::write(self, to);
            }
        }
    )*};
}

packed_within_packed! { Counters, FrameworkCounters, RpcCounters, LnetCounters, }

/// Adds a test to a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TestRequest {
    /// Match bits for the reply.
    pub reply_bits: u64,
    /// Match bits for the list of destinations.
    pub bulk_bits: u64,
    /// The session.
    pub sid: Sid,
    /// The batch, which is created if it is unknown.
    pub batch: u64,
    /// The test service; see [`super::Service`].
    pub service: u32,
    /// RPCs per destination and unit of concurrency; negative for no end.
    pub loops: i32,
    /// RPCs outstanding towards each destination.
    pub concurrency: u32,
    /// The role of this node.
    pub role: Role,
    /// Non-zero: a failed RPC ends the unit that sent it.
    pub stop_on_error: u8,
    /// Number of destinations.
    pub destinations: u32,
    /// Parameters of the test.
    pub params: TestParams,
    /// Largest number of RPCs per second that a client sends, to all its destinations together; 0
    /// for no limit. An extension of Lustrine ([`super::EXTENSIONS_MAGIC`]).
    pub rate: u32,
}

impl TestRequest {
    pub(super) fn read(from: &mut Reader<'_>) -> TestRequest {
        let reply_bits = from.next();
        let bulk_bits = from.next();
        let sid = from.next();
        let batch = from.next();
        let service = from.next();
        TestRequest {
            reply_bits,
            bulk_bits,
            sid,
            batch,
            service,
            loops: from.next(),
            concurrency: from.next(),
            role: from.next(),
            stop_on_error: from.next(),
            destinations: from.next(),
            params: TestParams::read(service, from),
            rate: match from.next() {
                RATE_MAGIC => from.next(),
                _ => 0,
            },
        }
    }

    pub(super) fn write(&self, to: &mut Writer<'_>) {
        to.put(&self.reply_bits);
        to.put(&self.bulk_bits);
        to.put(&self.sid);
        to.put(&self.batch);
        to.put(&self.service);
        to.put(&self.loops);
        to.put(&self.concurrency);
        to.put(&self.role);
        to.put(&self.stop_on_error);
        to.put(&self.destinations);
        self.params.write(to);
        if self.rate != 0 {
            to.put(&RATE_MAGIC);
            to.put(&self.rate);
        }
    }
}
