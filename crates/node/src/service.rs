//! Services that users of a node register with one of its event loops.

use std::fmt;
use std::marker::PhantomData;
use std::sync::mpsc;
use std::time::Duration;

use lustrine_lnet::md::Owner;
use lustrine_lnet::service::{Service, Turn};
use lustrine_partition::ServiceHandle;
use lustrine_sys::Sender;
use lustrine_wire::nid::Nid;

use crate::error::CallError;
use crate::handle::NodeHandle;
use crate::mailbox::{LoopMessage, Work, home_loop};

/// How long an event loop may take to register a service.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// A service that is registered with an event loop of a node. Dropping it has the service give back
/// what it has of the node, and takes it out then.
pub struct RegisteredService<S: Service> {
    home: Sender<LoopMessage>,
    handle: ServiceHandle<S>,
    service: PhantomData<fn() -> S>,
}

impl NodeHandle {
    /// Registers a service with the event loop that the peer `nid` belongs to. A service that
    /// speaks to peers of other loops needs a node with one partition. `make` is given the owner
    /// of the service's descriptors.
    ///
    /// # Errors
    /// When the node has stopped, or does not answer within 10 seconds.
    pub fn register<S: Service>(
        &self,
        nid: &Nid,
        make: impl FnOnce(Owner) -> S + Send + 'static,
    ) -> Result<RegisteredService<S>, CallError> {
        let home = self.loops[home_loop(nid, self.loops.len())].clone();
        let (reply, registered) = mpsc::channel();
        let work: Work = Box::new(move |_, partition, _| {
            let handle = partition.register(make);
            if reply.send(handle).is_err() {
                // The caller has given up. It has not been called yet, and has nothing.
                drop(partition.unregister(handle));
            }
        });
        home.push(LoopMessage::Work(work)).map_err(|_| CallError::NotResponding)?;
        let handle =
            registered.recv_timeout(ANSWER_TIMEOUT).map_err(|_| CallError::NotResponding)?;
        Ok(RegisteredService { home, handle, service: PhantomData })
    }
}

impl<S: Service> fmt::Debug for RegisteredService<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RegisteredService").field(&self.handle).finish()
    }
}

impl<S: Service> RegisteredService<S> {
    /// Has the event loop call into the service soon, with the core and the memory at hand. The
    /// call must not wait for anything.
    ///
    /// # Errors
    /// When the node has stopped, or its event loop is overloaded.
    pub fn post(
        &self,
        act: impl FnOnce(&mut S, &mut Turn<'_>) + Send + 'static,
    ) -> Result<(), CallError> {
        let handle = self.handle;
        let work: Work = Box::new(move |now, partition, io| {
            partition.call(now, io, handle, act);
        });
        self.home.push(LoopMessage::Work(work)).map_err(|_| CallError::NotResponding)
    }
}

impl<S: Service> Drop for RegisteredService<S> {
    fn drop(&mut self) {
        let handle = self.handle;
        let work: Work = Box::new(move |now, partition, io| partition.retire(now, io, handle));
        // A node that has stopped has no services.
        let _ = self.home.push(LoopMessage::Work(work));
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use lustrine_config::{AcceptPolicy, IdentityChoice, InterfaceChoice, NetConfig, NodeConfig};
    use lustrine_lnet::event::Event;
    use lustrine_lnet::status::Status;
    use lustrine_lnet::time::Time;
    use lustrine_wire::nid::{Net, ProcessId};

    use super::*;
    use crate::node::Node;

    /// It is quiet when it was driven after it was retired.
    struct Probe {
        retired: bool,
        quiet: bool,
        said: mpsc::Sender<&'static str>,
    }

    impl Service for Probe {
        fn on_event(&mut self, _: &mut Turn<'_>, _: &Event) {}

        fn on_peer_down(&mut self, _: &mut Turn<'_>, _: &ProcessId, _: Status) {}

        fn drive(&mut self, _: &mut Turn<'_>) {
            self.quiet |= self.retired;
        }

        fn next_deadline(&self) -> Time {
            if self.retired { Time::ZERO } else { Time::NEVER }
        }

        fn retire(&mut self, _: &mut Turn<'_>) {
            self.retired = true;
            let _ = self.said.send("retired");
        }

        fn is_quiet(&self) -> bool {
            self.quiet
        }
    }

    impl Drop for Probe {
        fn drop(&mut self) {
            assert!(self.quiet, "it is still in use");
            let _ = self.said.send("gone");
        }
    }

    #[test]
    fn a_service_that_is_dropped_gives_back_what_it_has_first() {
        let own = Ipv4Addr::new(127, 55, 0, 3);
        let config = NodeConfig {
            nets: vec![NetConfig::new(Net::TCP, InterfaceChoice::Address(IpAddr::V4(own)))],
            identity: IdentityChoice::Userland,
            accept: AcceptPolicy::None,
            ..NodeConfig::default()
        };
        let node = Node::start(&config).expect("it listens nowhere");
        let (said, heard) = mpsc::channel();
        let probe = move |_| Probe { retired: false, quiet: false, said };
        let nid: Nid = "127.55.0.4@tcp".parse().expect("a NID");
        let service = node.register(&nid, probe).expect("the loop answers");
        drop(service);
        let next = || heard.recv_timeout(ANSWER_TIMEOUT);
        assert_eq!((next(), next()), (Ok("retired"), Ok("gone")));
        node.stop();
    }
}
