//! Habits from OpenZFS's zpool, zfs and zdb: verbs, options and refusals, each a fact of its own.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

mod support;

use support::place::Place;
use support::zinc;

#[test]
fn a_verb_that_is_missing_says_so() {
    for (verb, code, text) in [
        ("zpool ddtprune a", 1, "zpool ddtprune: not supported by zinc yet"),
        ("zfs send -S a", 1, "zfs send -S: not supported by zinc yet"),
        ("zfs share a", 1, "zfs share: not supported by zinc yet"),
        ("zpool nix", 2, "unrecognized command 'nix'"),
        ("zfs nix -x", 2, "unrecognized command 'nix'"),
    ] {
        let run = zinc(&verb.split(' ').collect::<Vec<_>>());
        assert_eq!((run.code, run.out.as_str()), (code, ""), "{verb}");
        assert!(run.err.contains(text) && !run.err.contains("similar"), "{}", run.err);
    }
}

#[test]
fn without_pools_nothing_is_healthy_and_nothing_is_measured() {
    let place = Place::new(&["a"]);
    let run = place.run("zpool status -x");
    assert_eq!((run.code, run.out.as_str(), run.err.as_str()), (0, "", "no pools available\n"));
    let run = place.run("zpool iostat");
    assert_eq!((run.code, run.out.as_str()), (1, ""));
    assert!(run.err.contains("no pools available"), "{}", run.err);
    // Nor is there anything to do for all of them.
    assert_eq!(place.ok("zpool reopen"), "");
    place.ok("zpool create tank a");
    assert_eq!(place.ok("zpool reopen"), "");
    assert_eq!(place.ok("zpool status -x"), "all pools are healthy\n");
}

#[test]
fn flags_may_be_given_twice() {
    let place = Place::new(&["a"]);
    place.ok("zpool create tank a");
    place.ok("zpool get -Hpp all -d . tank");
    place.ok("zpool list -HpHp -d . tank");
    place.ok("zpool history -lil -d . tank");
    place.ok("zfs get -pp all -d . tank");
}

#[test]
fn exit_codes_are_those_of_openzfs_under_its_names() {
    let place = Place::new(&["a"]);
    place.ok("zpool create tank a");
    for name in ["zfs", "zpool"] {
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_zinc"), place.path().join(name)).unwrap();
    }
    let run = |line: &str| {
        let mut words = line.split(' ');
        let link = place.path().join(words.next().unwrap());
        let mut command = std::process::Command::new(link);
        command.args(words).env("ZINC_STATE", support::state(place.path()));
        command.env("ZINC_SOCKETS", place.path().join("run/zinc")).output().unwrap().status.code()
    };
    assert_eq!(run("zfs set nix=1 tank"), Some(255));
    assert_eq!(run("zfs set quota=1G tank/none"), Some(1));
    assert_eq!(run("zfs snapshot tank/none@s"), Some(2));
    assert_eq!(run("zfs load-key tank"), Some(255));
    assert_eq!(run("zfs change-key -o nix=1 tank"), Some(255));
    assert_eq!(run("zpool trim none"), Some(255));
    assert_eq!(run("zpool detach tank nix"), Some(255));
    assert_eq!(run("zpool detach none nix"), Some(1));
    assert_eq!(place.run("zfs set nix=1 tank").code, 1, "under zinc's own name");
}

#[test]
fn options_end_where_posix_ends_them_for_who_asks() {
    let place = Place::new(&["a"]);
    place.ok("zpool create tank a");
    let run = |correct: bool| {
        let mut command = place.command_here("zfs get -H name tank -r");
        if correct {
            command.env("POSIXLY_CORRECT", "1");
        }
        command.output().unwrap()
    };
    assert!(run(false).status.success());
    let refused = run(true);
    let text = String::from_utf8(refused.stderr).unwrap();
    assert!(refused.status.code() == Some(1) && text.contains("'-r'"), "{text}");
}

#[test]
fn tables_of_deduplication_are_read_in_advance() {
    let place = Place::new(&["a"]);
    place.ok("zpool create tank a");
    assert_eq!(place.ok("zpool prefetch -t ddt tank"), "");
    assert_eq!(place.run("zpool prefetch tank").code, 2);
    assert_eq!(place.run("zpool prefetch -t nix tank").code, 2);
}

#[test]
fn usage_names_the_command_whatever_the_link_is_called() {
    let place = Place::new(&[]);
    let link = place.path().join("zpool");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_zinc"), &link).unwrap();
    let output = std::process::Command::new(link).args(["create", "--bad"]).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("Usage: zinc zpool create "), "{text}");
}

#[test]
fn under_the_names_of_openzfs_its_wrong_options_are_wrong() {
    let place = Place::new(&[]);
    let link = place.path().join("zfs");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_zinc"), &link).unwrap();
    let run = |words: &[&str]| std::process::Command::new(&link).args(words).output().unwrap();
    let output = run(&["get", "-h", "all"]);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0));
    assert!(String::from_utf8_lossy(&output.stderr).contains("Usage: zinc zfs get"));
    assert_eq!(run(&["get", "--help"]).status.code(), Some(0));
    assert_eq!(place.run("zfs get -h").code, 0);
}

#[test]
fn errors_of_the_system_have_no_numbers() {
    let place = Place::new(&[]);
    std::os::unix::fs::symlink("loop", place.path().join("loop")).unwrap();
    for command in ["zdb -l nix", "zpool import -d nix", "cp -d . nix tank:/x", "zdb -l loop"] {
        let text = place.fails(command);
        assert!(!text.contains("os error"), "{text}");
    }
}

#[test]
fn a_copy_that_the_system_refuses_says_so_without_a_number() {
    let place = Place::new(&["a"]);
    place.ok("zpool create tank a");
    std::fs::write(place.path().join("file"), vec![1; 1 << 20]).unwrap();
    place.ok("cp file tank:/file");
    // A rescue writes its log as well, and tells what keeps it from writing more than that.
    for (limit, command) in
        [(0, "cp tank:/file out"), (0, "cp -r tank: tree"), (64, "rescue tank saved")]
    {
        let line = format!("trap '' XFSZ; ulimit -f {limit}; exec \"$0\" {command}");
        let output = std::process::Command::new("sh")
            .args(["-c", &line, env!("CARGO_BIN_EXE_zinc")])
            .current_dir(place.path())
            .env("ZINC_STATE", support::state(place.path()))
            .output()
            .unwrap();
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{message}");
        assert!(message.contains("File too large") && !message.contains("os error"), "{message}");
    }
}

#[test]
fn a_target_that_is_not_there_is_named() {
    let place = Place::new(&["a"]);
    place.ok("zpool create tank a");
    place.ok("zfs create -V 16M tank/v");
    std::fs::write(place.path().join("file"), "text").unwrap();
    let message = place.fails("cp file tank/v");
    assert!(message.contains("'tank/v' is not a place in a pool"), "{message}");
    assert!(message.contains("POOL/DATASET:/PATH"), "{message}");
    let message = place.fails("cp file tank/v:/file");
    assert!(message.contains("a volume has no files"), "{message}");
}

#[test]
fn what_zinc_does_not_set_is_refused_for_that_reason() {
    let place = Place::new(&["a"]);
    place.ok("zpool create tank a");
    for quota in ["defaultuserquota", "defaultgroupobjquota"] {
        let message = place.fails(&format!("zfs set {quota}=1G tank"));
        assert!(message.contains("zinc does not set quotas of all owners yet"), "{message}");
    }
    let message = place.fails("zfs set version=4 tank");
    assert!(message.contains("can not be downgraded; it is already at version 5"), "{message}");
    let message = place.fails("zfs set encryption=on tank");
    assert!(message.contains("'encryption' is readonly"), "{message}");
    for command in ["zfs destroy /tank", "zfs set atime=off /tank", "zfs snapshot /tank@a"] {
        let message = place.fails(command);
        assert!(message.contains("leading slash in name"), "{command}: {message}");
    }
}

#[test]
fn limits_need_their_feature_and_do_not_stop_root() {
    let place = Place::new(&["a"]);
    place.ok("zpool create -d tank a");
    for setting in ["filesystem_limit=1", "snapshot_limit=1", "longname=on"] {
        let message = place.fails(&format!("zfs set {setting} tank"));
        assert!(message.contains("pool must be upgraded"), "{message}");
    }
    place.ok("zpool set feature@filesystem_limits=enabled tank");
    place.ok("zfs set filesystem_limit=0 tank");
    let made = place.run("zfs create tank/fs");
    assert_eq!(made.code == 0, rustix::process::geteuid().is_root(), "{}", made.err);
}

#[test]
fn small_answers_are_those_of_openzfs() {
    let place = Place::new(&["a"]);
    place.ok("zpool create tank a");
    place.ok("zfs snapshot tank@a");
    assert!(place.ok("zfs destroy -nv tank@a").ends_with("would reclaim 0B\n"));
    place.ok("zfs clone tank@a tank/clone");
    let lines = "would destroy tank/clone\nwould destroy tank@a\n";
    assert_eq!(place.ok("zfs destroy -R -nv tank@a"), format!("{lines}would reclaim 0B\n"));
    // Of file systems and volumes nothing is said.
    assert_eq!(place.ok("zfs destroy -nv tank/clone"), "would destroy tank/clone\n");
    place.ok("zfs destroy tank/clone");
    assert_eq!(place.ok("zpool get -Ho property,value listsnaps tank"), "listsnapshots\toff\n");
    let run = place.run("zpool get size nix");
    assert_eq!((run.code, run.out.as_str()), (1, ""));
    let message = place.fails("zpool import -d . tank other");
    assert!(message.contains("cannot import 'tank': it is imported already"), "{message}");
    std::fs::copy(place.cache(), place.path().join("old.cache")).unwrap();
    place.ok("zpool destroy tank");
    assert!(place.fails("zpool import -c old.cache tank").contains("was destroyed"));
    place.ok("zpool import -c old.cache -D -f tank");
}

#[test]
fn a_new_pool_is_healthy_and_exported_ones_are_marked() {
    let place = Place::new(&["a"]);
    place.ok("zpool create tank a");
    let status = place.ok("zpool status -d . tank");
    assert!(!status.contains("status:") && status.contains(" state: ONLINE\n"), "{status}");
    assert_eq!(place.ok("zpool status -x -d ."), "all pools are healthy\n");
    assert_eq!(place.ok("zpool list -Ho health -d . tank"), "ONLINE\n");
    place.ok("zpool export -d . tank");
    let status = place.ok("zpool status -d . tank");
    assert!(status.contains(" state: ONLINE (EXPORTED)\n"), "{status}");
    assert_eq!(place.ok("zpool list -Ho health -d . tank"), "EXPORTED\n");
    // A pool without features is no trouble either.
    place.ok("zpool destroy -d . tank");
    place.ok("zpool create -d tank a");
    assert!(place.ok("zpool status -d . tank").contains("Enable all features using"));
    assert_eq!(place.ok("zpool status -x -d . tank"), "pool 'tank' is healthy\n");
    assert!(!place.ok("zpool status -e -d . tank").contains("/a "));
}

#[test]
fn readonly_and_ashift_say_what_is() {
    let place = Place::new(&["a", "b"]);
    place.ok("zpool create -o ashift=13 tank a");
    let get = "zpool get -Ho value,source readonly,ashift -d . tank";
    assert_eq!(place.ok(get), "off\t-\n13\tlocal\n");
    place.ok("zpool add -d . tank b");
    assert!(place.ok("zdb -l b").contains("ashift: 13"));
    place.ok("zpool set ashift=12 -d . tank");
    assert_eq!(place.ok(get), "off\t-\n12\tlocal\n");
}

#[test]
fn vdevs_of_another_sector_size_need_a_word() {
    let place = Place::new(&["a", "b"]);
    place.ok("zpool create -o ashift=13 tank a");
    let text = place.fails("zpool add -o ashift=12 -d . tank b");
    assert!(text.contains("different physical sector sizes"), "{text}");
    place.ok("zpool add --allow-ashift-mismatch -o ashift=12 -d . tank b");
}

#[test]
fn vdevs_that_survive_as_much_go_together() {
    let place = Place::new(&["a", "b", "c", "d", "e", "f"]);
    place.ok("zpool create tank mirror a b");
    place.ok("zpool add -d . tank raidz1 c d");
    let text = place.fails("zpool add -d . tank e");
    assert!(text.contains("mismatched replication level"), "{text}");
    place.ok("zpool add -d . --allow-replication-mismatch tank e");
    place.ok("zpool destroy -d . tank");
    place.ok("zpool create tank raidz1 a b raidz1 c d e");
    place.ok("zpool destroy -d . tank");
    let text = place.fails("zpool create tank raidz1 a b c special d");
    assert!(text.contains("mismatched replication level"), "{text}");
    place.ok("zpool create tank raidz1 a b c special mirror d e");
}

#[test]
fn add_shows_the_whole_configuration_to_be() {
    let place = Place::new(&["a", "b", "c", "d", "e"]);
    place.ok("zpool create tank mirror a b cache c");
    let text = place.ok("zpool add -n -d . tank spare d cache e");
    let names: Vec<&str> =
        text.lines().skip(2).map(|l| l.rsplit('/').next().unwrap().trim()).collect();
    assert_eq!(names, ["tank", "mirror-0", "a", "b", "cache", "c", "e", "spares", "d"], "{text}");
}

#[test]
fn foreign_data_needs_force() {
    let place = Place::new(&["a"]);
    let put = |at: u64, bytes: &[u8]| {
        use std::os::unix::fs::FileExt as _;
        let file = std::fs::File::options().write(true).open(place.path().join("a")).unwrap();
        file.write_all_at(bytes, at).unwrap();
    };
    put(0xff6, b"SWAPSPACE2");
    let text = place.fails("zpool create tank a");
    assert!(text.contains("contains a filesystem of type 'swap'"), "{text}");
    place.ok("zpool create -f tank a");
    place.ok("zpool destroy -d . tank");
    // What was put on the remains of a pool counts too.
    put(0x218, b"LVM2 001");
    let text = place.fails("zpool create tank a");
    assert!(text.contains("contains a filesystem of type 'LVM2_member'"), "{text}");
}

#[test]
fn hints_fit_the_case() {
    let place = Place::new(&[]);
    assert!(!place.fails("zpool create tank /dev/zinc-absent").contains("truncate"));
    assert!(!place.fails("zpool create tank no/folder/a").contains("truncate"));
    assert!(place.fails("zpool create tank a").contains("truncate -s 1G"));
}

#[test]
fn refusals_say_the_true_reason() {
    let place = Place::new(&["a", "b"]);
    for (options, why) in [
        ("-O encryption=on", "Keyformat required for new encryption root."),
        ("-O quota=0", "use 'none' to disable quota/refquota"),
        ("-O QuOta=none", "invalid property 'QuOta'"),
        ("-d -O dnodesize=1k", "does not have the feature org.zfsonlinux:large_dnode"),
        ("-d -O recordsize=1M", "does not have the feature org.open-zfs:large_blocks"),
    ] {
        let text = place.fails(&format!("zpool create {options} tank a"));
        assert!(text.contains(why), "{options}: {text}");
        place.run("zpool labelclear -f a");
    }
    let text = place.fails("zpool create -d tank a special b");
    assert!(text.contains("allocation_classes"), "{text}");
    place.ok("zpool create -O casesensitivity=insensitive -O normalization=formC tank a");
    let get = "zfs get -Ho value casesensitivity,normalization,utf8only -d . tank";
    assert_eq!(place.ok(get), "insensitive\nformC\non\n");
    assert_eq!(place.run("check -d . tank").code, 0);
    for (command, why) in [
        ("zfs set -d . quota=0 tank", "use 'none'"),
        ("zfs set -d . sharenfs= tank", "sharenfs"),
        ("zfs get USED -d . tank", "invalid property 'USED'"),
        ("zfs create -V 16M -u -d . tank/v", "cannot be used with"),
        ("zfs create -V 1z -d . tank/v", "value is too large"),
        ("zpool history -d . tank/x", "invalid character '/' in pool name"),
        ("zpool status -d . tank/x", "invalid character '/' in pool name"),
        ("zpool upgrade -va -d .", "cannot be used with"),
        ("zdb -j -p . tank", "unexpected argument"),
        ("zdb -dd -p . tank 1:0", "objects are"),
        ("zdb -dd -p . tank 0:1:A-", "objects are"),
    ] {
        let text = place.fails(command);
        assert!(text.contains(why), "{command}: {text}");
    }
    place.ok("zfs get refer -d . tank");
}

#[test]
fn features_that_zinc_does_not_write_are_not_enabled_in_silence() {
    let place = Place::new(&["a"]);
    place.ok("zpool create tank a");
    let run = place.run("zpool set feature@redaction_bookmarks=enabled -d . tank");
    assert_eq!(run.code, 0);
    assert!(run.err.contains("note: zinc does not write 'redaction_bookmarks'"), "{}", run.err);
}

#[test]
fn a_value_can_make_its_feature_active() {
    let place = Place::new(&["a"]);
    place.ok("zpool create tank a");
    let feature = "zpool get -Ho value feature@zstd_compress -d . tank";
    place.ok("zfs create -o compress=zstd-7 -d . tank/a");
    assert_eq!(place.ok(feature), "active\n");
    place.ok("zfs create -d . tank/b");
    place.ok("zfs set -d . compression=zstd tank/b");
    place.ok("zfs destroy -d . tank/a");
    assert_eq!(place.ok(feature), "active\n");
    place.ok("zfs destroy -d . tank/b");
    assert_eq!(place.ok(feature), "enabled\n");
    assert_eq!(place.run("check -d . tank").code, 0);
}

#[test]
fn labels_that_are_none_stay_as_they_are() {
    use std::os::unix::fs::FileExt as _;
    let place = Place::new(&["a"]);
    place.ok("zpool create tank a");
    place.ok("zpool export tank");
    let file = std::fs::File::options().read(true).write(true).open(place.path().join("a"));
    let file = file.unwrap();
    file.write_all_at(&vec![0xa5; 1 << 20], 0).unwrap();
    place.ok("zpool labelclear -f a");
    let mut bytes = vec![0; 1 << 20];
    file.read_exact_at(&mut bytes, 0).unwrap();
    assert!(bytes.iter().all(|b| *b == 0xa5), "what is not a label belongs to another program");
    assert_eq!(place.run("zdb -lq a").code, 2);
    place.fails("zpool labelclear -f a");
}

#[test]
fn a_destroyed_pool_has_no_name() {
    let place = Place::new(&["a"]);
    place.ok("zpool create tank a");
    place.ok("zpool destroy -d . tank");
    for command in ["zpool list", "zpool get all", "zfs list", "zfs create -o mountpoint=none"] {
        place.fails(&format!("{command} -d . tank"));
    }
}

#[test]
fn properties_that_users_invent_are_kept_by_pools() {
    let place = Place::new(&["a"]);
    place.ok("zpool create tank a");
    place.ok("zpool set cool:pool=hello -d . tank");
    assert_eq!(place.ok("zpool get -Ho value cool:pool -d . tank"), "hello\n");
    place.ok("zpool set cool:pool= -d . tank");
    let get = "zpool get -Ho value,source cool:pool -d . tank";
    assert_eq!(place.ok(get), "-\tdefault\n");
    assert_eq!(place.run("check -d . tank").code, 0);
}

#[test]
fn a_guid_can_be_chosen() {
    let place = Place::new(&["a"]);
    place.ok("zpool create tank a");
    for (typed, guid) in [("0123", "123"), ("-1", "18446744073709551615")] {
        place.ok(&format!("zpool reguid -g {typed} -d . tank"));
        assert_eq!(place.ok("zpool get -Ho value guid -d . tank"), format!("{guid}\n"));
    }
    for bad in ["0", "0xa", "18446744073709551616", "-1"] {
        place.fails(&format!("zpool reguid -g {bad} -d . tank"));
    }
}

#[test]
fn datasets_are_found_by_their_mount_points() {
    let place = Place::new(&["a"]);
    place.ok("zpool create tank a");
    place.ok("zfs create -o mountpoint=/somewhere/else -d . tank/x");
    assert_eq!(place.ok("zfs list -Ho name -d . /tank"), "tank\n");
    assert_eq!(place.ok("zfs get -Ho name used -d . /somewhere/else/below"), "tank/x\n");
    let text = place.fails("zfs list -d . /nowhere");
    assert!(text.contains("cannot open '/nowhere': No such file or directory"), "{text}");
}

#[test]
fn what_create_would_make_is_told_in_full() {
    let place = Place::new(&["a"]);
    place.ok("zpool create tank a");
    let text = place.ok("zfs create -Pn -b 4k -V 10m -s -d . tank/v");
    assert_eq!(text, "create\ttank/v\nproperty\tvolblocksize\t4096\nproperty\tvolsize\t10485760\n");
    let text = place.ok("zfs create -Pp -o compression=on -d . tank/a/b");
    assert_eq!(text, "create_ancestors\ttank/a/b\ncreate\ttank/a/b\nproperty\tcompression\ton\n");
    let text = place.ok("zfs create -nv -V 10m -d . tank/w");
    assert!(
        text.starts_with("would create tank/w\n\tvolsize=10485760\n\trefreservation="),
        "{text}"
    );
}

#[test]
fn short_names_of_snapshots_and_automatic_reservations() {
    let place = Place::new(&["a"]);
    place.ok("zpool create tank a");
    place.ok("zfs create -s -V 16M -d . tank/v");
    place.ok("zfs snapshot -d . tank/v@s");
    place.ok("zfs bookmark -d . @s tank/v#b");
    assert_eq!(place.ok("zfs list -Ht bookmark -o name -d . -r tank"), "tank/v#b\n");
    place.fails("zfs bookmark -d . @s #c");
    // A bookmark is copied, also when its snapshot is gone.
    place.ok("zfs bookmark tank/v#b #c");
    let guid = |name: &str| place.ok(&format!("zfs get -Hpo value guid {name}"));
    assert_eq!(guid("tank/v#c"), guid("tank/v@s"));
    let message = place.fails("zfs bookmark tank/v tank/v#d");
    assert!(message.contains("must contain a '@' or '#'"), "{message}");
    assert!(place.fails("zfs bookmark tank/v#x tank/v#d").contains("does not exist"));
    assert!(place.fails("zfs bookmark tank/v#b tank/v#c").contains("'tank/v#c': bookmark exists"));
    place.ok("zfs create tank/other");
    let message = place.fails("zfs bookmark tank/v#b tank/other#d");
    assert!(message.contains("source is not an ancestor"), "{message}");
    place.ok("zfs clone -o refreservation=auto -d . tank/v@s tank/w");
    assert_ne!(place.ok("zfs get -Hpo value refreservation -d . tank/w"), "0\n");
    // What a clone came from is its past, and what became of that since is not.
    place.ok("zfs bookmark tank/v@s tank/w#of");
    place.ok("zfs bookmark #b tank/v#again");
    place.ok("zfs bookmark tank/v#c tank/w#copy");
    place.ok("zfs snapshot tank/v@later");
    let message = place.fails("zfs bookmark tank/v@later tank/w#no");
    assert!(message.contains("source is not an ancestor"), "{message}");
    assert!(place.ok("zpool history -i tank").contains("bookmark tank/v ("), "noted");
    place.ok("zpool export tank");
    testkit::oracle::judge(place.path(), "tank");
}

#[test]
fn of_many_nothing_is_destroyed_when_one_is_held() {
    let place = Place::new(&["a"]);
    place.ok("zpool create tank a");
    for name in ["tank/x", "tank/x/1", "tank/x/2"] {
        place.ok(&format!("zfs create {name}"));
    }
    place.ok("zfs snapshot -r tank/x@s");
    place.ok("zfs hold stay tank/x/2@s");
    let before = place.ok("zfs list -Ho name -t all -r tank");
    let message = place.fails("zfs destroy -r tank/x");
    assert!(message.contains("cannot destroy snapshot tank/x/2@s: dataset is busy"), "{message}");
    assert_eq!(place.ok("zfs list -Ho name -t all -r tank"), before);
    place.ok("zfs release stay tank/x/2@s");
    place.ok("zfs destroy -r tank/x");
}

#[test]
fn lists_and_reports_have_all_columns_that_are_asked_for() {
    let place = Place::new(&["a", "b"]);
    place.ok("zpool create tank mirror a b");
    // OpenZFS's -d has no value, and zinc's has the path of something.
    let status = place.ok("zpool status tank");
    for line in ["zpool status -d tank", "zpool status -d", "zpool status -d . tank"] {
        assert_eq!(place.ok(line), status, "{line}");
    }
    for list in ["zfs list -o all tank", "zpool list -o all tank"] {
        let text = place.ok(list);
        let head = text.lines().next().unwrap().split_whitespace();
        let script = place.ok(&list.replace("-o", "-Ho"));
        let cells = script.trim_end_matches('\n').split('\t').count();
        // Some headings have two words.
        assert!(head.clone().next() == Some("NAME") && head.count() >= cells, "{text}");
        assert!(cells > 70 && script.starts_with("tank\t"), "{script}");
    }
    let status = place.ok("zpool status -s tank");
    let table: Vec<&str> = status.lines().filter(|line| line.starts_with('\t')).collect();
    assert!(table[0].ends_with("CKSUM  SLOW"), "{status}");
    // The pool and its mirror have no number of their own.
    assert!(table[1..3].iter().all(|row| row.ends_with("     -")), "{status}");
    assert!(table[3..].iter().all(|row| row.ends_with("     0")), "{status}");
    assert_eq!(table.len(), 5, "{status}");
    assert!(!place.ok("zpool status tank").contains("SLOW"));
}

/// What is said where the process may not have more memory, and how it ends: with what it should
/// do, or with a message and the exit code of a failure. Before the program runs, and where the
/// libraries below start a thread, they have words and ends of their own.
#[test]
fn a_limit_of_memory_ends_a_command_with_a_message() {
    let place = Place::new(&["a", "b"]);
    place.ok("zpool create tank mirror a b");
    let mut refused = 0;
    // With less than these the system does not even map the program, and kills it.
    let limits = [50, 51, 52, 55, 60, 64, 66, 70, 80, 100, 120, 140, 200, 300, 4000];
    let checks = limits.map(|mib| (mib, "check tank".to_owned()));
    let makes = limits.map(|mib| (mib, format!("zfs create tank/{mib}")));
    // Where the system puts things differs: with none of these, at one of those between.
    let more = (50..300).map(|mib| (mib, "check tank".to_owned()));
    for (n, (mib, verb)) in checks.into_iter().chain(makes).chain(more).enumerate() {
        if n >= 2 * limits.len() && refused > 0 {
            break;
        }
        let limited = format!("ulimit -c 0; ulimit -v {}", mib << 10);
        let script = format!("{limited}; exec timeout 60 \"$0\" {verb}");
        let mut command = std::process::Command::new("sh");
        command.args(["-c", &script, env!("CARGO_BIN_EXE_zinc")]).current_dir(place.path());
        command.env("ZINC_STATE", support::state(place.path()));
        let output = command.output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        let below = ["stack_overflow.rs", "glibc", "error while loading shared libraries"];
        let is_below = below.iter().any(|word| message.contains(word));
        match output.status.code() {
            Some(0) => {}
            Some(1) if message.contains("zinc: ") => {
                refused += u32::from(message.contains("out of memory: the system refused "));
            }
            _ => assert!(is_below && mib < 4000, "{mib} MiB: {:?} {message}", output.status),
        }
        assert!(mib < 4000 || output.status.success(), "{message}");
    }
    assert!(refused > 0);
    // What this process lacks is not a failure of a device.
    let status = place.ok("zpool status -v tank");
    assert!(status.contains("errors: No known data errors") && !status.contains("DEGRADED"));
    assert_eq!(status.matches("ONLINE       0     0     0").count(), 4, "{status}");
}

#[test]
fn upgrade_lists_the_old_versions() {
    let text = zinc(&["zpool", "upgrade", "-v"]).ok();
    for version in 1..=28 {
        let starts = format!(" {version} ");
        assert!(text.lines().any(|l| l.starts_with(&starts)), "{version}");
    }
}

#[test]
fn zdb_names_what_is_wrong_with_labels() {
    use std::os::unix::fs::FileExt as _;
    let place = Place::new(&["a"]);
    place.ok("zpool create tank a");
    place.ok("zdb -d -p . tank/");
    let file = std::fs::File::options().write(true).open(place.path().join("a")).unwrap();
    for label in [0, 1] {
        // The last bytes of the configuration are its checksum.
        file.write_all_at(&[1; 8], label * (256 << 10) + (128 << 10) - 8).unwrap();
    }
    let bad =
        |level: &str| place.run(&format!("zdb {level} a")).out.matches("(Bad label cksum)").count();
    assert_eq!((bad("-l"), bad("-lll")), (1, 2));
    std::fs::File::create(place.path().join("empty")).unwrap();
    assert_eq!(place.run("zdb -l empty").code, 2);
}

#[test]
fn no_force_takes_a_device_of_a_pool_in_use() {
    let place = Place::new(&["a", "b", "c", "d"]);
    place.ok("zpool create old mirror a b");
    place.ok("zpool create other c");
    for command in ["zpool create -f new a", "zpool add -f other b", "zpool add -f other c"] {
        let text = place.fails(command);
        assert!(text.contains("is part of active pool 'o"), "{command}: {text}");
    }
    let text = place.fails("zpool labelclear -f a");
    assert!(text.contains("a member (ACTIVE) of pool \"old\""), "{text}");
    assert_eq!(place.ok("zpool status -x"), "all pools are healthy\n");
    assert_eq!(place.run("check -d . old").code, 0);
    // An exported pool's devices are free for those that insist.
    place.ok("zpool export old");
    let text = place.fails("zpool create new a");
    assert!(text.contains("is part of exported pool 'old'"), "{text}");
    let text = place.fails("zpool labelclear b");
    assert!(text.contains("exported pool \"old\"") && !text.contains("x0a"), "{text}");
    place.ok("zpool create -f new a");
    place.ok("zpool labelclear -f b");
}

#[test]
fn a_pool_that_is_not_known_here_is_potentially_active() {
    let place = Place::new(&["a"]);
    place.ok("zpool create -o cachefile=none old a");
    let state = place.path().join("elsewhere");
    let run = |command: &str| {
        let mut zinc = std::process::Command::new(env!("CARGO_BIN_EXE_zinc"));
        zinc.current_dir(place.path()).env("ZINC_STATE", &state);
        zinc.args(command.split(' ')).output().unwrap()
    };
    let refused = run("zpool create new a");
    let text = String::from_utf8(refused.stderr).unwrap();
    assert!(text.contains("is part of potentially active pool 'old'"), "{text}");
    assert!(run("zpool create -f new a").status.success());
}

#[test]
fn zdb_finds_known_pools() {
    let place = Place::new(&["a"]);
    place.ok("zpool create tank a");
    assert!(place.ok("zdb -C tank").contains("name: 'tank'"));
}

#[test]
fn an_import_to_read_is_no_export() {
    let place = Place::new(&["a"]);
    place.ok("zpool create tank a");
    place.ok("zpool export tank");
    assert!(!place.ok("zpool import -d .").contains("features are not enabled"));
    place.ok("zpool import -d . -o readonly=on tank");
    assert_eq!(place.ok("zpool get -Ho value readonly tank"), "on\n");
    let status = place.ok("zpool status tank");
    assert!(!status.contains("EXPORTED"), "{status}");
}

#[test]
fn a_value_that_is_too_long_is_not_repeated() {
    let place = Place::new(&["a"]);
    place.ok("zpool create tank a");
    let text = place.fails(&format!("zfs set a:b={} tank", "x".repeat(9000)));
    assert!(text.contains("property value of 'a:b' is too long"), "{text}");
    assert!(text.len() < 200 && !text.contains("hint:"), "{text}");
}

#[test]
fn a_file_at_the_limit_of_its_size_is_an_error_and_no_sudden_end() {
    let place = Place::new(&["disk"]);
    place.ok("zpool create tank disk");
    std::fs::write(place.path().join("big"), vec![7; 1 << 20]).unwrap();
    place.ok("cp big tank:/big");
    place.ok("zpool export tank");
    let limited = |words: &str| {
        let zinc = env!("CARGO_BIN_EXE_zinc");
        let script = format!("ulimit -f 64; exec {zinc} {words}");
        let mut command = std::process::Command::new("sh");
        command.args(["-c", &script]).current_dir(place.path());
        command.env("ZINC_STATE", support::state(place.path())).output().unwrap()
    };
    for words in ["cp -d disk tank:/big out", "cat -d disk tank:/big > printed"] {
        let output = limited(words);
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{words}: {message}");
        assert!(message.contains("File too large"), "{words}: {message}");
    }
    assert!(!place.path().join("out").exists(), "half a file has no name");
}

#[test]
fn what_is_only_kept_for_other_systems_is_said() {
    let place = Place::new(&["a"]);
    let run = place.run("zpool create -o listsnapshots=on -O primarycache=metadata tank a");
    assert_eq!((run.code, run.err.matches("is kept for other systems").count()), (0, 2));
    let run = place.run("zfs set dedup=on compression=lz4 tank");
    let text = "note: 'dedup=on' is kept for other systems: zinc deduplicates nothing that it \
                writes\n";
    assert_eq!((run.code, run.err.as_str()), (0, text));
    place.ok("zfs set dedup=off logbias=latency checksum=skein copies=2 tank");
    // What another system would do at once, and zinc does not.
    let run = place.run("zfs set sharenfs=rw volmode=none nbmand=on aclmode=restricted tank");
    assert_eq!((run.code, run.err.matches("is kept for other systems").count()), (0, 4));
    assert!(run.err.contains("'sharenfs=rw' is kept for other systems: zinc shares nothing"));
    let run = place.run("zfs set sharenfs=off volmode=default nbmand=off aclmode=discard tank");
    assert_eq!((run.code, run.err.as_str()), (0, ""));
}

#[test]
fn a_key_location_is_for_what_has_a_key() {
    let place = Place::new(&["a"]);
    place.ok("zpool create tank a");
    let text = place.fails("zfs set keylocation=prompt tank");
    assert!(text.contains("keylocation must be 'none' for unencrypted datasets"), "{text}");
    place.ok("zfs set keylocation=none tank");
}

#[test]
fn a_rollback_that_meets_a_hold_destroys_nothing() {
    let place = Place::new(&["a"]);
    place.ok("zpool create tank a");
    place.ok("zfs create tank/x");
    for name in ["1", "2", "3"] {
        place.ok(&format!("zfs snapshot tank/x@{name}"));
    }
    place.ok("zfs clone tank/x@2 tank/of2");
    place.ok("zfs hold stay tank/x@3");
    let before = place.ok("zfs list -Ho name -t all -r tank");
    let text = place.fails("zfs rollback -R tank/x@1");
    assert!(text.contains("'tank/x@3': dataset is busy"), "{text}");
    assert_eq!(place.ok("zfs list -Ho name -t all -r tank"), before);
    place.ok("zfs release stay tank/x@3");
    // A hold of what a clone brought is met first too.
    place.ok("zfs snapshot tank/of2@y");
    place.ok("zfs hold stay tank/of2@y");
    let before = place.ok("zfs list -Ho name -t all -r tank");
    place.fails("zfs rollback -R tank/x@1");
    assert_eq!(place.ok("zfs list -Ho name -t all -r tank"), before);
    place.ok("zfs release stay tank/of2@y");
    place.ok("zfs rollback -R tank/x@1");
    assert_eq!(place.ok("zfs list -Ho name -t all -r tank"), "tank\ntank/x\ntank/x@1\n");
}

#[test]
fn errors_name_the_snapshot_they_are_about() {
    let place = Place::new(&["a"]);
    place.ok("zpool create tank a");
    place.ok("zfs create tank/x");
    place.ok("zfs snapshot tank/x@1");
    place.ok("zfs hold tag tank/x@1");
    let text = place.fails("zfs hold tag tank/x@1");
    let words = "zinc: cannot hold snapshot 'tank/x@1': tag already exists on this dataset\n";
    assert_eq!(text, words);
    let text = place.fails("zfs snapshot tank@1 tank/x@1");
    assert_eq!(text, "zinc: cannot create snapshot 'tank/x@1': dataset already exists\n");
    let text = place.fails("zfs snapshot tank@1 tank/nix@1");
    assert!(text.contains("'tank/nix'") && !text.contains("'tank@1'"), "{text}");
    assert_ne!(place.run("zfs list -t snapshot /tank/x@1").code, 0);
}

#[test]
fn a_full_pool_and_a_full_quota_are_told_apart() {
    let place = Place::new(&["a"]);
    place.ok("zpool create -O compression=off tank a");
    place.ok("zfs create -o quota=8M tank/q");
    place.ok("zfs create -o refquota=8M tank/r");
    std::fs::write(place.path().join("small"), vec![7; 12 << 20]).unwrap();
    std::fs::write(place.path().join("big"), vec![7; 160 << 20]).unwrap();
    for (command, why) in [
        ("cp small tank/q:/f", "disk quota exceeded"),
        ("cp small tank/r:/f", "disk quota exceeded"),
        ("cp big tank:/f", "out of space"),
    ] {
        let text = place.fails(command);
        assert!(text.contains(why) && !text.contains("objset"), "{command}: {text}");
    }
}

#[test]
fn a_sync_writes_a_txg() {
    let place = Place::new(&["a"]);
    place.ok("zpool create tank a");
    let txg = || -> u64 {
        let text = place.ok("zdb -u tank");
        let line = text.lines().find_map(|l| l.trim().strip_prefix("txg = ")).unwrap().to_owned();
        line.parse().unwrap()
    };
    for command in ["zpool sync", "zpool sync tank", "zpool sync -f tank"] {
        let before = txg();
        place.ok(command);
        assert!(txg() > before, "{command}");
    }
}

#[test]
fn values_that_openzfs_refuses_are_refused() {
    let place = Place::new(&["a", "b", "c"]);
    place.fails("zpool create -O sharenfs=sss tank a");
    for class in ["log", "spare", "cache"] {
        let text = place.fails(&format!("zpool create tank a {class} b {class} c"));
        assert!(text.contains(&format!("'{class}' can be specified only once")), "{text}");
    }
    let words = "zpool create -o cachefile=none -O sharenfs=rw=@10.0.0.0/8,no_root_squash tank a";
    assert_eq!(place.run(words).code, 0);
    assert_eq!(place.ok("zpool get -Ho value,source cachefile tank"), "none\tlocal\n");
    place.fails("zpool import -a tank");
}

#[test]
fn a_long_list_of_clones_ends_where_openzfs_ends_it() {
    let place = Place::new(&["a"]);
    place.ok("zpool create tank a");
    place.ok("zfs snapshot tank@s");
    let names: Vec<String> = (0..42).map(|i| format!("tank/{}.{i}", "x".repeat(200))).collect();
    names.iter().for_each(|name| {
        place.ok(&format!("zfs clone tank@s {name}"));
    });
    assert_eq!(place.ok("zfs list -Ho clones tank@s").len(), 8192);
}

/// Before, `zpool destroy tank/fs` destroyed the pool.
#[test]
fn the_name_of_a_dataset_does_not_stand_for_its_pool() {
    let place = Place::new(&["a", "b"]);
    place.ok("zpool create tank a");
    place.ok("zfs create tank/fs");
    for verb in [
        "destroy tank/fs",
        "destroy -f tank@now",
        "export tank/fs",
        "add tank/fs b",
        "set comment=x tank/fs",
        "upgrade tank/fs",
        "reguid tank/fs",
        "sync tank/fs",
        "list tank/fs",
        "status tank#mark",
        "get all tank/fs",
        "history tank/fs",
        "iostat tank/fs",
    ] {
        place.fails(&format!("zpool {verb}"));
    }
    place.fails("serve tank/fs");
    assert_eq!(place.ok("zfs list -Ho name"), "tank\ntank/fs\n");
}
