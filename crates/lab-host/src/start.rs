//! Starting a laboratory.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::LabError;
use crate::place::Claim;

/// Longest message of a daemon that is repeated.
const MESSAGE_MAX: u64 = 10_000;

/// The line of a daemon whose laboratory is up.
pub(crate) const READY: &str = "up";

/// The program whose commands `lab-daemon DIR` and `lab-init FILE` run [`daemon`](crate::daemon)
/// and [`init`](crate::init).
#[derive(Clone, Debug)]
pub struct Program(PathBuf);

impl Program {
    /// This program.
    ///
    /// # Errors
    /// When its path is not known.
    pub fn this() -> Result<Program, LabError> {
        let path = std::env::current_exe();
        Ok(Program(path.map_err(LabError::step("find the path of this program"))?))
    }

    pub(crate) fn command(&self, name: &str, argument: &Path) -> Command {
        let mut command = Command::new(&self.0);
        command.args([OsString::from(name), argument.into()]);
        command
    }
}

/// Starts a laboratory and returns when it is up. The text is that of its file, which was read
/// without a problem.
///
/// # Errors
/// When it cannot be started; nothing is left of it then.
pub fn start(claim: Claim, text: &str, program: &Program) -> Result<(), LabError> {
    let file = claim.file("lab.yaml");
    fs::write(&file, text).map_err(LabError::file(&file))?;
    let log = claim.file("log");
    let errors = File::create(&log).map_err(LabError::file(&log))?;
    let lock = claim.lock.try_clone().map_err(LabError::step("copy a descriptor"))?;
    let mut command = program.command("lab-daemon", &claim.dir);
    command.stdin(Stdio::from(lock)).stdout(Stdio::piped()).stderr(errors);
    let mut child = command.spawn().map_err(LabError::step("start the laboratory's daemon"))?;
    let mut line = String::new();
    let out = child.stdout.take().expect("it was asked for");
    let read = BufReader::new(out.take(MESSAGE_MAX)).read_line(&mut line);
    if read.is_ok() && line.trim_end() == READY {
        return Ok(());
    }
    let _ = child.kill();
    let _ = child.wait();
    let mut message = String::new();
    let log = File::open(&log).map_err(LabError::file(&log))?;
    let _ = log.take(MESSAGE_MAX).read_to_string(&mut message);
    claim.remove()?;
    let message = match message.trim() {
        "" => "the laboratory's daemon ended without a message",
        said => said,
    };
    Err(LabError::Daemon(message.trim_start_matches("lustrine: ").to_owned()))
}
