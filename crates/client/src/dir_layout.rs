//! Where the names of a directory are.

use lustrine_fswire::fid::Fid;
use lustrine_fswire::layout::{Ea, HashFlags, HashKind, HashWord, Layout, LmvLayout, magic};

use crate::error::ClientError;

/// How the names of a striped directory are spread over its stripes [LAYOUT-11].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DirLayout {
    /// The stripes: directories of their own, each on some metadata target.
    pub(crate) stripes: Vec<Fid>,
    /// Where names are.
    here: Spread,
    /// Where names go that move now; none unless the directory is being restriped.
    to: Option<Spread>,
}

/// How names are spread over a range of stripes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Spread {
    hash: HashKind,
    first: u32,
    count: u32,
}

/// Which directories can have a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Homes {
    /// Where the name is, or is to be.
    pub(crate) first: Fid,
    /// Where it is if it has moved already; none unless the directory is being restriped.
    pub(crate) moved: Option<Fid>,
}

impl DirLayout {
    /// Reads the layout of a directory; none for one whose names are in the directory itself.
    ///
    /// # Errors
    /// When it is malformed, or of a kind in which no name can be found.
    pub(crate) fn parse(ea: &[u8]) -> Result<Option<DirLayout>, ClientError> {
        let bad = |text: &str| Err(ClientError::Directory(text.to_owned()));
        match Ea(ea).layout() {
            // A directory that is not striped can have a default for its new files.
            Ok(None | Some(Layout::LmvUser(_) | Layout::Plain(_) | Layout::Composite(_))) => {
                Ok(None)
            }
            Ok(Some(Layout::Lmv(lmv))) if lmv.header.magic == magic::LMV_STRIPE => Ok(None),
            Ok(Some(Layout::Lmv(lmv))) => DirLayout::of(&lmv),
            Ok(Some(Layout::Foreign(_))) => {
                bad("it is a foreign directory, whose names are not in Lustre")
            }
            Err(error) => bad(&error.to_string()),
        }
    }

    fn of(lmv: &LmvLayout<'_>) -> Result<Option<DirLayout>, ClientError> {
        let bad = |text: String| Err(ClientError::Directory(text));
        let header = &lmv.header;
        let stripes: Vec<Fid> = lmv.stripes.iter().take(header.count as usize).collect();
        if header.count <= 1 && stripes.is_empty() {
            return Ok(None);
        }
        if stripes.len() < header.count as usize {
            return bad(format!("{} of {} stripes", stripes.len(), header.count));
        }
        // A stripe that was lost has no FID.
        if !stripes.iter().all(Fid::is_sane) {
            return bad("a stripe is missing".to_owned());
        }
        let spread = |word: HashWord, first, count| {
            let known = word.kind.stripe_of(b"", count).is_some();
            match known && !word.flags.intersects(HashFlags::BAD_TYPE | HashFlags::LOST) {
                true => Ok(Spread { hash: word.kind, first, count }),
                false => Err(ClientError::Directory(format!("the hash `{word}` is not known"))),
            }
        };
        let (count, offset) = (header.count, header.migrate_offset);
        let (now, before) = (header.hash, header.migrate_hash);
        if !now.flags.contains(HashFlags::MIGRATION) {
            let here = spread(now, 0, count)?;
            return Ok(Some(DirLayout { stripes, here, to: None }));
        }
        if offset == 0 || offset > count {
            return bad(format!("{count} stripes move at {offset}"));
        }
        let (here, to) = if now.flags.contains(HashFlags::SPLIT) {
            (spread(before, 0, offset)?, spread(now, 0, count)?)
        } else if now.flags.contains(HashFlags::MERGE) {
            (spread(now, 0, count)?, spread(before, 0, offset)?)
        } else {
            (spread(before, offset, count - offset)?, spread(now, 0, offset)?)
        };
        Ok(Some(DirLayout { stripes, here, to: Some(to) }))
    }

    /// The stripes that can have a name.
    pub(crate) fn homes(&self, name: &[u8]) -> Homes {
        let stripe = |spread: &Spread| {
            let stripe = spread.hash.stripe_of(name, spread.count).expect("the hash is known");
            self.stripes[(spread.first + stripe) as usize]
        };
        let first = stripe(&self.here);
        let moved = self.to.as_ref().map(stripe).filter(|moved| *moved != first);
        Homes { first, moved }
    }

    /// Whether the directory is being restriped: names move from stripe to stripe.
    pub(crate) fn is_moving(&self) -> bool {
        self.to.is_some()
    }
}

#[cfg(test)]
mod tests {
    use lustrine_fswire::codec::{Wire, Writer};
    use lustrine_fswire::layout::LmvHeader;

    use super::*;

    fn stripe(index: u32) -> Fid {
        Fid::new(0x2_0000_0401 + u64::from(index), 7)
    }

    fn ea(header: LmvHeader, stripes: u32) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut to = Writer::new(&mut bytes);
        LmvHeader { magic: magic::LMV, ..header }.write(&mut to);
        (0..stripes).for_each(|index| stripe(index).write(&mut to));
        bytes
    }

    fn hash(kind: HashKind, flags: HashFlags) -> HashWord {
        HashWord { kind, flags }
    }

    #[test]
    fn a_name_is_in_the_stripe_of_its_hash() {
        let word = hash(HashKind::FNV_1A_64, HashFlags::empty());
        let header = LmvHeader { count: 4, hash: word, ..LmvHeader::default() };
        let layout = DirLayout::parse(&ea(header, 4)).unwrap().expect("it is striped");
        assert_eq!(layout.homes(b"foo"), Homes { first: stripe(3), moved: None });
        assert!(!layout.is_moving());
        let crush = hash(HashKind::CRUSH, HashFlags::FIXED);
        let layout = DirLayout::parse(&ea(LmvHeader { hash: crush, ..header }, 4)).unwrap();
        assert_eq!(layout.unwrap().homes(b"foo").first, stripe(1));
    }

    #[test]
    fn names_that_move_have_two_homes() {
        let fnv = |flags| hash(HashKind::FNV_1A_64, HashFlags::MIGRATION | flags);
        let old = hash(HashKind::ALL_CHARS, HashFlags::empty());
        let header = LmvHeader { count: 4, migrate_offset: 2, ..LmvHeader::default() };
        let homes = |flags| {
            let header = LmvHeader { hash: fnv(flags), migrate_hash: old, ..header };
            DirLayout::parse(&ea(header, 4)).unwrap().unwrap().homes(b"foo")
        };
        // The sum of the bytes of "foo" is even; its FNV-1a is 3 modulo 4.
        let moving = homes(HashFlags::empty());
        assert_eq!(moving, Homes { first: stripe(2), moved: Some(stripe(1)) });
        assert_eq!(homes(HashFlags::SPLIT), Homes { first: stripe(0), moved: Some(stripe(3)) });
        assert_eq!(homes(HashFlags::MERGE), Homes { first: stripe(3), moved: Some(stripe(0)) });
    }

    #[test]
    fn directories_in_which_no_name_can_be_found_are_refused() {
        let word = hash(HashKind::CRUSH, HashFlags::empty());
        let header = LmvHeader { count: 2, hash: word, ..LmvHeader::default() };
        let refused = |header, stripes| {
            matches!(DirLayout::parse(&ea(header, stripes)), Err(ClientError::Directory(_)))
        };
        assert!(!refused(header, 2));
        assert!(refused(header, 1));
        assert!(refused(LmvHeader { count: u32::MAX, ..header }, 2));
        for kind in [HashKind::NONE, HashKind(9)] {
            let word = hash(kind, HashFlags::empty());
            assert!(refused(LmvHeader { hash: word, ..header }, 2));
        }
        let word = hash(HashKind::CRUSH, HashFlags::BAD_TYPE);
        assert!(refused(LmvHeader { hash: word, ..header }, 2));
        let moving = hash(HashKind::CRUSH, HashFlags::MIGRATION);
        for offset in [0, 2, 3] {
            let header = LmvHeader { hash: moving, migrate_offset: offset, ..header };
            assert!(refused(header, 2), "{offset}");
        }
        let mut foreign = magic::LMV_FOREIGN.to_le_bytes().to_vec();
        foreign.extend([1; 28]);
        assert!(DirLayout::parse(&foreign).is_err());
        assert!(DirLayout::parse(b"rubbish!").is_err());
    }

    #[test]
    fn a_directory_with_one_place_is_not_striped() {
        let word = hash(HashKind::CRUSH, HashFlags::empty());
        let header = LmvHeader { count: 0, hash: word, ..LmvHeader::default() };
        assert_eq!(DirLayout::parse(&ea(header, 0)), Ok(None));
        assert_eq!(DirLayout::parse(&[]), Ok(None));
        let mut of_stripe = ea(LmvHeader { count: 2, ..header }, 0);
        of_stripe[..4].copy_from_slice(&magic::LMV_STRIPE.to_le_bytes());
        assert_eq!(DirLayout::parse(&of_stripe), Ok(None));
        // The default layout of its files.
        let mut default = magic::V1.to_le_bytes().to_vec();
        default.extend([1; 28]);
        assert_eq!(DirLayout::parse(&default), Ok(None));
    }
}
