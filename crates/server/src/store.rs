//! What targets have stored, in tables whose last changes can be undone.

pub(crate) mod files;
pub(crate) mod names;
pub(crate) mod objects;
pub(crate) mod quotas;

pub use files::MdtArgs;
pub(crate) use files::MdtStore;
pub(crate) use objects::ObjectStore;
pub use objects::OstArgs;
pub use quotas::{QuotaHolder, QuotaLimits};
