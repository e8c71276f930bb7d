//! Programs of others that call zpool and zfs, as Debian has them (`scripts/oracle`): they do their
//! work when these names are zinc's.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

mod support;

use std::path::PathBuf;
use std::process::Command;
use support::place::Place;
use testkit::workspace_root;

/// A folder with the pools `tank` and `backup`, where the names of OpenZFS are zinc's.
struct Called(Place);

impl Called {
    fn new() -> Self {
        let place = Place::new(&["a", "b"]);
        let names = place.path().join("names");
        std::fs::create_dir(&names).unwrap();
        for name in ["zpool", "zfs"] {
            std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_zinc"), names.join(name)).unwrap();
        }
        place.ok("zpool create tank a");
        place.ok("zpool create -O mountpoint=none backup b");
        for name in ["tank/home", "tank/home/ann", "tank/home/bob"] {
            place.ok(&format!("zfs create {name}"));
        }
        Self(place)
    }

    fn unpacked() -> PathBuf {
        workspace_root().join("target/oracle/scripts/usr")
    }

    /// What a line prints on standard output and standard error; it must succeed.
    fn sh(&self, line: &str) -> String {
        let folder = self.0.path();
        let path = format!(
            "{}:{}:{}:/usr/sbin:/sbin",
            folder.join("names").display(),
            Self::unpacked().join("sbin").display(),
            std::env::var("PATH").unwrap()
        );
        let output = Command::new("sh")
            .args(["-c", &format!("{{ {line}\n}} 2>&1")])
            .current_dir(folder)
            .env("PATH", path)
            .env("PERL5LIB", Self::unpacked().join("share/perl5"))
            .env("TZ", "UTC")
            .env("ZINC_STATE", support::state(folder))
            .env("ZINC_SOCKETS", folder.join("run/zinc"))
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{line}: {text}");
        text
    }

    /// The names of snapshots below a dataset, without those of the datasets.
    fn snapshots(&self, of: &str) -> Vec<String> {
        let names = self.0.ok(&format!("zfs list -H -o name -t snapshot -r {of}"));
        names.lines().map(|name| name.split('@').nth(1).unwrap().to_owned()).collect()
    }

    /// Writes a file into `tank/home/ann`.
    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.0.path().join(name), text).unwrap();
        self.0.ok(&format!("cp {name} tank/home/ann:/"));
    }
}

/// Many programs look for `^cannot open`, `^cannot destroy` and the like.
#[test]
fn messages_begin_as_those_of_openzfs_under_its_names() {
    let called = Called::new();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_zinc"), called.0.path().join("names/zdb"))
        .unwrap();
    let message = |line: &str| called.sh(&format!("{line} || true"));
    let none = "cannot open 'tank/none': dataset does not exist\n";
    let check = || {
        assert_eq!(message("zfs list tank/none"), none);
        assert!(message("zfs destroy tank/home").starts_with("cannot destroy 'tank/home': "));
        assert!(message("zfs mount tank/none").starts_with("cannot open 'tank/none': "));
        assert!(message("zfs set nix=1 tank").starts_with("cannot set property for 'tank': "));
        let own = called.0.command_here("zfs list tank/none").output().unwrap();
        assert_eq!(String::from_utf8_lossy(&own.stderr), format!("zinc: {none}"));
    };
    check();
    assert!(message("zpool status none").starts_with("cannot open 'none': no such pool\n"));
    assert!(message("zdb none").starts_with("zdb: "), "{}", message("zdb none"));
    assert!(message("zdb -R tank").starts_with("zdb: want -R "));
    // A server is told under which name its client was called.
    let server = called.0.server("tank");
    check();
    drop(server);
}

/// sanoid leaves datasets alone whose names a `zfs send` or `zfs receive` of this machine has, so
/// no other test has these.
const POLICY: &str = "[tank/watched]
use_template = all
recursive = yes
[template_all]
frequently = 0
daily = 3
monthly = 1
yearly = 0
autosnap = yes
autoprune = yes
";

#[testkit::needs("sanoid")]
#[test]
fn sanoid_takes_snapshots_by_a_policy_removes_them_and_watches() {
    let called = Called::new();
    for name in ["tank/watched", "tank/watched/a", "tank/watched/b"] {
        called.0.ok(&format!("zfs create {name}"));
    }
    let configuration = called.0.path().join("sanoid");
    std::fs::create_dir(&configuration).unwrap();
    let shipped = Called::unpacked().join("share/sanoid/sanoid.defaults.conf");
    std::fs::copy(shipped, configuration.join("sanoid.defaults.conf")).unwrap();
    let policy = |hourly: u32| {
        let text = format!("{POLICY}hourly = {hourly}\n");
        std::fs::write(configuration.join("sanoid.conf"), text).unwrap();
    };
    let sanoid = |verb: &str| {
        called.sh(&format!("sanoid --configdir=sanoid --cache-dir=cache --run-dir=locks {verb}"))
    };
    policy(4);
    sanoid("--cron");
    let of_kind = |kind: &str| {
        let all = called.snapshots("tank/watched");
        all.iter().filter(|name| name.ends_with(kind)).count()
    };
    assert_eq!((of_kind("_hourly"), of_kind("_daily"), of_kind("_monthly")), (3, 3, 3));
    assert!(sanoid("--monitor-snapshots").starts_with("OK: all monitored datasets"));
    assert!(sanoid("--monitor-health").starts_with("OK ZPOOL tank : ONLINE"));
    assert!(sanoid("--monitor-capacity").starts_with("OK ZPOOL tank : 0%"));
    // Hourly ones are not wanted any more.
    policy(0);
    std::thread::sleep(std::time::Duration::from_millis(1100));
    sanoid("--prune-snapshots --force-update");
    assert_eq!((of_kind("_hourly"), of_kind("_daily"), of_kind("_monthly")), (0, 3, 3));
}

#[testkit::needs("sanoid")]
#[test]
fn syncoid_copies_what_has_changed_and_goes_on_where_it_was_interrupted() {
    let called = Called::new();
    let syncoid = |what: &str| called.sh(&format!("syncoid --no-privilege-elevation {what}"));
    let is_there = |name: &str, text: &str| {
        assert_eq!(called.0.ok(&format!("cat backup/home/ann:/{name}")), text);
    };
    called.write("first", "one");
    let text = syncoid("-r tank/home backup/home");
    assert!(text.contains("Sending oldest full snapshot tank/home/ann@syncoid"), "{text}");
    is_there("first", "one");
    called.write("second", "two");
    let text = syncoid("-r tank/home backup/home");
    assert!(text.contains("Sending incremental tank/home/ann@syncoid"), "{text}");
    is_there("second", "two");
    assert_eq!(called.snapshots("backup/home/ann"), called.snapshots("tank/home/ann"));
    // A receive that was broken off, with what it had got so far.
    let large = "0123456789abcdef".repeat(1 << 16);
    called.write("large", &large);
    let last = called.snapshots("tank/home/ann").pop().unwrap();
    called.0.ok("zfs snapshot tank/home/ann@large");
    called.sh(&format!(
        "zfs send -i @{last} tank/home/ann@large | head -c 700000 |
            {{ ! zfs receive -s -u backup/home/ann; }}"
    ));
    let text = syncoid("tank/home/ann backup/home/ann");
    assert!(text.contains("Resuming interrupted zfs send/receive"), "{text}");
    is_there("large", &large);
    called.0.ok("zpool export backup");
    called.0.ok("zpool export tank");
    called.0.zdb_is_content("backup");
}

#[testkit::needs("zfs-auto-snapshot")]
#[test]
fn zfs_auto_snapshot_keeps_as_many_as_it_is_told() {
    let called = Called::new();
    called.0.ok("zfs snapshot -r tank@zfs-auto-snap_daily-2020-01-01-0000");
    called.0.ok("zfs set com.sun:auto-snapshot=false tank/home/bob");
    let text = called.sh("zfs-auto-snapshot --label=daily --keep=1 //");
    // Of both pools and their file systems, but for one; the old ones are gone.
    assert!(text.contains(" 0 warnings."), "{text}");
    let old = "zfs-auto-snap_daily-2020-01-01-0000";
    assert_eq!(called.snapshots("tank/home/bob"), [old]);
    let kept = called.snapshots("tank/home/ann");
    assert!(kept.len() == 1 && kept[0] != old, "{kept:?}");
    assert_eq!(called.snapshots("backup").len(), 1);
}
