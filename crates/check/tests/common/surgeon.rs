//! Wrong content under right checksums.
//!
//! A check that trusts checksums alone would find nothing here: a block is changed, compressed
//! again, and every checksum above it made right, up to the uberblocks in all labels. Blocks are
//! written through the vdevs, so that mirrors hold them twice and parity fits.

use codec::checksum::{Algorithm, ByteOrder, Salted, compute, seal_label};
use codec::compress;
use device::{DeviceSource as _, LocalDevices, Shared};
use ondisk::blkptr::BLKPTR_SIZE;
use ondisk::config::VdevConfig;
use ondisk::dnode::{DNODE_CORE_SIZE, DNODE_SLOT_SIZE};
use ondisk::label::{Part, label_offsets};
use ondisk::uberblock::{Uberblock, slot_size};
use ondisk::{BlkPtr, Checksum, Compression, Dnode, Dva, Endian};
use pool::Pool;
use pool::UnguardedDatasets as _;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use testkit::CorpusPool;
use vdev::queue::IoClass;
use vdev::{BlockWrite, LeafOpen, VdevTree};

/// Offset of the root pointer in a dataset.
const DATASET_BP: usize = 16 * 8;
/// Offset of the root pointer in an uberblock.
const UBERBLOCK_BP: usize = 40;

/// A pool on a private copy of its images.
pub struct Surgeon {
    dir: tempfile::TempDir,
    disks: Vec<File>,
    name: String,
}

impl Surgeon {
    /// Copies the images of a case: `disk.img` of one disk, `disk0.img` and so on of several.
    pub fn new(corpus: &CorpusPool) -> Self {
        let dir = tempfile::tempdir().expect("a folder for temporary files");
        let mut disks = Vec::new();
        for (n, image) in corpus.images.iter().enumerate() {
            let number = if corpus.images.len() == 1 { String::new() } else { n.to_string() };
            let copy = dir.path().join(format!("disk{number}.img"));
            testkit::SparseImage::load(image).unwrap().save(&copy).unwrap();
            disks.push(fs::OpenOptions::new().read(true).write(true).open(&copy).unwrap());
        }
        Self { dir, disks, name: corpus.name().to_owned() }
    }

    /// One disk more in the folder, empty and as large as the first.
    pub fn add_disk(&mut self) -> std::path::PathBuf {
        let path = self.dir.path().join(format!("disk{}.img", self.disks.len() + 1));
        let disk = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
        disk.set_len(self.disks[0].metadata().unwrap().len()).unwrap();
        self.disks.push(disk);
        path
    }

    /// The folder of the copy.
    pub fn dir(&self) -> &std::path::Path {
        self.dir.path()
    }

    /// Opens the pool as it is now.
    pub fn open(&self) -> Pool {
        super::open(self.dir.path(), &self.name)
    }

    /// Checks the pool as it is now; the names of the issues found, each once, sorted.
    pub fn check(&self) -> Vec<&'static str> {
        let report = self.report();
        let mut names: Vec<_> = report.issues.iter().map(check::Issue::name).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Checks the pool as it is now.
    pub fn report(&self) -> check::Report {
        check::run(&self.open(), &check::CheckOptions::default(), &rt::Progress::new())
    }

    /// Overwrites bytes of the first disk, labels included in the offset.
    pub fn scribble(&self, offset: u64, bytes: &[u8]) {
        self.disks[0].write_all_at(bytes, offset).unwrap();
    }

    /// Zeroes copy `copy` of a block, wherever redundancy keeps it.
    pub fn destroy(&self, bp: &BlkPtr, copy: usize) {
        let dva = bp.dva(copy);
        assert!(dva.asize() > 0, "no such copy");
        self.put(&self.open(), &[dva], &vec![0; bp.psize() as usize]);
    }

    /// Zeroes all copies of a block.
    pub fn destroy_all(&self, bp: &BlkPtr) {
        let places: Vec<Dva> = bp.dvas().map(|(_, dva)| dva).collect();
        assert!(!places.is_empty(), "an embedded block");
        self.put(&self.open(), &places, &vec![0; bp.psize() as usize]);
    }

    /// Writes bytes as the blocks at these addresses, on the devices of the pool as it was opened.
    fn put(&self, pool: &Pool, places: &[Dva], bytes: &[u8]) {
        let place_of = |guid: &u64| pool.candidate().leaves.get(guid).map(|seen| &seen.path);
        let rt = rt::Rt::current();
        let mut open = |c: &VdevConfig| match place_of(&c.guid) {
            Some(path) => LeafOpen::Writable(LocalDevices::default().claim(path).unwrap()),
            None => LeafOpen::Missing,
        };
        let tree = VdevTree::build(&rt, &pool.config().vdev_tree, &mut open).unwrap();
        let (done, answers) = std::sync::mpsc::channel();
        let block = |dva: &Dva| BlockWrite {
            dva: *dva,
            data: Shared::copy_of(bytes),
            birth: pool.uberblock().txg,
            class: IoClass::AsyncWrite,
            done: {
                let done = done.clone();
                Box::new(move |result| done.send(result).unwrap())
            },
        };
        tree.write_batch(places.iter().map(block).collect());
        answers.iter().take(places.len()).for_each(|result| result.unwrap());
    }

    /// Writes new content in place of a block; returns its pointer with the new checksum.
    fn rewrite(&self, pool: &Pool, bp: &BlkPtr, content: &[u8]) -> BlkPtr {
        assert!(!bp.is_embedded() && !bp.uses_crypt() && !bp.is_gang());
        let size = bp.psize() as usize;
        // The best compression there is, so that what was compressed before fits again.
        let (mut stored, compression) = match bp.compression() {
            Compression::OFF => (content.to_vec(), Compression::OFF),
            _ => {
                let best = Compression::GZIP_9;
                let algorithm = compress::from_number(best.0).expect("known compression");
                (compress::compress(algorithm, content).expect("still compresses"), best)
            }
        };
        assert!(stored.len() <= size, "{} bytes do not fit {size}", stored.len());
        stored.resize(size, 0);
        self.put(pool, &bp.dvas().map(|(_, dva)| dva).collect::<Vec<_>>(), &stored);
        assert!(matches!(bp.checksum_kind(), Checksum::FLETCHER_4 | Checksum::ON));
        let salted = Salted::new(&[0; 32]);
        let digest = compute(Algorithm::Fletcher4, order(bp.byteorder()), &salted, &stored);
        let mut words = *bp.words();
        words[12..16].copy_from_slice(&digest.0);
        words[6] = (words[6] & !(0x7f << 32)) | (u64::from(compression.0) << 32);
        BlkPtr::from_words(words)
    }

    /// Changes a block of an object (0: the meta dnode) and all checksums above it.
    pub fn edit_block(
        &self,
        (objset, object): (u64, u64),
        (level, blkid): (u8, u64),
        change: impl FnOnce(&mut Vec<u8>),
    ) {
        let pool = self.open();
        let mut change = Some(change);
        self.edit(&pool, (objset, object), (level, blkid), &mut |b| {
            change.take().expect("changed once")(b);
        });
    }

    fn edit(
        &self,
        pool: &Pool,
        (set, number): (u64, u64),
        (level, blkid): (u8, u64),
        change: &mut dyn FnMut(&mut Vec<u8>),
    ) {
        let objset = objset(pool, set);
        let object = match number {
            0 => objset.meta_object().unwrap(),
            n => objset.object(n).unwrap(),
        };
        let bp = object.block_pointer(level, blkid).unwrap().expect("the block exists");
        let mut bytes =
            pool.store().read_plain(&bp, object.place(level, blkid)).expect("readable").to_vec();
        change(&mut bytes);
        let bp = self.rewrite(pool, &bp, &bytes);
        let encoded = bp.encode(object.dnode().endian);
        let dnode = object.dnode();
        if level + 1 < dnode.levels {
            let fanout = dnode.pointers_per_indirect();
            let at = (blkid % fanout) as usize * BLKPTR_SIZE;
            self.edit(pool, (set, number), (level + 1, blkid / fanout), &mut |b| {
                b[at..at + BLKPTR_SIZE].copy_from_slice(&encoded);
            });
        } else {
            let at = DNODE_CORE_SIZE + blkid as usize * BLKPTR_SIZE;
            self.edit_raw_dnode(pool, (set, number), &mut |d| {
                d[at..at + BLKPTR_SIZE].copy_from_slice(&encoded);
            });
        }
    }

    /// Changes the bytes of an object's dnode.
    pub fn edit_dnode(&self, (set, number): (u64, u64), change: impl FnOnce(&mut [u8])) {
        let pool = self.open();
        let mut change = Some(change);
        self.edit_raw_dnode(&pool, (set, number), &mut |d| {
            change.take().expect("changed once")(d);
        });
    }

    fn edit_raw_dnode(
        &self,
        pool: &Pool,
        (set, number): (u64, u64),
        change: &mut dyn FnMut(&mut [u8]),
    ) {
        if number == 0 {
            return self.edit_header(pool, set, &mut |b| change(&mut b[..DNODE_SLOT_SIZE]));
        }
        let meta = objset(pool, set).meta_object().unwrap();
        let per_block = meta.dnode().block_size() / DNODE_SLOT_SIZE as u64;
        let at = (number % per_block) as usize * DNODE_SLOT_SIZE;
        self.edit(pool, (set, 0), (0, number / per_block), &mut |b| change(&mut b[at..]));
    }

    fn edit_header(&self, pool: &Pool, set: u64, change: &mut dyn FnMut(&mut [u8])) {
        let root = objset(pool, set).root();
        let block = pool.store().read_plain(&root, zio::Place::objset(set)).expect("readable");
        let mut bytes = block.to_vec();
        change(&mut bytes);
        let bp = self.rewrite(pool, &root, &bytes);
        if set == 0 {
            return self.edit_uberblocks(pool, &bp);
        }
        let dnode = objset(pool, 0).object(set).unwrap();
        let at = bonus_at(dnode.dnode()) + DATASET_BP;
        let encoded = bp.encode(dnode.dnode().endian);
        self.edit_raw_dnode(pool, (0, set), &mut |d| {
            d[at..at + BLKPTR_SIZE].copy_from_slice(&encoded);
        });
    }

    /// Puts a root pointer into all uberblocks of the txg that is open.
    fn edit_uberblocks(&self, pool: &Pool, bp: &BlkPtr) {
        let ashift = pool.config().vdev_tree.children[0].ashift.unwrap_or(9);
        let size = slot_size(ashift);
        let changed = self.disks.iter().map(|disk| edit_ring(disk, pool, bp, size)).sum::<usize>();
        assert!(changed > 0, "no uberblock of the open txg");
    }

    /// Changes the word at byte `byte` of an object's bonus.
    pub fn edit_bonus(&self, (set, number): (u64, u64), byte: usize, f: impl FnOnce(u64) -> u64) {
        let pool = self.open();
        let dnode = objset(&pool, set).object(number).unwrap();
        let at = bonus_at(dnode.dnode()) + byte;
        let mut f = Some(f);
        self.edit_raw_dnode(&pool, (set, number), &mut |d| {
            edit_word(d, at, f.take().expect("changed once"));
        });
    }
}

/// Puts a root pointer into the uberblocks of a disk that are of the open txg; how many.
fn edit_ring(disk: &File, pool: &Pool, bp: &BlkPtr, size: usize) -> usize {
    let mut changed = 0;
    for start in label_offsets(disk.metadata().unwrap().len()).unwrap() {
        for slot in 0..Part::Ring.size() / size as u64 {
            let at = start + Part::Ring.start() + slot * size as u64;
            let mut bytes = vec![0; size];
            disk.read_exact_at(&mut bytes, at).unwrap();
            let Ok((ub, endian)) = Uberblock::decode(&bytes) else { continue };
            if ub.txg != pool.uberblock().txg {
                continue;
            }
            let end = UBERBLOCK_BP + BLKPTR_SIZE;
            bytes[UBERBLOCK_BP..end].copy_from_slice(&bp.encode(endian));
            seal_label(&mut bytes, order(endian), at).unwrap();
            disk.write_all_at(&bytes, at).unwrap();
            changed += 1;
        }
    }
    changed
}

/// Where the bonus begins in a dnode.
pub fn bonus_at(dnode: &Dnode) -> usize {
    DNODE_CORE_SIZE + dnode.blkptrs.len() * BLKPTR_SIZE
}

/// Changes a little-endian word.
pub fn edit_word(bytes: &mut [u8], at: usize, f: impl FnOnce(u64) -> u64) {
    let word: [u8; 8] = bytes[at..at + 8].try_into().unwrap();
    bytes[at..at + 8].copy_from_slice(&f(u64::from_le_bytes(word)).to_le_bytes());
}

fn order(e: Endian) -> ByteOrder {
    match e {
        Endian::Little => ByteOrder::Little,
        Endian::Big => ByteOrder::Big,
    }
}

/// The object set of a dataset; 0 is the MOS.
pub fn objset(pool: &Pool, set: u64) -> dmu::Objset {
    if set == 0 {
        return pool.mos().clone();
    }
    let root = pool.dsl().root().unwrap();
    let d = pool.dsl().dataset(set, "edited".to_owned(), &root).unwrap();
    pool.dsl().objset(&d).unwrap()
}

/// Reading without a key.
trait ReadPlain {
    fn read_plain(&self, bp: &BlkPtr, place: zio::Place) -> zio::Result<Vec<u8>>;
}

impl ReadPlain for dmu::CachedStore {
    fn read_plain(&self, bp: &BlkPtr, place: zio::Place) -> zio::Result<Vec<u8>> {
        use dmu::BlockStore as _;
        Ok(self.read(bp, place, None)?.to_vec())
    }
}
