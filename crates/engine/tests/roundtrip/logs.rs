//! Intent logs: the chain structure of each block, and its records.

use crate::tally::Tally;
use engine::inside::dmu::{Objset, Place};
use engine::inside::ondisk::Endian;
use engine::inside::ondisk::zil::{CHAIN_SIZE, Chain, ChainPlace, encode_records, records};
use engine::inside::zil::Log;

/// The log of an object set, if it has one.
pub(crate) fn intent_log(objset: &Objset, tally: &mut Tally) {
    for block in &Log::read(objset).blocks {
        let level = Place::LEVEL_ZIL;
        let name = Place { objset: objset.id(), object: 0, level, blkid: block.seq };
        let bytes = objset.store().read(&block.bp, name, objset.key()).expect("was read before");
        let place = ChainPlace::of(block.bp.checksum_kind()).expect("a log block");
        let order = bytes.endian();
        let at = match place {
            ChainPlace::Front => 0,
            ChainPlace::Back => bytes.len() - CHAIN_SIZE,
        };
        let chain = Chain::decode(&bytes, place, order).expect("was decoded before");
        tally.same("intent log block", &bytes[at..at + CHAIN_SIZE], &chain.encode(order));
        // By way of the other order: a whole block, because the number of bytes used is checked.
        let mut foreign = bytes.to_vec();
        foreign[at..at + CHAIN_SIZE].copy_from_slice(&chain.encode(order.swapped()));
        let again = Chain::decode(&foreign, place, order.swapped());
        tally.equal("intent log block", &Ok(chain), &again);
        records_of(chain.records_in(&bytes, place), order, tally);
    }
}

fn records_of(stored: &[u8], order: Endian, tally: &mut Tally) {
    let all = |bytes: &[u8], order| records(bytes, order).collect::<Result<Vec<_>, _>>();
    let decoded = all(stored, order).expect("was decoded before");
    tally.same("intent log records of a block", stored, &encode_records(&decoded, order));
    for record in decoded {
        let foreign = record.encode(order.swapped());
        tally.equal("intent log record", &Ok(vec![record]), &all(&foreign, order.swapped()));
    }
}
