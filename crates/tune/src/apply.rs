//! Settings of what runs: changed so that each change can be undone.
//!
//! Before a setting is changed for the first time, its value is written to a [`Record`], which the
//! caller keeps where it survives. So whatever fails, and whenever the program ends, the record
//! says what the setting was and what this program may have set it to. A value that is neither is
//! someone else's, and is left alone unless the user insists.
//!
//! It is pure: a [`SettingsHost`] reads and changes the settings.

use serde::{Deserialize, Serialize};

/// The version of a [`Record`]. Version 2 had no namespaces of mounts.
const VERSION: u32 = 3;

/// Most settings in a record.
pub const ENTRIES_MAX: usize = 4096;

/// Largest `max_rpcs_in_flight` of a mount.
const RPCS_MAX: u64 = 512;

/// `max_rpcs_in_flight` of a mount that finds it by itself. It stays so.
pub const AUTO: &str = "auto";

/// A setting of something that runs. What it belongs to is part of it: after a restart it is
/// another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum SettingLocation {
    /// `conns_per_peer` of an interface of a running node.
    Node {
        /// The path of the node's control socket.
        control: String,
        /// The NID of the interface.
        nid: String,
        /// Which start of the node it is.
        start: NodeStart,
    },
    /// `max_rpcs_in_flight` of a mount.
    Mount {
        /// The mount point.
        dir: String,
        /// What is mounted there.
        source: String,
        /// The process ID of its program.
        pid: u32,
        /// The mount namespace in which `dir` is: the inode number of its file.
        mntns: u64,
        /// The boot of the kernel.
        boot: String,
    },
    /// A sysctl of a network namespace: three values, of which the last one is set.
    Sysctl {
        /// Which one.
        name: Sysctl,
        /// The network namespace: the inode number of its file.
        netns: u64,
        /// The boot of the kernel.
        boot: String,
    },
}

/// Which start of a node it is: a node makes the file of its control socket anew whenever it
/// starts, and leaves it alone as long as it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeStart {
    /// The inode number of the file.
    pub inode: u64,
    /// When the file was made, in whole seconds of the clock of the machine since 1970.
    pub made_s: i64,
    /// The nanoseconds beyond them.
    pub made_ns: i64,
}

/// A sysctl that may be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sysctl {
    /// `net.ipv4.tcp_rmem`: least, first and largest receive buffer of TCP, in bytes.
    TcpRmem,
    /// `net.ipv4.tcp_wmem`: the same of send buffers.
    TcpWmem,
}

impl Sysctl {
    /// Its name below `net.ipv4`.
    pub fn name(self) -> &'static str {
        match self {
            Sysctl::TcpRmem => "tcp_rmem",
            Sysctl::TcpWmem => "tcp_wmem",
        }
    }
}

impl SettingLocation {
    /// The name of the setting.
    pub fn setting(&self) -> &'static str {
        match self {
            SettingLocation::Node { .. } => "conns_per_peer",
            SettingLocation::Mount { .. } => "max_rpcs_in_flight",
            SettingLocation::Sysctl { name, .. } => name.name(),
        }
    }

    /// What has it, for people.
    pub fn owner(&self) -> String {
        match self {
            SettingLocation::Node { control, nid, .. } => format!("{nid} of the node at {control}"),
            SettingLocation::Mount { dir, .. } => format!("the mount at {dir}"),
            SettingLocation::Sysctl { .. } => "this host".to_owned(),
        }
    }

    /// The value that the setting is to have, when it has `now`: connections and buffers that are
    /// more than the formula asks for stay as they are.
    ///
    /// # Errors
    /// When `now` is not a value of this setting.
    fn aim(&self, now: &str, formula: u64) -> Result<String, String> {
        let unknown = || format!("its value {now:?} is not understood");
        match self {
            SettingLocation::Node { .. } => {
                let now: u64 = now.parse().map_err(|_| unknown())?;
                Ok(formula.max(now).to_string())
            }
            SettingLocation::Mount { .. } if now == AUTO => Ok(AUTO.to_owned()),
            SettingLocation::Mount { .. } => {
                let _: u64 = now.parse().map_err(|_| unknown())?;
                Ok(formula.clamp(1, RPCS_MAX).to_string())
            }
            SettingLocation::Sysctl { .. } => {
                let all: Result<Vec<u64>, _> = now.split_whitespace().map(str::parse).collect();
                match all.as_deref() {
                    Ok([least, first, largest]) => {
                        Ok(format!("{least} {first} {}", formula.max(*largest)))
                    }
                    _ => Err(unknown()),
                }
            }
        }
    }
}

/// What was changed, and what it was before: a document that survives this program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// 3.
    version: u32,
    /// In the order of the first changes.
    entries: Vec<Entry>,
}

/// One setting in a [`Record`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// The setting.
    location: SettingLocation,
    /// Its value before the first change.
    first: String,
    /// What it was set to; two values while a change is under way.
    set: Vec<String>,
}

impl Default for Record {
    fn default() -> Record {
        Record { version: VERSION, entries: Vec::new() }
    }
}

impl Record {
    /// Whether nothing was changed, or all of it was undone.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// # Errors
    /// When it was written by another release, or not by this program.
    pub fn check(&self) -> Result<(), String> {
        check_version(self.version)?;
        if self.entries.len() > ENTRIES_MAX {
            return Err(format!("it has more than {ENTRIES_MAX} settings"));
        }
        let wrong = |entry: &Entry| match entry.location.aim(&entry.first, 0) {
            Err(why) => Some(why),
            Ok(_) => (entry.set.len() > 2).then(|| "it has too many values".to_owned()),
        };
        match self.entries.iter().find_map(|entry| Some((entry, wrong(entry)?))) {
            None => Ok(()),
            Some((entry, why)) => Err(format!("{}: {why}", entry.location.setting())),
        }
    }

    fn entry(&mut self, location: &SettingLocation) -> Option<&mut Entry> {
        self.entries.iter_mut().find(|entry| entry.location == *location)
    }
}

/// Whether a record of this version can be read, before its fields are.
///
/// # Errors
/// When it was written by another release.
pub fn check_version(version: u32) -> Result<(), String> {
    if version == VERSION {
        return Ok(());
    }
    Err(format!(
        "it has version {version}, and this program reads {VERSION}: undo it with the `lustrine` \
         that wrote it"
    ))
}

impl Entry {
    /// Whether this value is the first one, or one that this program has set.
    fn knows(&self, value: &str) -> bool {
        self.first == value || self.set.iter().any(|set| set == value)
    }
}

/// What reading a setting finds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// Its value.
    Value(String),
    /// What had it has ended, and the setting with it. The text says so.
    Gone(String),
    /// It cannot be seen from here, and may still be there. The text says why.
    Elsewhere(String),
}

/// Reads and changes settings, and keeps the record.
pub trait SettingsHost {
    /// # Errors
    /// When it is not known whether the setting is there.
    fn read(&mut self, location: &SettingLocation) -> Result<Found, String>;

    /// Sets a value.
    ///
    /// # Errors
    /// When it is refused. The value may have changed all the same.
    fn set(&mut self, location: &SettingLocation, value: &str) -> Result<(), String>;

    /// Keeps the record: once this returns, it survives a crash.
    ///
    /// # Errors
    /// When it was not written. The one before is still there then.
    fn keep(&mut self, record: &Record) -> Result<(), String>;
}

/// Whether settings are changed, or it is shown what would be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Change them.
    Apply,
    /// Show it.
    DryRun,
}

/// What is done with values that someone else has set meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Foreign {
    /// They are left alone.
    Leave,
    /// They are overwritten.
    Overwrite,
}

/// What happened to a setting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Outcome {
    /// The setting.
    #[serde(flatten)]
    pub location: SettingLocation,
    /// Its name.
    pub setting: &'static str,
    /// Its value before, where it is known.
    pub before: Option<String>,
    /// The value that it was to get.
    pub value: Option<String>,
    /// What was done.
    pub result: ChangeResult,
    /// Why, where that is not obvious.
    pub why: Option<String>,
}

/// The result of a change of a setting, or of undoing it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeResult {
    /// It has its new value.
    Changed,
    /// It would get it.
    WouldChange,
    /// It had the value already.
    Unchanged,
    /// It has the value that it had before the first change.
    Restored,
    /// It would get that.
    WouldRestore,
    /// What had it has ended: nothing is left to undo.
    Gone,
    /// It belongs to another network or mount namespace, and stays as it is.
    Elsewhere,
    /// Someone else has changed it meanwhile: it stays as it is.
    Foreign,
    /// It was not possible.
    Failed,
}

impl ChangeResult {
    /// Whether the user did not get what was asked for.
    pub fn is_failure(self) -> bool {
        matches!(self, ChangeResult::Elsewhere | ChangeResult::Foreign | ChangeResult::Failed)
    }
}

/// Sets each setting to what its formula asks for, in this order.
pub fn apply(
    host: &mut impl SettingsHost,
    record: &mut Record,
    wanted: &[(SettingLocation, u64)],
    mode: Mode,
    foreign: Foreign,
) -> Vec<Outcome> {
    let one = |(location, formula): &(SettingLocation, u64)| {
        let mut outcome = Outcome::new(location);
        let done = apply_one(host, record, &mut outcome, *formula, mode, foreign);
        outcome.end(done)
    };
    wanted.iter().map(one).collect()
}

/// The settings that would be changed, when their values are not known yet.
pub fn show(host: &mut impl SettingsHost, locations: &[SettingLocation]) -> Vec<Outcome> {
    let one = |location: &SettingLocation| {
        let mut outcome = Outcome::new(location);
        let step = host.read(location).and_then(|look| match look {
            Found::Value(now) => {
                outcome.before = Some(now);
                Ok((
                    ChangeResult::WouldChange,
                    Some("its value follows from what is measured".to_owned()),
                ))
            }
            Found::Gone(why) | Found::Elsewhere(why) => Err(why),
        });
        outcome.end(step)
    };
    locations.iter().map(one).collect()
}

/// Gives each setting in the record its first value, the latest one first, and takes it from the
/// record.
pub fn undo(
    host: &mut impl SettingsHost,
    record: &mut Record,
    mode: Mode,
    foreign: Foreign,
) -> Vec<Outcome> {
    let all: Vec<Entry> = record.entries.iter().rev().cloned().collect();
    let one = |entry: Entry| {
        let mut outcome = Outcome::new(&entry.location);
        let done = undo_one(host, record, &entry, &mut outcome, mode, foreign);
        outcome.end(done)
    };
    all.into_iter().map(one).collect()
}

/// What was done, and why, or the reason of a failure.
type Step = Result<(ChangeResult, Option<String>), String>;

fn apply_one(
    host: &mut impl SettingsHost,
    record: &mut Record,
    outcome: &mut Outcome,
    formula: u64,
    mode: Mode,
    foreign: Foreign,
) -> Step {
    let location = outcome.location.clone();
    let now = match host.read(&location)? {
        Found::Value(now) => now,
        Found::Gone(why) | Found::Elsewhere(why) => return Err(why),
    };
    outcome.before = Some(now.clone());
    let value = location.aim(&now, formula)?;
    outcome.value = Some(value.clone());
    if value == now {
        let itself = (now == AUTO).then(|| "it finds its value by itself".to_owned());
        return Ok((ChangeResult::Unchanged, itself));
    }
    let known = record.entry(&location).is_none_or(|entry| entry.knows(&now));
    if !known && foreign == Foreign::Leave {
        return Ok((ChangeResult::Foreign, Some(someone_else(record.entry(&location).as_deref()))));
    }
    if mode == Mode::DryRun {
        return Ok((ChangeResult::WouldChange, None));
    }
    let before = record.clone();
    if record.entry(&location).is_none() {
        if record.entries.len() >= ENTRIES_MAX {
            return Err(format!("the record has {ENTRIES_MAX} settings; undo them first"));
        }
        record.entries.push(Entry {
            location: location.clone(),
            first: now.clone(),
            set: Vec::new(),
        });
    }
    let set_to = |record: &mut Record, values: Vec<String>| {
        if let Some(entry) = record.entry(&location) {
            entry.set = values;
        }
    };
    // Whether or not the change is made, or the next record is kept: both values are known.
    let both = match known && record.entry(&location).is_some_and(|entry| entry.first == now) {
        true => vec![value.clone()],
        false => vec![now.clone(), value.clone()],
    };
    set_to(record, both);
    if let Err(why) = host.keep(record) {
        *record = before;
        return Err(format!("{why}; nothing is changed that cannot be undone"));
    }
    let refused = host.set(&location, &value).err();
    match (host.read(&location), refused) {
        (Ok(Found::Value(seen)), refused) if seen == value => {
            set_to(record, vec![value]);
            // The record that is kept says as much.
            let _ = host.keep(record);
            Ok((ChangeResult::Changed, refused))
        }
        (Ok(Found::Value(seen)), refused) if seen == now => {
            *record = before;
            let _ = host.keep(record);
            Err(refused.unwrap_or_else(|| format!("it stays {now}")))
        }
        (Ok(Found::Value(seen)), refused) => {
            set_to(record, vec![value.clone(), seen.clone()]);
            let _ = host.keep(record);
            let why = refused.map_or_else(String::new, |why| format!(": {why}"));
            Err(format!("it became {seen} instead of {value}{why}"))
        }
        (_, Some(refused)) => Err(refused),
        (Ok(Found::Gone(why) | Found::Elsewhere(why)) | Err(why), None) => {
            Err(format!("it was set to {value}, and cannot be read any more: {why}"))
        }
    }
}

fn undo_one(
    host: &mut impl SettingsHost,
    record: &mut Record,
    entry: &Entry,
    outcome: &mut Outcome,
    mode: Mode,
    foreign: Foreign,
) -> Step {
    let Entry { location, first, .. } = entry;
    outcome.value = Some(first.clone());
    let now = match host.read(location)? {
        Found::Value(now) => now,
        Found::Elsewhere(why) => return Ok((ChangeResult::Elsewhere, Some(why))),
        Found::Gone(why) => {
            forget(host, record, location, mode)?;
            return Ok((ChangeResult::Gone, Some(why)));
        }
    };
    outcome.before = Some(now.clone());
    if now == *first {
        forget(host, record, location, mode)?;
        return Ok((ChangeResult::Unchanged, Some("it has its first value".to_owned())));
    }
    if !entry.knows(&now) && foreign == Foreign::Leave {
        return Ok((ChangeResult::Foreign, Some(someone_else(Some(entry)))));
    }
    if mode == Mode::DryRun {
        return Ok((ChangeResult::WouldRestore, None));
    }
    let refused = host.set(location, first).err();
    match host.read(location)? {
        Found::Value(seen) if seen == *first => {
            forget(host, record, location, mode)?;
            Ok((ChangeResult::Restored, None))
        }
        Found::Value(seen) => Err(refused.unwrap_or_else(|| format!("it stays {seen}"))),
        Found::Gone(why) | Found::Elsewhere(why) => Err(refused.unwrap_or(why)),
    }
}

/// Takes a setting out of the record.
fn forget(
    host: &mut impl SettingsHost,
    record: &mut Record,
    location: &SettingLocation,
    mode: Mode,
) -> Result<(), String> {
    if mode == Mode::DryRun {
        return Ok(());
    }
    record.entries.retain(|entry| entry.location != *location);
    host.keep(record)
}

/// Why a value is left alone.
fn someone_else(entry: Option<&Entry>) -> String {
    let set = entry.map(|entry| entry.set.join(" or ")).unwrap_or_default();
    format!("someone else has changed it since this program set {set}; --force overwrites that")
}

impl Outcome {
    fn new(location: &SettingLocation) -> Outcome {
        let (location, setting) = (location.clone(), location.setting());
        Outcome {
            location,
            setting,
            before: None,
            value: None,
            result: ChangeResult::Failed,
            why: None,
        }
    }

    fn end(self, step: Step) -> Outcome {
        match step {
            Ok((result, why)) => Outcome { result, why, ..self },
            Err(why) => Outcome { why: Some(why), ..self },
        }
    }
}

#[cfg(test)]
mod tests;
