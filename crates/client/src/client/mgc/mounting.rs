//! Mounting: the configuration, the targets, the root.

use lustrine_fswire::fid::Fid;
use lustrine_fswire::mdt::MdtBody;
use lustrine_fswire::opcode::Target;
use lustrine_fswire::rpc::{Request, mds};
use lustrine_fswire::text::Text;
use lustrine_lnet::service::Turn;
use lustrine_lnet::time::Time;
use lustrine_ptlrpc::RpcError;

use super::Which;
use crate::client::{Client, Done};
use crate::error::{ClientError, Outcome, errno, malformed};
use crate::reply::reply_of;

/// A mount that is under way.
pub(super) struct Mounting {
    done: Done<Fid>,
    /// The root, and until when parameters are awaited.
    root: Option<(Fid, Time)>,
}

impl Mounting {
    /// When it does not wait for parameters any more.
    pub(super) fn deadline(&self) -> Time {
        self.root.map_or(Time::NEVER, |(_, until)| until)
    }
}

impl Client {
    /// Mounts the file system: reads its configuration, connects to its targets, and finds its
    /// root. The requests wait for the servers; the caller limits the time.
    ///
    /// The parameters of the configuration are in force then, unless the management server has not
    /// given them within the pause of [`MgcTunables::requeue_timeout_min`].
    ///
    /// [`MgcTunables::requeue_timeout_min`]: crate::MgcTunables::requeue_timeout_min
    pub fn mount(&mut self, turn: &mut Turn<'_>, done: Done<Fid>) {
        self.started = turn.now;
        let nids = self.args.mgs.clone();
        let mgs = self.add_import(turn, Target::Mgs, "MGS", &nids);
        self.mgs = Some(mgs);
        self.mgc.mounting = Some(Mounting { done, root: None });
        self.mgc.queue = match self.mgc.tunables.follows {
            true => Which::ALL.into(),
            false => [Which::Client].into(),
        };
        self.next_config(turn);
    }

    /// The log of the file system was read, or was not.
    pub(super) fn client_log_settled(&mut self, turn: &mut Turn<'_>, outcome: Outcome<()>) {
        if self.mgc.mounting.is_none() {
            return;
        }
        self.mgc.config(Which::Client).reader.be_lenient();
        match outcome {
            Ok(()) => self.find_root(turn),
            Err(ClientError::Errno(errno::ENOENT)) => {
                let name = self.args.fsname.clone();
                self.mount_failed(turn, ClientError::NoFileSystem(name));
            }
            Err(error) => self.mount_failed(turn, error),
        }
    }

    pub(super) fn mount_failed(&mut self, turn: &mut Turn<'_>, error: ClientError) {
        self.mgc.queue.clear();
        if let Some(mounting) = self.mgc.mounting.take() {
            (mounting.done)(self, turn, Err(error));
        }
    }

    fn find_root(&mut self, turn: &mut Turn<'_>) {
        // New imports would not be closed.
        if self.unmounted {
            return self.mount_failed(turn, ClientError::Rpc(RpcError::Closed));
        }
        let import = match self.mdt(0) {
            Ok(import) => import,
            Err(error) => return self.mount_failed(turn, error),
        };
        let fileset = self.args.fileset.clone();
        let fileset = (!fileset.is_empty()).then(|| Text::new(fileset.as_bytes()));
        let request = mds::GetRoot { body: MdtBody::default(), fileset };
        self.call(turn, import, Request::MdsGetRoot(request), move |client, turn, answer| {
            let root = answer.and_then(|answer| {
                let reply = reply_of!(&answer.reply, MdsGetRoot)?;
                let root = reply.body.fid1;
                if root.is_sane() { Ok(root) } else { Err(malformed("the root has no FID")) }
            });
            match root {
                Ok(root) => {
                    let until = turn.now + client.mgc.tunables.requeue_timeout_min;
                    if let Some(mounting) = &mut client.mgc.mounting {
                        mounting.root = Some((root, until));
                    }
                    client.root_or_configs_known(turn);
                }
                Err(error) => client.mount_failed(turn, error),
            }
        });
    }

    /// The mount is over when the root is known, and the configurations are read or take too long.
    pub(super) fn root_or_configs_known(&mut self, turn: &mut Turn<'_>) {
        let Some(mounting) = &self.mgc.mounting else { return };
        let Some((root, until)) = mounting.root else { return };
        let settled = self.mgc.busy.is_none() && self.mgc.queue.is_empty();
        if !settled && until > turn.now {
            return;
        }
        if let Some(mounting) = self.mgc.mounting.take() {
            (mounting.done)(self, turn, Ok(root));
        }
    }
}
