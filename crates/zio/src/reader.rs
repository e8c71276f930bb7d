//! The read pipeline.

mod heal;
mod restore;

pub use heal::Mended;
pub use restore::Kept;

use crate::block::{Block, Place};
use crate::checksum::Verifier;
use crate::error::{Error, ErrorKind, Result};
use crate::stages::{ReadStages, Sampled, Waited};
use crate::stats::ByType;
use crate::{BLOCK_SIZE_MAX, GANG_DEPTH, crypt};
use codec::checksum::Salted;
use codec::compress;
use codec::crypto::MasterKey;
use device::AlignedBuf;
use ondisk::{BlkPtr, Compression, Dva, EmbeddedKind, GangHeader, gang::GANG_HEADER_SIZE};
use parking_lot::RwLock;
use std::sync::Arc;
use vdev::{BlockRead, BlockResult, Fault, Scope, VdevTree};

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

/// The result of reading a block.
#[derive(Debug)]
pub struct Outcome {
    /// The block, or why it cannot be had.
    pub block: Result<Block>,
    /// Faults met, also when the data could be had in spite of them.
    pub faults: Vec<Fault>,
}

/// Reads blocks from a vdev tree.
pub struct Reader {
    /// The tree of this moment; a caller keeps the one that it got.
    vdevs: RwLock<Arc<VdevTree>>,
    salted: Salted,
    trusting: bool,
    stats: Arc<ByType>,
    stages: ReadStages,
}

/// Says whether what was read at a block's address is right.
enum Check<'a> {
    Block(Verifier<'a>),
    Header(&'a BlkPtr),
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
        let (stats, stages) = (Arc::default(), ReadStages::new(vdevs.rt().clone()));
        let vdevs = RwLock::new(Arc::new(vdevs));
        Self { vdevs, salted: Salted::new(salt), trusting: false, stats, stages }
    }

    /// The vdev tree as it is now. A request goes to one tree from its beginning to its end; the
    /// next one may find another.
    #[must_use]
    pub fn vdevs(&self) -> Arc<VdevTree> {
        Arc::clone(&self.vdevs.read())
    }

    /// From now on requests go to another tree.
    pub fn set_vdevs(&self, tree: VdevTree) {
        *self.vdevs.write() = Arc::new(tree);
    }

    /// Reads, and writes by the writer above this reader, by type and level.
    #[must_use]
    pub fn stats(&self) -> &ByType {
        &self.stats
    }

    pub(crate) fn types(&self) -> &Arc<ByType> {
        &self.stats
    }

    /// The counts of the stages of reading.
    #[must_use]
    pub fn stages(&self) -> &ReadStages {
        &self.stages
    }

    /// Switches the counting of [`Self::stats`] and [`Self::stages`] off, to measure what it costs,
    /// or on again.
    pub fn set_counting(&self, on: bool) {
        self.stats.set_counting(on);
        self.stages.set_counting(on);
    }

    /// The salt of the salted checksums.
    pub(crate) fn salted(&self) -> &Salted {
        &self.salted
    }

    /// The vdev tree, to complete it while the pool is being opened; `None` when another holds it.
    pub fn vdevs_mut(&mut self) -> Option<&mut VdevTree> {
        Arc::get_mut(self.vdevs.get_mut())
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
        probes::fire!(read__start, 1);
        let first = self.first_copy(request.bp).and_then(|(dva, check)| {
            let check = |bytes: &[u8]| self.holds(&check, bytes);
            self.read_copy(&request, block_read((request.bp, request.place), dva, &check))
        });
        let out = self.finish(&request, first);
        probes::fire!(read__done, request.bp.lsize(), u64::from(out.block.is_err()));
        out
    }

    /// Reads a batch; the results are in the order of the requests.
    #[must_use]
    pub fn read_many(&self, requests: &[Request<'_>]) -> Vec<Outcome> {
        if let [request] = requests {
            return vec![self.read(*request)];
        }
        probes::fire!(read__start, requests.len() as u64);
        let scope = requests.first().map_or(Scope::Data, |r| r.scope);
        let blocks: Vec<_> = requests.iter().map(|r| (r.bp, r.place)).collect();
        let early = self.first_copies(&blocks, scope, None);
        let finish = |(r, early): (&Request<'_>, _)| {
            let out = self.finish(r, early);
            probes::fire!(read__done, r.bp.lsize(), u64::from(out.block.is_err()));
            out
        };
        requests.iter().zip(early).map(finish).collect()
    }

    /// Reads the first copies of all plain blocks, and the first headers of all gangs, in one
    /// submission. They are counted as `whole`, when they are parts of it.
    fn first_copies(
        &self,
        blocks: &[(&BlkPtr, Place)],
        scope: Scope,
        whole: Option<&BlkPtr>,
    ) -> Vec<Option<BlockResult>> {
        let firsts: Vec<_> = blocks.iter().map(|(bp, _)| self.first_copy(bp)).collect();
        let checks: Vec<_> = firsts
            .iter()
            .flatten()
            .map(|(_, check)| move |b: &[u8]| self.holds(check, b))
            .collect();
        let there = || blocks.iter().zip(&firsts).filter_map(|(b, f)| Some((b, f.as_ref()?.0)));
        let read = |((bp, place), dva): (&(&BlkPtr, Place), Dva), check| {
            let read = block_read((bp, *place), dva, check);
            self.stats.read(whole.unwrap_or(bp), read.size);
            read
        };
        let batch: Vec<_> =
            there().zip(&checks).map(|((block, dva), c)| read((block, dva), c as _)).collect();
        let reading = self.stages.begin(batch.iter().map(|read| read.size as usize).sum());
        let mut first = self.vdevs().read_batch(batch, scope).into_iter();
        if let Some(waited) = reading.map(|reading| self.stages.end(reading)) {
            there().for_each(|((bp, _), dva)| {
                self.took(whole.unwrap_or(bp), read_size(bp, dva), waited);
            });
        }
        firsts.iter().map(|f| f.as_ref().and_then(|_| first.next())).collect()
    }

    /// This many bytes of `bp` were read, and waited for.
    fn took(&self, bp: &BlkPtr, bytes: u64, waited: Waited) {
        self.stages.was_read(waited, bytes);
        if waited.weight > 0 {
            self.stats.read_took(bp, waited.time, waited.weight);
        }
    }

    fn matches(&self, verifier: &Verifier<'_>, bytes: &[u8]) -> bool {
        self.stages.watch(Sampled::Verify, bytes.len(), || verifier.matches(bytes))
    }

    /// The first read of a block: its first copy, or the header in its place.
    fn first_copy<'a>(&'a self, bp: &'a BlkPtr) -> Option<(Dva, Check<'a>)> {
        if bp.is_hole() || sane(bp).is_err() {
            return None;
        }
        let (_, dva) = bp.dvas().next()?;
        let check = match dva.is_gang() {
            true => Check::Header(bp),
            false => Check::Block(self.verifier(bp).ok()?),
        };
        Some((dva, check))
    }

    fn holds(&self, check: &Check<'_>, bytes: &[u8]) -> bool {
        match check {
            Check::Block(verifier) => self.matches(verifier, bytes),
            Check::Header(bp) => self.is_gang_header(bp, bytes),
        }
    }

    fn finish(&self, r: &Request<'_>, early: Option<BlockResult>) -> Outcome {
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
            block: logical(r, bytes, &self.stages).map_err(|k| error(r, k, stored.faults.clone())),
            faults: stored.faults,
        }
    }

    /// Tries the copies one after the other; with [`Scope::All`] reads them all.
    fn stored(&self, r: &Request<'_>, early: Option<BlockResult>) -> Stored {
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
            let early = early.take();
            let got = match dva.is_gang() {
                true => match self.gang(r, (r.bp, dva), early, 0, &mut out.faults) {
                    Ok(b) => Some(b),
                    Err(kind) => {
                        out.failure = kind;
                        None
                    }
                },
                false => {
                    let check = |b: &[u8]| self.matches(&verifier, b);
                    self.copy(r, (r.bp, dva), early, &check, &mut out.faults)
                }
            };
            out.bytes = out.bytes.or(got);
        }
        out
    }

    /// Reads one copy, if it was not read before.
    fn copy(
        &self,
        r: &Request<'_>,
        (bp, dva): (&BlkPtr, Dva),
        early: Option<BlockResult>,
        verify: &(dyn Fn(&[u8]) -> bool + Sync),
        faults: &mut Vec<Fault>,
    ) -> Option<AlignedBuf> {
        let result = match early {
            Some(result) => result,
            None => self.read_copy(r, block_read((bp, r.place), dva, verify))?,
        };
        faults.extend(result.faults);
        result.data.ok()
    }

    /// Has the vdevs read one copy of a block, or of a part of it, and counts that.
    fn read_copy(&self, r: &Request<'_>, read: BlockRead<'_>) -> Option<BlockResult> {
        let size = read.size;
        self.stats.read(r.bp, size);
        let reading = self.stages.begin(size as usize);
        let vdevs = self.vdevs();
        let result = match r.scope {
            Scope::Data => Some(vdevs.read(read)),
            Scope::All => vdevs.read_batch(vec![read], r.scope).pop(),
        };
        if let Some(reading) = reading {
            self.took(r.bp, size, self.stages.end(reading));
        }
        result
    }

    /// Reads a gang header and its parts, in order, into one buffer of `bp.psize()` bytes.
    fn gang(
        &self,
        r: &Request<'_>,
        (bp, dva): (&BlkPtr, Dva),
        early: Option<BlockResult>,
        depth: u32,
        faults: &mut Vec<Fault>,
    ) -> std::result::Result<AlignedBuf, ErrorKind> {
        if depth >= GANG_DEPTH {
            return Err(ErrorKind::Gang);
        }
        let check = |b: &[u8]| self.is_gang_header(bp, b);
        let header = self.copy(r, (bp, dva), early, &check, faults).ok_or(ErrorKind::Unreadable)?;
        let header = GangHeader::decode(&header, bp.byteorder()).map_err(|_| ErrorKind::Gang)?;
        let parts = header.parts.iter().filter(|p| !p.is_hole());
        let parts: Vec<_> = parts.map(|part| (part, r.place)).collect();
        let mut sum = 0u64;
        for (part, _) in &parts {
            sane(part)?;
            sum = sum.saturating_add(part.psize());
        }
        // Before the parts are read: their sizes must not cost memory that the block does not.
        if sum != bp.psize() {
            return Err(ErrorKind::Gang);
        }
        let total = usize::try_from(sum).map_err(|_| ErrorKind::Gang)?;
        let mut out = AlignedBuf::try_zeroed(total).ok_or(ErrorKind::OutOfMemory)?;
        let mut at = 0usize;
        let early = self.first_copies(&parts, r.scope, Some(r.bp));
        for ((part, _), early) in parts.iter().zip(early) {
            let bytes = self.gang_part(r, part, early, depth, faults)?;
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
        mut early: Option<BlockResult>,
        depth: u32,
        faults: &mut Vec<Fault>,
    ) -> std::result::Result<AlignedBuf, ErrorKind> {
        let verifier = self.verifier(part)?;
        let check = |b: &[u8]| self.matches(&verifier, b);
        let mut failure = ErrorKind::Unreadable;
        let mut found = None;
        for (_, dva) in part.dvas() {
            if found.is_some() && r.scope == Scope::Data {
                break;
            }
            let early = early.take();
            let got = match dva.is_gang() {
                true => match self.gang(r, (part, dva), early, depth + 1, faults) {
                    Ok(b) => Some(b),
                    Err(kind) => {
                        failure = kind;
                        None
                    }
                },
                false => self.copy(r, (part, dva), early, &check, faults),
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
        let bytes = self.copy(r, (bp, dva), None, &check, &mut Vec::new());
        let Some(bytes) = bytes else { return };
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
    let mac = crate::checksum::has_mac(bp);
    codec::checksum::verify_gang_header(header, vdev, first.offset(), birth, mac).is_ok()
}

/// How the copy of a block at one address, or the gang header there, is read.
fn block_read<'a>(
    (bp, place): (&BlkPtr, Place),
    dva: Dva,
    verify: &'a (dyn Fn(&[u8]) -> bool + Sync),
) -> BlockRead<'a> {
    let (size, birth) = (read_size(bp, dva), bp.physical_birth());
    // A log ends at a block that was never written, and the power may have failed while its last
    // blocks, and those of data that they name, were on some of the devices only.
    let speculative = place.level == Place::LEVEL_ZIL;
    BlockRead { dva, size, birth, verify, speculative }
}

/// Bytes of the copy of a block at one address, or of the gang header there.
fn read_size(bp: &BlkPtr, dva: Dva) -> u64 {
    if dva.is_gang() { GANG_HEADER_SIZE as u64 } else { bp.psize() }
}

/// Checks a pointer before its sizes and addresses are used.
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
fn logical(
    r: &Request<'_>,
    mut bytes: AlignedBuf,
    stages: &ReadStages,
) -> std::result::Result<Block, ErrorKind> {
    let endian = r.bp.byteorder();
    if r.raw {
        return Ok(Block::new(bytes, endian));
    }
    if r.bp.uses_crypt() {
        stages
            .watch(Sampled::Decrypt, bytes.len(), || crypt::open_block(r.key, r.bp, &mut bytes))?;
    }
    let plain = if r.bp.compression() == Compression::OFF && bytes.len() as u64 == r.bp.lsize() {
        bytes
    } else {
        let mut out = AlignedBuf::zeroed(r.bp.lsize() as usize);
        stages.watch(Sampled::Decompress, bytes.len(), || expand(r.bp, &bytes, &mut out))?;
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
    let copies: Vec<String> = r.bp.dvas().map(|(_, dva)| dva.to_string()).collect();
    Error { place: r.place, copies: copies.join(", "), kind, faults }
}
