//! Encrypted datasets: made, changed, copied and judged by OpenZFS's zdb, with every suite and
//! every format of keys.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, unreachable_pub)]

mod writing;

use engine::inside::pool::UnguardedDatasets as _;
use engine::inside::zpl::write::{NewFile, NewKind, XattrMode};
use engine::keys::{self, KeyChange, KeyOptions};
use engine::{Create, ErrorKind, Filesystem, LivePool, Refusal, Rule, datasets};
use poolkit::Shape;
use std::collections::BTreeMap;
use writing::Pools;

const SUITES: [&str; 6] =
    ["aes-128-ccm", "aes-192-ccm", "aes-256-ccm", "aes-128-gcm", "aes-192-gcm", "aes-256-gcm"];
const RAW: &[u8; 32] = b"thirty-two bytes of a raw key ..";
const HEX: &[u8; 64] = b"00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
const WORDS: &[u8] = b"correct horse battery staple";

/// A key of each format, with its name.
const KEYS: [(&str, &[u8]); 3] = [("raw", RAW), ("hex", HEX), ("passphrase", WORDS)];

fn wish(name: &str, settings: &[(&str, &str)]) -> Create {
    let new = Create::filesystem(name).unwrap();
    settings.iter().fold(new, |new, (property, value)| new.set(property, value).unwrap())
}

/// An encryption root.
fn root(pool: &LivePool, name: &str, suite: &str, (format, key): (&str, &[u8])) {
    let new = wish(name, &[("encryption", suite), ("keyformat", format)]);
    let new = match format {
        "passphrase" => new.set("pbkdf2iters", "100000").unwrap(),
        _ => new,
    };
    new.with_key(pool, key).unwrap().run(pool).unwrap();
}

/// Files of all sizes, with attributes that need a spill block, holes and links.
fn fill(fs: &Filesystem, seed: u64) {
    writing::fill(fs, seed, 12);
    add(fs, seed);
}

/// Little of all of that.
fn touch(fs: &Filesystem, seed: u64) {
    let now = writing::fs_time(seed);
    let new = NewFile::new(NewKind::File, 0o600, now);
    let file = fs.create(fs.root_object(), format!("small{seed}").as_bytes(), &new).unwrap();
    fs.write_at(file.number(), 0, &writing::bytes(seed, 3000), now).unwrap();
    let value = writing::bytes(seed, 1500);
    fs.set_xattr(file.number(), b"user.spilled", &value, XattrMode::Create, now).unwrap();
}

fn add(fs: &Filesystem, seed: u64) {
    let now = writing::fs_time(seed);
    let new = NewFile::new(NewKind::File, 0o644, now);
    let file = fs.create(fs.root_object(), format!("large{seed}").as_bytes(), &new).unwrap();
    fs.write_at(file.number(), 3 << 20, &writing::bytes(seed, 700_000), now).unwrap();
    fs.write_at(file.number(), 0, &vec![7; 300_000], now).unwrap();
    let value = writing::bytes(seed, 3000);
    fs.set_xattr(file.number(), b"user.spilled", &value, XattrMode::Create, now).unwrap();
}

fn contents(pool: &LivePool, name: &str) -> BTreeMap<String, Vec<u8>> {
    writing::contents(&pool.filesystem(name).unwrap())
}

#[test]
fn every_suite_and_format_is_one_to_openzfs() {
    let pools = Pools::new("suites");
    let pool = pools.create("tank", Shape::Mirror);
    let mut held = BTreeMap::new();
    for (i, suite) in SUITES.iter().enumerate() {
        let name = format!("tank/{suite}");
        root(&pool, &name, suite, KEYS[i % 3]);
        fill(&pool.filesystem(&name).unwrap(), i as u64);
        // Another suite below, with the key of the one above.
        let below = format!("{name}/below");
        wish(&below, &[("encryption", SUITES[(i + 1) % 6])]).run(&pool).unwrap();
        fill(&pool.filesystem(&below).unwrap(), 100 + i as u64);
        for name in [name, below] {
            pool.sync().unwrap();
            held.insert(name.clone(), contents(&pool, &name));
        }
    }
    pool.export().unwrap();
    pools.judge("tank");

    let pool = pools.import("tank");
    for (i, suite) in SUITES.iter().enumerate() {
        let name = format!("tank/{suite}");
        let error = pool.filesystem(&name).map(drop).unwrap_err();
        assert_eq!(engine::Error::from(error).kind(), &ErrorKind::NoKey);
        let wrong = keys::load(&pool, &name, KEYS[(i + 1) % 3].1).unwrap_err();
        assert!(matches!(wrong.kind(), ErrorKind::BadKey | ErrorKind::WrongKey));
        keys::load(&pool, &name, KEYS[i % 3].1).unwrap();
        let again = keys::load(&pool, &name, KEYS[i % 3].1).unwrap_err();
        assert_eq!(again.kind(), &ErrorKind::Against(Rule::KeyLoaded));
        for name in [name.clone(), format!("{name}/below")] {
            assert_eq!(contents(&pool, &name), held[&name], "{name}");
            fill(&pool.filesystem(&name).unwrap(), 50 + i as u64);
        }
    }
    pool.export().unwrap();
    let names: Vec<String> = SUITES.iter().map(|suite| format!("tank/{suite}")).collect();
    let keys: Vec<_> = names.iter().zip(0..).map(|(n, i)| (n.as_str(), KEYS[i % 3].1)).collect();
    pools.judge_unlocked("tank", &keys);
}

#[test]
fn nothing_of_the_files_is_on_the_devices() {
    let pools = Pools::new("secret");
    let pool = pools.create("tank", Shape::Disk);
    root(&pool, "tank/enc", "on", KEYS[0]);
    let secret: Vec<u8> = b"kept from all others! ".repeat(40);
    let now = writing::fs_time(1);
    let fs = pool.filesystem("tank/enc").unwrap();
    let new = NewFile::new(NewKind::File, 0o644, now);
    let names = ["a-name-that-is-secret-0", "a-name-that-is-secret-1"];
    for (i, name) in names.iter().enumerate() {
        let file = fs.create(fs.root_object(), name.as_bytes(), &new).unwrap();
        fs.write_at(file.number(), 0, &secret, now).unwrap();
        fs.set_xattr(file.number(), b"user.x", &secret[..60], XattrMode::Create, now).unwrap();
        // One of them through the log.
        if i == 0 {
            fs.sync_all().unwrap();
        }
    }
    fs.sync_all().unwrap();
    drop(fs);
    pool.export().unwrap();
    let image = std::fs::read(pools.dir().join("vdev0.img")).unwrap();
    for needle in [&b"kept from all"[..], b"that-is-secret", &RAW[..]] {
        let found = image.windows(needle.len()).position(|w| w == needle);
        assert_eq!(found, None, "{}", String::from_utf8_lossy(needle));
    }
    pools.judge("tank");
}

#[test]
fn snapshots_clones_and_their_key() {
    let pools = Pools::new("clones");
    let pool = pools.create("tank", Shape::Disk);
    root(&pool, "tank/enc", "aes-256-gcm", KEYS[2]);
    fill(&pool.filesystem("tank/enc").unwrap(), 1);
    Create::volume("tank/enc/vol", 4 << 20).unwrap().run(&pool).unwrap();
    pool.volume("tank/enc/vol").unwrap().write_at(4096, &writing::bytes(3, 100_000)).unwrap();
    datasets::snapshot(&pool, &["tank/enc@one"], true, Vec::new()).unwrap();
    pool.bookmark("tank/enc#one", "tank/enc@one").unwrap();
    let before = contents(&pool, "tank/enc");
    fill(&pool.filesystem("tank/enc").unwrap(), 2);
    pool.clone_snapshot("tank/enc@one", "tank/clone", Vec::new()).unwrap();
    assert_eq!(contents(&pool, "tank/clone"), before);
    fill(&pool.filesystem("tank/clone").unwrap(), 3);
    // It stays below its root, and so does the volume; the root goes where it likes.
    let outside = pool.rename("tank/enc/vol", "tank/vol").unwrap_err();
    assert_eq!(engine::Error::from(outside).kind(), &ErrorKind::Refused(Refusal::LeavesRoot));
    pool.rename("tank/enc", "tank/moved").unwrap();
    pool.promote("tank/clone").unwrap();
    // The clone is the encryption root now, of all.
    assert_eq!(keys::root_of(pool.view(), "tank/moved").unwrap().name, "tank/clone");
    assert_eq!(keys::root_of(pool.view(), "tank/moved/vol").unwrap().name, "tank/clone");
    let (moved, clone) = (contents(&pool, "tank/moved"), contents(&pool, "tank/clone"));
    pool.export().unwrap();
    pools.judge("tank");

    pools.judge_unlocked("tank", &[("tank/clone", WORDS)]);

    let pool = pools.import("tank");
    // Without the key: what needs none.
    pool.snapshot(&["tank/moved@locked".to_owned()], Vec::new()).unwrap();
    pool.rollback("tank/moved@locked", false).unwrap();
    pool.clone_snapshot("tank/moved@locked", "tank/second", Vec::new()).unwrap();
    pool.destroy_dataset("tank/second").unwrap();
    keys::load(&pool, "tank/clone", WORDS).unwrap();
    assert_eq!(contents(&pool, "tank/moved"), moved);
    assert_eq!(contents(&pool, "tank/clone"), clone);
    pool.destroy_snapshots(&["tank/moved@locked".to_owned()], false).unwrap();
    keys::unload(&pool, "tank/clone").unwrap();
    // What is destroyed need not be readable.
    pool.destroy_snapshots(&["tank/moved/vol@one".to_owned()], false).unwrap();
    pool.destroy_dataset("tank/moved/vol").unwrap();
    pool.destroy_dataset("tank/moved").unwrap();
    pool.export().unwrap();
    pools.judge("tank");
    let pool = pools.import("tank");
    keys::load(&pool, "tank/clone", WORDS).unwrap();
    assert_eq!(contents(&pool, "tank/clone"), clone);
    keys::unload(&pool, "tank/clone").unwrap();
    pool.destroy_snapshots(&["tank/clone@one".to_owned()], false).unwrap();
    pool.destroy_dataset("tank/clone").unwrap();
    pool.sync().unwrap();
    pool.sync().unwrap();
    // Neither a key nor a use of the feature is left.
    assert_eq!(pool.look().unwrap().features().count("com.datto:encryption"), Some(0));
    pool.export().unwrap();
    pools.judge("tank");
}

#[test]
fn the_key_of_a_dataset_changes_and_its_blocks_do_not() {
    let pools = Pools::new("change");
    let pool = pools.create("tank", Shape::Disk);
    root(&pool, "tank/enc", "aes-192-ccm", KEYS[0]);
    wish("tank/enc/a", &[]).run(&pool).unwrap();
    wish("tank/enc/a/b", &[]).run(&pool).unwrap();
    fill(&pool.filesystem("tank/enc/a/b").unwrap(), 1);
    let held = contents(&pool, "tank/enc/a/b");
    let change = |name: &str, format: &str, key: &[u8]| {
        let parse = |(name, value)| {
            let kind = engine::DatasetKind::Filesystem;
            engine::properties::parse(name, value, kind, true).unwrap()
        };
        let mut settings = vec![parse(("keyformat", format))];
        let wish = KeyOptions::of(&mut settings);
        let (wish, wanted) = keys::required_change(pool.view(), name, &wish).unwrap();
        pool.change_key(name, KeyChange::Root(wish.root_key(pool.rt(), &wanted, key).unwrap()))
    };
    change("tank/enc/a", "passphrase", WORDS).unwrap();
    let root_of = |name: &str| keys::root_of(pool.view(), name).unwrap().name;
    assert_eq!(root_of("tank/enc/a/b"), "tank/enc/a");
    change("tank/enc", "hex", HEX).unwrap();
    assert_eq!(
        (root_of("tank/enc"), root_of("tank/enc/a")),
        ("tank/enc".into(), "tank/enc/a".into())
    );
    let no = pool.change_key("tank/enc/a/b", KeyChange::Inherit).unwrap_err();
    assert_eq!(engine::Error::from(no).kind(), &ErrorKind::Refused(Refusal::NotAnEncryptionRoot));
    pool.export().unwrap();
    pools.judge("tank");

    let pool = pools.import("tank");
    assert_eq!(keys::load(&pool, "tank/enc", RAW).unwrap_err().kind(), &ErrorKind::BadKey);
    let other = [b'0'; 64];
    assert_eq!(keys::load(&pool, "tank/enc", &other).unwrap_err().kind(), &ErrorKind::WrongKey);
    keys::load(&pool, "tank/enc", HEX).unwrap();
    keys::load(&pool, "tank/enc/a", WORDS).unwrap();
    assert_eq!(contents(&pool, "tank/enc/a/b"), held);
    pool.change_key("tank/enc/a", KeyChange::Inherit).unwrap();
    assert_eq!(keys::root_of(pool.view(), "tank/enc/a/b").unwrap().name, "tank/enc");
    pool.export().unwrap();
    let pool = pools.import("tank");
    keys::load(&pool, "tank/enc", HEX).unwrap();
    assert_eq!(contents(&pool, "tank/enc/a/b"), held);
    pool.export().unwrap();
    pools.judge("tank");
}

#[test]
fn what_cannot_be_encrypted_like_that_is_refused() {
    let pools = Pools::new("rules");
    let pool = pools.create("tank", Shape::Disk);
    root(&pool, "tank/enc", "on", KEYS[0]);
    let refused = |settings: &[(&str, &str)], name: &str| {
        let new = wish(name, settings);
        let error = new.required_key(pool.view()).map(drop).and_then(|()| new.run(&pool));
        error.unwrap_err().kind().clone()
    };
    let rule = ErrorKind::Against;
    assert_eq!(refused(&[("keyformat", "raw")], "tank/a"), rule(Rule::KeyWithoutEncryption));
    assert_eq!(refused(&[("encryption", "on")], "tank/a"), rule(Rule::NoKeyFormat));
    let off = [("encryption", "off"), ("keyformat", "raw")];
    assert_eq!(refused(&off, "tank/enc/a"), rule(Rule::KeyWithoutEncryption));
    assert_eq!(refused(&[("keylocation", "prompt")], "tank/enc/a"), rule(Rule::NoKeyFormat));
    let few = [("encryption", "on"), ("keyformat", "passphrase"), ("pbkdf2iters", "1000")];
    assert_eq!(refused(&few, "tank/a"), rule(Rule::FewRounds));
    let needs_key = [("encryption", "on"), ("keyformat", "raw")];
    assert_eq!(refused(&needs_key, "tank/a"), ErrorKind::NoKey);
    // Since OpenZFS 0.8.3 a dataset below an encrypted one need not be encrypted.
    wish("tank/enc/plain", &[("encryption", "off")]).run(&pool).unwrap();
    assert!(!keys::is_encrypted(pool.view(), "tank/enc/plain"));
    keys::unload(&pool, "tank/enc").unwrap();
    let locked = wish("tank/enc/a", &[]).run(&pool).unwrap_err();
    assert_eq!(locked.kind(), &ErrorKind::NoKey);
    pool.export().unwrap();
    pools.judge("tank");
}

#[test]
fn pools_that_openzfs_encrypted_are_changed() {
    let corpus = testkit::corpus("crypt");
    let dir = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(&corpus.dir).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, dir.path().join(path.file_name().unwrap())).unwrap();
    }
    let pools = Pools::at(dir.path());
    let pool = pools.import(corpus.name());
    let mut held = BTreeMap::new();
    let all = corpus.keys();
    let load = |pool: &LivePool| {
        for (dataset, given) in &all {
            pool.load_key(dataset, given).unwrap();
        }
    };
    load(&pool);
    let names: Vec<String> = pool.view().dsl().walk().into_iter().map(|(name, _)| name).collect();
    for (seed, name) in names.iter().enumerate().filter(|(_, n)| keys::is_encrypted(pool.view(), n))
    {
        let Ok(fs) = pool.filesystem(name) else { continue };
        touch(&fs, 1000 + seed as u64);
        drop(fs);
        pool.sync().unwrap();
        held.insert(name.clone(), contents(&pool, name));
        pool.snapshot(&[format!("{name}@changed")], Vec::new()).unwrap();
    }
    assert!(held.len() > 5, "{}", held.len());
    pool.export().unwrap();
    pools.judge(corpus.name());
    let pool = pools.import(corpus.name());
    load(&pool);
    for (name, content) in &held {
        assert_eq!(&contents(&pool, name), content, "{name}");
    }
    pool.export().unwrap();
    pools.judge(corpus.name());
}
