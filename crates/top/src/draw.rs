//! A view on a terminal.

use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line as TextLine, Text};
use ratatui::widgets::{Paragraph, Row, Table};

use crate::mount::{MountView, TargetView};
use crate::screen::{Page, Screen};
use crate::text::{Column, LINES, TARGETS, line, mount_head, node_head, target};
use crate::units::plain;

/// Most interfaces that are shown above the peers.
const NETS_MAX: usize = 4;

/// What a page says before there is something to show.
const WAITING: &str = "waiting for the first answer";

/// Draws what the screen shows, on terminals of any size.
pub fn draw(frame: &mut Frame<'_>, screen: &mut Screen) {
    let mut rest = frame.area();
    let title = take(&mut rest, 1);
    let keys = take_below(&mut rest, 1);
    frame.render_widget(reversed(title_text(screen)), title);
    let notes = screen.view.iter().flat_map(|view| &view.notes);
    let notes: Vec<String> = notes.map(|note| plain(note)).collect();
    for note in notes {
        let place = take(&mut rest, 1);
        frame.render_widget(Paragraph::new(note), place);
    }
    let shown = match screen.page {
        Page::Node => node(frame, rest, screen),
        Page::Mounts => mounts(frame, rest, screen),
    };
    let Shown { first, last, count } = shown;
    let help = "q quit  s sort  p pause  Tab page  arrows scroll";
    frame.render_widget(reversed(format!("{help}  {first}-{last} of {count}")), keys);
}

/// Which peers or targets are drawn, counted from 1, and how many there are. Both are 0 where none
/// is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Shown {
    first: usize,
    last: usize,
    count: usize,
}

/// Lines from the top of an area.
fn take(rest: &mut Rect, lines: u16) -> Rect {
    let height = lines.min(rest.height);
    let taken = Rect { height, ..*rest };
    *rest = Rect { y: rest.y + height, height: rest.height - height, ..*rest };
    taken
}

/// Lines from the end of an area.
fn take_below(rest: &mut Rect, lines: u16) -> Rect {
    let height = lines.min(rest.height);
    *rest = Rect { height: rest.height - height, ..*rest };
    Rect { y: rest.y + rest.height, height, ..*rest }
}

fn reversed(text: String) -> Paragraph<'static> {
    Paragraph::new(text).style(Style::new().add_modifier(Modifier::REVERSED))
}

fn title_text(screen: &Screen) -> String {
    let page = match screen.page {
        Page::Node => "node",
        Page::Mounts => "mounts",
    };
    let paused = if screen.paused { "  PAUSED" } else { "" };
    let interval_s = screen.view.as_ref().map_or(0.0, |view| view.interval_s);
    let sort = screen.sort.name();
    format!("lustrine top  {page}  last {interval_s:.1} s  sorted by {sort}{paused}")
}

fn lines_of(texts: &[String]) -> Paragraph<'static> {
    Paragraph::new(Text::from_iter(texts.iter().cloned().map(TextLine::from)))
}

/// Draws the node; its peers can be scrolled.
fn node(frame: &mut Frame<'_>, mut rest: Rect, screen: &mut Screen) -> Shown {
    let view = screen.view.as_ref();
    let Some(node) = view.and_then(|view| view.node.as_ref()) else {
        let words = match view {
            Some(view) if !view.node_is_awaited => "no node answers; Tab shows mounts",
            _ => WAITING,
        };
        frame.render_widget(Paragraph::new(words), rest);
        screen.first = 0;
        return Shown::default();
    };
    let place = take(&mut rest, 3);
    frame.render_widget(lines_of(&node_head(node)), place);
    let nets: Vec<_> = node.nets.iter().take(NETS_MAX).map(line).collect();
    let place = take(&mut rest, nets.len() as u16 + 1);
    table(frame, place, &LINES, nets);
    let count = node.peers.len();
    // One line has the titles.
    let rows = usize::from(rest.height).saturating_sub(1);
    let (first, drawn) = window(count, screen.first, rows);
    (screen.first, screen.rows) = (first, rows.max(1));
    let peers: Vec<_> = node.peers.iter().skip(first).take(drawn).map(line).collect();
    table(frame, rest, &LINES, peers);
    match drawn {
        0 => Shown { count, ..Shown::default() },
        _ => Shown { first: first + 1, last: first + drawn, count },
    }
}

/// A line of the page of mounts.
enum MountLine<'a> {
    Head(String),
    Titles,
    /// A target, and its number from 1 among those of all mounts.
    Target(usize, &'a TargetView),
}

/// The lines of all mounts, one mount below the other.
fn mount_lines(mounts: &[MountView]) -> Vec<MountLine<'_>> {
    let (mut lines, mut number) = (Vec::new(), 0);
    for mount in mounts {
        lines.extend(mount_head(mount).map(MountLine::Head));
        lines.push(MountLine::Titles);
        for target in &mount.targets {
            number += 1;
            lines.push(MountLine::Target(number, target));
        }
    }
    lines
}

/// Draws the mounts; all of their lines can be scrolled.
fn mounts(frame: &mut Frame<'_>, mut rest: Rect, screen: &mut Screen) -> Shown {
    let is_awaited = screen.view.as_ref().is_some_and(|view| view.mounts_are_awaited);
    let mounts = screen.view.as_ref().map(|view| view.mounts.as_slice());
    let Some(mounts @ [_, ..]) = mounts else {
        let words = match mounts {
            Some(_) if !is_awaited => {
                "`lustrine mount` has mounted nothing here; Tab shows the node"
            }
            _ => WAITING,
        };
        frame.render_widget(Paragraph::new(words), rest);
        screen.first = 0;
        return Shown::default();
    };
    let lines = mount_lines(mounts);
    let rows = usize::from(rest.height);
    let (first, drawn) = window(lines.len(), screen.first, rows);
    (screen.first, screen.rows) = (first, rows.max(1));
    let count = mounts.iter().map(|mount| mount.targets.len()).sum();
    let mut shown = Shown { count, ..Shown::default() };
    for line in lines.into_iter().skip(first).take(drawn) {
        let place = take(&mut rest, 1);
        match line {
            MountLine::Head(text) => frame.render_widget(Paragraph::new(text), place),
            MountLine::Titles => table(frame, place, &TARGETS, Vec::new()),
            MountLine::Target(number, view) => {
                shown.first = if shown.first == 0 { number } else { shown.first };
                shown.last = number;
                let widget = rows_of(&TARGETS, &[target(view)], place.width);
                frame.render_widget(widget, place);
            }
        }
    }
    shown
}

/// The first of `count` lines that is drawn where there is room for `rows`, and how many are.
fn window(count: usize, first: usize, rows: usize) -> (usize, usize) {
    let first = first.min(count.saturating_sub(rows.max(1)));
    (first, rows.min(count - first))
}

/// The columns for which there is room: those with the highest rank are left out first.
fn fitting(columns: &[Column], width: u16) -> Vec<usize> {
    let mut chosen: Vec<usize> = (0..columns.len()).collect();
    let needed = |chosen: &[usize]| {
        chosen.iter().map(|at| u32::from(columns[*at].width) + 1).sum::<u32>().saturating_sub(1)
    };
    while chosen.len() > 1 && needed(&chosen) > u32::from(width) {
        let worst = (0..chosen.len()).max_by_key(|at| columns[chosen[*at]].rank).unwrap_or(0);
        chosen.remove(worst);
    }
    chosen
}

fn table<const N: usize>(
    frame: &mut Frame<'_>,
    place: Rect,
    columns: &[Column; N],
    rows: Vec<[String; N]>,
) {
    let titles = columns.map(|column| column.title.to_owned());
    let titles = row(columns, &fitting(columns, place.width), &titles);
    let widget = rows_of(columns, &rows, place.width);
    let bold = Style::new().add_modifier(Modifier::BOLD);
    frame.render_widget(widget.header(titles.style(bold)), place);
}

/// A table without titles.
fn rows_of<const N: usize>(
    columns: &[Column; N],
    rows: &[[String; N]],
    width: u16,
) -> Table<'static> {
    let chosen = fitting(columns, width);
    // The first column takes what is left.
    let widths = chosen.iter().map(|at| match at {
        0 => Constraint::Min(columns[0].width),
        at => Constraint::Length(columns[*at].width),
    });
    let rows = rows.iter().map(|cells| row(columns, &chosen, cells));
    Table::new(rows, widths.collect::<Vec<_>>()).column_spacing(1)
}

fn row<const N: usize>(
    columns: &[Column; N],
    chosen: &[usize],
    cells: &[String; N],
) -> Row<'static> {
    let cell = |at: &usize| {
        let is_left = columns[*at].is_left;
        let alignment = if is_left { Alignment::Left } else { Alignment::Right };
        Text::from(cells[*at].clone()).alignment(alignment)
    };
    Row::new(chosen.iter().map(cell).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests;
