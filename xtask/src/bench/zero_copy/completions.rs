//! What the kernel says about sends without a copy, as strace shows it.
//!
//! No counter of a node has it: the driver frees the memory whether the kernel copied it or not.

use serde::Serialize;

/// Sends with `MSG_ZEROCOPY` of one process, for a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Completions {
    /// Sends that the kernel has released and had sent from the sender's memory.
    pub(super) in_place: u64,
    /// Those that it has released and had copied after all.
    pub(super) copied: u64,
    /// Sends that it refused because it could not account for them (ENOBUFS); the driver repeats
    /// them as ordinary ones.
    pub(super) refused: u64,
}

impl Completions {
    /// The part of the released sends that was copied; `None` if no release was seen.
    pub(super) fn copied_part(&self) -> Option<f64> {
        let all = self.in_place + self.copied;
        (all > 0).then(|| self.copied as f64 / all as f64)
    }

    pub(super) fn and(&self, other: &Completions) -> Completions {
        Completions {
            in_place: self.in_place + other.in_place,
            copied: self.copied + other.copied,
            refused: self.refused + other.refused,
        }
    }
}

/// Reads what `strace -e trace=sendto,sendmsg,recvmsg` has written. Its older versions show the
/// numbers of linux/errqueue.h, newer ones the names.
pub(super) fn read(trace: &str) -> Completions {
    let mut found = Completions::default();
    for line in trace.lines() {
        if line.contains(" ENOBUFS ") {
            found.refused += 1;
        }
        let origin = value(line, "ee_origin=");
        if !matches!(origin, Some("5" | "SO_EE_ORIGIN_ZEROCOPY")) {
            continue;
        }
        let number = |name| value(line, name).and_then(|word| word.parse::<u32>().ok());
        let (Some(low), Some(high)) = (number("ee_info="), number("ee_data=")) else { continue };
        // The numbers wrap around; both ends belong to the range.
        let sends = u64::from(high.wrapping_sub(low)) + 1;
        match value(line, "ee_code=") {
            Some("1" | "SO_EE_CODE_ZEROCOPY_COPIED") => found.copied += sends,
            _ => found.in_place += sends,
        }
    }
    found
}

/// The word behind this one.
fn value<'t>(line: &'t str, name: &str) -> Option<&'t str> {
    let (_, rest) = line.split_once(name)?;
    rest.split([',', '}', ' ']).next()
}

#[test]
fn a_trace_is_read() {
    let report = |code: &str, low: &str, high: &str| {
        format!(
            "28002 recvmsg(13, {{msg_name=NULL, msg_namelen=0, msg_iov=NULL, msg_iovlen=0, \
             msg_control=[{{cmsg_len=48, cmsg_level=SOL_IP, cmsg_type=IP_RECVERR, \
             cmsg_data={{ee_errno=0, ee_origin=5, ee_type=0, ee_code={code}, ee_info={low}, \
             ee_data={high}, offender={{sa_family=AF_UNSPEC}}}}}}], msg_controllen=48}}, \
             MSG_DONTWAIT|MSG_ERRQUEUE) = 0\n"
        )
    };
    let named = report("SO_EE_CODE_ZEROCOPY_COPIED", "6", "6")
        .replace("ee_origin=5", "ee_origin=SO_EE_ORIGIN_ZEROCOPY");
    let trace = report("1", "401", "402")
        + "28002 recvmsg(13, {msg_namelen=0}, MSG_DONTWAIT|MSG_ERRQUEUE) = -1 EAGAIN (Resource)\n"
        + "28298 sendto(13, \"\"..., 4, MSG_DONTWAIT|MSG_ZEROCOPY, NULL, 0) = -1 ENOBUFS (No)\n"
        + &report("0", "4294967295", "1")
        + &report("1", "7", "7").replace("ee_origin=5", "ee_origin=2")
        + &named;
    let found = read(&trace);
    assert_eq!(found, Completions { in_place: 3, copied: 3, refused: 1 });
    assert_eq!(found.copied_part(), Some(0.5));
    assert_eq!(Completions::default().copied_part(), None);
}
