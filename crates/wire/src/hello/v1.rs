//! HELLO V1: laid out as an LNet header, little-endian throughout [HEL-3].

use super::{Hello, HelloError, IPS_MAX, Ips, Version, read_kind};
use crate::byte_order::ByteOrder;
use crate::nid::{Nid, NidTooLong, ProcessId};
use crate::{Progress, TCP_MAGIC};

const LEN: usize = crate::Header::SHORT_LEN;
const LE: ByteOrder = ByteOrder::Little;
/// The message type of a HELLO in the header that carries it.
const TYPE_HELLO: u32 = 4;

pub(super) fn parse(buf: &[u8]) -> Result<Progress<Hello>, HelloError> {
    if buf.len() < 8 {
        return Ok(Progress::Need(8));
    }
    let (major, minor) = (LE.u16_at(buf, 4), LE.u16_at(buf, 6));
    if (major, minor) != (1, 0) {
        let raw = u32::from(major) << 16 | u32::from(minor);
        return Err(HelloError::UnknownVersion { raw, order: LE });
    }
    if buf.len() < LEN {
        return Ok(Progress::Need(LEN));
    }
    let message = LE.u32_at(buf, 24);
    if message != TYPE_HELLO {
        return Err(HelloError::NotHello(message));
    }
    let payload = LE.u32_at(buf, 28);
    if !payload.is_multiple_of(4) {
        return Err(HelloError::BadPayload(payload));
    }
    if payload as usize > 4 * IPS_MAX {
        return Err(HelloError::TooManyIps(payload / 4));
    }
    let kind = read_kind(LE.u32_at(buf, 40))?;
    let len = LEN + payload as usize;
    if buf.len() < len {
        return Ok(Progress::Need(len));
    }
    let hello = Hello {
        version: Version::V1,
        order: LE,
        src: ProcessId { nid: Nid::from_short(LE.u64_at(buf, 8)), pid: LE.u32_at(buf, 20) },
        dst: ProcessId { nid: Nid::ANY, pid: LE.u32_at(buf, 16) },
        src_incarnation: LE.u64_at(buf, 32),
        dst_incarnation: 0,
        kind,
        ips: Ips::read(LE, buf, LEN, payload as usize / 4)?,
    };
    Ok(Progress::Got(hello, len))
}

pub(super) fn encode(hello: &Hello, out: &mut Vec<u8>) -> Result<(), NidTooLong> {
    let src = hello.src.nid.require_short()?;
    let ips = hello.ips.as_slice();
    let mut raw = [0; LEN];
    LE.put_u32(&mut raw, 0, TCP_MAGIC);
    LE.put_u16(&mut raw, 4, 1);
    LE.put_u16(&mut raw, 6, 0);
    LE.put_u64(&mut raw, 8, src);
    LE.put_u32(&mut raw, 16, hello.dst.pid);
    LE.put_u32(&mut raw, 20, hello.src.pid);
    LE.put_u32(&mut raw, 24, TYPE_HELLO);
    LE.put_u32(&mut raw, 28, 4 * ips.len() as u32);
    LE.put_u64(&mut raw, 32, hello.src_incarnation);
    LE.put_u32(&mut raw, 40, hello.kind.number());
    out.extend_from_slice(&raw);
    for &ip in ips {
        out.extend_from_slice(&LE.u32_bytes(ip));
    }
    Ok(())
}
