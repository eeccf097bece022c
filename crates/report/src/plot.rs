//! Plots of lines, as SVG.

use std::fmt::Write as _;

use crate::html::{COLOURS, escaped};
use crate::numbers::grouped;
use crate::ticks::{Scale, ticks};

const WIDTH: f64 = 940.0;
const HEIGHT: f64 = 400.0;
const LEFT: f64 = 72.0;
const TOP: f64 = 52.0;
const BOTTOM: f64 = 56.0;
/// Width of the legend to the right of the plot.
const LEGEND: f64 = 244.0;
/// Height of a name in the legend.
const ROW: f64 = 22.0;
/// Number of characters of a name that fit.
const NAME_MAX: usize = 26;

/// Lines with more points than these are drawn without markers.
const MARKS_MAX: usize = 40;

/// Largest number of lines that have a name in the legend.
const NAMES_MAX: usize = 13;

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

/// Maps values to positions.
struct Span {
    scale: Scale,
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Span {
    fn at(&self, value: f64) -> f64 {
        let along = match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            Scale::Log | Scale::Doubling => {
                (value.ln() - self.low.ln()) / (self.high.ln() - self.low.ln())
            }
        };
        self.from + along * (self.to - self.from)
    }
}

impl Plot {
    /// The drawing as SVG; empty when there is nothing to draw.
    pub fn svg(&self) -> String {
        let shown = |(x, y): &(f64, f64)| {
            let fits =
                |scale, value: f64| value.is_finite() && (scale == Scale::Linear || value > 0.0);
            fits(self.x.scale, *x) && fits(self.y.scale, *y)
        };
        let points = self.lines.iter().flat_map(|line| &line.points).copied();
        let mut points: Vec<(f64, f64)> = points.filter(|point| shown(point)).collect();
        if points.is_empty() {
            return String::new();
        }
        let bars = self.lines.iter().flat_map(|line| &line.bars);
        let ends = bars.flat_map(|(x, low, high)| [(*x, *low), (*x, *high)]);
        points.extend(ends.filter(|end| shown(end)));
        let right = WIDTH - LEGEND;
        let x = span(&self.x, points.iter().map(|p| p.0), (LEFT, right));
        let y = span(&self.y, points.iter().map(|p| p.1), (HEIGHT - BOTTOM, TOP));
        let mut out = format!(
            "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">\n\
             <text class=\"title\" x=\"{LEFT}\" y=\"24\">{}</text>\n",
            escaped(&self.title),
            escaped(&self.title)
        );
        self.frame(&mut out, &x, &y);
        for line in &self.lines {
            let kept: Vec<(f64, f64)> = line.points.iter().copied().filter(|p| shown(p)).collect();
            let bars = line.bars.iter().copied();
            let bars = bars.filter(|(x, low, high)| shown(&(*x, *low)) && shown(&(*x, *high)));
            bars.for_each(|bar| draw_bar(&mut out, line, bar, &x, &y));
            draw(&mut out, line, &kept, &x, &y);
        }
        self.legend(&mut out, right + 22.0);
        out.push_str("</svg>\n");
        out
    }

    fn frame(&self, out: &mut String, x: &Span, y: &Span) {
        let (left, right, low, high) = (LEFT, WIDTH - LEGEND, HEIGHT - BOTTOM, TOP);
        for value in ticks(y.scale, y.low, y.high, 5) {
            let at = y.at(value);
            let _ = writeln!(
                out,
                "<line class=\"grid\" x1=\"{left}\" x2=\"{right}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>\
                 <text class=\"dim\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                left - 9.0,
                at + 4.5,
                number(value)
            );
        }
        let marks = match self.x.names.is_empty() {
            true => ticks(x.scale, x.low, x.high, 9).into_iter().map(|v| (v, number(v))).collect(),
            false => self.x.names.clone(),
        };
        for (value, name) in marks {
            let at = x.at(value);
            let _ = writeln!(
                out,
                "<line class=\"grid\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{low}\" y2=\"{high}\"/>\
                 <text class=\"dim\" x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                low + 19.0,
                escaped(&clipped(&name, 14))
            );
        }
        let _ = writeln!(
            out,
            "<line class=\"axis\" x1=\"{left}\" x2=\"{right}\" y1=\"{low}\" y2=\"{low}\"/>\
             <text class=\"dim\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\
             <text class=\"dim\" x=\"{left}\" y=\"42\">{}</text>",
            f64::midpoint(left, right),
            HEIGHT - 12.0,
            escaped(&self.x.label),
            escaped(&self.y.label)
        );
    }

    fn legend(&self, out: &mut String, left: f64) {
        if !self.key.is_empty() {
            let key = escaped(&clipped(&self.key, NAME_MAX + 4));
            let _ = writeln!(out, "<text class=\"dim\" x=\"{left}\" y=\"42\">{key}</text>");
        }
        let named: Vec<&Line> = self.lines.iter().filter(|line| !line.name.is_empty()).collect();
        for (index, line) in named.iter().take(NAMES_MAX).enumerate() {
            let at = TOP + 8.0 + index as f64 * ROW;
            let _ = writeln!(
                out,
                "<line class=\"line\" {} x1=\"{left}\" x2=\"{:.1}\" y1=\"{at}\" y2=\"{at}\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                stroke(line),
                left + 24.0,
                left + 32.0,
                at + 4.5,
                escaped(&clipped(&line.name, NAME_MAX))
            );
        }
        if named.len() > NAMES_MAX {
            let at = TOP + 12.5 + NAMES_MAX as f64 * ROW;
            let more = named.len() - NAMES_MAX;
            let _ = writeln!(
                out,
                "<text class=\"dim\" x=\"{left}\" y=\"{at}\">and {more} more: see the table</text>"
            );
        }
    }
}

/// The range of an axis: from 0 if it is linear, to a little above the largest value.
fn span(axis: &Axis, values: impl Iterator<Item = f64> + Clone, place: (f64, f64)) -> Span {
    let low = values.clone().fold(f64::INFINITY, f64::min);
    let high = values.fold(f64::NEG_INFINITY, f64::max);
    let (from, to) = place;
    let upright = from > to;
    let (low, high) = match axis.scale {
        Scale::Linear if !axis.names.is_empty() => (low - 0.3, high + 0.3),
        Scale::Linear => {
            let low = low.min(0.0);
            let high = if upright { low + (high - low) * 1.06 } else { high };
            (low, if high > low { high } else { low + 1.0 })
        }
        Scale::Log | Scale::Doubling => {
            // At least half a decade upwards and downwards, so that noise does not look like a
            // difference.
            let narrow = high / low < 3.0;
            let room: f64 = match upright {
                true if narrow => 3.0,
                true => 1.25,
                false => 1.0,
            };
            let (low, high) = (low / room, high * room);
            if high > low { (low, high) } else { (low / 2.0, high * 2.0) }
        }
    };
    Span { scale: axis.scale, low, high, from, to }
}

fn draw(out: &mut String, line: &Line, points: &[(f64, f64)], x: &Span, y: &Span) {
    let places: Vec<String> =
        points.iter().map(|point| format!("{:.1},{:.1}", x.at(point.0), y.at(point.1))).collect();
    let _ = writeln!(
        out,
        "<polyline class=\"line\" {} points=\"{}\"/>",
        stroke(line),
        places.join(" ")
    );
    if points.len() > MARKS_MAX || line.stroke == LineStyle::Dashed {
        return;
    }
    for point in points {
        let _ = writeln!(
            out,
            "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"3.6\" fill=\"var(--c{})\"><title>{}: {} at \
             {}</title></circle>",
            x.at(point.0),
            y.at(point.1),
            line.colour % COLOURS,
            escaped(&line.name),
            number(point.1),
            number(point.0)
        );
    }
}

/// From the least to the greatest value, with a cap at both ends.
fn draw_bar(out: &mut String, line: &Line, bar: (f64, f64, f64), x: &Span, y: &Span) {
    let (at, low, high) = (x.at(bar.0), y.at(bar.1), y.at(bar.2));
    let (left, right) = (at - 4.0, at + 4.0);
    let _ = writeln!(
        out,
        "<path fill=\"none\" stroke=\"var(--c{})\" stroke-opacity=\"0.8\" d=\"M{left:.1} {low:.1} \
         H{right:.1} M{at:.1} {low:.1} V{high:.1} M{left:.1} {high:.1} H{right:.1}\"/>",
        line.colour % COLOURS
    );
}

fn stroke(line: &Line) -> String {
    let dashes = match (line.stroke, line.colour / COLOURS) {
        (LineStyle::Dashed, _) => " stroke-dasharray=\"7 6\" stroke-opacity=\"0.75\"",
        // Dots distinguish the second round of the colours from the first one.
        (LineStyle::Solid, 0) => "",
        (LineStyle::Solid, _) => " stroke-dasharray=\"1 5\"",
    };
    format!("stroke=\"var(--c{})\"{dashes}", line.colour % COLOURS)
}

/// A number with as many digits as it needs.
fn number(value: f64) -> String {
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

fn clipped(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}\u{2026}", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot(points: Vec<(f64, f64)>, scale: Scale) -> Plot {
        Plot {
            title: "a <b> & \"c\"".to_owned(),
            x: Axis::new("x", scale),
            y: Axis::new("y", scale),
            key: "<key>".to_owned(),
            lines: vec![Line {
                bars: points.iter().map(|(x, y)| (*x, y / 2.0, y * 2.0)).collect(),
                ..Line::new("<script>".to_owned(), points, LineStyle::Solid, 9)
            }],
        }
    }

    #[test]
    fn positions_are_finite_for_all_points() {
        let odd = [0.0, -1.0, f64::NAN, f64::INFINITY, 1e300, 1e-300, 5.0];
        for scale in [Scale::Linear, Scale::Log, Scale::Doubling] {
            for one in odd {
                for two in odd {
                    let svg = plot(vec![(one, two), (two, one), (1.0, 1.0)], scale).svg();
                    assert!(!svg.contains("NaN") && !svg.contains("inf"), "{one} {two}: {svg}");
                    assert!(!svg.contains("<script>") && svg.contains("&lt;script&gt;"));
                }
            }
            assert_eq!(plot(Vec::new(), scale).svg(), "");
        }
    }

    #[test]
    fn error_bars_have_two_ends_and_fit() {
        let mut plot = plot(vec![(1.0, 10.0), (2.0, 20.0)], Scale::Linear);
        plot.lines[0].bars = vec![(2.0, 5.0, 40.0)];
        let svg = plot.svg();
        let path = svg.lines().find(|line| line.starts_with("<path")).unwrap();
        let heights: Vec<f64> = path
            .split('M')
            .skip(1)
            .map(|part| part.split(' ').nth(1).unwrap().parse().unwrap())
            .collect();
        assert_eq!(heights.len(), 3, "{path}");
        assert!(heights[0] == heights[1] && heights[2] < heights[0], "{path}");
        assert!(heights.iter().all(|at| (TOP..=HEIGHT - BOTTOM).contains(at)), "{path}");
    }

    #[test]
    fn numbers_are_short() {
        let texts = [0.0, 0.0625, 2.5, 100.0, 12_500.0, 3_000_000.0].map(number);
        assert_eq!(texts, ["0", "0.0625", "2.5", "100", "12,500", "3,000,000"]);
    }
}
