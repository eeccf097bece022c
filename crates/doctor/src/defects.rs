//! Releases with known defects.

/// A release of Lustre, as far as it is compared: 2.17.0 is `[2, 17, 0]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Release(pub [u32; 3]);

impl Release {
    /// The release at the start of a text such as `2.17.0_5_gabc`, or after `lustre:`. A missing
    /// third number is 0.
    pub fn parse(text: &str) -> Option<Release> {
        let text = text.trim();
        let text = text.strip_prefix("lustre:").unwrap_or(text).trim_start();
        let mut numbers = text.split('.').map(|part| {
            let end = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
            (part[..end].parse::<u32>().ok(), end < part.len())
        });
        let (major, ended) = numbers.next()?;
        let major = major.filter(|_| !ended)?;
        let (minor, ended) = numbers.next()?;
        let patch = match ended {
            true => 0,
            false => numbers.next().and_then(|(number, _)| number).unwrap_or(0),
        };
        Some(Release([major, minor?, patch]))
    }
}

/// Where a defect shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Concern {
    /// When certain commands are run there, of which a look shows nothing.
    Use,
    /// While peers refuse connections of the host.
    Refusals,
    /// With NIDs of IPv6.
    Ipv6,
}

/// A defect of releases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Defect {
    /// The first release that is known to have it.
    pub first: Release,
    /// The last release that is known to have it. Releases after it may have it, too.
    pub last: Release,
    /// Where it shows.
    pub concern: Concern,
    /// What goes wrong.
    pub what: &'static str,
    /// How it is avoided.
    pub remedy: &'static str,
    /// Where it is described.
    pub source: &'static str,
}

/// The table. Only what was seen on live nodes, or is described in public, is in it.
pub const DEFECTS: &[Defect] = &[
    Defect {
        first: Release([2, 17, 0]),
        last: Release([2, 17, 0]),
        concern: Concern::Refusals,
        what: "`lnetctl ping` of a peer that refuses three connections in a row crashes in the \
               kernel, which panics with panic_on_oops",
        remedy: "do not run `lnetctl ping` there while connections are refused; set \
                 kernel.panic_on_oops=0",
        source: "docs/live-kernels.md, defect D0: seen on live nodes",
    },
    Defect {
        first: Release([2, 17, 0]),
        last: Release([2, 17, 0]),
        concern: Concern::Use,
        what: "a selftest session that ends, or is taken over, while a batch runs can leave \
               lnet_selftest stuck until the machine is restarted",
        remedy: "stop the batch and wait until `lst query` says that it is idle, then end the \
                 session",
        source: "docs/live-kernels.md, faults of kernel 2.17.0: seen on live nodes, twice of two",
    },
    Defect {
        first: Release([2, 15, 0]),
        last: Release([2, 15, 99]),
        concern: Concern::Ipv6,
        what: "LNet over IPv6 does not work: HELLO V4 is not understood",
        remedy: "use IPv4 NIDs towards this node",
        source: "docs/protocol/acceptor.md, ACC-4",
    },
];

/// The defects of a release.
pub(crate) fn of(release: Release) -> impl Iterator<Item = &'static Defect> {
    DEFECTS.iter().filter(move |defect| (defect.first..=defect.last).contains(&release))
}
