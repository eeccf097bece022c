//! The check of Prometheus itself on a page.

use std::io::Write;
use std::process::{Command, Stdio};

use lustrine_testing::{Need, not_run};

use super::{get, load, node};
use crate::common::loopback;

#[test]
fn promtool_finds_nothing_wrong() {
    let mut check = Command::new("promtool");
    check.args(["check", "metrics"]);
    check.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let Ok(mut child) = check.spawn() else {
        return not_run(Need::Program, "promtool, which comes with Prometheus, is not installed");
    };
    let (node, at) = node(&[]);
    load(&node, loopback());
    let page = get(at, "/metrics").1;
    assert!(page.contains("\n# TYPE lustrine_messages_total counter\n"), "{page}");
    child.stdin.take().expect("it is piped").write_all(page.as_bytes()).expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success() && said.is_empty(), "{}", String::from_utf8_lossy(&said));
}
