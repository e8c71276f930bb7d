//! Names in a pool's own tables that OpenZFS would not have put there: they forge no row and no
//! column, and give a terminal no orders.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;
#[path = "../../check/tests/common/surgeon.rs"]
#[allow(dead_code, unreachable_pub, missing_docs)]
mod surgeon;

use ondisk::DmuType;
use pool::UnguardedDatasets as _;
use pool::{OpenOptions, Pool};
use std::path::Path;
use support::zinc_in;
use surgeon::Surgeon;

/// Where a name begins in an entry.
const NAME: usize = 14;
/// The new name, and how it is shown.
const ODD: &[u8] = b"a:b\x1b[2J\n\tx=\xff";
const SHOWN: &str = "a:b\\x1b\\x5b2J\\x0a\\x09x\\x3d\\xff";

fn open(dir: &Path, name: &str) -> Pool {
    let mut options = OpenOptions::default();
    options.search.paths = vec![dir.to_owned()];
    Pool::open(name, &options).expect("the pool opens")
}

/// Gives a property of a file system the name; the file system.
fn rename(s: &Surgeon) -> String {
    let pool = s.open();
    for (name, dir) in pool.dsl().walk().into_iter().filter_map(|(n, d)| Some((n, d.ok()?))) {
        let Ok(object) = pool.mos().object(dir.phys.props_zap) else { continue };
        let bp = object.dnode().blkptrs[0];
        let table = dmu::Zap::open(&object).ok().filter(|t| t.micro().unwrap().is_some());
        let is_wanted = object.dnode().kind == DmuType::DSL_PROPS && dir.phys.head_dataset != 0;
        if bp.is_hole() || bp.is_embedded() || table.is_none() || !is_wanted {
            continue;
        }
        let number = object.number();
        s.edit_block((0, number), (0, 0), |block| {
            let entry = block.chunks_exact_mut(64).skip(1).find(|c| c[NAME] != 0).unwrap();
            entry[NAME..].fill(0);
            entry[NAME..NAME + ODD.len()].copy_from_slice(ODD);
        });
        return name;
    }
    panic!("no such property");
}

#[test]
fn a_property_name_stays_in_its_cell() {
    let s = Surgeon::new(&testkit::corpus("history"));
    let name = rename(&s);
    let run = |args: &[&str]| {
        let run = zinc_in(s.dir(), &[args, &[&name]].concat());
        assert_eq!(run.code, 0, "{args:?}: {}", run.err);
        run.out
    };
    let out = run(&["zfs", "get", "-d", ".", "all"]);
    let found = out.lines().filter(|l| l.contains("a:b")).collect::<Vec<_>>();
    assert!(found.len() == 1 && found[0].contains(SHOWN), "{out}");
    // For programs the same: it is a name, not a value.
    let out = run(&["zfs", "get", "-H", "-d", ".", "all"]);
    let found = out.lines().filter(|l| l.contains("a:b")).collect::<Vec<_>>();
    let cells: Vec<_> = found[0].split('\t').collect();
    assert!(found.len() == 1 && cells.len() == 4 && cells[1] == SHOWN, "{out}");
    let json: serde_json::Value =
        serde_json::from_str(&run(&["zfs", "get", "-j", "-d", ".", "all"])).unwrap();
    assert!(json["datasets"][&name]["properties"][SHOWN].is_object());
    let pool = name.split('/').next().unwrap();
    let run = zinc_in(s.dir(), &["check", "-d", ".", pool]);
    let wanted = format!("'{SHOWN}' is not a valid property name");
    assert!(run.code == 3 && run.out.contains(&wanted), "{} {}", run.out, run.err);
}
