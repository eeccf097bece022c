//! A drawing of lines over values that double, as a separate SVG with a background of its own, so
//! that it can be read on any page, in light and dark schemes.

use std::fmt::Write as _;

use serde::Deserialize;

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 430.0;
const LEFT: f64 = 78.0;
const RIGHT: f64 = 706.0;
const TOP: f64 = 72.0;
const BOTTOM: f64 = 372.0;
const LEGEND: f64 = RIGHT + 24.0;
/// Height of a name in the legend.
const ROW: f64 = 23.0;
const COLOURS: usize = 6;

const STYLE: &str = "\
svg { --ink: #1b2430; --dim: #57626e; --grid: #e3e7ec; --paper: #ffffff; --edge: #d5dae0;
  --c0: #0068b5; --c1: #d1570a; --c2: #00875e; --c3: #b3368c; --c4: #8a6d00; --c5: #4f6472; }
@media (prefers-color-scheme: dark) { svg { --ink: #e6eaf0; --dim: #a3afbc; --grid: #2a333d;
  --paper: #12181f; --edge: #303a45; --c0: #5ab0f2; --c1: #f2914a; --c2: #3fc796; --c3: #e07cc0;
  --c4: #d9b83b; --c5: #a3b6c2; } }
text { fill: var(--ink); font: 14px system-ui, 'Segoe UI', Roboto, Helvetica, Arial, sans-serif; }
.title { font-size: 18px; font-weight: 600; } .dim { fill: var(--dim); }
.paper { fill: var(--paper); stroke: var(--edge); } .grid { stroke: var(--grid); }
.halo { paint-order: stroke; stroke: var(--paper); stroke-width: 5; }
.axis { stroke: var(--dim); } .level { stroke: var(--dim); stroke-dasharray: 2 4; }
.line { fill: none; stroke-width: 2.4; stroke-linejoin: round; stroke-linecap: round; }
.dash { stroke-dasharray: 7 6; stroke-width: 1.8; } .dots { stroke-dasharray: 1 5; }
.dot { fill: var(--paper); stroke-width: 2.4; }
";

/// How a curve is drawn.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(super) enum Look {
    Solid,
    Dashed,
    Dotted,
}

#[derive(Clone, Debug)]
pub(super) struct Curve {
    /// Its name in the legend; empty for none.
    pub(super) name: String,
    /// From left to right.
    pub(super) points: Vec<(f64, f64)>,
    pub(super) look: Look,
    pub(super) colour: usize,
}

/// Single values, as diamonds.
#[derive(Clone, Debug)]
pub(super) struct Dot {
    pub(super) name: String,
    pub(super) at: (f64, f64),
    pub(super) colour: usize,
}

#[derive(Clone, Debug)]
pub(super) struct Drawing {
    pub(super) title: String,
    pub(super) x: String,
    pub(super) y: String,
    pub(super) curves: Vec<Curve>,
    pub(super) dots: Vec<Dot>,
    /// Horizontal lines, with their names.
    pub(super) levels: Vec<(f64, String)>,
}

/// Maps values to positions.
struct Scale {
    x_low: f64,
    x_high: f64,
    y_high: f64,
}

impl Scale {
    /// Each doubling has the same width.
    fn x(&self, value: f64) -> f64 {
        let along = (value / self.x_low).ln() / (self.x_high / self.x_low).ln();
        LEFT + along * (RIGHT - LEFT)
    }

    fn y(&self, value: f64) -> f64 {
        BOTTOM - value / self.y_high * (BOTTOM - TOP)
    }
}

/// The drawing as a file.
pub(super) fn svg(drawing: &Drawing) -> String {
    let scale = drawing.scale();
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         width=\"{WIDTH}\" height=\"{HEIGHT}\" role=\"img\" aria-label=\"{title}\">\n\
         <style>\n{STYLE}</style>\n\
         <rect class=\"paper\" x=\"0.5\" y=\"0.5\" width=\"{}\" height=\"{}\" rx=\"8\"/>\n\
         <text class=\"title\" x=\"{LEFT}\" y=\"30\">{title}</text>\n\
         <text class=\"dim\" x=\"{LEFT}\" y=\"54\">{}</text>\n",
        WIDTH - 1.0,
        HEIGHT - 1.0,
        escaped(&drawing.y),
        title = escaped(&drawing.title),
    );
    drawing.frame(&scale, &mut out);
    for curve in &drawing.curves {
        curve.draw(&scale, &mut out);
    }
    for dot in &drawing.dots {
        diamond(scale.x(dot.at.0), scale.y(dot.at.1), dot.colour, &mut out);
    }
    drawing.legend(&mut out);
    out.push_str("</svg>\n");
    out
}

impl Drawing {
    fn scale(&self) -> Scale {
        let curves = self.curves.iter().flat_map(|curve| &curve.points);
        let all: Vec<(f64, f64)> =
            curves.copied().chain(self.dots.iter().map(|dot| dot.at)).collect();
        let least = all.iter().map(|point| point.0).fold(f64::INFINITY, f64::min);
        let most = all.iter().map(|point| point.0).fold(least * 2.0, f64::max);
        let highest = all.iter().map(|point| point.1);
        let levels = self.levels.iter().map(|level| level.0);
        let highest = highest.chain(levels).fold(f64::MIN_POSITIVE, f64::max);
        Scale { x_low: least, x_high: most, y_high: highest * 1.08 }
    }

    fn frame(&self, scale: &Scale, out: &mut String) {
        let step = step(scale.y_high / 7.0);
        let mut value = 0.0;
        while value <= scale.y_high {
            let at = scale.y(value);
            let _ = writeln!(
                out,
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{RIGHT}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>\
                 <text class=\"dim\" x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                LEFT - 10.0,
                at + 5.0,
                grouped(value)
            );
            value += step;
        }
        let mut value = scale.x_low;
        while value <= scale.x_high * 1.001 {
            let at = scale.x(value);
            let _ = writeln!(
                out,
                "<line class=\"grid\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{TOP}\" y2=\"{BOTTOM}\"/>\
                 <text class=\"dim\" x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{value}</text>",
                BOTTOM + 21.0
            );
            value *= 2.0;
        }
        let _ = writeln!(
            out,
            "<line class=\"axis\" x1=\"{LEFT}\" x2=\"{RIGHT}\" y1=\"{BOTTOM}\" y2=\"{BOTTOM}\"/>\
             <text class=\"dim\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            f64::midpoint(LEFT, RIGHT),
            BOTTOM + 45.0,
            escaped(&self.x)
        );
        for (level, name) in &self.levels {
            let at = scale.y(*level);
            let _ = writeln!(
                out,
                "<line class=\"level\" x1=\"{LEFT}\" x2=\"{RIGHT}\" y1=\"{at:.1}\" \
                 y2=\"{at:.1}\"/><text class=\"dim halo\" x=\"{}\" y=\"{:.1}\">{}</text>",
                LEFT + 8.0,
                at - 6.0,
                escaped(name)
            );
        }
    }

    fn legend(&self, out: &mut String) {
        let mut at = TOP + 10.0;
        for curve in self.curves.iter().filter(|curve| !curve.name.is_empty()) {
            let _ = writeln!(
                out,
                "<line {} x1=\"{LEGEND}\" x2=\"{}\" y1=\"{at}\" y2=\"{at}\"/>\
                 <text x=\"{}\" y=\"{}\">{}</text>",
                curve.stroke(),
                LEGEND + 26.0,
                LEGEND + 36.0,
                at + 5.0,
                escaped(&curve.name)
            );
            at += ROW;
        }
        for dot in self.dots.iter().filter(|dot| !dot.name.is_empty()) {
            diamond(LEGEND + 13.0, at, dot.colour, out);
            let _ = writeln!(
                out,
                "<text x=\"{}\" y=\"{}\">{}</text>",
                LEGEND + 36.0,
                at + 5.0,
                escaped(&dot.name)
            );
            at += ROW;
        }
    }
}

impl Curve {
    fn stroke(&self) -> String {
        let class = match self.look {
            Look::Solid => "line",
            Look::Dashed => "line dash",
            Look::Dotted => "line dots",
        };
        format!("class=\"{class}\" stroke=\"var(--c{})\"", self.colour % COLOURS)
    }

    fn draw(&self, scale: &Scale, out: &mut String) {
        let place = |point: &(f64, f64)| format!("{:.1},{:.1}", scale.x(point.0), scale.y(point.1));
        let places: Vec<String> = self.points.iter().map(place).collect();
        let _ = writeln!(out, "<polyline {} points=\"{}\"/>", self.stroke(), places.join(" "));
        if self.look != Look::Solid {
            return;
        }
        for (x, y) in &self.points {
            let _ = writeln!(
                out,
                "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"4\" fill=\"var(--c{})\"><title>{}: {} at \
                 {x}</title></circle>",
                scale.x(*x),
                scale.y(*y),
                self.colour % COLOURS,
                escaped(&self.name),
                grouped(y.round())
            );
        }
    }
}

fn diamond(x: f64, y: f64, colour: usize, out: &mut String) {
    let _ = writeln!(
        out,
        "<path class=\"dot\" stroke=\"var(--c{})\" d=\"M{x:.1} {:.1}l7 7l-7 7l-7-7z\"/>",
        colour % COLOURS,
        y - 7.0
    );
}

/// The smallest of 1, 2, 5 times a power of ten that is not below `value`.
fn step(least: f64) -> f64 {
    let power = 10f64.powf(least.log10().floor());
    let digit = [1.0, 2.0, 5.0].into_iter().find(|digit| digit * power >= least * 0.999);
    digit.unwrap_or(10.0) * power
}

/// A number with separated thousands.
fn grouped(value: f64) -> String {
    if value < 1000.0 {
        return format!("{value}");
    }
    let whole = value.round() as u64;
    match whole / 1_000_000 {
        0 => format!("{},{:03}", whole / 1000, whole % 1000),
        millions => format!("{millions},{:03},{:03}", whole / 1000 % 1000, whole % 1000),
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drawing_has_all_of_its_parts() {
        let drawing = Drawing {
            title: "a < b".to_owned(),
            x: "right".to_owned(),
            y: "up".to_owned(),
            curves: vec![Curve {
                name: "one & two".to_owned(),
                points: vec![(1.0, 0.0), (256.0, 1000.0)],
                look: Look::Solid,
                colour: 7,
            }],
            dots: vec![Dot { name: "paper".to_owned(), at: (16.0, 500.0), colour: 0 }],
            levels: vec![(1250.0, "the interface".to_owned())],
        };
        let svg = svg(&drawing);
        for wanted in ["a &lt; b", "one &amp; two", "the interface", "paper", "1,000", "var(--c1)"]
        {
            assert!(svg.contains(wanted), "{wanted}: {svg}");
        }
        assert_eq!(svg.matches("<circle").count(), 2);
        // 16 is half way between 1 and 256.
        assert!(svg.contains(&format!("M{:.1} ", f64::midpoint(LEFT, RIGHT))), "{svg}");
    }

    #[test]
    fn steps_are_round() {
        assert_eq!([0.9, 1.0, 1.1, 3.0, 260.0, 2500.0].map(step), [1.0, 1.0, 2.0, 5.0, 500.0, 5e3]);
    }
}
