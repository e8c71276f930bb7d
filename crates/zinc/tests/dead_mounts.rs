//! Mounts that a killed server left, and what cannot be mounted: everything of the machine at once,
//! so each test has a mount namespace of its own.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::process::{Command, Stdio};

/// What a shell script prints that has the functions `zinc`, `mounted` (datasets that are mounted)
/// and `dies` (the server), and a pool `tank`; in a mount namespace of its own: `unmount -a` takes
/// away the mounts of all users.
fn alone(script: &str) -> String {
    let dir = tempfile::tempdir().unwrap();
    let zinc = env!("CARGO_BIN_EXE_zinc");
    let start = format!(
        "umount -l -a -t fuse.zinc || true; zinc={zinc}; zinc() {{ $zinc \"$@\"; }}; \
         mounted() {{ sed -n 's/^\\(tank[^ ]*\\) .* fuse.zinc .*/\\1/p' /proc/self/mounts; }}; \
         dies() {{ kill -9 $(cat pid); \
                   while kill -0 $(cat pid) 2> /dev/null; do sleep 0.05; done; }}; \
         truncate -s 512M disk; zinc zpool create tank $PWD/disk; \
         trap '{zinc} zpool export -f tank > /dev/null 2>&1 || true' EXIT; "
    );
    let mut command = Command::new("unshare");
    command.args(["-m", "--propagation", "private", "sh", "-euc", &(start + script)]);
    command.current_dir(dir.path()).stdin(Stdio::null());
    command
        .env("ZINC_SOCKETS", dir.path().join("run/zinc"))
        .env("ZINC_STATE", dir.path().join("run/state"));
    let output = command.output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{script}: {message}");
    String::from_utf8(output.stdout).unwrap()
}

#[testkit::needs("fuse")]
#[test]
fn what_a_killed_server_left_is_mounted_over_and_taken_away() {
    let output = alone(
        r#"
        zinc zfs set mountpoint="$PWD/tree" tank
        zinc zfs create tank/a
        serve() { zinc serve -b --mount --pidfile pid tank > /dev/null; }
        serve; echo 1 $(mounted); dies
        echo 2 $(mounted) / $(zinc zfs mount) / $(ls run/zinc | grep -c sock)
        # Over dead mounts, by a command, and by a server.
        zinc zfs mount -a; echo 3 $(mounted); echo x > tree/a/f
        zinc zfs unmount -a; echo 4 $(mounted)
        echo 5 $(zinc zpool history tank | grep -c 'zfs mount')
        serve; dies
        serve; echo 6 $(mounted) $(cat tree/a/f); dies
        zinc zfs unmount -a; echo 7 $(mounted)
        zinc zfs list -H -o name tank
        echo 8 $(ls run/zinc | grep -c sock)
        "#,
    );
    let want = "1 tank tank/a\n2 tank tank/a / / 1\n3 tank tank/a\n4\n5 0\n6 tank tank/a x\n7\n\
                tank\n8 0\n";
    assert_eq!(output, want);
}

#[testkit::needs("fuse")]
#[test]
fn several_commands_take_away_dead_mounts_at_the_same_time() {
    let output = alone(
        r#"
        zinc zfs set mountpoint="$PWD/tree" tank
        for i in 1 2 3 4 5 6 7 8 9; do zinc zfs create tank/$i; done
        zinc serve -b --mount --pidfile pid tank > /dev/null; dies
        mounted | wc -l
        for i in 1 2 3 4; do
            (zinc zfs unmount -a 2>&1 || echo $?) > out.$i &
        done
        wait; cat out.*; mounted | wc -l
        "#,
    );
    assert_eq!(output, "10\n0\n");
}

#[testkit::needs("fuse")]
#[test]
fn a_server_that_is_stopped_holds_nothing_up() {
    let output = alone(
        r#"
        zinc zfs set mountpoint="$PWD/tree" tank
        zinc serve -b --mount --pidfile pid tank > /dev/null
        trap 'kill -CONT $(cat pid); zinc zpool export -f tank > /dev/null 2>&1 || true' EXIT
        kill -STOP $(cat pid)
        # A thread that still runs would take a request and not answer it, and a program that
        # waits for the answer to one that was taken cannot be killed.
        states() { sed 's/.*) \(.\).*/\1/' /proc/$(cat pid)/task/*/stat | sort -u; }
        until [ "$(states)" = T ]; do sleep 0.05; done
        # What is mounted is listed by any user, and another user of the machine has no other pool.
        other() { (export ZINC_SOCKETS=$PWD/other ZINC_STATE=$PWD/none; exec timeout 20 "$@"); }
        other $zinc zfs mount > listed && echo 1 $(cut -d ' ' -f 1 listed)
        other $zinc zfs unmount -a; echo 2 $(mounted)
        # The message says why nothing goes.
        tried() {
            code=0; timeout 60 $zinc "$@" 2> err || code=$?
            echo $code $(grep -o 'is not answering' err)
        }
        tried unmount "$PWD/tree"
        tried unmount -f "$PWD/tree"
        tried zfs unmount tank
        tried zfs unmount -a
        mounted
        "#,
    );
    let silent = "1 is not answering\n".repeat(4);
    assert_eq!(output, format!("1 tank\n2 tank\n{silent}tank\n"));
}

#[testkit::needs("fuse")]
#[test]
fn what_is_not_mounted_is_told_and_is_a_failure() {
    let output = alone(
        r#"
        touch wall
        zinc zfs create -o mountpoint="$PWD/wall" tank/a
        zinc zfs create -o mountpoint="$PWD/b" tank/b
        zinc zfs set canmount=off tank
        zinc zfs mount -a 2> err || echo $? $(mounted)
        grep -o "cannot mount 'tank/a'" err
        zinc zfs unmount -a
        zinc serve -b --mount tank 2> err > /dev/null || echo $? $(mounted)
        grep -o "cannot mount 'tank/a'" err
        zinc zfs mount -a 2> err || echo $? $(mounted)
        # Also when it ends, of one that is waited for.
        zinc zpool export tank
        zinc zpool import -d "$PWD" tank
        zinc serve --mount --for 0.1 tank 2> err > /dev/null || echo $? $(mounted)
        grep -o "cannot mount 'tank/a'" err
        zinc serve -b --mount tank 2> err > /dev/null || echo again
        # One that programs use stays, and keeps none of the others.
        zinc zfs create -o mountpoint="$PWD/c" tank/c
        (cd c && ! zinc zfs unmount -a 2> ../err)
        echo $(mounted)
        zinc zpool export tank
        zinc zpool import -d "$PWD" tank
        zinc zfs destroy tank/b
        zinc zfs destroy tank/c
        zinc zfs mount -a 2> err || echo $? $(mounted)
        "#,
    );
    let foreign = "1 tank/b\ncannot mount 'tank/a'\n";
    let waited = "1\ncannot mount 'tank/a'\nagain\n";
    assert_eq!(output, format!("{foreign}{foreign}1 tank/b\n{waited}tank/c\n1\n"));
}

#[testkit::needs("fuse")]
#[test]
fn overlay_says_whether_a_directory_with_files_is_mounted_over() {
    let output = alone(
        r#"
        mkdir full; touch full/a
        zinc zfs create -o mountpoint="$PWD/full" -o overlay=off tank/a
        zinc zfs mount tank/a 2> err || grep -o 'full is not empty' err
        zinc zfs set overlay=on tank/a
        zinc zfs mount tank/a; echo $(mounted) $(ls full)
        "#,
    );
    assert_eq!(output, "full is not empty\ntank/a\n");
}

#[testkit::needs("fuse")]
#[test]
fn a_property_is_set_once_and_a_snapshot_has_a_name() {
    let output = alone(
        r#"
        zinc zfs set mountpoint=/a mountpoint=/b tank 2> err || grep -o "'mountpoint' spec.*" err
        zinc zfs destroy tank@ 2> err || grep -o 'any snapshots to destroy' err
        "#,
    );
    assert_eq!(output, "'mountpoint' specified multiple times\nany snapshots to destroy\n");
}

/// Another mount namespace has the mounts of this one too, as that of a container.
#[testkit::needs("fuse")]
#[test]
fn a_mount_that_another_namespace_has_too_is_taken_away_here() {
    let output = alone(
        r#"
        zinc zfs set mountpoint="$PWD/tree" tank
        zinc zfs create tank/a
        zinc serve -b --mount tank > /dev/null
        elsewhere() {
            unshare -m --propagation private sleep 1000 > /dev/null 2>&1 & other=$!
            until [ "$(cat /proc/$other/comm)" = sleep ]; do sleep 0.05; done
        }
        elsewhere
        zinc zfs unmount tank/a
        echo 1 $(mounted) $(zinc zfs get -Ho value mounted tank/a)
        # What it refers to is used there.
        zinc zfs destroy tank/a 2> err || sed "s/process $other/process N/; s|$PWD||" err
        zinc zfs mount tank/a; echo 2 $(mounted) > tree/a/f
        cat tree/a/f
        nsenter -m -t $other cat "$PWD/tree/a/f"
        zinc zfs destroy -f tank/a
        echo 3 $(mounted) $(zinc zfs list -Ho name)
        ! nsenter -m -t $other ls "$PWD/tree/a" 2> err
        kill $other; wait $other || true
        zinc zfs create tank/b
        elsewhere
        zinc zpool export tank 2> err || grep -o "cannot export 'tank': pool is busy" err
        zinc zpool export -f tank
        echo 4 $(mounted)
        kill $other
        "#,
    );
    let want = "1 tank no\n\
                zinc: cannot unmount '/tree/a': pool or dataset is busy\n  \
                because: the mount namespace of process N still has /tree/a\n  \
                hint: -f unmounts it nevertheless\n\
                2 tank tank/a\n2 tank tank/a\n3 tank tank\n\
                cannot export 'tank': pool is busy\n4\n";
    assert_eq!(output, want);
}

#[testkit::needs("fuse")]
#[test]
fn what_was_detached_while_a_program_used_it_is_ended_by_force() {
    let output = alone(
        r#"
        zinc zfs create -o mountpoint="$PWD/a" tank/a
        zinc serve -b --mount tank > /dev/null
        echo x > a/f
        exec 5< a/f
        umount -l a
        echo 1 $(mounted) $(zinc zfs get -Ho value mounted tank/a)
        zinc zfs rename tank/a tank/b 2> err || grep -o 'programs have files open' err
        zinc zfs rename -f tank/a tank/b
        cat <&5 2> err || echo 2
        zinc zfs mount tank/b; cat a/f
        "#,
    );
    assert_eq!(output, "1 tank no\nprograms have files open\n2\nx\n");
}

/// Another server, of which nothing is known here, serves a pool of the same name.
#[testkit::needs("fuse")]
#[test]
fn mounts_of_servers_that_cannot_be_reached_are_left_alone() {
    let output = alone(
        r#"
        mkdir other; truncate -s 256M other/disk
        there() { ZINC_SOCKETS="$PWD/other/run" ZINC_STATE="$PWD/other/state" zinc "$@"; }
        for who in zinc there; do
            at=$PWD
            [ $who = zinc ] || { at=$PWD/other; there zpool create tank "$at/disk"; }
            $who zfs create -o mountpoint="$at/a" tank/a
            $who serve -b --mount tank > /dev/null
        done
        echo 1 $(mounted | grep -c a)
        zinc zfs unmount tank/a
        echo 2 $(mounted | grep -c a) $(grep -c other/a /proc/self/mounts)
        zinc zfs unmount tank/a 2> err || grep -o 'not currently mounted' err
        zinc zfs unmount -a
        echo 3 $(grep -c other/a /proc/self/mounts)
        there zfs unmount -a
        echo 4 $(mounted | grep -c a)
        there zpool export tank
        "#,
    );
    let want = "1 4\n2 3 1\nnot currently mounted\n3 1\n4 0\n";
    assert_eq!(output, want);
}
