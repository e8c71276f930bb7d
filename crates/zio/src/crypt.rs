//! Which bytes of a block are encrypted or authenticated, and the doing of it.
//!
//! Specified in `docs/format/encryption.md`.
//!
//! # Theory
//!
//! Without the key it must still be possible to check, scrub, claim and send an encrypted dataset,
//! so the tree of blocks stays readable and only what users wrote is encrypted. By kind of block:
//!
//! ```text
//! level 0, encrypted type     all stored bytes: compressed first, then encrypted, padding too
//!   except: dnodes            only the bonus areas of encrypted types; never compressed
//!           intent log        only the bodies of the records
//! level 0, other type         readable; HMAC-SHA512 of the stored bytes, cut to 16 bytes
//!   except: object set        readable, never compressed; two HMACs of 32 bytes inside it
//! level above 0               readable; SHA-512 (no key) over what its pointers say of the blocks
//!                             below, of the uncompressed block, cut to 16 bytes
//! ```
//!
//! The 16-byte MACs are stored in the upper half of the block pointer's checksum; of an intent log
//! block, whose pointer is written before it, in the upper half of the checksum inside the block.
//! The lower half remains a checksum that anyone can verify.
//!
//! # What of a block pointer is authenticated
//!
//! A raw send takes a dataset to another pool, where addresses, checksums and birth txgs are other
//! ones and indirect blocks are rebuilt. So only the parts of a pointer count that survive that:
//! the MAC of its block and the portable bits of its property word (see [`pointer_digest`]). Bytes
//! that are authenticated in place keep the byte order they were written in; those of an object set
//! are taken in little-endian order, because claiming a log rewrites an object set on a machine
//! that has no key.
//!
//! Every walk here steps forward by at least one record or slot and stays inside the block; bytes
//! that cannot be walked were not written by a holder of the key, and fail as a wrong MAC does.

use crate::error::ErrorKind;
use codec::crypto::{HmacSha512, MasterKey, mac_eq, sha512};
use ondisk::blkptr::BLKPTR_SIZE;
use ondisk::dnode::{DNODE_CORE_SIZE, DNODE_SLOT_SIZE, FLAG_SPILL};
use ondisk::objset::{
    FLAG_USERACCOUNTING_COMPLETE, OBJSET_SIZE_V1, OBJSET_SIZE_V2, OBJSET_SIZE_V3,
};
use ondisk::{BlkPtr, DmuType, Endian};
use std::ops::Range;

/// Result of a check or transformation of one block.
type Result<T> = std::result::Result<T, ErrorKind>;

/// Bytes of one pointer that go into MACs, at most: property word, MAC, a reserved word.
const POINTER_DIGEST: usize = 32;

mod objset_at {
    //! Offsets in the object set block.
    pub(super) const TYPE: usize = 704;
    pub(super) const FLAGS: usize = 712;
    pub(super) const PORTABLE_MAC: usize = 720;
    pub(super) const LOCAL_MAC: usize = 752;
    pub(super) const MAC_LEN: usize = 32;
}

mod zil {
    //! Offsets and types of an intent log block; see `docs/format/zil.md`.
    /// Bytes before the embedded checksum.
    pub(super) const CHAIN_CLEAR: usize = 144;
    /// `nused`: bytes in use, from the start of the block.
    pub(super) const NUSED: usize = 136;
    /// Upper half of the embedded checksum: the MAC.
    pub(super) const MAC: Range<usize> = 168..184;
    /// The first record.
    pub(super) const RECORDS: usize = 184;
    /// Head of every record: type, length, txg, sequence number.
    pub(super) const RECORD_HEAD: usize = 32;
    /// A write record's block pointer, and where its immediate data begins.
    pub(super) const WRITE_POINTER: Range<usize> = 64..192;
    /// A clone record's count of pointers; the pointers follow.
    pub(super) const CLONE_POINTERS: usize = 64;
    pub(super) const TYPE_WRITE: u64 = 9;
    pub(super) const TYPE_CLONE_RANGE: u64 = 24;
    use std::ops::Range;
}

/// Decrypts and authenticates a level-0 block in place, as far as its type is protected.
///
/// `stored` is the block as read, [`BlkPtr::psize`] bytes, before decompression. Indirect blocks
/// pass: [`verify_indirect`] checks them once they are decompressed. Blocks that are readable
/// without a key pass unchecked if there is none.
///
/// # Errors
/// [`ErrorKind::NoKey`] for encrypted data without a key, [`ErrorKind::Authentication`] when a MAC
/// does not fit.
pub fn open_block(key: Option<&MasterKey>, bp: &BlkPtr, stored: &mut [u8]) -> Result<()> {
    if !bp.uses_crypt() || bp.level() > 0 {
        return Ok(());
    }
    match (key, bp.is_encrypted()) {
        (None, true) => Err(ErrorKind::NoKey),
        (None, false) => Ok(()),
        (Some(key), true) => open_encrypted(key, bp, stored),
        (Some(key), false) if bp.dmu_type() == DmuType::OBJSET => {
            verify_objset_macs(key, stored, bp.byteorder())
        }
        (Some(key), false) => judge(key.authenticates(stored, &bp.crypt_mac())),
    }
}

fn open_encrypted(key: &MasterKey, bp: &BlkPtr, stored: &mut [u8]) -> Result<()> {
    let kind = bp.dmu_type();
    let mac = match kind {
        DmuType::INTENT_LOG => {
            stored.get(zil::MAC).and_then(|m| m.try_into().ok()).ok_or(ErrorKind::Authentication)?
        }
        _ => bp.crypt_mac(),
    };
    let cipher = key.block_key(bp.crypt_salt()).map_err(|_| ErrorKind::Authentication)?;
    let plan = Plan::of(kind, stored, key.version(), bp.byteorder())?;
    plan.on_secrets(stored, |aad, secret| cipher.open(&bp.crypt_iv(), aad, secret, &mac))?
        .map_err(|_| ErrorKind::Authentication)
}

/// Encrypts a level-0 block of an encrypted type in place: the twin of [`open_block`].
///
/// `data` is what will be stored, in the byte order `endian`: compressed (but for dnodes and the
/// log) and padded to `psize`. Block pointers inside must be final. Returns the MAC, for the block
/// pointer or, in a log block, for the upper half of the embedded checksum.
///
/// # Errors
/// [`ErrorKind::Authentication`] when the bytes are not what `kind` says or longer than the cipher
/// takes.
pub fn seal_block(
    key: &MasterKey,
    kind: DmuType,
    endian: Endian,
    salt: [u8; 8],
    iv: &[u8; 12],
    data: &mut [u8],
) -> Result<[u8; 16]> {
    let cipher = key.block_key(salt).map_err(|_| ErrorKind::Authentication)?;
    let plan = Plan::of(kind, data, key.version(), endian)?;
    plan.on_secrets(data, |aad, secret| cipher.seal(iv, aad, secret))?
        .map_err(|_| ErrorKind::Authentication)
}

/// The secret parts of a block, and the associated data that is authenticated with it.
struct Plan {
    aad: Vec<u8>,
    secret: Vec<Range<usize>>,
}

impl Plan {
    fn of(kind: DmuType, data: &[u8], version: u64, endian: Endian) -> Result<Self> {
        match kind {
            DmuType::DNODE => Self::of_dnodes(data, version, endian),
            DmuType::INTENT_LOG => Self::of_log(data, endian),
            _ => Ok(Self { aad: Vec::new(), secret: std::iter::once(0..data.len()).collect() }),
        }
    }

    /// A block of dnodes: of each the core, the pointers' digests and a bonus that is not secret
    /// are authenticated; a secret bonus is encrypted over the whole room it has.
    fn of_dnodes(data: &[u8], version: u64, endian: Endian) -> Result<Self> {
        let mut plan = Self { aad: Vec::with_capacity(data.len()), secret: Vec::new() };
        let mut at = 0;
        while at < data.len() {
            let slots = data.get(at..).unwrap_or_default();
            let dnode = RawDnode::split(slots)?;
            plan.aad.extend_from_slice(&dnode.portable_core());
            for pointer in dnode.pointers() {
                plan.aad.extend_from_slice(&pointer_digest(pointer, version, endian)?);
            }
            let room = dnode.bonus_room();
            if dnode.bonus_is_secret() {
                plan.secret.push(at + room.start..at + room.end);
            } else {
                plan.aad.extend_from_slice(dnode.bytes.get(room).unwrap_or_default());
            }
            at += dnode.bytes.len();
        }
        Ok(plan)
    }

    /// A block of the intent log: the chain up to its checksum, the heads of the records and the
    /// block pointers in them are authenticated, because claiming needs them; the rest is secret.
    fn of_log(data: &[u8], endian: Endian) -> Result<Self> {
        let word = |at: usize| word(data, at, endian).ok_or(ErrorKind::Authentication);
        let clear = |r: Range<usize>| data.get(r).ok_or(ErrorKind::Authentication);
        let used = usize::try_from(word(zil::NUSED)?).map_err(|_| ErrorKind::Authentication)?;
        judge(used <= data.len())?;
        let mut plan = Self { aad: clear(0..zil::CHAIN_CLEAR)?.to_vec(), secret: Vec::new() };
        let mut at = zil::RECORDS;
        while at < used {
            let kind = word(at)?;
            let length = usize::try_from(word(at + 8)?).ok().filter(|n| *n >= zil::RECORD_HEAD);
            let end = length.and_then(|n| at.checked_add(n)).filter(|e| *e <= used);
            let end = end.ok_or(ErrorKind::Authentication)?;
            plan.aad.extend_from_slice(clear(at..at + zil::RECORD_HEAD)?);
            let body = at + zil::RECORD_HEAD;
            let pointers = match kind {
                zil::TYPE_WRITE => at + zil::WRITE_POINTER.start..at + zil::WRITE_POINTER.end,
                zil::TYPE_CLONE_RANGE => at + zil::CLONE_POINTERS..end,
                _ => end..end,
            };
            judge(pointers.start <= pointers.end && pointers.end <= end)?;
            plan.aad.extend_from_slice(clear(pointers.clone())?);
            plan.secret.push(body..pointers.start);
            plan.secret.push(pointers.end..end);
            at = end;
        }
        Ok(plan)
    }

    /// Runs `cipher` on the secret bytes in a row and puts them back.
    fn on_secrets<T>(
        &self,
        data: &mut [u8],
        cipher: impl FnOnce(&[u8], &mut [u8]) -> T,
    ) -> Result<T> {
        if let [all] = self.secret.as_slice() {
            let secret = data.get_mut(all.clone()).ok_or(ErrorKind::Authentication)?;
            return Ok(cipher(&self.aad, secret));
        }
        let mut row = Vec::with_capacity(self.secret.iter().map(ExactSizeIterator::len).sum());
        for r in &self.secret {
            row.extend_from_slice(data.get(r.clone()).ok_or(ErrorKind::Authentication)?);
        }
        let result = cipher(&self.aad, &mut row);
        let mut rest = row.as_slice();
        for r in &self.secret {
            let parts = rest.split_at_checked(r.len());
            let (part, tail) = parts.ok_or(ErrorKind::Authentication)?;
            data.get_mut(r.clone()).ok_or(ErrorKind::Authentication)?.copy_from_slice(part);
            rest = tail;
        }
        Ok(result)
    }
}

/// A dnode as it is in its block, split but not checked: the fields that decide about MACs are read
/// here exactly as they are, also from dnodes that [`ondisk::Dnode`] refuses.
struct RawDnode<'a> {
    bytes: &'a [u8],
    core: &'a [u8; DNODE_CORE_SIZE],
    bonus_at: usize,
}

impl<'a> RawDnode<'a> {
    /// The dnode at the start of `slots`, with the slots it takes.
    fn split(slots: &'a [u8]) -> Result<Self> {
        let core = slots.first_chunk().ok_or(ErrorKind::Authentication)?;
        let size = (usize::from(core[12]) + 1) * DNODE_SLOT_SIZE;
        let bytes = slots.get(..size).ok_or(ErrorKind::Authentication)?;
        let bonus_at = DNODE_CORE_SIZE + usize::from(core[3]) * BLKPTR_SIZE;
        let dnode = Self { bytes, core, bonus_at };
        judge(bonus_at <= dnode.bonus_room().end)?;
        Ok(dnode)
    }

    fn has_spill(&self) -> bool {
        self.core[7] & FLAG_SPILL != 0
    }

    /// Where a bonus may be, however long it is.
    fn bonus_room(&self) -> Range<usize> {
        let spill = if self.has_spill() { BLKPTR_SIZE } else { 0 };
        self.bonus_at..self.bytes.len() - spill
    }

    fn bonus_is_secret(&self) -> bool {
        let used = self.core[0] != 0 && self.core[10..12] != [0, 0];
        used && DmuType(self.core[4]).is_encrypted()
    }

    /// The block pointers, the spill pointer last.
    fn pointers(&self) -> impl Iterator<Item = &'a [u8]> {
        let spill = if self.has_spill() { BLKPTR_SIZE } else { 0 };
        let direct = self.bytes.get(DNODE_CORE_SIZE..self.bonus_at).unwrap_or_default();
        let spill = self.bytes.get(self.bytes.len() - spill..).unwrap_or_default();
        direct.chunks_exact(BLKPTR_SIZE).chain(spill.chunks_exact(BLKPTR_SIZE))
    }

    /// The core without what differs between pools: the flags but the spill one, the space used.
    fn portable_core(&self) -> [u8; DNODE_CORE_SIZE] {
        let mut core = *self.core;
        core[7] &= FLAG_SPILL;
        core[24..32].fill(0);
        core
    }

    /// The portable core with its numbers in little-endian order.
    fn portable_core_le(&self, endian: Endian) -> [u8; DNODE_CORE_SIZE] {
        let mut core = self.portable_core();
        if endian == Endian::Big {
            for number in [8..10, 10..12, 16..24] {
                core[number].reverse();
            }
        }
        core
    }
}

/// The parts of a block pointer that a MAC covers: property word without its local bits, MAC of the
/// block, and since key version 1 a reserved word of zeros.
///
/// Not portable are the dedup bit and the checksum algorithm; above level 0 also the byte order,
/// compression and stored size; of a hole nothing is portable. Version 0 left out the stored size
/// at every level, and nothing else than it.
fn pointer_digest(pointer: &[u8], version: u64, endian: Endian) -> Result<Vec<u8>> {
    let bp = BlkPtr::decode(pointer, endian).map_err(|_| ErrorKind::Authentication)?;
    let mut out = Vec::with_capacity(POINTER_DIGEST);
    out.extend_from_slice(&portable_prop(&bp, version).to_le_bytes());
    match bp.dmu_type() {
        // An object set's MACs are in the object set.
        DmuType::OBJSET => out.extend_from_slice(&[0; 16]),
        _ => out.extend_from_slice(&bp.crypt_mac()),
    }
    if version != 0 {
        out.extend_from_slice(&[0; 8]);
    }
    Ok(out)
}

fn portable_prop(bp: &BlkPtr, version: u64) -> u64 {
    const PSIZE: u64 = 0xffff << 16;
    const COMPRESSION: u64 = 0x7f << 32;
    const CHECKSUM: u64 = 0xff << 40;
    const DEDUP: u64 = 1 << 62;
    const BYTE_ORDER: u64 = 1 << 63;
    let prop = bp.words()[6];
    match () {
        () if version == 0 => prop & !(DEDUP | CHECKSUM | PSIZE),
        () if bp.is_hole() => 0,
        () if bp.level() > 0 => prop & !(DEDUP | CHECKSUM | PSIZE | COMPRESSION | BYTE_ORDER),
        () => prop & !(DEDUP | CHECKSUM),
    }
}

/// Checks an indirect block of an encrypted dataset against its pointer. No key is needed.
///
/// `plain` is the decompressed block. A block that has no such MAC passes. The key version is not
/// known here, so both forms are tried.
///
/// # Errors
/// [`ErrorKind::Authentication`] when neither form fits.
pub fn verify_indirect(bp: &BlkPtr, plain: &[u8]) -> Result<()> {
    if !bp.has_indirect_mac() {
        return Ok(());
    }
    for version in [1, 0] {
        if mac_eq(&indirect_mac(plain, version, bp.byteorder())?, &bp.crypt_mac()) {
            return Ok(());
        }
    }
    Err(ErrorKind::Authentication)
}

/// The MAC of an indirect block with the decompressed content `plain`.
///
/// # Errors
/// [`ErrorKind::Authentication`] is never returned for a block of whole pointers.
pub fn indirect_mac(plain: &[u8], version: u64, endian: Endian) -> Result<[u8; 16]> {
    let digests = plain.chunks_exact(BLKPTR_SIZE).map(|p| pointer_digest(p, version, endian));
    let digests = digests.collect::<Result<Vec<_>>>()?;
    let mut mac = [0; 16];
    mac.copy_from_slice(&sha512(digests.iter().map(Vec::as_slice))[..16]);
    Ok(mac)
}

/// The two MACs of an object set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjsetMacs {
    /// Over type and meta dnode, so over every object; goes with a raw send.
    pub portable: [u8; 32],
    /// Over flags and accounting dnodes; `None` when there is no finished accounting.
    pub local: Option<[u8; 32]>,
}

/// Computes the MACs of the object set `block`, which is in the byte order `endian`.
///
/// # Errors
/// [`ErrorKind::Authentication`] when the block is too short or its dnodes cannot be walked.
pub fn objset_macs(key: &MasterKey, block: &[u8], endian: Endian) -> Result<ObjsetMacs> {
    let word = |at: usize| word(block, at, endian).ok_or(ErrorKind::Authentication);
    let flags = word(objset_at::FLAGS)?;
    let mut mac = key.hmac();
    // The type is big-endian where everything else is little-endian, by a mistake that the format
    // has kept. The word behind it is for portable flags, of which there are none.
    mac.update(&word(objset_at::TYPE)?.to_be_bytes()).update(&[0; 8]);
    mac_dnode(&mut mac, key.version(), dnode_slot(block, 0)?, endian)?;
    let portable = cut(mac);

    let slots: &[usize] = match block.len() {
        n if n >= OBJSET_SIZE_V3 => {
            &[OBJSET_SIZE_V1, OBJSET_SIZE_V1 + DNODE_SLOT_SIZE, OBJSET_SIZE_V2]
        }
        n if n >= OBJSET_SIZE_V2 => &[OBJSET_SIZE_V1, OBJSET_SIZE_V1 + DNODE_SLOT_SIZE],
        _ => &[],
    };
    let mut dnodes = Vec::with_capacity(slots.len());
    for at in slots {
        let slot = dnode_slot(block, *at)?;
        if slot.first() != Some(&0) {
            dnodes.push(slot);
        }
    }
    // A project dnode alone does not make the accounting exist.
    let accounted = slots.iter().take(2).any(|at| block.get(*at).is_some_and(|kind| *kind != 0));
    if flags & FLAG_USERACCOUNTING_COMPLETE == 0 || !accounted {
        return Ok(ObjsetMacs { portable, local: None });
    }
    let mut mac = key.hmac();
    mac.update(&flags.to_le_bytes());
    for slot in dnodes {
        mac_dnode(&mut mac, key.version(), slot, endian)?;
    }
    Ok(ObjsetMacs { portable, local: Some(cut(mac)) })
}

/// Checks the MACs in the object set `block`, which is in the byte order `endian`.
///
/// Without finished accounting the local MAC is not judged: releases of OpenZFS differ in whether
/// they then leave zeros there.
///
/// # Errors
/// [`ErrorKind::Authentication`] when one does not fit.
pub fn verify_objset_macs(key: &MasterKey, block: &[u8], endian: Endian) -> Result<()> {
    let stored =
        |at: usize| block.get(at..at + objset_at::MAC_LEN).ok_or(ErrorKind::Authentication);
    let macs = objset_macs(key, block, endian)?;
    judge(mac_eq(&macs.portable, stored(objset_at::PORTABLE_MAC)?))?;
    match macs.local {
        Some(local) => judge(mac_eq(&local, stored(objset_at::LOCAL_MAC)?)),
        None => Ok(()),
    }
}

/// Writes the MACs of the object set `block`, which is in the byte order `endian`, into it.
///
/// # Errors
/// Those of [`objset_macs`].
pub fn seal_objset(key: &MasterKey, block: &mut [u8], endian: Endian) -> Result<()> {
    let ObjsetMacs { portable, local } = objset_macs(key, block, endian)?;
    for (at, mac) in
        [(objset_at::PORTABLE_MAC, portable), (objset_at::LOCAL_MAC, local.unwrap_or_default())]
    {
        let slot = block.get_mut(at..at + objset_at::MAC_LEN).ok_or(ErrorKind::Authentication)?;
        slot.copy_from_slice(&mac);
    }
    Ok(())
}

/// Adds one dnode in its portable, little-endian form.
fn mac_dnode(mac: &mut HmacSha512, version: u64, slot: &[u8], endian: Endian) -> Result<()> {
    let dnode = RawDnode::split(slot)?;
    mac.update(&dnode.portable_core_le(endian));
    for pointer in dnode.pointers() {
        mac.update(&pointer_digest(pointer, version, endian)?);
    }
    Ok(())
}

/// One of the dnodes in an object set block; each takes one slot.
fn dnode_slot(block: &[u8], at: usize) -> Result<&[u8]> {
    block.get(at..at + DNODE_SLOT_SIZE).ok_or(ErrorKind::Authentication)
}

fn cut(mac: HmacSha512) -> [u8; 32] {
    let mut out = [0; 32];
    out.copy_from_slice(&mac.finish()[..32]);
    out
}

fn word(data: &[u8], at: usize, endian: Endian) -> Option<u64> {
    let bytes = data.get(at..)?.first_chunk::<8>()?;
    Some(endian.u64(*bytes))
}

fn judge(fits: bool) -> Result<()> {
    if fits { Ok(()) } else { Err(ErrorKind::Authentication) }
}
