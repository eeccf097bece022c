//! Data that were written and do not reach the servers.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use lustrine_fs::CacheTunables;
use lustrine_node::RegisteredService;
use lustrine_server::Server;

use super::{Lustre, can_mount};
use crate::common::{LIMIT, eventually, finish, logged, lustrine};

/// As an administrator of servers does, or a server that has not heard of the client for long.
#[test]
fn the_log_names_the_file_that_has_lost_data() {
    if !can_mount() {
        return;
    }
    let lustre = Lustre::for_mounts();
    let mount = lustre.mount("m");
    let server = lustre.servers.as_ref().expect("the servers run").server();
    // The server has promised space for what follows, so it waits in the client, but not for long:
    // on a machine that stands still, the server can have it before the client is evicted.
    let waits = Duration::from_nanos(CacheTunables::default().max_dirty_age.0);
    let attempt = |name: String| {
        // A client that was evicted learns of it by an error.
        let mut file = eventually("a file is stored", || stored(&mount.path(&name)).ok());
        let begin = Instant::now();
        file.write_all(b"lost").unwrap();
        evict_all(server);
        (begin.elapsed() < waits).then_some((name, file))
    };
    let names = (0..5).map(|number| format!("file-{number}"));
    let (name, file) = names.into_iter().find_map(attempt).expect("the machine is fast enough");
    let fid = finish(&mut lustre.client(&["fs", "stat", "--json", &lustre.url(&name)])).ok();
    let fid = fid.json()["fid"].as_str().expect("a FID").to_owned();
    let words = format!("file {fid}: 4 bytes written by user 0 are LOST: the server evicted");
    logged(&lustre.scratch.file("log"), &words);
    drop(file);
    mount.umount().ok();
}

/// Otherwise the program waits for the server for ten minutes.
#[test]
fn two_signals_give_up_what_servers_that_are_away_do_not_take() {
    if !can_mount() {
        return;
    }
    let mut lustre = Lustre::for_mounts();
    let mount = lustre.mount("m");
    let mut file = stored(&mount.path("file")).unwrap();
    drop(lustre.servers.take());
    file.write_all(b"lost").unwrap();
    drop(file);
    finish(lustrine().args(["umount", "--force"]).arg(&mount.dir)).ok();
    let log = lustre.scratch.file("log");
    logged(&log, "is unmounted");
    mount.terminate().unwrap();
    logged(&log, "a second signal gives them up");
    assert!(mount.is_running());
    mount.terminate().unwrap();
    eventually("the program ends", || (!mount.is_running()).then_some(()));
    logged(&log, ": 4 bytes written by user 0 are LOST: ");
}

fn stored(path: &Path) -> io::Result<File> {
    let mut file = File::create(path)?;
    file.write_all(b"stored")?;
    file.sync_all()?;
    Ok(file)
}

/// Evicts all clients that have locks, and returns when that is done.
fn evict_all(server: &RegisteredService<Server>) {
    let (done, wait) = mpsc::channel();
    let evict = server.post(move |server, turn| {
        for index in 0..server.targets().len() {
            let clients = server.locks(index).into_iter().filter_map(|lock| lock.client);
            for client in clients.collect::<BTreeSet<_>>() {
                server.evict(turn, index, &client);
            }
        }
        let _ = done.send(());
    });
    evict.expect("the event loop runs");
    wait.recv_timeout(LIMIT).expect("the event loop runs");
}
