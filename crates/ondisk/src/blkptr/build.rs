//! Making block pointers: the inverse of the accessors.

use super::{BlkPtr, DVAS_PER_BP, Dva, EMBEDDED_PAYLOAD_MAX, SECTOR_SIZE};
use crate::cursor::Endian;
use crate::dmu_type::DmuType;
use crate::kinds::{Checksum, Compression};

/// The fields of a pointer to a stored block; [`BlkPtr::build`] makes the pointer of them.
#[derive(Clone, Copy, Debug)]
pub struct BlkPtrParts {
    /// The copies; those behind the last one are empty.
    pub dvas: [Dva; DVAS_PER_BP],
    /// Bytes of data: a multiple of 512, at least that.
    pub lsize: u64,
    /// Bytes as stored: a multiple of 512, at least that.
    pub psize: u64,
    /// How it is compressed.
    pub compression: Compression,
    /// Which checksum it has.
    pub checksum_kind: Checksum,
    /// The checksum.
    pub checksum: [u64; 4],
    /// Type of the object it belongs to.
    pub kind: DmuType,
    /// Level above the data.
    pub level: u8,
    /// Byte order of the block's content.
    pub endian: Endian,
    /// Txg in which it was written.
    pub birth: u64,
    /// Blocks (or dnodes) below.
    pub fill: u64,
    /// The encryption fields of a block of an encrypted dataset; `None` in all others.
    pub crypt: Option<CryptParts>,
}

/// The encryption fields of a pointer to a block of an encrypted dataset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CryptParts {
    /// Salt and IV of a block that is encrypted: they take the place of the third copy, and the
    /// upper half of the fill count. `None`: the block is only authenticated.
    pub params: Option<CryptParams>,
    /// The MAC, in words 2 and 3 of the checksum. `None`: it is in the block (object sets, blocks
    /// of the intent log).
    pub mac: Option<[u8; 16]>,
}

/// How a block is encrypted, beside its dataset's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CryptParams {
    /// The salt with which the block's key is derived.
    pub salt: [u8; 8],
    /// Its initialisation vector.
    pub iv: [u8; 12],
}

/// Sectors, less one, as the 16-bit fields have them.
fn sectors(bytes: u64) -> u64 {
    (bytes / SECTOR_SIZE).saturating_sub(1) & 0xffff
}

/// The fields that every form of a pointer has at the same place.
fn common(kind: DmuType, level: u8) -> u64 {
    u64::from(kind.0) << 48 | u64::from(level & 0x1f) << 56
}

/// Puts the encryption fields in their places, as bytes in the block's byte order.
fn put_crypt(words: &mut [u64; 16], crypt: &CryptParts, endian: Endian) {
    let word = |bytes: &[u8; 8]| endian.u64(*bytes);
    words[6] |= 1 << 61;
    if let Some(CryptParams { salt, iv: [a, b, c, d, e, f, g, h, rest @ ..] }) = crypt.params {
        words[4] = word(&salt);
        words[5] = word(&[a, b, c, d, e, f, g, h]);
        words[11] = words[11] & 0xffff_ffff | u64::from(endian.u32(rest)) << 32;
    }
    if let Some(mac) = crypt.mac {
        for (slot, half) in words[14..].iter_mut().zip(mac.as_chunks::<8>().0) {
            *slot = word(half);
        }
    }
}

impl BlkPtr {
    /// The pointer to a stored block, without deduplication.
    #[must_use]
    pub fn build(parts: &BlkPtrParts) -> Self {
        let mut words = [0; 16];
        for (slot, dva) in words.as_chunks_mut::<2>().0.iter_mut().zip(parts.dvas) {
            *slot = dva.words();
        }
        words[6] = sectors(parts.lsize)
            | sectors(parts.psize) << 16
            | u64::from(parts.compression.0 & 0x7f) << 32
            | u64::from(parts.checksum_kind.0) << 40
            | common(parts.kind, parts.level)
            | u64::from(parts.endian == Endian::Little) << 63;
        words[10] = parts.birth;
        words[11] = parts.fill;
        words[12..].copy_from_slice(&parts.checksum);
        if let Some(crypt) = &parts.crypt {
            put_crypt(&mut words, crypt, parts.endian);
        }
        Self(words)
    }

    /// The hole where a block of `lsize` bytes was freed in txg `birth` (feature `hole_birth`).
    /// Without the feature, and where never a block was, it is [`BlkPtr::HOLE`].
    #[must_use]
    pub fn hole(kind: DmuType, level: u8, lsize: u64, birth: u64) -> Self {
        let mut words = [0; 16];
        words[6] = sectors(lsize) | common(kind, level);
        words[10] = birth;
        Self(words)
    }

    /// The pointer that carries `payload`, a block of `lsize` bytes as compressed. `None` when the
    /// payload is empty or does not fit (112 bytes), or no block has that size.
    #[must_use]
    pub fn embedded(
        kind: DmuType,
        level: u8,
        lsize: u64,
        compression: Compression,
        payload: &[u8],
        birth: u64,
    ) -> Option<Self> {
        let psize = payload.len() as u64;
        if payload.is_empty() || payload.len() > EMBEDDED_PAYLOAD_MAX {
            return None;
        }
        let lsize = lsize.checked_sub(1).filter(|n| *n <= 0x1ff_ffff)?;
        let mut words = [0; 16];
        let (chunks, rest) = payload.as_chunks::<8>();
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        let places = (0..16).filter(|i| *i != 6 && *i != 10);
        for (i, chunk) in places.zip(chunks.iter().chain([&last])) {
            words[i] = u64::from_le_bytes(*chunk);
        }
        words[6] = lsize
            | (psize - 1) << 25
            | u64::from(compression.0 & 0x7f) << 32
            | 1 << 39
            | common(kind, level)
            | 1 << 63;
        words[10] = birth;
        Some(Self(words))
    }

    /// The pointer to the same block that comes into a tree in `txg`, which did not write it.
    #[must_use]
    pub fn shared_in(mut self, txg: u64) -> Self {
        // An embedded pointer has data in the place of the second birth.
        if !self.is_embedded() {
            self.0[9] = self.physical_birth();
        }
        self.0[10] = txg;
        self
    }

    /// The same pointer with another copy `i` (0, 1 or 2).
    #[must_use]
    pub fn with_dva(mut self, i: usize, dva: Dva) -> Self {
        if i < DVAS_PER_BP {
            self.0[2 * i..2 * i + 2].copy_from_slice(&dva.words());
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blkptr::EmbeddedKind;

    fn parts() -> BlkPtrParts {
        BlkPtrParts {
            dvas: [Dva::new(1, 512, 1024, false), Dva::new(2, 1 << 40, 512, true), Dva::default()],
            lsize: 16 << 20,
            psize: 12 << 10,
            compression: Compression::ZSTD,
            checksum_kind: Checksum::BLAKE3,
            checksum: [1, 2, 3, u64::MAX],
            kind: DmuType(0xc4),
            level: 7,
            endian: Endian::Little,
            birth: 1 << 50,
            fill: 99,
            crypt: None,
        }
    }

    #[test]
    fn accessors_give_back_what_was_built() {
        let p = parts();
        let bp = BlkPtr::build(&p);
        assert_eq!([bp.dva(0), bp.dva(1), bp.dva(2)], p.dvas);
        assert_eq!(bp.dvas().count(), 2);
        assert_eq!((bp.lsize(), bp.psize(), bp.fill()), (p.lsize, p.psize, p.fill));
        assert_eq!((bp.compression(), bp.checksum_kind()), (p.compression, p.checksum_kind));
        assert_eq!((bp.checksum(), bp.dmu_type(), bp.level()), (p.checksum, p.kind, p.level));
        assert_eq!((bp.logical_birth(), bp.physical_birth()), (p.birth, p.birth));
        assert_eq!(bp.byteorder(), Endian::Little);
        assert!(!bp.is_embedded() && !bp.is_hole() && !bp.is_dedup() && !bp.uses_crypt());
        assert!(
            BlkPtr::build(&BlkPtrParts { endian: Endian::Big, ..p }).byteorder() == Endian::Big
        );
        let moved = bp.with_dva(2, Dva::new(9, 1024, 512, false)).with_dva(3, Dva::default());
        assert_eq!((moved.dva(2).vdev(), moved.dva(0)), (9, p.dvas[0]));
        for e in [Endian::Little, Endian::Big] {
            assert_eq!(BlkPtr::decode(&bp.encode(e), e), Ok(bp));
        }
    }

    #[test]
    fn a_block_that_is_shared_keeps_the_txg_in_which_it_was_written() {
        let bp = BlkPtr::build(&BlkPtrParts { birth: 5, ..parts() });
        let again = bp.shared_in(7).shared_in(9);
        assert_eq!((again.logical_birth(), again.physical_birth()), (9, 5));
        assert_eq!((again.dva(0), again.checksum()), (bp.dva(0), bp.checksum()));
        let bytes: Vec<u8> = (1..=100).collect();
        let embedded = BlkPtr::embedded(DmuType(19), 0, 4096, Compression::LZ4, &bytes, 5);
        let shared = embedded.expect("fits").shared_in(9);
        assert_eq!((shared.logical_birth(), shared.embedded_payload()), (9, bytes.to_vec()));
    }

    #[test]
    fn what_protects_a_block_comes_back_in_both_byte_orders() {
        let params = CryptParams { salt: *b"saltsalt", iv: *b"vectorvector" };
        let mac = *b"sixteen bytes !!";
        for endian in [Endian::Little, Endian::Big] {
            let crypt = Some(CryptParts { params: Some(params), mac: Some(mac) });
            let kind = DmuType::PLAIN_FILE_CONTENTS;
            let bp = BlkPtr::build(&BlkPtrParts { endian, level: 0, kind, crypt, ..parts() });
            assert!(bp.is_encrypted());
            assert_eq!(
                (bp.crypt_salt(), bp.crypt_iv(), bp.crypt_mac()),
                (params.salt, params.iv, mac)
            );
            assert_eq!((bp.fill(), bp.dvas().count()), (99, 2));
            assert_eq!(bp.checksum()[..2], [1, 2]);
            assert_eq!(bp.crypt_params(), Some(params));
            let crypt = Some(CryptParts { params: None, mac: None });
            let bp = BlkPtr::build(&BlkPtrParts { endian, crypt, ..parts() });
            assert!(bp.has_indirect_mac() && bp.crypt_params().is_none());
            assert_eq!(bp.checksum(), parts().checksum);
        }
    }

    #[test]
    fn holes_keep_size_type_level_and_birth() {
        let bp = BlkPtr::hole(DmuType::OBJSET, 3, 128 << 10, 77);
        assert!(bp.is_hole() && !bp.is_embedded());
        assert_eq!((bp.lsize(), bp.level(), bp.logical_birth()), (128 << 10, 3, 77));
        assert_eq!(bp.dmu_type(), DmuType::OBJSET);
    }

    #[test]
    fn the_fill_of_stored_pointers_is_read_alone() {
        let stored = BlkPtr::build(&parts());
        let embedded = BlkPtr::embedded(DmuType(19), 0, 4096, Compression::LZ4, &[0; 9], 5);
        let mut encrypted = stored;
        // Level 0, a type that is encrypted, and the bit; the upper half of the count is of the IV.
        encrypted.0[6] = encrypted.0[6] & !(0x1f << 56) & !(0xff << 48) | 19 << 48 | 1 << 61;
        encrypted.0[11] = 7 << 32 | 1;
        assert!(encrypted.is_encrypted());
        let all = [stored, embedded.expect("fits"), encrypted];
        for e in [Endian::Little, Endian::Big] {
            let fills = all.map(|bp| BlkPtr::fill_of(&bp.encode(e), e));
            assert_eq!(fills, [Some(99), Some(1), Some(1)]);
            for hole in [BlkPtr::HOLE, BlkPtr::hole(DmuType::OBJSET, 3, 128 << 10, 77)] {
                assert_eq!(BlkPtr::fill_of(&hole.encode(e), e), None);
            }
        }
    }

    #[test]
    fn embedded_payloads_come_back_in_every_length() {
        let bytes: Vec<u8> = (1..=113).collect();
        let make = |n: usize, lsize| {
            BlkPtr::embedded(DmuType(19), 0, lsize, Compression::LZ4, &bytes[..n], 5)
        };
        for n in 1..=EMBEDDED_PAYLOAD_MAX {
            let bp = make(n, 4096 + n as u64).expect("fits");
            assert_eq!(bp.embedded_payload(), &bytes[..n]);
            assert_eq!((bp.lsize(), bp.psize()), (4096 + n as u64, n as u64));
            assert_eq!((bp.logical_birth(), bp.fill(), bp.dmu_type()), (5, 1, DmuType(19)));
            assert_eq!(
                (bp.compression(), bp.embedded_kind()),
                (Compression::LZ4, EmbeddedKind::Data)
            );
            assert!(bp.is_embedded() && !bp.is_hole() && bp.dvas().next().is_none());
        }
        assert!(make(0, 512).is_none() && make(113, 512).is_none() && make(1, 0).is_none());
        assert!(make(1, 32 << 20).is_some() && make(1, (32 << 20) + 1).is_none());
    }
}
