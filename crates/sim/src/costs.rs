//! What a node spends: the CPU time of its work, and the time that its messages wait.

use lustrine_lnet::time::Nanos;

/// The CPU time of a host's work: after a turn the node does nothing else until that time has
/// passed.
///
/// There is one CPU per node; several CPUs are modelled as one with a lower cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuCost {
    /// Per LNet message sent or received.
    pub per_message: Nanos,
    /// Per MiB of payload sent or received.
    pub per_mib: Nanos,
}

impl CpuCost {
    /// The CPU time of this number of messages with this number of bytes.
    pub fn of(&self, messages: u64, bytes: u64) -> Nanos {
        let per_byte = (u128::from(bytes) * u128::from(self.per_mib.0)) >> 20;
        let per_byte = u64::try_from(per_byte).unwrap_or(u64::MAX);
        Nanos(messages.saturating_mul(self.per_message.0).saturating_add(per_byte))
    }
}

/// What messages of a node have waited for since it started: sums over all messages, in message
/// nanoseconds. Divided by the time, they are mean numbers of waiting messages (Little's law).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaitTotals {
    /// For a credit of the peer.
    pub peer_credits: u64,
    /// For a credit of the interface.
    pub ni_credits: u64,
    /// In the driver: for a connection, or for room in its stream.
    pub driver: u64,
    /// Sent without copying, for the peer's acknowledgement; these messages hold their credits.
    pub zero_copy: u64,
    /// Time in which the host's CPU was busy, in nanoseconds.
    pub cpu: u64,
    /// Messages sent and received.
    pub messages: u64,
}
