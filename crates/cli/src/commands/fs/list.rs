//! `lustrine fs ls`, `stat` and `df`.

use clap::{ArgAction, Args};
use lustrine_fs::{Attr, FileSystem, FollowLinks, shown};
use serde::Serialize;

use super::walk::Entered;
use super::{ClientOptions, Url, on_files, with_file_system, with_names_kept};
use crate::output::{Failure, print, print_error, print_json};
use crate::values::utc;

/// List a directory.
#[derive(Args, Debug)]
#[command(disable_help_flag = true)]
pub(crate) struct LsArgs {
    /// The directory or file
    url: Url,

    /// Show permissions, owner, size and time
    #[arg(long, short = 'l')]
    long: bool,

    /// List the directories below it too
    #[arg(long, short = 'R')]
    recursive: bool,

    /// Show sizes with K, M, G and T instead of bytes
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

/// Show the attributes of files.
#[derive(Args, Debug)]
pub(crate) struct StatArgs {
    /// The files
    #[arg(required = true)]
    urls: Vec<Url>,

    /// Print JSON, an object for each file
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    client: ClientOptions,
}

/// Show the free space of a file system.
#[derive(Args, Debug)]
#[command(disable_help_flag = true)]
pub(crate) struct DfArgs {
    /// The file system, such as lustre://10.0.0.9@tcp/lustre
    url: Url,

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

/// Entries whose attributes are asked for before they are shown.
const PART: usize = 1024;

/// A file in a listing.
#[derive(Serialize)]
pub(super) struct Row {
    /// The path from the directory that was asked for.
    pub(super) path: String,
    #[serde(flatten)]
    pub(super) attr: AttrRow,
    /// Of a symbolic link.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) target: Option<String>,
}

/// Attributes as JSON has them.
#[derive(Serialize)]
pub(super) struct AttrRow {
    #[serde(rename = "type")]
    kind: &'static str,
    fid: String,
    /// Permissions as an octal number.
    mode: String,
    nlink: u32,
    uid: u32,
    gid: u32,
    /// Bytes.
    size: Option<u64>,
    /// Units of 512 bytes.
    blocks: Option<u64>,
    /// Seconds since 1970.
    atime: i64,
    mtime: i64,
    ctime: i64,
}

impl AttrRow {
    pub(super) fn of(attr: &Attr) -> AttrRow {
        AttrRow {
            kind: kind_of(attr.mode).1,
            fid: attr.fid.to_string(),
            mode: format!("{:04o}", attr.mode & 0o7777),
            nlink: attr.nlink,
            uid: attr.uid,
            gid: attr.gid,
            size: attr.size,
            blocks: attr.blocks,
            atime: attr.atime,
            mtime: attr.mtime,
            ctime: attr.ctime,
        }
    }
}

/// The character of `ls` and the name of a type.
fn kind_of(mode: u32) -> (char, &'static str) {
    match mode & 0o170_000 {
        0o040_000 => ('d', "directory"),
        0o100_000 => ('-', "file"),
        0o120_000 => ('l', "symlink"),
        0o010_000 => ('p', "fifo"),
        0o020_000 => ('c', "character device"),
        0o060_000 => ('b', "block device"),
        0o140_000 => ('s', "socket"),
        _ => ('?', "unknown"),
    }
}

pub(super) fn ls(args: &LsArgs) -> Result<(), Failure> {
    with_names_kept(&args.url, &args.client, |files| {
        let attr = files.find(&args.url.path, FollowLinks::No)?;
        // A link at the end is followed if it leads to a directory, as `ls` does.
        let attr = match attr.is_symlink() && !args.long {
            true => files.walk(&args.url.path).unwrap_or(attr),
            false => attr,
        };
        let (rows, entered) = (Vec::new(), Entered::default());
        let mut listing = Listing { files, args, rows, failed: false, entered };
        if attr.is_dir() {
            listing.directory(&attr, "")?;
        } else {
            let name = args.url.path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
            listing.show_all(vec![shown(name)], vec![attr])?;
        }
        if args.json {
            print_json(&listing.rows)?;
        }
        if listing.failed { Err(Failure::Reported(1)) } else { Ok(()) }
    })
}

struct Listing<'a> {
    files: &'a FileSystem,
    args: &'a LsArgs,
    rows: Vec<Row>,
    /// Whether something could not be listed.
    failed: bool,
    entered: Entered,
}

impl Listing<'_> {
    /// Lists a directory. `prefix` is its path from the one that was asked for, with a slash.
    fn directory(&mut self, dir: &Attr, prefix: &str) -> Result<(), Failure> {
        if let Err(error) = self.entered.enter(prefix.as_bytes(), dir.fid) {
            error.print(self.shown_at(prefix).as_bytes());
            self.failed = true;
            return Ok(());
        }
        self.children(dir, prefix)
    }

    fn shown_at(&self, prefix: &str) -> String {
        if prefix.is_empty() { shown(&self.args.url.path) } else { prefix.to_owned() }
    }

    fn note(&mut self, prefix: &str, error: &str) -> Result<(), Failure> {
        print_error(&format!("{}: {error}", self.shown_at(prefix)));
        self.failed = true;
        Ok(())
    }

    fn children(&mut self, dir: &Attr, prefix: &str) -> Result<(), Failure> {
        let entries = match self.files.list(dir) {
            Ok(entries) => entries,
            Err(error) => return self.note(prefix, &error.to_string()),
        };
        let mut directories = Vec::new();
        if !self.args.long && !self.args.json && !self.args.recursive {
            for entry in entries {
                print(&format!("{prefix}{}\n", shown(&entry.name)))?;
            }
            return Ok(());
        }
        for part in entries.chunks(PART) {
            let names: Vec<&[u8]> = part.iter().map(|entry| entry.name.as_slice()).collect();
            let found = self.files.look_all(dir, &names)?;
            let mut shown_names = Vec::new();
            let mut attrs = Vec::new();
            for (entry, attr) in part.iter().zip(found) {
                let name = format!("{prefix}{}", shown(&entry.name));
                match attr {
                    Ok(attr) => {
                        if attr.is_dir() {
                            directories.push((name.clone(), attr.clone()));
                        }
                        shown_names.push(name);
                        attrs.push(attr);
                    }
                    // It was removed in the meantime.
                    Err(error) if error.is_not_found() => {}
                    Err(error) => {
                        print_error(&format!("{name}: {error}"));
                        self.failed = true;
                    }
                }
            }
            self.show_all(shown_names, attrs)?;
        }
        if self.args.recursive {
            for (name, attr) in directories {
                self.directory(&attr, &format!("{name}/"))?;
            }
        }
        Ok(())
    }

    /// Shows files, whose sizes are asked for if they are to be seen.
    fn show_all(&mut self, paths: Vec<String>, attrs: Vec<Attr>) -> Result<(), Failure> {
        if !self.args.long && !self.args.json {
            return paths.iter().try_for_each(|path| print(&format!("{path}\n")));
        }
        let sized = self.files.all_with_sizes(attrs.clone())?;
        for ((path, attr), sized) in paths.into_iter().zip(attrs).zip(sized) {
            let attr = sized.unwrap_or_else(|error| {
                print_error(&format!("{path}: {error}"));
                self.failed = true;
                attr
            });
            self.show(path, attr)?;
        }
        Ok(())
    }

    fn show(&mut self, path: String, attr: Attr) -> Result<(), Failure> {
        let target = match attr.is_symlink() {
            true => Some(shown(&self.files.readlink(attr.fid)?)),
            false => None,
        };
        if self.args.json {
            self.rows.push(Row { path, attr: AttrRow::of(&attr), target });
            return Ok(());
        }
        let text = |size| if self.args.human { human(size) } else { size.to_string() };
        let size = attr.size.map_or_else(|| "?".to_owned(), text);
        let target = target.map_or_else(String::new, |target| format!(" -> {target}"));
        print(&format!(
            "{} {:>3} {:>6} {:>6} {size:>14} {} {path}{target}\n",
            permissions(attr.mode),
            attr.nlink,
            attr.uid,
            attr.gid,
            utc(attr.mtime),
        ))
    }
}

pub(super) fn stat(args: &StatArgs) -> Result<(), Failure> {
    on_files(&args.urls, &args.client, |files, path| {
        let attr = files.find(path, FollowLinks::No)?;
        let attr = files.with_size(attr)?;
        let target = match attr.is_symlink() {
            true => Some(shown(&files.readlink(attr.fid)?)),
            false => None,
        };
        let row = Row { path: shown(path), attr: AttrRow::of(&attr), target };
        if args.json {
            return print_json(&row);
        }
        let number = |value: Option<u64>| value.map_or_else(|| "?".to_owned(), |n| n.to_string());
        let mut text = format!("  File: /{}", row.path);
        if let Some(target) = &row.target {
            text += &format!(" -> {target}");
        }
        text += &format!(
            "\n   FID: {}\n  Type: {}\n  Size: {} bytes, {} blocks of 512 bytes\nAccess: {} ({})  \
             Uid: {}  Gid: {}  Links: {}\nAccess: {}\nModify: {}\nChange: {}\n",
            row.attr.fid,
            row.attr.kind,
            number(attr.size),
            number(attr.blocks),
            row.attr.mode,
            permissions(attr.mode),
            attr.uid,
            attr.gid,
            attr.nlink,
            utc(attr.atime),
            utc(attr.mtime),
            utc(attr.ctime),
        );
        print(&text)
    })
}

/// Space of a file system in bytes.
#[derive(Serialize)]
struct SpaceRow {
    size: u64,
    used: u64,
    available: u64,
    files: u64,
    files_used: u64,
}

pub(super) fn df(args: &DfArgs) -> Result<(), Failure> {
    with_file_system(&args.url, &args.client, |files| {
        let space = files.space()?;
        let bytes = |blocks: u64| blocks.saturating_mul(u64::from(space.block_size));
        let row = SpaceRow {
            size: bytes(space.blocks),
            used: bytes(space.blocks.saturating_sub(space.free)),
            available: bytes(space.available),
            files: space.files,
            files_used: space.files.saturating_sub(space.files_free),
        };
        if args.json {
            return print_json(&row);
        }
        let share = match row.used.saturating_add(row.available) {
            0 => "-".to_owned(),
            all => format!("{:.0} %", row.used as f64 / all as f64 * 100.0),
        };
        let unit = if args.human { "" } else { " (KiB)" };
        let heads = ["Size", "Used", "Available"].map(|head| format!("{head}{unit}"));
        let sizes = [row.size, row.used, row.available]
            .map(|bytes| if args.human { human(bytes) } else { (bytes / 1024).to_string() });
        let line = |sizes: [String; 3], others: [&str; 3]| {
            let ([size, used, available], [share, files, used_files]) = (sizes, others);
            format!(
                "{size:>16} {used:>16} {available:>16} {share:>6} {files:>14} {used_files:>14}\n"
            )
        };
        let (all, used) = (row.files.to_string(), row.files_used.to_string());
        let text =
            line(heads, ["Use", "Files", "Files used"]) + &line(sizes, [&share, &all, &used]);
        print(&text)
    })
}

/// Type and permissions as `ls` shows them.
fn permissions(mode: u32) -> String {
    let mut text = String::with_capacity(10);
    text.push(kind_of(mode).0);
    for (shift, special, set, unset) in
        [(6, 0o4000, 's', 'S'), (3, 0o2000, 's', 'S'), (0, 0o1000, 't', 'T')]
    {
        let bits = mode >> shift;
        text.push(if bits & 4 != 0 { 'r' } else { '-' });
        text.push(if bits & 2 != 0 { 'w' } else { '-' });
        text.push(match (mode & special != 0, bits & 1 != 0) {
            (true, true) => set,
            (true, false) => unset,
            (false, true) => 'x',
            (false, false) => '-',
        });
    }
    text
}

/// A size with a suffix, rounded up as du does.
pub(super) fn human(bytes: u64) -> String {
    let mut size = bytes as f64 / 1024.0;
    let mut units = "KMGTPE".chars();
    let mut unit = units.next().unwrap_or('K');
    while size.ceil() >= 1024.0
        && let Some(next) = units.next()
    {
        size /= 1024.0;
        unit = next;
    }
    match size {
        0.0 => "0".to_owned(),
        size if (size * 10.0).ceil() < 100.0 => format!("{:.1}{unit}", (size * 10.0).ceil() / 10.0),
        size => format!("{:.0}{unit}", size.ceil()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permissions_are_those_of_ls() {
        assert_eq!(permissions(0o040_755), "drwxr-xr-x");
        assert_eq!(permissions(0o104_711), "-rws--x--x");
        assert_eq!(permissions(0o041_776), "drwxrwxrwT");
        assert_eq!(permissions(0o120_777), "lrwxrwxrwx");
    }

    #[test]
    fn sizes_are_shown_as_du_shows_them() {
        for (bytes, text) in [
            (0, "0"),
            (512, "0.5K"),
            (4096, "4.0K"),
            (10 << 10, "10K"),
            (1_500_000, "1.5M"),
            (u64::MAX, "16E"),
        ] {
            assert_eq!(human(bytes), text);
        }
    }
}
