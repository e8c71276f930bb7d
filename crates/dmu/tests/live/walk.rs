//! Everything a tree of an object set must agree with itself about.

use crate::ground::{Ground, Owned};
use dmu::{Objset, Place};
use ondisk::{BlkPtr, Dnode};

struct Walk<'a> {
    set: &'a Objset,
    reached: Owned,
}

/// Walks the set; all it reaches must be what the owner holds.
pub(crate) fn check(ground: &dyn Ground, set: &Objset) {
    let mut walk = Walk { set, reached: Owned::new() };
    walk.reach(&set.root());
    let phys = set.phys();
    let meta = phys.meta_dnode.as_ref().expect("a set has one");
    let fill = walk.dnode(0, meta);
    assert_eq!(set.root().fill(), fill, "fill of the root");
    let objects: Vec<_> = set.objects().map(|o| o.expect("sound")).collect();
    assert_eq!(objects.len() as u64, fill, "number of objects");
    for o in objects {
        walk.dnode(o.number(), o.dnode());
    }
    for o in set.accounting_objects().into_iter().flatten() {
        walk.dnode(o.number(), o.dnode());
    }
    let owned = ground.owned();
    for (key, bp) in &owned {
        assert!(walk.reached.contains_key(key), "leaked: {bp:?}");
    }
    for (key, bp) in &walk.reached {
        assert!(owned.contains_key(key), "reached, but not held: {bp:?}");
    }
}

impl Walk<'_> {
    fn reach(&mut self, bp: &BlkPtr) {
        if bp.is_embedded() {
            return;
        }
        assert!(self.reached.insert(bp.dva(0).words(), *bp).is_none(), "reached twice: {bp:?}");
    }

    /// Walks one object and returns its fill.
    fn dnode(&mut self, number: u64, dnode: &Dnode) -> u64 {
        let mut used = 0;
        let mut fill = 0;
        for (i, bp) in dnode.blkptrs.iter().enumerate() {
            fill += self.tree(number, dnode, bp, dnode.levels - 1, i as u64, &mut used);
        }
        if let Some(bp) = &dnode.spill {
            assert_eq!(bp.dmu_type(), dnode.bonus_kind);
            self.reach(bp);
            used += bp.asize();
        }
        assert_eq!(dnode.used_bytes(), used, "used of {number}");
        fill
    }

    fn tree(
        &mut self,
        number: u64,
        dnode: &Dnode,
        bp: &BlkPtr,
        level: u8,
        id: u64,
        used: &mut u64,
    ) -> u64 {
        if bp.is_hole() {
            if *bp != BlkPtr::HOLE {
                assert_eq!((bp.level(), bp.dmu_type()), (level, dnode.kind), "hole");
            }
            return 0;
        }
        self.reach(bp);
        *used += bp.asize();
        assert_eq!((bp.level(), bp.dmu_type()), (level, dnode.kind));
        if level == 0 {
            assert!(id <= dnode.max_block, "object {number}: block {id} behind the last");
            assert!(number == 0 || bp.fill() == 1);
            return bp.fill();
        }
        assert_eq!(bp.lsize(), 1 << dnode.indirect_shift);
        let block = self.set.store().read(bp, Place::default(), None).expect("an indirect block");
        let fanout = dnode.pointers_per_indirect();
        let mut fill = 0;
        for (slot, bytes) in (0..).zip(block.chunks(128)) {
            let child = BlkPtr::decode(bytes, block.endian()).unwrap();
            assert!(child.logical_birth() <= bp.logical_birth(), "child younger than parent");
            fill += self.tree(number, dnode, &child, level - 1, id * fanout + slot, used);
        }
        assert_eq!(bp.fill(), fill, "object {number} level {level} block {id}");
        assert!(fill > 0, "an indirect block of holes is a hole");
        fill
    }
}
