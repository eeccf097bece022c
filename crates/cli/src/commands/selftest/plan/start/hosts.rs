//! Which hosts belong to which group.

use std::collections::{BTreeMap, BTreeSet};

use clap::{Args, ValueEnum};
use lustrine_plan::{Members, OnMissingHost, Plan, Start, StartMethod, host_list};

use crate::output::Failure;

/// Largest number of hosts with nodes: each needs a process here.
const HOSTS_MAX: usize = 1024;

/// Most names in a list, of which some may be excluded or not needed.
const NAMES_MAX: usize = 65_536;

/// Largest file with hosts, in bytes.
const FILE_MAX: u64 = 1 << 20;

/// The list of the nodes of a job of Slurm.
const SLURM_HOSTS: &str = "SLURM_JOB_NODELIST";

/// The number of a job of Slurm.
const SLURM_JOB: &str = "SLURM_JOB_ID";

/// The error when it is unknown how hosts are reached.
pub(super) const NO_METHOD: &str = "the plan names hosts and does not say how nodes are started \
                                    there: write \"start: ssh\" into it, or use --start ssh";

/// Options of starting nodes.
#[derive(Args, Debug)]
pub(crate) struct StartArgs {
    /// Start nodes on other hosts for the time of the plan: ssh, srun, or a command that runs a
    /// shell there, such as 'podman exec -i {host} sh -s' (docs/plans.md)
    #[arg(long, value_name = "ssh|srun|COMMAND", requires = "plan",
        conflicts_with_all = ["local", "to"], value_parser = StartMethod::read)]
    start: Option<StartMethod>,

    /// Hosts on which nodes are started, such as c[01-16],login1, or ^FILE; with GROUP= those of
    /// one group, otherwise each group takes as many as the plan says. May be given several times
    #[arg(long, value_name = "[GROUP=]HOSTS", requires = "plan",
        conflicts_with_all = ["local", "to"])]
    hosts: Vec<String>,

    /// Hosts on which no node is started
    #[arg(long, value_name = "HOSTS", requires = "plan", conflicts_with_all = ["local", "to"])]
    exclude: Vec<String>,

    /// The program that runs on the hosts [default: this one]
    #[arg(long, value_name = "FILE", requires = "plan", conflicts_with_all = ["local", "to"])]
    program: Option<String>,

    /// What happens if a host cannot be started [default: as in the plan, otherwise stop]
    #[arg(long, value_enum, requires = "plan", conflicts_with_all = ["local", "to"])]
    missing: Option<MissingWord>,
}

/// [`OnMissingHost`] by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum MissingWord {
    /// Nothing is measured
    Stop,
    /// The others are measured
    Continue,
}

impl StartArgs {
    /// Whether any of the options is given.
    fn is_given(&self) -> bool {
        self.start.is_some() || !self.hosts.is_empty()
    }

    /// The first of the options that say how something is done, and not that it is.
    fn refinement(&self) -> Option<&'static str> {
        let given = [
            ("--exclude", !self.exclude.is_empty()),
            ("--program", self.program.is_some()),
            ("--missing", self.missing.is_some()),
        ];
        given.into_iter().find_map(|(name, is_given)| is_given.then_some(name))
    }
}

/// How nodes are started: what the plan says, with the options instead where they are given;
/// `None` if neither says anything.
///
/// # Errors
/// When an option needs nodes on other hosts, and neither says that there are some.
pub(crate) fn merged(plan: &Plan, args: &StartArgs) -> Result<Option<Start>, Failure> {
    let names_hosts = plan.groups.iter().any(|group| matches!(group.members, Members::Hosts(_)));
    if plan.start.is_none() && !args.is_given() && !names_hosts {
        return match args.refinement() {
            Some(option) => Err(Failure::Usage(format!(
                "{option} is for nodes on other hosts, and neither the plan nor --start says that \
                 some are started"
            ))),
            None => Ok(None),
        };
    }
    let mut start = plan.start.clone().unwrap_or_default();
    start.method = args.start.clone().or(start.method);
    start.exclude.extend(args.exclude.iter().cloned());
    start.program = args.program.clone().or(start.program);
    start.missing = match args.missing {
        Some(MissingWord::Stop) => OnMissingHost::Stop,
        Some(MissingWord::Continue) => OnMissingHost::Continue,
        None => start.missing,
    };
    Ok(Some(start))
}

/// The hosts of a plan.
pub(crate) struct Assigned {
    /// Those of each group; `None` for groups whose nodes are known otherwise.
    pub(crate) groups: Vec<Option<Vec<String>>>,
    /// Hosts of the list for all groups that no group takes.
    pub(crate) unused: Vec<String>,
}

impl Assigned {
    /// No hosts for this number of groups.
    pub(crate) fn none(groups: usize) -> Assigned {
        Assigned { groups: vec![None; groups], unused: Vec::new() }
    }

    /// The hosts of all groups, each once.
    pub(crate) fn all(&self) -> Vec<String> {
        let mut seen = BTreeSet::new();
        let hosts = self.groups.iter().flatten().flatten();
        hosts.filter(|host| seen.insert(host.as_str())).cloned().collect()
    }
}

/// The hosts of each group. `known` says which have NIDs.
///
/// # Errors
/// When a list is invalid, or groups have no hosts or too few.
pub(crate) fn assign(
    plan: &Plan,
    start: &Start,
    args: &StartArgs,
    known: &dyn Fn(&str) -> bool,
) -> Result<Assigned, Failure> {
    let (mut by_group, mut free): (BTreeMap<&str, Vec<String>>, Vec<String>) = Default::default();
    for text in &args.hosts {
        // Names of files and variables are no names of groups.
        let named = if text.starts_with(['^', '$']) { None } else { text.split_once('=') };
        match named {
            None => free.push(text.clone()),
            Some((name, hosts)) if plan.groups.iter().any(|group| group.name == name) => {
                by_group.entry(name).or_default().push(hosts.to_owned());
            }
            Some((name, _)) => {
                let names: Vec<&str> = plan.groups.iter().map(|group| &*group.name).collect();
                return Err(Failure::Usage(format!(
                    "--hosts {text}: the plan has no group {name}; it has {}",
                    names.join(", ")
                )));
            }
        }
    }
    let mut wanted = Vec::new();
    for group in &plan.groups {
        let named = by_group.remove(group.name.as_str());
        wanted.push(match (named, known(&group.name), &group.members) {
            (Some(_), true, _) => {
                let name = &group.name;
                let words = format!("group {name} has NIDs with --group and hosts with --hosts");
                return Err(Failure::Usage(words));
            }
            (Some(words), ..) => Wanted::Named(words),
            (None, true, _) | (None, _, Members::Nids(_)) => Wanted::None,
            (None, _, Members::Hosts(words)) => Wanted::Named(words.clone()),
            (None, _, Members::Count(count)) => Wanted::Count(*count as usize),
        });
    }
    if wanted.iter().all(|wanted| matches!(wanted, Wanted::None)) {
        return Ok(Assigned::none(plan.groups.len()));
    }
    let takes_free = wanted.iter().any(|wanted| matches!(wanted, Wanted::Count(_)));
    if free.is_empty() && takes_free {
        free.clone_from(&start.hosts);
    }
    if free.is_empty() && takes_free && start.method == Some(StartMethod::Srun) {
        free.extend(std::env::var(SLURM_HOSTS));
    }
    let excluded = read(&start.exclude, "exclude")?.into_iter().collect();
    let lists = Lists { excluded };
    let mut named = BTreeMap::new();
    for (index, (group, wanted)) in plan.groups.iter().zip(&wanted).enumerate() {
        if let Wanted::Named(words) = wanted {
            named.insert(index, lists.hosts(words, &group.name)?);
        }
    }
    let others: BTreeSet<&String> = named.values().flatten().collect();
    let mut free = match free.is_empty() {
        true => None,
        false => {
            let mut hosts = lists.hosts(&free, "hosts")?;
            hosts.retain(|host| !others.contains(host));
            Some(hosts.into_iter())
        }
    };
    let mut groups = Vec::new();
    for (index, (group, wanted)) in plan.groups.iter().zip(&wanted).enumerate() {
        groups.push(match wanted {
            Wanted::None => None,
            Wanted::Named(_) => named.get(&index).cloned(),
            Wanted::Count(count) => Some(next(&group.name, *count, free.as_mut())?),
        });
    }
    let assigned = Assigned { groups, unused: free.into_iter().flatten().collect() };
    check_count(assigned.all().len())?;
    Ok(assigned)
}

/// The hosts that a group needs.
enum Wanted {
    None,
    /// Those of these lists.
    Named(Vec<String>),
    /// So many of the list for all groups.
    Count(usize),
}

/// The next hosts of the list for all groups, if there is one.
fn next(
    group: &str,
    wanted: usize,
    free: Option<&mut std::vec::IntoIter<String>>,
) -> Result<Vec<String>, Failure> {
    let Some(free) = free else {
        return Err(Failure::Usage(format!(
            "group {group} has no hosts: name them with --hosts {group}=HOSTS, or for all groups \
             with --hosts HOSTS"
        )));
    };
    let found: Vec<String> = free.take(wanted).collect();
    let left = match found.len() {
        there if there == wanted => return Ok(found),
        0 => "no host remains".to_owned(),
        1 => "only 1 host remains".to_owned(),
        there => format!("only {there} hosts remain"),
    };
    let wanted = count(wanted);
    Err(Failure::Usage(format!("group {group} needs {wanted}, and {left} in the list")))
}

/// A number of hosts in words.
pub(super) fn count(hosts: usize) -> String {
    if hosts == 1 { "1 host".to_owned() } else { format!("{hosts} hosts") }
}

/// Whether a method can work here.
///
/// # Errors
/// Outside a job of Slurm, where srun would wait in the queue for a new one.
pub(super) fn check_method(method: &StartMethod, start: &Start) -> Result<(), Failure> {
    let names_job = start.options.iter().any(|word| word.starts_with("--jobid"));
    if *method == StartMethod::Srun && !names_job && std::env::var_os(SLURM_JOB).is_none() {
        let words = "start: srun starts nodes inside a job of Slurm, and this is none: begin with \
                     salloc, such as salloc -N 4 lustrine selftest .., or name a job with \
                     \"options: --jobid=NUMBER\"";
        return Err(Failure::Usage(words.to_owned()));
    }
    Ok(())
}

fn check_count(count: usize) -> Result<(), Failure> {
    match count {
        0..=HOSTS_MAX => Ok(()),
        _ => Err(Failure::Usage(format!("{count} hosts; at most {HOSTS_MAX} can be started"))),
    }
}

/// Lists of hosts without the excluded ones.
struct Lists {
    excluded: BTreeSet<String>,
}

impl Lists {
    fn hosts(&self, words: &[String], what: &str) -> Result<Vec<String>, Failure> {
        let mut hosts = read(words, what)?;
        hosts.retain(|host| !self.excluded.contains(host));
        match hosts.is_empty() {
            true => Err(Failure::Usage(format!("{what}: all hosts are excluded"))),
            false => Ok(hosts),
        }
    }
}

/// The hosts of some words: lists, `^FILE`, `$VARIABLE`. No words are no hosts.
fn read(words: &[String], what: &str) -> Result<Vec<String>, Failure> {
    if words.is_empty() {
        return Ok(Vec::new());
    }
    let texts = words.iter().map(|word| {
        let word = word.trim();
        match (word.strip_prefix('^'), word.strip_prefix('$')) {
            (Some(path), _) => file(path),
            (_, Some(name)) => std::env::var(name)
                .map_err(|_| Failure::Usage(format!("{what}: the variable {name} is not set"))),
            _ => Ok(word.to_owned()),
        }
    });
    let text = texts.collect::<Result<Vec<_>, _>>()?.join(",");
    host_list(&text, NAMES_MAX).map_err(|why| Failure::Usage(format!("{what}: {why}")))
}

/// The lists in a file, where `#` begins a comment.
fn file(path: &str) -> Result<String, Failure> {
    let cannot = |why: String| Failure::Input(format!("cannot read {path}: {why}"));
    let about = std::fs::metadata(path).map_err(|error| cannot(error.to_string()))?;
    if about.len() > FILE_MAX {
        return Err(cannot("it has more than 1 MiB".to_owned()));
    }
    let text = std::fs::read_to_string(path).map_err(|error| cannot(error.to_string()))?;
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
    let list = lines.collect::<Vec<_>>().join(",");
    host_list(&list, NAMES_MAX).map_err(|why| Failure::Input(format!("{path}: {why}")))?;
    Ok(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(groups: &str) -> Plan {
        let steps = "steps: [{tests: [{do: ping, from: a, to: b}]}]";
        Plan::parse(&format!("name: p\ngroups: {groups}\n{steps}\n"), "p").expect("it is valid")
    }

    fn args(hosts: &[&str]) -> StartArgs {
        let hosts = hosts.iter().map(|text| (*text).to_owned()).collect();
        StartArgs {
            start: Some(StartMethod::Ssh),
            hosts,
            exclude: vec!["c3".to_owned()],
            program: None,
            missing: None,
        }
    }

    fn assigned(groups: &str, hosts: &[&str], known: &str) -> Result<String, String> {
        let (plan, args) = (plan(groups), args(hosts));
        let start = merged(&plan, &args).ok().flatten().expect("it is given");
        let found =
            assign(&plan, &start, &args, &|name| known.contains(name)).map_err(
                |why| match why {
                    Failure::Usage(text) | Failure::Failed(text) => text,
                    other => format!("{other:?}"),
                },
            )?;
        let texts = found.groups.iter().map(|hosts| match hosts {
            Some(hosts) => hosts.join(" "),
            None => "-".to_owned(),
        });
        Ok(texts.collect::<Vec<_>>().join("; "))
    }

    #[test]
    fn groups_take_their_own_hosts_or_the_next_ones() {
        for (groups, hosts, known, wanted) in [
            ("{a: 2, b: 1}", &["c[1-9]"][..], "", "c1 c2; c4"),
            ("{a: 2, b: 1}", &["c[1-9]", "b=d1,d2"], "", "c1 c2; d1 d2"),
            ("{a: {hosts: 'c[1-4]'}, b: {hosts: [c1, d]}}", &[], "", "c1 c2 c4; c1 d"),
            ("{a: {hosts: c1}, b: 10.0.0.1@tcp}", &[], "", "c1; -"),
            ("{a: 1, b: {hosts: c1}}", &["c9"], "b", "c9; -"),
            ("{a: 1, b: 2}", &["a=c[1-4]", "c[1-6]"], "", "c1 c2 c4; c5 c6"),
            ("{a: 2, b: {hosts: c2}}", &["c[1-6]"], "", "c1 c4; c2"),
            ("{a: 1, b: 1}", &["c[1-2000]"], "", "c1; c2"),
            ("{a: 1, b: {hosts: '^/no/file'}}", &["c9"], "b", "c9; -"),
            ("{a: {hosts: '^/no/file'}, b: {hosts: '^/no/file'}}", &[], "ab", "-; -"),
        ] {
            assert_eq!(assigned(groups, hosts, known).as_deref(), Ok(wanted), "{groups} {hosts:?}");
        }
    }

    /// The limit is one of nodes, and not of names.
    #[test]
    fn excluded_hosts_do_not_count() {
        let found = assigned("{a: {hosts: 'c[1-1025]'}, b: 10.0.0.1@tcp}", &[], "b");
        assert_eq!(found.map(|hosts| hosts.split(' ').count()), Ok(1025), "c3 is excluded");
    }

    #[test]
    fn options_about_nodes_that_are_not_started_are_refused() {
        let none = || StartArgs { start: None, exclude: Vec::new(), ..args(&[]) };
        let plan = plan("{a: 1, b: 1}");
        assert!(matches!(merged(&plan, &none()), Ok(None)));
        for (name, args) in [
            ("--exclude", StartArgs { exclude: vec!["c1".to_owned()], ..none() }),
            ("--program", StartArgs { program: Some("x".to_owned()), ..none() }),
            ("--missing", StartArgs { missing: Some(MissingWord::Continue), ..none() }),
        ] {
            let why = merged(&plan, &args).expect_err(name);
            assert!(matches!(why, Failure::Usage(text) if text.starts_with(name)), "{name}");
        }
    }

    #[test]
    fn groups_without_hosts_are_named() {
        for (groups, hosts, known, said) in [
            ("{a: 2, b: 1}", &["c[1-2]"][..], "", "group b needs 1 host, and no host remains in"),
            ("{a: 2, b: 1}", &[], "", "group a has no hosts: name them with --hosts a=HOSTS"),
            ("{a: 2, b: 1}", &["x=c1"], "", "the plan has no group x; it has a, b"),
            ("{a: 2, b: 1}", &["a=c3"], "", "a: all hosts are excluded"),
            ("{a: 1, b: 1}", &["a=c1"], "a", "has NIDs with --group and hosts with --hosts"),
            ("{a: 3, b: 1}", &["c[1-2]"], "", "group a needs 3 hosts, and only 2 hosts remain in"),
            ("{a: 1, b: 1}", &["c[1-70000]"], "", "the list has more than 65536 names"),
            ("{a: 1, b: 1}", &["a=d[1-1024]", "c1"], "", "1025 hosts; at most 1024 can be"),
            ("{a: 1, b: 1}", &["^/no/such=file"], "", "cannot read /no/such=file"),
            ("{a: 1, b: 1}", &["^/no/such/file"], "", "cannot read /no/such/file"),
            ("{a: 1, b: 1}", &["$NO_SUCH_VARIABLE"], "", "NO_SUCH_VARIABLE is not set"),
        ] {
            let why = assigned(groups, hosts, known).expect_err(said);
            assert!(why.contains(said), "{why} instead of {said}");
        }
    }

    #[test]
    fn files_have_comments() {
        let dir = tempfile::TempDir::new().expect("a directory");
        let path = dir.path().join("hosts");
        std::fs::write(&path, "# the rack\nc[1-2] # two\n\nlogin1\n").expect("a file");
        let words = [format!("^{}", path.display()), "d1".to_owned()];
        assert_eq!(read(&words, "hosts").expect("hosts").join(" "), "c1 c2 login1 d1");
    }
}
