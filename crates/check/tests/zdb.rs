//! The totals of every pool of the collection against what zdb counts.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod common;

use check::{CheckOptions, Severity};
use common::summary;

fn check_case(case: &str) {
    check_pool(case, &testkit::corpus(case));
}

fn check_pool(case: &str, corpus: &testkit::CorpusPool) {
    let pool = common::open(&corpus.dir, corpus.name());
    let report = check::run(&pool, &CheckOptions::default(), &rt::Progress::new());
    let damaged = case == "degraded-mirror";
    let worst = report.issues.iter().filter(|i| i.severity() > Severity::Note);
    for issue in worst {
        assert!(damaged && issue.name() == "device-damaged", "{case}: {issue}");
    }
    assert_eq!(report.is_clean(), !damaged, "{case}");
    let unshared = report.totals.allocated_once() + report.checkpointed;
    match pool.removal().unwrap().filter(|r| r.state.state() == ondisk::scan::State::Active) {
        // What was copied is at two places.
        Some(r) => assert!((unshared..=unshared + r.state.copied).contains(&report.allocated)),
        None => assert_eq!(report.allocated, unshared, "{case}: space maps"),
    }
    let text = summary::of_zdb(&corpus.dir, corpus.name());
    assert!(text.contains("No leaks"), "{case}: zdb finds leaks");
    summary::compare(case, &text, &report);
}

/// Old versions, mappings with obsolete parts, a removal under way: as clean as zdb says.
#[testkit::needs("zdb")]
#[test]
fn rare_states_are_clean_and_their_totals_those_of_zdb() {
    let cases = testkit::sample_cases();
    assert!(cases.len() > 1, "the project ships samples");
    for case in cases {
        check_pool(&case, &testkit::sample(&case));
    }
}

/// Two at a time: zdb spends most of its six seconds waiting.
#[testkit::needs("zdb")]
#[test]
fn totals_are_those_of_zdb() {
    let cases = testkit::corpus_cases();
    let done = rt::Rt::real().for_each_parallel(2, cases, |case| {
        check_case(&case);
        Ok::<(), ()>(())
    });
    assert_eq!(done, Ok(()));
}

#[test]
fn unlocked_everything_is_decrypted_and_right() {
    let corpus = testkit::corpus("crypt");
    let pool = poolkit::open_unlocked(&corpus);
    let options = CheckOptions { snapshots: true, ..CheckOptions::default() };
    let report = check::run(&pool, &options, &rt::Progress::new());
    assert!(report.issues.is_empty(), "{:#?}", report.issues);
}

#[test]
fn snapshots_are_as_clean_as_heads() {
    let corpus = testkit::corpus("history");
    let pool = common::open(&corpus.dir, corpus.name());
    let options = CheckOptions { snapshots: true, ..CheckOptions::default() };
    let report = check::run(&pool, &options, &rt::Progress::new());
    assert!(report.issues.is_empty(), "{:#?}", report.issues);
}

#[test]
fn damage_of_a_mirror_side_is_named() {
    let corpus = testkit::corpus("degraded-mirror");
    let pool = common::open(&corpus.dir, corpus.name());
    let report = check::run(&pool, &CheckOptions::default(), &rt::Progress::new());
    let [d] = report.devices.as_slice() else { panic!("{:?}", report.devices) };
    assert_eq!((&*d.path, d.lost, report.blocks_lost), ("/dev/img1", 0, 0));
    assert!(d.checksum > 100 && d.repairable > 100 && d.ranges.len() > 10, "{d}");
}

#[test]
fn a_device_that_was_away_is_expected_to_differ() {
    let corpus = testkit::corpus("degraded-raidz");
    let pool = common::open(&corpus.dir, corpus.name());
    let report = check::run(&pool, &CheckOptions::default(), &rt::Progress::new());
    let names: Vec<_> = report.issues.iter().map(check::Issue::name).collect();
    assert_eq!(names, ["device-stale", "device-absent"]);
    assert!(report.is_clean());
}

#[test]
fn the_newest_txg_is_intact() {
    for case in ["basic", "raidz1", "crypt"] {
        let corpus = testkit::corpus(case);
        let pool = common::open(&corpus.dir, corpus.name());
        assert_eq!(check::verdict(&pool), pool::Verdict::Intact, "{case}");
    }
}
