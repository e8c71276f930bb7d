//! Attributes as the list they are since version 5.
//!
//! The list keeps the order of its layout: a changed value stays in its place, a new one comes
//! last. As many as fit go into the bonus, the rest into a spill block. When the file system has no
//! layout of just these attributes in this order, one is added; so is an attribute that was never
//! registered.

use crate::error::{Error, Result};
use crate::fs::Filesystem;
use dmu::{Object, Tx};
use ondisk::blkptr::BLKPTR_SIZE;
use ondisk::dnode::DNODE_CORE_SIZE;
use ondisk::sa::{SaHeader, SaTables, SaValue};
use ondisk::{DmuType, Endian};
use std::sync::Arc;

/// Largest spill block.
const SPILL_MAX: usize = 128 << 10;
const SECTOR: usize = 512;

/// Layouts that were found, while the attributes they list are the same.
#[derive(Clone, Copy, Default)]
struct Layouts {
    bonus: u16,
    spill: Option<u16>,
    /// Values before this one stand in the bonus.
    in_bonus: usize,
}

#[derive(Clone)]
pub(super) struct SaList {
    tables: Arc<SaTables>,
    values: Vec<SaValue>,
    /// Values of attributes that the file system has not registered yet.
    unregistered: Vec<(&'static str, Vec<u8>)>,
    endian: Endian,
    layouts: Option<Layouts>,
    /// The file has a spill block, on disk or in memory only.
    has_spill: bool,
    spill_changed: bool,
}

impl SaList {
    /// That of a new file: empty.
    pub(super) fn new(fs: &Filesystem) -> Result<Self> {
        Ok(Self {
            tables: fs.need_tables()?,
            values: Vec::new(),
            unregistered: Vec::new(),
            endian: Endian::Little,
            layouts: None,
            has_spill: false,
            spill_changed: false,
        })
    }

    pub(super) fn load(fs: &Filesystem, object: &Object) -> Result<Self> {
        let dnode = object.dnode();
        let format = |error| Error::Format { object: object.number(), error };
        let tables = fs.need_tables()?;
        let mut values = tables.split(&dnode.bonus).map_err(format)?;
        let mut layouts = Layouts {
            bonus: SaHeader::decode(&dnode.bonus).map_err(format)?.layout,
            spill: None,
            in_bonus: values.len(),
        };
        if let Some(block) = object.read_spill()? {
            layouts.spill = Some(SaHeader::decode(block.bytes()).map_err(format)?.layout);
            values.extend(tables.split(block.bytes()).map_err(format)?);
        }
        let endian = values.first().map_or(Endian::Little, |v| v.endian);
        if values.iter().any(|v| v.endian != endian) {
            return Err(Error::Unsupported("a file with attributes in both byte orders"));
        }
        Ok(Self {
            tables,
            values,
            unregistered: Vec::new(),
            endian,
            has_spill: layouts.spill.is_some(),
            layouts: Some(layouts),
            spill_changed: false,
        })
    }

    pub(super) fn endian(&self) -> Endian {
        self.endian
    }

    fn position(&self, name: &str) -> Option<usize> {
        let number = self.tables.attr(name)?.number;
        self.values.iter().position(|v| v.number == number)
    }

    pub(super) fn bytes(&self, name: &str) -> Option<&[u8]> {
        let known = self.position(name).and_then(|i| self.values.get(i));
        let new = || self.unregistered.iter().find(|(n, _)| *n == name).map(|(_, b)| b.as_slice());
        known.map(|v| v.bytes.as_slice()).or_else(new)
    }

    pub(super) fn set_bytes(&mut self, name: &'static str, bytes: Vec<u8>) {
        let in_bonus = self.layouts.map_or(0, |l| l.in_bonus);
        let Some(info) = self.tables.attr(name) else {
            self.unregistered.retain(|(n, _)| *n != name);
            self.unregistered.push((name, bytes));
            self.layouts = None;
            return;
        };
        match self.values.iter_mut().enumerate().find(|(_, v)| v.number == info.number) {
            Some((i, v)) => {
                if v.bytes.len() != bytes.len() {
                    self.layouts = None;
                }
                self.spill_changed |= i >= in_bonus;
                v.bytes = bytes;
            }
            None => {
                self.values.push(SaValue { number: info.number, bytes, endian: self.endian });
                self.layouts = None;
            }
        }
    }

    pub(super) fn remove(&mut self, name: &str) {
        self.unregistered.retain(|(n, _)| *n != name);
        if let Some(i) = self.position(name) {
            self.values.remove(i);
            self.layouts = None;
        }
    }

    /// The words of an attribute; zeros where the file has none.
    pub(super) fn words<const N: usize>(&self, name: &str) -> [u64; N] {
        let mut out = [0; N];
        let words = self.bytes(name).unwrap_or_default().as_chunks::<8>().0.iter();
        for (to, word) in out.iter_mut().zip(words) {
            *to = self.endian.u64(*word);
        }
        out
    }

    pub(super) fn set_words(&mut self, name: &'static str, words: &[u64]) {
        let endian = self.endian;
        let bytes = words.iter().flat_map(|w| match endian {
            Endian::Little => w.to_le_bytes(),
            Endian::Big => w.to_be_bytes(),
        });
        self.set_bytes(name, bytes.collect());
    }

    /// Puts the list back as it was when it was loaded, whatever became of it since.
    pub(super) fn restore(self, object: &Object, fs: &Filesystem, tx: &Tx) -> Result<()> {
        if !self.has_spill && object.reopen()?.read_spill()?.is_some() {
            object.set_spill(tx, None)?;
        }
        Self { spill_changed: true, ..self }.save(object, fs, tx)
    }

    /// Puts the list into the bonus and the spill block.
    pub(super) fn save(mut self, object: &Object, fs: &Filesystem, tx: &Tx) -> Result<()> {
        for (name, bytes) in std::mem::take(&mut self.unregistered) {
            let number = fs.register_attribute(tx, name)?;
            self.values.push(SaValue { number, bytes, endian: self.endian });
        }
        let Some(layouts) = self.layouts else { return self.save_reshaped(object, fs, tx) };
        let format = |error| Error::Format { object: object.number(), error };
        let at = layouts.in_bonus.min(self.values.len());
        let (bonus, rest) = self.values.split_at(at);
        let bonus = self.tables.encode(layouts.bonus, bonus, self.endian).map_err(format)?;
        object.set_bonus(tx, DmuType::SA, &bonus)?;
        if let Some(layout) = layouts.spill.filter(|_| self.spill_changed) {
            let spill = self.tables.encode(layout, rest, self.endian).map_err(format)?;
            object.set_spill(tx, Some(&padded(spill)))?;
        }
        Ok(())
    }

    /// Divides the attributes anew.
    fn save_reshaped(self, object: &Object, fs: &Filesystem, tx: &Tx) -> Result<()> {
        let dnode = object.dnode();
        let pointers = dnode.blkptrs.len() * BLKPTR_SIZE;
        let room = dnode.size().saturating_sub(DNODE_CORE_SIZE + pointers);
        let tables = fs.need_tables()?;
        let size = |n: usize| packed_size(&tables, self.values.get(..n).unwrap_or_default());
        let split = if size(self.values.len()) <= room {
            self.values.len()
        } else {
            let room = room.saturating_sub(BLKPTR_SIZE);
            (0..self.values.len()).rev().find(|n| size(*n) <= room).unwrap_or(0)
        };
        let (bonus, rest) = self.values.split_at(split);
        if packed_size(&tables, rest) > SPILL_MAX {
            return Err(Error::TooLarge("attributes of more than a spill block holds"));
        }
        let spill = match rest.is_empty() {
            true => None,
            false => Some(padded(self.encode(object, fs, tx, rest)?)),
        };
        let bonus = self.encode(object, fs, tx, bonus)?;
        // A spill block that goes makes room for a longer bonus, one that comes needs room.
        if spill.is_none() && self.has_spill {
            object.set_spill(tx, None)?;
        }
        object.set_bonus(tx, DmuType::SA, &bonus)?;
        if let Some(spill) = spill {
            object.set_spill(tx, Some(&spill))?;
        }
        Ok(())
    }

    fn encode(
        &self,
        object: &Object,
        fs: &Filesystem,
        tx: &Tx,
        values: &[SaValue],
    ) -> Result<Vec<u8>> {
        let attrs: Vec<u16> = values.iter().map(|v| v.number).collect();
        let (layout, tables) = fs.layout(tx, &attrs)?;
        let format = |error| Error::Format { object: object.number(), error };
        tables.encode(layout, values, self.endian).map_err(format)
    }
}

/// Spill blocks are whole sectors.
fn padded(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.resize(bytes.len().next_multiple_of(SECTOR), 0);
    bytes
}

/// Bytes of a block of these attributes.
fn packed_size(tables: &SaTables, values: &[SaValue]) -> usize {
    let variable = values.iter().filter(|v| tables.length(v.number).is_none_or(|l| l == 0));
    let header = (6 + 2 * variable.count().max(1)).next_multiple_of(8);
    header + values.iter().map(|v| v.bytes.len().next_multiple_of(8)).sum::<usize>()
}
