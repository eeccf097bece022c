//! Which stripe of a directory has a name [LAYOUT-11].

use super::HashKind;

/// Groups of names that CRUSH spreads over stripes.
const GROUPS: u64 = 4096;
/// Length of the random suffix that rsync adds to a hidden name while it copies.
const RSYNC_SUFFIX: usize = 6;
/// Length of the random suffix of other temporary files.
const TEMPORARY_SUFFIX: usize = 8;

impl HashKind {
    /// The stripe, less than `count`, that has a name. None for a kind that is not known, or for
    /// no stripes.
    pub fn stripe_of(self, name: &[u8], count: u32) -> Option<u32> {
        let stripes = u64::from(count);
        if stripes == 0 {
            return None;
        }
        let stripe = match self {
            HashKind::ALL_CHARS => {
                let sum = name.iter().fold(0u64, |sum, byte| sum + u64::from(*byte));
                (sum % stripes) as u32
            }
            HashKind::FNV_1A_64 => (fnv_1a_64(name) % stripes) as u32,
            HashKind::CRUSH | HashKind::CRUSH2 => {
                let group = (fnv_1a_64(lasting(self, name)) % GROUPS) as u32;
                // The first one of the highest scores.
                let best = (0..count)
                    .max_by_key(|stripe| (score(group, *stripe), core::cmp::Reverse(*stripe)));
                best?
            }
            _ => return None,
        };
        Some(stripe)
    }
}

/// FNV-1a with 64 bits.
fn fnv_1a_64(name: &[u8]) -> u64 {
    let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    name.iter().fold(0xcbf2_9ce4_8422_2325, mix)
}

/// How much a group of names is drawn to a stripe: Jenkins' hash of two words.
fn score(group: u32, stripe: u32) -> u32 {
    let (mut a, mut b) = (group, stripe);
    let mut hash = 1_315_423_911 ^ a ^ b;
    let (mut x, mut y) = (231_232, 1_232);
    mix(&mut a, &mut b, &mut hash);
    mix(&mut x, &mut a, &mut hash);
    mix(&mut b, &mut y, &mut hash);
    hash
}

/// Jenkins' mix of three words.
fn mix(a: &mut u32, b: &mut u32, c: &mut u32) {
    for (first, second, third) in [(13, 8, 13), (12, 16, 5), (3, 10, 15)] {
        *a = a.wrapping_sub(*b).wrapping_sub(*c) ^ (*c >> first);
        *b = b.wrapping_sub(*c).wrapping_sub(*a) ^ (*a << second);
        *c = c.wrapping_sub(*a).wrapping_sub(*b) ^ (*b >> third);
    }
}

/// The part of a name that counts for CRUSH: a temporary name goes where the name goes that it
/// will be renamed to, and a backup where its original is.
fn lasting(kind: HashKind, name: &[u8]) -> &[u8] {
    if let [b'.', rest @ ..] = name
        && let Some(lasting) = without_suffix(kind, rest, RSYNC_SUFFIX)
    {
        return lasting;
    }
    if let Some(lasting) = without_suffix(kind, name, TEMPORARY_SUFFIX) {
        return lasting;
    }
    if let [rest @ .., before, b'~'] = name
        && *before != b'.'
    {
        return &name[..=rest.len()];
    }
    for extension in [&b".bak"[..], b".sav", b".orig"] {
        if name.len() > extension.len()
            && let (rest, end) = name.split_at(name.len() - extension.len())
            && end.eq_ignore_ascii_case(extension)
        {
            return rest;
        }
    }
    name
}

/// A name of at least one byte, without a dot and a random suffix of a length behind it.
fn without_suffix(kind: HashKind, name: &[u8], len: usize) -> Option<&[u8]> {
    let dot = name.len().checked_sub(len + 1)?;
    let (rest, suffix) = (&name[..dot], &name[dot + 1..]);
    if rest.is_empty() || name[dot] != b'.' {
        return None;
    }
    let count = |is: fn(&u8) -> bool| suffix.iter().filter(|byte| is(byte)).count();
    let digits = count(u8::is_ascii_digit);
    // It is no random one if it is a word, or nearly a number.
    let word = count(u8::is_ascii_uppercase) == len || count(u8::is_ascii_lowercase) == len;
    let starts_with_digit = suffix[0].is_ascii_digit();
    let random = match kind {
        HashKind::CRUSH2 => {
            let letters = suffix.iter().all(u8::is_ascii_alphanumeric);
            letters && (digits < len - 1 || !starts_with_digit)
        }
        _ => digits < len - 1 || starts_with_digit,
    };
    (!word && random).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(kind: HashKind, names: &[&str], count: u32) -> Vec<u32> {
        names.iter().map(|name| kind.stripe_of(name.as_bytes(), count).unwrap()).collect()
    }

    #[test]
    fn names_go_where_servers_put_them() {
        assert_eq!(of(HashKind::FNV_1A_64, &["foo", "bar", "file.0001"], 4), [3, 2, 0]);
        assert_eq!(of(HashKind::CRUSH, &["foo", "bar"], 4), [1, 3]);
        assert_eq!(of(HashKind::CRUSH2, &["file.0001"], 4), [1]);
        assert_eq!(of(HashKind::ALL_CHARS, &["a", "b", "ab"], 2), [1, 0, 1]);
        // As a server of 2.17 created them (`fs/t5_dne_striped_dir`).
        assert_eq!(of(HashKind::FNV_1A_64, &["x1", "x2", "x3", "x4"], 2), [0, 1, 0, 1]);
    }

    #[test]
    fn temporary_names_and_backups_go_where_their_files_are() {
        let same = |kind, name: &str, as_name: &str| {
            assert_eq!(lasting(kind, name.as_bytes()), as_name.as_bytes(), "{name}");
        };
        for kind in [HashKind::CRUSH, HashKind::CRUSH2] {
            same(kind, ".movie.mpg.aB3dE6", "movie.mpg");
            same(kind, "paper.Xy12zzQ9", "paper");
            same(kind, ".a.lowers", ".a.lowers");
            same(kind, ".a.UPPERS", ".a.UPPERS");
            same(kind, "paper.document", "paper.document");
            for backup in ["paper~", "paper.bak", "paper.ORIG", "paper.Sav"] {
                same(kind, backup, "paper");
            }
            for name in ["~", "a.~", ".bak", ".aB3dE6", "."] {
                same(kind, name, name);
            }
        }
        // Dates, and numbers with one letter.
        same(HashKind::CRUSH2, "log.20260101", "log.20260101");
        same(HashKind::CRUSH, "log.20260101", "log");
        same(HashKind::CRUSH2, "log.a2026010", "log");
        same(HashKind::CRUSH, "log.a2026010", "log.a2026010");
        same(HashKind::CRUSH2, "log.a-B_c1d2", "log.a-B_c1d2");
        same(HashKind::CRUSH, "log.a-B_c1d2", "log");
    }

    #[test]
    fn an_unknown_kind_has_no_stripe() {
        assert_eq!(HashKind::NONE.stripe_of(b"a", 2), None);
        assert_eq!(HashKind(7).stripe_of(b"a", 2), None);
        assert_eq!(HashKind::CRUSH.stripe_of(b"a", 0), None);
    }
}
