use super::*;

fn tree() -> Map {
    let nis = vec![vec![
        entry("nid", "10.7.0.4@tcp"),
        entry("interfaces", vec![entry("0", "eth1")]),
        entry("up", true),
    ]];
    vec![entry("net", vec![vec![entry("net type", "tcp"), entry("local NI(s)", nis)]])]
}

#[test]
fn each_dialect_has_its_indentation() {
    let a = "\
net:
    - net type: tcp
      local NI(s):
        - nid: 10.7.0.4@tcp
          interfaces:
              0: eth1
          up: True
";
    let b = "\
net:
-     net type: tcp
      local NI(s):
      -     nid: 10.7.0.4@tcp
            interfaces:
                  0: eth1
            up: true
";
    let c = "\
net:
- net type: tcp
  local NI(s):
  - nid: 10.7.0.4@tcp
    interfaces:
      0: eth1
    up: true
";
    for (dialect, wanted) in [(Dialect::A, a), (Dialect::B, b), (Dialect::C, c)] {
        assert_eq!(write(&tree(), dialect), wanted, "{dialect:?}");
    }
}

#[test]
fn a_message_stays_on_one_line() {
    let said = vec![entry("descr", Yaml::Said("it's \"x\"\n\\".to_owned()))];
    assert_eq!(write(&said, Dialect::A), "descr: \"it's \\\"x\\\" \\\\\"\n");
    assert_eq!(write(&said, Dialect::B), "descr: ! \"it's \\\"x\\\" \\\\\"\n");
    assert_eq!(write(&said, Dialect::C), "descr: ! 'it''s \"x\" \\'\n");
}
