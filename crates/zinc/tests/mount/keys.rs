//! Keys that come and go with mounts.

use super::Place;
use super::following::{listed, pairs, served_with_mounts};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;

/// `zinc` with this line, which succeeds.
fn ok(place: &Place, line: &str) -> String {
    place.zinc(&line.split(' ').collect::<Vec<_>>()).ok()
}

#[testkit::needs("fuse")]
#[test]
fn keys_are_loaded_and_unloaded_with_mounts() {
    let place = served_with_mounts();
    std::fs::write(place.path("key"), "correct horse").unwrap();
    std::fs::set_permissions(place.path("key"), Permissions::from_mode(0o600)).unwrap();
    let key = format!("keylocation=file://{}", place.path("key").display());
    ok(&place, &format!("zfs create -o encryption=on -o keyformat=passphrase -o {key} tank/e"));
    ok(&place, "zfs create tank/e/c");
    let status = || ok(&place, "zfs get -Ho value keystatus tank/e");
    let all = [("tank", "mnt"), ("tank/e", "mnt/e"), ("tank/e/c", "mnt/e/c")];
    assert_eq!(listed(&place), pairs(&all));
    // Its key is that of the file system above.
    ok(&place, "zfs unmount -u tank/e/c");
    assert_eq!(status(), "available\n");
    ok(&place, "zfs mount tank/e/c");
    ok(&place, "zfs unmount -u tank/e");
    assert_eq!((status().as_str(), listed(&place)), ("unavailable\n", pairs(&all[..1])));
    let tried = ok(&place, "zfs load-key -n tank/e");
    assert_eq!(tried, "1 / 1 key(s) successfully verified\n");
    ok(&place, "zfs mount -al");
    assert_eq!((status().as_str(), listed(&place)), ("available\n", pairs(&all)));
    ok(&place, "zfs unmount -au");
    assert_eq!((status().as_str(), listed(&place)), ("unavailable\n", pairs(&[])));
    ok(&place, "zfs mount -al");
    // A clone needs the key as well: nothing is unmounted.
    ok(&place, "zfs snapshot tank/e@s");
    ok(&place, "zfs clone tank/e@s tank/clone");
    assert_ne!(place.zinc(&["zfs", "unmount", "-u", "tank/e"]).code, 0);
    ok(&place, "zfs destroy tank/clone");
    assert_eq!((status().as_str(), listed(&place)), ("available\n", pairs(&all)));
    ok(&place, "zfs destroy tank/e@s");
    ok(&place, "zfs unmount -au");
    // A pool that was not served is from then on, because keys are held by a process.
    ok(&place, "zpool export tank");
    ok(&place, "zpool import -l -d . tank");
    assert_eq!((status().as_str(), listed(&place)), ("available\n", pairs(&all)));
    ok(&place, "zpool export tank");
    ok(&place, "zpool import -lN -d . tank");
    assert_eq!((status().as_str(), listed(&place)), ("available\n", pairs(&[])));
    ok(&place, "zpool export tank");
    ok(&place, "zpool import -d . tank");
    assert_eq!((status().as_str(), listed(&place)), ("unavailable\n", pairs(&[])));
    ok(&place, "zfs mount -al");
    assert_eq!((status().as_str(), listed(&place)), ("available\n", pairs(&all)));
    // One that is wrong keeps neither the pool from being imported nor the rest from its mounts.
    ok(&place, "zpool export tank");
    std::fs::write(place.path("key"), "wrong horse").unwrap();
    let run = place.zinc(&["zpool", "import", "-l", "-d", ".", "tank"]);
    assert!(run.code == 1 && run.err.contains("Incorrect key provided"), "{}", run.err);
    assert_eq!(listed(&place), pairs(&all[..1]));
}

#[testkit::needs("fuse")]
#[test]
fn a_pool_that_is_split_off_is_served_with_its_keys() {
    let place = served_with_mounts();
    for name in ["m0", "m1"] {
        std::fs::File::create(place.path(name)).unwrap().set_len(128 << 20).unwrap();
    }
    std::fs::write(place.path("key"), "correct horse").unwrap();
    std::fs::set_permissions(place.path("key"), Permissions::from_mode(0o600)).unwrap();
    let key = format!("keylocation=file://{}", place.path("key").display());
    ok(&place, "zpool create -O mountpoint=/both both mirror m0 m1");
    ok(&place, &format!("zfs create -o encryption=on -o keyformat=passphrase -o {key} both/e"));
    let root = place.path("half").canonicalize().unwrap_or_else(|_| place.path("half"));
    assert_eq!(place.zinc(&["zpool", "split", "-l", "both", "half"]).code, 2, "it is not imported");
    ok(&place, &format!("zpool split -l -R {} both half", root.display()));
    let status = |name: &str| ok(&place, &format!("zfs get -Ho value keystatus {name}"));
    assert_eq!(
        (status("half/e").as_str(), status("both/e").as_str()),
        ("available\n", "unavailable\n")
    );
    let mounted = listed(&place);
    ok(&place, "zpool export half");
    ok(&place, "zpool destroy both");
    let inside = |name: &str, dir: &str| (name.to_owned(), dir.to_owned());
    assert!(mounted.contains(&inside("half/e", "half/both/e")), "{mounted:?}");
}
