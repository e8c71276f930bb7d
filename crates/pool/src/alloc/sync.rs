//! Writing what changed into the space maps, as part of a txg.

use super::Allocator;
use super::maps::{self, Shape, WriteMaps};
use super::metaslab::Metaslab;
use super::stored::{SpaceMapLogs, header_of, may_have_histogram};
use super::top::Top;
use dmu::{NewObject, Objset, Place, Tx, zap};
use ondisk::spacemap::SpaceMapHeader;
use ondisk::{DmuType, Endian};

/// Block size of new space maps in bytes. A txg appends a few words to each map it changes, and
/// writes the last block again: as long as most of it is zeros it is written in a sector or two,
/// and 16 KiB hold two thousand entries before the map needs indirect blocks, which then would be
/// written with it. OpenZFS takes the same size on pools without log space maps.
pub(super) const BLOCK: usize = 16 << 10;
/// log2 of the size of their indirect blocks.
const INDIRECT_SHIFT: u8 = 14;

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

/// Space maps of the MOS, as one txg writes them.
pub(super) struct MosWriter<'a> {
    mos: &'a Objset,
    tx: &'a Tx,
    histograms: bool,
    made: i64,
}

impl<'a> MosWriter<'a> {
    pub(super) fn new(mos: &'a Objset, tx: &'a Tx, histograms: bool) -> Self {
        Self { mos, tx, histograms, made: 0 }
    }

    /// Makes a map whose number is not entered anywhere.
    fn new_map(&mut self) -> dmu::Result<u64> {
        let header = SpaceMapHeader::new(self.histograms).encode(Endian::Little);
        let spec = NewObject::new(DmuType::SPACE_MAP).block_size(BLOCK as u32);
        let spec = NewObject { indirect_shift: Some(INDIRECT_SHIFT), ..spec };
        let spec = spec.bonus(DmuType::SPACE_MAP_HEADER, &header);
        self.made += i64::from(self.histograms);
        Ok(self.mos.create(self.tx, &spec)?.number())
    }
}

/// An entry of map `object` that cannot be.
pub(super) fn format_error(object: u64, error: ondisk::Error) -> dmu::Error {
    let place = Place { objset: 0, object, level: 0, blkid: 0 };
    dmu::Error { objset: 0, object, kind: dmu::ErrorKind::Format { place, error } }
}

impl WriteMaps for MosWriter<'_> {
    fn create(&mut self, array: u64, index: u64) -> dmu::Result<u64> {
        let number = self.new_map()?;
        let array = self.mos.object(array)?;
        array.write_at(self.tx, index * 8, &number.to_le_bytes())?;
        Ok(number)
    }

    fn create_named(&mut self, table: u64, name: &str) -> dmu::Result<u64> {
        let number = self.new_map()?;
        zap::set_u64(&self.mos.object(table)?, self.tx, name, number)?;
        Ok(number)
    }

    fn open(&self, object: u64) -> dmu::Result<(SpaceMapHeader, usize)> {
        let object = self.mos.object(object)?;
        Ok((header_of(&object)?, object.dnode().block_size() as usize))
    }

    fn write(
        &mut self,
        number: u64,
        at: u64,
        bytes: &[u8],
        header: &SpaceMapHeader,
    ) -> dmu::Result<()> {
        let object = self.mos.object(number)?;
        object.write_at(self.tx, at, bytes)?;
        let block = object.dnode().block_size().max(1);
        let end = header.length.next_multiple_of(block);
        if end < object.size_of_blocks() {
            self.mos.object(number)?.free_range(self.tx, end, u64::MAX)?;
        }
        let bonus = header.encode(Endian::Little);
        self.mos.object(number)?.set_bonus(self.tx, DmuType::SPACE_MAP_HEADER, &bonus)
    }
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
