//! A view on a terminal.

use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line as TextLine, Text};
use ratatui::widgets::{Paragraph, Row, Table};

use crate::screen::{Page, Screen};
use crate::text::{Column, LINES, TARGETS, line, mount_head, node_head, target};
use crate::units::plain;

/// Most interfaces that are shown above the peers.
const NETS_MAX: usize = 4;

/// Draws what the screen shows, on terminals of any size.
pub fn draw(frame: &mut Frame<'_>, screen: &mut Screen) {
    let mut rest = frame.area();
    let title = take(&mut rest, 1);
    let keys = take_below(&mut rest, 1);
    frame.render_widget(reversed(title_text(screen)), title);
    let notes: Vec<String> = screen.view.notes.iter().map(|note| plain(note)).collect();
    for note in notes {
        let place = take(&mut rest, 1);
        frame.render_widget(Paragraph::new(note), place);
    }
    let count = match screen.page {
        Page::Node => node(frame, rest, screen),
        Page::Mounts => mounts(frame, rest, screen),
    };
    let shown = format!("{}-{} of {count}", (screen.first + 1).min(count), {
        screen.first.saturating_add(screen.rows).min(count)
    });
    let help = "q quit  s sort  p pause  Tab page  arrows scroll";
    frame.render_widget(reversed(format!("{help}  {shown}")), keys);
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
    format!(
        "lustrine top  {page}  last {:.1} s  sorted by {}{paused}",
        screen.view.interval_s,
        screen.sort.name()
    )
}

fn lines_of(texts: &[String]) -> Paragraph<'static> {
    Paragraph::new(Text::from_iter(texts.iter().cloned().map(TextLine::from)))
}

/// Draws the node; returns the number of rows that can be scrolled.
fn node(frame: &mut Frame<'_>, mut rest: Rect, screen: &mut Screen) -> usize {
    let Some(node) = &screen.view.node else {
        frame.render_widget(Paragraph::new("no node answers; Tab shows mounts"), rest);
        screen.first = 0;
        return 0;
    };
    let place = take(&mut rest, 3);
    frame.render_widget(lines_of(&node_head(node)), place);
    let nets: Vec<_> = node.nets.iter().take(NETS_MAX).map(line).collect();
    let place = take(&mut rest, nets.len() as u16 + 1);
    table(frame, place, &LINES, nets);
    let peers: Vec<_> = {
        let (first, rows) = window(node.peers.len(), screen.first, rest);
        (screen.first, screen.rows) = (first, rows);
        node.peers.iter().skip(first).take(rows).map(line).collect()
    };
    let count = node.peers.len();
    table(frame, rest, &LINES, peers);
    count
}

/// Draws the mounts, one below the other.
fn mounts(frame: &mut Frame<'_>, mut rest: Rect, screen: &mut Screen) -> usize {
    let count = screen.view.mounts.iter().map(|mount| mount.targets.len()).sum();
    if screen.view.mounts.is_empty() {
        let words = "`lustrine mount` has mounted nothing here; Tab shows the node";
        frame.render_widget(Paragraph::new(words), rest);
        screen.first = 0;
        return 0;
    }
    let (first, rows) = window(count, screen.first, rest);
    (screen.first, screen.rows) = (first, rows);
    let mut skip = first;
    for mount in &screen.view.mounts {
        if skip >= mount.targets.len() && skip > 0 {
            skip -= mount.targets.len();
            continue;
        }
        let place = take(&mut rest, 2);
        frame.render_widget(lines_of(&mount_head(mount)), place);
        let rows: Vec<_> = mount.targets.iter().skip(skip).map(target).collect();
        skip = 0;
        let place = take(&mut rest, u16::try_from(rows.len() + 1).unwrap_or(u16::MAX));
        table(frame, place, &TARGETS, rows);
    }
    count
}

/// The first of `count` rows that is shown in an area with a line of titles, and how many are.
fn window(count: usize, first: usize, place: Rect) -> (usize, usize) {
    let rows = usize::from(place.height.saturating_sub(1)).max(1);
    (first.min(count.saturating_sub(rows)), rows)
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
    let chosen = fitting(columns, place.width);
    let cell = |at: usize, text: &str| {
        let alignment = if columns[at].is_left { Alignment::Left } else { Alignment::Right };
        Text::from(text.to_owned()).alignment(alignment)
    };
    let titles = Row::new(chosen.iter().map(|at| cell(*at, columns[*at].title)));
    let rows = rows.iter().map(|cells| Row::new(chosen.iter().map(|at| cell(*at, &cells[*at]))));
    // The first column takes what is left.
    let widths = chosen.iter().map(|at| match at {
        0 => Constraint::Min(columns[0].width),
        at => Constraint::Length(columns[*at].width),
    });
    let widget = Table::new(rows, widths)
        .header(titles.style(Style::new().add_modifier(Modifier::BOLD)))
        .column_spacing(1);
    frame.render_widget(widget, place);
}

#[cfg(test)]
mod tests;
