//! Counters of a shard, in LNet's terms (selftest-wire 14, cli-habits 3.4).

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
    /// Messages received and not wanted.
    pub dropped: u64,
}

impl MessageCounters {
    pub(crate) fn add(&mut self, other: &MessageCounters) {
        self.sent += other.sent;
        self.received += other.received;
        self.dropped += other.dropped;
    }
}

/// Totals since the shard began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Messages alive now.
    pub msgs_alloc: u64,
    /// Most messages alive at once.
    pub msgs_max: u64,
    /// Messages that ended with an error.
    pub errors: u64,
    /// Messages given to a driver and finished well.
    pub sent: ByType,
    /// Messages received.
    pub received: ByType,
    /// Messages received and not wanted.
    pub dropped: ByType,
    /// Bytes of PUT and REPLY payload sent.
    pub send_length: u64,
    /// Bytes of PUT and REPLY payload received and stored.
    pub recv_length: u64,
    /// Bytes of payload received and discarded.
    pub drop_length: u64,
    /// Answers that never came.
    pub response_timeouts: u64,
    /// Failed messages by health class: local error, remote dropped, remote error, network.
    pub local_errors: u64,
    /// See [`Stats::local_errors`].
    pub remote_dropped: u64,
    /// See [`Stats::local_errors`].
    pub remote_errors: u64,
    /// See [`Stats::local_errors`].
    pub network_timeouts: u64,
    /// Responses not sent because their queue was full: a peer that asks and never reads.
    pub responses_refused: u64,
    /// Headers that cost a peer its connections.
    pub misbehaved: u64,
    /// Operations timed for their interface only: `latency_peers` peers have histograms.
    pub latencies_left_out: u64,
}

impl Stats {
    /// What was counted since an earlier look at the same shard; messages that are alive and their
    /// watermark stay as they are.
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

    /// Sums the counters of several shards; watermarks add up too.
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
