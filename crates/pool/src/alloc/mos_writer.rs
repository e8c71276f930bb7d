//! Space maps of the MOS, as a txg writes them.

use super::maps::WriteMaps;
use super::stored::header_of;
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

/// Space maps of the MOS, as one txg writes them.
pub(super) struct MosWriter<'a> {
    mos: &'a Objset,
    tx: &'a Tx,
    histograms: bool,
    /// Maps with histograms that were made.
    pub(super) made: i64,
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
