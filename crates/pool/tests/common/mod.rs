//! Pools of the collection as sparse images in memory, to be damaged and read.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, unreachable_pub, missing_docs)]
#![allow(clippy::large_enum_variant, reason = "few of them at a time")]

pub mod forge;
pub mod made;

use codec::checksum::{ByteOrder, seal_label};
use device::{Device, DeviceRef, Error, ErrorKind, Read};
use ondisk::BlkPtr;
use ondisk::label::{DATA_START, Part, label_offsets};
use ondisk::nvlist::{NvList, Packing};
use ondisk::uberblock::Uberblock;
use pool::UnguardedDatasets as _;
use pool::{Candidate, OpenOptions, Pool};
use std::collections::BTreeMap;
use std::hash::Hasher as _;
use std::path::PathBuf;
use std::sync::Arc;
use testkit::{CorpusPool, SparseImage};

/// A device over a sparse image.
struct ImageDevice {
    name: Arc<str>,
    image: SparseImage,
}

impl Device for ImageDevice {
    fn name(&self) -> &str {
        &self.name
    }

    fn size(&self) -> u64 {
        self.image.len()
    }

    fn sector_size(&self) -> u32 {
        512
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<(), Error> {
        let fail = Error::read(ErrorKind::Gone, &self.name, offset, buf.len());
        self.image.read_at(offset, buf).map_err(|_| fail)
    }

    fn submit(&self, batch: Vec<Read>) {
        for r in batch {
            let result = self.read_new(r.offset, r.len);
            (r.done)(result);
        }
    }
}

/// The images of a pool, each under the number it has in the collection.
#[derive(Clone)]
pub struct Lab {
    pub name: String,
    pub images: BTreeMap<u32, SparseImage>,
}

impl Lab {
    /// A pool of the collection.
    pub fn corpus(case: &str) -> Self {
        Self::of(&testkit::corpus(case))
    }

    pub fn of(pool: &CorpusPool) -> Self {
        let load = |(n, p): (&u32, &PathBuf)| (*n, SparseImage::load(p).unwrap());
        let images = pool.numbers.iter().zip(&pool.images).map(load).collect();
        Self { name: pool.name().to_owned(), images }
    }

    /// The same without some of its devices.
    pub fn without(&self, numbers: &[u32]) -> Self {
        let mut out = self.clone();
        out.images.retain(|n, _| !numbers.contains(n));
        out
    }

    pub fn image(&mut self, number: u32) -> &mut SparseImage {
        self.images.get_mut(&number).unwrap()
    }

    /// The pools the images hold.
    pub fn candidates(&self) -> Vec<Candidate> {
        let mut found = Vec::new();
        for (number, image) in &self.images {
            let name = Arc::from(format!("image{number}"));
            let device: DeviceRef = Arc::new(ImageDevice { name, image: image.clone() });
            found.extend(pool::look_at_device(&device, PathBuf::from(format!("image{number}"))));
        }
        Candidate::group(&found)
    }

    /// The one pool the images hold.
    pub fn candidate(&self) -> Candidate {
        let mut all = self.candidates();
        assert_eq!(all.len(), 1, "{}", self.name);
        all.pop().unwrap()
    }

    pub fn try_open(&self, options: &OpenOptions) -> pool::Result<Pool> {
        Pool::open_candidate(&self.candidate(), options)
    }

    pub fn open(&self) -> Pool {
        self.try_open(&OpenOptions::default()).unwrap()
    }

    /// Guid of the device with this number, as its label says.
    pub fn guid(&self, number: u32) -> u64 {
        self.labels(number)[0].u64("guid").unwrap()
    }

    /// The label configurations of a device.
    pub fn labels(&self, number: u32) -> Vec<NvList> {
        let image = &self.images[&number];
        let part = |o: u64| {
            let mut bytes = vec![0; Part::Config.size() as usize];
            image.read_at(o + Part::Config.start(), &mut bytes).unwrap();
            ondisk::label::decode_nvlist(&bytes).unwrap()
        };
        label_offsets(image.len()).unwrap().into_iter().map(part).collect()
    }

    /// Writes the configuration of one label anew, sealed in this byte order.
    pub fn set_label(&mut self, number: u32, label: usize, list: &NvList, order: ByteOrder) {
        let image = self.image(number);
        let at = label_offsets(image.len()).unwrap()[label] + Part::Config.start();
        let mut bytes = list.encode(Packing::XDR).unwrap();
        bytes.resize(Part::Config.size() as usize, 0);
        seal_label(&mut bytes, order, at).unwrap();
        image.write_at(at, &bytes).unwrap();
    }

    /// Edits the configurations of all labels of all devices.
    pub fn edit_labels(&mut self, edit: impl Fn(&mut NvList)) {
        for number in self.images.keys().copied().collect::<Vec<_>>() {
            for (label, mut list) in self.labels(number).into_iter().enumerate() {
                edit(&mut list);
                self.set_label(number, label, &list, ByteOrder::Little);
            }
        }
    }

    /// Overwrites one label's configuration with noise.
    pub fn damage_label(&mut self, number: u32, label: usize) {
        let image = self.image(number);
        let at = label_offsets(image.len()).unwrap()[label] + Part::Config.start();
        image.write_at(at, &[0x5a; 4096]).unwrap();
    }

    /// Calls `edit` with every valid uberblock and its slot; what it returns is written back.
    pub fn edit_uberblocks(&mut self, edit: impl Fn(&Uberblock) -> Option<Slot>) {
        let found = self.candidate();
        for number in self.images.keys().copied().collect::<Vec<_>>() {
            let label = self.labels(number)[0].clone();
            let Ok(tree) = label.list("vdev_tree") else { continue };
            let size = ondisk::uberblock::slot_size(tree.u64("ashift").unwrap());
            let guid = label.u64("guid").unwrap();
            for f in found.uberblocks.iter().filter(|f| f.leaf == guid) {
                let Some(slot) = edit(&f.uberblock) else { continue };
                let image = self.image(number);
                let ring = label_offsets(image.len()).unwrap()[f.label] + Part::Ring.start();
                let at = ring + (f.slot * size) as u64;
                let mut bytes = vec![0; size];
                if let Slot::New(ub, order) = slot {
                    let endian = match order {
                        ByteOrder::Little => ondisk::Endian::Little,
                        ByteOrder::Big => ondisk::Endian::Big,
                    };
                    let encoded = ub.encode(endian);
                    bytes[..encoded.len()].copy_from_slice(&encoded);
                    seal_label(&mut bytes, order, at).unwrap();
                }
                image.write_at(at, &bytes).unwrap();
            }
        }
    }

    /// Overwrites all copies of a block with noise. Only in pools of single disks and mirrors.
    pub fn destroy(&mut self, bp: &BlkPtr) {
        assert!(!bp.is_embedded() && !bp.is_hole());
        for image in self.images.values_mut() {
            for (_, dva) in bp.dvas() {
                let noise = vec![0xa5; bp.psize() as usize];
                image.write_at(DATA_START + dva.offset(), &noise).unwrap();
            }
        }
    }
}

/// What to write into a slot of a ring.
pub enum Slot {
    Empty,
    New(Uberblock, ByteOrder),
}

/// What can be read from a pool: a digest or the reason why not, for every file and volume, and
/// for everything on the way that cannot be entered.
pub type Contents = BTreeMap<String, Result<u64, String>>;

pub fn contents(pool: &Pool) -> Contents {
    let mut out = Contents::new();
    for (name, found) in pool.dsl().datasets() {
        match found {
            Ok(found) => dataset(pool, &found, &mut out),
            Err(e) => drop(out.insert(name, Err(e.to_string()))),
        }
    }
    out
}

pub fn dataset(pool: &Pool, dataset: &dsl::Dataset, out: &mut Contents) {
    let name = &dataset.name;
    let objset = match pool.dsl().objset(dataset) {
        Ok(o) => o,
        Err(e) => return drop(out.insert(name.clone(), Err(e.to_string()))),
    };
    if objset.phys().kind == ondisk::objset::ObjsetKind::Zvol {
        let volume = zpl::Volume::open(&objset).map_err(|e| e.to_string());
        let digest = volume.and_then(|v| digest(v.size(), |at, b| v.read_at(at, b)));
        out.insert(name.clone(), digest);
        return;
    }
    let root = zpl::Filesystem::open(objset).and_then(|fs| fs.root());
    match root {
        Ok(root) => tree(root, format!("{name}:"), out),
        Err(e) => drop(out.insert(name.clone(), Err(e.to_string()))),
    }
}

fn tree(root: zpl::Node, path: String, out: &mut Contents) {
    let mut todo = vec![(path, root)];
    while let Some((path, node)) = todo.pop() {
        let value = match node.kind() {
            zpl::FileKind::File => digest(node.size, |at, b| node.read_at(at, b)),
            zpl::FileKind::Dir => match node.entries() {
                Ok(entries) => {
                    for entry in entries {
                        let Ok(entry) = entry else {
                            out.insert(format!("{path}/?"), Err("entry".into()));
                            continue;
                        };
                        let below = format!("{path}/{}", String::from_utf8_lossy(&entry.name));
                        match node.filesystem().node(entry.object) {
                            Ok(child) => todo.push((below, child)),
                            Err(e) => drop(out.insert(below, Err(e.to_string()))),
                        }
                    }
                    Ok(0)
                }
                Err(e) => Err(e.to_string()),
            },
            _ => Ok(1),
        };
        out.insert(path, value);
    }
}

fn digest<E: ToString>(
    size: u64,
    read: impl Fn(u64, &mut [u8]) -> Result<usize, E>,
) -> Result<u64, String> {
    let mut hash = std::hash::DefaultHasher::new();
    let mut buffer = vec![0; 1 << 20];
    let mut at = 0;
    while at < size {
        let n = (size - at).min(buffer.len() as u64) as usize;
        read(at, &mut buffer[..n]).map_err(|e| e.to_string())?;
        hash.write(&buffer[..n]);
        at += n as u64;
    }
    Ok(hash.finish())
}

/// Nothing in `now` differs from `whole` but by an error; returns how many could not be read.
#[track_caller]
pub fn assert_rest_is_intact(whole: &Contents, now: &Contents) -> usize {
    for (path, value) in now {
        if value.is_ok() {
            assert_eq!(Some(value), whole.get(path), "{path}");
        }
    }
    // What is missing lies below something that could not be entered, or at an unread name.
    let lost: Vec<_> = now.iter().filter(|(_, v)| v.is_err()).map(|(p, _)| p.as_str()).collect();
    for path in whole.keys().filter(|p| !now.contains_key(*p)) {
        let below = |l: &&&str| path.starts_with(l.trim_end_matches('?'));
        assert!(lost.iter().any(|l| below(&l)), "{path} is gone without a word; {lost:?}");
    }
    lost.len()
}

#[track_caller]
pub fn assert_same(whole: &Contents, now: &Contents) {
    assert_eq!(assert_rest_is_intact(whole, now), 0);
    assert_eq!(whole.len(), now.len());
}
