//! Buffers whose content is looked at on demand.

use core::fmt;

use crate::describe::{Describe, Value};
use crate::layout::{Layout, LayoutError};
use crate::ldlm::OstLvb;
use crate::mdt::Acl;

macro_rules! debug_as_length {
    ($($view:ident)+) => {$(
        impl fmt::Debug for $view<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({} bytes)", stringify!($view), self.0.len())
            }
        }
    )+};
}

debug_as_length! { AclBytes Names Lvb }

/// A buffer with an access control list, or room for one that was not used.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct AclBytes<'a>(pub &'a [u8]);

impl<'a> AclBytes<'a> {
    /// The list; none in an empty buffer or unused room.
    pub fn acl(&self) -> Option<Acl<'a>> {
        Acl::parse(self.0)
    }
}

impl Describe for AclBytes<'_> {
    fn describe(&self) -> Value {
        match self.acl() {
            Some(acl) => acl.describe(),
            None if self.0.iter().all(|&byte| byte == 0) => {
                Value::Fields(vec![("zeros", Value::Number(self.0.len() as u64))])
            }
            None => self.0.describe(),
        }
    }
}

/// Texts one behind the other, each with a zero byte.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Names<'a>(pub &'a [u8]);

impl<'a> Names<'a> {
    /// The texts without zero bytes.
    pub fn iter(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let bytes = self.0.strip_suffix(b"\0").unwrap_or(self.0);
        let parts = (!self.0.is_empty()).then(|| bytes.split(|&byte| byte == 0));
        parts.into_iter().flatten()
    }
}

impl Describe for Names<'_> {
    fn describe(&self) -> Value {
        Value::List(self.iter().map(Value::escaped).collect())
    }
}

/// A lock value block [LOCK-11].
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Lvb<'a>(pub &'a [u8]);

/// What a lock value block holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LvbValue<'a> {
    /// Nothing: length 0.
    None,
    /// Size and times of an object.
    Object(OstLvb),
    /// A layout.
    Layout(Layout<'a>),
    /// Neither.
    Unknown,
}

impl<'a> Lvb<'a> {
    /// What the lock of an object has.
    pub fn object(&self) -> Option<OstLvb> {
        OstLvb::parse_any(self.0)
    }

    /// What a layout lock has.
    ///
    /// # Errors
    /// [`LayoutError`].
    pub fn layout(&self) -> Result<Layout<'a>, LayoutError> {
        Layout::parse(self.0)
    }

    /// What it holds, guessed by its length and first word.
    pub fn guess(&self) -> LvbValue<'a> {
        if self.0.is_empty() {
            return LvbValue::None;
        }
        match (self.layout(), self.object()) {
            (Ok(layout), _) => LvbValue::Layout(layout),
            (_, Some(lvb)) => LvbValue::Object(lvb),
            _ => LvbValue::Unknown,
        }
    }
}

impl Describe for Lvb<'_> {
    fn describe(&self) -> Value {
        match self.guess() {
            LvbValue::None => Value::Text(String::new()),
            LvbValue::Object(lvb) => match lvb.error() {
                Some(errno) => Value::Fields(vec![("error", Value::Signed(errno.into()))]),
                None => lvb.describe(),
            },
            LvbValue::Layout(layout) => layout.describe(),
            LvbValue::Unknown => self.0.describe(),
        }
    }
}
