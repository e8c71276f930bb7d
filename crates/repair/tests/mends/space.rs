//! Space maps and labels.

use super::kit::*;

#[test]
fn space_in_use_that_is_marked_free() {
    let s = surgeon("basic");
    assert!(shorten_an_entry(&s, 0, false));
    mends(&s, &["space-map"], Zdb::Errs);
}

#[test]
fn space_that_nothing_points_to() {
    let s = surgeon("basic");
    // Some of what was freed was allocated again later.
    let before = images(&s);
    for skip in 0.. {
        assert!(shorten_an_entry(&s, skip, true), "a free that counts");
        if s.check() == ["leaked", "space-map"] {
            break;
        }
        put_images(&s, &before);
    }
    mends(&s, &["leaked"], Zdb::Errs);
}

#[test]
fn a_space_map_that_decodes_to_nonsense() {
    let s = surgeon("basic");
    let (map, _) = a_map(&s);
    s.edit_block((0, map), (0, 0), |b| b[..64].fill(0xff));
    mends(&s, &["space-map"], Zdb::Errs);
}

#[test]
fn a_space_map_that_says_of_itself_what_is_not_so() {
    let s = surgeon("basic");
    let (map, _) = a_map(&s);
    s.edit_bonus((0, map), 16, |n| n + 512);
    mends(&s, &["space-map"], Zdb::Errs);
}

#[test]
fn a_space_map_whose_blocks_are_lost() {
    let s = surgeon("basic");
    let (map, _) = a_map(&s);
    let bp = s.open().mos().object(map).unwrap().block_pointer(0, 0).unwrap().unwrap();
    s.destroy_all(&bp);
    mends(&s, &["block-lost", "space-map"], Zdb::Errs);
}

#[test]
fn lost_labels() {
    let s = surgeon("basic");
    s.scribble(0, &vec![0; 512 << 10]);
    mends(&s, &["label"], Zdb::Overlooks);
}

#[test]
fn a_pool_that_is_clean_has_nothing_to_be_repaired() {
    let s = surgeon("basic");
    let planned = in_memory(&s, false).unwrap();
    assert_eq!((planned.plan().steps.len(), planned.plan().written), (0, 0));
}
