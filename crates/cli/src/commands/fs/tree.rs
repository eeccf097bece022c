//! `lustrine fs find`, `du` and `tree`.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::{ArgAction, Args, ValueEnum};
use lustrine_fs::{Attr, FileSystem, FollowLinks, shown};
use lustrine_report::numbers::counted;
use serde::Serialize;

use super::attributes::bytes;
use super::list::{AttrRow, Row, human};
use super::walk::{Entered, Walk, join};
use super::{ClientOptions, Url, with_names_kept, without_slash};
use crate::output::{Failure, print, print_json};

/// Find files below a directory.
///
/// Paths are shown from the root of the file system. Symbolic links are not followed.
#[derive(Args, Debug)]
pub(crate) struct FindArgs {
    /// The directory
    url: Url,

    /// Only files whose names match this shell pattern, with *, ? and [...]
    #[arg(long, value_name = "PATTERN")]
    name: Option<OsString>,

    /// Only files of this type
    #[arg(long = "type", value_name = "TYPE")]
    kind: Option<FileType>,

    /// Only files larger (+) or smaller (-) than this number of bytes, or of exactly this size; K,
    /// M, G and T are powers of 1024
    #[arg(long, value_name = "[+-]BYTES", value_parser = compared_bytes,
          allow_hyphen_values = true)]
    size: Option<Compared>,

    /// Only files whose data were last changed more than (+), less than (-), or exactly this many
    /// days ago
    #[arg(long, value_name = "[+-]DAYS", value_parser = compared_number,
          allow_hyphen_values = true)]
    mtime: Option<Compared>,

    /// Only files that were changed later than this file of the same file system
    #[arg(long, value_name = "URL")]
    newer: Option<Url>,

    /// Search at most this many levels of directories; 0 is the directory itself
    #[arg(long, value_name = "LEVELS")]
    maxdepth: Option<usize>,

    /// Print JSON, with the attributes of the files
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    client: ClientOptions,
}

/// Show the space that directories use.
#[derive(Args, Debug)]
#[command(disable_help_flag = true)]
pub(crate) struct DuArgs {
    /// The directory or file
    url: Url,

    /// Show only the sum
    #[arg(long, short)]
    summarize: bool,

    /// Show sizes with K, M, G and T instead of KiB
    #[arg(long, short = 'h')]
    human: bool,

    /// Print help
    #[arg(long, action = ArgAction::Help)]
    help: Option<bool>,

    /// Print JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    client: ClientOptions,
}

/// Show a directory and what is below it as a tree.
#[derive(Args, Debug)]
pub(crate) struct TreeArgs {
    /// The directory
    url: Url,

    /// Show at most this many levels of directories
    #[arg(long, short = 'L', value_name = "LEVELS")]
    level: Option<usize>,

    /// Show directories only
    #[arg(long, short)]
    directories: bool,

    #[command(flatten)]
    client: ClientOptions,
}

/// A type of file, as `find -type` abbreviates it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum FileType {
    /// Regular files
    F,
    /// Directories
    D,
    /// Symbolic links
    L,
    /// FIFOs
    P,
    /// Sockets
    S,
    /// Block devices
    B,
    /// Character devices
    C,
}

impl FileType {
    fn bits(self) -> u32 {
        match self {
            FileType::F => 0o100_000,
            FileType::D => 0o040_000,
            FileType::L => 0o120_000,
            FileType::P => 0o010_000,
            FileType::S => 0o140_000,
            FileType::B => 0o060_000,
            FileType::C => 0o020_000,
        }
    }
}

/// A number to compare with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Compared {
    More(u64),
    Less(u64),
    Exactly(u64),
}

impl Compared {
    fn read(text: &str, number: fn(&str) -> Result<u64, String>) -> Result<Compared, String> {
        match text.as_bytes().first() {
            Some(b'+') => number(&text[1..]).map(Compared::More),
            Some(b'-') => number(&text[1..]).map(Compared::Less),
            _ => number(text).map(Compared::Exactly),
        }
    }

    fn holds(self, number: u64) -> bool {
        match self {
            Compared::More(limit) => number > limit,
            Compared::Less(limit) => number < limit,
            Compared::Exactly(wanted) => number == wanted,
        }
    }
}

fn compared_bytes(text: &str) -> Result<Compared, String> {
    Compared::read(text, bytes)
}

fn compared_number(text: &str) -> Result<Compared, String> {
    Compared::read(text, |text| text.parse().map_err(|error| format!("{error}")))
}

pub(super) fn find(args: &FindArgs) -> Result<(), Failure> {
    if let Some(newer) = args.newer.as_ref().filter(|url| !url.is_same_file_system(&args.url)) {
        return Err(Failure::Usage(format!("{} is not in the same file system", **newer)));
    }
    with_names_kept(&args.url, &args.client, |files| {
        let top = without_slash(&args.url.path);
        let newer = match &args.newer {
            Some(url) => Some(files.with_size(files.walk(&url.path)?)?.mtime),
            None => None,
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let attr = files.find(&args.url.path, FollowLinks::No)?;
        let mut rows = Vec::new();
        // Files have times at their objects too.
        let asks = args.size.is_some() || args.mtime.is_some() || newer.is_some() || args.json;
        let mut walk = Walk::new(files, asks);
        let attr = if walk.sizes { files.with_size(attr)? } else { attr };
        walk.visit(top, &attr, 0, &mut |path, attr, depth| {
            if matches(args, path, attr, (newer, now)) {
                if args.json {
                    rows.push(row(files, path, attr)?);
                } else {
                    print(&format!("/{}\n", shown(path)))?;
                }
            }
            Ok(args.maxdepth.is_none_or(|most| depth < most))
        })?;
        if args.json {
            print_json(&rows)?;
        }
        ended(&walk)
    })
}

fn matches(args: &FindArgs, path: &[u8], attr: &Attr, (newer, now): (Option<i64>, u64)) -> bool {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let days = || now.saturating_sub(u64::try_from(attr.mtime).unwrap_or(0)) / 86_400;
    args.name.as_ref().is_none_or(|pattern| fits(pattern.as_bytes(), name))
        && args.kind.is_none_or(|kind| attr.mode & 0o170_000 == kind.bits())
        && args.size.is_none_or(|size| attr.size.is_some_and(|bytes| size.holds(bytes)))
        && args.mtime.is_none_or(|limit| limit.holds(days()))
        && newer.is_none_or(|time| attr.mtime > time)
}

fn row(files: &FileSystem, path: &[u8], attr: &Attr) -> Result<Row, Failure> {
    let target = match attr.is_symlink() {
        true => Some(shown(&files.readlink(attr.fid).map_err(|error| error.at(path))?)),
        false => None,
    };
    Ok(Row { path: format!("/{}", shown(path)), attr: AttrRow::of(attr), target })
}

fn ended(walk: &Walk<'_>) -> Result<(), Failure> {
    if walk.failed { Err(Failure::Reported(1)) } else { Ok(()) }
}

/// Whether a name matches a pattern of the shell. A pattern of n characters takes at most n times
/// as many steps as the name has characters.
fn fits(pattern: &[u8], name: &[u8]) -> bool {
    let (pattern, name) = (chars(pattern), chars(name));
    let (mut p, mut n) = (0, 0);
    // Where to go on if a star has to take one more character.
    let mut back = None;
    while n < name.len() {
        let taken = match pattern.get(p) {
            Some('*') => {
                back = Some((p + 1, n));
                p += 1;
                continue;
            }
            Some('?') => Some(p + 1),
            Some('[') => match one_of(&pattern[p..], name[n]) {
                Some((true, len)) => Some(p + len),
                Some((false, _)) => None,
                // Without an end it stands for itself.
                None => (name[n] == '[').then_some(p + 1),
            },
            Some('\\') if p + 1 < pattern.len() => (pattern[p + 1] == name[n]).then_some(p + 2),
            Some(c) => (*c == name[n]).then_some(p + 1),
            None => None,
        };
        match (taken, back) {
            (Some(next), _) => (p, n) = (next, n + 1),
            (None, Some((star, from))) => {
                back = Some((star, from + 1));
                (p, n) = (star, from + 1);
            }
            (None, None) => return false,
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

/// The characters of a name. Bytes that are no UTF-8 become characters for private use, of which
/// names have none.
fn chars(name: &[u8]) -> Vec<char> {
    let mut chars = Vec::with_capacity(name.len());
    for chunk in name.utf8_chunks() {
        chars.extend(chunk.valid().chars());
        let byte = |byte: &u8| char::from_u32(0x10_fe00 + u32::from(*byte));
        chars.extend(chunk.invalid().iter().filter_map(byte));
    }
    chars
}

/// Whether a character is in the set that the pattern begins with, and how long the set is.
fn one_of(pattern: &[char], c: char) -> Option<(bool, usize)> {
    let negated = matches!(pattern.get(1), Some('!' | '^'));
    let start = if negated { 2 } else { 1 };
    let len = pattern.iter().skip(start + 1).position(|c| *c == ']')? + start + 1;
    let set = &pattern[start..len];
    let mut found = false;
    let mut at = 0;
    while let Some(first) = set.get(at) {
        match (set.get(at + 1), set.get(at + 2)) {
            (Some('-'), Some(last)) => {
                found |= (*first..=*last).contains(&c);
                at += 3;
            }
            _ => {
                found |= *first == c;
                at += 1;
            }
        }
    }
    Some((found != negated, len + 1))
}

/// The space of a directory.
#[derive(Serialize)]
struct Usage {
    path: String,
    /// Bytes on the servers.
    bytes: u64,
    /// Files, directories included.
    files: u64,
}

pub(super) fn du(args: &DuArgs) -> Result<(), Failure> {
    with_names_kept(&args.url, &args.client, |files| {
        let top = without_slash(&args.url.path);
        let attr = files.with_size(files.find(&args.url.path, FollowLinks::No)?)?;
        let mut done: Vec<Usage> = Vec::new();
        // The directories that are being summed, the innermost one last.
        let mut open: Vec<Usage> = Vec::new();
        // Files with several names are counted once.
        let mut linked = std::collections::BTreeSet::new();
        let mut walk = Walk::new(files, true);
        let close = |open: &mut Vec<Usage>, done: &mut Vec<Usage>, depth: usize| {
            while open.len() > depth {
                let Some(usage) = open.pop() else { break };
                if let Some(above) = open.last_mut() {
                    above.bytes = above.bytes.saturating_add(usage.bytes);
                    above.files += usage.files;
                }
                done.push(usage);
            }
        };
        walk.visit(top, &attr, 0, &mut |path, attr, depth| {
            close(&mut open, &mut done, depth);
            let counted = attr.nlink < 2 || attr.is_dir() || linked.insert(attr.fid);
            let blocks = if counted { attr.blocks.unwrap_or(0) } else { 0 };
            let bytes = blocks.saturating_mul(512);
            let usage =
                Usage { path: format!("/{}", shown(path)), bytes, files: u64::from(counted) };
            if attr.is_dir() || depth == 0 {
                open.push(usage);
            } else if let Some(above) = open.last_mut() {
                above.bytes = above.bytes.saturating_add(usage.bytes);
                above.files += usage.files;
            }
            Ok(true)
        })?;
        close(&mut open, &mut done, 0);
        if args.summarize {
            done = done.pop().into_iter().collect();
        }
        if args.json {
            print_json(&done)?;
        } else {
            let size = |bytes| if args.human { human(bytes) } else { kib(bytes).to_string() };
            let lines = done.iter().map(|usage| format!("{}\t{}\n", size(usage.bytes), usage.path));
            print(&lines.collect::<String>())?;
        }
        ended(&walk)
    })
}

fn kib(bytes: u64) -> u64 {
    bytes.div_ceil(1024)
}

pub(super) fn tree(args: &TreeArgs) -> Result<(), Failure> {
    with_names_kept(&args.url, &args.client, |files| {
        let top = without_slash(&args.url.path);
        let attr = files.walk(&args.url.path)?;
        print(&format!("/{}\n", shown(top)))?;
        let entered = Entered::default();
        let mut drawing = Drawing { files, args, dirs: 0, files_seen: 0, failed: false, entered };
        if attr.is_dir() {
            drawing.directory(top, &attr, "", 1)?;
        }
        let files_seen = match args.directories {
            true => String::new(),
            false => format!(", {}", counted(drawing.files_seen, "file")),
        };
        let noun = if drawing.dirs == 1 { "directory" } else { "directories" };
        print(&format!("\n{} {noun}{files_seen}\n", drawing.dirs))?;
        if drawing.failed { Err(Failure::Reported(1)) } else { Ok(()) }
    })
}

struct Drawing<'a> {
    files: &'a FileSystem,
    args: &'a TreeArgs,
    dirs: u64,
    files_seen: u64,
    failed: bool,
    entered: Entered,
}

impl Drawing<'_> {
    fn directory(
        &mut self,
        path: &[u8],
        dir: &Attr,
        indent: &str,
        level: usize,
    ) -> Result<(), Failure> {
        if let Err(error) = self.entered.enter(path, dir.fid) {
            error.print(path);
            self.failed = true;
            return Ok(());
        }
        self.children(path, dir, indent, level)
    }

    fn children(
        &mut self,
        path: &[u8],
        dir: &Attr,
        indent: &str,
        level: usize,
    ) -> Result<(), Failure> {
        let entries = match self.files.list(dir) {
            Ok(entries) => entries,
            Err(error) => {
                crate::output::print_error(&format!("{}: {error}", shown(path)));
                self.failed = true;
                return Ok(());
            }
        };
        let names: Vec<&[u8]> = entries.iter().map(|entry| entry.name.as_slice()).collect();
        let found = self.files.look_all(dir, &names)?;
        let mut children: Vec<(&[u8], Attr)> = Vec::new();
        for (name, attr) in names.into_iter().zip(found) {
            match attr {
                Ok(attr) => children.push((name, attr)),
                // It was removed in the meantime.
                Err(error) if error.is_not_found() => {}
                Err(error) => {
                    let path = shown(&join(path, name));
                    crate::output::print_error(&format!("{path}: {error}"));
                    self.failed = true;
                }
            }
        }
        if self.args.directories {
            children.retain(|(_, attr)| attr.is_dir());
        }
        let last = children.len().saturating_sub(1);
        for (index, (name, attr)) in children.iter().enumerate() {
            let (branch, below) = match index == last {
                true => ("\u{2514}\u{2500}\u{2500} ", "    "),
                false => ("\u{251c}\u{2500}\u{2500} ", "\u{2502}   "),
            };
            let raw = *name;
            let name = shown(name);
            let target = match attr.is_symlink() {
                true => match self.files.readlink(attr.fid) {
                    Ok(target) => format!(" -> {}", shown(&target)),
                    Err(_) => " -> ?".to_owned(),
                },
                false => String::new(),
            };
            print(&format!("{indent}{branch}{name}{target}\n"))?;
            if attr.is_dir() {
                self.dirs += 1;
                if self.args.level.is_none_or(|most| level < most) {
                    let path = join(path, raw);
                    self.directory(&path, attr, &format!("{indent}{below}"), level + 1)?;
                }
            } else {
                self.files_seen += 1;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_those_of_the_shell() {
        for (pattern, name, expected) in [
            ("*", "", true),
            ("*.txt", "a.txt", true),
            ("*.txt", "a.txt.gz", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("[a-c]x", "bx", true),
            ("[!a-c]x", "bx", false),
            ("[]x]", "]", true),
            ("[a", "[a", true),
            ("\\*", "*", true),
            ("\\*", "a", false),
            ("*a*b*c", "xaybzc", true),
            ("Gr\u{f6}\u{df}?", "Gr\u{f6}\u{df}e", true),
        ] {
            assert_eq!(fits(pattern.as_bytes(), name.as_bytes()), expected, "{pattern} {name}");
        }
        assert!(!fits(&b"*a".repeat(60), &b"a".repeat(50)));
        assert!(fits(b"a?", b"a\xff") && fits(b"[\xfe-\xff]", b"\xff") && !fits(b"\xfe", b"\xff"));
    }

    #[test]
    fn numbers_are_compared_by_their_sign() {
        assert!(compared_bytes("+1K").is_ok_and(|size| size.holds(1025) && !size.holds(1024)));
        assert!(compared_number("-3").is_ok_and(|days| days.holds(2) && !days.holds(3)));
        assert!(compared_number("3").is_ok_and(|days| days.holds(3) && !days.holds(2)));
        assert!(compared_number("three").is_err() && compared_bytes("").is_err());
    }
}
