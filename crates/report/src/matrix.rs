//! A value for each pair, as a grid of shaded cells with a scale.

use std::collections::BTreeSet;

use crate::drawing::{
    Anchor, Direction, Draw, Drawing, DrawingFormat, Pen, Rect, SLIDE, Shape, Text, fitted, room,
    widest,
};
use crate::font::Weight;
use crate::numbers::grouped;
use crate::palette::Tone;
use crate::ticks::{Scale, ticks};

/// Longest name of a row or column, as a part of the width.
const NAME_MAX: f64 = 0.2;

/// Opacity of the smallest and of the largest value, with and without its text in the cell.
const SHADES: (f64, f64) = (0.06, 0.92);
const SHADES_UNDER_TEXT: (f64, f64) = (0.06, 0.52);

/// The widest cell.
const CELL_MAX: f64 = 128.0;

/// Height of a box of the scale.
const STEP: f64 = 22.0;

/// What is said of missing cells.
const NO_CELL: &str = "no cell: not measured";

/// Values of pairs.
#[derive(Clone, Debug)]
pub struct Matrix {
    /// Its title.
    pub title: String,
    /// The unit of the values.
    pub unit: String,
    /// What the rows and the columns are.
    pub sides: (String, String),
    /// The names of the rows.
    pub down: Vec<String>,
    /// The names of the columns.
    pub across: Vec<String>,
    /// The values by row; `None` where there is none.
    pub values: Vec<Vec<Option<f64>>>,
    /// Row and column of the values that stand out.
    pub marked: BTreeSet<(usize, usize)>,
    /// What the marks mean.
    pub meaning: String,
}

/// Where the parts are.
struct Layout {
    size: (f64, f64),
    margin: f64,
    text: f64,
    title: f64,
    /// Upper left corner of the cells, and the size of one with the gap beside it.
    corner: (f64, f64),
    cell: (f64, f64),
    /// Size of the letters in cells; `None` if they do not fit.
    inside: Option<f64>,
    legend: f64,
    across: Direction,
}

impl Draw for Matrix {
    fn drawing(&self, format: DrawingFormat<'_>) -> Option<Drawing> {
        if self.down.is_empty() || self.across.is_empty() {
            return None;
        }
        let layout = self.layout(format);
        let mut shapes = Vec::new();
        let (margin, title) = (layout.margin, layout.title);
        let room = layout.size.0 - 2.0 * margin;
        let whole = format.title(&self.title);
        let words = fitted(&whole, title, Weight::Medium, room);
        let at = (margin, margin + title);
        shapes.push(Shape::Text(Text::new(at, &words, title, Tone::Ink).bold()));
        let under = (margin, margin + 1.3 * title + 1.3 * layout.text);
        let sides = format!("{} down, {} across", self.sides.0, self.sides.1);
        let sides = fitted(&sides, layout.text, Weight::Regular, layout.legend - margin);
        shapes.push(Shape::Text(Text::new(under, &sides, layout.text, Tone::Dim)));
        self.names(&layout, &mut shapes);
        self.cells(&layout, &mut shapes);
        self.legend(&layout, under.1, &mut shapes);
        shapes.extend(format.foot(margin));
        let (width, height) = layout.size;
        Some(Drawing { title: whole, width, height, shapes })
    }
}

impl Matrix {
    fn layout(&self, format: DrawingFormat<'_>) -> Layout {
        let (whole, high, margin, text, title) = match format {
            DrawingFormat::Page => (940.0, None, 2.0, 13.0, 16.0),
            DrawingFormat::Slide { .. } => (SLIDE.0, Some(SLIDE.1), 26.0, 15.0, 21.0),
        };
        let most = NAME_MAX * whole;
        // Every name can be one of those in bold letters.
        let longest = |names: &[String]| {
            widest(names.iter().map(String::as_str), text, Weight::Medium).min(most)
        };
        let meaning = [self.meaning.as_str(), NO_CELL];
        let legend = 1.5 * STEP + widest(meaning.into_iter(), text, Weight::Regular);
        let legend = whole - margin - legend.min(0.3 * whole);
        let left = margin + longest(&self.down) + 8.0;
        let (rows, columns) = (self.down.len() as f64, self.across.len() as f64);
        let wide = ((legend - 24.0 - left) / columns).min(CELL_MAX);
        let names = longest(&self.across);
        let (across, tall) = match names + 6.0 <= wide {
            true => (Direction::Right, 1.2 * text),
            false => (Direction::Up, names),
        };
        let under = margin + 1.3 * title + 1.3 * text;
        let top = under + 0.9 * text + tall;
        // Cells of a page are as high as they are wide, as far as that is neither flat nor high.
        let tallest = high.map_or(f64::INFINITY, |high| (high - margin - top) / rows);
        let cell = match format {
            DrawingFormat::Page => (wide, wide.min(26.0)),
            DrawingFormat::Slide { .. } => (wide, tallest.min(wide).min(44.0)),
        };
        let scale_ends = under + 13.0 * STEP;
        let height = high.unwrap_or((top + cell.1 * rows + 8.0).max(scale_ends));
        let values = self.values.iter().flatten().flatten();
        let values = values.map(|value| room(&grouped(*value), 12.0, Weight::Regular));
        let values = values.fold(0.0, f64::max);
        let fits = values + 4.0 <= cell.0 - 2.0 && cell.1 >= 16.0;
        let inside = fits.then_some(12.0);
        let corner = (left, top);
        // Beside the cells, where they do not need all of the width.
        let legend = legend.min((left + cell.0 * columns + 32.0).max(NAME_MAX * whole + left));
        let size = (whole, height);
        Layout { size, margin, text, title, corner, cell, inside, legend, across }
    }

    fn most(&self) -> f64 {
        let values = self.values.iter().flatten().flatten().copied();
        let positive = values.filter(|value| value.is_finite() && *value > 0.0);
        // Without any, the scale still needs an end.
        positive.max_by(f64::total_cmp).unwrap_or(1.0)
    }

    /// Rows or columns that keep their names when there is no room for all: those of which at
    /// least half is marked, and those of single marks.
    fn important(&self) -> (BTreeSet<usize>, BTreeSet<usize>) {
        let row = |at: usize| self.marked.iter().filter(move |mark| mark.0 == at).count();
        let column = |at: usize| self.marked.iter().filter(move |mark| mark.1 == at).count();
        let (rows, columns) = (self.down.len(), self.across.len());
        let mut down: BTreeSet<usize> = (0..rows).filter(|at| 2 * row(*at) >= columns).collect();
        let mut across: BTreeSet<usize> =
            (0..columns).filter(|at| 2 * column(*at) >= rows).collect();
        let single = self.marked.iter().filter(|at| !down.contains(&at.0));
        let single: Vec<_> = single.filter(|at| !across.contains(&at.1)).copied().collect();
        down.extend(single.iter().map(|at| at.0));
        across.extend(single.iter().map(|at| at.1));
        (down, across)
    }

    fn names(&self, layout: &Layout, shapes: &mut Vec<Shape>) {
        let (left, top) = layout.corner;
        let (wide, high) = layout.cell;
        let text = layout.text;
        let most = NAME_MAX * layout.size.0;
        let named = |at: (f64, f64), name: &str, is_important: bool| {
            let (weight, tone) = match is_important {
                true => (Weight::Medium, Tone::Ink),
                false => (Weight::Regular, Tone::Dim),
            };
            let name = fitted(name, text, weight, most);
            Text { weight, ..Text::new(at, &name, text, tone) }
        };
        let (down, across) = self.important();
        for row in chosen(self.down.len(), high, text, &down) {
            let at = (left - 8.0, top + high * (row as f64 + 0.5) + 0.35 * text);
            let name = named(at, &self.down[row], down.contains(&row));
            shapes.push(Shape::Text(name.anchored(Anchor::End)));
        }
        let each = match layout.across {
            // They are beside each other only where all fit.
            Direction::Right => f64::INFINITY,
            Direction::Up => wide,
        };
        for column in chosen(self.across.len(), each, text, &across) {
            let middle = left + wide * (column as f64 + 0.5);
            let is_important = across.contains(&column);
            let name = match layout.across {
                Direction::Right => named((middle, top - 6.0), &self.across[column], is_important)
                    .anchored(Anchor::Middle),
                Direction::Up => {
                    let at = (middle + 0.35 * text, top - 6.0);
                    named(at, &self.across[column], is_important).upwards()
                }
            };
            shapes.push(Shape::Text(name));
        }
    }

    fn cells(&self, layout: &Layout, shapes: &mut Vec<Shape>) {
        let (wide, high) = layout.cell;
        let gap = if wide.min(high) >= 14.0 { 2.0 } else { 0.8 };
        let place = |row: usize, column: usize| {
            let (left, top) = layout.corner;
            (left + wide * column as f64, top + high * row as f64)
        };
        for (row, values) in self.values.iter().enumerate() {
            for (column, value) in values.iter().enumerate() {
                let (Some(value), (x, y)) = (value, place(row, column)) else { continue };
                let shown = grouped(*value);
                let (from, to) = (&self.down[row], &self.across[column]);
                shapes.push(Shape::Rect(Rect {
                    at: (x, y),
                    size: (wide - gap, high - gap),
                    fill: Some((Tone::Line(0), self.shade(layout, *value))),
                    edge: None,
                    hover: format!("{from} - {to}: {shown}"),
                }));
                if let Some(size) = layout.inside {
                    let at = (x + (wide - gap) / 2.0, y + (high - gap) / 2.0 + 0.35 * size);
                    let text = Text::new(at, &shown, size, Tone::Ink);
                    shapes.push(Shape::Text(text.anchored(Anchor::Middle)));
                }
            }
        }
        // Above all cells, because they reach over the gaps.
        for (row, column) in &self.marked {
            let (x, y) = place(*row, *column);
            shapes.push(Shape::Rect(edged((x, y), (wide - gap, high - gap))));
        }
    }

    fn shade(&self, layout: &Layout, value: f64) -> f64 {
        let (least, most) = match layout.inside {
            Some(_) => SHADES_UNDER_TEXT,
            None => SHADES,
        };
        least + (most - least) * (value / self.most()).clamp(0.0, 1.0)
    }

    /// The scale from the largest value down to 0, and what edges and missing cells mean.
    fn legend(&self, layout: &Layout, under: f64, shapes: &mut Vec<Shape>) {
        let (left, text) = (layout.legend, layout.text);
        let room = layout.size.0 - layout.margin - left;
        let unit = fitted(&self.unit, text, Weight::Regular, room);
        shapes.push(Shape::Text(Text::new((left, under), &unit, text, Tone::Dim)));
        let mut at = under + 0.8 * text;
        let beside = left + 1.4 * STEP;
        let words = |at: f64, words: &str| {
            let room = layout.size.0 - layout.margin - beside;
            let words = fitted(words, text, Weight::Regular, room);
            let at = (beside, at + STEP / 2.0 + 0.3 * text);
            Shape::Text(Text::new(at, &words, text, Tone::Ink))
        };
        for value in ticks(Scale::Linear, 0.0, self.most(), 7).into_iter().rev() {
            let fill = Some((Tone::Line(0), self.shade(layout, value)));
            let (at_box, size) = ((left, at), (STEP, STEP));
            shapes.push(Shape::Rect(Rect {
                at: at_box,
                size,
                fill,
                edge: None,
                hover: String::new(),
            }));
            shapes.push(words(at, &crate::plot::number(value)));
            at += STEP;
        }
        if !self.marked.is_empty() {
            at += 0.5 * STEP;
            shapes.push(Shape::Rect(edged((left + 2.0, at + 2.0), (STEP - 4.0, STEP - 4.0))));
            shapes.push(words(at, &self.meaning));
            at += STEP;
        }
        if self.values.iter().flatten().any(Option::is_none) {
            shapes.push(words(at, NO_CELL));
        }
    }
}

/// The edge of a cell that stands out.
fn edged(at: (f64, f64), size: (f64, f64)) -> Rect {
    let edge = Some(Pen::new(Tone::Line(1), if size.1 >= 12.0 { 2.4 } else { 1.4 }));
    Rect { at, size, fill: None, edge, hover: String::new() }
}

/// Which of `count` names are written when each has `each` of room and a line of letters of `text`
/// is needed: important ones first, then as many of the others as fit.
fn chosen(count: usize, each: f64, text: f64, important: &BTreeSet<usize>) -> BTreeSet<usize> {
    let step = ((1.15 * text / each).ceil() as usize).max(1);
    let mut chosen: BTreeSet<usize> = BTreeSet::new();
    for at in important.iter().copied().chain((0..count).step_by(step)) {
        let near = at.saturating_sub(step - 1)..at + step;
        if at < count && chosen.range(near).next().is_none() {
            chosen.insert(at);
        }
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drawing::tests::assert_legible;
    use crate::palette::tests::{contrast, over};
    use crate::palette::{DARK, LIGHT};

    /// All pairs of some nodes; one node is slow, and one more pair.
    fn matrix(nodes: usize) -> Matrix {
        let slow =
            |from: usize, to: usize| from == nodes / 2 || to == nodes / 2 || (from, to) == (1, 2);
        let value = |from: usize, to: usize| match (from == to, slow(from, to)) {
            (true, _) => None,
            (false, true) => Some(1234.0),
            (false, false) => Some(9000.0 + (from * 7 + to * 3) as f64 % 500.0),
        };
        let names: Vec<String> = (0..nodes).map(|at| format!("10.177.200.{at}@tcp")).collect();
        let all = (0..nodes).flat_map(|from| (0..nodes).map(move |to| (from, to)));
        Matrix {
            title: "Pairs, concurrency 8".to_owned(),
            unit: "MiB/s".to_owned(),
            sides: ("clients".to_owned(), "servers".to_owned()),
            down: names.clone(),
            across: names,
            values: (0..nodes).map(|y| (0..nodes).map(|x| value(y, x)).collect()).collect(),
            marked: all.filter(|(from, to)| from != to && slow(*from, *to)).collect(),
            meaning: "below half of the median".to_owned(),
        }
    }

    fn texts(drawing: &Drawing) -> Vec<&Text> {
        fn text(shape: &Shape) -> Option<&Text> {
            if let Shape::Text(text) = shape { Some(text) } else { None }
        }
        drawing.shapes.iter().filter_map(text).collect()
    }

    #[test]
    fn a_matrix_is_legible_from_2_to_64_nodes() {
        for nodes in [2, 4, 8, 12, 16, 33, 64] {
            let matrix = matrix(nodes);
            for format in
                [DrawingFormat::Page, DrawingFormat::Slide { heading: "read", foot: "here, today" }]
            {
                let drawing = matrix.drawing(format).expect("a drawing");
                assert_legible(&drawing);
                for shape in &drawing.shapes {
                    let Shape::Rect(rect) = shape else { continue };
                    let (right, low) = (rect.at.0 + rect.size.0, rect.at.1 + rect.size.1);
                    assert!(rect.size.0 > 3.0 && rect.size.1 > 2.5, "{nodes}: {rect:?}");
                    assert!(right < drawing.width && low < drawing.height, "{nodes}: {rect:?}");
                }
                // The slow node has its name on both sides, and so have the ends of the slow pair.
                let names =
                    |name: String| texts(&drawing).iter().filter(|t| t.text == name).count();
                assert_eq!(names(format!("10.177.200.{}@tcp", nodes / 2)), 2, "{nodes} {format:?}");
                for node in (0..nodes).filter(|_| nodes <= 12) {
                    assert_eq!(names(format!("10.177.200.{node}@tcp")), 2, "{nodes} {format:?}");
                }
                let edges = drawing.shapes.iter();
                let edges = edges.filter(|s| matches!(s, Shape::Rect(Rect { edge: Some(_), .. })));
                assert_eq!(edges.count(), matrix.marked.len() + 1, "{nodes}");
            }
        }
    }

    #[test]
    fn a_scale_is_beside_the_cells_and_ends_at_0() {
        let drawing = matrix(64).drawing(DrawingFormat::Page).expect("a drawing");
        let texts: Vec<&str> = texts(&drawing).iter().map(|text| text.text.as_str()).collect();
        for wanted in
            ["MiB/s", "8,000", "6,000", "0", "below half of the median", "no cell: not measured"]
        {
            assert!(texts.contains(&wanted), "{wanted}: {texts:?}");
        }
    }

    #[test]
    fn values_can_be_read_on_the_darkest_cell_in_both_views() {
        for palette in [&LIGHT, &DARK] {
            let paper = palette.of(Tone::Paper);
            let darkest = over(palette.of(Tone::Line(0)), SHADES_UNDER_TEXT.1, paper);
            let found = contrast(palette.of(Tone::Ink), darkest);
            assert!(found >= 4.5, "{found}");
            // The edge of a slow cell, which is a pale one.
            let pale = over(palette.of(Tone::Line(0)), SHADES.1 / 2.0, paper);
            let found = contrast(palette.of(Tone::Line(1)), over(pale, 0.5, paper));
            assert!(found >= 2.0, "{found}");
        }
    }
}
