//! `lustrine fs getfattr` and `setfattr`.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser};
use lustrine_fs::{FollowLinks, shown};
use serde::Serialize;

use super::{ClientOptions, Url, with_file_system};
use crate::output::{Failure, print, print_json};

/// Show extended attributes.
#[derive(Args, Debug)]
pub(crate) struct GetfattrArgs {
    /// The file
    url: Url,

    /// Only this attribute, such as user.comment
    #[arg(long, short = 'n')]
    name: Option<OsString>,

    /// Show all attributes, including those of the servers and the system, not only user.*
    #[arg(long, short = 'a')]
    all: bool,

    /// Write the value of one attribute as it is, and nothing else
    #[arg(long, requires = "name", conflicts_with = "json")]
    only_values: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    client: ClientOptions,
}

/// Set or remove an extended attribute.
#[derive(Args, Debug)]
pub(crate) struct SetfattrArgs {
    /// The file
    url: Url,

    /// Set this attribute, such as user.comment
    #[arg(long, short = 'n', required_unless_present = "remove")]
    name: Option<OsString>,

    /// Its value: text, or 0x and hexadecimal digits
    #[arg(long, short = 'v', value_parser = OsStringValueParser::new().try_map(value),
          default_value = "", hide_default_value = true)]
    value: Value,

    /// Remove this attribute
    #[arg(long, short = 'x', conflicts_with_all = ["name", "value"])]
    remove: Option<OsString>,

    #[command(flatten)]
    client: ClientOptions,
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Value(Vec<u8>);

/// An attribute as JSON has it.
#[derive(Serialize)]
struct Row {
    name: String,
    /// Text, if it is UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<String>,
    /// The bytes as hexadecimal digits.
    hex: String,
}

pub(super) fn getfattr(args: &GetfattrArgs) -> Result<(), Failure> {
    let path = args.url.path.as_slice();
    with_file_system(&args.url, &args.client, |files| {
        let attr = files.find(path, FollowLinks::Yes)?;
        let names = match &args.name {
            Some(name) => vec![name.as_bytes().to_vec()],
            None => {
                let mut names = files.listxattr(attr.fid).map_err(|error| error.at(path))?;
                names.retain(|name| args.all || name.starts_with(b"user."));
                names.sort();
                names
            }
        };
        let mut rows = Vec::new();
        let mut text = format!("# file: /{}\n", shown(path));
        for name in &names {
            let value = match files.getxattr(&attr, name) {
                Ok(value) => value,
                // It was removed in the meantime.
                Err(error) if args.name.is_none() && error.errno() == ENODATA => continue,
                Err(error) => return Err(error.at(path).into()),
            };
            if args.only_values {
                return crate::output::print_bytes(&value);
            }
            let name = shown(name);
            text += &format!("{name}={}\n", quoted(&value));
            rows.push(Row { name, value: String::from_utf8(value.clone()).ok(), hex: hex(&value) });
        }
        if args.json { print_json(&rows) } else { print(&text) }
    })
}

pub(super) fn setfattr(args: &SetfattrArgs) -> Result<(), Failure> {
    let path = args.url.path.as_slice();
    with_file_system(&args.url, &args.client, |files| {
        let attr = files.find(path, FollowLinks::Yes)?;
        let done = match (&args.remove, &args.name) {
            (Some(name), _) => files.removexattr(&attr, name.as_bytes()),
            (None, Some(name)) => files.setxattr(&attr, name.as_bytes(), &args.value.0),
            (None, None) => Ok(()),
        };
        done.and_then(|()| files.sync(attr.fid)).map_err(|error| error.at(path))?;
        Ok(())
    })
}

const ENODATA: i32 = 61;

fn value(text: OsString) -> Result<Value, String> {
    let text = text.into_vec();
    let Some(digits) = text.strip_prefix(b"0x") else {
        return Ok(Value(text));
    };
    let pairs = digits.chunks(2).map(|pair| {
        let text = std::str::from_utf8(pair).ok().filter(|text| text.len() == 2)?;
        if text.starts_with('+') { None } else { u8::from_str_radix(text, 16).ok() }
    });
    let bytes: Option<Vec<u8>> = pairs.collect();
    bytes.map(Value).ok_or_else(|| "use two hexadecimal digits for each byte".to_owned())
}

/// A value as getfattr shows it: text in quotes, anything else as hexadecimal digits.
fn quoted(value: &[u8]) -> String {
    match std::str::from_utf8(value) {
        Ok(text) if !text.chars().any(char::is_control) => {
            format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
        }
        _ => format!("0x{}", hex(value)),
    }
}

fn hex(value: &[u8]) -> String {
    value.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_text_or_digits() {
        assert_eq!(value("abc".into()), Ok(Value(b"abc".to_vec())));
        assert_eq!(value("0x00ff".into()), Ok(Value(vec![0, 255])));
        assert_eq!(value(OsString::from_vec(vec![255])), Ok(Value(vec![255])));
        for wrong in ["0x0", "0xzz", "0x+1"] {
            assert!(value(wrong.into()).is_err(), "{wrong}");
        }
        assert_eq!(quoted(b"a\"b"), "\"a\\\"b\"");
        assert_eq!(quoted(b"\0\xff"), "0x00ff");
    }
}
