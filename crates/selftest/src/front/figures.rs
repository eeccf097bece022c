//! What clients of ours tell of their tests (docs/protocol/figures.md).

use lustrine_lnet::time::Time;
use lustrine_wire::srpc::{Body, FIGURES_MARK, FiguresReply, FiguresRequest};

use super::{Front, Outcome};
use crate::cross::{InstanceId, Ticket, ToEngine};
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

impl Front {
    /// What stands in the DEBUG reply, so that consoles of ours know that they may ask.
    pub(super) fn mark(&self) -> u32 {
        if self.tells_figures { FIGURES_MARK } else { 0 }
    }

    pub(super) fn figures(
        &mut self,
        now: Time,
        ticket: Ticket,
        wanted: &FiguresRequest,
    ) -> Outcome {
        let (instance, cpts) = match self.instance_of(wanted) {
            Ok(found) => found,
            Err(status) => {
                let reply = FiguresReply { status, sid: self.sid(), len: 0 };
                return Outcome::Reply(Body::FiguresReply(reply));
            }
        };
        let FiguresRequest { bulk_bits, room, .. } = *wanted;
        let missing = cpts.len() as u16;
        let telling = Telling { ticket, bulk_bits, room, missing, sum: Measured::default() };
        let Ok(gather) = self.tellings.insert(telling) else {
            let reply = FiguresReply { status: errno::ENOMEM, sid: self.sid(), len: 0 };
            return Outcome::Reply(Body::FiguresReply(reply));
        };
        for cpt in &cpts {
            self.order(*cpt, ToEngine::Tell { gather, instance });
        }
        if cpts.is_empty() {
            self.tell(now, gather);
        }
        Outcome::Later
    }

    /// The client that is meant, and its partitions.
    fn instance_of(&self, wanted: &FiguresRequest) -> Result<(InstanceId, Vec<u16>), u32> {
        if !self.tells_figures {
            return Err(errno::EOPNOTSUPP);
        }
        let session = self.session.as_ref().filter(|session| session.sid == wanted.sid);
        let batch = session.ok_or(errno::ESRCH)?.batch(wanted.batch).ok_or(errno::ENOENT)?;
        let client = batch.client(wanted.test)?;
        Ok((client.instance, client.cpts.clone()))
    }

    pub(super) fn told(&mut self, now: Time, gather: u32, share: &Measured) {
        let Some(telling) = self.tellings.get_mut(gather) else { return };
        telling.sum.add(share);
        telling.missing -= 1;
        if telling.missing == 0 {
            self.tell(now, gather);
        }
    }

    fn tell(&mut self, now: Time, gather: u32) {
        let Some(Telling { ticket, bulk_bits, room, sum, .. }) = self.tellings.remove(gather)
        else {
            return;
        };
        let (sid, features) = (self.sid(), self.features());
        let figures = sum.figures(now).encode();
        if figures.len() > room as usize {
            let status = errno::EMSGSIZE;
            return self.send(
                ticket,
                features,
                Body::FiguresReply(FiguresReply { status, sid, len: 0 }),
            );
        }
        self.order(ticket.cpt, ToEngine::Put { ticket, features, bulk_bits, sid, figures });
    }
}
