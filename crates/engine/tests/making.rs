//! What is refused when pools are made and get more devices, by the command or by a program.
#![allow(clippy::unwrap_used, missing_docs)]

use engine::config::LabelConfig;
use engine::devices::{AnyDevices, DeviceSource as _, MemoryDevice, WriteDeviceRef};
use engine::layout::{Layout, Level, Mismatch};
use engine::live::{CreateOptions, Devices, NewTop, SpaceClass, StoredPropertyValue, VdevSpec};
use engine::pools::{Add, BusyDevice, Content, CreatePool, DeviceCheck, DeviceClaim};
use engine::pools::{DeviceRefusal, look_at_device};
use engine::properties::compatibility::FeatureSet;
use engine::properties::pool::parse;
use engine::{ErrorKind, Hint, LivePool, NewPool, Place, Rt, Rule};
use std::cell::{Cell, RefCell};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn memory(names: &[&str]) -> Devices {
    let device = |name: &str| -> WriteDeviceRef { Arc::new(MemoryDevice::zeros(name, 64 << 20)) };
    names.iter().map(|name| ((*name).to_owned(), device(name))).collect()
}

fn leaf(name: &str) -> VdevSpec {
    VdevSpec::Leaf { path: name.to_owned(), is_file: true }
}

fn tops(tops: Vec<(VdevSpec, SpaceClass)>) -> Layout {
    let tops = tops.into_iter().map(|(spec, class)| NewTop { spec, class }).collect();
    Layout { tops, ..Layout::default() }
}

fn disk(name: &str) -> Layout {
    tops(vec![(leaf(name), SpaceClass::Normal)])
}

fn spare(name: &str) -> Layout {
    Layout { spares: vec![leaf(name)], ..Layout::default() }
}

fn pool(devices: &Devices, name: &str) -> LivePool {
    let new = NewPool::new("tank").with_source(Arc::new(devices.clone()));
    new.device(name).unwrap().create().unwrap()
}

fn has_label(devices: &Devices, name: &str) -> bool {
    let device = Arc::clone(devices.get(name).unwrap()).as_device();
    look_at_device(&device, PathBuf::from(name)).is_some()
}

#[test]
fn a_pool_gets_no_device_twice() {
    let devices = memory(&["/m/0", "/m/1", "/m/2"]);
    let pool = pool(&devices, "/m/0");
    let refused = |layout: Layout| {
        let error = Add::new(layout).run(&pool, &devices).unwrap_err();
        assert_eq!(error.kind(), &ErrorKind::OwnDevice);
    };
    refused(disk("/m/0"));
    refused(spare("/m/0"));
    Add::new(disk("/m/1")).run(&pool, &devices).unwrap();
    refused(disk("/m/1"));
    Add::new(spare("/m/2")).run(&pool, &devices).unwrap();
    refused(spare("/m/2"));
    refused(disk("/m/2"));
    // By its label too, under another name.
    let renamed: Devices = devices.values().cloned().map(|d| ("/other".to_owned(), d)).collect();
    let error = Add::new(disk("/other")).run(&pool, &renamed).unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::OwnDevice);
    assert_eq!(pool.look().unwrap().config().vdev_tree.children.len(), 2);
    pool.export().unwrap();
}

#[test]
fn what_is_likely_to_be_a_mistake_is_added_when_it_is_meant() {
    let devices = memory(&["/m/0", "/m/1", "/m/2", "/m/3"]);
    let pool = pool(&devices, "/m/0");
    let mirror = || {
        let both = VdevSpec::Mirror(vec![leaf("/m/1"), leaf("/m/2")]);
        tops(vec![(both, SpaceClass::Normal)])
    };
    let error = Add::new(mirror()).run(&pool, &devices).unwrap_err();
    let why = Mismatch::WithPool { pool: Level::Single { is_file: true }, new: Level::Mirror(2) };
    assert_eq!(error.kind(), &ErrorKind::Mismatched(why));
    assert_eq!(error.hint(), Some(&Hint::Insist));
    let add = Add::new(disk("/m/3")).with_ashift(Some(13));
    let error = add.run(&pool, &devices).unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::Against(Rule::SectorSize));
    assert!(!["/m/1", "/m/2", "/m/3"].iter().any(|name| has_label(&devices, name)));
    Add::new(mirror()).despite_mismatch(true).run(&pool, &devices).unwrap();
    // The last vdev that is there is what new ones are compared with.
    add.despite_ashift(true).despite_mismatch(true).run(&pool, &devices).unwrap();
    pool.export().unwrap();
}

#[test]
fn a_comment_and_a_set_of_features_are_in_the_labels_from_the_beginning() {
    let devices = memory(&["/m/0"]);
    let text = |text: &str| StoredPropertyValue::Text(text.to_owned());
    let properties = vec![
        ("comment".to_owned(), text("backups")),
        ("compatibility".to_owned(), text("openzfs-2.2")),
        ("org.example:rack".to_owned(), text("7")),
    ];
    let options = CreateOptions { properties, ..CreateOptions::new("tank", Vec::new()) };
    let made = CreatePool::new(disk("/m/0"), options).run(&Rt::real(), &devices).unwrap();
    let pool = made.into_pool();
    let seen = pool.look().unwrap();
    assert_eq!(seen.config().comment.as_deref(), Some("backups"));
    assert_eq!(seen.config().compatibility.as_deref(), Some("openzfs-2.2"));
    drop(seen);
    pool.export().unwrap();
    let device = Arc::clone(devices.get("/m/0").unwrap()).as_device();
    let found = look_at_device(&device, PathBuf::from("/m/0")).unwrap();
    let LabelConfig::Member(config) = found.config else { panic!("no member of a pool") };
    assert_eq!(config.comment.as_deref(), Some("backups"));
    assert_eq!(config.compatibility.as_deref(), Some("openzfs-2.2"));
}

#[test]
fn settings_of_a_new_pool_are_properties_features_and_sectors() {
    let devices = memory(&["/m/0"]);
    let make = |settings: &[(&str, &str)]| {
        let new = CreatePool::new(disk("/m/0"), CreateOptions::new("tank", Vec::new()));
        settings.iter().try_fold(new, |new, (name, value)| new.set(parse(name, value).unwrap()))
    };
    let refused = make(&[("readonly", "on")]).err().unwrap();
    assert_eq!(refused.kind(), &ErrorKind::Against(Rule::ReadOnlySet));
    let new = make(&[
        ("ashift", "13"),
        ("comment", "backups"),
        ("compatibility", "openzfs-2.2,grub2"),
        ("feature@blake3", "enabled"),
        ("feature@lz4_compress", "disabled"),
        ("cachefile", "none"),
        ("org.example:rack", "7"),
    ]);
    let new = new.unwrap().set_root("compression", "gzip");
    assert_eq!(new.compatibility(), "openzfs-2.2,grub2");
    assert_eq!(new.named_features().collect::<Vec<_>>(), ["blake3"]);
    let (set, _) = FeatureSet::parse(b"async_destroy\n").unwrap();
    let new = new.confined_to(&set);
    assert_eq!(new.named_features().collect::<Vec<_>>(), ["async_destroy", "blake3"]);
    let pool = new.run(&Rt::real(), &devices).unwrap().into_pool();
    let seen = pool.look().unwrap();
    let is_on = |guid: &str| seen.features().count(guid).is_some();
    assert!(is_on("com.delphix:async_destroy") && is_on("org.openzfs:blake3"));
    assert!(!is_on("org.illumos:lz4_compress"));
    assert_eq!(seen.config().vdev_tree.children[0].ashift, Some(13));
    let properties = seen.properties(&seen.space());
    let value = |name: &str| properties.iter().find(|p| p.name == name).unwrap().value.clone();
    assert_eq!([value("ashift"), value("org.example:rack")], ["13", "7"]);
    drop(seen);
    pool.export().unwrap();
}

#[test]
fn a_pool_that_cannot_be_is_not_made_and_one_half_made_is_none() {
    let devices = memory(&["/m/0", "/m/1"]);
    let options = || CreateOptions::new("tank", Vec::new());
    let kind = |layout, options| {
        let error = CreatePool::new(layout, options).run(&Rt::real(), &devices).err().unwrap();
        error.kind().clone()
    };
    let log = tops(vec![(leaf("/m/0"), SpaceClass::Log)]);
    assert_eq!(kind(log, options()), ErrorKind::Against(Rule::NoTopLevel));
    let special =
        || tops(vec![(leaf("/m/0"), SpaceClass::Normal), (leaf("/m/1"), SpaceClass::Special)]);
    let bare = CreateOptions { no_features: true, ..options() };
    assert_eq!(kind(special(), bare), ErrorKind::Against(Rule::NoClasses));
    assert!(!has_label(&devices, "/m/0"));

    let new = CreatePool::new(special(), options());
    let made = new.run(&Rt::real(), &devices).unwrap();
    assert!(has_label(&devices, "/m/0") && has_label(&devices, "/m/1"));
    let failed = made.complete(|pool| {
        pool.close().unwrap();
        Err::<(), _>("no place to remember it")
    });
    assert_eq!(failed, Err("no place to remember it"));
    assert!(!has_label(&devices, "/m/0") && !has_label(&devices, "/m/1"));
    new.run(&Rt::real(), &devices).unwrap().into_pool().export().unwrap();
    assert!(has_label(&devices, "/m/0"));
}

#[test]
fn what_is_on_a_device_is_asked_before_it_is_taken() {
    let devices = memory(&["/m/0", "/m/1"]);
    let path = Path::new("/m/0");
    let device = devices.get("/m/0").unwrap();
    let check = |force, user: &dyn Fn(&LabelConfig, bool) -> Option<String>| {
        DeviceCheck { pool: None, force, user }.opened(path, device, false)
    };
    let unused = |_: &LabelConfig, _| None;
    assert_eq!(check(false, &unused), Ok(()));
    pool(&devices, "/m/0").export().unwrap();
    let holds = DeviceRefusal::Holds(Content::Exported("tank".to_owned()));
    assert_eq!(check(false, &unused), Err(holds));
    assert_eq!(check(true, &unused), Ok(()));
    // What is used here is not even taken by force.
    let used = |_: &LabelConfig, _| Some("tank".to_owned());
    assert_eq!(check(true, &used), Err(DeviceRefusal::InPool("tank".to_owned())));
    let small: WriteDeviceRef = Arc::new(MemoryDevice::zeros("small", 1 << 20));
    let check = DeviceCheck { pool: None, force: true, user: &unused };
    let refused = check.opened(Path::new("small"), &small, false);
    assert_eq!(refused, Err(DeviceRefusal::TooSmall(1 << 20)));
}

/// Two files for a mirror, the second of which an exported pool is on.
fn free_and_used(folder: &Path) -> ([PathBuf; 2], Layout) {
    let images = ["a.img", "b.img"].map(|name| folder.join(name));
    File::create(&images[0]).unwrap().set_len(64 << 20).unwrap();
    let old = NewPool::new("old").file(&images[1], 64 << 20).unwrap();
    old.create().unwrap().export().unwrap();
    let both = images.iter().map(|path| leaf(path.to_str().unwrap())).collect();
    (images, tops(vec![(VdevSpec::Mirror(both), SpaceClass::Normal)]))
}

#[test]
fn devices_are_free_again_when_one_of_them_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let ([free, used], layout) = free_and_used(folder.path());
    let (source, rt) = (AnyDevices::default(), Rt::real());
    let claim = DeviceClaim::new(&rt, &source);
    let refused = |claim: DeviceClaim<'_>| claim.take(&layout, None).map(drop).unwrap_err();
    let error = refused(claim);
    let holds = DeviceRefusal::Holds(Content::Exported("old".to_owned()));
    assert_eq!(error.kind(), &ErrorKind::DeviceRefused(holds));
    assert_eq!(error.place(), Some(&Place::Path(used.clone())));
    drop(AnyDevices::default().claim(&free).unwrap());
    assert_eq!(claim.by_force(true).take(&layout, None).unwrap().len(), 2);
    // No force takes what a pool uses here, or what is in the pool itself.
    let user = |_: &LabelConfig, _| Some("tank".to_owned());
    let error = refused(claim.by_force(true).unless_used(&user));
    assert_eq!(error.kind(), &ErrorKind::DeviceRefused(DeviceRefusal::InPool("tank".to_owned())));
    let is_inside = |path: &Path| path == free;
    let error = refused(claim.by_force(true).unless_inside(&is_inside));
    assert_eq!(error.kind(), &ErrorKind::DeviceRefused(DeviceRefusal::InItself));
}

#[test]
fn a_device_that_another_has_is_waited_for_as_long_as_the_program_likes() {
    let folder = tempfile::tempdir().unwrap();
    let ([free, _], layout) = free_and_used(folder.path());
    let (source, rt) = (AnyDevices::default(), Rt::real());
    let held = RefCell::new(Some(AnyDevices::default().claim(&free).unwrap()));
    let claim = DeviceClaim::new(&rt, &source).by_force(true);
    let error = claim.take(&layout, None).map(drop).unwrap_err();
    let ErrorKind::DeviceRefused(DeviceRefusal::Held(Some(holder))) = error.kind() else {
        panic!("{error:?}");
    };
    assert_eq!(holder.pid, std::process::id());
    let tries = Cell::new(0);
    let wait = |busy: &BusyDevice<'_>| {
        assert_eq!(busy.path(), free);
        tries.set(tries.get() + 1);
        if tries.get() == 2 {
            drop(held.take());
        }
        Ok(())
    };
    assert_eq!(claim.waiting(&wait).take(&layout, None).unwrap().len(), 2);
    assert_eq!(tries.get(), 2);
}
