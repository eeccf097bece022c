//! `lustrine fs`: files of a Lustre file system, without a mount.

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::ops::Deref;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use clap::builder::{OsStringValueParser, TryMapValueParser, TypedValueParser, ValueParserFactory};
use clap::{Args, Subcommand};
use lustrine_config::{NetConfig, NodeConfig};
use lustrine_fs::{
    Attr, CacheTunables, Fid, File, FileSystem, FsError, FsUrl, MountOptions, UrlError, shown,
};
use lustrine_node::Node;
use lustrine_wire::nid::{Net, Nid};

use crate::common::{NodeOptions, OtherNode, TemporaryNodeOptions, start_for_command};
use crate::interrupt;
use crate::output::{Failure, print_error};
use crate::values::seconds;

mod attributes;
mod copy;
mod list;
mod mode;
mod names;
mod serve;
mod set;
mod sha256;
mod status;
mod sum;
mod transfer;
mod tree;
pub(super) mod wait;
mod walk;
mod xattr;

/// Work with files of a Lustre file system, without a mount and without kernel modules.
///
/// A file is named lustre://NID/FSNAME/PATH, such as lustre://10.0.0.9@tcp/lustre/projects, or as
/// in a mount, 10.0.0.9@tcp:/lustre/projects. The NID is that of the management server (MGS).
#[derive(Args, Debug)]
pub(crate) struct FsArgs {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand, Debug)]
enum Verb {
    Ls(list::LsArgs),
    Stat(list::StatArgs),
    Cat(copy::CatArgs),
    Get(copy::GetArgs),
    Put(copy::PutArgs),
    Cp(copy::CpArgs),
    Mkdir(names::MkdirArgs),
    Rm(names::RmArgs),
    Mv(names::MvArgs),
    Ln(names::LnArgs),
    Find(tree::FindArgs),
    Du(tree::DuArgs),
    Tree(tree::TreeArgs),
    Sum(sum::SumArgs),
    Chmod(attributes::ChmodArgs),
    Chown(attributes::ChownArgs),
    Touch(attributes::TouchArgs),
    Truncate(attributes::TruncateArgs),
    Getfattr(xattr::GetfattrArgs),
    Setfattr(xattr::SetfattrArgs),
    Df(list::DfArgs),
    Status(status::StatusArgs),
    Set(set::SetArgs),
    Serve(serve::ServeArgs),
}

/// A file that an argument names. Its path need not be UTF-8.
#[derive(Clone, Debug)]
struct Url(FsUrl);

impl Deref for Url {
    type Target = FsUrl;

    fn deref(&self) -> &FsUrl {
        &self.0
    }
}

impl ValueParserFactory for Url {
    type Parser = TryMapValueParser<OsStringValueParser, fn(OsString) -> Result<Url, UrlError>>;

    fn value_parser() -> Self::Parser {
        OsStringValueParser::new().try_map(|text| FsUrl::from_bytes(&text.into_vec()).map(Url))
    }
}

/// Options of all verbs.
#[derive(Args, Debug)]
pub(crate) struct ClientOptions {
    /// Time that each operation may take, in seconds; a server that restarts needs minutes
    #[arg(long, default_value_t = 60.0, value_parser = seconds, allow_negative_numbers = true)]
    timeout: f64,

    #[command(flatten)]
    node: TemporaryNodeOptions,
}

/// Runs the command.
pub(crate) fn run(args: &FsArgs) -> Result<(), Failure> {
    match &args.verb {
        Verb::Status(args) => status::run(args),
        Verb::Set(args) => set::run(args),
        Verb::Serve(args) => serve::run(args),
        Verb::Ls(args) => list::ls(args),
        Verb::Stat(args) => list::stat(args),
        Verb::Cat(args) => copy::cat(args),
        Verb::Get(args) => copy::get(args),
        Verb::Put(args) => copy::put(args),
        Verb::Cp(args) => copy::cp(args),
        Verb::Mkdir(args) => names::mkdir(args),
        Verb::Rm(args) => names::rm(args),
        Verb::Mv(args) => names::mv(args),
        Verb::Ln(args) => names::ln(args),
        Verb::Find(args) => tree::find(args),
        Verb::Du(args) => tree::du(args),
        Verb::Tree(args) => tree::tree(args),
        Verb::Sum(args) => sum::sum(args),
        Verb::Chmod(args) => attributes::chmod(args),
        Verb::Chown(args) => attributes::chown(args),
        Verb::Touch(args) => attributes::touch(args),
        Verb::Truncate(args) => attributes::truncate(args),
        Verb::Getfattr(args) => xattr::getfattr(args),
        Verb::Setfattr(args) => xattr::setfattr(args),
        Verb::Df(args) => list::df(args),
    }
}

/// Opens the file system of a URL for as long as `work` takes.
fn with_file_system(
    url: &FsUrl,
    options: &ClientOptions,
    work: impl FnOnce(&FileSystem) -> Result<(), Failure>,
) -> Result<(), Failure> {
    with_cache(url, options, CacheTunables::NONE, |files| work(files))
}

/// Most names that a command keeps that looks at many files: as many as a mount by default.
const NAMES_KEPT: usize = 10_000;

/// The same for a command that looks at many files: names are kept with their locks, so that
/// servers can be asked for several with one request. At a signal the locks are given back.
fn with_names_kept(
    url: &FsUrl,
    options: &ClientOptions,
    work: impl FnOnce(&FileSystem) -> Result<(), Failure>,
) -> Result<(), Failure> {
    // Such a command knows itself what it asks for next.
    let cache = CacheTunables { attrs: NAMES_KEPT, statahead_max: 0, ..CacheTunables::NONE };
    with_cache(url, options, cache, |files| {
        let held = Arc::downgrade(files);
        interrupt::end_after(move || {
            // Otherwise who wants such a lock would wait until the servers evict the client.
            if let Some(files) = held.upgrade() {
                let _ = files.disconnect();
            }
        })?;
        work(files)
    })
}

/// The same with a choice of what is kept.
fn with_cache(
    url: &FsUrl,
    options: &ClientOptions,
    cache: CacheTunables,
    work: impl FnOnce(&Arc<FileSystem>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let node = start_node(url, &options.node, cache.max_cached)?;
    let timeout = Duration::from_secs_f64(options.timeout);
    let mount = MountOptions { timeout, cache, ..Default::default() };
    let what = format!("cannot use {}", FsUrl { path: Vec::new(), ..url.clone() });
    let files = Arc::new(wait::mount(&node, url, &mount, &what, || true)?);
    let outcome = work(&files);
    if let Err(error) = files.disconnect() {
        print_error(&format!("could not disconnect from the servers: {error}"));
    }
    node.stop();
    outcome
}

/// Does something with each of several files of one file system. What fails is named, and the rest
/// is done.
fn on_files(
    urls: &[Url],
    client: &ClientOptions,
    each: impl Fn(&FileSystem, &[u8]) -> Result<(), Failure>,
) -> Result<(), Failure> {
    with_file_system(same_file_system(urls)?, client, |files| {
        each_file(urls, |path| each(files, path))
    })
}

/// The same for changes: each adds files of the metadata targets that it has changed, which commit
/// at the end.
fn change_files(
    urls: &[Url],
    client: &ClientOptions,
    each: impl Fn(&FileSystem, &[u8], &mut Vec<Fid>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    with_file_system(same_file_system(urls)?, client, |files| {
        let mut changed = Vec::new();
        let outcome = each_file(urls, |path| each(files, path, &mut changed));
        let synced = files.sync_all(changed).map_err(Failure::from);
        outcome.and(synced)
    })
}

/// One of several files that have to be in one file system.
fn same_file_system(urls: &[Url]) -> Result<&Url, Failure> {
    let first = &urls[0];
    match urls.iter().find(|url| !url.is_same_file_system(first)) {
        None => Ok(first),
        Some(other) => {
            let text = format!("{} is not in the file system of {}", **other, **first);
            Err(Failure::Usage(text))
        }
    }
}

/// Does something with the path of each URL. What fails is named, and the rest is done.
fn each_file(
    urls: &[Url],
    mut each: impl FnMut(&[u8]) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut failed = Ok(());
    for url in urls {
        match each(&url.path) {
            Ok(()) => {}
            Err(failure @ (Failure::Failed(_) | Failure::Reported(_))) => {
                failure.report();
                failed = Err(Failure::Reported(1));
            }
            Err(Failure::ReaderLeft) => return failed.and(Err(Failure::ReaderLeft)),
            Err(other) => return Err(other),
        }
    }
    failed
}

/// A node of this command's own, which may keep up to `kept` bytes of what it receives. All servers
/// belong to one event loop.
pub(super) fn start_node(
    url: &FsUrl,
    options: &TemporaryNodeOptions,
    kept: u64,
) -> Result<Node, Failure> {
    let options: NodeOptions = options.into();
    let mut config = options.short_lived(&url.mgs[0], None)?;
    if let Some(net) = named_twice(&config.nets) {
        return Err(Failure::Usage(format!(
            "{net} has two interfaces; a client uses one interface of a net, and servers would \
             answer the other one: name one with --net"
        )));
    }
    if let Some(reason) = out_of_reach(&url.mgs, &config) {
        return Err(Failure::Usage(reason));
    }
    config.tunables.loops.cpu_npartitions = 1;
    config.cpu_pattern = String::new();
    config.keep_received(kept);
    start_for_command(&config, OtherNode::CannotBeAsked)
}

/// Why no interface can reach a management server, if that is certain: none is on a net of one. A
/// peer that is described may have other NIDs.
fn out_of_reach(mgs: &[Nid], config: &NodeConfig) -> Option<String> {
    let is_known = |nid: &Nid| config.peers.iter().any(|peer| peer.nids.contains(nid));
    let is_near = |nid: &Nid| config.nets.iter().any(|net| net.net == nid.net());
    let first = mgs.first().filter(|_| !mgs.iter().any(|nid| is_near(nid) || is_known(nid)))?;
    let nets: Vec<String> = config.nets.iter().map(|net| net.net.to_string()).collect();
    Some(format!(
        "no interface is on {}, the net of {first}; there are interfaces on {} only: name another \
         one with --net",
        first.net(),
        nets.join(" and "),
    ))
}

/// A net that has two interfaces.
fn named_twice(nets: &[NetConfig]) -> Option<Net> {
    let same = |(index, net): &(usize, &NetConfig)| {
        nets[..*index].iter().any(|other| other.net == net.net)
    };
    nets.iter().enumerate().find(same).map(|(_, net)| net.net)
}

impl From<FsError> for Failure {
    fn from(error: FsError) -> Failure {
        Failure::Failed(error.to_string())
    }
}

/// Directories within each other that are walked. A server can show one that holds itself.
const DEPTH_MAX: usize = 1000;

/// Refuses to walk deeper.
fn check_depth(path: &[u8]) -> Result<(), String> {
    match path.iter().filter(|byte| **byte == b'/').count() > DEPTH_MAX {
        true => Err(format!("more than {DEPTH_MAX} directories within each other")),
        false => Ok(()),
    }
}

/// The directory of a path, and the name in it.
fn split(path: &[u8]) -> Result<(&[u8], &[u8]), Failure> {
    let path = without_slash(path);
    let (dir, name) = match path.iter().rposition(|byte| *byte == b'/') {
        Some(slash) => (&path[..slash], &path[slash + 1..]),
        None => (&path[..0], path),
    };
    match name {
        b"" => Err(Failure::Usage(
            "the root directory of a file system cannot be made, renamed or removed; name a file \
             or directory below it"
                .to_owned(),
        )),
        b"." | b".." => Err(no_name(&shown(path))),
        _ => Ok((dir, name)),
    }
}

/// The error for a path that ends with `.` or `..`.
fn no_name(path: &str) -> Failure {
    Failure::Usage(format!("`{path}` must end with the name of a file or directory"))
}

/// A path without slashes at its end.
fn without_slash(mut path: &[u8]) -> &[u8] {
    while let [start @ .., b'/'] = path {
        path = start;
    }
    path
}

/// The error for a path that has to be that of a directory.
fn no_directory(path: &[u8]) -> Failure {
    Failure::Failed(format!("{}: is not a directory", shown(path)))
}

/// Opens a regular file to read it.
fn open<'a>(files: &'a FileSystem, attr: &Attr, path: &str) -> Result<File<'a>, Failure> {
    if attr.is_dir() {
        return Err(format!("{path}: is a directory").into());
    }
    if !attr.is_file() {
        return Err(format!("{path}: is not a regular file").into());
    }
    Ok(files.open(attr).map_err(|error| error.at(path))?)
}

/// The error of a file of this machine.
fn local(path: &Path, error: &io::Error) -> Failure {
    Failure::Failed(format!("{}: {error}", path.display()))
}

/// The error for a directory that would have to be there.
fn no_dir(path: impl fmt::Display) -> String {
    format!("{path}: no such directory")
}
