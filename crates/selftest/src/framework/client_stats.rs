//! What clients of ours tell of their tests (docs/protocol/client-stats.md).

use lustrine_wire::srpc::{Body, ClientStatsReply, ClientStatsRequest, EXTENSIONS_MAGIC};

use super::{Framework, Outcome};
use crate::cpt_message::{InstanceId, Ticket, ToWorker};
use crate::errno;
use crate::measured::Measured;

/// A FIGURES request without all engines' shares yet.
#[derive(Debug)]
pub(super) struct Telling {
    ticket: Ticket,
    bulk_bits: u64,
    room: u32,
    missing: u16,
    sum: Measured,
}

impl Framework {
    /// What stands in the DEBUG reply, so that consoles of ours know that they may ask.
    pub(super) fn mark(&self) -> u32 {
        if self.tells_figures { EXTENSIONS_MAGIC } else { 0 }
    }

    pub(super) fn figures(&mut self, ticket: Ticket, wanted: &ClientStatsRequest) -> Outcome {
        let (instance, cpts) = match self.instance_of(wanted) {
            Ok(found) => found,
            Err(status) => {
                let reply = ClientStatsReply { status, sid: self.sid(), len: 0 };
                return Outcome::Reply(Body::ClientStatsReply(reply));
            }
        };
        let ClientStatsRequest { bulk_bits, room, .. } = *wanted;
        let missing = cpts.len() as u16;
        let telling = Telling { ticket, bulk_bits, room, missing, sum: Measured::default() };
        let Ok(gather) = self.tellings.insert(telling) else {
            let reply = ClientStatsReply { status: errno::ENOMEM, sid: self.sid(), len: 0 };
            return Outcome::Reply(Body::ClientStatsReply(reply));
        };
        for cpt in &cpts {
            self.order(*cpt, ToWorker::Tell { gather, instance });
        }
        if cpts.is_empty() {
            self.tell(gather);
        }
        Outcome::Later
    }

    /// The client that is meant, and its partitions.
    fn instance_of(&self, wanted: &ClientStatsRequest) -> Result<(InstanceId, Vec<u16>), u32> {
        if !self.tells_figures {
            return Err(errno::EOPNOTSUPP);
        }
        let session = self.session.as_ref().filter(|session| session.sid == wanted.sid);
        let batch = session.ok_or(errno::ESRCH)?.batch(wanted.batch).ok_or(errno::ENOENT)?;
        let client = batch.client(wanted.test)?;
        Ok((client.instance, client.cpts.clone()))
    }

    pub(super) fn told(&mut self, gather: u32, share: &Measured) {
        let Some(telling) = self.tellings.get_mut(gather) else { return };
        telling.sum.add(share);
        telling.missing -= 1;
        if telling.missing == 0 {
            self.tell(gather);
        }
    }

    fn tell(&mut self, gather: u32) {
        let Some(Telling { ticket, bulk_bits, room, sum, .. }) = self.tellings.remove(gather)
        else {
            return;
        };
        let (sid, features) = (self.sid(), self.features());
        let figures = sum.to_wire().encode();
        if figures.len() > room as usize {
            let status = errno::EMSGSIZE;
            return self.send(
                ticket,
                features,
                Body::ClientStatsReply(ClientStatsReply { status, sid, len: 0 }),
            );
        }
        self.order(ticket.cpt, ToWorker::Put { ticket, features, bulk_bits, sid, figures });
    }
}
