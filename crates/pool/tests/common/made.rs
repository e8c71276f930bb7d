//! Pools that are made here, in layouts of which a checkout alone has no pool of OpenZFS's.

use super::Lab;
use device::{Device, MemoryDevice, WriteDeviceRef};
use pool::live::{Devices, LivePool, NewFilesystem, VdevSpec};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use testkit::{Rng, SparseImage};
use zpl::{NewFile, NewKind, Time};

const DEVICE_BYTES: u64 = 64 << 20;
/// Until an expansion has ended, on a busy host.
const LONG: Duration = Duration::from_mins(5);

fn leaf(n: u32) -> VdevSpec {
    poolkit::leaf(format!("/dev/img{n}"), false)
}

/// Files of random sizes and bytes, some of them in one block.
fn fill(pool: &LivePool, dataset: &str, rng: &mut Rng) {
    let fs = pool.filesystem(dataset).unwrap();
    let (new, now) = (NewFile::new(NewKind::File, 0o644, Time::default()), Time::default());
    for n in 0..24 {
        let name = format!("file {n} of {}", rng.below(1 << 30));
        let file = fs.create(fs.root_object(), name.as_bytes(), &new).unwrap().number();
        let most = if n % 2 == 0 { 300_000 } else { 5000 };
        let mut bytes = vec![0; 1 + rng.below(most) as usize];
        rng.fill(&mut bytes);
        fs.write_at(file, 0, &bytes, now).unwrap();
    }
}

/// A pool of one vdev over as many disks, `image0` and so on; a raidz gets a disk more when
/// `is_expanded`, and is written to before and after.
pub fn made(disks: u32, is_expanded: bool, vdev: impl Fn(Vec<VdevSpec>) -> VdevSpec) -> Lab {
    let count = disks + u32::from(is_expanded);
    let device = |n| Arc::new(MemoryDevice::zeros(&format!("img{n}"), DEVICE_BYTES));
    let memory: BTreeMap<u32, Arc<MemoryDevice>> = (0..count).map(|n| (n, device(n))).collect();
    let named = |n: u32| (format!("/dev/img{n}"), Arc::clone(&memory[&n]) as WriteDeviceRef);
    let tops = vec![poolkit::top(vdev((0..disks).map(leaf).collect()))];
    let (rt, devices): (_, Devices) = (rt::Rt::real(), (0..disks).map(named).collect());
    let pool = poolkit::create(&rt, "made", tops, &devices, |options| options.ashift = Some(12));
    let mut rng = Rng::new(u64::from(count));
    fill(&pool, "made", &mut rng);
    pool.create_filesystem("made/fs", NewFilesystem::default(), Vec::new()).unwrap();
    fill(&pool, "made/fs", &mut rng);
    pool.snapshot(&["made/fs@snapshot".to_owned()], Vec::new()).unwrap();
    if is_expanded {
        let raidz = pool.look().unwrap().config().vdev_tree.children[0].guid;
        pool.attach(raidz, &leaf(disks), named(disks).1).unwrap();
        assert!(pool.wait_for_expansion(LONG).unwrap(), "{:?}", pool.why_expansion_waits());
        pool.wait_for_scan().unwrap();
    }
    fill(&pool, "made/fs", &mut rng);
    pool.export().unwrap();
    let images = memory.iter().map(|(n, device)| (*n, image_of(device)));
    Lab { name: "made".to_owned(), images: images.collect() }
}

fn image_of(device: &MemoryDevice) -> SparseImage {
    let mut image = SparseImage::new(device.size());
    let mut piece = vec![0; 64 << 10];
    for at in (0..device.size()).step_by(piece.len()) {
        device.read(at, &mut piece).unwrap();
        image.write_at(at, &piece).unwrap();
    }
    image
}
