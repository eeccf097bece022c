//! The checks, by area.

mod connections;
mod doctor;
mod faults;
mod files;
mod identity;
mod lst;
mod management;
mod mount;
mod selftest;
mod targets;
mod tune;
mod userland;

use std::error::Error;
use std::fmt;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};

use super::testbed::Testbed;
use crate::process::Finished;

/// A check: what is expected, and a function that returns what was seen.
pub(super) struct Check {
    pub(super) area: &'static str,
    pub(super) name: &'static str,
    pub(super) expected: &'static str,
    /// # Errors
    /// When something else was seen than expected, or the check could not be made.
    pub(super) run: fn(&mut Testbed) -> Result<String>,
}

/// All checks, in an order that restarts machines as seldom as possible.
pub(super) fn checks() -> Vec<Check> {
    let areas = [
        identity::CHECKS,
        selftest::CHECKS,
        lst::CHECKS,
        userland::CHECKS,
        connections::CHECKS,
        faults::CHECKS,
        files::CHECKS,
        mount::CHECKS,
        management::CHECKS,
        targets::CHECKS,
        tune::CHECKS,
        doctor::CHECKS,
    ];
    areas.into_iter().flatten().copied().map(Check::from).collect()
}

/// Area, name, expectation, function.
type Listed = (&'static str, &'static str, &'static str, fn(&mut Testbed) -> Result<String>);

impl From<Listed> for Check {
    fn from((area, name, expected, run): Listed) -> Check {
        Check { area, name, expected, run }
    }
}

/// The output of a command of Lustrine that must succeed.
fn succeeded(done: Finished) -> Result<String> {
    let Finished { status, stdout, stderr } = done;
    ensure!(status.success(), "ended with {status}: {} {}", stdout.trim(), stderr.trim());
    Ok(stdout)
}

/// The reason that a command of Lustrine gave, without the name of the node that answered.
fn reason(done: &Finished) -> String {
    let line = done.stderr.lines().last().unwrap_or_default();
    let line = line.strip_prefix("lustrine: ").unwrap_or(line);
    line.split(". This is what the running node").next().unwrap_or_default().to_owned()
}

/// A check needs a program that this host does not have.
#[derive(Debug)]
pub(super) struct MissingProgram(&'static str);

impl fmt::Display for MissingProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is not installed on this host", self.0)
    }
}

impl Error for MissingProgram {}

/// Fails with [`MissingProgram`] if this host does not have a program.
fn needs(program: &'static str) -> Result<()> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    match std::env::split_paths(&path).any(|dir| dir.join(program).is_file()) {
        true => Ok(()),
        false => Err(MissingProgram(program).into()),
    }
}

/// Milliseconds since `begun`, for people.
fn since(begun: Instant) -> String {
    format!("{} ms", begun.elapsed().as_millis())
}

/// Asks again and again until there is an answer.
fn eventually<T>(
    what: &str,
    limit: Duration,
    mut ask: impl FnMut() -> Result<Option<T>>,
) -> Result<T> {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(answer) = ask()? {
            return Ok(answer);
        }
        if Instant::now() >= deadline {
            bail!("{what}: not within {} s", limit.as_secs());
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// The text must contain this.
fn holds(text: &str, part: &str) -> Result<()> {
    ensure!(text.contains(part), "no `{part}` in: {}", text.trim());
    Ok(())
}

#[test]
fn names_are_unique_and_say_what_is_expected() {
    let checks = checks();
    let mut names: Vec<(&str, &str)> =
        checks.iter().map(|check| (check.area, check.name)).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), checks.len());
    assert!(checks.iter().all(|check| !check.expected.is_empty()));
}
