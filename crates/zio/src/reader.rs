//! The read pipeline.

use crate::block::{Block, Place};
use crate::checksum::Verifier;
use crate::error::{Error, ErrorKind, Result};
use crate::{BLOCK_SIZE_MAX, GANG_DEPTH, crypt};
use codec::checksum::Salted;
use codec::compress;
use codec::crypto::MasterKey;
use device::AlignedBuf;
use ondisk::{BlkPtr, Compression, Dva, EmbeddedKind, GangHeader, gang::GANG_HEADER_SIZE};
use vdev::{BlockRead, Fault, Scope, VdevTree};

/// One block to read.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// Its pointer.
    pub bp: &'a BlkPtr,
    /// Its name, for errors.
    pub place: Place,
    /// Key of its dataset.
    pub key: Option<&'a MasterKey>,
    /// Read every copy, side and parity column, not only enough for the data.
    pub scope: Scope,
    /// Stop after the checksum: no decryption, no decompression.
    pub raw: bool,
}

/// What reading a block gave.
#[derive(Debug)]
pub struct Outcome {
    /// The block, or why it cannot be had.
    pub block: Result<Block>,
    /// Faults met, also when the data could be had in spite of them.
    pub faults: Vec<Fault>,
}

/// Reads blocks from a vdev tree.
pub struct Reader {
    vdevs: VdevTree,
    salted: Salted,
    trusting: bool,
}

/// Verified bytes as stored, before decryption.
struct Stored {
    bytes: Option<AlignedBuf>,
    faults: Vec<Fault>,
    failure: ErrorKind,
}

impl Reader {
    /// Reads from `vdevs`, with the pool's checksum salt.
    #[must_use]
    pub fn new(vdevs: VdevTree, salt: &[u8; 32]) -> Self {
        Self { vdevs, salted: Salted::new(salt), trusting: false }
    }

    /// The vdev tree.
    #[must_use]
    pub fn vdevs(&self) -> &VdevTree {
        &self.vdevs
    }

    /// The vdev tree, to complete it while the pool is being opened.
    pub fn vdevs_mut(&mut self) -> &mut VdevTree {
        &mut self.vdevs
    }

    /// Sets the salt of the salted checksums once it is known.
    pub fn set_salt(&mut self, salt: &[u8; 32]) {
        self.salted = Salted::new(salt);
    }

    /// Takes bytes as they are, whatever their checksums say: the last resort for a block whose
    /// every copy is damaged, and a way to feed damage to the decoders above.
    pub fn set_trusting(&mut self, trusting: bool) {
        self.trusting = trusting;
    }

    fn verifier(&self, bp: &BlkPtr) -> std::result::Result<Verifier<'_>, ErrorKind> {
        let verifier = Verifier::new(bp, &self.salted)?;
        Ok(if self.trusting { verifier.trusting() } else { verifier })
    }

    fn is_gang_header(&self, bp: &BlkPtr, header: &[u8]) -> bool {
        self.trusting || is_gang_header(bp, header)
    }

    /// Reads one block.
    #[must_use]
    pub fn read(&self, request: Request<'_>) -> Outcome {
        let mut out = self.read_many(&[request]);
        match out.pop() {
            Some(o) => o,
            None => Outcome {
                block: Err(error(&request, ErrorKind::Unreadable, Vec::new())),
                faults: Vec::new(),
            },
        }
    }

    /// Reads a batch; the results stand in the order of the requests.
    #[must_use]
    pub fn read_many(&self, requests: &[Request<'_>]) -> Vec<Outcome> {
        let mut verifiers = Vec::with_capacity(requests.len());
        for r in requests {
            verifiers.push(
                plain_copy(r)
                    .and_then(|dva| self.verifier(r.bp).ok().map(|verifier| (dva, verifier))),
            );
        }
        // The first copies of all plain blocks, in one submission.
        let checks: Vec<_> =
            verifiers.iter().flatten().map(|(_, v)| move |b: &[u8]| v.matches(b)).collect();
        let mut batch = Vec::with_capacity(checks.len());
        let plain = requests.iter().zip(&verifiers).filter_map(|(r, v)| v.map(|(d, _)| (r, d)));
        for ((r, dva), check) in plain.zip(&checks) {
            batch.push(BlockRead {
                dva,
                size: r.bp.psize(),
                birth: r.bp.physical_birth(),
                verify: check,
            });
        }
        let scope = requests.first().map_or(Scope::Data, |r| r.scope);
        let mut first = self.vdevs.read_batch(batch, scope).into_iter();
        requests
            .iter()
            .zip(&verifiers)
            .map(|(r, v)| {
                let early = v.as_ref().and_then(|_| first.next());
                self.finish(r, early)
            })
            .collect()
    }

    fn finish(&self, r: &Request<'_>, early: Option<vdev::BlockResult>) -> Outcome {
        if let Err(kind) = sane(r.bp) {
            return Outcome { block: Err(error(r, kind, Vec::new())), faults: Vec::new() };
        }
        if r.bp.is_embedded() || r.bp.is_hole() {
            return Outcome { block: inline_block(r), faults: Vec::new() };
        }
        let stored = self.stored(r, early);
        let Some(bytes) = stored.bytes else {
            return Outcome {
                block: Err(error(r, stored.failure, stored.faults.clone())),
                faults: stored.faults,
            };
        };
        Outcome {
            block: logical(r, bytes).map_err(|k| error(r, k, stored.faults.clone())),
            faults: stored.faults,
        }
    }

    /// Tries the copies one after the other; with [`Scope::All`] reads them all.
    fn stored(&self, r: &Request<'_>, early: Option<vdev::BlockResult>) -> Stored {
        let mut out = Stored { bytes: None, faults: Vec::new(), failure: ErrorKind::Unreadable };
        let verifier = match self.verifier(r.bp) {
            Ok(v) => v,
            Err(kind) => {
                out.failure = kind;
                return out;
            }
        };
        let mut early = early;
        for (_, dva) in r.bp.dvas() {
            if out.bytes.is_some() && r.scope == Scope::Data {
                break;
            }
            let got = match early.take() {
                Some(result) => {
                    out.faults.extend(result.faults);
                    result.data.ok()
                }
                None if dva.is_gang() => match self.gang(r, r.bp, dva, 0, &mut out.faults) {
                    Ok(b) => Some(b),
                    Err(kind) => {
                        out.failure = kind;
                        None
                    }
                },
                None => {
                    let check = |b: &[u8]| verifier.matches(b);
                    self.copy(r, r.bp, dva, &check, &mut out.faults)
                }
            };
            out.bytes = out.bytes.or(got);
        }
        out
    }

    fn copy(
        &self,
        r: &Request<'_>,
        bp: &BlkPtr,
        dva: Dva,
        verify: &(dyn Fn(&[u8]) -> bool + Sync),
        faults: &mut Vec<Fault>,
    ) -> Option<AlignedBuf> {
        let size = if dva.is_gang() { GANG_HEADER_SIZE as u64 } else { bp.psize() };
        let read = BlockRead { dva, size, birth: bp.physical_birth(), verify };
        let result = self.vdevs.read_batch(vec![read], r.scope).pop()?;
        faults.extend(result.faults);
        result.data.ok()
    }

    /// Reads a gang header and its parts, in order, into one buffer of `bp.psize()` bytes.
    fn gang(
        &self,
        r: &Request<'_>,
        bp: &BlkPtr,
        dva: Dva,
        depth: u32,
        faults: &mut Vec<Fault>,
    ) -> std::result::Result<AlignedBuf, ErrorKind> {
        if depth >= GANG_DEPTH {
            return Err(ErrorKind::Gang);
        }
        let check = |b: &[u8]| self.is_gang_header(bp, b);
        let header = self.copy(r, bp, dva, &check, faults).ok_or(ErrorKind::Unreadable)?;
        let header = GangHeader::decode(&header, bp.byteorder()).map_err(|_| ErrorKind::Gang)?;
        let total = usize::try_from(bp.psize()).map_err(|_| ErrorKind::Gang)?;
        let mut out = AlignedBuf::zeroed(total);
        let mut at = 0usize;
        for part in header.parts.iter().filter(|p| !p.is_hole()) {
            sane(part)?;
            let bytes = self.gang_part(r, part, depth, faults)?;
            let end = at.checked_add(bytes.len()).ok_or(ErrorKind::Gang)?;
            out.get_mut(at..end).ok_or(ErrorKind::Gang)?.copy_from_slice(&bytes);
            at = end;
        }
        if at == total { Ok(out) } else { Err(ErrorKind::Gang) }
    }

    fn gang_part(
        &self,
        r: &Request<'_>,
        part: &BlkPtr,
        depth: u32,
        faults: &mut Vec<Fault>,
    ) -> std::result::Result<AlignedBuf, ErrorKind> {
        let verifier = self.verifier(part)?;
        let check = |b: &[u8]| verifier.matches(b);
        let mut failure = ErrorKind::Unreadable;
        let mut found = None;
        for (_, dva) in part.dvas() {
            if found.is_some() && r.scope == Scope::Data {
                break;
            }
            let got = match dva.is_gang() {
                true => match self.gang(r, part, dva, depth + 1, faults) {
                    Ok(b) => Some(b),
                    Err(kind) => {
                        failure = kind;
                        None
                    }
                },
                false => self.copy(r, part, dva, &check, faults),
            };
            found = found.or(got);
        }
        found.ok_or(failure)
    }

    /// The addresses of a gang block's header and parts, for accounting: every DVA below `bp`
    /// that holds allocated space, the header's first. Unreadable headers end the walk.
    #[must_use]
    pub fn gang_members(&self, bp: &BlkPtr, place: Place) -> Vec<BlkPtr> {
        let r = Request { bp, place, key: None, scope: Scope::Data, raw: true };
        let mut out = Vec::new();
        self.collect_members(&r, bp, 0, &mut out);
        out
    }

    fn collect_members(&self, r: &Request<'_>, bp: &BlkPtr, depth: u32, out: &mut Vec<BlkPtr>) {
        let Some((_, dva)) = bp.dvas().find(|(_, d)| d.is_gang()) else { return };
        if depth >= GANG_DEPTH {
            return;
        }
        let check = |b: &[u8]| self.is_gang_header(bp, b);
        let Some(bytes) = self.copy(r, bp, dva, &check, &mut Vec::new()) else { return };
        let Ok(header) = GangHeader::decode(&bytes, bp.byteorder()) else { return };
        for part in header.parts.iter().filter(|p| !p.is_hole() && sane(p).is_ok()) {
            out.push(*part);
            self.collect_members(r, part, depth + 1, out);
        }
    }
}

/// Every copy of a gang header is sealed with the address of the first.
fn is_gang_header(bp: &BlkPtr, header: &[u8]) -> bool {
    let first = bp.dva(0);
    let (vdev, birth) = (u64::from(first.vdev()), bp.physical_birth());
    codec::checksum::verify_gang_header(header, vdev, first.offset(), birth).is_ok()
}

/// The first copy, when the block is stored plainly (no gang, not in the pointer).
fn plain_copy(r: &Request<'_>) -> Option<Dva> {
    if r.bp.is_hole() || sane(r.bp).is_err() {
        return None;
    }
    r.bp.dvas().next().map(|(_, d)| d).filter(|d| !d.is_gang())
}

/// What must hold before sizes and addresses of a pointer are used.
fn sane(bp: &BlkPtr) -> std::result::Result<(), ErrorKind> {
    if bp.lsize() > BLOCK_SIZE_MAX {
        return Err(ErrorKind::BadPointer("logical size above 16 MiB"));
    }
    if bp.is_hole() {
        return Ok(());
    }
    if !bp.is_embedded() && bp.psize() > BLOCK_SIZE_MAX {
        return Err(ErrorKind::BadPointer("physical size above 16 MiB"));
    }
    if !bp.is_embedded() && bp.psize() > bp.lsize() && bp.compression() != Compression::OFF {
        return Err(ErrorKind::BadPointer("compressed larger than uncompressed"));
    }
    if !bp.is_embedded() && bp.dvas().next().is_none() {
        return Err(ErrorKind::BadPointer("no copy has an allocated size"));
    }
    if bp.is_embedded() && bp.psize() > ondisk::blkptr::EMBEDDED_PAYLOAD_MAX as u64 {
        return Err(ErrorKind::BadPointer("embedded payload larger than the pointer"));
    }
    Ok(())
}

/// A hole as zeros, or the payload of an embedded pointer.
fn inline_block(r: &Request<'_>) -> Result<Block> {
    let lsize = r.bp.lsize() as usize;
    let mut out = AlignedBuf::zeroed(lsize);
    if r.bp.is_embedded() {
        match r.bp.embedded_kind() {
            EmbeddedKind::Data => {}
            EmbeddedKind::Redacted => return Err(error(r, ErrorKind::Redacted, Vec::new())),
            _ => {
                let kind = ErrorKind::BadPointer("unknown kind of embedded data");
                return Err(error(r, kind, Vec::new()));
            }
        }
        expand(r.bp, &r.bp.embedded_payload(), &mut out).map_err(|k| error(r, k, Vec::new()))?;
    }
    Ok(Block::new(out, r.bp.byteorder()))
}

/// Decrypts and decompresses.
fn logical(r: &Request<'_>, mut bytes: AlignedBuf) -> std::result::Result<Block, ErrorKind> {
    let endian = r.bp.byteorder();
    if r.raw {
        return Ok(Block::new(bytes, endian));
    }
    if r.bp.uses_crypt() {
        crypt::open_block(r.key, r.bp, &mut bytes)?;
    }
    let plain = if r.bp.compression() == Compression::OFF && bytes.len() as u64 == r.bp.lsize() {
        bytes
    } else {
        let mut out = AlignedBuf::zeroed(r.bp.lsize() as usize);
        expand(r.bp, &bytes, &mut out)?;
        out
    };
    if r.bp.has_indirect_mac() {
        crypt::verify_indirect(r.bp, &plain)?;
    }
    Ok(Block::new(plain, endian))
}

fn expand(bp: &BlkPtr, src: &[u8], dst: &mut [u8]) -> std::result::Result<(), ErrorKind> {
    let number = bp.compression().0;
    let algorithm = compress::from_number(number)
        .ok_or(ErrorKind::UnknownAlgorithm { what: "compression", number })?;
    compress::decompress(algorithm, src, dst).map_err(|_| ErrorKind::Decompression)
}

fn error(r: &Request<'_>, kind: ErrorKind, faults: Vec<Fault>) -> Error {
    let copies: Vec<String> = r.bp.dvas().map(|(_, d)| format!("{d:?}")).collect();
    Error { place: r.place, copies: copies.join(", "), kind, faults }
}
