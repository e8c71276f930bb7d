//! Labels, uberblocks and configurations against those that OpenZFS 2.3.2 wrote: small samples
//! (`data/config`, `data/uberblock`), and every label of every device of the corpus.
#![allow(clippy::unwrap_used, reason = "a test ends where something is missing")]

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use ondisk::config::{LabelConfig, PoolConfig, PoolState, VdevKind, aux_devices};
use ondisk::label::{self, BootEnv, LABEL_SIZE, Label, Part};
use ondisk::nvlist::{NvList, NvValue, Packing};
use ondisk::uberblock::{
    MMP_MAGIC, Mmp, ReflowScratch, UBERBLOCK_SIZE, Uberblock, slot_count, slot_size,
};
use ondisk::{Endian, ErrorKind, features};
use proptest::prelude::*;

macro_rules! sample {
    ($name:literal) => {
        NvList::decode(include_bytes!(concat!("data/config/", $name, ".bin"))).unwrap()
    };
}

fn member(list: &NvList) -> PoolConfig {
    match LabelConfig::decode(list).unwrap() {
        LabelConfig::Member(c) => *c,
        other => panic!("not a pool's device: {other:?}"),
    }
}

#[test]
fn label_of_a_disk() {
    let c = member(&sample!("label-disk"));
    assert_eq!((c.version, c.name.as_str(), c.state), (5000, "tank", PoolState::Exported));
    assert_eq!(c.hostname.as_deref(), Some("(none)"));
    assert_eq!(c.vdev_children, Some(1));
    assert_eq!(c.top_guid, c.guid);
    let v = &c.vdev_tree;
    assert_eq!((&v.kind, v.ashift, v.is_log), (&VdevKind::Disk, Some(9), false));
    assert_eq!((v.path.as_deref(), v.whole_disk), (Some("/dev/img0"), Some(false)));
    assert_eq!((v.create_txg, Some(v.guid)), (Some(4), c.guid));
    let needed =
        ["com.delphix:hole_birth", "com.delphix:embedded_data", "com.klarasystems:vdev_zaps_v2"];
    assert_eq!(c.features_for_read, needed);
    assert!(needed.iter().all(|g| features::by_guid(g).unwrap().is_needed_for_mos()));
}

#[test]
fn label_of_a_pool_in_use() {
    assert_eq!(member(&sample!("label-active")).state, PoolState::Active);
}

#[test]
fn label_of_an_expanded_raidz() {
    let v = member(&sample!("label-raidz-expanded")).vdev_tree;
    assert_eq!((&v.kind, v.children.len()), (&VdevKind::Raidz { nparity: 1 }, 4));
    assert_eq!((v.raidz_expanding, &v.raidz_expand_txgs), (false, &vec![53]));
    assert_eq!(v.children.iter().map(|c| c.id).collect::<Vec<_>>(), [0, 1, 2, 3]);
    assert_eq!(v.children[1].dtl, Some(120));
    assert_eq!(v.walk().count(), 5);
    assert_eq!(v.find(2_780_599_788_276_789_050).unwrap().path.as_deref(), Some("/dev/img3"));
}

#[test]
fn label_of_a_draid() {
    let v = member(&sample!("label-draid")).vdev_tree;
    assert_eq!(v.children.len(), 8);
    let VdevKind::Draid { nparity, ndata, nspares, ngroups } = v.kind else {
        panic!("{:?}", v.kind)
    };
    assert_eq!((nparity, ndata, nspares), (2, 3, 1));
    // A slice ends where whole groups fill whole rows of the seven columns.
    assert_eq!(ngroups * 5 % 7, 0);
}

#[test]
fn label_with_an_offline_disk() {
    let v = member(&sample!("label-offline-child")).vdev_tree;
    assert_eq!(v.children.iter().map(|c| c.offline).collect::<Vec<_>>(), [false, false, true]);
    assert_eq!(v.children[2].dtl, Some(108));
}

#[test]
fn labels_of_log_cache_and_spare() {
    let log = member(&sample!("label-log"));
    assert!(log.is_log && log.vdev_tree.is_log);

    let LabelConfig::Aux(cache) = LabelConfig::decode(&sample!("label-cache")).unwrap() else {
        panic!("a cache device is not a member")
    };
    assert_eq!((cache.state, cache.ashift), (PoolState::L2cache, Some(12)));
    assert_eq!(cache.path.as_deref(), Some("/dev/img7"));

    let spare = LabelConfig::decode(&sample!("label-spare")).unwrap();
    assert_eq!(spare.state(), PoolState::Spare);
    let listed = aux_devices(&sample!("list-spares"), "spares").unwrap();
    assert_eq!(listed.iter().map(|v| Some(v.guid)).collect::<Vec<_>>(), [spare.guid()]);
    assert!(listed[0].is_spare);
    let listed = aux_devices(&sample!("list-l2cache"), "l2cache").unwrap();
    assert_eq!((listed[0].guid, &listed[0].kind), (cache.guid, &VdevKind::Disk));
}

#[test]
fn label_of_version_28() {
    let c = member(&sample!("label-version28"));
    assert_eq!((c.version, c.features_for_read.len()), (28, 0));
    assert!(features::is_known_version(c.version));
}

#[test]
fn configuration_in_the_mos() {
    let c = PoolConfig::decode(&sample!("mos-stripe")).unwrap();
    assert!(c.has_per_vdev_zaps);
    assert_eq!((&c.vdev_tree.kind, c.vdev_tree.children.len()), (&VdevKind::Root, 5));
    assert_eq!(c.vdev_children, Some(5));
    assert_eq!(c.guid, None);
    assert_eq!(c.vdev_tree.guid, c.pool_guid);
    assert!(c.vdev_tree.vdev_zap_root.is_some());
    let tops = &c.vdev_tree.children;
    assert_eq!(
        tops.iter().map(|v| v.is_log).collect::<Vec<_>>(),
        [false, false, false, true, false]
    );
    assert!(tops.iter().all(|v| v.vdev_zap_top.is_some() && v.alloc_bias.is_none()));
    assert!(tops[0].children.iter().all(|v| v.vdev_zap_leaf.is_some()));

    let c = PoolConfig::decode(&sample!("mos-comment")).unwrap();
    assert_eq!(c.comment.as_deref(), Some("a pool with a past"));
}

#[test]
fn configuration_with_a_removed_vdev() {
    let c = PoolConfig::decode(&sample!("mos-removed")).unwrap();
    let kinds: Vec<_> = c.vdev_tree.children.iter().map(|v| v.kind.clone()).collect();
    assert_eq!(kinds, [VdevKind::Disk, VdevKind::Indirect, VdevKind::Disk]);
    let gone = &c.vdev_tree.children[1];
    assert!(gone.indirect_object.is_some() && gone.indirect_births.is_some());
    assert_eq!(gone.prev_indirect_vdev, None);
    assert!(c.features_for_read.iter().any(|g| g == "com.delphix:device_removal"));
    assert_eq!(member(&sample!("label-beside-removed")).vdev_tree.id, 2);
}

#[test]
fn trees_become_the_lists_they_were() {
    for list in [
        sample!("label-raidz-expanded"),
        sample!("label-draid"),
        sample!("mos-stripe"),
        sample!("mos-removed"),
        sample!("mos-raidz-expanded"),
        sample!("mos-version28"),
    ] {
        let c = PoolConfig::decode(&list).unwrap();
        assert_eq!(&c.vdev_tree.to_nvlist(), list.list("vdev_tree").unwrap());
    }
}

/// Every number that geometry is calculated from, out of its range.
#[test]
fn impossible_geometry_is_refused() {
    let raidz = sample!("label-raidz-expanded");
    let draid = sample!("label-draid");
    let cases = [
        (&raidz, "ashift", 8),
        (&raidz, "ashift", 17),
        (&raidz, "ashift", 1 << 40),
        (&raidz, "metaslab_shift", 64),
        (&raidz, "nparity", 0),
        (&raidz, "nparity", 4),
        (&draid, "draid_ndata", 0),
        (&draid, "draid_ndata", 6),
        (&draid, "draid_nspares", 4),
        (&draid, "draid_ngroups", 0),
    ];
    for (list, name, value) in cases {
        let mut list = list.clone();
        let mut tree = list.list("vdev_tree").unwrap().clone();
        tree.set(name, NvValue::U64(value));
        list.set("vdev_tree", NvValue::NvList(tree));
        let e = PoolConfig::decode(&list).unwrap_err();
        assert!(matches!(e.kind, ErrorKind::OutOfRange { .. }), "{name} {value}: {e}");
    }
    let mut list = raidz.clone();
    let mut tree = list.list("vdev_tree").unwrap().clone();
    tree.set("children", NvValue::NvListArray(Vec::new()));
    list.set("vdev_tree", NvValue::NvList(tree));
    assert_eq!(PoolConfig::decode(&list).unwrap_err().field, "children");
}

#[test]
fn missing_members_are_named() {
    for name in ["version", "name", "state", "txg", "pool_guid", "vdev_tree"] {
        let mut list = sample!("label-disk");
        list.remove(name);
        let e = LabelConfig::decode(&list).unwrap_err();
        assert_eq!((e.field, e.kind), (name, ErrorKind::Missing));
    }
}

#[test]
fn labels_on_a_device() {
    const K: u64 = 1 << 10;
    let size = (64 << 20) + 100 * K;
    let end = 64 << 20;
    assert_eq!(label::label_offsets(size).unwrap(), [0, 256 * K, end - 512 * K, end - 256 * K]);
    assert_eq!(label::part_offset(size, 3, Part::Config), Some(end - 240 * K));
    assert_eq!(label::part_offset(size, 4, Part::Config), None);
    assert_eq!(label::data_size(size), end - (4 << 20) - 512 * K);
    assert_eq!(label::label_offsets(0), None);
    assert_eq!(label::label_offsets((4 << 20) + 512 * K), None);
    assert!(label::label_offsets(u64::MAX).is_some());
    let parts = [Part::Blank, Part::BootEnv, Part::Config, Part::Ring];
    assert_eq!(parts.iter().map(|p| p.size()).sum::<u64>(), LABEL_SIZE);
    assert!(parts.windows(2).all(|p| p[0].start() + p[0].size() == p[1].start()));
}

#[test]
fn rings_of_all_sector_sizes() {
    let expected =
        [(0, 1024), (9, 1024), (10, 1024), (12, 4096), (13, 8192), (16, 8192), (99, 8192)];
    let data = vec![0; LABEL_SIZE as usize];
    for (ashift, size) in expected {
        assert_eq!((slot_size(ashift), slot_count(ashift)), (size, (128 << 10) / size));
        let slots: Vec<_> = Label::new(&data).unwrap().slots(ashift).collect();
        assert_eq!(slots.len(), slot_count(ashift));
        assert_eq!(slots[1].0, (128 << 10) + size as u64);
    }
    assert!(Label::new(&data[1..]).is_err());
}

#[test]
fn uberblocks_as_written() {
    let samples: [(&[u8], u64, u64); 3] = [
        (include_bytes!("data/uberblock/version28.bin"), 28, 20),
        (include_bytes!("data/uberblock/checkpoint.bin"), 5000, 30),
        (include_bytes!("data/uberblock/raidz-reflow.bin"), 5000, 36),
    ];
    for (bytes, version, txg) in samples {
        let (u, endian) = Uberblock::decode(bytes).unwrap();
        assert_eq!((u.version, u.txg, endian), (version, txg, Endian::Little));
        assert_eq!((u.software_version, u.rootbp.logical_birth()), (5000, txg));
        assert_eq!(u.mmp().unwrap().delay, 0);
        assert_eq!(u.encode(Endian::Little), bytes);
        let big = u.encode(Endian::Big);
        assert_eq!(Uberblock::decode(&big).unwrap(), (u, Endian::Big));
        for end in 0..bytes.len() {
            assert!(Uberblock::decode(&bytes[..end]).is_err());
        }
    }
    let (u, _) = Uberblock::decode(samples[2].0).unwrap();
    assert_eq!(u.raidz_reflow(), (ReflowScratch::InvalidSyncedReflow, 14_680_064));
    let e = Uberblock::decode(&[0; UBERBLOCK_SIZE]).unwrap_err();
    assert_eq!((e.field, e.kind), ("magic", ErrorKind::BadMagic { found: 0 }));
}

#[test]
fn multihost_fields_and_age() {
    let (mut u, _) = Uberblock::decode(include_bytes!("data/uberblock/version28.bin")).unwrap();
    u.mmp_delay = 1_000_000;
    u.mmp_config = 0x0014_0005_0003_e807;
    let mmp =
        Mmp { delay: 1_000_000, interval: Some(1000), sequence: Some(5), fail_intervals: Some(20) };
    assert_eq!(u.mmp(), Some(mmp));
    let mut later = Uberblock { mmp_config: 0x0014_0006_0003_e807, ..u };
    assert!(later.cmp_age(&u).is_gt());
    later.timestamp -= 1;
    assert!(later.cmp_age(&u).is_lt(), "time counts before the write counter");
    later.txg += 1;
    assert!(later.cmp_age(&u).is_gt(), "the txg counts before all");
    let old = Uberblock { mmp_magic: MMP_MAGIC + 1, ..u };
    assert_eq!((old.mmp(), old.cmp_age(&u).is_lt()), (None, true));
}

#[test]
fn boot_environments() {
    let size = Part::BootEnv.size() as usize;
    assert_eq!(BootEnv::decode(&vec![0; size]).unwrap(), BootEnv::Empty);
    let mut list = NvList::new();
    list.set("version", NvValue::U64(1));
    for env in [BootEnv::Empty, BootEnv::Raw(b"saved_entry=0\n".to_vec()), BootEnv::NvList(list)] {
        let mut part = env.encode().unwrap();
        assert_eq!(part.len(), size - 40);
        part.resize(size, 0xff);
        assert_eq!(BootEnv::decode(&part).unwrap(), env);
    }
    assert!(BootEnv::Raw(vec![b'x'; size]).encode().is_err());
    let mut part = vec![0; size];
    part[7] = 2;
    assert_eq!(BootEnv::decode(&part).unwrap_err().kind, ErrorKind::Unknown { value: 2 });
}

#[test]
fn features_hang_together() {
    for f in &features::FEATURES {
        assert_eq!(features::by_guid(f.guid), Some(f));
        assert_eq!(features::by_name(f.name()), Some(f));
        assert!(f.depends.iter().all(|d| features::by_name(d).is_some()), "{f:?}");
        assert!(!f.is_per_dataset() || f.depends.contains(&"extensible_dataset"), "{f:?}");
        assert!(!(f.is_read_only_compatible() && f.is_needed_for_mos()), "{f:?}");
    }
    let unknown = ["com.delphix:hole_birth", "org.example:unheard_of"];
    assert_eq!(features::unreadable(unknown).collect::<Vec<_>>(), ["org.example:unheard_of"]);
    let known = (0..6000).filter(|v| features::is_known_version(*v));
    assert!(known.eq(features::VERSIONS.iter().map(|(v, _)| *v).chain([5000])));
}

#[test]
fn features_are_those_of_the_kernel_module() {
    let pool = testkit::corpus("basic");
    let module: Vec<&str> =
        pool.manifest["features"].as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(module.len(), features::FEATURES.len());
    assert!(module.iter().all(|name| features::by_name(name).is_some()));
}

/// Every label and every uberblock of every device of the corpus is understood and packs into the
/// same bytes.
#[test]
fn all_of_the_corpus() {
    for pool in testkit::corpus_cases().iter().map(|case| testkit::corpus(case)) {
        let guid = pool.manifest["guid"].as_u64().unwrap_or_default();
        for path in &pool.images {
            for bytes in labels(path) {
                check_label(&Label::new(&bytes).unwrap(), guid);
            }
        }
    }
}

/// The bytes of the four labels of an image.
fn labels(path: &Path) -> Vec<Vec<u8>> {
    let file = File::open(path).unwrap();
    let read = |offset| {
        let mut bytes = vec![0; LABEL_SIZE as usize];
        file.read_exact_at(&mut bytes, offset).unwrap();
        bytes
    };
    label::label_offsets(file.metadata().unwrap().len()).unwrap().into_iter().map(read).collect()
}

fn check_label(label: &Label<'_>, guid: u64) {
    let part = label.part(Part::Config);
    let (list, packing, used) = NvList::decode_packed(part).unwrap();
    assert_eq!(packing, Packing::XDR);
    assert_eq!(list.encode(packing).unwrap(), &part[..used]);
    assert_eq!(label.nvlist().unwrap(), list);
    assert_eq!(label.boot_env().unwrap(), BootEnv::Empty);
    let LabelConfig::Member(config) = label.config().unwrap() else { return };
    assert!(guid == 0 || config.pool_guid == guid);
    assert_eq!(&config.vdev_tree.to_nvlist(), list.list("vdev_tree").unwrap());
    assert_eq!(
        features::unreadable(config.features_for_read.iter().map(String::as_str)).count(),
        0
    );
    let mut newest = 0;
    for (_, slot) in label.slots(config.vdev_tree.ashift.unwrap()) {
        if Uberblock::detect(slot).is_none() {
            continue;
        }
        let (u, endian) = Uberblock::decode(slot).unwrap();
        assert_eq!(u.encode(endian), &slot[..UBERBLOCK_SIZE]);
        assert!(slot[UBERBLOCK_SIZE..slot.len() - 40].iter().all(|b| *b == 0));
        assert!(features::is_known_version(u.version));
        newest = newest.max(u.txg);
    }
    assert!(newest >= config.txg);
}

/// The first label of each device of the corpus reads as zdb prints it.
#[testkit::needs("zdb")]
#[test]
fn labels_read_as_zdb_prints_them() {
    for pool in testkit::corpus_cases().iter().map(|case| testkit::corpus(case)) {
        for path in &pool.images {
            let list = Label::new(&labels(path)[0]).unwrap().nvlist().unwrap();
            let output = testkit::oracle::zdb().arg("-l").arg(path).output().unwrap();
            let text = String::from_utf8(output.stdout).unwrap();
            let (_, body) = text.split_once("LABEL 0").unwrap();
            let start = body.find("    version").unwrap();
            let end = body.find("    labels = ").unwrap();
            assert_eq!(body[start..end], format!("{list:4}"), "{}", path.display());
        }
    }
}

proptest! {
    /// Damaged configurations are refused or decode; nothing in between.
    #[test]
    fn damage_does_no_harm(
        which in 0..4usize,
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let samples: [&[u8]; 4] = [
            include_bytes!("data/config/label-draid.bin"),
            include_bytes!("data/config/mos-removed.bin"),
            include_bytes!("data/config/label-raidz-expanded.bin"),
            include_bytes!("data/config/mos-stripe.bin"),
        ];
        let mut bytes = samples[which].to_vec();
        for (at, byte) in damage {
            let n = bytes.len();
            bytes[at.index(n)] = byte;
        }
        if let Ok(list) = NvList::decode(&bytes) {
            let _ = LabelConfig::decode(&list);
        }
    }

    #[test]
    fn noise_does_no_harm(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = Uberblock::decode(&bytes);
        let _ = BootEnv::decode(&bytes);
        let _ = label::decode_nvlist(&bytes);
    }
}
