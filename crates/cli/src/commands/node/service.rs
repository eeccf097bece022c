//! The node as a service of systemd: it says when it is ready, that its event loops are alive, and
//! that it stops.

use std::time::{Duration, Instant};

use lustrine_node::{Heartbeat, NodeHandle};
use lustrine_sys::{ServiceManager, ServiceState};

/// The service manager, if one has started this node.
pub(super) struct Service {
    manager: Option<ServiceManager>,
    watchdog: Option<Watchdog>,
}

/// What the service manager's watchdog needs.
///
/// The node reports that it is alive only after every event loop has answered, so that a loop that
/// hangs has the whole node restarted.
struct Watchdog {
    /// Half of the service manager's patience.
    interval: Duration,
    /// When the loops are asked next.
    due: Instant,
    asked: Option<Heartbeat>,
}

impl Service {
    /// The service that the environment describes.
    pub(super) fn from_environment() -> Service {
        let manager = match ServiceManager::from_variables(|name| std::env::var_os(name)) {
            Ok(manager) => manager,
            Err(error) => {
                tracing::warn!(%error, "the service manager cannot be notified");
                None
            }
        };
        let patience = manager.as_ref().and_then(ServiceManager::watchdog);
        let watchdog = patience.map(|patience| Watchdog {
            interval: patience / 2,
            due: Instant::now(),
            asked: None,
        });
        Service { manager, watchdog }
    }

    /// Whether a service manager has started this node.
    pub(super) fn is_managed(&self) -> bool {
        self.manager.is_some()
    }

    /// How long the node may sleep between two calls of [`Service::watch`].
    pub(super) fn pace(&self) -> Duration {
        self.watchdog.as_ref().map_or(Duration::MAX, |watchdog| watchdog.interval / 4)
    }

    /// Says that the node answers.
    pub(super) fn ready(&self, node: &NodeHandle) {
        let nids: Vec<String> = node.info().nids.iter().map(ToString::to_string).collect();
        self.notify(ServiceState::Ready(&nids.join(" ")));
    }

    /// Says that the node has begun to stop.
    pub(super) fn stopping(&self) {
        self.notify(ServiceState::Stopping);
    }

    /// Asks the event loops for a heartbeat when it is due, and passes it on.
    pub(super) fn watch(&mut self, now: Instant, node: &NodeHandle) {
        let Some(watchdog) = &mut self.watchdog else { return };
        if watchdog.asked.is_none() && now >= watchdog.due {
            watchdog.asked = Some(node.heartbeat());
            watchdog.due = now + watchdog.interval;
        }
        let Some(heartbeat) = &mut watchdog.asked else { return };
        let silent = heartbeat.silent();
        if silent.is_empty() {
            watchdog.asked = None;
            self.notify(ServiceState::Alive);
        } else if now >= watchdog.due {
            tracing::error!(
                cpts = ?silent,
                "event loops do not answer, so the service manager is not notified that this \
                 node is alive"
            );
            watchdog.due = now + watchdog.interval;
        }
    }

    fn notify(&self, state: ServiceState<'_>) {
        let Some(manager) = &self.manager else { return };
        if let Err(error) = manager.notify(state) {
            tracing::warn!(%error, ?state, "the service manager does not receive a message");
        }
    }
}
