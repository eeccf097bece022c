//! `peer_list` and `conn_list`.

use core::fmt::Write;
use core::net::IpAddr;

use lustrine_control::{NetInfo, PeerRow};
use lustrine_wire::nid::Net;

use super::Lctl;
use crate::node::Env;
use crate::shell::Exit;

/// The most lines of `conn_list`: more than the default limit of connections of a node, and few
/// enough for memory.
const LINES_MAX: u64 = 1 << 18;

const STRING: &str = "writing to a String cannot fail";

impl<O: Env> Lctl<'_, O> {
    /// Peers of the selected network, with the port to which this node connects and the number of
    /// connections. The number in brackets, references that keep a peer, is always 0.
    pub(super) fn peer_list(&mut self) -> Result<(), Exit> {
        let (net, nis, peers) = self.peers_of_net()?;
        let port = nis.on(net).next().map_or(0, |ni| ni.port);
        let mut text = String::new();
        for peer in &peers {
            let (id, way) = (id(peer), way(&nis, net, peer));
            writeln!(text, "{id:<20} [0]{way}:{port} #{}", peer.connections_total()).expect(STRING);
        }
        self.env.out(if text.is_empty() { "<no peers>\n" } else { &text });
        Ok(())
    }

    /// A line for each connection: its type and the CPU partition that owns it.
    pub(super) fn conn_list(&mut self) -> Result<(), Exit> {
        let (net, nis, peers) = self.peers_of_net()?;
        let mut text = String::new();
        let (mut left, mut more) = (LINES_MAX, 0);
        for peer in &peers {
            let open = |name: &str| peer.connections.get(name).copied().unwrap_or(0);
            let kinds = [
                ('O', open("BULK_OUT")),
                ('I', open("BULK_IN")),
                ('C', open("CONTROL")),
                ('A', open("ANY")),
            ];
            let (id, cpt, way) = (id(peer), peer.cpt, way(&nis, net, peer));
            for (letter, count) in kinds {
                let shown = left.min(u64::from(count));
                for _ in 0..shown {
                    writeln!(text, "{id:<20} {letter}[{cpt}]{way}").expect(STRING);
                }
                left -= shown;
                more += u64::from(count) - shown;
            }
        }
        self.env.out(if text.is_empty() { "<no connections>\n" } else { &text });
        if more > 0 {
            let noun = if more == 1 { "connection is" } else { "connections are" };
            self.env.err(&format!(
                "{more} more {noun} not listed: {LINES_MAX} lines are the limit; peer_list shows \
                 the number for each peer\n"
            ));
        }
        Ok(())
    }

    fn peers_of_net(&mut self) -> Result<(Net, NetInfo, Vec<PeerRow>), Exit> {
        let net = self.selected()?;
        let nis = self.ask(Env::nis)?;
        let mut peers = self.ask(Env::peers)?;
        peers.retain(|peer| peer.nid.net() == net);
        Ok((net, nis, peers))
    }
}

fn id(peer: &PeerRow) -> String {
    format!("12345-{}", peer.nid)
}

/// The two ends. With several interfaces on a network it is unknown which one is used.
fn way(nis: &NetInfo, net: Net, peer: &PeerRow) -> String {
    let mut ours = nis.on(net);
    let ours = match (ours.next(), ours.next()) {
        (Some(ni), None) => address(ni.nid.ip()),
        _ => "?".to_owned(),
    };
    format!("{ours}->{}", address(peer.nid.ip()))
}

fn address(ip: Option<IpAddr>) -> String {
    match ip {
        Some(IpAddr::V4(ip)) => ip.to_string(),
        Some(IpAddr::V6(ip)) => format!("[{ip}]"),
        None => "?".to_owned(),
    }
}
