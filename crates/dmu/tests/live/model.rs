//! Random changes, made to a live set and to plain maps.

use crate::ground::Ground;
use crate::{fresh, open, owners, sync, walk};
use dmu::{NewObject, Objset, Tx};
use ondisk::DmuType;
use ondisk::objset::ObjsetKind;
use std::collections::BTreeMap;
use testkit::Rng;

pub(crate) struct Model {
    block_size: u64,
    data: BTreeMap<u64, Vec<u8>>,
    bonus: Vec<u8>,
    spill: Option<Vec<u8>>,
    slots: u8,
}

impl Model {
    fn read(&self, blkid: u64) -> Vec<u8> {
        self.data.get(&blkid).cloned().unwrap_or_else(|| vec![0; self.block_size as usize])
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) {
        for (at, b) in (offset..).zip(bytes) {
            let bs = self.block_size;
            let block = self.data.entry(at / bs).or_insert_with(|| vec![0; bs as usize]);
            block[(at % bs) as usize] = *b;
        }
    }

    fn free(&mut self, offset: u64, end: u64) {
        for (id, block) in &mut self.data {
            let start = id * self.block_size;
            for (at, b) in (start..).zip(block.iter_mut()) {
                if (offset..end).contains(&at) {
                    *b = 0;
                }
            }
        }
    }
}

const SIZES: [u32; 4] = [512, 1024, 3072, 8192];

/// Runs a txg for each step, and `passes` of changes in each; with more than one the set is synced
/// like the MOS.
pub(crate) fn run(
    ground: &dyn Ground,
    steps: &[u64],
    kind: ObjsetKind,
    workers: usize,
    passes: u64,
) {
    let mut set = open(ground, None, kind);
    let mut models: BTreeMap<u64, Model> = BTreeMap::new();
    for (txg, step) in (5..).zip(steps) {
        let mut rng = Rng::new(*step);
        let mut root = None;
        for _ in 0..passes {
            let tx = Tx::syncing(txg);
            for _ in 0..rng.below(12) {
                change(&mut rng, &set, &tx, &mut models);
            }
            if rng.below(2) == 0 {
                compare(&set, &models);
            }
            root = sync(ground, &set, txg, workers, passes > 1).or(root);
            // Until the txg is durable its versions are what readers see.
            compare(&set, &models);
        }
        ground.finish();
        set.synced(txg);
        compare(&set, &models);
        let Some(root) = root else { continue };
        assert_eq!(set.root(), root);
        let fresh = fresh(ground, &root);
        compare(&fresh, &models);
        walk::check(ground, &fresh);
        owners::check(&fresh);
        owners::check(&set);
        if rng.below(8) == 0 {
            set = open(ground, Some(root), kind);
        }
    }
    let reuses = passes > 1 && steps.len() > 20;
    assert!(!reuses || ground.reused() > 0, "later passes use the space of earlier ones");
}

pub(crate) fn change(rng: &mut Rng, set: &Objset, tx: &Tx, models: &mut BTreeMap<u64, Model>) {
    let pick = |rng: &mut Rng, models: &BTreeMap<u64, Model>| {
        let n = rng.below(models.len().max(1) as u64) as usize;
        models.keys().nth(n).copied()
    };
    let number = pick(rng, models);
    let choice = rng.below(20);
    let (Some(number), 3..) = (number, choice) else {
        create(rng, set, tx, models);
        return;
    };
    let object = set.object(number).unwrap();
    let model = models.get_mut(&number).unwrap();
    let bs = model.block_size;
    let span = [4, 30, 600, 20_000][rng.below(4) as usize] * bs;
    match choice {
        3 => {
            set.free(tx, number).unwrap();
            assert!(set.object(number).is_err());
            models.remove(&number);
        }
        4..=6 => {
            let (offset, whole) = (rng.below(span), rng.below(4) == 0);
            let len = if whole { u64::MAX } else { rng.below(span) };
            object.free_range(tx, offset, len).unwrap();
            model.free(offset, offset.saturating_add(len));
        }
        7 => {
            let room = set.object(number).unwrap().dnode().bonus_room(true) as u64;
            let bytes: Vec<u8> = (0..rng.below(room + 1)).map(|_| rng.below(256) as u8).collect();
            object.set_bonus(tx, DmuType::SA, &bytes).unwrap();
            model.bonus = bytes;
        }
        8 => {
            let spill = (rng.below(3) > 0).then(|| vec![rng.below(255) as u8 + 1; 700]);
            object.set_spill(tx, spill.as_deref()).unwrap();
            model.spill = spill;
        }
        9 => {
            let size = SIZES[rng.below(4) as usize];
            let single = set.object(number).unwrap().dnode().max_block == 0;
            let done = object.set_block_size(tx, size);
            assert!(done.is_ok() || !single);
            if single && model.block_size != u64::from(size) {
                if let Some(b) = model.data.get_mut(&0) {
                    b.resize(size as usize, 0);
                }
                model.block_size = size.into();
                model.data.retain(|id, _| *id == 0);
            }
        }
        10..=12 => {
            let id = rng.below(span / bs);
            let zero = rng.below(3) == 0;
            let fill = if zero { 0 } else { rng.below(256) as u8 };
            let bytes = vec![fill; bs as usize];
            object.write_block(tx, id, device::AlignedBuf::copy_of(&bytes)).unwrap();
            model.data.insert(id, bytes);
        }
        _ => {
            let most = *rng.pick(&[100, 3 * bs, 40 * bs]);
            let len = rng.below(most);
            let fill = rng.below(256) as u8;
            let mut bytes = vec![fill; len as usize];
            if rng.below(3) == 0 {
                rng.fill(&mut bytes);
            }
            let offset = rng.below(span);
            object.write_at(tx, offset, &bytes).unwrap();
            model.write(offset, &bytes);
        }
    }
}

fn create(rng: &mut Rng, set: &Objset, tx: &Tx, models: &mut BTreeMap<u64, Model>) {
    let block_size = SIZES[rng.below(4) as usize];
    let slots = if rng.below(4) == 0 { 1 + rng.below(32) as u8 } else { 1 };
    let bonus: Vec<u8> = (0..rng.below(190)).map(|i| i as u8).collect();
    let mut spec = NewObject::new(DmuType::PLAIN_FILE_CONTENTS).block_size(block_size);
    spec = spec.bonus(DmuType::SA, &bonus);
    spec.slots = Some(slots);
    if rng.below(6) == 0 {
        spec.number = Some(1 + rng.below(3000));
    }
    let taken = |n: u64| {
        let end = n + u64::from(slots);
        models.iter().any(|(m, o)| *m < end && n < *m + u64::from(o.slots))
    };
    match set.create(tx, &spec) {
        Ok(object) => {
            let n = object.number();
            assert!(!taken(n), "{n} is in use");
            assert!(n % 32 + u64::from(slots) <= 32);
            let data = BTreeMap::new();
            let model = Model { block_size: block_size.into(), data, bonus, spill: None, slots };
            models.insert(n, model);
        }
        Err(e) => assert!(spec.number.is_some(), "{e}"),
    }
}

pub(crate) fn compare(set: &Objset, models: &BTreeMap<u64, Model>) {
    let listed: Vec<u64> = set.objects().map(|o| o.unwrap().number()).collect();
    assert_eq!(listed, models.keys().copied().collect::<Vec<_>>(), "objects");
    for (number, model) in models {
        let object = set.object(*number).unwrap();
        let dnode = object.dnode();
        assert_eq!(dnode.bonus, model.bonus, "bonus of {number}");
        assert_eq!(dnode.block_size(), model.block_size);
        assert_eq!(dnode.extra_slots + 1, model.slots);
        let spill = object.read_spill().unwrap().map(|b| b[..700].to_vec());
        assert_eq!(spill, model.spill, "spill of {number}");
        for id in model.data.keys() {
            let mut got = vec![9; model.block_size as usize];
            object.read_at(id * model.block_size, &mut got).unwrap();
            let want = model.read(*id);
            let at = got.iter().zip(&want).position(|(a, b)| a != b);
            assert!(at.is_none(), "object {number} block {id} of {} at {at:?}", model.block_size);
        }
        // Whatever is stored is known to the model, and in order.
        let mut at = 0;
        while let Some(id) = object.next_block(at).unwrap() {
            assert!(id >= at && model.data.contains_key(&id), "object {number} has block {id}");
            at = id + 1;
        }
        let last = model.data.iter().rev().find(|(_, b)| b.iter().any(|b| *b != 0));
        if let Some((id, _)) = last {
            assert!(dnode.max_block >= *id);
        }
    }
}
