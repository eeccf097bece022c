//! An HTML page that needs no other file and no scripts.

use std::fmt::Write as _;

/// Colours of lines, for the light and the dark scheme.
pub const COLOURS: usize = 8;

const STYLE: &str = "\
:root { --ink: #1b2430; --dim: #5c6773; --grid: #e3e7ec; --paper: #ffffff; --box: #f6f8fa;
  --c0: #0068b5; --c1: #d1570a; --c2: #00875e; --c3: #b3368c; --c4: #8a6d00; --c5: #4b5cc4;
  --c6: #c22f3d; --c7: #4f6472; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6eaf0; --dim: #9aa7b5; --grid: #2c3642;
  --paper: #12181f; --box: #1a222b; --c0: #5ab0f2; --c1: #f2914a; --c2: #3fc796; --c3: #e07cc0;
  --c4: #d9b83b; --c5: #95a2f5; --c6: #f0727d; --c7: #a3b6c2; } }
@media print { :root { --ink: #000; --dim: #444; --grid: #ddd; --paper: #fff; --box: #fff;
  --c0: #0068b5; --c1: #d1570a; --c2: #00875e; --c3: #b3368c; --c4: #8a6d00; --c5: #4b5cc4;
  --c6: #c22f3d; --c7: #4f6472; } figure, table { break-inside: avoid; }
  body { max-width: none; padding: 0; } .wide { overflow: visible; }
  table { font-size: 10px; } th, td { padding: .15rem .25rem; white-space: normal; }
  pre { white-space: pre-wrap; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 2rem 1.5rem 4rem; max-width: 68rem; color: var(--ink);
  background: var(--paper); font: 15px/1.5 system-ui, 'Segoe UI', Roboto, Helvetica, Arial,
  sans-serif; }
h1 { font-size: 1.6rem; margin: 0 0 .2rem; line-height: 1.25; }
h2 { font-size: 1.15rem; margin: 2.2rem 0 .6rem; }
p.under { color: var(--dim); margin: 0 0 1.2rem; }
figure { margin: 0 0 1.2rem; }
p.verdict { font-size: 1.15rem; font-weight: 600; margin: 0 0 1.2rem; }
svg { width: 100%; height: auto; display: block; }
svg text { fill: var(--ink); font: 13px system-ui, 'Segoe UI', Roboto, Helvetica, Arial,
  sans-serif; font-variant-numeric: tabular-nums; }
svg .title { font-size: 16px; font-weight: 600; } svg .dim { fill: var(--dim); }
svg .grid { stroke: var(--grid); } svg .axis { stroke: var(--dim); }
svg .line { fill: none; stroke-width: 2.2; stroke-linejoin: round; stroke-linecap: round; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: 14px; font-variant-numeric: tabular-nums;
  margin: 0 0 1rem; }
th, td { padding: .28rem .45rem; text-align: right; border-bottom: 1px solid var(--grid);
  white-space: nowrap; }
th { color: var(--dim); font-weight: 600; } th:first-child, td:first-child,
td.word, th.word { text-align: left; }
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
";

/// Escapes text from any source.
pub fn escaped(text: &str) -> String {
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

/// A page that is being written.
pub struct Page {
    out: String,
    /// The last heading, for the names of figures.
    heading: String,
    figures: Vec<Figure>,
}

/// A figure of a page as a document of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Figure {
    /// A name for a file, without an extension: its number on the page, the heading above it and
    /// its title, of lower-case ASCII letters, digits and `-`.
    pub name: String,
    /// SVG of 16:9 in the light colours, which needs no other file.
    pub svg: String,
}

/// Width and height of a figure's document.
const SLIDE: (u32, u32) = (1280, 720);

/// A plot of this crate as a document of its own: the style sheet and the colours of the page are
/// put into it, because other programs than browsers know no variables.
fn standalone(svg: &str) -> String {
    let (light, _) = STYLE.split_once('}').unwrap_or((STYLE, ""));
    let mut svg = svg.replacen("<svg ", "<svg x=\"40\" y=\"30\" width=\"1200\" height=\"660\" ", 1);
    let mut style: String = STYLE.split_inclusive("}").filter_map(rule_of_plots).collect();
    let mut paper = "#fff";
    for (name, colour) in
        light.split(';').filter_map(|pair| pair.rsplit_once("--")?.1.split_once(": "))
    {
        let variable = format!("var(--{name})");
        svg = svg.replace(&variable, colour);
        style = style.replace(&variable, colour);
        if name == "paper" {
            paper = colour;
        }
    }
    let (width, height) = SLIDE;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\">\n<style>{style}</style>\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"{paper}\"/>\n{svg}</svg>\n"
    )
}

/// A rule of the page's style sheet as a plot by itself needs it; `None` if it is not for plots.
fn rule_of_plots(rule: &str) -> Option<String> {
    Some(format!("{}\n", rule.trim_start().strip_prefix("svg ").filter(|r| !r.starts_with('{'))?))
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
        let (title, under) = (escaped(title), escaped(under));
        let out = format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
             <h1>{title}</h1>\n<p class=\"under\">{under}</p>\n"
        );
        Page { out, heading: String::new(), figures: Vec::new() }
    }

    /// A heading.
    pub fn heading(&mut self, text: &str) {
        text.clone_into(&mut self.heading);
        let _ = writeln!(self.out, "<h2>{}</h2>", escaped(text));
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

    /// A plot, which is markup of this crate.
    pub fn figure(&mut self, svg: &str) {
        if svg.is_empty() {
            return;
        }
        let label = svg.split_once("aria-label=\"").and_then(|(_, rest)| rest.split_once('"'));
        let title = label.map_or("", |(title, _)| title);
        let number = self.figures.len() + 1;
        let name = slug(&format!("{number:02} {} {title}", self.heading));
        self.figures.push(Figure { name, svg: standalone(svg) });
        let _ = writeln!(self.out, "<figure>\n{svg}</figure>");
    }

    /// A table. The column of a heading that begins with `<` holds words and is aligned to the
    /// left.
    pub fn table(&mut self, heads: &[&str], rows: &[Vec<String>]) {
        let word = |index: usize| heads[index].starts_with('<');
        let class = |index: usize| if word(index) { " class=\"word\"" } else { "" };
        self.out.push_str("<div class=\"wide\"><table>\n<tr>");
        for (index, head) in heads.iter().enumerate() {
            let head = escaped(head.trim_start_matches('<'));
            let _ = write!(self.out, "<th{}>{head}</th>", class(index));
        }
        self.out.push_str("</tr>\n");
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

    /// Its figures so far.
    pub fn figures(&self) -> &[Figure] {
        &self.figures
    }

    /// The page as text, with a last line.
    pub fn end(mut self, footer: &str) -> String {
        let _ = writeln!(self.out, "<footer>{}</footer>\n</body>\n</html>", escaped(footer));
        self.out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Axis, Line, LineStyle, Plot, Scale};

    #[test]
    fn a_figure_needs_no_style_of_the_page() {
        let line = Line::new("a".to_owned(), vec![(1.0, 1.0), (2.0, 3.0)], LineStyle::Solid, 0);
        let plot = Plot {
            title: "Reads & writes, 4k".to_owned(),
            x: Axis::new("x", Scale::Linear),
            y: Axis::new("ms", Scale::Linear),
            key: String::new(),
            lines: vec![line],
        };
        let mut page = Page::new("t", "");
        page.heading("Step one");
        page.figure(&plot.svg());
        page.figure("");
        let [figure] = page.figures() else { panic!("{:?}", page.figures()) };
        assert_eq!(figure.name, "01-step-one-reads-amp-writes-4k");
        assert!(!figure.svg.contains("var("), "{}", figure.svg);
        for there in
            ["xmlns=", "stroke=\"#0068b5\"", ".grid { stroke: #e3e7ec; }", "text { fill: #1b2430;"]
        {
            assert!(figure.svg.contains(there), "{there}: {}", figure.svg);
        }
    }
}
