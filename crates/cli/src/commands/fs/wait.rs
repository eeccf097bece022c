//! The wait for the servers of a file system, which says what it waits for, and why.

use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use lustrine_control::{Answer, Request};
use lustrine_fs::{FileSystem, FsError, FsUrl, ImportView, MountOptions};
use lustrine_node::Node;
use lustrine_wire::nid::Nid;

use crate::output::{Failure, print_error};

/// How long the servers may take before the reason is looked for.
const SILENCE: Duration = Duration::from_secs(1);
/// How long a ping may take.
const PING: Duration = Duration::from_secs(5);
/// How often the reason is looked for again.
const AGAIN: Duration = Duration::from_secs(5);

/// Mounts a file system. After two seconds or so standard error says what is waited for, and why it
/// does not answer; the error has that too, behind `what`. `goes_on` ends the wait with `false`.
///
/// # Errors
/// When the servers do not answer in time, or refuse; [`Failure::Interrupted`] if it was ended.
pub(in crate::commands) fn mount(
    node: &Node,
    url: &FsUrl,
    options: &MountOptions,
    what: &str,
    mut goes_on: impl FnMut() -> bool,
) -> Result<FileSystem, Failure> {
    let seconds = options.timeout.as_secs();
    let mut wait = Wait { node, seconds, since: Instant::now(), asked: None, said: None };
    let mut reason = None;
    let mounted = FileSystem::mount_while(node, url, options, |files| {
        wait.look(files, &mut reason);
        goes_on()
    });
    mounted.map_err(|error| match (error, reason) {
        (FsError::GivenUp, _) => Failure::Interrupted,
        (error @ FsError::TimedOut { .. }, Some(reason)) => {
            Failure::Failed(format!("{what}: {error}; {reason}"))
        }
        (error, _) => Failure::Failed(format!("{what}: {error}")),
    })
}

struct Wait<'n> {
    node: &'n Node,
    /// How long it may take.
    seconds: u64,
    /// When the wait began, or the last ping.
    since: Instant,
    /// The ping that is in flight, and the target that it is for.
    asked: Option<(String, Nid, Receiver<Answer>)>,
    /// What standard error has said.
    said: Option<(String, Nid)>,
}

impl Wait<'_> {
    /// Finds out why the first target that is not connected does not answer.
    fn look(&mut self, files: &FileSystem, reason: &mut Option<String>) {
        if let Some((target, nid, answer)) = &self.asked {
            let Ok(answer) = answer.try_recv() else { return };
            let why = why(target, &answer);
            let now = (target.clone(), *nid);
            self.asked = None;
            if self.said.as_ref() != Some(&now) {
                let (target, nid, seconds) = (&now.0, now.1, self.seconds);
                print_error(&format!(
                    "waiting for {target} at {nid}, for {seconds} s at most: {why}"
                ));
                self.said = Some(now);
            }
            *reason = Some(why);
            return;
        }
        let pause = if reason.is_some() { AGAIN } else { SILENCE };
        if self.since.elapsed() < pause {
            return;
        }
        self.since = Instant::now();
        let Ok(imports) = files.imports() else { return };
        let Some(ImportView { target, peer, .. }) =
            imports.into_iter().find(|import| !import.state.is_usable())
        else {
            return;
        };
        let (sender, answer) = mpsc::channel();
        let (node, nid) = (self.node.handle(), peer.nid);
        let request = Request::Ping { nid, timeout_ms: PING.as_millis() as u64 };
        let asked = thread::Builder::new().name("ping".to_owned()).spawn(move || {
            // Nothing receives it if the wait is over.
            let _ = sender.send(node.call(&request));
        });
        if asked.is_ok() {
            self.asked = Some((target, nid, answer));
        }
    }
}

/// Why a target may not answer, by a ping of its node.
fn why(target: &str, answer: &Answer) -> String {
    match answer {
        Answer::Error { message, .. } => message.clone(),
        _ => format!(
            "its node answers pings: {target} may be starting or in recovery, or may not be \
             mounted there"
        ),
    }
}
