//! What the client offers at connect: only what it implements, since servers behave by it.

use lustrine_fswire::checksum::ChecksumTypes;
use lustrine_fswire::connect::{ConnectData, ConnectFlags, ConnectFlags2, Release};
use lustrine_fswire::ldlm::Ibits;
use lustrine_fswire::opcode::Target;

/// The release whose behaviour the client has.
const RELEASE: Release = Release::new(2, 17, 0, 0);
/// Largest transfer with a metadata target, in bytes.
pub(crate) const MDT_BRW: u32 = 1 << 20;
/// Largest transfer with an object target, in bytes.
pub(crate) const OST_BRW: u32 = 4 << 20;

/// The offer to a target of a kind, as `docs/protocol` [RPC-18] describes it.
///
/// A client that caches writes asks for a grant; one that `follows` restarts of targets asks the
/// management server for tables of NIDs.
pub(crate) fn of(kind: Target, caches: bool, follows: bool) -> ConnectData {
    use ConnectFlags as F;
    use ConnectFlags2 as G;
    let common = F::VERSION | F::AT | F::FULL20 | F::BULK_MBITS | F::FLAGS2;
    let grant = if caches { F::GRANT | F::GRANT_PARAM | F::GRANT_SHRINK } else { F::empty() };
    let data = ConnectData { version: RELEASE.0, ..ConnectData::default() };
    match kind {
        Target::Mgs => {
            let tables = if follows { F::IMP_RECOV } else { F::empty() };
            ConnectData { flags: common | tables, flags2: G::REP_MBITS, ..data }
        }
        Target::Mdt => ConnectData {
            flags: common
                | F::SRVLOCK
                | F::ACL
                | F::XATTR
                | F::IBITS
                | F::ATTRFID
                | F::BRW_SIZE
                | F::CANCELSET
                | F::FID
                | F::VBR
                | F::LOV_V3
                | F::MAX_EASIZE
                | F::LAYOUTLOCK
                | F::HASH64
                | F::UMASK
                | F::EINPROGRESS
                | F::LVB_TYPE
                | F::NODEVOH
                | F::FLOCK_DEAD
                | F::DISP_STRIPE
                | F::OPEN_BY_FID
                | F::MULTIMODRPCS
                | F::DIR_STRIPE
                | F::SUBTREE,
            flags2: G::REP_MBITS
                | G::SUM_STATFS
                | G::OVERSTRIPING
                | G::FLR
                | G::LSOM
                | G::DOM_LVB
                | G::LOCK_CONVERT
                | G::BATCH_RPC,
            brw_size: MDT_BRW,
            ibits_known: Ibits::FULL,
            max_easize: 65536,
            maxmodrpcs: 8,
            ..data
        },
        Target::Ost => ConnectData {
            flags: grant
                | common
                | F::SRVLOCK
                | F::BRW_SIZE
                | F::CANCELSET
                | F::CKSUM
                | F::FID
                | F::VBR
                | F::MAXBYTES
                | F::EINPROGRESS
                | F::LVB_TYPE
                | F::SHORTIO,
            flags2: G::REP_MBITS | G::LSEEK,
            brw_size: OST_BRW,
            grant: if caches { 2 * OST_BRW } else { 0 },
            grant_blkbits: if caches { 12 } else { 0 },
            cksum_types: ChecksumTypes::all(),
            ..data
        },
    }
}
