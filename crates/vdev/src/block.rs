//! A block to be read: the request, its result, and what the cheap way (module `read`) and the
//! thorough way (module `rebuild`) have in common.

use crate::error::{Error, ErrorKind, Fault, FaultKind};
use crate::gather::Gather;
use crate::locate::Source;
use crate::map::{Column as MapColumn, Stripe};
use crate::tree::VdevTree;
use codec::raidz::{self, Column};
use device::AlignedBuf;
use ondisk::Dva;

/// How much of a block is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The cheapest copy; more only when it is not good.
    Data,
    /// Every copy, column and parity, so that each device's part is verified.
    All,
}

/// One block to read.
#[derive(Clone, Copy)]
pub struct BlockRead<'a> {
    /// One of its addresses.
    pub dva: Dva,
    /// Its size as stored: the physical size, or that of a gang header.
    pub size: u64,
    /// Its physical birth txg.
    pub birth: u64,
    /// Says whether bytes are the block's.
    pub verify: &'a (dyn Fn(&[u8]) -> bool + Sync),
    /// It may never have been written, or not on every device, or nothing tells its bytes from
    /// others: no device counts other bytes as an error of its own.
    pub speculative: bool,
}

/// The result of reading a block.
#[derive(Debug)]
pub struct BlockResult {
    /// The verified block, or why there is none.
    pub data: Result<AlignedBuf, Error>,
    /// The faults found on the way. With [`Scope::Data`] and a good block, devices that are known
    /// to be missing or stale are not mentioned.
    pub faults: Vec<Fault>,
}

impl BlockResult {
    /// Without what is behind the block's last byte.
    pub(crate) fn cut(mut self, req: &BlockRead<'_>) -> Self {
        if let Ok(data) = &mut self.data {
            data.truncate(usize::try_from(req.size).unwrap_or(usize::MAX));
        }
        self
    }
}

impl VdevTree {
    /// Adds the bytes of one source to the batch; `None` when it is not open.
    pub(crate) fn request(&self, gather: &mut Gather, s: Source, len: u64) -> Option<usize> {
        let queue = self.nodes.get(s.node)?.queue.as_ref()?;
        Some(gather.add(s.node, queue, s.offset, len))
    }

    /// The result for a block that has no copy at this address.
    pub(crate) fn failed(
        &self,
        req: &BlockRead<'_>,
        kind: ErrorKind,
        mut faults: Vec<Fault>,
    ) -> BlockResult {
        let (vdev, offset, size) = (req.dva.vdev(), req.dva.offset(), req.size);
        faults.push(self.block_fault(vdev, offset, size, kind.clone()));
        BlockResult { data: Err(Error { vdev, offset, size, kind }), faults }
    }

    /// The fault of a block as a whole.
    pub(crate) fn block_fault(&self, vdev: u32, offset: u64, len: u64, kind: ErrorKind) -> Fault {
        let node = self.tops.get(&vdev).and_then(|t| self.nodes.get(t.node));
        let guid = node.map_or(0, |n| n.guid);
        let path = node.map_or_else(|| format!("vdev-{vdev}").into(), |n| n.name.clone());
        let kind = FaultKind::Block(kind);
        Fault { vdev, guid, path, offset, len, kind, repaired: false }
    }
}

/// Writes the data columns of a stripe to their places in `out`, computing those that are `None`
/// from parity. `columns` are in the order of the stripe's; empty columns may be `None`.
pub(crate) fn fill(stripe: &Stripe, columns: &[Option<&[u8]>], out: &mut [u8]) -> Option<()> {
    let n = stripe.nparity;
    let data = stripe.columns.get(n..)?;
    let got = columns.get(n..)?;
    let is_lost = |(c, g): &(&MapColumn, &Option<&[u8]>)| c.size > 0 && g.is_none();
    let mut lost: Vec<Vec<u8>> = Vec::new();
    for (c, _) in data.iter().zip(got).filter(is_lost) {
        lost.push(vec![0; usize::try_from(c.size).ok()?]);
    }
    if !lost.is_empty() {
        let mut buffers = lost.iter_mut();
        let mut row = Vec::with_capacity(data.len());
        for (c, g) in data.iter().zip(got) {
            row.push(match g {
                Some(bytes) => Column::Known(bytes),
                None if c.size == 0 => Column::Known(&[]),
                None => Column::Lost(buffers.next()?),
            });
        }
        raidz::reconstruct(columns.get(..n)?, &mut row).ok()?;
    }
    let mut found = lost.iter();
    for (c, g) in data.iter().zip(got).filter(|(c, _)| c.size > 0) {
        let bytes = match g {
            Some(bytes) => bytes,
            None => found.next()?.as_slice(),
        };
        let at = usize::try_from(c.at).ok()?;
        out.get_mut(at..at.checked_add(bytes.len())?)?.copy_from_slice(bytes);
    }
    Some(())
}
