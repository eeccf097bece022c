use super::*;

/// [RPC-10]
#[test]
fn every_opcode_has_a_service() {
    for opcode in Opcode::ALL {
        assert!(opcode.service().is_some(), "{opcode}");
    }
    assert_eq!(Opcode(7777).service(), None);
    assert_eq!(Opcode::OBD_PING.version_word(), 0x0001_0003);
    assert_eq!(Opcode::SEQ_QUERY.version_word(), 0x0002_0003);
    assert_eq!(Opcode::OST_STATFS.version_word(), 0x0003_0003);
    assert_eq!(Opcode::LLOG_CREATE.version_word(), 0x0005_0003);
    assert_eq!(Opcode::MGS_TARGET_REG.version_word(), 0x0006_0003);
}

/// [RPC-11]
#[test]
fn requests_and_replies_have_their_portals() {
    assert_eq!(Opcode::OST_WRITE.request_portal(Target::Ost), Some(6));
    assert_eq!(Opcode::OST_WRITE.request_portal(Target::Mdt), Some(13));
    assert_eq!(Opcode::MDS_CLOSE.request_portal(Target::Mdt), Some(23));
    assert_eq!(Opcode::LDLM_ENQUEUE.request_portal(Target::Mgs), Some(26));
    assert_eq!(Opcode::LDLM_CANCEL.request_portal(Target::Ost), Some(17));
    assert_eq!(Opcode::MDS_REINT.request_portal(Target::Ost), None);
    for number in 0..64 {
        if let Some(reply) = portal::reply_to(number) {
            assert!(portal::is_reply(reply) && !portal::is_request(reply), "{number}");
            assert!(!portal::is_bulk(number));
        }
    }
}
