//! `lustrine tune --apply` and `--undo`.

use std::path::PathBuf;

use clap::Args;
use lustrine_control::{Answer, NetInfo, Request};
use lustrine_tune::apply::{Foreign, Mode, Record, SettingLocation, Sysctl, apply, show, undo};
use lustrine_tune::{Settings, Streams};

use super::TuneArgs;
use super::applied::{Applied, What};
use super::host::{Here, interfaces};
use super::report::Report;
use super::store::Store;
use super::words;
use crate::access::{NodeChoice, RunningNode, ask_running, running_node};
use crate::common::{ControlOptions, NodeOptions, RunningNodeOptions};
use crate::output::{Failure, print, print_json};

/// What of the settings is applied, and how it is undone.
#[derive(Args, Debug)]
pub(super) struct ApplyArgs {
    /// Change the settings that can be changed at run time: `node`, conns_per_peer of the running
    /// node; `mounts`, max_rpcs_in_flight of mounts; `sysctl`, tcp_rmem and tcp_wmem of this host,
    /// as root. The previous values are kept for --undo. With --dry-run, show what would change
    #[arg(long, value_name = "WHAT", num_args = 0..=1, require_equals = true)]
    #[arg(value_delimiter = ',', default_missing_value = "node,mounts,sysctl")]
    pub(super) apply: Vec<What>,

    /// Restore the values that settings had before --apply. With --dry-run, show them
    #[arg(long, conflicts_with_all = ["to", "apply", "write", "rate", "mount", "control"])]
    pub(super) undo: bool,

    /// With --apply and --undo: overwrite also what someone else has changed meanwhile
    #[arg(long)]
    force: bool,

    /// With --apply: this mount; may be repeated [default: mounts with a target at a node of --to]
    #[arg(long, value_name = "DIR")]
    mount: Vec<PathBuf>,

    /// Where the values before --apply are kept [default: /var/lib/lustrine for root;
    /// $XDG_STATE_HOME/lustrine, or ~/.local/state/lustrine, for others]
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,

    #[command(flatten)]
    node: RunningNodeOptions,
}

impl ApplyArgs {
    /// # Errors
    /// When an option is given that nothing uses.
    pub(super) fn check(&self) -> Result<(), Failure> {
        let idle = |option: &str, needs: &str| {
            Err(Failure::Usage(format!("{option} is for {needs}, which is not given")))
        };
        let control = ControlOptions::from(&self.node).control.is_some();
        match () {
            () if self.force && !self.undo && self.apply.is_empty() => {
                idle("--force", "--apply or --undo")
            }
            () if self.state.is_some() && !self.undo && self.apply.is_empty() => {
                idle("--state", "--apply or --undo")
            }
            () if !self.mount.is_empty() && !self.apply.contains(&What::Mounts) => {
                idle("--mount", "--apply or --apply=mounts")
            }
            () if control && !self.apply.contains(&What::Node) => idle(
                "--control, which names the node whose settings are changed (tune measures \
                     with nodes of its own),",
                "--apply or --apply=node",
            ),
            () => Ok(()),
        }
    }

    /// The node that runs on this host, which then has its address, and its interfaces.
    pub(super) fn running_node(&self) -> Option<(RunningNode, NetInfo)> {
        let control = ControlOptions::from(&self.node);
        let Ok(Answer::Net(info)) = ask_running(&control, &Request::ShowNet) else { return None };
        let choice = NodeChoice::running(control);
        let node = running_node(&NodeOptions::default(), &choice, None).ok().flatten()?;
        Some((node, info))
    }

    /// Whether all that is asked for is connections of the running node.
    pub(super) fn is_for_the_node_alone(&self) -> bool {
        !self.apply.is_empty() && self.apply.iter().all(|what| *what == What::Node)
    }

    fn foreign(&self) -> Foreign {
        if self.force { Foreign::Overwrite } else { Foreign::Leave }
    }

    fn state_dir(&self) -> Result<PathBuf, Failure> {
        self.state.clone().map_or_else(Store::default_dir, Ok)
    }
}

/// What is to be changed: found before anything is measured.
pub(super) struct Plan {
    here: Here,
    record: Record,
    file: PathBuf,
    mode: Mode,
    locations: Vec<SettingLocation>,
    notes: Vec<String>,
}

impl Plan {
    /// Finds the locations of the settings, and reads the record.
    ///
    /// # Errors
    /// When a node or a mount that the user names is not there, and when no record can be kept.
    pub(super) fn new(args: &TuneArgs) -> Result<Plan, Failure> {
        let (own, mut notes) = (&args.apply, Vec::new());
        let mode = if args.dry_run { Mode::DryRun } else { Mode::Apply };
        let dir = own.state_dir()?;
        let store = match mode {
            Mode::Apply => Some(Store::make(&dir)?),
            Mode::DryRun => Store::open(&dir)?,
        };
        let record = store.as_ref().map(Store::load).transpose()?.unwrap_or_default();
        let here = Here::new(store)?;
        let mut locations = Vec::new();
        if own.apply.contains(&What::Sysctl) {
            locations.extend([Sysctl::TcpRmem, Sysctl::TcpWmem].map(|name| here.sysctl(name)));
        }
        if own.apply.contains(&What::Node) {
            locations.extend(of_node(args, &mut notes)?);
        }
        if own.apply.contains(&What::Mounts) {
            locations.extend(of_mounts(&here, args, &mut notes)?);
        }
        Ok(Plan { here, record, file: dir.join(super::store::NAME), mode, locations, notes })
    }

    /// Changes the settings to what was computed, or shows it.
    pub(super) fn carry_out(mut self, args: &TuneArgs, report: &Report) -> Applied {
        let conns = conns(report);
        let is_conns =
            |location: &SettingLocation| matches!(location, SettingLocation::Node { .. });
        let settings = match &report.settings {
            None => show(&mut self.here, &self.locations),
            Some(settings) => {
                if conns.is_none() && self.locations.iter().any(is_conns) {
                    self.locations.retain(|location| !is_conns(location));
                    self.notes.push(
                        "conns_per_peer stays as it is: it is not known what one stream carries; \
                         have it measured with --net and an address that the running node does \
                         not use, or give it with --stream-rate"
                            .to_owned(),
                    );
                }
                let value = |location: &SettingLocation| formula(location, settings, conns);
                let wanted: Vec<_> = self
                    .locations
                    .iter()
                    .map(|location| (location.clone(), value(location)))
                    .collect();
                let foreign = args.apply.foreign();
                apply(&mut self.here, &mut self.record, &wanted, self.mode, foreign)
            }
        };
        self.notes.push(
            "peer_credits and credits are not applied: a node takes them when it starts, from \
             lnetctl.yaml of --write"
                .to_owned(),
        );
        let state = args.apply.state.clone();
        Applied { record: self.file, settings, notes: self.notes, state }
    }
}

/// What a formula asks for.
fn formula(location: &SettingLocation, settings: &Settings, conns: Option<u64>) -> u64 {
    match location {
        SettingLocation::Node { .. } => conns.unwrap_or(1),
        SettingLocation::Mount { .. } => settings.max_rpcs_in_flight,
        SettingLocation::Sysctl { .. } => settings.tcp_buffer,
    }
}

/// The connections that the paths need of which it is known what one stream carries.
fn conns(report: &Report) -> Option<u64> {
    let known = report
        .peers
        .iter()
        .filter(|peer| peer.path.is_some_and(|path| !matches!(path.streams, Streams::Unknown)));
    known.filter_map(|peer| peer.settings).map(|settings| settings.conns_per_peer).max()
}

/// The interfaces of the running node that lead to the nodes of `--to`.
fn of_node(args: &TuneArgs, notes: &mut Vec<String>) -> Result<Vec<SettingLocation>, Failure> {
    let choice = NodeChoice::running((&args.apply.node).into());
    let Some(node) = running_node(&NodeOptions::default(), &choice, None)? else {
        notes.push("no node runs here, so conns_per_peer is not applied".to_owned());
        return Ok(Vec::new());
    };
    let path = node.place();
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let words = || format!("the path {} is not UTF-8", path.display());
    let control = absolute.to_str().ok_or_else(words)?.to_owned();
    let Some((start, rows)) = interfaces(path)? else {
        notes.push(format!("the node at {control} has just ended"));
        return Ok(Vec::new());
    };
    let nets: Vec<_> = args.to.iter().map(|nid| nid.net()).collect();
    let own = rows.iter().filter(|row| nets.contains(&row.nid.net()));
    let location = |nid: String| SettingLocation::Node { control: control.clone(), nid, start };
    let locations: Vec<SettingLocation> = own.map(|row| location(row.nid.to_string())).collect();
    if locations.is_empty() {
        notes.push(format!("the node at {control} has no interface on the nets of --to"));
    }
    Ok(locations)
}

/// The mounts that the user names, or those that use the nodes of `--to`.
fn of_mounts(
    here: &Here,
    args: &TuneArgs,
    notes: &mut Vec<String>,
) -> Result<Vec<SettingLocation>, Failure> {
    if !args.apply.mount.is_empty() {
        return Ok(args
            .apply
            .mount
            .iter()
            .map(|dir| here.mount_at(dir))
            .collect::<Result<_, _>>()?);
    }
    let (locations, others) = here.mounts_towards(&args.to)?;
    notes.extend(others.into_iter().map(|(dir, why)| match why.contains(&dir) {
        true => why,
        false => format!("{dir}: {why}"),
    }));
    if locations.is_empty() {
        let words = "no mount here has a target at a node of --to, so max_rpcs_in_flight is not \
                     applied";
        notes.push(words.to_owned());
    }
    Ok(locations)
}

/// Runs `lustrine tune --undo`.
pub(super) fn run_undo(args: &TuneArgs) -> Result<(), Failure> {
    let dir = args.apply.state_dir()?;
    let mode = if args.dry_run { Mode::DryRun } else { Mode::Apply };
    let store = Store::open(&dir)?;
    let mut record = store.as_ref().map(Store::load).transpose()?.unwrap_or_default();
    let mut here = Here::new(store)?;
    let settings = undo(&mut here, &mut record, mode, args.apply.foreign());
    let applied = Applied {
        record: dir.join(super::store::NAME),
        settings,
        notes: Vec::new(),
        state: args.apply.state.clone(),
    };
    match args.json {
        true => print_json(&applied)?,
        false if applied.settings.is_empty() => {
            print(&format!("nothing to undo: there is no {}\n", applied.record.display()))?;
        }
        false => print(&words::applied(&applied))?,
    }
    applied.whole()
}
