//! `lustrine selftest --plan`: a test of many nodes, as a file describes it.

mod env;
mod live;
mod local;
mod start;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use clap::Args;
use lustrine_config::NodeConfig;
use lustrine_lnet::time::Nanos;
use lustrine_plan::{
    End, Group, Members, NodeSettings, Nodes, Plan, Point, Provenance, Results, Start, count, csv,
    duration, outline, page, points, table,
};
use lustrine_report::FinishedPage;
use lustrine_report::numbers::counted;
use lustrine_tools::nids;
use lustrine_wire::nid::Nid;

use super::report::{host_name, now};
use crate::access::{Link, UsedNode, WithNode, running_node};
use crate::hosts::resolve;
use crate::interrupt::Interrupt;
use crate::output::{Failure, json, note, print, print_error};
use crate::plots::PlotsDir;
use crate::provenance;
use crate::report_file::{ReportFile, check_distinct};
use env::{Console, Settings};
use live::View;
use local::LocalNodes;
use start::{Assigned, StartArgs, StartedNodes};

/// Unused hosts that are named.
const UNUSED_MAX: usize = 8;

/// Options of a plan.
#[derive(Args, Debug)]
pub(super) struct PlanArgs {
    /// Run a plan for many nodes (docs/plans.md; plans/ has some)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["to", "placement", "test", "size",
        "concurrency", "check", "port", "patience"])]
    plan: Option<PathBuf>,

    /// The nodes of a group of the plan, such as clients=10.0.0.[1-4]@tcp; may be given several
    /// times
    #[arg(long = "group", value_name = "NAME=NIDS", requires = "plan", conflicts_with = "to")]
    groups: Vec<String>,

    #[command(flatten)]
    start: StartArgs,

    /// Start nodes on this machine's loopback for groups without NIDs
    #[arg(long, requires = "plan", conflicts_with = "to")]
    local: bool,

    /// Show what the plan would do, and how long it takes; no node is contacted
    #[arg(long, requires = "plan",
        conflicts_with_all = ["to", "json", "csv", "report", "plots"])]
    dry_run: bool,

    /// Write the plan's results as CSV
    #[arg(long, value_name = "FILE", requires = "plan", conflicts_with = "to")]
    csv: Option<PathBuf>,
}

impl PlanArgs {
    /// The plan's file, if there is one.
    pub(super) fn file(&self) -> Option<&PathBuf> {
        self.plan.as_ref()
    }
}

/// Runs the command.
pub(super) fn run(args: &super::SelftestArgs, file: &PathBuf) -> Result<(), Failure> {
    let cannot = |error| Failure::Input(format!("cannot read {}: {error}", file.display()));
    let text = fs::read_to_string(file).map_err(cannot)?;
    let mut plan = Plan::parse(&text, &file.display().to_string())
        .map_err(|why| Failure::Input(why.to_string()))?;
    if let Some(seconds) = args.time {
        let time = Nanos((seconds * 1e9) as u64);
        plan.steps.iter_mut().for_each(|step| step.time = time);
    }
    if let Some(seconds) = args.warm_up {
        let warm_up = Nanos((seconds * 1e9) as u64);
        plan.steps.iter_mut().for_each(|step| step.warm_up = warm_up);
    }
    let given = given(&plan, &args.plan)?;
    let (start, hosts) = starting(&plan, &args.plan, &given)?;
    if args.plan.dry_run {
        missing(&plan, &given, &hosts, args.plan.local)?;
        return print(&would_do(&plan, given, &hosts)?);
    }
    if start.is_some() {
        // What the plan cannot measure is reported before hosts are contacted.
        would_do(&plan, given.clone(), &hosts)?;
    }
    // Paths that cannot be written are reported before the measurement.
    let open = |path: &Option<PathBuf>| path.as_deref().map(ReportFile::open).transpose();
    let (json_file, csv_file) = (open(&args.json)?, open(&args.plan.csv)?);
    let report = open(&args.report)?;
    let plots = args.plots.as_deref().map(PlotsDir::open).transpose()?;
    check_distinct(file, &[&json_file, &csv_file, &report])?;
    if [&json_file, &csv_file, &report].into_iter().flatten().filter(|f| is_stdout(f)).count() > 1 {
        let words = "only one of --json, --csv and --report can be standard output";
        return Err(Failure::Usage(words.to_owned()));
    }
    let (results, node) = measure(args, &plan, given, (start, hosts))?;
    let results = Results { source: text, ..results };
    let text = table(&results);
    let printed = match [&json_file, &csv_file, &report].into_iter().flatten().any(is_stdout) {
        true => Ok(()),
        false => print(&text),
    };
    // All files are written before a failure to write one is reported.
    let FinishedPage { html, figures } = page(&results, &text);
    let texts = [(csv_file, csv(&results)), (report, html)];
    let mut written: Vec<Result<(), Failure>> =
        texts.into_iter().filter_map(|(file, text)| Some(file?.write(&text))).collect();
    if let Some(file) = json_file {
        written.push(file.write(&json(&WithNode { result: &results, node: &node })?));
    }
    written.extend(plots.map(|dir| dir.write(&figures)));
    written.into_iter().collect::<Result<(), Failure>>()?;
    match &results.end {
        End::Failed { error } => {
            let measured = counted(results.points.len() as u64, "point");
            return Err(format!("{}; measured before: {measured}", with_advice(error)).into());
        }
        End::Interrupted { .. } => return Err(Failure::Interrupted),
        End::Complete => {}
    }
    match (results.errors(), results.lost()) {
        (0, 0) => printed,
        (0, lost) => {
            let clients = counted(lost, "client");
            Err(format!("{clients} did not answer to the end; the table says where").into())
        }
        (errors, _) => {
            let failed = counted(errors, "operation");
            Err(format!("{failed} failed; the table says which").into())
        }
    }
}

/// How nodes are started on other hosts, if the plan or an option says so, and on which.
fn starting(
    plan: &Plan,
    args: &PlanArgs,
    given: &[Option<Vec<Nid>>],
) -> Result<(Option<Start>, Assigned), Failure> {
    let start = if args.local { None } else { start::merged(plan, &args.start)? };
    let Some(start) = start else { return Ok((None, Assigned::none(plan.groups.len()))) };
    let known = |name: &str| {
        let mut groups = plan.groups.iter().zip(given);
        groups.any(|(group, nids)| group.name == name && nids.is_some())
    };
    let hosts = start::assign(plan, &start, &args.start, &known)?;
    Ok((Some(start), hosts))
}

/// What a plan would do. Groups without NIDs get placeholders.
fn would_do(
    plan: &Plan,
    given: Vec<Option<Vec<Nid>>>,
    hosts: &Assigned,
) -> Result<String, Failure> {
    let mut text = format!("plan {}", plan.name);
    if !plan.about.is_empty() {
        text += &format!(": {}", plan.about);
    }
    text.push('\n');
    for ((group, nids), hosts) in plan.groups.iter().zip(&given).zip(&hosts.groups) {
        text += &match (nids, &group.members) {
            _ if hosts.is_some() => {
                let hosts = hosts.as_deref().unwrap_or_default();
                format!("{}: {}\n", group.name, hosts.join(" "))
            }
            (Some(nids), _) => {
                let words: Vec<String> = nids.iter().map(Nid::to_string).collect();
                format!("{}: {}\n", group.name, words.join(" "))
            }
            (None, Members::Count(count)) => {
                format!("{}: {count}, from --group {}=NIDS or --local\n", group.name, group.name)
            }
            (None, Members::Nids(_) | Members::Hosts(_)) => String::new(),
        };
    }
    let all = hosts.all();
    let placeholder = |host: &str| {
        let index = all.iter().position(|one| one == host)?;
        local::nids().nth(local::NODES_MAX as usize + index)
    };
    let given = with_started(plan, given, hosts, &placeholder)?;
    let nodes = nodes_of(plan, given, &mut local::nids());
    let points = points(plan, &nodes).map_err(|why| Failure::Usage(why.to_string()))?;
    Ok(text + &outline(plan, &points))
}

/// The nodes of each group that are known, with those that were started on hosts.
///
/// # Errors
/// When none was started of a group.
fn with_started(
    plan: &Plan,
    mut given: Vec<Option<Vec<Nid>>>,
    hosts: &Assigned,
    nid: &dyn Fn(&str) -> Option<Nid>,
) -> Result<Vec<Option<Vec<Nid>>>, Failure> {
    for ((group, given), hosts) in plan.groups.iter().zip(&mut given).zip(&hosts.groups) {
        let Some(hosts) = hosts else { continue };
        let nids: Vec<Nid> = hosts.iter().filter_map(|host| nid(host)).collect();
        if nids.is_empty() {
            return Err(format!("no node of group {} could be started", group.name).into());
        }
        *given = Some(nids);
    }
    Ok(given)
}

/// Groups without NIDs and hosts, with their number of nodes.
fn missing(
    plan: &Plan,
    given: &[Option<Vec<Nid>>],
    hosts: &Assigned,
    starts_some: bool,
) -> Result<Vec<(String, u32)>, Failure> {
    let mut missing: Vec<(String, u32)> = Vec::new();
    for ((group, nids), hosts) in plan.groups.iter().zip(given).zip(&hosts.groups) {
        match (nids, hosts, &group.members) {
            (None, None, Members::Count(count)) => missing.push((group.name.clone(), *count)),
            (None, None, Members::Hosts(_)) => {
                return Err(Failure::Usage(format!(
                    "--local starts all nodes on this machine, and group {} names hosts",
                    group.name
                )));
            }
            _ => {}
        }
    }
    if let (Some((name, _)), true) = (missing.first(), starts_some) {
        if given.iter().any(Option::is_some) {
            return Err(Failure::Usage(format!(
                "--local starts group {name} on this machine's loopback, where the nodes that are \
                 named cannot reach it: name all groups' nodes, or none"
            )));
        }
        local::check(missing.iter().map(|(_, count)| count).sum())?;
    }
    Ok(missing)
}

/// The nodes of all groups; new ones for groups without NIDs.
fn nodes_of(
    plan: &Plan,
    given: Vec<Option<Vec<Nid>>>,
    fresh: &mut dyn Iterator<Item = Nid>,
) -> Nodes {
    let of = |(group, nids): (&Group, Option<Vec<Nid>>)| match (nids, &group.members) {
        (Some(nids), _) => nids,
        (None, Members::Count(count)) => fresh.take(*count as usize).collect(),
        (None, Members::Nids(_) | Members::Hosts(_)) => Vec::new(),
    };
    plan.groups.iter().zip(given).map(of).collect()
}

/// A possible reason, if the network reported only that no node answers.
fn with_advice(error: &str) -> String {
    match error.contains("refused") && !error.contains("--force") {
        true => format!(
            "{error}. Nodes at another port than 988 are found with --net tcp=ADDRESS:PORT, where \
             ADDRESS is ours and PORT theirs"
        ),
        false => error.to_owned(),
    }
}

fn is_stdout(file: &ReportFile) -> bool {
    matches!(file, ReportFile::Stdout)
}

fn measure(
    args: &super::SelftestArgs,
    plan: &Plan,
    given: Vec<Option<Vec<Nid>>>,
    (start, hosts): (Option<Start>, Assigned),
) -> Result<(Results, UsedNode), Failure> {
    let interrupt = Interrupt::catch()?;
    let missing = missing(plan, &given, &hosts, args.plan.local)?;
    let local = match missing.first() {
        None => None,
        Some(_) if args.plan.local => {
            let count = missing.iter().map(|(_, count)| count).sum();
            Some(LocalNodes::start(count, &args.node, &interrupt)?)
        }
        Some((name, _)) => {
            return Err(Failure::Usage(format!(
                "group {name} has no nodes: name them with --group {name}=NIDS, or start some \
                 on this machine with --local, or on other hosts with --start ssh --hosts HOSTS"
            )));
        }
    };
    let started = start_hosts(args, start.as_ref(), &hosts, &interrupt)?;
    let nid_on = |host: &str| started.as_ref().and_then(|(nodes, _)| nodes.nid(host));
    let given = with_started(plan, given, &hosts, &nid_on)?;
    let nodes = nodes_of(plan, given, &mut local.iter().flat_map(LocalNodes::nids));
    let mut plan = plan.clone();
    if started.as_ref().is_some_and(|(nodes, _)| nodes.misses_some()) {
        plan.limit_nodes(&nodes);
    }
    let plan = &plan;
    let points = points(plan, &nodes).map_err(|why| Failure::Usage(why.to_string()))?;
    note(&format!("{}, {}", count(&points), duration(&points)));
    // Local nodes reach a console on the loopback only, and those on other hosts one at their port.
    let running = match (&local, &started) {
        (None, None) => running_node(&args.node, &args.choice, None)?,
        _ => None,
    };
    let port = started.as_ref().map(|(_, port)| *port);
    let mut link = match running {
        Some(node) => Link::to(node),
        None => Link::own(&own_config(args, local.as_ref(), &points, port)?)?,
    };
    let mut started = started.map(|(nodes, _)| nodes);
    if let (Some(started), Link::Own { node, .. }) = (&mut started, &link) {
        started.trust(&node.info().nids, &interrupt)?;
    }
    if local.is_none() {
        link.announce();
    }
    let mut known: Vec<NodeSettings> = provenance::of_link(&mut link).into_iter().collect();
    known.extend(local.iter().flat_map(LocalNodes::settings));
    known.extend(started.iter().flat_map(StartedNodes::settings));
    let provenance = Provenance { machine: provenance::machine(), nodes: known };
    let settings = Settings { take_over: args.force };
    let mut console = Console::new(&mut link, &interrupt, settings, View::new());
    let named = plan.groups.iter().zip(nodes);
    let groups: BTreeMap<String, Vec<Nid>> =
        named.map(|(group, nids)| (group.name.clone(), nids)).collect();
    let date = now();
    let (points, end) = lustrine_plan::run(plan, &points, &mut console);
    console.clear();
    let used = link.used().clone();
    link.stop();
    let start = started.as_ref().map(StartedNodes::started);
    if let Some(started) = started {
        started.end();
    }
    let nothing = points.is_empty();
    if let (End::Failed { error }, true) = (&end, nothing) {
        return Err(with_advice(error).into());
    }
    let results = Results {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        date,
        host: host_name(),
        plan: plan.name.clone(),
        about: plan.about.clone(),
        source: String::new(),
        groups,
        start,
        provenance: Some(provenance),
        points,
        end,
    };
    Ok((results, used))
}

/// Starts the nodes on other hosts, if there are any; their port is the second value.
fn start_hosts(
    args: &super::SelftestArgs,
    start: Option<&Start>,
    hosts: &Assigned,
    interrupt: &Interrupt,
) -> Result<Option<(StartedNodes, u16)>, Failure> {
    let (Some(start), all) = (start, hosts.all()) else { return Ok(None) };
    if all.is_empty() {
        return Ok(None);
    }
    if args.choice.control.control.is_some() {
        let words = "--control names a running node; a plan that starts nodes on other hosts has a \
                     console of its own, at their port";
        return Err(Failure::Usage(words.to_owned()));
    }
    if !hosts.unused.is_empty() {
        let unused = hosts.unused.iter().take(UNUSED_MAX).cloned().collect::<Vec<_>>().join(" ");
        let more = if hosts.unused.len() > UNUSED_MAX { " .." } else { "" };
        note(&format!(
            "{} of the list are not used, because the groups need no more: {unused}{more}; --hosts \
             GROUP=HOSTS gives a group others",
            hosts.unused.len()
        ));
    }
    let nodes = StartedNodes::start(start, &all, &args.node, interrupt)?;
    Ok(Some((nodes, start.port)))
}

/// The local node: only the console.
fn own_config(
    args: &super::SelftestArgs,
    local: Option<&LocalNodes>,
    points: &[Point],
    port: Option<u16>,
) -> Result<NodeConfig, Failure> {
    let mut config = match (local, points.first().and_then(|point| point.nodes().first().copied()))
    {
        (Some(local), _) if args.node.basic.net.is_empty() && args.node.basic.config.is_none() => {
            let mut config = args.node.node_config(print_error)?;
            config.nets = vec![local.own_net()];
            config.accept = lustrine_config::AcceptPolicy::None;
            config
        }
        (_, Some(nid)) => args.node.short_lived(&nid, port)?,
        (_, None) => return Err("the plan measures nothing".to_owned().into()),
    };
    // One loop is enough for the traffic of a console.
    config.tunables.loops.cpu_npartitions = 1;
    Ok(config)
}

/// The NIDs of each group that are given on the command line or in the file.
fn given(plan: &Plan, args: &PlanArgs) -> Result<Vec<Option<Vec<Nid>>>, Failure> {
    let mut words: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for text in &args.groups {
        let example = "an example is --group clients=10.0.0.[1-4]@tcp";
        let Some((name, nids)) = text.split_once('=') else {
            return Err(Failure::Usage(format!("--group {text}: no '='; {example}")));
        };
        if !plan.groups.iter().any(|group| group.name == name) {
            let names: Vec<&str> = plan.groups.iter().map(|group| group.name.as_str()).collect();
            return Err(Failure::Usage(format!(
                "--group {text}: the plan has no group {name}; it has {}",
                names.join(", ")
            )));
        }
        words.entry(name).or_default().push(nids.to_owned());
    }
    let of = |group: &Group| {
        let words = match (words.get(group.name.as_str()), &group.members) {
            (Some(words), _) | (None, Members::Nids(words)) => words,
            (None, Members::Count(_) | Members::Hosts(_)) => return Ok(None),
        };
        let mut seen = std::collections::BTreeSet::new();
        let nids = nids::list(words, resolve)
            .map_err(|why| Failure::Input(format!("group {}: {why}", group.name)))?;
        Ok(Some(nids.into_iter().filter(|nid| seen.insert(*nid)).collect()))
    };
    plan.groups.iter().map(of).collect()
}
