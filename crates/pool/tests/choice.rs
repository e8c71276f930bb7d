//! Which of several pools a name or guid means: what opening by name and every command ask.

#![allow(clippy::unwrap_used, reason = "a test may stop where it likes")]

mod common;

use common::Lab;
use ondisk::nvlist::NvValue;
use pool::live::{ImportOptions, LivePool};
use pool::{Candidate, CandidateState, Choice, Destroyed, Error, OpenOptions, SearchOptions};
use std::path::PathBuf;

const EXPORTED: u64 = 1;
const DESTROYED: u64 = 2;
const ACTIVE: u64 = 0;

/// A copy of a pool with this guid, in this state.
fn namesake(lab: &Lab, guid: u64, state: u64) -> Lab {
    let mut other = lab.clone();
    other.edit_labels(|l| {
        l.set("pool_guid", NvValue::U64(guid));
        l.set("state", NvValue::U64(state));
    });
    other
}

/// Pools of one name, with these guids and states.
fn found(lab: &Lab, all: &[(u64, u64)]) -> Vec<Candidate> {
    all.iter().map(|(guid, state)| namesake(lab, *guid, *state).candidate()).collect()
}

/// The guid of the pool that is meant: nothing for none, several for an ambiguous word.
fn meant(choice: &Choice<'_>, found: Vec<Candidate>) -> Vec<u64> {
    match choice.among(found, &[]) {
        Ok(one) => vec![one.config.pool_guid],
        Err(Error::Ambiguous { mut guids, .. }) => {
            guids.sort_unstable();
            guids
        }
        Err(Error::NoSuchPool { .. }) => Vec::new(),
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn a_name_of_two_pools_is_ambiguous_and_their_guids_are_not() {
    let lab = Lab::of(&testkit::fixture("sample"));
    let two = || found(&lab, &[(11, EXPORTED), (12, EXPORTED)]);
    assert_eq!(meant(&Choice::of(&lab.name), two()), [11, 12]);
    assert_eq!(meant(&Choice::of("12"), two()), [12]);
    assert!(meant(&Choice::of("13"), two()).is_empty());
    assert!(meant(&Choice::of("absent"), two()).is_empty());
    // Those that are searched for are the caller's, or the usual places.
    let absent = |searched: &[PathBuf]| match Choice::of("absent").among(two(), searched) {
        Err(Error::NoSuchPool { found, searched, .. }) => (found.len(), searched),
        other => panic!("{:?}", other.map(|c| c.config.pool_guid)),
    };
    assert_eq!(absent(&["/x".into()]), (2, vec!["/x".into()]));
    assert_eq!(absent(&[]), (2, pool::default_search_paths()));
}

#[test]
fn a_destroyed_pool_has_its_guid_and_no_name() {
    let lab = Lab::of(&testkit::fixture("sample"));
    let one = || found(&lab, &[(11, EXPORTED), (12, DESTROYED)]);
    let gone = || found(&lab, &[(12, DESTROYED)]);
    let by_name = |how, all| meant(&Choice::of(&lab.name).destroyed(how), all);
    let by_guid = |how, all| meant(&Choice::of("12").destroyed(how), all);
    let table: [(Destroyed, [&[u64]; 3]); 4] = [
        (Destroyed::Never, [&[11], &[], &[]]),
        (Destroyed::ByGuid, [&[11], &[], &[12]]),
        (Destroyed::IfNoOther, [&[11], &[12], &[12]]),
        (Destroyed::Only, [&[12], &[12], &[12]]),
    ];
    for (how, [beside_another, alone, guid]) in table {
        assert_eq!(by_name(how, one()), beside_another, "{how:?}");
        assert_eq!(by_name(how, gone()), alone, "{how:?}");
        assert_eq!(by_guid(how, one()), guid, "{how:?}");
    }
    assert!(meant(&Choice::of("11").destroyed(Destroyed::Only), one()).is_empty());
    let both = found(&lab, &[(11, DESTROYED), (12, DESTROYED)]);
    assert_eq!(by_name(Destroyed::Only, both), [11, 12]);
}

#[test]
fn of_several_the_preferred_ones_count() {
    let lab = Lab::of(&testkit::fixture("sample"));
    let is_active = |c: &Candidate| c.state() == CandidateState::Active;
    let choice = Choice::of(&lab.name).preferring(is_active);
    assert_eq!(meant(&choice, found(&lab, &[(11, EXPORTED), (12, ACTIVE)])), [12]);
    assert_eq!(meant(&choice, found(&lab, &[(11, ACTIVE), (12, ACTIVE)])), [11, 12]);
    // None is preferred: it is as if nothing were.
    assert_eq!(meant(&choice, found(&lab, &[(11, EXPORTED)])), [11]);
    assert_eq!(meant(&choice, found(&lab, &[(11, EXPORTED), (12, EXPORTED)])), [11, 12]);
    // A guid is not outdone by what is preferred.
    let choice = Choice::of("11").preferring(is_active);
    assert_eq!(meant(&choice, found(&lab, &[(11, EXPORTED), (12, ACTIVE)])), [11]);
}

#[test]
fn what_was_never_a_pool_has_no_name() {
    let lab = Lab::of(&testkit::fixture("sample"));
    let mut begun = namesake(&lab, 12, ACTIVE).candidate();
    begun.config.txg = 0;
    let all = || [found(&lab, &[(11, EXPORTED)]), vec![begun.clone()]].concat();
    for how in [Destroyed::Never, Destroyed::ByGuid, Destroyed::IfNoOther] {
        assert_eq!(meant(&Choice::of(&lab.name).destroyed(how), all()), [11], "{how:?}");
        assert_eq!(meant(&Choice::of("12").destroyed(how), all()), [12], "{how:?}");
    }
}

#[test]
fn a_destroyed_pool_is_opened_for_writing_by_its_name_where_that_is_wanted() {
    let lab = Lab::of(&testkit::fixture("sample"));
    let folder = tempfile::tempdir().unwrap();
    for (number, image) in &namesake(&lab, 12, DESTROYED).images {
        image.save(&folder.path().join(format!("{number}"))).unwrap();
    }
    let paths = vec![folder.path().to_owned()];
    let search = SearchOptions { paths, ..SearchOptions::default() };
    let open = OpenOptions { search, ..OpenOptions::default() };
    let options = |destroyed| ImportOptions { destroyed, ..ImportOptions::new(open.clone()) };
    let refused = LivePool::open(&lab.name, &options(false)).map(|pool| pool.guid());
    assert!(matches!(refused, Err(Error::NoSuchPool { .. })), "{refused:?}");
    let refused = LivePool::open("12", &options(false)).map(|pool| pool.guid());
    assert!(refused.is_err_and(|e| !matches!(e, Error::NoSuchPool { .. })));
    // It is found; whether it can be opened with a guid that was forged is not the question here.
    let opened = LivePool::open(&lab.name, &options(true)).map(|pool| pool.guid());
    assert!(!matches!(opened, Err(Error::NoSuchPool { .. })), "{opened:?}");
}
