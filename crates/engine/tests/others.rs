//! Pools that OpenZFS made, changed here and judged again; those that cannot be changed say why.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, unreachable_pub)]

mod writing;

use engine::inside::dmu;
use engine::inside::pool::Error;
use engine::inside::pool::UnguardedDatasets as _;
use engine::inside::pool::live::NewFilesystem;
use engine::pools::CheckpointState;
use std::path::Path;
use writing::Pools;

/// Cases of the collection that can be changed. The others are in a state, or use a feature, that
/// the writer does not keep up.
const WRITABLE: [&str; 20] = [
    "basic",
    "mirror",
    "raidz1",
    "raidz2",
    "raidz3",
    "stripe",
    "casefold",
    "checkpoint",
    "codecs",
    "compat-2.0",
    "degraded-raidz",
    "draid",
    "expanded",
    "features-off",
    "gang",
    "history",
    "removed",
    "ziluncle",
    "zil-slog",
    "zvols",
];

fn copy(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "img") {
            let status = std::process::Command::new("cp")
                .arg("--sparse=always")
                .args([&path, &to.join(path.file_name().unwrap())])
                .status();
            assert!(status.unwrap().success());
        }
    }
}

fn change(corpus: &testkit::CorpusPool) -> Result<(), Error> {
    let pools = Pools::new(&corpus.case);
    copy(&corpus.dir, pools.dir());
    let name = corpus.name();
    let pool = pools.try_import(name)?;
    let fs = format!("{name}/zinc");
    pool.create_filesystem(&fs, NewFilesystem::default(), Vec::new())?;
    writing::fill(&pool.filesystem(&fs)?, 7, 30);
    pool.snapshot(&[format!("{fs}@s")], Vec::new())?;
    writing::fill(&pool.filesystem(&fs)?, 8, 30);
    pool.clone_snapshot(&format!("{fs}@s"), &format!("{name}/zinc2"), Vec::new())?;
    // A dataset that OpenZFS made, too: with its snapshots, its own layouts and tables.
    writing::fill(&pool.filesystem(name)?, 9, 30);
    pool.export()?;
    pools.judge(name);
    let pool = pools.import(name);
    pool.destroy_dataset(&format!("{name}/zinc2"))?;
    pool.destroy_snapshots(&[format!("{fs}@s")], false)?;
    pool.destroy_dataset(&fs)?;
    pool.export()?;
    pools.judge(name);
    Ok(())
}

#[test]
fn pools_of_openzfs_are_changed() {
    for corpus in testkit::corpus_among(&WRITABLE) {
        let case = &corpus.case;
        change(&corpus).unwrap_or_else(|e| panic!("{case}: {e}"));
    }
}

/// A checkpoint that OpenZFS made is given up, and gone back to.
#[test]
fn a_checkpoint_of_openzfs_is_discarded_and_gone_back_to() {
    for corpus in testkit::corpus_among(&["checkpoint"]) {
        let name = corpus.name();
        for goes_back in [false, true] {
            let pools = Pools::new(&corpus.case);
            copy(&corpus.dir, pools.dir());
            let pool = pools.import_as(name, goes_back).unwrap();
            if !goes_back {
                assert!(pool.view().space().checkpoint() > 0);
                pool.discard_checkpoint().unwrap();
                engine::activity::wait_for_discard(&pool, &engine::Progress::new()).unwrap();
            }
            assert_eq!(pool.allocator_problems(), Vec::<String>::new());
            pool.export().unwrap();
            pools.judge(name);
            let seen = pools.open(name);
            assert_eq!(seen.checkpoint_state(), CheckpointState::None, "{goes_back}");
            assert_eq!(seen.space().checkpoint(), 0, "{goes_back}");
        }
    }
}

/// In pools that lost a vdev, OpenZFS keeps lists of what snapshots still need of the mapping. They
/// follow what is done to the snapshots and heads, and in the end nothing is left of them.
#[test]
fn lists_of_remapped_blocks_go_with_their_datasets() {
    for corpus in testkit::corpus_among(&["removed"]) {
        let name = corpus.name();
        let pools = Pools::new(&corpus.case);
        copy(&corpus.dir, pools.dir());
        let step =
            |what: &str, change: &dyn Fn(&engine::LivePool) -> engine::inside::pool::Result<()>| {
                let pool = pools.import(name);
                change(&pool).unwrap_or_else(|e| panic!("{what}: {e}"));
                assert_eq!(pool.allocator_problems(), Vec::<String>::new(), "{what}");
                pool.export().unwrap();
                pools.judge(name);
            };
        let (first, second) = (format!("{name}@before"), format!("{name}@now"));
        let (two, clone) = (format!("{name}/two"), format!("{name}/clone"));
        assert!(lists(&pools.open(name)).iter().any(|bytes| *bytes > 0));
        step("the head's list goes to a snapshot", &|pool| {
            pool.snapshot(std::slice::from_ref(&second), Vec::new())?;
            writing::fill(&pool.filesystem(name)?, 1, 10);
            pool.clone_snapshot(&second, &clone, Vec::new())
        });
        step("a snapshot without a list goes", &|pool| {
            pool.destroy_snapshots(std::slice::from_ref(&first), false)
        });
        step("a clone takes snapshots over", &|pool| pool.promote(&clone));
        step("a head goes back", &|pool| pool.rollback(&format!("{two}@before"), false));
        step("its snapshot goes", &|pool| {
            pool.destroy_snapshots(&[format!("{two}@before")], false)?;
            pool.destroy_dataset(&two)
        });
        step("the clone goes back to what it is of", &|pool| {
            pool.promote(name)?;
            pool.destroy_dataset(&clone)
        });
        step("the last snapshot goes", &|pool| {
            pool.destroy_snapshots(std::slice::from_ref(&second), false)
        });
        step("a head with a list goes", &|pool| pool.destroy_dataset(&format!("{name}/one")));
        // The root's own list stays, with nothing in it.
        assert_eq!(lists(&pools.open(name)), [0]);
    }
}

/// The lists of remapped blocks: bytes in each.
fn lists(pool: &engine::Pool) -> Vec<u64> {
    let field = engine::inside::ondisk::dsl::dataset_field::REMAP_DEADLIST;
    let list_of = |object: u64| {
        let fields = pool.dsl().fields(object, true).unwrap();
        fields.and_then(|f| f.get_u64(field).unwrap()).filter(|list| *list != 0)
    };
    let all = pool.dsl().datasets().into_iter().filter_map(|(_, dataset)| dataset.ok());
    let lists = all.filter(|d| d.has_fields).filter_map(|d| list_of(d.object));
    lists.map(|list| dmu::deadlist::space(pool.mos(), list).unwrap().used).collect()
}

#[test]
fn what_cannot_be_changed_is_refused_with_reasons() {
    let mut unexpected = Vec::new();
    for case in testkit::corpus_cases() {
        // The devices of degraded-mirror look well until they are read; fragmented is full;
        // crypt is changed with its keys (`encrypted.rs`).
        let other = ["degraded-mirror", "fragmented", "crypt"];
        if WRITABLE.contains(&case.as_str()) || other.contains(&case.as_str()) {
            continue;
        }
        let corpus = testkit::corpus(&case);
        let pools = Pools::new(&case);
        copy(&corpus.dir, pools.dir());
        match pools.try_import(corpus.name()) {
            Err(Error::NotWritable { obstacles, .. }) => assert!(!obstacles.is_empty(), "{case}"),
            Err(e) => panic!("{case}: {e}"),
            Ok(_) => unexpected.push(case),
        }
    }
    assert!(unexpected.is_empty(), "{unexpected:?} were opened for writing");
}
