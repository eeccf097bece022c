//! The table of operations.

use super::buffer::{BufferList, RpcError};
use super::{dlm, mds, obd, ost};
use crate::body::PtlrpcBody;
use crate::describe::{Describe, Fields, Value};
use crate::message::{Header, Message, MessageBuilder};
use crate::opcode::Opcode;

/// The buffers of an operation that no list is known for, after `ptlrpc_body`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RawBuffers<'a>(Message<'a>);

impl<'a> BufferList<'a> for RawBuffers<'a> {
    fn parse_list(message: &Message<'a>, _: usize) -> Result<Self, RpcError> {
        Ok(RawBuffers(*message))
    }

    fn count(&self) -> usize {
        self.0.count() - 1
    }

    fn write_list(&self, to: &mut MessageBuilder<'_>) {
        self.0.buffers().skip(1).for_each(|buffer| to.bytes(buffer));
    }

    fn fields(&self) -> Fields {
        let buffers = self.0.buffers().skip(1).map(|buffer| buffer.describe());
        vec![("buffers", Value::List(buffers.collect()))]
    }
}

impl<'a> RawBuffers<'a> {
    /// The buffers.
    pub fn iter(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        self.0.buffers().skip(1)
    }
}

macro_rules! rpcs {
    (
        opcodes {$(
            $kind:ident $name:literal $opcode:ident: $request:ty => $reply:ty;
        )+}
        parts {$(
            $part_kind:ident $part_name:literal $part_opcode:ident:
                $part_request:ty => $part_reply:ty;
        )+}
    ) => {
        /// The kind of an RPC: its opcode, and for changes of metadata and for enqueues what is
        /// done.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Kind {
            $(#[doc = $name] $kind,)+
            $(#[doc = $part_name] $part_kind,)+
            /// Any other operation.
            Unknown(Opcode),
        }

        impl Kind {
            /// All kinds that are known.
            pub const ALL: &[Kind] = &[$(Kind::$kind,)+ $(Kind::$part_kind,)+];

            /// The opcode.
            pub const fn opcode(self) -> Opcode {
                match self {
                    $(Kind::$kind => Opcode::$opcode,)+
                    $(Kind::$part_kind => Opcode::$part_opcode,)+
                    Kind::Unknown(opcode) => opcode,
                }
            }

            /// The name of the opcode, and behind a slash the change or intent.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Kind::$kind => $name,)+
                    $(Kind::$part_kind => $part_name,)+
                    Kind::Unknown(opcode) => match opcode.name() {
                        Some(name) => name,
                        None => "unknown",
                    },
                }
            }

            /// The kind of an opcode of which there is only one.
            pub(super) const fn of_opcode(opcode: Opcode) -> Kind {
                match opcode {
                    $(Opcode::$opcode => Kind::$kind,)+
                    other => Kind::Unknown(other),
                }
            }
        }

        /// A request: what it has after `ptlrpc_body`.
        #[derive(Debug, Clone, Copy, PartialEq)]
        #[allow(clippy::large_enum_variant, reason = "read, used at once, and never stored")]
        pub enum Request<'a> {
            $(#[doc = $name] $kind($request),)+
            $(#[doc = $part_name] $part_kind($part_request),)+
            /// Any other operation.
            Unknown(Opcode, RawBuffers<'a>),
        }

        impl<'a> Request<'a> {
            /// Reads the buffers of a request.
            ///
            /// # Errors
            /// [`RpcError`].
            pub fn parse(
                message: &Message<'a>,
                body: &PtlrpcBody,
            ) -> Result<Request<'a>, RpcError> {
                Request::parse_kind(Kind::of_request(message, body), message)
            }

            /// Reads the buffers of a request of a known kind.
            ///
            /// # Errors
            /// [`RpcError`].
            pub fn parse_kind(kind: Kind, message: &Message<'a>) -> Result<Self, RpcError> {
                Ok(match kind {
                    $(Kind::$kind => Request::$kind(BufferList::parse_list(message, 1)?),)+
                    $(
                        Kind::$part_kind => {
                            Request::$part_kind(BufferList::parse_list(message, 1)?)
                        }
                    )+
                    Kind::Unknown(opcode) => {
                        Request::Unknown(opcode, RawBuffers::parse_list(message, 1)?)
                    }
                })
            }

            /// The kind.
            pub const fn kind(&self) -> Kind {
                match self {
                    $(Request::$kind(_) => Kind::$kind,)+
                    $(Request::$part_kind(_) => Kind::$part_kind,)+
                    Request::Unknown(opcode, _) => Kind::Unknown(*opcode),
                }
            }

            /// Appends the whole message. The opcode in `body` is the caller's affair; see
            /// [`PtlrpcBody::request`].
            pub fn encode(&self, header: &Header, body: &PtlrpcBody, out: &mut Vec<u8>) {
                match self {
                    $(Request::$kind(list) => encode(list, header, body, out),)+
                    $(Request::$part_kind(list) => encode(list, header, body, out),)+
                    Request::Unknown(_, list) => encode(list, header, body, out),
                }
            }

            /// The contents of the buffers by name.
            pub fn fields(&self) -> Fields {
                match self {
                    $(Request::$kind(list) => list.fields(),)+
                    $(Request::$part_kind(list) => list.fields(),)+
                    Request::Unknown(_, list) => list.fields(),
                }
            }
        }

        /// A reply: what it has after `ptlrpc_body`.
        #[derive(Debug, Clone, Copy, PartialEq)]
        #[allow(clippy::large_enum_variant, reason = "read, used at once, and never stored")]
        pub enum Reply<'a> {
            $(#[doc = $name] $kind($reply),)+
            $(#[doc = $part_name] $part_kind($part_reply),)+
            /// Only a body, though the operation has more: it failed early.
            Bare,
            /// Of any other operation.
            Unknown(RawBuffers<'a>),
        }

        impl<'a> Reply<'a> {
            /// Reads the buffers of the reply to a request of this kind.
            ///
            /// # Errors
            /// [`RpcError`].
            pub fn parse(kind: Kind, message: &Message<'a>) -> Result<Reply<'a>, RpcError> {
                if message.count() == 1 && !kind.has_bare_reply() {
                    return Ok(Reply::Bare);
                }
                Ok(match kind {
                    $(Kind::$kind => Reply::$kind(BufferList::parse_list(message, 1)?),)+
                    $(
                        Kind::$part_kind => Reply::$part_kind(BufferList::parse_list(message, 1)?),
                    )+
                    Kind::Unknown(_) => Reply::Unknown(RawBuffers::parse_list(message, 1)?),
                })
            }

            /// Appends the whole message. The opcode in `body` is the caller's affair; see
            /// [`PtlrpcBody::reply`].
            pub fn encode(&self, header: &Header, body: &PtlrpcBody, out: &mut Vec<u8>) {
                match self {
                    $(Reply::$kind(list) => encode(list, header, body, out),)+
                    $(Reply::$part_kind(list) => encode(list, header, body, out),)+
                    Reply::Bare => encode(&obd::Nothing {}, header, body, out),
                    Reply::Unknown(list) => encode(list, header, body, out),
                }
            }

            /// The contents of the buffers by name.
            pub fn fields(&self) -> Fields {
                match self {
                    $(Reply::$kind(list) => list.fields(),)+
                    $(Reply::$part_kind(list) => list.fields(),)+
                    Reply::Bare => Vec::new(),
                    Reply::Unknown(list) => list.fields(),
                }
            }
        }
    };
}

rpcs! {
    opcodes {
        OstGetattr "OST_GETATTR" OST_GETATTR: ost::Object => ost::ObjectOnly;
        OstSetattr "OST_SETATTR" OST_SETATTR: ost::Object => ost::ObjectOnly;
        OstRead "OST_READ" OST_READ: ost::Brw<'a> => ost::ReadReply<'a>;
        OstWrite "OST_WRITE" OST_WRITE: ost::Brw<'a> => ost::WriteReply<'a>;
        OstCreate "OST_CREATE" OST_CREATE: ost::ObjectOnly => ost::ObjectOnly;
        OstDestroy "OST_DESTROY" OST_DESTROY: ost::Destroy<'a> => ost::ObjectOnly;
        OstGetInfo "OST_GET_INFO" OST_GET_INFO: ost::GetInfo<'a> => ost::GetInfoReply<'a>;
        OstConnect "OST_CONNECT" OST_CONNECT: obd::Connect<'a> => obd::ConnectReply;
        OstDisconnect "OST_DISCONNECT" OST_DISCONNECT: obd::Nothing => obd::Nothing;
        OstPunch "OST_PUNCH" OST_PUNCH: ost::Object => ost::ObjectOnly;
        OstStatfs "OST_STATFS" OST_STATFS: obd::Nothing => ost::StatfsReply;
        OstSync "OST_SYNC" OST_SYNC: ost::Object => ost::ObjectOnly;
        OstSetInfo "OST_SET_INFO" OST_SET_INFO: obd::SetInfo<'a> => ost::SetInfoReply;
        OstQuotactl "OST_QUOTACTL" OST_QUOTACTL: obd::Quota => obd::QuotaReply<'a>;
        OstLadvise "OST_LADVISE" OST_LADVISE: ost::LadviseRequest<'a> => ost::ObjectOnly;
        OstFallocate "OST_FALLOCATE" OST_FALLOCATE: ost::Object => ost::ObjectOnly;
        OstSeek "OST_SEEK" OST_SEEK: ost::ObjectOnly => ost::ObjectOnly;
        MdsGetattr "MDS_GETATTR" MDS_GETATTR: mds::Getattr => mds::GetattrReply<'a>;
        MdsGetattrName "MDS_GETATTR_NAME" MDS_GETATTR_NAME:
            mds::GetattrName<'a> => mds::GetattrReply<'a>;
        MdsClose "MDS_CLOSE" MDS_CLOSE: mds::Close<'a> => mds::CloseReply<'a>;
        MdsReadpage "MDS_READPAGE" MDS_READPAGE: mds::Getattr => mds::Body;
        MdsConnect "MDS_CONNECT" MDS_CONNECT: obd::Connect<'a> => obd::ConnectReply;
        MdsDisconnect "MDS_DISCONNECT" MDS_DISCONNECT: obd::Nothing => obd::Nothing;
        MdsGetRoot "MDS_GET_ROOT" MDS_GET_ROOT: mds::GetRoot<'a> => mds::GetRootReply;
        MdsStatfs "MDS_STATFS" MDS_STATFS: mds::Statfs => ost::StatfsReply;
        MdsSync "MDS_SYNC" MDS_SYNC: mds::Getattr => mds::Body;
        MdsSetInfo "MDS_SET_INFO" MDS_SET_INFO: mds::SetInfo<'a> => obd::Nothing;
        MdsQuotactl "MDS_QUOTACTL" MDS_QUOTACTL: obd::Quota => obd::QuotaReply<'a>;
        MdsGetxattr "MDS_GETXATTR" MDS_GETXATTR: mds::Getxattr<'a> => mds::GetxattrReply<'a>;
        MdsGetInfo "MDS_GET_INFO" MDS_GET_INFO: mds::GetInfo<'a> => mds::GetInfoReply<'a>;
        MdsHsmStateGet "MDS_HSM_STATE_GET" MDS_HSM_STATE_GET: mds::Getattr => mds::HsmReply<'a>;
        MdsHsmStateSet "MDS_HSM_STATE_SET" MDS_HSM_STATE_SET:
            mds::HsmStateSet<'a> => obd::Nothing;
        MdsHsmAction "MDS_HSM_ACTION" MDS_HSM_ACTION: mds::Getattr => mds::HsmReply<'a>;
        MdsSwapLayouts "MDS_SWAP_LAYOUTS" MDS_SWAP_LAYOUTS: mds::SwapLayouts<'a> => mds::Body;
        MdsRmfid "MDS_RMFID" MDS_RMFID: mds::Rmfid<'a> => mds::RmfidReply<'a>;
        MdsBatch "MDS_BATCH" MDS_BATCH: mds::Batch<'a> => mds::BlockReply<'a>;
        LdlmConvert "LDLM_CONVERT" LDLM_CONVERT: dlm::Lock<'a> => dlm::ConvertReply;
        LdlmCancel "LDLM_CANCEL" LDLM_CANCEL: dlm::Lock<'a> => obd::Nothing;
        LdlmBlCallback "LDLM_BL_CALLBACK" LDLM_BL_CALLBACK: dlm::Lock<'a> => obd::Nothing;
        LdlmCpCallback "LDLM_CP_CALLBACK" LDLM_CP_CALLBACK: dlm::Completion<'a> => obd::Nothing;
        LdlmGlCallback "LDLM_GL_CALLBACK" LDLM_GL_CALLBACK:
            dlm::Glimpse<'a> => dlm::GlimpseReply<'a>;
        LdlmSetInfo "LDLM_SET_INFO" LDLM_SET_INFO: obd::SetInfo<'a> => obd::Nothing;
        MgsConnect "MGS_CONNECT" MGS_CONNECT: obd::Connect<'a> => obd::ConnectReply;
        MgsDisconnect "MGS_DISCONNECT" MGS_DISCONNECT: obd::Nothing => obd::Nothing;
        MgsTargetReg "MGS_TARGET_REG" MGS_TARGET_REG:
            obd::TargetReg<'a> => obd::TargetRegReply<'a>;
        MgsSetInfo "MGS_SET_INFO" MGS_SET_INFO: obd::MgsSetInfo<'a> => obd::MgsSetInfo<'a>;
        MgsConfigRead "MGS_CONFIG_READ" MGS_CONFIG_READ: obd::ConfigRead => obd::ConfigReadReply;
        ObdPing "OBD_PING" OBD_PING: obd::Nothing => obd::Nothing;
        ObdIdxRead "OBD_IDX_READ" OBD_IDX_READ: obd::Idx => obd::Idx;
        LlogCreate "LLOG_CREATE" LLOG_CREATE: obd::LlogCreate<'a> => obd::Llog;
        LlogNextBlock "LLOG_NEXT_BLOCK" LLOG_NEXT_BLOCK: obd::Llog => obd::LlogBlock<'a>;
        LlogReadHeader "LLOG_READ_HEADER" LLOG_READ_HEADER: obd::Llog => obd::LlogHead<'a>;
        LlogPrevBlock "LLOG_PREV_BLOCK" LLOG_PREV_BLOCK: obd::Llog => obd::LlogBlock<'a>;
        QuotaDqacq "QUOTA_DQACQ" QUOTA_DQACQ: obd::QuotaAcquire => obd::QuotaAcquire;
        QuotaDqrel "QUOTA_DQREL" QUOTA_DQREL: obd::QuotaAcquire => obd::QuotaAcquire;
        SeqQuery "SEQ_QUERY" SEQ_QUERY: obd::SeqQuery => obd::Range;
        FldQuery "FLD_QUERY" FLD_QUERY: obd::FldQuery => obd::Range;
        FldRead "FLD_READ" FLD_READ: obd::FldQuery => obd::Ranges<'a>;
        OutUpdate "OUT_UPDATE" OUT_UPDATE: mds::OutUpdate<'a> => mds::BlockReply<'a>;
    }
    parts {
        ReintSetattr "MDS_REINT/setattr" MDS_REINT:
            mds::ReintSetattr<'a> => mds::ReintSetattrReply<'a>;
        ReintCreate "MDS_REINT/create" MDS_REINT:
            mds::ReintCreate<'a> => mds::ReintCreateReply<'a>;
        ReintLink "MDS_REINT/link" MDS_REINT: mds::ReintLink<'a> => mds::Body;
        ReintUnlink "MDS_REINT/unlink" MDS_REINT: mds::ReintUnlink<'a> => mds::CloseReply<'a>;
        ReintRename "MDS_REINT/rename" MDS_REINT: mds::ReintRename<'a> => mds::CloseReply<'a>;
        ReintSetxattr "MDS_REINT/setxattr" MDS_REINT: mds::ReintSetxattr<'a> => mds::Body;
        ReintRmentry "MDS_REINT/rmentry" MDS_REINT: mds::ReintUnlink<'a> => mds::CloseReply<'a>;
        ReintMigrate "MDS_REINT/migrate" MDS_REINT: mds::ReintMigrate<'a> => mds::CloseReply<'a>;
        ReintResync "MDS_REINT/resync" MDS_REINT: mds::ReintResync<'a> => mds::Body;
        Enqueue "LDLM_ENQUEUE" LDLM_ENQUEUE: dlm::Lock<'a> => dlm::EnqueueReply<'a>;
        EnqueueOpen "LDLM_ENQUEUE/open" LDLM_ENQUEUE: dlm::OpenIntent<'a> => dlm::OpenReply<'a>;
        EnqueueCreat "LDLM_ENQUEUE/creat" LDLM_ENQUEUE:
            dlm::OpenIntent<'a> => dlm::OpenReply<'a>;
        EnqueueOpenCreat "LDLM_ENQUEUE/open|creat" LDLM_ENQUEUE:
            dlm::OpenIntent<'a> => dlm::OpenReply<'a>;
        EnqueueGetattr "LDLM_ENQUEUE/getattr" LDLM_ENQUEUE:
            dlm::GetattrIntent<'a> => dlm::GetattrIntentReply<'a>;
        EnqueueLookup "LDLM_ENQUEUE/lookup" LDLM_ENQUEUE:
            dlm::GetattrIntent<'a> => dlm::GetattrIntentReply<'a>;
        EnqueueGetxattr "LDLM_ENQUEUE/getxattr" LDLM_ENQUEUE:
            dlm::GetxattrIntent<'a> => dlm::GetxattrIntentReply<'a>;
        EnqueueLayout "LDLM_ENQUEUE/layout" LDLM_ENQUEUE:
            dlm::LayoutIntentRequest<'a> => dlm::EnqueueReply<'a>;
        EnqueueQuotaDqacq "LDLM_ENQUEUE/quota_dqacq" LDLM_ENQUEUE:
            dlm::QuotaIntent<'a> => dlm::QuotaIntentReply;
        EnqueueQuotaConn "LDLM_ENQUEUE/quota_conn" LDLM_ENQUEUE:
            dlm::QuotaIntent<'a> => dlm::QuotaIntentReply;
    }
}

/// Appends a whole message.
fn encode<'a>(list: &impl BufferList<'a>, header: &Header, body: &PtlrpcBody, out: &mut Vec<u8>) {
    let mut message = MessageBuilder::new(out, header, 1 + list.count());
    message.value(body);
    list.write_list(&mut message);
    message.finish();
}
