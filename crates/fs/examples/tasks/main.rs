//! What programs do with files, each task with the time that it takes once the file system is
//! mounted (`cargo xtask bench files`).
//!
//! ```text
//! tasks ADDRESS write LOCAL-FILE URL | read URL
//! tasks ADDRESS create|stat|unlink NAMES-FILE URL-OF-A-DIRECTORY
//! tasks ADDRESS list URL-OF-A-DIRECTORY
//! ```
//!
//! ADDRESS is that of this node. A file of names has one on each line. The result is a number of
//! microseconds. Data, names and attributes are cached as in a mount with its default options; what
//! was written is on stable storage at the end.

use std::error::Error;
use std::net::IpAddr;
use std::process::ExitCode;
use std::time::Instant;

use bytes::Bytes;
use lustrine_config::{AcceptPolicy, InterfaceChoice, NetConfig, NodeConfig};
use lustrine_fs::{Attr, CacheTunables, FileSystem, FsError, FsUrl, MountOptions};
use lustrine_node::Node;
use lustrine_wire::nid::Net;

/// What a mount keeps by default: bytes of data, and files with their names and attributes.
const CACHE: CacheTunables = CacheTunables { attrs: 10_000, ..CacheTunables::of(256 << 20) };

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match run(&words) {
        Ok(micros) => println!("{micros}"),
        Err(error) => {
            eprintln!("tasks: {error}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// Mounts the file system, and does what the words say. How long that took in microseconds.
fn run(words: &[String]) -> Result<u128, Box<dyn Error>> {
    let [address, task, arguments @ .., url] = words else {
        return Err("usage: tasks ADDRESS write|read|create|stat|unlink|list [FILE] URL".into());
    };
    let address: IpAddr = address.parse()?;
    let net = NetConfig::new(Net::TCP, InterfaceChoice::Address(address));
    // Where a kernel has the address, it is a userland node.
    let config =
        NodeConfig { nets: vec![net], accept: AcceptPolicy::None, ..NodeConfig::default() };
    let node = Node::start_for_command(&config)?;
    let url: FsUrl = url.parse()?;
    let options = MountOptions { cache: CACHE, ..MountOptions::default() };
    let files = FileSystem::mount(&node, &url, &options)?;
    // What is read from this machine is in memory before.
    let given = match arguments {
        [file] => std::fs::read(file)?,
        _ => Vec::new(),
    };
    let began = Instant::now();
    act(&files, task, given, &url.path)?;
    let micros = began.elapsed().as_micros();
    files.unmount()?;
    node.stop();
    Ok(micros)
}

fn act(files: &FileSystem, task: &str, given: Vec<u8>, path: &[u8]) -> Result<(), Box<dyn Error>> {
    let names = || given.split(|byte| *byte == b'\n').filter(|name| !name.is_empty());
    match task {
        "write" => {
            let (dir, name) = match path.iter().rposition(|byte| *byte == b'/') {
                Some(at) => (&path[..at], &path[at + 1..]),
                None => (&[][..], path),
            };
            let mut file = files.create(&files.walk(dir)?, name, 0o644, false)?;
            let attr = file.attr().clone();
            let mut rest = Bytes::from(given);
            file.write_all(|most| -> Result<Bytes, FsError> {
                Ok(rest.split_to(most.min(rest.len())))
            })?;
            files.fsync(&attr)?;
            file.close()?;
        }
        "read" => {
            let attr = files.walk(path)?;
            let mut read = 0;
            let file = files.open(&attr)?;
            file.read_all(|part| -> Result<(), FsError> {
                read += part.len() as u64;
                Ok(())
            })?;
            if read != file.size() {
                return Err(format!("{read} bytes were read of {}", file.size()).into());
            }
        }
        "create" => {
            let dir = files.walk(path)?;
            for name in names() {
                files.create(&dir, name, 0o644, true)?.abandon();
            }
            files.sync(dir.fid)?;
        }
        "stat" => stat(files, &files.walk(path)?, &names().collect::<Vec<_>>())?,
        "unlink" => {
            let dir = files.walk(path)?;
            for name in names() {
                files.unlink(&dir, name, false)?;
            }
            files.sync(dir.fid)?;
        }
        "list" => {
            let dir = files.walk(path)?;
            let entries = files.list(&dir)?;
            let names: Vec<&[u8]> = entries.iter().map(|entry| entry.name.as_slice()).collect();
            stat(files, &dir, &names)?;
        }
        other => return Err(format!("there is no task {other}").into()),
    }
    Ok(())
}

/// The attributes of files of a directory, with their sizes.
fn stat(files: &FileSystem, dir: &Attr, names: &[&[u8]]) -> Result<(), FsError> {
    let attrs = files.look_all(dir, names)?.into_iter().collect::<Result<Vec<Attr>, _>>()?;
    files.all_with_sizes(attrs)?.into_iter().try_for_each(|attr| attr.map(drop))
}
