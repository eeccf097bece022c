//! Nodes that a plan starts on other hosts, for the time of its tests.

mod channel;
mod hosts;
mod program;
mod script;

use std::collections::BTreeMap;
use std::io::{ErrorKind, Write};
use std::process::ChildStdin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use lustrine_config::NetConfig;
use lustrine_plan::{
    HOST, MissingHost, NodeSettings, OnMissingHost, Start, StartMethod, Started, StartedHost,
    missing_lines,
};
use lustrine_sys::process::never_wait;
use lustrine_wire::nid::Nid;

use crate::commands::plan_node::{CONSOLES, PULSE};
use crate::common::{NodeOptions, TemporaryNodeOptions};
use crate::interrupt::Interrupt;
use crate::output::{Failure, note, print_error};
use channel::{Attempt, Channel, StartError};
use program::Program;
use script::Script;

pub(super) use hosts::{Assigned, StartArgs, assign, merged};

/// The interval at which signals are checked.
const LOOK: Duration = Duration::from_millis(20);

/// How long all nodes together may take to end.
const END_TIMEOUT: Duration = Duration::from_secs(10);

/// How long they may take after they were asked with a signal.
const SIGNAL_TIMEOUT: Duration = Duration::from_secs(2);

/// How long a node may take to trust its console.
const TRUST_TIMEOUT: Duration = Duration::from_secs(10);

/// Nodes on other hosts; they end when this is dropped, or with this process.
pub(super) struct StartedNodes {
    method: StartMethod,
    channels: Vec<Channel>,
    missing: Vec<MissingHost>,
    pulse: Pulse,
}

impl StartedNodes {
    /// Starts a node on each host.
    ///
    /// # Errors
    /// When the program cannot be read, a signal arrives, and when a host is missing that may not
    /// be. All nodes are ended then.
    pub(super) fn start(
        start: &Start,
        hosts: &[String],
        options: &NodeOptions,
        interrupt: &Interrupt,
    ) -> Result<StartedNodes, Failure> {
        let Some(method) = start.method.clone() else {
            return Err(Failure::Usage(hosts::NO_METHOD.to_owned()));
        };
        hosts::check_method(&method, start)?;
        for host in hosts {
            node_args(start, host, options)
                .map_err(|why| Failure::Usage(format!("start: {host}: {why}")))?;
        }
        let program = Program::read(start.program.as_deref())?;
        if let Some(remark) = program.remark() {
            print_error(&remark);
        }
        // Three pipes and a process for each host.
        let _ = lustrine_sys::limits::raise_descriptor_limit();
        let at_once = hosts.len().min(start.fanout as usize);
        note(&format!(
            "starting nodes on {} with {}, {at_once} at a time",
            hosts::count(hosts.len()),
            method.name()
        ));
        let attempts = Attempts { start, method: &method, program: Arc::new(program), options };
        let mut nodes = StartedNodes {
            method: method.clone(),
            channels: vec![],
            missing: vec![],
            pulse: Pulse::start(),
        };
        attempts.all(hosts, at_once, interrupt, &mut nodes)?;
        let order = |host: &str| hosts.iter().position(|one| one == host);
        nodes.channels.sort_by_key(|channel| order(&channel.host));
        nodes.missing.sort_by_key(|missing| order(&missing.host));
        nodes.judge(start.missing, hosts.len())?;
        nodes.check_distinct()?;
        Ok(nodes)
    }

    /// Says which hosts are missing.
    ///
    /// # Errors
    /// When there are some and there may be none.
    fn judge(&self, policy: OnMissingHost, of: usize) -> Result<(), Failure> {
        let count = self.missing.len();
        if count == 0 {
            note(&format!("{} started", hosts::count(of)));
            return Ok(());
        }
        let table = format!(
            "{count} of {} could not be started:\n{}",
            hosts::count(of),
            missing_lines(&self.missing)
        );
        let table = table.trim_end();
        match policy {
            OnMissingHost::Continue if count < of => {
                print_error(table);
                Ok(())
            }
            OnMissingHost::Continue => Err(table.to_owned().into()),
            OnMissingHost::Stop => Err(format!(
                "{table}\nnothing was measured; \"missing: continue\" in the plan, or --missing \
                 continue, goes on without them"
            )
            .into()),
        }
    }

    /// Two nodes with one NID would be one node for their peers.
    fn check_distinct(&self) -> Result<(), Failure> {
        let mut by_nid: BTreeMap<Nid, &str> = BTreeMap::new();
        for channel in &self.channels {
            let (nid, host) = (channel.nid(), channel.host.as_str());
            if let Some(other) = by_nid.insert(nid, host) {
                return Err(Failure::Failed(format!(
                    "the nodes on {other} and {host} both have the NID {nid}: \"net: \
                     tcp=INTERFACE\" in the plan chooses another interface"
                )));
            }
        }
        Ok(())
    }

    /// The NID of the node on a host; `None` if it is missing.
    pub(super) fn nid(&self, host: &str) -> Option<Nid> {
        self.channels.iter().find(|channel| channel.host == host).map(Channel::nid)
    }

    /// Whether the plan goes on without some of its hosts.
    pub(super) fn misses_some(&self) -> bool {
        !self.missing.is_empty()
    }

    /// For the results.
    pub(super) fn started(&self) -> Started {
        let host = |channel: &Channel| StartedHost {
            host: channel.host.clone(),
            nid: channel.nid(),
            identity: channel.about.identity.clone(),
        };
        Started {
            method: self.method.name().to_owned(),
            hosts: self.channels.iter().map(host).collect(),
            missing: self.missing.clone(),
        }
    }

    /// Their settings.
    pub(super) fn settings(&self) -> Vec<NodeSettings> {
        self.channels.iter().map(|channel| channel.about.settings.clone()).collect()
    }

    /// From now on the nodes trust this console, and no other.
    ///
    /// # Errors
    /// When one does not.
    pub(super) fn trust(&mut self, console: &[Nid], interrupt: &Interrupt) -> Result<(), Failure> {
        let nids: Vec<String> = console.iter().map(Nid::to_string).collect();
        self.pulse.send(&format!("{CONSOLES}{}\n", nids.join(" ")));
        let deadline = Instant::now() + TRUST_TIMEOUT;
        for channel in &mut self.channels {
            channel.wait_ready(deadline, &|| interrupt.check()).map_err(|why| match why {
                StartError::Stopped(_) => Failure::Interrupted,
                StartError::Failed(missing) => {
                    Failure::Failed(format!("the node on {}: {}", missing.host, missing.why))
                }
            })?;
        }
        Ok(())
    }

    /// Ends all nodes, and says of which it is not certain that they ended and left nothing.
    pub(super) fn end(mut self) {
        self.end_all();
    }

    fn end_all(&mut self) {
        let mut channels = std::mem::take(&mut self.channels);
        let early: Vec<String> = channels
            .iter_mut()
            .filter_map(|channel| {
                let why = channel.ended_early()?;
                Some(format!("{}: {why}", channel.host))
            })
            .collect();
        if !early.is_empty() {
            print_error(&format!("nodes ended before the plan did: {}", early.join("; ")));
        }
        self.pulse.close();
        let unclear = channel::end(channels, END_TIMEOUT, SIGNAL_TIMEOUT);
        say_unclear(&unclear);
    }
}

/// Names hosts that did not confirm that their files are removed.
fn say_unclear(hosts: &[String]) {
    if !hosts.is_empty() {
        print_error(&format!(
            "it is not certain that the nodes on these hosts ended and removed their files: {}; \
             without this process they end within a minute",
            hosts.join(", ")
        ));
    }
}

impl Drop for StartedNodes {
    fn drop(&mut self) {
        if !self.channels.is_empty() {
            self.end_all();
        }
    }
}

/// What the attempts on all hosts have in common.
struct Attempts<'a> {
    start: &'a Start,
    method: &'a StartMethod,
    program: Arc<Program>,
    options: &'a NodeOptions,
}

impl Attempts<'_> {
    /// Starts all hosts, so many at once.
    fn all(
        &self,
        hosts: &[String],
        at_once: usize,
        interrupt: &Interrupt,
        nodes: &mut StartedNodes,
    ) -> Result<(), Failure> {
        let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
        let (sender, done) = mpsc::channel();
        thread::scope(|scope| {
            for _ in 0..at_once {
                let (sender, next, stop) = (sender.clone(), &next, &stop);
                scope.spawn(move || {
                    while let Some(host) = hosts.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let stopped = || stop.load(Ordering::Relaxed);
                        if stopped() || sender.send(self.one(host, &stopped)).is_err() {
                            return;
                        }
                    }
                });
            }
            drop(sender);
            let (mut failure, mut unclear) = (None, Vec::new());
            loop {
                match done.recv_timeout(LOOK) {
                    Ok(Ok((channel, stdin))) => {
                        nodes.pulse.add(stdin);
                        nodes.channels.push(channel);
                    }
                    Ok(Err(StartError::Failed(missing))) => nodes.missing.push(missing),
                    Ok(Err(StartError::Stopped(host))) => unclear.extend(host),
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => break,
                }
                if failure.is_none()
                    && let Err(why) = interrupt.check()
                {
                    failure = Some(why);
                    stop.store(true, Ordering::Relaxed);
                }
            }
            say_unclear(&unclear);
            failure.map_or(Ok(()), Err)
        })
    }

    fn one(
        &self,
        host: &str,
        stopped: &dyn Fn() -> bool,
    ) -> Result<(Channel, ChildStdin), StartError> {
        let failed = |why: String| {
            let step = "connect".to_owned();
            StartError::Failed(MissingHost { host: host.to_owned(), step, why })
        };
        let script = Script {
            directory: self.start.directory.as_deref(),
            program: &self.program,
            args: node_args(self.start, host, self.options).map_err(failed)?,
        };
        let attempt = Attempt {
            host,
            command: channel::command(self.method, self.start, host),
            script: script.text(),
            program: Arc::clone(&self.program),
            deadline: Instant::now() + Duration::from_nanos(self.start.timeout.0),
            timeout: Duration::from_nanos(self.start.timeout.0),
            stopped,
        };
        attempt.run()
    }
}

/// The arguments of the node on a host.
fn node_args(start: &Start, host: &str, options: &NodeOptions) -> Result<Vec<String>, String> {
    let net = start.net.replace(HOST, host);
    let parsed: NetConfig = net.parse().map_err(|why| format!("net: {why}"))?;
    if parsed.port.is_some() {
        return Err(format!("net: {net}: the port is a key of its own, \"port: 7988\""));
    }
    let mut args = vec!["--accept".to_owned(), "all".to_owned()];
    args.extend(["--net".to_owned(), format!("{net}:{}", start.port)]);
    let own = TemporaryNodeOptions {
        identity: options.basic.identity,
        set: options.basic.set.clone(),
        ..TemporaryNodeOptions::default()
    };
    args.extend(
        NodeOptions::from(&own).to_args().iter().map(|word| word.to_string_lossy().into_owned()),
    );
    Ok(args)
}

/// Writes to all nodes: a line every [`PULSE`], without which they end.
struct Pulse {
    inputs: Arc<Mutex<Vec<ChildStdin>>>,
    stop: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Pulse {
    fn start() -> Pulse {
        let inputs: Arc<Mutex<Vec<ChildStdin>>> = Arc::default();
        let (stop, stopped) = mpsc::channel();
        let all = Arc::clone(&inputs);
        let thread = thread::spawn(move || {
            while stopped.recv_timeout(PULSE) == Err(RecvTimeoutError::Timeout) {
                write_all(&all, "alive\n");
            }
        });
        Pulse { inputs, stop: Some(stop), thread: Some(thread) }
    }

    fn add(&self, input: ChildStdin) {
        // It cannot fail for a pipe.
        let _ = never_wait(&input);
        self.inputs.lock().unwrap_or_else(PoisonError::into_inner).push(input);
    }

    fn send(&self, line: &str) {
        write_all(&self.inputs, line);
    }

    /// Closes the inputs of all nodes, which ends them.
    fn close(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        self.inputs.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// Writes a line to all inputs, and waits for none: one whose pipe is full misses it, as if the
/// network lost it. An input that takes a part of the line or has failed is closed. That a node has
/// ended is seen elsewhere.
fn write_all(inputs: &Mutex<Vec<ChildStdin>>, line: &str) {
    let takes = |input: &mut ChildStdin| match input.write(line.as_bytes()) {
        Ok(length) => length == line.len(),
        Err(error) => matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
    };
    inputs.lock().unwrap_or_else(PoisonError::into_inner).retain_mut(takes);
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    /// As when ssh is stopped: its pipe takes 64 KiB, or less, and then nothing.
    #[test]
    fn a_process_that_reads_nothing_holds_up_no_other() {
        let mut stalled = Command::new("sleep").arg("600").stdin(Stdio::piped()).spawn();
        let stalled = stalled.as_mut().expect("sleep is everywhere");
        let input = stalled.stdin.take().expect("it is a pipe");
        let (sender, done) = mpsc::channel();
        thread::spawn(move || {
            let mut pulse = Pulse::start();
            pulse.add(input);
            (0..20_000).for_each(|_| pulse.send("alive\n"));
            pulse.close();
            sender.send(()).expect("the test waits");
        });
        let ended = done.recv_timeout(Duration::from_secs(60));
        stalled.kill().and_then(|()| stalled.wait()).expect("it is ours");
        assert_eq!(ended, Ok(()));
    }
}
