//! The operating system: sockets, epoll, affinity, clock, wake-ups.
//!
//! Thin on purpose: what the simulator cannot reach decides nothing. Each module wraps one service
//! of Linux in safe types with named errors; the layers above decide how to react to an error.
//!
//! `unsafe` appears only where no maintained library offers the call: a few socket options, the
//! error queue of zero-copy sends, the wait with a timeout in nanoseconds, ignoring signals, TUN
//! devices, interfaces, routes, namespaces, and the flags of descriptors that nobody here owns.

pub mod clock;
pub mod cpt;
pub mod cpu_times;
pub mod device;
pub mod files;
pub mod icmp;
pub mod interface_setup;
pub mod interfaces;
pub mod limits;
pub mod listener;
pub mod machine;
pub mod mailbox;
pub mod namespaces;
pub mod poller;
pub mod process;
pub mod route;
pub mod service_manager;
pub mod signals;
pub mod socket;
pub mod tcp_table;
pub mod thread;
pub mod tun;
pub mod waker;

mod number_list;
mod sockopt;
#[cfg(test)]
mod testing;

pub use clock::Clock;
pub use cpt::{CptError, CpuSet};
pub use cpu_times::CpuTimes;
pub use interface_setup::InterfaceSetup;
pub use interfaces::{Interface, InterfaceAddr};
pub use listener::{AcceptError, Accepted, Claim, Listener};
pub use machine::{Machine, NumaNode};
pub use mailbox::{Mailbox, PushError, Sender, mailbox};
pub use poller::{Interest, Poller, Ready};
pub use route::Route;
pub use service_manager::{ServiceManager, ServiceState};
pub use signals::{Pending, Signals};
pub use socket::{
    BufferSizes, ConnectError, IcmpError, IoOutcome, Keepalive, Socket, SocketOptions, SourcePort,
    StreamInfo, ZeroCopyOutcome, privileged_ports_usable,
};
pub use tun::{TUN_DEVICE, Tun};
pub use waker::{Sleeper, Waker};
