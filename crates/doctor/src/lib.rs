//! From what was observed of a host, its node and its peers to findings: what is wrong, the
//! evidence, the consequence, and what to do.
//!
//! It is pure: `lustrine doctor` observes, this crate judges. The same observations always give the
//! same findings, in the same order. What was not observed is `None`, and leads to no finding.
//! Units: bytes for sizes, bits per second for rates, nanoseconds for times; consequences are in
//! MB/s (10^6 bytes per second).
#![forbid(unsafe_code)]

mod code;
mod defects;
mod finding;
mod host;
mod icmp;
mod identity;
mod kernel;
mod observed;
mod path;
mod reach;
mod settings;

pub use code::{Code, Severity};
pub use defects::{Concern, DEFECTS, Defect, Release};
pub use finding::{Finding, Rate};
pub use icmp::{IcmpAnswer, IcmpMessage, IcmpQuestion, hops_of_ttl};
pub use observed::{
    Carried, ConfigView, Dial, DialOutcome, FullEcho, HostView, IcmpView, InterfaceView, NiView,
    NodeView, Observed, PeerCredits, PeerView, PlannedNi, PortHolder, RemoteView, RouteView,
    SilentNode, Source, StreamView, Unread, header_bytes, pings_at_once,
};

/// What is wrong, the worst first; findings of the same severity in the order of [`Code::ALL`].
pub fn diagnose(observed: &Observed) -> Vec<Finding> {
    let mut findings = host::findings(observed);
    for peer in &observed.peers {
        findings.extend(reach::findings(observed, peer));
        findings.extend(path::findings(&observed.host, peer));
        findings.extend(settings::findings(&observed.host, peer));
        findings.extend(identity::findings(observed, peer));
        findings.extend(host::findings_of(peer));
    }
    findings.sort_by_key(|finding| (core::cmp::Reverse(finding.severity), finding.code));
    findings
}

/// The worst severity; `Ok` without findings.
pub fn worst(findings: &[Finding]) -> Severity {
    findings.iter().map(|finding| finding.severity).max().unwrap_or(Severity::Ok)
}

#[cfg(test)]
mod tests;
