//! Whether the kernel of this machine is an LNet node with a NID.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use lustrine_wire::nid::Nid;

/// A longer file of the kernel is cut.
const FILE_MAX: usize = 4 << 20;

/// Whether a kernel's LNet has a NID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelNid {
    /// It has.
    Has,
    /// It has not, or the kernel listens, which binding the port shows.
    HasNot,
    /// LNet is loaded, and cannot be asked: its NIDs are for root, and perhaps it does not listen.
    Unknown,
}

/// Whether the kernel's LNet has this NID. Another network at the same address, such as o2ib, is
/// another NID.
pub fn kernel_has(nid: &Nid) -> KernelNid {
    if !Path::new("/sys/module/lnet").exists() {
        return KernelNid::HasNot;
    }
    let accept = fs::read_to_string("/sys/module/lnet/parameters/accept");
    judge(kernel_file("nis").as_deref(), accept.ok().as_deref(), nid)
}

/// A file of the kernel's LNet in debugfs, which only root can read. It gives whole lines, as many
/// as fit into the buffer of a read, so that has to be large.
pub fn kernel_file(name: &str) -> Option<String> {
    let mut file = File::open(format!("/sys/kernel/debug/lnet/{name}")).ok()?;
    let (mut text, mut buffer) = (Vec::new(), vec![0; 64 << 10]);
    while text.len() < FILE_MAX {
        match file.read(&mut buffer).ok()? {
            0 => break,
            count => text.extend(&buffer[..count]),
        }
    }
    String::from_utf8(text).ok()
}

/// `nis`: its list of interfaces; `accept`: its parameter of this name.
fn judge(nis: Option<&str>, accept: Option<&str>, nid: &Nid) -> KernelNid {
    match (nis, accept.map(str::trim)) {
        (Some(nis), _) => {
            let nids = nis.lines().filter_map(|line| line.split_whitespace().next());
            let mut nids = nids.filter_map(|word| word.parse::<Nid>().ok());
            match nids.any(|of_kernel| of_kernel == *nid) {
                true => KernelNid::Has,
                false => KernelNid::HasNot,
            }
        }
        (None, Some("secure" | "all")) => KernelNid::HasNot,
        (None, _) => KernelNid::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_that_does_not_listen_and_cannot_be_asked_may_have_every_address() {
        let nis = "nid                      status alive refs peer  rtr   max    tx   min\n\
                   0@lo                         up     0    2    0    0     0     0     0\n\
                   10.77.0.3@tcp                up    -1    1    8    0   256   256   255\n\
                   10.77.0.4@o2ib               up    -1    1    8    0   256   256   255\n";
        let of = |nis, accept| {
            ["10.77.0.3@tcp", "10.77.0.4@tcp"].map(|nid| judge(nis, accept, &nid.parse().unwrap()))
        };
        assert_eq!(of(Some(nis), Some("none\n")), [KernelNid::Has, KernelNid::HasNot]);
        let other_net = judge(Some(nis), Some("none\n"), &"10.77.0.3@tcp1".parse().unwrap());
        assert_eq!(other_net, KernelNid::HasNot);
        assert_eq!(of(Some(""), None), [KernelNid::HasNot; 2], "the network is down");
        assert_eq!(of(None, Some("secure\n")), [KernelNid::HasNot; 2], "the port shows it");
        assert_eq!(of(None, Some("none\n")), [KernelNid::Unknown; 2]);
        assert_eq!(of(None, None), [KernelNid::Unknown; 2]);
    }
}
