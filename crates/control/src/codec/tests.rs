use proptest::prelude::*;

use super::*;
use crate::{
    ChangeRequest, ImportMode, LoadOrder, NetInfo, NetNamespace, NewNet, NiSelector, PeerRow,
    PeerState,
};

fn greeted() -> Session {
    let mut session = Session::default();
    assert_eq!(session.on_line(&Greeting::line()), LineResponse::Reply(Greeting::line()));
    session
}

fn hello(control: u32) -> String {
    format!("{{\"hello\":{{\"control\":{control},\"release\":\"9.8.7\"}}}}\n")
}

/// The text of every kind of change. A released tool sends these: when one must change, VERSION
/// grows.
#[test]
fn requests_have_these_lines() {
    let nid = |text: &str| text.parse().unwrap();
    let change = |change| Request::Change { change: Box::new(change), dry_run: false };
    let new = NewNet {
        net: Some("tcp1".parse().unwrap()),
        interfaces: vec!["eth0".to_owned()],
        ..NewNet::default()
    };
    for (request, line) in [
        (
            Request::Ping { nid: nid("10.0.0.2@tcp"), timeout_ms: 5 },
            r#"{"cmd":"ping","nid":"10.0.0.2@tcp","timeout_ms":5}"#,
        ),
        (Request::ShowNet, r#"{"cmd":"show_net"}"#),
        (Request::ShowLatency { nid: None }, r#"{"cmd":"show_latency","nid":null}"#),
        (
            Request::Load { order: LoadOrder::Progress },
            r#"{"cmd":"load","order":{"command":"progress"}}"#,
        ),
        (
            change(ChangeRequest::SetNet {
                which: NiSelector::Net("tcp1".parse().unwrap()),
                conns_per_peer: Some(2),
                lnd_timeout: None,
            }),
            concat!(
                r#"{"cmd":"change","change":{"change":"set_net","which":{"net":"tcp1"},"#,
                r#""conns_per_peer":2,"lnd_timeout":null},"dry_run":false}"#,
            ),
        ),
        (
            change(ChangeRequest::AddNet(new)),
            concat!(
                r#"{"cmd":"change","change":{"change":"add_net","net":"tcp1","#,
                r#""interfaces":["eth0"],"nid":null,"peer_credits":null,"credits":null,"#,
                r#""conns_per_peer":null,"tos":null},"dry_run":false}"#,
            ),
        ),
        (
            change(ChangeRequest::DelPeer {
                primary: nid("10.0.0.2@tcp"),
                nids: vec![nid("fd77::2@tcp")],
                force: true,
            }),
            concat!(
                r#"{"cmd":"change","change":{"change":"del_peer","#,
                r#""primary":"10.0.0.2@tcp","nids":["fd77::2@tcp"],"force":true},"#,
                r#""dry_run":false}"#,
            ),
        ),
        (
            change(ChangeRequest::Import {
                text: "net: []\n".to_owned(),
                source_name: "a.yaml".to_owned(),
                mode: ImportMode::Exact,
                lenient: false,
            }),
            concat!(
                r#"{"cmd":"change","change":{"change":"import","text":"net: []\n","#,
                r#""source_name":"a.yaml","mode":"exact","lenient":false},"#,
                r#""dry_run":false}"#,
            ),
        ),
    ] {
        assert_eq!(request.to_line(), format!("{line}\n"));
        assert_eq!(greeted().on_line(line), LineResponse::Call(Box::new(request)));
    }
}

#[test]
fn a_request_with_an_unknown_field_or_a_bad_nid_is_refused_as_a_whole() {
    for line in [
        r#"{"cmd":"ping","nid":"10.0.0.2@tcp","timeout_ms":1,"more":1}"#,
        r#"{"cmd":"ping","nid":"not a nid","timeout_ms":1}"#,
        r#"{"cmd":"ping","nid":"10.0.0.2@tcp","timeout_ms":-1}"#,
        r#"{"cmd":"change","change":{"change":"reset_stats","deep":true},"dry_run":false}"#,
        r#"{"cmd":"change","change":{"change":"add_net","net":"tcp","mtu":9000},"dry_run":false}"#,
        r#"{"cmd":"reboot"}"#,
        r#"{"cmd":"ping""#,
        "",
    ] {
        let LineResponse::Reply(reply) = greeted().on_line(line) else {
            panic!("{line} is a request")
        };
        let Ok(Answer::Error { errno, message, .. }) = Answer::from_line(&reply) else {
            panic!("{reply}")
        };
        assert_eq!(errno, EINVAL, "{line}");
        assert!(message.starts_with("invalid request: "), "{message}");
    }
}

#[test]
fn a_newer_node_and_an_older_one_are_told_apart() {
    assert_eq!(Greeting::check(&Greeting::line()), Ok(NodeAbout::default()));
    let newer = Greeting::check(&hello(VERSION + 1)).unwrap_err();
    assert_eq!(
        newer.to_string(),
        "the node speaks control version 5, this tool version 4, so this tool is older: use the \
         `lustrine` that the node was started with (release 9.8.7)"
    );
    let older = Greeting::check(&hello(VERSION - 1)).unwrap_err();
    assert_eq!(
        older.to_string(),
        format!(
            "the node speaks control version 3, this tool version 4, so the node is older: \
             restart it with this release ({RELEASE}), or use the `lustrine` that it was started \
             with (release 9.8.7)"
        )
    );
    // What a node of version 1 answers to the greeting.
    let old = r#"{"answer":"error","errno":-22,"message":"not a request: missing field `cmd`"}"#;
    let older = Greeting::check(old).unwrap_err();
    assert!(older.to_string().contains("older than this tool, which speaks version 4"), "{older}");
    for other in ["", "220 smtp ready", "{}", "[1]", "{\"hello\":3}"] {
        assert_eq!(Greeting::check(other), Err(VersionError::NotANode), "{other}");
    }
}

#[test]
fn a_node_says_which_one_it_is() {
    let about = NodeAbout {
        nid: Some("10.0.0.2@tcp".parse().unwrap()),
        identity: "node".to_owned(),
        netns: Some(NetNamespace { device: 4, inode: 4_026_531_840 }),
    };
    let mut node = Session::of(about.clone());
    let LineResponse::Reply(reply) = node.on_line(&Greeting::line()) else {
        panic!("versions differ")
    };
    let line = concat!(
        r#"{"hello":{"control":4,"release":"RELEASE","node":{"nid":"10.0.0.2@tcp","#,
        r#""identity":"node","netns":{"device":4,"inode":4026531840}}}}"#,
    );
    assert_eq!(reply.trim_end(), line.replace("RELEASE", RELEASE));
    assert_eq!(Greeting::check(&reply), Ok(about.clone()));
    // It is in another namespace only if both are known and differ.
    let other = Some(NetNamespace { device: 4, inode: 1 });
    assert!(about.is_elsewhere(other));
    assert!(!about.is_elsewhere(about.netns) && !about.is_elsewhere(None));
    assert!(!NodeAbout::default().is_elsewhere(other));
}

#[test]
fn a_tool_of_another_version_is_answered_and_gets_nothing_done() {
    let mut node = Session::default();
    for other in [VERSION - 1, VERSION + 1] {
        assert_eq!(node.on_line(&hello(other)), LineResponse::Close(Greeting::line()));
    }
    // A tool of version 1 sends its request at once. It shows the message of an error.
    let LineResponse::Close(reply) = Session::default().on_line("{\"cmd\":\"show_net\"}\n") else {
        panic!("it was carried out")
    };
    let Ok(Answer::Error { errno: EPROTO, message, .. }) = Answer::from_line(&reply) else {
        panic!("{reply}")
    };
    assert!(message.starts_with("the node speaks control version 4, and this tool"), "{message}");
}

#[test]
fn fields_of_later_releases_are_ignored_and_missing_ones_have_defaults() {
    let line = r#"{"answer":"peer","peers":[{"nid":"10.0.0.2@tcp","primary_nid":"10.0.0.2@tcp",
        "state":"ready","mood":{"good":true}}],"weather":1}"#;
    let Ok(Answer::Peer { peers }) = Answer::from_line(line) else { panic!("not read") };
    let PeerRow { identity, state, features, messages, connections, .. } = &peers[0];
    assert_eq!((identity.multi_rail, *state, *features), (false, PeerState::Ready, None));
    assert_eq!((messages.sent, messages.latency.len(), connections.len()), (0, 0, 0));
    let net = Answer::from_line(r#"{"answer":"net","more":[]}"#);
    assert_eq!(net, Ok(Answer::Net(NetInfo::default())));
    assert!(Answer::from_line(r#"{"answer":"peer","peers":[{"nid":"x"}]}"#).is_err());
}

#[test]
fn a_release_is_printed_without_control_characters() {
    let line = "{\"hello\":{\"control\":9,\"release\":\"\\u001b[2Jx y\"}}";
    let error = Greeting::check(line).unwrap_err().to_string();
    assert!(error.ends_with("(release [2Jxy)"), "{error}");
}

proptest! {
    #[test]
    fn any_line_is_answered(lines in proptest::collection::vec(".{0,200}", 0..4)) {
        let mut node = Session::default();
        for line in &lines {
            if let LineResponse::Reply(reply) | LineResponse::Close(reply) = node.on_line(line) {
                prop_assert!(reply.ends_with('\n') && reply.lines().count() == 1);
            }
            let _ = Greeting::check(line);
        }
    }

    #[test]
    fn a_ping_is_read_as_it_was_written(rtt in any::<u32>(), features in any::<u32>()) {
        let rtt_us = f64::from(rtt) / 8.0;
        let identity = crate::PeerIdentity {
            primary_nid: "10.0.0.2@tcp".parse().unwrap(),
            multi_rail: true,
            peer_ni: Vec::new(),
        };
        let answer = Answer::Ping { identity, features, sequence: 7, rtt_us };
        prop_assert_eq!(Answer::from_line(&answer.to_line()), Ok(answer));
    }
}
