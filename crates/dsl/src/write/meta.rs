//! The records and tables of the meta object set, as the tasks read and write them.

use crate::error::{Error, Result};
use crate::stored::own_number;
use dmu::NewObject;
use dmu::{Objset, Tx, Zap};
use ondisk::dsl::{DslDataset, DslDir};
use ondisk::{BlkPtr, DmuType, mos};

/// Objects that carry later fields.
pub(super) const EXTENSIBLE_DATASET: &str = "com.delphix:extensible_dataset";

/// The reference counts of features.
pub trait FeatureCounts {
    /// The pool has the feature, used or not.
    fn is_enabled(&self, cx: &DslCx<'_>, guid: &str) -> Result<bool>;
    /// One thing more uses it.
    fn incr(&self, cx: &DslCx<'_>, guid: &str) -> Result<()>;
    /// One thing less uses it.
    fn decr(&self, cx: &DslCx<'_>, guid: &str) -> Result<()>;
}

/// Type of an object that is a ZAP beside what its bonus says: a ZAP of metadata.
pub(super) const ZAPIFIED: DmuType = DmuType(196);

/// Properties of blocks, and how they are freed. Implemented by the pool.
pub trait Blocks: Send + Sync {
    /// Space that a block takes in the accounting: all copies, on RAID-Z deflated. In bytes.
    fn dsize(&self, bp: &BlkPtr) -> u64;

    /// Frees a block that nothing reaches any more.
    fn free(&self, bp: &BlkPtr);

    /// Nothing needs the mapping of a range on a removed vdev any more: the first place of `bp`,
    /// whose other members say nothing.
    fn mark_obsolete(&self, bp: &BlkPtr);
}

/// The time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timestamp {
    /// Seconds since 1970.
    pub secs: u64,
    /// Nanoseconds within the second.
    pub nanos: u64,
}

/// The context of every task: the live MOS, in syncing context.
#[derive(Clone, Copy)]
pub struct DslCx<'a> {
    /// The live meta object set.
    pub mos: &'a Objset,
    /// The right to change it, of the txg being synced.
    pub tx: &'a Tx,
    /// Sizes of blocks, and where freed ones go.
    pub blocks: &'a dyn Blocks,
    /// The pool's features.
    pub features: &'a dyn FeatureCounts,
    /// The time.
    pub now: Timestamp,
    /// Random numbers for GUIDs and keys, from a source that is fit for keys.
    pub guid: &'a dyn Fn() -> u64,
    /// Bytes that all datasets together may take, for what needs room to be allowed.
    pub pool_size: u64,
    /// The user who creates datasets here: it gets the permissions that creators get.
    pub creator: u64,
}

impl DslCx<'_> {
    /// The txg being synced.
    #[must_use]
    pub fn txg(&self) -> u64 {
        self.tx.txg()
    }

    /// A random number that is not 0.
    pub(super) fn new_guid(&self) -> u64 {
        (self.guid)().max(1)
    }

    pub(super) fn dir(&self, object: u64) -> Result<DslDir> {
        let o = self.mos.object(object)?;
        if o.dnode().bonus_kind != DmuType::DSL_DIR {
            return Err(Error::Tree { object, rule: "an object is not a dataset directory" });
        }
        let format = |error| Error::Format { object, error };
        DslDir::decode(&o.dnode().bonus, o.dnode().endian).map_err(format)
    }

    pub(super) fn put_dir(&self, object: u64, dir: &DslDir) -> Result<()> {
        let o = self.mos.object(object)?;
        Ok(o.set_bonus(self.tx, DmuType::DSL_DIR, &dir.encode(o.dnode().endian))?)
    }

    pub(super) fn update_dir(&self, object: u64, change: impl FnOnce(&mut DslDir)) -> Result<()> {
        let mut dir = self.dir(object)?;
        change(&mut dir);
        self.put_dir(object, &dir)
    }

    pub(super) fn dataset(&self, object: u64) -> Result<DslDataset> {
        let o = self.mos.object(object)?;
        if o.dnode().bonus_kind != DmuType::DSL_DATASET {
            return Err(Error::Tree { object, rule: "an object is not a dataset" });
        }
        let format = |error| Error::Format { object, error };
        DslDataset::decode(&o.dnode().bonus, o.dnode().endian).map_err(format)
    }

    pub(super) fn put_dataset(&self, object: u64, dataset: &DslDataset) -> Result<()> {
        let o = self.mos.object(object)?;
        Ok(o.set_bonus(self.tx, DmuType::DSL_DATASET, &dataset.encode(o.dnode().endian))?)
    }

    pub(super) fn update_dataset(
        &self,
        object: u64,
        change: impl FnOnce(&mut DslDataset),
    ) -> Result<()> {
        let mut dataset = self.dataset(object)?;
        change(&mut dataset);
        self.put_dataset(object, &dataset)
    }

    /// A new object without data.
    pub(super) fn alloc(&self, kind: DmuType, bonus_kind: DmuType, bonus: &[u8]) -> Result<u64> {
        let spec = NewObject::new(kind).bonus(bonus_kind, bonus);
        Ok(self.mos.create(self.tx, &spec)?.number())
    }

    /// Frees a directory or dataset, which may be zapified.
    pub(super) fn free_record(&self, object: u64) -> Result<()> {
        if self.is_zapified(object)? {
            self.features.decr(self, EXTENSIBLE_DATASET)?;
        }
        Ok(self.mos.free(self.tx, object)?)
    }

    /// Frees a table; 0 means no table.
    pub(super) fn free_table(&self, object: u64) -> Result<()> {
        match object {
            0 => Ok(()),
            n => Ok(self.mos.free(self.tx, n)?),
        }
    }

    pub(super) fn zap(&self, object: u64) -> Result<Zap> {
        Ok(Zap::open(&self.mos.object(object)?)?)
    }

    /// A number in a table; table 0 is empty.
    pub(super) fn lookup(&self, table: u64, key: &str) -> Result<Option<u64>> {
        match table {
            0 => Ok(None),
            n => Ok(self.zap(n)?.get_u64(key)?),
        }
    }

    /// Names and words of a table; table 0 is empty. Entries that are not words are left out.
    pub(super) fn entries(&self, table: u64) -> Result<Vec<(String, Vec<u64>)>> {
        let mut out = Vec::new();
        if table == 0 {
            return Ok(out);
        }
        for entry in self.zap(table)?.entries() {
            let entry = entry?;
            let Some(name) = entry.name.bytes() else { continue };
            let name = String::from_utf8_lossy(name).into_owned();
            out.push((name, entry.ints().collect()));
        }
        Ok(out)
    }

    /// The numbers that a table has as keys (`next_clones`, `clones`).
    pub(super) fn numbers(&self, table: u64) -> Result<Vec<u64>> {
        let entries = self.entries(table)?;
        Ok(entries.iter().filter_map(|(_, v)| v.first().copied()).collect())
    }

    pub(super) fn new_table(&self, kind: DmuType, norm_flags: u64) -> Result<u64> {
        let spec = dmu::zap::ZapSpec { norm_flags, ..dmu::zap::ZapSpec::new(kind) };
        Ok(dmu::zap::create(self.mos, self.tx, &spec)?.number())
    }

    /// Sets a number, whether or not the key is there.
    pub(super) fn put(&self, table: u64, key: &str, value: u64) -> Result<()> {
        self.put_words(table, key, &[value])
    }

    pub(super) fn put_words(&self, table: u64, key: &str, words: &[u64]) -> Result<()> {
        let values = words.iter().flat_map(|w| w.to_be_bytes()).collect();
        let value = dmu::ZapValue { int_len: 8, values };
        let object = self.mos.object(table)?;
        Ok(dmu::zap::set(&object, self.tx, key.as_bytes(), &value)?)
    }

    /// Sets a text, which is stored with a final NUL.
    pub(super) fn put_text(&self, table: u64, key: &str, text: impl AsRef<[u8]>) -> Result<()> {
        let mut values = text.as_ref().to_vec();
        values.push(0);
        let value = dmu::ZapValue { int_len: 1, values };
        let object = self.mos.object(table)?;
        Ok(dmu::zap::set(&object, self.tx, key.as_bytes(), &value)?)
    }

    /// Removes a key; false when it is not there.
    pub(super) fn remove(&self, table: u64, key: &str) -> Result<bool> {
        if table == 0 || self.zap(table)?.get(key.as_bytes())?.is_none() {
            return Ok(false);
        }
        let object = self.mos.object(table)?;
        dmu::zap::remove(&object, self.tx, key.as_bytes())?;
        Ok(true)
    }

    pub(super) fn is_zapified(&self, object: u64) -> Result<bool> {
        Ok(self.mos.object(object)?.dnode().kind.layout() == ondisk::Layout::Zap)
    }

    /// A later field of a directory or dataset.
    pub(super) fn field(&self, object: u64, key: &str) -> Result<Option<u64>> {
        match self.is_zapified(object)? {
            true => self.lookup(object, key),
            false => Ok(None),
        }
    }

    /// Makes a directory or dataset a table as well, for fields that were invented later.
    pub(super) fn zapify(&self, object: u64) -> Result<()> {
        if self.is_zapified(object)? {
            return Ok(());
        }
        let o = self.mos.object(object)?;
        o.set_dnode(self.tx, |d| d.kind = ZAPIFIED)?;
        dmu::zap::format(&o.reopen()?, self.tx, &dmu::zap::ZapSpec::new(ZAPIFIED))?;
        self.features.incr(self, EXTENSIBLE_DATASET)
    }

    /// An entry of the object directory.
    pub(super) fn directory(&self, key: &str) -> Result<Option<u64>> {
        self.lookup(mos::DIRECTORY_OBJECT, key)
    }

    /// The pool's root directory.
    pub(super) fn root_dir(&self) -> Result<u64> {
        let rule = "the pool has no root directory";
        let object = mos::DIRECTORY_OBJECT;
        self.directory(mos::ROOT_DATASET)?.ok_or(Error::Tree { object, rule })
    }

    /// One of the pool's own directories (`$MOS`, `$FREE`, `$ORIGIN`).
    pub(super) fn internal_dir(&self, name: &str) -> Result<Option<u64>> {
        let root = self.dir(self.root_dir()?)?;
        self.lookup(root.child_zap, name)
    }

    /// The number a directory has of its own for a property; 0 without one.
    pub(super) fn own_number(&self, dir: u64, name: &str) -> Result<u64> {
        Ok(own_number(self.mos, self.dir(dir)?.props_zap, name)?.unwrap_or(0))
    }

    /// Adds a number to a table that has numbers as keys.
    pub(super) fn put_number(&self, table: u64, n: u64) -> Result<()> {
        self.put(table, &ondisk::zap::int_key(n), n)
    }

    /// Removes one; it need not be there.
    pub(super) fn remove_number(&self, table: u64, n: u64) -> Result<bool> {
        self.remove(table, &ondisk::zap::int_key(n))
    }
}
