//! Content that programs read and write past the kernel's cache (`O_DIRECT`).

use super::Place;
use rustix::fs::{FallocateFlags, OFlags, fallocate};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use testkit::Rng;

/// Bytes of the file, at most, and those of one operation.
const SIZE_MAX: usize = 2 << 20;
const LENGTH_MAX: usize = 256 << 10;
/// Places and lengths are multiples of this, in memory, too.
const UNIT: usize = 4096;
const STEPS: usize = 1500;

/// Memory for one operation.
struct Aligned(Vec<u8>);

impl Aligned {
    fn bytes(&mut self, length: usize) -> &mut [u8] {
        let skipped = self.0.as_ptr().align_offset(UNIT);
        &mut self.0[skipped..skipped + length]
    }
}

fn open(path: &Path, flags: OFlags) -> File {
    let mut how = OpenOptions::new();
    how.read(true).write(true).create(true).truncate(false);
    how.custom_flags(flags.bits().cast_signed()).open(path).unwrap()
}

fn put(model: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    let size = model.len().max(at + bytes.len());
    model.resize(size, 0);
    model[at..at + bytes.len()].copy_from_slice(bytes);
}

/// Random operations on a file, by a program that uses `O_DIRECT` and now and then one that does
/// not; what is read is compared with a model.
fn exercise(path: &Path, seed: u64) {
    let (direct, mut rng) = (open(path, OFlags::DIRECT), Rng::new(seed));
    let other = || open(path, OFlags::empty());
    let (mut model, mut memory) = (Vec::new(), Aligned(vec![0; LENGTH_MAX + UNIT]));
    for step in 0..STEPS {
        let mut units = |max: usize| UNIT * rng.below((max / UNIT) as u64) as usize;
        let (at, length) = (units(SIZE_MAX), UNIT + units(LENGTH_MAX));
        let bytes = memory.bytes(length);
        match rng.below(10) {
            n @ 0..=4 => {
                rng.fill(bytes);
                let (file, at) = match n {
                    0 => (&other(), at + rng.below(UNIT as u64) as usize),
                    _ => (&direct, at),
                };
                file.write_all_at(bytes, at as u64).unwrap();
                put(&mut model, at, bytes);
            }
            5 => {
                let size = rng.below(SIZE_MAX as u64);
                direct.set_len(size).unwrap();
                model.resize(size as usize, 0);
            }
            6 => {
                let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                fallocate(&direct, how, at as u64, length as u64).unwrap();
                let end = model.len();
                model[at.min(end)..(at + length).min(end)].fill(0);
            }
            n => {
                let file = if n == 7 { &other() } else { &direct };
                let read = file.read_at(bytes, at as u64).unwrap();
                let end = model.len();
                let expected = &model[at.min(end)..(at + length).min(end)];
                assert!(bytes[..read] == *expected, "seed {seed}, step {step}: {at}, {length}");
            }
        }
        assert_eq!(direct.metadata().unwrap().len(), model.len() as u64, "{seed}, {step}");
    }
}

#[testkit::needs("fuse")]
#[test]
fn what_is_written_directly_is_read_either_way() {
    let place = Place::new();
    for (seed, record) in (1..).zip(["4K", "128K", "1M"]) {
        place.zinc(&["zfs", "set", &format!("recordsize={record}"), "tank"]).ok();
        place.mount("tank");
        exercise(&place.mnt().join(record), seed);
        place.unmount();
    }
    assert_eq!(place.zinc(&["check", "tank"]).code, 0);
}
