//! Dirty time logs: the txgs a device missed.
//!
//! A device that was away while others were written holds older bytes where those txgs wrote.
//! OpenZFS keeps the txgs per device in a space map whose units are txgs. A reader that knows
//! them asks such a device last, and does not call its old bytes a fault. Nothing depends on
//! them: a block proves itself by its checksum, so a log that cannot be read costs only time.

use dmu::{ErrorKind, NewObject, Objset, Tx};
use ondisk::spacemap::{self, Action, DTL_SHIFT, Encoder, Entry, Range, SpaceMapHeader};
use ondisk::{DmuType, Endian};
use std::collections::BTreeMap;
use vdev::Txgs;

/// The DTLs of the MOS, by the guids of the leaves.
pub(crate) type DirtyTimeLogs = BTreeMap<u64, Txgs>;

/// Longest log that is read, in bytes. A log is rewritten when it has become long; one of a million
/// entries only means that the device is useless.
const LOG_MAX: u64 = 8 << 20;

/// The txgs in the log that is MOS object `number`, ascending and apart.
pub(crate) fn read(mos: &Objset, number: u64) -> dmu::Result<Txgs> {
    let object = mos.object(number)?;
    let dnode = object.dnode();
    let bad = |e| object.format_error(0, e);
    let header = SpaceMapHeader::decode(&dnode.bonus, dnode.endian).map_err(bad)?;
    if header.length > LOG_MAX.min(object.size_of_blocks()) {
        return Err(object.error(ErrorKind::Tree("a log of missed txgs is too long")));
    }
    let mut bytes = vec![0; header.length as usize];
    object.read_at(0, &mut bytes)?;
    let mut txgs = Txgs::default();
    for entry in spacemap::entries(&bytes, dnode.endian, 0, DTL_SHIFT) {
        if let Entry::Range(r) = entry.map_err(bad)? {
            let end = r.offset.saturating_add(r.size);
            match r.action {
                Action::Alloc => txgs.add(r.offset, end),
                Action::Free => txgs.remove(r.offset, end),
            }
        }
    }
    Ok(txgs)
}

/// Block size of a new log in bytes, as OpenZFS's `zfs_vdev_dtl_sm_blksz`.
const BLOCK: u32 = 4 << 10;

/// Makes an empty log; its number.
pub(crate) fn create(mos: &Objset, tx: &Tx, histogram: bool) -> dmu::Result<u64> {
    let header = SpaceMapHeader::new(histogram).encode(Endian::Little);
    let spec = NewObject::new(DmuType::SPACE_MAP).block_size(BLOCK);
    Ok(mos.create(tx, &spec.bonus(DmuType::SPACE_MAP_HEADER, &header))?.number())
}

/// Rewrites the log that is MOS object `number`.
pub(crate) fn write(mos: &Objset, tx: &Tx, number: u64, txgs: Option<&Txgs>) -> dmu::Result<()> {
    let object = mos.object(number)?;
    let dnode = object.dnode();
    let bad = |e| object.format_error(0, e);
    let old = SpaceMapHeader::decode(&dnode.bonus, dnode.endian).map_err(bad)?;
    // One-word entries do for txgs, however long the runs are.
    let mut entries = Encoder::new(0, DTL_SHIFT, false, dnode.block_size() as usize, 0);
    let mut count = 0u64;
    for run in txgs.into_iter().flat_map(Txgs::runs) {
        let (offset, size) = (*run.start(), run.end() - run.start() + 1);
        count = count.saturating_add(size);
        let range = Range { action: Action::Alloc, vdev: None, offset, size };
        entries.range(range).map_err(bad)?;
    }
    let bytes = entries.finish(Endian::Little);
    let mut header = SpaceMapHeader::new(old.histogram.is_some());
    header.length = bytes.len() as u64;
    header.allocated = count.cast_signed();
    object.free_range(tx, 0, u64::MAX)?;
    mos.object(number)?.write_at(tx, 0, &bytes)?;
    let bonus = header.encode(Endian::Little);
    mos.object(number)?.set_bonus(tx, DmuType::SPACE_MAP_HEADER, &bonus)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may stop where it likes")]
mod tests {
    use super::*;

    /// `degraded-raidz`: a disk was taken offline and never came back.
    #[test]
    fn a_disk_that_was_away_missed_what_was_written_since() {
        let corpus = testkit::corpus("degraded-raidz");
        let mut options = crate::OpenOptions::default();
        options.search.paths = vec![corpus.dir.clone()];
        let pool = crate::Pool::open(corpus.name(), &options).unwrap();
        let disks = pool.config().vdev_tree.walk().filter(|v| v.kind.is_leaf());
        let (away, present): (Vec<_>, Vec<_>) = disks.partition(|v| v.offline);
        let log = |v: &ondisk::config::VdevConfig| match v.dtl {
            Some(number) if number != 0 => read(pool.mos(), number).unwrap(),
            _ => Txgs::default(),
        };
        assert!(present.into_iter().all(|v| log(v).is_empty()));
        let label = pool.candidate().leaves[&away[0].guid].txg;
        let missed = log(away[0]);
        let (first, last) = missed.bounds().unwrap();
        assert!(first > label, "{missed:?}, its label is of {label}");
        assert_eq!(last, pool.uberblock().txg, "{missed:?}");
    }
}
