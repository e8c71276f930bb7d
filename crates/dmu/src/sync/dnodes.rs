//! Dnodes as what they are on disk: the data of the meta dnode.

use super::{Job, SetSync, Write};
use crate::error::{ErrorKind, Result};
use crate::ranges::BlockRanges;
use crate::versions::set::{DNODE_BLOCK_SIZE, FIRST_SPECIAL, SLOTS_PER_BLOCK};
use crate::versions::state::{Content, ObjectChanges, TreeMend};
use device::AlignedBuf;
use ondisk::blkptr::CryptParams;
use ondisk::dnode::{DNODE_SLOT_SIZE, EXTRA_SLOTS_AT};
use ondisk::{BlkPtr, Compression, Dnode, Endian, ObjsetPhys};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use zio::{Block, Seal};

/// A block of dnodes with the jobs whose dnodes are in it.
struct DnodeBlock<'a> {
    jobs: &'a [Job],
    blkid: u64,
    old: BlkPtr,
    before: Option<Arc<Block>>,
    after: Option<(Block, u64)>,
}

impl SetSync<'_> {
    /// Writes the changed dnodes, and puts the new meta dnode into `phys`.
    pub(super) fn write_dnodes(&self, phys: &mut ObjsetPhys, jobs: &[Job]) -> Result<()> {
        let Some(before) = phys.meta_dnode.clone().map(Arc::new) else { return Ok(()) };
        // Jobs come in the order of their numbers, the special ones behind all others.
        let n = jobs.iter().position(|j| j.object.number() >= FIRST_SPECIAL);
        let jobs = &jobs[..n.unwrap_or(jobs.len())];
        let block_of = |j: &Job| j.object.number() / SLOTS_PER_BLOCK;
        let groups: Vec<&[Job]> = jobs.chunk_by(|a, b| block_of(a) == block_of(b)).collect();
        let Some(last) = groups.last().and_then(|g| g.first()) else { return Ok(()) };
        let mut attrs = Dnode::clone(&before);
        attrs.max_block = attrs.max_block.max(block_of(last));
        let taken = ObjectChanges {
            attrs: Some(Arc::new(attrs)),
            clear: false,
            levels: None,
            blocks: Vec::new(),
            holes: BlockRanges::default(),
            spill: None,
            mend: TreeMend::default(),
        };
        let used = self.live.meta_used.swap(0, Ordering::Relaxed);
        let mut meta = [Job {
            object: Arc::clone(self.live.meta()),
            before: Some(before),
            taken,
            tree: None,
            used: AtomicI64::new(used),
            after: None,
        }];
        self.prune(&mut meta[0])?;
        if let Some(tree) = &mut meta[0].tree {
            tree.need(groups.iter().filter_map(|g| g.first()).map(block_of));
        }
        self.load(&mut meta)?;
        let [mut meta] = meta;
        let pointer = |id| meta.tree.as_ref().map_or(BlkPtr::HOLE, |t| t.pointer(0, id));
        let mut blocks: Vec<_> = groups
            .into_iter()
            .map(|jobs| {
                let blkid = jobs.first().map_or(0, block_of);
                DnodeBlock { jobs, blkid, old: pointer(blkid), before: None, after: None }
            })
            .collect();
        self.for_each(&mut blocks, |b| {
            let is_renewed = self.live.renewed.lock().contains(&b.blkid);
            if !b.old.is_hole() && !is_renewed {
                b.before = Some(self.read(&b.old, self.place(0, 0, b.blkid))?);
            }
            b.after = Some(self.patch_dnodes(b)?);
            b.before = None;
            Ok(())
        })?;
        let writes = blocks.into_iter().filter_map(|b| {
            let (block, fill) = b.after?;
            let block = self.sealed_dnodes(b.blkid, &b.old, block);
            let content = Content::Block(Arc::new(block));
            Some(Write { job: 0, blkid: b.blkid, content, fill, old: b.old })
        });
        let writes: Vec<Write> = writes.collect();
        self.write_object(&mut meta, writes)?;
        self.finish(&mut meta);
        phys.meta_dnode = meta.after.as_deref().cloned();
        Ok(())
    }

    /// A block of dnodes, as it is to be written in the place of `old`.
    fn sealed_dnodes(&self, blkid: u64, old: &BlkPtr, block: Block) -> Block {
        if !self.live.is_sealed() {
            return block;
        }
        let of_old = || match old.is_encrypted() {
            true => (CryptParams { salt: old.crypt_salt(), iv: old.crypt_iv() }, old.crypt_mac()),
            false => (CryptParams { salt: [0; 8], iv: [0; 12] }, [0; 16]),
        };
        let (params, mac) =
            self.live.dnode_seals.lock().get(&blkid).copied().unwrap_or_else(of_old);
        block.sealed(Seal {
            size: DNODE_BLOCK_SIZE,
            compression: Compression::OFF,
            params: Some(params),
            mac,
        })
    }

    /// The block with the new dnodes, and how many it holds.
    fn patch_dnodes(&self, b: &DnodeBlock<'_>) -> Result<(Block, u64)> {
        let (mut bytes, endian) = match &b.before {
            Some(old) => (AlignedBuf::copy_of(old), old.endian()),
            None => (AlignedBuf::zeroed(DNODE_BLOCK_SIZE as usize), Endian::Little),
        };
        let wrong =
            |job: &Job, rule| Err(self.set.error(job.object.number(), ErrorKind::Tree(rule)));
        let at = |job: &Job| (job.object.number() % SLOTS_PER_BLOCK) as usize * DNODE_SLOT_SIZE;
        // All that goes makes room before what comes: it may come into the same slots.
        for job in b.jobs {
            let Some(before) = &job.before else { continue };
            match bytes.get_mut(at(job)..at(job) + before.size()) {
                Some(slots) => slots.fill(0),
                None => return wrong(job, "a dnode crosses its block"),
            }
        }
        for job in b.jobs {
            let Some(after) = &job.after else { continue };
            if after.endian != endian && !after.bonus.is_empty() {
                return wrong(job, "a dnode has another byte order than its block");
            }
            match bytes.get_mut(at(job)..at(job) + after.size()) {
                Some(slots) => slots.copy_from_slice(&after.encode(endian)),
                None => return wrong(job, "a dnode crosses its block"),
            }
        }
        let fill = count_dnodes(&bytes);
        Ok((Block::new(bytes, endian), fill))
    }
}

/// Allocated dnodes of a block.
fn count_dnodes(bytes: &[u8]) -> u64 {
    let mut n = 0;
    let mut at = 0;
    while let Some(slot) = bytes.get(at..at + DNODE_SLOT_SIZE) {
        let extra = if Dnode::is_free_slot(slot) {
            0
        } else {
            n += 1;
            usize::from(slot.get(EXTRA_SLOTS_AT).copied().unwrap_or(0))
        };
        at += (extra + 1) * DNODE_SLOT_SIZE;
    }
    n
}
