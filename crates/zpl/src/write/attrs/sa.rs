//! Attributes as the list they are since version 5.
//!
//! The list keeps the order of its layout: a changed value stays in its place, a new one comes
//! last. As long as no value is added, removed or changed in length, all are changed in place in
//! the bonus and the spill block. Otherwise these are rebuilt: as many values as fit go into the
//! bonus, the rest into a spill block. When the file system has no layout of just these attributes
//! in this order, one is added; so is an attribute that was never registered.

use crate::error::{Error, Result};
use crate::fs::Filesystem;
use crate::refusal::{Excess, Unsupported};
use dmu::{Object, Tx};
use ondisk::blkptr::BLKPTR_SIZE;
use ondisk::dnode::DNODE_CORE_SIZE;
use ondisk::sa::SaTables;
use ondisk::{DmuType, Endian};
use std::ops::Range;
use std::sync::Arc;

/// Largest spill block.
const SPILL_MAX: usize = 128 << 10;
const SECTOR: usize = 512;
/// Bytes and values of the attributes of a new file, so that the list need not grow.
const USUAL_BYTES: usize = 256;
const USUAL_VALUES: usize = 16;

/// The layout of an attribute list, as long as its values keep their sizes.
#[derive(Clone, Copy)]
struct Shape {
    /// Bytes of the bonus.
    bonus: usize,
    /// Bytes of the spill block, which follow.
    spill: usize,
    /// Values before this one are in the bonus.
    in_bonus: usize,
}

/// One value, as a place in the data.
#[derive(Clone, Copy)]
struct Value {
    number: u16,
    at: usize,
    len: usize,
}

#[derive(Clone)]
pub(super) struct SaList {
    tables: Arc<SaTables>,
    /// Bonus and spill block, and behind them values that came or got another length.
    data: Vec<u8>,
    values: Vec<Value>,
    /// Values of attributes that the file system has not registered yet.
    unregistered: Vec<(&'static str, Vec<u8>)>,
    endian: Endian,
    /// `None`: bonus and spill block have to be rebuilt.
    shape: Option<Shape>,
    /// The file has a spill block, on disk or in memory only.
    has_spill: bool,
    spill_changed: bool,
}

impl SaList {
    /// That of a new file: empty.
    pub(super) fn new(fs: &Filesystem) -> Result<Self> {
        Ok(Self {
            tables: fs.need_tables()?,
            data: Vec::with_capacity(USUAL_BYTES),
            values: Vec::with_capacity(USUAL_VALUES),
            unregistered: Vec::new(),
            endian: Endian::Little,
            shape: None,
            has_spill: false,
            spill_changed: false,
        })
    }

    pub(super) fn load(fs: &Filesystem, object: &Object) -> Result<Self> {
        let dnode = object.dnode();
        let format = |error| Error::Format { object: object.number(), error };
        let tables = fs.need_tables()?;
        let value = |base: usize| {
            move |(number, place): (u16, Range<usize>)| Value {
                number,
                at: base + place.start,
                len: place.len(),
            }
        };
        let mut data = dnode.bonus.clone();
        let (in_bonus, places) = tables.places(&data).map_err(format)?;
        let mut orders = vec![in_bonus; places.len().min(1)];
        let mut values: Vec<_> = places.into_iter().map(value(0)).collect();
        let mut shape = Shape { bonus: data.len(), spill: 0, in_bonus: values.len() };
        let spill = object.read_spill()?;
        if let Some(block) = &spill {
            let (in_spill, places) = tables.places(block.bytes()).map_err(format)?;
            orders.resize(orders.len() + places.len().min(1), in_spill);
            values.extend(places.into_iter().map(value(shape.bonus)));
            data.extend_from_slice(block.bytes());
            shape.spill = block.bytes().len();
        }
        let endian = orders.first().copied().unwrap_or(Endian::Little);
        if orders.iter().any(|order| *order != endian) {
            return Err(Error::refused(Unsupported::MixedByteOrder));
        }
        Ok(Self {
            tables,
            data,
            values,
            unregistered: Vec::new(),
            endian,
            shape: Some(shape),
            has_spill: spill.is_some(),
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

    fn value(&self, value: &Value) -> &[u8] {
        self.data.get(value.at..value.at + value.len).unwrap_or_default()
    }

    pub(super) fn bytes(&self, name: &str) -> Option<&[u8]> {
        let known = self.position(name).and_then(|i| self.values.get(i));
        let new = || self.unregistered.iter().find(|(n, _)| *n == name).map(|(_, b)| b.as_slice());
        known.map(|v| self.value(v)).or_else(new)
    }

    pub(super) fn set_bytes(&mut self, name: &'static str, bytes: &[u8]) {
        let in_bonus = self.shape.map_or(0, |shape| shape.in_bonus);
        let Some(info) = self.tables.attr(name) else {
            self.unregistered.retain(|(n, _)| *n != name);
            self.unregistered.push((name, bytes.to_vec()));
            self.shape = None;
            return;
        };
        let known = self.values.iter_mut().enumerate().find(|(_, v)| v.number == info.number);
        if let Some((i, value)) = &known {
            self.spill_changed |= *i >= in_bonus;
            let place = self.data.get_mut(value.at..value.at + value.len);
            if let Some(place) = place.filter(|place| place.len() == bytes.len()) {
                place.copy_from_slice(bytes);
                return;
            }
        }
        let new = Value { number: info.number, at: self.data.len(), len: bytes.len() };
        match known {
            Some((_, value)) => *value = new,
            None => self.values.push(new),
        }
        self.data.extend_from_slice(bytes);
        self.shape = None;
    }

    pub(super) fn remove(&mut self, name: &str) {
        self.unregistered.retain(|(n, _)| *n != name);
        if let Some(i) = self.position(name) {
            self.values.remove(i);
            self.shape = None;
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

    pub(super) fn set_words<const N: usize>(&mut self, name: &'static str, words: &[u64; N]) {
        let bytes = words.map(|w| match self.endian {
            Endian::Little => w.to_le_bytes(),
            Endian::Big => w.to_be_bytes(),
        });
        self.set_bytes(name, bytes.as_flattened());
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
            self.values.push(Value { number, at: self.data.len(), len: bytes.len() });
            self.data.extend_from_slice(&bytes);
        }
        let Some(shape) = self.shape else { return self.save_reshaped(object, fs, tx) };
        let (bonus, rest) = self.data.split_at(shape.bonus.min(self.data.len()));
        object.set_bonus(tx, DmuType::SA, bonus)?;
        if shape.spill > 0 && self.spill_changed {
            object.set_spill(tx, rest.get(..shape.spill))?;
        }
        Ok(())
    }

    /// Divides the attributes between bonus and spill block again.
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
            return Err(Error::refused(Excess::SpilledAttributes));
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
        values: &[Value],
    ) -> Result<Vec<u8>> {
        let attrs: Vec<u16> = values.iter().map(|v| v.number).collect();
        let (layout, tables) = fs.layout(tx, &attrs)?;
        let format = |error| Error::Format { object: object.number(), error };
        let values: Vec<_> = values.iter().map(|v| (v.number, self.value(v))).collect();
        tables.join(layout, &values, self.endian).map_err(format)
    }
}

/// Spill blocks are whole sectors.
fn padded(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.resize(bytes.len().next_multiple_of(SECTOR), 0);
    bytes
}

/// Bytes of a block of these attributes.
fn packed_size(tables: &SaTables, values: &[Value]) -> usize {
    let variable = values.iter().filter(|v| tables.length(v.number).is_none_or(|l| l == 0));
    let header = (6 + 2 * variable.count().max(1)).next_multiple_of(8);
    header + values.iter().map(|v| v.len.next_multiple_of(8)).sum::<usize>()
}
