//! DISCONNECT, for good and until the next request.

use lustrine_lnet::status::Status;

use super::*;

/// A connected import that disconnects after 20 s.
fn idle_after_20_s(peers: &[u8]) -> Pair {
    let tunables =
        ImportTunables { idle_timeout: Some(Nanos::from_secs(20)), ..ImportTunables::default() };
    let mut pair = Pair::with(tunables, peers);
    pair.import.connect(pair.now, &mut pair.xids);
    pair.run();
    pair
}

#[test]
fn an_idle_import_disconnects_and_comes_back() {
    let mut pair = idle_after_20_s(&[1]);
    pair.has_lock = true;
    pair.pass(Nanos::from_secs(21));
    assert_eq!(pair.import.state(), ImportState::Full, "it holds locks");
    pair.has_lock = false;
    pair.pass(Nanos::from_secs(21));
    pair.run();
    assert_eq!(pair.import.state(), ImportState::Idle);
    pair.forget();
    pair.submit(1, false);
    pair.run();
    let connect = pair.body(0);
    assert_eq!((connect.handle.0, connect.conn_cnt), (0, 2));
    assert_eq!(connect.op_flags, OpFlags::INITIAL);
    assert_eq!(pair.done, [(1, Ok(0))]);
}

/// The server knows the connection no more, and a request that reached it would be refused.
#[test]
fn a_request_during_an_idle_disconnect_waits_for_the_next_connection() {
    let mut pair = idle_after_20_s(&[1]);
    pair.forget();
    pair.pass(Nanos::from_secs(21));
    pair.submit(1, false);
    pair.run();
    let sent: Vec<Opcode> = (0..pair.sent.len()).map(|at| pair.body(at).opcode).collect();
    assert_eq!(sent.len(), 3, "DISCONNECT, CONNECT, the request: {sent:?}");
    assert_eq!(pair.import.state(), ImportState::Full);
    assert_eq!(pair.done, [(1, Ok(0))]);
}

/// The recovery of the server waits for this client, and would do so until its window is over: a
/// kernel client that leaves it at that has had the recovery of an OST time out, with all clients
/// that waited for its end evicted.
#[test]
fn a_server_that_has_restarted_gets_its_idle_client_back() {
    let mut pair = idle_after_20_s(&[1]);
    pair.server.crash();
    pair.forget();
    pair.pass(Nanos::from_secs(21));
    pair.run();
    let opcodes: Vec<Opcode> = (0..pair.sent.len()).map(|at| pair.body(at).opcode).collect();
    let expected = [Opcode::MDS_DISCONNECT, Opcode::MDS_CONNECT, Opcode::OBD_PING];
    assert_eq!(opcodes, expected);
    assert_eq!((pair.body(1).handle.0, pair.body(1).op_flags), (0, OpFlags::INITIAL));
    assert!(!pair.server.recovering, "its recovery is over");
    assert_eq!((pair.import.state(), pair.evictions.len()), (ImportState::Full, 0));
    pair.pass(Nanos::from_secs(21));
    pair.run();
    assert_eq!((pair.import.state(), pair.server.knows), (ImportState::Idle, false));
}

/// It may be restarting, on another node of the pair.
#[test]
fn a_server_that_does_not_answer_an_idle_disconnect_is_looked_for() {
    let mut pair = idle_after_20_s(&[1, 2]);
    pair.server.crash();
    pair.forget();
    pair.pass(Nanos::from_secs(21));
    let (disconnect, _) = pair.sent[0].clone();
    pair.answered = 1;
    pair.import.on_send_failed(pair.now, &mut pair.xids, disconnect.key, Status::ConnectionLost);
    pair.collect();
    let (connect, _) = pair.sent[1].clone();
    pair.answered = 2;
    pair.import.on_send_failed(pair.now, &mut pair.xids, connect.key, Status::ConnectionLost);
    pair.run();
    assert_eq!(pair.sent[2].0.peer, peer(2));
    assert_eq!((pair.import.state(), pair.server.recovering), (ImportState::Full, false));
}

/// A server that answers DISCONNECT with nonsense does not get its client back.
#[test]
fn a_disconnect_ends_whatever_the_answer_is() {
    let mut pair = Pair::connected();
    pair.forget();
    pair.import.disconnect(pair.now, &mut pair.xids);
    pair.collect();
    let (send, message) = pair.sent[0].clone();
    pair.answered = 1;
    pair.reply(&send, &message, b"nonsense");
    pair.run();
    assert_eq!(pair.import.state(), ImportState::Closed);
    assert_eq!(pair.sent.len(), 1);
}
