//! Permissions and owners as `chmod` and `chown` take them.

use std::fs;
use std::str::FromStr;

/// How permissions change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ModeChange {
    /// To these bits.
    To(u32),
    /// By these clauses, in order.
    By(Vec<Clause>),
}

/// A clause of a symbolic mode: `ug+rw`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Clause {
    /// The bits that it may change; none: all but those of the umask.
    who: Option<u32>,
    /// `+`, `-` or `=`.
    op: u8,
    /// The bits, as if for all users.
    bits: u32,
    /// Whether `X` was among them: execution of directories, and of files that have it.
    conditional: bool,
}

const EXECUTE: u32 = 0o111;
const TYPE_DIRECTORY: u32 = 0o040_000;

impl FromStr for ModeChange {
    type Err = String;

    fn from_str(text: &str) -> Result<ModeChange, String> {
        if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
            let bits = u32::from_str_radix(text, 8).ok().filter(|bits| *bits <= 0o7777);
            let bits = bits.ok_or("octal permissions are 0 to 7777")?;
            return Ok(ModeChange::To(bits));
        }
        let mut clauses = Vec::new();
        for clause in text.split(',') {
            let end = clause.find(['+', '-', '=']);
            let end = end.ok_or("use octal permissions such as 640, or symbolic ones: u+rw")?;
            let mut who = 0;
            for c in clause[..end].chars() {
                who |= match c {
                    'u' => 0o4700,
                    'g' => 0o2070,
                    'o' => 0o0007,
                    'a' => 0o7777,
                    other => return Err(format!("`{other}` is not one of u, g, o and a")),
                };
            }
            // The sticky bit belongs to all.
            let who = (who != 0).then_some(who | 0o1000);
            let mut rest = &clause[end..];
            while let Some(op) = rest.bytes().next() {
                let end = rest[1..].find(['+', '-', '=']).map_or(rest.len(), |end| end + 1);
                let mut part = Clause { who, op, bits: 0, conditional: false };
                for c in rest[1..end].chars() {
                    part.bits |= match c {
                        'r' => 0o444,
                        'w' => 0o222,
                        'x' => EXECUTE,
                        's' => 0o6000,
                        't' => 0o1000,
                        'X' => {
                            part.conditional = true;
                            0
                        }
                        other => return Err(format!("`{other}` is not one of r, w, x, X, s, t")),
                    };
                }
                clauses.push(part);
                rest = &rest[end..];
            }
        }
        Ok(ModeChange::By(clauses))
    }
}

impl ModeChange {
    /// The permissions of a file of this mode, type included, after the change.
    pub(super) fn of(&self, mode: u32, umask: u32) -> u32 {
        let clauses = match self {
            // As coreutils: the number keeps the set-id bits of a directory that it does not set.
            ModeChange::To(bits) if mode & 0o170_000 == TYPE_DIRECTORY => {
                return bits | mode & 0o6000;
            }
            ModeChange::To(bits) => return *bits,
            ModeChange::By(clauses) => clauses,
        };
        let is_dir = mode & 0o170_000 == TYPE_DIRECTORY;
        clauses.iter().fold(mode & 0o7777, |mode, clause| {
            let mut bits = clause.bits;
            if clause.conditional && (is_dir || mode & EXECUTE != 0) {
                bits |= EXECUTE;
            }
            let who = clause.who.unwrap_or(!umask & 0o7777);
            let bits = bits & who;
            match clause.op {
                b'+' => mode | bits,
                b'-' => mode & !bits,
                _ => {
                    // What is set for some users leaves the others, and the sticky bit unless for
                    // all; a directory keeps its set-id bits.
                    let mut cleared = clause.who.unwrap_or(0o7777);
                    if clause.who.is_some_and(|who| who & 0o777 != 0o777) {
                        cleared &= !0o1000;
                    }
                    if is_dir {
                        cleared &= !0o6000;
                    }
                    mode & !cleared | bits
                }
            }
        })
    }
}

/// A new owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) uid: Option<u32>,
    pub(super) gid: Option<u32>,
}

impl FromStr for Owner {
    type Err = String;

    fn from_str(text: &str) -> Result<Owner, String> {
        let (user, group) = text.split_once(':').unwrap_or((text, ""));
        if user.is_empty() && group.is_empty() {
            return Err("use USER, USER:GROUP or :GROUP".to_owned());
        }
        let of = |name: &str, what: &str, table: &str| match name {
            "" => Ok(None),
            name => id_of(name, &fs::read_to_string(table).unwrap_or_default())
                .map(Some)
                .ok_or_else(|| format!("{table} has no {what} `{name}`; use its number")),
        };
        Ok(Owner { uid: of(user, "user", "/etc/passwd")?, gid: of(group, "group", "/etc/group")? })
    }
}

/// A number, or the number of a name in a table such as `/etc/passwd`.
fn id_of(name: &str, table: &str) -> Option<u32> {
    // 2^32 - 1 means "unchanged" everywhere.
    if let Ok(number) = name.parse() {
        return Some(number).filter(|number| *number != u32::MAX);
    }
    table.lines().find_map(|line| {
        let mut fields = line.split(':');
        let found = fields.next() == Some(name);
        let number = fields.nth(1)?;
        if found { number.parse().ok() } else { None }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(text: &str, mode: u32) -> u32 {
        text.parse::<ModeChange>().unwrap().of(mode, 0o022)
    }

    #[test]
    fn modes_change_as_with_coreutils() {
        // Each was tried with chmod of coreutils 9.
        let (file, dir) = (0o100_640, 0o042_750);
        for (text, mode, expected) in [
            ("755", file, 0o755),
            ("755", dir, 0o2755),
            ("0", file, 0),
            ("u+x", file, 0o740),
            ("go-r", file, 0o600),
            ("a=r", file, 0o444),
            ("=r", file, 0o444),
            ("+w", file, 0o640),
            ("o=rwx,g-r", file, 0o607),
            ("+X", file, 0o640),
            ("+X", 0o100_740, 0o751),
            ("+X", dir, 0o2751),
            ("u=rw-w+s", file, 0o4440),
            ("g=rx", dir, 0o2750),
            ("+t", dir, 0o3750),
            ("ug=,o=", file, 0),
        ] {
            assert_eq!(changed(text, mode), expected, "{text} of {mode:o}");
        }
        for wrong in ["", "u", "8", "17777", "u+q", "z+r", "rw"] {
            assert!(wrong.parse::<ModeChange>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn owners_are_numbers_or_names() {
        let both = Owner { uid: Some(7), gid: Some(8) };
        assert_eq!("7:8".parse(), Ok(both));
        assert_eq!("root".parse(), Ok(Owner { uid: Some(0), gid: None }));
        assert_eq!(":root".parse(), Ok(Owner { uid: None, gid: Some(0) }));
        assert!("".parse::<Owner>().is_err() && ":".parse::<Owner>().is_err());
        assert!("no-such-user".parse::<Owner>().is_err());
        assert!("4294967295".parse::<Owner>().is_err());
        assert_eq!(id_of("me", "you:x:1:\nme:x:5:6\n"), Some(5));
    }
}
