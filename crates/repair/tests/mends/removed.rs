//! What is recorded as obsolete of removed vdevs.

use super::kit::*;
use dmu::Zap;
use ondisk::config::VdevKind;
use ondisk::indirect::MappingEntry;
use ondisk::mos::vdev_zap;

/// The objects of the only removed vdev: the map of what is obsolete of it and the counts of the
/// entries of its mapping, and these.
fn records(s: &Surgeon) -> (u64, u64, Vec<MappingEntry>) {
    let pool = s.open();
    let mut tops = pool.config().vdev_tree.children.iter();
    let top = tops.find(|top| top.kind == VdevKind::Indirect).expect("a removed vdev");
    let table = pool.mos().object(top.vdev_zap_top.unwrap()).unwrap();
    let map = Zap::open(&table).unwrap().get_u64(vdev_zap::INDIRECT_OBSOLETE_SPACE_MAP).unwrap();
    let (header, entries) =
        pool::indirect_mapping(pool.mos(), top.indirect_object.unwrap()).unwrap();
    (map.expect("a map"), header.counts_object.expect("counts"), entries)
}

fn sample() -> Surgeon {
    Surgeon::new(&testkit::sample("obsolete"))
}

#[test]
fn less_is_recorded_as_obsolete_than_is() {
    let s = sample();
    let (map, ..) = records(&s);
    // The header's second word is the length of the entries.
    s.edit_bonus((0, map), 8, |_| 0);
    let steps = mends(&s, &["obsolete"], Zdb::Errs);
    assert!(matches!(&steps[..], [Step::Obsolete { bytes: 1.., .. }]), "{steps:?}");
}

/// OpenZFS would drop all of the mapping.
#[test]
fn more_is_recorded_as_obsolete_than_is() {
    let s = sample();
    let (_, counts, entries) = records(&s);
    let all: Vec<u8> = entries.iter().flat_map(|e| (e.size() as u32).to_le_bytes()).collect();
    let live = live(&s);
    live.run(move |cx| Ok(cx.dsl().mos.object(counts)?.write_at(cx.tx, 0, &all)?)).unwrap();
    live.export().unwrap();
    let steps = mends(&s, &["obsolete"], Zdb::Errs);
    assert!(matches!(&steps[..], [Step::Obsolete { .. }]), "{steps:?}");
}
