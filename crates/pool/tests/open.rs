//! Opening: labels and uberblocks that are damaged, old, foreign or doubled, pools side by side,
//! formats from the future, and damage in the structures an opening passes through.

#![allow(clippy::unwrap_used, reason = "a test may stop where it likes")]

mod common;

use codec::checksum::ByteOrder;
use common::forge::Forge;
use common::{Contents, Lab, Slot, assert_rest_is_intact, assert_same, contents};
use dmu::Zap;
use ondisk::mos;
use ondisk::nvlist::{NvList, NvValue, Packing};
use pool::UnguardedDatasets as _;
use pool::{CandidateState, Error, OpenOptions, Pool, SearchOptions, Verdict, verdict};
use std::path::Path;
use vdev::VdevState;

fn in_dir(dir: &Path) -> OpenOptions {
    let search = SearchOptions { paths: vec![dir.to_owned()], ..SearchOptions::default() };
    OpenOptions { search, ..OpenOptions::default() }
}

fn save(lab: &Lab, dir: &Path, prefix: &str) {
    for (number, image) in &lab.images {
        image.save(&dir.join(format!("{prefix}{number}"))).unwrap();
    }
}

fn refusal(result: pool::Result<Pool>) -> Error {
    match result {
        Ok(pool) => panic!("{} was opened", pool.name()),
        Err(e) => e,
    }
}

fn whole(lab: &Lab) -> Contents {
    let pool = lab.open();
    assert!(pool.salvage().is_empty(), "{:?}", pool.salvage());
    let all = contents(&pool);
    assert!(all.len() > 20 && all.values().all(Result::is_ok));
    all
}

#[test]
fn one_good_label_is_enough() {
    let lab = Lab::corpus("casefold");
    let whole = whole(&lab);
    for keep in 0..4 {
        let mut lab = lab.clone();
        for label in (0..4).filter(|l| *l != keep) {
            lab.damage_label(0, label);
        }
        assert_same(&whole, &contents(&lab.open()));
    }
    let mut none = lab.clone();
    (0..4).for_each(|l| none.damage_label(0, l));
    assert!(none.candidates().is_empty());
}

#[test]
fn a_side_without_labels_is_a_side_missing() {
    let lab = Lab::of(&testkit::fixture("sample"));
    let whole = whole(&lab);
    let mut lab = lab.clone();
    let guid = lab.guid(1);
    (0..4).for_each(|l| lab.damage_label(1, l));
    let pool = lab.open();
    assert_eq!(pool.vdevs().root().state(), VdevState::Degraded);
    let missing = pool.candidate().missing(&pool.config().vdev_tree, pool.uberblock().txg);
    assert_eq!(missing.iter().map(|m| m.guid).collect::<Vec<_>>(), [guid]);
    assert_same(&whole, &contents(&pool));
}

#[test]
fn labels_of_another_age_change_nothing() {
    let lab = Lab::of(&testkit::fixture("sample"));
    let whole = whole(&lab);
    let config = lab.labels(0)[0].clone();
    let txg = config.u64("txg").unwrap();
    for (label, new) in [(0, txg - 7), (1, 0), (2, txg + 1000), (3, u64::MAX)] {
        let mut lab = lab.clone();
        let mut config = config.clone();
        config.set("txg", NvValue::U64(new));
        lab.set_label(0, label, &config, ByteOrder::Little);
        assert_same(&whole, &contents(&lab.open()));
    }
}

#[test]
fn a_label_may_lie_about_the_tree_but_the_pool_knows_better() {
    let lab = Lab::of(&testkit::fixture("sample"));
    let whole = whole(&lab);
    let mut more = lab.clone();
    more.edit_labels(|l| {
        l.set("vdev_children", NvValue::U64(3));
    });
    let pool = more.open();
    assert_eq!(pool.vdevs().root().state(), VdevState::Online);
    assert_same(&whole, &contents(&pool));
    let mut endless = lab.clone();
    endless.edit_labels(|l| {
        l.set("vdev_children", NvValue::U64(u64::MAX));
    });
    assert_same(&whole, &contents(&endless.open()));
}

#[test]
fn images_may_have_any_name_and_lie_anywhere() {
    let lab = Lab::of(&testkit::fixture("sample"));
    let whole = whole(&lab);
    let (one, two) = (tempfile("moved-a"), tempfile("moved-b"));
    save(&lab.without(&[1]), &one.0, "not a disk, surely ");
    save(&lab.without(&[0]), &two.0, "x");
    let mut options = in_dir(&one.0);
    options.search.paths.push(two.0.join("x1"));
    // The same file by a second way is no second device.
    options.search.paths.push(two.0.join("../").join(two.0.file_name().unwrap()).join("x1"));
    let pool = Pool::open(&lab.name, &options).unwrap();
    assert_eq!(pool.vdevs().root().state(), VdevState::Online);
    assert_same(&whole, &contents(&pool));
    let by_guid = Pool::open(&pool.guid().to_string(), &options).unwrap();
    assert_eq!(by_guid.name(), lab.name);
}

#[test]
fn pools_side_by_side_are_told_apart() {
    let lab = Lab::of(&testkit::fixture("sample"));
    let other = Lab::of(&testkit::fixture("gang"));
    let dir = tempfile("side-by-side");
    save(&lab, &dir.0, "a");
    save(&other, &dir.0, "b");
    std::fs::write(dir.0.join("noise"), vec![7u8; 6 << 20]).unwrap();
    let options = in_dir(&dir.0);
    for name in [&lab.name, &other.name] {
        assert_eq!(Pool::open(name, &options).unwrap().name(), name);
    }
    let error = refusal(Pool::open("absent", &options));
    let Error::NoSuchPool { found, .. } = &error else { panic!("{error}") };
    assert_eq!(found.len(), 2, "{error}");
    let nowhere = refusal(Pool::open("x", &in_dir(&dir.0.join("nowhere"))));
    assert!(matches!(nowhere, Error::Search { .. }), "{nowhere}");
}

/// Another pool with the same name, made of a copy by changing the pool's guid in the labels.
fn namesake(lab: &Lab) -> Lab {
    let mut other = lab.clone();
    other.edit_labels(|l| {
        l.set("pool_guid", NvValue::U64(4711));
    });
    other
}

#[test]
fn a_name_two_pools_have_is_ambiguous() {
    let lab = Lab::of(&testkit::fixture("sample"));
    let other = namesake(&lab);
    let dir = tempfile("ambiguous");
    save(&lab, &dir.0, "a");
    save(&other, &dir.0, "b");
    let guid = lab.open().guid();
    let error = refusal(Pool::open(&lab.name, &in_dir(&dir.0)));
    let Error::Ambiguous { guids, .. } = &error else { panic!("{error}") };
    assert!(guids.len() == 2 && guids.contains(&guid) && guids.contains(&4711), "{error}");
    assert!(Pool::open(&guid.to_string(), &in_dir(&dir.0)).is_ok());
}

#[test]
fn a_destroyed_pool_says_so_and_gives_way() {
    let lab = Lab::of(&testkit::fixture("sample"));
    let whole = whole(&lab);
    assert_eq!(lab.candidate().state(), CandidateState::Exported);
    let mut gone = namesake(&lab);
    gone.edit_labels(|l| {
        l.set("state", NvValue::U64(2));
    });
    assert_eq!(gone.candidate().state(), CandidateState::Destroyed);
    assert_same(&whole, &contents(&gone.open()));
    let dir = tempfile("destroyed");
    save(&lab, &dir.0, "a");
    save(&gone, &dir.0, "b");
    let pool = Pool::open(&lab.name, &in_dir(&dir.0)).unwrap();
    assert_eq!(pool.candidate().state(), CandidateState::Exported);
    assert!(Pool::open("4711", &in_dir(&dir.0)).is_ok());
}

#[test]
fn of_two_copies_of_a_device_the_newer_counts() {
    let lab = Lab::of(&testkit::fixture("sample"));
    let whole = whole(&lab);
    let newest = lab.open().uberblock().txg;
    // The older copy: its newest uberblocks are not written yet, and what they point to neither.
    let mut older = lab.clone();
    older.edit_uberblocks(|u| (u.txg + 20 > newest).then_some(Slot::Empty));
    older.destroy(&lab.open().uberblock().rootbp);
    for names in [["a", "b"], ["b", "a"]] {
        let dir = tempfile(&format!("copies-{}", names[0]));
        save(&lab, &dir.0, names[0]);
        save(&older, &dir.0, names[1]);
        let pool = Pool::open(&lab.name, &in_dir(&dir.0)).unwrap();
        assert!(pool.salvage().is_empty(), "{:?}", pool.salvage());
        assert_eq!(pool.uberblock().txg, newest);
        assert_same(&whole, &contents(&pool));
        assert_eq!(pool.faults().count(), lab_faults(&lab));
    }
}

/// Blocks of a pool that are read in spite of faults.
fn lab_faults(lab: &Lab) -> u64 {
    let pool = lab.open();
    contents(&pool);
    pool.faults().count()
}

#[test]
fn an_image_cut_short_gives_what_it_has() {
    let lab = Lab::of(&testkit::fixture("sample"));
    let whole = whole(&lab);
    let full = lab.images[&1].len();
    for len in [full - 1, full / 2, 24 << 20, 5 << 20] {
        let mut lab = lab.clone();
        lab.image(1).truncate(len);
        assert_same(&whole, &contents(&lab.open()));
    }
    let lab = Lab::corpus("casefold");
    let all = contents(&lab.open());
    let mut cut = lab.clone();
    cut.image(0).truncate(48 << 20);
    // Of the two labels that are left each is as good as all four.
    match cut.try_open(&OpenOptions::default()) {
        Ok(pool) => drop(assert_rest_is_intact(&all, &contents(&pool))),
        Err(e) => assert!(matches!(e, Error::Damaged { .. }), "{e}"),
    }
    let dir = tempfile("cut");
    save(&cut, &dir.0, "c");
    assert_eq!(pool::scan(&in_dir(&dir.0).search).unwrap().len(), 1);
}

#[test]
fn what_is_too_new_is_refused_by_name() {
    let lab = Lab::of(&testkit::fixture("sample"));
    for version in [0, 29, 4999, 5001, 6000] {
        let mut lab = lab.clone();
        lab.edit_labels(|l| {
            l.set("version", NvValue::U64(version));
        });
        let error = refusal(lab.try_open(&OpenOptions::default()));
        assert!(matches!(error, Error::NewerVersion { version: v, .. } if v == version), "{error}");
        assert!(error.to_string().contains(&version.to_string()));
    }
    let mut ub = lab.clone();
    ub.edit_uberblocks(|u| {
        Some(Slot::New(ondisk::uberblock::Uberblock { version: 6000, ..*u }, ByteOrder::Little))
    });
    let error = refusal(ub.try_open(&OpenOptions::default()));
    assert!(matches!(error, Error::NewerVersion { version: 6000, .. }), "{error}");
    let mut feature = lab.clone();
    feature.edit_labels(|l| {
        let mut list = l.list("features_for_read").unwrap().clone();
        list.set("com.example:from_the_future", NvValue::Boolean);
        l.set("features_for_read", NvValue::NvList(list));
    });
    let error = refusal(feature.try_open(&OpenOptions::default()));
    let Error::UnknownFeatures { features, .. } = &error else { panic!("{error}") };
    assert_eq!(features.len(), 1);
    assert!(error.to_string().contains("com.example:from_the_future"), "{error}");
}

#[test]
fn the_newest_uberblock_may_be_damaged() {
    let lab = Lab::of(&testkit::fixture("sample"));
    let txgs = pool::by_txg(&lab.candidate().uberblocks);
    let [newest, second, ..] = &txgs[..] else { panic!("{txgs:?}") };
    // Its slots: then it was never written.
    let mut unwritten = lab.clone();
    unwritten.edit_uberblocks(|u| (u.txg == newest.uberblock.txg).then_some(Slot::Empty));
    let pool = unwritten.open();
    assert_eq!(pool.uberblock().txg, second.uberblock.txg);
    // What it points to: then an older one is opened, and the pool says so.
    let mut damaged = lab.clone();
    damaged.destroy(&newest.uberblock.rootbp);
    let pool = damaged.open();
    assert_eq!(pool.uberblock().txg, second.uberblock.txg);
    let salvaged = &pool.salvage()[0];
    assert!(salvaged.what.contains("older"), "{salvaged:?}");
    assert!(salvaged.cause.contains(&newest.uberblock.txg.to_string()), "{salvaged:?}");
    // Only a few are tried unasked.
    let mut rotten = lab.clone();
    for t in &txgs[..4] {
        rotten.destroy(&t.uberblock.rootbp);
    }
    let error = refusal(rotten.try_open(&OpenOptions::default()));
    let Error::Damaged { txg, .. } = &error else { panic!("{error}") };
    assert_eq!(*txg, newest.uberblock.txg);
    let earlier = OpenOptions { txg: Some(txgs[4].uberblock.txg), ..OpenOptions::default() };
    assert!(rotten.try_open(&earlier).is_ok());
}

#[test]
fn labels_and_uberblocks_of_the_other_byte_order_are_read() {
    let lab = Lab::of(&testkit::fixture("sample"));
    let whole = whole(&lab);
    let mut big = lab.clone();
    big.edit_uberblocks(|u| Some(Slot::New(*u, ByteOrder::Big)));
    for number in [0, 1] {
        for (label, list) in lab.labels(number).iter().enumerate() {
            big.set_label(number, label, list, ByteOrder::Big);
        }
    }
    let (before, after) = (lab.candidate(), big.candidate());
    assert_eq!(before.uberblocks.len(), after.uberblocks.len());
    assert_eq!(before.config.pool_guid, after.config.pool_guid);
    assert_same(&whole, &contents(&big.open()));
}

fn object_of(lab: &Lab, name: &str) -> u64 {
    lab.open().directory().unwrap().get_u64(name).unwrap().unwrap()
}

/// Destroys every data block of an object of the MOS.
fn destroy_object(lab: &mut Lab, number: u64) -> usize {
    let pool = lab.open();
    let object = pool.mos().object(number).unwrap();
    let mut destroyed = 0;
    let mut at = 0;
    while let Some(block) = object.next_block(at).unwrap() {
        let bp = object.block_pointer(0, block).unwrap().unwrap();
        if !bp.is_embedded() {
            lab.destroy(&bp);
            destroyed += 1;
        }
        at = block + 1;
    }
    destroyed
}

#[test]
fn damage_beside_the_data_costs_no_data() {
    for case in ["checkpoint", "casefold"] {
        let lab = Lab::corpus(case);
        let whole = whole(&lab);
        let names = [mos::CONFIG, mos::HISTORY, mos::SYNC_BPOBJ, mos::FREE_BPOBJ];
        let more = [mos::LOG_SPACEMAP_ZAP, mos::POOL_PROPS, mos::FEATURES_FOR_WRITE];
        let config = lab.open();
        let top = &config.config().vdev_tree.children[0];
        let space_maps = config.mos().object(top.metaslab_array.unwrap()).unwrap();
        let first = space_maps.read_block(0).unwrap().unwrap();
        let map = |i: usize| u64::from_le_bytes(first[i * 8..i * 8 + 8].try_into().unwrap());
        let mut objects: Vec<(String, u64)> = names
            .iter()
            .chain(&more)
            .filter_map(|n| Some(((*n).to_owned(), config.directory().ok()?.get_u64(n).ok()??)))
            .collect();
        objects.push(("metaslab array".into(), top.metaslab_array.unwrap()));
        objects.push(("vdev zap".into(), top.vdev_zap_top.unwrap()));
        objects.extend((0..4).map(map).filter(|m| *m != 0).map(|m| ("space map".into(), m)));
        drop(config);
        let mut done = 0;
        for (name, object) in objects {
            let mut lab = lab.clone();
            if destroy_object(&mut lab, object) == 0 {
                continue;
            }
            done += 1;
            let pool = lab.open();
            assert_same(&whole, &contents(&pool));
            if name == mos::CONFIG {
                let is_reported = pool.salvage().iter().any(|s| s.what.contains("configuration"));
                assert!(is_reported, "{:?}", pool.salvage());
            }
            match verdict(&pool) {
                Verdict::Partial { lost, first } => {
                    assert!(lost >= 1 && first.contains(&format!("object {object} ")), "{first}");
                }
                other => panic!("{case} {name}: {other:?}"),
            }
        }
        assert!(done >= 5, "{case}: {done}");
    }
}

#[test]
fn a_removed_vdev_is_known_also_without_the_newest_configuration() {
    let lab = Lab::of(&testkit::fixture("removed"));
    let whole = contents(&lab.open());
    let object = object_of(&lab, mos::CONFIG);
    let damaged = destroy_by_device(&lab, object);
    let pool = damaged.open();
    assert!(pool.salvage().iter().any(|s| s.cause.contains("that of txg")), "{:?}", pool.salvage());
    assert_same(&whole, &contents(&pool));
}

/// The same for a pool of several disks: each copy is damaged on the disk it is on.
fn destroy_by_device(lab: &Lab, number: u64) -> Lab {
    let pool = lab.open();
    let object = pool.mos().object(number).unwrap();
    let mut out = lab.clone();
    for block in 0..=object.dnode().max_block {
        let bp = object.block_pointer(0, block).unwrap().unwrap();
        for (_, dva) in bp.dvas() {
            let guid = pool.vdevs().top(dva.vdev()).unwrap().node().guid();
            let disk = *lab.images.keys().find(|n| lab.guid(**n) == guid).unwrap();
            let noise = vec![0xa5; bp.psize() as usize];
            out.image(disk).write_at(4096 * 1024 + dva.offset(), &noise).unwrap();
        }
    }
    out
}

#[test]
fn datasets_are_found_by_their_objects() {
    let lab = Lab::corpus("history");
    let pool = lab.open();
    let dsl = pool.dsl();
    let (mut heads, mut snapshots) = (0, 0);
    for (name, dataset) in dsl.datasets() {
        let object = dataset.unwrap().object;
        assert_eq!(dsl.name_of(object).unwrap(), name);
        let (head, nameless) = (dsl.head_by_object(object), dsl.nameless_head(object));
        if name.contains('@') {
            assert!(head.is_err() && nameless.is_err(), "{name} is not a head");
            snapshots += 1;
        } else {
            let head = head.unwrap();
            assert_eq!(head.name, name);
            let nameless = nameless.unwrap();
            assert_eq!((nameless.name.as_str(), nameless.phys), ("", head.phys));
            heads += 1;
        }
    }
    assert!(heads > 5 && snapshots > 5, "{heads} heads, {snapshots} snapshots");
}

#[test]
fn one_bad_dataset_costs_only_itself() {
    let lab = Lab::corpus("history");
    let pool = lab.open();
    let whole = contents(&pool);
    let mut names = Vec::new();
    for (name, dir) in pool.dsl().walk() {
        let head = pool.dsl().head(&dir.unwrap()).unwrap().unwrap();
        let objset = pool.dsl().objset(&head).unwrap();
        let meta = objset.meta_object().unwrap();
        let dnodes = meta.block_pointer(0, 0).unwrap();
        // Snapshots of the same state share the root, and rightly fall with it.
        names.push((name, head.phys.bp, dnodes));
    }
    assert!(names.len() > 5);
    for (name, root, dnodes) in names {
        for victim in [Some(root), dnodes].into_iter().flatten() {
            if victim.is_hole() || victim.is_embedded() {
                continue;
            }
            let mut lab = lab.clone();
            lab.destroy(&victim);
            let pool = lab.open();
            let now = contents(&pool);
            let lost = assert_rest_is_intact(&whole, &now);
            assert!(lost >= 1, "{name}");
            let others = now.values().filter(|v| v.is_ok()).count();
            assert!(others > 20, "{name}: {others}");
            let first = now.iter().find(|(_, v)| v.is_err()).unwrap();
            assert!(first.1.as_ref().unwrap_err().contains("objset"), "{first:?}");
            assert!(matches!(verdict(&pool), Verdict::Partial { .. }), "{name}");
        }
    }
}

/// A block of the MOS's dnodes holds those of directories, datasets and tables of names: what the
/// tree no longer leads to is found in the blocks that are left.
#[test]
fn a_lost_part_of_the_tree_does_not_take_the_rest_along() {
    let lab = Lab::corpus("history");
    let pool = lab.open();
    let whole = contents(&pool);
    let datasets = pool.dsl().datasets();
    let meta = pool.mos().meta_object().unwrap();
    let per_block = meta.dnode().block_size() / 512;
    let holds = |block: u64| {
        let inside = |o: u64| o / per_block == block;
        datasets.iter().filter(|(_, d)| inside(d.as_ref().unwrap().object)).count()
    };
    let mut opened = 0;
    for block in 1..=meta.dnode().max_block {
        let Some(bp) = meta.block_pointer(0, block).unwrap().filter(|b| !b.is_hole()) else {
            continue;
        };
        let mut lab = lab.clone();
        lab.destroy(&bp);
        let pool = lab.open();
        opened += 1;
        let there = pool.dsl().datasets();
        let good = there.iter().filter(|(_, d)| d.is_ok()).count();
        assert_eq!(good, datasets.len() - holds(block), "block {block}: each other one is found");
        // By their names or by what is known of them, with the same content.
        let now = contents(&pool);
        let digests: std::collections::HashSet<_> = now.values().flatten().collect();
        for (name, value) in &whole {
            let dataset = name.split(':').next().unwrap();
            let of = datasets.iter().find(|(n, _)| n == dataset).unwrap();
            if of.1.as_ref().unwrap().object / per_block != block {
                assert!(digests.contains(value.as_ref().unwrap()), "block {block}: {name}");
            }
        }
        assert!(matches!(verdict(&pool), Verdict::Partial { .. }), "block {block}");
    }
    assert!(opened > 3, "{opened}");
}

#[test]
fn a_lost_object_directory_is_an_error_about_a_place() {
    let lab = Lab::corpus("casefold");
    let mut lab = lab.clone();
    for txg in pool::by_txg(&lab.candidate().uberblocks).iter().take(3).map(|t| t.uberblock.txg) {
        let at = OpenOptions { txg: Some(txg), ..OpenOptions::default() };
        let Ok(pool) = lab.try_open(&at) else { continue };
        let bp = pool.mos().object(1).unwrap().block_pointer(0, 0).unwrap().unwrap();
        lab.destroy(&bp);
    }
    let error = refusal(lab.try_open(&OpenOptions::default()));
    assert!(matches!(error, Error::Damaged { .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains("object directory") && text.contains("object 1 "), "{text}");
}

#[test]
fn an_unknown_feature_in_the_pool_itself_is_refused_by_name() {
    let lab = Lab::of(&testkit::fixture("sample"));
    let object = object_of(&lab, mos::FEATURES_FOR_READ);
    let table = Zap::open(&lab.open().mos().object(object).unwrap()).unwrap();
    assert!(table.micro().unwrap().is_some(), "the forging below is for micro ZAPs");
    let known = b"com.delphix:hole_birth";
    let unknown = b"com.example:the_future";
    let with_count = |count: u64| {
        let mut forge = Forge::new(&lab);
        forge.edit_block(object, 0, |block| {
            // Entries of 64 bytes: the value, 6 bytes that do not matter here, the name.
            let mut entries = block.chunks_exact_mut(64).skip(1);
            let entry = entries.find(|e| e[14..].starts_with(known)).unwrap();
            entry[..8].copy_from_slice(&count.to_le_bytes());
            entry[14..14 + unknown.len()].copy_from_slice(unknown);
        });
        forge.finish()
    };
    let error = refusal(with_count(1).try_open(&OpenOptions::default()));
    let Error::UnknownFeatures { features, .. } = &error else { panic!("{error}") };
    assert!(features.len() == 1 && features[0].guid == "com.example:the_future", "{error}");
    // Enabled and not in use, it has not changed the format.
    assert!(with_count(0).try_open(&OpenOptions::default()).is_ok());
}

/// The configuration in the MOS, changed.
fn with_config(lab: &Lab, edit: impl FnOnce(&mut NvList)) -> Lab {
    let mut forge = Forge::new(lab);
    let number = forge.pool().directory().unwrap().get_u64(mos::CONFIG).unwrap().unwrap();
    let mut list = forge.pool().config().nvlist.clone();
    edit(&mut list);
    let bytes = list.encode(Packing::XDR).unwrap();
    let size = forge.mos().object(number).unwrap().dnode().block_size() as usize;
    assert!(bytes.len() <= size, "one block");
    let mut block = bytes.clone();
    block.resize(size, 0);
    forge.set_block(number, 0, &block);
    forge.edit_dnode(number, |_, dnode| {
        // The bonus behind the one block pointer says how long the list is.
        let at = 64 + 128 * usize::from(dnode[3]);
        dnode[at..at + 8].copy_from_slice(&(bytes.len() as u64).to_le_bytes());
    });
    forge.finish()
}

/// Edits the first top-level vdev's children.
fn edit_children(list: &mut NvList, edit: impl FnOnce(&mut Vec<NvList>)) {
    let mut root = list.list("vdev_tree").unwrap().clone();
    let mut tops = root.opt_lists("children").unwrap().unwrap().to_vec();
    let mut children = tops[0].opt_lists("children").unwrap().unwrap().to_vec();
    edit(&mut children);
    tops[0].set("children", NvValue::NvListArray(children));
    root.set("children", NvValue::NvListArray(tops));
    list.set("vdev_tree", NvValue::NvList(root));
}

/// `kind` over the given children, at place 0 of its parent.
fn inner(kind: &str, mut children: Vec<NvList>) -> NvList {
    for (id, child) in children.iter_mut().enumerate() {
        child.set("id", NvValue::U64(id as u64));
    }
    let mut vdev = NvList::new();
    vdev.set("type", NvValue::String(kind.into())).set("id", NvValue::U64(0));
    vdev.set("guid", NvValue::U64(99)).set("children", NvValue::NvListArray(children));
    vdev
}

#[test]
fn a_configuration_that_makes_no_tree_gives_way_to_the_labels() {
    let lab = Lab::of(&testkit::fixture("sample"));
    let whole = whole(&lab);
    let forged = with_config(&lab, |list| {
        let mut root = list.list("vdev_tree").unwrap().clone();
        let mut tops = root.opt_lists("children").unwrap().unwrap().to_vec();
        tops.push(tops[0].clone());
        root.set("children", NvValue::NvListArray(tops));
        list.set("vdev_tree", NvValue::NvList(root));
    });
    let pool = forged.open();
    assert!(pool.salvage()[0].what.contains("configuration"), "{:?}", pool.salvage());
    assert_same(&whole, &contents(&pool));
}

fn stranger() -> NvList {
    let mut disk = NvList::new();
    disk.set("type", NvValue::String("disk".into())).set("id", NvValue::U64(0));
    disk.set("guid", NvValue::U64(77)).set("path", NvValue::String("/dev/new".into()));
    disk
}

#[test]
fn a_forged_pool_reads_like_the_real_one() {
    let lab = Lab::of(&testkit::fixture("sample"));
    let whole = whole(&lab);
    assert_same(&whole, &contents(&with_config(&lab, |_| {}).open()));
}

#[test]
fn replacing_and_spare_vdevs_read_from_those_that_have_the_bytes() {
    let lab = Lab::of(&testkit::fixture("sample"));
    let whole = whole(&lab);
    for kind in ["replacing", "spare"] {
        // The second side is being replaced by a disk that is not there.
        let forged = with_config(&lab, |list| {
            edit_children(list, |c| {
                let old = c.pop().unwrap();
                let mut vdev = inner(kind, vec![old, stranger()]);
                vdev.set("id", NvValue::U64(1));
                c.push(vdev);
            });
        });
        let pool = forged.open();
        assert_eq!(pool.vdevs().root().state(), VdevState::Degraded, "{kind}");
        assert_same(&whole, &contents(&pool));
        let lost = pool.candidate().missing(&pool.config().vdev_tree, pool.uberblock().txg);
        assert_eq!(lost.iter().map(|m| m.guid).collect::<Vec<_>>(), [77], "{kind}");
        // The side in transition alone: the rot of the fixture is on it.
        let pool = forged.without(&[0]).open();
        assert!(assert_rest_is_intact(&whole, &contents(&pool)) > 0, "{kind}");
        // Its partner alone.
        assert_same(&whole, &contents(&forged.without(&[1]).open()));
    }
}

#[test]
fn a_side_marked_offline_is_read_only_when_it_is_needed() {
    let lab = Lab::of(&testkit::fixture("sample"));
    let whole = whole(&lab);
    let forged = with_config(&lab, |list| {
        edit_children(list, |c| {
            c[0].set("offline", NvValue::U64(1));
        });
    });
    let pool = forged.open();
    let tree = pool.vdevs();
    let offline = tree.leaves().find(|l| l.guid() == lab.guid(0)).unwrap();
    assert_eq!(offline.state(), VdevState::Offline);
    assert!(assert_rest_is_intact(&whole, &contents(&pool)) > 0, "the other side is rotten");
    // Alone it is all there is, and it is whole.
    let pool = forged.without(&[1]).open();
    let salvaged = pool.salvage().iter().find(|s| s.what.contains("state of devices")).unwrap();
    assert!(salvaged.cause.contains(&lab.guid(0).to_string()), "{salvaged:?}");
    assert_same(&whole, &contents(&pool));
    // On request it helps the rotten one.
    let options = OpenOptions { use_offline: true, ..OpenOptions::default() };
    assert_same(&whole, &contents(&forged.try_open(&options).unwrap()));
}

/// A folder for images that goes with the test.
struct TempDir(std::path::PathBuf);

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn tempfile(name: &str) -> TempDir {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("open-{name}"));
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).unwrap();
    TempDir(dir)
}
