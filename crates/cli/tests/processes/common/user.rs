//! The rights of this test process, and the program run by a user with fewer rights.

use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use lustrine_testing::{Need, not_run};

use super::process::{clean, finish, lustrine};
use super::{Scratch, loopback};

/// Whether processes started here have node identity.
pub(crate) fn may_be_node() -> bool {
    static MAY: OnceLock<bool> = OnceLock::new();
    *MAY.get_or_init(|| {
        lustrine_sys::privileged_ports_usable(Some(IpAddr::V4(loopback())))
            .expect("whether a port of the loopback can be bound is known")
    })
}

/// The identity that is chosen by default.
pub(crate) fn own_identity() -> &'static str {
    if may_be_node() { "node" } else { "userland" }
}

/// A copy of the program that every user can run. Another process makes it: what another test
/// starts at the same moment would have a descriptor of this one that writes to the copy, which
/// could not be run until that is closed (ETXTBSY).
pub(crate) fn copy_of_program(scratch: &Scratch) -> PathBuf {
    let program = scratch.file("lustrine");
    let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_lustrine")).arg(&program).status();
    assert!(copied.is_ok_and(|status| status.success()), "the program can be copied");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("the copy is ours");
    program
}

/// The program run by a user who may not bind ports below 1024; `None`, with the reason recorded,
/// if there is no such user.
#[track_caller]
pub(crate) fn unprivileged(scratch: &Scratch) -> Option<Command> {
    if !may_be_node() {
        return Some(lustrine());
    }
    if !lustrine_sys::process::is_root() {
        not_run(
            Need::OrdinaryUser,
            "this user may bind ports below 1024 and cannot become another",
        );
        return None;
    }
    // Other users may not have access to the build directory.
    let program = copy_of_program(scratch);
    let become_nobody = || {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]).arg(&program);
        clean(&mut command);
        command.env("TMPDIR", scratch.path());
        command
    };
    let mut attempt = become_nobody();
    attempt.args(["node", "--identity", "node", "--accept", "none", "--net"]);
    attempt.arg(format!("tcp={}", loopback()));
    if Command::new("setpriv").arg("--version").output().is_err() {
        not_run(Need::Program, "setpriv is not installed");
        return None;
    }
    let refused = finish(&mut attempt);
    if !refused.stderr.contains("source ports below 1024") {
        let why = format!("user 65534 may bind ports below 1024, or is refused: {refused:?}");
        not_run(Need::OrdinaryUser, &why);
        return None;
    }
    Some(become_nobody())
}
