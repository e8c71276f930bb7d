//! What errors of the floors become.

use super::{Error, ErrorKind, Hint, Place};
use crate::layout::{LayoutFault, parse};
use pool::live::{Setting, Tunable};
use pool::{DeviceFault, Ongoing, PoolRefusal};
use repair::RepairRefusal;

/// What a public call fails with becomes the one error by `?`.
fn is_public<E: Into<Error>>() {}

#[test]
fn what_public_calls_fail_with_becomes_the_one_error() {
    is_public::<pool::Error>();
    is_public::<dsl::Error>();
    is_public::<zpl::Error>();
    is_public::<dmu::Error>();
    is_public::<device::Error>();
    is_public::<ondisk::Error>();
    is_public::<repair::Error>();
    is_public::<pool::live::TunableError>();
    is_public::<crate::pools::DeviceRefusal>();
    is_public::<crate::pools::PoolNameFault>();
    is_public::<crate::files::NotRemoved>();
    is_public::<crate::receive::NotReceived>();
    is_public::<rt::Cancelled>();
    is_public::<std::io::Error>();
}

#[test]
fn tunables_that_are_wrong_say_where_and_what_to_do() {
    let error = Error::from(Setting::parse("zfs_txg_timeout=0").unwrap_err());
    let (property, value) = ("zfs_txg_timeout".to_owned(), "0".to_owned());
    assert_eq!(error.place(), Some(&Place::Tunable(property.clone())));
    assert_eq!(error.kind(), &ErrorKind::BadValue { property, value });
    assert_eq!(error.hint(), Some(&Hint::ListTunables));
    let error = Error::from(Tunable::named("txg_timeout").unwrap_err());
    assert_eq!(error.kind(), &ErrorKind::NotFound);
    assert_eq!(error.hint(), Some(&Hint::MeantTunable("zfs_txg_timeout")));
}

/// The system's errors name no file.
#[test]
fn an_error_of_the_system_says_of_which_file_it_is() {
    let error = || Error::from(std::io::Error::other("no such file"));
    assert_eq!(error().to_string(), "no such file");
    assert_eq!(error().at(Place::Path("a/b".into())).to_string(), "a/b: no such file");
    assert_eq!(error().at(Place::Pool("tank".to_owned())).to_string(), "no such file");
    let own = Error::external("cannot read a/b").at(Place::Path("a/b".into()));
    assert_eq!(own.to_string(), "cannot read a/b");
}

#[test]
fn layouts_that_are_wrong_say_what_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("none").to_str().unwrap().to_owned();
    let error = parse(std::slice::from_ref(&path)).unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::NotFound);
    assert_eq!(error.place(), Some(&Place::Path(path.clone().into())));
    assert_eq!(error.hint(), Some(&Hint::MakeFile(path.into())));
    // No folder, and no file in it.
    let far = folder.path().join("a/b").to_str().unwrap().to_owned();
    assert_eq!(parse(&[far]).unwrap_err().hint(), None);
    let folder = folder.path().to_str().unwrap().to_owned();
    assert_eq!(parse(&[folder]).unwrap_err().kind(), &ErrorKind::NoDevice);
    let error = parse(&["mirror".to_owned()]).unwrap_err();
    let fault = LayoutFault::TooFew { kind: "mirror".to_owned(), least: 2 };
    assert_eq!(error.kind(), &ErrorKind::BadLayout(fault));
    let text = "invalid layout: a mirror has at least 2 devices";
    assert_eq!(error.to_string(), text);
}

#[test]
fn a_pool_that_is_not_repaired_says_what_to_do_first() {
    let hint = |why: RepairRefusal| Error::from(repair::Error::from(why)).hint().cloned();
    assert_eq!(hint(RepairRefusal::Checkpoint), Some(Hint::EndCheckpoint));
    assert_eq!(hint(RepairRefusal::Removal), Some(Hint::EndRemoval));
    assert_eq!(hint(RepairRefusal::Away("a is OFFLINE".to_owned())), Some(Hint::BringBack));
    let error = Error::from(repair::Error::from(RepairRefusal::TooMuch(5 << 20)));
    assert_eq!(error.hint(), Some(&Hint::AllowMore));
    assert_eq!(error.to_string(), "the repair would write more than 5 MiB");
}

#[test]
fn a_refusal_of_a_pool_says_where_and_what_to_do() {
    let of = |why| Error::from(pool::Error::Refused { pool: "tank".to_owned(), why });
    let error = of(PoolRefusal::FeatureNotEnabled("draid"));
    assert_eq!(error.place(), Some(&Place::Property("feature@draid".to_owned())));
    assert_eq!(error.hint(), Some(&Hint::EnableFeature("draid")));
    assert_eq!(error.to_string(), "feature@draid is not enabled");
    let error = of(PoolRefusal::KeyNeeded("tank/a".to_owned()));
    assert_eq!((error.dataset(), error.hint()), (Some("tank/a"), Some(&Hint::LoadKey)));
    let error = of(PoolRefusal::from(DeviceFault::NotOpened("sdb".to_owned())));
    assert_eq!(error.place(), Some(&Place::Device("sdb".to_owned())));
    // What runs has no name, but the pool that it runs in does.
    let error = of(PoolRefusal::from(Ongoing::Scrub));
    assert_eq!(error.place(), Some(&Place::Pool("tank".to_owned())));
    assert_eq!(error.hint(), Some(&Hint::AwaitEnd(Ongoing::Scrub)));
    assert_eq!(error.kind(), &ErrorKind::PoolRefused(PoolRefusal::Ongoing(Ongoing::Scrub)));
    assert_eq!(error.to_string(), "currently scrubbing; cancel that scrub first");
    let error = of(PoolRefusal::from(DeviceFault::NotInPool));
    assert_eq!(error.place(), Some(&Place::Pool("tank".to_owned())));
    assert_eq!(error.hint(), Some(&Hint::ListDevices));
    // Not even a pause that is one already is without a place.
    let error = of(PoolRefusal::from(Ongoing::PausedScrub));
    assert_eq!((error.place().is_some(), error.hint()), (true, None));
}

#[test]
fn a_refusal_to_change_a_file_is_a_value_with_a_place_and_a_hint() {
    let off = zpl::Error::refused(zpl::Unsupported::XattrOff);
    let text = off.to_string();
    let error = Error::from(off);
    assert_eq!(error.kind(), &ErrorKind::FileRefused(zpl::Unsupported::XattrOff.into()));
    assert_eq!(error.place(), Some(&Place::Property("xattr".to_owned())));
    assert_eq!(error.hint(), Some(&Hint::SetProperty { name: "xattr", value: "sa" }));
    assert_eq!(error.to_string(), text);
    let error = Error::from(zpl::Error::refused(zpl::Protection::Immutable));
    assert_eq!((error.place(), error.hint()), (None, None));
    assert_eq!(error.to_string(), "not permitted: the file is immutable");
}

#[test]
fn a_refusal_to_change_an_object_is_a_value_with_a_place_and_a_hint() {
    use crate::object_refusals::{InvalidChange, ObjectRefusal, Unsupported};
    let of = |kind| Error::from(dmu::Error { objset: 54, object: 7, kind });
    let error = of(dmu::ErrorKind::Invalid(InvalidChange::BlockSize));
    assert_eq!(error.object_refusal(), Some(ObjectRefusal::Invalid(InvalidChange::BlockSize)));
    assert_eq!(error.place(), Some(&Place::Object { objset: 54, object: 7 }));
    assert_eq!((error.kind(), error.hint()), (&ErrorKind::Invalid, None));
    // What a key is missing for says so in the same way as all else.
    let error = of(dmu::ErrorKind::Invalid(InvalidChange::NoKey));
    assert_eq!((error.kind(), error.hint()), (&ErrorKind::NoKey, Some(&Hint::LoadKey)));
    let error = of(dmu::ErrorKind::Unsupported(Unsupported::ByteOrder));
    let why = ObjectRefusal::Unsupported(Unsupported::ByteOrder);
    assert_eq!((error.object_refusal(), error.kind()), (Some(why), &ErrorKind::Unsupported));
    assert_eq!(error.hint(), Some(&Hint::CopyToNew));
    let error = of(dmu::ErrorKind::Unsupported(Unsupported::NoFeatureFlags));
    assert_eq!(error.hint(), Some(&Hint::OpenReadonly));
    // An entry that is named is the place, also through the floors between.
    let exists = dmu::ErrorKind::EntryExists("letter".to_owned());
    let below = dmu::Error { objset: 54, object: 7, kind: exists };
    let error = Error::from(pool::Error::Zpl(zpl::Error::Dmu(below)));
    let name = "letter".to_owned();
    let place = Place::Entry { objset: 54, object: 7, name };
    assert_eq!((error.kind(), error.place()), (&ErrorKind::Exists, Some(&place)));
    assert_eq!(place.to_string(), "objset 54 object 7 entry 'letter'");
    // A pool that is full is not the object's matter.
    let error = of(dmu::ErrorKind::NoSpace);
    assert_eq!((error.place(), error.object_refusal()), (None, None));
}

#[test]
fn what_is_too_much_for_memory_is_no_damage() {
    let of = |kind| Error::from(dmu::Error { objset: 1, object: 2, kind });
    assert_eq!(of(dmu::ErrorKind::Memory).kind(), &ErrorKind::TooLarge);
    assert_eq!(of(dmu::ErrorKind::Tree("x")).kind(), &ErrorKind::Damaged);
    assert_eq!(of(dmu::ErrorKind::NoObject).kind(), &ErrorKind::NotFound);
}
