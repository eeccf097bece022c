//! What a node does for the consoles that ask it: the settings `selftest` and `selftest_consoles`.

use core::fmt;
use core::str::FromStr;

use lustrine_wire::nid::Nid;
use lustrine_wire::nid_range::{NidRangeError, NidRanges};

/// What a node does for selftest consoles that are not on the list of [`ServicePolicy::consoles`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ServiceMode {
    /// Nothing: no selftest request is answered, not even one of this node.
    Off,
    /// It answers test RPCs and keeps a session, but sends no test RPC to anybody.
    #[default]
    Serve,
    /// Whatever the console asks for: the node sends test RPCs to the nodes that it is given.
    Full,
}

/// A word that is not a [`ServiceMode`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a selftest mode; allowed: off, serve, full")]
pub struct UnknownMode(pub String);

impl fmt::Display for ServiceMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ServiceMode::Off => "off",
            ServiceMode::Serve => "serve",
            ServiceMode::Full => "full",
        })
    }
}

impl FromStr for ServiceMode {
    type Err = UnknownMode;

    fn from_str(word: &str) -> Result<ServiceMode, UnknownMode> {
        match word {
            "off" => Ok(ServiceMode::Off),
            "serve" => Ok(ServiceMode::Serve),
            "full" => Ok(ServiceMode::Full),
            other => Err(UnknownMode(other.to_owned())),
        }
    }
}

/// The consoles that an administrator trusts: NID patterns, separated by spaces, in the notation of
/// [`NidRanges`]. An empty list names no console.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConsoleList {
    text: String,
    ranges: Option<NidRanges>,
}

impl ConsoleList {
    /// Whether there is no pattern.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_none()
    }

    /// Whether a pattern matches `nid`.
    pub fn matches(&self, nid: &Nid) -> bool {
        self.ranges.as_ref().is_some_and(|ranges| ranges.matches(nid))
    }
}

impl fmt::Display for ConsoleList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for ConsoleList {
    type Err = NidRangeError;

    fn from_str(text: &str) -> Result<ConsoleList, NidRangeError> {
        let ranges: NidRanges = text.parse()?;
        if ranges.ranges().is_empty() {
            return Ok(ConsoleList::default());
        }
        let words: Vec<&str> = text.split_whitespace().collect();
        Ok(ConsoleList { text: words.join(" "), ranges: Some(ranges) })
    }
}

/// The consoles that a node accepts, and what they may do.
///
/// | mode, list | a console on the list | any other console |
/// |---|---|---|
/// | `off` | nothing | nothing |
/// | `serve` or `full`, with a list | everything | no session |
/// | `serve`, no list | - | a session, but no client tests and no take-over |
/// | `full`, no list | - | a session, and client tests, but no take-over |
///
/// A session is changed only by its own console and by those that could take it over [LST-31].
///
/// Test RPCs (PING and BRW) are answered in every mode but `off`: kernel clients send them without
/// a session. A console inside the node itself reaches the service through `0@lo`, an address that
/// no message from the network can have, and is always trusted.
///
/// A console is known by the NID that its connection was opened with, and a session's console also
/// by the other NIDs that its node announces. That proves as much as the network does: anybody who
/// can send from an address on the list is trusted.
///
/// ```
/// use lustrine_selftest::{ServiceMode, ServicePolicy};
///
/// let consoles = "10.0.0.[1-5]@tcp".parse().unwrap();
/// let policy = ServicePolicy { mode: ServiceMode::Serve, consoles };
/// assert!(policy.allows_control(&"10.0.0.3@tcp".parse().unwrap()));
/// assert!(!policy.allows_session(&"10.0.0.9@tcp".parse().unwrap()));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServicePolicy {
    /// What consoles get if there is no list.
    pub mode: ServiceMode,
    /// Consoles that get everything; if it is not empty, other consoles get no session.
    pub consoles: ConsoleList,
}

impl ServicePolicy {
    /// A policy that allows everything to every peer, because its list names them all: for networks
    /// without strangers, such as a simulated one.
    pub fn full() -> ServicePolicy {
        let everyone = "*".parse().expect("the pattern of every NID");
        ServicePolicy { mode: ServiceMode::Full, consoles: everyone }
    }

    /// Whether a console may make a session on this node.
    pub fn allows_session(&self, console: &Nid) -> bool {
        let open = self.consoles.is_empty() || self.consoles.matches(console);
        self.mode != ServiceMode::Off && (console.is_lo() || open)
    }

    /// Whether a console may end the session of another console on this node (`force`): only one on
    /// the list may, and the node's own.
    pub fn allows_force(&self, console: &Nid) -> bool {
        self.mode != ServiceMode::Off && (console.is_lo() || self.consoles.matches(console))
    }

    /// Whether a console may have this node send test RPCs.
    pub fn allows_control(&self, console: &Nid) -> bool {
        let open = self.mode == ServiceMode::Full && self.consoles.is_empty();
        open || self.allows_force(console)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mode_grants_what_its_row_says() {
        let nid = |text: &str| text.parse::<Nid>().unwrap();
        let (listed, stranger) = (nid("10.0.0.5@tcp"), nid("10.0.0.6@tcp"));
        let (own, list) = (Nid::LO, "10.0.0.[1-5]@tcp  10.1.0.1@o2ib");
        let (none, session, driven, all) =
            ([false; 3], [true, false, false], [true, true, false], [true; 3]);
        // Mode, list, then session, control and force of a listed console, a stranger, this node.
        for (mode, list, expected) in [
            ("off", "", [none, none, none]),
            ("off", list, [none, none, none]),
            ("serve", "", [session, session, all]),
            ("serve", list, [all, none, all]),
            ("full", "", [driven, driven, all]),
            ("full", list, [all, none, all]),
        ] {
            let policy =
                ServicePolicy { mode: mode.parse().unwrap(), consoles: list.parse().unwrap() };
            let granted = [listed, stranger, own].map(|nid| {
                [
                    policy.allows_session(&nid),
                    policy.allows_control(&nid),
                    policy.allows_force(&nid),
                ]
            });
            assert_eq!(granted, expected, "{mode} {list:?}");
        }
        assert!(ServicePolicy::full().allows_force(&stranger));
    }

    #[test]
    fn a_list_is_written_as_it_was_read() {
        let list: ConsoleList = " 10.0.0.[1-5]@tcp   10.1.0.1@o2ib ".parse().unwrap();
        assert_eq!(list.to_string(), "10.0.0.[1-5]@tcp 10.1.0.1@o2ib");
        assert_eq!(list.to_string().parse(), Ok(list));
        assert_eq!("  ".parse(), Ok(ConsoleList::default()));
        assert!("10.0.0.[1-5".parse::<ConsoleList>().is_err());
        for mode in [ServiceMode::Off, ServiceMode::Serve, ServiceMode::Full] {
            assert_eq!(mode.to_string().parse(), Ok(mode));
        }
        assert_eq!("Full".parse::<ServiceMode>(), Err(UnknownMode("Full".to_owned())));
    }
}
