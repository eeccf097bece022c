//! Names that differ by a number, as `rank.0007` and `rank.0008` do. A program that asks for them
//! in the order of the numbers will most likely ask for the next ones too. Kernel clients guess so
//! after seven names.

use lustrine_fswire::fid::Fid;

/// How many files are asked for ahead at first: as many as by kernel clients.
pub(super) const WINDOW_MIN: usize = 8;
/// Fewer are not asked for unless they are the last ones: servers look up several names with one
/// request.
pub(super) const STEP_MIN: usize = 8;
/// Most series of names that are remembered.
const SERIES_MAX: usize = 8;
/// A program asks for as many names of a series before others are asked for ahead: as many as by
/// kernel clients of 2.17.
const FOLLOWED_MIN: usize = 7;

/// A name with a number: its last digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct NumberedName<'a> {
    before: &'a [u8],
    digits: &'a [u8],
    after: &'a [u8],
    number: u64,
}

impl<'a> NumberedName<'a> {
    /// None if there is no number, or one that is too large.
    fn parse(name: &'a [u8]) -> Option<NumberedName<'a>> {
        let end = name.iter().rposition(u8::is_ascii_digit)? + 1;
        let start = name[..end].iter().rposition(|byte| !byte.is_ascii_digit());
        let start = start.map_or(0, |at| at + 1);
        let digits = &name[start..end];
        let number = core::str::from_utf8(digits).ok()?.parse().ok()?;
        Some(NumberedName { before: &name[..start], digits, after: &name[end..], number })
    }
}

/// Names of a directory that differ by a number, and how far a program has asked for them.
struct Series {
    dir: Fid,
    before: Box<[u8]>,
    after: Box<[u8]>,
    /// Fewest digits of a number: with zeros in front, if it is more than one.
    width: usize,
    /// The number that the program asked for last.
    last: u64,
    /// What it has added each time; 0 after the first name.
    step: u64,
    /// How many names it asked for in their order.
    followed: usize,
    /// The largest number that was asked for ahead.
    asked: u64,
    /// How many names may be asked for ahead.
    window: usize,
    /// The smallest number ahead of the program that is missing.
    end: Option<u64>,
}

impl Series {
    fn new(dir: Fid, name: NumberedName<'_>) -> Series {
        Series {
            dir,
            before: name.before.into(),
            after: name.after.into(),
            width: if name.digits[0] == b'0' { name.digits.len() } else { 1 },
            last: name.number,
            step: 0,
            followed: 1,
            asked: name.number,
            window: WINDOW_MIN,
            end: None,
        }
    }

    /// Whether a name can be of this series.
    fn has(&self, dir: Fid, name: NumberedName<'_>) -> bool {
        let digits = name.number.checked_ilog10().unwrap_or(0) as usize + 1;
        self.dir == dir
            && *self.before == *name.before
            && *self.after == *name.after
            && name.digits.len() == digits.max(self.width)
    }

    fn name(&self, number: u64) -> Box<[u8]> {
        let digits = format!("{number:0width$}", width = self.width);
        [&self.before, digits.as_bytes(), &self.after].concat().into_boxed_slice()
    }

    /// A program asks for a number of the series. The names to ask for ahead.
    fn follow(&mut self, number: u64, most: usize) -> Vec<Box<[u8]>> {
        if number == self.last {
            return Vec::new();
        }
        // 0 if the program went back.
        let step = number.saturating_sub(self.last);
        self.last = number;
        self.end = self.end.filter(|end| number < *end);
        if step == self.step && step > 0 {
            self.followed += 1;
        } else {
            self.step = step;
            self.followed = if step == 0 { 1 } else { 2 };
            self.asked = number;
            self.window = WINDOW_MIN;
        }
        let until = self.window.min(most);
        let asked = self.asked.saturating_sub(number).checked_div(self.step).unwrap_or(0) as usize;
        if self.followed < FOLLOWED_MIN || until.saturating_sub(asked) < STEP_MIN.min(most).max(1) {
            return Vec::new();
        }
        let numbers = (asked + 1..=until).filter_map(|at| {
            let further = self.step.checked_mul(at as u64)?;
            number.checked_add(further)
        });
        let numbers = numbers.take_while(|number| self.end.is_none_or(|end| *number < end));
        let numbers: Vec<u64> = numbers.collect();
        self.asked = numbers.last().copied().unwrap_or(self.asked);
        self.window = self.window.saturating_mul(2).min(most);
        numbers.into_iter().map(|number| self.name(number)).collect()
    }
}

/// Series of names that programs ask for.
#[derive(Default)]
pub(super) struct NumberedNames {
    /// The one that was used last is the last one.
    series: Vec<Series>,
}

impl NumberedNames {
    /// A program asks for a name. The names to ask for ahead, which need not be there.
    pub(super) fn follow(&mut self, dir: Fid, name: &[u8], most: usize) -> Vec<Box<[u8]>> {
        let Some(name) = NumberedName::parse(name).filter(|_| most > 0) else { return Vec::new() };
        let Some(at) = self.series.iter().position(|one| one.has(dir, name)) else {
            if self.series.len() == SERIES_MAX {
                self.series.remove(0);
            }
            self.series.push(Series::new(dir, name));
            return Vec::new();
        };
        self.series[at..].rotate_left(1);
        self.series.last_mut().map(|one| one.follow(name.number, most)).unwrap_or_default()
    }

    /// There is no file of this name: the series ends there, in whatever directory it is. If the
    /// program has come so far, it looks for names that are free, or makes files.
    pub(super) fn note_missing(&mut self, name: &[u8]) {
        let Some(name) = NumberedName::parse(name) else { return };
        self.series.retain_mut(|one| {
            if one.has(one.dir, name) {
                one.end = Some(one.end.map_or(name.number, |end| end.min(name.number)));
            }
            one.end.is_none_or(|end| one.last < end)
        });
    }

    /// Nothing is known of a directory any more.
    pub(super) fn forget(&mut self, dir: Fid) {
        self.series.retain(|one| one.dir != dir);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIR: Fid = Fid::new(1 << 34, 7);

    fn ask(names: &mut NumberedNames, name: &str) -> Vec<String> {
        let ahead = names.follow(DIR, name.as_bytes(), 64);
        ahead.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect()
    }

    fn numbered(range: core::ops::Range<u32>) -> Vec<String> {
        range.map(|number| format!("f{number}.dat")).collect()
    }

    #[test]
    fn the_number_of_a_name_is_its_last_digits() {
        let of = |name: &'static str| {
            let found = NumberedName::parse(name.as_bytes())?;
            let text = |bytes: &'static [u8]| core::str::from_utf8(bytes).unwrap();
            Some((text(found.before), found.number, text(found.after)))
        };
        assert_eq!(of("a3.b017.dat"), Some(("a3.b", 17, ".dat")));
        assert_eq!(of("0"), Some(("", 0, "")));
        assert_eq!(of("18446744073709551615"), Some(("", u64::MAX, "")));
        for name in ["", "abc", "18446744073709551616", "00000000000000000000000000000000000x"] {
            assert!(of(name).is_none_or(|(_, number, _)| number == 0), "{name}");
        }
    }

    #[test]
    fn who_asks_for_numbers_in_their_order_is_followed() {
        let mut names = NumberedNames::default();
        for name in numbered(1..7) {
            assert_eq!(ask(&mut names, &name), [""; 0], "{name}");
            assert_eq!(ask(&mut names, &name), [""; 0], "{name} again");
        }
        assert_eq!(ask(&mut names, "f7.dat"), numbered(8..16));
        assert_eq!(ask(&mut names, "f8.dat"), numbered(16..25));
        // Not one by one, and each once.
        let all: Vec<String> =
            numbered(9..200).iter().flat_map(|name| ask(&mut names, name)).collect();
        assert_eq!(all, numbered(25..25 + all.len() as u32));
        assert!((200..264).contains(&(25 + all.len())), "{}", all.len());
    }

    #[test]
    fn zeros_in_front_and_steps_go_on() {
        let mut names = NumberedNames::default();
        let before = (86..=98).step_by(2).map(|number| format!("r{number:03}"));
        let ahead: Vec<String> = before.flat_map(|name| ask(&mut names, &name)).collect();
        let expected = (100..=114).step_by(2).map(|number| format!("r{number:03}"));
        assert_eq!(ahead, Vec::from_iter(expected));
        assert_eq!(names.series.len(), 1);
        ask(&mut names, "r100");
        assert_eq!(names.series.len(), 1);
        ask(&mut names, "r0102");
        assert_eq!(names.series.len(), 2, "the number has another width");
    }

    #[test]
    fn who_goes_back_or_makes_files_is_not_followed() {
        let mut names = NumberedNames::default();
        for name in numbered(0..100).iter().rev() {
            assert_eq!(ask(&mut names, name), [""; 0]);
        }
        for name in numbered(0..100) {
            assert_eq!(ask(&mut names, &name), [""; 0]);
            names.note_missing(name.as_bytes());
        }
        for name in ["f18446744073709551612", "f18446744073709551613"] {
            ask(&mut names, name);
        }
        names.forget(DIR);
        assert!(names.series.is_empty());
    }

    #[test]
    fn nothing_is_asked_for_behind_a_number_that_note_missing() {
        let mut names = NumberedNames::default();
        for name in numbered(0..7) {
            ask(&mut names, &name);
        }
        names.note_missing(b"f30.dat");
        names.note_missing(b"f40.dat");
        let all: Vec<String> =
            numbered(7..30).iter().flat_map(|name| ask(&mut names, name)).collect();
        assert_eq!(all, numbered(15..30));
        // It is there now.
        assert_eq!(ask(&mut names, "f30.dat")[..1], ["f31.dat"]);
        names.note_missing(b"f30.dat");
        assert!(names.series.is_empty());
    }

    #[test]
    fn the_largest_number_is_the_last() {
        let mut names = NumberedNames::default();
        let all: Vec<String> = (0..8)
            .map(|back| format!("f{}", u64::MAX - 7 + back))
            .flat_map(|name| ask(&mut names, &name))
            .collect();
        assert_eq!(all, [format!("f{}", u64::MAX)]);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut names = NumberedNames::default();
        for first in b'a'..=b'z' {
            assert_eq!(names.follow(DIR, &[first, b'1'], 64).len(), 0);
        }
        assert_eq!(names.series.len(), SERIES_MAX);
        assert_eq!(names.follow(DIR, b"a1", 0).len(), 0);
        assert_eq!(&*names.series[0].before, b"s");
    }
}
