//! Operations in the name of a process that is in several groups.
//!
//! A request names one supplementary group of the process, or two: those that the mount has seen
//! the files have. Another client may have changed the group of a directory since, and the kernel
//! does not look up the root of the mount and the directory in which a process works.

use std::sync::Arc;

use lustrine_client::{Attr, Caller, Client, ClientError, Done, Outcome};
use lustrine_lnet::service::Turn;

use crate::nodes::Node;
use crate::requester::Requester;
use crate::shared::Shared;

/// What goes on when the groups of files are known.
type Seen = Box<dyn FnOnce(&mut Client, &mut Turn<'_>, &[u32]) + Send>;

/// Files whose groups matter for an operation, the most important one first, and their groups.
struct Groups {
    nodes: Vec<Node>,
    gids: Vec<u32>,
}

impl Shared {
    /// Has the event loop of the client start an operation on these files in the name of a process,
    /// the most important file first. If it is refused, and the files have other groups than was
    /// known, it is done once more. `then` gets the outcome.
    pub(crate) fn post_as<T: 'static>(
        self: &Arc<Shared>,
        requester: Requester,
        nodes: &[Node],
        ask: impl Fn(&mut Client, &mut Turn<'_>, Caller, Done<T>) + Send + Sync + 'static,
        then: impl FnOnce(&mut Client, &mut Turn<'_>, Caller, Outcome<T>) + Send + 'static,
    ) {
        let gids: Vec<u32> = nodes.iter().map(|node| node.gid).collect();
        let caller = requester.caller(&gids);
        if requester.groups.is_empty() {
            return self.post(move |client, turn| {
                let then = move |client: &mut Client, turn: &mut Turn<'_>, outcome: Outcome<T>| {
                    then(client, turn, caller, outcome);
                };
                ask(client, turn, caller, Box::new(then));
            });
        }
        let shared = Arc::clone(self);
        let groups = Groups { nodes: nodes.to_vec(), gids: Vec::new() };
        let (ask, again) = {
            let ask = Arc::new(ask);
            (Arc::clone(&ask), ask)
        };
        self.post(move |client, turn| {
            let first: Done<T> = Box::new(move |client, turn, outcome| match outcome {
                Err(error) if is_refusal(&error) => {
                    let seen = move |client: &mut Client, turn: &mut Turn<'_>, gids: &[u32]| {
                        let now = requester.caller(gids);
                        if now == caller {
                            return then(client, turn, caller, Err(error));
                        }
                        let last: Done<T> =
                            Box::new(move |client, turn, outcome| then(client, turn, now, outcome));
                        again(client, turn, now, last);
                    };
                    shared.look_at(client, turn, caller, groups, Box::new(seen));
                }
                outcome => then(client, turn, caller, outcome),
            });
            ask(client, turn, caller, first);
        });
    }

    /// Asks for the groups that files have now.
    fn look_at(
        self: Arc<Shared>,
        client: &mut Client,
        turn: &mut Turn<'_>,
        caller: Caller,
        mut groups: Groups,
        seen: Seen,
    ) {
        let Some(node) = groups.nodes.get(groups.gids.len()).copied() else {
            return seen(client, turn, &groups.gids);
        };
        let then: Done<_> = Box::new(move |client, turn, attr: Outcome<Attr>| {
            let gid = attr.map_or(node.gid, |attr| {
                self.nodes().seen(&attr);
                attr.gid
            });
            groups.gids.push(gid);
            self.look_at(client, turn, caller, groups, seen);
        });
        client.getattr(turn, caller, node.fid, then);
    }
}

/// Whether the server says that a process may not do something.
fn is_refusal(error: &ClientError) -> bool {
    const EPERM: i32 = 1;
    const EACCES: i32 = 13;
    matches!(error, ClientError::Errno(EPERM | EACCES))
}
