//! H8: what the order of a scrub is worth, and how much of it is under way.
//!
//! Four reports (2016 to 2023) say how fast pools of hard disks were scrubbed or resilvered: in the
//! order of bookmarks (each dataset, file and block as the tree leads to them) and in that of
//! the disks, with less and with more under way, and how long a mirror's new side took in the order
//! of its space.
//!
//! # What of the engine is compared
//!
//! *In disk order* is the scrub as it is: blocks are collected, and read in the order of their
//! addresses. *By bookmark* is the scrub with `zfs_scan_legacy`, which sorts 16 MiB at a time. What
//! is under way is `zfs_scan_vdev_limit`. A rebuild goes in the order of space.
//!
//! The committed prediction was made when the engine had the scrub by bookmark only; in disk order
//! was `zinc check` then, whose batch was what is under way.
//!
//! # The machines
//!
//! No report names a disk that has a data sheet here: all are those of 7200 rpm of the other
//! studies held out, with 150 MB/s outside. Pools are of the reports' layouts, and of a part of
//! their bytes ([`Plan`]): disks are smaller in the same proportion, so that what is allocated is
//! the same part of the stroke, seeks over it take as long, and so do turns and transfers. So a
//! rate per disk carries over. Equal vdevs that share nothing carry over by their number: of
//! eight RAID-Z vdevs one is simulated. What a full-size pool has and a small one has not is a walk
//! whose metadata are far apart. Processors and controllers cost nothing.
//!
//! Of what is in the pools the reports say little. Trees of small files are files of 16 KiB, one
//! after the other. Other files are written by four programs at once, a MiB each in turn. *Aged*
//! pools have had as many records overwritten at random places as there are. Memory holds nothing:
//! each pool was imported just before.

use super::machine::{disk_7200, parameters_of_disk};
use super::{Published, meaning, row, value};
use crate::disk::{Preset, Spec};
use crate::error::LabError;
use crate::experiment::{Experiment, OnDevice, Setting};
use crate::outcome::{Chart, Outcome, Series};
use crate::parameter::{Number, Origin, Parameter};
use crate::row::{Bound, Kind};
use crate::stream::{self, RECORD_BYTES, WRITE_BYTES};
use crate::target::Target;
use crate::what_if::Layout;
use engine::inside::device::{SimDisks, WriteDeviceRef};
use engine::inside::ondisk::znode::Time;
use engine::inside::pool::live;
use engine::inside::pool::live::{
    CreateOptions, Devices, ImportOptions, LivePool, NewFilesystem, ResilverKind,
    Setting as Tunable, VdevSpec,
};
use engine::inside::pool::look_at_device;
use engine::inside::rt::{Rng as _, Rt, Xoshiro256};
use engine::inside::zpl::write::{NewFile, NewKind};
use engine::{Candidate, OpenOptions};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "h8-scan-order",
    about: "held out: scrubs by bookmark and in the disks' order",
    preset: "hdd-16t",
    memory_mib: 512,
    seconds: 20,
    on_device: OnDevice::Nothing,
    numbers: &[
        AGED.between(0.0, MOST_AGED),
        FILES_AGED.between(0.0, MOST_AGED),
        TREES_AGED.between(0.0, MOST_AGED),
        CACHED,
        ACTIVE.between(1.0, 1000.0),
        MIRROR_PART.between(0.001, 1.0),
    ],
    run,
};

/// What a workload fails with.
type Error = Box<dyn std::error::Error + Send + Sync>;

/// Rate of the platter outside, as for the other disks of that time.
const MEDIA_BYTES_PER_S: f64 = 150e6;
/// Memory for blocks.
const CACHE_BYTES: usize = 64 << 20;
/// Bytes of a small file.
const SMALL_BYTES: u64 = 16 << 10;
/// Programs that write at once.
const PROGRAMS: u64 = 4;
/// What makes scrubs and resilvers follow bookmarks.
const BY_BOOKMARK: &str = "zfs_scan_legacy=1";
/// Bytes of a vdev's leaf that a scrub has under way unless something else is said.
const UNDER_WAY: u64 = 16 << 20;
/// The smaller limit.
const LESS_UNDER_WAY: u64 = 4 << 20;
/// Parts in which records are overwritten, a txg each.
const AGEING: u64 = 64;
/// How often something is overwritten at most, by a number of the machine.
const MOST_AGED: f64 = 100.0;

/// How often records of the aged pools were overwritten, on average.
const AGED: Number = Number::new("aged: records overwritten, for each", 1.0, "", Origin::Assumed);
// What the reports leave open, and what of it matters: to be tried.
const FILES_AGED: Number =
    Number::new("4 disks, not aged: records overwritten, for each", 0.0, "", Origin::Assumed);
const TREES_AGED: Number =
    Number::new("80 disks: small files overwritten, for each", 0.0, "", Origin::Assumed);
const CACHED: Number = Number::new("disk: write cache of", 0.0, "MiB", Origin::Assumed);
const ACTIVE: Number =
    Number::whole("requests of a scrub at a disk, at most", 3.0, "", Origin::Assumed);
const MIRROR_PART: Number =
    Number::new("mirror: part of it that is made", 1.0 / 16.0, "", Origin::Assumed);

/// RAID-Z vdevs of the largest pool, of which one is simulated.
const GROUPS: f64 = 8.0;
/// Bytes of the pool of four disks that are allocated.
const ALLOCATED_BYTES: f64 = 3.5e12;
/// Bytes that the mirror has, and those of its two trees of small files, which are not part of what
/// its report counts.
const MIRROR_BYTES: f64 = 21.5 * GIB;
const TREES_BYTES: f64 = 2.0 * 60_000.0 * SMALL_BYTES as f64;
/// Bytes of its disks.
const MIRROR_DISK_BYTES: f64 = 1.8 * GIB * 1024.0;
const GIB: f64 = (1_u64 << 30) as f64;

/// What the reports measured.
const PUBLISHED: &[Published] = &[
    near("80 disks: scrub by bookmark", "MiB/s", 559.0),
    near("80 disks: in disk order", "MiB/s", 1638.4).of_kind(Kind::Derived).following("1.60G/s"),
    near("80 disks: disk order over bookmark", "", 1638.4 / 559.0).following("both rates"),
    near("4 disks: scrub by bookmark, each", "MB/s", 61.0),
    near("4 disks: in disk order, each", "MB/s", 121.0).of_kind(Kind::Derived),
    near("4 disks: disk order over bookmark", "", 121.0 / 61.0).following("both rates"),
    near("4 disks: resilver by bookmark, each", "MB/s", 61.0),
    near("4 disks: scrub by bookmark of 3.5 TB", "h", 4.0).of_kind(Kind::Derived),
    near("4 disks, aged: disk order over bookmark", "", 62.0 / 33.5).following("both times"),
    near("1 disk, aged, 4 MiB under way: in disk order", "MB/s", 80.0),
    near("1 disk, aged, 16 MiB under way: in disk order", "MB/s", 160.0).of_kind(Kind::Derived),
    near("1 disk, aged: 16 MiB over 4 MiB", "", 2.0).following("both rates"),
    near("mirror: rebuild in the order of space", "s", 106.0),
];

const fn near(row: &'static str, unit: &'static str, value: f64) -> Published {
    Published::predicted(row, unit, value, Bound::Within(0.25))
}

/// What is written into a pool, and how much of its disks that takes.
struct Plan {
    layout: Layout,
    /// Small files.
    files: u64,
    /// MiB in larger ones.
    mib: u64,
    /// How often each file or record is overwritten, on average.
    aged: f64,
    /// Allocated bytes for each byte of the disks.
    fill: f64,
    /// Bytes of a disk's write cache.
    cached: u64,
    tunables: Vec<String>,
}

/// A pool that nothing was read of since it was imported.
struct Pool {
    live: LivePool,
    /// A disk that is not part of it.
    other: (String, WriteDeviceRef),
    disks: usize,
    allocated: u64,
}

impl Plan {
    fn disks(&self) -> usize {
        self.layout.width()
    }

    /// Bytes of a disk.
    fn capacity(&self) -> u64 {
        let bytes = (self.files * SMALL_BYTES + (self.mib << 20)) as f64 * self.layout.copies();
        let least = (256_u64 << 20) as f64;
        (bytes / self.disks() as f64 / self.fill).max(least) as u64 >> 20 << 20
    }

    fn tunables(&self) -> Result<Vec<Tunable>, Error> {
        self.tunables.iter().map(|text| Ok(Tunable::parse(text)?)).collect()
    }

    fn pool(&self, rt: &Rt, seed: u64) -> Result<Pool, Error> {
        let site = SimDisks::new(rt);
        let size = self.capacity();
        let mut preset: Preset = disk_7200(size, MEDIA_BYTES_PER_S, 1.0);
        if let Spec::Rotating(spec) = &mut preset.disk {
            (spec.write_cache, spec.write_cache_bytes) = (self.cached > 0, self.cached);
        }
        let mut disks =
            preset.watched(&site, ("disk", self.disks() + 1), size, seed, |_, model| model);
        let other = disks.pop().ok_or("no disks")?;
        let (devices, tops) = self.layout.tops(disks.clone());
        let off = |name: &str| (name.to_owned(), "off".to_owned());
        let options = CreateOptions {
            ashift: Some(12),
            fs_properties: vec![off("compression"), off("checksum"), off("atime")],
            cache_bytes: CACHE_BYTES,
            read_ahead_bytes: 0,
            tunables: self.tunables()?,
            ..CreateOptions::new("h", tops)
        };
        let live = live::create(rt, &options, &devices)?;
        small_files(&live, (self.files, self.aged), seed)?;
        larger_files(&live, self.mib, self.aged, seed)?;
        live.export()?;
        let live = self.imported(rt, &disks)?;
        let allocated = live.view().space().total().allocated;
        Ok(Pool { live, other, disks: self.disks(), allocated })
    }

    fn imported(&self, rt: &Rt, disks: &[(String, WriteDeviceRef)]) -> Result<LivePool, Error> {
        let look = |(name, disk): &(String, WriteDeviceRef)| {
            look_at_device(&Arc::clone(disk).as_device(), PathBuf::from(name))
        };
        let found: Vec<_> = disks.iter().filter_map(look).collect();
        let candidate =
            Candidate::group(&found).into_iter().next().ok_or("no pool on the disks")?;
        let options =
            OpenOptions { cache_bytes: CACHE_BYTES, read_ahead_bytes: 0, ..OpenOptions::default() };
        let source: Devices = disks.iter().cloned().collect();
        let live = live::import(rt, &candidate, &ImportOptions::new(options), &source)?;
        self.tunables()?.into_iter().for_each(|tunable| live.set_tunable(tunable));
        Ok(live)
    }
}

fn small_files(pool: &LivePool, (files, aged): (u64, f64), seed: u64) -> Result<(), Error> {
    const NOW: Time = Time { seconds: 1_500_000_000, nanos: 0 };
    pool.create_filesystem("h/trees", NewFilesystem::default(), Vec::new())?;
    let fs = pool.filesystem("h/trees")?;
    let (data, mut all) = (vec![0; SMALL_BYTES as usize], Vec::new());
    for n in 0..files {
        let new = NewFile::new(NewKind::File, 0o644, NOW);
        let file = fs.create(fs.root_object(), format!("f{n}").as_bytes(), &new)?.number();
        fs.write_at(file, 0, &data, NOW)?;
        all.push(file);
    }
    aging(pool, files, aged, seed, |n| Ok(fs.write_at(all[n as usize], 0, &data, NOW)?))
}

/// Overwrites `things` at random, each `aged` times on average.
fn aging(
    pool: &LivePool,
    things: u64,
    aged: f64,
    seed: u64,
    overwrite: impl Fn(u64) -> Result<(), Error>,
) -> Result<(), Error> {
    let all = (things as f64 * aged) as u64;
    let mut rng = Xoshiro256::seeded(seed);
    for n in 0..all {
        overwrite(rng.below(things))?;
        if n % (all / AGEING).max(1) == 0 {
            pool.sync()?;
        }
    }
    Ok(pool.sync()?)
}

fn larger_files(pool: &LivePool, mib: u64, aged: f64, seed: u64) -> Result<(), Error> {
    let each = mib / PROGRAMS;
    if each == 0 {
        return Ok(());
    }
    let mut files = Vec::new();
    for n in 0..PROGRAMS {
        let name = format!("h/w{n}");
        pool.create_volume(&name, each * WRITE_BYTES, RECORD_BYTES, Vec::new())?;
        files.push(pool.volume(&name)?);
    }
    for number in 0..each {
        files.iter().try_for_each(|f| stream::write_range(f, number..number + 1, RECORD_BYTES))?;
    }
    pool.sync()?;
    let records = each * WRITE_BYTES / u64::from(RECORD_BYTES);
    let zeros = stream::zeros(RECORD_BYTES);
    aging(pool, records * PROGRAMS, aged, seed, |at| {
        Ok(stream::write_record(&files[(at / records) as usize], at % records, &zeros)?)
    })
}

impl Pool {
    /// MB of each disk that are read in a second, by the time for all that is allocated.
    fn rate(&self, took: Duration) -> f64 {
        self.allocated as f64 / self.disks as f64 / took.as_secs_f64().max(1e-9) / 1e6
    }

    /// A scrub with a setting.
    fn scrub(&self, tunable: &str) -> Result<f64, Error> {
        self.live.set_tunable(Tunable::parse(tunable)?);
        let begin = self.live.rt().now();
        self.live.scrub()?;
        self.live.wait_for_scan()?;
        Ok(self.rate(self.live.rt().now().saturating_sub(begin)))
    }

    fn in_disk_order(&self, under_way: u64) -> Result<f64, Error> {
        self.scrub(&format!("zfs_scan_vdev_limit={under_way}"))
    }

    /// The first disk's guid, and what is to come to it.
    fn places(&self) -> (u64, VdevSpec) {
        let first = self.live.stats().vdevs.into_iter().find(|v| v.name.ends_with("disk0"));
        let spec = VdevSpec::Leaf { path: self.other.0.clone(), is_file: false };
        (first.map_or(0, |v| v.guid), spec)
    }

    /// Replaces the first disk; by bookmark.
    fn resilver(&self) -> Result<f64, Error> {
        let (first, spec) = self.places();
        self.live.set_tunable(Tunable::parse(BY_BOOKMARK)?);
        let begin = self.live.rt().now();
        self.live.replace(first, &spec, Arc::clone(&self.other.1))?;
        self.live.wait_for_scan()?;
        Ok(self.rate(self.live.rt().now().saturating_sub(begin)))
    }

    /// Attaches another disk to the first; seconds.
    fn rebuild(&self) -> Result<f64, Error> {
        let (first, spec) = self.places();
        let begin = self.live.rt().now();
        let device = Arc::clone(&self.other.1);
        self.live.attach_by(first, &spec, device, ResilverKind::Sequential)?;
        self.live.wait_for_scan()?;
        Ok(self.live.rt().now().saturating_sub(begin).as_secs_f64())
    }
}

/// A number of things, of which a part is made.
fn part(of: u64, setting: &Setting) -> u64 {
    ((of as f64 * setting.scale) as u64).max(16)
}

/// Bytes of a disk's write cache.
fn cached(setting: &Setting) -> u64 {
    (setting.number(&CACHED) * f64::from(1 << 20)) as u64
}

/// How many requests of a scrub reach a disk.
fn scrubbing(setting: &Setting) -> Vec<String> {
    vec![format!("zfs_vdev_scrub_max_active={}", setting.number(&ACTIVE))]
}

/// One of eight vdevs of ten disks: 5.5 GB of 4 TB are allocated.
fn trees(setting: &Setting) -> Plan {
    Plan {
        layout: Layout::Raidz(2, 10),
        files: part(20_000, setting),
        mib: 0,
        aged: setting.number(&TREES_AGED),
        fill: 439.0 * GIB / 80.0 / 4e12,
        cached: cached(setting),
        tunables: scrubbing(setting),
    }
}

/// Four disks of 4 TB.
fn four(setting: &Setting, aged: &Number) -> Plan {
    Plan {
        layout: Layout::Raidz(1, 4),
        files: 0,
        mib: part(3072, setting),
        aged: setting.number(aged),
        fill: ALLOCATED_BYTES / 16e12,
        cached: cached(setting),
        tunables: scrubbing(setting),
    }
}

/// A disk as one of these four.
fn one(setting: &Setting) -> Plan {
    Plan { layout: Layout::Stripe, mib: part(2048, setting), ..four(setting, &AGED) }
}

/// A mirror of which a sixteenth is made.
fn mirror(setting: &Setting) -> Plan {
    let made = setting.number(&MIRROR_PART);
    let of = |bytes: f64, each: u64| part((bytes * made) as u64 / each, setting);
    let tunables = [
        "zfs_rebuild_scrub_enabled=0",
        "zfs_vdev_rebuild_min_active=8",
        "zfs_vdev_rebuild_max_active=10",
        "zfs_vdev_async_write_min_active=10",
    ];
    Plan {
        layout: Layout::Stripe,
        files: of(TREES_BYTES, SMALL_BYTES),
        mib: of(MIRROR_BYTES, 1 << 20),
        aged: 0.0,
        fill: (MIRROR_BYTES + TREES_BYTES) / MIRROR_DISK_BYTES,
        cached: cached(setting),
        tunables: tunables.map(str::to_owned).to_vec(),
    }
}

/// Does something with a pool that was made for it.
fn with_pool<T>(
    plan: &Plan,
    setting: &Setting,
    work: impl FnOnce(&Pool) -> Result<T, Error>,
) -> Result<T, LabError> {
    let ran = Rt::simulate(setting.seed, |rt| {
        let pool = plan.pool(rt, setting.seed)?;
        let done = work(&pool)?;
        pool.live.close()?;
        Ok::<T, Error>(done)
    });
    ran.map_err(|e: Error| LabError::new("the workload failed", e))
}

/// By bookmark and in disk order; each with a pool that was not read before.
fn orders(plan: &Plan, setting: &Setting) -> Result<[f64; 2], LabError> {
    Ok([
        with_pool(plan, setting, |pool| pool.scrub(BY_BOOKMARK))?,
        with_pool(plan, setting, |pool| pool.in_disk_order(UNDER_WAY))?,
    ])
}

fn run(target: &Target, setting: &Setting) -> Result<Outcome, LabError> {
    target.check(&EXPERIMENT)?;
    let tell = |what: &str| (setting.progress)(what);
    tell("trees of small files");
    let trees = orders(&trees(setting), setting)?.map(|mb| mb * 1e6 * 80.0 / f64::from(1 << 20));
    tell("four disks");
    let plan = four(setting, &FILES_AGED);
    let disks = orders(&plan, setting)?;
    let resilver = with_pool(&plan, setting, Pool::resilver)?;
    let hours = ALLOCATED_BYTES / 4.0 / 1e6 / 3600.0;
    tell("four disks, aged");
    let aged = orders(&four(setting, &AGED), setting)?;
    tell("one disk, aged");
    let limits = [LESS_UNDER_WAY, UNDER_WAY]
        .map(|bytes| with_pool(&one(setting), setting, |pool| pool.in_disk_order(bytes)));
    let [less, more] = limits;
    let (less, more) = (less?, more?);
    tell("a mirror");
    let plan = mirror(setting);
    let whole = (MIRROR_BYTES + TREES_BYTES) / (plan.files * SMALL_BYTES + (plan.mib << 20)) as f64;
    let rebuild = with_pool(&plan, setting, Pool::rebuild)? * whole;
    let one = |name: &str, unit, value| row(PUBLISHED, name, unit, value);
    let points = |pair: [f64; 2]| vec![(1.0, pair[0]), (2.0, pair[1])];
    let named = |name: &str, pair| Series { name: name.to_owned(), points: points(pair) };
    let printed = |names: [&str; 2], part: f64| names.map(|name| value(PUBLISHED, name) * part);
    let of_each = f64::from(1 << 20) / 1e6 / 80.0;
    let of_trees = printed(["80 disks: scrub by bookmark", "80 disks: in disk order"], of_each);
    let of_files = ["4 disks: scrub by bookmark, each", "4 disks: in disk order, each"];
    Ok(Outcome {
        rows: vec![
            one("80 disks: scrub by bookmark", "MiB/s", trees[0]),
            one("80 disks: in disk order", "MiB/s", trees[1]),
            one("80 disks: disk order over bookmark", "", trees[1] / trees[0]),
            one("4 disks: scrub by bookmark, each", "MB/s", disks[0]),
            one("4 disks: in disk order, each", "MB/s", disks[1]),
            one("4 disks: disk order over bookmark", "", disks[1] / disks[0]),
            one("4 disks: resilver by bookmark, each", "MB/s", resilver),
            one("4 disks: scrub by bookmark of 3.5 TB", "h", hours / disks[0]),
            one("4 disks, aged: scrub by bookmark, each", "MB/s", aged[0]),
            one("4 disks, aged: in disk order, each", "MB/s", aged[1]),
            one("4 disks, aged: disk order over bookmark", "", aged[1] / aged[0]),
            one("1 disk, aged, 4 MiB under way: in disk order", "MB/s", less),
            one("1 disk, aged, 16 MiB under way: in disk order", "MB/s", more),
            one("1 disk, aged: 16 MiB over 4 MiB", "", more / less),
            one("mirror: rebuild in the order of space", "s", rebuild),
        ],
        parameters: parameters(setting),
        charts: vec![Chart {
            title: "Scrubs by bookmark (1) and in disk order (2)".to_owned(),
            x: "order".to_owned(),
            y: "MB/s of each disk".to_owned(),
            x_log: false,
            bars: false,
            series: vec![
                named("trees", trees.map(|mib| mib * of_each)),
                named("trees, published", of_trees),
                named("files", disks),
                named("files, published", printed(of_files, 1.0)),
                named("aged files", aged),
            ],
        }],
        meaning,
        ..Outcome::new(EXPERIMENT.name, target.describe(&EXPERIMENT))
    })
}

fn parameters(setting: &Setting) -> Vec<Parameter> {
    let of = |name: &str, value: f64, unit, origin| Parameter::new(name, value, unit, origin);
    let choice = Parameter::choice;
    let percent = |plan: Plan| plan.fill * 100.0;
    let mut all = vec![
        of("80 disks: raidz2 vdevs, of which one is made", GROUPS, "", Origin::Study),
        of("80 disks: disks of each", 10.0, "", Origin::Study),
        of("80 disks: allocated", percent(trees(setting)), "%", Origin::Assumed),
        of("small file", SMALL_BYTES as f64 / 1024.0, "KiB", Origin::Assumed),
        of("4 disks: raidz1 of", 4.0, "disks", Origin::Study),
        of("4 disks: allocated", percent(four(setting, &FILES_AGED)), "%", Origin::Study),
        of("programs that write at once", PROGRAMS as f64, "", Origin::Assumed),
        of("mirror: larger files", MIRROR_BYTES / GIB, "GiB", Origin::Study),
        of("mirror: trees of small files", TREES_BYTES / GIB, "GiB", Origin::Assumed),
        choice("mirror: rebuild I/Os, writes, at least", "8, 10", Origin::Study),
        of("record", f64::from(RECORD_BYTES >> 10), "KiB", Origin::Assumed),
        of("disk: rate of the platter", MEDIA_BYTES_PER_S / 1e6, "MB/s", Origin::Assumed),
        choice("sectors", "4 KiB", Origin::Assumed),
        setting.part("part of the files that is made", setting.scale, ""),
    ];
    all.extend(EXPERIMENT.numbers.iter().map(|number| setting.parameter(number)));
    all.extend(parameters_of_disk(Origin::Assumed));
    all
}
