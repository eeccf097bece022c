//! What SIGTERM to the program of a mount unmounts.

use std::process::Command;

use super::{FSNAME, Lustre, can_mount, nid};
use crate::common::{finish, loopback, lustrine};

/// An administrator has detached one mount that is in use, and mounted a file system in its place;
/// one more like that has another mount of this program in its place; and something is mounted over
/// a third one. Of a fourth one the directory is as it was.
#[test]
fn a_signal_unmounts_nothing_that_others_have_mounted_at_the_directory() {
    if !can_mount() {
        return;
    }
    let script = r#"
        set -eu
        program=$1 source=$2 port=$3
        shift 3
        mounted() { "$program" mount "$source" "$1" --net "tcp=$2:$port" && add "$1"; }
        add() { pids="$pids $("$program" umount --print-pid "$1")"; }
        pids= users=
        trap 'kill -9 $pids $users || :' EXIT
        mkdir replaced again covered alone
        mounted replaced "$1"
        mounted again "$2"
        mounted covered "$3"
        mounted alone "$4"
        olds=$pids
        for dir in replaced again; do
            (cd $dir && exec sleep 1000) > /dev/null 2>&1 &
            users="$users $!"
            until [ "$(readlink /proc/$!/cwd)" = "$PWD/$dir" ]; do sleep 0.1; done
            "$program" umount --lazy $dir
        done
        mount -t tmpfs other replaced
        mounted again "$5"
        mount -t tmpfs other covered
        touch replaced/file again/file covered/file
        kill $olds
        for old in $olds; do
            # One that has ended stays in the table until its parent has asked.
            while grep -qs '^State:.[^Z]' /proc/$old/status; do sleep 0.1; done
        done
        ls replaced/file again/file covered/file
        grep -c " $PWD/alone " /proc/mounts || :
        umount replaced covered
        "$program" umount covered
        "$program" umount again
    "#;
    let lustre = Lustre::start();
    let mut command = Command::new("unshare");
    // What other tests unmount is unmounted there too, but not the other way round.
    command.args(["--mount", "--propagation", "slave", "sh", "-c", script, "sh"]);
    command.arg(lustrine().get_program());
    command.args([format!("{}:/{FSNAME}", nid(lustre.ip)), lustre.port.to_string()]);
    command.args((0..5).map(|_| loopback().to_string())).current_dir(lustre.scratch.path());
    crate::common::clean(&mut command);
    let done = finish(&mut command).ok();
    let expected = "again/file\ncovered/file\nreplaced/file\n0\n";
    assert_eq!(done.stdout, expected, "{done:#?}");
}
