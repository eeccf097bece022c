//! Hosts: addresses, listeners, ports, and the queues of their reports.

use core::net::{IpAddr, SocketAddr};
use std::collections::VecDeque;

use lustrine_lnet::time::Nanos;
use lustrine_socklnd::io::{IoError, Readiness, SockId, SourcePort};

use super::end::{Connection, End, Packet, State};
use super::event_queue::NetworkEvent;
use super::{NO_SUCH_HOST, Network, Report, SYN_AGAIN, SYN_RETRIES, other, pair, place, sock_of};
use crate::event_log::EventKind;
use crate::host_id::HostId;
use crate::tcp::TcpSpec;

/// A stream that arrived at a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Incoming {
    /// The end.
    pub sock: SockId,
    /// The listener's address.
    pub local: SocketAddr,
    /// The remote address of the dialler.
    pub remote: SocketAddr,
}

#[derive(Debug)]
pub(super) struct Host {
    pub(super) addresses: Vec<IpAddr>,
    /// Whether it may bind ports below 1024.
    pub(super) privileged: bool,
    pub(super) up: bool,
    pub(super) ready: VecDeque<SockId>,
    pub(super) incoming: VecDeque<Incoming>,
    pub(super) tcp: TcpSpec,
    next_port: u16,
    dirty: bool,
}

/// Ephemeral ports, as in Linux.
const ANY_PORT_MIN: u16 = 32_768;
const ANY_PORT_MAX: u16 = 60_999;

impl Network {
    /// Adds a host; `privileged` ones may bind ports below 1024.
    ///
    /// # Panics
    /// When another host has one of the addresses.
    pub(crate) fn add_host(&mut self, addresses: &[IpAddr], privileged: bool) -> HostId {
        let host = HostId(self.hosts.len() as u32);
        for address in addresses {
            assert!(self.homes.insert(*address, host).is_none(), "{address} is taken");
        }
        self.hosts.push(Host {
            addresses: addresses.to_vec(),
            privileged,
            up: true,
            ready: VecDeque::new(),
            incoming: VecDeque::new(),
            tcp: TcpSpec::default(),
            next_port: ANY_PORT_MIN,
            dirty: false,
        });
        host
    }

    fn home_of(&self, address: IpAddr) -> Option<HostId> {
        self.homes.get(&address).copied()
    }

    /// Accepts streams at an address from now on.
    pub(crate) fn listen(&mut self, host: HostId, address: SocketAddr) {
        self.listeners.insert(address, host);
    }

    /// Refuses streams at an address from now on.
    pub(crate) fn unlisten(&mut self, address: SocketAddr) {
        self.listeners.remove(&address);
    }

    /// Marks a host that has pending reports.
    pub(super) fn touch(&mut self, host: HostId) {
        if !core::mem::replace(&mut self.hosts[host.0 as usize].dirty, true) {
            self.dirty.push_back(host);
        }
    }

    /// The next host that has pending reports.
    pub(crate) fn take_dirty(&mut self) -> Option<HostId> {
        let host = self.dirty.pop_front()?;
        self.hosts[host.0 as usize].dirty = false;
        Some(host)
    }

    /// The next stream that arrived at a listener of a host.
    pub(crate) fn next_incoming(&mut self, host: HostId) -> Option<Incoming> {
        self.hosts[host.0 as usize].incoming.pop_front()
    }

    /// The next report about a stream of a host.
    pub(crate) fn next_report(&mut self, host: HostId) -> Option<(SockId, Report)> {
        loop {
            let sock = self.hosts[host.0 as usize].ready.pop_front()?;
            let Some(end) = self.end_mut(sock) else { continue };
            end.listed = false;
            let readiness = core::mem::take(&mut end.pending);
            let returned = core::mem::take(&mut end.returned);
            if end.state != State::Closed {
                return Some((sock, Report { readiness, returned }));
            }
        }
    }

    /// Opens a stream to `remote`.
    ///
    /// # Errors
    /// When it fails immediately.
    pub(crate) fn connect(
        &mut self,
        host: HostId,
        local: Option<IpAddr>,
        source: SourcePort,
        remote: SocketAddr,
    ) -> Result<SockId, IoError> {
        let own = &self.hosts[host.0 as usize];
        if source == SourcePort::Privileged && !own.privileged {
            return Err(IoError::NoPrivilege);
        }
        let family = |address: &&IpAddr| address.is_ipv4() == remote.is_ipv4();
        let local = local.or_else(|| own.addresses.iter().find(family).copied());
        let local = local.ok_or(IoError::Unreachable)?;
        let port = match source {
            SourcePort::Privileged => self.privileged_port(local, remote),
            SourcePort::Any => self.any_port(host, local, remote),
        };
        let local = SocketAddr::new(local, port.ok_or(IoError::Exhausted)?);
        Ok(self.dial_from(host, local, remote))
    }

    /// Dials from an address that the caller chooses.
    pub(crate) fn dial_from(
        &mut self,
        host: HostId,
        local: SocketAddr,
        remote: SocketAddr,
    ) -> SockId {
        let connection = self.next_connection;
        self.next_connection += 1;
        self.dialled.insert((local, remote));
        let near = End::new(host, local, remote, State::Dialling);
        // The other end has no owner before the request arrives there.
        let far = End::new(host, remote, local, State::Closed);
        self.connections.insert(connection, Connection { ends: [near, far] });
        let sock = sock_of(connection, 0);
        self.note(host, sock, EventKind::Dialled, u64::from(remote.port()));
        let target = self.home_of(remote.ip()).unwrap_or(host);
        let at = self.now + self.delay(host, target, connection);
        self.event_queue.add(at, NetworkEvent::Syn { connection, repeated: 0 });
        sock
    }

    /// From 1023 downwards to 512, skipping ports that are in use towards the same target.
    fn privileged_port(&self, local: IpAddr, remote: SocketAddr) -> Option<u16> {
        (512..=1023)
            .rev()
            .find(|port| !self.dialled.contains(&(SocketAddr::new(local, *port), remote)))
    }

    fn any_port(&mut self, host: HostId, local: IpAddr, remote: SocketAddr) -> Option<u16> {
        for _ in ANY_PORT_MIN..=ANY_PORT_MAX {
            let own = &mut self.hosts[host.0 as usize];
            let port = own.next_port;
            own.next_port = if port == ANY_PORT_MAX { ANY_PORT_MIN } else { port + 1 };
            if !self.dialled.contains(&(SocketAddr::new(local, port), remote)) {
                return Some(port);
            }
        }
        None
    }

    /// A connection request arrives, if its path is not cut.
    pub(super) fn syn(&mut self, connection: u64, repeated: u32) {
        let Some(found) = self.connections.get_mut(&connection) else { return };
        let near = sock_of(connection, 0);
        let dialler = &found.ends[0];
        let (from, local, remote) = (dialler.host, dialler.local, dialler.remote);
        if dialler.state == State::Closed {
            return self.forget_if_over(connection);
        }
        if repeated > SYN_RETRIES {
            return self.fail_dial(near, IoError::TimedOut, Nanos(0));
        }
        let Some(home) = self.home_of(remote.ip()) else {
            return self.fail_dial(near, IoError::HostUnreachable, NO_SUCH_HOST);
        };
        if self.is_carried(from, home) && self.fabric.hops(from, home, connection).is_none() {
            return self.fail_dial(near, IoError::HostUnreachable, NO_SUCH_HOST);
        }
        if self.is_cut(from, home, connection) || self.deaf.contains(&(from, home)) {
            let again = self.now + Nanos(SYN_AGAIN.0 << repeated);
            let syn = NetworkEvent::Syn { connection, repeated: repeated + 1 };
            return self.event_queue.add(again, syn);
        }
        if !self.hosts[home.0 as usize].up {
            return self.fail_dial(near, IoError::HostUnreachable, NO_SUCH_HOST);
        }
        let found = self.connections.get_mut(&connection).expect("it was just there");
        found.ends[1].host = home;
        let Some(host) = self.listeners.get(&remote).copied() else {
            return self.ship(near, Packet::Failed(IoError::Refused));
        };
        let far = sock_of(connection, 1);
        found.ends[1].state = State::Open;
        self.open_flows(connection);
        self.note(host, far, EventKind::Arrived, u64::from(local.port()));
        let incoming = Incoming { sock: far, local: remote, remote: local };
        self.hosts[host.0 as usize].incoming.push_back(incoming);
        self.touch(host);
        self.ship(near, Packet::Established);
    }

    fn fail_dial(&mut self, sock: SockId, error: IoError, after: Nanos) {
        let end = self.end_mut(sock).expect("the dialler's end");
        end.flight.push_back(Packet::Failed(error));
        self.event_queue.add(self.now + after, NetworkEvent::Deliver(sock));
    }

    /// The partition that owns an end.
    pub(crate) fn cpt_of(&self, sock: SockId) -> u16 {
        self.end(sock).map_or(0, |end| end.cpt)
    }

    /// Assigns an end to this partition of its host.
    pub(crate) fn give_to(&mut self, sock: SockId, cpt: u16) {
        if let Some(end) = self.end_mut(sock) {
            end.cpt = cpt;
        }
    }

    /// Reports to the owner of an end everything that it could have missed.
    pub(crate) fn tell_again(&mut self, sock: SockId) {
        let Some(end) = self.end(sock) else { return };
        let hangup = end.ended || end.error.is_some();
        self.raise(
            sock,
            Readiness {
                readable: true,
                writable: true,
                hangup,
                zero_copy_done: 0,
                zero_copy_copied: 0,
            },
        );
    }

    /// The result of a dial: whether the stream is open.
    pub(crate) fn connected(&self, sock: SockId) -> Result<(), IoError> {
        match self.end(sock) {
            Some(End { error: Some(error), .. }) => Err(*error),
            Some(End { state: State::Open, .. }) => Ok(()),
            _ => Err(IoError::Other),
        }
    }

    /// Whether the other side of a stream still has it, so that it would acknowledge a segment.
    pub(crate) fn responds(&self, sock: SockId) -> bool {
        let sound = |end: &End| end.error.is_none() && !end.lost && end.held == 0;
        self.end(sock).is_some_and(sound)
            && self.end(other(sock)).is_some_and(|far| sound(far) && far.state == State::Open)
    }

    /// Bytes written to a stream that its other side has not acknowledged.
    pub(crate) fn unacknowledged(&self, sock: SockId) -> u64 {
        let flow = self.end(sock).and_then(|end| end.flow.as_ref());
        flow.map_or(0, |flow| flow.unacknowledged())
    }

    /// All ends that a host owns, in the order of their creation.
    pub fn streams_of(&self, host: HostId) -> Vec<SockId> {
        let mut found: Vec<SockId> = self
            .connections
            .iter()
            .flat_map(|(number, connection)| {
                let ends = connection.ends.iter().enumerate();
                ends.map(|(side, end)| (sock_of(*number, side), end))
            })
            .filter(|(_, end)| end.host == host && end.state != State::Closed)
            .map(|(sock, _)| sock)
            .collect();
        found.sort();
        found
    }

    /// Local and remote address of an end.
    pub fn addresses(&self, sock: SockId) -> Option<(SocketAddr, SocketAddr)> {
        self.end(sock).map(|end| (end.local, end.remote))
    }

    /// The number of connections that are remembered.
    pub fn connections(&self) -> usize {
        self.connections.len()
    }

    pub(super) fn is_between(&self, sock: SockId, hosts: (HostId, HostId)) -> bool {
        let (connection, _) = place(sock);
        self.connections
            .get(&connection)
            .is_some_and(|found| pair(found.ends[0].host, found.ends[1].host) == hosts)
    }
}
