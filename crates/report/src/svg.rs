//! Drawings as SVG: in a page with the page's colours, or as documents of their own.

use std::fmt::Write as _;

use crate::drawing::{Anchor, Dashes, Direction, Drawing, Pen, Rect, Shape, Text};
use crate::font::Weight;
use crate::palette::{LIGHT, Tone, hex};

/// The fonts of documents; the names are those that most systems have.
const FONTS: &str = "Roboto, 'Segoe UI', 'Helvetica Neue', Helvetica, Arial, sans-serif";

/// Where colours come from.
#[derive(Clone, Copy)]
enum Colours {
    /// Variables of the page.
    Page,
    /// The light view, because other programs than browsers know no variables.
    Light,
}

impl Colours {
    fn of(self, tone: Tone) -> String {
        match self {
            Colours::Page => format!("var(--{})", tone.name()),
            Colours::Light => hex(LIGHT.of(tone)),
        }
    }
}

/// A drawing as a part of a page, with the page's colours.
pub(crate) fn in_page(drawing: &Drawing) -> String {
    let Drawing { title, width, height, .. } = drawing;
    // On paper three of the others share a sheet.
    let class = if *height > 0.6 * width { " class=\"tall\"" } else { "" };
    let mut out = format!(
        "<svg{class} viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\" \
         preserveAspectRatio=\"xMinYMin\" aria-label=\"{}\">\n",
        escaped(title)
    );
    drawing.shapes.iter().for_each(|shape| write(&mut out, shape, Colours::Page));
    out + "</svg>\n"
}

/// A drawing as a document that needs nothing else, in the colours of the light view.
pub(crate) fn document(drawing: &Drawing) -> String {
    let Drawing { title, width, height, .. } = drawing;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
         viewBox=\"0 0 {width:.0} {height:.0}\" font-family=\"{FONTS}\">\n<title>{}</title>\n\
         <rect width=\"{width:.0}\" height=\"{height:.0}\" fill=\"{}\"/>\n",
        escaped(title),
        Colours::Light.of(Tone::Paper)
    );
    drawing.shapes.iter().for_each(|shape| write(&mut out, shape, Colours::Light));
    out + "</svg>\n"
}

/// Escapes text from any source.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // Control characters are not allowed in a page.
            c if c.is_control() && !matches!(c, '\n' | '\t') => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

fn write(out: &mut String, shape: &Shape, colours: Colours) {
    match shape {
        Shape::Path { points, pen } => {
            let points: Vec<String> =
                points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
            let _ = writeln!(
                out,
                "<polyline fill=\"none\"{} points=\"{}\"/>",
                stroke(pen, colours),
                points.join(" ")
            );
        }
        Shape::Rect(rect) => write_rect(out, rect, colours),
        Shape::Sign { points, tone, hover } => {
            let points: Vec<String> =
                points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
            let _ = write!(
                out,
                "<polygon points=\"{}\" fill=\"{}\"",
                points.join(" "),
                colours.of(*tone)
            );
            end(out, "polygon", hover);
        }
        Shape::Dot { at: (x, y), radius, tone, hover } => {
            let _ = write!(
                out,
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\" fill=\"{}\"",
                colours.of(*tone)
            );
            end(out, "circle", hover);
        }
        Shape::Text(text) => write_text(out, text, colours),
    }
}

/// The end of an element, with what a browser shows under the mouse.
fn end(out: &mut String, element: &str, hover: &str) {
    let _ = match hover.is_empty() {
        true => writeln!(out, "/>"),
        false => writeln!(out, "><title>{}</title></{element}>", escaped(hover)),
    };
}

fn write_rect(out: &mut String, rect: &Rect, colours: Colours) {
    let ((x, y), (width, height)) = (rect.at, rect.size);
    let _ =
        write!(out, "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\"");
    match rect.fill {
        None => out.push_str(" fill=\"none\""),
        Some((tone, opacity)) => {
            let _ = write!(out, " fill=\"{}\"", colours.of(tone));
            if opacity < 1.0 {
                let _ = write!(out, " fill-opacity=\"{opacity:.2}\"");
            }
        }
    }
    if let Some(pen) = &rect.edge {
        out.push_str(&stroke(pen, colours));
    }
    end(out, "rect", &rect.hover);
}

fn write_text(out: &mut String, text: &Text, colours: Colours) {
    let (x, y) = text.at;
    let _ = write!(
        out,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{}\" fill=\"{}\"",
        text.size,
        colours.of(text.tone)
    );
    if text.weight == Weight::Medium {
        out.push_str(" font-weight=\"600\"");
    }
    match text.anchor {
        Anchor::Start => {}
        Anchor::Middle => out.push_str(" text-anchor=\"middle\""),
        Anchor::End => out.push_str(" text-anchor=\"end\""),
    }
    if text.direction == Direction::Up {
        let _ = write!(out, " transform=\"rotate(-90 {x:.1} {y:.1})\"");
    }
    let _ = writeln!(out, ">{}</text>", escaped(&text.text));
}

fn stroke(pen: &Pen, colours: Colours) -> String {
    let mut out = format!(" stroke=\"{}\" stroke-width=\"{}\"", colours.of(pen.tone), pen.width);
    if pen.width > 1.5 {
        out.push_str(" stroke-linejoin=\"round\"");
    }
    if let Some((dash, gap)) = pen.dashes.lengths() {
        let _ = write!(out, " stroke-dasharray=\"{dash} {gap}\"");
    }
    if pen.dashes == Dashes::Dots {
        out.push_str(" stroke-linecap=\"round\"");
    }
    if pen.opacity < 1.0 {
        let _ = write!(out, " stroke-opacity=\"{}\"", pen.opacity);
    }
    out
}
