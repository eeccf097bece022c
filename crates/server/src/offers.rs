//! What targets grant at a connect: only what they do.

use lustrine_fswire::checksum::ChecksumTypes;
use lustrine_fswire::connect::{ConnectData, ConnectFlags, ConnectFlags2, Release};
use lustrine_fswire::ldlm::Ibits;
use lustrine_fswire::opcode::Target;

use crate::errno;

/// The release whose behaviour the servers have.
const RELEASE: Release = Release::new(2, 17, 0, 0);
/// Largest transfer with a metadata target, in bytes.
pub(crate) const MDT_BRW: u32 = 1 << 20;
/// Largest transfer with an object target, in bytes.
pub(crate) const OST_BRW: u32 = 4 << 20;
/// Largest value of an attribute, and largest layout, in bytes.
pub(crate) const EASIZE_MAX: u32 = 65536;
/// Largest object in bytes, as that of ldiskfs [OST-22].
pub(crate) const OBJECT_MAX: u64 = 0xfff_ffff_f000;
/// Most changes of metadata of a client at a time that are granted.
pub(crate) const MOD_RPCS_MAX: u16 = 512;

/// The kinds of checksums of data.
const CHECKSUMS: ChecksumTypes = ChecksumTypes::from_bits_retain(0xf7);

fn known(kind: Target) -> (ConnectFlags, ConnectFlags2) {
    use ConnectFlags as F;
    use ConnectFlags2 as G;
    let common = F::VERSION | F::AT | F::FULL20 | F::BULK_MBITS | F::FLAGS2 | F::LVB_TYPE;
    match kind {
        Target::Mgs => (common | F::IMP_RECOV, G::REP_MBITS),
        Target::Mdt => (
            common
                | F::SRVLOCK
                | F::ACL
                | F::XATTR
                | F::IBITS
                | F::ATTRFID
                | F::BRW_SIZE
                | F::CANCELSET
                | F::FID
                | F::LOV_V3
                | F::MAX_EASIZE
                | F::LAYOUTLOCK
                | F::HASH64
                | F::UMASK
                | F::EINPROGRESS
                | F::NODEVOH
                | F::FLOCK_DEAD
                | F::DISP_STRIPE
                | F::OPEN_BY_FID
                | F::MULTIMODRPCS
                | F::CKSUM
                | F::SHORTIO,
            G::REP_MBITS
                | G::SUM_STATFS
                | G::OVERSTRIPING
                | G::LSOM
                | G::DOM_LVB
                | G::LOCK_CONVERT
                | G::BATCH_RPC,
        ),
        Target::Ost => (
            common
                | F::SRVLOCK
                | F::BRW_SIZE
                | F::CANCELSET
                | F::CKSUM
                | F::FID
                | F::GRANT
                | F::GRANT_SHRINK
                | F::INDEX
                | F::MAXBYTES
                | F::EINPROGRESS
                | F::SHORTIO
                | F::LAYOUTLOCK,
            G::REP_MBITS | G::LSEEK,
        ),
    }
}

/// What a target of a kind and index grants of an offer [RPC-20], with so many changes of metadata
/// at a time, within what there can be. The grant of space is not decided here.
///
/// # Errors
/// The errno of Linux with which the connect is refused, positive.
pub(crate) fn grant(
    (kind, index): (Target, u32),
    max_mod_rpcs: u16,
    offer: &ConnectData,
) -> Result<ConnectData, i32> {
    use ConnectFlags as F;
    let offer = offer.valid();
    if !offer.flags.contains(F::FULL20) {
        return Err(errno::EPROTO);
    }
    if kind == Target::Mdt && !offer.flags.contains(F::FID) {
        return Err(errno::EBADE);
    }
    if kind == Target::Ost && offer.flags.contains(F::INDEX) && offer.index != index {
        return Err(errno::EBADR);
    }
    let (flags, flags2) = known(kind);
    let mut data = ConnectData {
        flags: offer.flags & flags,
        flags2: offer.flags2 & flags2,
        ..ConnectData::default()
    };
    let brw = if kind == Target::Ost { OST_BRW } else { MDT_BRW };
    let has = |flag| offer.flags.contains(flag) && flags.contains(flag);
    data.version = RELEASE.0;
    if has(F::INDEX) {
        data.index = index;
    }
    if has(F::BRW_SIZE) {
        if offer.brw_size < 4096 {
            return Err(errno::EPROTO);
        }
        data.brw_size = offer.brw_size.min(brw) & !4095;
    }
    if has(F::IBITS) {
        data.ibits_known = offer.ibits_known & Ibits::FULL;
    }
    if has(F::CKSUM) {
        data.cksum_types = offer.cksum_types & CHECKSUMS;
        if data.cksum_types.is_empty() {
            return Err(errno::EPROTO);
        }
    }
    if has(F::MAX_EASIZE) {
        data.max_easize = EASIZE_MAX;
    }
    if has(F::MAXBYTES) {
        data.maxbytes = OBJECT_MAX;
    }
    if has(F::MULTIMODRPCS) {
        data.maxmodrpcs = max_mod_rpcs.clamp(1, MOD_RPCS_MAX);
    }
    Ok(data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_gets_at_least_one_slot_and_no_more_than_there_can_be() {
        let flags = ConnectFlags::FULL20 | ConnectFlags::FID | ConnectFlags::MULTIMODRPCS;
        let offer = ConnectData { flags, ..ConnectData::default() };
        for (set, granted) in [(0, 1), (1, 1), (8, 8), (512, 512), (513, 512), (u16::MAX, 512)] {
            let data = grant((Target::Mdt, 0), set, &offer).expect("it is granted");
            assert_eq!(data.maxmodrpcs, granted, "{set}");
        }
    }
}
