//! Disks in the directory store, in real time: against bytes in memory, with writers that take over
//! from one another, and with a program that is killed or stopped.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use device::{
    DeviceSource as _, ErrorKind, Shared, WriteDeviceRef, read_batch, read_one, write_batch,
};
use far::disk::{self, DiskError, LogDevice, Superblock, WriterId};
use far::log::Options;
use far::store::DirStore;
use far::{AnyDevices, Name};
use rt::Rt;
use std::cell::RefCell;
use std::path::PathBuf;
use std::sync::Arc;
use tempfile::TempDir;
use testkit::Rng;

const MIB: usize = 1 << 20;

struct Place {
    folder: TempDir,
}

impl Place {
    /// A store with a disk of `mib` MiB.
    fn new(mib: usize) -> Self {
        let place = Self { folder: tempfile::tempdir().unwrap() };
        let is = Superblock {
            size: (mib * MIB) as u64,
            sector: 4096,
            target: 1 << 20,
            window: 8,
            is_fenced: true,
            limit: None,
            made_by: "a test".to_owned(),
        };
        disk::create(&place.name(), &is).unwrap();
        place
    }

    fn text(&self) -> String {
        format!("dir://{}/store", self.folder.path().display())
    }

    fn name(&self) -> Name {
        Name::parse(PathBuf::from(self.text()).as_path()).unwrap().unwrap()
    }

    fn claim(&self) -> WriteDeviceRef {
        AnyDevices::default().claim(&PathBuf::from(self.text())).unwrap()
    }

    /// The bytes of the disk, as they are seen by a program that opens it now.
    fn bytes(&self) -> Vec<u8> {
        let device = AnyDevices::default().open(&PathBuf::from(self.text())).unwrap();
        let len = usize::try_from(device.size()).unwrap();
        read_one(&*device, 0, len).unwrap().to_vec()
    }

    fn objects(&self, prefix: &str) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let mut folders = vec![self.folder.path().join("store").join(prefix)];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
                match entry.file_type().unwrap().is_dir() {
                    true => folders.push(entry.path()),
                    false => found.push(entry.path()),
                }
            }
        }
        found.sort();
        found
    }
}

/// Random writes, trims, reads and flushes, compared with bytes in memory, and these in the end.
fn agrees(device: &WriteDeviceRef, seed: u64, steps: usize) -> Vec<u8> {
    let size = usize::try_from(device.size()).unwrap();
    let last = RefCell::new(Vec::new());
    // A shorter run begins with what the one before it left.
    testkit::shrinking_seed(seed, steps, |steps| {
        let mut model = read_one(&**device, 0, size).unwrap().to_vec();
        steps.iter().for_each(|step| step_as_in_memory(device, &mut model, *step));
        last.replace(model);
    });
    last.into_inner()
}

fn step_as_in_memory(device: &WriteDeviceRef, model: &mut [u8], step: u64) {
    let (mut rng, size) = (Rng::new(step), model.len());
    let mut draw = |n: usize| (rng.next_u64() % n as u64) as usize;
    let (regions, unit) = (8, 4096);
    let region = size / regions;
    let mut writes = Vec::new();
    for n in 0..regions {
        let at = draw(region / unit) * unit;
        let most = (region - at).min(if draw(10) == 0 { region } else { 64 << 10 });
        let len = ((1 + draw(most / unit)) * unit).min(region - at);
        let (offset, byte) = (n * region + at, draw(256) as u8 | 1);
        model[offset..offset + len].fill(byte);
        let whole = Shared::copy_of(&vec![byte; len]);
        let half = len / 2 / 512 * 512;
        writes.push((offset as u64, vec![whole.slice(0..half), whole.slice(half..len)]));
    }
    assert!(write_batch(&**device, writes).into_iter().all(|r| r.is_ok()));
    if draw(4) == 0 {
        let (at, len) = (draw(size / unit) * unit, unit * (1 + draw(40)));
        let len = len.min(size - at);
        device.trim(at as u64, len as u64).unwrap();
        model[at..at + len].fill(0);
    }
    if draw(6) == 0 {
        device.flush().unwrap();
    }
    let ranges: Vec<(u64, usize)> = (0..12)
        .map(|_| {
            let at = draw(size);
            (at as u64, draw((size - at).min(200_000)) + 1)
        })
        .collect();
    for ((at, len), bytes) in ranges.iter().zip(read_batch(&**device, &ranges)) {
        let at = *at as usize;
        assert!(*bytes.unwrap() == model[at..at + len], "{len} bytes at {at}");
    }
}

#[test]
fn it_agrees_with_bytes_in_memory_and_a_collection_changes_nothing() {
    let place = Place::new(16);
    let mut model = vec![0; 16 * MIB];
    for round in 0..3 {
        let device = place.claim();
        assert!(*read_one(&*device, 0, model.len()).unwrap() == model);
        model = agrees(&device, round, 40);
        device.flush().unwrap();
        assert!(place.bytes() == model, "what was flushed is what others see");
        drop(device);
        let device = disk::claim_to_clean(&place.name()).unwrap();
        assert!(device.clean(60, u64::MAX).unwrap() > 0);
        device.age().unwrap();
        let done = device.collect().unwrap();
        assert!(done.bytes > 0 && done.waiting == 0, "{done:?}");
        device.sweep().unwrap();
        drop(device);
        assert!(place.bytes() == model);
        let found = disk::overview(&place.name()).unwrap().log.unwrap();
        assert!(found.is_closed && found.live <= found.kept);
        assert!(found.kept < found.live * 3 / 2 + 4 * MIB as u64, "{found:?}");
        assert_eq!(disk::check(&place.name(), |_| ()).unwrap().findings, []);
    }
}

#[test]
fn what_was_not_flushed_is_a_prefix_and_what_was_is_there() {
    let place = Place::new(4);
    let device = place.claim();
    device.write(0, &[1; 8192]).unwrap();
    device.flush().unwrap();
    device.write(8192, &[2; 4096]).unwrap();
    let seen = place.bytes();
    assert!(seen[..8192] == [1; 8192] && seen[8192..12288] == [0; 4096]);
    // One that ends in order loses nothing.
    drop(device);
    assert!(place.bytes()[8192..12288] == [2; 4096]);
}

#[test]
fn one_program_of_a_machine_has_it() {
    let place = Place::new(1);
    let device = place.claim();
    let second = AnyDevices::default().claim(&PathBuf::from(place.text())).err().unwrap();
    assert_eq!(second.kind, ErrorKind::InUse);
    drop(device);
    drop(place.claim());
    let again = Superblock {
        size: 1 << 20,
        sector: 4096,
        target: 1 << 20,
        window: 8,
        is_fenced: true,
        limit: None,
        made_by: String::new(),
    };
    assert_eq!(disk::create(&place.name(), &again), Err(DiskError::DiskExists));
}

#[test]
fn a_writer_of_another_machine_has_it_until_it_ends() {
    let place = Place::new(1);
    assert_eq!(disk::holder(&place.name()), Ok(None));
    let who = WriterId { host: "elsewhere".to_owned(), pid: std::process::id() };
    let options = Options { who: who.clone(), ..Options::default() };
    let store = Arc::new(DirStore::new(&place.folder.path().join("store")).unwrap());
    let device = LogDevice::claim(store, "disk", &Rt::real(), options, None).unwrap();
    assert_eq!(disk::holder(&place.name()).unwrap().map(|writer| writer.who), Some(who));
    drop(device);
    assert_eq!(disk::holder(&place.name()), Ok(None));
}

#[test]
fn damage_is_found_and_costs_what_it_hit() {
    let place = Place::new(4);
    let device = place.claim();
    for n in 0..4u64 {
        device.write(n * MIB as u64, &vec![n as u8 + 1; MIB]).unwrap();
        device.flush().unwrap();
    }
    drop(device);
    // What a checkpoint covers is not read again when the disk is opened.
    disk::claim_to_clean(&place.name()).unwrap().age().unwrap();
    let log = place.objects("log");
    let data: Vec<&PathBuf> =
        log.iter().filter(|path| path.metadata().unwrap().len() > MIB as u64).collect();
    assert_eq!(data.len(), 4);
    let mut bytes = std::fs::read(data[1]).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    std::fs::write(data[1], &bytes).unwrap();
    std::fs::remove_file(data[2]).unwrap();
    let found = disk::check(&place.name(), |_| ()).unwrap();
    assert_eq!((found.segments, found.verified), (4, 4 * MIB as u64));
    let lost: Vec<(&str, u64)> = found.findings.iter().map(|f| (&*f.what, f.lost)).collect();
    let (changed, gone) = ("some of its data does not match its table", "it is gone");
    assert_eq!(lost, [(changed, MIB as u64), (gone, MIB as u64)]);
    let device = place.claim();
    assert!(read_one(&*device, 2 * MIB as u64, 4096).is_err());
    assert!(*read_one(&*device, 3 * MIB as u64, MIB).unwrap() == [4; MIB]);
    // Written anew it is whole again.
    device.write(MIB as u64, &vec![5; 2 * MIB]).unwrap();
    drop(device);
    assert_eq!(disk::check(&place.name(), |_| ()).unwrap().findings, []);
    assert!(place.bytes()[MIB..3 * MIB] == vec![5; 2 * MIB]);
}

#[test]
fn pins_keep_a_state() {
    let place = Place::new(4);
    let device = place.claim();
    device.write(0, &vec![7; MIB]).unwrap();
    drop(device);
    let pin = disk::pin(&place.name()).unwrap();
    let reader = disk::open(&place.name()).unwrap();
    // What was read is kept for a while, so that this one has nothing.
    let late = disk::open(&place.name()).unwrap();
    let overwrite = |byte: u8| {
        let device = place.claim();
        device.write(0, &vec![byte; MIB]).unwrap();
        drop(device);
        let device = disk::claim_to_clean(&place.name()).unwrap();
        device.age().unwrap();
        device.collect().unwrap().bytes
    };
    assert_eq!(overwrite(8), 0);
    assert!(*read_one(&*reader, 0, MIB).unwrap() == [7; MIB]);
    assert_eq!(disk::overview(&place.name()).unwrap().pins.len(), 1);
    assert_eq!(disk::unpin(&place.name(), &pin.name), Ok(true));
    assert_eq!(disk::unpin(&place.name(), &pin.name), Ok(false));
    assert!(overwrite(9) >= 2 * MIB as u64);
    let gone = read_one(&*late, 0, MIB).err().unwrap();
    assert!(matches!(gone.kind, ErrorKind::Refused(_)), "{gone}");
    assert!(place.bytes()[..MIB] == [9; MIB]);
}
