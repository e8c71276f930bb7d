//! The key and the parameters of the object set in a raw stream (`crypt_keydata`).
//!
//! The list is specified in `docs/format/stream.md`. It has what a dataset needs that is received
//! as it was encrypted: the key, wrapped as it is in the sender's key object, and the form of the
//! object set, which its authentication code covers.

use crate::keyring::{KeyFormat, KeyInfo};
use codec::crypto::{Suite, WrappedKey};
use dmu::SealedSet;
use ondisk::dnode::INDIRECT_SHIFT_RANGE;
use ondisk::dsl::crypt::{
    CURRENT_VERSION, GUID, HMAC_KEY, IV, KEYFORMAT, MAC, MASTER_KEY, PBKDF2_ITERS, PBKDF2_SALT,
    SUITE, VERSION,
};
use ondisk::nvlist::{NvList, NvPair, NvValue};
use ondisk::{Checksum, Compression, DmuType, Dnode, ObjsetPhys};

/// Name of the list in that of BEGIN.
pub const CRYPT_KEYDATA: &str = "crypt_keydata";

const PORTABLE_MAC: &str = "portable_mac";
const META_CHECKSUM: &str = "mdn_checksum";
const META_COMPRESSION: &str = "mdn_compress";
const META_LEVELS: &str = "mdn_nlevels";
const META_BLOCK_SIZE: &str = "mdn_blksz";
const META_INDIRECT_SHIFT: &str = "mdn_indblkshift";
const META_POINTERS: &str = "mdn_nblkptr";
const META_LAST_BLOCK: &str = "mdn_maxblkid";
const TO_IVSET_GUID: &str = "to_ivset_guid";
const FROM_IVSET_GUID: &str = "from_ivset_guid";

/// The key and the object set of a raw stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedStream {
    /// The key.
    pub key: SealedKey,
    /// The object set.
    pub set: SealedSet,
    /// Set of IVs of the snapshot that is sent; 0: not known.
    pub to_ivset_guid: u64,
    /// That of the snapshot that it is an increment of; 0: of none, or not known.
    pub from_ivset_guid: u64,
}

/// A key as a raw stream has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedKey {
    /// The key, wrapped.
    pub wrapped: WrappedKey,
    /// How the user gives the key that wraps it.
    pub format: KeyFormat,
    /// Salt of the derivation from a passphrase.
    pub pbkdf2_salt: u64,
    /// Its rounds.
    pub pbkdf2_iters: u64,
}

impl From<&KeyInfo> for SealedKey {
    fn from(info: &KeyInfo) -> Self {
        Self {
            wrapped: info.wrapped,
            format: info.format,
            pbkdf2_salt: info.pbkdf2_salt,
            pbkdf2_iters: info.pbkdf2_iters,
        }
    }
}

fn bytes<const N: usize>(list: &NvList, name: &'static str) -> Result<[u8; N], &'static str> {
    match list.get(name) {
        Some(NvValue::U8Array(bytes)) => bytes.as_slice().try_into().map_err(|_| name),
        _ => Err(name),
    }
}

impl SealedStream {
    /// Of the list `crypt_keydata`. The error names what is missing or wrong.
    ///
    /// # Errors
    /// Something is missing, or no dataset can have it.
    pub fn decode(list: &NvList) -> Result<Self, &'static str> {
        let number = |name: &'static str| list.u64(name).map_err(|_| name);
        let version = number(VERSION)?;
        if version != CURRENT_VERSION {
            return Err(VERSION);
        }
        let wrapped = WrappedKey {
            suite: Suite::from_number(number(SUITE)?).ok_or(SUITE)?,
            guid: number(GUID)?,
            version,
            iv: bytes(list, IV)?,
            mac: bytes(list, MAC)?,
            master: bytes(list, MASTER_KEY)?,
            hmac: bytes(list, HMAC_KEY)?,
        };
        let format = KeyFormat::from_number(number(KEYFORMAT)?).ok_or(KEYFORMAT)?;
        let (pbkdf2_salt, pbkdf2_iters) = (number(PBKDF2_SALT)?, number(PBKDF2_ITERS)?);
        let is_passphrase = format == KeyFormat::Passphrase;
        if (pbkdf2_iters != 0) != is_passphrase {
            return Err(PBKDF2_ITERS);
        }
        let ranged = |name: &'static str, min: u64, max: u64| {
            number(name).and_then(|n| if (min..=max).contains(&n) { Ok(n) } else { Err(name) })
        };
        let (low, high) = (*INDIRECT_SHIFT_RANGE.start(), *INDIRECT_SHIFT_RANGE.end());
        let shift = ranged(META_INDIRECT_SHIFT, low.into(), high.into())? as u8;
        let pointers = ranged(META_POINTERS, 1, 3)? as usize;
        let mut meta = Dnode::new(DmuType::DNODE, 1, pointers, shift);
        meta.levels = ranged(META_LEVELS, 1, ondisk::dnode::MAX_LEVELS.into())? as u8;
        let size = ranged(META_BLOCK_SIZE, 512, 128 << 10)?;
        meta.data_sectors = if size.is_multiple_of(512) { (size / 512) as u16 } else { 0 };
        meta.max_block = number(META_LAST_BLOCK)?;
        meta.checksum = Checksum(ranged(META_CHECKSUM, 0, 255)? as u8);
        meta.compression = Compression(ranged(META_COMPRESSION, 0, 255)? as u8);
        // No OpenZFS has ever set properties of their own for blocks of dnodes.
        if !matches!(meta.checksum, Checksum::INHERIT | Checksum::ON | Checksum::FLETCHER_4) {
            return Err(META_CHECKSUM);
        }
        if !matches!(meta.compression, Compression::INHERIT | Compression::ON) {
            return Err(META_COMPRESSION);
        }
        Ok(Self {
            key: SealedKey { wrapped, format, pbkdf2_salt, pbkdf2_iters },
            set: SealedSet { meta, portable_mac: bytes(list, PORTABLE_MAC)? },
            to_ivset_guid: number(TO_IVSET_GUID).unwrap_or(0),
            from_ivset_guid: number(FROM_IVSET_GUID).unwrap_or(0),
        })
    }

    /// The list, for a snapshot with this header and key.
    #[must_use]
    pub fn list_of(key: &SealedKey, phys: &ObjsetPhys, from_ivset: u64, to_ivset: u64) -> NvList {
        let mut list = NvList::new();
        let mut put = |name: &str, value| {
            list.pairs.push(NvPair { name: name.as_bytes().to_vec(), value });
        };
        let wrapped = &key.wrapped;
        put(SUITE, NvValue::U64(wrapped.suite.number()));
        put(GUID, NvValue::U64(wrapped.guid));
        put(VERSION, NvValue::U64(wrapped.version));
        put(MASTER_KEY, NvValue::U8Array(wrapped.master.to_vec()));
        put(HMAC_KEY, NvValue::U8Array(wrapped.hmac.to_vec()));
        put(IV, NvValue::U8Array(wrapped.iv.to_vec()));
        put(MAC, NvValue::U8Array(wrapped.mac.to_vec()));
        put(PORTABLE_MAC, NvValue::U8Array(phys.portable_mac.to_vec()));
        put(KEYFORMAT, NvValue::U64(key.format.number()));
        put(PBKDF2_ITERS, NvValue::U64(key.pbkdf2_iters));
        put(PBKDF2_SALT, NvValue::U64(key.pbkdf2_salt));
        if let Some(meta) = &phys.meta_dnode {
            put(META_CHECKSUM, NvValue::U64(meta.checksum.0.into()));
            put(META_COMPRESSION, NvValue::U64(meta.compression.0.into()));
            put(META_LEVELS, NvValue::U64(meta.levels.into()));
            put(META_BLOCK_SIZE, NvValue::U64(meta.block_size()));
            put(META_INDIRECT_SHIFT, NvValue::U64(meta.indirect_shift.into()));
            put(META_POINTERS, NvValue::U64(meta.blkptrs.len() as u64));
            put(META_LAST_BLOCK, NvValue::U64(meta.max_block));
        }
        put(TO_IVSET_GUID, NvValue::U64(to_ivset));
        put(FROM_IVSET_GUID, NvValue::U64(from_ivset));
        list
    }
}
