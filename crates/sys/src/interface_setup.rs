//! Sets up network interfaces and routes (IPv4) in the network namespace of this thread, with
//! netdevice(7) and route(7): no program such as `ip` is needed.

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

/// Changes interfaces and routes of a network namespace.
#[derive(Debug)]
pub struct InterfaceSetup {
    socket: DeviceSocket,
}

/// A socket for requests about network devices, netdevice(7), in the network namespace in which it
/// was made.
#[derive(Debug)]
pub(crate) struct DeviceSocket(OwnedFd);

impl DeviceSocket {
    /// # Errors
    /// When descriptors or memory are used up.
    pub(crate) fn new() -> io::Result<DeviceSocket> {
        let flags = SocketFlags::CLOEXEC;
        Ok(DeviceSocket(socket_with(AddressFamily::INET, SocketType::DGRAM, flags, None)?))
    }

    /// Makes a request, which the kernel reads or fills in. A request that has a pointer must point
    /// to as much memory as it says.
    ///
    /// # Errors
    /// Those of netdevice(7).
    pub(crate) fn call(&self, what: libc::c_ulong, request: &mut libc::ifreq) -> io::Result<()> {
        // SAFETY: the request is a whole `ifreq` that outlives the call, and the requests of this
        // crate read or write no more than that, or the memory it points to, as their callers see
        // to; the descriptor is open because it is owned.
        let done = unsafe { libc::ioctl(self.0.as_raw_fd(), what as _, &raw mut *request) };
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

/// An empty request that names an interface.
pub(crate) fn request(name: &str) -> io::Result<libc::ifreq> {
    // SAFETY: zero is a valid value of every field of this C structure.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if name.is_empty() || name.len() >= request.ifr_name.len() {
        let what = format!("{name:?} is not a valid interface name: 1 to 15 bytes");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    Ok(request)
}

fn socket_address(address: Ipv4Addr) -> libc::sockaddr {
    let mut data = [0; 14];
    for (to, from) in data[2..6].iter_mut().zip(address.octets()) {
        *to = from as libc::c_char;
    }
    libc::sockaddr { sa_family: libc::AF_INET as libc::sa_family_t, sa_data: data }
}

impl InterfaceSetup {
    /// For the network namespace of this thread.
    ///
    /// # Errors
    /// When descriptors or memory are used up.
    pub fn new() -> io::Result<InterfaceSetup> {
        Ok(InterfaceSetup { socket: DeviceSocket::new()? })
    }

    fn set(&self, what: libc::c_ulong, mut request: libc::ifreq) -> io::Result<()> {
        self.socket.call(what, &mut request)
    }

    /// Switches an interface on.
    ///
    /// # Errors
    /// Those of netdevice(7).
    pub fn up(&self, name: &str) -> io::Result<()> {
        let mut request = request(name)?;
        request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
        self.set(libc::SIOCSIFFLAGS, request)
    }

    /// Sets the longest IP packet of an interface, in bytes.
    ///
    /// # Errors
    /// Those of netdevice(7).
    pub fn mtu(&self, name: &str, bytes: u32) -> io::Result<()> {
        let mut request = request(name)?;
        request.ifr_ifru.ifru_mtu = bytes as libc::c_int;
        self.set(libc::SIOCSIFMTU, request)
    }

    /// Sets how many packets may wait for an interface.
    ///
    /// # Errors
    /// Those of netdevice(7).
    pub fn queue_length(&self, name: &str, packets: u32) -> io::Result<()> {
        let mut request = request(name)?;
        request.ifr_ifru.ifru_metric = packets as libc::c_int;
        self.set(libc::SIOCSIFTXQLEN, request)
    }

    /// Gives a point-to-point interface its address and that of its peer, to which a route comes
    /// into being.
    ///
    /// # Errors
    /// Those of netdevice(7).
    pub fn addresses(&self, name: &str, own: Ipv4Addr, peer: Ipv4Addr) -> io::Result<()> {
        let mut request = request(name)?;
        request.ifr_ifru.ifru_addr = socket_address(own);
        self.set(libc::SIOCSIFADDR, request)?;
        request.ifr_ifru.ifru_addr = socket_address(peer);
        self.set(libc::SIOCSIFDSTADDR, request)
    }

    /// Adds a route to one address through an interface.
    ///
    /// # Errors
    /// Those of route(7).
    pub fn route(&self, to: Ipv4Addr, name: &str) -> io::Result<()> {
        let mut device = [0u8; libc::IFNAMSIZ];
        if name.len() >= device.len() {
            return Err(io::Error::from(io::ErrorKind::InvalidInput));
        }
        device[..name.len()].copy_from_slice(name.as_bytes());
        // SAFETY: zero is a valid value of every field of this C structure.
        let mut route: libc::rtentry = unsafe { std::mem::zeroed() };
        route.rt_dst = socket_address(to);
        route.rt_genmask = socket_address(Ipv4Addr::BROADCAST);
        route.rt_flags = libc::RTF_UP | libc::RTF_HOST;
        route.rt_dev = device.as_mut_ptr().cast();
        // SAFETY: the route is a whole `rtentry`, and the name that it refers to is a C string;
        // both outlive the call, which only reads them.
        let done =
            unsafe { libc::ioctl(self.socket.0.as_raw_fd(), libc::SIOCADDRT as _, &raw mut route) };
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}
