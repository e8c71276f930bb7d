//! Writing bytes that are not block: copies of what is on a vdev that leaves its pool.

use super::{BlockKey, Flight, UnsyncedCopy, Writer};
use crate::block::Place;
use device::{AlignedBuf, Shared};
use ondisk::blkptr::BlkPtrParts;
use ondisk::{BlkPtr, Checksum, Compression, DmuType, Dva, Endian};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use vdev::queue::IoClass;

impl Writer {
    /// Writes bytes as they are to space that was taken for them, as a part of `txg`, of which they
    /// share the fate: [`Self::wait_txg`] waits for them, and they are written again with the rest.
    /// Waits only for room among the bytes in flight. Nothing reads them from memory.
    pub fn write_raw(&self, dva: Dva, bytes: AlignedBuf, txg: u64) {
        let core = Arc::clone(&self.core);
        let data = Shared::from(bytes);
        core.flow.enter(txg, data.len() as u64);
        // A substitute for a pointer: an address and a birth. No entry of the table has serial 0.
        let bp = BlkPtr::build(&BlkPtrParts {
            dvas: [dva, Dva::default(), Dva::default()],
            lsize: data.len() as u64,
            psize: data.len() as u64,
            compression: Compression::OFF,
            checksum_kind: Checksum::OFF,
            checksum: [0; 4],
            kind: DmuType::NONE,
            level: 0,
            endian: Endian::Little,
            birth: txg,
            fill: 0,
            crypt: None,
        });
        let (place, left) = (Place::default(), AtomicUsize::new(1));
        let flight = Arc::new(Flight { core, bp, serial: 0, place, left });
        let (block, class) = (BlockKey::of(&bp), IoClass::Removal);
        let copy = UnsyncedCopy { flight, block, dva, data, class, is_first: true };
        self.issue.send(vec![copy.write(None)]);
    }
}
