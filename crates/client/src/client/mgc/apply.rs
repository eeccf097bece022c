//! What a configuration means for the client: targets, and parameters [MGS-15] [MGS-16].

use lustrine_fswire::opcode::Target;
use lustrine_lnet::service::Turn;
use lustrine_lnet::time::Nanos;
use lustrine_ptlrpc::{ImportKey, ImportTunables};
use lustrine_wire::nid::ProcessId;

use super::Which;
use crate::client::Client;
use crate::config::{Command, FsConfig, Parameter, Scope, Setting, TargetConfig};
use crate::error::Outcome;

/// Most parameters that are kept for targets which are added later. The oldest ones go.
const PARAMETERS_MAX: usize = 1024;

impl Client {
    /// A log was read as far as it goes.
    pub(super) fn log_read(&mut self, turn: &mut Turn<'_>, which: Which) -> Outcome<()> {
        let reader = &mut self.mgc.config(which).reader;
        let (commands, left_out) = (reader.take_commands(), reader.take_left_out());
        let config = match which {
            Which::Client => Some(reader.finish()?),
            Which::Sptlrpc | Which::Recover | Which::Params => None,
        };
        if self.unmounted {
            return Ok(());
        }
        if let Some(config) = config {
            self.take_config(turn, config);
        }
        for command in commands {
            match command {
                Command::Parameter(parameter) => self.take_parameter(turn, parameter),
                Command::Unused(text) => self.mgc.ignore(text),
            }
        }
        match left_out {
            Some(error) => Err(error.into()),
            None => Ok(()),
        }
    }

    /// Adds targets that are new, and where they can be; those that are gone are not used any more.
    fn take_config(&mut self, turn: &mut Turn<'_>, config: FsConfig) {
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
            self.set_active(turn, import, false);
            self.mgc.changed(turn.now, format!("{} removed", short(&uuid)));
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
                let device = device_of(kind, &target.uuid);
                for parameter in self.mgc.parameters.clone() {
                    self.set_at(turn, import, kind, &device, &parameter);
                }
                if !at_mount {
                    self.mgc.changed(turn.now, format!("{} added", short(&target.uuid)));
                }
            }
        }
    }

    /// Carries a parameter out, if it means anything to this client. Whoever sets something last
    /// wins [MGS-15].
    fn take_parameter(&mut self, turn: &mut Turn<'_>, parameter: Parameter) {
        let Some(setting) = Setting::of(&parameter) else {
            return self.mgc.ignore(parameter.to_string());
        };
        let at_mount = self.mgc.mounting.is_some();
        let applies = match parameter.scope {
            Scope::Client => self.set_all(turn, setting),
            Scope::Device(_) | Scope::Pattern(_) => match setting {
                Setting::MaxReadAhead(most) => {
                    let name = format!("{}-client", self.args.fsname);
                    let of_this = |parameter: &Parameter| match &parameter.scope {
                        Scope::Device(device) => *device == name,
                        _ => parameter.is_for(&self.args.fsname, "llite", self.args.seed),
                    };
                    let is_for = of_this(&parameter);
                    if is_for {
                        self.cache.set_max_read_ahead(most);
                    }
                    is_for
                }
                _ => self.set_at_targets(turn, &parameter),
            },
        };
        let text = parameter.to_string();
        self.mgc.parameters.retain(|other| !parameter.replaces(other));
        if self.mgc.parameters.len() >= PARAMETERS_MAX {
            self.mgc.parameters.remove(0);
        }
        self.mgc.parameters.push(parameter);
        if applies && !at_mount {
            self.mgc.changed(turn.now, text);
        }
    }

    /// Sets a parameter at all targets that it is for. Whether there were any.
    fn set_at_targets(&mut self, turn: &mut Turn<'_>, parameter: &Parameter) -> bool {
        let mdts = self.mdts.iter().filter_map(|(index, import)| {
            Some((*import, Target::Mdt, device_of(Target::Mdt, &self.config.mdts.get(index)?.uuid)))
        });
        let osts = self.osts.iter().filter_map(|(index, import)| {
            Some((*import, Target::Ost, device_of(Target::Ost, &self.config.osts.get(index)?.uuid)))
        });
        let mut applies = false;
        for (import, kind, device) in mdts.chain(osts).collect::<Vec<_>>() {
            applies |= self.set_at(turn, import, kind, &device, parameter);
        }
        applies
    }

    /// Sets a parameter at a target, if it is for that one.
    fn set_at(
        &mut self,
        turn: &mut Turn<'_>,
        import: ImportKey,
        kind: Target,
        device: &str,
        parameter: &Parameter,
    ) -> bool {
        let subsystem = if kind == Target::Ost { "osc" } else { "mdc" };
        let Some(setting) = Setting::of(parameter) else { return false };
        if !parameter.is_for(device, subsystem, self.args.seed) {
            return false;
        }
        match setting {
            Setting::Active(active) => self.set_active(turn, import, active),
            _ => self.tune(turn, import, |tunables| set(tunables, setting)),
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

    /// Whether a target is used: requests for one that is not fail with EIO at once [IMP-16].
    fn set_active(&mut self, turn: &mut Turn<'_>, import: ImportKey, active: bool) {
        self.rpc.with(turn, import, |import, now, xids| import.set_active(now, xids, active));
    }

    /// The user has set limits by name: what the configuration has said of them before does not
    /// count for targets that are added later.
    pub(in crate::client) fn forget_parameters(&mut self, names: &[&str]) {
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
        Setting::Timeout(timeout) => tunables.ping_interval = Nanos(timeout.0 / 4),
        Setting::AtMin(seconds) => tunables.at.at_min = seconds,
        Setting::AtMax(seconds) => tunables.at.at_max = seconds,
        Setting::AtHistory(seconds) => tunables.at.at_history = seconds,
        Setting::Active(_) | Setting::MaxReadAhead(_) => {}
    }
}

/// The name of a target without the ending of its UUID.
fn short(uuid: &str) -> &str {
    uuid.strip_suffix("_UUID").unwrap_or(uuid)
}

/// The device of a target in the configuration.
fn device_of(kind: Target, uuid: &str) -> String {
    let suffix = if kind == Target::Ost { "osc" } else { "mdc" };
    format!("{}-{suffix}", short(uuid))
}
