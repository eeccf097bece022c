//! `cargo xtask ci` has a time limit.

use std::process::Command;

#[test]
fn steps_after_the_limit_of_the_whole_are_not_begun_and_have_failed() {
    let mut ci = Command::new(env!("CARGO_BIN_EXE_xtask"));
    ci.args(["ci", "--only", "fmt,house", "--limit", "0"]);
    let done = ci.output().expect("it runs");
    let (out, error) =
        (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(!done.status.success(), "{out}{error}");
    for step in ["fmt", "house"] {
        let line = out.lines().find(|line| line.starts_with(&format!("ci: FAILED {step:7}")));
        let line = line.unwrap_or_else(|| panic!("{step}: {out}"));
        assert!(line.contains("not begun: the limit of 0 min is over"), "{line}");
    }
    assert!(error.contains("2 of 2 steps failed"), "{error}");
}
