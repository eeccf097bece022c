//! One side of a measurement: a driver on real sockets, and a layer on it.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use lustrine_lnet::lnd::{NiIndex, PollOutcome};
use lustrine_lnet::time::Time;
use lustrine_lnet::topology::Identity;
use lustrine_mem::Arena;
use lustrine_node::idle::{IdlePolicy, LOOK_INTERVAL, Wait};
use lustrine_node::loop_io::{LoopIo, OTHER_TOKEN};
use lustrine_partition::tunables::Tunables;
use lustrine_socklnd::{Accept, Config, NiConfig, Socklnd};
use lustrine_sys::socket::privileged_ports_usable;
use lustrine_sys::{Clock, Interest, Listener, Poller, Ready, SocketOptions};
use lustrine_wire::nid::{Net, Nid};

use crate::layer::{Buffers, Layer};

/// More memory than the buffers of any layer.
const MEMORY: u64 = 512 << 20;

/// Longest wait: the other side may have ended without a report.
const POLL_MAX: Duration = Duration::from_millis(100);

/// The messages of a measurement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// Largest number of messages in flight.
    pub(crate) slots: u32,
    /// Bytes of each message sent, and of each received.
    pub(crate) send: u32,
    pub(crate) recv: u32,
}

/// Driver, layer, sockets.
pub(crate) struct Rig<L> {
    io: LoopIo,
    driver: Socklnd,
    pub(crate) layer: L,
    listener: Listener,
    local: SocketAddr,
    waiting: IdlePolicy,
    looked_at: Time,
    ready: Vec<Ready>,
}

pub(crate) fn now() -> Time {
    Time(Clock::Monotonic.now())
}

pub(crate) fn nid(ip: Ipv4Addr) -> Nid {
    Nid::from_ip(Net::TCP, IpAddr::V4(ip))
}

impl<L: Layer> Rig<L> {
    pub(crate) fn new(ip: Ipv4Addr, port: u16, shape: Shape) -> io::Result<Rig<L>> {
        let options = SocketOptions { nodelay: true, ..SocketOptions::default() };
        let mut io = LoopIo::new(Poller::new(64)?, Arena::new(MEMORY), options.clone());
        let local = SocketAddr::new(ip.into(), port);
        let listener = Listener::bind(local, 64, options)?;
        io.poller.add(&listener, OTHER_TOKEN, Interest::Readable)?;
        let tunables = Tunables::default();
        let waiting = IdlePolicy::new(tunables.loops.spin_us);
        let privileged = privileged_ports_usable(Some(ip.into()))?;
        let identity = if privileged { Identity::Node } else { Identity::Userland };
        let driver = Socklnd::new(Config {
            nis: vec![NiConfig {
                nid: nid(ip),
                local_ip: Some(ip.into()),
                port,
                port_bulk: port,
                conns_per_peer: 1,
                incarnation: Clock::Wall.now(),
            }],
            identity,
            accept: Accept::All,
            tunables: tunables.socklnd,
            lnet_tunables: tunables.lnet,
            cpt: 0,
            cpts: 1,
            seed: 1,
        });
        let buffers = Buffers::new(&mut io, shape.slots, shape.send, shape.recv);
        let layer = L::new(nid(ip), identity, buffers, &mut io);
        let ready = Vec::with_capacity(64);
        Ok(Rig { io, driver, layer, listener, local, waiting, looked_at: Time::ZERO, ready })
    }

    /// Waits for reports with the wait policy of an event loop, and processes them.
    pub(crate) fn turn(&mut self) -> io::Result<()> {
        self.ready.clear();
        let now = self.wait()?;
        let ready = std::mem::take(&mut self.ready);
        for report in &ready {
            if report.token == OTHER_TOKEN {
                self.accept(now)?;
            } else if let Some((sock, readiness)) = self.io.readiness(report) {
                self.driver.ready(now, self.layer.core(), &mut self.io, sock, readiness);
            }
        }
        self.ready = ready;
        self.work(now);
        while let Some((sock, readiness)) = self.io.next_copied() {
            self.driver.ready(now, self.layer.core(), &mut self.io, sock, readiness);
        }
        Ok(())
    }

    /// Reads, lets the layer work, writes.
    pub(crate) fn work(&mut self, now: Time) {
        if now >= self.driver.next_deadline() {
            self.driver.tick(now, self.layer.core(), &mut self.io);
        }
        self.driver.flush(now, self.layer.core(), &mut self.io);
        self.layer.drive(now, &mut self.io);
    }

    /// Submits what the layer wants to send, and writes it.
    pub(crate) fn push_out(&mut self, now: Time) {
        let Some(first) = self.layer.next_action() else { return };
        // As a partition does: the only message leaves at once.
        let mut next = self.layer.next_action();
        if next.is_none() {
            self.driver.submit_alone(now, self.layer.core(), &mut self.io, &first);
        } else {
            self.driver.submit(now, self.layer.core(), &mut self.io, &first);
        }
        while let Some(action) = next.take().or_else(|| self.layer.next_action()) {
            self.driver.submit(now, self.layer.core(), &mut self.io, &action);
        }
        self.driver.flush(now, self.layer.core(), &mut self.io);
        self.layer.drive(now, &mut self.io);
    }

    /// Waits as the loop of a node does.
    fn wait(&mut self) -> io::Result<Time> {
        if self.driver.has_work() {
            self.waiting.found();
            return self.look(Duration::ZERO);
        }
        let deadline = self.driver.next_deadline().min(self.layer.next_deadline());
        let mut now = now();
        while now < deadline {
            match self.waiting.next(now) {
                Wait::Look => {}
                Wait::Yield => {
                    std::thread::yield_now();
                    let start = std::mem::replace(&mut now, self::now());
                    self.waiting.yielded(start, now);
                }
                Wait::Sleep => {
                    let limit = Duration::from_nanos(deadline.since(now).0).min(POLL_MAX);
                    now = self.look(limit)?;
                    break;
                }
            }
            let polled = if now.since(self.looked_at) < LOOK_INTERVAL {
                self.driver.poll(now, self.layer.core(), &mut self.io)
            } else {
                PollOutcome::NotPolled
            };
            now = match polled {
                PollOutcome::Found => break,
                PollOutcome::Nothing => self::now(),
                PollOutcome::NotPolled => self.look(Duration::ZERO)?,
            };
            if !self.ready.is_empty() {
                break;
            }
        }
        self.waiting.found();
        Ok(now)
    }

    fn look(&mut self, limit: Duration) -> io::Result<Time> {
        self.io.wait(Some(limit), &mut self.ready)?;
        self.looked_at = now();
        Ok(self.looked_at)
    }

    fn accept(&mut self, now: Time) -> io::Result<()> {
        while let Some(accepted) = self.listener.accept().map_err(io::Error::other)? {
            let sock = self.io.adopt(accepted.socket)?;
            let ends = (self.local, accepted.peer);
            self.driver.accepted(now, &mut self.io, sock, NiIndex(0), ends.0, ends.1);
        }
        Ok(())
    }
}
