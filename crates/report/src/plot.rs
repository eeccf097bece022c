//! Plots of lines.

mod layout;

use crate::drawing::{Anchor, Dashes, Draw, Drawing, DrawingFormat, Pen, Shape, Text, fitted};
use crate::font::Weight;
use crate::numbers::grouped;
use crate::palette::{COLOURS, Tone};
use crate::ticks::Scale;
use layout::{Layout, Span};

/// Lines with more points than these are drawn without markers.
const MARKS_MAX: usize = 40;

/// One axis of a plot.
#[derive(Clone, Debug)]
pub struct Axis {
    /// Its label.
    pub label: String,
    /// Its scale.
    pub scale: Scale,
    /// Marks with these names, instead of numbers.
    pub names: Vec<(f64, String)>,
}

impl Axis {
    /// An axis with numbers as marks.
    pub fn new(label: &str, scale: Scale) -> Axis {
        Axis { label: label.to_owned(), scale, names: Vec::new() }
    }
}

/// How a line is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineStyle {
    /// A solid line.
    Solid,
    /// Dashes, without markers.
    Dashed,
}

/// One line.
#[derive(Clone, Debug)]
pub struct Line {
    /// Its name in the legend; empty for none.
    pub name: String,
    /// Its points. Those that an axis cannot show are left out.
    pub points: Vec<(f64, f64)>,
    /// How it is drawn.
    pub stroke: LineStyle,
    /// Lines of one number have the same colour.
    pub colour: usize,
    /// Error bars: x, and the least and greatest y there.
    pub bars: Vec<(f64, f64, f64)>,
}

impl Line {
    /// A line without error bars.
    pub fn new(name: String, points: Vec<(f64, f64)>, stroke: LineStyle, colour: usize) -> Line {
        Line { name, points, stroke, colour, bars: Vec::new() }
    }

    /// Whether each of its points has a mark.
    fn has_marks(&self) -> bool {
        self.points.len() <= MARKS_MAX && self.stroke == LineStyle::Solid
    }

    fn tone(&self) -> Tone {
        Tone::Line(self.colour)
    }

    fn pen(&self) -> Pen {
        let pen = Pen::new(self.tone(), 2.2);
        match (self.stroke, self.colour / COLOURS) {
            (LineStyle::Dashed, _) => Pen { dashes: Dashes::Long, opacity: 0.75, ..pen },
            // Dots distinguish the second round of the colours from the first one.
            (LineStyle::Solid, 0) => pen,
            (LineStyle::Solid, _) => Pen { dashes: Dashes::Dots, ..pen },
        }
    }
}

/// A plot.
#[derive(Clone, Debug)]
pub struct Plot {
    /// Its title.
    pub title: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// What the names of the lines are values of; may be empty.
    pub key: String,
    /// The lines; the first ones have names in the legend.
    pub lines: Vec<Line>,
}

impl Draw for Plot {
    fn drawing(&self, format: DrawingFormat<'_>) -> Option<Drawing> {
        let layout = Layout::of(self, format)?;
        let mut shapes = Vec::new();
        let title = format.title(&self.title);
        layout.title(self, &title, &mut shapes);
        layout.frame(self, &mut shapes);
        for line in &self.lines {
            let kept: Vec<(f64, f64)> =
                line.points.iter().copied().filter(|point| self.shows(point)).collect();
            let bars = line.bars.iter();
            let bars =
                bars.filter(|bar| self.shows(&(bar.0, bar.1)) && self.shows(&(bar.0, bar.2)));
            bars.for_each(|bar| draw_bar(&mut shapes, line, *bar, &layout.x, &layout.y));
            draw(&mut shapes, line, &kept, &layout.x, &layout.y);
        }
        self.legend(&layout, &mut shapes);
        shapes.extend(format.foot(layout.margin));
        let (width, height) = (layout.width, layout.height);
        Some(Drawing { title, width, height, shapes })
    }
}

impl Plot {
    /// Whether the axes can show a point.
    fn shows(&self, (x, y): &(f64, f64)) -> bool {
        let fits = |scale, value: f64| value.is_finite() && (scale == Scale::Linear || value > 0.0);
        fits(self.x.scale, *x) && fits(self.y.scale, *y)
    }

    fn legend(&self, layout: &Layout, shapes: &mut Vec<Shape>) {
        let Layout { text: size, legend: left, .. } = *layout;
        let room = layout.width - layout.margin - left;
        if !self.key.is_empty() {
            let key = fitted(&self.key, size, Weight::Regular, room);
            shapes.push(Shape::Text(Text::new((left, layout.under), &key, size, Tone::Dim)));
        }
        let named: Vec<&Line> = self.lines.iter().filter(|line| !line.name.is_empty()).collect();
        let most = layout.names_max();
        // The last row is for the number of lines that are left out.
        let shown = if named.len() > most { most - 1 } else { named.len() };
        for (index, line) in named.iter().take(shown).enumerate() {
            let at = layout.top + 0.6 * size + index as f64 * layout.row;
            let points = vec![(left, at), (left + layout::SAMPLE, at)];
            shapes.push(Shape::Path { points, pen: line.pen() });
            if line.has_marks() {
                let middle = (left + layout::SAMPLE / 2.0, at);
                shapes.push(mark(line.colour, middle, String::new()));
            }
            let beside = left + layout::NAME_AT;
            let name =
                fitted(&line.name, size, Weight::Regular, layout.width - layout.margin - beside);
            let below = at + 0.35 * size;
            shapes.push(Shape::Text(Text::new((beside, below), &name, size, Tone::Ink)));
        }
        if named.len() > shown {
            let at = layout.top + 0.95 * size + shown as f64 * layout.row;
            let more = format!("and {} more: see the table", named.len() - shown);
            let more = fitted(&more, size, Weight::Regular, room);
            shapes.push(Shape::Text(Text::new((left, at), &more, size, Tone::Dim)));
        }
    }
}

fn draw(shapes: &mut Vec<Shape>, line: &Line, points: &[(f64, f64)], x: &Span, y: &Span) {
    let places = points.iter().map(|point| (x.at(point.0), y.at(point.1))).collect();
    shapes.push(Shape::Path { points: places, pen: line.pen() });
    if !line.has_marks() {
        return;
    }
    for point in points {
        let hover = format!("{}: {} at {}", line.name, number(point.1), number(point.0));
        shapes.push(mark(line.colour, (x.at(point.0), y.at(point.1)), hover));
    }
}

/// The sign of a line, so that lines differ in more than their colours.
fn mark(colour: usize, (x, y): (f64, f64), hover: String) -> Shape {
    let tone = Tone::Line(colour);
    let at = |points: &[(f64, f64)]| points.iter().map(|(dx, dy)| (x + dx, y + dy)).collect();
    let points = match colour % 4 {
        0 => return Shape::Dot { at: (x, y), radius: 3.6, tone, hover },
        1 => at(&[(-3.4, -3.4), (3.4, -3.4), (3.4, 3.4), (-3.4, 3.4)]),
        2 => at(&[(0.0, -4.8), (4.4, 3.2), (-4.4, 3.2)]),
        _ => at(&[(0.0, -4.9), (4.9, 0.0), (0.0, 4.9), (-4.9, 0.0)]),
    };
    Shape::Sign { points, tone, hover }
}

/// From the least to the greatest value, with a cap at both ends.
fn draw_bar(shapes: &mut Vec<Shape>, line: &Line, bar: (f64, f64, f64), x: &Span, y: &Span) {
    let (at, low, high) = (x.at(bar.0), y.at(bar.1), y.at(bar.2));
    let pen = Pen { opacity: 0.8, ..Pen::new(line.tone(), 1.2) };
    for points in [
        vec![(at - 4.0, low), (at + 4.0, low)],
        vec![(at, low), (at, high)],
        vec![(at - 4.0, high), (at + 4.0, high)],
    ] {
        shapes.push(Shape::Path { points, pen });
    }
}

/// A number with as many digits as it needs.
pub(crate) fn number(value: f64) -> String {
    let text = match value.abs() {
        0.0 => return "0".to_owned(),
        1e12.. => return format!("{value:.1e}"),
        1e3.. if value > 0.0 => return grouped(value),
        100.0.. => format!("{value:.0}"),
        1.0.. => format!("{value:.2}"),
        0.001.. => format!("{value:.4}"),
        _ => format!("{value:.1e}"),
    };
    trimmed(text)
}

fn trimmed(text: String) -> String {
    match text.contains('.') && !text.contains('e') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// Lines that nowhere differ by more than this part look like one.
const ALIKE: f64 = 0.03;

/// Which lines look like one, as a sentence; `None` if none do.
pub fn coinciding(lines: &[Line]) -> Option<String> {
    let near = |one: &Line, two: &Line| {
        one.points.len() == two.points.len()
            && one.points.iter().zip(&two.points).all(|(one, two)| {
                one.0 == two.0 && (one.1 - two.1).abs() <= ALIKE * one.1.abs().max(two.1.abs())
            })
    };
    let mut found = Vec::new();
    for (at, one) in lines.iter().enumerate() {
        let same = lines[at + 1..].iter().filter(|two| near(one, two));
        found.extend(same.map(|two| format!("{} and {}", one.name, two.name)));
    }
    let percent = ALIKE * 100.0;
    let all = found.join("; ");
    (!found.is_empty())
        .then(|| format!("Lines that lie within {percent:.0} % of each other everywhere: {all}."))
}

/// A text of an axis.
fn axis_text(at: (f64, f64), text: &str, size: f64, anchor: Anchor) -> Shape {
    Shape::Text(Text::new(at, text, size, Tone::Dim).anchored(anchor))
}

#[cfg(test)]
mod tests;
