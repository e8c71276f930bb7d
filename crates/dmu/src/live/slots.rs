//! Which dnode slots a new object gets.
//!
//! A cursor rolls over the blocks of dnodes; the free slots of the block under it are kept as a
//! mask. What is freed behind the cursor is looked at again when the cursor reaches the end. A
//! slot is handed out only when it is free in the newest durable tree and no txg since has taken
//! it, so a number that was freed comes back when its freeing is durable.

use std::collections::{BTreeMap, HashMap};

#[derive(Default)]
pub(super) struct Slots {
    /// The block under the cursor, once one was found.
    current: Option<Current>,
    /// Where the cursor goes when it comes to the end: the first block with freed slots.
    again: Option<u64>,
    /// Slots taken in a txg that is not durable, by block.
    taken: HashMap<u64, u32>,
    /// What to remove from `taken` when a txg is durable.
    by_txg: BTreeMap<u64, Vec<(u64, u32)>>,
}

#[derive(Clone, Copy)]
struct Current {
    block: u64,
    free: u32,
    /// Nothing on disk from here on.
    is_new: bool,
}

impl Slots {
    /// `slots` slots from `slot` on.
    pub(super) fn mask(slot: u32, slots: u8) -> u32 {
        let ones = u32::MAX.checked_shr(32 - u32::from(slots)).unwrap_or(0);
        ones.checked_shl(slot).unwrap_or(0)
    }

    /// The first run of `slots` set bits.
    fn run(free: u32, slots: u8) -> Option<u32> {
        (0..=32 - u32::from(slots)).find(|s| free & Self::mask(*s, slots) == Self::mask(*s, slots))
    }

    /// Slots of a block that a txg has taken which is not durable.
    pub(super) fn taken(&self, block: u64) -> u32 {
        self.taken.get(&block).copied().unwrap_or(0)
    }

    fn take(&mut self, txg: u64, block: u64, mask: u32) {
        *self.taken.entry(block).or_default() |= mask;
        self.by_txg.entry(txg).or_default().push((block, mask));
        if let Some(c) = self.current.as_mut().filter(|c| c.block == block) {
            c.free &= !mask;
        }
    }

    /// The number of a new object. `find` returns the first block at or behind its argument with
    /// free slots on disk; behind the last block all are free.
    pub(super) fn allocate(
        &mut self,
        txg: u64,
        slots: u8,
        find: &mut dyn FnMut(u64) -> (u64, u32),
    ) -> u64 {
        loop {
            if let Some(c) = self.current
                && let Some(slot) = Self::run(c.free, slots)
            {
                self.take(txg, c.block, Self::mask(slot, slots));
                return c.block * 32 + u64::from(slot);
            }
            let mut from = self.current.map_or(0, |c| c.block + 1);
            if self.current.is_some_and(|c| c.is_new)
                && let Some(again) = self.again.take()
            {
                from = again;
            }
            let (block, free) = find(from);
            let is_new = free == u32::MAX;
            let reserved = u32::from(block == 0);
            let taken = self.taken(block);
            self.current = Some(Current { block, free: free & !taken & !reserved, is_new });
        }
    }

    /// Takes slots that the caller chose; false when they are not free. `free`: by the newest
    /// tree. `own`: slots from `slot` on that the object had before and gets anew.
    pub(super) fn claim(
        &mut self,
        txg: u64,
        block: u64,
        slot: u32,
        slots: u8,
        free: u32,
        own: u8,
    ) -> bool {
        let mask = Self::mask(slot, slots);
        let mut taken = self.taken(block);
        taken &= !Self::mask(slot, own);
        if mask & (taken | !free) != 0 {
            return false;
        }
        self.take(txg, block, mask);
        true
    }

    /// `txg` is durable; `freed` is the lowest number that it freed.
    pub(super) fn publish(&mut self, txg: u64, freed: Option<u64>) {
        let later = self.by_txg.split_off(&(txg + 1));
        let done = std::mem::replace(&mut self.by_txg, later);
        for (block, mask) in done.into_values().flatten() {
            if let Some(t) = self.taken.get_mut(&block) {
                *t &= !mask;
                if *t == 0 {
                    self.taken.remove(&block);
                }
            }
        }
        // What a later txg has taken anew in the same slots stays taken.
        for (block, mask) in self.by_txg.values().flatten() {
            *self.taken.entry(*block).or_default() |= mask;
        }
        if let Some(block) = freed.map(|n| n / 32) {
            self.again = Some(self.again.map_or(block, |a| a.min(block)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_dense_and_freed_ones_come_back_when_durable() {
        let mut slots = Slots::default();
        let mut find = |from: u64| (from, u32::MAX);
        let first: Vec<u64> = (0..40).map(|_| slots.allocate(5, 1, &mut find)).collect();
        assert_eq!(first, (1..=40).collect::<Vec<_>>());
        assert!(!slots.claim(5, 0, 7, 1, u32::MAX, 0), "taken in the same txg");
        slots.publish(5, Some(3));
        let mut find = |from: u64| if from == 0 { (0, 1 << 3) } else { (from, u32::MAX) };
        let next: Vec<u64> = (0..24).map(|_| slots.allocate(6, 1, &mut find)).collect();
        assert_eq!(next[..23], (41..=63).collect::<Vec<_>>());
        assert_eq!(next[23], 3, "the hole is filled before the set grows");
    }

    #[test]
    fn a_large_dnode_does_not_cross_a_block() {
        let mut slots = Slots::default();
        let mut find = |from: u64| (from, u32::MAX);
        assert_eq!(slots.allocate(1, 20, &mut find), 1);
        assert_eq!(slots.allocate(1, 20, &mut find), 32);
        assert_eq!(slots.allocate(1, 32, &mut find), 64);
        assert_eq!(Slots::mask(0, 32), u32::MAX);
        assert_eq!(Slots::mask(30, 2), 0xc000_0000);
    }
}
