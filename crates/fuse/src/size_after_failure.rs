//! SETATTR of a size after a write has failed, which may be the kernel's own: see
//! [`FailedWrite`](crate::failed_writes::FailedWrite).

use fuser::{Errno, ReplyAttr};
use lustrine_client::{Attr, Caller, Changes, Done};
use lustrine_fswire::fid::Fid;

use crate::reply::Asked;
use crate::server::Server;

impl Server {
    /// Sets the size of a file after a write to it has failed, unless other clients have changed
    /// the size: they would lose what they have written. The kernel ignores the error that it gets
    /// then. A program whose ftruncate(2) was taken for the kernel's request can repeat it.
    ///
    /// What another client writes between the question and the cut is lost all the same.
    pub(crate) fn cut_after_failure(
        &self,
        asked: Asked<ReplyAttr>,
        (caller, fid): (Caller, Fid),
        (size, changes): (u64, Changes),
        done: impl FnOnce(Asked<ReplyAttr>) -> Done<Attr> + Send + 'static,
    ) {
        self.shared.post(move |client, turn| {
            if asked.is_interrupted() {
                return;
            }
            let then = asked.done(move |asked, client, turn, attr: Attr| {
                let whole = asked.done(move |asked, client, turn, attr: Attr| {
                    let known = asked.shared.nodes().known_size(fid).unwrap_or_default();
                    match known.allows(attr.size.unwrap_or(0), size) {
                        true => client.set_attributes(turn, caller, fid, changes, done(asked)),
                        false => asked.fail(Errno::EINTR),
                    }
                });
                client.complete(turn, caller, attr, whole);
            });
            client.getattr(turn, caller, fid, then);
        });
    }
}
