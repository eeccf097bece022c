//! What the user wants to see.

use std::cmp::Ordering;
use std::ops::ControlFlow;

use crate::mount::TargetView;
use crate::node::Line;
use crate::view::View;

/// A key that means something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// End the program.
    Quit,
    /// Sort by the next column.
    Sort,
    /// Stop taking new samples in, or go on.
    Pause,
    /// The other page: the node, or the mounts.
    NextPage,
    /// One row up or down.
    Up,
    /// One row down.
    Down,
    /// As many rows as are shown, up.
    PageUp,
    /// As many rows as are shown, down.
    PageDown,
    /// The first row.
    Home,
    /// The last row.
    End,
}

/// The page of the live view that is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Page {
    /// The node, its interfaces and peers.
    Node,
    /// The mounts and their targets.
    Mounts,
}

/// The order of rows. All but names come with the largest value first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SortBy {
    /// By NID or name.
    #[default]
    Name,
    /// By messages received per second; targets by replies per second.
    Received,
    /// By messages sent per second; targets by replies per second.
    Sent,
    /// By messages that wait for a credit; targets by RPCs in flight and waiting.
    Queued,
    /// By the median round trip; targets by the mean time of an RPC.
    Time,
    /// By messages dropped; targets by evictions.
    Errors,
}

impl SortBy {
    /// All of them, in the order of the key.
    pub const ALL: [SortBy; 6] = [
        SortBy::Name,
        SortBy::Received,
        SortBy::Sent,
        SortBy::Queued,
        SortBy::Time,
        SortBy::Errors,
    ];

    /// Its name, as an option takes it.
    pub fn name(self) -> &'static str {
        match self {
            SortBy::Name => "name",
            SortBy::Received => "received",
            SortBy::Sent => "sent",
            SortBy::Queued => "queued",
            SortBy::Time => "time",
            SortBy::Errors => "errors",
        }
    }

    fn next(self) -> SortBy {
        let at = SortBy::ALL.iter().position(|own| *own == self).unwrap_or(0);
        SortBy::ALL[(at + 1) % SortBy::ALL.len()]
    }

    /// Sorts interfaces or peers. Equal ones stay in the order of their NIDs.
    pub fn lines(self, lines: &mut [Line]) {
        lines.sort_by_key(|line| line.nid);
        let median = |line: &Line| line.round_trip.as_ref().map(|trip| trip.p50_us);
        match self {
            SortBy::Name => {}
            SortBy::Received => lines.sort_by(|a, b| falling(a.received_per_s, b.received_per_s)),
            SortBy::Sent => lines.sort_by(|a, b| falling(a.sent_per_s, b.sent_per_s)),
            SortBy::Queued => lines.sort_by_key(|line| std::cmp::Reverse(line.queued)),
            SortBy::Time => lines.sort_by(|a, b| falling(median(a), median(b))),
            SortBy::Errors => lines.sort_by_key(|line| std::cmp::Reverse(line.dropped)),
        }
    }

    /// Sorts the targets of a mount.
    pub fn targets(self, targets: &mut [TargetView]) {
        targets.sort_by(|a, b| a.name.cmp(&b.name));
        let queued = |target: &TargetView| target.in_flight.saturating_add(target.waiting);
        match self {
            SortBy::Name => {}
            SortBy::Received | SortBy::Sent => {
                targets.sort_by(|a, b| falling(a.replies_per_s, b.replies_per_s));
            }
            SortBy::Queued => targets.sort_by_key(|target| std::cmp::Reverse(queued(target))),
            SortBy::Time => targets.sort_by(|a, b| falling(a.mean_us, b.mean_us)),
            SortBy::Errors => targets.sort_by_key(|target| std::cmp::Reverse(target.evictions)),
        }
    }
}

/// The larger one first, what is not known last.
fn falling(a: Option<f64>, b: Option<f64>) -> Ordering {
    let value = |value: Option<f64>| value.unwrap_or(f64::NEG_INFINITY);
    value(b).total_cmp(&value(a))
}

/// What the user wants to see, and the latest view.
#[derive(Clone, Debug, PartialEq)]
pub struct Screen {
    /// The order of rows.
    pub sort: SortBy,
    /// The page of the live view that is shown.
    pub page: Page,
    /// Whether new views are left out.
    pub paused: bool,
    /// The first row that is shown. Drawing limits it to those that there are.
    pub(crate) first: usize,
    /// The rows that were shown last.
    pub(crate) rows: usize,
    /// What is drawn; `None` before the first view.
    pub(crate) view: Option<View>,
    /// Whether the page was chosen, by the user or by what there is.
    pub(crate) page_is_chosen: bool,
}

impl Screen {
    /// Nothing yet.
    pub fn new(sort: SortBy) -> Screen {
        let (view, page_is_chosen) = (None, false);
        Screen { sort, page: Page::Node, paused: false, first: 0, rows: 1, view, page_is_chosen }
    }

    /// Takes a new view in, unless the screen is paused.
    pub fn take(&mut self, view: View) {
        if self.paused {
            return;
        }
        if !self.page_is_chosen && !view.node_is_awaited {
            let has_mounts_alone = view.node.is_none() && !view.mounts.is_empty();
            self.page_is_chosen = view.node.is_some() || has_mounts_alone;
            if has_mounts_alone {
                self.page = Page::Mounts;
            }
        }
        self.view = Some(view);
        self.order();
    }

    /// Does what a key is for. `Break` ends the program; otherwise the screen is drawn again.
    pub fn press(&mut self, key: Key) -> ControlFlow<()> {
        match key {
            Key::Quit => return ControlFlow::Break(()),
            Key::Sort => {
                self.sort = self.sort.next();
                self.first = 0;
                self.order();
            }
            Key::Pause => self.paused = !self.paused,
            Key::NextPage => {
                self.first = 0;
                self.page_is_chosen = true;
                self.page = match self.page {
                    Page::Node => Page::Mounts,
                    Page::Mounts => Page::Node,
                };
            }
            Key::Up => self.first = self.first.saturating_sub(1),
            Key::Down => self.first = self.first.saturating_add(1),
            Key::PageUp => self.first = self.first.saturating_sub(self.rows),
            Key::PageDown => self.first = self.first.saturating_add(self.rows),
            Key::Home => self.first = 0,
            Key::End => self.first = usize::MAX,
        }
        ControlFlow::Continue(())
    }

    fn order(&mut self) {
        let Some(view) = &mut self.view else { return };
        if let Some(node) = &mut view.node {
            self.sort.lines(&mut node.nets);
            self.sort.lines(&mut node.peers);
        }
        for mount in &mut view.mounts {
            self.sort.targets(&mut mount.targets);
        }
    }
}
