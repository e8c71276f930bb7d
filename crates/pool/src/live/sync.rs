//! Syncing one txg: from frozen changes to a durable uberblock.
//!
//! # Theory
//!
//! ```text
//! first    the checkpoint that is made in this txg
//! pass 1   heads     dirty object sets are written, their datasets accounted
//!          copy      a piece of a vdev that leaves is copied (`evacuate`)
//!          reflow    a piece of a raidz that gets wider is moved (`reflow`)
//!          mapping   entries for what was copied off a vdev that leaves
//!          tasks     changes of the MOS that were asked for: snapshots, properties, …
//!          freeing   a piece of what was destroyed before
//!          clones    references to shared blocks are counted (`clones`)
//! again    leaves    the dirty time logs of leaves that missed something
//!          config    the packed configuration, when vdevs or names changed
//! pass 1.. space     metaslabs append what was allocated and freed to their space maps
//!          MOS       is written, into memory; writing allocates and frees, so again from `space`
//!                    until nothing changed
//!          the MOS's blocks are submitted, all writes are waited for
//!          labels 0 and 2, when the configuration changed
//!          flush; from `leaves` again when a leaf missed something that was not said
//! then     uberblock; flush
//!          labels 1 and 3
//! ```
//!
//! Until the last flush no uberblock that a crash could leave points at anything new; after it the
//! old one is of no importance. A failure before the uberblock leaves the pool as it was on disk.
//! When devices failed, the sync is suspended where the pool may be (`suspend.rs`): all that the
//! txg wrote is in memory still, and is written once more. Otherwise the engine stops: nothing that
//! is in memory can be trusted to agree with the disk any more. That includes a task that fails
//! after it changed something (`task.rs`).
//!
//! Convergence: in later passes only space maps and the path from them to the root are dirty; their
//! blocks were born in this txg and go to the same place again when their size is the same, gangs
//! too. On a full pool, where each new place changes many maps, compressed sizes may go on
//! changing; so after some passes nothing is compressed, and then all sizes are what they are.

use super::config::PoolFacts;
use super::evacuate::OBSOLETE;
use super::head::Head;
use super::record::TxgRecord;
use super::shared::{Shared, Task, TaskCx, USUAL_ROUNDS};
use crate::error::Result;
use dmu::{SetPolicy, SyncContext, Tx};
use dsl::write::finish_head;
use ondisk::BlkPtr;
use ondisk::config::{PoolState, VdevConfig};
use ondisk::nvlist::NvList;
use ondisk::uberblock::Uberblock;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use vdev::label::Round;
use vdev::{NodeRef, Reflow, TopRef};
use zio::WriterStats;
use zio::profile::Stage;

/// Passes after which something must be wrong. Real pools need 3 to 6.
const PASSES_MAX: u32 = 64;

/// The pass from which on the MOS is not compressed any more: as OpenZFS's
/// `zfs_sync_pass_dont_compress`.
const PASS_UNCOMPRESSED: u32 = 8;

/// What is left to be written of a txg when everything else is durable.
struct Prepared {
    uberblock: Uberblock,
    /// What the labels are to say, when it changed.
    config: Option<(PoolFacts, VdevConfig, PoolState)>,
    /// The labels that are written before the uberblock, and those after it.
    rounds: [Round; 2],
    /// What the uberblock says anew of the expansion of a vdev.
    reflow: Option<(u32, Reflow)>,
}

/// What devices did.
#[derive(Clone, Copy, Default)]
struct Traffic {
    reads: u64,
    read_bytes: u64,
    writes: u64,
    write_bytes: u64,
}

impl Traffic {
    /// Notes what devices did since `before`.
    fn note_since(&self, before: &Self, record: &mut TxgRecord) {
        record.reads = self.reads.saturating_sub(before.reads);
        record.read_bytes = self.read_bytes.saturating_sub(before.read_bytes);
        record.writes = self.writes.saturating_sub(before.writes);
        record.write_bytes = self.write_bytes.saturating_sub(before.write_bytes);
    }
}

impl Shared {
    /// Syncs the txg of `record`, which no transaction is in any more.
    pub(super) fn sync(&self, record: &mut TxgRecord) -> Result<()> {
        let (txg, began) = (record.txg, self.rt.now());
        let before = self.writer.stats();
        let io = self.traffic();
        self.patient.take_read_time();
        let heads = self.dirty_heads(txg);
        let tasks = self.take_tasks(txg);
        // Before the first write, with which a file that was cut short grows again.
        self.reader.vdevs().poll_displaced(txg);
        let is_recorded = !self.config.lock().dirty && self.are_leaves_recorded();
        let logged = !self.block_faults.has_lost();
        let idle = heads.is_empty()
            && tasks.is_empty()
            && is_recorded
            && logged
            && self.early.is_empty(txg);
        let more = self.mos.is_dirty(txg) || self.has_background_work();
        // An empty txg brings what was freed before one txg closer to being free.
        if idle && !more && !self.alloc.has_deferred() {
            self.space.mark_clean(txg);
            return Ok(());
        }
        self.reader.vdevs().absent_miss(txg);
        let tx = Tx::syncing(txg);
        self.blocks.begin(txg);
        let guid = || self.rt.random_u64();
        let mut cx = TaskCx::new(self, &tx, &guid);
        let tasks_ran = !tasks.is_empty();
        let (first, tasks): (Vec<_>, Vec<_>) = tasks.into_iter().partition(|t| t.is_first);
        if !first.is_empty() {
            let _guard = self.gate.write();
            self.run_tasks(&mut cx, first)?;
        }
        // The bulk: data of datasets. The MOS is not touched, so its readers need not wait.
        let mut written = Vec::with_capacity(heads.len());
        for head in &heads {
            let account = self.account(&cx, head.dataset)?;
            self.sync_log(head, &tx)?;
            let features = self.features_in_use(head, txg);
            written.push((self.sync_objset(head, txg, &account)?, account, features));
        }
        let piece = self.copy_piece(txg);
        let reflowed = self.reflow_step();
        for bp in self.early.take_left(txg) {
            self.writer.free_logged(&bp, txg);
        }
        let _guard = self.gate.write();
        for (head, (root, account, features)) in heads.iter().zip(&written) {
            finish_head(&cx.dsl(), account, root.as_ref(), features)?;
            head.reached.note(&cx.dsl(), head.dataset)?;
        }
        cx.settle_piece(piece)?;
        cx.settle_reflow(reflowed)?;
        if tasks.iter().any(|task| !task.keeps_datasets) {
            cx.forget_place()?;
        }
        self.run_tasks(&mut cx, tasks)?;
        cx.log_what_was_read()?;
        cx.free_piece(tasks_ran)?;
        cx.discard_piece()?;
        cx.settle_clones()?;
        let prepared = self.write_all(&cx, record)?;
        record.write_time = self.rt.now().saturating_sub(began);
        self.note_written(&heads, &before, record);
        self.writer.profiler().watch(Stage::Io, 0, || self.commit_surely(&prepared))?;
        self.publish(txg)?;
        self.traffic().note_since(&io, record);
        record.sync = self.rt.now().saturating_sub(began);
        Ok(())
    }

    /// There is something to do in the next txg, though none was requested.
    pub(super) fn has_background_work(&self) -> bool {
        let is_set = |flag: &AtomicBool| flag.load(Ordering::Relaxed);
        is_set(&self.reaping)
            || is_set(&self.discarding)
            || self.is_removal_running()
            || self.is_reflow_running()
            || self.is_recounting()
    }

    /// Notes what was written since `before`, of these heads.
    fn note_written(&self, heads: &[Arc<Head>], before: &WriterStats, record: &mut TxgRecord) {
        let after = self.writer.stats();
        record.blocks = after.blocks - before.blocks;
        record.written = after.stored - before.stored;
        record.read_time = self.patient.take_read_time();
        if !heads.is_empty() {
            self.txgs.laid_out(self.inflation(heads, after.gangs > before.gangs));
        }
    }

    /// Runs sync tasks, one after the other.
    fn run_tasks(&self, cx: &mut TaskCx<'_>, tasks: Vec<Task>) -> Result<()> {
        for Task { run, .. } in tasks {
            run(cx);
            if let Some(why) = cx.broken.take() {
                return Err(self.failed("a change failed half way and was not written", why));
            }
        }
        Ok(())
    }

    /// What all devices have done so far.
    fn traffic(&self) -> Traffic {
        let mut out = Traffic::default();
        for leaf in self.reader.vdevs().leaves() {
            let Some(stats) = leaf.device().map(|d| d.stats()) else { continue };
            out.reads += stats.reads;
            out.read_bytes += stats.bytes;
            out.writes += stats.writes;
            out.write_bytes += stats.written;
        }
        out
    }

    fn dirty_heads(&self, txg: u64) -> Vec<Arc<Head>> {
        self.recount_in(txg);
        let heads = self.heads.read();
        let dirty = heads.values().filter(|h| h.objset.is_dirty(txg));
        let mut dirty: Vec<_> = dirty.cloned().collect();
        // The order of a hash table must not decide what goes where on disk.
        dirty.sort_by_key(|h| h.dataset);
        for head in &dirty {
            head.objset.freeze(txg);
        }
        dirty
    }

    /// Writes the MOS and the first labels until what they say of the leaves, and of an expansion,
    /// is true of what became of writing them. See `leaves.rs`.
    fn write_all(&self, cx: &TaskCx<'_>, record: &mut TxgRecord) -> Result<Prepared> {
        let mut root = self.uberblock.lock().rootbp;
        // Of this txg something may have been written before the pool was resumed.
        let is_older = cx.tx.txg() <= self.resumed.open_txg.load(Ordering::Acquire);
        self.resumed.writes_again.fetch_or(is_older, Ordering::AcqRel);
        loop {
            self.note_leaves(cx)?;
            cx.discount_reflow()?;
            self.write_config(cx)?;
            root = self.converge(cx, record, root)?;
            self.writer.release();
            if self.resumed.writes_again.swap(false, Ordering::AcqRel) {
                self.writer.write_again(cx.tx.txg());
                self.give_up_reflow();
            }
            match self.land_and_prepare(cx.tx.txg(), root) {
                Ok(prepared) if self.are_leaves_recorded() && self.is_reflow_recorded() => {
                    return Ok(prepared);
                }
                Ok(_) => {}
                Err(failure) => {
                    self.suspend(cx.tx.txg(), failure)?;
                    self.give_up_reflow();
                }
            }
        }
    }

    /// Waits for all blocks of a txg, and makes them durable.
    fn land_and_prepare(&self, txg: u64, root: BlkPtr) -> Result<Prepared> {
        let _readers = self.gate.wait_for_devices(&self.rt);
        let written = self.writer.wait_txg(txg);
        written.map_err(|e| self.failed("writing blocks", e))?;
        self.reader.vdevs().judge_leaves();
        let prepared = self.prepare(txg, root)?;
        self.reader.vdevs().absent_miss(txg);
        Ok(prepared)
    }

    /// Writes the uberblock and the last labels, after suspensions if need be.
    fn commit_surely(&self, prepared: &Prepared) -> Result<()> {
        let txg = prepared.uberblock.txg;
        let waiting = |work: &dyn Fn() -> Result<()>| {
            let _readers = self.gate.wait_for_devices(&self.rt);
            work()
        };
        while let Err(failure) = waiting(&|| self.commit(prepared)) {
            self.suspend(txg, failure)?;
            while let Err(failure) = waiting(&|| self.rewrite_durably(txg)) {
                self.suspend(txg, failure)?;
            }
        }
        Ok(())
    }

    /// Passes over space maps and the MOS until nothing changes; the pointer to the new MOS, or
    /// `root` when nothing did. Passes count on when a txg goes round.
    fn converge(
        &self,
        cx: &TaskCx<'_>,
        record: &mut TxgRecord,
        mut root: BlkPtr,
    ) -> Result<BlkPtr> {
        let failed = |e: dmu::Error| self.failed("writing the MOS", e);
        for pass in 1..=PASSES_MAX {
            record.passes += 1;
            if pass == PASS_UNCOMPRESSED {
                self.mos.set_policy(SetPolicy::mos().uncompressed());
            }
            let maps = self.alloc.sync_metaslabs(cx.objects(), cx.tx, pass).map_err(failed)?;
            if maps.histograms != 0 {
                let guid = "com.delphix:spacemap_histogram";
                self.features.add(cx.tx, guid, maps.histograms).map_err(failed)?;
            }
            if maps.obsolete_maps != 0 {
                self.features.add(cx.tx, OBSOLETE, maps.obsolete_maps).map_err(failed)?;
            }
            cx.count_spared()?;
            self.mos_account.apply(&cx.dsl())?;
            if !self.mos.is_dirty(cx.tx.txg()) {
                if pass >= PASS_UNCOMPRESSED {
                    self.mos.set_policy(SetPolicy::mos());
                }
                return Ok(root);
            }
            self.mos.freeze(cx.tx.txg());
            let sync = SyncContext {
                workers: self.leaf_sync_workers(),
                writer: &*self.writer,
                owner: &self.mos_account,
                txg: cx.tx.txg(),
                hold: true,
            };
            if let Some(bp) = cx.objects().sync(&sync).map_err(failed)? {
                root = bp;
            }
        }
        Err(self.failed("writing the MOS", "it did not converge"))
    }

    /// Makes everything durable that `root` reaches, or sees to it that no uberblock is without;
    /// and the first labels where the configuration changed.
    fn prepare(&self, txg: u64, root: BlkPtr) -> Result<Prepared> {
        let mut uberblock = *self.uberblock.lock();
        uberblock.txg = txg;
        // A pool that went back to a checkpoint goes on from here.
        uberblock.checkpoint_txg = 0;
        uberblock.rootbp = root;
        uberblock.timestamp = self.rt.wall().as_secs();
        let (config, rounds) = {
            let state = self.config.lock();
            uberblock.guid_sum = super::config::guid_sum(&state.root);
            let config = || (state.facts.clone(), state.root.clone(), state.state);
            (state.dirty.then(config), state.rounds)
        };
        let reflow = self.put_reflow(&mut uberblock);
        let prepared = Prepared { uberblock, config, rounds, reflow };
        match &prepared.config {
            None => self.reader.vdevs().order_writes().map_err(|e| self.failed("flushing", e))?,
            // Ends with a flush of everything.
            Some(_) => self.write_labels(&prepared, rounds[0])?,
        }
        Ok(prepared)
    }

    fn write_labels(&self, prepared: &Prepared, round: Round) -> Result<()> {
        let Some((facts, tree, state)) = &prepared.config else { return Ok(()) };
        let txg = prepared.uberblock.txg;
        let list = |leaf: NodeRef<'_>, top: TopRef<'_>| {
            let id = u64::from(top.id());
            let config = tree.children.iter().find(|c| c.id == id);
            config.map_or(NvList::new(), |top| facts.for_label(*state, txg, tree, top, leaf.guid()))
        };
        let written = self.reader.vdevs().write_labels(round, &list);
        written.map_err(|e| self.failed("writing labels", e))
    }

    /// Writes the uberblock: the point after which the txg cannot be lost.
    fn commit(&self, prepared: &Prepared) -> Result<()> {
        *self.resumed.begun.lock() = Some(prepared.uberblock.rootbp);
        let written = self.reader.vdevs().write_uberblock(&prepared.uberblock);
        written.map_err(|e| self.failed("writing labels", e))?;
        // From here on the txg is durable. What fails now is said by the next one.
        if let Some((vdev, reflow)) = prepared.reflow {
            self.reader.vdevs().commit_reflow(vdev, reflow);
            self.reflows.settle();
        }
        if prepared.config.is_some() {
            let mut config = self.config.lock();
            (config.dirty, config.rounds) = (false, USUAL_ROUNDS);
            self.labels_written.fetch_add(1, Ordering::Relaxed);
        }
        self.write_labels(prepared, prepared.rounds[1])?;
        *self.uberblock.lock() = prepared.uberblock;
        Ok(())
    }

    /// Shows readers the txg that is durable now.
    fn publish(&self, txg: u64) -> Result<()> {
        self.store.set_settled(txg);
        self.writer.settle(txg);
        self.store.keep_written(self.writer.take_recent());
        self.alloc.sync_done(txg);
        self.mos.synced(txg);
        for head in &self.all_heads() {
            head.objset.synced(txg);
            head.log.synced(txg);
            let dataset = self.dsl_in_sync.nameless_head(head.dataset)?;
            head.space.synced(txg, self.room_of(&self.dsl_in_sync, &dataset)?);
        }
        self.space.synced(txg, self.room_of_pool());
        self.works.synced(txg);
        self.clear_gone();
        self.begin_repairs();
        if let Some(grown) = self.reflows.take_ended() {
            self.alloc.grow(&grown);
        }
        self.use_added()?;
        self.note_changes();
        Ok(())
    }

    /// The packed configuration in the MOS, when it changed.
    fn write_config(&self, cx: &TaskCx<'_>) -> Result<()> {
        let mut state = self.config.lock();
        state.facts.features_for_read = {
            let now = self.features.for_labels();
            state.dirty |= now != state.facts.features_for_read;
            now
        };
        if !state.dirty {
            return Ok(());
        }
        let list = state.facts.for_mos(PoolState::Active, cx.tx.txg(), &state.root);
        let object = state.object;
        drop(state);
        super::mos::write_packed(cx.objects(), cx.tx, object, &list)
            .map_err(|e| self.failed("writing the configuration", e))
    }
}
