//! What is answered without a turn of the event loop.

use lustrine_client::Caller;

use super::*;

const ACL: &[u8] = b"system.posix_acl_access";

/// What is known is answered without a turn of the event loop, and what is not known is not.
#[test]
fn what_is_known_is_answered_at_once() {
    let mut kernel = Kernel::new(100);
    let [_, dir] = kernel.dirs;
    let file = open(&mut kernel.world, OTHER, dir, b"a").unwrap();
    let fid = file.attr.fid;
    close(&mut kernel.world, OTHER, file);
    let at_once = |kernel: &mut Kernel, name: &[u8]| {
        let before = look_up(&mut kernel.world, KEEPS_NOTHING, dir, name).map(|attr| attr.fid);
        kernel.cached_lookup(dir, name, before).map(|found| found.map(|cached| cached.attr.fid))
    };
    let xattr = |kernel: &mut Kernel, name: &[u8]| {
        kernel.world.at_client(MOUNT, |client, turn| client.cached_xattr(turn.now, (fid, name)))
    };
    assert_eq!((at_once(&mut kernel, b"a"), xattr(&mut kernel, ACL)), (None, None));
    for name in [b"a", b"b"] {
        kernel.look_up(dir, name, Nanos(0));
    }
    let before = kernel.cached;
    assert_eq!(at_once(&mut kernel, b"a"), Some(Ok(fid)));
    assert_eq!(at_once(&mut kernel, b"b"), Some(Err(2)));
    assert_eq!(kernel.cached, before + 4, "anyone may know it");
    assert!(xattr(&mut kernel, ACL).unwrap().is_err_and(|error| error.errno() == 61));
    assert!(xattr(&mut kernel, b"user.a").is_none());
    // Of a closed directory only those whom the server has let in.
    pass(&mut kernel.world, Nanos::from_secs(1));
    chmod(&mut kernel.world, OTHER, dir, 0o700);
    assert_eq!(at_once(&mut kernel, b"a"), None);
    kernel.look_up(dir, b"a", Nanos(0));
    let before = kernel.cached;
    assert_eq!(at_once(&mut kernel, b"a"), Some(Ok(fid)));
    assert_eq!(kernel.cached, before + 1);
    let stranger = Caller { uid: 7, gid: 7, capabilities: 0, ..CALLER };
    let found = kernel.world.at_client(MOUNT, |client, turn| {
        client.cached_lookup(turn.now, Some(stranger), (dir, b"a")).is_some()
    });
    assert!(!found);
    // A client that is unmounted keeps nothing.
    kernel.world.wait(MOUNT, |client, turn, done| client.unmount(turn, done)).unwrap();
    assert_eq!((at_once(&mut kernel, b"a"), xattr(&mut kernel, ACL)), (None, None));
    let attr = kernel.world.at_client(MOUNT, |client, turn| client.cached_attr(turn.now, fid));
    assert_eq!(attr, None);
}

/// A mount of one user has the same rule: the right to search can be taken away.
#[test]
fn who_may_not_search_any_more_is_not_answered_at_once() {
    const USER: Caller = Caller { uid: 7, gid: 7, capabilities: 0, ..CALLER };
    let mut kernel = Kernel::of(100, true);
    let [_, dir] = kernel.dirs;
    let file = open(&mut kernel.world, OTHER, dir, b"a").unwrap();
    close(&mut kernel.world, OTHER, file);
    let world = &mut kernel.world;
    let at_once = |world: &mut World| {
        [None, Some(USER)].map(|caller| {
            world.at_client(MOUNT, |client, turn| {
                client.cached_lookup(turn.now, caller, (dir, b"a")).is_some()
            })
        })
    };
    let get = |world: &mut World| {
        world.wait(MOUNT, |c, t, done| c.getattr(t, USER, dir, done)).unwrap();
        let found = world.wait(MOUNT, |c, t, done| c.lookup(t, USER, dir, b"a", done));
        let attr = found.map_err(|error| error.errno())?;
        world.wait(MOUNT, |c, t, done| c.complete(t, USER, attr, done)).unwrap();
        Ok(())
    };
    assert_eq!(get(world), Ok(()));
    assert_eq!(at_once(world), [true, true]);
    for client in [OTHER, MOUNT] {
        chmod(world, client, dir, 0o700);
        // The attributes of the directory are known again.
        assert_eq!(get(world), Err(13));
        assert_eq!(at_once(world), [false, false]);
        chmod(world, client, dir, 0o755);
        assert_eq!(get(world), Ok(()));
        assert_eq!(at_once(world), [true, true]);
    }
}

/// Files are asked for ahead also if the first ones are answered at once.
#[test]
fn who_is_answered_at_once_has_the_next_files_asked_for() {
    let mut kernel = Kernel::new(1000);
    let [_, dir] = kernel.dirs;
    let names: Vec<Vec<u8>> = (0..40).map(|number| format!("{number:02}").into_bytes()).collect();
    for name in &names {
        let file = open(&mut kernel.world, OTHER, dir, name).unwrap();
        close(&mut kernel.world, OTHER, file);
    }
    let world = &mut kernel.world;
    stat(world, MOUNT, dir).unwrap();
    let page = world.wait(MOUNT, |c, t, done| c.readdir(t, CALLER, dir, 0, done)).unwrap();
    let listed = page.entries.iter().map(|entry| entry.name.clone());
    let listed: Vec<_> = listed.filter(|name| !name.starts_with(b".")).collect();
    let mut at_once = 0;
    for name in &listed {
        let found = world.at_client(MOUNT, |client, turn| {
            let (found, ahead) = client.cached_lookup(turn.now, None, (dir, name))?;
            if let Some(ahead) = ahead {
                client.start_ahead(turn, CALLER, ahead);
            }
            found.ok()
        });
        match found {
            Some(_) => at_once += 1,
            None => drop(look_up(world, MOUNT, dir, name).unwrap()),
        }
        pass(world, Nanos::from_millis(10));
    }
    assert!(at_once >= listed.len() - 4, "{at_once}");
}
