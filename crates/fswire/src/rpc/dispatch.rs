//! Which operation a request is.

use super::Kind;
use crate::body::PtlrpcBody;
use crate::codec::Wire;
use crate::ldlm::IntentOp;
use crate::mdt::ReintOp;
use crate::message::Message;
use crate::opcode::Opcode;

impl Kind {
    /// The kind of a request. Changes of metadata name theirs in the record; an enqueue has an
    /// intent if there is a buffer for it [LOCK-9].
    pub fn of_request(message: &Message<'_>, body: &PtlrpcBody) -> Kind {
        match body.opcode {
            Opcode::MDS_REINT => Kind::of_reint(message),
            Opcode::LDLM_ENQUEUE => Kind::of_enqueue(message),
            other => Kind::of_opcode(other),
        }
    }

    fn of_reint(message: &Message<'_>) -> Kind {
        match ReintOp::parse(message.buffer(1).unwrap_or_default()) {
            Ok(ReintOp::SETATTR) => Kind::ReintSetattr,
            Ok(ReintOp::CREATE) => Kind::ReintCreate,
            Ok(ReintOp::LINK) => Kind::ReintLink,
            Ok(ReintOp::UNLINK) => Kind::ReintUnlink,
            Ok(ReintOp::RENAME) => Kind::ReintRename,
            Ok(ReintOp::SETXATTR) => Kind::ReintSetxattr,
            Ok(ReintOp::RMENTRY) => Kind::ReintRmentry,
            Ok(ReintOp::MIGRATE) => Kind::ReintMigrate,
            Ok(ReintOp::RESYNC) => Kind::ReintResync,
            _ => Kind::Unknown(Opcode::MDS_REINT),
        }
    }

    fn of_enqueue(message: &Message<'_>) -> Kind {
        let intent = match message.buffer(2) {
            None | Some([]) => return Kind::Enqueue,
            Some(buffer) => IntentOp::parse(buffer),
        };
        match intent {
            Ok(IntentOp::OPEN) => Kind::EnqueueOpen,
            Ok(IntentOp::CREAT) => Kind::EnqueueCreat,
            Ok(IntentOp::OPEN_CREAT) => Kind::EnqueueOpenCreat,
            Ok(IntentOp::GETATTR) => Kind::EnqueueGetattr,
            Ok(IntentOp::LOOKUP) => Kind::EnqueueLookup,
            Ok(IntentOp::GETXATTR) => Kind::EnqueueGetxattr,
            Ok(IntentOp::LAYOUT) => Kind::EnqueueLayout,
            Ok(IntentOp::QUOTA_DQACQ) => Kind::EnqueueQuotaDqacq,
            Ok(IntentOp::QUOTA_CONN) => Kind::EnqueueQuotaConn,
            _ => Kind::Unknown(Opcode::LDLM_ENQUEUE),
        }
    }

    /// Whether the reply has a body only, also when the operation succeeds.
    pub const fn has_bare_reply(self) -> bool {
        matches!(
            self,
            Kind::OstDisconnect
                | Kind::MdsDisconnect
                | Kind::MgsDisconnect
                | Kind::MdsSetInfo
                | Kind::MdsHsmStateSet
                | Kind::LdlmCancel
                | Kind::LdlmBlCallback
                | Kind::LdlmCpCallback
                | Kind::LdlmSetInfo
                | Kind::ObdPing
                | Kind::OstSetInfo
                | Kind::Unknown(_)
        )
    }

    /// Whether the change must be executed once only: such requests take a slot if the
    /// connection has several, and are replayed [RPC-13].
    pub const fn is_modifying(self) -> bool {
        matches!(
            self,
            Kind::MdsClose
                | Kind::ReintSetattr
                | Kind::ReintCreate
                | Kind::ReintLink
                | Kind::ReintUnlink
                | Kind::ReintRename
                | Kind::ReintSetxattr
                | Kind::ReintRmentry
                | Kind::ReintMigrate
                | Kind::ReintResync
                | Kind::EnqueueOpen
                | Kind::EnqueueCreat
                | Kind::EnqueueOpenCreat
        )
    }
}
