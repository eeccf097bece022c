//! The daemon of a laboratory: it makes everything, answers its control socket, and holds
//! everything until it is told to stop.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::mpsc;
use std::thread;

use lustrine_lab::{Lab, Layout, parse};
use lustrine_sys::namespaces::{self, Namespace};
use lustrine_sys::{Interest, Poller, Signals, Tun};

use crate::LabError;
use crate::control::{HostStatus, LINE_MAX, LinkStatus, PATIENCE, Request, SOCKET, Status};
use crate::host::{self, Held};
use crate::link::{self, Window};
use crate::place::Claim;
use crate::start::{Program, READY};

/// Tokens of the poller.
const SIGNALS: u64 = 0;
const CONTROL: u64 = 1;
const INIT: u64 = 2;

/// A laboratory that is up.
struct Running {
    claim: Claim,
    name: String,
    lab: Lab,
    layout: Layout,
    init: Init,
    user_namespace: bool,
    hosts: Vec<Held>,
    links: Vec<Window>,
    notes: Vec<String>,
}

/// The first process of the PID namespace.
struct Init {
    pid: u32,
    /// Its end ends the process, and so all processes of the laboratory.
    stdin: Option<std::process::ChildStdin>,
    /// Readable when the process has ended.
    stdout: std::process::ChildStdout,
    /// Reports that the process and all that it held has ended.
    ended: mpsc::Receiver<()>,
}

/// Runs the daemon of the laboratory whose directory this is; the standard input is its lock. It
/// prints a line when the laboratory is up, and returns when it has ended. The process must have a
/// single thread.
///
/// # Errors
/// When the laboratory cannot be made.
pub fn daemon(dir: &Path) -> Result<(), LabError> {
    lustrine_sys::process::detach_from_terminal();
    // The kernel may divide CPU time among sessions first (sched(7), autogroup): this one's part
    // is that of its links, which have to be punctual. Only root may ask for more.
    let _ = fs::write("/proc/self/autogroup", link::NICE.to_string());
    let lock = io::stdin().as_fd().try_clone_to_owned();
    let lock = File::from(lock.map_err(LabError::step("copy a descriptor"))?);
    let claim = Claim::given(dir.to_owned(), lock)?;
    let signals = Signals::install().map_err(LabError::step("catch signals"))?;
    let listener = UnixListener::bind(claim.file(SOCKET));
    let listener = listener.map_err(LabError::file(claim.file(SOCKET)))?;
    let mut running = make(claim)?;
    std::env::set_current_dir("/").map_err(LabError::file("/"))?;
    let mut out = io::stdout();
    writeln!(out, "{READY}").and_then(|()| out.flush()).map_err(LabError::step("say so"))?;
    let log = fs::OpenOptions::new().append(true).open(running.claim.file("log"));
    lustrine_sys::process::leave_output(log.ok().as_ref())
        .map_err(LabError::step("leave the output"))?;
    let served = running.serve(&signals, &listener);
    running.init.end();
    running.claim.remove()?;
    served.map_err(LabError::step("wait for commands"))
}

fn make(claim: Claim) -> Result<Running, LabError> {
    let path = claim.file("lab.yaml");
    let text = fs::read_to_string(&path).map_err(LabError::file(&path))?;
    let source = path.to_string_lossy();
    let lab = parse(&text, &source).map_err(|problems| LabError::Daemon(problems.to_string()))?;
    let layout = Layout::new(&lab);
    let hosts_file = claim.file("hosts");
    fs::write(&hosts_file, layout.hosts_file(&lab)).map_err(LabError::file(&hosts_file))?;
    lustrine_sys::limits::raise_descriptor_limit()
        .map_err(LabError::step("raise the limit of descriptors"))?;
    let user_namespace = !lustrine_sys::process::is_root();
    if user_namespace {
        become_root()?;
    }
    let mut notes = Vec::new();
    let init = Init::start(&hosts_file, &mut notes)?;
    let mounts = format!("/proc/{}/ns/mnt", init.pid);
    let mut hosts = Vec::new();
    let mut devices: Vec<[Option<Tun>; 2]> = lab.links.iter().map(|_| [None, None]).collect();
    for (index, host) in lab.hosts.iter().enumerate() {
        let plan = host::Plan {
            name: host.name.clone(),
            sysctl: host.sysctl.clone(),
            interfaces: layout.interfaces[index].clone(),
            routes: layout.routes[index].clone(),
        };
        let mut held = host::start(plan, File::open(&mounts).map_err(LabError::file(&mounts))?)?;
        for (end, device) in layout.interfaces[index].iter().zip(held.made.devices.drain(..)) {
            devices[end.link][end.end] = Some(device);
        }
        notes.append(&mut held.made.notes);
        hosts.push(held);
    }
    let mut links = Vec::new();
    for (index, (link, ends)) in lab.links.iter().zip(devices).enumerate() {
        let devices = ends.map(|device| device.expect("both hosts of a link were made"));
        let seed = lab.seed.wrapping_mul(1000).wrapping_add(2 * index as u64);
        let started = link::start(link, [seed, seed + 1], devices);
        links.push(started.map_err(LabError::step("start the thread of a link"))?);
    }
    let name = claim.dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Ok(Running { claim, name, lab, layout, init, user_namespace, hosts, links, notes })
}

/// Makes an ordinary user root in a namespace of users of its own.
fn become_root() -> Result<(), LabError> {
    let (user, group) = lustrine_sys::process::user_and_group();
    let failed = |error| LabError::Step {
        step: "make a user namespace".to_owned(),
        error,
        hint: "; run this as root, or let users have user namespaces (sysctl \
               kernel.unprivileged_userns_clone, user.max_user_namespaces, \
               kernel.apparmor_restrict_unprivileged_userns)",
    };
    namespaces::leave(&[Namespace::Users]).map_err(failed)?;
    namespaces::become_root_inside(user, group).map_err(failed)
}

impl Init {
    fn start(hosts_file: &Path, notes: &mut Vec<String>) -> Result<Init, LabError> {
        let mut command = Program::this()?.command("lab-init", hosts_file);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let (sender, receiver) = mpsc::sync_channel(1);
        let (say_ended, ended) = mpsc::sync_channel(1);
        // The namespace holds for the children of one thread; the process dies with that thread.
        let starter = thread::Builder::new().name("init".to_owned()).spawn(move || {
            let started = namespaces::leave(&[Namespace::Processes]).and_then(|()| command.spawn());
            match started {
                Err(error) => drop(sender.send(Err(error))),
                Ok(mut child) => {
                    let taken = (child.id(), child.stdin.take(), child.stdout.take());
                    drop(sender.send(Ok(taken)));
                    reap(&mut child);
                    let _ = say_ended.send(());
                }
            }
        });
        starter.map_err(LabError::step("start a thread"))?;
        let failed = |error| LabError::Step {
            step: "make a PID namespace".to_owned(),
            error,
            hint: "; this needs root, or user namespaces",
        };
        let started = receiver.recv().expect("the thread answers before it ends");
        let (pid, stdin, stdout) = started.map_err(failed)?;
        let mut stdout = BufReader::new(stdout.expect("it was asked for"));
        let mut line = String::new();
        (&mut stdout)
            .take(LINE_MAX)
            .read_line(&mut line)
            .map_err(LabError::step("read what the first process says"))?;
        let Some(said) = line.trim_end().strip_prefix("ready") else {
            return Err(failed(io::Error::other("its first process has ended")));
        };
        notes.extend(said.split("; ").filter(|note| !note.is_empty()).map(str::to_owned));
        Ok(Init { pid, stdin, stdout: stdout.into_inner(), ended })
    }

    /// Ends all processes of the laboratory.
    fn end(&mut self) {
        drop(self.stdin.take());
        // The kernel kills the others before it reports the end of the first one.
        let _ = self.ended.recv_timeout(PATIENCE);
    }
}

fn reap(child: &mut Child) {
    // It fails only if the child was waited for already.
    let _ = child.wait();
}

impl Running {
    /// Serves until a signal or a command ends the laboratory.
    fn serve(&self, signals: &Signals, listener: &UnixListener) -> io::Result<()> {
        let mut poller = Poller::new(4)?;
        poller.add(signals, SIGNALS, Interest::Readable)?;
        poller.add(listener, CONTROL, Interest::Readable)?;
        poller.add(&self.init.stdout, INIT, Interest::Readable)?;
        let mut ready = Vec::new();
        loop {
            poller.wait(None, &mut ready)?;
            if signals.take().terminate || ready.iter().any(|ready| ready.token == INIT) {
                return Ok(());
            }
            if ready.iter().any(|ready| ready.token == CONTROL) {
                let (stream, _) = listener.accept()?;
                // A caller that leaves, or says nothing, does no harm.
                if let Ok(Request::Stop) = self.answer(&stream) {
                    return Ok(());
                }
            }
        }
    }

    fn answer(&self, stream: &UnixStream) -> io::Result<Request> {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut line = String::new();
        BufReader::new(stream.take(1000)).read_line(&mut line)?;
        let request: Request = serde_json::from_str(&line)?;
        if request == Request::Status {
            let answer = serde_json::to_string(&self.status())? + "\n";
            (&mut &*stream).write_all(answer.as_bytes())?;
        }
        Ok(request)
    }

    fn status(&self) -> Status {
        let name = |host: usize| self.lab.hosts[host].name.clone();
        let hosts = self.hosts.iter().enumerate().map(|(index, held)| HostStatus {
            name: name(index),
            thread: held.made.thread,
            interfaces: self.layout.interfaces[index].clone(),
        });
        let links = self.lab.links.iter().zip(&self.links).map(|(link, window)| {
            let shown = link::look(window);
            LinkStatus {
                between: link.between.map(name),
                settings: Some(link.directions),
                directions: shown.directions,
                failure: shown.failure.clone(),
            }
        });
        Status {
            name: self.name.clone(),
            pid: std::process::id(),
            init_pid: self.init.pid,
            user_namespace: self.user_namespace,
            hosts: hosts.collect(),
            links: links.collect(),
            notes: self.notes.clone(),
        }
    }
}
