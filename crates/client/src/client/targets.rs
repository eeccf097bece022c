//! Which targets an operation can wait for.

use std::collections::BTreeSet;

use lustrine_fswire::fid::Fid;
use lustrine_fswire::opcode::Target;
use lustrine_lnet::service::Turn;
use lustrine_ptlrpc::{Import, ImportKey, ImportState};

use super::Client;
use crate::layout::FileLayout;

/// A target of the file system, to be compared with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TargetKey(pub(super) ImportKey);

/// What is called when a target is connected.
pub(super) type Watch = Box<dyn FnMut() + Send>;

impl Client {
    /// The targets that reads and writes of a file can wait for, each once: those of all objects,
    /// because the size of the file depends on all of them, and, if `asks_mdt` or the file has data
    /// there, its metadata target. Targets that are not known are left out.
    pub fn targets_of(&self, fid: Fid, layout: &FileLayout, asks_mdt: bool) -> Vec<TargetKey> {
        let osts: BTreeSet<u32> = layout.objects().map(|(_, _, object)| object.ost).collect();
        let mut targets: Vec<TargetKey> =
            osts.iter().filter_map(|ost| self.osts.get(ost).copied().map(TargetKey)).collect();
        if asks_mdt || layout.component_on_mdt().is_some() {
            targets.extend(self.metadata_target_of(fid));
        }
        targets
    }

    /// The metadata target that has a file, if it is known.
    pub fn metadata_target_of(&self, fid: Fid) -> Option<TargetKey> {
        self.known_mdt_of(fid).and_then(Result::ok).map(TargetKey)
    }

    /// Whether requests to a target are over soon: its import is FULL, or IDLE and connects with
    /// the next request, or they fail at once.
    pub fn is_connected(&self, target: TargetKey) -> bool {
        let soon = |import: &Import| import.state().is_usable() || import.is_deactivated();
        self.rpc.import(target.0).is_some_and(soon)
    }

    /// Has `watch` called each time that a target is connected. It replaces what was given before.
    pub fn watch_connections(&mut self, watch: impl FnMut() + Send + 'static) {
        self.watch = Some(Box::new(watch));
    }

    /// An object target was not used for long. A client that holds no locks there disconnects: the
    /// server then answers fewer pings, and waits for fewer clients when it restarts [IMP-14].
    pub(super) fn target_unused(&mut self, turn: &mut Turn<'_>, key: ImportKey) {
        let is_ost = self.rpc.import(key).is_some_and(|import| import.kind() == Target::Ost);
        if is_ost && self.locks.at(key).is_empty() {
            self.rpc.with(turn, key, |import, now, xids| import.become_idle(now, xids));
        }
    }

    /// The state of an import has changed.
    pub(super) fn state_changed(
        &mut self,
        turn: &mut Turn<'_>,
        import: ImportKey,
        to: ImportState,
    ) {
        if to == ImportState::Full {
            self.target_connected(turn, import);
            self.mgs_connected(turn, import);
        }
        if to == ImportState::Idle {
            self.grant_ended(import);
        }
        if let (ImportState::Full, Some(watch)) = (to, &mut self.watch) {
            watch();
        }
    }
}
