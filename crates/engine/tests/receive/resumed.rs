//! Streams that are cut, and the rest of them.

use super::*;
use engine::inside::device::{CrashMode, SimDisks, SimOptions};
use engine::inside::pool::UnguardedDatasets as _;
use engine::inside::rt::Rt;
use engine::live::ImportOptions;
use engine::{ResumeFault, ResumeToken, TokenFault};
use poolkit::Shape;

fn kept(target: &str) -> Receive {
    Receive { resumable: true, ..to(target) }
}

/// What `zfs get receive_resume_token` shows.
fn token(pool: &Pool, name: &str) -> Option<String> {
    let context = PropertyContext::default();
    let dataset = pool.dsl().by_name(name).ok()?;
    let property = pool.dsl().property(&dataset, &context, "receive_resume_token").unwrap();
    property.map(|p| p.value).filter(|value| !value.is_empty() && value != "-")
}

/// The stream that a token asks for.
fn rest(pool: &LivePool, token: &str) -> Vec<u8> {
    let view = pool.look().unwrap();
    let send = SendStream::resume(&view, &ResumeToken::decode(token).unwrap()).unwrap();
    let mut stream = Vec::new();
    send.run(&mut stream, &Progress::new()).unwrap();
    stream
}

/// Receives a stream in pieces, which are cut anywhere. Returns how many there were.
pub(super) fn in_pieces(
    rng: &mut Rng,
    from: &LivePool,
    into: &LivePool,
    stream: &[u8],
    target: &str,
) -> usize {
    let mut stream = stream.to_vec();
    for pieces in 1..100 {
        let cut = match rng.below(4) {
            0 if pieces > 3 => stream.len(),
            1 => rng.below(stream.len() as u64 + 1) as usize,
            _ => (312 + rng.below(100_000) as usize).min(stream.len()),
        };
        let done = receive(into, &kept(target), &stream[..cut]);
        let resume = token(&into.look().unwrap(), target);
        match done {
            Ok(_) => {
                assert_eq!((resume, cut), (None, stream.len()));
                return pieces;
            }
            Err(e) => {
                assert!(cut < stream.len(), "{:?}", e.error);
                assert!(matches!(e.error.kind(), ErrorKind::BadStream(_)), "{:?}", e.error);
                // What was cut within its first record did not begin.
                if let Some(resume) = resume {
                    assert!(e.token.is_none_or(|token| token == resume));
                    stream = rest(from, &resume);
                }
            }
        }
    }
    panic!("it has no end")
}

/// Snapshots that are received in pieces, and changes before them all.
const ROUNDS: u64 = 4;
const STEPS: usize = 100;

/// Changes files, and receives what changed in pieces.
fn run(seed: u64, steps: &[u64]) {
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("there.img");
    let mut rng = Rng::new(seed);
    let from = NewPool::new("here").memory(512 << 20).create().unwrap();
    let into = NewPool::new("there").file(&image, 512 << 20).unwrap().create().unwrap();
    let mut new = Create::filesystem("here/fs").unwrap();
    let compression = ["off", "lz4", "zstd"][rng.below(3) as usize];
    new = new.set("compression", compression).unwrap();
    if rng.below(2) == 0 {
        new = new.set("dnodesize", "auto").unwrap();
    }
    new.run(&from).unwrap();
    let fs = from.filesystem("here/fs").unwrap();
    let mut files = Vec::new();
    let [large_blocks, compressed, embedded] = [0; 3].map(|_| rng.below(2) == 0);
    let forms = Forms { large_blocks, compressed, embedded, raw: false };
    let (mut had, mut pieces) = (None, 0);
    for round in 0..ROUNDS {
        let value = *rng.pick(&["4096", "131072", "1048576"]);
        let is_large = value == "1048576";
        if large_blocks || !is_large {
            set(&from, &[DatasetSetting { dataset: "here/fs", property: "recordsize", value }])
                .unwrap();
        }
        // Each step says of itself in which round it is.
        for step in steps.iter().filter(|step| *step % ROUNDS == round) {
            change(&mut Rng::new(*step), &fs, &mut files);
        }
        let name = format!("here/fs@{round}");
        engine::datasets::snapshot(&from, &[&name], false, Vec::new()).unwrap();
        let stream = sent(&from, &name, had.as_deref(), forms);
        pieces += in_pieces(&mut rng, &from, &into, &stream, "there/fs");
        let what = format!("seed {seed} {name} {forms:?}");
        compare(&from, &name, &into, &format!("there/fs@{round}"), &what);
        check_owners(&into, "there/fs");
        let view = into.look().unwrap();
        assert!(view.dsl().by_name("there/fs/%recv").is_err());
        had = Some(format!("@{round}"));
    }
    assert!(pieces > 8 || steps.len() < STEPS, "{pieces}");
    check(into, &image);
}

#[test]
fn a_stream_that_is_cut_goes_on() {
    testkit::each_seed(5, |seed| {
        testkit::shrinking_seed(seed, STEPS, |steps| run(seed, steps));
    });
}

/// Changes of a sender, half of them before its first snapshot.
const CHANGES: usize = 80;

/// A file system with files, two snapshots of it, and what changed between them as a stream.
fn sender_of(steps: &[u64]) -> (LivePool, [Vec<u8>; 2]) {
    let from = NewPool::new("here").memory(256 << 20).create().unwrap();
    let fs = from.filesystem("here").unwrap();
    let mut files = Vec::new();
    let streams = [None, Some("@0")].map(|since| {
        let is_mine = |step: &&u64| step.is_multiple_of(2) == since.is_none();
        for step in steps.iter().filter(is_mine) {
            change(&mut Rng::new(*step), &fs, &mut files);
        }
        let name = if since.is_none() { "here@0" } else { "here@1" };
        engine::datasets::snapshot(&from, &[name], false, Vec::new()).unwrap();
        sent(&from, name, since, Forms::default())
    });
    (from, streams)
}

fn sender(seed: u64) -> (LivePool, [Vec<u8>; 2]) {
    sender_of(&testkit::steps(seed, CHANGES))
}

#[test]
fn what_was_kept_is_in_the_way_until_it_is_given_up() {
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("there.img");
    let (from, [full, more]) = sender(5);
    let into = NewPool::new("there").file(&image, 256 << 20).unwrap().create().unwrap();
    let cut = |stream: &[u8], target: &str| {
        receive(&into, &kept(target), &stream[..stream.len() / 2]).unwrap_err().token.unwrap()
    };
    let half = |name: &str| token(&into.look().unwrap(), name);
    // A new dataset, and one that is there.
    receive(&into, &to("there/fs"), &full).unwrap();
    let tokens = [cut(&full, "there/new"), cut(&more, "there/fs")];
    assert_eq!(half("there/new").as_ref(), Some(&tokens[0]));
    assert_eq!(half("there/fs").as_ref(), Some(&tokens[1]));
    assert_eq!(half("there"), None);
    for (target, stream) in [("there/new", &full), ("there/fs", &more)] {
        for how in [to(target), kept(target)] {
            let why = refusal(receive(&into, &how, stream));
            let is_it = why == Refusal::Receiving || why == Refusal::Exists;
            assert!(is_it || why == Refusal::Inconsistent, "{target}: {why:?}");
        }
    }
    assert!(into.filesystem("there/new").is_err());
    assert!(engine::datasets::snapshot(&into, &["there/new@x"], false, Vec::new()).is_err());
    // What was there is used as ever.
    into.filesystem("there/fs").unwrap().root().unwrap();
    // The rest of one is not that of the other, nor is the rest of the rest.
    let rests = [rest(&from, &tokens[0]), rest(&from, &tokens[1])];
    assert_eq!(refusal(receive(&into, &kept("there/fs"), &rests[0])), Refusal::NotTheRest);
    assert_eq!(refusal(receive(&into, &kept("there/new"), &rests[1])), Refusal::NotTheRest);
    let nothing = refusal(receive(&into, &kept("there"), &rests[0]));
    assert_eq!(nothing, Refusal::NotPartlyReceived);
    let end = rests[0].len() - 312;
    let next = receive(&into, &kept("there/new"), &rests[0][..end]).unwrap_err().token.unwrap();
    assert_ne!(next, tokens[0]);
    assert_eq!(refusal(receive(&into, &kept("there/new"), &rests[0])), Refusal::NotTheRest);
    // It is given up once.
    for name in ["there/new", "there/fs"] {
        into.abort_receive(name).unwrap();
        let again = engine::Error::from(into.abort_receive(name).unwrap_err());
        let is_new = name == "there/new";
        assert_eq!(again.kind() == &ErrorKind::NotFound, is_new, "{again}");
        assert_eq!(half(name), None);
    }
    assert!(into.look().unwrap().dsl().by_name("there/new").is_err());
    // What is half received goes with its dataset, and does not keep what it is a clone of.
    cut(&more, "there/fs");
    cut(&full, "there/new");
    for name in ["there/fs", "there/new"] {
        let plan = engine::datasets::Destroy::new(name).recursive();
        plan.plan(into.view()).unwrap().run(&into, &Progress::new()).unwrap();
    }
    receive(&into, &to("there/fs"), &full).unwrap();
    receive(&into, &to("there/fs"), &more).unwrap();
    compare(&from, "here@1", &into, "there/fs@1", "in the end");
    check(into, &image);
}

/// What is set in the end is kept until the rest comes, however long it is.
#[test]
fn long_properties_outlast_a_cut() {
    let (from, [full, more]) = sender(7);
    let into = NewPool::new("there").memory(256 << 20).create().unwrap();
    receive(&into, &to("there/fs"), &full).unwrap();
    let values = ["a", "b", "c"].map(|letter| (format!("my:{letter}"), letter.repeat(5000)));
    let how = Receive { set: values.to_vec(), ..kept("there/fs") };
    let cut = receive(&into, &how, &more[..more.len() / 2]).unwrap_err().token.unwrap();
    receive(&into, &kept("there/fs"), &rest(&from, &cut)).unwrap();
    let view = into.look().unwrap();
    let dataset = view.dsl().by_name("there/fs").unwrap();
    for (name, value) in values {
        let found = view.dsl().property(&dataset, &PropertyContext::default(), &name).unwrap();
        assert!(found.is_some_and(|p| p.value == value), "{name}");
    }
}

#[test]
fn a_token_that_is_stale_is_refused() {
    let (from, [full, more]) = sender(6);
    let into = NewPool::new("there").memory(256 << 20).create().unwrap();
    receive(&into, &to("there/fs"), &full).unwrap();
    let token = receive(&into, &kept("there/fs"), &more[..more.len() / 2]).unwrap_err().token;
    let token = ResumeToken::decode(&token.unwrap()).unwrap();
    let fault = |change: &dyn Fn(&mut ResumeToken)| {
        let mut token = token.clone();
        change(&mut token);
        let view = from.look().unwrap();
        let kind = SendStream::resume(&view, &token).err().map(|e| e.kind().clone());
        kind.map(|kind| match kind {
            ErrorKind::NotResumed(fault) => fault,
            other => panic!("{other:?}"),
        })
    };
    assert_eq!(fault(&|_| {}), None);
    let gone = |name: &str| Some(ResumeFault::Gone(name.to_owned()));
    assert_eq!(fault(&|t| t.to_name = b"here@none".to_vec()), gone("here@none"));
    assert_eq!(fault(&|t| t.to_name = b"here".to_vec()), gone("here"));
    assert!(matches!(fault(&|t| t.to_guid = 1), Some(ResumeFault::Another(_))));
    assert_eq!(fault(&|t| t.from_guid = 1), Some(ResumeFault::SourceGone(1)));
    assert_eq!(fault(&|t| t.object = 1 << 40), Some(ResumeFault::NoObject(1 << 40)));
    assert_eq!(fault(&|t| t.object = u64::MAX), Some(ResumeFault::NoObject(u64::MAX)));
    assert_eq!(fault(&|t| t.offset = u64::MAX), None);
    assert_eq!(ResumeToken::decode("1-2-3-4"), Err(TokenFault::Hexadecimal));
}

/// A receive that can be resumed, and a crash at any time: what is there then goes on, from a
/// record that is not behind what is on disk.
fn crash_and_go_on(seed: u64, steps: &[u64], is_full: bool) {
    let (from, [full, more]) = sender_of(steps);
    let (base, stream) = (full.clone(), if is_full { full } else { more });
    let target = if is_full { "there/new" } else { "there/fs" };
    let name = if is_full { "here@0" } else { "here@1" };
    let log = std::thread::scope(|scope| {
        let recorded = scope.spawn(|| {
            let rt = Rt::simulated(seed);
            let site = SimDisks::new(&rt);
            let disk = site.add(&SimOptions {
                name: "sim0".to_owned(),
                size: 128 << 20,
                seed,
                ..SimOptions::default()
            });
            let path = "sim0".to_owned();
            let into = Shape::Disk.create(&rt, "there", vec![(path, disk as _)], true, |_| {});
            receive(&into, &to("there/fs"), &base).unwrap();
            into.sync().unwrap();
            site.record();
            let mut input = Slow { stream: &stream, rt: &rt };
            kept(target).run(&into, &mut input, &Told::default(), &Progress::new()).unwrap();
            into.close().unwrap();
            site.log()
        });
        recorded.join().unwrap()
    });
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("there.img");
    let mut rng = Rng::new(seed);
    let (mut resumed, mut begun_at) = (0, std::collections::BTreeSet::new());
    for n in 0..24 {
        let cut = rng.below(log.len() as u64 + 1) as usize;
        let mode = if n % 2 == 0 { CrashMode::LoseUnflushed } else { CrashMode::Random };
        let left = log.images(cut, mode, rng.next_u64()).remove(0);
        left.save(&image).unwrap();
        let options =
            ImportOptions { force: true, ..ImportOptions::new(OpenOptions::in_places([&image])) };
        let pool = LivePool::open("there", &options).unwrap();
        let what = format!("seed {seed}, cut at {cut}, {mode:?}");
        if let Some(token) = token(&pool.look().unwrap(), target) {
            resumed += 1;
            begun_at.insert(token.clone());
            receive(&pool, &kept(target), &rest(&from, &token))
                .unwrap_or_else(|e| panic!("{what}: {:?}", e.error));
        } else if pool.look().unwrap().dsl().by_name(&name.replace("here", target)).is_err() {
            receive(&pool, &kept(target), &stream)
                .unwrap_or_else(|e| panic!("{what}: {:?}", e.error));
        }
        compare(&from, name, &pool, &name.replace("here", target), &what);
        check(pool, &image);
    }
    let is_enough = resumed > 5 && begun_at.len() > 3;
    assert!(is_enough || steps.len() < CHANGES, "{resumed} of {} places", begun_at.len());
}

/// A stream that takes its time.
struct Slow<'a> {
    stream: &'a [u8],
    rt: &'a Rt,
}

impl std::io::Read for Slow<'_> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        self.rt.sleep(Duration::from_millis(600));
        let n = out.len().min(self.stream.len()).min(16 << 10);
        out[..n].copy_from_slice(&self.stream[..n]);
        self.stream = &self.stream[n..];
        Ok(n)
    }
}

#[test]
fn what_a_crash_leaves_goes_on() {
    for (seed, is_full) in [(1, true), (2, false), (3, false)] {
        testkit::shrinking_seed(seed, CHANGES, |steps| crash_and_go_on(seed, steps, is_full));
    }
}
