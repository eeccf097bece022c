//! The thread of a host: it makes the host's network namespace, with its interfaces and routes,
//! and holds it until the process ends.

use std::fs::{self, File};
use std::io;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

use lustrine_lab::{Interface, Route, Sysctl};
use lustrine_sys::namespaces::{self, Namespace, View};
use lustrine_sys::{InterfaceSetup, Tun};

use crate::LabError;

/// Packets that may wait for the link's thread to read them: while it runs, none wait for long.
const QUEUE_PACKETS: u32 = 10_000;

/// Settings of every host: it forwards packets, also of those whose answers take another way, and
/// has no IPv6, whose addresses and routes are not set up here.
const SETTINGS: [(&str, &str); 5] = [
    ("net/ipv4/ip_forward", "1"),
    ("net/ipv4/conf/all/rp_filter", "0"),
    ("net/ipv4/conf/default/rp_filter", "0"),
    ("net/ipv6/conf/all/disable_ipv6", "1"),
    ("net/ipv6/conf/default/disable_ipv6", "1"),
];

/// What a host is to become.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) name: String,
    pub(crate) sysctl: Vec<Sysctl>,
    pub(crate) interfaces: Vec<Interface>,
    pub(crate) routes: Vec<Route>,
}

/// A host that was made.
#[derive(Debug)]
pub(crate) struct Made {
    pub(crate) thread: i32,
    /// The device of each interface.
    pub(crate) devices: Vec<Tun>,
    pub(crate) notes: Vec<String>,
}

/// A host that is held.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) made: Made,
    /// Its end ends the thread.
    pub(crate) _hold: Sender<()>,
}

/// Makes a host. `mounts` are those of the laboratory.
///
/// # Errors
/// What could not be done.
pub(crate) fn start(plan: Plan, mounts: File) -> Result<Held, LabError> {
    let (hold, held) = mpsc::channel();
    let (answer, answered) = mpsc::sync_channel(1);
    let spawned = thread::Builder::new().name("host".to_owned()).spawn(move || {
        let made = make(&plan, &mounts);
        drop(mounts);
        let good = made.is_ok();
        if answer.send(made).is_ok() && good {
            wait(&held);
        }
    });
    spawned.map_err(LabError::step("start the thread of a host"))?;
    let made = answered.recv().expect("the thread answers before it ends")?;
    Ok(Held { made, _hold: hold })
}

fn wait(held: &Receiver<()>) {
    // Nothing is sent: this ends when the other side is dropped.
    let _ = held.recv();
}

fn make(plan: &Plan, mounts: &File) -> Result<Made, LabError> {
    let mut notes = Vec::new();
    let failed = |step: &str, hint: &'static str| {
        let (host, step) = (plan.name.clone(), step.to_owned());
        move |error| LabError::Host { host, step, error, hint }
    };
    const ROOT: &str = "; this needs root, or user namespaces";
    namespaces::own_directory().map_err(failed("separate the thread of the host", ""))?;
    namespaces::enter(mounts, Namespace::Mounts)
        .map_err(failed("enter the mounts of the laboratory", ""))?;
    namespaces::leave(&[Namespace::Network, Namespace::Mounts])
        .map_err(failed("make a network namespace", ROOT))?;
    if let Err(error) = namespaces::mount_view(View::Devices) {
        notes.push(format!(
            "host {}: /sys shows the interfaces of this machine: {error}",
            plan.name
        ));
    }
    for (name, value) in SETTINGS {
        // A kernel without IPv6 has no settings of it.
        match set(name, value) {
            Err(error) if !(error.kind() == io::ErrorKind::NotFound && name.contains("ipv6")) => {
                return Err(failed(&format!("set {name} to {value}"), "")(error));
            }
            _ => {}
        }
    }
    let setup = InterfaceSetup::new().map_err(failed("open a socket", ""))?;
    setup.up("lo").map_err(failed("switch on the interface lo", ""))?;
    let mut devices = Vec::new();
    for end in &plan.interfaces {
        let name = &end.name;
        let device = Tun::new(name).map_err(failed(
            &format!("make the TUN device {name}"),
            "; load the kernel module tun, and let this user open /dev/net/tun",
        ))?;
        let step = || {
            setup.mtu(name, end.mtu)?;
            set_queue_length(&setup, name);
            setup.addresses(name, end.address, end.peer_address)?;
            setup.up(name)
        };
        step().map_err(failed(&format!("set up the interface {name}"), ""))?;
        devices.push(device);
    }
    for route in &plan.routes {
        let end = &plan.interfaces[route.interface];
        // The peer of an interface has its route already.
        if route.to == end.peer_address {
            continue;
        }
        let added = setup.route(route.to, &end.name);
        added.map_err(failed(&format!("add the route to {} by {}", route.to, end.name), ""))?;
    }
    for setting in &plan.sysctl {
        let Sysctl { name, value } = setting;
        set(&name.replace('.', "/"), value)
            .map_err(failed(&format!("set {name} to {value}"), "; see `sysctl` in the file"))?;
    }
    Ok(Made { thread: namespaces::thread_id(), devices, notes })
}

/// Lets packets wait for the link's thread, as far as that is allowed: some programs that use the
/// CPU in its place do not make it lose packets then.
fn set_queue_length(setup: &InterfaceSetup, name: &str) {
    // The call is for the machine's root alone; the file is for that of a user namespace, too.
    if setup.queue_length(name, QUEUE_PACKETS).is_err() {
        let file = format!("/sys/class/net/{name}/tx_queue_len");
        let _ = fs::write(file, QUEUE_PACKETS.to_string());
    }
}

/// Makes a setting of the network namespace of this thread.
fn set(name: &str, value: &str) -> io::Result<()> {
    fs::write(format!("/proc/sys/{name}"), value)
}
