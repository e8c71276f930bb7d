//! The pool of the study, and its one large file.
//!
//! Three disks side by side, sectors of 512 bytes, and a file of 8 KiB records. What is known of
//! it is how well its indirect blocks compressed: 8 bytes and less for each pointer of 128. That
//! says how it was made. Pointers to blocks of random bytes differ in 32 bytes of checksum and do
//! not compress so well; those to blocks of zeros that were stored as they are, without
//! compression, all have the same checksum and differ in the address only. So the file is of zeros,
//! with `compression=off`; metadata are compressed with LZ4 and have two copies
//! (`redundant_metadata=all`), both defaults of the time. (LZJB needs a third more for L1.)
//!
//! The pointers in its L2 blocks took 54 to 56 bytes: more than checksum and addresses of L1
//! blocks that lie side by side, as here all L1 blocks of a txg do. So neighbouring L1 blocks lay
//! apart. Here they do when the file is written at many places at once, so that neighbours are of
//! different txgs.
//!
//! Zeros cost nothing here: one block in memory stands for all of them, and a disk in memory keeps
//! no page of zeros. So 80 GB take what their metadata take.

use crate::striped::striped;
use engine::inside::device::{AlignedBuf, MemoryDevice, WriteDeviceRef};
use engine::inside::dmu::Hold;
use engine::inside::ondisk::Endian;
use engine::inside::ondisk::znode::Time;
use engine::inside::pool::live;
use engine::inside::pool::live::{
    CreateOptions, Devices, ImportOptions, LivePool, NewFilesystem, Setting, Tunable,
};
use engine::inside::pool::look_at_device;
use engine::inside::rt::{CpuModel, Rt};
use engine::inside::zio::Block;
use engine::inside::zpl::write::{NewFile, NewKind};
use engine::{Candidate, Filesystem, OpenOptions, Pool};
use std::path::PathBuf;
use std::sync::Arc;

/// Whatever went wrong, in words.
pub(super) type Error = Box<dyn std::error::Error + Send + Sync>;
pub(super) type Result<T> = std::result::Result<T, Error>;

/// Bytes of a record.
pub(super) const RECORD: u64 = 8 << 10;
/// Name of the pool.
const POOL: &str = "lab";
/// Name of the file system.
pub(super) const DATASET: &str = "lab/data";
/// Name of the file.
pub(super) const FILE: &[u8] = b"file";
/// Writers of the file, each of its own part, from its first block to its last.
pub(super) const WRITERS: u64 = 64;
/// Blocks that each writes in a txg: 64 MiB of all of them, where txgs of that time were pushed.
const BATCH: u64 = 128;

/// Properties of the file system, beside its compression.
pub(super) const PROPERTIES: [(&str, &str); 2] = [("recordsize", "8K"), ("atime", "off")];

/// What is made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    /// Blocks of the file.
    pub(super) blocks: u64,
    /// log2 of the bytes of an indirect block.
    pub(super) indirect_shift: u8,
    /// Disks.
    pub(super) disks: usize,
    /// Bytes of each.
    pub(super) disk_bytes: u64,
}

/// Decides the guids of what is made.
const SEED: u64 = 1;

/// Disks with the pool on them, exported.
pub(super) struct Image {
    /// What is on each disk.
    pub(super) disks: Vec<MemoryDevice>,
}

impl Image {
    /// The same once more, independent from now on.
    pub(super) fn fork(&self) -> Self {
        Self { disks: self.disks.iter().map(MemoryDevice::fork).collect() }
    }
}

pub(super) fn now() -> Time {
    Time { seconds: 1_465_516_800, nanos: 0 }
}

pub(super) fn name(disk: usize) -> String {
    format!("disk{disk}")
}

/// Creates the pool on `disks`, and the file system.
pub(super) fn create_pool(
    rt: &Rt,
    disks: &[WriteDeviceRef],
    compression: &str,
) -> Result<LivePool> {
    let named = disks.iter().enumerate().map(|(n, disk)| (name(n), Arc::clone(disk)));
    let (devices, tops) = striped(named);
    let compressed = [("compression", compression)];
    let of_file = PROPERTIES.iter().chain(&compressed);
    let options = CreateOptions {
        ashift: Some(9),
        fs_properties: of_file.map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect(),
        read_ahead_bytes: 0,
        ..CreateOptions::new(POOL, tops)
    };
    let pool = live::create(rt, &options, &devices)?;
    pool.create_filesystem(DATASET, NewFilesystem::default(), Vec::new())?;
    Ok(pool)
}

/// The pool as a search finds it on `disks`.
pub(super) fn candidate(disks: &[WriteDeviceRef]) -> Result<Candidate> {
    let look = |(n, disk): (usize, &WriteDeviceRef)| {
        look_at_device(&Arc::clone(disk).as_device(), PathBuf::from(name(n)))
    };
    let found: Vec<_> = disks.iter().enumerate().filter_map(look).collect();
    Ok(Candidate::group(&found).into_iter().next().ok_or("no pool on the disks")?)
}

pub(super) fn options(rt: &Rt, cache_bytes: usize) -> OpenOptions {
    let rt = rt.clone();
    OpenOptions { rt, cache_bytes, read_ahead_bytes: 0, ..OpenOptions::default() }
}

/// Opens what is on `disks` for reading.
pub(super) fn open(rt: &Rt, disks: &[WriteDeviceRef], cache_bytes: usize) -> Result<Pool> {
    Ok(Pool::open_candidate(&candidate(disks)?, &options(rt, cache_bytes))?)
}

/// Opens it for writing.
pub(super) fn import(rt: &Rt, disks: &[WriteDeviceRef], cache_bytes: usize) -> Result<LivePool> {
    let options = ImportOptions::new(options(rt, cache_bytes));
    let source: Devices = (0..).zip(disks).map(|(n, d)| (name(n), Arc::clone(d))).collect();
    Ok(live::import(rt, &candidate(disks)?, &options, &source)?)
}

/// An empty file of this length, with this size of indirect blocks; its object.
pub(super) fn new_file(pool: &LivePool, fs: &Filesystem, blocks: u64, shift: u8) -> Result<u64> {
    let value = u64::from(shift);
    pool.set_tunable(Setting { tunable: Tunable::DefaultIbs, value });
    let new = NewFile::new(NewKind::File, 0o644, now());
    let file = fs.create(fs.root_object(), FILE, &new)?.number();
    fs.truncate(file, blocks * RECORD, now())?;
    Ok(file)
}

/// Makes the file in `fs`, of blocks of zeros that are stored, by [`WRITERS`].
pub(super) fn make_file(pool: &LivePool, fs: &Filesystem, blocks: u64, shift: u8) -> Result<()> {
    let file = new_file(pool, fs, blocks, shift)?;
    let object = fs.objset().object(file)?;
    let zeros = AlignedBuf::zeroed(RECORD as usize);
    let zeros = Arc::new(Block::new(zeros, Endian::Little));
    let part = blocks.div_ceil(WRITERS).next_multiple_of(BATCH);
    for round in 0..part / BATCH {
        for writer in 0..WRITERS {
            let first = writer * part + round * BATCH;
            let end = (first + BATCH).min(blocks);
            if first >= end {
                continue;
            }
            let tx = fs.begin(Hold::write((end - first) * RECORD))?;
            for block in first..end {
                object.write_shared(&tx, block, &zeros)?;
            }
        }
        pool.sync()?;
    }
    Ok(())
}

/// Runs `body` in a simulation that this seed decides, on a thread of its own.
pub(super) fn simulate<T: Send + 'static>(
    seed: u64,
    body: impl FnOnce(&Rt) -> Result<T> + Send + 'static,
) -> Result<T> {
    let thread = std::thread::Builder::new().name("indirect".to_owned());
    let ran = thread.spawn(move || Rt::simulate(seed, body))?.join();
    ran.map_err(|_| "the simulation panicked")?
}

/// Makes the pool and the file, in a simulation, so that it is the same each time.
pub(super) fn make(plan: Plan) -> Result<Image> {
    simulate(SEED, move |rt| make_here(rt, plan))
}

/// Has a txg synced by one thread, or again by several. Where devices take no time, several only
/// hand each block to each other.
pub(super) fn by_one_thread(rt: &Rt, one: bool) {
    let model =
        CpuModel { processors: 1, costs: Vec::new(), contention_percent: 0, crowding_percent: 0 };
    rt.set_cpu(one.then_some(model));
}

fn make_here(rt: &Rt, plan: Plan) -> Result<Image> {
    by_one_thread(rt, true);
    let disk = |n| Arc::new(MemoryDevice::zeros(&name(n), plan.disk_bytes));
    let disks: Vec<Arc<MemoryDevice>> = (0..plan.disks).map(disk).collect();
    let devices: Vec<WriteDeviceRef> = disks.iter().map(|d| Arc::clone(d) as _).collect();
    let pool = create_pool(rt, &devices, "off")?;
    let fs = pool.filesystem(DATASET)?;
    make_file(&pool, &fs, plan.blocks, plan.indirect_shift)?;
    drop(fs);
    pool.export()?;
    drop(devices);
    Ok(Image { disks: disks.iter().map(|d| d.fork()).collect() })
}
