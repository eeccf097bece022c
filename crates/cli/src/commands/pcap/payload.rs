//! The description of a payload.

use lustrine_fswire::describe::Fields;

/// The description of a payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Payload {
    pub(super) kind: String,
    /// The fields of its line.
    pub(super) fields: Fields,
    /// All fields of a request or a reply, buffer by buffer.
    pub(super) details: Fields,
}
