//! Deduplication tables: which block contents exist, where, and how many pointers share each.
//!
//! Specified in `docs/format/ddt.md`. One table per checksum, in two generations:
//!
//! * *legacy*: objects `DDT-<checksum>-<type>-<class>` in the object directory, with entries of
//!   256 bytes ([`LegacyValue`]: one variant per number of copies);
//! * *fast dedup* (feature `fast_dedup`): a ZAP `DDT-<checksum>` in the object directory with the
//!   members `version`, `flags`, the same `DDT-<checksum>-<type>-<class>` names with entries of 72
//!   bytes ([`FlatValue`]), and two [logs](log) `DDT-log-<checksum>-0` and `-1` of changes that are
//!   not in the ZAPs yet. A log's entry replaces a ZAP's.
//!
//! The type is always `zap`; the class is `duplicate` (several references), `unique` (one), or in
//! old pools `ditto`. The ZAP's keys are the five words of [`DdtKey`]; the values are bytes packed
//! by [`pack`]. Beside each table there is a [`Histogram`] under `DDT-statistics`.

pub mod log;
mod zle;

use crate::blkptr::{BlkPtr, Dva, SECTOR_SIZE};
use crate::cursor::{Endian, Reader};
use crate::error::{ErrorKind, Result};
use crate::kinds::{Checksum, Compression};
use crate::wordstruct::{Field, word_struct};

/// The feature that pools with tables of the second generation have in use.
pub const FEATURE: &str = "com.klarasystems:fast_dedup";
/// Member `version` of a fast dedup directory.
pub const DIR_VERSION: &str = "version";
/// Member `flags` of a fast dedup directory: `FLAG_*`.
pub const DIR_FLAGS: &str = "flags";
/// The only version of that directory so far.
pub const VERSION_FAST: u64 = 1;
/// Entries are [`FlatValue`]s.
pub const FLAG_FLAT: u64 = 1 << 0;
/// There are logs.
pub const FLAG_LOG: u64 = 1 << 1;
/// ZAP with the histograms of both generations, in the object directory.
pub const STATISTICS: &str = "DDT-statistics";

/// Class of a table: how often its entries are referenced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Often enough that more copies were made (obsolete).
    Ditto,
    /// More than once.
    Duplicate,
    /// Once.
    Unique,
}

impl Class {
    /// All of them, by their numbers.
    pub const ALL: [Self; 3] = [Self::Ditto, Self::Duplicate, Self::Unique];

    /// Name in the objects' names.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Ditto => "ditto",
            Self::Duplicate => "duplicate",
            Self::Unique => "unique",
        }
    }

    /// Number in logs and bookmarks.
    #[must_use]
    pub fn number(self) -> u64 {
        self as u64
    }

    /// From that number.
    #[must_use]
    pub fn from_number(n: u64) -> Option<Self> {
        usize::try_from(n).ok().and_then(|n| Self::ALL.get(n).copied())
    }
}

/// Name of the directory of a checksum's table (fast dedup); `None` for an unknown checksum.
#[must_use]
pub fn directory_name(checksum: Checksum) -> Option<String> {
    checksum.name().map(|c| format!("DDT-{c}"))
}

/// Name of the ZAP of a class; `None` for an unknown checksum.
#[must_use]
pub fn object_name(checksum: Checksum, class: Class) -> Option<String> {
    checksum.name().map(|c| format!("DDT-{c}-zap-{}", class.name()))
}

/// Name of a log, 0 or 1; `None` for an unknown checksum.
#[must_use]
pub fn log_name(checksum: Checksum, number: u8) -> Option<String> {
    checksum.name().map(|c| format!("DDT-log-{c}-{number}"))
}

word_struct! {
    /// The identity of a block's content (40 bytes, or five words as ZAP key).
    #[derive(Hash, PartialOrd, Ord)]
    pub struct DdtKey("ddt key") {
        /// The block's checksum.
        pub checksum: [u64; 4],
        prop: u64,
    }
}

impl DdtKey {
    /// The key of a block. Of an encrypted or authenticated one, the last two words of the
    /// checksum are the MAC, and the crypt bit is set.
    #[must_use]
    pub fn new(bp: &BlkPtr) -> Self {
        let size = |bytes: u64| (bytes / SECTOR_SIZE).wrapping_sub(1) & 0xffff;
        let prop = size(bp.lsize())
            | (size(bp.psize()) << 16)
            | (u64::from(bp.compression().0 & 0x7f) << 32)
            | (u64::from(bp.uses_crypt()) << 39);
        Self { checksum: bp.checksum(), prop }
    }

    /// Size of the data in bytes, uncompressed.
    #[must_use]
    pub fn lsize(&self) -> u64 {
        ((self.prop & 0xffff) + 1) * SECTOR_SIZE
    }

    /// Size of the data in bytes as stored.
    #[must_use]
    pub fn psize(&self) -> u64 {
        (((self.prop >> 16) & 0xffff) + 1) * SECTOR_SIZE
    }

    /// Compression of the stored data.
    #[must_use]
    pub fn compression(&self) -> Compression {
        Compression((self.prop >> 32) as u8 & 0x7f)
    }

    /// The block is encrypted or authenticated.
    #[must_use]
    pub fn uses_crypt(&self) -> bool {
        (self.prop >> 39) & 1 != 0
    }
}

word_struct! {
    /// One variant of a legacy entry: where the block is with a certain number of copies.
    pub struct LegacyVariant("ddt phys") {
        dvas: [u64; 6],
        /// Block pointers that use it; 0: the variant is empty.
        pub refcount: u64,
        /// Txg of the allocation.
        pub physical_birth: u64,
    }
}

word_struct! {
    /// Value of a legacy entry (256 bytes): variants ditto, 1, 2 and 3 copies.
    pub struct LegacyValue("ddt entry") {
        variants: [LegacyVariant; 4],
    }
}

impl<const N: usize> Field for [LegacyVariant; N] {
    const WORDS: usize = N * LegacyVariant::WORDS;
    const ZERO: Self = [LegacyVariant::ZERO; N];

    fn read(r: &mut Reader<'_>, name: &'static str) -> Result<Self> {
        let mut out = Self::ZERO;
        for v in &mut out {
            *v = <LegacyVariant as Field>::read(r, name)?;
        }
        Ok(out)
    }

    fn write(&self, w: &mut crate::Writer) {
        for v in self {
            Field::write(v, w);
        }
    }
}

word_struct! {
    /// Value of a fast dedup entry (72 bytes).
    pub struct FlatValue("ddt flat entry") {
        dvas: [u64; 6],
        /// Block pointers that use it.
        pub refcount: u64,
        /// Txg of the allocation.
        pub physical_birth: u64,
        /// When it came into its class, seconds since 1970; for pruning old unique entries.
        pub class_start: u64,
    }
}

fn dva_of(words: &[u64; 6], i: usize) -> Dva {
    match i {
        0 => Dva::from_words(words[0], words[1]),
        1 => Dva::from_words(words[2], words[3]),
        2 => Dva::from_words(words[4], words[5]),
        _ => Dva::default(),
    }
}

impl LegacyVariant {
    /// Copy `i` of the block. The third of an encrypted block is salt and IV.
    #[must_use]
    pub fn dva(&self, i: usize) -> Dva {
        dva_of(&self.dvas, i)
    }
}

impl LegacyValue {
    /// The variants: ditto, 1, 2 and 3 copies.
    #[must_use]
    pub fn variants(&self) -> &[LegacyVariant; 4] {
        &self.variants
    }

    /// References over all variants but ditto, which holds none of its own.
    #[must_use]
    pub fn total_refcount(&self) -> u64 {
        self.variants.iter().skip(1).fold(0, |sum, v| sum.saturating_add(v.refcount))
    }
}

impl FlatValue {
    /// Copy `i` of the block. The third of an encrypted block is salt and IV.
    #[must_use]
    pub fn dva(&self, i: usize) -> Dva {
        dva_of(&self.dvas, i)
    }
}

/// The value of an entry in either generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// 256 bytes.
    Legacy(LegacyValue),
    /// 72 bytes.
    Flat(FlatValue),
}

impl Value {
    /// The entry of a block that `references` pointers like this use; of a flat one also since when
    /// it is in its class, in seconds since 1970.
    #[must_use]
    pub fn new(bp: &BlkPtr, references: u64, flat: bool, class_start: u64) -> Self {
        let [a, b, c, d, e, f, ..] = *bp.words();
        let (dvas, refcount, physical_birth) =
            ([a, b, c, d, e, f], references, bp.physical_birth());
        if flat {
            return Self::Flat(FlatValue { dvas, refcount, physical_birth, class_start });
        }
        let mut value = LegacyValue::default();
        if let Some(variant) = value.variants.get_mut(bp.dvas().count()) {
            *variant = LegacyVariant { dvas, refcount, physical_birth };
        }
        Self::Legacy(value)
    }

    /// The number of variants: each has its own copies and its own count.
    #[must_use]
    pub fn variants(&self) -> usize {
        match self {
            Self::Legacy(v) => v.variants.len(),
            Self::Flat(_) => 1,
        }
    }

    /// Addresses, references and birth of a variant; zeros where there is none.
    #[must_use]
    pub fn variant(&self, number: usize) -> LegacyVariant {
        match self {
            Self::Legacy(v) => v.variants.get(number).copied().unwrap_or_default(),
            Self::Flat(v) if number == 0 => LegacyVariant {
                dvas: v.dvas,
                refcount: v.refcount,
                physical_birth: v.physical_birth,
            },
            Self::Flat(_) => LegacyVariant::default(),
        }
    }

    /// The same entry with another count of a variant. A variant of a legacy entry that nothing
    /// uses is empty.
    #[must_use]
    pub fn with_references(mut self, number: usize, references: u64) -> Self {
        match &mut self {
            Self::Flat(v) if number == 0 => v.refcount = references,
            Self::Flat(_) => {}
            Self::Legacy(v) => {
                if let Some(variant) = v.variants.get_mut(number) {
                    let counted = LegacyVariant { refcount: references, ..*variant };
                    *variant = if references == 0 { LegacyVariant::default() } else { counted };
                }
            }
        }
        self
    }

    /// The class of an entry with these references.
    #[must_use]
    pub fn class(&self) -> Class {
        if self.total_refcount() > 1 { Class::Duplicate } else { Class::Unique }
    }

    /// Decodes the packed value of a ZAP entry; `flat` by [`FLAG_FLAT`] of the table.
    pub fn unpack(packed: &[u8], flat: bool) -> Result<Self> {
        let size = if flat { FlatValue::SIZE } else { LegacyValue::SIZE };
        let (bytes, order) = unpack(packed, size)?;
        Self::decode(&bytes, order, flat)
    }

    /// Decodes an unpacked value, as logs have it.
    pub fn decode(data: &[u8], endian: Endian, flat: bool) -> Result<Self> {
        match flat {
            true => FlatValue::decode(data, endian).map(Self::Flat),
            false => LegacyValue::decode(data, endian).map(Self::Legacy),
        }
    }

    /// Encodes without packing.
    #[must_use]
    pub fn encode(&self, endian: Endian) -> Vec<u8> {
        match self {
            Self::Legacy(v) => v.encode(endian),
            Self::Flat(v) => v.encode(endian),
        }
    }

    /// Encodes and packs.
    #[must_use]
    pub fn pack(&self, endian: Endian) -> Vec<u8> {
        pack(&self.encode(endian), endian)
    }

    /// References over all variants.
    #[must_use]
    pub fn total_refcount(&self) -> u64 {
        match self {
            Self::Legacy(v) => v.total_refcount(),
            Self::Flat(v) => v.refcount,
        }
    }
}

/// Bit of the first byte of a packed value: words are little-endian.
const PACK_LITTLE: u8 = 0x80;
/// Level of the run-length code in packed values.
const PACK_LEVEL: u8 = 64;

/// Packs words for a ZAP value: a byte with the compression's number and the byte order, then the
/// words, run-length coded (`zle`) when that makes them shorter. In practice it does for the 256
/// bytes of a legacy entry and not for the 72 of a flat one, whose code might not fit (see `zle`).
#[must_use]
pub fn pack(words: &[u8], endian: Endian) -> Vec<u8> {
    let order = if endian == Endian::Little { PACK_LITTLE } else { 0 };
    let mut out = vec![Compression::ZLE.0 | order];
    let complete = zle::compress(words, PACK_LEVEL, words.len(), &mut out);
    if !complete || out.len() > words.len() {
        out.clear();
        out.push(Compression::OFF.0 | order);
        out.extend_from_slice(words);
    }
    out
}

/// Undoes [`pack`]: `size` bytes of words and their byte order.
pub fn unpack(packed: &[u8], size: usize) -> Result<(Vec<u8>, Endian)> {
    let mut r = Reader::new("ddt value", packed, Endian::Little);
    let head = r.u8("version")?;
    let order = if head & PACK_LITTLE != 0 { Endian::Little } else { Endian::Big };
    let body = r.bytes("words", r.remaining())?;
    let words = match Compression(head & !PACK_LITTLE) {
        Compression::OFF => body.get(..size).map(<[u8]>::to_vec),
        Compression::ZLE => zle::decompress(body, PACK_LEVEL, size),
        other => return Err(r.error("version", ErrorKind::Unknown { value: other.0.into() })),
    };
    let available = body.len() as u64;
    let short = || r.error("words", ErrorKind::Truncated { needed: size as u64, available });
    Ok((words.ok_or_else(short)?, order))
}

word_struct! {
    /// Place in a walk over all tables.
    #[derive(Hash)]
    pub struct DdtBookmark("ddt bookmark") {
        /// Number of the [`Class`].
        pub class: u64,
        /// Number of the type: 0, `zap`.
        pub kind: u64,
        /// Number of the checksum.
        pub checksum: u64,
        /// ZAP cursor.
        pub cursor: u64,
    }
}

word_struct! {
    /// Sums over entries. Each block counts once in the first four, once per reference in the
    /// last four.
    pub struct Stat("ddt stat") {
        /// Entries.
        pub blocks: u64,
        /// Bytes uncompressed.
        pub lsize: u64,
        /// Bytes as stored.
        pub psize: u64,
        /// Bytes allocated.
        pub dsize: u64,
        /// References.
        pub ref_blocks: u64,
        /// Bytes uncompressed, times references.
        pub ref_lsize: u64,
        /// Bytes as stored, times references.
        pub ref_psize: u64,
        /// Bytes allocated, times references.
        pub ref_dsize: u64,
    }
}

impl Stat {
    /// Those of a variant: `dsize` bytes are allocated for it.
    #[must_use]
    pub fn of(key: &DdtKey, references: u64, dsize: u64) -> Self {
        let (lsize, psize) = (key.lsize(), key.psize());
        Self {
            blocks: 1,
            lsize,
            psize,
            dsize,
            ref_blocks: references,
            ref_lsize: lsize.saturating_mul(references),
            ref_psize: psize.saturating_mul(references),
            ref_dsize: dsize.saturating_mul(references),
        }
    }

    /// Adds others.
    pub fn add(&mut self, other: &Self) {
        let sum = |a: &mut u64, b: u64| *a = a.saturating_add(b);
        sum(&mut self.blocks, other.blocks);
        sum(&mut self.lsize, other.lsize);
        sum(&mut self.psize, other.psize);
        sum(&mut self.dsize, other.dsize);
        sum(&mut self.ref_blocks, other.ref_blocks);
        sum(&mut self.ref_lsize, other.ref_lsize);
        sum(&mut self.ref_psize, other.ref_psize);
        sum(&mut self.ref_dsize, other.ref_dsize);
    }
}

/// Buckets of a histogram.
pub const HISTOGRAM_BUCKETS: usize = 64;

/// Sums by the number of references: bucket `i` has entries with at least `2^i` of them and less
/// than `2^(i+1)`. Value of 512 words in the ZAP [`STATISTICS`], under the table's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    /// The 64 sums.
    pub buckets: Vec<Stat>,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { buckets: vec![Stat::default(); HISTOGRAM_BUCKETS] }
    }
}

impl Histogram {
    /// Words of the ZAP value.
    pub const WORDS: usize = HISTOGRAM_BUCKETS * Stat::WORDS;

    /// Decodes the words of the ZAP value.
    pub fn from_words(words: &[u64]) -> Result<Self> {
        let mut buckets = Vec::with_capacity(HISTOGRAM_BUCKETS);
        for i in 0..HISTOGRAM_BUCKETS {
            buckets.push(Stat::from_words(words.get(i * Stat::WORDS..).unwrap_or(&[]))?);
        }
        Ok(Self { buckets })
    }

    /// Adds the sums of one entry.
    pub fn add(&mut self, entry: &Stat) {
        let Some(bucket) = entry.ref_blocks.checked_ilog2() else { return };
        if let Some(sum) = self.buckets.get_mut(bucket as usize) {
            sum.add(entry);
        }
    }

    /// The words of the ZAP value.
    #[must_use]
    pub fn to_words(&self) -> Vec<u64> {
        self.buckets.iter().flat_map(Stat::to_words).collect()
    }
}
