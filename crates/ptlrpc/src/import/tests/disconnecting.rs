//! DISCONNECT, for good and until the next request.

use super::*;

#[test]
fn an_idle_import_disconnects_and_comes_back() {
    let tunables =
        ImportTunables { idle_timeout: Some(Nanos::from_secs(20)), ..ImportTunables::default() };
    let mut pair = Pair::with(tunables, &[1]);
    pair.import.connect(pair.now, &mut pair.xids);
    pair.run();
    pair.import.set_in_use(true);
    pair.pass(Nanos::from_secs(21));
    assert_eq!(pair.import.state(), ImportState::Full, "it holds locks");
    pair.import.set_in_use(false);
    pair.pass(Nanos::from_secs(1));
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
    let tunables =
        ImportTunables { idle_timeout: Some(Nanos::from_secs(20)), ..ImportTunables::default() };
    let mut pair = Pair::with(tunables, &[1]);
    pair.import.connect(pair.now, &mut pair.xids);
    pair.run();
    pair.forget();
    pair.pass(Nanos::from_secs(21));
    pair.submit(1, false);
    pair.run();
    let sent: Vec<Opcode> = (0..pair.sent.len()).map(|at| pair.body(at).opcode).collect();
    assert_eq!(sent.len(), 3, "DISCONNECT, CONNECT, the request: {sent:?}");
    assert_eq!(pair.import.state(), ImportState::Full);
    assert_eq!(pair.done, [(1, Ok(0))]);
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
