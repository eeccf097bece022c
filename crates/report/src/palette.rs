//! The colours of pages and plots, in the light and in the dark view.

/// Number of colours of lines.
pub(crate) const COLOURS: usize = 8;

/// Red, green and blue.
pub(crate) type Rgb = (u8, u8, u8);

/// What a colour is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    /// Letters and numbers.
    Ink,
    /// Text beside the results, such as axes.
    Dim,
    /// Lines behind the results.
    Grid,
    /// The background.
    Paper,
    /// The background of boxes.
    Box,
    /// A line, by its number; the colours repeat.
    Line(usize),
}

/// A view.
pub(crate) struct Palette {
    ink: Rgb,
    dim: Rgb,
    grid: Rgb,
    paper: Rgb,
    box_: Rgb,
    lines: [Rgb; COLOURS],
}

/// On screens without a preference for dark, on paper, and in files of plots.
pub(crate) const LIGHT: Palette = Palette {
    ink: (0x1b, 0x24, 0x30),
    dim: (0x5c, 0x67, 0x73),
    grid: (0xe3, 0xe7, 0xec),
    paper: (0xff, 0xff, 0xff),
    box_: (0xf6, 0xf8, 0xfa),
    lines: [
        (0x00, 0x68, 0xb5),
        (0xd1, 0x57, 0x0a),
        (0x00, 0x87, 0x5e),
        (0xb3, 0x36, 0x8c),
        (0x8a, 0x6d, 0x00),
        (0x4b, 0x5c, 0xc4),
        (0xc2, 0x2f, 0x3d),
        (0x4f, 0x64, 0x72),
    ],
};

/// On screens whose users prefer dark.
pub(crate) const DARK: Palette = Palette {
    ink: (0xe6, 0xea, 0xf0),
    dim: (0x9a, 0xa7, 0xb5),
    grid: (0x2c, 0x36, 0x42),
    paper: (0x12, 0x18, 0x1f),
    box_: (0x1a, 0x22, 0x2b),
    lines: [
        (0x5a, 0xb0, 0xf2),
        (0xf2, 0x91, 0x4a),
        (0x3f, 0xc7, 0x96),
        (0xe0, 0x7c, 0xc0),
        (0xd9, 0xb8, 0x3b),
        (0x95, 0xa2, 0xf5),
        (0xf0, 0x72, 0x7d),
        (0xa3, 0xb6, 0xc2),
    ],
};

/// All tones.
fn tones() -> impl Iterator<Item = Tone> {
    [Tone::Ink, Tone::Dim, Tone::Grid, Tone::Paper, Tone::Box]
        .into_iter()
        .chain((0..COLOURS).map(Tone::Line))
}

impl Tone {
    /// The name of its variable in the page's style sheet, without the dashes.
    pub(crate) fn name(self) -> String {
        match self {
            Tone::Ink => "ink".to_owned(),
            Tone::Dim => "dim".to_owned(),
            Tone::Grid => "grid".to_owned(),
            Tone::Paper => "paper".to_owned(),
            Tone::Box => "box".to_owned(),
            Tone::Line(number) => format!("c{}", number % COLOURS),
        }
    }
}

impl Palette {
    /// The colour of a tone.
    pub(crate) fn of(&self, tone: Tone) -> Rgb {
        match tone {
            Tone::Ink => self.ink,
            Tone::Dim => self.dim,
            Tone::Grid => self.grid,
            Tone::Paper => self.paper,
            Tone::Box => self.box_,
            Tone::Line(number) => self.lines[number % COLOURS],
        }
    }

    /// Definitions of all variables for the page's style sheet.
    pub(crate) fn variables(&self) -> String {
        tones().map(|tone| format!("--{}: {}; ", tone.name(), hex(self.of(tone)))).collect()
    }
}

/// A colour as style sheets and SVG write it.
pub(crate) fn hex((red, green, blue): Rgb) -> String {
    format!("#{red:02x}{green:02x}{blue:02x}")
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The contrast of two colours as the guidelines for accessible pages (WCAG 2) compute it.
    pub(crate) fn contrast(one: Rgb, two: Rgb) -> f64 {
        let part = |value: u8| {
            let value = f64::from(value) / 255.0;
            if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        };
        let light = |c: Rgb| 0.2126 * part(c.0) + 0.7152 * part(c.1) + 0.0722 * part(c.2) + 0.05;
        let (one, two) = (light(one), light(two));
        one.max(two) / one.min(two)
    }

    /// A colour with some opacity on another one.
    pub(crate) fn over(top: Rgb, opacity: f64, below: Rgb) -> Rgb {
        let mix = |top: u8, below: u8| {
            (f64::from(top) * opacity + f64::from(below) * (1.0 - opacity)).round() as u8
        };
        (mix(top.0, below.0), mix(top.1, below.1), mix(top.2, below.2))
    }

    #[test]
    fn text_and_lines_can_be_read_in_both_views() {
        for palette in [&LIGHT, &DARK] {
            for paper in [palette.paper, palette.box_] {
                for text in [palette.ink, palette.dim] {
                    let found = contrast(text, paper);
                    assert!(found >= 4.5, "{text:?} on {paper:?}: {found}");
                }
            }
            for line in palette.lines {
                // Of lines and marks, not of letters.
                let found = contrast(line, palette.paper);
                assert!(found >= 3.0, "{line:?}: {found}");
            }
        }
    }
}
