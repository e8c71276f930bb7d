//! What pointers and dnodes count of the blocks below them.

use super::kit::*;

/// The word of a pointer that counts what is filled below it.
const FILL: usize = 11 * 8;
/// The word of a dnode that says what its blocks take.
const USED: usize = 24;
/// Where the pointers of a dnode begin.
const POINTERS: usize = 64;

#[test]
fn what_is_filled_below_a_pointer() {
    let s = surgeon("basic");
    let file = plain_file(&s);
    s.edit_dnode(file, |dnode| edit_word(dnode, POINTERS + FILL, |n| n + 3));
    let steps = mends(&s, &["fill-count"], Zdb::Overlooks);
    assert!(matches!(&steps[..], [Step::Sum { from, to, .. }] if *from == to + 3), "{steps:?}");
}

/// Files behind a block of dnodes that is said to have none are not found by a send.
#[test]
fn how_many_dnodes_are_below_a_pointer() {
    let s = surgeon("basic");
    let (set, _) = plain_file(&s);
    let meta = objset(&s.open(), set).meta_object().unwrap();
    assert!(meta.dnode().levels > 1);
    s.edit_block((set, 0), (1, 0), |b| edit_word(b, FILL, |n| n - 1));
    mends(&s, &["fill-count"], Zdb::Overlooks);
}

#[test]
fn space_that_a_dnode_says_its_blocks_take() {
    let s = surgeon("basic");
    let file = plain_file(&s);
    s.edit_dnode(file, |dnode| edit_word(dnode, USED, |n| n + 4096));
    mends(&s, &["object-space"], Zdb::Overlooks);
}

#[test]
fn counts_in_the_meta_object_set() {
    let s = surgeon("history");
    let pool = s.open();
    let mut all = pool.mos().objects().filter_map(Result::ok);
    let object = all.find(|o| o.dnode().levels > 1 && o.dnode().kind != DmuType::SPACE_MAP);
    let number = object.expect("an object with a level above its blocks").number();
    s.edit_dnode((0, number), |dnode| {
        edit_word(dnode, USED, |n| n + 512);
        edit_word(dnode, POINTERS + FILL, |n| n + 1);
    });
    mends(&s, &["fill-count", "object-space"], Zdb::Overlooks);
}
