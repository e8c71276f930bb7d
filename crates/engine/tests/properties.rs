//! Several properties at once, and quotas of owners: which are set first, and what is left when one
//! of them is refused.
#![allow(clippy::unwrap_used, missing_docs)]

use engine::datasets::{Create, MakeClone, snapshot};
use engine::devices::{MemoryDevice, WriteDeviceRef};
use engine::files::{QuotaKind, SpaceKind};
use engine::layout::Layout;
use engine::live::{CreateOptions, Devices, NewTop, SpaceClass, VdevSpec};
use engine::pools::{CreatePool, look_at_device};
use engine::properties::{DatasetSetting, OwnerQuota, set, set_with_quotas};
use engine::{ErrorKind, LivePool, NewPool, PropertyContext, Refusal, Rt};
use std::path::PathBuf;
use std::sync::Arc;

const LIMIT: u64 = 1 << 30;

fn quota(owner: u64) -> OwnerQuota {
    OwnerQuota { kind: SpaceKind::User, what: QuotaKind::Space, owner, value: LIMIT }
}

fn pool() -> LivePool {
    let pool = NewPool::new("tank").memory(256 << 20).create().unwrap();
    Create::filesystem("tank/a").unwrap().run(&pool).unwrap();
    Create::volume("tank/v", 8 << 20).unwrap().run(&pool).unwrap();
    pool
}

fn setting<'a>(dataset: &'a str, property: &'a str, value: &'a str) -> DatasetSetting<'a> {
    DatasetSetting { dataset, property, value }
}

fn value(pool: &LivePool, dataset: &str, property: &str) -> String {
    let view = pool.look().unwrap();
    let datasets = view.datasets();
    let dataset = datasets.by_name(dataset).unwrap();
    datasets.property(&dataset, &PropertyContext::default(), property).unwrap().unwrap().value
}

/// The quotas of users by number.
fn quotas(pool: &LivePool, dataset: &str) -> Vec<(u64, u64)> {
    let rows = pool.filesystem(dataset).unwrap().space(SpaceKind::User).unwrap();
    rows.into_iter().filter_map(|row| Some((row.id, row.quota?))).collect()
}

/// It has no such quotas.
fn not_here(owner: u64) -> ErrorKind {
    ErrorKind::Refused(Refusal::NotHere(quota(owner).property()))
}

fn is_there(pool: &LivePool, dataset: &str) -> bool {
    pool.look().unwrap().datasets().by_name(dataset).is_ok()
}

#[test]
fn what_is_refused_leaves_all_as_it_was() {
    let pool = pool();
    let bigger = setting("tank/v", "volsize", "16M");
    let error = set(&pool, &[bigger, setting("tank/a", "atime", "maybe")]).unwrap_err();
    assert_eq!(error.operand(), Some("tank/a"));
    let older = setting("tank/a", "version", "3");
    let error = set(&pool, &[bigger, older]).unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::Refused(Refusal::NewerVersion(5)));
    // A volume has no owners of files.
    let off = setting("tank/a", "atime", "off");
    let error = set_with_quotas(&pool, &[bigger, off], &[("tank/v", quota(7))]).unwrap_err();
    assert_eq!(error.operand(), Some("tank/v"));
    let both = || [value(&pool, "tank/v", "volsize"), value(&pool, "tank/a", "atime")];
    assert_eq!(both(), ["8388608", "on"]);
    set_with_quotas(&pool, &[bigger, off], &[("tank/a", quota(7)), ("tank", quota(8))]).unwrap();
    assert_eq!(both(), ["16777216", "off"]);
    assert_eq!(["tank/a", "tank"].map(|of| quotas(&pool, of)), [[(7, LIMIT)], [(8, LIMIT)]]);
}

#[test]
fn a_property_is_given_one_value() {
    let pool = pool();
    let twice = |settings: &[DatasetSetting<'_>], quotas: &[(&str, OwnerQuota)], name: &str| {
        let error = set_with_quotas(&pool, settings, quotas).unwrap_err();
        let why = Refusal::SetTwice(name.to_owned());
        assert_eq!((error.kind(), error.operand()), (&ErrorKind::Refused(why), Some("tank/a")));
    };
    let off = setting("tank/a", "atime", "off");
    twice(&[off, setting("tank", "atime", "off"), setting("tank/a", "atime", "on")], &[], "atime");
    twice(&[off], &[("tank/a", quota(7)), ("tank/a", quota(7))], "userquota@7");
    assert_eq!(value(&pool, "tank/a", "atime"), "on");
}

#[test]
fn a_volume_reserves_what_its_new_size_takes_in_whichever_order_both_are_set() {
    let reserved = |settings: &[DatasetSetting<'_>]| {
        let pool = pool();
        set(&pool, settings).unwrap();
        assert_eq!(value(&pool, "tank/v", "volsize"), (16 << 20).to_string());
        value(&pool, "tank/v", "refreservation").parse::<u64>().unwrap()
    };
    let size = setting("tank/v", "volsize", "16M");
    let auto = setting("tank/v", "refreservation", "auto");
    let one = reserved(&[size, auto]);
    assert!(one > 16 << 20, "{one}");
    assert_eq!(reserved(&[auto, size]), one);
    // One that was given counts more than the one that follows the size.
    assert_eq!(reserved(&[size, setting("tank/v", "refreservation", "1M")]), 1 << 20);
}

#[test]
fn a_file_system_is_made_with_its_quotas_or_not_at_all() {
    let pool = pool();
    Create::filesystem("tank/b").unwrap().limit(quota(7)).limit(quota(8)).run(&pool).unwrap();
    assert_eq!(quotas(&pool, "tank/b"), [(7, LIMIT), (8, LIMIT)]);
    let volume = Create::volume("tank/w", 1 << 20).unwrap().limit(quota(7));
    assert_eq!(volume.run(&pool).unwrap_err().kind(), &not_here(7));
    // Before version 4 there are none: that shows when it is there.
    let old = Create::filesystem("tank/c").unwrap().set("version", "3").unwrap();
    assert!(old.clone().limit(quota(7)).run(&pool).is_err());
    assert!(!is_there(&pool, "tank/w") && !is_there(&pool, "tank/c"));
    old.run(&pool).unwrap();

    let names = ["tank/a@s", "tank/c@s", "tank/v@s"];
    snapshot(&pool, &names, false, Vec::new()).unwrap();
    let clone = |of: &str| MakeClone::new(of, "tank/n").unwrap().limit(quota(9)).run(&pool);
    assert_eq!(clone("tank/v@s").unwrap_err().kind(), &not_here(9));
    assert!(clone("tank/c@s").is_err());
    assert!(!is_there(&pool, "tank/n"));
    clone("tank/a@s").unwrap();
    assert_eq!(quotas(&pool, "tank/n"), [(9, LIMIT)]);
}

#[test]
fn a_pool_is_made_with_the_quotas_of_its_root_or_not_at_all() {
    let memory: WriteDeviceRef = Arc::new(MemoryDevice::zeros("/m/0", 128 << 20));
    let devices = Devices::from([("/m/0".to_owned(), Arc::clone(&memory))]);
    let spec = VdevSpec::Leaf { path: "/m/0".to_owned(), is_file: true };
    let tops = vec![NewTop { spec, class: SpaceClass::Normal }];
    let new = || {
        let layout = Layout { tops: tops.clone(), ..Layout::default() };
        let new = CreatePool::new(layout, CreateOptions::new("tank", Vec::new()));
        new.limit_root(quota(7))
    };
    let is_labelled = || {
        let device = Arc::clone(&memory).as_device();
        look_at_device(&device, PathBuf::from("/m/0")).is_some()
    };
    let rt = Rt::real();
    new().set_root("version", "3").run(&rt, &devices).map(drop).unwrap_err();
    assert!(!is_labelled());
    // Under a name for now, too, which is not that of its root file system.
    let made = new().named_for_now("depot").unwrap().run(&rt, &devices).unwrap();
    let pool = made.into_pool();
    assert_eq!(quotas(&pool, "tank"), [(7, LIMIT)]);
    pool.export().unwrap();
    assert!(is_labelled());
}

/// What a file system inherits for good is not guessed: its parent's own says it, or nothing is
/// made.
#[test]
fn a_file_system_whose_parent_cannot_be_read_is_not_made() {
    let memory: WriteDeviceRef = Arc::new(MemoryDevice::zeros("/m/0", 128 << 20));
    let devices = Devices::from([("/m/0".to_owned(), Arc::clone(&memory))]);
    let spec = VdevSpec::Leaf { path: "/m/0".to_owned(), is_file: true };
    let layout =
        Layout { tops: vec![NewTop { spec, class: SpaceClass::Normal }], ..Layout::default() };
    // What was read once is read again.
    let options = CreateOptions { cache_bytes: 0, ..CreateOptions::new("tank", Vec::new()) };
    let pool = CreatePool::new(layout, options).run(&Rt::real(), &devices).unwrap().into_pool();
    let make = |name: &str| Create::filesystem(name).unwrap().run(&pool);
    let above = Create::filesystem("tank/a").unwrap().set("casesensitivity", "mixed").unwrap();
    above.run(&pool).unwrap();
    make("tank/a/below").unwrap();
    assert_eq!(value(&pool, "tank/a/below", "casesensitivity"), "mixed");
    let bp = pool.look().unwrap().datasets().by_name("tank/a").unwrap().phys.bp;
    for (_, dva) in bp.dvas() {
        let junk = vec![0xa5; usize::try_from(bp.psize()).unwrap()];
        memory.write((4 << 20) + dva.offset(), &junk).unwrap();
    }
    assert!(make("tank/a/other").is_err());
    assert!(!is_there(&pool, "tank/a/other"));
    make("tank/b").unwrap();
    assert_eq!(value(&pool, "tank/b", "casesensitivity"), "sensitive");
}
