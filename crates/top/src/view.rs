//! What happened between two samples.

use serde::Serialize;

use crate::mount::MountView;
use crate::node::NodeView;
use crate::sample::{MountSample, Sample};

/// What happened between two samples.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct View {
    /// When the later sample was taken, in UTC.
    pub date: String,
    /// The time between them, in seconds.
    pub interval_s: f64,
    /// The running node; `None` if none answers.
    pub node: Option<NodeView>,
    /// Whether a node was asked that has neither answered so far nor taken too long.
    #[serde(skip)]
    pub node_is_awaited: bool,
    /// The mounts.
    pub mounts: Vec<MountView>,
    /// Whether the list of the mounts, or one of them, was asked for and has neither come so far
    /// nor taken too long.
    #[serde(skip)]
    pub mounts_are_awaited: bool,
    /// What did not answer, and why.
    pub notes: Vec<String>,
}

impl View {
    /// What happened from one sample to a later one. Rates of what was not there in the earlier
    /// one, or has begun again since, are unknown.
    pub fn between(then: &Sample, now: &Sample) -> View {
        let interval_s = now.at_ns.saturating_sub(then.at_ns) as f64 / 1e9;
        let node = now.node.as_ref();
        let before = |mount: &MountSample| {
            then.mounts.iter().find(|old| old.dir == mount.dir && old.pid == mount.pid)
        };
        View {
            date: now.date.clone(),
            interval_s,
            node: node.map(|node| NodeView::between(then.node.as_ref(), node, interval_s)),
            node_is_awaited: now.node_is_awaited,
            mounts: now
                .mounts
                .iter()
                .map(|mount| MountView::between(before(mount), mount))
                .collect(),
            mounts_are_awaited: now.mounts_are_awaited,
            notes: now.notes.clone(),
        }
    }
}
