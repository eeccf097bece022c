use super::*;
use crate::codec::Wire;

/// [MDT-18]
#[test]
fn the_pool_may_be_missing() {
    let control = Quotactl { command: QuotaCommand::GET_QUOTA, id: 7, ..Quotactl::default() };
    let mut bytes = control.to_bytes();
    assert_eq!(PoolQuotactl::parse(&bytes), Ok(PoolQuotactl { control, pool: None }));
    bytes.extend(*b"fast\0\0\0\0\0\0\0\0\0\0\0\0");
    let with_pool = PoolQuotactl::parse(&bytes).unwrap();
    assert_eq!(with_pool.pool.unwrap().as_bytes(), b"fast");
    let mut again = Vec::new();
    with_pool.write(&mut Writer::new(&mut again));
    assert_eq!(again, bytes);
    assert!(PoolQuotactl::parse(&bytes[..111]).is_err());
}
