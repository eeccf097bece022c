//! The control socket of a laboratory: one line of JSON each way.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use lustrine_lab::{Counters, Direction, Interface, Lateness};
use serde::{Deserialize, Serialize};

use crate::LabError;
use crate::place::{Place, State};

/// The name of the socket in the laboratory's directory.
pub(crate) const SOCKET: &str = "control.sock";

/// Longest line.
pub(crate) const LINE_MAX: u64 = 16 << 20;

/// How long either side waits for the other one.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// How long a daemon that does not answer may take to end.
const ENDING: Duration = Duration::from_secs(1);

/// How often the end of a laboratory is looked for.
const LOOK: Duration = Duration::from_millis(10);

/// What can be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Request {
    Status,
    Stop,
}

/// A laboratory that is up.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Status {
    /// Its name.
    pub name: String,
    /// The daemon.
    pub pid: u32,
    /// The first process of the laboratory's PID namespace.
    pub init_pid: u32,
    /// Whether it has a namespace of users, because it was started without root.
    pub user_namespace: bool,
    /// The hosts, in the order of the file.
    pub hosts: Vec<HostStatus>,
    /// The links, in the order of the file.
    pub links: Vec<LinkStatus>,
    /// What does not work as it should, for people.
    pub notes: Vec<String>,
}

/// One host.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HostStatus {
    /// Its name.
    pub name: String,
    /// The thread of the daemon that is in its namespaces: `/proc/PID/task/THREAD/ns`.
    pub thread: i32,
    /// Its interfaces.
    pub interfaces: Vec<Interface>,
}

/// One link.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LinkStatus {
    /// The hosts at its ends, by name.
    pub between: [String; 2],
    /// What it does to packets from the first to the second, and back. A laboratory that an older
    /// program has started does not say it.
    #[serde(default)]
    pub settings: Option<[Direction; 2]>,
    /// What has passed from the first to the second, and back.
    pub directions: [DirectionStatus; 2],
    /// Why it does not carry anything any more; it should never happen.
    pub failure: Option<String>,
}

/// One direction of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectionStatus {
    /// What it has carried and dropped.
    #[serde(flatten)]
    pub counters: Counters,
    /// Packets that the receiving host's interface refused.
    pub refused: u64,
    /// How late packets were delivered because the machine was busy.
    pub late: Lateness,
}

fn ask(dir: &Path, request: Request) -> Result<String, LabError> {
    let path = dir.join(SOCKET);
    let stream = UnixStream::connect(&path).map_err(LabError::file(&path))?;
    let talk = || {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let question = serde_json::to_string(&request)? + "\n";
        (&stream).write_all(question.as_bytes())?;
        let mut answer = String::new();
        BufReader::new((&stream).take(LINE_MAX)).read_line(&mut answer)?;
        Ok(answer)
    };
    talk().map_err(LabError::file(&path))
}

/// Whether a laboratory ends within a time.
fn ends(place: &Place, name: &str, within: Duration) -> Result<bool, LabError> {
    let give_up = Instant::now() + within;
    while place.state(name)? == State::Up {
        if Instant::now() >= give_up {
            return Ok(false);
        }
        std::thread::sleep(LOOK);
    }
    Ok(true)
}

/// Asks a laboratory for its status.
///
/// # Errors
/// When it is not up, or does not answer within 10 s.
pub fn ask_status(place: &Place, name: &str) -> Result<Status, LabError> {
    if place.state(name)? != State::Up {
        return Err(LabError::NotUp(name.to_owned()));
    }
    let answer = match ask(&place.dir(name), Request::Status) {
        // A daemon that ends just now answers nothing, and has its lock for a moment.
        Err(_) if ends(place, name, ENDING)? => return Err(LabError::NotUp(name.to_owned())),
        answer => answer?,
    };
    serde_json::from_str(&answer).map_err(|error| LabError::Answer(error.to_string()))
}

/// Ends a laboratory and removes what is left of it. Returns what it was before.
///
/// # Errors
/// When it does not end within 10 s, or its directory cannot be removed.
pub fn stop(place: &Place, name: &str) -> Result<State, LabError> {
    let state = place.state(name)?;
    if state == State::None {
        return Ok(state);
    }
    if state == State::Up {
        // An error here is one of a daemon that ends just now; whether it does is seen below.
        let asked = ask(&place.dir(name), Request::Stop);
        if !ends(place, name, PATIENCE)? {
            asked?;
            return Err(LabError::Up(name.to_owned()));
        }
    }
    // The daemon removes its directory; one that was killed does not.
    if place.state(name)? == State::Dead {
        place.claim(name)?.remove()?;
    }
    Ok(state)
}
