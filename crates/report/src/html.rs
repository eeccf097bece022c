//! An HTML page that needs no other file and no scripts.

use std::fmt::Write as _;

use crate::drawing::{Draw, Drawing, DrawingFormat};
use crate::palette::{DARK, LIGHT};
use crate::svg::escaped;
use crate::{png, svg};

/// The rules of the page; the colours are variables, which `Page::new` defines before them.
const STYLE: &str = "\
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 2rem 1.5rem 4rem; max-width: 68rem; color: var(--ink);
  background: var(--paper); font: 15px/1.5 system-ui, 'Segoe UI', Roboto, Helvetica, Arial,
  sans-serif; overflow-wrap: break-word; }
h1 { font-size: 1.6rem; margin: 0 0 .2rem; line-height: 1.25; }
h2 { font-size: 1.15rem; margin: 2.2rem 0 .6rem; }
p.under { color: var(--dim); margin: 0 0 1.2rem; }
figure { margin: 0 0 1.2rem; }
p.verdict { font-size: 1.15rem; font-weight: 600; margin: 0 0 1.2rem; }
svg { width: 100%; height: auto; display: block; font-family: system-ui, 'Segoe UI', Roboto,
  Helvetica, Arial, sans-serif; font-variant-numeric: tabular-nums; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: 14px; font-variant-numeric: tabular-nums;
  margin: 0 0 1rem; }
th, td { padding: .28rem .45rem; text-align: right; border-bottom: 1px solid var(--grid);
  white-space: nowrap; }
th { color: var(--dim); font-weight: 600; } th:first-child, td:first-child,
td.word, th.word { text-align: left; }
  td.word:last-child { white-space: normal; min-width: 9em; }
.tiles { display: flex; flex-wrap: wrap; gap: .8rem; margin: 0 0 1.4rem; }
.tile { background: var(--box); border: 1px solid var(--grid); border-radius: .5rem;
  padding: .6rem 1rem; min-width: 8.5rem; }
.tile b { display: block; font-size: 1.35rem; line-height: 1.3; } .tile span { color: var(--dim); }
ul.hints { background: var(--box); border: 1px solid var(--grid); border-left: 4px solid var(--c1);
  border-radius: .4rem; padding: .7rem 1rem .7rem 2rem; }
pre { background: var(--box); border: 1px solid var(--grid); border-radius: .5rem; padding: 1rem;
  overflow-x: auto; font-size: 13px; line-height: 1.45; }
summary { cursor: pointer; color: var(--dim); }
footer { color: var(--dim); font-size: 13px; margin-top: 2.5rem; }
@media print { body { max-width: none; padding: 0; font-size: 11pt; } .wide { overflow: visible; }
  figure, tr, .tile, ul.hints, p.verdict { break-inside: avoid; }
  figure svg { max-height: 7.6cm; } figure svg.tall { max-height: 17cm; }
  h1, h2, p.under, p.verdict { break-after: avoid; } thead { display: table-header-group; }
  table { font-size: 10px; } th, td { padding: .15rem .25rem; white-space: normal; }
  pre { white-space: pre-wrap; } }
";

/// The colours and the rules of a page. On paper the colours are those of the light view.
fn style() -> String {
    let (light, dark) = (LIGHT.variables(), DARK.variables());
    format!(
        ":root {{ color-scheme: light dark; {light}}}\n\
         @media screen and (prefers-color-scheme: dark) {{ :root {{ {dark}}} }}\n{STYLE}"
    )
}

/// A page that is being written.
pub struct Page {
    out: String,
    /// The last heading, for the names of figures.
    heading: String,
    /// Title and first line, for the foot of slides.
    foot: String,
    figures: Vec<Figure>,
}

/// A page that is complete.
#[derive(Clone, Debug, PartialEq)]
pub struct FinishedPage {
    /// The page as text.
    pub html: String,
    /// Its figures, in the page's order.
    pub figures: Vec<Figure>,
}

/// A figure of a page as a slide of its own, in light colours.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// A name for a file, without an extension: its number on the page and its title, of
    /// lower-case ASCII letters, digits and `-`.
    pub name: String,
    slide: Drawing,
}

/// Pixels of a slide from left to right; 1080 from top to bottom.
const PIXELS: u32 = 1920;

impl Figure {
    /// SVG of 16:9, which needs no other file.
    pub fn svg(&self) -> String {
        svg::document(&self.slide)
    }

    /// A picture of 1920 x 1080 pixels; its letters need no font of the system.
    ///
    /// # Errors
    /// When the picture cannot be encoded.
    pub fn png(&self) -> Result<Vec<u8>, String> {
        png::png(&self.slide, PIXELS)
    }
}

/// A text as a part of a file's name.
fn slug(text: &str) -> String {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let words: Vec<String> = words.map(str::to_ascii_lowercase).collect();
    let mut slug = words.join("-");
    slug.truncate(80);
    slug
}

impl Page {
    /// Begins a page with a title, and a line under it.
    pub fn new(title: &str, under: &str) -> Page {
        let foot = format!("{title}. {under}");
        let (title, under) = (escaped(title), escaped(under));
        let out = format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <title>{title}</title>\n<style>\n{}</style>\n</head>\n<body>\n\
             <h1>{title}</h1>\n<p class=\"under\">{under}</p>\n",
            style()
        );
        Page { out, heading: String::new(), foot, figures: Vec::new() }
    }

    /// A heading.
    pub fn heading(&mut self, text: &str) {
        text.clone_into(&mut self.heading);
        let _ = writeln!(self.out, "<h2>{}</h2>", escaped(text));
    }

    /// A paragraph that says where what follows is from, also on its slides; slides before it have
    /// the page's title and first line.
    pub fn origin(&mut self, text: &str) {
        self.foot = format!("{}. {text}", self.heading);
        self.paragraph(text);
    }

    /// A paragraph.
    pub fn paragraph(&mut self, text: &str) {
        let _ = writeln!(self.out, "<p>{}</p>", escaped(text));
    }

    /// The most important result, in a sentence.
    pub fn verdict(&mut self, text: &str) {
        let _ = writeln!(self.out, "<p class=\"verdict\">{}</p>", escaped(text));
    }

    /// The most important numbers, each with its meaning.
    pub fn tiles(&mut self, tiles: &[(String, String)]) {
        self.out.push_str("<div class=\"tiles\">\n");
        for (number, what) in tiles {
            let (number, what) = (escaped(number), escaped(what));
            let _ =
                writeln!(self.out, "<div class=\"tile\"><b>{number}</b><span>{what}</span></div>");
        }
        self.out.push_str("</div>\n");
    }

    /// What to know before trusting the results; an empty list adds nothing.
    pub fn hints(&mut self, hints: &[String]) {
        if hints.is_empty() {
            return;
        }
        self.out.push_str("<ul class=\"hints\">\n");
        for hint in hints {
            let _ = writeln!(self.out, "<li>{}</li>", escaped(hint));
        }
        self.out.push_str("</ul>\n");
    }

    /// A plot; nothing if there is nothing to draw.
    pub fn figure(&mut self, plot: &impl Draw) {
        let slide = DrawingFormat::Slide { heading: &self.heading, foot: &self.foot };
        let drawings = (plot.drawing(DrawingFormat::Page), plot.drawing(slide));
        let (Some(in_page), Some(slide)) = drawings else { return };
        let number = self.figures.len() + 1;
        let name = slug(&format!("{number:02} {}", slide.title));
        self.figures.push(Figure { name, slide });
        let _ = writeln!(self.out, "<figure>\n{}</figure>", svg::in_page(&in_page));
    }

    /// A table. The column of a heading that begins with `<` holds words and is aligned to the
    /// left.
    pub fn table(&mut self, heads: &[&str], rows: &[Vec<String>]) {
        let word = |index: usize| heads[index].starts_with('<');
        let class = |index: usize| if word(index) { " class=\"word\"" } else { "" };
        self.out.push_str("<div class=\"wide\"><table>\n<thead><tr>");
        for (index, head) in heads.iter().enumerate() {
            let head = escaped(head.trim_start_matches('<'));
            let _ = write!(self.out, "<th{}>{head}</th>", class(index));
        }
        self.out.push_str("</tr></thead>\n");
        for row in rows {
            self.out.push_str("<tr>");
            for (index, cell) in row.iter().enumerate() {
                let _ = write!(self.out, "<td{}>{}</td>", class(index), escaped(cell));
            }
            self.out.push_str("</tr>\n");
        }
        self.out.push_str("</table></div>\n");
    }

    /// A text as it is, folded.
    pub fn text(&mut self, summary: &str, text: &str) {
        let (summary, text) = (escaped(summary), escaped(text));
        let _ = writeln!(
            self.out,
            "<details><summary>{summary}</summary>\n<pre>{text}</pre></details>"
        );
    }

    /// The page with a last line.
    pub fn end(mut self, footer: &str) -> FinishedPage {
        let _ = writeln!(self.out, "<footer>{}</footer>\n</body>\n</html>", escaped(footer));
        FinishedPage { html: self.out, figures: self.figures }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Axis, Line, LineStyle, Plot, Scale};

    fn plot() -> Plot {
        let line = Line::new("a".to_owned(), vec![(1.0, 1.0), (2.0, 3.0)], LineStyle::Solid, 0);
        Plot {
            title: "Reads & writes, 4k".to_owned(),
            x: Axis::new("x", Scale::Linear),
            y: Axis::new("ms", Scale::Linear),
            key: String::new(),
            lines: vec![line],
        }
    }

    #[test]
    fn a_figure_needs_no_style_of_the_page() {
        let mut page = Page::new("t", "of today");
        page.heading("Step one");
        page.figure(&plot());
        page.figure(&Plot { lines: Vec::new(), ..plot() });
        page.heading("Run 2");
        page.origin("of yesterday");
        page.figure(&plot());
        let FinishedPage { figures, .. } = page.end("");
        let [figure, other] = &figures[..] else { panic!("{figures:?}") };
        assert!(other.svg().contains(">Run 2. of yesterday<"), "{}", other.svg());
        assert_eq!(figure.name, "01-step-one-reads-writes-4k");
        let svg = figure.svg();
        for said in ["Step one: Reads &amp; writes, 4k", ">t. of today<"] {
            assert!(svg.contains(said), "a slide stands by itself: {said} {svg}");
        }
        assert!(!svg.contains("var(") && !svg.contains("style"), "{svg}");
        for there in [
            "xmlns=",
            "stroke=\"#0068b5\"",
            "stroke=\"#e3e7ec\"",
            "fill=\"#1b2430\"",
            "font-family=",
        ] {
            assert!(svg.contains(there), "{there}: {svg}");
        }
        let png = figure.png().expect("a picture");
        assert_eq!(&png[1..4], b"PNG");
        let size = |at: usize| u32::from_be_bytes(png[at..at + 4].try_into().expect("4 bytes"));
        assert_eq!((size(16), size(20)), (1920, 1080));
    }

    #[test]
    fn a_page_can_be_printed_and_has_both_views() {
        let mut page = Page::new("t", "");
        page.figure(&plot());
        page.table(&["<a", "b"], &[vec!["1".to_owned(), "2".to_owned()]]);
        let html = page.end("end").html;
        let (_, print) = html.split_once("@media print").expect("rules for paper");
        assert!(print.contains("figure, tr, .tile, ul.hints, p.verdict { break-inside: avoid; }"));
        assert!(print.contains(".wide { overflow: visible; }"));
        assert!(print.contains("h1, h2, p.under, p.verdict { break-after: avoid; }"));
        assert!(html.contains("<thead><tr><th class=\"word\">a</th>"), "repeated on each sheet");
        // The dark view is for screens only: browsers can be dark and print.
        assert!(html.contains("@media screen and (prefers-color-scheme: dark)"));
        for variable in html.match_indices("var(--").map(|(at, _)| &html[at + 4..]) {
            let name = variable.split(')').next().expect("a name");
            assert_eq!(html.matches(&format!("{name}: ")).count(), 2, "{name}");
        }
    }
}
