//! Counters of a shard, with LNet's names.

/// Message counts by type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names of the message types")]
pub struct ByType {
    pub ack: u64,
    pub put: u64,
    pub get: u64,
    pub reply: u64,
}

impl ByType {
    /// All types together.
    pub fn total(&self) -> u64 {
        self.ack + self.put + self.get + self.reply
    }

    pub(crate) fn count(&mut self, body: &lustrine_wire::header::Body) {
        use lustrine_wire::header::Body;
        match body {
            Body::Ack { .. } => self.ack += 1,
            Body::Put { .. } => self.put += 1,
            Body::Get { .. } => self.get += 1,
            Body::Reply { .. } => self.reply += 1,
            Body::Hello { .. } => {}
        }
    }

    fn since(&self, earlier: &ByType) -> ByType {
        ByType {
            ack: self.ack - earlier.ack,
            put: self.put - earlier.put,
            get: self.get - earlier.get,
            reply: self.reply - earlier.reply,
        }
    }

    fn add(&mut self, other: &ByType) {
        self.ack += other.ack;
        self.put += other.put;
        self.get += other.get;
        self.reply += other.reply;
    }
}

/// Messages of an interface, or of a peer NID.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MessageCounters {
    /// Messages sent.
    pub sent: u64,
    /// Messages received.
    pub received: u64,
    /// Messages received and dropped.
    pub dropped: u64,
}

impl MessageCounters {
    pub(crate) fn add(&mut self, other: &MessageCounters) {
        self.sent += other.sent;
        self.received += other.received;
        self.dropped += other.dropped;
    }
}

/// Totals since the shard was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Messages alive now.
    pub msgs_alloc: u64,
    /// Most messages alive at the same time.
    pub msgs_max: u64,
    /// Messages that ended with an error.
    pub errors: u64,
    /// Messages that a driver has sent.
    pub sent: ByType,
    /// Messages received.
    pub received: ByType,
    /// Messages received and dropped.
    pub dropped: ByType,
    /// Bytes of PUT and REPLY payload sent.
    pub send_length: u64,
    /// Bytes of PUT and REPLY payload received and stored.
    pub recv_length: u64,
    /// Bytes of payload received and discarded.
    pub drop_length: u64,
    /// Answers that did not arrive before their deadline.
    pub response_timeouts: u64,
    /// Failed messages of health class [`LocalError`](crate::status::Health::LocalError).
    pub local_errors: u64,
    /// Failed messages of health class [`RemoteDropped`](crate::status::Health::RemoteDropped).
    pub remote_dropped: u64,
    /// Failed messages of health class [`RemoteError`](crate::status::Health::RemoteError).
    pub remote_errors: u64,
    /// Failed messages of health class [`NetworkTimeout`](crate::status::Health::NetworkTimeout).
    pub network_timeouts: u64,
    /// Responses not sent because too many wait already: a peer sends requests and reads nothing.
    pub responses_refused: u64,
    /// Headers that cost a peer its connections.
    pub misbehaved: u64,
    /// Operations measured for their interface only, as `latency_peers` peers have histograms
    /// already.
    pub latencies_left_out: u64,
}

impl Stats {
    /// The difference to an earlier value of the same shard. The number of messages alive and its
    /// maximum are taken over unchanged.
    pub fn since(&self, earlier: &Stats) -> Stats {
        Stats {
            msgs_alloc: self.msgs_alloc,
            msgs_max: self.msgs_max,
            sent: self.sent.since(&earlier.sent),
            received: self.received.since(&earlier.received),
            dropped: self.dropped.since(&earlier.dropped),
            errors: self.errors - earlier.errors,
            send_length: self.send_length - earlier.send_length,
            recv_length: self.recv_length - earlier.recv_length,
            drop_length: self.drop_length - earlier.drop_length,
            response_timeouts: self.response_timeouts - earlier.response_timeouts,
            local_errors: self.local_errors - earlier.local_errors,
            remote_dropped: self.remote_dropped - earlier.remote_dropped,
            remote_errors: self.remote_errors - earlier.remote_errors,
            network_timeouts: self.network_timeouts - earlier.network_timeouts,
            responses_refused: self.responses_refused - earlier.responses_refused,
            misbehaved: self.misbehaved - earlier.misbehaved,
            latencies_left_out: self.latencies_left_out - earlier.latencies_left_out,
        }
    }

    /// Adds the counters of another shard; maxima are added too.
    pub fn add(&mut self, other: &Stats) {
        self.msgs_alloc += other.msgs_alloc;
        self.msgs_max += other.msgs_max;
        self.errors += other.errors;
        self.sent.add(&other.sent);
        self.received.add(&other.received);
        self.dropped.add(&other.dropped);
        self.send_length += other.send_length;
        self.recv_length += other.recv_length;
        self.drop_length += other.drop_length;
        self.response_timeouts += other.response_timeouts;
        self.local_errors += other.local_errors;
        self.remote_dropped += other.remote_dropped;
        self.remote_errors += other.remote_errors;
        self.network_timeouts += other.network_timeouts;
        self.responses_refused += other.responses_refused;
        self.misbehaved += other.misbehaved;
        self.latencies_left_out += other.latencies_left_out;
    }
}
