//! What `lustrine doctor` prints for people.

use lustrine_doctor::{Carried, DialOutcome, Finding, PeerView};

use super::conversation::Conversation;
use super::sizes::BULK;
use super::{DoctorArgs, Report, peer};

/// What is about to be done, before it begins.
pub(super) fn announcement(args: &DoctorArgs) -> String {
    let will = if args.dry_run { "without --dry-run, for each peer" } else { "for each peer" };
    let remote = match &args.both_ends {
        Some(command) => format!("; the same from there, by `{command} doctor`"),
        None => String::new(),
    };
    format!(
        "{will}: up to {} TCP connections, {} pings of {} bytes, a few full segments both ways, {} \
         KiB of keepalives, about 50 ICMP echoes{remote}; at most {} KiB in all (--budget-bytes) \
         and {} s (--budget-time). Settings of this host and of the peers are not changed",
        peer::HANDSHAKES + usize::from(peer::NETS) + 8,
        peer::PINGS,
        Conversation::PING_BYTES,
        BULK >> 10,
        args.budget_bytes.div_ceil(1 << 10),
        args.budget_time,
    )
}

/// Everything.
pub(super) fn report(report: &Report) -> String {
    let mut text = String::new();
    for peer in &report.observed.peers {
        text += &of_peer(peer);
    }
    for finding in &report.findings {
        text += &of_finding(finding);
    }
    text += &verdict(report);
    if let Some(bundle) = &report.bundle {
        text += &format!("written: {}\n", bundle.display());
    }
    if !report.unseen.is_empty() {
        text += "not seen:\n";
        report.unseen.iter().for_each(|what| text += &format!("  {what}\n"));
    }
    text
}

/// What it means that there are no findings; nothing is known of what was not looked at.
fn verdict(report: &Report) -> String {
    if !report.findings.is_empty() || !report.unreached().is_empty() {
        return String::new();
    }
    let peers = &report.observed.peers;
    // A running node of this host did the pings.
    let is_by_node = |peer: &&PeerView| peer.rtt_ns.is_some() && peer.stream.is_none();
    match report.partly_seen().as_slice() {
        [] if peers.is_empty() => "no problem found at this host\n".to_owned(),
        [] if report.far_end_failed => "no problem found from this end\n".to_owned(),
        [] if peers.iter().any(|peer| is_by_node(&peer)) => {
            "no problem found in the checks that are possible next to a running node\n".to_owned()
        }
        [] => "no problem found\n".to_owned(),
        cut => format!(
            "no problem found in what was looked at, which is not all of {}\n",
            cut.join(", ")
        ),
    }
}

fn of_finding(finding: &Finding) -> String {
    let Finding { code, severity, peer, what, evidence, consequence, remedy, .. } = finding;
    let about = peer.as_ref().map_or_else(|| "this host".to_owned(), String::clone);
    let head = format!("{} {}: {about}: {what}\n", severity.name(), code.name());
    head + &format!("  seen: {evidence}\n  consequence: {consequence}\n  do: {remedy}\n")
}

fn of_peer(peer: &PeerView) -> String {
    let mut facts = Vec::new();
    let hello = peer.dials.iter().find_map(|dial| match dial.outcome {
        DialOutcome::Hello { version, .. } => Some(version),
        _ => None,
    });
    facts.extend(hello.map(|version| format!("HELLO version {version}")));
    facts.extend(peer.rtt_ns.map(|[least, median]| {
        format!("ping {:.3} ms (median {:.3})", least as f64 / 1e6, median as f64 / 1e6)
    }));
    if let Some(stream) = peer.stream {
        let passes = |carried| matches!(carried, Some(Carried::Yes { .. }));
        let headers = stream.options.saturating_add(peer.header_bytes());
        let bytes = |segment: u32| segment.saturating_add(headers);
        if passes(peer.out) {
            facts.push(format!("packets of {} bytes arrive there", bytes(stream.segment_out)));
        }
        if passes(peer.back) {
            facts.push(format!("of {} bytes here", bytes(stream.arrived())));
        }
    }
    if let Some(full) = peer.icmp.as_ref().and_then(|icmp| icmp.full)
        && full.is_answered
    {
        facts.push(format!("packets of {} bytes arrive there", full.bytes));
    }
    if let Some(hops) = peer.icmp.as_ref().and_then(|icmp| icmp.hops_out) {
        facts.push(format!("{hops} hop{}", if hops == 1 { "" } else { "s" }));
    }
    if let Some((difference, off)) = peer.icmp.as_ref().and_then(|icmp| icmp.clock_ms) {
        facts.push(format!("clock {difference:+} ms (+- {off})"));
    }
    if let Some(route) = &peer.route {
        let interface = route.interface.as_deref().unwrap_or("unknown interface");
        facts.push(format!("from {} ({interface})", route.local));
    }
    if facts.is_empty() {
        facts.push("nothing was seen of it".to_owned());
    }
    format!("{}: {}\n", peer.nid, facts.join(", "))
}
