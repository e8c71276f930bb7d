//! Tables in objects: lookup in, iteration over and changing of micro and fat ZAPs.
//!
//! The blocks are decoded by [`ondisk::zap`]; this module fetches them. A fat ZAP is read leaf by
//! leaf, so that a table of a million entries costs no more memory than a few leaves, and a leaf
//! that is lost costs only its own entries. How tables are changed is described in `write.rs`.

mod blocks;
mod cursor;
mod fat;
mod key;
mod renew;
mod table;
#[cfg(test)]
mod tests;
mod write;

pub use cursor::{Cursor, EntryPage};
pub use key::EntryKey;
pub use write::{Editor, ZapSpec, add, create, format, insert, insert_u64, remove, set, set_u64};

use crate::error::{Error, ErrorKind, Result};
use crate::object::Object;
use ondisk::zap::{BlockKind, Entry, FirstBlock, KeyHash, Leaf, MicroChunk, MicroZap};
pub use ondisk::zap::{Match, ZapKey};
use ondisk::zap::{StoredMicro, ZapHeader, ZapName, block_kind};
use ondisk::{Endian, Layout};
use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};
use zio::Block;

/// An entry: name, differentiator, hash, value.
pub type ZapEntry = Entry;

/// Entries read at once while iterating.
const PAGE: usize = 1024;

/// A value to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZapValue {
    /// Size of its integers in bytes: 1, 2, 4 or 8.
    pub int_len: u8,
    /// The integers, big-endian.
    pub values: Vec<u8>,
}

impl ZapValue {
    /// A single 64-bit integer.
    #[must_use]
    pub fn from_u64(v: u64) -> Self {
        Self { int_len: 8, values: v.to_be_bytes().to_vec() }
    }

    /// Several 64-bit integers.
    #[must_use]
    pub fn from_words(words: &[u64]) -> Self {
        Self { int_len: 8, values: words.iter().flat_map(|w| w.to_be_bytes()).collect() }
    }

    /// Bytes.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Self {
        Self { int_len: 1, values: bytes.to_vec() }
    }

    /// Text with the NUL that ends it, as properties are stored.
    #[must_use]
    pub fn from_text(text: &str) -> Self {
        let mut values = text.as_bytes().to_vec();
        values.push(0);
        Self { int_len: 1, values }
    }
}

/// A micro table. One name is looked up in the block as it is.
struct Micro {
    block: Arc<Block>,
    key_hash: KeyHash,
    /// For those that want all of it.
    decoded: OnceLock<ondisk::Result<MicroZap>>,
}

impl Micro {
    fn open(block: &Arc<Block>) -> ondisk::Result<Self> {
        let key_hash = StoredMicro::new(block, block.endian())?.key_hash();
        Ok(Self { block: Arc::clone(block), key_hash, decoded: OnceLock::new() })
    }

    fn all(&self) -> ondisk::Result<&MicroZap> {
        let decode = || MicroZap::decode(&self.block, self.block.endian());
        self.decoded.get_or_init(decode).as_ref().map_err(Clone::clone)
    }

    fn find(&self, key: &ZapKey) -> ondisk::Result<Option<Entry>> {
        let stored = StoredMicro::new(&self.block, self.block.endian())?;
        let found = stored.find(key);
        Ok(found.map(|(_, chunk)| entry(&chunk, self.key_hash.name(chunk.name()))))
    }
}

/// An entry of a micro table as one of a fat table.
fn entry(chunk: &MicroChunk, hash: u64) -> Entry {
    Entry {
        name: ZapName::Bytes(chunk.name().to_vec()),
        cd: chunk.cd,
        hash,
        int_len: 8,
        values: chunk.value.to_be_bytes().to_vec(),
    }
}

enum Form {
    Micro(Micro),
    Fat(ZapHeader),
}

/// A table, open for reading.
pub struct Zap {
    object: Object,
    endian: Endian,
    form: Form,
}

/// A block of the pointer table, in the byte order of the header.
enum TableBlock {
    AsIs(Arc<Block>),
    Turned(Vec<u8>),
}

impl AsRef<[u8]> for TableBlock {
    fn as_ref(&self) -> &[u8] {
        match self {
            Self::AsIs(b) => b.bytes(),
            Self::Turned(v) => v,
        }
    }
}

/// Error of the fetch callbacks, which can fail in either crate.
enum FetchError {
    Here(Error),
    Decode(ondisk::Error),
}

impl From<ondisk::Error> for FetchError {
    fn from(e: ondisk::Error) -> Self {
        Self::Decode(e)
    }
}

impl Zap {
    /// Opens the table in `object`.
    pub fn open(object: &Object) -> Result<Self> {
        let kind = object.dnode().kind;
        if kind.layout() != Layout::Zap {
            let kind = ErrorKind::WrongType { wanted: "a ZAP", found: kind.name() };
            return Err(object.error(kind));
        }
        let block = object
            .read_block(0)?
            .ok_or_else(|| object.error(ErrorKind::Tree("a ZAP's first block is a hole")))?;
        let endian = block.endian();
        let form = match block_kind(&block, endian) {
            Some(BlockKind::Micro) => Micro::open(&block).map(Form::Micro),
            _ => FirstBlock::decode(&block, endian).map(|first| match first {
                FirstBlock::Micro(all) => Form::Micro(Micro {
                    key_hash: all.key_hash(),
                    block: Arc::clone(&block),
                    decoded: OnceLock::from(Ok(all)),
                }),
                FirstBlock::Fat(header) => Form::Fat(header),
            }),
        };
        let form = form.map_err(|e| object.format_error(0, e))?;
        Ok(Self { object: object.clone(), endian, form })
    }

    /// The object the table is in.
    #[must_use]
    pub fn object(&self) -> &Object {
        &self.object
    }

    /// The header of a fat table.
    #[must_use]
    pub fn fat_header(&self) -> Option<&ZapHeader> {
        match &self.form {
            Form::Fat(h) => Some(h),
            _ => None,
        }
    }

    /// The whole of a micro table.
    ///
    /// # Errors
    /// It cannot be read as one.
    pub fn micro(&self) -> Result<Option<&MicroZap>> {
        match &self.form {
            Form::Micro(m) => m.all().map(Some).map_err(|e| self.object.format_error(0, e)),
            Form::Fat(_) => Ok(None),
        }
    }

    /// How names are hashed and normalised.
    #[must_use]
    pub fn key_hash(&self) -> KeyHash {
        match &self.form {
            Form::Micro(m) => m.key_hash,
            Form::Fat(h) => h.key_hash(),
        }
    }

    /// Block `blkid` of the pointer table. Each block has the byte order of the machine that wrote
    /// it last, which need not be the header's.
    fn fetch_table(&self, blkid: u64) -> std::result::Result<TableBlock, FetchError> {
        let block = self.fetch(blkid).map_err(FetchError::Here)?;
        if block.endian() == self.endian {
            return Ok(TableBlock::AsIs(block));
        }
        let words = block.as_chunks::<8>().0.iter();
        Ok(TableBlock::Turned(words.flat_map(|w| w.iter().rev().copied()).collect()))
    }

    fn fetch(&self, blkid: u64) -> Result<Arc<Block>> {
        if blkid > self.object.dnode().max_block {
            return Err(self.object.error(ErrorKind::Tree("a ZAP points behind its end")));
        }
        let hole = || self.object.error(ErrorKind::Tree("a ZAP points into a hole"));
        self.object.read_block(blkid)?.ok_or_else(hole)
    }

    fn fetch_error(&self, e: FetchError) -> Error {
        match e {
            FetchError::Here(e) => e,
            FetchError::Decode(e) => self.object.format_error(0, e),
        }
    }

    fn decode_leaf<'b>(&self, blkid: u64, block: &'b Block) -> Result<Leaf<'b>> {
        Leaf::decode(block, block.endian()).map_err(|e| self.object.format_error(blkid, e))
    }

    /// The leaves of a fat table with their block numbers, read one by one; a micro table has
    /// none. When the pointer table cannot be read, that error is all.
    pub fn leaves(&self) -> impl Iterator<Item = (u64, Result<Leaf<'static>>)> + '_ {
        let fetch = |b| self.fetch_table(b);
        let blocks = match &self.form {
            Form::Fat(h) => h.leaf_blocks(self.endian, fetch).map_err(|e| self.fetch_error(e)),
            _ => Ok(Vec::new()),
        };
        let (blocks, error) = match blocks {
            Ok(b) => (b, None),
            Err(e) => (Vec::new(), Some((0, Err(e)))),
        };
        let leaf = |b| {
            let block = self.fetch(b);
            (b, block.and_then(|block| self.decode_leaf(b, &block).map(Leaf::into_owned)))
        };
        error.into_iter().chain(blocks.into_iter().map(leaf))
    }

    /// Looks a key up, prepared with [`Self::key_hash`].
    pub fn find(&self, key: &ZapKey) -> Result<Option<Entry>> {
        self.finder().find(key)
    }

    /// For looking many keys up.
    #[must_use]
    pub fn finder(&self) -> Finder<'_> {
        Finder { zap: self, leaf: None }
    }

    /// Looks a name up byte for byte.
    pub fn get(&self, name: &[u8]) -> Result<Option<Entry>> {
        self.find(&ZapKey::name(&self.key_hash(), name, Match::Exact))
    }

    /// A value that is one integer; `None` without such an entry.
    pub fn get_u64(&self, name: &str) -> Result<Option<u64>> {
        match self.get(name.as_bytes())? {
            Some(e) => match e.u64() {
                Some(v) => Ok(Some(v)),
                None => Err(self.object.error(ErrorKind::EntryForm(name.to_owned()))),
            },
            None => Ok(None),
        }
    }

    /// A value that is one integer and must be there.
    pub fn need_u64(&self, name: &str) -> Result<u64> {
        let absent = || self.object.error(ErrorKind::NoEntry(name.to_owned()));
        self.get_u64(name)?.ok_or_else(absent)
    }

    /// All entries. A leaf that cannot be read is one error item, and iteration continues.
    #[must_use]
    pub fn entries(&self) -> ZapIter<'_> {
        ZapIter { zap: self, next: Some(Cursor::default()), ready: VecDeque::new() }
    }

    /// All entries, or the first error.
    pub fn to_vec(&self) -> Result<Vec<Entry>> {
        self.entries().collect()
    }
}

/// Looks keys up. The leaf of the last one is kept, so keys in the order of their hashes, as
/// [`Zap::entries`] has them, cost one read for each leaf.
pub struct Finder<'a> {
    zap: &'a Zap,
    /// Its number and its block.
    leaf: Option<(u64, Arc<Block>)>,
}

impl Finder<'_> {
    /// Looks a key up, prepared with [`Zap::key_hash`].
    ///
    /// # Errors
    /// A block on the way cannot be read or makes no sense.
    pub fn find(&mut self, key: &ZapKey) -> Result<Option<Entry>> {
        let zap = self.zap;
        let header = match &zap.form {
            Form::Micro(m) => return m.find(key).map_err(|e| zap.object.format_error(0, e)),
            Form::Fat(header) => header,
        };
        let fetch = |b| zap.fetch_table(b);
        let at = header.leaf_of(key.hash, zap.endian, fetch).map_err(|e| zap.fetch_error(e))?;
        let block = match self.leaf.take().filter(|(kept, _)| *kept == at) {
            Some((_, block)) => block,
            None => zap.fetch(at)?,
        };
        let leaf = zap.decode_leaf(at, &block)?;
        let found = leaf.lookup(key).map_err(|e| zap.object.format_error(at, e));
        self.leaf = Some((at, block));
        found
    }
}

/// See [`Zap::entries`].
pub struct ZapIter<'a> {
    zap: &'a Zap,
    next: Option<Cursor>,
    ready: VecDeque<Result<Entry>>,
}

impl Iterator for ZapIter<'_> {
    type Item = Result<Entry>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.ready.is_empty() {
            let page = self.zap.page(self.next?, PAGE);
            self.next = page.next;
            self.ready = page.entries.into();
        }
        self.ready.pop_front()
    }
}
