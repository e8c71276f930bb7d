//! What belongs to whom in a file system that came raw: counted anew while it is used.

use super::raw::{KEY, RAW, check_with, root, snapshot};
use super::*;
use engine::files::{QuotaKind, SpaceKind};
use engine::inside::ondisk::objset::FLAG_USERACCOUNTING_COMPLETE;
use engine::inside::pool::UnguardedDatasets as _;
use engine::live::ImportOptions;
use std::collections::BTreeMap;

const NAME: &str = "there/fs";
pub(super) type Files = Vec<(Vec<u8>, u64)>;

/// The blocks of dnodes that a txg counts; 0: it waits.
fn pieces(pool: &LivePool, blocks: u64) {
    pool.set_tunable(
        engine::live::Setting::parse(&format!("zinc_recount_piece={blocks}")).unwrap(),
    );
}

/// Whether the header of a file system or a snapshot says that all is counted.
fn is_complete(pool: &LivePool, name: &str) -> bool {
    let view = pool.look().unwrap();
    let dataset = view.dsl().by_name(name).unwrap();
    view.dsl().objset(&dataset).unwrap().phys().flags & FLAG_USERACCOUNTING_COMPLETE != 0
}

fn force() -> Receive {
    Receive { force: true, ..to(NAME) }
}

/// An encrypted file system with files of several users, in more than one block of dnodes.
pub(super) fn source(pool: &LivePool, rng: &mut Rng) -> Files {
    root(pool, Create::filesystem("here/fs").unwrap().set("xattr", "sa").unwrap(), "on");
    let fs = pool.filesystem("here/fs").unwrap();
    let mut files = Vec::new();
    for n in 0..150u32 {
        let new = NewFile::new(NewKind::File, 0o644, NOW);
        let new = NewFile { uid: u64::from(n % 3), gid: u64::from(n % 2), ..new };
        let name = format!("first{n}").into_bytes();
        let file = fs.create(fs.root_object(), &name, &new).unwrap().number();
        let len = *rng.pick(&[0, 100, 9000]);
        fs.write_at(file, 0, &bytes(rng, len), NOW).unwrap();
        files.push((name, file));
    }
    files
}

/// Two pools, of which one has what the other has sent raw, and its key.
struct Site {
    from: LivePool,
    into: LivePool,
    /// The files there, and those of the source.
    files: Files,
    theirs: Files,
    sent: u64,
    /// The files in its own snapshots.
    kept: BTreeMap<String, Files>,
}

impl Site {
    fn new(image: &Path) -> Self {
        let from = NewPool::new("here").memory(256 << 20).create().unwrap();
        let into = NewPool::new("there").file(image, 256 << 20).unwrap().create().unwrap();
        let theirs = source(&from, &mut Rng::new(1));
        snapshot(&from, "here/fs@0");
        receive(&into, &to(NAME), &sent(&from, "here/fs@0", None, RAW)).unwrap();
        into.load_key(NAME, KEY).unwrap();
        let files = theirs.clone();
        Self { from, into, files, theirs, sent: 0, kept: BTreeMap::new() }
    }

    fn count_a_piece(&self) {
        pieces(&self.into, 1);
        self.into.sync().unwrap();
        pieces(&self.into, 0);
    }

    /// One thing that may happen meanwhile.
    fn step(&mut self, rng: &mut Rng, n: usize) {
        match rng.below(14) {
            0..=5 => {
                let fs = self.into.filesystem(NAME).unwrap();
                for _ in 0..rng.below(12) {
                    change(rng, &fs, &mut self.files);
                }
            }
            6..=9 => self.count_a_piece(),
            10 => {
                let name = format!("{NAME}@own{n}");
                let was_complete = is_complete(&self.into, NAME);
                snapshot(&self.into, &name);
                assert!(!is_complete(&self.into, &name) || was_complete);
                self.kept.insert(name, self.files.clone());
            }
            11 => {
                let Some((name, files)) = self.kept.iter().next() else { return };
                let (name, files) = (name.clone(), files.clone());
                self.into.rollback(&name, true).unwrap();
                self.kept = [(name, files.clone())].into();
                self.files = files;
            }
            12 => {
                self.into.unload_key(NAME).unwrap();
                self.into.load_key(NAME, KEY).unwrap();
            }
            _ => self.receive_more(rng),
        }
    }

    /// What came since replaces what was changed there.
    fn receive_more(&mut self, rng: &mut Rng) {
        let fs = self.from.filesystem("here/fs").unwrap();
        for _ in 0..20 {
            change(rng, &fs, &mut self.theirs);
        }
        self.sent += 1;
        let (before, name) = (format!("@{}", self.sent - 1), format!("here/fs@{}", self.sent));
        snapshot(&self.from, &name);
        let stream = sent(&self.from, &name, Some(&before), RAW);
        receive(&self.into, &force(), &stream).unwrap();
        assert!(!is_complete(&self.into, NAME));
        self.kept.clear();
        self.files.clone_from(&self.theirs);
    }
}

#[test]
fn what_came_raw_is_counted_right_whatever_happens_meanwhile() {
    testkit::scenarios([(1, ()), (2, ()), (3, ())], |steps, ()| {
        let dir = tempfile::tempdir().unwrap();
        let image = dir.path().join("there.img");
        let mut site = Site::new(&image);
        pieces(&site.into, 0);
        for (n, number) in (0..60).filter_map(|n| Some((n, steps.draw()?))) {
            site.step(&mut Rng::new(number), n);
            // It begins, where it has not.
            drop(site.into.filesystem(NAME).unwrap());
            site.into.sync().unwrap();
            if is_complete(&site.into, NAME) {
                check_owners(&site.into, NAME);
            }
        }
        pieces(&site.into, 256);
        // Who opens it waits for the end.
        drop(site.into.filesystem(NAME).unwrap());
        assert!(is_complete(&site.into, NAME));
        check_owners(&site.into, NAME);
        site.into.export().unwrap();
        let options = ImportOptions::new(OpenOptions::in_places([image.as_path()]));
        check_with(LivePool::open("there", &options).unwrap(), &image, &[(NAME, KEY)]);
    });
}

#[test]
fn quotas_are_kept_as_soon_as_all_is_counted() {
    let dir = tempfile::tempdir().unwrap();
    let site = Site::new(&dir.path().join("there.img"));
    let into = &site.into;
    pieces(into, 0);
    let fs = into.filesystem(NAME).unwrap();
    let new = NewFile { uid: 2, ..NewFile::new(NewKind::File, 0o644, NOW) };
    let file = fs.create(fs.root_object(), b"of user 2", &new).unwrap().number();
    let mut data = vec![0; 1 << 20];
    Rng::new(9).fill(&mut data);
    let (kind, what) = (SpaceKind::User, QuotaKind::Space);
    let quota = engine::properties::OwnerQuota { kind, what, owner: 2, value: 500 << 10 };
    quota.set(into, NAME).unwrap();
    for at in 0..2 {
        fs.write_at(file, at << 20, &data, NOW).unwrap();
        into.sync().unwrap();
    }
    assert!(!is_complete(into, NAME));
    site.count_a_piece();
    site.count_a_piece();
    assert!(!is_complete(into, NAME), "there is more than that");
    // What a crash leaves here is counted from the start.
    let left = dir.path().join("left.img");
    std::fs::copy(dir.path().join("there.img"), &left).unwrap();
    pieces(into, 256);
    into.sync().unwrap();
    assert!(is_complete(into, NAME));
    check_owners(into, NAME);
    let refused = fs.write_at(file, 0, &data, NOW).unwrap_err();
    assert!(refused.to_string().contains("quota"), "{refused}");
    drop(fs);
    site.into.export().unwrap();
    let options = ImportOptions {
        force: true,
        ..ImportOptions::new(OpenOptions::in_places([left.as_path()]))
    };
    let crashed = LivePool::open("there", &options).unwrap();
    crashed.load_key(NAME, KEY).unwrap();
    assert!(!is_complete(&crashed, NAME));
    let fs = crashed.filesystem(NAME).unwrap();
    assert!(is_complete(&crashed, NAME));
    check_owners(&crashed, NAME);
    fs.write_at(file, 0, &data, NOW).unwrap_err();
    drop(fs);
    check_with(crashed, &left, &[(NAME, KEY)]);
}

#[test]
fn what_is_not_to_be_changed_is_not_counted() {
    let dir = tempfile::tempdir().unwrap();
    let mut site = Site::new(&dir.path().join("there.img"));
    let set_read_only = |pool: &LivePool, value| {
        set(pool, &[DatasetSetting { dataset: NAME, property: "readonly", value }]).unwrap();
    };
    set_read_only(&site.into, "on");
    drop(site.into.filesystem(NAME).unwrap());
    site.into.sync().unwrap();
    assert!(!is_complete(&site.into, NAME));
    // So the next stream goes on from it.
    let fs = site.from.filesystem("here/fs").unwrap();
    change(&mut Rng::new(2), &fs, &mut site.theirs);
    snapshot(&site.from, "here/fs@1");
    receive(&site.into, &to(NAME), &sent(&site.from, "here/fs@1", Some("@0"), RAW)).unwrap();
    drop(site.into.filesystem(NAME).unwrap());
    set_read_only(&site.into, "off");
    site.into.sync().unwrap();
    site.into.sync().unwrap();
    assert!(is_complete(&site.into, NAME));
    check_owners(&site.into, NAME);
}
