use std::ops::ControlFlow;

use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::*;
use crate::mount::{MountView, TargetView};
use crate::node::{Line, NodeView, RoundTrip};
use crate::screen::{Key, SortBy};
use crate::text::text;
use crate::view::View;

/// A node with so many peers; the later ones receive more.
fn view(peers: usize) -> View {
    let line = |index: usize| Line {
        nid: format!("10.0.{}.{}@tcp", index / 200, 1 + index % 200).parse().unwrap(),
        interface: None,
        state: Some("ready".to_owned()),
        connections: Some(3),
        received_per_s: Some(index as f64 * 10.0),
        sent_per_s: None,
        dropped_per_s: Some(0.0),
        dropped: 0,
        credits: 8,
        credits_available: -2,
        credits_min: -5,
        queued: 2,
        window_bytes: index.is_multiple_of(2).then_some(13 << 20),
        window_used_bytes: index.is_multiple_of(2).then_some(12 << 20),
        round_trip: Some(RoundTrip {
            operation: "get_rtt".to_owned(),
            recent: index.is_multiple_of(2),
            samples: 9,
            p50_us: 123.0,
            p99_us: 4567.0,
        }),
    };
    let net = Line {
        interface: Some("eth0".to_owned()),
        state: None,
        connections: None,
        window_bytes: None,
        ..line(0)
    };
    let node = NodeView {
        identity: "node".to_owned(),
        received_bytes_per_s: Some(3.0 * 1048576.0),
        new_errors: [("network_timeout_count".to_owned(), 2)].into(),
        nets: vec![net],
        peers: (1..=peers).map(line).collect(),
        ..NodeView::default()
    };
    let target = |index: usize| TargetView {
        name: format!("lustre-OST{index:04x}"),
        state: "FULL".to_owned(),
        nid: "10.0.0.9@tcp".to_owned(),
        in_flight: index as u64,
        replies_per_s: Some(7.0),
        ..TargetView::default()
    };
    let mount = MountView {
        dir: "/mnt".to_owned(),
        source: "10.0.0.9@tcp:/lustre".to_owned(),
        max_rpcs_in_flight: 8,
        targets: (0..3).map(target).collect(),
        ..MountView::default()
    };
    let date = "2026-11-25T12:00:00.250Z".to_owned();
    let (node, mounts) = (Some(node), vec![mount]);
    View { date, interval_s: 1.0, node, mounts, ..View::default() }
}

fn screen(peers: usize) -> Screen {
    let mut screen = Screen::new(SortBy::Name);
    screen.take(view(peers));
    screen
}

/// What a terminal of this size shows, line by line.
fn drawn(screen: &mut Screen, width: u16, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, screen)).unwrap();
    let buffer = terminal.backend().buffer();
    let row = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
    (0..height).map(|y| row(y).trim_end().to_owned()).collect()
}

#[test]
fn a_node_and_its_peers() {
    let lines = drawn(&mut screen(2), 120, 12);
    let expected = [
        "lustrine top  node  last 1.0 s  sorted by name",
        "in 3.0 MiB/s (- messages/s)  out - (- messages/s)",
        "node identity, 0 connections, 0 B mapped, CPU -",
        "errors now: network_timeout_count +2",
        "NID state conns in/s out/s avail credits min queued window p50 p99 dropped",
        "10.0.0.1@tcp eth0 - 0 - -2 8 -5 2 - 123us 4.6ms 0",
        "NID state conns in/s out/s avail credits min queued window p50 p99 dropped",
        "10.0.0.2@tcp ready 3 10 - -2 8 -5 2 - (123us) (4.6ms) 0",
        "10.0.0.3@tcp ready 3 20 - -2 8 -5 2 13.0 MiB 123us 4.6ms 0",
    ];
    for (line, expected) in lines.iter().zip(expected) {
        let squeezed = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(squeezed(line), squeezed(expected), "{lines:#?}");
    }
    assert!(lines[11].starts_with("q quit  s sort  p pause") && lines[11].ends_with("1-2 of 2"));
}

#[test]
fn columns_that_matter_less_are_left_out_where_there_is_no_room() {
    let lines = drawn(&mut screen(2), 80, 12);
    assert!(lines[6].contains("queued") && !lines[6].contains("conns"), "{lines:#?}");
    let lines = drawn(&mut screen(2), 20, 12);
    assert_eq!(lines[6], "NID", "{lines:#?}");
    assert_eq!(lines[7], "10.0.0.2@tcp", "{lines:#?}");
}

#[test]
fn no_size_is_too_small_or_too_large() {
    for page in [Page::Node, Page::Mounts] {
        for (width, height) in [(1, 1), (1, 40), (200, 1), (3, 3), (17, 5), (400, 200)] {
            let mut screen = Screen { page, ..screen(300) };
            let _ = screen.press(Key::End);
            drawn(&mut screen, width, height);
        }
    }
}

#[test]
fn what_has_not_answered_yet_is_not_missing() {
    let mut screen = Screen::new(SortBy::Name);
    let waiting = |screen: &mut Screen| drawn(screen, 80, 5)[1] == WAITING;
    assert!(waiting(&mut screen));
    screen.take(View { node_is_awaited: true, ..View::default() });
    assert!(waiting(&mut screen));
    screen.take(View::default());
    assert!(drawn(&mut screen, 80, 5)[1].starts_with("no node answers"));
    let _ = screen.press(Key::NextPage);
    assert!(drawn(&mut screen, 80, 5)[1].contains("has mounted nothing here"));
    screen.take(View { mounts_are_awaited: true, ..View::default() });
    assert!(waiting(&mut screen));
    let mut screen = Screen::new(SortBy::Name);
    let _ = screen.press(Key::NextPage);
    assert!(waiting(&mut screen));
}

/// The page of the mounts is shown at once if there is no node, unless the user has chosen one.
#[test]
fn the_first_page_has_what_there_is() {
    let mounts = || View { node: None, ..view(0) };
    let page = |views: Vec<View>| {
        let mut screen = Screen::new(SortBy::Name);
        views.into_iter().for_each(|view| screen.take(view));
        screen.page
    };
    let awaited = || View { node_is_awaited: true, ..mounts() };
    assert_eq!(page(vec![View::default(), mounts()]), Page::Mounts);
    assert_eq!(page(vec![awaited()]), Page::Node);
    assert_eq!(page(vec![awaited(), mounts()]), Page::Mounts);
    assert_eq!(page(vec![awaited(), view(0), mounts()]), Page::Node);
    let mut screen = Screen::new(SortBy::Name);
    let _ = screen.press(Key::NextPage);
    let _ = screen.press(Key::NextPage);
    screen.take(mounts());
    assert_eq!(screen.page, Page::Node);
}

#[test]
fn keys_scroll_sort_pause_and_end() {
    let mut screen = screen(300);
    let first =
        |screen: &mut Screen| drawn(screen, 110, 20)[7].split(' ').next().unwrap().to_owned();
    assert_eq!(first(&mut screen), "10.0.0.2@tcp");
    let _ = screen.press(Key::PageDown);
    // 20 lines less the title, 3 of the node, 2 of interfaces, 1 of titles, 1 of keys.
    assert_eq!(first(&mut screen), "10.0.0.14@tcp");
    let _ = screen.press(Key::End);
    assert_eq!(first(&mut screen), "10.0.1.90@tcp");
    let _ = screen.press(Key::Down);
    assert_eq!(first(&mut screen), "10.0.1.90@tcp");
    let _ = screen.press(Key::Home);
    let _ = screen.press(Key::Sort);
    assert_eq!((screen.sort, first(&mut screen).as_str()), (SortBy::Received, "10.0.1.101@tcp"));
    for _ in 1..SortBy::ALL.len() {
        let _ = screen.press(Key::Sort);
    }
    assert_eq!((screen.sort, first(&mut screen).as_str()), (SortBy::Name, "10.0.0.2@tcp"));
    let _ = screen.press(Key::Pause);
    screen.take(View::default());
    assert!(drawn(&mut screen, 110, 20)[0].ends_with("PAUSED"));
    assert_eq!(first(&mut screen), "10.0.0.2@tcp");
    let _ = screen.press(Key::Pause);
    screen.take(view(1));
    assert!(drawn(&mut screen, 110, 20)[19].ends_with("1-1 of 1"));
    assert_eq!(screen.press(Key::Quit), ControlFlow::Break(()));
}

#[test]
fn mounts_have_a_page_of_their_own() {
    let mut screen = screen(2);
    let _ = screen.press(Key::NextPage);
    let lines = drawn(&mut screen, 110, 12);
    assert_eq!(lines[1], "10.0.0.9@tcp:/lustre at /mnt");
    assert!(lines[2].contains("at most 8 per target"), "{lines:#?}");
    assert!(lines[5].starts_with("lustre-OST0001") && lines[5].contains("FULL"), "{lines:#?}");
}

/// Every line of every mount can be scrolled to, and the last line says which targets are drawn.
#[test]
fn the_last_target_of_the_last_mount_can_be_seen() {
    for (mounts, targets, range) in [(1, 24, "3-24 of 24"), (8, 2, "7-16 of 16")] {
        let mut view = view(0);
        let mount = view.mounts.remove(0);
        let target =
            |at: usize| TargetView { name: format!("OST{at:04}"), ..mount.targets[0].clone() };
        view.mounts = (0..mounts)
            .map(|at| MountView {
                targets: (at * targets..(at + 1) * targets).map(target).collect(),
                ..mount.clone()
            })
            .collect();
        let mut screen = Screen::new(SortBy::Name);
        screen.take(view);
        let _ = screen.press(Key::NextPage);
        let lines = drawn(&mut screen, 80, 24);
        assert!(lines[4].starts_with("OST0000"), "{lines:#?}");
        let _ = screen.press(Key::End);
        let lines = drawn(&mut screen, 80, 24);
        let last = format!("OST{:04} ", mounts * targets - 1);
        assert!(lines[22].starts_with(&last), "{lines:#?}");
        assert!(lines[23].ends_with(range), "{lines:#?}");
        // One line up and two down: the end stays the end.
        for key in [Key::Up, Key::Down, Key::Down] {
            let _ = screen.press(key);
        }
        assert_eq!(drawn(&mut screen, 80, 24), lines);
        for _ in 0..mounts * targets {
            let _ = screen.press(Key::PageUp);
        }
        let lines = drawn(&mut screen, 80, 24);
        assert_eq!(lines[1], "10.0.0.9@tcp:/lustre at /mnt");
    }
}

#[test]
fn as_text_everything_is_there() {
    let mut view = view(300);
    view.notes.push("/a: no answer\x1b[2J".to_owned());
    let text = text(&view, SortBy::Received);
    assert!(text.contains("300 peers\nNID "), "{text}");
    let best = text.lines().position(|line| line.starts_with("10.0.1.101@tcp")).unwrap();
    let least = text.lines().position(|line| line.starts_with("10.0.0.2@tcp")).unwrap();
    assert!(best < least);
    assert!(text.contains("\nlustre-OST0002 "), "{text}");
    assert!(text.ends_with("note: /a: no answer?[2J\n"), "{text}");
    assert!(text.lines().all(|line| line == line.trim_end()));
}

#[test]
fn a_view_is_json() {
    let json = serde_json::to_value(view(1)).unwrap();
    assert_eq!(json["date"], "2026-11-25T12:00:00.250Z");
    assert_eq!(json["node"]["peers"][0]["nid"], "10.0.0.2@tcp");
    assert_eq!(json["node"]["peers"][0]["state"], "ready");
    assert_eq!(json["node"]["nets"][0]["interface"], "eth0");
    assert_eq!(json["mounts"][0]["targets"][2]["in_flight"], 2);
    assert_eq!(json["node"]["peers"][0]["sent_per_s"], serde_json::Value::Null);
}
