//! How the nodes of a plan are started on other hosts, and which of them were.

use lustrine_lnet::time::Nanos;
use lustrine_wire::nid::Nid;
use serde::{Deserialize, Serialize};

/// What stands for the name of the host in a command.
pub const HOST: &str = "{host}";

/// Most characters of a host's name, or a step's, in a line about a missing host.
const CELL_MAX: usize = 253;

/// Most characters of the reason.
const WHY_MAX: usize = 6 << 10;

/// How nodes are started for the time of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Start {
    /// How the hosts are reached; `None` if the command line is to say it.
    pub method: Option<StartMethod>,
    /// Hosts for groups of which the plan gives only the number of nodes: lists of hosts, `^FILE`
    /// or `$VARIABLE`.
    pub hosts: Vec<String>,
    /// Hosts that are left out, in the same notation.
    pub exclude: Vec<String>,
    /// The user on the hosts, for ssh.
    pub user: Option<String>,
    /// Further arguments for ssh or srun.
    pub options: Vec<String>,
    /// An existing directory on the hosts, absolute; `None` for `$TMPDIR` there, or /tmp.
    pub directory: Option<String>,
    /// The file of the program to be run; `None` for the running program.
    pub program: Option<String>,
    /// The network of each node, as `lustrine node --net` takes it, without a port; `{host}` stands
    /// for the host's name.
    pub net: String,
    /// The TCP port at which the nodes listen.
    pub port: u16,
    /// How many hosts are started at once, 1 to 256.
    pub fanout: u32,
    /// How long a host may take.
    pub timeout: Nanos,
    /// What happens if a host cannot be started.
    pub missing: OnMissingHost,
}

/// How hosts are reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StartMethod {
    /// With ssh.
    Ssh,
    /// With srun, inside a job of Slurm.
    Srun,
    /// With a command that runs a shell on the host, which reads commands from standard input: the
    /// words, at least one of which contains [`HOST`].
    Command(Vec<String>),
}

/// What happens if a host cannot be started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnMissingHost {
    /// Nothing is measured.
    #[default]
    Stop,
    /// The others are measured, unless a group is empty.
    Continue,
}

/// A text that is no [`StartMethod`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StartMethodError {
    /// Another word, or a command that does not name the host.
    #[error("allowed: ssh, srun, or a command with {HOST}, such as podman exec -i {HOST} sh -s")]
    Unknown,
    /// Quotes in a command, which no shell reads.
    #[error("no shell reads the command: write a list of words instead of quotes")]
    Quotes,
    /// Braces with another content.
    #[error("only {HOST} can be in braces")]
    Braces,
}

impl Default for Start {
    fn default() -> Start {
        Start {
            method: None,
            hosts: Vec::new(),
            exclude: Vec::new(),
            user: None,
            options: Vec::new(),
            directory: None,
            program: None,
            net: "tcp".to_owned(),
            port: 9988,
            fanout: 32,
            timeout: Nanos::from_secs(60),
            missing: OnMissingHost::Stop,
        }
    }
}

impl StartMethod {
    /// Reads a method as a word, or a command whose words are separated by blanks.
    ///
    /// # Errors
    /// When it is neither.
    pub fn read(text: &str) -> Result<StartMethod, StartMethodError> {
        match text {
            "ssh" => return Ok(StartMethod::Ssh),
            "srun" => return Ok(StartMethod::Srun),
            _ if text.contains(['\'', '"', '\\', '`']) => return Err(StartMethodError::Quotes),
            _ => {}
        }
        StartMethod::command(text.split_whitespace().map(str::to_owned).collect())
    }

    /// A command of these words, none of which a shell reads.
    ///
    /// # Errors
    /// When none contains [`HOST`], or one has other braces.
    pub fn command(words: Vec<String>) -> Result<StartMethod, StartMethodError> {
        if !words.iter().any(|word| word.contains(HOST)) {
            return Err(StartMethodError::Unknown);
        }
        if words.iter().any(|word| word.replace(HOST, "").contains(['{', '}'])) {
            return Err(StartMethodError::Braces);
        }
        Ok(StartMethod::Command(words))
    }

    /// Its name in files, messages and results.
    pub fn name(&self) -> &'static str {
        match self {
            StartMethod::Ssh => "ssh",
            StartMethod::Srun => "srun",
            StartMethod::Command(_) => "command",
        }
    }
}

/// The nodes that were started for a plan, as results have them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Started {
    /// `ssh`, `srun` or `command`.
    pub method: String,
    /// The hosts with a node.
    pub hosts: Vec<StartedHost>,
    /// The hosts that the plan names and that have none.
    pub missing: Vec<MissingHost>,
}

/// A host with a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartedHost {
    /// Its name.
    pub host: String,
    /// The NID of its node.
    pub nid: Nid,
    /// How the node appears to its peers: `node` or `userland`.
    pub identity: String,
}

/// A host on which no node could be started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MissingHost {
    /// Its name.
    pub host: String,
    /// What failed: `connect`, `directory`, `copy`, `run`, `node`.
    pub step: String,
    /// Why, in one line or several.
    pub why: String,
}

impl Started {
    /// The hosts without a node as text, a line for each; empty if there are none.
    pub fn missing_lines(&self) -> String {
        missing_lines(&self.missing)
    }
}

/// A line for each host, with the step that failed and why. The texts may come from other hosts,
/// and from files of results.
pub fn missing_lines(missing: &[MissingHost]) -> String {
    let cells = |one: &MissingHost| {
        let why = one.why.lines().map(str::trim).collect::<Vec<_>>().join("; ");
        let (host, step) = (printable(&one.host, CELL_MAX), printable(&one.step, CELL_MAX));
        [host, step, printable(&why, WHY_MAX)]
    };
    let rows: Vec<[String; 3]> = missing.iter().map(cells).collect();
    let longest = |column: usize| {
        rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default()
    };
    let (first, second) = (longest(0), longest(1));
    let line =
        |[host, step, why]: &[String; 3]| format!("  {host:first$}  {step:second$}  {why}\n");
    rows.iter().map(line).collect()
}

/// The beginning of a text from elsewhere, of at most this many characters, without those that a
/// terminal obeys or that change the order in which text is shown.
pub fn printable(text: &str, most: usize) -> String {
    let turns = |c: char| {
        matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}')
            || matches!(c, '\u{2066}'..='\u{2069}')
    };
    let mut chars = text.chars().map(|c| if c.is_control() || turns(c) { ' ' } else { c });
    let shown: String = chars.by_ref().take(most).collect();
    if chars.next().is_some() { shown + "..." } else { shown }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_about_missing_hosts_are_short_and_obeyed_by_no_terminal() {
        let one = |host: &str, step: &str, why: &str| MissingHost {
            host: host.to_owned(),
            step: step.to_owned(),
            why: why.to_owned(),
        };
        let odd = "\u{1b}[2J\u{7}\u{202e}x";
        let list = [one("c1", "copy", "a\n b"), one("c10", "connect", odd)];
        assert_eq!(missing_lines(&list), "  c1   copy     a; b\n  c10  connect   [2J  x\n");
        // A file of results may have any text; such a width would panic.
        let long = "y".repeat(70_000);
        let lines = missing_lines(&[one(&long, &long, &long), one("c1", "copy", "z")]);
        assert!(lines.len() < WHY_MAX + 5 * CELL_MAX, "{}", lines.len());
        assert!(lines.ends_with("  z\n"), "{lines}");
    }
}
