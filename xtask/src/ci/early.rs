//! Builds for later steps, made while the tests run: the tests of processes wait for half of their
//! time.

use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use crate::process::ChildGuard;

/// A build that still runs when its step begins may take this much longer.
const PATIENCE: Duration = Duration::from_secs(10 * 60);

/// A build at the lowest priority. What it prints is discarded, and how it ends is not looked at:
/// the step itself builds again, finds what is built, and shows what does not build.
pub(super) struct EarlyBuild(ChildGuard);

impl EarlyBuild {
    pub(super) fn start(build: &Command) -> Result<EarlyBuild> {
        Ok(EarlyBuild(ChildGuard::silent(&mut lowest_priority(build))?))
    }

    pub(super) fn join(mut self) {
        let _ = self.0.wait(PATIENCE);
    }
}

/// The same command, run by `nice`.
fn lowest_priority(command: &Command) -> Command {
    let mut nice = Command::new("nice");
    nice.args(["-n", "19"]).arg(command.get_program()).args(command.get_args());
    if let Some(dir) = command.get_current_dir() {
        nice.current_dir(dir);
    }
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => nice.env(name, value),
            None => nice.env_remove(name),
        };
    }
    nice
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process;

    #[test]
    fn the_command_stays_as_it_was_except_for_its_priority() {
        let mut command = Command::new("sh");
        command.args(["-c", "pwd; echo \"$ONE ${HOME-none}\"; nice"]);
        command.current_dir("/").env("ONE", "1").env_remove("HOME");
        let ran = process::capture(&mut lowest_priority(&command), Duration::from_secs(60));
        let text = ran.and_then(|ran| ran.output("sh")).expect("a shell");
        assert_eq!(text, "/\n1 none\n19\n");
    }
}
