//! Encrypted datasets without their key: what is not encrypted in them can still be shown.
//!
//! Of an encrypted dataset the shape is in the clear: object set headers, dnodes but for their
//! bonus, block pointers, and tables such as the master node. Checksums are verified; the MACs,
//! which need the key, are not.

use engine::inside::codec::compress;
use engine::inside::device::AlignedBuf;
use engine::inside::dmu::{BlockStore, CachedStore, Key, Objset, Place};
use engine::inside::ondisk::{BlkPtr, Compression, DmuType};
use engine::inside::pool::UnguardedDatasets as _;
use engine::inside::vdev::Scope;
use engine::inside::zio;
use engine::inside::zio::{Block, ErrorKind, Request};
use engine::{Dataset, Pool};
use std::sync::Arc;

/// Reads blocks as they are stored, and decompresses what is not encrypted.
struct Store(Arc<CachedStore>);

impl Store {
    fn raw(&self, bp: &BlkPtr, place: Place) -> zio::Result<Arc<Block>> {
        let fail = |kind| zio::Error { place, copies: String::new(), kind, faults: Vec::new() };
        if bp.is_encrypted() && bp.dmu_type() != DmuType::DNODE {
            return Err(fail(ErrorKind::NoKey));
        }
        let request = Request { bp, place, key: None, scope: Scope::Data, raw: true };
        let block = self.0.reader().read(request).block?;
        if bp.compression() == Compression::OFF {
            return Ok(Arc::new(block));
        }
        let number = bp.compression().0;
        let algorithm = compress::from_number(number)
            .ok_or_else(|| fail(ErrorKind::UnknownAlgorithm { what: "compression", number }))?;
        let mut out = AlignedBuf::zeroed(bp.lsize() as usize);
        compress::decompress(algorithm, &block, &mut out)
            .map_err(|_| fail(ErrorKind::Decompression))?;
        Ok(Arc::new(Block::new(out, bp.byteorder())))
    }
}

impl BlockStore for Store {
    fn read(&self, bp: &BlkPtr, place: Place, key: Option<&Key>) -> zio::Result<Arc<Block>> {
        if bp.uses_crypt() && key.is_none() && !bp.is_hole() {
            return self.raw(bp, place);
        }
        self.0.read(bp, place, key)
    }

    fn rt(&self) -> engine::Rt {
        self.0.rt()
    }
}

/// The dataset is encrypted and its key is not loaded.
pub(crate) fn is_locked(pool: &Pool, dataset: &Dataset) -> bool {
    dataset.phys.bp.uses_crypt() && !pool.dsl().is_unlocked(dataset).unwrap_or(false)
}

/// Opens the object set of a locked dataset.
pub(crate) fn open(pool: &Pool, dataset: &Dataset) -> Result<Objset, String> {
    let store: Arc<dyn BlockStore> = Arc::new(Store(Arc::clone(pool.store())));
    Objset::open(store, dataset.object, &dataset.phys.bp, None).map_err(|e| e.to_string())
}
