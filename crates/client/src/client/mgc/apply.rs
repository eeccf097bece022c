//! What a configuration means for the client: targets, and parameters [MGS-15] [MGS-16].

use std::collections::{BTreeMap, BTreeSet};

use lustrine_fswire::opcode::Target;
use lustrine_lnet::service::Turn;
use lustrine_lnet::time::Nanos;
use lustrine_ptlrpc::{ImportKey, ImportTunables};
use lustrine_wire::nid::ProcessId;

use super::{Mgc, Which};
use crate::client::Client;
use crate::config::{
    Command, ConfigError, DeviceName, FsConfig, Parameter, Scope, Setting, TargetConfig,
};
use crate::error::Outcome;

/// Most parameters with a pattern that are carried out of one reading, and kept for targets which
/// are added later. The oldest ones go.
const PATTERNS_MAX: usize = 1024;
/// Most parameters of one device that are kept. The oldest ones go.
const DEVICES_MAX: usize = 1024;

/// The targets, by the names of their devices.
type Devices = BTreeMap<String, (ImportKey, DeviceName)>;

impl Client {
    /// A log was read as far as it goes.
    pub(super) fn log_read(&mut self, turn: &mut Turn<'_>, which: Which) -> Outcome<()> {
        let reader = &mut self.mgc.config(which).reader;
        let (commands, left_out) = (reader.take_commands(), reader.take_left_out());
        let config = match which {
            Which::Client => Some(reader.finish()?),
            Which::Sptlrpc | Which::Recover | Which::Params => None,
        };
        let anew = core::mem::take(&mut self.mgc.config(which).anew);
        if self.unmounted {
            return Ok(());
        }
        if let Some(config) = config {
            self.take_config(turn, config, anew);
        }
        self.take_commands(turn, which, commands);
        if let Some(error) = left_out {
            self.mgc.config(which).left_out = Some(match error {
                ConfigError::Required { index, reason } => format!("record {index}: {reason}"),
                other => other.to_string(),
            });
        }
        Ok(())
    }

    /// Adds targets that are new, and where they can be; those that are gone are not used any more.
    /// But those that a log which was written `anew` does not name stay in use: after a writeconf
    /// targets are in it only once they have registered, and giving them up loses unwritten data.
    fn take_config(&mut self, turn: &mut Turn<'_>, config: FsConfig, anew: bool) {
        for (index, target) in &config.mdts {
            self.take_target(turn, Target::Mdt, *index, target);
        }
        for (index, target) in &config.osts {
            self.take_target(turn, Target::Ost, *index, target);
        }
        let before = core::mem::replace(&mut self.config, config);
        let now = &self.config;
        let gone = |before: &TargetConfig, still: bool| (!still).then(|| before.uuid.clone());
        let mdts = before.mdts.iter().filter_map(|(index, target)| {
            Some((*self.mdts.get(index)?, gone(target, now.mdts.contains_key(index))?))
        });
        let osts = before.osts.iter().filter_map(|(index, target)| {
            Some((*self.osts.get(index)?, gone(target, now.osts.contains_key(index))?))
        });
        for (import, uuid) in mdts.chain(osts).collect::<Vec<_>>() {
            let what = match anew {
                true => "is not named any more, and stays in use",
                false => {
                    self.set_active(turn, import, false);
                    "removed"
                }
            };
            self.mgc.changed(turn.now, format!("{} {what}", short(&uuid)));
        }
    }

    fn take_target(
        &mut self,
        turn: &mut Turn<'_>,
        kind: Target,
        index: u32,
        target: &TargetConfig,
    ) {
        let known = match kind {
            Target::Ost => (self.osts.get(&index), self.config.osts.get(&index)),
            Target::Mdt | Target::Mgs => (self.mdts.get(&index), self.config.mdts.get(&index)),
        };
        let at_mount = self.mgc.mounting.is_some();
        match known {
            (Some(import), before) => {
                let import = *import;
                if before == Some(target) {
                    return;
                }
                let peers: Vec<ProcessId> =
                    target.nids.iter().map(|nid| ProcessId::lustre(*nid)).collect();
                self.rpc.with(turn, import, |import, _, _| import.add_peers(&peers));
                if before.is_none() {
                    self.set_active(turn, import, !target.inactive);
                }
                if !at_mount {
                    let what = format!("{} has {} NIDs", short(&target.uuid), target.nids.len());
                    self.mgc.changed(turn.now, what);
                }
            }
            (None, _) if target.nids.is_empty() => {}
            (None, _) => {
                let import = self.add_import(turn, kind, &target.uuid, &target.nids);
                match kind {
                    Target::Ost => self.osts.insert(index, import),
                    Target::Mdt | Target::Mgs => self.mdts.insert(index, import),
                };
                if target.inactive {
                    self.set_active(turn, import, false);
                }
                let device = self.device_of(kind, &target.uuid);
                let parameters = core::mem::take(&mut self.mgc.parameters);
                for parameter in &parameters {
                    self.set_at(turn, import, &device, parameter);
                }
                self.mgc.parameters = parameters;
                if !at_mount {
                    self.mgc.changed(turn.now, format!("{} added", short(&target.uuid)));
                }
            }
        }
    }

    /// Carries out what means anything to this client. Of parameters that set the same for the same
    /// devices, only the last one is carried out: what comes of it does not depend on the others.
    ///
    /// What a configuration says when it is first read belongs to the mount: what the user has set
    /// meanwhile wins.
    pub(in crate::client) fn take_commands(
        &mut self,
        turn: &mut Turn<'_>,
        which: Which,
        commands: Vec<Command>,
    ) {
        let first = !self.mgc.config(which).was_read;
        let mut parameters = Vec::new();
        for command in commands {
            match command {
                Command::Parameter(parameter)
                    if first && self.mgc.set_by_user.contains(parameter.name.as_str()) => {}
                Command::Parameter(parameter) => match Setting::of(&parameter) {
                    Some(setting) => parameters.push((parameter, setting)),
                    None => self.mgc.ignore(parameter.to_string()),
                },
                Command::Unused(text) => self.mgc.ignore(text),
            }
        }
        if parameters.is_empty() {
            return;
        }
        let (mut seen, mut patterns) = (BTreeSet::new(), 0);
        let mut counts: Vec<bool> = Vec::with_capacity(parameters.len());
        for (parameter, _) in parameters.iter().rev() {
            let last = seen.insert(parameter.place());
            patterns += usize::from(last && matches!(parameter.scope, Scope::Pattern(_)));
            let fits = !matches!(parameter.scope, Scope::Pattern(_)) || patterns <= PATTERNS_MAX;
            counts.push(last && fits);
        }
        self.mgc.parameters.retain(|old| !seen.contains(&old.place()));
        let left_out = seen.len() - counts.iter().filter(|counts| **counts).count();
        if left_out > 0 {
            self.mgc.ignore(format!("{left_out} patterns above {PATTERNS_MAX} at once"));
        }
        let devices = self.devices();
        for ((parameter, setting), counts) in parameters.into_iter().zip(counts.iter().rev()) {
            if *counts {
                self.take_parameter(turn, &devices, parameter, setting);
            }
        }
        let Mgc { parameters, .. } = &mut self.mgc;
        keep_last(parameters, DEVICES_MAX, |scope| matches!(scope, Scope::Device(_)));
        keep_last(parameters, PATTERNS_MAX, |scope| !matches!(scope, Scope::Device(_)));
    }

    /// Carries a parameter out. The last one to set something wins [MGS-15].
    fn take_parameter(
        &mut self,
        turn: &mut Turn<'_>,
        devices: &Devices,
        parameter: Parameter,
        setting: Setting,
    ) {
        let applies = match (&parameter.scope, setting) {
            (Scope::Client, _) => self.set_all(turn, setting),
            (scope, Setting::MaxReadAhead(_) | Setting::StatAheadMax(_)) => {
                let name = format!("{}-client", self.args.fsname);
                let is_for = match scope {
                    Scope::Device(device) => *device == name,
                    _ => {
                        let fsname = self.args.fsname.clone();
                        parameter.is_for(&DeviceName::new("llite", fsname, self.args.seed))
                    }
                };
                match setting {
                    Setting::MaxReadAhead(most) if is_for => self.cache.set_max_read_ahead(most),
                    Setting::StatAheadMax(most) if is_for => self.ahead.set_max(most),
                    _ => {}
                }
                is_for
            }
            (Scope::Device(device), _) => match devices.get(device) {
                Some((import, device)) => self.set_at(turn, *import, device, &parameter),
                None => false,
            },
            (Scope::Pattern(_), _) => {
                let mut applies = false;
                for (import, device) in devices.values() {
                    applies |= self.set_at(turn, *import, device, &parameter);
                }
                applies
            }
        };
        if applies && self.mgc.mounting.is_none() {
            self.mgc.changed(turn.now, parameter.to_string());
        }
        self.mgc.parameters.push(parameter);
    }

    /// All targets of the file system.
    fn devices(&self) -> Devices {
        let mdts = self.mdts.iter().filter_map(|(index, import)| {
            let target = self.config.mdts.get(index)?;
            Some((*import, self.device_of(Target::Mdt, &target.uuid)))
        });
        let osts = self.osts.iter().filter_map(|(index, import)| {
            let target = self.config.osts.get(index)?;
            Some((*import, self.device_of(Target::Ost, &target.uuid)))
        });
        mdts.chain(osts).map(|(import, device)| (device.name.clone(), (import, device))).collect()
    }

    /// The device of a target.
    fn device_of(&self, kind: Target, uuid: &str) -> DeviceName {
        let subsystem = if kind == Target::Ost { "osc" } else { "mdc" };
        let name = format!("{}-{subsystem}", short(uuid));
        DeviceName::new(subsystem, name, self.args.seed)
    }

    /// Sets a parameter at a target, if it is for that one.
    fn set_at(
        &mut self,
        turn: &mut Turn<'_>,
        import: ImportKey,
        device: &DeviceName,
        parameter: &Parameter,
    ) -> bool {
        self.mgc.steps += 1;
        if !parameter.is_for(device) {
            return false;
        }
        match Setting::of(parameter) {
            Some(Setting::Active(active)) => self.set_active(turn, import, active),
            Some(setting) => self.tune(turn, import, |tunables| set(tunables, setting)),
            None => return false,
        }
        true
    }

    /// Sets what belongs to the whole client. Whether it is such a setting.
    fn set_all(&mut self, turn: &mut Turn<'_>, setting: Setting) -> bool {
        set(&mut self.args.imports, setting);
        for import in self.rpc.imports().map(|(key, _)| key).collect::<Vec<_>>() {
            self.tune(turn, import, |tunables| set(tunables, setting));
        }
        true
    }

    /// Changes settings of an import.
    pub(in crate::client) fn tune(
        &mut self,
        turn: &mut Turn<'_>,
        import: ImportKey,
        change: impl FnOnce(&mut ImportTunables),
    ) {
        self.rpc.with(turn, import, |import, now, xids| {
            let mut tunables = *import.tunables();
            change(&mut tunables);
            import.set_tunables(now, xids, tunables);
        });
        self.tuned(turn, import);
    }

    /// Whether a target is used: requests for one that is not fail with ESHUTDOWN at once [IMP-16].
    fn set_active(&mut self, turn: &mut Turn<'_>, import: ImportKey, active: bool) {
        self.rpc.with(turn, import, |import, now, xids| import.set_active(now, xids, active));
    }

    /// The user has set these settings: what the configuration has said of them before does not
    /// count for targets that are added later.
    pub(in crate::client) fn forget_parameters(&mut self, names: &[&'static str]) {
        self.mgc.set_by_user.extend(names);
        self.mgc.parameters.retain(|parameter| !names.contains(&parameter.name.as_str()));
    }
}

/// Changes the settings of an import.
fn set(tunables: &mut ImportTunables, setting: Setting) {
    match setting {
        Setting::MaxRpcsInFlight(most) => {
            (tunables.max_rpcs_in_flight, tunables.window) = (most, None);
        }
        Setting::MaxModRpcsInFlight(most) => tunables.max_mod_rpcs_in_flight = most,
        Setting::MaxTransfer(most) => tunables.max_transfer = most,
        Setting::MaxDirty(most) => tunables.max_dirty = most,
        Setting::Checksums(on) => tunables.checksums = on,
        Setting::IdleTimeout(timeout) => tunables.idle_timeout = timeout,
        Setting::Timeout(timeout) => tunables.ping_interval = Nanos(timeout.0 / 4),
        Setting::AtMin(seconds) => tunables.at.at_min = seconds,
        Setting::AtMax(seconds) => tunables.at.at_max = seconds,
        Setting::AtHistory(seconds) => tunables.at.at_history = seconds,
        Setting::Active(_) | Setting::MaxReadAhead(_) | Setting::StatAheadMax(_) => {}
    }
}

/// The name of a target without the ending of its UUID.
fn short(uuid: &str) -> &str {
    uuid.strip_suffix("_UUID").unwrap_or(uuid)
}

/// Drops the oldest parameters of a kind, so that at most `most` of them stay.
fn keep_last(parameters: &mut Vec<Parameter>, most: usize, is_kind: impl Fn(&Scope) -> bool) {
    let count = parameters.iter().filter(|parameter| is_kind(&parameter.scope)).count();
    let mut surplus = count.saturating_sub(most);
    parameters.retain(|parameter| {
        let goes = surplus > 0 && is_kind(&parameter.scope);
        surplus -= usize::from(goes);
        !goes
    });
}
