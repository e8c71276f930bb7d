//! How the blocks of an object set are written: what its properties and the pool's features say.

use codec::compress::Algorithm;
use ondisk::{Checksum, Compression, DmuType, Dnode};
use zio::{Protection, SpaceClass, WriteSpec};

/// Most copies a block can have.
const COPIES_MAX: u8 = 3;

/// Property `redundant_metadata`: which metadata get one copy more than data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RedundantMetadata {
    /// All.
    All,
    /// All but the lowest level of indirect blocks.
    Most,
    /// The metadata of the whole set: its header, its dnodes, its tables of attributes.
    Some,
    /// None.
    None,
}

/// How new blocks and objects of a set are made.
#[derive(Clone, Debug)]
pub struct SetPolicy {
    /// Checksum of data. Metadata have it too when it is strong enough, otherwise fletcher4.
    pub checksum: Checksum,
    /// Compression of data.
    pub compression: Algorithm,
    /// Compression of metadata: LZ4, or LZJB without the feature `lz4_compress`.
    pub metadata_compression: Algorithm,
    /// Copies of data, 1 to 3. The MOS has 3.
    pub copies: u8,
    /// Which metadata have one copy more.
    pub redundant_metadata: RedundantMetadata,
    /// Feature `embedded_data`: small blocks are stored in the pointer.
    pub embed: bool,
    /// Feature `hole_birth` is active: holes know the txg they were made in.
    pub hole_birth: bool,
    /// Slots of 512 bytes of a new dnode that asks for none, 1 to 32. More than 1 needs the
    /// feature `large_dnode`.
    pub dnode_slots: u8,
    /// log2 of the size of new objects' indirect blocks.
    pub indirect_shift: u8,
    /// The pool has special vdevs: metadata go there.
    pub has_special_class: bool,
    /// Data blocks up to this many bytes go to special vdevs too.
    pub special_small_blocks: u64,
}

impl Default for SetPolicy {
    /// A data set of a pool with the features of today and default properties.
    fn default() -> Self {
        Self {
            checksum: Checksum::FLETCHER_4,
            compression: Algorithm::Lz4,
            metadata_compression: Algorithm::Lz4,
            copies: 1,
            redundant_metadata: RedundantMetadata::All,
            embed: true,
            hole_birth: true,
            dnode_slots: 1,
            indirect_shift: 17,
            has_special_class: false,
            special_small_blocks: 0,
        }
    }
}

impl SetPolicy {
    /// The policy of the meta object set: everything three times.
    #[must_use]
    pub fn mos() -> Self {
        Self { copies: COPIES_MAX, ..Self::default() }
    }

    /// The same without compression, so that a block's size is that of its content.
    #[must_use]
    pub fn uncompressed(self) -> Self {
        let none = Algorithm::Off;
        Self { compression: none, metadata_compression: none, embed: false, ..self }
    }

    /// How a block of an object of type `kind` at `level` is written in `txg`. `attrs`: the
    /// object's dnode, whose own checksum and compression come first; `None` for the header.
    /// `size`: bytes before compression. The caller sets `fill`, `hold`, `urgent`,
    /// `reuse` and `protection`.
    #[must_use]
    pub fn spec(
        &self,
        kind: DmuType,
        level: u8,
        attrs: Option<&Dnode>,
        size: u64,
        txg: u64,
    ) -> WriteSpec<'static> {
        let metadata = level > 0 || kind.is_metadata();
        let checksum = match attrs.map(|d| d.checksum) {
            Some(c) if c != Checksum::INHERIT => c,
            _ => self.checksum,
        };
        let checksum = match checksum {
            Checksum::INHERIT | Checksum::ON => Checksum::FLETCHER_4,
            Checksum::SHA256
            | Checksum::SHA512
            | Checksum::SKEIN
            | Checksum::EDONR
            | Checksum::BLAKE3 => checksum,
            _ if metadata => Checksum::FLETCHER_4,
            _ => checksum,
        };
        let compression = match attrs.map(|d| d.compression) {
            _ if metadata => self.metadata_compression,
            Some(Compression::ON) => Algorithm::Lz4,
            // The level of zstd is the property's; a dnode has only the algorithm.
            Some(c) if c != Compression::INHERIT && c.0 != self.compression.number() => {
                Algorithm::from_number(c.0).unwrap_or(self.compression)
            }
            _ => self.compression,
        };
        let extra = match self.redundant_metadata {
            RedundantMetadata::All => metadata,
            RedundantMetadata::Most => level >= 2 || kind.is_metadata(),
            RedundantMetadata::Some => is_critical(kind, level),
            RedundantMetadata::None => false,
        };
        let special = self.has_special_class
            && (metadata || (self.special_small_blocks > 0 && size <= self.special_small_blocks));
        let counts_fill = matches!(kind, DmuType::DNODE | DmuType::OBJSET);
        WriteSpec {
            kind,
            level,
            compression,
            checksum,
            copies: (self.copies.max(1) + u8::from(extra)).min(COPIES_MAX),
            class: if special { SpaceClass::Special } else { SpaceClass::Normal },
            embed: self.embed && level == 0 && !counts_fill,
            fill: 1,
            birth: txg,
            hold: false,
            keep: false,
            urgent: false,
            reuse: None,
            protection: Protection::None,
        }
    }
}

/// Whether the block is metadata of the whole set, as OpenZFS counts it: all metadata but those of
/// single files.
fn is_critical(kind: DmuType, level: u8) -> bool {
    let single = matches!(kind, DmuType::DIRECTORY_CONTENTS | DmuType::SA);
    kind.is_metadata() && !single && (level > 0 || kind != DmuType::DNODE)
}
