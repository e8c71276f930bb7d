//! Disks whose objects may take a number of bytes, and no more; and garbage that waits for money.

use super::*;
use crate::log::Budget;
use crate::money::{Cost, Prices};

const BLOCK: usize = 64 << 10;
const BLOCKS: u64 = 64;
const SIZE: u64 = BLOCKS * BLOCK as u64;
const TARGET: u32 = 256 << 10;

struct LimitedDisk<'a> {
    rt: &'a Rt,
    world: Arc<SimWorld>,
    device: Arc<LogDevice>,
    /// What is in each block.
    content: Vec<u8>,
    /// Bytes of all objects that there were at most.
    most: u64,
}

impl<'a> LimitedDisk<'a> {
    fn new(rt: &'a Rt, limit: Option<u64>, own: Options) -> Self {
        let world = SimWorld::new(rt);
        let client = Client::new(SimStore::new(&world), rt, PATIENCE);
        let is = Superblock { size: SIZE, target: TARGET, limit, ..small_disk(64) };
        takeover::make_disk(&client, &is).expect("a disk");
        let own = Options { uncounted_max: 1 << 20, is_tended: true, ..own };
        let device = LogDevice::claim(SimStore::new(&world), "sim", rt, own, None).unwrap();
        Self { rt, world, device, content: vec![0; BLOCKS as usize], most: 0 }
    }

    /// Overwrites blocks at random, and flushes now and then, until something fails.
    fn overwrite(&mut self, count: u64) -> Result<(), Error> {
        for n in 1..=count {
            let (block, byte) = (self.rt.random_u64() % BLOCKS, 1 + (n % 255) as u8);
            self.device.write(block * BLOCK as u64, &[byte; BLOCK])?;
            self.content[block as usize] = byte;
            if n % 4 == 0 {
                self.device.flush()?;
            }
            let bytes = self.world.names().iter().map(|(_, bytes)| bytes).sum();
            self.most = self.most.max(bytes);
        }
        Ok(())
    }

    fn verify(&self) {
        for (block, byte) in self.content.iter().enumerate() {
            let found = self.device.read_new((block * BLOCK) as u64, BLOCK).unwrap();
            assert!(found.iter().all(|found| found == byte), "block {block}");
        }
    }
}

/// The whole disk is overwritten ten times; without the limit there would be more than it allows.
#[test]
fn a_limit_is_kept_whatever_is_overwritten() {
    let limit = Superblock::limit_least(SIZE, TARGET);
    for (own, is_kept) in [(Some(limit), true), (None, false)] {
        Rt::simulate(1, |rt| {
            let mut disk = LimitedDisk::new(rt, own, options());
            disk.overwrite(10 * BLOCKS).unwrap();
            disk.verify();
            assert_eq!(disk.most <= limit, is_kept, "{} of {limit}", disk.most);
        });
    }
}

/// What a pin keeps may not go: then a write is refused, as on a disk that is full, and the next
/// one is taken when the pin is gone.
#[test]
fn a_write_that_can_have_no_room_is_refused() {
    let limit = Superblock::limit_least(SIZE, TARGET);
    Rt::simulate(1, |rt| {
        let mut disk = LimitedDisk::new(rt, Some(limit), options());
        disk.overwrite(2 * BLOCKS).unwrap();
        let who = WriterId { host: "simulated".to_owned(), pid: 2 };
        let store = || SimStore::new(&disk.world);
        let pin = super::pin(store(), rt, PATIENCE, 1 << 30, &who).unwrap();
        let refused = disk.overwrite(10 * BLOCKS).unwrap_err();
        assert!(matches!(refused.kind, ErrorKind::Io { errno: libc::ENOSPC }), "{refused}");
        // However often that is tried.
        (0..20).for_each(|_| drop(disk.overwrite(1)));
        disk.verify();
        let store = SimStore::new(&disk.world);
        assert!(unpin(store, rt, PATIENCE, &pin.name).unwrap());
        disk.overwrite(2 * BLOCKS).unwrap();
        disk.verify();
        assert!(disk.most <= limit, "{} of {limit}", disk.most);
    });
}

/// Of two writers of the same changes, the one without money for it moves nothing, and says so.
#[test]
fn garbage_waits_for_money() {
    let [rich, poor] = [1000, 0].map(|dollars| {
        Rt::simulate(1, |rt| {
            let month = Cost(dollars * 1_000_000_000);
            let clean_budget = Some(Budget { month, prices: Prices::default() });
            let own = Options { clean_budget, checkpoint_every: 8, ..options() };
            let mut disk = LimitedDisk::new(rt, None, own);
            for _ in 0..20 {
                disk.overwrite(BLOCKS).unwrap();
                rt.sleep(Duration::from_secs(120));
            }
            disk.verify();
            (disk.most, disk.device.usage().unpaid_bytes)
        })
    });
    assert_eq!(rich.1, 0);
    assert!(poor.1 > 0 && poor.0 > rich.0, "{poor:?} and {rich:?}");
}
