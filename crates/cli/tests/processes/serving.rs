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
    let hint = format!(
        "trial: 3 object targets of 16 MiB, in memory until this ends\n\
         try: lustrine fs df {url} --net tcp=ADDRESS:{port}, with an address of the client's \
         machine\n"
    );
    eventually("what is served", || {
        assert!(served.is_running(), "it has ended: {}", served.stderr());
        (served.stdout() == hint).then_some(())
    });
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
fn a_file_system_in_memory_ends_with_the_program_that_started_it() {
    let ip = loopback();
    let net = format!("tcp={ip}:{}", free_port(ip));
    let mut command = lustrine();
    let mut served = Running::start(command.args(["fs", "serve", "--until-eof", "--net", &net]));
    eventually("what is served", || served.stdout().contains("try: ").then_some(()));
    served.close_stdin();
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
