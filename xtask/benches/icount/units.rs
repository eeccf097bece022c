//! Two whole nodes over pipes; one makes the other load it, as consoles do.

use lustrine_lnet::time::Nanos;
use lustrine_partition::tunables::Tunables;
use lustrine_selftest::console::{ConsoleRpc, RpcOutcome};
use lustrine_wire::nid::PID_LUSTRE;
use lustrine_wire::srpc::{
    BatchOp, BatchRequest, Body, BrwCheck, BrwOp, Destination, FEATURES_KNOWN, MakeSessionRequest,
    Name, Role, Service, Sid, TestParams, TestRequest,
};

use crate::core::NOW;
use crate::node::Node;
use crate::pipe::{Pipes, nid};

/// RPCs in flight.
const CONCURRENCY: u32 = 64;

/// Turns of both nodes per RPC after which the workload is considered stuck.
const TURNS_MAX: u64 = 10_000;

/// Turns between two checks whether the load is over.
const LOOK: u64 = 512;

const BATCH: u64 = 2;

/// The console's node makes the first one load it.
struct Pair {
    nodes: [Node; 2],
    pipes: Pipes,
    turns: u64,
    orders: u64,
}

impl Pair {
    fn turn(&mut self) {
        self.turns += 1;
        let now = NOW + Nanos(1000 * self.turns);
        for host in 0..2 {
            self.nodes[host].turn(host, &mut self.pipes, now);
        }
    }

    /// Sends a request to the first node, and waits for its answer.
    fn ask(&mut self, service: Service, body: Body, list: Vec<Destination>) -> Body {
        self.orders += 1;
        let order = ConsoleRpc {
            id: self.orders,
            peer: nid(0),
            service,
            features: FEATURES_KNOWN,
            body,
            list,
            room: 0,
            timeout: Nanos::from_secs(30),
        };
        self.nodes[1].partition.start_console_rpc(order);
        for _ in 0..TURNS_MAX {
            self.turn();
            if let Some(RpcOutcome { reply, .. }) = self.nodes[1].partition.next_rpc_outcome() {
                return reply.expect("it answers").body;
            }
        }
        panic!("no answer to {service:?}");
    }

    fn batch(&mut self, op: BatchOp) -> u32 {
        let (reply_bits, sid, batch, test, arg) = (0, sid(), BATCH, 0, 0);
        let request = BatchRequest { reply_bits, sid, batch, op: op as u32, test, arg };
        match self.ask(Service::Batch, Body::BatchRequest(request), Vec::new()) {
            Body::BatchReply(reply) if reply.status == 0 => reply.active,
            other => panic!("{other:?}"),
        }
    }
}

fn sid() -> Sid {
    Sid { nid: nid(1).to_short().expect("a short NID"), stamp: 1 }
}

fn load(tunables: &Tunables, service: Service, params: TestParams, count: u64) {
    let mut pipes = Pipes::default();
    let nodes = [Node::new(0, tunables, &mut pipes), Node::new(1, tunables, &mut pipes)];
    let mut pair = Pair { nodes, pipes, turns: 0, orders: 0 };
    let name = Name::new("icount").expect("a short name");
    let make = MakeSessionRequest { reply_bits: 0, sid: sid(), force: 0, name };
    pair.ask(Service::MakeSession, Body::MakeSessionRequest(make), Vec::new());
    let test = TestRequest {
        reply_bits: 0,
        bulk_bits: 0,
        sid: sid(),
        batch: BATCH,
        service: service.id(),
        loops: count.div_ceil(u64::from(CONCURRENCY)) as i32,
        concurrency: CONCURRENCY,
        role: Role::Client,
        stop_on_error: 1,
        destinations: 1,
        params,
        rate: 0,
    };
    let to = Destination { nid: sid().nid, pid: PID_LUSTRE };
    match pair.ask(Service::Test, Body::TestRequest(test), vec![to]) {
        Body::TestReply(reply) if reply.status == 0 => {}
        other => panic!("{other:?}"),
    }
    pair.batch(BatchOp::Run);
    for _ in 0..TURNS_MAX * count / LOOK {
        for _ in 0..LOOK {
            pair.turn();
        }
        if pair.batch(BatchOp::Query) == 0 {
            return;
        }
    }
    panic!("the load never ends");
}

pub(crate) fn ping(tunables: &Tunables, count: u64) {
    load(tunables, Service::Ping, TestParams::Ping { size: 0, flags: 0, unused: [0; 4] }, count);
}

pub(crate) fn read_4k(tunables: &Tunables, count: u64) {
    let (rw, check) = (BrwOp::Read as u16, BrwCheck::None as u16);
    load(tunables, Service::Brw, TestParams::BrwV1 { rw, check, len: 4096, offset: 0 }, count);
}
