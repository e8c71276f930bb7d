//! Snapshots as send streams, which OpenZFS receives.
//!
//! # Theory
//!
//! A stream is what a receiver has to do so that it has the snapshot: a walk over the snapshot, in
//! the order of objects and offsets, of all that was born after the snapshot or bookmark that the
//! receiver has (txg `since`; 0: after nothing). No block is older than what it leads to, so what
//! did not change is left out without being read.
//!
//! ```text
//! walk    what changed, in order: objects, holes, pointers of blocks
//! emit    each of these as records: reads nothing, decides the form of blocks
//! ```
//!
//! The walk collects a batch of pointers, bounded in bytes. When it is full, several threads read
//! it, while one writes the batch before it: reading, which waits for devices, and writing, which
//! waits for the reader of the stream, go on at the same time, and two batches are in memory.
//!
//! All objects of a block of dnodes are sent when one of them changed, and free slots there are
//! sent as free: the receiver may have had objects there. So are holes, of any age: their births do
//! not show whether the number of the object was another object's before.
//!
//! A *raw* stream is that of an encrypted dataset without its key. The walk sees the dnodes as they
//! are stored, with their bonuses encrypted (`dmu::SealedStore`); all blocks go out as they are,
//! with salts, IVs and codes. For each block of dnodes that changed there is a record with its own,
//! before those of its objects, and the list behind BEGIN has the wrapped key.

mod emit;
mod estimate;
mod item;
mod list;
mod package;
mod resume;
mod scope;
mod walk;

pub use package::{Gap, Package, Part};
pub use resume::snapshot_of;
pub use scope::Scope;

use crate::error::{Error, ErrorKind, Hint, Place, Result, Rule, Unsendable};
use crate::reading::lease;
use dmu::{Objset, SealedStore};
use dsl::{Action, CRYPT_KEYDATA, Dataset, Dsl, SealedKey, SealedStream};
use emit::Emit;
use ondisk::bookmark::Bookmark;
use ondisk::nvlist::{Encoding, NvList, NvValue, Packing};
use ondisk::stream::{Begin, KIND_SNAPSHOT, MAGIC, begin_flag, feature};
use ondisk::znode::{MASTER_NODE, ZPL_VERSION_SA, master};
use ondisk::{DslDataset, Endian, ObjsetKind};
use pool::live::{InUse, LivePool};
use pool::{Datasets, Pool};
use resume::Start;
use rt::Progress;
use std::io::Write;
use std::sync::Arc;
use stream::Writer;

/// Features of datasets, as their objects in the MOS name them, that become features of streams.
const LARGE_BLOCKS: &str = "org.open-zfs:large_blocks";
const LARGE_DNODE: &str = "org.zfsonlinux:large_dnode";
const ZSTD: &str = "org.freebsd:zstd_compress";
const REDACTED: &str = "com.delphix:redacted_datasets";
/// Features of pools that become features of streams.
const EMBEDDED_DATA: &str = "com.delphix:embedded_data";
const LZ4: &str = "org.illumos:lz4_compress";
/// Clones of clones that are followed.
const ORIGINS_MAX: usize = 1 << 16;

/// Features of a stream that not every receiver accepts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Forms {
    /// Blocks of more than 128 KiB; otherwise they are cut up.
    pub large_blocks: bool,
    /// Blocks as they are compressed on disk.
    pub compressed: bool,
    /// Small blocks as they are embedded in their pointers.
    pub embedded: bool,
    /// An encrypted dataset as it is encrypted, for which no key is needed; and all of the above.
    pub raw: bool,
}

impl Forms {
    fn with_all_of_raw(self) -> Self {
        let all = Self { large_blocks: true, compressed: true, embedded: true, raw: true };
        if self.raw { all } else { self }
    }
}

/// The stream of a snapshot, which [`Self::run`] writes. Of a pool that is open for writing it is
/// made from [`LivePool::look`]: which forms of blocks a stream may have is a matter of the pool's
/// features, and [`LivePool::view`] has those of the time when it was opened.
///
/// ```
/// # let pool = engine::NewPool::new("tank").memory(128 << 20).create()?;
/// use engine::send::{Forms, SendStream};
///
/// engine::datasets::snapshot(&pool, &["tank@a"], false, Vec::new())?;
/// let mut stream = Vec::new();
/// let send = SendStream::new(pool.view(), "tank@a", None, Forms::default())?;
/// send.run(&mut stream, &engine::Progress::new())?;
/// let mut records = engine::streams::Reader::new(&stream[..]);
/// while records.record()?.is_some() {}
/// assert_eq!(records.length(), stream.len() as u64);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct SendStream<'a> {
    pool: &'a Pool,
    dataset: Dataset,
    objset: Objset,
    begin: Begin,
    from: Option<Base>,
    /// Where it begins; the default is before everything.
    start: Start,
    /// Of a raw stream: its key, and the form of its object set.
    sealed: Option<NvList>,
    in_use: Vec<InUse>,
}

/// The snapshot that the receiver has.
struct Base {
    name: String,
    txg: u64,
    guid: u64,
    /// Of another file system, of which this one is a clone.
    is_origin: bool,
    what: Earlier,
}

/// The same, as it is in the pool.
enum Earlier {
    Snapshot(Box<Dataset>),
    Bookmark(Box<Bookmark>),
}

impl<'a> SendStream<'a> {
    /// Prepares to send a snapshot, in full or as an increment of an earlier snapshot or bookmark
    /// (`@NAME` and `#NAME` are those of the same file system; that of another is an origin).
    ///
    /// # Errors
    /// There is no such snapshot, the one is not earlier than the other, or the dataset cannot be
    /// read or is of a kind that is not sent yet.
    pub fn new(pool: &'a Pool, snapshot: &str, from: Option<&str>, forms: Forms) -> Result<Self> {
        Self::among(&pool.datasets(), snapshot, from, forms)
    }

    /// [`Self::new`] for a caller that has the datasets.
    fn among(dsl: &Datasets<'a>, snapshot: &str, from: Option<&str>, forms: Forms) -> Result<Self> {
        let at = |name: &str| Place::Dataset(name.to_owned());
        let Some((path, _)) = snapshot.split_once('@') else {
            let error = Error::against(Rule::SnapshotName).at(at(snapshot));
            return Err(error.with_hint(Hint::NameSnapshot));
        };
        let pool = dsl.pool();
        let dataset = dsl.by_name(snapshot)?;
        let from = from.map(|from| Base::find(dsl, path, &dataset, from)).transpose()?;
        let forms = forms.with_all_of_raw();
        let is_encrypted = dataset.phys.bp.uses_crypt();
        let is_raw = is_encrypted && forms.raw;
        if is_encrypted && !is_raw && !dsl.is_unlocked(&dataset)? {
            return Err(Error::new(ErrorKind::NoKey).at(at(snapshot)));
        }
        let objset = match is_raw {
            true => {
                let store = Arc::new(SealedStore::new(Arc::clone(pool.store()) as _));
                Objset::open(store, dataset.object, &dataset.phys.bp, None)?
            }
            false => dsl.objset(&dataset)?,
        };
        let sealed = match is_raw {
            true => Some(sealed(dsl, &dataset, &objset, from.as_ref())?),
            false => None,
        };
        let features = features(dsl, &dataset, &objset, forms)?;
        let begin = begin(&dataset, &objset, features, from.as_ref());
        let start = Start::default();
        Ok(Self { pool, dataset, objset, begin, from, start, sealed, in_use: Vec::new() })
    }

    /// Keeps the snapshot, and the one that the receiver has, from being destroyed until this is
    /// dropped, in a pool that this process has open for writing. A handle for another user
    /// ([`LivePool::on_behalf_of`]) needs the permission to send it.
    ///
    /// # Errors
    /// There is no permission, or a snapshot is not there any more: it is the error's operand.
    pub fn held_in(mut self, pool: &LivePool) -> Result<Self> {
        let from = self.from().filter(|from| from.contains('@'));
        let kept = from.into_iter().chain([self.name()]);
        self.in_use = lease(pool, Action::Send, &[self.name()], kept)?;
        Ok(self)
    }

    /// The features that the stream needs: [`ondisk::stream::feature`].
    fn features(&self) -> u64 {
        self.begin.features()
    }

    /// The list behind BEGIN; empty if there is nothing to list.
    fn list(&self) -> Vec<u8> {
        let mut list = NvList::new();
        if self.features() & feature::RESUMING != 0 {
            self.start.put_into(&mut list);
        }
        if let Some(sealed) = &self.sealed {
            list.set(CRYPT_KEYDATA, NvValue::NvList(sealed.clone()));
        }
        if list.pairs.is_empty() {
            return Vec::new();
        }
        let packing = Packing { encoding: Encoding::Native, endian: Endian::Little };
        // Numbers and short arrays can always be packed.
        list.encode(packing).unwrap_or_default()
    }

    /// Its blocks are those of an encrypted dataset, as they are stored.
    fn is_raw(&self) -> bool {
        self.sealed.is_some()
    }

    fn since(&self) -> u64 {
        self.from.as_ref().map_or(0, |from| from.txg)
    }

    /// The name of the snapshot.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.dataset.name
    }

    /// The name of what it is an increment of.
    #[must_use]
    pub fn from(&self) -> Option<&str> {
        self.from.as_ref().map(|from| from.name.as_str())
    }

    /// About how long the stream will be, in bytes, without reading it; but of an increment of a
    /// bookmark that knows no sizes (feature `bookmark_written`) it is what was read.
    ///
    /// # Errors
    /// Metadata cannot be read, or it was cancelled.
    pub fn estimate(&self, progress: &Progress) -> Result<u64> {
        estimate::size(self, progress)
    }

    /// Writes the stream, in large pieces, and flushes `out`. The progress has the bytes that were
    /// written.
    ///
    /// # Errors
    /// A block cannot be read, `out` fails ([`ErrorKind::External`]), or it was cancelled. The
    /// stream has no end then, and a receiver refuses it.
    pub fn run<W: Write + Send>(&self, out: W, progress: &Progress) -> Result<()> {
        let writer = Writer::new(std::io::BufWriter::with_capacity(1 << 18, out));
        progress.begin("records sent", 0);
        self.write(writer, progress).map(drop)
    }

    /// Writes it behind what was written already.
    fn write<W: Write + Send>(
        &self,
        mut writer: Writer<std::io::BufWriter<W>>,
        progress: &Progress,
    ) -> Result<Writer<std::io::BufWriter<W>>> {
        let to_guid = self.begin.to_guid;
        writer.begin(self.begin.clone(), &self.list()).map_err(Error::external)?;
        let emit = Emit::new(writer, to_guid, self.features(), self.since(), progress);
        let mut writer = walk::send(self, emit, progress)?;
        let last = writer.length();
        writer.end(to_guid).map_err(Error::external)?;
        progress.add(1, writer.length() - last);
        Ok(writer)
    }
}

impl Base {
    fn find(dsl: &Dsl, path: &str, to: &Dataset, from: &str) -> Result<Self> {
        let name = if from.starts_with(['@', '#']) { format!("{path}{from}") } else { from.into() };
        let at = || Place::Dataset(name.clone());
        let (dir, txg, guid, what) = if name.contains('#') {
            let bookmark = dsl.bookmark(&name)?;
            let dir = dsl.dir_by_name(name.split('#').next().unwrap_or_default())?.object;
            let is_redacted = bookmark.phys.extra.as_ref().is_some_and(|x| x.redaction_obj != 0);
            if is_redacted {
                let why = Unsendable::RedactionBookmark;
                return Err(Error::new(ErrorKind::NotSent(why)).at(at()));
            }
            let (txg, guid) = (bookmark.phys.creation_txg, bookmark.phys.guid);
            (dir, txg, guid, Earlier::Bookmark(Box::new(bookmark.phys)))
        } else if name.contains('@') {
            let snapshot = dsl.by_name(&name)?;
            let (txg, guid) = (snapshot.phys.creation_txg, snapshot.phys.guid);
            (snapshot.dir.object, txg, guid, Earlier::Snapshot(Box::new(snapshot)))
        } else {
            let error = Error::against(Rule::SnapshotName).at(at());
            return Err(error.with_hint(Hint::NameSnapshot));
        };
        if !is_before(dsl, to, dir, txg)? {
            let error = Error::against(Rule::NotEarlier).at(at());
            return Err(error.with_hint(Hint::OlderFirst));
        }
        let is_origin = dir != to.dir.object;
        Ok(Self { name, txg, guid, is_origin, what })
    }
}

/// Whether what was there of directory `dir` in `txg` is on the line that leads to `later`.
fn is_before(dsl: &Dsl, later: &Dataset, dir: u64, txg: u64) -> Result<bool> {
    let mut at = later.clone();
    for depth in 0..ORIGINS_MAX {
        // An origin can be the earlier one itself; the snapshot that is sent cannot.
        let is_old = txg < at.phys.creation_txg || (depth > 0 && txg == at.phys.creation_txg);
        if !is_old || at.dir.object == dir {
            return Ok(is_old);
        }
        match at.dir.phys.origin {
            0 => return Ok(false),
            origin => at = dsl.nameless(origin)?,
        }
    }
    Ok(false)
}

/// The list of a raw stream of a snapshot: its key and its object set.
fn sealed(dsl: &Dsl, dataset: &Dataset, objset: &Objset, from: Option<&Base>) -> Result<NvList> {
    let damaged = || Error::new(ErrorKind::Damaged).at(Place::Dataset(dataset.name.clone()));
    let info = dsl.key_info(&dataset.dir)?.ok_or_else(damaged)?;
    let from = match from.map(|from| &from.what) {
        None => 0,
        Some(Earlier::Snapshot(from)) => dsl.ivset_guid(from)?.unwrap_or(0),
        Some(Earlier::Bookmark(from)) => from.extra.as_ref().map_or(0, |extra| extra.ivset_guid),
    };
    let to = dsl.ivset_guid(dataset)?.unwrap_or(0);
    Ok(SealedStream::list_of(&SealedKey::from(&info), &objset.phys(), from, to))
}

fn features(dsl: &Datasets<'_>, dataset: &Dataset, objset: &Objset, forms: Forms) -> Result<u64> {
    let mut features = 0;
    let fields = dsl.fields(dataset.object, dataset.has_fields)?;
    let of_dataset = |guid: &str| -> Result<bool> {
        let Some(fields) = &fields else { return Ok(false) };
        Ok(fields.get(guid.as_bytes())?.is_some())
    };
    let of_pool = |guid: &str| dsl.pool().features().count(guid).is_some_and(|uses| uses > 0);
    if of_dataset(REDACTED)? {
        let why = Unsendable::Redacted;
        let at = Place::Dataset(dataset.name.clone());
        return Err(Error::new(ErrorKind::NotSent(why)).at(at));
    }
    if objset.phys().kind == ObjsetKind::Zfs {
        let table = dmu::Zap::open(&objset.object(MASTER_NODE)?)?;
        if table.need_u64(master::VERSION)? >= ZPL_VERSION_SA {
            features |= feature::SA_SPILL;
        }
    }
    if forms.large_blocks && of_dataset(LARGE_BLOCKS)? {
        features |= feature::LARGE_BLOCKS;
    }
    if of_dataset(LARGE_DNODE)? {
        features |= feature::LARGE_DNODE;
    }
    // An encrypted dataset has no embedded blocks.
    let is_encrypted = dataset.phys.bp.uses_crypt();
    if forms.embedded && !is_encrypted && of_pool(EMBEDDED_DATA) {
        features |= feature::EMBED_DATA;
    }
    if forms.compressed {
        features |= feature::COMPRESSED;
    }
    if forms.raw && is_encrypted {
        features |= feature::RAW;
    }
    if features & (feature::EMBED_DATA | feature::COMPRESSED) != 0 && of_pool(LZ4) {
        features |= feature::LZ4;
    }
    if forms.compressed && of_dataset(ZSTD)? {
        features |= feature::ZSTD;
    }
    Ok(features)
}

fn begin(dataset: &Dataset, objset: &Objset, features: u64, from: Option<&Base>) -> Begin {
    let mut flags = begin_flag::FREE_RECORDS | begin_flag::SPILL_BLOCKS;
    if from.is_some_and(|from| from.is_origin) {
        flags |= begin_flag::CLONE;
    }
    if dataset.phys.flags & DslDataset::FLAG_CASE_INSENSITIVE != 0 {
        flags |= begin_flag::CASE_INSENSITIVE;
    }
    Begin {
        magic: MAGIC,
        version: Begin::version_of(KIND_SNAPSHOT, features),
        creation_time: dataset.phys.creation_time,
        objset_kind: objset.phys().kind.number() as u32,
        flags,
        to_guid: dataset.phys.guid,
        from_guid: from.map_or(0, |from| from.guid),
        to_name: ondisk::spelling::stored(&dataset.name),
    }
}
