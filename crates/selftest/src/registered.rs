//! How a partition calls what this crate offers: as [`service::Service`]s.

use lustrine_lnet::event::Event;
use lustrine_lnet::service::{self, Turn};
use lustrine_lnet::status::Status;
use lustrine_lnet::time::Time;
use lustrine_wire::nid::ProcessId;

use crate::{Client, ConsoleRpcs, Service};

macro_rules! registered {
    ($($service:ty),*) => {
        $(impl service::Service for $service {
            fn on_event(&mut self, turn: &mut Turn<'_>, event: &Event) {
                self.handle(turn.now, turn.shard, &mut turn.memory, event);
            }

            fn on_peer_down(&mut self, turn: &mut Turn<'_>, peer: &ProcessId, status: Status) {
                self.peer_lost(turn.now, turn.shard, &mut turn.memory, peer, status);
            }

            fn drive(&mut self, turn: &mut Turn<'_>) {
                self.drive(turn.now, turn.shard, &mut turn.memory);
            }

            fn next_deadline(&self) -> Time {
                self.next_deadline()
            }
        })*
    };
}

registered!(Service, Client, ConsoleRpcs);
