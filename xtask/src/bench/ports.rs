//! TCP ports for the other end of a measurement.

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// A port of the loopback that is free at this moment.
pub(crate) fn free() -> Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

/// Waits until a program listens on a port. A connection attempt would do, but some servers serve
/// one client and then end; the kernel's table shows it without one.
pub(crate) fn wait_for_listener(port: u16) -> Result<()> {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !is_listening(port) {
        if Instant::now() >= deadline {
            bail!("no program listens on port {port}");
        }
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

fn is_listening(port: u16) -> bool {
    is_listening_in("/proc/net", port)
}

/// Whether a program listens on a port of the network namespace that has its tables in this
/// directory, such as `/proc/PID/net`.
pub(crate) fn is_listening_in(tables: &str, port: u16) -> bool {
    ["tcp", "tcp6"].iter().any(|table| {
        let text = fs::read_to_string(format!("{tables}/{table}"));
        lists_listener(&text.unwrap_or_default(), port)
    })
}

/// Whether a table of sockets has one in state LISTEN (0A) with this local port.
fn lists_listener(table: &str, port: u16) -> bool {
    let end = format!(":{port:04X}");
    table.lines().any(|line| {
        let mut words = line.split_whitespace().skip(1);
        let (local, state) = (words.next(), words.nth(1));
        local.is_some_and(|local| local.ends_with(&end)) && state == Some("0A")
    })
}

#[test]
fn listeners_are_seen() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let port = listener.local_addr().expect("an address").port();
    wait_for_listener(port).expect("it listens");
    let table = "  sl  local_address rem_address   st\n\
        0: 0100007F:14B3 00000000:0000 0A 00000000:00000000\n\
        1: 0100007F:14B4 0100007F:9999 01 00000000:00000000\n";
    assert!(lists_listener(table, 0x14b3));
    assert!(!lists_listener(table, 0x14b4));
}
