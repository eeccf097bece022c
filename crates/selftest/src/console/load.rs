//! The TEST requests that a new test comes to [LST-23].

use lustrine_wire::nid::{Nid, PID_LUSTRE};
use lustrine_wire::srpc::{
    BrwCheck, BrwOp, CONCURRENCY_MAX, Destination, FEATURE_BULK_LEN, Role, Sid, TestParams,
    TestRequest,
};

use super::command::NewTest;
use super::refusal::Refusal;
use crate::limits::PAGE;
use crate::load::{Plan, Test};

/// Most destinations of one client: a kernel node reads lists that do not fit one page wrongly,
/// and some of them bring it down [LST-19] [LST-26].
pub(super) const DESTINATIONS_MAX: u32 = PAGE / Destination::LEN as u32;

impl NewTest {
    /// Checks what does not depend on nodes: its ranges, and what would harm kernel nodes.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn examine(&self, features: u32) -> Result<(), Refusal> {
        let bad = |what: &str, value: i64, allowed: &str| {
            let (what, allowed) = (what.to_owned(), allowed.to_owned());
            Err(Refusal::OutOfRange { what, value, allowed })
        };
        if self.loops == 0 {
            return bad("loop", 0, "-1 for no end, or 1 and more");
        }
        if !(1..=CONCURRENCY_MAX).contains(&self.concurrency) {
            return bad("concurrency", i64::from(self.concurrency), "1 to 1024");
        }
        if self.spread.clients == 0 || self.spread.servers == 0 {
            return bad("distribution", 0, "1 and more on both sides");
        }
        if self.spread.servers > DESTINATIONS_MAX {
            let allowed = "1 to 341: kernel nodes misread longer lists, and some of them crash; \
                           make several tests of it";
            return bad("servers for each client", i64::from(self.spread.servers), allowed);
        }
        Plan::new(self.test, features, self.offset)?;
        let offset = self.offset;
        if !offset.is_multiple_of(8) {
            return bad("offset", i64::from(offset), "a multiple of 8");
        }
        if offset >= PAGE {
            let allowed = "less than 4096: kernels of all releases crash with more";
            return bad("offset", i64::from(offset), allowed);
        }
        let len = self.test.len();
        if len > 0 && (offset + len).div_ceil(PAGE) > len.div_ceil(PAGE) {
            let most = len.next_multiple_of(PAGE) - len;
            let allowed = format!(
                "at most {most} with this size (beyond it the data needs one more page, and \
                 kernels from 2.16 on crash)"
            );
            return bad("offset", i64::from(offset), &allowed);
        }
        Ok(())
    }
}

/// What the request to every server says, but for the match bits.
pub(super) fn to_server(
    test: &NewTest,
    fields: SessionFields,
    clients: usize,
    servers: usize,
) -> TestRequest {
    let spread = test.spread;
    let shares = (clients as u32).div_ceil(spread.clients);
    let turns = (servers as u32).div_ceil(spread.servers);
    let loops = shares.div_ceil(turns.max(1)).saturating_mul(spread.clients);
    let loops = loops.saturating_mul(test.concurrency).min(i32::MAX as u32);
    request(test, fields, Role::Server, loops as i32, 0)
}

/// What the request to every client says, but for the match bits.
pub(super) fn to_client(test: &NewTest, fields: SessionFields) -> TestRequest {
    request(test, fields, Role::Client, test.loops, test.spread.servers)
}

/// The destinations of the `index`-th client.
pub(super) fn destinations(test: &NewTest, index: usize, servers: &[Nid]) -> Vec<Destination> {
    let spread = test.spread;
    let start = index / spread.clients as usize * spread.servers as usize;
    let places = (start..).take(spread.servers as usize);
    places
        .filter_map(|place| servers[place % servers.len()].to_short())
        .map(|nid| Destination { nid, pid: PID_LUSTRE })
        .collect()
}

/// What the session adds to a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct SessionFields {
    pub(super) sid: Sid,
    pub(super) batch: u64,
    pub(super) features: u32,
}

fn request(
    test: &NewTest,
    fields: SessionFields,
    role: Role,
    loops: i32,
    destinations: u32,
) -> TestRequest {
    TestRequest {
        reply_bits: 0,
        bulk_bits: 0,
        sid: fields.sid,
        batch: fields.batch,
        service: test.test.service().id(),
        loops,
        concurrency: test.concurrency,
        role,
        stop_on_error: u8::from(test.stop_on_error),
        destinations,
        params: params(test, fields.features),
        rate: if role == Role::Client { test.rate } else { 0 },
    }
}

fn params(test: &NewTest, features: u32) -> TestParams {
    let (op, len, check) = match test.test {
        Test::Ping => return TestParams::Ping { size: 0, flags: 0, unused: [0; 4] },
        Test::Read { len, check } => (BrwOp::Read, len, check),
        Test::Write { len, check } => (BrwOp::Write, len, check),
    };
    let check = check as BrwCheck as u32;
    match features & FEATURE_BULK_LEN {
        0 => TestParams::BrwV0 { rw: op as u32, pages: len.div_ceil(PAGE), check },
        _ => TestParams::BrwV1 { rw: op as u16, check: check as u16, len, offset: test.offset },
    }
}
