//! Where the parts of a plot are: computed from how wide their texts are, so that nothing is cut
//! and no text is over another one.

use super::{Axis, Plot, axis_text, number};
use crate::drawing::{
    Anchor, Direction, DrawingFormat, Pen, SLIDE, Shape, Text, fitted, room, widest as widest_of,
};
use crate::font::Weight;
use crate::palette::Tone;
use crate::ticks::{Scale, ticks};

/// Length of a line's sample in the legend, and where its name begins.
pub(super) const SAMPLE: f64 = 24.0;
pub(super) const NAME_AT: f64 = 32.0;

/// The largest part of the width for the legend.
const LEGEND_MAX: f64 = 0.34;

/// From more names on, room is kept for the number of those that are left out.
const FEW: usize = 12;
const MORE: &str = "and 000 more: see the table";

/// Longest name of a mark that is written upwards.
const UPWARDS_MAX: f64 = 110.0;

/// The smallest distance between names of marks.
const GAP: f64 = 8.0;

/// Maps values to positions.
pub(super) struct Span {
    scale: Scale,
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Span {
    pub(super) fn at(&self, value: f64) -> f64 {
        let along = match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            Scale::Log | Scale::Doubling => {
                (value.ln() - self.low.ln()) / (self.high.ln() - self.low.ln())
            }
        };
        self.from + along * (self.to - self.from)
    }

    fn marks(&self, wanted: usize) -> Vec<(f64, String)> {
        let marks = ticks(self.scale, self.low, self.high, wanted);
        marks.into_iter().map(|value| (value, number(value))).collect()
    }
}

/// Where the parts of a plot are.
pub(super) struct Layout {
    pub(super) width: f64,
    pub(super) height: f64,
    /// Empty room around everything.
    pub(super) margin: f64,
    /// Size of letters, and of those of the title.
    pub(super) text: f64,
    title: f64,
    /// Base line of the unit and the key, under the title.
    pub(super) under: f64,
    left: f64,
    right: f64,
    pub(super) top: f64,
    bottom: f64,
    /// Where the legend begins, and the height of a name in it.
    pub(super) legend: f64,
    pub(super) row: f64,
    pub(super) x: Span,
    pub(super) y: Span,
    x_marks: Vec<(f64, String)>,
    x_direction: Direction,
    y_marks: Vec<(f64, String)>,
}

impl Layout {
    /// `None` if there is nothing to draw.
    pub(super) fn of(plot: &Plot, format: DrawingFormat<'_>) -> Option<Layout> {
        let shown = |point: &(f64, f64)| plot.shows(point);
        let points = plot.lines.iter().flat_map(|line| &line.points).copied();
        let mut points: Vec<(f64, f64)> = points.filter(shown).collect();
        if points.is_empty() {
            return None;
        }
        let bars = plot.lines.iter().flat_map(|line| &line.bars);
        let ends = bars.flat_map(|(x, low, high)| [(*x, *low), (*x, *high)]);
        points.extend(ends.filter(shown));
        let (width, height, margin, text, title) = match format {
            DrawingFormat::Page => (940.0, 400.0, 2.0, 13.0, 16.0),
            DrawingFormat::Slide { .. } => (SLIDE.0, SLIDE.1, 26.0, 15.0, 21.0),
        };
        let under = margin + 1.3 * title + 1.3 * text;
        let top = under + 0.8 * text;
        let mut y = span(&plot.y, points.iter().map(|p| p.1), AxisDirection::Up);
        let y_marks = y.marks(if height > 450.0 { 7 } else { 5 });
        let left = margin + widest(y_marks.iter().map(|mark| mark.1.as_str()), text) + 10.0;
        let names = plot.lines.iter().map(|line| line.name.as_str());
        let names = names.filter(|name| !name.is_empty());
        let legend = match names.clone().next() {
            None => 0.0,
            Some(_) => {
                let more = if names.clone().count() > FEW { MORE } else { "" };
                widest([more].into_iter(), text).max(NAME_AT + widest(names, text))
            }
        };
        let legend = legend.max(room(&plot.key, text, Weight::Regular));
        let legend = width - margin - legend.min(LEGEND_MAX * width);
        let mut x = span(&plot.x, points.iter().map(|p| p.0), AxisDirection::Right);
        (x.from, x.to) = (left, legend - 24.0);
        // Names of the first and the last mark reach over the ends of the axis.
        let (first, last) = overhang(&x_marks(&plot.x, &x, text), text);
        let left = left.max(margin + first);
        (x.from, x.to) = (left, x.to.min(legend - GAP - last));
        let (x_marks, x_direction) = x_marks(&plot.x, &x, text);
        let names = x_marks.iter().map(|mark| mark.1.as_str());
        let deep = match x_direction {
            Direction::Right => 1.4 * text,
            Direction::Up => widest(names, text) + 8.0,
        };
        let bottom = height - margin - deep - 1.7 * text;
        (y.from, y.to) = (bottom, top);
        Some(Layout {
            width,
            height,
            margin,
            text,
            title,
            under,
            left,
            right: x.to,
            top,
            bottom,
            legend,
            row: 1.65 * text,
            x,
            y,
            x_marks,
            x_direction,
            y_marks,
        })
    }

    /// Number of names in the legend for which there is room.
    pub(super) fn names_max(&self) -> usize {
        (((self.height - self.margin - self.top) / self.row) as usize).max(1)
    }

    /// The title and the unit.
    pub(super) fn title(&self, plot: &Plot, title: &str, shapes: &mut Vec<Shape>) {
        let room = self.width - 2.0 * self.margin;
        let at = (self.margin, self.margin + self.title);
        let words = fitted(title, self.title, Weight::Medium, room);
        let title = Text::new(at, &words, self.title, Tone::Ink);
        shapes.push(Shape::Text(title.bold()));
        let unit = fitted(&plot.y.label, self.text, Weight::Regular, self.right - self.margin);
        shapes.push(axis_text((self.margin, self.under), &unit, self.text, Anchor::Start));
    }

    /// The axes with their marks.
    pub(super) fn frame(&self, plot: &Plot, shapes: &mut Vec<Shape>) {
        let Layout { left, right, top, bottom, text, .. } = *self;
        let grid = Pen::new(Tone::Grid, 1.0);
        for (value, name) in &self.y_marks {
            let at = self.y.at(*value);
            shapes.push(Shape::Path { points: vec![(left, at), (right, at)], pen: grid });
            shapes.push(axis_text((left - 8.0, at + 0.35 * text), name, text, Anchor::End));
        }
        for (value, name) in &self.x_marks {
            let at = self.x.at(*value);
            shapes.push(Shape::Path { points: vec![(at, bottom), (at, top)], pen: grid });
            match self.x_direction {
                Direction::Right => {
                    let below = bottom + 1.4 * text;
                    shapes.push(axis_text((at, below), name, text, Anchor::Middle));
                }
                Direction::Up => {
                    let place = (at + 0.35 * text, bottom + 7.0);
                    let name = Text::new(place, name, text, Tone::Dim).anchored(Anchor::End);
                    shapes.push(Shape::Text(name.upwards()));
                }
            }
        }
        let pen = Pen::new(Tone::Dim, 1.0);
        shapes.push(Shape::Path { points: vec![(left, bottom), (right, bottom)], pen });
        let label = fitted(&plot.x.label, text, Weight::Regular, right - left);
        let at = (f64::midpoint(left, right), self.height - self.margin - 0.3 * text);
        shapes.push(axis_text(at, &label, text, Anchor::Middle));
    }
}

/// How far the names of the first and the last mark reach to the left and to the right of them.
fn overhang((marks, direction): &(Vec<(f64, String)>, Direction), text: f64) -> (f64, f64) {
    let half = |mark: Option<&(f64, String)>| match direction {
        Direction::Right => mark.map_or(0.0, |mark| room(&mark.1, text, Weight::Regular) / 2.0),
        Direction::Up => text / 2.0,
    };
    (half(marks.first()), half(marks.last()))
}

/// The room for the widest of some texts.
fn widest<'t>(texts: impl Iterator<Item = &'t str>, size: f64) -> f64 {
    widest_of(texts, size, Weight::Regular)
}

/// The direction of an axis.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AxisDirection {
    Right,
    Up,
}

/// The range of an axis, without its places: from 0 if it is linear, to a little above the largest
/// value.
fn span(axis: &Axis, values: impl Iterator<Item = f64> + Clone, way: AxisDirection) -> Span {
    let low = values.clone().fold(f64::INFINITY, f64::min);
    let high = values.fold(f64::NEG_INFINITY, f64::max);
    let (low, high) = match axis.scale {
        Scale::Linear if !axis.names.is_empty() => {
            let room = 0.04 * (high - low).max(1.0);
            (low - room, high + room)
        }
        Scale::Linear => {
            let low = low.min(0.0);
            let high = if way == AxisDirection::Up { low + (high - low) * 1.06 } else { high };
            (low, if high > low { high } else { low + 1.0 })
        }
        Scale::Log | Scale::Doubling => {
            // At least half a decade upwards and downwards, so that noise does not look like a
            // difference.
            let narrow = high / low < 3.0;
            let room: f64 = match way {
                AxisDirection::Up if narrow => 3.0,
                AxisDirection::Up => 1.25,
                AxisDirection::Right => 1.0,
            };
            let low = (low / room).max(f64::MIN_POSITIVE);
            let high = (high * room).min(f64::MAX);
            if high > low { (low, high) } else { (low / 2.0, high * 2.0) }
        }
    };
    Span { scale: axis.scale, low, high, from: 0.0, to: 1.0 }
}

/// The marks of the horizontal axis and the direction of their names: to the right if they fit,
/// otherwise fewer numbers, or names upwards.
fn x_marks(axis: &Axis, x: &Span, text: f64) -> (Vec<(f64, String)>, Direction) {
    let room = |name: &str| room(name, text, Weight::Regular);
    let fits = |marks: &[(f64, String)]| {
        marks.windows(2).all(|pair| {
            let distance = x.at(pair[1].0) - x.at(pair[0].0);
            distance >= (room(&pair[0].1) + room(&pair[1].1)) / 2.0 + GAP
        })
    };
    if axis.names.is_empty() {
        let few = (1..=9).rev().map(|wanted| x.marks(wanted)).find(|marks| fits(marks));
        return (few.unwrap_or_else(|| x.marks(1).into_iter().take(1).collect()), Direction::Right);
    }
    if fits(&axis.names) {
        return (axis.names.clone(), Direction::Right);
    }
    // The room for a line of letters; names in between are left out.
    let mut marks: Vec<(f64, String)> = Vec::new();
    for (value, name) in &axis.names {
        let last = marks.last().map(|(last, _)| x.at(*last));
        if last.is_none_or(|last| x.at(*value) - last >= 1.2 * text) {
            marks.push((*value, fitted(name, text, Weight::Regular, UPWARDS_MAX)));
        }
    }
    (marks, Direction::Up)
}
