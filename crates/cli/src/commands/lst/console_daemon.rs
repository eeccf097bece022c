//! `lustrine lst-console`: the daemon that holds a session between two calls of `lst`.

use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use clap::Args;
use lustrine_config::{InterfaceChoice, NetConfig};
use lustrine_node::NodeHandle;
use lustrine_node::control::ControlSocket;
use lustrine_selftest::console::Command;
use lustrine_sys::Signals;
use lustrine_wire::nid::Net;

use super::console_client;
use crate::commands::node::watch_stdin;
use crate::common::{NodeOptions, OtherNode, start_and_listen_if_permitted, start_for_command};
use crate::output::{Failure, print_error};

/// How often the daemon checks whether its session exists.
const LOOK: Duration = Duration::from_millis(50);

/// Hold the console of one session of lst until it ends; started by `lst new_session`
#[derive(Args, Debug)]
pub(crate) struct LstConsoleArgs {
    /// Path of the daemon's control socket
    #[arg(long, value_name = "PATH")]
    socket: PathBuf,

    /// Key of the session
    #[arg(long)]
    key: u32,

    #[command(flatten)]
    node: NodeOptions,
}

/// Runs the command.
pub(crate) fn run(args: &LstConsoleArgs) -> Result<(), Failure> {
    // The session must survive the end of its terminal.
    lustrine_sys::process::detach_from_terminal();
    let signals = Signals::install().map_err(|error| format!("cannot catch signals: {error}"))?;
    let socket = ControlSocket::bind(&args.socket).map_err(|error| error.to_string())?;
    let mut config = args.node.node_config(print_error)?;
    if config.nets.is_empty() {
        config.nets.push(NetConfig::new(Net::TCP, InterfaceChoice::Default));
    }
    // A console sends little; one CPT is enough.
    config.tunables.loops.cpu_npartitions = 1;
    // The user has the last word about listening.
    let listens = args.node.accept.is_some() || args.node.basic.config.is_some();
    let node = match listens {
        true => start_for_command(&config, OtherNode::CannotBeAsked)?,
        false => start_and_listen_if_permitted(config)?,
    };
    let mut control = socket.serve(node.handle()).map_err(|error| error.to_string())?;
    stay(&node, &signals, args.key);
    // `lst end_session` waits for the end of its connection: the address is free then.
    control.remove_socket();
    node.stop();
    // The log is useful only after a failure.
    let _ = console_client::remove_log(&args.socket);
    drop(control);
    Ok(())
}

/// Returns when there is no session, and none is to be expected: the process that started this one
/// closes our standard input once it has made the session, or has failed to.
fn stay(node: &NodeHandle, signals: &Signals, key: u32) {
    let starter = watch_stdin();
    loop {
        if signals.take().terminate {
            return end(node, signals, key);
        }
        // In this order: the session is made before the input is closed.
        if starter.is_finished() && !node.console_in_use() {
            return;
        }
        thread::sleep(LOOK);
    }
}

/// Ends the session, so that its nodes need not wait for their time-out. The console waits for
/// tests that run; another signal ends the waiting.
fn end(node: &NodeHandle, signals: &Signals, key: u32) {
    thread::scope(|scope| {
        let ending = scope.spawn(|| node.console(key, Command::EndSession));
        while !ending.is_finished() {
            if signals.take().terminate {
                let _ = node.console(key, Command::EndSessionAtOnce);
            }
            thread::sleep(LOOK);
        }
    });
}
