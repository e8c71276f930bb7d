//! Changes to what a pool holds, as a pool would make them: copy on write, up to the uberblock.
//!
//! A changed block is written, uncompressed, to space at the end of the vdev that nothing uses,
//! and every block above it likewise, until a new root goes into every uberblock of the newest
//! txg. Only for pools whose vdev 0 is a disk or a mirror; all devices get the same bytes.

use super::{Lab, Slot};
use codec::checksum::{Algorithm, ByteOrder, Salted, compute};
use dmu::Objset;
use ondisk::blkptr::BLKPTR_SIZE;
use ondisk::dnode::{DNODE_CORE_SIZE, DNODE_SLOT_SIZE, Dnode};
use ondisk::label::DATA_START;
use ondisk::{BlkPtr, Checksum, Compression, Dva, Endian};
use pool::Pool;
use zio::{Place, Request};

pub struct Forge {
    pub lab: Lab,
    pool: Pool,
    next: u64,
    root: BlkPtr,
}

impl Forge {
    pub fn new(lab: &Lab) -> Self {
        let pool = lab.open();
        let asize = pool.config().vdev_tree.children[0].asize.unwrap();
        let root = pool.uberblock().rootbp;
        // The last metaslab of these small pools is empty; there is no other need for truth.
        Self { lab: lab.clone(), pool, next: asize - (8 << 20), root }
    }

    fn read(&self, bp: &BlkPtr) -> Vec<u8> {
        // From the images as they are now: a block may have been forged a moment ago.
        let device = self.lab.images.values().next().unwrap();
        let (_, dva) = bp.dvas().next().unwrap();
        if bp.compression() == Compression::OFF {
            let mut bytes = vec![0; bp.psize() as usize];
            device.read_at(DATA_START + dva.offset(), &mut bytes).unwrap();
            return bytes;
        }
        let place = Place::objset(0);
        let scope = vdev::Scope::Data;
        let request = Request { bp, place, key: None, scope, raw: false };
        self.pool.reader().read(request).block.unwrap().bytes().to_vec()
    }

    /// Writes `bytes` to a new place; the pointer takes type, level and birth
    /// from `old`.
    fn put(&mut self, old: &BlkPtr, bytes: &[u8]) -> BlkPtr {
        let len = (bytes.len() as u64).next_multiple_of(4096);
        let offset = self.next;
        self.next += len;
        for image in self.lab.images.values_mut() {
            image.write_at(DATA_START + offset, bytes).unwrap();
        }
        let mut words = *old.words();
        words[..6].fill(0);
        // The payload of an embedded block went on here.
        words[7..10].fill(0);
        words[11] = words[11].clamp(1, u64::from(u32::MAX));
        words[..2].copy_from_slice(&Dva::new(0, offset, len, false).words());
        let sectors = bytes.len() as u64 / 512 - 1;
        // Sizes, compression off, not embedded, Fletcher-4; type, level and byte order stay.
        words[6] = (words[6] & !0x0000_ffff_ffff_ffff)
            | sectors
            | sectors << 16
            | u64::from(Compression::OFF.0) << 32
            | u64::from(Checksum::FLETCHER_4.0) << 40;
        let salted = Salted::new(&[0; 32]);
        let digest = compute(Algorithm::Fletcher4, ByteOrder::Little, &salted, bytes);
        words[12..16].copy_from_slice(&digest.0);
        BlkPtr::from_words(words)
    }

    /// Replaces data block `blkid` of the object whose dnode these bytes are.
    fn set_in_dnode(&mut self, dnode: &mut [u8], blkid: u64, data: &[u8]) {
        let decoded = Dnode::decode(dnode, Endian::Little).unwrap();
        let fanout = 1u64 << (decoded.indirect_shift - 7);
        let index = blkid / fanout.pow(u32::from(decoded.levels) - 1);
        let at = DNODE_CORE_SIZE + index as usize * BLKPTR_SIZE;
        self.set_below(&mut dnode[at..at + BLKPTR_SIZE], decoded.levels, blkid, fanout, data);
    }

    fn set_below(&mut self, slot: &mut [u8], levels: u8, blkid: u64, fanout: u64, data: &[u8]) {
        let old = BlkPtr::decode(slot, Endian::Little).unwrap();
        let new = if levels == 1 {
            self.put(&old, data)
        } else {
            let mut block = self.read(&old);
            let index = (blkid / fanout.pow(u32::from(levels) - 2)) % fanout;
            let at = index as usize * BLKPTR_SIZE;
            self.set_below(&mut block[at..at + BLKPTR_SIZE], levels - 1, blkid, fanout, data);
            self.put(&old, &block)
        };
        slot.copy_from_slice(&new.encode(Endian::Little));
    }

    /// The dnode of a MOS object as it is now: its bytes, and the block they are in.
    fn mos_dnode(&self, number: u64) -> (Vec<u8>, Vec<u8>, u64, usize) {
        let root = self.read(&self.root);
        let meta = Dnode::decode(&root, Endian::Little).unwrap();
        let per_block = meta.block_size() / DNODE_SLOT_SIZE as u64;
        let blkid = number / per_block;
        let fanout = 1u64 << (meta.indirect_shift - 7);
        let top = fanout.pow(u32::from(meta.levels) - 1);
        let mut bp = meta.blkptrs[(blkid / top) as usize];
        for level in (1..meta.levels).rev() {
            let block = self.read(&bp);
            let index = (blkid / fanout.pow(u32::from(level) - 1)) % fanout;
            let at = index as usize * BLKPTR_SIZE;
            bp = BlkPtr::decode(&block[at..], Endian::Little).unwrap();
        }
        let block = self.read(&bp);
        let slot = (number % per_block) as usize * DNODE_SLOT_SIZE;
        (root, block, blkid, slot)
    }

    /// Edits the dnode of an object of the MOS.
    pub fn edit_dnode(&mut self, number: u64, edit: impl FnOnce(&mut Self, &mut [u8])) {
        let (mut root, mut block, blkid, slot) = self.mos_dnode(number);
        edit(self, &mut block[slot..]);
        self.set_in_dnode(&mut root, blkid, &block);
        let old = self.root;
        self.root = self.put(&old, &root);
    }

    /// Replaces block `blkid` of an object of the MOS.
    pub fn set_block(&mut self, number: u64, blkid: u64, data: &[u8]) {
        self.edit_dnode(number, |forge, dnode| forge.set_in_dnode(dnode, blkid, data));
    }

    /// Edits block `blkid` of an object of the MOS.
    pub fn edit_block(&mut self, number: u64, blkid: u64, edit: impl FnOnce(&mut [u8])) {
        let object = self.mos().object(number).unwrap();
        let mut block = object.read_block(blkid).unwrap().unwrap().bytes().to_vec();
        edit(&mut block);
        self.set_block(number, blkid, &block);
    }

    pub fn mos(&self) -> &Objset {
        self.pool.mos()
    }

    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// The images, with the new root in the uberblocks of the txg that was open.
    pub fn finish(mut self) -> Lab {
        let (txg, root) = (self.pool.uberblock().txg, self.root);
        self.lab.edit_uberblocks(|ub| {
            let mut new = *ub;
            new.rootbp = root;
            (ub.txg == txg).then_some(Slot::New(new, ByteOrder::Little))
        });
        self.lab
    }
}
