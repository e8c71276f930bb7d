//! Send streams of random file systems, full and incremental, in every form: what a receiver makes
//! of them, record by record, is the snapshot.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs, reason = "a test")]

use engine::files::{NewFile, NewKind, Time, XattrMode};
use engine::inside::codec::compress;
use engine::inside::ondisk::stream::{OBJECT_HAS_SPILL, SPILL_UNMODIFIED, begin_flag, feature};
use engine::inside::pool::UnguardedDatasets as _;
use engine::properties::{DatasetSetting, set};
use engine::send::{Forms, SendStream};
use engine::streams::{Body, Reader};
use engine::{ErrorKind, Filesystem, LivePool, NewPool, Progress, Rule};
use std::collections::BTreeMap;
use testkit::Rng;

const NOW: Time = Time { seconds: 1_700_000_000, nanos: 0 };
const FILE_MAX: u64 = 900 << 10;

/// An object as a receiver has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Received {
    kind: u32,
    bonus_kind: u32,
    slots: u8,
    bonus: Vec<u8>,
    spill: Option<Vec<u8>>,
    block_size: u32,
    data: Vec<u8>,
}

/// What a receiver has.
type Objects = BTreeMap<u64, Received>;

fn put(data: &mut Vec<u8>, offset: u64, bytes: &[u8]) {
    let (at, end) = (offset as usize, offset as usize + bytes.len());
    if data.len() < end {
        data.resize(end, 0);
    }
    data[at..end].copy_from_slice(bytes);
}

fn unpacked(compression: u8, bytes: &[u8], size: usize) -> Vec<u8> {
    let mut out = vec![0; size];
    let algorithm = compress::from_number(compression).expect("a known compression");
    compress::decompress(algorithm, bytes, &mut out).expect("it is compressed so");
    out
}

/// A record is received, as OpenZFS does that.
fn receive(objects: &mut Objects, body: &Body, payload: &[u8]) {
    match body {
        Body::Object(o) => {
            let object = objects.entry(o.object).or_default();
            // A file of another shape is another file.
            if (object.block_size, object.slots) != (o.block_size, o.slots) {
                object.data.clear();
            }
            if o.flags & OBJECT_HAS_SPILL == 0 {
                object.spill = None;
            }
            (object.kind, object.bonus_kind) = (o.kind, o.bonus_kind);
            (object.slots, object.block_size) = (o.slots, o.block_size);
            object.bonus = payload[..o.bonus_len as usize].to_vec();
        }
        Body::FreeObjects(f) => objects.retain(|n, _| !(f.first..f.first + f.count).contains(n)),
        Body::Free(f) => {
            let data = &mut objects.get_mut(&f.object).expect("it is there").data;
            let (from, end) = (f.offset as usize, f.offset.saturating_add(f.length));
            if end >= data.len() as u64 {
                data.truncate(from.min(data.len()));
            } else {
                data[from..end as usize].fill(0);
            }
        }
        Body::Write(w) => {
            let data = &mut objects.get_mut(&w.object).expect("it is there").data;
            match w.compression {
                0 => put(data, w.offset, payload),
                n => put(data, w.offset, &unpacked(n, payload, w.logical_size as usize)),
            }
        }
        Body::WriteEmbedded(w) => {
            let data = &mut objects.get_mut(&w.object).expect("it is there").data;
            let payload = &payload[..w.physical_size as usize];
            let mut bytes = unpacked(w.compression, payload, w.logical_size as usize);
            bytes.resize(w.length as usize, 0);
            put(data, w.offset, &bytes);
        }
        Body::Spill(s) => {
            let spill = &mut objects.get_mut(&s.object).expect("it is there").spill;
            if s.flags & SPILL_UNMODIFIED != 0 && spill.is_some() {
                assert_eq!(spill.as_deref(), Some(payload), "it is said to be unmodified");
            }
            *spill = Some(payload.to_vec());
        }
        Body::Begin(_) | Body::End(_) => {}
        other => panic!("a stream has {other:?}"),
    }
}

/// Sends a snapshot, and receives it.
/// Whether its large blocks are whole: not when it has had none yet.
fn transfer(
    pool: &LivePool,
    name: &str,
    from: Option<&str>,
    forms: Forms,
    objects: &mut Objects,
) -> bool {
    let view = pool.look().unwrap();
    let send = SendStream::new(&view, name, from, forms).unwrap();
    let mut stream = Vec::new();
    send.run(&mut stream, &Progress::new()).unwrap();
    let mut input = Reader::new(&stream[..]);
    let (mut records, mut are_whole) = (Vec::new(), false);
    while let Some(record) = input.record().unwrap() {
        let payload = input.payload().unwrap();
        if let Body::Begin(begin) = &record.body {
            are_whole = begin.features() & feature::LARGE_BLOCKS != 0;
        }
        if !are_whole {
            assert!(payload.len() <= 128 << 10);
        }
        receive(objects, &record.body, payload);
        records.push(record.body.number());
    }
    assert_eq!((records[0], *records.last().unwrap()), (0, 5), "BEGIN and END");
    assert!(forms.large_blocks || !are_whole);
    are_whole
}

/// The objects of a snapshot, as they are. Blocks are cut in streams without large blocks.
fn there(pool: &LivePool, name: &str, are_whole: bool) -> Objects {
    let view = pool.look().unwrap();
    let dataset = view.dsl().by_name(name).unwrap();
    let objset = view.dsl().objset(&dataset).unwrap();
    let mut out = Objects::new();
    for object in objset.objects().map(Result::unwrap) {
        let dnode = object.dnode();
        let mut data = vec![0; object.size_of_blocks() as usize];
        object.read_at(0, &mut data).unwrap();
        let size = dnode.block_size();
        let cut = if are_whole { size } else { size.min(128 << 10) };
        let spill = object.read_spill().unwrap().map(|block| block.bytes().to_vec());
        out.insert(
            object.number(),
            Received {
                kind: dnode.kind.0.into(),
                bonus_kind: dnode.bonus_kind.0.into(),
                slots: dnode.extra_slots + 1,
                bonus: dnode.bonus.clone(),
                spill,
                block_size: cut as u32,
                data,
            },
        );
    }
    out
}

/// Both say the same; zeros at the end of data count for nothing.
fn compare(received: &Objects, there: &Objects, what: &str) {
    let trimmed = |objects: &Objects| -> Objects {
        let mut out = objects.clone();
        for object in out.values_mut() {
            let end = object.data.iter().rposition(|b| *b != 0).map_or(0, |at| at + 1);
            object.data.truncate(end);
        }
        out
    };
    let (received, there) = (trimmed(received), trimmed(there));
    let numbers = |objects: &Objects| objects.keys().copied().collect::<Vec<_>>();
    assert_eq!(numbers(&received), numbers(&there), "{what}: other objects");
    for (number, is) in &there {
        let has = &received[number];
        let at = has.data.iter().zip(&is.data).position(|(a, b)| a != b);
        let shape = |o: &Received| {
            (o.kind, o.bonus_kind, o.slots, o.block_size, o.data.len(), o.spill.is_some())
        };
        let (has_shape, is_shape) = (shape(has), shape(is));
        assert!(
            has == is,
            "{what}: object {number} differs at {at:?}: {has_shape:?}, not {is_shape:?}"
        );
    }
}

/// Bytes of which some can be compressed.
fn bytes(rng: &mut Rng, len: usize) -> Vec<u8> {
    let mut out = vec![0; len];
    match rng.below(3) {
        0 => rng.fill(&mut out),
        1 => out.fill(rng.below(255) as u8 + 1),
        _ => {
            let half = len / 2;
            rng.fill(&mut out[..half]);
        }
    }
    out
}

/// Changes a file system at random.
fn change(rng: &mut Rng, pool: &LivePool, fs: &Filesystem, files: &mut Vec<(Vec<u8>, u64)>) {
    if rng.below(6) == 0 {
        let sizes = ["512", "4096", "131072", "262144", "1048576"];
        let value = rng.pick(&sizes);
        set(pool, &[DatasetSetting { dataset: "tank/fs", property: "recordsize", value }]).unwrap();
    }
    let new = NewFile::new(NewKind::File, 0o644, NOW);
    match (rng.below(12), files.len()) {
        (0..=3, _) | (_, 0) => {
            let name = format!("f{}", rng.next_u64()).into_bytes();
            let node = fs.create(fs.root_object(), &name, &new).unwrap();
            let len = *rng.pick(&[0, 1, 60, 500, 70_000, 400_000]);
            let data = bytes(rng, len);
            fs.write_at(node.number(), 0, &data, NOW).unwrap();
            files.push((name, node.number()));
        }
        (4..=6, n) => {
            let (_, file) = files[rng.below(n as u64) as usize];
            let len = rng.below(200_000) as usize;
            let data = bytes(rng, len);
            fs.write_at(file, rng.below(FILE_MAX), &data, NOW).unwrap();
        }
        (7, n) => {
            let (_, file) = files[rng.below(n as u64) as usize];
            fs.truncate(file, rng.below(FILE_MAX), NOW).unwrap();
        }
        (8, n) => {
            let (_, file) = files[rng.below(n as u64) as usize];
            fs.punch(file, rng.below(FILE_MAX), rng.below(FILE_MAX), NOW).unwrap();
        }
        (9, n) => {
            let (_, file) = files[rng.below(n as u64) as usize];
            let len = *rng.pick(&[10, 300, 2000]);
            let value = bytes(rng, len);
            let name = *rng.pick(&["user.a", "user.b"]);
            fs.set_xattr(file, name.as_bytes(), &value, XattrMode::Any, NOW).unwrap();
        }
        (_, n) => {
            let (name, _) = files.swap_remove(rng.below(n as u64) as usize);
            fs.unlink(fs.root_object(), &name, NOW).unwrap();
        }
    }
}

fn forms(rng: &mut Rng) -> Forms {
    Forms {
        large_blocks: rng.below(2) == 0,
        compressed: rng.below(2) == 0,
        embedded: rng.below(2) == 0,
        raw: false,
    }
}

/// Snapshots that are sent, and changes before them all.
const ROUNDS: u64 = 6;
const STEPS: usize = 120;

/// Each form takes all increments, one after the other, and over several at once.
fn run(seed: u64, steps: &[u64]) {
    let mut rng = Rng::new(seed);
    let pool = NewPool::new("tank").memory(512 << 20).create().unwrap();
    let compression = *rng.pick(&["off", "lz4", "zstd", "gzip"]);
    let mut new = engine::Create::filesystem("tank/fs").unwrap();
    new = new.set("compression", compression).unwrap().set("xattr", "sa").unwrap();
    if rng.below(2) == 0 {
        new = new.set("dnodesize", "auto").unwrap();
    }
    new.run(&pool).unwrap();
    let fs = pool.filesystem("tank/fs").unwrap();
    let mut files = Vec::new();
    let forms: Vec<Forms> = (0..3).map(|_| forms(&mut rng)).collect();
    let mut received: Vec<Objects> = vec![Objects::new(); forms.len()];
    let mut had: Vec<Option<String>> = vec![None; forms.len()];
    for round in 0..ROUNDS {
        // Each step says of itself in which round it is.
        for step in steps.iter().filter(|step| *step % ROUNDS == round) {
            change(&mut Rng::new(*step), &pool, &fs, &mut files);
        }
        let name = format!("tank/fs@{round}");
        engine::datasets::snapshot(&pool, &[&name], false, Vec::new()).unwrap();
        engine::datasets::bookmark(&pool, &format!("tank/fs#{round}"), &name).unwrap();
        for (n, forms) in forms.iter().enumerate() {
            if rng.below(3) == 0 && round + 1 < ROUNDS {
                continue;
            }
            let from = had[n].clone();
            let are_whole = transfer(&pool, &name, from.as_deref(), *forms, &mut received[n]);
            let what = format!("seed {seed} {compression} {name} from {from:?}, {forms:?}");
            compare(&received[n], &there(&pool, &name, are_whole), &what);
            let sign = if rng.below(2) == 0 { '@' } else { '#' };
            had[n] = Some(format!("{sign}{round}"));
        }
    }
}

#[test]
fn what_is_sent_is_the_snapshot() {
    testkit::each_seed(8, |seed| {
        testkit::shrinking_seed(seed, STEPS, |steps| run(seed, steps));
    });
}

#[test]
fn a_clone_is_an_increment_of_its_origin() {
    let pool = NewPool::new("tank").memory(128 << 20).create().unwrap();
    let fs = pool.filesystem("tank").unwrap();
    let new = NewFile::new(NewKind::File, 0o644, NOW);
    let file = fs.create(fs.root_object(), b"a", &new).unwrap().number();
    fs.write_at(file, 0, &[1; 300_000], NOW).unwrap();
    engine::datasets::snapshot(&pool, &["tank@one"], false, Vec::new()).unwrap();
    pool.clone_snapshot("tank@one", "tank/copy", Vec::new()).unwrap();
    let copy = pool.filesystem("tank/copy").unwrap();
    copy.write_at(file, 4096, &[2; 4096], NOW).unwrap();
    engine::datasets::snapshot(&pool, &["tank/copy@two"], false, Vec::new()).unwrap();
    let forms = Forms::default();
    let mut objects = Objects::new();
    transfer(&pool, "tank@one", None, forms, &mut objects);
    transfer(&pool, "tank/copy@two", Some("tank@one"), forms, &mut objects);
    compare(&objects, &there(&pool, "tank/copy@two", false), "the clone");
    let view = pool.look().unwrap();
    let mut stream = Vec::new();
    let send = SendStream::new(&view, "tank/copy@two", Some("tank@one"), forms).unwrap();
    send.run(&mut stream, &Progress::new()).unwrap();
    let begin = Reader::new(&stream[..]).record().unwrap().unwrap();
    let Body::Begin(begin) = begin.body else { panic!("a stream begins with BEGIN") };
    assert_ne!(begin.flags & begin_flag::CLONE, 0);
    for (to, from) in [("tank@one", "tank/copy@two"), ("tank@one", "tank@one")] {
        let error = SendStream::new(&view, to, Some(from), forms).err().unwrap();
        assert_eq!(error.kind(), &ErrorKind::Against(Rule::NotEarlier), "{to} from {from}");
    }
}

#[test]
fn a_stream_that_is_called_off_has_no_end() {
    let pool = NewPool::new("tank").memory(128 << 20).create().unwrap();
    engine::datasets::snapshot(&pool, &["tank@one"], false, Vec::new()).unwrap();
    let view = pool.look().unwrap();
    let send = SendStream::new(&view, "tank@one", None, Forms::default()).unwrap();
    let progress = Progress::new();
    progress.cancel();
    let mut stream = Vec::new();
    let error = send.run(&mut stream, &progress).unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::Cancelled);
    assert!(stream.len() < 2 * engine::streams::RECORD_SIZE);
}

/// What the machine does: it receives all streams in their order, and describes both pools.
const RECEIVES: &str = "set -e\n\
    mkdir /vd && dd if=/dev/img0 of=/vd/img0 bs=1M conv=sparse status=none\n\
    zpool create -o cachefile=none target /dev/img1\n\
    for stream in $(ls /job/*.stream | sort -V); do\n\
        name=$(basename $stream .stream)\n\
        echo \"== $name\"\n\
        zfs receive -u target/${name%%.*} < $stream\n\
    done\n\
    zpool import -d /vd -N -f -o cachefile=none tank\n\
    python3 /judge/zmanifest.py tank -o /out/tank.json\n\
    python3 /judge/zmanifest.py target -o /out/target.json\n\
    zpool scrub -w target\n\
    zpool status target\n";

#[test]
#[ignore = "long form: minutes, and needs the kernel judge: scripts/judge"]
fn the_kernel_receives_what_is_sent() {
    let judge = testkit::KernelJudge::find();
    let dir = tempfile::tempdir().unwrap();
    let (job, out) = (dir.path().join("job"), dir.path().join("out"));
    std::fs::create_dir_all(&job).unwrap();
    let images = [dir.path().join("tank.img"), dir.path().join("target.img")];
    std::fs::File::create(&images[1]).unwrap().set_len(512 << 20).unwrap();
    let pool = NewPool::new("tank").file(&images[0], 256 << 20).unwrap().create().unwrap();
    let mut rng = Rng::new(std::env::var("ZINC_SEED").map_or(1, |seed| seed.parse().unwrap()));
    let mut new = engine::Create::filesystem("tank/fs").unwrap();
    new = new.set("compression", "lz4").unwrap().set("xattr", "sa").unwrap();
    new.set("dnodesize", "auto").unwrap().run(&pool).unwrap();
    engine::Create::volume("tank/vol", 8 << 20).unwrap().run(&pool).unwrap();
    let (fs, volume) = (pool.filesystem("tank/fs").unwrap(), pool.volume("tank/vol").unwrap());
    let mut files = Vec::new();
    let forms = [(false, false, false), (true, true, true), (true, false, false)];
    for round in 0..4 {
        for _ in 0..30 {
            change(&mut rng, &pool, &fs, &mut files);
        }
        let data = bytes(&mut rng, 200_000);
        volume.write_at(rng.below(4 << 20), &data).unwrap();
        let names = [format!("tank/fs@{round}"), format!("tank/vol@{round}")];
        engine::datasets::snapshot(&pool, &names, false, Vec::new()).unwrap();
        let view = pool.look().unwrap();
        let from = (round > 0).then(|| format!("@{}", round - 1));
        for (n, (large_blocks, compressed, embedded)) in forms.into_iter().enumerate() {
            let forms = Forms { large_blocks, compressed, embedded, raw: false };
            for (of, name) in ["fs", "vol"].iter().zip(&names) {
                let path = job.join(format!("{of}{n}.{round}.stream"));
                let send = SendStream::new(&view, name, from.as_deref(), forms).unwrap();
                send.run(std::fs::File::create(path).unwrap(), &Progress::new()).unwrap();
            }
        }
    }
    drop((fs, volume));
    pool.export().unwrap();
    assert!(judge.run(RECEIVES, &job, &out, &images), "the kernel does not receive it");
    for (of, n) in ["fs", "vol"].iter().flat_map(|of| (0..forms.len()).map(move |n| (of, n))) {
        let names = [format!("tank/{of}"), format!("target/{of}{n}")];
        let described = [out.join("tank.json"), out.join("target.json")];
        let mut diff = judge.diff(names, described);
        assert!(diff.status().unwrap().success(), "{of}{n}: the kernel has something else");
    }
}
