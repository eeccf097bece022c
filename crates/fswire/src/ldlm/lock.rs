//! What a lock covers, and its description.

use core::fmt;

use crate::codec::{Reader, Short, SliceWriter, Wire};
use crate::describe::{Describe, Value};
use crate::fid::{Fid, Handle};
use crate::ldlm::{Ibits, LockMode};

wire_enum! {
    /// The type of a lock [LOCK-1].
    pub struct LockType: u32 {
        /// Of a configuration or a quota.
        PLAIN = 10, "PLAIN";
        /// Of a range of an object.
        EXTENT = 11, "EXTENT";
        /// Of a range of a file, for programs.
        FLOCK = 12, "FLOCK";
        /// Of properties of a metadata object.
        IBITS = 13, "IBITS";
    }
}

/// The name of what is locked: four numbers [LOCK-4].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub struct Resource(pub [u64; 4]);

impl Resource {
    /// A file, a directory, or an object by its FID.
    pub const fn of_fid(fid: Fid) -> Resource {
        Resource([fid.seq, (fid.ver as u64) << 32 | fid.oid as u64, 0, 0])
    }

    /// The flocks of a file.
    pub const fn of_flock(fid: Fid) -> Resource {
        let Resource([seq, oid, ..]) = Resource::of_fid(fid);
        Resource([seq, oid, 0, LockType::FLOCK.0 as u64])
    }

    /// An object by its id on the wire: the old objects of MDT0 have one number only.
    pub const fn of_object(oi: Fid) -> Resource {
        match oi.old_object() {
            Some(id) => Resource([id, 0, 0, 0]),
            None => Resource::of_fid(oi),
        }
    }

    /// A configuration by up to 8 bytes of its file system's name, or of its own, and its type
    /// [MGS-2].
    pub fn of_config(name: &[u8], kind: u64) -> Resource {
        let mut raw = [0; 8];
        let len = name.len().min(8);
        raw[..len].copy_from_slice(&name[..len]);
        Resource([u64::from_le_bytes(raw), kind, 0, 0])
    }

    /// The FID in the first two numbers.
    pub const fn fid(&self) -> Fid {
        Fid { seq: self.0[0], oid: self.0[1] as u32, ver: (self.0[1] >> 32) as u32 }
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d] = self.0;
        write!(f, "{a:#x}:{b:#x}:{c:#x}:{d:#x}")
    }
}

impl Wire for Resource {
    const SIZE: usize = 32;

    fn read(from: &mut Reader<'_>) -> Result<Resource, Short> {
        from.value().map(Resource)
    }

    #[inline]
    fn write_to(&self, to: &mut SliceWriter<'_>) {
        to.put(&self.0);
    }
}

impl Describe for Resource {
    fn describe(&self) -> Value {
        if self.0 == [0; 4] { Value::text("0") } else { Value::text(self) }
    }
}

wire_struct! {
    /// A range of an object. Both ends are included; the end of the file is 2^64 - 1.
    pub struct Extent [32] {
        /// First byte.
        start: u64;
        /// Last byte.
        end: u64;
        /// Number of the group, of a group lock.
        gid: u64, pad 8;
    }
}

impl Extent {
    /// Everything.
    pub const WHOLE: Extent = Extent { start: 0, end: u64::MAX, gid: 0 };

    /// Whether they have a byte in common.
    pub const fn overlaps(&self, other: &Extent) -> bool {
        self.start <= other.end && other.start <= self.end
    }
}

wire_struct! {
    /// Properties of a metadata object.
    pub struct IbitsPolicy [32] {
        /// The bits.
        bits: Ibits;
        /// Request: bits to be granted if they are free. BL_CALLBACK: the bits to be given up.
        try_bits: Ibits;
        /// Number of the group, of a group lock.
        gid: u64, pad 4;
        /// Between metadata servers; clients ignore it.
        initiator: u32;
    }
}

wire_struct! {
    /// A range of a file. Both ends are included; the end of the file is 2^63 - 1.
    pub struct Flock [32] {
        /// First byte.
        start: u64;
        /// Last byte.
        end: u64;
        /// Who owns it, within the client.
        owner: Handle, pad 4;
        /// The process that owns it.
        pid: u32;
    }
}

impl Flock {
    /// Whether they have a byte in common.
    pub const fn overlaps(&self, other: &Flock) -> bool {
        self.start <= other.end && other.start <= self.end
    }
}

/// What a lock covers, by its type [LOCK-5].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// Of an EXTENT lock.
    Extent(Extent),
    /// Of an IBITS lock.
    Ibits(IbitsPolicy),
    /// Of a FLOCK lock.
    Flock(Flock),
    /// Of any other type: four numbers. All are 0 in PLAIN locks; LDLM_CONVERT, which has type 0,
    /// has inode bits in the first.
    Other([u64; 4]),
}

impl Default for Policy {
    fn default() -> Policy {
        Policy::Other([0; 4])
    }
}

impl Policy {
    const SIZE: usize = 32;

    fn read(kind: LockType, from: &mut Reader<'_>) -> Result<Policy, Short> {
        Ok(match kind {
            LockType::EXTENT => Policy::Extent(from.value()?),
            LockType::IBITS => Policy::Ibits(from.value()?),
            LockType::FLOCK => Policy::Flock(from.value()?),
            _ => Policy::Other(from.value()?),
        })
    }

    #[inline]
    fn write_to(&self, to: &mut SliceWriter<'_>) {
        match self {
            Policy::Extent(extent) => to.put(extent),
            Policy::Ibits(ibits) => to.put(ibits),
            Policy::Flock(flock) => to.put(flock),
            Policy::Other(raw) => to.put(raw),
        }
    }

    /// The extent, of an EXTENT lock.
    pub const fn extent(&self) -> Option<Extent> {
        match self {
            Policy::Extent(extent) => Some(*extent),
            _ => None,
        }
    }

    /// The inode bits, of an IBITS lock or of a convert.
    pub const fn ibits(&self) -> Option<Ibits> {
        match self {
            Policy::Ibits(policy) => Some(policy.bits),
            Policy::Other([bits, ..]) => Some(Ibits::from_bits_retain(*bits)),
            _ => None,
        }
    }

    /// Whether two locks on one resource cover something in common [LOCK-2]. Owners of flocks are
    /// left to the caller: only the server knows whose export they belong to.
    pub const fn intersects(&self, other: &Policy) -> bool {
        match (self, other) {
            (Policy::Extent(a), Policy::Extent(b)) => a.overlaps(b),
            (Policy::Ibits(a), Policy::Ibits(b)) => a.bits.intersects(b.bits),
            (Policy::Flock(a), Policy::Flock(b)) => a.overlaps(b),
            _ => true,
        }
    }
}

impl Describe for Policy {
    fn describe(&self) -> Value {
        match self {
            Policy::Extent(extent) => extent.describe(),
            Policy::Ibits(ibits) => ibits.describe(),
            Policy::Flock(flock) => flock.describe(),
            Policy::Other(raw) => raw.describe().hex(),
        }
    }
}

/// The description of a lock: 80 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LockDesc {
    /// Its type.
    pub kind: LockType,
    /// What is locked.
    pub resource: Resource,
    /// The mode asked for.
    pub req_mode: LockMode,
    /// The mode granted; none while it waits.
    pub granted_mode: LockMode,
    /// What it covers; its variant must be that of `kind`.
    pub policy: Policy,
}

impl Wire for LockDesc {
    const SIZE: usize = 16 + Resource::SIZE + Policy::SIZE;

    fn read(from: &mut Reader<'_>) -> Result<LockDesc, Short> {
        let kind = from.value()?;
        from.skip(4)?;
        Ok(LockDesc {
            kind,
            resource: from.value()?,
            req_mode: from.value()?,
            granted_mode: from.value()?,
            policy: Policy::read(kind, from)?,
        })
    }

    #[inline]
    fn write_to(&self, to: &mut SliceWriter<'_>) {
        to.put(&self.kind);
        to.zeros(4);
        to.put(&self.resource);
        to.put(&self.req_mode);
        to.put(&self.granted_mode);
        self.policy.write_to(to);
    }
}

impl Describe for LockDesc {
    fn describe(&self) -> Value {
        Value::Fields(vec![
            ("kind", self.kind.describe()),
            ("resource", self.resource.describe()),
            ("req_mode", self.req_mode.describe()),
            ("granted_mode", self.granted_mode.describe()),
            ("policy", self.policy.describe()),
        ])
    }
}
