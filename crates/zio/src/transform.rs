//! The first half of writing: from a block in memory to the bytes that are stored, or to a pointer
//! that needs none.

use crate::block::{Block, Seal};
use crate::checksum::{algorithm as algorithm_of, byte_order};
use crate::cpu::Work;
use crate::error::ErrorKind;
use crate::profile::{Laps, Stage};
use crate::seal::{Salts, is_never_compressed, protect};
use crate::spec::{Protection, WriteSpec, WriterSettings};
use crate::{BLOCK_SIZE_MAX, checksum};
use codec::checksum::{Digest, Salted};
use codec::compress::{self, Algorithm};
use device::{AlignedBuf, Shared};
use ondisk::blkptr::{BlkPtrParts, CryptParts, EMBEDDED_PAYLOAD_MAX, SECTOR_SIZE};
use ondisk::{BlkPtr, Checksum, Compression, DmuType, Dva, Endian};

/// The form in which a block is stored.
pub(crate) enum Form {
    /// A hole, or its data in the pointer.
    Pointer(BlkPtr),
    /// Bytes to be stored.
    Stored(Stored),
}

/// A block as it is stored.
pub(crate) struct Stored {
    pub(crate) bytes: Shared,
    /// The pointer to it, without addresses.
    pub(crate) parts: BlkPtrParts,
}

/// Compresses and sums a block.
pub(crate) fn transform(
    data: &Block,
    spec: &WriteSpec<'_>,
    settings: &WriterSettings,
    (salted, salts): (&Salted, &Salts),
    laps: &mut Laps<'_>,
) -> Result<Form, ErrorKind> {
    let lsize = data.size();
    if lsize == 0 || lsize > BLOCK_SIZE_MAX || !lsize.is_multiple_of(SECTOR_SIZE) {
        return Err(ErrorKind::BadBlock("its size is not a multiple of 512 up to 16 MiB"));
    }
    let checksum_kind = checksum_kind(spec)?;
    if let Some(seal) = data.seal() {
        return as_it_is(data, seal, spec, (checksum_kind, salted), settings, laps);
    }
    if spec.compression != Algorithm::Off && compress::is_zero(data) {
        return Ok(Form::Pointer(hole(spec, lsize, settings)));
    }
    let as_it_came = data.packed().filter(|_| spec.level == 0);
    let algorithm = if is_never_compressed(spec) { Algorithm::Off } else { spec.compression };
    let compression = as_it_came.map_or(Compression(algorithm.number()), |(how, _)| how);
    let packed = match (as_it_came, algorithm) {
        (Some((_, packed)), _) => Some(packed.to_vec()),
        (None, Algorithm::Off) => None,
        (None, algorithm) => laps.stage(Stage::Compress, || {
            let packed = compress::compress(algorithm, data);
            Work::Compress(compression).charge(lsize);
            packed
        }),
    };
    if let Some(bp) = packed.as_deref().and_then(|p| embedded(p, data, spec, compression)) {
        return Ok(Form::Pointer(bp));
    }
    let (bytes, compression) = match packed.and_then(|p| padded(&p, lsize, settings)) {
        Some(bytes) => (bytes, compression),
        None => (data.shared(), Compression::OFF),
    };
    let (bytes, crypt, sum) = laps.stage(Stage::Checksum, || {
        let (bytes, crypt) = protect(spec, data, bytes, salts)?;
        let compute = || sum(checksum_kind, data.endian(), salted, &bytes);
        let sum = match (compression, checksum_kind, crypt) {
            (Compression::OFF, Checksum::FLETCHER_4 | Checksum::SHA256, None) => {
                data.sum(checksum_kind, compute)?
            }
            (_, _, Some(CryptParts { mac: Some(_), .. })) => {
                let digest = digest(checksum_kind, data.endian(), salted, &bytes)?;
                let [a, b] = digest.truncated(algorithm_of(checksum_kind)?);
                [a, b, 0, 0]
            }
            _ => compute()?,
        };
        Work::Checksum(checksum_kind).charge(bytes.len() as u64);
        Ok((bytes, crypt, sum))
    })?;
    let parts = BlkPtrParts {
        dvas: [Dva::default(); 3],
        lsize,
        psize: bytes.len() as u64,
        compression,
        checksum_kind,
        checksum: sum,
        kind: spec.kind,
        level: spec.level,
        endian: data.endian(),
        birth: spec.birth,
        fill: spec.fill,
        crypt,
    };
    Ok(Form::Stored(Stored { bytes, parts }))
}

/// A block that came as it is stored. Only a block of dnodes can become a hole: what other zeros
/// there are may be ciphertext.
fn as_it_is(
    data: &Block,
    seal: &Seal,
    spec: &WriteSpec<'_>,
    (checksum_kind, salted): (Checksum, &Salted),
    settings: &WriterSettings,
    laps: &mut Laps<'_>,
) -> Result<Form, ErrorKind> {
    let psize = data.len() as u64;
    let is_compressed = seal.compression != Compression::OFF;
    let fits = if is_compressed { psize <= seal.size } else { psize == seal.size };
    if psize == 0 || !psize.is_multiple_of(SECTOR_SIZE) || !fits {
        return Err(ErrorKind::BadBlock("an encrypted block has another size than it can have"));
    }
    if !matches!(spec.protection, Protection::Sealed) || spec.level > 0 {
        return Err(ErrorKind::BadBlock("the key of an encrypted block belongs to its dataset"));
    }
    if seal.params.is_some() != spec.kind.is_encrypted() {
        return Err(ErrorKind::BadBlock("a block is encrypted though its type is not, or reverse"));
    }
    if spec.kind == DmuType::DNODE && compress::is_zero(data) {
        return Ok(Form::Pointer(hole(spec, seal.size, settings)));
    }
    let sum = laps.stage(Stage::Checksum, || {
        let digest = digest(checksum_kind, data.endian(), salted, data)?;
        let [a, b] = digest.truncated(algorithm_of(checksum_kind)?);
        Work::Checksum(checksum_kind).charge(psize);
        Ok([a, b, 0, 0])
    })?;
    let parts = BlkPtrParts {
        dvas: [Dva::default(); 3],
        lsize: seal.size,
        psize,
        compression: seal.compression,
        checksum_kind,
        checksum: sum,
        kind: spec.kind,
        level: spec.level,
        endian: data.endian(),
        birth: spec.birth,
        fill: spec.fill,
        crypt: Some(CryptParts { params: seal.params, mac: Some(seal.mac) }),
    };
    Ok(Form::Stored(Stored { bytes: data.shared(), parts }))
}

/// The checksum words of stored bytes.
pub(crate) fn sum(
    kind: Checksum,
    endian: Endian,
    salted: &Salted,
    bytes: &[u8],
) -> Result<[u64; 4], ErrorKind> {
    Ok(digest(kind, endian, salted, bytes)?.0)
}

fn digest(
    kind: Checksum,
    endian: Endian,
    salted: &Salted,
    bytes: &[u8],
) -> Result<Digest, ErrorKind> {
    let algorithm = algorithm_of(kind)?;
    Ok(codec::checksum::compute(algorithm, byte_order(endian), salted, bytes))
}

/// The algorithm that a wish comes down to.
fn checksum_kind(spec: &WriteSpec<'_>) -> Result<Checksum, ErrorKind> {
    let is_metadata = spec.level > 0 || spec.kind.is_metadata();
    match spec.checksum {
        Checksum::INHERIT | Checksum::ON => Ok(Checksum::FLETCHER_4),
        // A tree must never be followed on faith.
        Checksum::OFF | Checksum::NOPARITY if is_metadata => Ok(Checksum::FLETCHER_4),
        kind => checksum::algorithm(kind).map(|_| kind),
    }
}

fn hole(spec: &WriteSpec<'_>, lsize: u64, settings: &WriterSettings) -> BlkPtr {
    match settings.hole_birth {
        true => BlkPtr::hole(spec.kind, spec.level, lsize, spec.birth),
        false => BlkPtr::HOLE,
    }
}

fn embedded(
    packed: &[u8],
    data: &Block,
    spec: &WriteSpec<'_>,
    compression: Compression,
) -> Option<BlkPtr> {
    let has_fill = matches!(spec.kind, DmuType::DNODE | DmuType::OBJSET);
    let fits = packed.len() <= EMBEDDED_PAYLOAD_MAX && data.endian() == Endian::Little;
    let is_protected = !matches!(spec.protection, Protection::None);
    if !spec.embed || is_protected || spec.level > 0 || has_fill || !fits {
        return None;
    }
    BlkPtr::embedded(spec.kind, 0, data.len() as u64, compression, packed, spec.birth)
}

/// Compressed bytes filled up to whole allocations; `None` when that saves nothing any more.
fn padded(packed: &[u8], lsize: u64, settings: &WriterSettings) -> Option<Shared> {
    let psize = packed.len().max(1).checked_next_multiple_of(settings.alloc_unit)?;
    if psize as u64 >= lsize {
        return None;
    }
    let mut out = AlignedBuf::zeroed(psize);
    out.get_mut(..packed.len())?.copy_from_slice(packed);
    Some(out.into())
}
