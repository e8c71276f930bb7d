//! Encrypts and authenticates the stored bytes of a block before their checksum is computed.
//!
//! # Theory
//!
//! [`crate::crypt`] decides which bytes of a block are encrypted and which are authenticated. This
//! module chooses the *salt*, from which the key of the block is derived, and the IV. No pair of
//! salt and IV may ever come twice with one key, for that would give both blocks away. IVs of 96
//! bits are drawn at random for each block, also when a block is written again in the same txg, so
//! after very many blocks under one salt two could be equal: then a new salt is drawn. A new salt
//! costs a derivation, and readers keep only a few derived keys, so it is used for long
//! ([`SALT_USES_MAX`]). The salt of an earlier import is not used further.

use crate::block::Block;
use crate::crypt;
use crate::error::ErrorKind;
use crate::spec::{Protection, WriteSpec};
use codec::crypto::MasterKey;
use device::{AlignedBuf, Shared};
use ondisk::DmuType;
use ondisk::blkptr::{CryptParams, CryptParts};
use parking_lot::Mutex;
use rt::Rt;
use std::collections::HashMap;

/// Blocks that are written with one salt (`zfs_key_max_salt_uses`).
const SALT_USES_MAX: u64 = 400_000_000;

/// Version of the keys that blocks were encrypted with elsewhere: others are not taken.
const SEALED_KEY_VERSION: u64 = 1;

/// The salts that are in use, by the guids of keys.
pub(crate) struct Salts {
    rt: Rt,
    by_key: Mutex<HashMap<u64, Salt>>,
}

struct Salt {
    bytes: [u8; 8],
    uses: u64,
}

impl Salts {
    pub(crate) fn new(rt: &Rt) -> Self {
        Self { rt: rt.clone(), by_key: Mutex::default() }
    }

    /// How the next block with this key is encrypted.
    pub(crate) fn draw(&self, key: &MasterKey) -> CryptParams {
        let mut iv = [0; 12];
        self.rt.fill_random(&mut iv);
        let mut salts = self.by_key.lock();
        let salt = salts.entry(key.guid()).or_insert(Salt { bytes: [0; 8], uses: 0 });
        if salt.uses.is_multiple_of(SALT_USES_MAX) {
            self.rt.fill_random(&mut salt.bytes);
        }
        salt.uses += 1;
        CryptParams { salt: salt.bytes, iv }
    }
}

/// The copies that a block can have at most: the salt and the IV of an encrypted block take the
/// place of the third.
pub(crate) fn copies_max(spec: &WriteSpec<'_>) -> u8 {
    let is_protected = !matches!(spec.protection, Protection::None);
    if is_protected && spec.kind.is_encrypted() { 2 } else { 3 }
}

/// The block is stored as long as it is: what is readable in it must be found without a key.
pub(crate) fn is_never_compressed(spec: &WriteSpec<'_>) -> bool {
    let is_protected = !matches!(spec.protection, Protection::None);
    is_protected && spec.level == 0 && matches!(spec.kind, DmuType::DNODE | DmuType::OBJSET)
}

/// The stored bytes as they are written, and the fields of the pointer for them.
///
/// # Errors
/// [`ErrorKind::NoKey`] when the dataset is locked, [`ErrorKind::Authentication`] when the cipher
/// does not take that much, or the bytes are not what the type says.
pub(crate) fn protect(
    spec: &WriteSpec<'_>,
    plain: &Block,
    stored: Shared,
    salts: &Salts,
) -> Result<(Shared, Option<CryptParts>), ErrorKind> {
    let endian = plain.endian();
    let is_objset = spec.level == 0 && spec.kind == DmuType::OBJSET;
    let in_block = CryptParts { params: None, mac: None };
    let key = match spec.protection {
        Protection::None => return Ok((stored, None)),
        // Nothing changes that its MACs cover.
        Protection::Locked if is_objset => return Ok((stored, Some(in_block))),
        // They came with the blocks.
        Protection::Sealed if is_objset => return Ok((stored, Some(in_block))),
        Protection::Sealed if spec.level > 0 => {
            let mac = crypt::indirect_mac(plain, SEALED_KEY_VERSION, endian)?;
            return Ok((stored, Some(CryptParts { params: None, mac: Some(mac) })));
        }
        Protection::Locked | Protection::Sealed => return Err(ErrorKind::NoKey),
        Protection::Key(key) => key,
    };
    if spec.level > 0 {
        let mac = crypt::indirect_mac(plain, key.version(), endian)?;
        return Ok((stored, Some(CryptParts { params: None, mac: Some(mac) })));
    }
    if is_objset {
        let mut bytes = AlignedBuf::copy_of(&stored);
        crypt::seal_objset(key, &mut bytes, endian)?;
        return Ok((bytes.into(), Some(in_block)));
    }
    if !spec.kind.is_encrypted() {
        let mac = key.authenticate(&stored);
        return Ok((stored, Some(CryptParts { params: None, mac: Some(mac) })));
    }
    let params = salts.draw(key);
    let mut bytes = AlignedBuf::copy_of(&stored);
    let mac = crypt::seal_block(key, spec.kind, endian, params.salt, &params.iv, &mut bytes)?;
    Ok((bytes.into(), Some(CryptParts { params: Some(params), mac: Some(mac) })))
}
