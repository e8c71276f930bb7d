//! Error scrub: only the blocks of the error log are looked at again.
//!
//! # Theory
//!
//! A block that could not be had is in the error log until a scrub has seen everything. After its
//! device is back, or a file was written anew, a scrub of the whole pool is much work for a few
//! blocks. This looks up each block of the log where it stands now, reads all copies of it, writes
//! what is wrong, and takes what is whole off the log.
//!
//! ```text
//! log -> in pieces, with the gate: where is it now? -> healed -> flush -> one task: what is
//!                                        nowhere: it was freed             whole or freed goes
//! ```
//!
//! The gate keeps a txg from being committed as long as a piece lasts, so what a pointer leads to
//! is its block (`scan/mod.rs`). What readers met meanwhile stays: the task takes off what was
//! looked at, and nothing else. The log is short, so this runs on the thread that asks for it. How
//! it went is in the MOS as OpenZFS keeps it (`docs/format/scan.md`), at the end: one that is cut
//! off has done nothing that matters.

use super::LivePool;
use super::errlog::OldErrors;
use super::shared::{Shared, TaskCx};
use crate::errlog::{BY_HEAD, find_block, read};
use crate::error::Result;
use crate::faults::LostBlocks;
use crate::refusal::Ongoing;
use dmu::{ZapValue, zap};
use ondisk::errlog::Zbookmark;
use ondisk::scan::{ErrorScrubState, State};
use ondisk::{BlkPtr, mos};
use std::collections::{BTreeMap, BTreeSet};
use vdev::Heal;
use zio::Place;

/// Blocks that are looked up and healed at a time.
const PIECE: usize = 64;
/// Datasets in which one block is looked for at most.
const DATASETS_MAX: usize = 10_000;

/// An entry of the log: the block, and its birth where the log has it.
type Entry = (Zbookmark, Option<u64>);

/// What looking again gave.
#[derive(Default)]
struct RecheckResult {
    /// They are whole, or not referenced any more.
    fine: BTreeSet<Entry>,
    /// They cannot be had.
    lost: u64,
}

impl Shared {
    /// Where the block of an entry is now, in its dataset and, where that is a head, its snapshots.
    fn places_of(&self, (block, birth): Entry) -> dsl::Result<Vec<(BlkPtr, Place)>> {
        let mut out: BTreeMap<u64, (BlkPtr, Place)> = BTreeMap::new();
        let mut next = block.objset;
        for _ in 0..DATASETS_MAX {
            let dataset = self.dsl.nameless(next)?;
            let pointer = find_block(&self.dsl, &dataset, &block)?;
            let is_it = |bp: &BlkPtr| birth.is_none_or(|birth| bp.logical_birth() == birth);
            if let Some(bp) = pointer.filter(is_it) {
                let (object, blkid) = (block.object, block.blkid);
                let level = i8::try_from(block.level()).unwrap_or(0);
                let place = Place { objset: next, object, level, blkid };
                out.insert(bp.physical_birth(), (bp, place));
            }
            let phys = &dataset.phys;
            // Older snapshots cannot have it, and without a birth the entry is of one dataset.
            if phys.prev_snap == 0 || birth.is_none_or(|birth| phys.prev_snap_txg < birth) {
                break;
            }
            next = phys.prev_snap;
        }
        Ok(out.into_values().collect())
    }

    /// Looks again at some blocks.
    fn look_again(&self, entries: &[Entry], found: &mut RecheckResult) {
        let _gate = self.gate.read();
        for entry in entries {
            // The pool's own metadata, what is of no tree, and what cannot be looked up for damage
            // stays in the log.
            let is_of_tree = entry.0.objset != 0 && entry.0.level() >= Zbookmark::ROOT_LEVEL;
            let places = match self.places_of(*entry) {
                Ok(places) if is_of_tree => places,
                _ => {
                    found.lost += 1;
                    continue;
                }
            };
            let mended = self.reader.heal_many(&places, Heal::All);
            match mended.iter().all(|one| one.lost.is_none()) {
                true => {
                    found.fine.insert(*entry);
                }
                false => found.lost += 1,
            }
        }
    }
}

impl TaskCx<'_> {
    fn end_error_scrub(&self, state: &ErrorScrubState, fine: &BTreeSet<Entry>) -> Result<()> {
        let shared = self.shared;
        let by_head = shared.features.count(BY_HEAD).is_some();
        let log = read(self.objects(), by_head)?;
        let left = log.blocks.into_iter().filter(|entry| !fine.contains(entry));
        let left: LostBlocks = left.map(|(block, birth)| (block, birth.unwrap_or(0))).collect();
        if !fine.is_empty() {
            self.log_lost(&left, OldErrors::Replaced)?;
        }
        let directory = self.objects().object(mos::DIRECTORY_OBJECT)?;
        let words = ZapValue::from_words(&state.to_words());
        zap::set(&directory, self.tx, mos::ERROR_SCRUB.as_bytes(), &words)?;
        self.log_event_of_pool("error scrub done", &format!("errors={}", state.errors))
    }
}

impl LivePool {
    /// Looks again at the blocks of the error log, repairs what can be, and takes what is whole off
    /// it. `keep_going` is asked now and then. How many blocks cannot be had.
    ///
    /// # Errors
    /// A scrub or resilver runs, the log cannot be read, or `keep_going` said no: then the log is
    /// as it was.
    pub fn error_scrub(&self, keep_going: &dyn Fn() -> bool) -> Result<u64> {
        let shared = &self.shared;
        shared.check_not_suspended()?;
        if self.is_scanning() {
            return Err(self.shared.refused(Ongoing::Scan));
        }
        let start_time = shared.rt.wall().as_secs();
        shared.post_system("errorscrub_start");
        let log = {
            let _gate = shared.gate.read();
            read(&shared.mos, shared.features.count(BY_HEAD).is_some())?
        };
        let mut found = RecheckResult::default();
        for piece in log.blocks.chunks(PIECE) {
            if !keep_going() {
                return Err(shared.failed("error scrub", "it was cancelled"));
            }
            shared.look_again(piece, &mut found);
        }
        // What was written is durable before the log says less.
        shared.reader.vdevs().flush().map_err(|e| shared.failed("flushing", e))?;
        let all = log.blocks.len() as u64;
        let mut state = ErrorScrubState::default().with_state(State::Finished);
        (state.start_time, state.end_time) = (start_time, shared.rt.wall().as_secs());
        (state.to_examine, state.examined, state.errors) = (all, all, found.lost);
        let RecheckResult { fine, lost } = found;
        let healed: BTreeSet<Zbookmark> = fine.iter().map(|(block, _)| *block).collect();
        shared.run_keeping_datasets(move |cx| cx.end_error_scrub(&state, &fine))?;
        shared.block_faults.are_found(&healed);
        shared.post_system("errorscrub_finish");
        Ok(lost)
    }
}
