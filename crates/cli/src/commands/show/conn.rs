//! `lustrine show conn`: a block per open connection.

use std::fmt::Write as _;

use lustrine_control::{Answer, ConnRow, TcpRow};
use lustrine_report::numbers::counted;

use super::STRING;

/// The answer as text; empty for another kind of answer.
pub(super) fn text(answer: &Answer) -> String {
    let Answer::Conn { conns, conns_left_out } = answer else { return String::new() };
    if conns.is_empty() {
        return "no open connections\n".to_owned();
    }
    let mut text: String = conns.iter().map(conn_text).collect();
    if *conns_left_out > 0 {
        let left_out = counted(*conns_left_out, "connection");
        writeln!(text, "Left out: {left_out}; --nid shows those of one peer").expect(STRING);
    }
    text
}

fn conn_text(conn: &ConnRow) -> String {
    let ConnRow { nid, kind, local_nid, remote, .. } = conn;
    let version = conn.version.as_deref().unwrap_or("?");
    let (dialled, to) = match conn.dialled {
        true => ("dialled from", "to"),
        false => ("accepted at", "from"),
    };
    let port = conn.tcp.and_then(|tcp| tcp.local_port);
    let port = port.map_or_else(String::new, |port| format!(" port {port}"));
    let mut text = format!("{nid}  {kind}  {version}  {dialled} {local_nid}{port} {to} {remote}\n");
    match &conn.tcp {
        Some(tcp) => text += &tcp_text(tcp),
        None => text += "    TCP: the system counts nothing\n",
    }
    text
}

fn ms(ns: u64) -> String {
    format!("{:.3} ms", ns as f64 / 1e6)
}

fn seconds(ns: u64) -> String {
    format!("{:.3} s", ns as f64 / 1e9)
}

fn tcp_text(tcp: &TcpRow) -> String {
    let mut text = String::new();
    let TcpRow { path_mtu, segment_out, segment_in, .. } = tcp;
    // The kernel begins with this estimate.
    let segment_in = match segment_in {
        0..=536 => "unknown".to_owned(),
        known => known.to_string(),
    };
    writeln!(
        text,
        "    path MTU: {path_mtu}; longest segments: {segment_out} bytes out, {segment_in} in"
    )
    .expect(STRING);
    let shortest = tcp.rtt_min_ns.map_or_else(|| "unknown".to_owned(), ms);
    writeln!(text, "    round trip: {}, shortest {shortest}", ms(tcp.rtt_ns)).expect(STRING);
    writeln!(
        text,
        "    congestion window: {}; delivery rate: {:.1} Mb/s",
        counted(tcp.congestion_window.into(), "segment"),
        tcp.delivery_rate as f64 / 1e6
    )
    .expect(STRING);
    writeln!(
        text,
        "    sent: {}, {} retransmitted ({} needlessly); {}",
        counted(tcp.segments_sent.into(), "segment"),
        tcp.retransmits,
        tcp.duplicates,
        counted(tcp.reorderings.into(), "reordering")
    )
    .expect(STRING);
    writeln!(
        text,
        "    received: {}, {} of them out of order",
        counted(tcp.segments_received.into(), "segment"),
        tcp.out_of_order
    )
    .expect(STRING);
    writeln!(
        text,
        "    busy: {}; waited {} for the peer's window, {} for the send buffer",
        seconds(tcp.busy_ns),
        seconds(tcp.window_limited_ns),
        seconds(tcp.send_buffer_limited_ns)
    )
    .expect(STRING);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conn(tcp: Option<TcpRow>) -> ConnRow {
        ConnRow {
            nid: "10.0.0.2@tcp".parse().expect("a NID"),
            local_nid: "10.0.0.1@tcp".parse().expect("a NID"),
            kind: "BULK_OUT".to_owned(),
            version: Some("V3".to_owned()),
            dialled: true,
            local: None,
            remote: "10.0.0.2:988".parse().expect("an address"),
            tcp,
        }
    }

    #[test]
    fn a_connection_is_shown_with_what_tcp_counts() {
        let tcp = TcpRow {
            local_port: Some(1021),
            path_mtu: 1500,
            segment_out: 1448,
            segment_in: 1448,
            rtt_ns: 50_210_000,
            rtt_min_ns: Some(50_100_000),
            segments_sent: 1000,
            segments_received: 1,
            retransmits: 12,
            duplicates: 3,
            window_limited_ns: 1_500_000_000,
            ..TcpRow::default()
        };
        let shown = text(&Answer::Conn { conns: vec![conn(Some(tcp))], conns_left_out: 2 });
        let expected = "\
10.0.0.2@tcp  BULK_OUT  V3  dialled from 10.0.0.1@tcp port 1021 to 10.0.0.2:988
    path MTU: 1500; longest segments: 1448 bytes out, 1448 in
    round trip: 50.210 ms, shortest 50.100 ms
    congestion window: 0 segments; delivery rate: 0.0 Mb/s
    sent: 1000 segments, 12 retransmitted (3 needlessly); 0 reorderings
    received: 1 segment, 0 of them out of order
    busy: 0.000 s; waited 1.500 s for the peer's window, 0.000 s for the send buffer
Left out: 2 connections; --nid shows those of one peer
";
        assert_eq!(shown, expected);
    }

    #[test]
    fn what_is_not_counted_is_said() {
        let shown = text(&Answer::Conn { conns: vec![conn(None)], conns_left_out: 0 });
        assert!(shown.ends_with("    TCP: the system counts nothing\n"), "{shown}");
        let none = Answer::Conn { conns: Vec::new(), conns_left_out: 0 };
        assert_eq!(text(&none), "no open connections\n");
    }
}
