//! Which dataset a stream goes into, and what it leaves there.

use super::*;
use engine::inside::pool::UnguardedDatasets as _;

/// A file system with three snapshots, and the same two of them elsewhere, with one of its own.
fn with_younger() -> (LivePool, LivePool, Vec<u8>) {
    let from = NewPool::new("here").memory(128 << 20).create().unwrap();
    let into = NewPool::new("there").memory(128 << 20).create().unwrap();
    engine::datasets::snapshot(&from, &["here@0"], false, Vec::new()).unwrap();
    engine::datasets::snapshot(&from, &["here@1"], false, Vec::new()).unwrap();
    let full = sent(&from, "here@0", None, Forms::default());
    receive(&into, &to("there/fs"), &full).unwrap();
    engine::datasets::snapshot(&into, &["there/fs@mine"], false, Vec::new()).unwrap();
    let stream = sent(&from, "here@1", Some("@0"), Forms::default());
    (from, into, stream)
}

#[test]
fn a_snapshot_that_is_in_use_is_not_destroyed_by_going_back() {
    let (_from, into, stream) = with_younger();
    let force = Receive { force: true, ..to("there/fs") };
    let in_use = into.hold_open("there/fs@mine").unwrap();
    assert_eq!(refusal(receive(&into, &force, &stream)), Refusal::Busy);
    let refused = into.rollback("there/fs@0", true).unwrap_err();
    assert!(refused.to_string().contains("in use"), "{refused}");
    let view = into.look().unwrap();
    assert!(view.dsl().by_name("there/fs@mine").is_ok());
    assert!(view.dsl().by_name("there/fs/%recv").is_err());
    drop(in_use);
    receive(&into, &force, &stream).unwrap();
    assert!(into.look().unwrap().dsl().by_name("there/fs@mine").is_err());
}

/// Begins to receive an increment, and looks at the pool before the end.
struct BeforeTheEnd<'a>(&'a LivePool);

impl ReceiveObserver for BeforeTheEnd<'_> {
    fn not_set(&self, _: &str, _: &str, _: &str) {}
    fn finish(
        &self,
        dataset: &str,
        _: bool,
        finish: &mut dyn FnMut() -> engine::Result<()>,
    ) -> engine::Result<()> {
        let pool = self.0;
        let hidden = format!("{dataset}/%recv");
        assert!(pool.look()?.dsl().by_name(&hidden).is_ok());
        assert!(pool.rename(&hidden, "there/stolen").is_err());
        let all = ["there@all".to_owned()];
        engine::datasets::snapshot(pool, &all, true, Vec::new())?;
        let view = pool.look()?;
        assert!(view.dsl().by_name("there@all").is_ok());
        assert!(view.dsl().by_name(&format!("{hidden}@all")).is_err());
        pool.destroy_snapshots(&[format!("{dataset}@all")], false)?;
        finish()
    }
}

#[test]
fn what_is_half_received_keeps_no_snapshot_of_all_from_being_taken() {
    let (_from, into, stream) = with_younger();
    let force = Receive { force: true, ..to("there/fs") };
    force.run(&into, &stream[..], &BeforeTheEnd(&into), &Progress::new()).unwrap();
    assert!(into.look().unwrap().dsl().by_name("there/fs@1").is_ok());
}

/// An increment goes into the dataset that was named, and into no other that has the snapshot.
#[test]
fn a_name_that_is_not_there_is_not_replaced_by_another() {
    let (_from, into, stream) = with_younger();
    let e = receive(&into, &Receive { force: true, ..to("there/typo") }, &stream).unwrap_err();
    assert_eq!(e.error.kind(), &ErrorKind::NotFound, "{:?}", e.error);
    assert!(into.look().unwrap().dsl().by_name("there/fs@mine").is_ok());
}

/// The first stream was cut into blocks of 128 KiB and the next one is not: it has only the blocks
/// that changed, and the others stay.
#[test]
fn large_blocks_go_on_from_those_that_were_cut() {
    let from = NewPool::new("here").memory(256 << 20).create().unwrap();
    let into = NewPool::new("there").memory(256 << 20).create().unwrap();
    Create::filesystem("here/fs").unwrap().set("recordsize", "1M").unwrap().run(&from).unwrap();
    let fs = from.filesystem("here/fs").unwrap();
    let new = NewFile::new(NewKind::File, 0o644, NOW);
    let mut rng = Rng::new(9);
    let mut file = |name: &[u8], len: usize| {
        let node = fs.create(fs.root_object(), name, &new).unwrap();
        let mut data = vec![0; len];
        rng.fill(&mut data);
        fs.write_at(node.number(), 0, &data, NOW).unwrap();
        node.number()
    };
    let (several, touched) = (file(b"several", 5 << 20), file(b"touched", 3 << 20));
    let (replaced, small) = (file(b"replaced", 2 << 20), file(b"small", 5000));
    engine::datasets::snapshot(&from, &["here/fs@0"], false, Vec::new()).unwrap();
    receive(&into, &to("there/fs"), &sent(&from, "here/fs@0", None, Forms::default())).unwrap();
    fs.write_at(several, (3 << 20) + 100, &[7; 1000], NOW).unwrap();
    fs.write_at(small, 5000, &[8; 3 << 20], NOW).unwrap();
    fs.truncate(replaced, 0, NOW).unwrap();
    fs.write_at(replaced, 1 << 20, &[9; 100], NOW).unwrap();
    fs.set_xattr(touched, b"user.a", b"1", XattrMode::Any, NOW).unwrap();
    engine::datasets::snapshot(&from, &["here/fs@1"], false, Vec::new()).unwrap();
    let large = Forms { large_blocks: true, ..Forms::default() };
    let stream = sent(&from, "here/fs@1", Some("@0"), large);
    receive(&into, &to("there/fs"), &stream).unwrap();
    // Number, bonus and data, but not the size of blocks.
    let all = |pool: &LivePool, name: &str| -> Vec<_> {
        let all = content(&pool.look().unwrap(), name);
        all.into_iter().map(|c| (c.0, c.5, c.7)).collect()
    };
    let (one, two) = (all(&from, "here/fs@1"), all(&into, "there/fs@1"));
    assert_eq!(one.len(), two.len());
    for (a, b) in one.iter().zip(&two) {
        assert!(a == b, "object {} differs", a.0);
    }
    check_owners(&into, "there/fs");
}
