//! The RPCs that a console may send.

use std::collections::BTreeSet;

use lustrine_selftest::console::{Command, ConsoleRpc, RpcOutcome, SessionView};
use lustrine_wire::nid::Nid;
use lustrine_wire::srpc::{
    BULK_MAX, Body, CONCURRENCY_MAX, EXTENSIONS_MAGIC, FEATURE_BULK_LEN, FEATURES_KNOWN, Role,
    Service, TestParams, TestRequest,
};

/// Page size of kernel nodes, in bytes.
const PAGE: u32 = 4096;
/// Largest number of destinations that fit a page.
const DESTINATIONS_MAX: u32 = 341;

/// The state of a console, as an observer can derive it.
#[derive(Default)]
pub(super) struct Watch {
    /// The time stamp of its session.
    session: Option<i64>,
    /// All nodes that commands have added to that session.
    known: BTreeSet<Nid>,
    /// The same for commands of earlier sessions.
    coming: BTreeSet<Nid>,
    /// Nodes whose last reply identified them as Lustrine nodes.
    ours: BTreeSet<Nid>,
    /// The same when the last test began.
    ours_of_test: BTreeSet<Nid>,
    /// RPCs up to this number belong to an earlier session: their results are ignored.
    forgotten: u64,
}

impl Watch {
    pub(super) fn command(&mut self, command: &Command) {
        if let Command::AddNodes { nids, .. } = command {
            self.coming.extend(nids);
        }
    }

    /// The session after a step.
    pub(super) fn session_is(&mut self, view: Option<&SessionView>, open: &[ConsoleRpc]) {
        let stamp = view.map(|view| view.stamp);
        if stamp != self.session {
            self.session = stamp;
            self.ours.clear();
            self.ours_of_test.clear();
            self.forgotten = open.iter().map(|order| order.id).max().unwrap_or(self.forgotten);
        }
    }

    pub(super) fn ended(&mut self, order: &ConsoleRpc, outcome: &RpcOutcome) {
        if order.id <= self.forgotten {
            return;
        }
        if let Ok(message) = &outcome.reply
            && let Body::DebugReply(reply) = &message.body
        {
            match reply.batches == EXTENSIONS_MAGIC {
                true => self.ours.insert(order.peer),
                false => self.ours.remove(&order.peer),
            };
        }
    }

    /// New RPCs, and the NIDs of unanswered commands.
    pub(super) fn given(
        &mut self,
        view: Option<&SessionView>,
        fresh: &[ConsoleRpc],
        named: &[Nid],
    ) {
        self.known.extend(&self.coming);
        let begins = |order: &ConsoleRpc| match &order.body {
            Body::TestRequest(request) => request.role == Role::Server,
            _ => false,
        };
        if fresh.iter().any(begins) {
            self.ours_of_test.clone_from(&self.ours);
        }
        for order in fresh {
            let asks = matches!(order.service, Service::Debug | Service::Stat);
            let may = self.known.contains(&order.peer) || asks && named.contains(&order.peer);
            assert!(may, "no command concerns {}: {order:?}", order.peer);
            assert!(!order.peer.is_any() && order.peer.to_short().is_some(), "{order:?}");
            assert_eq!(order.body.message_type(), order.service.request());
            assert!(order.timeout.0 > 0, "{order:?}");
            if let Some(view) = view {
                assert_eq!(order.features, view.features, "{order:?}");
            }
            match &order.body {
                Body::ClientStatsRequest(request) => {
                    assert!(self.ours.contains(&order.peer), "a kernel node would leak: {order:?}");
                    assert!(request.test > 0 && request.room == order.room, "{order:?}");
                }
                Body::TestRequest(request) => self.test(order, request),
                _ => {}
            }
        }
    }

    fn test(&self, order: &ConsoleRpc, request: &TestRequest) {
        assert_eq!(order.features & !FEATURES_KNOWN, 0, "{order:?}");
        assert!((1..=CONCURRENCY_MAX).contains(&request.concurrency), "{order:?}");
        assert_ne!(request.loops, 0, "{order:?}");
        assert!(request.destinations <= DESTINATIONS_MAX, "{order:?}");
        assert_eq!(order.list.len() as u32, request.destinations, "{order:?}");
        assert_eq!(request.role == Role::Client, request.destinations > 0, "{order:?}");
        let to_ours = self.ours_of_test.contains(&order.peer);
        assert!(request.rate == 0 || request.role == Role::Client && to_ours, "{order:?}");
        match request.params {
            TestParams::BrwV0 { rw, pages, check } => {
                assert_eq!(order.features & FEATURE_BULK_LEN, 0, "{order:?}");
                assert!((1..=2).contains(&rw) && (1..=3).contains(&check), "{order:?}");
                assert!((1..=BULK_MAX / PAGE).contains(&pages), "{order:?}");
            }
            TestParams::BrwV1 { rw, check, len, offset } => {
                assert_ne!(order.features & FEATURE_BULK_LEN, 0, "{order:?}");
                assert!((1..=2).contains(&rw) && (1..=3).contains(&check), "{order:?}");
                assert!((1..=BULK_MAX).contains(&len) && len % 8 == 0, "{order:?}");
                assert!(offset % 8 == 0 && offset < PAGE, "{order:?}");
                assert!((offset + len).div_ceil(PAGE) <= len.div_ceil(PAGE), "{order:?}");
            }
            TestParams::Ping { .. } => assert_eq!(request.service, Service::Ping.id()),
            TestParams::Unknown(_) => panic!("no test: {order:?}"),
        }
    }

    /// At most one RPC of a command to each node, and one keepalive.
    pub(super) fn bounded(&self, open: &[ConsoleRpc]) {
        let mut live: Vec<Nid> = Vec::new();
        live.extend(open.iter().filter(|order| order.id > self.forgotten).map(|order| order.peer));
        live.sort_unstable();
        let crowded = live.windows(3).find(|three| three[0] == three[2]);
        assert_eq!(crowded, None, "three orders at once for one node");
    }
}
