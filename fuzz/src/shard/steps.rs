//! Steps of the network, as values made of arbitrary bytes. Numbers are small on purpose: they
//! select among few objects, so that operations match.

use arbitrary::Arbitrary;

/// The network.
#[derive(Arbitrary, Debug)]
pub struct Setup {
    pub credits: u8,
    pub peer_credits: u8,
    pub discovery: bool,
    /// Whether the last node dials from any port and is renamed by the others.
    pub userland: bool,
    /// Whether each node has a second interface on another net.
    pub multi_rail: bool,
    pub few_peers: bool,
}

/// A NID to send to, or to claim.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Who {
    Node {
        index: u8,
        second: bool,
    },
    /// On the net, but without a node.
    Stranger(u8),
    /// On a net without nodes.
    Elsewhere,
    Loopback,
    Any,
    Long,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
pub struct Place {
    pub portal: u8,
    pub match_bits: u8,
    pub offset: u16,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
pub struct Memory {
    pub len: u16,
    pub fragments: u8,
    pub threshold: Option<u8>,
    pub max_size: Option<u16>,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Body {
    Put { ack: bool },
    Get { sink_len: u16 },
    Reply,
    Ack { mlength: u16 },
    Hello,
}

/// The descriptor that a forged header names.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Handle {
    None,
    /// One that was seen on the wire.
    Seen(u8),
    /// The same with another generation or cookie.
    Altered(u8, u8),
}

/// Payload of a forged header.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Payload {
    Short(u8),
    Long(u16),
    /// 1 MiB and this addition.
    Huge(u8),
    /// Ping information of the sender with this many interfaces, cut off by `cut` bytes.
    PingInfo {
        interfaces: u8,
        features: u8,
        cut: u8,
    },
}

/// How a message in flight ends.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Fate {
    Arrives,
    /// It is lost, and the sender sees success.
    Vanishes,
    /// It is lost, and the sender sees the failure.
    Fails,
    /// It arrives, and the sender is notified later.
    ArrivesEarly,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Step {
    Attach {
        node: u8,
        place: Place,
        ignore: bool,
        from: Who,
        memory: Memory,
        options: u8,
        retain: bool,
        in_front: bool,
    },
    Bind {
        node: u8,
        memory: Memory,
    },
    Put {
        node: u8,
        md: u8,
        to: Who,
        place: Place,
        ack: bool,
        local: Option<Who>,
        patience: u8,
    },
    Get {
        node: u8,
        md: u8,
        to: Who,
        place: Place,
        local: Option<Who>,
        patience: u8,
    },
    Unlink {
        node: u8,
        md: u8,
    },
    Lazy {
        node: u8,
        portal: u8,
        lazy: bool,
    },
    Discover {
        node: u8,
        whom: Who,
    },
    /// A message in flight ends.
    Deliver {
        which: u8,
        fate: Fate,
    },
    /// A driver finishes storing a payload.
    Stored {
        node: u8,
        which: u8,
        well: bool,
    },
    /// A driver finishes a message that already arrived.
    Sent {
        node: u8,
        which: u8,
    },
    /// A forged header.
    Forge {
        node: u8,
        hop: Who,
        src: Who,
        dst: Who,
        body: Body,
        handle: Handle,
        place: Place,
        payload: Payload,
    },
    /// A header that was seen before, again.
    Repeat {
        which: u8,
    },
    LinkUp {
        node: u8,
        peer: Who,
    },
    /// The connections to a peer are reset; messages in flight on them fail.
    LinkDown {
        node: u8,
        peer: Who,
    },
    Restarted {
        node: u8,
        peer: Who,
    },
    /// Cores work, without time passing.
    Settle,
    /// 2^n milliseconds pass.
    Wait {
        power: u8,
    },
}
