//! Writing what changed into the space maps, as part of a txg.

use super::Allocator;
use super::maps::{self, Shape, WriteMaps};
use super::metaslab::Metaslab;
use super::mos_writer::{MosWriter, format_error};
use super::stored::{SpaceMapLogs, header_of, may_have_histogram};
use super::top::Top;
use dmu::{Objset, Tx, zap};
use ondisk::spacemap::SpaceMapHeader;

/// Passes in which maps are condensed. The allocations and frees of the MOS itself are known from
/// the second pass on; late passes only append, so that they come to an end.
const CONDENSE_PASSES: u32 = 4;

/// Threads that read ends of maps: they only wait.
const READERS_MAX: usize = 64;

/// The result of a pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpaceSync {
    /// Something was written: the MOS is dirty, and another pass must follow.
    pub wrote: bool,
    /// To be added to the count of the feature `spacemap_histogram`: maps with one that were made,
    /// less those that were removed.
    pub histograms: i64,
    /// Maps of what is obsolete that were made, each of which counts for the feature
    /// `obsolete_counts`.
    pub obsolete_maps: i64,
}

impl Allocator {
    /// Writes into the space maps of `mos` what `tx`'s txg allocated and freed since the last call.
    /// Called once per pass, from 1 on, until nothing is written: writing the MOS changes what is
    /// allocated.
    ///
    /// # Errors
    /// When the MOS cannot be changed. The txg cannot be finished then.
    pub fn sync_metaslabs(&self, mos: &Objset, tx: &Tx, pass: u32) -> dmu::Result<SpaceSync> {
        if pass == 1 {
            self.read_ends(mos, tx.txg());
        }
        let histograms = self.options.histograms;
        let mut writer = MosWriter::new(mos, tx, histograms);
        let wrote = self.sync_maps(&mut writer, tx.txg(), pass)?;
        let obsolete = self.sync_obsolete(&mut writer, tx.txg(), pass)?;
        let mut out = SpaceSync {
            wrote: wrote || obsolete.wrote,
            histograms: writer.made,
            obsolete_maps: obsolete.made,
        };
        let logs = self.logs.lock().take();
        if let Some(logs) = logs {
            out.histograms -= logs.histograms;
            out.histograms -= remove_replaced(mos, tx, &logs)?;
            remove_logs(mos, tx, &logs)?;
            out.wrote = true;
        }
        Ok(out)
    }

    /// Reads the last block of each map that is about to be appended to, all at the same time: one
    /// after the other they are as many seeks as there are devices. Failures here are met again
    /// where they matter.
    fn read_ends(&self, mos: &Objset, txg: u64) {
        let mut maps = Vec::new();
        for top in self.tops().values() {
            let dirty = top.metaslabs.iter().filter(|m| m.is_dirty(txg));
            maps.extend(dirty.map(Metaslab::object).filter(|number| *number != 0));
        }
        // A few are not worth the threads.
        if maps.len() < 8 {
            return;
        }
        let read = |number: u64| -> dmu::Result<()> {
            let object = mos.object(number)?;
            let end = header_of(&object)?.length / object.dnode().block_size().max(1);
            object.read_block(end).map(drop)
        };
        let workers = maps.len().min(READERS_MAX);
        let _ = mos.store().rt().for_each_parallel(workers, maps, |number| {
            let _ = read(number);
            Ok::<(), ()>(())
        });
    }

    /// The same over any maps.
    pub(super) fn sync_maps(
        &self,
        writer: &mut dyn WriteMaps,
        txg: u64,
        pass: u32,
    ) -> dmu::Result<bool> {
        for lane in self.lanes.iter().flatten() {
            lane.0.lock().settle();
        }
        let mut wrote = false;
        for top in self.tops().values() {
            for (i, m) in top.metaslabs.iter().enumerate() {
                if m.is_dirty(txg) {
                    wrote |= self.sync_one(writer, top, i, m, txg, pass)?;
                }
            }
        }
        wrote |= self.sync_kept(writer, txg, pass)?;
        Ok(wrote)
    }

    fn sync_one(
        &self,
        writer: &mut dyn WriteMaps,
        top: &Top,
        index: usize,
        m: &Metaslab,
        txg: u64,
        pass: u32,
    ) -> dmu::Result<bool> {
        if m.is_logged() {
            // The histogram cannot be carried on from a log.
            top.load(index, &*self.maps, &|text| self.problem(text));
        }
        let object = m.object();
        let (header, block_size) = match object {
            0 => (SpaceMapHeader::new(self.options.histograms), self.map_block),
            n => writer.open(n)?,
        };
        let shape = Shape {
            length: header.length,
            block_size,
            shift: top.ashift,
            two_words: self.options.two_words,
            condense: pass <= CONDENSE_PASSES,
            tells_frees: self.is_leaving(top.id),
        };
        let Some(change) = m.collect(&top.room, txg, &shape) else { return Ok(false) };
        for (start, end) in &change.given_up {
            self.free_of_leaving(top.id, *start, *end, txg);
        }
        let object = match object {
            0 => writer.create(top.ms_array, index as u64)?,
            n => n,
        };
        let new = maps::encode(&change, m.start, &shape, &header, txg, pass);
        let new = new.map_err(|error| format_error(object, error))?;
        writer.write(object, new.at, &new.bytes, &new.header)?;
        m.map_written(object);
        Ok(true)
    }

    /// `txg` is durable. Space that was freed two synced txgs ago can be allocated from now on;
    /// space that lanes have not used goes back.
    pub fn sync_done(&self, txg: u64) {
        for lane in self.lanes.iter().flatten() {
            lane.0.lock().clear();
        }
        let notes = self.notes_freed.load(std::sync::atomic::Ordering::Relaxed);
        let waits = self.frees_held.sync_done();
        for top in self.tops().values() {
            for m in top.metaslabs.iter().filter(|m| m.is_active()) {
                m.synced(&top.room, notes, waits);
            }
            top.weigh();
        }
        self.freed.durable(txg);
        self.prepare();
    }

    /// Whether freed space still waits for later txgs: as long as there is some, syncing empty txgs
    /// makes more room.
    #[must_use]
    pub fn has_deferred(&self) -> bool {
        let tops = self.tops();
        let mut all = tops.values().flat_map(|t| &t.metaslabs);
        all.any(|m| m.is_active() && m.deferred() > 0)
    }
}

/// Removes the maps for which there are new ones; how many had a histogram. One whose dnode cannot
/// be read is given up.
fn remove_replaced(mos: &Objset, tx: &Tx, logs: &SpaceMapLogs) -> dmu::Result<i64> {
    let mut histograms = 0;
    for number in &logs.replaced {
        if mos.object(*number).is_ok() {
            histograms += i64::from(may_have_histogram(mos, *number));
            mos.free(tx, *number)?;
        }
    }
    Ok(histograms)
}

/// Removes what the metaslabs have taken in. A metaslab whose txg is 0 has nothing in any log; the
/// table of logs stays, empty.
fn remove_logs(mos: &Objset, tx: &Tx, logs: &SpaceMapLogs) -> dmu::Result<()> {
    for (key, object) in &logs.logs {
        zap::remove(&mos.object(logs.table)?, tx, key.as_slice())?;
        // One that was not read may be gone.
        if mos.object(*object).is_ok() {
            mos.free(tx, *object)?;
        }
    }
    for (object, words) in &logs.unflushed {
        let zeros = vec![0; *words as usize * 8];
        mos.object(*object)?.write_at(tx, 0, &zeros)?;
    }
    Ok(())
}
