//! Errors that a call returns at once; everything later is an event ([CORE-4]).

/// Why a call was refused. Nothing was taken or changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LnetError {
    /// The descriptor is gone, or exhausted.
    #[error("no such memory descriptor, or it is exhausted")]
    NoSuchMd,
    /// The answer to an earlier request has not arrived yet; a descriptor awaits one at a time.
    #[error("the memory descriptor still awaits the answer to an earlier request")]
    AnswerAwaited,
    /// An attached descriptor cannot be sent from.
    #[error("the memory descriptor is attached to a portal and cannot be sent from")]
    MdAttached,
    /// Portal index of 64 or more.
    #[error("portal {0} does not exist (0 to 63)")]
    BadPortal(u32),
    /// An attached descriptor must accept PUT or GET.
    #[error("a memory descriptor on a portal must accept PUT or GET")]
    NoOperation,
    /// Too many fragments, or longer than 1 MiB for sending.
    #[error("a memory descriptor holds at most 256 fragments, and 1 MiB when it is sent from")]
    MdTooLarge,
    /// The portal holds entries of the other kind (unique or wildcard).
    #[error("portal {0} holds entries of the other kind (unique against wildcard)")]
    PortalKind(u32),
    /// Too many messages are in flight; wait for events and try again.
    #[error("too many messages in flight")]
    Full,
}
