//! Copies on this machine, and the rules of parts.

use lustrine_fs::WRITE_AHEAD;

use super::part::resume_at;
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
    let transfer =
        Transfer { from: None, to: None, options: &options, replace: true, within: false };
    let part = part_name(OsStr::new("to"), data.len() as u64, meta.mtime());
    let place = Dir::Here(dir.path().to_owned());
    let to = dir.path().join("to");
    let run = || {
        let meta = fs::metadata(&from).unwrap();
        transfer.run(Item::Here(from.clone(), meta), &place, OsStr::new("to"))
    };
    // What is kept is compared: it may be of another original, or be longer.
    let mut broken = data.clone();
    broken[3] ^= 1;
    broken.extend_from_slice(&data);
    fs::write(dir.path().join(&part), &broken).unwrap();
    assert_eq!(run(), Ok(()));
    assert_eq!(fs::read(&to).unwrap(), data);
    broken[3] ^= 1;
    fs::write(dir.path().join(&part), &broken).unwrap();
    assert_eq!(run(), Ok(()));
    assert_eq!(fs::read(&to).unwrap(), data);
    fs::write(dir.path().join(&part), &data[..data.len() - 7]).unwrap();
    assert_eq!(run(), Ok(()));
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
    let transfer =
        Transfer { from: None, to: None, options: &options, replace: true, within: false };
    let meta = fs::metadata(&from).unwrap();
    let place = Dir::Here(dir.path().to_owned());
    assert_eq!(transfer.run(Item::Here(from, meta), &place, OsStr::new("to")), Ok(()));
    let to = dir.path().join("to");
    let mode = fs::metadata(to.join("closed")).unwrap().mode();
    assert_eq!(mode & 0o777, 0o500 & !umask());
    assert_eq!(fs::read(to.join("link")).unwrap(), b"x");
}

/// Others may write to the directory, and can compute the name of the part.
#[test]
fn a_part_that_someone_else_may_have_made_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (from, other) = (dir.path().join("from"), dir.path().join("other"));
    fs::write(&from, b"data").unwrap();
    fs::write(&other, b"precious and longer").unwrap();
    let meta = fs::metadata(&from).unwrap();
    let part = dir.path().join(part_name(OsStr::new("to"), 4, meta.mtime()));
    let options =
        CopyOptions { recursive: false, preserve: false, resume: true, verify: false, quiet: true };
    let transfer =
        Transfer { from: None, to: None, options: &options, replace: true, within: false };
    let place = Dir::Here(dir.path().to_owned());
    let fifo = |path: &Path| {
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    };
    let plants: [&dyn Fn(); 3] =
        [&|| symlink(&other, &part).unwrap(), &|| fs::hard_link(&other, &part).unwrap(), &|| {
            fifo(&part)
        }];
    for plant in plants {
        plant();
        let item = Item::Here(from.clone(), meta.clone());
        assert_eq!(transfer.run(item, &place, OsStr::new("to")), Err(Failure::Reported(1)));
        assert_eq!(fs::read(&other).unwrap(), b"precious and longer");
        fs::remove_file(&part).unwrap();
    }
    assert!(!dir.path().join("to").exists());
}

/// The owner of a tree that another user copies can replace its files meanwhile.
#[test]
fn what_was_replaced_is_not_opened() {
    let dir = tempfile::tempdir().unwrap();
    let (path, secret) = (dir.path().join("file"), dir.path().join("secret"));
    fs::write(&secret, b"secret").unwrap();
    fs::write(&path, b"x").unwrap();
    let found = fs::symlink_metadata(&path).unwrap();
    assert!(open_found(&path, &found).is_ok());
    fs::rename(&path, dir.path().join("old")).unwrap();
    symlink(&secret, &path).unwrap();
    assert_eq!(open_found(&path, &found).unwrap_err().raw_os_error(), Some(40));
    fs::remove_file(&path).unwrap();
    fs::hard_link(&secret, &path).unwrap();
    assert!(open_found(&path, &found).unwrap_err().to_string().contains("was replaced"));
    fs::remove_file(&path).unwrap();
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    assert!(open_found(&path, &found).unwrap_err().to_string().contains("was replaced"));
    // A directory too.
    let (inner, outer) = (dir.path().join("inner"), dir.path().join("outer"));
    fs::create_dir(&inner).unwrap();
    fs::create_dir(&outer).unwrap();
    fs::write(inner.join("a"), b"a").unwrap();
    let found = fs::symlink_metadata(&inner).unwrap();
    let children = children_here(&inner, &found).unwrap();
    assert_eq!(children.len(), 1);
    assert!(children[0].0 == "a" && children[0].1.as_ref().unwrap().len() == 1);
    fs::rename(&inner, dir.path().join("moved")).unwrap();
    symlink(&outer, &inner).unwrap();
    assert!(children_here(&inner, &found).is_err());
}

#[test]
fn a_copy_does_not_enter_itself() {
    let options =
        CopyOptions { recursive: true, preserve: false, resume: false, verify: false, quiet: true };
    let bar = ProgressBar::hidden();
    let fid = |oid| Fid { seq: 0x2_0000_0401, oid, ver: 0 };
    let dir = |oid| {
        let attr = Attr { fid: fid(oid), mode: 0o040_755, ..Attr::default() };
        Item::There("a/sub".to_owned(), attr)
    };
    for (within, entered) in [(true, false), (false, true)] {
        let transfer = Transfer { from: None, to: None, options: &options, replace: true, within };
        let mut gathered = Gathered {
            bar: &bar,
            made: Vec::new(),
            targets: BTreeSet::from([fid(1)]),
            entered: Entered::default(),
            complete: true,
        };
        // In another file system the same FID is another directory.
        assert_eq!(transfer.enter(&dir(1), &mut gathered).is_ok(), entered);
        assert_eq!(transfer.enter(&dir(2), &mut gathered), Ok(true));
        assert!(transfer.enter(&dir(2), &mut gathered).is_err());
        // That a directory appears again is said once.
        assert!(gathered.complete);
        assert_eq!(transfer.enter(&dir(2), &mut gathered), Ok(false));
        assert!(!gathered.complete);
    }
}
