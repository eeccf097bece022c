//! Who reads an object from its start to its end, or a part of it, one piece after another.

use core::ops::Range;

/// Most readers of an object that are distinguished.
const STREAMS_MAX: usize = 8;

/// A reader that reads one piece after another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stream {
    /// Where the next read starts.
    next: u64,
    /// How far was read ahead.
    pub(super) ahead: u64,
    /// By how much to read ahead; 0 at first.
    pub(super) window: u64,
}

/// The readers of an object, the last one last. They are known by where their next read starts.
#[derive(Debug, Default)]
pub(super) struct Streams(Vec<Stream>);

impl Streams {
    pub(super) const fn new() -> Streams {
        Streams(Vec::new())
    }

    fn position(&self, start: u64) -> Option<usize> {
        self.0.iter().rposition(|stream| stream.next == start)
    }

    /// Whether a read from here on continues one before it. The first one of an object does if it
    /// starts where the object does.
    pub(super) fn continues(&self, start: u64) -> bool {
        self.position(start).is_some() || self.0.is_empty() && start == 0
    }

    /// How many of them are read ahead.
    pub(super) fn ahead(&self) -> usize {
        self.0.iter().filter(|stream| stream.window > 0).count()
    }

    /// A range is read. If that continues earlier reads, their stream.
    pub(super) fn read(&mut self, range: &Range<u64>) -> Option<&mut Stream> {
        let goes_on = self.continues(range.start);
        // A part that is read again and again is one stream.
        let known = self.position(range.start).or_else(|| self.position(range.end));
        let stream = match known {
            Some(at) => self.0.remove(at),
            None => {
                if self.0.len() == STREAMS_MAX {
                    self.0.remove(0);
                }
                // Most objects have one reader.
                self.0.reserve_exact(1);
                Stream::default()
            }
        };
        self.0.push(Stream { next: range.end, ..stream });
        self.0.last_mut().filter(|_| goes_on)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_at_several_places_are_distinguished() {
        let mut streams = Streams::new();
        assert!(streams.continues(0) && !streams.continues(1));
        assert!(streams.read(&(0..10)).is_some());
        assert!(streams.read(&(1000..1010)).is_none(), "it is the first one there");
        for step in 1..100 {
            for start in [0, 1000] {
                let range = start + 10 * step..start + 10 * (step + 1);
                let stream = streams.read(&range).expect("it goes on");
                assert_eq!(stream.window, step - 1, "{range:?}");
                stream.window += 1;
            }
            for _ in 0..10 {
                assert!(streams.read(&(5..7)).is_none());
            }
        }
    }

    #[test]
    fn a_reader_is_forgotten_behind_as_many_others() {
        let mut streams = Streams::new();
        assert!(streams.read(&(0..10)).is_some());
        for at in 1..8 {
            assert!(streams.read(&(1000 * at..1000 * at + 5)).is_none());
        }
        assert!(streams.continues(10));
        assert!(streams.read(&(9000..9001)).is_none());
        assert!(!streams.continues(10) && streams.continues(1005) && streams.continues(9001));
        assert_eq!(streams.0.len(), STREAMS_MAX);
    }
}
