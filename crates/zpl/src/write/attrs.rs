//! The attributes of a file while they are changed.
//!
//! The list keeps the order of its layout: a changed value stays in its place, a new one comes
//! last. As many as fit go into the bonus, the rest into a spill block. When the file system has no
//! layout of just these attributes in this order, one is added; so is an attribute that was never
//! registered.

use crate::error::{Error, Result};
use crate::fs::Filesystem;
use dmu::{Object, Tx};
use ondisk::acl::{VERSION_FUID, encode_aces};
use ondisk::blkptr::BLKPTR_SIZE;
use ondisk::dnode::DNODE_CORE_SIZE;
use ondisk::sa::{SaHeader, SaTables, SaValue, zpl};
use ondisk::znode::{Time, flags, mode};
use ondisk::{DmuType, Endian};
use std::sync::Arc;

/// Largest spill block.
const SPILL_MAX: usize = 128 << 10;
const SECTOR: usize = 512;

/// Flags that say what kind of ACL a file has.
const ACL_HINTS: u64 = flags::ACL_TRIVIAL
    | flags::INHERIT_ACE
    | flags::ACL_OBJ_ACE
    | flags::ACL_PROTECTED
    | flags::ACL_DEFAULTED
    | flags::ACL_AUTO_INHERIT
    | flags::NO_EXECS_DENIED;

/// Layouts that were found, while the attributes they list are the same.
#[derive(Clone, Copy, Default)]
struct Layouts {
    bonus: u16,
    spill: Option<u16>,
    /// Values before this one stand in the bonus.
    in_bonus: usize,
}

/// A file's attributes. Nothing is changed before [`Attrs::save`].
#[derive(Clone)]
pub(crate) struct Attrs {
    object: Object,
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

impl Attrs {
    /// The attributes of a file that is there.
    pub(crate) fn load(fs: &Filesystem, number: u64) -> Result<Self> {
        let object = fs.objset().object(number).map_err(|e| match e.kind {
            dmu::ErrorKind::NoObject => Error::NotFound(format!("object {number}")),
            _ => e.into(),
        })?;
        let dnode = object.dnode();
        match dnode.bonus_kind {
            DmuType::SA => {}
            DmuType::ZNODE => {
                return Err(Error::Unsupported("a file from before system attributes"));
            }
            other => {
                let kind = dmu::ErrorKind::WrongType { wanted: "a file", found: other.name() };
                return Err(object.error(kind).into());
            }
        }
        let format = |error| Error::Format { object: number, error };
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
            object,
            tables,
            values,
            unregistered: Vec::new(),
            endian,
            has_spill: layouts.spill.is_some(),
            layouts: Some(layouts),
            spill_changed: false,
        })
    }

    /// Those of a new file: none.
    pub(crate) fn new(fs: &Filesystem, object: Object) -> Result<Self> {
        Ok(Self {
            object,
            tables: fs.need_tables()?,
            values: Vec::new(),
            unregistered: Vec::new(),
            endian: Endian::Little,
            layouts: None,
            has_spill: false,
            spill_changed: false,
        })
    }

    pub(crate) fn number(&self) -> u64 {
        self.object.number()
    }

    pub(crate) fn object(&self) -> &Object {
        &self.object
    }

    fn position(&self, name: &str) -> Option<usize> {
        let number = self.tables.attr(name)?.number;
        self.values.iter().position(|v| v.number == number)
    }

    /// Bytes of an attribute, if the file has it.
    pub(crate) fn bytes(&self, name: &str) -> Option<&[u8]> {
        let known = self.position(name).and_then(|i| self.values.get(i));
        let new = || self.unregistered.iter().find(|(n, _)| *n == name).map(|(_, b)| b.as_slice());
        known.map(|v| v.bytes.as_slice()).or_else(new)
    }

    /// Gives the file an attribute, or another value to one it has.
    pub(crate) fn set_bytes(&mut self, name: &'static str, bytes: Vec<u8>) {
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

    /// Takes an attribute away.
    pub(crate) fn remove(&mut self, name: &str) {
        self.unregistered.retain(|(n, _)| *n != name);
        if let Some(i) = self.position(name) {
            self.values.remove(i);
            self.layouts = None;
        }
    }

    /// A one-word attribute; 0 where the file has none.
    pub(crate) fn get(&self, name: &str) -> u64 {
        let word = self.bytes(name).and_then(|b| b.first_chunk::<8>());
        word.map_or(0, |w| self.endian.u64(*w))
    }

    pub(crate) fn set(&mut self, name: &'static str, value: u64) {
        self.set_words(name, &[value]);
    }

    pub(crate) fn set_time(&mut self, name: &'static str, time: Time) {
        self.set_words(name, &time.words());
    }

    fn set_words(&mut self, name: &'static str, words: &[u64]) {
        let endian = self.endian;
        let bytes = words.iter().flat_map(|w| match endian {
            Endian::Little => w.to_le_bytes(),
            Endian::Big => w.to_be_bytes(),
        });
        self.set_bytes(name, bytes.collect());
    }

    pub(crate) fn mode(&self) -> u64 {
        self.get(zpl::MODE)
    }

    pub(crate) fn kind(&self) -> u64 {
        self.mode() & mode::TYPE
    }

    pub(crate) fn is_dir(&self) -> bool {
        self.kind() == mode::DIR
    }

    pub(crate) fn size(&self) -> u64 {
        self.get(zpl::SIZE)
    }

    pub(crate) fn links(&self) -> u64 {
        self.get(zpl::LINKS)
    }

    /// Any of `flags` is set.
    pub(crate) fn has_flag(&self, flags: u64) -> bool {
        self.get(zpl::FLAGS) & flags != 0
    }

    pub(crate) fn set_flag(&mut self, flag: u64, on: bool) {
        let before = self.get(zpl::FLAGS);
        let after = if on { before | flag } else { before & !flag };
        if after != before {
            self.set(zpl::FLAGS, after);
        }
    }

    /// The project the file belongs to.
    pub(crate) fn project(&self) -> u64 {
        if self.has_flag(flags::PROJID) { self.get(zpl::PROJID) } else { 0 }
    }

    /// The content changed at `now`.
    pub(crate) fn content_changed(&mut self, now: Time) {
        self.set_time(zpl::MTIME, now);
        self.set_time(zpl::CTIME, now);
        self.set_flag(flags::ARCHIVE | flags::AV_MODIFIED, true);
    }

    /// The attributes changed at `now`.
    pub(crate) fn state_changed(&mut self, now: Time) {
        self.set_time(zpl::CTIME, now);
        self.set_flag(flags::ARCHIVE, true);
    }

    /// Gives the file the list that says what its mode says. `kept`: hints of the list before
    /// that stay.
    pub(crate) fn set_trivial_acl(&mut self, kept: u64) {
        let m = self.mode();
        let aces = crate::acl::trivial(m);
        let executable = if m & 0o111 == 0o111 { flags::NO_EXECS_DENIED } else { 0 };
        let hints = flags::ACL_TRIVIAL | executable | (kept & ACL_HINTS);
        self.set(zpl::FLAGS, (self.get(zpl::FLAGS) & !ACL_HINTS) | hints);
        self.set(zpl::DACL_COUNT, aces.len() as u64);
        self.set_bytes(zpl::DACL_ACES, encode_aces(&aces, VERSION_FUID, self.endian));
    }

    /// Puts the attributes back as they were when they were loaded, whatever became of them since.
    pub(crate) fn restore(self, fs: &Filesystem, tx: &Tx) -> Result<()> {
        if !self.has_spill && self.object.reopen()?.read_spill()?.is_some() {
            self.object.set_spill(tx, None)?;
        }
        Self { spill_changed: true, ..self }.save(fs, tx)
    }

    /// Puts the attributes into the bonus and the spill block.
    pub(crate) fn save(mut self, fs: &Filesystem, tx: &Tx) -> Result<()> {
        for (name, bytes) in std::mem::take(&mut self.unregistered) {
            let number = fs.register_attribute(tx, name)?;
            self.values.push(SaValue { number, bytes, endian: self.endian });
        }
        let Some(layouts) = self.layouts else { return self.save_reshaped(fs, tx) };
        let format = |error| Error::Format { object: self.object.number(), error };
        let at = layouts.in_bonus.min(self.values.len());
        let (bonus, rest) = self.values.split_at(at);
        let bonus = self.tables.encode(layouts.bonus, bonus, self.endian).map_err(format)?;
        self.object.set_bonus(tx, DmuType::SA, &bonus)?;
        if let Some(layout) = layouts.spill.filter(|_| self.spill_changed) {
            let spill = self.tables.encode(layout, rest, self.endian).map_err(format)?;
            self.object.set_spill(tx, Some(&padded(spill)))?;
        }
        Ok(())
    }

    /// Divides the attributes anew.
    fn save_reshaped(self, fs: &Filesystem, tx: &Tx) -> Result<()> {
        let dnode = self.object.dnode();
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
            false => Some(padded(self.encode(fs, tx, rest)?)),
        };
        let bonus = self.encode(fs, tx, bonus)?;
        // A spill block that goes makes room for a longer bonus, one that comes needs room.
        if spill.is_none() && self.has_spill {
            self.object.set_spill(tx, None)?;
        }
        self.object.set_bonus(tx, DmuType::SA, &bonus)?;
        if let Some(spill) = spill {
            self.object.set_spill(tx, Some(&spill))?;
        }
        Ok(())
    }

    fn encode(&self, fs: &Filesystem, tx: &Tx, values: &[SaValue]) -> Result<Vec<u8>> {
        let attrs: Vec<u16> = values.iter().map(|v| v.number).collect();
        let (layout, tables) = fs.layout(tx, &attrs)?;
        let format = |error| Error::Format { object: self.object.number(), error };
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
