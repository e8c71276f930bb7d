//! Blocks made whole again on the devices: every copy, gang headers and their parts too.

use super::{Check, Reader, Request, error, read_size, sane};
use crate::block::Place;
use crate::error::{Error, ErrorKind};
use device::{AlignedBuf, Shared};
use ondisk::{BlkPtr, Dva};
use parking_lot::Mutex;
use std::sync::Arc;
use vdev::queue::IoClass;
use vdev::{BlockRead, BlockWrite, Fault, Heal, Scope};

/// The result of healing a block.
#[derive(Debug, Default)]
pub struct Mended {
    /// The block, or a part of it, cannot be had.
    pub lost: Option<Error>,
    /// Faults met.
    pub faults: Vec<Fault>,
    /// Bytes that were written to devices.
    pub repaired: u64,
    /// Devices that did not take what was written to them.
    pub refused: Vec<u64>,
}

/// A copy of a block, or of a gang header.
struct BlockCopy<'a> {
    /// Number of the block that it is a part of.
    block: usize,
    bp: &'a BlkPtr,
    dva: Dva,
    data: Option<Result<AlignedBuf, vdev::Error>>,
}

impl Reader {
    /// Reads blocks and writes what devices should hold of them and do not. Nothing is decrypted.
    /// The space of the blocks must not be given to others meanwhile, and what is written is
    /// durable after the next flush. All of a batch is in memory at the same time.
    #[must_use]
    pub fn heal_many(&self, blocks: &[(BlkPtr, Place)], heal: Heal) -> Vec<Mended> {
        let mut out: Vec<Mended> = blocks.iter().map(|_| Mended::default()).collect();
        let mut parts = Vec::new();
        for (block, (bp, place)) in blocks.iter().enumerate() {
            if bp.is_hole() || bp.is_embedded() {
                continue;
            }
            parts.push((block, *bp));
            if bp.dvas().any(|(_, dva)| dva.is_gang()) {
                parts.extend(self.gang_members(bp, *place).into_iter().map(|p| (block, p)));
            }
        }
        let mut copies = Vec::new();
        let mut checks = Vec::new();
        for (block, bp) in &parts {
            let checked = sane(bp).and_then(|()| self.verifier(bp));
            for (_, dva) in bp.dvas() {
                let Ok(verifier) = &checked else { break };
                copies.push(BlockCopy { block: *block, bp, dva, data: None });
                checks.push(match dva.is_gang() {
                    true => Check::Header(bp),
                    false => Check::Block(*verifier),
                });
            }
            if let Err(kind) = checked {
                self.lose(blocks, *block, kind, &mut out);
            }
        }
        let verify: Vec<_> =
            checks.iter().map(|check| move |b: &[u8]| self.holds(check, b)).collect();
        let read = |(copy, verify): (&BlockCopy<'_>, _)| {
            let (size, birth) = (read_size(copy.bp, copy.dva), copy.bp.physical_birth());
            BlockRead { dva: copy.dva, size, birth, verify, speculative: false }
        };
        let reads: Vec<_> =
            copies.iter().zip(&verify).map(|(copy, v)| read((copy, v as _))).collect();
        for (copy, healed) in copies.iter_mut().zip(self.vdevs().heal_batch(&reads, heal)) {
            let Some(mended) = out.get_mut(copy.block) else { continue };
            mended.faults.extend(healed.faults);
            mended.repaired += healed.repaired;
            mended.refused.extend(healed.refused);
            copy.data = healed.data;
        }
        // The copies of one pointer are adjacent.
        for copies in copies.chunk_by(|a, b| std::ptr::eq(a.bp, b.bp)) {
            self.copy_over(blocks, copies, &mut out);
        }
        out
    }

    /// A copy that no device of its vdev has is written from another one.
    fn copy_over(&self, blocks: &[(BlkPtr, Place)], copies: &[BlockCopy<'_>], out: &mut [Mended]) {
        let is_lost = |c: &&BlockCopy<'_>| matches!(c.data, Some(Err(_)));
        let Some(first) = copies.iter().find(is_lost) else { return };
        let Some((_, place)) = blocks.get(first.block) else { return };
        let good = copies.iter().find_map(|c| c.data.as_ref()?.as_ref().ok());
        let good = good.map(|b| AlignedBuf::copy_of(b)).or_else(|| {
            // Perhaps one that was not read has it.
            let is_unasked = copies.iter().any(|c| c.data.is_none() && !c.dva.is_gang());
            let (bp, scope) = (first.bp, Scope::Data);
            let request = Request { bp, place: *place, key: None, scope, raw: true };
            let block = is_unasked.then(|| self.read(request).block.ok()).flatten()?;
            Some(AlignedBuf::copy_of(&block))
        });
        let Some(good) = good else {
            return self.lose(blocks, first.block, ErrorKind::Unreadable, out);
        };
        let good = Shared::from(good);
        for copy in copies.iter().filter(is_lost) {
            let Some(mended) = out.get_mut(copy.block) else { continue };
            if self.write_at(copy.dva, copy.bp.physical_birth(), good.clone()) {
                mended.repaired += good.len() as u64;
            }
        }
    }

    /// Writes a copy and waits; whether its vdev took it.
    pub(super) fn write_at(&self, dva: Dva, birth: u64, data: Shared) -> bool {
        let arrived = self.vdevs().rt().condvar();
        let answer = Arc::new((Mutex::new(None), arrived));
        let done = {
            let answer = Arc::clone(&answer);
            Box::new(move |result: Result<(), vdev::WriteError>| {
                *answer.0.lock() = Some(result.is_ok());
                answer.1.notify_all();
            })
        };
        self.vdevs().write_batch(vec![BlockWrite {
            dva,
            data,
            birth,
            class: IoClass::Scrub,
            done,
        }]);
        let mut state = answer.0.lock();
        loop {
            match *state {
                Some(is_written) => return is_written,
                None => answer.1.wait(&mut state),
            }
        }
    }

    fn lose(&self, blocks: &[(BlkPtr, Place)], n: usize, kind: ErrorKind, out: &mut [Mended]) {
        let (Some((bp, place)), Some(mended)) = (blocks.get(n), out.get_mut(n)) else { return };
        let (place, scope) = (*place, Scope::Data);
        let request = Request { bp, place, key: None, scope, raw: true };
        mended.lost.get_or_insert_with(|| error(&request, kind, mended.faults.clone()));
    }
}
