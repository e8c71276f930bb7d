//! Raw streams: encrypted datasets as they are encrypted, with which neither side has a key.

use super::resumed::in_pieces;
use super::*;
use engine::inside::pool::UnguardedDatasets as _;
use engine::keys::{self, KeyChange, KeyOptions};

pub(super) const KEY: &[u8; 32] = b"thirty-two bytes of a raw key ..";
const WORDS: &[u8] = b"correct horse battery staple";
pub(super) const RAW: Forms =
    Forms { large_blocks: true, compressed: true, embedded: true, raw: true };

/// An encryption root.
pub(super) fn root(pool: &LivePool, new: Create, suite: &str) {
    let new = new.set("encryption", suite).unwrap().set("keyformat", "raw").unwrap();
    new.set("compression", "lz4").unwrap().with_key(pool, KEY).unwrap().run(pool).unwrap();
}

pub(super) fn change_key(pool: &LivePool, name: &str, format: &str, key: &[u8]) {
    let kind = engine::DatasetKind::Filesystem;
    let parse = |value| engine::properties::parse("keyformat", value, kind, true).unwrap();
    let wish = KeyOptions::of(&mut vec![parse(format)]);
    let (wish, wanted) = keys::required_change(pool.view(), name, &wish).unwrap();
    let root = wish.root_key(pool.rt(), &wanted, key).unwrap();
    pool.change_key(name, KeyChange::Root(root)).unwrap();
}

/// Changes a file system this many times, and its neighbour, a volume, once.
fn work(
    steps: &RandomSteps,
    (fs, volume): (&Filesystem, &engine::Volume),
    files: &mut Vec<(Vec<u8>, u64)>,
    changes: usize,
) {
    let made = (0..changes).filter_map(|_| steps.draw());
    made.for_each(|number| change(&mut Rng::new(number), fs, files));
    if let Some(mut rng) = steps.draw().map(Rng::new) {
        let data = bytes(&mut rng, 200_000);
        volume.write_at(rng.below(4 << 20), &data).unwrap();
    }
}

/// The property `keystatus`.
fn key_status(pool: &LivePool, name: &str) -> String {
    let dsl = pool.view().dsl();
    let all = dsl.properties(&dsl.by_name(name).unwrap(), &Default::default()).unwrap();
    all.into_iter().find(|property| property.name == "keystatus").unwrap().value
}

pub(super) fn snapshot(pool: &LivePool, name: &str) {
    engine::datasets::snapshot(pool, &[name], false, Vec::new()).unwrap();
}

/// Every block is what its codes say, read with these keys.
pub(super) fn check_with(pool: LivePool, path: &Path, keys: &[(&str, &[u8])]) {
    pool.export().unwrap();
    let pool = Pool::open("there", &OpenOptions::in_places([path])).unwrap();
    for (name, key) in keys {
        pool.dsl().load_key(name, key).unwrap();
    }
    let report = check::run(&pool, &CheckOptions::default(), &Progress::new());
    // What belongs to whom is counted when it is opened to be changed.
    let is_expected = |issue: &&check::Issue| matches!(issue, check::Issue::NotCounted { .. });
    let wrong: Vec<_> = report.issues.iter().filter(|issue| !is_expected(issue)).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
    assert_eq!(report.blocks_lost, 0);
}

/// What a stream has but its name, its sums, what is free, which depends on how long holes are
/// known, and spill blocks: those of an object that was made anew, for its blocks have another
/// size, came anew too.
fn body(stream: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut reader = engine::streams::Reader::new(stream);
    while let Some(record) = reader.record().unwrap() {
        use engine::streams::Body;
        let payload = reader.payload().unwrap();
        let is_out = matches!(record.body, Body::Free(_) | Body::FreeObjects(_) | Body::Spill(_));
        if is_out {
            continue;
        }
        if !matches!(record.body, Body::Begin(_) | Body::End(_)) {
            let record = engine::streams::Record { checksum: [0; 4], ..record };
            out.extend(record.encode(engine::inside::ondisk::Endian::Little));
        }
        out.extend_from_slice(payload);
    }
    out
}

/// Receives without a key what changed at random, in pieces or whole, in pools of larger sectors
/// than the sender's; then everything is read with the key.
#[test]
fn what_is_sent_raw_is_received_without_a_key() {
    testkit::scenarios([(1, "aes-256-gcm"), (2, "aes-128-ccm")], |steps, suite| {
        let (seed, mut rng) = (steps.seed(), Rng::new(steps.seed()));
        let dir = tempfile::tempdir().unwrap();
        let image = dir.path().join("there.img");
        let from = NewPool::new("here").memory(512 << 20).create().unwrap();
        let into = NewPool::new("there").file(&image, 512 << 20).unwrap();
        let into = into.with(|options| options.ashift = Some(12)).create().unwrap();
        let mut new = Create::filesystem("here/fs").unwrap().set("xattr", "sa").unwrap();
        if seed == 2 {
            new = new.set("dnodesize", "auto").unwrap().set("recordsize", "1M").unwrap();
        }
        root(&from, new, suite);
        root(&from, Create::volume("here/vol", 8 << 20).unwrap(), suite);
        let (fs, volume) = (from.filesystem("here/fs").unwrap(), from.volume("here/vol").unwrap());
        let mut files = Vec::new();
        for round in 0..4 {
            work(steps, (&fs, &volume), &mut files, 60);
            let since = (round > 0).then(|| format!("@{}", round - 1));
            for of in ["fs", "vol"] {
                let name = format!("here/{of}@{round}");
                snapshot(&from, &name);
                let stream = sent(&from, &name, since.as_deref(), RAW);
                let target = format!("there/{of}");
                if round % 2 == 1 {
                    in_pieces(&mut rng, &from, &into, &stream, &target);
                } else {
                    receive(&into, &to(&target), &stream).unwrap();
                }
                // It goes on as it came.
                let again = sent(&into, &format!("{target}@{round}"), since.as_deref(), RAW);
                assert!(body(&again) == body(&stream), "seed {seed}, {name}: not the same records");
                let plain = Forms { raw: false, ..RAW };
                let view = into.look().unwrap();
                let e = SendStream::new(&view, &format!("{target}@{round}"), None, plain).err();
                assert!(matches!(e.unwrap().kind(), ErrorKind::NoKey));
            }
            if round == 1 {
                // From now on a passphrase is asked for.
                change_key(&from, "here/fs", "passphrase", WORDS);
            }
        }
        assert!(into.load_key("there/fs", KEY).is_err());
        into.load_key("there/fs", WORDS).unwrap();
        into.load_key("there/vol", KEY).unwrap();
        for of in ["fs", "vol"] {
            for round in 0..4 {
                let (a, b) = (format!("here/{of}@{round}"), format!("there/{of}@{round}"));
                compare(&from, &a, &into, &b, &format!("seed {seed}, {a}"));
            }
        }
        // It is a dataset like any other then; but raw streams do not go on from what is its own.
        let theirs = into.filesystem("there/fs").unwrap();
        for _ in 0..20 {
            let (name, _) = files.pop().unwrap();
            theirs.unlink(theirs.root_object(), &name, NOW).unwrap();
        }
        drop(theirs);
        snapshot(&from, "here/fs@more");
        let more = sent(&from, "here/fs@more", Some("@3"), RAW);
        assert_eq!(refusal(receive(&into, &to("there/fs"), &more)), Refusal::Modified);
        receive(&into, &Receive { force: true, ..to("there/fs") }, &more).unwrap();
        compare(&from, "here/fs@more", &into, "there/fs@more", "in the end");
        // Its key is wrapped anew: open files stay open, and what wraps it now has to be loaded.
        change_key(&from, "here/fs", "raw", KEY);
        snapshot(&from, "here/fs@last");
        let last = sent(&from, "here/fs@last", Some("@more"), RAW);
        receive(&into, &Receive { force: true, ..to("there/fs") }, &last).unwrap();
        assert_eq!(key_status(&into, "there/fs"), "unavailable");
        compare(&from, "here/fs@last", &into, "there/fs@last", "wrapped anew");
        into.load_key("there/fs", KEY).unwrap();
        assert_eq!(key_status(&into, "there/fs"), "available");
        check_with(into, &image, &[("there/fs", KEY), ("there/vol", KEY)]);
    });
}

/// Bytes by user are those of all files, whichever way they were written.
fn check_bytes_by_user(pool: &LivePool, name: &str) {
    let fs = pool.view().filesystem(name).unwrap();
    let mut counted = std::collections::BTreeMap::<u64, u64>::new();
    for object in fs.objset().objects().map(Result::unwrap) {
        let Ok(node) = engine::Node::from_object(&fs, object.clone()) else { continue };
        *counted.entry(node.uid).or_default() += object.dnode().used_bytes() + 512;
    }
    assert!(counted.len() > 1, "{name}: {counted:?}");
    let rows = fs.space(engine::files::SpaceKind::User).unwrap();
    let found = rows.into_iter().filter_map(|row| Some((row.id, row.used?))).collect();
    assert_eq!(counted, found, "{name}");
}

/// The tables of a file system that came raw have nothing of what came until all is counted anew.
#[test]
fn space_by_user_has_what_came_raw() {
    let from = NewPool::new("here").memory(128 << 20).create().unwrap();
    let into = NewPool::new("there").memory(128 << 20).create().unwrap();
    root(&from, Create::filesystem("here/fs").unwrap(), "on");
    let [full, more] = two_streams(&from, "here/fs", &mut Rng::new(7), 30, RAW);
    receive(&into, &to("there/fs"), &full).unwrap();
    into.load_key("there/fs", KEY).unwrap();
    check_bytes_by_user(&into, "there/fs");
    let theirs = into.filesystem("there/fs").unwrap();
    change(&mut Rng::new(8), &theirs, &mut Vec::new());
    drop(theirs);
    snapshot(&into, "there/fs@own");
    check_bytes_by_user(&into, "there/fs");
    receive(&into, &Receive { force: true, ..to("there/fs") }, &more).unwrap();
    check_bytes_by_user(&into, "there/fs");
}

#[test]
fn raw_streams_go_on_from_raw_streams_only() {
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("there.img");
    let from = NewPool::new("here").memory(128 << 20).create().unwrap();
    let into = NewPool::new("there").file(&image, 128 << 20).unwrap().create().unwrap();
    root(&from, Create::filesystem("here/fs").unwrap(), "on");
    let [full, more] = two_streams(&from, "here/fs", &mut Rng::new(5), 20, RAW);
    let force = |target: &str| Receive { force: true, ..to(target) };
    // Onto what is not encrypted.
    let plain = Forms::default();
    receive(&into, &to("there/plain"), &sent(&from, "here/fs@0", None, plain)).unwrap();
    assert_eq!(refusal(receive(&into, &force("there/plain"), &more)), Refusal::RawOnPlain);
    Create::filesystem("there/empty").unwrap().run(&into).unwrap();
    assert_eq!(refusal(receive(&into, &force("there/empty"), &full)), Refusal::RawReplaces);
    // Onto what was encrypted here.
    root(&into, Create::filesystem("there/own").unwrap(), "on");
    receive(&into, &to("there/own/fs"), &sent(&from, "here/fs@0", None, plain)).unwrap();
    assert_eq!(refusal(receive(&into, &to("there/own/fs"), &more)), Refusal::OtherIvset);
    // Onto the same key and other IVs.
    receive(&into, &to("there/fs"), &full).unwrap();
    into.load_key("there/fs", KEY).unwrap();
    let plain_more = sent(&from, "here/fs@1", Some("@0"), plain);
    receive(&into, &to("there/fs"), &plain_more).unwrap();
    snapshot(&from, "here/fs@2");
    let third = sent(&from, "here/fs@2", Some("@1"), RAW);
    assert_eq!(refusal(receive(&into, &to("there/fs"), &third)), Refusal::OtherIvset);
    // Without the key, nothing but a raw stream goes on.
    receive(&into, &to("there/locked"), &full).unwrap();
    let e = receive(&into, &to("there/locked"), &plain_more).unwrap_err();
    assert!(matches!(e.error.kind(), ErrorKind::NoKey), "{:?}", e.error);
    receive(&into, &to("there/locked"), &more).unwrap();
    // How it is encrypted is not for the receiver to say.
    let set = vec![("encryption".to_owned(), "off".to_owned())];
    let how = Receive { set, ..to("there/set") };
    assert_eq!(refusal(receive(&into, &how, &full)), Refusal::OfRawStream("encryption".to_owned()));
    into.load_key("there/locked", KEY).unwrap();
    compare(&from, "here/fs@1", &into, "there/locked@1", "in the end");
    let keys = ["there/own", "there/fs", "there/locked"].map(|name| (name, &KEY[..]));
    check_with(into, &image, &keys);
}

#[test]
fn forged_raw_records_change_nothing_that_was_there() {
    let seed = std::env::var("ZINC_SEED").map_or(4, |seed| seed.parse().unwrap());
    testkit::scenario(seed, |steps| {
        let dir = tempfile::tempdir().unwrap();
        let image = dir.path().join("there.img");
        let from = NewPool::new("here").memory(128 << 20).create().unwrap();
        let into = NewPool::new("there").file(&image, 512 << 20).unwrap().create().unwrap();
        root(&from, Create::filesystem("here/fs").unwrap(), "on");
        let streams = two_streams(&from, "here/fs", &mut Rng::new(steps.seed()), 15, RAW);
        receive(&into, &to("there/fs"), &streams[0]).unwrap();
        let (mut taken, mut refused) = (0, 0);
        for (round, number) in (0..80).filter_map(|n| Some((n, steps.draw()?))) {
            let (stream, target) = match round % 2 {
                0 => (&streams[0], format!("there/new{round}")),
                _ => (&streams[1], "there/fs".to_owned()),
            };
            let stream = forged(&mut Rng::new(number), stream);
            match receive(&into, &Receive { force: true, ..to(&target) }, &stream) {
                Ok(_) => {
                    taken += 1;
                    if round % 2 == 0 {
                        into.destroy_snapshots(&[format!("{target}@0")], false).unwrap();
                        into.destroy_dataset(&target).unwrap();
                    } else {
                        into.destroy_snapshots(&[format!("{target}@1")], false).unwrap();
                    }
                }
                Err(e) => {
                    refused += 1;
                    let is_known =
                        matches!(e.error.kind(), ErrorKind::BadStream(_) | ErrorKind::Refused(_));
                    assert!(is_known, "round {round}: {:?}", e.error);
                }
            }
            assert!(into.suspended().is_none(), "round {round}");
        }
        assert!(taken > 5 && refused > 5, "{taken} {refused}");
        into.load_key("there/fs", KEY).unwrap();
        compare(&from, "here/fs@0", &into, "there/fs@0", "in the end");
        check_with(into, &image, &[("there/fs", KEY)]);
    });
}

/// What the machine does, without a key: it receives what was sent raw, sends on what was received
/// raw here, and goes on from it. Then it loads the keys, reads all, and scrubs.
const JUDGES_RAW: &str = "set -e\n\
    mkdir /vd\n\
    for n in 0 1; do dd if=/dev/img$n of=/vd/img$n bs=1M conv=sparse status=none; done\n\
    zpool import -d /vd -N -f -o cachefile=none here\n\
    zpool import -d /vd -N -f -o cachefile=none there\n\
    zpool create -o cachefile=none theirs /dev/img2\n\
    for of in fs vol; do\n\
        for round in 0 1 2 3; do\n\
            zfs receive -u theirs/$of < /job/$of.$round.stream\n\
        done\n\
        zfs send -w there/$of@2 | sha256sum >> /out/sums\n\
        zfs receive -u there/$of < /job/$of.3.stream\n\
        zfs send -w theirs/$of@1 > /out/$of.0.stream\n\
        zfs send -w -i @1 theirs/$of@3 > /out/$of.1.stream\n\
    done\n\
    for pool in here there theirs; do\n\
        for of in fs vol; do zfs load-key -L file:///job/key $pool/$of; done\n\
        python3 /judge/zmanifest.py $pool -o /out/$pool.json\n\
    done\n\
    for pool in there theirs; do\n\
        zpool scrub -w $pool\n\
        zpool status $pool | tee /out/status\n\
        grep -q 'No known data errors' /out/status\n\
    done\n\
    zpool export there\n\
    dd if=/vd/img1 of=/dev/img1 bs=1M conv=fsync status=none\n";

#[test]
#[ignore = "long form: minutes, and needs the kernel judge: scripts/judge"]
fn the_kernel_takes_and_sends_raw_streams() {
    use sha2::Digest as _;
    let judge = testkit::KernelJudge::find();
    let dir = tempfile::tempdir().unwrap();
    let (job, out) = (dir.path().join("job"), dir.path().join("out"));
    std::fs::create_dir_all(&job).unwrap();
    std::fs::write(job.join("key"), KEY).unwrap();
    let images = ["here", "there", "theirs"].map(|name| dir.path().join(format!("{name}.img")));
    std::fs::File::create(&images[2]).unwrap().set_len(256 << 20).unwrap();
    let from = NewPool::new("here").file(&images[0], 256 << 20).unwrap().create().unwrap();
    let into = NewPool::new("there").file(&images[1], 256 << 20).unwrap().create().unwrap();
    // Not made shorter: the kernel takes minutes for each.
    let seed = std::env::var("ZINC_SEED").map_or(1, |seed| seed.parse().unwrap());
    let steps = RandomSteps::new(seed);
    let new = Create::filesystem("here/fs").unwrap().set("xattr", "sa").unwrap();
    root(&from, new.set("dnodesize", "auto").unwrap(), "aes-256-gcm");
    root(&from, Create::volume("here/vol", 8 << 20).unwrap(), "aes-192-ccm");
    let (fs, volume) = (from.filesystem("here/fs").unwrap(), from.volume("here/vol").unwrap());
    let mut files = Vec::new();
    for round in 0..4 {
        work(&steps, (&fs, &volume), &mut files, 30);
        let since = (round > 0).then(|| format!("@{}", round - 1));
        for of in ["fs", "vol"] {
            let name = format!("here/{of}@{round}");
            snapshot(&from, &name);
            let stream = sent(&from, &name, since.as_deref(), RAW);
            std::fs::write(job.join(format!("{of}.{round}.stream")), &stream).unwrap();
            if round < 3 {
                receive(&into, &to(&format!("there/{of}")), &stream).unwrap();
            }
        }
    }
    let sums = ["fs", "vol"].map(|of| -> String {
        let stream = sent(&into, &format!("there/{of}@2"), None, RAW);
        sha2::Sha256::digest(&stream).iter().map(|byte| format!("{byte:02x}")).collect()
    });
    drop((fs, volume));
    from.export().unwrap();
    into.export().unwrap();
    assert!(judge.run(JUDGES_RAW, &job, &out, &images), "the kernel does not take them");
    let theirs = std::fs::read_to_string(out.join("sums")).unwrap();
    let theirs: Vec<&str> = theirs.lines().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(theirs, sums, "the kernel sends something else");
    for (of, pool) in ["fs", "vol"].iter().flat_map(|of| ["there", "theirs"].map(|p| (of, p))) {
        let names = [format!("here/{of}"), format!("{pool}/{of}")];
        let described = ["here", pool].map(|name| out.join(format!("{name}.json")));
        let output = judge.diff(names, described).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{of} in {pool}: {text}");
    }
    // What it sent is received here; and what it went on from is whole.
    let open = |name: &str, image: &Path| {
        let options = engine::live::ImportOptions::new(OpenOptions::in_places([image]));
        let options = engine::live::ImportOptions { force: true, ..options };
        LivePool::open(name, &options).unwrap()
    };
    let (from, into) = (open("here", &images[0]), open("there", &images[1]));
    for of in ["fs", "vol"] {
        for round in 0..2 {
            let stream = std::fs::read(out.join(format!("{of}.{round}.stream"))).unwrap();
            receive(&into, &to(&format!("there/{of}-back")), &stream).unwrap();
        }
    }
    let names = ["fs", "vol", "fs-back", "vol-back"].map(|of| format!("there/{of}"));
    for name in &names {
        into.load_key(name, KEY).unwrap();
    }
    for of in ["fs", "vol"] {
        from.load_key(&format!("here/{of}"), KEY).unwrap();
        let name = format!("here/{of}@3");
        compare(&from, &name, &into, &format!("there/{of}@3"), "the kernel went on");
        compare(&from, &name, &into, &format!("there/{of}-back@3"), "the kernel sent it");
    }
    let keys: Vec<(&str, &[u8])> = names.iter().map(|name| (name.as_str(), &KEY[..])).collect();
    check_with(into, &images[1], &keys);
}
