//! Which dnode slots a new object gets.
//!
//! A cursor rolls over the blocks of dnodes; the free slots of the block under it are kept as a
//! mask. Slots freed behind the cursor are looked at again when the cursor reaches the end. A slot
//! is handed out only when it is free in the newest durable tree and no txg since has taken it, so
//! a number that was freed comes back when its freeing is durable.

use std::collections::{BTreeMap, HashMap};

#[derive(Default)]
pub(crate) struct Slots {
    /// The block under the cursor, once one was found.
    current: Option<Current>,
    /// Where the cursor goes when it comes to the end: the first block with freed slots.
    again: Option<u64>,
    /// Slots taken in a txg that is not durable, by block.
    taken: HashMap<u64, u32>,
    /// The slots to remove from `taken` when a txg is durable.
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
    pub(crate) fn mask(slot: u32, slots: u8) -> u32 {
        let ones = u32::MAX.checked_shr(32 - u32::from(slots)).unwrap_or(0);
        ones.checked_shl(slot).unwrap_or(0)
    }

    /// The first run of `slots` set bits.
    fn run(free: u32, slots: u8) -> Option<u32> {
        (0..=32 - u32::from(slots)).find(|s| free & Self::mask(*s, slots) == Self::mask(*s, slots))
    }

    /// Slots of a block that a txg has taken which is not durable.
    pub(crate) fn taken(&self, block: u64) -> u32 {
        self.taken.get(&block).copied().unwrap_or(0)
    }

    fn take(&mut self, txg: u64, block: u64, mask: u32) {
        *self.taken.entry(block).or_default() |= mask;
        self.by_txg.entry(txg).or_default().push((block, mask));
        if let Some(c) = self.current.as_mut().filter(|c| c.block == block) {
            c.free &= !mask;
        }
    }

    /// The number of a new object; or, when the block under the cursor has no room for it, the
    /// block from which on to look for the next one, to be [offered](Self::offer).
    pub(crate) fn allocate(&mut self, txg: u64, slots: u8) -> Result<u64, u64> {
        let current = self.current.and_then(|c| Some((c.block, Self::run(c.free, slots)?)));
        let Some((block, slot)) = current else { return Err(self.next()) };
        self.take(txg, block, Self::mask(slot, slots));
        Ok(block * 32 + u64::from(slot))
    }

    /// Where the cursor goes next.
    fn next(&self) -> u64 {
        match self.current {
            Some(c) if c.is_new && self.again.is_some_and(|a| a < c.block) => {
                self.again.unwrap_or_default()
            }
            Some(c) => c.block + 1,
            None => 0,
        }
    }

    /// `block` is the first one at or behind `from` with free slots in the newest tree; behind the
    /// last block of the tree all slots are free. Nothing happens when the cursor has moved on.
    pub(crate) fn offer(&mut self, from: u64, block: u64, free: u32) {
        if self.next() != from {
            return;
        }
        if self.again.is_some_and(|a| a >= from && a <= block) {
            self.again = None;
        }
        let is_new = free == u32::MAX;
        let reserved = u32::from(block == 0);
        let free = free & !self.taken(block) & !reserved;
        self.current = Some(Current { block, free, is_new });
    }

    /// Takes slots that the caller chose; false when they are not free. `free`: by the newest tree.
    /// `own`: slots from `slot` on that the object had before and takes again.
    pub(crate) fn claim(
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
    pub(crate) fn publish(&mut self, txg: u64, freed: Option<u64>) {
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
        // Slots that a later txg has taken again stay taken.
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

    fn take(slots: &mut Slots, txg: u64, n: u8, free: impl Fn(u64) -> (u64, u32)) -> u64 {
        loop {
            match slots.allocate(txg, n) {
                Ok(number) => return number,
                Err(from) => {
                    let (block, free) = free(from);
                    slots.offer(from, block, free);
                }
            }
        }
    }

    #[test]
    fn numbers_are_dense_and_freed_ones_come_back_when_durable() {
        let mut slots = Slots::default();
        let first: Vec<u64> =
            (0..40).map(|_| take(&mut slots, 5, 1, |from| (from, u32::MAX))).collect();
        assert_eq!(first, (1..=40).collect::<Vec<_>>());
        assert!(!slots.claim(5, 0, 7, 1, u32::MAX, 0), "taken in the same txg");
        slots.publish(5, Some(3));
        let free = |from| if from == 0 { (0, 1 << 3) } else { (from, u32::MAX) };
        let next: Vec<u64> = (0..24).map(|_| take(&mut slots, 6, 1, free)).collect();
        assert_eq!(next[..23], (41..=63).collect::<Vec<_>>());
        assert_eq!(next[23], 3, "the hole is filled before the set grows");
    }

    #[test]
    fn a_large_dnode_does_not_cross_a_block() {
        let mut slots = Slots::default();
        let free = |from| (from, u32::MAX);
        assert_eq!(take(&mut slots, 1, 20, free), 1);
        assert_eq!(take(&mut slots, 1, 20, free), 32);
        assert_eq!(take(&mut slots, 1, 32, free), 64);
        assert_eq!(Slots::mask(0, 32), u32::MAX);
        assert_eq!(Slots::mask(30, 2), 0xc000_0000);
    }

    #[test]
    fn an_offer_for_a_cursor_that_moved_is_ignored() {
        let mut slots = Slots::default();
        slots.offer(0, 0, u32::MAX);
        slots.offer(0, 7, u32::MAX);
        assert_eq!(slots.allocate(1, 1), Ok(1));
    }
}
