//! The kinds of findings.

use serde::{Deserialize, Serialize};

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Nothing to do.
    Ok,
    /// Worth knowing; nothing fails and little is lost.
    Notice,
    /// It works, but slowly, or it will fail.
    Warning,
    /// It does not work.
    Error,
}

impl Severity {
    /// The name that is printed and written to JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Severity::Ok => "ok",
            Severity::Notice => "notice",
            Severity::Warning => "warning",
            Severity::Error => "error",
        }
    }
}

macro_rules! codes {
    ($($variant:ident $name:literal $severity:ident $what:literal;)*) => {
        /// What kind of finding it is. The name is stable: programs may rely on it.
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        pub enum Code {
            $(
                #[doc = $what]
                #[serde(rename = $name)]
                $variant,
            )*
        }

        impl Code {
            /// All of them, in the order in which they are reported.
            pub const ALL: &[Code] = &[$(Code::$variant),*];

            /// The stable name.
            pub const fn name(self) -> &'static str {
                match self { $(Code::$variant => $name),* }
            }

            /// The severity of its findings, at least.
            pub const fn severity(self) -> Severity {
                match self { $(Code::$variant => Severity::$severity),* }
            }

            /// One sentence for the reference.
            pub const fn what(self) -> &'static str {
                match self { $(Code::$variant => $what),* }
            }
        }
    };
}

codes! {
    NoRoute "no-route" Error "This host has no route to the peer.";
    HostSilent "host-silent" Error "Nothing at the peer's address answers.";
    FirewallSwallows "firewall-swallows" Error
        "The peer's host answers, but packets to or from its LNet port disappear.";
    FirewallRejects "firewall-rejects" Error
        "A router, a firewall or this host refuses packets to the peer's LNet port, and says so.";
    PortClosed "port-closed" Error
        "Nothing listens at the peer's LNet port, or a firewall answers with a reset instead.";
    NotLnet "not-lnet" Error "The program at the peer's port does not speak LNet.";
    HelloSilent "hello-silent" Error
        "The peer accepts the TCP connection and does not answer the HELLO.";
    UserlandRefused "userland-refused" Error
        "The peer refuses this process because its source port is above 1023.";
    PrivilegeOrNid "privilege-or-nid" Error
        "The peer closes connections from source ports above 1023; from here it cannot be seen \
         whether for that reason or because it does not have the NID.";
    WrongNet "wrong-net" Error "The peer has this address on another LNet network.";
    NodeNet "node-net" Error
        "The node of this host, or of the options, has no interface on the peer's LNet network.";
    NidRefused "nid-refused" Error "The peer does not have the NID.";
    NotNow "not-now" Warning "The peer refuses each connection for now.";
    OtherNid "other-nid" Error "The node at this address calls itself by another NID.";
    PingSilent "ping-silent" Error "The peer answers the HELLO, but not a small ping.";
    BlackHoleOut "mtu-black-hole-out" Error
        "Large packets to the peer disappear without a message; small ones arrive.";
    BlackHoleIn "mtu-black-hole-in" Error
        "Large packets from the peer disappear without a message; small ones arrive.";
    BlackHole "mtu-black-hole" Warning
        "Pings and small ICMP echoes are answered, but full-size echoes are not; `doctor` could \
         not check this with a connection, for example because a node runs on this host.";
    MtuMismatch "mtu-mismatch" Notice
        "The interfaces at the two ends have different MTUs, or segments are clamped on the way; a \
         warning without a router between them.";
    AsymmetricRoute "asymmetric-route" Warning
        "Packets to the peer and packets from it take different ways.";
    NidDuplicated "nid-duplicated" Error "Two nodes answer for one NID.";
    PeerNiDown "peer-ni-down" Warning "The peer says that one of its interfaces is down.";
    ClockSkew "clock-skew" Warning "The clocks of this host and of the peer differ.";
    SlowReceiver "slow-receiver" Warning
        "The peer's host takes data, but the peer's node does not read them.";
    WindowScalingOff "window-scaling-off" Warning
        "TCP windows are limited to 64 KiB at one of the ends.";
    BuffersTooSmall "buffers-too-small" Warning
        "TCP buffers of this host are too small for the rate and the round trip.";
    PeerBuffersTooSmall "peer-buffers-too-small" Warning
        "TCP buffers of the peer are too small for the rate and the round trip.";
    CreditsTooFew "credits-too-few" Warning
        "peer_credits are too few for the rate and the round trip.";
    NodeSilent "node-silent" Error "No node answers at the control socket of --control.";
    InterfaceDown "interface-down" Error
        "An interface of the configuration does not exist, or is down.";
    NidTwice "nid-twice" Error "Two interfaces of this host's configuration have one NID.";
    ConfigInvalid "config-invalid" Error "A node would refuse the configuration file.";
    PortTaken "port-taken" Error
        "Another program of this host listens at the LNet port; no node can.";
    CreditsExhausted "credits-exhausted" Notice
        "Messages of the running node have waited for credits; a warning while some wait.";
    UnreadData "unread-data" Warning "A program of this host does not read data of LNet.";
    KnownDefect "known-defect" Notice
        "This host or the peer runs a release with a known defect; a warning where it shows.";
}
