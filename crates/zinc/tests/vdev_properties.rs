//! `zpool set` and `get` of vdevs, and what zdb says of pools by cache files and numbers.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

mod support;

use support::has;
use support::place::Place;

fn get(place: &Place, property: &str, vdev: &str) -> String {
    place.ok(&format!("zpool get -H -o value,source {property} tank {vdev}")).trim().to_owned()
}

#[test]
fn vdevs_have_properties_of_their_own() {
    let place = Place::new(&["a", "b", "c"]);
    place.ok("zpool create tank mirror a b");
    for vdev in ["root", "mirror-0", "a"] {
        assert_eq!(get(&place, "comment", vdev), "-\tdefault");
        place.ok(&format!("zpool set comment=of-{vdev} tank {vdev}"));
        place.ok(&format!("zpool set org:shelf={vdev} tank {vdev}"));
    }
    for vdev in ["root", "mirror-0", "a"] {
        assert_eq!(get(&place, "comment", vdev), format!("of-{vdev}\tlocal"));
        assert_eq!(get(&place, "org:shelf", vdev), format!("{vdev}\tlocal"));
    }
    assert_eq!(get(&place, "org:shelf", "b"), "-\tdefault");
    assert_eq!(place.ok("zpool get -H -o value comment tank"), "-\n");
    has(&place.ok("zpool get all tank a"), &["org:shelf", "of-a"]);
    place.ok("zpool set org:shelf= tank a");
    place.ok("zpool set comment= tank a");
    assert_eq!(get(&place, "org:shelf", "a"), "-\tdefault");
    assert_eq!(get(&place, "comment", "a"), "-\tdefault");
    // Kept for other systems, and said to be.
    let kept = "'failfast=off' is kept for other systems";
    has(&place.run("zpool set failfast=off tank a").err, &[kept]);
    assert_eq!(place.run("zpool set io_n=5 tank a").err, "");
    assert_eq!(get(&place, "io_n", "a"), "5\tlocal");
    place.ok("zpool set io_n=none tank a");
    assert_eq!(get(&place, "io_n", "a"), "-\tdefault");
    let doing = "cannot set property for 'tank'";
    for (words, why) in [
        ("guid=1 tank a", "property 'guid' is readonly"),
        ("nix=1 tank a", "property 'nix' is not a valid pool or vdev property"),
        ("failfast=maybe tank a", "bad property value 'maybe'"),
        ("allocating=off tank a", "cannot be set by zinc yet"),
        ("comment=x tank nix", "no such vdev 'nix' in pool 'tank'"),
    ] {
        has(&place.fails(&format!("zpool set {words}")), &[doing, why]);
    }
    place.ok("zpool export tank");
    place.zdb_is_content("tank");
    place.ok("zpool import -d . tank");
    assert_eq!(get(&place, "comment", "root"), "of-root\tlocal");
}

/// And not the property that vdevs have, in a pool that is served and in one that is not.
#[test]
fn a_name_that_is_no_vdev_is_named() {
    let place = Place::new(&["a", "b"]);
    place.ok("zpool create tank mirror a b");
    let get = |words: &str| {
        let output = place.command_here(&format!("zpool get -H -o name io_n {words}")).output();
        let output = output.unwrap();
        let [out, err] =
            [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        (output.status.code().unwrap(), out, err)
    };
    for is_served in [false, true] {
        let server = is_served.then(|| place.serve("tank"));
        let (code, out, err) = get("tank a nix");
        has(
            &err,
            &["expected a list of vdevs in 'tank', but got: a (vdev in this pool), nix (unk"],
        );
        assert_eq!((code, out.as_str()), (2, ""));
        assert_eq!(get("tank a mirror-0").1, "a\nmirror-0\n");
        has(&get("tank tank").2, &["invalid property 'io_n'"]);
        if let Some(mut server) = server {
            server.kill().unwrap();
            server.wait().unwrap();
        }
    }
}

#[test]
fn zdb_takes_numbers_and_cache_files() {
    let place = Place::new(&["a"]);
    place.ok("zpool create tank a");
    place.ok("zfs create -o compression=zstd-7 tank/fs");
    let mut rng = testkit::Rng::new(3);
    let digits: String = (0..10_000).map(|_| rng.next_u64().to_string()).collect();
    std::fs::write(place.path().join("text"), digits).unwrap();
    place.ok("cp text tank/fs:/text");
    place.ok("zfs snapshot tank/fs@s");
    has(&place.ok("zdb"), &["tank:", "pool_guid: ", "vdev_tree:"]);
    for wrong in ["-d", "-p .", "-l", "-R"] {
        has(&place.fails(&format!("zdb {wrong}")), &["name a pool"]);
    }
    let number = place.ok("zfs get -H -o value objsetid tank/fs");
    let number: u64 = number.trim().parse().unwrap();
    for name in [format!("tank/{number}"), format!("tank/{number:#x}")] {
        has(&place.ok(&format!("zdb -N {name}")), &["Dataset tank/fs [ZPL]"]);
        has(&place.ok(&format!("zdb -d {name}")), &["Dataset tank/fs [ZPL]"]);
    }
    place.ok("zfs create tank/77777");
    has(&place.ok("zdb -d tank/77777"), &["Dataset tank/77777"]);
    for wrong in ["-N tank/77777", "-N tank/fs", "-B tank/fs", "-B tank/1 x"] {
        place.fails(&format!("zdb {wrong}"));
    }
    let blocks = place.ok("zdb -Zddddddbbbbbb tank/fs 2:9");
    has(&blocks, &[" ZSTD:size=", ":version=", ":level=7:NORMAL"]);
    // As bytes a block is what is in it, and nothing else.
    let line = blocks.lines().find(|line| line.contains(":NORMAL")).unwrap();
    let (_, dva) = line.split_once("DVA[0]=<").unwrap();
    let (dva, rest) = dva.split_once('>').unwrap();
    let (_, size) = rest.split_once(" size=").unwrap();
    let (place_of, size) = (dva.rsplit_once(':').unwrap().0, size.split(' ').next().unwrap());
    let lsize = u64::from_str_radix(size.split('L').next().unwrap(), 16).unwrap();
    let raw = place.command_here(&format!("zdb -R tank {place_of}:{size}:dr")).output().unwrap();
    assert_eq!(raw.stdout.len() as u64, lsize, "{line}");
    has(&place.ok("zdb -M tank"), &["vdev ", "metaslabs", "pool\t\tfragmentation "]);
    // A stream, the same that is sent.
    let number = place.ok("zfs get -H -o value objsetid tank/fs@s");
    let stream = |command: &str| {
        let words: Vec<&str> = command.split(' ').collect();
        let out = place.command_here(&words.join(" ")).output().unwrap();
        assert!(out.status.success(), "{command}");
        out.stdout
    };
    let sent = stream("zfs send -ecL tank/fs@s");
    assert!(sent.len() > 1000);
    assert!(stream(&format!("zdb -B tank/{} ecL", number.trim())) == sent);
    // A cache file that is named has its pools, and no other has them.
    place.ok("zpool export tank");
    let cache = place.path().join("cache").display().to_string();
    place.ok(&format!("zpool import -d . -o cachefile={cache} tank"));
    has(&place.ok(&format!("zdb -U {cache}")), &["tank:", "vdev_tree:"]);
    has(&place.ok(&format!("zdb -U {cache} -C tank")), &["MOS Configuration:"]);
    has(&place.fails(&format!("zdb -U {cache} -C nix")), &["no such pool"]);
    has(&place.fails("zdb -U nix -C tank"), &["cannot read cache file"]);
    // A device is none, though it begins as one may.
    has(&place.fails("zdb -U a"), &["cannot read cache file", "not a list of pools"]);
}

#[test]
fn statistics_of_one_device_are_had_by_the_last_part_of_its_path() {
    let place = Place::new(&["a", "b"]);
    place.ok("zpool create tank mirror a b");
    let table = place.ok("zpool iostat -H tank a");
    assert!(table.contains("/a\t") && !table.contains("/b\t"), "{table}");
    has(&place.fails("zpool iostat tank nix"), &["no pool or vdev has the name 'nix'"]);
}
