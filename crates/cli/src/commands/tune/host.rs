//! The settings of what runs on this host: nodes, mounts, sysctls.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use lustrine_control::{Answer, ChangeRequest, NetRow, NiSelector, Request};
use lustrine_fuse::MountStatus;
use lustrine_node::control::{Connection, ControlError};
use lustrine_tune::apply::{AUTO, Found, NodeStart, Record, SettingLocation, SettingsHost, Sysctl};
use lustrine_wire::nid::Nid;

use super::start::connect;
use super::store::Store;

/// How long the program of a mount may take for an answer. It needs no server for that.
const ANSWER_MAX: Duration = Duration::from_secs(10);

const STARTED_AGAIN: &str = "the node was started again since";

/// Reads and changes settings, and keeps the record in a file.
pub(super) struct Here {
    /// Where the record is kept; `None` if nothing is changed.
    store: Option<Store>,
    netns: u64,
    mntns: u64,
    boot: String,
}

impl Here {
    /// # Errors
    /// When the kernel does not say which boot and which network namespace this is.
    pub(super) fn new(store: Option<Store>) -> Result<Here, String> {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id")
            .map_err(|error| format!("cannot read the ID of this boot: {error}"))?;
        let (_, netns) = lustrine_sys::process::network_namespace()
            .ok_or("the system does not say in which network namespace this is")?;
        let mntns = lustrine_sys::process::mount_namespace()
            .ok_or("the system does not say in which mount namespace this is")?;
        Ok(Here { store, netns, mntns, boot: boot.trim().to_owned() })
    }

    /// A sysctl of this network namespace.
    pub(super) fn sysctl(&self, name: Sysctl) -> SettingLocation {
        SettingLocation::Sysctl { name, netns: self.netns, boot: self.boot.clone() }
    }

    /// The mounts that have a target at one of these nodes: their location, and what there is to
    /// say of the others, by mount point.
    pub(super) fn mounts_towards(
        &self,
        nids: &[Nid],
    ) -> Result<(Vec<SettingLocation>, BTreeMap<String, String>), String> {
        let dirs = lustrine_fuse::mount_points()
            .map_err(|error| format!("cannot read /proc/self/mountinfo: {error}"))?;
        let wanted: Vec<String> = nids.iter().map(ToString::to_string).collect();
        let (mut locations, mut others) = (Vec::new(), BTreeMap::new());
        for dir in dirs {
            let shown = dir.display().to_string();
            match status(&dir) {
                Ok(status)
                    if !status.client.targets.iter().any(|row| wanted.contains(&row.nid)) => {}
                // The same NIDs mean other nodes there.
                Ok(status) if !is_in_this_network(status.pid) => {
                    let words = "its program is in another network namespace, or it is not known \
                                 in which one, so it is not changed unless --mount names it";
                    others.insert(shown, words.to_owned());
                }
                Ok(status) => locations.push(self.location_of(&dir, status)?),
                Err(why) => {
                    others.insert(shown, why);
                }
            }
        }
        Ok((locations, others))
    }

    /// The setting of the mount at a directory.
    ///
    /// # Errors
    /// When no mount of `lustrine mount` is there, or it may not be asked.
    pub(super) fn mount_at(&self, dir: &Path) -> Result<SettingLocation, String> {
        let real = |dir: &Path| {
            fs::canonicalize(dir).map_err(|error| format!("{}: {error}", dir.display()))
        };
        let dir = ask(dir, real)?;
        self.location_of(&dir, status(&dir)?)
    }

    fn location_of(&self, dir: &Path, status: MountStatus) -> Result<SettingLocation, String> {
        let shown = dir.display();
        let dir = dir.to_str().ok_or_else(|| format!("the path {shown} is not UTF-8"))?.to_owned();
        let MountStatus { source, pid, .. } = status;
        let (mntns, boot) = (self.mntns, self.boot.clone());
        Ok(SettingLocation::Mount { dir, source, pid, mntns, boot })
    }
}

/// A running node, and which start of it this is; `None` if it does not run.
fn node_at(socket: &Path) -> Result<Option<(Connection, NodeStart)>, String> {
    match connect(socket) {
        Ok(found) => Ok(Some(found)),
        Err(ControlError::NotRunning { .. }) => Ok(None),
        Err(error) => Err(error.to_string()),
    }
}

/// The interfaces of a running node, and which start of it has them; `None` if it does not run.
pub(super) fn interfaces(socket: &Path) -> Result<Option<(NodeStart, Vec<NetRow>)>, String> {
    let Some((mut node, start)) = node_at(socket)? else { return Ok(None) };
    match node.ask(&Request::ShowNet) {
        Ok(Answer::Net(info)) => Ok(Some((start, info.nets))),
        Ok(Answer::Error { message, .. }) => Err(message),
        Ok(_) => Err("unexpected reply from the node; the versions may differ".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

fn of_node(socket: &str, nid: &str, start: NodeStart) -> Result<Found, String> {
    match interfaces(Path::new(socket))? {
        None => Ok(Found::Gone("the node does not run any more".to_owned())),
        Some((other, _)) if other != start => Ok(Found::Gone(STARTED_AGAIN.to_owned())),
        Some((_, rows)) => match rows.iter().find(|row| row.nid.to_string() == nid) {
            Some(row) => Ok(Found::Value(row.conns_per_peer.to_string())),
            None => Ok(Found::Gone("the node does not have this interface any more".to_owned())),
        },
    }
}

fn set_node(socket: &str, nid: &str, start: NodeStart, value: &str) -> Result<(), String> {
    let nid: Nid = nid.parse().map_err(|error| format!("{nid}: {error}"))?;
    let count: u16 =
        value.parse().map_err(|_| format!("{value} is not a number of connections"))?;
    let which = NiSelector::Nid(nid);
    let change = ChangeRequest::SetNet { which, conns_per_peer: Some(count), lnd_timeout: None };
    let request = Request::Change { change: Box::new(change), dry_run: false };
    let mut node = match node_at(Path::new(socket))? {
        Some((node, same)) if same == start => node,
        Some(_) => return Err(STARTED_AGAIN.to_owned()),
        None => return Err("the node does not run any more".to_owned()),
    };
    match node.ask(&request) {
        Ok(Answer::Changed { .. }) => Ok(()),
        Ok(Answer::Error { message, .. }) => Err(message),
        Ok(_) => Err("unexpected reply from the node; the versions may differ".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// Asks the program of a mount, for at most [`ANSWER_MAX`]: the kernel itself waits for a program
/// that hangs without end. The thread that waits ends with the answer, or with this process.
fn ask<T: Send + 'static>(
    dir: &Path,
    question: impl FnOnce(&Path) -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    ask_within(ANSWER_MAX, dir, question)
}

fn ask_within<T: Send + 'static>(
    limit: Duration,
    dir: &Path,
    question: impl FnOnce(&Path) -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    let (give, take) = mpsc::sync_channel(1);
    let there = dir.to_owned();
    let work = move || {
        // The receiver may be gone: its limit is over.
        let _ = give.send(question(&there));
    };
    thread::Builder::new()
        .name("lustrine-tune-mount".to_owned())
        .spawn(work)
        .map_err(|error| format!("cannot start a thread: {error}"))?;
    let (shown, seconds) = (dir.display(), limit.as_secs());
    take.recv_timeout(limit).unwrap_or_else(|error| match error {
        RecvTimeoutError::Timeout => {
            Err(format!("{shown}: its program has not answered for {seconds} s"))
        }
        RecvTimeoutError::Disconnected => Err(format!("{shown}: asking its program failed")),
    })
}

fn status(dir: &Path) -> Result<MountStatus, String> {
    ask(dir, |dir| lustrine_fuse::status(dir, None).map_err(|error| error.to_string()))
}

/// `is_elsewhere`: whether the mount point was one in another mount namespace.
fn of_mount(dir: &str, source: &str, pid: u32, is_elsewhere: bool) -> Result<Found, String> {
    let all = lustrine_fuse::mount_points()
        .map_err(|error| format!("cannot read /proc/self/mountinfo: {error}"))?;
    let gone = |words: &str| match is_elsewhere {
        true => Found::Elsewhere("it is in another mount namespace: run --undo there".to_owned()),
        false => Found::Gone(words.to_owned()),
    };
    if !all.iter().any(|mounted| mounted == Path::new(dir)) {
        return Ok(gone("it is not mounted any more"));
    }
    let status = status(Path::new(dir))?;
    if status.pid != pid || status.source != source {
        return Ok(gone("it was unmounted, and another mount is there now"));
    }
    match status.client.max_rpcs_in_flight {
        0 if status.client.max_rpcs_in_flight_auto => Ok(Found::Value(AUTO.to_owned())),
        0 => Err("its program is of an earlier release, which does not say its limit".to_owned()),
        limit => Ok(Found::Value(limit.to_string())),
    }
}

fn file_of(name: Sysctl) -> String {
    format!("/proc/sys/net/ipv4/{}", name.name())
}

impl SettingsHost for Here {
    fn read(&mut self, location: &SettingLocation) -> Result<Found, String> {
        match location {
            SettingLocation::Node { control, nid, start } => of_node(control, nid, *start),
            SettingLocation::Mount { boot, .. } | SettingLocation::Sysctl { boot, .. }
                if *boot != self.boot =>
            {
                Ok(Found::Gone("this machine was started again since".to_owned()))
            }
            SettingLocation::Mount { dir, source, pid, mntns, .. } => {
                of_mount(dir, source, *pid, *mntns != self.mntns)
            }
            SettingLocation::Sysctl { netns, .. } if *netns != self.netns => {
                let words = "it belongs to another network namespace: run --undo there";
                Ok(Found::Elsewhere(words.to_owned()))
            }
            SettingLocation::Sysctl { name, .. } => {
                let file = file_of(*name);
                let text = fs::read_to_string(&file).map_err(|error| format!("{file}: {error}"))?;
                let values: Vec<&str> = text.split_whitespace().collect();
                Ok(Found::Value(values.join(" ")))
            }
        }
    }

    fn set(&mut self, location: &SettingLocation, value: &str) -> Result<(), String> {
        match location {
            SettingLocation::Node { control, nid, start } => set_node(control, nid, *start, value),
            SettingLocation::Mount { dir, .. } => {
                let setting = format!("{}={value}", location.setting());
                ask(Path::new(dir), move |dir| {
                    lustrine_fuse::set(dir, &setting).map_err(|error| error.to_string())
                })
            }
            SettingLocation::Sysctl { name, .. } => {
                let file = file_of(*name);
                // It is there, and is written with one call.
                fs::write(&file, value).map_err(|error| match error.kind() {
                    ErrorKind::PermissionDenied => format!("{file}: {error}; root may change it"),
                    _ => format!("{file}: {error}"),
                })
            }
        }
    }

    fn keep(&mut self, record: &Record) -> Result<(), String> {
        match &self.store {
            Some(store) => store.keep(record),
            None => Err("there is no directory for the previous values".to_owned()),
        }
    }
}

/// Whether a process is known to be in the network namespace of this one.
fn is_in_this_network(pid: u32) -> bool {
    let there = fs::metadata(format!("/proc/{pid}/ns/net"));
    let there = there.ok().map(|about| (about.dev(), about.ino()));
    there.is_some() && there == lustrine_sys::process::network_namespace()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_that_hangs_is_not_waited_for() {
        let (_hangs, never) = mpsc::channel::<()>();
        let hung = move |_: &Path| never.recv().map_err(|error| error.to_string());
        let refused = ask_within(Duration::ZERO, Path::new("/mnt"), hung);
        assert_eq!(refused, Err("/mnt: its program has not answered for 0 s".to_owned()));
        assert_eq!(ask(Path::new("/mnt"), |dir| Ok(dir.to_owned())), Ok("/mnt".into()));
        let refused = ask(Path::new("/mnt"), |_| Err::<(), _>("no".to_owned()));
        assert_eq!(refused, Err("no".to_owned()));
    }

    #[test]
    fn only_processes_that_are_known_to_be_here_are_here() {
        assert!(is_in_this_network(std::process::id()));
        assert!(!is_in_this_network(u32::MAX));
    }
}
