//! How a user names a file of a file system.

use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

use lustrine_wire::nid::{Net, Nid};

use crate::shown::shown;

/// A file of a file system: `lustre://10.0.0.9@tcp/lustre/path`, or as `mount -t lustre` has it,
/// `10.0.0.9@tcp:/lustre/path`. Several NIDs of the management server are separated by `,`, those
/// of another node of it by `:`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FsUrl {
    /// The NIDs of the management server, the preferred one first. At least one.
    pub mgs: Vec<Nid>,
    /// The name of the file system, 1 to 8 characters.
    pub fsname: String,
    /// The path from the root of the file system, without a slash at the start. Names are bytes,
    /// and need not be UTF-8.
    pub path: Vec<u8>,
}

/// Why a text does not name a file of a file system.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// It has neither form.
    #[error(
        "`{0}` does not name a file of a Lustre file system; expected a name such as \
         lustre://10.0.0.9@tcp/lustre/path or 10.0.0.9@tcp:/lustre/path"
    )]
    BadForm(String),
    /// A NID is malformed.
    #[error("`{text}` is not a NID such as 10.0.0.9@tcp: {why}")]
    BadNid {
        /// The text.
        text: String,
        /// What is wrong with it.
        why: String,
    },
    /// The name of the file system is missing or too long.
    #[error("`{0}` is not the name of a file system: it has 1 to 8 letters, digits, `_` and `-`")]
    BadName(String),
}

impl FsUrl {
    /// Whether another URL names a file of the same file system, with the same management server.
    pub fn is_same_file_system(&self, other: &FsUrl) -> bool {
        (&self.mgs, &self.fsname) == (&other.mgs, &other.fsname)
    }

    /// Reads a URL whose path need not be UTF-8.
    ///
    /// # Errors
    /// When it has neither form, or what is before the path is malformed.
    pub fn from_bytes(text: &[u8]) -> Result<FsUrl, UrlError> {
        let bad_form = || UrlError::BadForm(shown(text));
        // Up to the first slash, in the second form behind a colon.
        let (start, before) = match text.strip_prefix(SCHEME.as_bytes()) {
            Some(_) => (SCHEME.len(), &b"/"[..]),
            None => (0, &b":/"[..]),
        };
        let rest = &text[start..];
        let end = rest.windows(before.len()).position(|part| part == before);
        let end = end.ok_or_else(bad_form)?;
        let nids = std::str::from_utf8(&rest[..end]).map_err(|_| bad_form())?;
        let rest = &rest[end + before.len()..];
        let fsname_end = rest.iter().position(|byte| *byte == b'/').unwrap_or(rest.len());
        let (fsname, path) = rest.split_at(fsname_end);
        let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_' || *byte == b'-';
        let fsname = match std::str::from_utf8(fsname) {
            Ok(name) if (1..=FSNAME_MAX).contains(&name.len()) && fsname.iter().all(is_name) => {
                name.to_owned()
            }
            _ => return Err(UrlError::BadName(shown(fsname))),
        };
        let mgs = nids_of(nids)?;
        if mgs.is_empty() {
            return Err(bad_form());
        }
        let slashes = path.iter().take_while(|byte| **byte == b'/').count();
        Ok(FsUrl { mgs, fsname, path: path[slashes..].to_vec() })
    }
}

/// Longest name of a file system in bytes.
const FSNAME_MAX: usize = 8;
const SCHEME: &str = "lustre://";

impl FromStr for FsUrl {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<FsUrl, UrlError> {
        FsUrl::from_bytes(text.as_bytes())
    }
}

/// The NIDs of a list with `,` and `:`. An address without a network is one of `tcp`, as for the
/// tools of LNet. The colons of IPv6 addresses separate nothing: a part without an `@` belongs to
/// the next one if it is no IPv4 address.
fn nids_of(text: &str) -> Result<Vec<Nid>, UrlError> {
    let mut nids = Vec::new();
    for list in text.split(',').filter(|list| !list.is_empty()) {
        let mut part = String::new();
        for piece in list.split(':') {
            if !part.is_empty() {
                part.push(':');
            }
            let is_ipv4 = part.is_empty() && piece.parse::<Ipv4Addr>().is_ok();
            part.push_str(piece);
            if is_ipv4 {
                part.push_str("@tcp");
            }
            if part.contains('@') {
                let text = std::mem::take(&mut part);
                let nid = text
                    .parse()
                    .map_err(|error| UrlError::BadNid { text, why: format!("{error}") })?;
                nids.push(nid);
            }
        }
        if let Ok(ip) = part.parse() {
            nids.push(Nid::from_ip(Net::TCP, ip));
        } else if !part.is_empty() {
            let why = "it is no IP address and has no network".to_owned();
            return Err(UrlError::BadNid { text: part, why });
        }
    }
    Ok(nids)
}

impl fmt::Display for FsUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(SCHEME)?;
        for (index, nid) in self.mgs.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            write!(f, "{comma}{nid}")?;
        }
        write!(f, "/{}/{}", self.fsname, shown(&self.path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> (Vec<String>, String, String) {
        let url: FsUrl = text.parse().unwrap();
        (url.mgs.iter().map(ToString::to_string).collect(), url.fsname, shown(&url.path))
    }

    #[test]
    fn both_forms_are_read() {
        let one =
            |path: &str| (vec!["10.0.0.9@tcp".to_owned()], "lustre".to_owned(), path.to_owned());
        assert_eq!(parsed("lustre://10.0.0.9@tcp/lustre/a/b"), one("a/b"));
        assert_eq!(parsed("lustre://10.0.0.9@tcp/lustre"), one(""));
        assert_eq!(parsed("10.0.0.9@tcp:/lustre//a/"), one("a/"));
        let nids = |text: &str| parsed(text).0;
        assert_eq!(nids("10.0.0.9@tcp,10.0.1.9@tcp1:10.0.0.8@tcp:/lustre").len(), 3);
        assert_eq!(
            nids("lustre://fe80::9@tcp,10.0.0.1@tcp/lustre/x"),
            ["fe80::9@tcp", "10.0.0.1@tcp"]
        );
        assert_eq!(nids("fe80::9@tcp:fe80::8@tcp:/lustre"), ["fe80::9@tcp", "fe80::8@tcp"]);
        assert_eq!(nids("10.0.0.9:/lustre"), ["10.0.0.9@tcp"]);
        assert_eq!(nids("fe80::9,10.0.0.8:10.0.0.7@tcp1:/lustre").len(), 3);
        assert_eq!(nids("fe80::9:/lustre"), ["fe80::9@tcp"]);
    }

    #[test]
    fn other_texts_are_refused_with_the_reason() {
        let error = |text: &str| text.parse::<FsUrl>().unwrap_err().to_string();
        assert!(error("/mnt/lustre").contains("does not name a file"));
        assert!(error("lustre:///lustre/x").contains("does not name a file"));
        assert!(error("lustre://mgs/lustre").contains("no IP address and has no network"));
        assert!(error("lustre://300.0.0.9@tcp/lustre").contains("is not a NID"));
        assert!(error("10.0.0.9@tcp:/ninechars/x").contains("1 to 8 letters"));
        assert!(error("10.0.0.9@tcp:/").contains("1 to 8 letters"));
    }

    #[test]
    fn a_path_need_not_be_utf_8() {
        let url = FsUrl::from_bytes(b"lustre://10.0.0.9@tcp/lustre/a\xff/b").unwrap();
        assert_eq!(url.path, b"a\xff/b");
        assert_eq!(url.to_string(), "lustre://10.0.0.9@tcp/lustre/a\\xff/b");
        assert!(FsUrl::from_bytes(b"lustre://10.0.0.9@tcp/lus\xff/b").is_err());
        assert!(FsUrl::from_bytes(b"\xff:/lustre").is_err());
    }

    #[test]
    fn a_url_is_written_as_it_is_read() {
        for text in ["lustre://10.0.0.9@tcp,10.0.1.9@tcp1/lustre/a/b", "lustre://10.0.0.9@tcp/x/"] {
            let url: FsUrl = text.parse().unwrap();
            assert_eq!(url.to_string(), text);
        }
    }
}
