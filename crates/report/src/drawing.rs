//! Plots as lists of shapes: what the writers of SVG and of pixels draw, and what tests measure.

use crate::font::{Font, Weight};
use crate::palette::Tone;

/// What a drawing is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrawingFormat<'t> {
    /// A page, beside text.
    Page,
    /// A slide of 16:9, by itself.
    Slide {
        /// What is above it on the page.
        heading: &'t str,
        /// A line below it: where it is from.
        foot: &'t str,
    },
}

impl DrawingFormat<'_> {
    /// The title of a plot: a slide says what the heading of the page says.
    pub(crate) fn title(&self, title: &str) -> String {
        match self {
            DrawingFormat::Slide { heading, .. }
                if !heading.is_empty() && !title.starts_with(heading) =>
            {
                format!("{heading}: {title}")
            }
            _ => title.to_owned(),
        }
    }

    /// The line below a slide.
    pub(crate) fn foot(&self, margin: f64) -> Option<Shape> {
        let DrawingFormat::Slide { foot, .. } = self else { return None };
        let (width, height) = SLIDE;
        let words = fitted(foot, FOOT, Weight::Regular, width - 2.0 * margin);
        Some(Shape::Text(Text::new((margin, height - 10.0), &words, FOOT, Tone::Dim)))
    }
}

/// Size of the letters below a slide.
const FOOT: f64 = 11.0;

/// Width and height of a slide, in units of a drawing.
pub(crate) const SLIDE: (f64, f64) = (960.0, 540.0);

/// Letters of the reader's fonts may be wider than those of ours by this factor.
const WIDER: f64 = 1.16;

/// The same for the letters of titles.
const WIDER_MEDIUM: f64 = 1.28;

/// A plot that can be drawn for a page and for a slide.
pub trait Draw {
    /// The drawing; `None` if there is nothing to draw.
    fn drawing(&self, format: DrawingFormat<'_>) -> Option<Drawing>;
}

/// Shapes in the order in which they are drawn.
#[derive(Clone, Debug, PartialEq)]
pub struct Drawing {
    pub(crate) title: String,
    pub(crate) width: f64,
    pub(crate) height: f64,
    pub(crate) shapes: Vec<Shape>,
}

/// A position: x to the right, y downwards.
pub(crate) type At = (f64, f64);

/// A part of a drawing.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Shape {
    /// Straight lines through some points.
    Path { points: Vec<At>, pen: Pen },
    /// A rectangle.
    Rect(Rect),
    /// A closed sign.
    Sign { points: Vec<At>, tone: Tone, hover: String },
    /// A filled circle.
    Dot { at: At, radius: f64, tone: Tone, hover: String },
    /// A text of one line.
    Text(Text),
}

/// A rectangle.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Rect {
    /// Its upper left corner.
    pub(crate) at: At,
    /// Width and height.
    pub(crate) size: At,
    /// How it is filled, with its opacity.
    pub(crate) fill: Option<(Tone, f64)>,
    /// Its edge.
    pub(crate) edge: Option<Pen>,
    /// What a browser shows under the mouse; may be empty.
    pub(crate) hover: String,
}

/// How a line is interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dashes {
    None,
    Long,
    Dots,
}

impl Dashes {
    /// Lengths of dash and gap.
    pub(crate) fn lengths(self) -> Option<(f32, f32)> {
        match self {
            Dashes::None => None,
            Dashes::Long => Some((7.0, 6.0)),
            Dashes::Dots => Some((1.0, 5.0)),
        }
    }
}

/// How a line is drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Pen {
    pub(crate) tone: Tone,
    pub(crate) width: f64,
    pub(crate) dashes: Dashes,
    pub(crate) opacity: f64,
}

impl Pen {
    /// A solid line.
    pub(crate) fn new(tone: Tone, width: f64) -> Pen {
        Pen { tone, width, dashes: Dashes::None, opacity: 1.0 }
    }
}

/// Which part of a text is at its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

/// The direction of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Right,
    Up,
}

/// A text of one line.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Text {
    /// On its base line.
    pub(crate) at: At,
    pub(crate) text: String,
    pub(crate) size: f64,
    pub(crate) tone: Tone,
    pub(crate) weight: Weight,
    pub(crate) anchor: Anchor,
    pub(crate) direction: Direction,
}

impl Text {
    /// A text that begins at a position.
    pub(crate) fn new(at: At, text: &str, size: f64, tone: Tone) -> Text {
        Text {
            at,
            text: text.to_owned(),
            size,
            tone,
            weight: Weight::Regular,
            anchor: Anchor::Start,
            direction: Direction::Right,
        }
    }

    /// The same with this part of it at its position.
    pub(crate) fn anchored(self, anchor: Anchor) -> Text {
        Text { anchor, ..self }
    }

    /// The same in the letters of titles.
    pub(crate) fn bold(self) -> Text {
        Text { weight: Weight::Medium, ..self }
    }

    /// The same upwards.
    pub(crate) fn upwards(self) -> Text {
        Text { direction: Direction::Up, ..self }
    }
}

/// The room for a text, also in letters of a reader's font.
pub(crate) fn room(text: &str, size: f64, weight: Weight) -> f64 {
    let wider = match weight {
        Weight::Regular => WIDER,
        Weight::Medium => WIDER_MEDIUM,
    };
    wider * Font::new(weight).width(text, size)
}

/// The room for the widest of some texts.
pub(crate) fn widest<'t>(texts: impl Iterator<Item = &'t str>, size: f64, weight: Weight) -> f64 {
    texts.map(|text| room(text, size, weight)).fold(0.0, f64::max)
}

/// As much of a text as fits into `most`, with a sign at its end if something is left out.
pub(crate) fn fitted(text: &str, size: f64, weight: Weight, most: f64) -> String {
    // Half of a unit, so that a text fits into the room that was computed for it.
    let most = most + 0.5;
    if room(text, size, weight) <= most {
        return text.to_owned();
    }
    let mut kept = text.to_owned();
    while kept.pop().is_some() {
        let short = format!("{}\u{2026}", kept.trim_end());
        if room(&short, size, weight) <= most {
            return short;
        }
    }
    String::new()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Left, top, right and bottom of a text.
    pub(crate) fn bounds(text: &Text) -> (f64, f64, f64, f64) {
        let long = room(&text.text, text.size, text.weight);
        let before = match text.anchor {
            Anchor::Start => 0.0,
            Anchor::Middle => long / 2.0,
            Anchor::End => long,
        };
        let (above, below) = (0.75 * text.size, 0.2 * text.size);
        let (x, y) = text.at;
        match text.direction {
            Direction::Right => (x - before, y - above, x - before + long, y + below),
            Direction::Up => (x - above, y + before - long, x + below, y + before),
        }
    }

    /// Panics if two texts of a drawing are over each other, or one is not inside it.
    pub(crate) fn assert_legible(drawing: &Drawing) {
        let texts: Vec<&Text> = drawing
            .shapes
            .iter()
            .filter_map(|shape| if let Shape::Text(text) = shape { Some(text) } else { None })
            .collect();
        for (index, text) in texts.iter().enumerate() {
            let (left, top, right, bottom) = bounds(text);
            assert!(
                left >= -0.5
                    && top >= 0.0
                    && right <= drawing.width + 0.5
                    && bottom <= drawing.height,
                "{:?} is cut: {left} {top} {right} {bottom} of {} {}",
                text.text,
                drawing.width,
                drawing.height
            );
            for other in &texts[index + 1..] {
                let (left2, top2, right2, bottom2) = bounds(other);
                let apart = right <= left2 || right2 <= left || bottom <= top2 || bottom2 <= top;
                assert!(apart, "{:?} and {:?} are over each other", text.text, other.text);
            }
        }
    }

    #[test]
    fn a_long_text_is_cut_to_its_room() {
        let fitted = |text: &str, most| fitted(text, 13.0, Weight::Medium, most);
        assert_eq!(fitted("short", 100.0), "short");
        let cut = fitted("a very long name of a line", 100.0);
        assert!(cut.ends_with('\u{2026}') && room(&cut, 13.0, Weight::Medium) <= 100.5, "{cut}");
        assert_eq!(fitted("abc", 1.0), "");
    }
}
