//! Every structure of fixed size: any bytes of its length are a value, and the value comes back
//! from what it is written to.

use lustrine_fswire::codec::Wire;
use lustrine_fswire::describe::Describe;
use lustrine_fswire::*;
use proptest::prelude::*;

fn holds<T: Wire + Describe + PartialEq + core::fmt::Debug>(bytes: &[u8]) {
    let value = T::parse(bytes).expect("enough bytes");
    let written = value.to_bytes();
    assert_eq!(written.len(), T::SIZE);
    assert_eq!(T::parse(&written), Ok(value));
    // What is written is fixed: reserved bytes are 0 from then on.
    assert_eq!(T::parse(&written).map(|value| value.to_bytes()), Ok(written));
    T::parse(bytes).expect("enough bytes").describe();
    assert!(T::parse(&bytes[..T::SIZE - 1]).is_err());
    assert_eq!(T::parse(&vec![0; T::SIZE]).map(|value| value.to_bytes()), Ok(vec![0; T::SIZE]));
}

macro_rules! structures {
    ($($structure:ty,)+) => {
        /// The largest of them.
        const SIZE_MAX: usize = {
            let mut max = 0;
            $(if <$structure as Wire>::SIZE > max { max = <$structure as Wire>::SIZE; })+
            max
        };

        proptest! {
            #[test]
            fn every_structure_comes_back(bytes in prop::collection::vec(any::<u8>(), SIZE_MAX)) {
                $(holds::<$structure>(&bytes);)+
            }
        }
    };
}

structures! {
    batch::BatchHeaderFields,
    batch::BlockHeader,
    batch::BulkBuffer,
    batch::UpdateFields,
    batch::UpdateHeaderFields,
    batch::UpdatesHeader,
    body::PtlrpcBody,
    connect::ConnectData,
    dir::EntryHeader,
    dir::PageHeader,
    fid::Fid,
    fid::SeqRange,
    idx::IdxInfo,
    layout::ComponentEntry,
    layout::CompositeHeader,
    layout::LmvHeader,
    layout::LmvUser,
    layout::LovHeader,
    layout::LovObject,
    ldlm::Extent,
    ldlm::Flock,
    ldlm::IbitsPolicy,
    ldlm::LayoutIntent,
    ldlm::LdlmReply,
    ldlm::LockDesc,
    ldlm::OstLvb,
    ldlm::QuotaLvb,
    ldlm::Resource,
    llog::CfgHeader,
    llog::ChangelogHeader,
    llog::ChangelogNid,
    llog::ChangelogRename,
    llog::ChangelogUser,
    llog::LlogBody,
    llog::LlogHeaderFields,
    llog::LmvDesc,
    llog::LogId,
    llog::LovDesc,
    llog::Marker,
    llog::RecordHeader,
    llog::RecordTail,
    mdt::AclEntry,
    mdt::CloseData,
    mdt::CreateRecord,
    mdt::MdtBody,
    mdt::MdtEpoch,
    mdt::NameRecord,
    mdt::Reint,
    mdt::ResyncRecord,
    mdt::SetattrRecord,
    mdt::SetxattrRecord,
    mdt::SwapLayouts,
    message::RawHeader,
    mgs::ConfigBody,
    mgs::ConfigRes,
    mgs::NidEntryHeader,
    mgs::TargetInfoHead,
    ost::Fiemap,
    ost::IoObj,
    ost::Ladvise,
    ost::LadviseHeader,
    ost::Niobuf,
    ost::Obdo,
    ost::ObdoLayout,
    ost::Statfs,
    quota::QuotaBody,
    quota::Quotactl,
    text::FixedText<40>,
}
