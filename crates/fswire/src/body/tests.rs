use super::*;

/// [RPC-10]
#[test]
fn requests_name_their_service() {
    let body = PtlrpcBody::request(Opcode::LDLM_ENQUEUE);
    assert_eq!((body.version, body.service()), (0x0004_0003, 4));
    assert!(body.version_is_known());
    let body = PtlrpcBody::reply(Opcode::LDLM_ENQUEUE);
    assert_eq!((body.version, body.kind), (3, MessageType::REPLY));
}

#[test]
fn a_body_without_the_job_is_read() {
    let mut body = PtlrpcBody::request(Opcode::MDS_SYNC);
    body.jobid = FixedText::new(b"cp.1000").unwrap();
    body.gid = 7;
    let bytes = body.to_bytes();
    assert_eq!(PtlrpcBody::parse_any(&bytes), Ok(body));
    let short = PtlrpcBody::parse_any(&bytes[..152]).unwrap();
    assert_eq!(short, PtlrpcBody { jobid: FixedText::EMPTY, ..body });
    assert!(PtlrpcBody::parse_any(&bytes[..151]).is_err());
}
