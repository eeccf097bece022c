//! Statistics of this node's clients for consoles (docs/protocol/client-stats.md).

use lustrine_wire::srpc::{Body, ClientStatsReply, ClientStatsRequest, EXTENSIONS_MAGIC};

use super::{Framework, Outcome};
use crate::cpt_message::{InstanceId, Ticket, ToWorker};
use crate::errno;
use crate::measured::Measured;

/// A request for client statistics, while shares of workers are missing.
#[derive(Debug)]
pub(super) struct StatsGather {
    ticket: Ticket,
    bulk_bits: u64,
    room: u32,
    missing: u16,
    sum: Measured,
}

impl Framework {
    /// The mark in the DEBUG reply, by which Lustrine consoles know that they may ask.
    pub(super) fn mark(&self) -> u32 {
        if self.reports_stats { EXTENSIONS_MAGIC } else { 0 }
    }

    pub(super) fn client_stats(&mut self, ticket: Ticket, wanted: &ClientStatsRequest) -> Outcome {
        let (instance, cpts) = match self.instance_of(wanted) {
            Ok(found) => found,
            Err(status) => {
                let reply = ClientStatsReply { status, sid: self.sid(), len: 0 };
                return Outcome::Reply(Body::ClientStatsReply(reply));
            }
        };
        let ClientStatsRequest { bulk_bits, room, .. } = *wanted;
        let missing = cpts.len() as u16;
        let stats_gather =
            StatsGather { ticket, bulk_bits, room, missing, sum: Measured::default() };
        let Ok(gather) = self.stats_gathers.insert(stats_gather) else {
            let reply = ClientStatsReply { status: errno::ENOMEM, sid: self.sid(), len: 0 };
            return Outcome::Reply(Body::ClientStatsReply(reply));
        };
        for cpt in &cpts {
            self.order(*cpt, ToWorker::Measure { gather, instance });
        }
        if cpts.is_empty() {
            self.reply_with_stats(gather);
        }
        Outcome::Later
    }

    /// The client that is meant, and its partitions.
    fn instance_of(&self, wanted: &ClientStatsRequest) -> Result<(InstanceId, Vec<u16>), u32> {
        if !self.reports_stats {
            return Err(errno::EOPNOTSUPP);
        }
        let session = self.session.as_ref().filter(|session| session.sid == wanted.sid);
        let batch = session.ok_or(errno::ESRCH)?.batch(wanted.batch).ok_or(errno::ENOENT)?;
        let client = batch.client(wanted.test)?;
        Ok((client.instance, client.cpts.clone()))
    }

    pub(super) fn measured(&mut self, gather: u32, share: &Measured) {
        let Some(stats_gather) = self.stats_gathers.get_mut(gather) else { return };
        stats_gather.sum.add(share);
        stats_gather.missing -= 1;
        if stats_gather.missing == 0 {
            self.reply_with_stats(gather);
        }
    }

    fn reply_with_stats(&mut self, gather: u32) {
        let Some(StatsGather { ticket, bulk_bits, room, sum, .. }) =
            self.stats_gathers.remove(gather)
        else {
            return;
        };
        let (sid, features) = (self.sid(), self.features());
        let stats = sum.to_wire().encode();
        if stats.len() > room as usize {
            let status = errno::EMSGSIZE;
            return self.send(
                ticket,
                features,
                Body::ClientStatsReply(ClientStatsReply { status, sid, len: 0 }),
            );
        }
        self.order(ticket.cpt, ToWorker::Put { ticket, features, bulk_bits, sid, stats });
    }
}
