//! Finds the console of a session: that of the running node, or a console daemon.

use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command as Process, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use lustrine_control::{Answer, NetInfo, Request};
use lustrine_node::control::{self, Connection, ControlError};
use lustrine_selftest::console::{self, Command, Refusal};
use lustrine_sys::files::create_log;
use lustrine_tools::lst::ConsoleError;

use crate::access::{self, NodeChoice, RunningNode};
use crate::common::{NodeOptions, runtime_directory};
use crate::output::{Failure, note};

/// Names of the sockets of console daemons: the key of the session is between the two.
const PREFIX: &str = "lustrine-lst-";
const SUFFIX: &str = ".sock";

/// How long a console daemon may take until it answers.
const START_MAX: Duration = Duration::from_secs(10);

/// How long a console daemon may take to end after its session.
const END_MAX: Duration = Duration::from_secs(10);

/// How often a new console daemon is queried whether it is ready.
const LOOK: Duration = Duration::from_millis(10);

/// Reaches the consoles of this machine.
pub(super) struct ConsoleClient {
    /// The node of a session with a console daemon.
    pub(super) node: NodeOptions,
    /// Whether the console of the running node is used, and which node that is.
    pub(super) choice: NodeChoice,
}

impl ConsoleClient {
    /// Sends a command to the console of the session with this key.
    pub(super) fn ask(&self, key: u32, command: &Command) -> Result<console::Answer, ConsoleError> {
        let own = socket_of(key)?;
        match ask_daemon(&own, key, command) {
            Err(ConsoleError::NoConsole | ConsoleError::Refused(Refusal::NoSession)) => {}
            answer => return answer,
        }
        let node = self.running_node()?;
        let mut places: Vec<PathBuf> = node.iter().map(|node| node.place().to_owned()).collect();
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
        match ask_at(&own, key, command) {
            Err(ConsoleError::NoConsole) => {}
            answer => return answer,
        }
        if let Some(node) = self.running_node()? {
            let answer = ask_at(node.place(), key, command);
            if answer.is_ok() {
                note(&format!("lst: through {}", node.used));
            }
            return answer;
        }
        if key != 0 && matches!(command, Command::NewSession { force: true, .. }) {
            end_nameless()?;
        }
        // The daemon stays when its standard input is closed only if it has a session then.
        let _daemon = self.start(key, &own)?;
        ask_at(&own, key, command)
    }

    /// The running node; `None` if the session is to have a console of its own.
    fn running_node(&self) -> Result<Option<RunningNode>, ConsoleError> {
        access::running_node(&self.node, &self.choice, None).map_err(|failure| {
            ConsoleError::Failed(match failure {
                Failure::Failed(text) | Failure::Usage(text) | Failure::Input(text) => text,
                other => format!("{other:?}"),
            })
        })
    }

    /// Starts a console daemon and waits until it answers.
    fn start(&self, key: u32, socket: &Path) -> Result<Child, ConsoleError> {
        let failed = |what: String| ConsoleError::Failed(what);
        let log = socket.with_extension("log");
        let shown = log.display();
        let file = create_log(&log).map_err(|error| failed(format!("{shown}: {error}")))?;
        let program = env::current_exe()
            .map_err(|error| failed(format!("cannot find the file of this program: {error}")))?;
        let mut process = Process::new(program);
        process.arg("lst-console").arg("--socket").arg(socket);
        process.args(["--key", &key.to_string()]).args(self.node.to_args());
        process.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(file);
        let child = process.spawn();
        let mut child =
            child.map_err(|error| failed(format!("cannot start the console daemon: {error}")))?;
        match wait_for(socket, &mut child) {
            Ok(net) => {
                note(&format!("lst: {}", self.described(&net)));
                Ok(child)
            }
            Err(why) => {
                let said = fs::read_to_string(&log).unwrap_or_default();
                let _ = fs::remove_file(&log);
                let said = said.trim().trim_start_matches("lustrine: ");
                let said = if said.is_empty() { &why } else { said };
                let others = other_consoles(socket);
                Err(failed(format!("the console daemon did not start: {said}{others}")))
            }
        }
    }

    /// The console daemon in words, with how its address was chosen.
    fn described(&self, info: &NetInfo) -> String {
        let nids: Vec<String> = info.nets.iter().map(|net| net.nid.to_string()).collect();
        let interface = info.nets.first().and_then(|net| net.interface.as_deref());
        let chosen = match (self.node.describes_node(), interface) {
            (false, Some(name)) => format!(" on {name}, the first interface (--net chooses)"),
            _ => String::new(),
        };
        let (nids, identity) = (nids.join(" "), &info.identity);
        format!("through a console of this session's own: {nids}{chosen}, {identity} identity")
    }
}

/// Asks a console daemon. When it has ended its session, this waits until its process has released
/// its address, so that the next session can have it.
fn ask_daemon(path: &Path, key: u32, command: &Command) -> Result<console::Answer, ConsoleError> {
    let request = request(key, command);
    let mut connection = match Connection::open(path) {
        Ok(connection) => connection,
        Err(error) => return console_answer(Err(error)),
    };
    let answer = console_answer(connection.ask(&request));
    if answer.is_ok() && *command == Command::EndSession {
        connection.wait_for_end(END_MAX);
    }
    answer
}

/// Ends a session that was begun without `LST_SESSION`, with its console: no other command reaches
/// it, and its console holds the address of the next one.
fn end_nameless() -> Result<(), ConsoleError> {
    match ask_daemon(&socket_of(0)?, 0, &Command::EndSession) {
        Err(ConsoleError::NoConsole) => Ok(()),
        answer => answer.map(drop),
    }
}

fn ask_at(path: &Path, key: u32, command: &Command) -> Result<console::Answer, ConsoleError> {
    console_answer(control::ask(path, &request(key, command)))
}

fn request(key: u32, command: &Command) -> Request {
    Request::Console { key, command: Box::new(command.clone()), held: false }
}

fn console_answer(answer: Result<Answer, ControlError>) -> Result<console::Answer, ConsoleError> {
    match answer {
        Ok(Answer::Console { outcome }) => outcome.map_err(ConsoleError::Refused),
        Ok(Answer::Error { message, .. }) => Err(ConsoleError::Failed(message)),
        Ok(other) => Err(ConsoleError::Failed(format!(
            "unexpected reply from the console: {other:?}; the versions may differ"
        ))),
        Err(ControlError::NotRunning { .. }) => Err(ConsoleError::NoConsole),
        Err(error) => Err(ConsoleError::Failed(error.to_string())),
    }
}

/// The consoles of other sessions of this user, as the end of a message.
fn other_consoles(socket: &Path) -> String {
    let keys = sockets().unwrap_or_default().into_iter().filter_map(|other| {
        let name = other.file_name()?.to_str()?.to_owned();
        let runs = other != socket && Connection::open(&other).is_ok();
        runs.then(|| name.trim_start_matches(PREFIX).trim_end_matches(SUFFIX).to_owned())
    });
    let keys: Vec<String> = keys.collect();
    match keys.is_empty() {
        true => String::new(),
        false if keys == ["0"] => ". The console of a session that was begun without \
                                   LST_SESSION runs on this machine: new_session --force ends it"
            .to_owned(),
        false => format!(
            ". Consoles of other sessions run on this machine, with LST_SESSION {}: end one (for \
             example LST_SESSION={} lst end_session), or give this one an address of its own \
             (--net)",
            keys.join(", "),
            keys.last().map_or("", String::as_str)
        ),
    }
}

/// Waits until the daemon answers at its socket, or has ended.
fn wait_for(socket: &Path, child: &mut Child) -> Result<NetInfo, String> {
    let deadline = Instant::now() + START_MAX;
    while Instant::now() < deadline {
        match child.try_wait() {
            Ok(Some(status)) => return Err(format!("it ended with {status}")),
            Ok(None) => {}
            Err(error) => return Err(error.to_string()),
        }
        if let Ok(Answer::Net(info)) = control::ask(socket, &Request::ShowNet) {
            return Ok(info);
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
