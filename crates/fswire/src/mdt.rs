//! Metadata: `mdt_body`, records of changes, open flags, attributes [MDT-3].

mod acl;
mod body;
mod flags;
mod misc;
mod reint;
#[cfg(test)]
mod tests;

pub use acl::{Acl, AclEntry, AclTag, allowed};
pub use body::MdtBody;
pub use flags::{AttrFlags, Bias, FileFlags, LudaFlags, MdValid, OpenFlags, XattrFlags};
pub use misc::{CloseData, FidPath, HsmStates, MdtEpoch, SwapLayouts};
pub use reint::{
    CreateRecord, NameRecord, Reint, ReintOp, ResyncRecord, SetattrRecord, SetxattrRecord,
};
