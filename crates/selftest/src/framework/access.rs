//! Which console may do what on this node: the [`ServicePolicy`] applied to framework requests
//! [LST-31].
//!
//! A request is judged by the NID that it came from, never by the session id in it: any node may
//! ask for that with DEBUG. A console may have several NIDs, and kernels send its requests from all
//! of them in turn: a NID that the console's node names as its own counts as the console.

use lustrine_wire::nid::Nid;
use lustrine_wire::srpc::{BatchOp, Body, Role, Sid};

use super::session::Session;
use super::{Framework, reply};
use crate::errno;
use crate::policy::ServicePolicy;

impl Framework {
    /// Puts a policy into force. A session that it would not allow ends at once, with all load.
    pub(crate) fn set_policy(&mut self, policy: ServicePolicy) {
        self.policy = policy;
        let kept = |session: &Session| {
            self.policy.allows_session(&session.console)
                && (!session.controlled || self.policy.allows_control(&session.console))
        };
        if self.session.as_ref().is_some_and(|session| !kept(session)) {
            self.end_session();
        }
    }

    /// The EPERM reply to a request that the policy does not allow to the console `from`.
    pub(super) fn forbidden(&self, from: &Nid, request: &Body) -> Option<Body> {
        // A request for a session that is not there changes nothing, and is answered as by kernels
        // [LST-13] [LST-14].
        let may_change = |sid: Sid| self.sid() != sid || self.may_change_session(from);
        let allowed = match request {
            Body::MakeSessionRequest(make) => {
                self.policy.allows_session(from) && may_change(make.sid)
            }
            Body::TestRequest(test) => {
                let client = test.role == Role::Client;
                may_change(test.sid) && (!client || self.policy.allows_control(from))
            }
            Body::BatchRequest(batch) if batch.op == BatchOp::Query as u32 => true,
            Body::BatchRequest(batch) => may_change(batch.sid),
            Body::RemoveSessionRequest(remove) => may_change(remove.sid),
            _ => true,
        };
        if allowed { None } else { reply::refusal(request, errno::EPERM, self.sid()) }
    }

    /// Whether the console `from` may end the session to make its own.
    pub(super) fn may_take_over(&self, from: &Nid) -> bool {
        let own = self.session.as_ref().is_some_and(|session| session.is_of(from));
        own || self.policy.allows_force(from)
    }

    /// Whether the console `from` may change the session, or keep it alive: the session's console
    /// may, and consoles that could take the node from it. If the session's console may have this
    /// node send load, another NID of it counts only if that one may, too.
    pub(super) fn may_change_session(&self, from: &Nid) -> bool {
        let Some(session) = &self.session else { return true };
        let own = session.is_of(from) && self.has_its_rights(session, from);
        own || self.policy.allows_force(from)
    }

    /// The session's console, and the partition that knows its node, if what the console `from` may
    /// do depends on whether it is the same node.
    pub(super) fn to_compare(&self, from: &Nid) -> Option<(Nid, u16)> {
        let session = self.session.as_ref()?;
        let settled = session.is_of(from) || self.policy.allows_force(from);
        let open = !settled && !session.console.is_lo() && self.has_its_rights(session, from);
        open.then_some((session.console, session.home))
    }

    fn has_its_rights(&self, session: &Session, from: &Nid) -> bool {
        !session.controlled || self.policy.allows_control(from)
    }
}
