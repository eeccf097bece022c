//! The letters of plots: how wide a text is, and its outline for pictures of pixels. The fonts are
//! in the program, because machines where tests run often have none.

use ttf_parser::{Face, GlyphId, OutlineBuilder};

/// Roboto, of which ASCII, Latin-1 and some signs are left; `fonts/README.md` says from where.
const REGULAR: &[u8] = include_bytes!("../fonts/Roboto-Regular.ttf");
/// The same, a little bolder.
const MEDIUM: &[u8] = include_bytes!("../fonts/Roboto-Medium.ttf");

/// How bold letters are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Weight {
    /// As usual.
    #[default]
    Regular,
    /// For titles.
    Medium,
}

/// A font that can be asked.
pub(crate) struct Font {
    face: Face<'static>,
}

impl Font {
    /// The font of a weight.
    pub(crate) fn new(weight: Weight) -> Font {
        let bytes = match weight {
            Weight::Regular => REGULAR,
            Weight::Medium => MEDIUM,
        };
        Font { face: Face::parse(bytes, 0).expect("the font in this program is valid") }
    }

    /// Units of the font's own coordinates in a square of its size.
    fn units(&self) -> f64 {
        f64::from(self.face.units_per_em())
    }

    /// The glyph of a letter, or of the sign for letters that the font does not have.
    fn glyph(&self, letter: char) -> GlyphId {
        let glyph = |letter| self.face.glyph_index(letter);
        glyph(letter).or_else(|| glyph('\u{fffd}')).unwrap_or_default()
    }

    fn advance(&self, glyph: GlyphId) -> f64 {
        f64::from(self.face.glyph_hor_advance(glyph).unwrap_or_default())
    }

    /// The width of a text at a size.
    pub(crate) fn width(&self, text: &str, size: f64) -> f64 {
        let all: f64 = text.chars().map(|letter| self.advance(self.glyph(letter))).sum();
        all * size / self.units()
    }

    /// Draws the outline of a text that begins at 0, 0, with y growing upwards, at a size of 1.
    pub(crate) fn outline(&self, text: &str, pen: &mut dyn FnMut(Outline)) {
        let mut from = 0.0;
        for letter in text.chars() {
            let glyph = self.glyph(letter);
            let mut shifted = Shifted { from, scale: 1.0 / self.units(), pen: &mut *pen };
            self.face.outline_glyph(glyph, &mut shifted);
            from += self.advance(glyph);
        }
    }
}

/// A position: x, and y upwards.
pub(crate) type Position = (f32, f32);

/// A part of an outline.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Outline {
    /// A new line begins.
    Move(Position),
    /// A straight line to there.
    Line(Position),
    /// A curve over one position to another.
    Quad(Position, Position),
    /// A curve over two positions to another.
    Cubic(Position, Position, Position),
    /// Back to where the line began.
    Close,
}

/// Moves a glyph to its place in the text.
struct Shifted<'p> {
    from: f64,
    scale: f64,
    pen: &'p mut dyn FnMut(Outline),
}

impl Shifted<'_> {
    fn at(&self, x: f32, y: f32) -> Position {
        let (x, y) = ((f64::from(x) + self.from) * self.scale, f64::from(y) * self.scale);
        (x as f32, y as f32)
    }
}

impl OutlineBuilder for Shifted<'_> {
    fn move_to(&mut self, x: f32, y: f32) {
        let to = self.at(x, y);
        (self.pen)(Outline::Move(to));
    }

    fn line_to(&mut self, x: f32, y: f32) {
        let to = self.at(x, y);
        (self.pen)(Outline::Line(to));
    }

    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        let (over, to) = (self.at(x1, y1), self.at(x, y));
        (self.pen)(Outline::Quad(over, to));
    }

    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        let (one, two, to) = (self.at(x1, y1), self.at(x2, y2), self.at(x, y));
        (self.pen)(Outline::Cubic(one, two, to));
    }

    fn close(&mut self) {
        (self.pen)(Outline::Close);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_have_one_width_and_every_letter_has_an_outline() {
        for weight in [Weight::Regular, Weight::Medium] {
            let font = Font::new(weight);
            let width = |text: &str| font.width(text, 13.0);
            assert!((width("1111") - width("8888")).abs() < 1e-6);
            assert!((width("8") * 3.0 - width("888")).abs() < 1e-6);
            let used = ('!'..='~').chain("\u{b5}\u{2026}\u{d7}\u{e9}".chars());
            for letter in used {
                assert!(font.face.glyph_index(letter).is_some(), "{letter}");
                let mut parts = 0;
                font.outline(&letter.to_string(), &mut |_| parts += 1);
                assert!(parts > 2, "{letter}");
            }
            // Letters of other scripts have one sign for all of them.
            assert!(width("\u{4e2d}") > 0.0);
        }
    }
}
