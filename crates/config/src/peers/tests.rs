use super::*;
use crate::{NodeConfig, Strictness};

fn read(text: &str) -> Result<NodeConfig, String> {
    let read = NodeConfig::from_yaml(text, "peers.yaml", Strictness::Strict);
    read.map(|(config, _)| config).map_err(|error| error.to_string())
}

#[test]
fn what_an_export_has_is_read() {
    let text = "
peer:
-     primary nid: 10.0.0.2@tcp
      Multi-Rail: True
      peer state: 5
      peer ni:
      -     nid: 10.0.0.2@tcp
            state: up
            max_ni_tx_credits: 8
            statistics:
                  send_count: 5
      -     nid: 10.1.0.2@o2ib
-     primary nid: 10.0.0.3@tcp
      Multi-Rail: false
      lock_prim: true
";
    let nid = |text: &str| text.parse::<Nid>().unwrap();
    let first = PeerConfig {
        nids: vec![nid("10.0.0.2@tcp"), nid("10.1.0.2@o2ib")],
        multi_rail: true,
        locked: false,
    };
    let second = PeerConfig { nids: vec![nid("10.0.0.3@tcp")], multi_rail: false, locked: true };
    assert_eq!(read(text).unwrap().peers, [first, second]);
}

/// A kernel that has pinged itself exports its loopback as a peer.
#[test]
fn the_loopback_is_no_peer() {
    let text = "
peer:
-     primary nid: 0@lo
      Multi-Rail: false
      peer ni:
      -     nid: 0@lo
            state: NA
-     primary nid: 10.0.0.2@tcp
      peer ni:
      -     nid: 0@lo
      -     nid: 10.0.0.2@tcp
";
    let peers = read(text).unwrap().peers;
    let nids: Vec<String> =
        peers.iter().flat_map(|peer| &peer.nids).map(ToString::to_string).collect();
    assert_eq!(nids, ["10.0.0.2@tcp"]);
}

#[test]
fn what_makes_no_sense_has_its_place() {
    for (text, says) in [
        (
            "peer: [{Multi-Rail: true}]",
            "peers.yaml:1:8: the required key \"primary nid\" of an entry of peer is missing",
        ),
        ("peer: [{primary nid: '*'}]", "peers.yaml:1:22: primary nid cannot be \"*\""),
        ("peer: [{primary nid: 1.2.3.4@tcp, lock prim: x, primry nid: 1}]", "did you mean"),
        (
            "peer: [{primary nid: 1.2.3.4@tcp, peer ni: [{state: up}]}]",
            "the required key \"nid\" of",
        ),
        (
            "peer: [{primary nid: 1.2.3.4@tcp}, {primary nid: 1.2.3.4@tcp}]",
            "peers.yaml:1:36: peer 1.2.3.4@tcp: 1.2.3.4@tcp is given twice",
        ),
        (
            "peer: [{primary nid: 1.2.3.4@tcp, Multi-Rail: false, peer ni: [{nid: 1.2.3.5@tcp}]}]",
            "has 2 NIDs and is not multi-rail",
        ),
        ("peer: {primary nid: 1.2.3.4@tcp}", "peer is keys with values"),
    ] {
        let error = read(text).unwrap_err();
        assert!(error.contains(says), "{text}: {error}");
    }
}
