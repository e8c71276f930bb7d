//! Doing it and undoing it: a disk that is DEGRADED, writes that are cut off, earlier states.

use super::kit::*;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

#[test]
fn a_disk_that_is_degraded_for_its_errors_is_there() {
    let s = surgeon("basic");
    let (set, file) = find(&s, |n| {
        let d = n.object().dnode();
        n.kind() == FileKind::File && d.levels == 2 && d.max_block > 20
    });
    s.edit_bonus((set, file), SA_LINKS, |_| 7);
    let object = objset(&s.open(), set).object(file).unwrap();
    let mut lost = 0;
    for blkid in 0..=object.dnode().max_block {
        let Some(bp) = object.block_pointer(0, blkid).unwrap().filter(|bp| bp.asize() > 0) else {
            continue;
        };
        s.destroy_all(&bp);
        lost += 1;
    }
    assert!(lost > 10, "{lost} blocks are fewer than make a disk DEGRADED");
    let live = live(&s);
    live.scrub().unwrap();
    live.wait_for_scan().unwrap();
    live.sync().unwrap();
    live.export().unwrap();
    let states = || s.open().vdevs().leaves().map(|l| l.state().to_string()).collect::<Vec<_>>();
    assert_eq!(states(), ["DEGRADED"]);
    let repaired = in_memory(&s, true).unwrap();
    let folder = tempfile::tempdir().unwrap();
    repaired.apply(&folder.path().join("undo")).unwrap();
    drop(repaired);
    let left = s.check();
    assert!(left.contains(&"block-lost") && !left.contains(&"link-count"), "{left:?}");
}

/// A disk that takes a number of writes, and then no more.
struct Cut {
    disk: Arc<MemoryDevice>,
    left: AtomicU64,
}

impl Cut {
    fn takes(&self) -> bool {
        let one_less = |left: u64| left.checked_sub(1);
        self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less).is_ok()
    }

    fn failed(&self) -> device::Error {
        device::Error::write(device::ErrorKind::PowerLoss, &Arc::from("disk"), 0, 0)
    }
}

impl Device for Cut {
    fn name(&self) -> &str {
        "disk"
    }

    fn size(&self) -> u64 {
        self.disk.size()
    }

    fn sector_size(&self) -> u32 {
        512
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<(), device::Error> {
        self.disk.read(offset, buf)
    }

    fn submit(&self, batch: Vec<Read>) {
        self.disk.submit(batch);
    }
}

impl WriteDevice for Cut {
    fn submit_writes(&self, batch: Vec<Write>) {
        for write in batch {
            let bytes: Vec<u8> = write.parts.iter().flat_map(|p: &Shared| p.to_vec()).collect();
            let done = self.write(write.offset, &bytes);
            device::backend::deliver_write(write.done, done);
        }
    }

    fn flush(&self) -> Result<(), device::Error> {
        if self.left.load(Ordering::SeqCst) > 0 { Ok(()) } else { Err(self.failed()) }
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), device::Error> {
        if self.takes() { self.disk.write(offset, data) } else { Err(self.failed()) }
    }

    fn as_device(self: Arc<Self>) -> DeviceRef {
        self
    }
}

/// What is on a disk.
fn image_of(disk: &MemoryDevice) -> SparseImage {
    let mut image = SparseImage::new(disk.size());
    let mut piece = vec![0; 64 << 10];
    for at in (0..disk.size()).step_by(piece.len()) {
        disk.read(at, &mut piece).unwrap();
        image.write_at(at, &piece).unwrap();
    }
    image
}

/// The surgeon's disk has what this one has.
fn put_disk(s: &Surgeon, disk: &MemoryDevice) {
    image_of(disk).save(&s.dir().join("disk.img")).unwrap();
}

#[test]
fn killed_at_any_write_the_pool_is_as_before_or_repaired_and_can_be_put_back() {
    let s = surgeon("basic");
    let (map, _) = a_map(&s);
    s.edit_block((0, map), (0, 0), |b| b[..64].fill(0xff));
    s.edit_bonus(plain_file(&s), SA_LINKS, |_| 7);
    let before = s.check();
    let image = &images(&s)["disk.img"];
    let whole = Arc::new(MemoryDevice::zeros("disk", image.len()));
    image.pieces().for_each(|(at, bytes)| whole.put(at, bytes));
    let source = |device: WriteDeviceRef| -> Arc<dyn DeviceSource> {
        Arc::new(std::collections::BTreeMap::from([("disk".to_owned(), device)]))
    };
    let folder = tempfile::tempdir().unwrap();
    let place = std::path::Path::new("disk");
    let (mut old, mut new) = (0, 0);
    for left in (0..).step_by(7) {
        let disk = Arc::new(whole.fork());
        let cut = Arc::new(Cut { disk: Arc::clone(&disk), left: AtomicU64::new(left) });
        let repaired = repair_over(source(cut), place, None, true).unwrap();
        let undo = folder.path().join(left.to_string());
        let is_done = repaired.apply(&undo).is_ok();
        put_disk(&s, &disk);
        let names = s.check();
        // A crash between two rounds of labels leaves them of two txgs.
        let names: Vec<_> = names.into_iter().filter(|n| *n != "label-round").collect();
        assert!(names.iter().all(|n| before.contains(n)), "{left}: {names:?}");
        match names.is_empty() {
            true => new += 1,
            false => old += 1,
        }
        if left % 5 == 2 {
            // The next repair ends it, labels included.
            let again = repair_over(source(disk.clone()), place, None, true).unwrap();
            again.apply(&folder.path().join(format!("{left} again"))).unwrap();
            drop(again);
            put_disk(&s, &disk);
            assert_eq!(s.check(), [""; 0], "{left}");
        }
        if left % 5 == 0 {
            repair::undo::put_back(&undo, &source(disk.clone()), &[]).unwrap();
            assert!(image_of(&disk) == *image, "{left}");
        }
        if is_done {
            assert!(names.is_empty());
            break;
        }
    }
    assert!(old > 2 && new > 0, "{old} {new}");
}

#[test]
fn a_state_that_is_lost_and_an_earlier_one() {
    let s = surgeon("basic");
    // A directory of the newest state that the one before has elsewhere, or not at all.
    let newest = s.open().uberblock().txg;
    let bp = objset(&s.open(), 0).root();
    s.destroy_all(&bp);
    let seen = s.open().uberblock().txg;
    assert!(seen < newest, "an older state is opened");
    // Also without being asked.
    let planned = repair_over(local(), s.dir(), None, false).unwrap();
    assert_eq!(planned.plan().steps.first(), Some(&repair::Step::Rewind { txg: seen }));
    drop(planned);
    let planned = repair_over(local(), s.dir(), Some(seen), false).unwrap();
    assert_eq!(planned.plan().steps.first(), Some(&repair::Step::Rewind { txg: seen }));
    assert!(planned.plan().makes_clean(), "{:?}", planned.plan());
    drop(planned);
    let repaired = repair_over(local(), s.dir(), Some(seen), true).unwrap();
    let folder = tempfile::tempdir().unwrap();
    repaired.apply(&folder.path().join("undo")).unwrap();
    drop(repaired);
    assert!(s.open().uberblock().txg > newest);
    let put_back = repair::undo::put_back(&folder.path().join("undo"), &local(), &[]);
    let (head, _) = put_back.unwrap();
    assert_eq!(head.before, newest, "all that was there is there again");
    let repaired = repair_over(local(), s.dir(), Some(seen), true).unwrap();
    repaired.apply(&folder.path().join("undo 2")).unwrap();
    drop(repaired);
    assert_eq!(s.check(), [""; 0]);
    assert_ne!(zdb_is_content(&s), Some(false));
}

#[test]
fn without_a_device_what_may_be_on_it_is_not_given_up_unasked() {
    let s = mirror();
    std::fs::remove_file(s.dir().join("disk2.img")).unwrap();
    let file = find(&s, |n| is_plain(n) && n.kind() == FileKind::File);
    s.edit_bonus(file, SA_LINKS, |_| 7);
    let repaired = in_memory(&s, true).unwrap();
    assert_eq!(repaired.plan().absent.len(), 1, "{:?}", repaired.plan().absent);
    let folder = tempfile::tempdir().unwrap();
    repaired.apply(&folder.path().join("undo")).unwrap();
    drop(repaired);
    // Notes, both of them.
    let is_away = |name: &&str| ["device-absent", "device-stale"].contains(name);
    assert!(s.check().iter().all(is_away), "{:?}", s.check());
    assert_ne!(zdb_is_content(&s), Some(false));
    s.edit_dnode(file, |d| d[..64].fill(0xee));
    let planned = in_memory(&s, false).unwrap();
    assert!(planned.plan().gives_up() && planned.plan().makes_clean());
    drop(planned);
    assert!(matches!(
        in_memory(&s, true),
        Err(repair::Error::Refused(repair::RepairRefusal::Away(_)))
    ));
    let how = |o: repair::RepairOptions| repair::RepairOptions { gives_up_absent: true, ..o };
    let repaired = repair_with(local(), s.dir(), &how).unwrap();
    repaired.apply(&folder.path().join("undo 2")).unwrap();
    drop(repaired);
    assert!(s.check().iter().all(|n| *n == "known-error" || is_away(n)), "{:?}", s.check());
}

#[test]
fn files_whose_content_is_lost_are_named_when_it_is_read() {
    let s = surgeon("basic");
    let (set, file) = plain_file(&s);
    let object = objset(&s.open(), set).object(file).unwrap();
    s.destroy_all(&object.block_pointer(0, 0).unwrap().unwrap());
    let planned = in_memory(&s, false).unwrap();
    assert!(planned.plan().makes_clean() && !planned.plan().reads_all);
    drop(planned);
    let how = |o: repair::RepairOptions| repair::RepairOptions { reads_files: true, ..o };
    let options = |o: repair::RepairOptions| repair::RepairOptions { claims: false, ..how(o) };
    let planned = repair_with(local(), s.dir(), &options).unwrap();
    let plan = planned.plan();
    assert!(plan.reads_all && !plan.makes_clean());
    let [name] = plan.damaged.as_slice() else { panic!("{:?}", plan.damaged) };
    assert!(name.contains(":/"), "{name}");
}

/// Devices that can be read alone.
struct ReadOnly(Arc<dyn DeviceSource>);

impl DeviceSource for ReadOnly {
    fn list(&self, place: &Path, depth: u64) -> std::io::Result<Vec<PathBuf>> {
        self.0.list(place, depth)
    }

    fn open(&self, name: &Path) -> Result<device::DeviceRef, device::Error> {
        self.0.open(name)
    }

    fn claim(&self, name: &Path) -> Result<WriteDeviceRef, device::Error> {
        let name = Arc::from(name.to_string_lossy());
        Err(device::Error::open(device::ErrorKind::Io { errno: 30 }, &name))
    }
}

#[test]
fn a_pool_on_devices_that_are_read_only_says_so() {
    let s = surgeon("basic");
    let read_only = || Arc::new(ReadOnly(local())) as Arc<dyn DeviceSource>;
    assert!(repair_over(read_only(), s.dir(), None, false).is_ok());
    let refused = repair_over(read_only(), s.dir(), None, true).map(drop).unwrap_err();
    let repair::Error::Device(why) = refused else { panic!("{refused}") };
    assert_eq!(why.kind, device::ErrorKind::Io { errno: 30 });
}
