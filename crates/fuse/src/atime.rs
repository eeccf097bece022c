//! When a read changes the time of the last access.

use lustrine_client::Attr;

/// When a read changes the time of the last access. The servers learn of it at the close.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AtimeRule {
    /// When the old one is not later than the last change of the file, or is a day old.
    #[default]
    Relative,
    /// Always.
    Strict,
    /// Never.
    Never,
}

/// Seconds of a day.
const DAY: i64 = 86_400;

impl AtimeRule {
    /// The time to set after a read at `now`, in seconds since 1970; none if it stays.
    pub(crate) fn after_read(self, attr: &Attr, now: i64) -> Option<i64> {
        let changes = match self {
            AtimeRule::Never => false,
            AtimeRule::Strict => true,
            AtimeRule::Relative => {
                attr.atime <= attr.mtime.max(attr.ctime) || now.saturating_sub(attr.atime) >= DAY
            }
        };
        (changes && now > attr.atime).then_some(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rules_are_those_of_mount() {
        let attr = |atime, mtime| Attr { atime, mtime, ctime: mtime, ..Attr::default() };
        let now = 1_000_000;
        let relative = |atime, mtime| AtimeRule::Relative.after_read(&attr(atime, mtime), now);
        assert_eq!(relative(999_000, 999_500), Some(now));
        assert_eq!(relative(999_500, 999_000), None);
        assert_eq!(relative(now - DAY, 0), Some(now));
        assert_eq!(AtimeRule::Strict.after_read(&attr(999_500, 999_000), now), Some(now));
        assert_eq!(AtimeRule::Never.after_read(&attr(0, 5), now), None);
        // Time never goes back.
        assert_eq!(AtimeRule::Strict.after_read(&attr(now + 5, 0), now), None);
    }
}
