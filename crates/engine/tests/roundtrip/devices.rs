//! Devices: labels with their configuration, boot environment and uberblocks; gang headers.

use crate::tally::Tally;
use engine::Pool;
use engine::inside::codec::checksum::verify_gang_header;
use engine::inside::dmu::{Block, Object, Objset};
use engine::inside::ondisk::gang::GANG_HEADER_SIZE;
use engine::inside::ondisk::label::{BootEnv, LABEL_SIZE, Label, Part, label_offsets};
use engine::inside::ondisk::{BlkPtr, Endian, GangHeader, NvList, Uberblock};
use engine::inside::pool::UnguardedDatasets as _;
use engine::inside::vdev::BlockRead;
use std::collections::BTreeSet;
use std::os::unix::fs::FileExt as _;
use testkit::CorpusPool;

/// The labels of every image.
pub(crate) fn labels(case: &CorpusPool, tally: &mut Tally) {
    for image in &case.images {
        let file = std::fs::File::open(image).expect("an image");
        let size = file.metadata().expect("an image").len();
        for offset in label_offsets(size).expect("large enough") {
            let mut bytes = vec![0; LABEL_SIZE as usize];
            file.read_exact_at(&mut bytes, offset).expect("an image");
            label(&Label::new(&bytes).expect("as long as a label"), tally);
        }
    }
}

fn label(label: &Label<'_>, tally: &mut Tally) {
    let part = label.part(Part::Config);
    let Ok((list, packing, used)) = NvList::decode_packed(part) else {
        tally.count("label without configuration");
        return;
    };
    tally.same("label configuration", &part[..used], &list.encode(packing).expect("as it was"));
    let part = label.part(Part::BootEnv);
    let encoded = BootEnv::decode(part).and_then(|env| env.encode()).expect("a sound pool");
    tally.same("boot environment", &part[..encoded.len()], &encoded);
    // Slots of 1 KiB: every larger slot begins where one of these does, and what is in between is
    // zeros or an embedded checksum, no uberblock.
    for (_, slot) in label.slots(10) {
        let Ok((uberblock, order)) = Uberblock::decode(slot) else { continue };
        let encoded = uberblock.encode(order);
        tally.same("uberblock", &slot[..encoded.len()], &encoded);
        let foreign = Uberblock::decode(&uberblock.encode(order.swapped()));
        tally.equal("uberblock", &Ok((uberblock, order.swapped())), &foreign);
    }
}

/// The header of every gang block below the MOS and the heads.
pub(crate) fn gang_headers(pool: &Pool, tally: &mut Tally) {
    let mut found = BTreeSet::new();
    let mut note = |bp: &BlkPtr| {
        if bp.is_gang() {
            found.insert(*bp.words());
        }
    };
    note(&pool.uberblock().rootbp);
    pointers(pool.mos(), &mut note);
    for dataset in crate::open::datasets(pool).iter().filter(|d| !d.is_snapshot()) {
        note(&dataset.phys.bp);
        pointers(&pool.dsl().objset(dataset).expect("a sound pool"), &mut note);
    }
    for words in found {
        gang_header(pool, &BlkPtr::from_words(words), tally);
    }
}

/// Every pointer of an object set.
fn pointers(objset: &Objset, note: &mut dyn FnMut(&BlkPtr)) {
    let all = objset.objects().map(|o| o.expect("a sound pool"));
    for object in objset.meta_object().into_iter().chain(all) {
        let dnode = object.dnode();
        dnode.blkptrs.iter().chain(&dnode.spill).for_each(&mut *note);
        for (i, bp) in dnode.blkptrs.iter().enumerate() {
            if !bp.is_hole() && dnode.levels > 1 {
                below(&object, dnode.levels - 1, i as u64, note);
            }
        }
    }
}

fn below(object: &Object, level: u8, blkid: u64, note: &mut dyn FnMut(&BlkPtr)) {
    let block = object.read_indirect(level, blkid).expect("a sound pool").expect("no hole");
    for (i, bp) in pointers_in(&block).enumerate() {
        note(&bp);
        if level > 1 && !bp.is_hole() {
            below(object, level - 1, blkid * (block.len() / 128) as u64 + i as u64, note);
        }
    }
}

fn pointers_in(block: &Block) -> impl Iterator<Item = BlkPtr> {
    block.chunks_exact(128).map(|c| BlkPtr::decode(c, block.endian()).expect("128 bytes"))
}

fn gang_header(pool: &Pool, bp: &BlkPtr, tally: &mut Tally) {
    let (_, dva) = bp.dvas().find(|(_, d)| d.is_gang()).expect("a gang");
    let (birth, first) = (bp.physical_birth(), bp.dva(0));
    let verify =
        |b: &[u8]| verify_gang_header(b, first.vdev().into(), first.offset(), birth, false).is_ok();
    let read = BlockRead {
        dva,
        size: GANG_HEADER_SIZE as u64,
        birth,
        verify: &verify,
        speculative: false,
    };
    let bytes = pool.vdevs().read(read).data.expect("a sound pool");
    let order: Endian = bp.byteorder();
    // The trailer with the checksum is for the I/O layer, which writes it last; the header keeps
    // it as bytes, so the other order leaves it as it is.
    let what = "gang header";
    let header = tally.round(what, &bytes, order, GangHeader::decode, GangHeader::encode);
    for part in header.into_iter().flat_map(|h| h.parts).filter(BlkPtr::is_gang) {
        gang_header(pool, &part, tally);
    }
}
