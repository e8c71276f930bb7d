//! A table of either form that is being changed.

use super::blocks::{Blocks, Change};
use super::fat::Fat;
use super::{EntryKey, ZapValue, entry};
use crate::error::{ErrorKind, Result};
use crate::refusal::InvalidChange;
use ondisk::Endian;
use ondisk::zap::{
    BlockKind, Entry, FirstBlock, KeyHash, MICRO_BLOCK_SIZE_MAX, MICRO_CHUNK_SIZE, MICRO_NAME_SIZE,
    MicroChunk, MicroZap, StoredMicro, ZapKey, ZapName, block_kind,
};
use std::sync::Arc;
use zio::Block;

/// log2 of the block size that a micro table gets when it becomes fat.
pub(super) const FAT_BLOCK_SHIFT: u32 = 14;
/// Longest value in bytes.
const VALUE_SIZE_MAX: usize = 8 << 10;
/// Leaves kept in memory, at most, before [`Table::is_large`] asks for them to be written.
const LEAVES_MAX: usize = 256;

struct Micro {
    zap: MicroZap,
    /// Numbers of the changed chunks.
    changed: Vec<usize>,
    /// The whole block must be written: it is new, larger, or was in the other byte order.
    whole: bool,
    /// The block size changed.
    grown: bool,
}

/// A micro table in its block, which is little-endian, and one chunk that will be another: most
/// changes are of one name. For more the block is decoded.
struct Stored {
    block: Arc<Block>,
    key_hash: KeyHash,
    patch: Option<(usize, MicroChunk)>,
}

enum Form {
    Stored(Stored),
    Micro(Micro),
    Fat {
        fat: Fat,
        /// It was micro: the object needs another block size, this one.
        resized: Option<usize>,
    },
}

/// A table that is being changed in memory; [`Table::changes`] returns the blocks to write.
pub(super) struct Table<B> {
    pub(super) blocks: B,
    form: Form,
}

fn is_single(value: &ZapValue) -> Option<u64> {
    let word = value.values.as_slice().try_into().ok().map(u64::from_be_bytes);
    word.filter(|_| value.int_len == 8)
}

impl<B: Blocks> Table<B> {
    /// The table in `blocks`.
    pub(super) fn open(blocks: B) -> Result<Self> {
        let block = blocks.read(0)?;
        let endian = block.endian();
        let format = |e| blocks.format_error(0, e);
        if endian == Endian::Little && block_kind(&block, endian) == Some(BlockKind::Micro) {
            let key_hash = StoredMicro::new(&block, endian).map_err(format)?.key_hash();
            let form = Form::Stored(Stored { block, key_hash, patch: None });
            return Ok(Self { blocks, form });
        }
        let form = match FirstBlock::decode(&block, endian).map_err(format)? {
            FirstBlock::Micro(zap) => {
                let whole = endian != Endian::Little;
                Form::Micro(Micro { zap, changed: Vec::new(), whole, grown: false })
            }
            FirstBlock::Fat(header) => Form::Fat { fat: Fat::open(header, endian), resized: None },
        };
        Ok(Self { blocks, form })
    }

    /// A new, empty table: micro in a block of `block_size` bytes, or fat with blocks of
    /// `1 << shift` bytes.
    pub(super) fn new(blocks: B, of: KeyHash, fat_shift: Option<u32>, block_size: usize) -> Self {
        let form = match fat_shift {
            Some(shift) => Form::Fat { fat: Fat::new(shift, of), resized: Some(1 << shift) },
            None => {
                let zap = MicroZap::new(of.salt, of.norm_flags, block_size);
                Form::Micro(Micro { zap, changed: Vec::new(), whole: true, grown: true })
            }
        };
        Self { blocks, form }
    }

    pub(super) fn key_hash(&self) -> KeyHash {
        match &self.form {
            Form::Stored(s) => s.key_hash,
            Form::Micro(m) => m.zap.key_hash(),
            Form::Fat { fat, .. } => fat.key_hash(),
        }
    }

    /// The table in its block, if that is how it still is.
    fn stored(&self) -> Option<StoredMicro<'_>> {
        match &self.form {
            Form::Stored(s) if s.patch.is_none() => StoredMicro::new(&s.block, Endian::Little).ok(),
            _ => None,
        }
    }

    /// The change of one chunk of a table in its block.
    fn patch(&mut self, patch: (usize, MicroChunk)) {
        if let Form::Stored(s) = &mut self.form {
            s.patch = Some(patch);
        }
    }

    /// From here on a micro table is decoded.
    fn decode(&mut self) -> Result<()> {
        let Form::Stored(s) = &self.form else { return Ok(()) };
        let zap = MicroZap::decode(&s.block, Endian::Little);
        let zap = zap.map_err(|e| self.blocks.format_error(0, e))?;
        let mut micro = Micro { zap, changed: Vec::new(), whole: false, grown: false };
        if let Some((at, chunk)) = s.patch {
            micro.change(at, |c| *c = chunk);
        }
        self.form = Form::Micro(micro);
        Ok(())
    }

    /// Whether enough is in memory that it should be written before more is changed.
    pub(super) fn is_large(&self) -> bool {
        matches!(&self.form, Form::Fat { fat, .. } if fat.held() >= LEAVES_MAX)
    }

    /// The key in the form of this table.
    fn key(&self, key: EntryKey<'_>) -> Result<(ZapKey, ZapName)> {
        let of = self.key_hash();
        let wrong = |why| Err(self.blocks.error(ErrorKind::Invalid(why)));
        match key {
            EntryKey::Words(_) if !of.integer_keys() => wrong(InvalidChange::IntegerKey),
            EntryKey::Words(w) => Ok((ZapKey::words(&of, w), ZapName::U64s(w.to_vec()))),
            EntryKey::Name(..) if of.integer_keys() => wrong(InvalidChange::NameKey),
            EntryKey::Name(n, _) if n.contains(&0) => wrong(InvalidChange::NameWithNul),
            EntryKey::Name(n, how) => Ok((ZapKey::name(&of, n, how), ZapName::Bytes(n.to_vec()))),
        }
    }

    fn check_value(&self, value: &ZapValue) -> Result<()> {
        let len = value.values.len();
        let int_len = usize::from(value.int_len);
        let whole = matches!(int_len, 1 | 2 | 4 | 8) && len.is_multiple_of(int_len);
        match () {
            () if !whole => {
                Err(self.blocks.error(ErrorKind::Invalid(InvalidChange::PartOfInteger)))
            }
            () if len > VALUE_SIZE_MAX => {
                Err(self.blocks.error(ErrorKind::Invalid(InvalidChange::LargeValue)))
            }
            () => Ok(()),
        }
    }

    pub(super) fn get(&mut self, key: EntryKey<'_>) -> Result<Option<Entry>> {
        let (key, _) = self.key(key)?;
        if let Some(stored) = self.stored() {
            return Ok(stored.find(&key).map(|(_, chunk)| entry(&chunk, key.hash)));
        }
        self.decode()?;
        match &mut self.form {
            Form::Micro(m) => {
                let found = m.zap.find(&key).and_then(|at| m.zap.chunks.get(at));
                Ok(found.map(|chunk| entry(chunk, key.hash)))
            }
            Form::Fat { fat, .. } => fat.get(&self.blocks, &key),
            Form::Stored(_) => Ok(None),
        }
    }

    /// Adds an entry; one that is there already is an error.
    pub(super) fn insert(&mut self, key: EntryKey<'_>, value: &ZapValue) -> Result<()> {
        self.check_value(value)?;
        if self.get(key)?.is_some() {
            return Err(self.blocks.error(ErrorKind::EntryExists(key.to_string())));
        }
        let (zap_key, name) = self.key(key)?;
        self.add(&name, zap_key.hash, value)
    }

    /// Adds an entry that is not there.
    fn add(&mut self, name: &ZapName, hash: u64, value: &ZapValue) -> Result<()> {
        let short = name.bytes().filter(|n| !n.is_empty() && n.len() < MICRO_NAME_SIZE);
        let micro = short.zip(is_single(value));
        let patch = self.stored().zip(micro).and_then(|(stored, (n, word))| stored.entry(n, word));
        if let Some(patch) = patch {
            self.patch(patch);
            return Ok(());
        }
        self.decode()?;
        if let Form::Micro(m) = &mut self.form {
            if let Some((name, word)) = micro
                && m.insert(name, word)
            {
                return Ok(());
            }
            self.fatten(FAT_BLOCK_SHIFT, 0)?;
        }
        match &mut self.form {
            Form::Fat { fat, .. } => {
                fat.insert(&self.blocks, name, hash, None, value.int_len, &value.values)
            }
            Form::Stored(_) | Form::Micro(_) => Ok(()),
        }
    }

    /// Inserts or replaces.
    pub(super) fn set(&mut self, key: EntryKey<'_>, value: &ZapValue) -> Result<()> {
        self.check_value(value)?;
        let (zap_key, name) = self.key(key)?;
        if let Some(stored) = self.stored() {
            match (stored.find(&zap_key), is_single(value)) {
                (None, _) => return self.add(&name, zap_key.hash, value),
                (Some((at, mut chunk)), Some(word)) => {
                    chunk.value = word;
                    self.patch((at, chunk));
                    return Ok(());
                }
                (Some(_), None) => {}
            }
        }
        self.decode()?;
        if let Form::Micro(m) = &mut self.form {
            match (m.zap.find(&zap_key), is_single(value)) {
                (None, _) => return self.add(&name, zap_key.hash, value),
                (Some(at), Some(word)) => {
                    m.change(at, |c| c.value = word);
                    return Ok(());
                }
                (Some(_), None) => self.fatten(FAT_BLOCK_SHIFT, 0)?,
            }
        }
        let Form::Fat { fat, .. } = &mut self.form else { return Ok(()) };
        let (int_len, values) = (value.int_len, &value.values);
        if fat.replace(&self.blocks, &name, &zap_key, int_len, values)? {
            return Ok(());
        }
        fat.insert(&self.blocks, &name, zap_key.hash, None, int_len, values)
    }

    /// Removes an entry; false when there was none.
    pub(super) fn remove(&mut self, key: EntryKey<'_>) -> Result<bool> {
        let (key, _) = self.key(key)?;
        if let Some(stored) = self.stored() {
            let found = stored.find(&key);
            if let Some((at, _)) = found {
                self.patch((at, MicroChunk::FREE));
            }
            return Ok(found.is_some());
        }
        self.decode()?;
        match &mut self.form {
            Form::Stored(_) => Ok(false),
            Form::Micro(m) => {
                let found = m.zap.find(&key);
                if let Some(at) = found {
                    m.change(at, |c| *c = ondisk::zap::MicroChunk::FREE);
                }
                Ok(found.is_some())
            }
            Form::Fat { fat, .. } => fat.remove(&self.blocks, &key),
        }
    }

    /// Makes a micro table fat, with the salt and the normal forms it has.
    pub(super) fn fatten(&mut self, block_shift: u32, flags: u64) -> Result<()> {
        self.decode()?;
        let Form::Micro(m) = &self.form else { return Ok(()) };
        let mut fat = Fat::new(block_shift, KeyHash { flags, ..m.zap.key_hash() });
        // The differentiators stay: they are in the cursors of those that read a directory now.
        for e in m.zap.entries() {
            fat.insert(&self.blocks, &e.name, e.hash, Some(e.cd), e.int_len, &e.values)?;
        }
        self.form = Form::Fat { fat, resized: Some(1 << block_shift) };
        Ok(())
    }

    /// The blocks, and what must be written to them. The table lets go of what it holds of them, so
    /// that a block can be changed where it is.
    pub(super) fn finish(self) -> (B, Vec<Change>) {
        let changes = self.changes();
        (self.blocks, changes)
    }

    /// The blocks to write, in order.
    pub(super) fn changes(&self) -> Vec<Change> {
        match &self.form {
            Form::Stored(s) => {
                let patch = s.patch.iter().map(|(at, chunk)| {
                    let at = (at + 1) * MICRO_CHUNK_SIZE;
                    Change::Patch(0, at, chunk.encode(Endian::Little))
                });
                patch.collect()
            }
            Form::Micro(m) => m.changes(),
            Form::Fat { fat, resized } => {
                let size = resized.map(Change::BlockSize);
                size.into_iter().chain(fat.changes()).collect()
            }
        }
    }
}

impl Micro {
    /// Puts an entry in, growing the block when it must; false when even the largest is full.
    fn insert(&mut self, name: &[u8], value: u64) -> bool {
        loop {
            if let Some(at) = self.zap.insert(name, value) {
                self.changed.push(at);
                return true;
            }
            let size = self.zap.block_size();
            if size >= MICRO_BLOCK_SIZE_MAX {
                return false;
            }
            self.zap.grow((size * 2).min(MICRO_BLOCK_SIZE_MAX));
            (self.grown, self.whole) = (true, true);
        }
    }

    fn change(&mut self, at: usize, how: impl FnOnce(&mut ondisk::zap::MicroChunk)) {
        if let Some(chunk) = self.zap.chunks.get_mut(at) {
            how(chunk);
            self.changed.push(at);
        }
    }

    fn changes(&self) -> Vec<Change> {
        if !self.grown && self.changed.is_empty() {
            return Vec::new();
        }
        let mut out = Vec::new();
        if self.grown {
            out.push(Change::BlockSize(self.zap.block_size()));
        }
        if self.whole {
            out.push(Change::Block(0, self.zap.encode(Endian::Little)));
            return out;
        }
        let mut chunks = self.changed.clone();
        chunks.sort_unstable();
        chunks.dedup();
        let patches = chunks.iter().filter_map(|at| self.zap.encode_chunk(*at, Endian::Little));
        out.extend(patches.map(|(at, bytes)| Change::Patch(0, at, bytes)));
        out
    }
}
