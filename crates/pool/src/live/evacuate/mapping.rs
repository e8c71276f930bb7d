//! What the MOS has of a removal that runs: the mapping, its births, its state.

use super::copy::CopiedSegment;
use crate::error::{Error, Result};
use crate::live::removals::RunningRemoval;
use crate::live::shared::TaskCx;
use dmu::{NewObject, Object, ZapValue, zap};
use ondisk::config::VdevConfig;
use ondisk::indirect::{BirthEntry, BirthsHeader, MappingEntry, MappingHeader, RemovalState};
use ondisk::mos::{self, vdev_zap};
use ondisk::spacemap::SpaceMapHeader;
use ondisk::{DmuType, Endian};

/// Counts removed vdevs, and one that leaves.
const REMOVAL: &str = "com.delphix:device_removal";
/// Counts vdevs whose counts are exact, objects of counts, and maps of what is obsolete.
pub(in crate::live) const OBSOLETE: &str = "com.delphix:obsolete_counts";

/// Self-describing types "numbers of 64 bits, metadata" and of 32.
const WORDS: DmuType = DmuType(0xc3);
const HALF_WORDS: DmuType = DmuType(0xc2);
/// Block size of these objects in bytes, as OpenZFS has it.
const BLOCK: u32 = 128 << 10;

impl TaskCx<'_> {
    /// Makes the objects of a removal that begins.
    pub(super) fn new_mapping(&self, top: &VdevConfig) -> Result<(u64, MappingHeader, u64)> {
        let (objects, features) = (self.objects(), &self.shared.features);
        let new = |kind: DmuType| NewObject::new(kind).block_size(BLOCK);
        features.add(self.tx, REMOVAL, 1)?;
        let mut header = MappingHeader::default();
        if features.is_enabled("obsolete_counts") {
            let table = objects.object(top.vdev_zap_top.unwrap_or(0))?;
            zap::set_u64(&table, self.tx, vdev_zap::OBSOLETE_COUNTS_PRECISE, 1)?;
            header.counts_object = Some(objects.create(self.tx, &new(HALF_WORDS))?.number());
            features.add(self.tx, OBSOLETE, 2)?;
        }
        let bonus = header.encode(Endian::Little);
        let mapping = objects.create(self.tx, &new(WORDS).bonus(WORDS, &bonus))?.number();
        let bonus = BirthsHeader::default().encode(Endian::Little);
        let births = objects.create(self.tx, &new(WORDS).bonus(WORDS, &bonus))?.number();
        Ok((mapping, header, births))
    }

    /// Frees them when it is called off.
    pub(super) fn free_mapping(&self, running: &RunningRemoval, top: &VdevConfig) -> Result<()> {
        let (objects, features) = (self.objects(), &self.shared.features);
        features.add(self.tx, REMOVAL, -1)?;
        if let Some(counts) = running.header.counts_object.filter(|n| *n != 0) {
            objects.free(self.tx, counts)?;
            features.add(self.tx, OBSOLETE, -1)?;
        }
        objects.free(self.tx, running.mapping)?;
        objects.free(self.tx, running.births)?;
        let Some(number) = top.vdev_zap_top.filter(|n| *n != 0) else { return Ok(()) };
        let table = objects.object(number)?;
        if zap::remove(&table, self.tx, vdev_zap::OBSOLETE_COUNTS_PRECISE)? {
            features.add(self.tx, OBSOLETE, -1)?;
        }
        self.free_obsolete_map(&table, self.shared.alloc.obsolete_map(running.id))
    }

    /// Frees the map of what is obsolete of a vdev with this table; 0: there is none.
    pub(in crate::live) fn free_obsolete_map(&self, table: &Object, map: u64) -> Result<()> {
        if map == 0 {
            return Ok(());
        }
        let (objects, features) = (self.objects(), &self.shared.features);
        let object = objects.object(map)?;
        let dnode = object.dnode();
        let header = SpaceMapHeader::decode(&dnode.bonus, dnode.endian);
        let header = header.map_err(|e| object.format_error(0, e))?;
        objects.free(self.tx, map)?;
        zap::remove(table, self.tx, vdev_zap::INDIRECT_OBSOLETE_SPACE_MAP)?;
        features.add(self.tx, OBSOLETE, -1)?;
        let histograms = i64::from(header.histogram.is_some());
        features.add(self.tx, "com.delphix:spacemap_histogram", -histograms)?;
        Ok(())
    }

    /// Writes the state of a removal.
    pub(super) fn put_removal(&self, record: &RemovalState) -> Result<()> {
        let directory = self.objects().object(mos::DIRECTORY_OBJECT)?;
        let value = ZapValue::from_words(&record.to_words());
        Ok(zap::set(&directory, self.tx, mos::REMOVING.as_bytes(), &value)?)
    }

    pub(super) fn extend(
        &self,
        mut running: RunningRemoval,
        moved: &[CopiedSegment],
    ) -> Result<()> {
        let objects = self.objects();
        let header = &mut running.header;
        let (mut entries, mut counts, mut copied) = (Vec::new(), Vec::new(), 0u64);
        for CopiedSegment { segment, gaps } in moved {
            let entry = MappingEntry::new(segment.src_offset, segment.dst);
            header.max_offset = entry.src_end();
            header.bytes_mapped = header.bytes_mapped.saturating_add(segment.size);
            entries.extend(entry.encode(Endian::Little));
            let gaps = u32::try_from(*gaps).map_err(|_| too_large())?;
            counts.extend(gaps.to_le_bytes());
            copied = copied.saturating_add(segment.size - u64::from(gaps));
        }
        let mapping = objects.object(running.mapping)?;
        mapping.write_at(self.tx, header.num_entries * MappingEntry::SIZE as u64, &entries)?;
        if let Some(number) = header.counts_object.filter(|n| *n != 0) {
            objects.object(number)?.write_at(self.tx, header.num_entries * 4, &counts)?;
        }
        header.num_entries += moved.len() as u64;
        mapping.set_bonus(self.tx, WORDS, &header.encode(Endian::Little))?;
        let birth = BirthEntry { offset: header.max_offset, txg: self.tx.txg() };
        let births = objects.object(running.births)?;
        let at = running.births_count * BirthEntry::SIZE as u64;
        births.write_at(self.tx, at, &birth.encode(Endian::Little))?;
        running.births_count += 1;
        let count = BirthsHeader { count: running.births_count };
        births.set_bonus(self.tx, WORDS, &count.encode(Endian::Little))?;
        let segments: Vec<_> = moved.iter().map(|m| m.segment).collect();
        self.shared.alloc.extend_leaving(running.id, &segments);
        self.count_copied(running, copied)
    }

    /// Bytes that were freed before they were copied count as copied. In each pass of a sync.
    pub(in crate::live) fn count_spared(&self) -> Result<()> {
        let Some(running) = self.shared.removals.running() else { return Ok(()) };
        match self.shared.alloc.take_spared(running.id) {
            0 => Ok(()),
            bytes => self.count_copied(running, bytes),
        }
    }

    fn count_copied(&self, mut running: RunningRemoval, bytes: u64) -> Result<()> {
        let record = &mut running.record;
        record.copied = record.copied.saturating_add(bytes);
        self.put_removal(record)?;
        let left = record.to_copy.saturating_sub(record.copied);
        self.shared.alloc.set_left(running.id, left);
        self.shared.removals.state.lock().running = Some(running);
        Ok(())
    }

    /// Writes an object anew, so that no block of it is on a vdev that takes no blocks.
    pub(super) fn write_again(&self, number: u64) -> Result<()> {
        let object = self.objects().object(number)?;
        let block = object.dnode().block_size();
        for at in (0..object.size_of_blocks()).step_by(block.max(512) as usize) {
            let mut bytes = vec![0; block as usize];
            object.read_at(at, &mut bytes)?;
            object.write_at(self.tx, at, &bytes)?;
        }
        Ok(())
    }
}

fn too_large() -> Error {
    Error::Inconsistent { what: "a segment with more than 4 GiB of free space".to_owned() }
}
