//! Services that are registered with a node from outside.

use core::fmt;

use lustrine_lnet::md::Owner;
use lustrine_lnet::service::{Service, Turn};
use lustrine_partition::ServiceHandle;
use lustrine_wire::nid::Nid;

use super::Node;
use crate::network::{HostId, Network};

/// Names a service of type `S` of a node. The service ends with the node: a node that starts again
/// does not have it.
pub struct NodeService<S> {
    pub(crate) host: HostId,
    /// Of the node, so that a later run of it is not taken for this one.
    incarnation: u64,
    cpt: usize,
    handle: ServiceHandle<S>,
}

impl<S> Clone for NodeService<S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S> Copy for NodeService<S> {}

impl<S> fmt::Debug for NodeService<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("NodeService");
        shown.field("host", &self.host).field("cpt", &self.cpt).field("handle", &self.handle);
        shown.finish()
    }
}

impl Node {
    /// Registers a service with the partition that is the home of a peer.
    pub(crate) fn register<S: Service>(
        &mut self,
        peer: &Nid,
        make: impl FnOnce(Owner) -> S,
    ) -> NodeService<S> {
        let (host, incarnation, cpt) = (self.host, self.spec.incarnation, self.home_index(peer));
        let handle = self.cpts[cpt].stirred().register(make);
        NodeService { host, incarnation, cpt, handle }
    }

    /// Calls into a service with its partition's core and memory at hand. Its loop has a turn
    /// afterwards.
    pub(crate) fn call<S: Service, T>(
        &mut self,
        network: &mut Network,
        service: NodeService<S>,
        act: impl FnOnce(&mut S, &mut Turn<'_>) -> T,
    ) -> Option<T> {
        if (service.host, service.incarnation) != (self.host, self.spec.incarnation) {
            return None;
        }
        let (now, host) = (network.now(), self.host);
        let (partition, mut io) = self.cpts[service.cpt].at_work(host, network);
        partition.call(now, &mut io, service.handle, act)
    }

    /// A service, for inspection; `None` if it is of an earlier run of the node, or of another one.
    pub fn service<S: Service>(&self, service: NodeService<S>) -> Option<&S> {
        if (service.host, service.incarnation) != (self.host, self.spec.incarnation) {
            return None;
        }
        self.cpts[service.cpt].partition.service(service.handle)
    }
}
