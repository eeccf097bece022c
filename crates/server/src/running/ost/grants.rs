//! Grants: space that is promised to clients, so that they can write later [OST-7].

use lustrine_fswire::codec::Wire;
use lustrine_fswire::connect::{ConnectData, ConnectFlags};
use lustrine_fswire::fid::{Fid, Handle};
use lustrine_fswire::mdt::MdValid;
use lustrine_fswire::ost::{NiobufFlags, Obdo, ObdoFlags};
use lustrine_fswire::rpc::{Reply, obd, ost};

use crate::errno;
use crate::offers::OST_BRW;
use crate::running::{Job, Step, Target};
use crate::store::objects::PAGE;

/// What is granted at a time: two of the largest transfers.
const STEP: u64 = 2 * OST_BRW as u64;

impl Target {
    /// Space that is promised to all clients, in bytes.
    pub(crate) fn granted(&self) -> u64 {
        self.ost.grants.values().sum()
    }

    /// What may still be promised.
    fn ungranted(&self) -> u64 {
        let objects = self.objects();
        objects.capacity().saturating_sub(objects.used()).saturating_sub(self.granted())
    }

    /// What is promised at most now: a quarter of the target is left to those who write without a
    /// promise.
    fn promisable(&self) -> u64 {
        self.ungranted().saturating_sub(self.objects().capacity() / 4)
    }

    /// Whether a write lacks space. What was promised to other clients is theirs; what was promised
    /// to this one is there. A small part of a chunk takes all of it, so that what is promised may
    /// take more than the target has: up to twice as much.
    pub(super) fn lacks_space(
        &self,
        client: Handle,
        oi: Fid,
        (offset, len, flags): (u64, u64, NiobufFlags),
    ) -> bool {
        let own = self.ost.grants.get(&client).copied().unwrap_or(0);
        let capacity = self.objects().capacity();
        let limit = match flags.contains(NiobufFlags::FROM_GRANT) && own > 0 {
            true => capacity.saturating_mul(2),
            false => capacity.saturating_sub(self.granted() - own),
        };
        self.objects().is_full_for(oi, offset, len, limit)
    }

    /// A client connects: what it has is what it claims, as far as there is space. One that was
    /// not known before gets no more than any write would bring it [OST-17].
    pub(crate) fn grant_at_connect(
        &mut self,
        client: Handle,
        known: bool,
        offered: &ConnectData,
        granted: &mut ConnectData,
    ) {
        if !granted.flags.contains(ConnectFlags::GRANT) {
            return;
        }
        self.ost.grants.remove(&client);
        let wanted = u64::from(offered.grant).max(PAGE);
        let most = if known { u64::from(u32::MAX) } else { STEP };
        let grant = wanted.min(most).min(self.promisable()) / PAGE * PAGE;
        self.ost.grants.insert(client, grant);
        granted.grant = grant as u32;
    }

    /// A client is gone.
    pub(crate) fn drop_grant(&mut self, client: Handle) {
        self.ost.grants.remove(&client);
    }

    /// A write uses grant, and gets more. Returns what it gets.
    pub(crate) fn grant_for_write(
        &mut self,
        client: Handle,
        body: &Obdo,
        niobufs: impl Iterator<Item = (u64, u64, NiobufFlags)>,
    ) -> u64 {
        let reports = body.valid.contains(MdValid::BLOCKS | MdValid::GRANT);
        let Some(held) = self.ost.grants.get_mut(&client) else { return 0 };
        let mut cost = 0;
        for (offset, len, flags) in niobufs {
            if flags.contains(NiobufFlags::FROM_GRANT) {
                cost += ((offset + len).div_ceil(PAGE) - offset / PAGE) * PAGE;
            }
        }
        let promised = *held;
        *held = held.saturating_sub(cost);
        if promised < cost {
            self.disk.violated(|| format!("a write uses {cost} of {promised} bytes granted"));
        }
        if !reports {
            return 0;
        }
        *held = held.saturating_sub(u64::from(body.dropped()));
        let (held, wanted) = (*held, u64::from(body.undirty()));
        let more = wanted.saturating_sub(held).min(STEP).min(self.promisable()) / PAGE * PAGE;
        if let Some(held) = self.ost.grants.get_mut(&client) {
            *held += more;
        }
        more
    }

    /// A read reports what the client gives up.
    pub(crate) fn grant_for_read(&mut self, client: Handle, body: &Obdo) {
        if body.valid.contains(MdValid::BLOCKS | MdValid::GRANT)
            && let Some(held) = self.ost.grants.get_mut(&client)
        {
            *held = held.saturating_sub(u64::from(body.dropped()));
        }
    }

    /// OST_SET_INFO: a client gives grant back. It is refused while there is room for many such
    /// [OST-18]: then the answer has what the client still has.
    pub(super) fn set_info(&mut self, job: &Job, request: &obd::SetInfo<'_>) -> Step {
        let key = request.key.strip_suffix(b"\0").unwrap_or(request.key);
        if key != b"grant_shrink" {
            return job.refuse(errno::EOPNOTSUPP);
        }
        let Ok(mut body) = Obdo::parse(request.value) else { return job.refuse(errno::EPROTO) };
        let is_short = self.granted().saturating_mul(4) >= self.ungranted();
        if is_short
            && body.flags.contains(ObdoFlags::SHRINK_GRANT)
            && let Some(held) = self.ost.grants.get_mut(&job.export)
        {
            *held = held.saturating_sub(body.grant);
            body.grant = 0;
        }
        job.answer(0, &Reply::OstSetInfo(ost::SetInfoReply { body: Some(body) }))
    }
}
