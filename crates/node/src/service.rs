//! Services that users of a node register with one of its event loops.

use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, MutexGuard, Weak, mpsc};
use std::time::Duration;

use lustrine_lnet::event::{Event, Stray};
use lustrine_lnet::md::Owner;
use lustrine_lnet::service::{Service, Turn};
use lustrine_lnet::status::Status;
use lustrine_lnet::time::Time;
use lustrine_partition::ServiceHandle;
use lustrine_sys::{Clock, Sender};
use lustrine_wire::nid::{Nid, ProcessId};

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

/// A service that is registered with an event loop, and that other threads can use between the
/// calls of the loop. Dropping it is as with [`RegisteredService`].
pub struct SharedService<S: Service> {
    registered: RegisteredService<Locked<S>>,
    /// The loop owns the service: when that has ended there is none.
    service: Weak<Mutex<S>>,
}

/// A service behind a mutex, which the loop locks for each call.
struct Locked<S>(Arc<Mutex<S>>);

impl<S> Locked<S> {
    /// The service.
    ///
    /// # Panics
    /// When another thread has panicked while it used the service.
    fn lock(&self) -> MutexGuard<'_, S> {
        self.0.lock().expect("no thread has panicked while it used the service")
    }
}

impl<S: Service> Service for Locked<S> {
    fn on_event(&mut self, turn: &mut Turn<'_>, event: &Event) {
        self.lock().on_event(turn, event);
    }

    fn on_peer_down(&mut self, turn: &mut Turn<'_>, peer: &ProcessId, status: Status) {
        self.lock().on_peer_down(turn, peer, status);
    }

    fn drive(&mut self, turn: &mut Turn<'_>) {
        self.lock().drive(turn);
    }

    fn next_deadline(&self) -> Time {
        self.lock().next_deadline()
    }

    fn on_stray(&mut self, turn: &mut Turn<'_>, stray: &Stray) -> bool {
        self.lock().on_stray(turn, stray)
    }

    fn on_unclaimed(&mut self, turn: &mut Turn<'_>, stray: &Stray) {
        self.lock().on_unclaimed(turn, stray);
    }

    fn retire(&mut self, turn: &mut Turn<'_>) {
        self.lock().retire(turn);
    }

    fn is_quiet(&self) -> bool {
        self.lock().is_quiet()
    }
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

    /// Registers a service that other threads can use too, in the same way as
    /// [`NodeHandle::register`].
    ///
    /// # Errors
    /// As [`NodeHandle::register`].
    pub fn register_shared<S: Service>(
        &self,
        nid: &Nid,
        make: impl FnOnce(Owner) -> S + Send + 'static,
    ) -> Result<SharedService<S>, CallError> {
        let (sender, service) = mpsc::channel();
        let registered = self.register(nid, move |owner| {
            let shared = Arc::new(Mutex::new(make(owner)));
            // The receiver waits for the answer of `register`, and then has this.
            let _ = sender.send(Arc::downgrade(&shared));
            Locked(shared)
        })?;
        let service = service.try_recv().map_err(|_| CallError::NotResponding)?;
        Ok(SharedService { registered, service })
    }
}

impl<S: Service> fmt::Debug for SharedService<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SharedService").field(&self.registered).finish()
    }
}

impl<S: Service> SharedService<S> {
    /// Has the event loop call into the service soon; see [`RegisteredService::post`].
    ///
    /// # Errors
    /// As [`RegisteredService::post`].
    pub fn post(
        &self,
        act: impl FnOnce(&mut S, &mut Turn<'_>) + Send + 'static,
    ) -> Result<(), CallError> {
        self.registered.post(move |locked, turn| act(&mut locked.lock(), turn))
    }

    /// Uses the service in this thread, at this moment, between two calls of the event loop. The
    /// loop, which serves other services too, waits meanwhile: it must be short, and must not
    /// cause anything that is due before the loop calls the service again. It must not be used by
    /// the service itself, which would wait for itself.
    ///
    /// None when the loop has ended, or a thread has panicked while it used the service.
    pub fn with<T>(&self, act: impl FnOnce(&mut S, Time) -> T) -> Option<T> {
        let service = self.service.upgrade()?;
        let mut service = service.lock().ok()?;
        Some(act(&mut service, Time(Clock::Monotonic.now())))
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

    #[test]
    fn a_shared_service_is_used_by_other_threads_until_its_loop_ends() {
        let own = Ipv4Addr::new(127, 55, 0, 5);
        let config = NodeConfig {
            nets: vec![NetConfig::new(Net::TCP, InterfaceChoice::Address(IpAddr::V4(own)))],
            identity: IdentityChoice::Userland,
            accept: AcceptPolicy::None,
            ..NodeConfig::default()
        };
        let node = Node::start(&config).expect("it listens nowhere");
        let (said, heard) = mpsc::channel();
        let probe = move |_| Probe { retired: false, quiet: true, said };
        let nid: Nid = "127.55.0.6@tcp".parse().expect("a NID");
        let service = node.register_shared(&nid, probe).expect("the loop answers");
        let (posted, at_post) = mpsc::channel();
        let act = move |probe: &mut Probe, turn: &mut Turn<'_>| {
            let _ = posted.send((probe.retired, turn.now));
        };
        service.post(act).expect("there is room");
        let (retired, at_post) = at_post.recv_timeout(ANSWER_TIMEOUT).expect("the loop calls");
        assert!(!retired);
        // Both have the same clock.
        let used = service.with(|probe, now| (probe.quiet, now)).expect("the loop runs");
        assert!(used.0 && used.1 >= at_post);
        node.stop();
        assert_eq!(heard.recv_timeout(ANSWER_TIMEOUT), Ok("gone"));
        assert_eq!(service.with(|probe, _| probe.quiet), None);
    }
}
