//! Two cores with their drivers over pipes.

use lustrine_lnet::event::EventKind;
use lustrine_lnet::lnd::NiIndex;
use lustrine_lnet::md::MdOptions;
use lustrine_lnet::memory::VecMemory;
use lustrine_lnet::memory::{Memory, Span};
use lustrine_lnet::shard::{AckWanted, Shard};
use lustrine_lnet::topology::Identity;
use lustrine_lnet_testing::test_topology;
use lustrine_partition::tunables::Tunables;
use lustrine_socklnd::{Accept, Config, NiConfig, Socklnd};
use lustrine_wire::nid::ProcessId;

use crate::core::{BYTES, NOW, PORTAL, entry, md, put_args};
use crate::pipe::{PipeIo, Pipes, nid};

/// PUTs in flight at once: LNet's credits towards one peer.
const BATCH: u64 = 8;

/// The configuration of a driver of `host`.
pub(crate) fn config(host: usize, tunables: &Tunables) -> Config {
    let ni = NiConfig {
        nid: nid(host),
        local_ip: nid(host).ip(),
        port: 988,
        port_bulk: 988,
        conns_per_peer: 1,
        incarnation: 0x1700 + host as u64,
    };
    Config {
        nis: vec![ni],
        identity: Identity::Node,
        accept: Accept::Secure,
        tunables: tunables.socklnd.clone(),
        lnet_tunables: tunables.lnet.clone(),
        cpt: 0,
        cpts: 1,
        seed: host as u64,
    }
}

struct Host {
    shard: Shard,
    driver: Socklnd,
    memory: VecMemory,
    buffer: Span,
}

impl Host {
    fn new(host: usize, tunables: &Tunables) -> Host {
        let mut memory = VecMemory::default();
        let topology = test_topology(nid(host), Identity::Node, tunables.lnet.clone());
        let mut shard = Shard::new(topology, &mut memory);
        let buffer = memory.alloc(BYTES).expect("no limit");
        let options = MdOptions::OP_PUT | MdOptions::MANAGE_REMOTE;
        let target = md(buffer, None, options);
        shard.attach(NOW, PORTAL, entry(), target).expect("a free portal");
        Host { shard, driver: Socklnd::new(config(host, tunables)), memory, buffer }
    }

    /// One turn of its loop. Returns whether there was anything to do.
    fn turn(&mut self, host: usize, pipes: &mut Pipes) -> bool {
        let mut busy = false;
        while let Some(incoming) = pipes.incoming[host].pop_front() {
            busy = true;
            let mut io = PipeIo { host, pipes, memory: &mut self.memory };
            let (local, remote) = (incoming.local, incoming.remote);
            self.driver.accepted(NOW, &mut io, incoming.sock, NiIndex(0), local, remote);
        }
        while let Some((sock, readiness)) = pipes.next_report(host) {
            busy = true;
            let mut io = PipeIo { host, pipes, memory: &mut self.memory };
            self.driver.ready(NOW, &mut self.shard, &mut io, sock, readiness);
        }
        let mut io = PipeIo { host, pipes, memory: &mut self.memory };
        self.driver.flush(NOW, &mut self.shard, &mut io);
        self.shard.drive(NOW, &mut io);
        while let Some(action) = self.shard.next_action() {
            busy = true;
            self.driver.submit(NOW, &mut self.shard, &mut io, &action);
        }
        self.driver.flush(NOW, &mut self.shard, &mut io);
        busy || self.driver.has_work()
    }
}

pub(crate) fn put(tunables: &Tunables, count: u64) {
    let mut hosts = [Host::new(0, tunables), Host::new(1, tunables)];
    let mut pipes = Pipes::default();
    // The first batch opens the connections.
    for _ in 0..=count.div_ceil(BATCH) {
        let Host { shard, buffer, .. } = &mut hosts[0];
        for _ in 0..BATCH {
            let bound = shard.bind(md(*buffer, Some(1), MdOptions::empty())).expect("short");
            let target = ProcessId::lustre(nid(1));
            shard.put(NOW, put_args(bound, target, AckWanted::No)).expect("room");
        }
        while hosts[0].turn(0, &mut pipes) | hosts[1].turn(1, &mut pipes) {}
        for _ in 0..BATCH {
            let sent = hosts[0].shard.next_event().map(|event| event.kind);
            let stored = hosts[1].shard.next_event().map(|event| event.kind);
            assert_eq!((sent, stored), (Some(EventKind::Send), Some(EventKind::Put)));
        }
    }
}
