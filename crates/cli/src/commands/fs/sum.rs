//! `lustrine fs sum`: SHA-256 checksums of files.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use clap::Args;
use lustrine_fs::{Attr, FileSystem, shown};
use serde::{Serialize, Serializer};

use super::sha256::Sha256Sum;
use super::walk::{Walk, in_parallel, join};
use super::{ClientOptions, Url, open, with_file_system, without_slash};
use crate::output::{Failure, print_bytes, print_json};

/// Show or check SHA-256 checksums of files, several at once.
///
/// The output has the format of sha256sum. The paths of files in a directory are relative to that
/// directory, so that `sha256sum --check` accepts the list in the same directory of a mount.
#[derive(Args, Debug)]
pub(crate) struct SumArgs {
    /// The file; a directory with --recursive or --check
    url: Url,

    /// Show the checksums of all regular files below a directory
    #[arg(long, short)]
    recursive: bool,

    /// Check the files of the directory that this list names, in the format of sha256sum
    #[arg(long, short, value_name = "FILE", conflicts_with = "recursive")]
    check: Option<PathBuf>,

    /// Show only files that differ or cannot be read
    #[arg(long, requires = "check")]
    quiet: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    client: ClientOptions,
}

/// The checksum of a file.
#[derive(Serialize)]
struct Row {
    #[serde(serialize_with = "as_shown")]
    path: Vec<u8>,
    sha256: String,
    /// When a list is checked: whether it is the sum of the list.
    #[serde(skip_serializing_if = "Option::is_none")]
    ok: Option<bool>,
}

fn as_shown<S: Serializer>(path: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&shown(path))
}

/// A file whose sum is wanted: its number in the list, its path there and its path from the root.
struct Wanted {
    number: usize,
    listed: Vec<u8>,
    path: Vec<u8>,
    attr: Option<Attr>,
    expected: Option<String>,
}

pub(super) fn sum(args: &SumArgs) -> Result<(), Failure> {
    let list = match &args.check {
        Some(file) => {
            let text = fs::read(file);
            let text =
                text.map_err(|error| Failure::Input(format!("{}: {error}", file.display())))?;
            Some(
                entries(&text)
                    .map_err(|error| Failure::Input(format!("{}: {error}", file.display())))?,
            )
        }
        None => None,
    };
    with_file_system(&args.url, &args.client, |files| {
        let top = without_slash(&args.url.path);
        let rows = Mutex::new(BTreeMap::new());
        let work = |wanted: Wanted| {
            let row = row_of(files, &wanted)?;
            rows.lock().unwrap_or_else(PoisonError::into_inner).insert(wanted.number, row);
            Ok(())
        };
        let mut walk = Walk::new(files, false);
        let done = match &list {
            Some(list) => in_parallel(
                |give| {
                    list.iter().enumerate().try_for_each(|(number, (sum, path))| {
                        give(Wanted {
                            number,
                            listed: path.clone(),
                            path: join(top, path),
                            attr: None,
                            expected: Some(sum.clone()),
                        })
                    })
                },
                work,
            )?,
            None => in_parallel(|give| feed(args, &mut walk, top, give), work)?,
        };
        let rows: Vec<Row> =
            rows.into_inner().unwrap_or_else(PoisonError::into_inner).into_values().collect();
        let good = rows.iter().all(|row| row.ok != Some(false));
        match args.json {
            true => print_json(&rows)?,
            false => print_bytes(
                &rows.iter().flat_map(|row| line(row, args.quiet)).collect::<Vec<u8>>(),
            )?,
        }
        if done && good && !walk.failed { Ok(()) } else { Err(Failure::Reported(1)) }
    })
}

/// Finds the files whose sums are wanted.
fn feed(
    args: &SumArgs,
    walk: &mut Walk<'_>,
    top: &[u8],
    give: &mut dyn FnMut(Wanted) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let attr = walk.files.walk(&args.url.path)?;
    if attr.is_dir() && !args.recursive {
        let error = "is a directory; --recursive sums its files";
        return Err(format!("{}: {error}", shown(top)).into());
    }
    let mut number = 0;
    walk.visit(top, &attr, 0, &mut |path, attr, depth| {
        if depth > 0 && !attr.is_file() {
            return Ok(true);
        }
        let below = path.get(top.len()..).unwrap_or_default();
        let listed = match depth {
            0 => path.rsplit(|byte| *byte == b'/').next().unwrap_or_default(),
            _ => below.strip_prefix(b"/").unwrap_or(below),
        };
        if !attr.is_dir() {
            number += 1;
            give(Wanted {
                number,
                listed: listed.to_owned(),
                path: path.to_owned(),
                attr: Some(attr.clone()),
                expected: None,
            })?;
        }
        Ok(true)
    })
}

fn row_of(files: &FileSystem, wanted: &Wanted) -> Result<Row, Failure> {
    let path = &wanted.path;
    let attr = match &wanted.attr {
        Some(attr) => attr.clone(),
        None => files.walk(path)?,
    };
    let named = shown(path);
    let file = open(files, &attr, &named)?;
    let mut sum = Sha256Sum::default();
    let read = file.read_all(|bytes| {
        sum.add(bytes);
        Ok::<_, Failure>(())
    });
    let closed = file.close();
    read.map_err(|failure| match failure {
        Failure::Failed(error) => Failure::Failed(format!("{named}: {error}")),
        other => other,
    })?;
    closed.map_err(|error| error.at(path))?;
    let sha256 = sum.text();
    let ok = wanted.expected.as_ref().map(|expected| *expected == sha256);
    Ok(Row { path: wanted.listed.clone(), sha256, ok })
}

fn line(row: &Row, quiet: bool) -> Vec<u8> {
    let (escaped, path) = escaped(&row.path);
    let start = if escaped { "\\" } else { "" };
    let (before, after) = match row.ok {
        None => (format!("{start}{}  ", row.sha256), ""),
        Some(true) if quiet => return Vec::new(),
        Some(true) => (start.to_owned(), ": OK"),
        Some(false) => (start.to_owned(), ": FAILED"),
    };
    [before.as_bytes(), &path, after.as_bytes(), b"\n"].concat()
}

/// What a backslash stands for together with the next byte, in lines that begin with one.
const ESCAPES: [(u8, u8); 3] = [(b'\\', b'\\'), (b'n', b'\n'), (b'r', b'\r')];

/// A path as sha256sum writes it: one that would break the line is escaped, other bytes are written
/// as they are. Whether it is escaped.
fn escaped(path: &[u8]) -> (bool, Vec<u8>) {
    let mut out = Vec::with_capacity(path.len());
    for byte in path {
        match ESCAPES.iter().find(|(_, meant)| meant == byte) {
            Some((written, _)) => out.extend([b'\\', *written]),
            None => out.push(*byte),
        }
    }
    (out.len() > path.len(), out)
}

/// The path that is meant; none if something is escaped that needs not be.
fn unescaped(text: &[u8]) -> Option<Vec<u8>> {
    let mut path = Vec::with_capacity(text.len());
    let mut bytes = text.iter();
    while let Some(byte) = bytes.next() {
        path.push(match byte {
            b'\\' => {
                let next = bytes.next()?;
                ESCAPES.iter().find(|(written, _)| written == next)?.1
            }
            other => *other,
        });
    }
    Some(path)
}

/// The sums and paths of a list.
fn entries(text: &[u8]) -> Result<Vec<(String, Vec<u8>)>, String> {
    let lines = text.split(|byte| *byte == b'\n');
    let lines = lines.map(|line| line.strip_suffix(b"\r").unwrap_or(line)).enumerate();
    let of = |(number, line): (usize, &[u8])| {
        let wrong = || format!("line {}: use a SHA-256 sum, two spaces and a path", number + 1);
        entry(line).ok_or_else(wrong)
    };
    lines.filter(|(_, line)| !line.is_empty()).map(of).collect()
}

/// The sum and the path of a line.
fn entry(line: &[u8]) -> Option<(String, Vec<u8>)> {
    let rest = line.strip_prefix(b"\\");
    let (sum, path) = rest.unwrap_or(line).split_at_checked(64)?;
    let path = path.strip_prefix(b"  ").or_else(|| path.strip_prefix(b" *"))?;
    let path = if rest.is_some() { unescaped(path)? } else { path.to_owned() };
    let sum = std::str::from_utf8(sum).ok()?;
    let is_entry = sum.bytes().all(|byte| byte.is_ascii_hexdigit()) && !path.is_empty();
    is_entry.then(|| (sum.to_lowercase(), path))
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    #[test]
    fn sums_are_those_of_sha256sum() {
        assert_eq!(Sha256Sum::default().text(), EMPTY);
        let mut sum = Sha256Sum::default();
        sum.add(b"a");
        sum.add(b"bc");
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sum.text(), abc);
    }

    #[test]
    fn lists_are_those_of_sha256sum() {
        let list =
            format!("{EMPTY}  a b\n{} *c/d\n\\{EMPTY}  a\\nb\\\\\\r\n", EMPTY.to_uppercase());
        let found = entries(list.as_bytes()).unwrap();
        let of = |path: &[u8]| (EMPTY.to_owned(), path.to_owned());
        assert_eq!(found, [of(b"a b"), of(b"c/d"), of(b"a\nb\\\r")]);
        let latin = [EMPTY.as_bytes(), b"  \xff\\\r\n"].concat();
        assert_eq!(entries(&latin).unwrap(), [of(b"\xff\\")]);
        for wrong in ["abc  d\n".to_owned(), format!("\\{EMPTY}  a\\b\n"), format!("{EMPTY}  ")] {
            assert!(entries(wrong.as_bytes()).unwrap_err().contains("line 1"), "{wrong}");
        }
    }

    #[test]
    fn names_that_break_lines_are_escaped() {
        let line = |path: &[u8], ok| {
            line(&Row { path: path.to_owned(), sha256: EMPTY.to_owned(), ok }, false)
        };
        let list = format!("\\{EMPTY}  a\\nb\\\\\\r\n");
        assert_eq!(line(b"a\nb\\\r", None), list.as_bytes());
        assert_eq!(line(b"\xff", None), [EMPTY.as_bytes(), b"  \xff\n"].concat());
        assert_eq!(line(b"a\n", Some(true)), b"\\a\\n: OK\n");
    }
}
