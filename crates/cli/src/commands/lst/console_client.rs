//! Finds the console of a session: that of the running node, or a console daemon.

use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command as Process, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use lustrine_control::{Answer, Request};
use lustrine_node::control::{self, ControlError};
use lustrine_selftest::console::{self, Command, Refusal};
use lustrine_sys::files::create_log;
use lustrine_tools::lst::ConsoleError;

use crate::common::{ControlOptions, NodeOptions, runtime_directory};

/// Names of the sockets of console daemons: the key of the session is between the two.
const PREFIX: &str = "lustrine-lst-";
const SUFFIX: &str = ".sock";

/// How long a console daemon may take until it answers.
const START_MAX: Duration = Duration::from_secs(10);

/// How often a new console daemon is queried whether it is ready.
const LOOK: Duration = Duration::from_millis(10);

/// Reaches the consoles of this machine.
pub(super) struct ConsoleClient {
    /// The node of a session with a console daemon.
    pub(super) node: NodeOptions,
    /// The control socket of the running node.
    pub(super) control: ControlOptions,
}

impl ConsoleClient {
    /// Sends a command to the console of the session with this key.
    pub(super) fn ask(&self, key: u32, command: &Command) -> Result<console::Answer, ConsoleError> {
        let mut places = vec![socket_of(key)?];
        places.extend(self.running_node()?);
        if *command == Command::ShowSession {
            // `show_session` works without the key.
            places.extend(sockets()?);
        }
        for place in places {
            match ask_at(&place, key, command) {
                Err(ConsoleError::NoConsole | ConsoleError::Refused(Refusal::NoSession)) => {}
                answer => return answer,
            }
        }
        Err(ConsoleError::NoConsole)
    }

    /// Begins a session with the console of the running node of this machine, or else with a new
    /// console daemon.
    pub(super) fn new_session(
        &self,
        key: u32,
        command: &Command,
    ) -> Result<console::Answer, ConsoleError> {
        let own = socket_of(key)?;
        for place in [Some(own.clone()), self.running_node()?].into_iter().flatten() {
            match ask_at(&place, key, command) {
                Err(ConsoleError::NoConsole) => {}
                answer => return answer,
            }
        }
        self.start(key, &own)?;
        ask_at(&own, key, command)
    }

    /// The control socket of the running node; `None` when options describe a node instead.
    fn running_node(&self) -> Result<Option<PathBuf>, ConsoleError> {
        if self.node.describes_node() {
            if self.control.control.is_some() {
                let both = "--control names a running node; --net, --config and similar options \
                            describe a node of the session's own: use one or the other";
                return Err(ConsoleError::Failed(both.to_owned()));
            }
            return Ok(None);
        }
        Ok(self.control.resolve(None).map(|place| place.path))
    }

    /// Starts a console daemon and waits until it answers.
    fn start(&self, key: u32, socket: &Path) -> Result<(), ConsoleError> {
        let failed = |what: String| ConsoleError::Failed(what);
        let log = socket.with_extension("log");
        let shown = log.display();
        let file = create_log(&log).map_err(|error| failed(format!("{shown}: {error}")))?;
        let program = env::current_exe()
            .map_err(|error| failed(format!("cannot find the file of this program: {error}")))?;
        let mut process = Process::new(program);
        process.arg("lst-console").arg("--socket").arg(socket);
        process.args(["--key", &key.to_string()]).args(self.node.to_args());
        process.stdin(Stdio::null()).stdout(Stdio::null()).stderr(file);
        let child = process.spawn();
        let mut child =
            child.map_err(|error| failed(format!("cannot start the console daemon: {error}")))?;
        let outcome = wait_for(socket, &mut child);
        outcome.map_err(|why| {
            let said = fs::read_to_string(&log).unwrap_or_default();
            let _ = fs::remove_file(&log);
            let said = said.trim().trim_start_matches("lustrine: ");
            failed(format!(
                "the console daemon did not start: {}",
                if said.is_empty() { &why } else { said }
            ))
        })
    }
}

fn ask_at(path: &Path, key: u32, command: &Command) -> Result<console::Answer, ConsoleError> {
    let request = Request::Console { key, command: Box::new(command.clone()) };
    match control::ask(path, &request) {
        Ok(Answer::Console { outcome }) => outcome.map_err(ConsoleError::Refused),
        Ok(Answer::Error { message, .. }) => Err(ConsoleError::Failed(message)),
        Ok(other) => Err(ConsoleError::Failed(format!(
            "unexpected reply from the console: {other:?}; the versions may differ"
        ))),
        Err(ControlError::NotRunning { .. }) => Err(ConsoleError::NoConsole),
        Err(error) => Err(ConsoleError::Failed(error.to_string())),
    }
}

/// Waits until the daemon answers at its socket, or has ended.
fn wait_for(socket: &Path, child: &mut Child) -> Result<(), String> {
    let deadline = Instant::now() + START_MAX;
    while Instant::now() < deadline {
        match child.try_wait() {
            Ok(Some(status)) => return Err(format!("it ended with {status}")),
            Ok(None) => {}
            Err(error) => return Err(error.to_string()),
        }
        if control::ask(socket, &Request::ShowNet).is_ok() {
            return Ok(());
        }
        thread::sleep(LOOK);
    }
    let _ = child.kill();
    let _ = child.wait();
    Err(format!("it did not answer within {START_MAX:?}"))
}

/// The socket of the console daemon of a key.
fn socket_of(key: u32) -> Result<PathBuf, ConsoleError> {
    Ok(directory()?.join(format!("{PREFIX}{key}{SUFFIX}")))
}

/// The sockets of all console daemons of this user.
fn sockets() -> Result<Vec<PathBuf>, ConsoleError> {
    let directory = directory()?;
    let entries = fs::read_dir(&directory).map_err(|error| {
        ConsoleError::Failed(format!(
            "cannot look for consoles in {}: {error}",
            directory.display()
        ))
    })?;
    let named = entries.filter_map(Result::ok).filter(|entry| {
        let name = entry.file_name();
        name.to_str().is_some_and(|name| name.starts_with(PREFIX) && name.ends_with(SUFFIX))
    });
    let mut sockets: Vec<PathBuf> = named.map(|entry| entry.path()).collect();
    sockets.sort();
    Ok(sockets)
}

fn directory() -> Result<PathBuf, ConsoleError> {
    let named = env::var_os("LUSTRINE_LST_DIR").filter(|path| !path.is_empty());
    named.map(PathBuf::from).or_else(runtime_directory).ok_or_else(|| {
        let unknown = "there is no directory for the console's socket: XDG_RUNTIME_DIR is not \
                       set, as after su or sudo -u; set LUSTRINE_LST_DIR to a private directory";
        ConsoleError::Failed(unknown.to_owned())
    })
}

/// Removes the log of a console daemon that ends.
pub(super) fn remove_log(socket: &Path) -> io::Result<()> {
    fs::remove_file(socket.with_extension("log"))
}
