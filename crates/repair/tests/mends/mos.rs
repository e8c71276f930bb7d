//! The pool's own objects: dead lists, tables, the history.

use super::kit::*;
use dmu::zap::ZapSpec;
use dsl::StoredValue;
use dsl::write::PropertyChange;
use ondisk::bpobj::BpobjHeader;
use ondisk::dsl::dir_field::{FILESYSTEM_COUNT, SNAPSHOT_COUNT};
use pool::UnguardedDatasets as _;

/// The objects of the MOS of a type that have a block which is not embedded.
fn objects(s: &Surgeon, kind: DmuType) -> Vec<(u64, ondisk::BlkPtr)> {
    let pool = s.open();
    let all = pool.mos().objects().filter_map(Result::ok).filter(|o| o.dnode().kind == kind);
    let first = |o: dmu::Object| {
        let bp = o.block_pointer(0, 0).ok().flatten()?;
        (!bp.is_hole() && !bp.is_embedded()).then_some((o.number(), bp))
    };
    all.filter_map(first).collect()
}

/// Lists of blocks that are part of a dead list, with some blocks in them.
fn dead_list(s: &Surgeon) -> u64 {
    let pool = s.open();
    let heads = heads(&pool);
    let lists = heads.iter().filter_map(|d| dmu::deadlist::keys(pool.mos(), d.phys.deadlist).ok());
    let mut lists = lists.flat_map(|keys| keys.into_values());
    let has_some = |list: &u64| {
        dmu::bpobj::header(pool.mos(), *list).is_ok_and(|header| header.num_blkptrs > 2)
    };
    lists.find(has_some).expect("a head has given something up")
}

#[test]
fn a_dead_list_that_cannot_be_read() {
    let s = surgeon("history");
    let list = dead_list(&s);
    let bp = s.open().mos().object(list).unwrap().block_pointer(0, 0).unwrap().unwrap();
    s.destroy_all(&bp);
    let steps = mends(&s, &["block-lost"], Zdb::Errs);
    assert!(steps.iter().any(|step| matches!(step, Step::DeadList { blocks: 2.., .. })));
}

#[test]
fn a_dead_list_with_a_block_that_does_not_belong_there() {
    let s = surgeon("history");
    let list = dead_list(&s);
    // Born later than its dataset's last snapshot.
    s.edit_block((0, list), (0, 0), |b| {
        edit_word(b, 10 * 8, |_| 0);
        edit_word(b, 11 * 8 - 8, |_| 1 << 40);
    });
    let header = |s: &Surgeon| -> BpobjHeader { dmu::bpobj::header(s.open().mos(), list).unwrap() };
    assert!(header(&s).num_blkptrs > 2);
    mends(&s, &["block-list"], Zdb::Overlooks);
}

#[test]
fn a_history_that_cannot_be_read() {
    let s = surgeon("basic");
    let (_, bp) = objects(&s, DmuType::SPA_HISTORY)[0];
    s.destroy_all(&bp);
    let steps = mends(&s, &["block-lost"], Zdb::Errs);
    assert!(steps.contains(&Step::History), "{steps:?}");
}

#[test]
fn properties_that_cannot_be_read() {
    let s = surgeon("history");
    let (_, bp) = objects(&s, DmuType::DSL_PROPS)[0];
    s.destroy_all(&bp);
    mends(&s, &["block-lost"], Zdb::Errs);
}

/// Makes the table of names unreadable, also one that stands in its dnode.
fn lose(s: &Surgeon, table: u64) {
    let bp = s.open().mos().object(table).unwrap().block_pointer(0, 0).unwrap().unwrap();
    match bp.is_embedded() {
        // The payload begins where the pointers do.
        true => s.edit_dnode((0, table), |dnode| dnode[64..112].fill(0xff)),
        false => s.destroy_all(&bp),
    }
}

/// How many datasets there are, all of which must be found, and how many have a name like this.
fn named(s: &Surgeon, part: &str) -> (usize, usize) {
    let found = s.open().dsl().datasets();
    assert!(found.iter().all(|(_, d)| d.is_ok()), "{found:?}");
    (found.len(), found.iter().filter(|(name, _)| name.contains(part)).count())
}

#[test]
fn names_of_snapshots_and_clones_that_cannot_be_read() {
    let s = surgeon("history");
    let pool = s.open();
    let (all, _) = named(&s, "");
    let with_clones = heads(&pool).into_iter().find(|d| d.dir.phys.clones != 0).unwrap();
    let snapshots = pool.dsl().snapshots(&with_clones).unwrap();
    let cloned = snapshots.iter().find(|d| d.phys.num_children > 1).unwrap();
    let snapnames = with_clones.phys.snapnames_zap;
    for table in [snapnames, cloned.phys.next_clones, with_clones.dir.phys.clones] {
        lose(&s, table);
    }
    mends(&s, &["block-lost"], Zdb::Errs);
    assert_eq!(named(&s, "@lost-"), (all, snapshots.len()));
    let clones = |s: &Surgeon| s.open().dsl().clones(cloned).unwrap().len();
    assert_eq!(clones(&s) as u64 + 1, cloned.phys.num_children);
}

#[test]
fn names_of_datasets_that_cannot_be_read() {
    let s = surgeon("history");
    let pool = s.open();
    let (all, _) = named(&s, "");
    let root = pool.dsl().root().unwrap().object;
    let below = |d: &dsl::Dataset| pool.dsl().child_names(&d.dir).unwrap().len();
    let mut heads = heads(&pool).into_iter();
    let head = heads.find(|d| d.dir.object != root && below(d) > 0).expect("datasets below");
    lose(&s, head.dir.phys.child_zap);
    mends(&s, &["block-lost"], Zdb::Errs);
    let (now, lost) = named(&s, "/lost-");
    assert!(now == all && lost >= below(&head), "{now} of {all}, {lost}");
}

/// Names and objects of the pool's own directories.
fn own_dirs(s: &Surgeon) -> Vec<(String, u64)> {
    s.open().dsl().internal_dirs().unwrap()
}

/// The table of what is below the root.
fn root_table(s: &Surgeon) -> u64 {
    s.open().dsl().root().unwrap().phys.child_zap
}

#[test]
fn the_pools_own_directories_get_their_names_back() {
    for case in ["basic", "history"] {
        let s = surgeon(case);
        let own = own_dirs(&s);
        let origin = own.iter().find(|(name, _)| name == "$ORIGIN").unwrap().1;
        let below = s.open().dsl().dir(origin, String::new()).unwrap();
        let head = s.open().dsl().head(&below).unwrap().unwrap();
        lose(&s, root_table(&s));
        lose(&s, head.phys.snapnames_zap);
        mends(&s, &["block-lost"], Zdb::Errs);
        assert_eq!(own_dirs(&s), own);
        let pool = s.open();
        let snapshots = pool.dsl().snapshots(&head).unwrap();
        let names: Vec<_> = snapshots.iter().map(|d| d.name.as_str()).collect();
        assert!(matches!(names[..], [one] if one.ends_with("@$ORIGIN")), "{names:?}");
    }
}

#[test]
fn the_pools_own_directories_under_other_names() {
    let s = surgeon("history");
    let own = own_dirs(&s);
    let table = root_table(&s);
    let live = live(&s);
    let (gone, renamed) = (own.clone(), ["$ORIGIN", "$FREE"]);
    let done = live.run(move |cx| {
        let (table, tx) = (cx.dsl().mos.object(table)?, cx.tx);
        for (name, object) in gone.iter().filter(|(name, _)| renamed.contains(&name.as_str())) {
            dmu::zap::remove(&table, tx, name.as_str())?;
            dmu::zap::set_u64(&table, tx, format!("lost-{object}").as_str(), *object)?;
        }
        Ok(())
    });
    done.unwrap();
    live.export().unwrap();
    mends(&s, &["bad-structure"], Zdb::Errs);
    assert_eq!(own_dirs(&s), own);
}

/// Makes the later fields of a dataset's directory, which are a table in its object, unreadable;
/// the directory.
fn lose_fields(s: &Surgeon, name: &str) -> u64 {
    let pool = s.open();
    let dir = pool.dsl().by_name(name).unwrap().dir.clone();
    assert!(dir.has_fields, "{name} has no later fields");
    lose(s, dir.object);
    assert!(s.open().dsl().key_object(&dir).is_err());
    dir.object
}

#[test]
fn later_fields_of_a_directory_that_cannot_be_read() {
    let s = surgeon("history");
    let pool = s.open();
    let has_fields =
        |d: &dsl::Dataset| d.dir.has_fields && !pool.dsl().snapshots(d).unwrap().is_empty();
    let name = heads(&pool).into_iter().find(has_fields).expect("a head with snapshots").name;
    let (all, _) = named(&s, "");
    let live = live(&s);
    let value = Some(StoredValue::Number(50));
    live.set_property(&name, PropertyChange { name: "filesystem_limit".into(), value }).unwrap();
    live.export().unwrap();
    let counts = |s: &Surgeon, dir: u64| {
        let pool = s.open();
        let fields = pool.dsl().fields(dir, true).unwrap().unwrap();
        [FILESYSTEM_COUNT, SNAPSHOT_COUNT].map(|field| fields.get_u64(field).unwrap().unwrap())
    };
    let before = counts(&s, s.open().dsl().by_name(&name).unwrap().dir.object);
    assert!(before[1] > 0, "{before:?}");
    let dir = lose_fields(&s, &name);
    let pool = s.open();
    let head = pool.dsl().by_name(&name).unwrap();
    let mut sets = pool.dsl().snapshots(&head).unwrap().into_iter().chain([head]);
    assert!(sets.all(|set| pool.dsl().objset(&set).is_ok()), "what is not encrypted can be read");
    let steps = mends(&s, &["block-lost"], Zdb::Errs);
    assert!(matches!(&steps[..], [Step::Table { kept: 2, .. }]), "{steps:?}");
    assert_eq!(counts(&s, dir), before);
    assert_eq!(named(&s, "").0, all, "no dataset is given up");
}

#[test]
fn holds_that_cannot_be_read() {
    let s = surgeon("history");
    let pool = s.open();
    let mut all = heads(&pool).into_iter().flat_map(|head| pool.dsl().snapshots(&head).unwrap());
    let held = all.find(|snapshot| !pool.dsl().holds(snapshot).unwrap().is_empty()).unwrap();
    lose(&s, held.phys.userrefs);
    mends(&s, &["block-lost"], Zdb::Errs);
    let pool = s.open();
    assert_eq!(pool.dsl().holds(&pool.dsl().by_name(&held.name).unwrap()).unwrap(), []);
}

/// The word of a directory that has the number of its table of permissions.
const DELEGATED: usize = 11 * 8;

/// The root's directory, and another.
fn two_directories(s: &Surgeon) -> [u64; 2] {
    let pool = s.open();
    let root = pool.dsl().root().unwrap().object;
    let other = heads(&pool).into_iter().map(|head| head.dir.object).find(|dir| *dir != root);
    [root, other.expect("a dataset below the root")]
}

/// Permissions of 40 users on the root's directory: see [`permit_on`].
fn permit(s: &Surgeon) -> u64 {
    permit_on(s, two_directories(s)[0])
}

/// Permissions of 40 users on a directory, each in a table of its own; that of all.
fn permit_on(s: &Surgeon, dir: u64) -> u64 {
    let live = live(s);
    let made = live.run(|cx| {
        let (mos, tx) = (cx.dsl().mos, cx.tx);
        let new = || dmu::zap::create(mos, tx, &ZapSpec::new(DmuType::DSL_PERMS));
        let all = new()?;
        for user in 0..40 {
            let one = new()?;
            dmu::zap::set_u64(&one, tx, "snapshot", 0)?;
            dmu::zap::set_u64(&all, tx, format!("ul${}", 1000 + user).as_str(), one.number())?;
        }
        Ok(all.number())
    });
    live.export().unwrap();
    let table = made.unwrap();
    s.edit_bonus((0, dir), DELEGATED, |_| table);
    table
}

/// How many tables of permissions there are, and users who have some.
fn permitted(s: &Surgeon) -> (usize, usize) {
    let pool = s.open();
    let all = pool.mos().objects().filter_map(Result::ok);
    let tables = all.filter(|o| o.dnode().kind == DmuType::DSL_PERMS).count();
    (tables, pool.dsl().delegations(&pool.dsl().root().unwrap()).unwrap().len())
}

#[test]
fn permissions_that_cannot_be_read() {
    let s = surgeon("history");
    let table = permit(&s);
    let (tables, users) = permitted(&s);
    assert!(tables > 40 && users == 40, "{tables}, {users}");
    lose(&s, table);
    mends(&s, &["block-lost"], Zdb::Errs);
    assert_eq!(permitted(&s), (tables - 40, 0), "what the table led to is free");
}

#[test]
fn permissions_of_two_datasets_that_cannot_be_read() {
    let s = surgeon("history");
    let lost = two_directories(&s).map(|dir| permit_on(&s, dir));
    let (tables, _) = permitted(&s);
    lost.into_iter().for_each(|table| lose(&s, table));
    mends(&s, &["block-lost"], Zdb::Errs);
    assert_eq!(permitted(&s), (tables - 80, 0), "what the tables led to is free");
}

/// A part that fails keeps no other from being made, and the plan says why it stays.
#[test]
fn what_cannot_be_mended_keeps_nothing_else_from_it() {
    let s = surgeon("history");
    let [root, other] = two_directories(&s);
    let table = permit_on(&s, root);
    let (history, bp) = objects(&s, DmuType::SPA_HISTORY)[0];
    let (tables, _) = permitted(&s);
    // Which tables are in use cannot be told as long as one directory leads to no table.
    s.edit_bonus((0, other), DELEGATED, |_| history);
    lose(&s, table);
    s.destroy_all(&bp);
    let repaired = in_memory(&s, true).unwrap();
    let plan = repaired.plan();
    assert!(plan.steps.contains(&Step::History), "{plan:?}");
    assert!(plan.steps.iter().any(|step| matches!(step, Step::Table { .. })), "{plan:?}");
    let [failed] = &plan.failed[..] else { panic!("{plan:?}") };
    assert!(failed.what.contains("permissions") && !failed.why.is_empty(), "{failed:?}");
    let folder = tempfile::tempdir().unwrap();
    repaired.apply(&folder.path().join("undo")).unwrap();
    assert_eq!(permitted(&s).0, tables, "nothing was freed");
    assert!(!s.check().contains(&"block-lost"), "{:?}", s.check());
}

#[test]
fn an_error_log_that_cannot_be_read() {
    let s = surgeon("basic");
    let pool = s.open();
    let (set, file) = plain_file(&s);
    // Something is damaged while it is scrubbed, and then it is not.
    let bp = objset(&pool, set).object(file).unwrap().block_pointer(0, 0).unwrap().unwrap();
    let before = images(&s);
    s.destroy_all(&bp);
    let live = live(&s);
    live.scrub().unwrap();
    live.wait_for_scan().unwrap();
    live.export().unwrap();
    for (_, dva) in bp.dvas() {
        let start = ondisk::label::DATA_START + dva.offset();
        s.scribble(start, &bytes_of(&before, start, bp.psize()));
    }
    assert_eq!(s.check(), ["known-error"]);
    let log = s.open().directory().unwrap().need_u64(ondisk::mos::ERRLOG_LAST).unwrap();
    lose(&s, log);
    let steps = mends(&s, &["block-lost"], Zdb::Overlooks);
    assert!(matches!(&steps[..], [Step::Table { kept: 0, .. }]), "{steps:?}");
}
