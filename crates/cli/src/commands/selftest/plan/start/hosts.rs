//! Which hosts belong to which group.

use std::collections::{BTreeMap, BTreeSet};

use clap::{Args, ValueEnum};
use lustrine_plan::{Group, Members, Missing, Plan, Start, StartMethod, host_list};

use crate::output::Failure;

/// Largest number of hosts: each needs a process here.
const HOSTS_MAX: usize = 1024;

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
    #[arg(long, value_name = "ssh|srun|COMMAND", requires = "plan", conflicts_with = "local",
        value_parser = StartMethod::read)]
    start: Option<StartMethod>,

    /// Hosts on which nodes are started, such as c[01-16],login1, or ^FILE; with GROUP= those of
    /// one group, otherwise each group takes as many as the plan says. May be given several times
    #[arg(long, value_name = "[GROUP=]HOSTS", requires = "plan", conflicts_with = "local")]
    hosts: Vec<String>,

    /// Hosts that are left out
    #[arg(long, value_name = "HOSTS", requires = "plan")]
    exclude: Vec<String>,

    /// The program that runs on the hosts [default: this one]
    #[arg(long, value_name = "FILE", requires = "plan")]
    program: Option<String>,

    /// What happens if a host cannot be started [default: what the plan says, else stop]
    #[arg(long, value_enum, requires = "plan")]
    missing: Option<MissingWord>,
}

/// [`Missing`] by name.
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
}

/// How nodes are started: what the plan says, with the options instead where they are given;
/// `None` if neither says anything.
pub(crate) fn merged(plan: &Plan, args: &StartArgs) -> Option<Start> {
    let names_hosts = plan.groups.iter().any(|group| matches!(group.members, Members::Hosts(_)));
    if plan.start.is_none() && !args.is_given() && !names_hosts {
        return None;
    }
    let mut start = plan.start.clone().unwrap_or_default();
    start.method = args.start.clone().or(start.method);
    start.exclude.extend(args.exclude.iter().cloned());
    start.program = args.program.clone().or(start.program);
    start.missing = match args.missing {
        Some(MissingWord::Stop) => Missing::Stop,
        Some(MissingWord::Continue) => Missing::Continue,
        None => start.missing,
    };
    Some(start)
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

/// The hosts of each group. `known` says which  have NIDs on the command line.
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
        match text.split_once('=') {
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
    if free.is_empty() {
        free.clone_from(&start.hosts);
    }
    if free.is_empty() && start.method == Some(StartMethod::Srun) {
        free.extend(std::env::var(SLURM_HOSTS));
    }
    let lists = Lists { excluded: read(&start.exclude, "exclude")? };
    let mut free = match free.is_empty() {
        true => None,
        false => Some(lists.hosts(&free, "hosts")?.into_iter()),
    };
    let mut taken = |group: &Group, count: usize| {
        let found: Vec<String> = free.iter_mut().flatten().take(count).collect();
        if found.len() == count {
            return Ok(found);
        }
        let name = &group.name;
        Err(Failure::Usage(match free {
            None => format!(
                "group {name} has no hosts: name them with --hosts {name}=HOSTS, or for all groups \
                 with --hosts HOSTS"
            ),
            Some(_) => format!(
                "group {name} needs {count} hosts, and only {} are left of the list",
                found.len()
            ),
        }))
    };
    let mut assigned = Vec::new();
    for group in &plan.groups {
        let named = by_group.get(group.name.as_str());
        if named.is_some() && known(&group.name) {
            let name = &group.name;
            let words = format!("group {name} has NIDs with --group and hosts with --hosts");
            return Err(Failure::Usage(words));
        }
        assigned.push(match (named, &group.members) {
            (Some(words), _) => Some(lists.hosts(words, &group.name)?),
            _ if known(&group.name) => None,
            (None, Members::Nids(_)) => None,
            (None, Members::Hosts(words)) => Some(lists.hosts(words, &group.name)?),
            (None, Members::Count(count)) => Some(taken(group, *count as usize)?),
        });
    }
    let assigned = Assigned { groups: assigned, unused: free.into_iter().flatten().collect() };
    check_count(assigned.all().len())?;
    Ok(assigned)
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
    excluded: Vec<String>,
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
    host_list(&text, HOSTS_MAX).map_err(|why| Failure::Usage(format!("{what}: {why}")))
}

/// The lists in a file, where `#` begins a comment.
fn file(path: &str) -> Result<String, Failure> {
    let cannot = |why: String| Failure::Failed(format!("cannot read {path}: {why}"));
    let about = std::fs::metadata(path).map_err(|error| cannot(error.to_string()))?;
    if about.len() > FILE_MAX {
        return Err(cannot("it has more than 1 MiB".to_owned()));
    }
    let text = std::fs::read_to_string(path).map_err(|error| cannot(error.to_string()))?;
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
    Ok(lines.collect::<Vec<_>>().join(","))
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
        let start = merged(&plan, &args).expect("it is given");
        let found =
            assign(&plan, &start, &args, &|name| name == known).map_err(|why| match why {
                Failure::Usage(text) | Failure::Failed(text) => text,
                other => format!("{other:?}"),
            })?;
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
        ] {
            assert_eq!(assigned(groups, hosts, known).as_deref(), Ok(wanted), "{groups} {hosts:?}");
        }
    }

    #[test]
    fn groups_without_hosts_are_named() {
        for (groups, hosts, known, said) in [
            ("{a: 2, b: 1}", &["c[1-2]"][..], "", "group b needs 1 hosts, and only 0 are left"),
            ("{a: 2, b: 1}", &[], "", "group a has no hosts: name them with --hosts a=HOSTS"),
            ("{a: 2, b: 1}", &["x=c1"], "", "the plan has no group x; it has a, b"),
            ("{a: 2, b: 1}", &["a=c3"], "", "a: all hosts are excluded"),
            ("{a: 1, b: 1}", &["a=c1"], "a", "has NIDs with --group and hosts with --hosts"),
            ("{a: 1, b: 1}", &["c[1-2000]"], "", "makes more than 1024 hosts"),
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
