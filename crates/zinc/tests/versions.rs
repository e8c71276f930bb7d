//! File systems and pools of old versions, and pools that are confined to some features.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

mod support;

use support::place::Place;

/// Written, changed and upgraded; zdb finds all of it, where it is here.
#[test]
fn file_systems_of_old_versions_are_written_and_upgraded() {
    let place = Place::new(&["a"]);
    place.ok("zpool create -O version=2 tank a");
    std::fs::write(place.path().join("file"), "content").unwrap();
    for version in 1..=5 {
        place.ok(&format!("zfs create -o version={version} tank/v{version}"));
        place.ok(&format!("cp file tank/v{version}:/"));
        place.ok(&format!("mv tank/v{version}:/file tank/v{version}:/moved"));
    }
    let message = place.fails("zfs create -o version=2 -o utf8only=on tank/x");
    assert!(message.contains("do not have the property 'utf8only'"), "{message}");
    place.fails("zfs create -o version=6 tank/x");
    assert!(place.ok("zfs upgrade").contains("\n 1   tank/v1\n 2   tank/v2\n"));
    place.zdb_is_content("tank");
    place.ok("zfs snapshot tank/v3@a");
    let message = place.fails("zfs clone -o version=2 tank/v3@a tank/clone");
    assert!(message.contains("already at version 3"), "{message}");
    place.ok("zfs clone -o version=4 tank/v3@a tank/clone");
    place.ok("zfs set version=2 tank/v1");
    let message = place.fails("zfs set version=1 tank/v1");
    assert!(message.contains("can not be downgraded"), "{message}");
    assert!(place.fails("zfs upgrade -V 4 tank/v5").contains("tank/v5: can not be downgraded"));
    assert_eq!(place.ok("zfs upgrade -V 3 tank/v1"), "1 filesystems upgraded\n");
    let all = "6 filesystems upgraded\n1 filesystems already at this version\n";
    assert_eq!(place.ok("zfs upgrade -a"), all);
    assert_eq!(place.ok("zfs get -Hr -t filesystem -o value version tank"), "5\n".repeat(7));
    place.ok("cp file tank/v1:/new");
    place.ok("mv tank/v1:/moved tank/v1:/again");
    assert!(place.ok("stat tank/v1:/again").contains("Stored as: znode"));
    assert!(place.ok("stat tank/v1:/new").contains("Stored as: system attributes"));
    assert_eq!(place.ok("cat tank/v1:/again"), "content");
    place.zdb_is_content("tank");
}

#[test]
fn a_pool_is_confined_to_the_features_of_its_files() {
    let place = Place::new(&["a", "b"]);
    let path = |name: &str| place.path().join(name).display().to_string();
    std::fs::write(path("few"), "# these\nasync_destroy, skein\nsha512\n").unwrap();
    std::fs::write(path("more"), "async_destroy skein blake3\n").unwrap();
    std::fs::write(path("odd"), "nix\n").unwrap();
    let message = place.fails(&format!("zpool create -o compatibility={} tank a", path("odd")));
    assert!(message.contains("'nix' is not a feature"), "{message}");
    place.fails("zpool create -o compatibility=not-there tank a");
    place.ok(&format!("zpool create -o compatibility={},{} tank a", path("few"), path("more")));
    let enabled = || {
        let all = place.ok("zpool get -H -o property,value all tank");
        let on = all.lines().filter(|l| l.starts_with("feature@") && !l.ends_with("disabled"));
        let names = on.filter_map(|l| l.split(['@', '\t']).nth(1)).map(str::to_owned);
        names.collect::<Vec<_>>()
    };
    // And what a feature needs.
    assert_eq!(enabled(), ["async_destroy", "extensible_dataset", "skein"]);
    let message = place.fails("zpool set feature@blake3=enabled tank");
    assert!(message.contains("not in the pool's compatibility set"), "{message}");
    let run = place.run(&format!("zpool set compatibility={} tank", path("more")));
    assert!(run.err.contains("not in this compatibility set"), "{}", run.err);
    std::fs::write(path("more"), "async_destroy extensible_dataset skein blake3\n").unwrap();
    let status = place.ok("zpool status tank");
    assert!(status.contains("requested features are not enabled"), "{status}");
    assert!(place.ok("zpool upgrade tank").contains("\n  blake3\n"));
    assert!(enabled().contains(&"blake3".to_owned()));
    assert!(!place.ok("zpool status tank").contains("status:"));
    std::fs::write(path("more"), "skein\n").unwrap();
    assert!(place.ok("zpool status tank").contains("despite not being"));
    std::fs::remove_file(path("more")).unwrap();
    assert!(place.ok("zpool status tank").contains("could not be"));
    assert!(place.fails("zpool upgrade tank").contains("compatibility set"));
    assert_eq!(place.run("zpool set compatibility=legacy tank").code, 0);
    assert!(place.ok("zpool upgrade tank").contains("already has all supported and requested"));
    place.ok("zpool create -o compatibility=legacy old b");
    assert!(place.ok("zpool get -H -o value feature@async_destroy old").contains("disabled"));
}

#[test]
fn a_pool_from_before_features_is_imported_to_be_read() {
    let case = testkit::corpus("version28");
    let place = Place::new(&[]);
    let folder = case.dir.display().to_string();
    let name = case.name().to_owned();
    let run = place.run(&format!("zpool import -d {folder} {name}"));
    assert_eq!(run.code, 0, "{}", run.err);
    assert!(run.err.contains("is of version 28, which zinc only reads"), "{}", run.err);
    assert_eq!(place.ok("zpool list -Ho name"), format!("{name}\n"));
    let refused = place.fails(&format!("zfs create {name}/x"));
    assert!(refused.contains("read-only") && refused.contains("of version 28"), "{refused}");
    assert!(!refused.contains("readonly=on"), "{refused}");
    let list = place.ok("zpool upgrade");
    assert!(list.contains("\nVER  POOL\n---  ------------\n28   v28\n"), "{list}");
    assert!(!list.contains("All pools") && !list.contains("not enabled"), "{list}");
    assert!(place.fails(&format!("zpool upgrade {name}")).contains("of version 28"));
    assert!(place.ok(&format!("zpool status {name}")).contains("legacy on-disk format"));
    place.run(&format!("zpool export {name}"));
}
