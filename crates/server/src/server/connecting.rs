//! Connecting and disconnecting.

use lustrine_fswire::body::{OpFlags, PtlrpcBody};
use lustrine_fswire::message::{Header, Message};
use lustrine_fswire::opcode::Target as Kind;
use lustrine_fswire::rpc::{Reply, Request, obd};
use lustrine_lnet::service::Turn;
use lustrine_ptlrpc::server::{ConnectArgs, Connected, Received};

use super::{Server, Slot};
use crate::{errno, offers};

impl Server {
    pub(super) fn on_connect(&mut self, turn: &mut Turn<'_>, received: &Received) {
        let result = self.connect(turn, received);
        if let Err(error) = result {
            self.refuse(turn, received, received.xid, error);
        }
    }

    /// The target that a connect names.
    fn target_named(&self, name: &[u8]) -> Option<usize> {
        let name = name.strip_suffix(b"_UUID").unwrap_or(name);
        let named = |slot: &Slot| match slot {
            Slot::Running(target) => target.disk.name().as_bytes() == name,
            Slot::Stopped(_) => false,
        };
        self.slots.iter().position(named)
    }

    /// Connects a client.
    ///
    /// # Errors
    /// The errno of Linux of the reply, positive.
    fn connect(&mut self, turn: &mut Turn<'_>, received: &Received) -> Result<(), i32> {
        let message = Message::parse(&received.message).map_err(|_| errno::EPROTO)?;
        let request = Request::parse(&message, &received.body).map_err(|_| errno::EPROTO)?;
        let (Request::MgsConnect(asked) | Request::MdsConnect(asked) | Request::OstConnect(asked)) =
            request
        else {
            return Err(errno::EPROTO);
        };
        let index = self.target_named(asked.target.as_bytes()).ok_or(errno::ENODEV)?;
        let now = turn.now;
        let max_mod_rpcs = self.args.tunables.max_mod_rpcs;
        let target = self.running(index).ok_or(errno::ENODEV)?;
        if target.kind.connect() != received.body.opcode {
            return Err(errno::ENODEV);
        }
        let uuid = asked.client.as_bytes().to_vec();
        if uuid.is_empty() || received.body.op_flags.contains(OpFlags::LIBCLIENT) {
            return Err(errno::EPROTO);
        }
        if target.recovery.as_ref().is_some_and(|recovery| !recovery.knows(&uuid)) {
            return Err(errno::EBUSY);
        }
        let mut granted = offers::grant((target.kind, target.index), max_mod_rpcs, &asked.data)?;
        if target.kind != Kind::Mgs {
            // It needs no flag [RPC-18].
            granted.instance = target.disk.lives as u32;
        }
        let cookie = received.body.handle;
        let args = ConnectArgs {
            uuid: &uuid,
            cookie,
            client_handle: asked.handle,
            conn_cnt: received.body.conn_cnt,
            initial: received.body.op_flags.contains(OpFlags::INITIAL),
            peer: received.peer,
            local: received.local,
            granted,
        };
        let jobs = &self.jobs;
        let Some(Slot::Running(target)) = self.slots.get_mut(index) else {
            return Err(errno::ENODEV);
        };
        let connected = target.exports.connect(now, &args, |found| {
            jobs.values().any(|waiting| waiting.target == index && waiting.job.export == found)
        })?;
        let (cookie, known) = match connected {
            Connected::New(cookie) => (cookie, false),
            Connected::Again(cookie) => (cookie, true),
        };
        let recovering = target.recovery.is_some();
        let mut void = Vec::new();
        if let Some(recovery) = &mut target.recovery {
            void = recovery.connected(now, &uuid);
        } else if !known && args.initial {
            target.disk.clients.add(&uuid);
        }
        target.grant_at_connect(cookie, known || recovering, &asked.data, &mut granted);
        let mut op_flags = OpFlags::empty();
        op_flags.set(OpFlags::REPLAYABLE, target.kind != Kind::Mgs);
        op_flags.set(OpFlags::RECONNECT, known);
        op_flags.set(OpFlags::RECOVERING, recovering);
        let body = PtlrpcBody {
            handle: cookie,
            op_flags,
            last_committed: target.disk.journal.last_committed(),
            timeout: super::ESTIMATE,
            service_time: 1,
            ..PtlrpcBody::reply(received.body.opcode)
        };
        let data = obd::ConnectReply { data: granted };
        let reply = match target.kind {
            Kind::Mgs => Reply::MgsConnect(data),
            Kind::Mdt => Reply::MdsConnect(data),
            Kind::Ost => Reply::OstConnect(data),
        };
        let mut bytes = Vec::new();
        reply.encode(&Header::default(), &body, &mut bytes);
        void.into_iter().for_each(|id| self.drop_job(now, id));
        if recovering {
            // It replays from the start.
            self.drop_jobs(now, index, cookie);
        }
        self.rpc.reply(turn, received, received.xid, &bytes);
        Ok(())
    }

    pub(super) fn on_disconnect(
        &mut self,
        turn: &mut Turn<'_>,
        index: usize,
        received: &Received,
        match_bits: u64,
    ) {
        self.remove_client(turn.now, index, received.body.handle);
        let body = PtlrpcBody { service_time: 1, ..PtlrpcBody::reply(received.body.opcode) };
        let mut bytes = Vec::new();
        Reply::Bare.encode(&Header::default(), &body, &mut bytes);
        self.rpc.reply(turn, received, match_bits, &bytes);
    }
}
