//! Data that were written and do not reach the servers.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Write;

use super::{Lustre, can_mount};
use crate::common::{eventually, finish};

/// As an administrator of servers does, or a server that has not heard of the client for long.
#[test]
fn the_log_names_the_file_that_has_lost_data() {
    if !can_mount() {
        return;
    }
    let lustre = Lustre::for_mounts();
    let mount = lustre.mount("m");
    let mut file = File::create(mount.path("file")).unwrap();
    file.write_all(b"stored").unwrap();
    file.sync_all().unwrap();
    // The server has promised space for it, so it waits in the client.
    file.write_all(b"lost").unwrap();
    let server = lustre.servers.as_ref().expect("the servers run").server();
    let evict = server.post(|server, turn| {
        for index in 0..server.targets().len() {
            let clients = server.locks(index).into_iter().filter_map(|lock| lock.client);
            for client in clients.collect::<BTreeSet<_>>() {
                server.evict(turn, index, &client);
            }
        }
    });
    evict.expect("the event loop runs");
    let log = lustre.scratch.file("log");
    let line = eventually("the file is named", || {
        let log = fs::read_to_string(&log).ok()?;
        log.lines().find(|line| line.contains(" file [")).map(str::to_owned)
    });
    let fid = finish(&mut lustre.client(&["fs", "stat", "--json", &lustre.url("file")])).ok();
    let fid = fid.json()["fid"].as_str().expect("a FID").to_owned();
    let expected = format!("file {fid}: 4 bytes written by user 0 are LOST: the server evicted");
    assert!(line.contains(&expected), "{line} does not have {expected}");
    drop(file);
    mount.umount().ok();
}
