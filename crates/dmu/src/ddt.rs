//! Dedup tables as they stand in the MOS: which there are, and the entries of one.
//!
//! The entries of a table are in up to three ZAPs, by their class, and what came to them since in
//! two logs: the record of a log replaces the entry of a ZAP, and that of the younger log the one
//! of the older. See `docs/format/ddt.md`.

use crate::error::Result;
use crate::objset::Objset;
use crate::zap::Zap;
use ondisk::ddt::log::{LogHeader, records};
use ondisk::ddt::{self, Class, DdtKey, Value};
use ondisk::zap::ZapName;
use ondisk::{Checksum, mos};

/// The table of a checksum.
#[derive(Clone, Debug)]
pub struct DedupTable {
    /// The checksum.
    pub checksum: Checksum,
    /// The ZAP that names its objects.
    pub directory: u64,
    /// Entries have one variant.
    pub is_flat: bool,
    /// The ZAPs that there are.
    pub classes: Vec<(Class, u64)>,
    /// The logs, with what they say of themselves, the older one first.
    pub logs: Vec<(LogHeader, u64)>,
}

/// All tables of a pool.
///
/// # Errors
/// What names them, or a log, cannot be read.
pub fn tables(mos: &Objset) -> Result<Vec<DedupTable>> {
    let root = Zap::open(&mos.object(mos::DIRECTORY_OBJECT)?)?;
    let mut out = Vec::new();
    for checksum in (0..=Checksum::BLAKE3.0).map(Checksum) {
        let Some(name) = ddt::directory_name(checksum) else { continue };
        out.extend(match root.get_u64(&name)? {
            Some(number) => {
                let directory = Zap::open(&mos.object(number)?)?;
                let flags = directory.get_u64(ddt::DIR_FLAGS)?.unwrap_or(0);
                let mut table = table(&directory, checksum, flags & ddt::FLAG_FLAT != 0)?;
                if flags & ddt::FLAG_LOG != 0 {
                    table.logs = logs(mos, &directory, checksum)?;
                }
                Some(table)
            }
            None => Some(table(&root, checksum, false)?).filter(|table| !table.classes.is_empty()),
        });
    }
    Ok(out)
}

fn table(directory: &Zap, checksum: Checksum, is_flat: bool) -> Result<DedupTable> {
    let mut classes = Vec::new();
    for class in Class::ALL {
        let Some(name) = ddt::object_name(checksum, class) else { continue };
        let number = directory.get_u64(&name)?.filter(|n| *n != 0);
        classes.extend(number.map(|number| (class, number)));
    }
    let directory = directory.object().number();
    Ok(DedupTable { checksum, directory, is_flat, classes, logs: Vec::new() })
}

/// The log that is being flushed is the older one: its records are applied first.
fn logs(mos: &Objset, directory: &Zap, checksum: Checksum) -> Result<Vec<(LogHeader, u64)>> {
    let mut logs = Vec::new();
    for n in 0..2 {
        let Some(name) = ddt::log_name(checksum, n) else { continue };
        let Some(number) = directory.get_u64(&name)?.filter(|n| *n != 0) else { continue };
        let object = mos.object(number)?;
        let dnode = object.dnode();
        let header = LogHeader::decode(&dnode.bonus, dnode.endian);
        logs.push((header.map_err(|e| object.format_error(0, e))?, number));
    }
    logs.sort_by_key(|(header, _)| header.first_txg);
    Ok(logs)
}

/// The entries of one ZAP of a table.
///
/// # Errors
/// It cannot be read.
pub fn stored(
    mos: &Objset,
    number: u64,
    is_flat: bool,
    each: &mut dyn FnMut(DdtKey, Value),
) -> Result<()> {
    let object = mos.object(number)?;
    for entry in Zap::open(&object)?.entries() {
        let entry = entry?;
        let ZapName::U64s(words) = &entry.name else { continue };
        let bad = |e| object.format_error(0, e);
        let key = DdtKey::from_words(words).map_err(bad)?;
        let packed = entry.value_bytes().unwrap_or_default();
        each(key, Value::unpack(packed, is_flat).map_err(bad)?);
    }
    Ok(())
}

impl DedupTable {
    /// All entries; each stands for those of the same key before it. `None`: the entry of that key
    /// is gone.
    ///
    /// # Errors
    /// A part of the table cannot be read.
    pub fn entries(&self, mos: &Objset, each: &mut dyn FnMut(DdtKey, Option<Value>)) -> Result<()> {
        for (_, number) in &self.classes {
            stored(mos, *number, self.is_flat, &mut |key, value| each(key, Some(value)))?;
        }
        for (header, number) in &self.logs {
            self.records(mos, header, *number, each)?;
        }
        Ok(())
    }

    fn records(
        &self,
        mos: &Objset,
        header: &LogHeader,
        number: u64,
        each: &mut dyn FnMut(DdtKey, Option<Value>),
    ) -> Result<()> {
        let object = mos.object(number)?;
        let bs = object.dnode().block_size().max(1);
        let length = header.length.min(object.size_of_blocks());
        for blkid in 0..length.div_ceil(bs) {
            let Some(block) = object.read_block(blkid)? else { continue };
            let used = (length - blkid * bs).min(block.len() as u64) as usize;
            let bytes = block.get(..used).unwrap_or_default();
            for record in records(bytes, block.endian(), self.is_flat) {
                let record = record.map_err(|e| object.format_error(blkid, e))?;
                if header.valid_checkpoint().is_some_and(|c| record.key <= *c) {
                    continue;
                }
                each(record.key, Some(record.value).filter(|value| value.total_refcount() > 0));
            }
        }
        Ok(())
    }
}
