//! A pool with a bit of everything, in memory, of which copies cost nothing.

use engine::inside::device::{DeviceRef, MemoryDevice};
use engine::inside::dsl::write::PropertyChange;
use engine::inside::dsl::{Dataset, PropertyContext, StoredValue};
use engine::inside::ondisk::DmuType;
use engine::inside::ondisk::znode::Time;
use engine::inside::pool::UnguardedDatasets as _;
use engine::inside::pool::live;
use engine::inside::pool::live::{Devices, ImportOptions, LivePool, NewFilesystem};
use engine::inside::zpl::write::{NewFile, NewKind};
use engine::inside::{check as checker, pool, rt};
use engine::permissions::{Delegation, WhoKey};
use engine::{Candidate, OpenOptions, Pool};
use poolkit::Shape;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

/// Bytes of each device.
const SIZE: u64 = 96 << 20;

/// The devices of a pool, and one that it does not have yet.
pub struct Bench {
    pub own: Arc<MemoryDevice>,
    pub spare: Arc<MemoryDevice>,
}

pub fn text(name: &str, value: &str) -> PropertyChange {
    PropertyChange { name: name.into(), value: Some(StoredValue::Text(value.into())) }
}

pub fn number(name: &str, value: u64) -> PropertyChange {
    PropertyChange { name: name.into(), value: Some(StoredValue::Number(value)) }
}

fn fill(pool: &LivePool, name: &str, seed: u8) {
    let fs = pool.filesystem(name).unwrap();
    let now = Time { seconds: 1, nanos: 0 };
    for n in 0..3 {
        let name = format!("{seed}-{n}");
        let new = NewFile::new(NewKind::File, 0o644, now);
        let file = fs.create(fs.root_object(), name.as_bytes(), &new).unwrap();
        fs.write_at(file.number(), 0, &vec![seed; 20_000], now).unwrap();
    }
}

impl Bench {
    pub fn new() -> Self {
        let own = Arc::new(MemoryDevice::zeros("own", SIZE));
        let spare = Arc::new(MemoryDevice::zeros("spare", SIZE));
        let devices = vec![("own".to_owned(), Arc::clone(&own) as _)];
        let pool = Shape::Disk
            .create(&rt::Rt::real(), "tank", devices, false, |options| options.ashift = Some(12));
        furnish(&pool);
        pool.close().unwrap();
        Self { own, spare }
    }

    /// The same again, to be changed.
    pub fn fork(&self) -> Self {
        Self { own: Arc::new(self.own.fork()), spare: Arc::new(self.spare.fork()) }
    }

    fn candidate(&self) -> Candidate {
        let look = |(device, name): (&Arc<MemoryDevice>, &str)| {
            let device: DeviceRef = Arc::clone(device) as _;
            pool::look_at_device(&device, PathBuf::from(name))
        };
        let found = [(&self.own, "own"), (&self.spare, "spare")].into_iter().filter_map(look);
        let found: Vec<_> = found.collect();
        Candidate::group(&found).into_iter().find(|c| c.name() == "tank").unwrap()
    }

    pub fn import(&self) -> LivePool {
        let open = OpenOptions { cache_bytes: 64 << 20, ..OpenOptions::default() };
        let options = ImportOptions { force: true, ..ImportOptions::new(open) };
        let devices = [("own", &self.own), ("spare", &self.spare)];
        let source = Devices::from(devices.map(|(n, d)| (n.to_owned(), Arc::clone(d) as _)));
        live::import(&rt::Rt::real(), &self.candidate(), &options, &source).unwrap()
    }

    /// What the devices hold, seen through `what`.
    pub fn look<T>(&self, what: impl FnOnce(&Pool) -> T) -> T {
        let options = OpenOptions { cache_bytes: 64 << 20, ..OpenOptions::default() };
        what(&Pool::open_candidate(&self.candidate(), &options).unwrap())
    }

    /// zdb finds no leak and no error.
    pub fn zdb(&self, context: &str) {
        let dir = tempfile::Builder::new().prefix("zinc-atomic").tempdir().unwrap();
        for (device, name) in [(&self.own, "own"), (&self.spare, "spare")] {
            device.save(&dir.path().join(name)).unwrap();
        }
        if let Some(verdict) = testkit::oracle::verdict(dir.path(), "tank") {
            assert!(verdict.is_clean(), "{context}: zdb:\n{}", verdict.text);
        }
    }
}

/// Our own check finds nothing.
pub fn check(devices: &Bench, context: &str) {
    let report = devices.look(|pool| {
        let options = checker::CheckOptions { workers: 1, ..checker::CheckOptions::default() };
        checker::run(pool, &options, &rt::Progress::new())
    });
    let bad = report.issues.iter().find(|i| i.severity() > checker::Severity::Note);
    assert!(bad.is_none(), "{context}: {}", bad.unwrap());
}

fn furnish(pool: &LivePool) {
    let one = |name: &str| pool.snapshot(&[name.to_owned()], Vec::new()).unwrap();
    let fs = |name: &str, properties| {
        pool.create_filesystem(name, NewFilesystem::default(), properties).unwrap();
    };
    fs("tank/a", vec![text("my:word", "one"), number("quota", 64 << 20)]);
    fs("tank/a/b", vec![number("reservation", 1 << 20), number("refreservation", 2 << 20)]);
    pool.set_property("tank/a", number("snapshot_limit", 100)).unwrap();
    pool.set_property("tank/a", number("filesystem_limit", 100)).unwrap();
    for n in 1..=4 {
        fill(pool, "tank/a", n);
        one(&format!("tank/a@{n}"));
    }
    fill(pool, "tank/a/b", 1);
    one("tank/a/b@1");
    pool.bookmark("tank/a#mark", "tank/a@2").unwrap();
    pool.bookmark("tank/a#young", "tank/a@4").unwrap();
    fill(pool, "tank/a", 9);
    pool.clone_snapshot("tank/a@2", "tank/c", Vec::new()).unwrap();
    fill(pool, "tank/c", 20);
    one("tank/c@mine");
    pool.clone_snapshot("tank/c@mine", "tank/d", Vec::new()).unwrap();
    fill(pool, "tank/d", 30);
    pool.create_volume("tank/v", 4 << 20, 8192, Vec::new()).unwrap();
    pool.volume("tank/v").unwrap().write_at(0, &[7; 100_000]).unwrap();
    one("tank/v@1");
    pool.clone_snapshot("tank/v@1", "tank/w", Vec::new()).unwrap();
    pool.allow("tank", vec![given("c-$", "destroy"), given("C-$", "@ops")]).unwrap();
    pool.allow("tank/d", vec![given("ul$1000", "mount"), given("el$", "diff")]).unwrap();
    pool.hold(&["tank/a@3".to_owned(), "tank/v@1".to_owned()], "busy").unwrap();
    pool.release(&["tank/a@3".to_owned()], "busy").unwrap();
    pool.destroy_snapshots(&["tank/v@1".to_owned()], true).unwrap();
    pool.sync().unwrap();
}

/// A permission by the key of its holder.
pub fn given(key: &str, permission: &str) -> Delegation {
    Delegation { who: WhoKey::parse(key).unwrap(), permissions: vec![permission.to_owned()] }
}

/// Makes two snapshots of a dataset, and makes them of one txg.
pub fn twins(pool: &LivePool, dataset: &str, older: &str, younger: &str) {
    let (first, second) = (format!("{dataset}@{older}"), format!("{dataset}@{younger}"));
    pool.snapshot(std::slice::from_ref(&first), Vec::new()).unwrap();
    pool.snapshot(std::slice::from_ref(&second), Vec::new()).unwrap();
    let look = pool.look().unwrap();
    let of = |name: &str| look.dsl().by_name(name).unwrap();
    let (first, mut second, mut head) = (of(&first), of(&second), of(dataset));
    assert_eq!(head.phys.prev_snap, second.object);
    second.phys.creation_txg = first.phys.creation_txg;
    head.phys.prev_snap_txg = first.phys.creation_txg;
    drop(look);
    pool.run(move |cx| {
        for ds in [&second, &head] {
            let object = cx.dsl().mos.object(ds.object)?;
            let bonus = ds.phys.encode(object.dnode().endian);
            object.set_bonus(cx.tx, DmuType::DSL_DATASET, &bonus)?;
        }
        Ok(())
    })
    .unwrap();
}

/// Everything the tree of datasets says, to the bit, and the counts of features.
pub fn exact(pool: &Pool) -> String {
    let mut out = String::new();
    each(pool, |d, properties| {
        let mut dir = d.dir.phys;
        if d.name == "tank" {
            // The space of the MOS counts for it, and every txg changes that.
            (dir.used, dir.compressed, dir.uncompressed) = (0, 0, 0);
            dir.used_breakdown = Default::default();
        }
        writeln!(out, "{} {} {:?} {dir:?}", d.name, d.object, d.phys).unwrap();
        writeln!(out, "  {properties:?}").unwrap();
    });
    writeln!(out, "{:?}", counts(pool)).unwrap();
    out
}

/// The counts of features as the tables in the pool have them, however and whenever it was opened.
fn counts(pool: &Pool) -> Vec<(String, u64)> {
    let mut out = Vec::new();
    let directory = pool.directory().unwrap();
    for table in ["features_for_read", "features_for_write"] {
        let table = pool.mos().object(directory.need_u64(table).unwrap()).unwrap();
        for entry in engine::inside::dmu::Zap::open(&table).unwrap().entries() {
            let entry = entry.unwrap();
            let name = String::from_utf8_lossy(entry.name.bytes().unwrap()).into_owned();
            out.push((name, entry.u64().unwrap()));
        }
    }
    // What every txg changes.
    out.retain(|(guid, _)| !guid.contains("spacemap"));
    out.sort();
    out
}

/// Two states are one; otherwise the first lines that differ are told.
#[track_caller]
pub fn same(found: &str, wanted: &str, context: &str) {
    if found == wanted {
        return;
    }
    let differs = found.lines().zip(wanted.lines()).find(|(a, b)| a != b);
    let (a, b) = differs.unwrap_or(("", "one is longer"));
    let at = a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count().saturating_sub(60);
    let part = |line: &str| line.chars().skip(at).take(160).collect::<String>();
    let name = a.split(' ').next().unwrap_or_default();
    panic!("{context}: {name}:\n  found  …{}\n  wanted …{}", part(a), part(b));
}

/// What is the same each time a task is done, whatever the time and the random numbers are.
pub fn state(pool: &Pool) -> String {
    const VARIES: [&str; 10] = [
        "guid",
        "createtxg",
        "creation",
        "objsetid",
        "available",
        "snapshots_changed",
        "logicalused",
        "logicalreferenced",
        "compressratio",
        "refcompressratio",
    ];
    let mut out = String::new();
    each(pool, |d, properties| {
        let p = &d.phys;
        writeln!(out, "{} {} {} {} {}", d.name, p.referenced, p.unique, p.num_children, p.flags)
            .unwrap();
        for (name, value) in properties {
            if !VARIES.contains(&name.as_str()) {
                // A list of clones comes in the order of a hash table.
                let mut words: Vec<_> = value.split([',', ' ']).collect();
                words.sort_unstable();
                writeln!(out, "  {name}={words:?}").unwrap();
            }
        }
    });
    let mut counts = counts(pool);
    // In use while something waits to be freed.
    counts.retain(|(guid, _)| guid != "com.delphix:async_destroy");
    counts.retain(|(guid, _)| !guid.contains("empty_bpobj"));
    writeln!(out, "{counts:?} {}", pool.config().vdev_tree.children.len()).unwrap();
    writeln!(out, "{:?} {}", pool.config().comment, pool.spares().len()).unwrap();
    out
}

fn each(pool: &Pool, mut with: impl FnMut(&Dataset, Vec<(String, String)>)) {
    let dsl = pool.dsl();
    let context = PropertyContext { pool_size: Some(1 << 30), altroot: None };
    for (name, found) in dsl.datasets() {
        let dataset = found.unwrap_or_else(|e| panic!("{name}: {e}"));
        let mut all = Vec::new();
        for p in dsl.properties(&dataset, &context).unwrap() {
            all.push((p.name.to_string(), format!("{} {:?}", p.value, p.source)));
        }
        if dataset.is_snapshot() {
            let holds = dsl.holds(&dataset).unwrap();
            all.extend(holds.into_iter().map(|h| (format!("hold {}", h.tag), String::new())));
        } else {
            let given = dsl.delegations(&dataset.dir).unwrap();
            let given = given.into_iter().map(|d| (d.who.format(), d.permissions.join(",")));
            all.extend(given);
            let marks = dsl.bookmarks(&dataset).unwrap();
            all.extend(marks.into_iter().map(|b| (b.name, String::new())));
        }
        // As above.
        const OF_MOS: [&str; 5] =
            ["used", "available", "usedbychildren", "logicalused", "compressratio"];
        all.retain(|(name, _)| {
            !OF_MOS.contains(&name.as_str()) || dataset.name != "tank" && name != "available"
        });
        with(&dataset, all);
    }
}
