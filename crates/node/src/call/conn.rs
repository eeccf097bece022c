//! Connections, for the control API.

use lustrine_control::{Answer, ConnRow, TcpRow};
use lustrine_lnet::driver_report::{DriverConn, StreamStats};
use lustrine_wire::nid::Nid;

use crate::error::CallError;
use crate::handle::NodeHandle;

impl NodeHandle {
    pub(super) fn show_conn(&self, only: Option<Nid>) -> Result<Answer, CallError> {
        let all = self.conns(only)?;
        let left_out: usize = all.iter().map(|of_loop| of_loop.left_out).sum();
        let rows = all.into_iter().flat_map(|of_loop| of_loop.rows);
        let mut conns: Vec<ConnRow> = rows.map(|(local, conn)| row(local, conn)).collect();
        conns.sort_by(|a, b| (a.nid, &a.kind, a.remote).cmp(&(b.nid, &b.kind, b.remote)));
        Ok(Answer::Conn { conns, conns_left_out: left_out as u64 })
    }
}

fn row(local_nid: Nid, conn: DriverConn) -> ConnRow {
    ConnRow {
        nid: conn.id.nid,
        local_nid,
        kind: conn.kind.to_owned(),
        version: conn.version.map(str::to_owned),
        dialled: conn.dialled,
        local: conn.local,
        remote: conn.remote,
        tcp: conn.stream.map(tcp_row),
    }
}

fn tcp_row(stats: StreamStats) -> TcpRow {
    TcpRow {
        local_port: stats.local_port,
        path_mtu: stats.path_mtu,
        segment_out: stats.segment_out,
        segment_in: stats.segment_in,
        rtt_ns: stats.rtt.0,
        rtt_min_ns: stats.rtt_min.map(|rtt| rtt.0),
        congestion_window: stats.congestion_window,
        delivery_rate: stats.delivery_rate,
        segments_sent: stats.segments_sent,
        retransmits: stats.retransmits,
        duplicates: stats.duplicates,
        reorderings: stats.reorderings,
        segments_received: stats.segments_received,
        out_of_order: stats.out_of_order,
        busy_ns: stats.busy.0,
        window_limited_ns: stats.window_limited.0,
        send_buffer_limited_ns: stats.send_buffer_limited.0,
    }
}
