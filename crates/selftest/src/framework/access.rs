//! Which console may do what on this node: the [`ServicePolicy`] applied to framework requests
//! [LST-31].
//!
//! A request is judged by the NID that it came from, never by the session id in it: any node may
//! ask for that with DEBUG.

use lustrine_wire::nid::Nid;
use lustrine_wire::srpc::{BatchOp, Body, Role};

use super::{Framework, reply};
use crate::errno;
use crate::policy::ServicePolicy;

impl Framework {
    /// Puts a policy into force. A session that it would not allow ends at once, with all load.
    pub(crate) fn set_policy(&mut self, policy: ServicePolicy) {
        self.policy = policy;
        let kept = |session: &super::Session| {
            self.policy.allows_session(&session.console)
                && (!session.controlled || self.policy.allows_control(&session.console))
        };
        if self.session.as_ref().is_some_and(|session| !kept(session)) {
            self.end_session();
        }
    }

    /// The EPERM reply to a request that the policy does not allow to the console `from`.
    pub(super) fn forbidden(&self, from: &Nid, request: &Body) -> Option<Body> {
        let allowed = match request {
            Body::MakeSessionRequest(_) => {
                self.policy.allows_session(from) && self.may_change_session(from)
            }
            Body::TestRequest(test) if test.role == Role::Client => {
                self.policy.allows_control(from)
            }
            Body::BatchRequest(batch) if batch.op == BatchOp::Query as u32 => true,
            Body::TestRequest(_) | Body::BatchRequest(_) | Body::RemoveSessionRequest(_) => {
                self.may_change_session(from)
            }
            _ => true,
        };
        if allowed { None } else { reply::refusal(request, errno::EPERM, self.sid()) }
    }

    /// Whether the console `from` may end the session to make its own.
    pub(super) fn may_take_over(&self, from: &Nid) -> bool {
        let own = self.session.as_ref().is_some_and(|session| session.console == *from);
        own || self.policy.allows_force(from)
    }

    /// Whether the console `from` may change the session, or keep it alive: one of a console that
    /// may have this node send load belongs to such consoles alone.
    pub(super) fn may_change_session(&self, from: &Nid) -> bool {
        !self.session.as_ref().is_some_and(|session| session.controlled)
            || self.policy.allows_control(from)
    }
}
