//! Copies on this machine, and the rules of parts.

use super::*;

#[test]
fn a_link_is_not_taken_for_a_directory() {
    let dir = tempfile::tempdir().unwrap();
    let (link, real) = (dir.path().join("link"), dir.path().join("real"));
    assert!(make_dir(&real, 0o700).unwrap());
    assert!(!make_dir(&real, 0o700).unwrap());
    symlink(&real, &link).unwrap();
    assert_eq!(make_dir(&link, 0o700).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
}

#[test]
fn a_part_belongs_to_one_state_of_an_original() {
    let name = part_name(OsStr::new("a"), 10, 20);
    assert_eq!(name, part_name(OsStr::new("a"), 10, 20));
    assert!(name.starts_with(".lustrine-part-") && name.len() < 64);
    for other in [("b", 10, 20), ("a", 11, 20), ("a", 10, 21)] {
        assert_ne!(name, part_name(OsStr::new(other.0), other.1, other.2));
    }
}

#[test]
fn what_may_have_gaps_is_copied_again() {
    assert_eq!(resume_at(5), 0);
    assert_eq!(resume_at(WRITE_AHEAD + 5), 5);
}

/// An interrupted copy here goes on, and a part of another original is left alone.
#[test]
fn copies_here_are_resumed_and_verified() {
    let dir = tempfile::tempdir().unwrap();
    let from = dir.path().join("from");
    let data: Vec<u8> = (0..WRITE_AHEAD as u32 / 4 + 9).flat_map(u32::to_le_bytes).collect();
    fs::write(&from, &data).unwrap();
    let meta = fs::metadata(&from).unwrap();
    let options =
        CopyOptions { recursive: false, preserve: true, resume: true, verify: true, quiet: true };
    let transfer = Transfer { from: None, to: None, options: &options, replace: true };
    let part = part_name(OsStr::new("to"), data.len() as u64, meta.mtime());
    // What is kept is not copied again: a fault in it is found by the comparison.
    let mut broken = data.clone();
    broken[3] ^= 1;
    fs::write(dir.path().join(&part), &broken).unwrap();
    let place = Dir::Here(dir.path().to_owned());
    let run = || {
        let meta = fs::metadata(&from).unwrap();
        transfer.run(Item::Here(from.clone(), meta), &place, OsStr::new("to"))
    };
    assert_eq!(run(), Err(Failure::Reported(1)));
    assert!(!dir.path().join(&part).exists());
    fs::write(dir.path().join(&part), &data[..data.len() - 7]).unwrap();
    assert_eq!(run(), Ok(()));
    let to = dir.path().join("to");
    assert_eq!(fs::read(&to).unwrap(), data);
    assert_eq!(fs::metadata(&to).unwrap().mtime(), meta.mtime());
    assert!(!dir.path().join(&part).exists());
}

#[test]
fn trees_keep_their_modes_and_links() {
    let dir = tempfile::tempdir().unwrap();
    let from = dir.path().join("from");
    fs::create_dir_all(from.join("closed")).unwrap();
    fs::write(from.join("closed/file"), b"x").unwrap();
    symlink("closed/file", from.join("link")).unwrap();
    fs::set_permissions(from.join("closed"), fs::Permissions::from_mode(0o500)).unwrap();
    let options =
        CopyOptions { recursive: true, preserve: false, resume: false, verify: false, quiet: true };
    let transfer = Transfer { from: None, to: None, options: &options, replace: true };
    let meta = fs::metadata(&from).unwrap();
    let place = Dir::Here(dir.path().to_owned());
    assert_eq!(transfer.run(Item::Here(from, meta), &place, OsStr::new("to")), Ok(()));
    let to = dir.path().join("to");
    let mode = fs::metadata(to.join("closed")).unwrap().mode();
    assert_eq!(mode & 0o777, 0o500 & !umask());
    assert_eq!(fs::read(to.join("link")).unwrap(), b"x");
}
