//! Changing tables.
//!
//! # Theory
//!
//! A change is one call: it sees the table as it is now, with everything changed before in this or
//! another transaction, whatever value of the object it is given. It is worked out in memory and
//! put into the object's blocks at the end; when it fails, nothing has changed. Changes of one
//! object are made one after the other ([`crate::ObjectLock`]).
//!
//! A table starts micro, in one block that doubles while it fills, and becomes fat when 128 KiB are
//! full, a value is not one 64-bit integer, or a name has more than 49 bytes; never back. In a fat
//! table an entry goes into the leaf that its hash leads to. A full leaf is split in two by the
//! next bit of the hash, and when the pointer table does not have that bit, the table is doubled.
//! Leaves that become empty stay.
//!
//! ```no_run
//! # fn f(objset: &dmu::Objset, tx: &dmu::Tx) -> dmu::Result<()> {
//! use dmu::zap::{self, ZapSpec};
//! use ondisk::DmuType;
//!
//! let table = zap::create(objset, tx, &ZapSpec::new(DmuType::ZAP_OTHER))?;
//! zap::insert_u64(&table, tx, "size", 5)?;
//! zap::add(&table, tx, "size", 3)?;
//! assert_eq!(dmu::Zap::open(&table.reopen()?)?.get_u64("size")?, Some(8));
//! zap::remove(&table, tx, "size")?;
//! # Ok(()) }
//! ```

use super::blocks::Change;
use super::key::EntryKey;
use super::table::{FAT_BLOCK_SHIFT, Table};
use super::{ZapEntry, ZapValue};
use crate::error::{ErrorKind, Result};
use crate::locks::ObjectLock;
use crate::object::Object;
use crate::objset::Objset;
use crate::refusal::InvalidChange;
use crate::tx::Tx;
use crate::versions::spec::NewObject;
use device::AlignedBuf;
use ondisk::zap::{BLOCK_SIZE_MIN, FAT_BLOCK_SIZE_MAX, KeyHash};
use ondisk::{DmuType, Layout};

/// A table to be made. [`ZapSpec::new`] fills in what is usual.
#[derive(Clone, Debug)]
pub struct ZapSpec {
    /// Type of the object.
    pub kind: DmuType,
    /// `NORM_*`: how names are normalised; 0: not at all.
    pub norm_flags: u64,
    /// `FLAG_*` of [`ondisk::zap`]: integer keys, longer hashes. Any of them makes it fat at once.
    pub flags: u64,
    /// Fat from the start.
    pub fat: bool,
    /// log2 of the block size of a fat table that is fat from the start: 9 to 20. A table that
    /// becomes fat later has 14.
    pub block_shift: u32,
    /// log2 of the size of indirect blocks; `None`: as other objects.
    pub indirect_shift: Option<u8>,
    /// Type of the bonus.
    pub bonus_kind: DmuType,
    /// The bonus.
    pub bonus: Vec<u8>,
    /// Slots of the dnode; `None`: as other objects.
    pub slots: Option<u8>,
    /// Number of the object; `None`: the next that is free.
    pub number: Option<u64>,
}

impl ZapSpec {
    /// A micro table of exact names, without a bonus.
    #[must_use]
    pub fn new(kind: DmuType) -> Self {
        Self {
            kind,
            norm_flags: 0,
            flags: 0,
            fat: false,
            block_shift: FAT_BLOCK_SHIFT,
            indirect_shift: None,
            bonus_kind: DmuType::NONE,
            bonus: Vec::new(),
            slots: None,
            number: None,
        }
    }

    /// Fat from the start, with blocks of `1 << block_shift` bytes.
    #[must_use]
    pub fn fat(mut self, block_shift: u32) -> Self {
        (self.fat, self.block_shift) = (true, block_shift);
        self
    }

    /// With names normalised by `norm_flags`.
    #[must_use]
    pub fn normalized(mut self, norm_flags: u64) -> Self {
        self.norm_flags = norm_flags;
        self
    }

    /// With this bonus.
    #[must_use]
    pub fn bonus(mut self, kind: DmuType, bytes: &[u8]) -> Self {
        (self.bonus_kind, self.bonus) = (kind, bytes.to_vec());
        self
    }

    /// As object `number`.
    #[must_use]
    pub fn number(mut self, number: u64) -> Self {
        self.number = Some(number);
        self
    }

    fn is_fat(&self) -> bool {
        self.fat || self.flags != 0
    }

    fn block_size(&self) -> u32 {
        if self.is_fat() { 1 << self.block_shift.min(31) } else { BLOCK_SIZE_MIN as u32 }
    }

    fn check(&self, objset: &Objset, number: u64) -> Result<()> {
        let sizes = BLOCK_SIZE_MIN.trailing_zeros()..=FAT_BLOCK_SIZE_MAX.trailing_zeros();
        match () {
            () if self.kind.layout() != Layout::Zap => {
                let found = self.kind.name();
                Err(objset.error(number, ErrorKind::WrongType { wanted: "a ZAP", found }))
            }
            () if !sizes.contains(&self.block_shift) => {
                Err(objset.error(number, ErrorKind::Invalid(InvalidChange::ZapBlockSize)))
            }
            () => Ok(()),
        }
    }
}

/// Makes an empty table.
///
/// # Errors
/// No ZAP can be so; no object can be made.
pub fn create(objset: &Objset, tx: &Tx, spec: &ZapSpec) -> Result<Object> {
    spec.check(objset, spec.number.unwrap_or(0))?;
    let new = NewObject {
        number: spec.number,
        block_size: spec.block_size(),
        indirect_shift: spec.indirect_shift,
        bonus_kind: spec.bonus_kind,
        bonus: spec.bonus.clone(),
        slots: spec.slots,
        ..NewObject::new(spec.kind)
    };
    let object = objset.create(tx, &new)?;
    format(&object, tx, spec).and_then(|()| object.reopen()).map_err(|e| {
        // Nothing refers to it.
        match objset.free(tx, object.number()) {
            Ok(()) => e,
            Err(second) => objset.error(object.number(), tx.stop(&e, &second)),
        }
    })
}

/// Makes an empty table of an object that exists and has no data: one of the accounting objects,
/// or one that was made for another reason. Of `spec` only what concerns the content counts.
///
/// # Errors
/// No ZAP can be so; the object has data.
pub fn format(object: &Object, tx: &Tx, spec: &ZapSpec) -> Result<()> {
    spec.check(object.objset(), object.number())?;
    let salt = salt(object.objset().id(), object.number(), tx.txg());
    let of = KeyHash { salt, flags: spec.flags, norm_flags: spec.norm_flags };
    let _lock = object.objset().lock(object.number());
    let fat = spec.is_fat().then_some(spec.block_shift);
    let (object, changes) = Table::new(object.reopen()?, of, fat, BLOCK_SIZE_MIN).finish();
    put(object, changes, tx)
}

/// Start value of a table's hash: never 0, and the same in every run that does the same, so that a
/// simulated run can be replayed. It need not be secret: it only spreads the names.
fn salt(objset: u64, object: u64, txg: u64) -> u64 {
    let mix = |h: u64, v: u64| {
        let h = (h ^ v).wrapping_mul(0xff51_afd7_ed55_8ccd);
        (h ^ (h >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53)
    };
    let h = [objset, object, txg].into_iter().fold(0x9e37_79b9_7f4a_7c15, mix);
    (h ^ (h >> 29)) | 1
}

/// Puts the changes of a table into its object.
fn put(mut object: Object, changes: Vec<Change>, tx: &Tx) -> Result<()> {
    let block_size = |o: &Object| o.dnode().block_size();
    for change in changes {
        match change {
            Change::BlockSize(bytes) => {
                if block_size(&object) != bytes as u64 {
                    object.set_block_size(tx, bytes as u32)?;
                    object = object.reopen()?;
                }
            }
            Change::Block(blkid, bytes) => {
                object.write_block(tx, blkid, AlignedBuf::copy_of(&bytes))?;
            }
            Change::Patch(blkid, at, bytes) => {
                let start = blkid.saturating_mul(block_size(&object));
                object.write_at(tx, start.saturating_add(at as u64), &bytes)?;
            }
            Change::Free(first, n) => {
                let size = block_size(&object);
                object.free_range(tx, first.saturating_mul(size), n.saturating_mul(size))?;
            }
        }
    }
    Ok(())
}

/// Several changes of one table, written together by [`Editor::finish`]. Dropped without that,
/// what was not written yet is forgotten. Other threads that change the same table wait: keep it
/// short.
pub struct Editor<'t> {
    table: Table<Object>,
    tx: &'t Tx,
    _lock: ObjectLock,
}

impl<'t> Editor<'t> {
    /// Opens the table in `object` as it is now.
    ///
    /// # Errors
    /// The object is gone or no ZAP, or its first block cannot be read.
    pub fn open(object: &Object, tx: &'t Tx) -> Result<Self> {
        let kind = object.dnode().kind;
        if kind.layout() != Layout::Zap {
            let kind = ErrorKind::WrongType { wanted: "a ZAP", found: kind.name() };
            return Err(object.error(kind));
        }
        let lock = object.objset().lock(object.number());
        let table = Table::open(object.reopen()?)?;
        Ok(Self { table, tx, _lock: lock })
    }

    /// The entry of that key, with what was changed here before.
    ///
    /// # Errors
    /// The key is of the wrong kind; a block cannot be read.
    pub fn get<'k>(&mut self, key: impl Into<EntryKey<'k>>) -> Result<Option<ZapEntry>> {
        self.table.get(key.into())
    }

    /// See [`insert`].
    ///
    /// # Errors
    /// As [`insert`].
    pub fn insert<'k>(&mut self, key: impl Into<EntryKey<'k>>, value: &ZapValue) -> Result<()> {
        self.table.insert(key.into(), value)?;
        self.relieve()
    }

    /// See [`set`].
    ///
    /// # Errors
    /// As [`set`].
    pub fn set<'k>(&mut self, key: impl Into<EntryKey<'k>>, value: &ZapValue) -> Result<()> {
        self.table.set(key.into(), value)?;
        self.relieve()
    }

    /// See [`remove`].
    ///
    /// # Errors
    /// As [`remove`].
    pub fn remove<'k>(&mut self, key: impl Into<EntryKey<'k>>) -> Result<bool> {
        let removed = self.table.remove(key.into())?;
        self.relieve()?;
        Ok(removed)
    }

    /// See [`add`].
    ///
    /// # Errors
    /// As [`add`].
    pub fn add<'k>(&mut self, key: impl Into<EntryKey<'k>>, delta: i64) -> Result<u64> {
        let key = key.into();
        let old = match self.table.get(key)? {
            None => 0,
            Some(e) => e
                .u64()
                .ok_or_else(|| self.table.blocks.error(ErrorKind::EntryForm(key.to_string())))?,
        };
        let new = old.wrapping_add_signed(delta);
        match (old, new) {
            (0, 0) => {}
            (_, 0) => {
                self.table.remove(key)?;
            }
            _ => self.table.set(key, &ZapValue::from_u64(new))?,
        }
        self.relieve()?;
        Ok(new)
    }

    /// Writes what was changed.
    ///
    /// # Errors
    /// The object cannot be changed.
    pub fn finish(self) -> Result<()> {
        let Self { table, tx, _lock } = self;
        let (object, changes) = table.finish();
        put(object, changes, tx)
    }

    /// Keeps a long run of changes from taking ever more memory.
    fn relieve(&mut self) -> Result<()> {
        if self.table.is_large() {
            put(self.table.blocks.clone(), self.table.changes(), self.tx)?;
            self.table = Table::open(self.table.blocks.reopen()?)?;
        }
        Ok(())
    }
}

/// Adds an entry.
///
/// # Errors
/// [`ErrorKind::EntryExists`] when there is one of that key; [`ErrorKind::Invalid`] for what no
/// entry can be; a block cannot be read.
pub fn insert<'k>(
    object: &Object,
    tx: &Tx,
    key: impl Into<EntryKey<'k>>,
    value: &ZapValue,
) -> Result<()> {
    let mut editor = Editor::open(object, tx)?;
    editor.insert(key, value)?;
    editor.finish()
}

/// Adds an entry or replaces the value of the one there is.
///
/// # Errors
/// As [`insert`], but that there may be one.
pub fn set<'k>(
    object: &Object,
    tx: &Tx,
    key: impl Into<EntryKey<'k>>,
    value: &ZapValue,
) -> Result<()> {
    let mut editor = Editor::open(object, tx)?;
    editor.set(key, value)?;
    editor.finish()
}

/// Removes an entry; false when there was none.
///
/// # Errors
/// A block cannot be read.
pub fn remove<'k>(object: &Object, tx: &Tx, key: impl Into<EntryKey<'k>>) -> Result<bool> {
    let mut editor = Editor::open(object, tx)?;
    let removed = editor.remove(key)?;
    editor.finish()?;
    Ok(removed)
}

/// Adds an entry that is one integer.
///
/// # Errors
/// As [`insert`].
pub fn insert_u64<'k>(
    object: &Object,
    tx: &Tx,
    key: impl Into<EntryKey<'k>>,
    value: u64,
) -> Result<()> {
    insert(object, tx, key, &ZapValue::from_u64(value))
}

/// Adds or replaces an entry that is one integer.
///
/// # Errors
/// As [`set`].
pub fn set_u64<'k>(
    object: &Object,
    tx: &Tx,
    key: impl Into<EntryKey<'k>>,
    value: u64,
) -> Result<()> {
    set(object, tx, key, &ZapValue::from_u64(value))
}

/// Adds `delta`, modulo 2^64, to a counter and returns what it is then. A counter that is not
/// there is 0, and one that becomes 0 is removed.
///
/// # Errors
/// The entry is not one integer; a block cannot be read.
pub fn add<'k>(object: &Object, tx: &Tx, key: impl Into<EntryKey<'k>>, delta: i64) -> Result<u64> {
    let mut editor = Editor::open(object, tx)?;
    let new = editor.add(key, delta)?;
    editor.finish()?;
    Ok(new)
}
