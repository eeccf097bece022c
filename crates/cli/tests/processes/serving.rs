//! `lustrine fs serve`: a file system to try things out with.

use std::fs;

use rustix::process::Signal;

use crate::common::{Running, Scratch, eventually, finish, free_port, loopback, lustrine};

#[test]
fn a_file_system_in_memory_is_used_by_name_and_ends_with_a_signal() {
    let (ip, scratch) = (loopback(), Scratch::new());
    let port = free_port(ip);
    let mut command = lustrine();
    command.args(["fs", "serve", "--until-eof", "--name", "trial", "--osts", "3", "--size", "16M"]);
    let mut served = Running::start(command.args(["--net", &format!("tcp={ip}:{port}")]));
    let url = format!("lustre://{ip}@tcp/trial/");
    let said = eventually("what is served", || {
        assert!(served.is_running(), "it has ended: {}", served.stderr());
        Some(served.stdout()).filter(|said| said.ends_with("PORT\n") || said.contains("try: "))
    });
    assert!(said.contains("trial: 3 object targets of 16 MiB"), "{said}");
    let hint = format!("try: lustrine fs df {url} --net tcp=ADDRESS:{port}\n");
    assert!(said.ends_with(&hint), "{said}");
    let client = |words: &[&str]| {
        let mut command = lustrine();
        command.args(["fs"]).args(words);
        finish(command.args(["--net", &format!("tcp={}:{port}", loopback())])).ok()
    };
    fs::write(scratch.file("local"), b"some bytes\n").expect("a file of this test");
    client(&["mkdir", &format!("{url}dir")]);
    client(&["put", scratch.file("local").to_str().expect("text"), &format!("{url}dir/file")]);
    assert_eq!(client(&["cat", &format!("{url}dir/file")]).stdout, "some bytes\n");
    let space = client(&["df", "--json", &url]).json();
    assert_eq!(space["size"], 3 * (16 << 20), "{space}");
    served.signal(Signal::TERM);
    assert_eq!(served.end().code, Some(0));
}

#[test]
fn what_cannot_be_served_is_refused() {
    let serve =
        |words: &[&str]| finish(lustrine().args(["fs", "serve", "--until-eof"]).args(words));
    for name in ["", "toolongname", "a/b", "a b"] {
        serve(&["--name", name]).expect_code(2).expect_stderr(&["--name"]);
    }
    serve(&["--size", "1000"]).expect_code(2).expect_stderr(&["at least 1M"]);
    serve(&["--osts", "0"]).expect_code(2).expect_stderr(&["--osts"]);
    serve(&["--net", "tcp=192.0.2.1"]).expect_code(1).expect_stderr(&["192.0.2.1"]);
}
