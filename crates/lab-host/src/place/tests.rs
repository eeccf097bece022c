use std::os::unix::fs::PermissionsExt;

use super::*;

fn place() -> (tempfile::TempDir, Place) {
    let dir = tempfile::tempdir().expect("a directory");
    let root = dir.path().join("labs");
    (dir, Place { root })
}

#[test]
fn a_claim_is_exclusive_and_ends_with_its_process() {
    let (_dir, place) = place();
    assert_eq!(place.state("one").unwrap(), State::None);
    let claim = place.claim("one").unwrap();
    assert_eq!(place.state("one").unwrap(), State::Up);
    assert!(matches!(place.claim("one"), Err(LabError::Up(_))));
    assert_eq!(place.names().unwrap(), ["one"]);
    fs::write(claim.file("log"), "something").unwrap();
    // As when the process is killed: the lock goes, the files stay.
    drop(claim);
    assert_eq!(place.state("one").unwrap(), State::Dead);
    let again = place.claim("one").unwrap();
    assert!(!again.file("log").exists(), "what was left is removed");
    again.remove().unwrap();
    assert_eq!(place.state("one").unwrap(), State::None);
    assert!(place.names().unwrap().is_empty());
}

#[test]
fn directories_of_something_else_are_not_touched() {
    let (_dir, place) = place();
    drop(place.claim("one").unwrap());
    let file = place.dir("one").join("thesis.tex");
    fs::write(&file, "years of work").unwrap();
    assert!(matches!(place.claim("one"), Err(LabError::Foreign(_))));
    assert!(file.exists());
}

#[test]
fn directories_that_others_can_enter_are_not_used() {
    let (_dir, place) = place();
    drop(place.claim("one").unwrap());
    fs::set_permissions(&place.root, fs::Permissions::from_mode(0o755)).unwrap();
    assert!(matches!(place.claim("one"), Err(LabError::NotPrivate(_))));
    fs::set_permissions(&place.root, fs::Permissions::from_mode(0o700)).unwrap();
    fs::remove_dir_all(place.dir("one")).unwrap();
    std::os::unix::fs::symlink("/tmp", place.dir("one")).unwrap();
    assert!(matches!(place.claim("one"), Err(LabError::NotPrivate(_))));
}
