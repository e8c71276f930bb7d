//! An import.

use super::{Import, ImportedPool, Rewind, RewindReach};
use crate::error::{ErrorKind, Hint, Result};
use crate::faults::ImportRefusal;
use crate::import_list::test_list::List;
use crate::import_list::{EarlierState, ImportConflict};
use crate::pools::{PoolNameFault, scan};
use crate::properties::pool::parse;
use crate::{NewPool, OpenOptions};
use pool::live::{ImportOptions, Invocation};
use pool::{Candidate, CandidateState, Pool};
use std::path::PathBuf;
use tempfile::TempDir;

/// A pool in a file, exported.
struct Case {
    image: PathBuf,
    _folder: TempDir,
}

impl Case {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let image = folder.path().join("a.img");
        let pool = NewPool::new("tank").file(&image, 64 << 20).unwrap().create().unwrap();
        pool.export().unwrap();
        Self { image, _folder: folder }
    }

    fn found(&self) -> Candidate {
        let options = OpenOptions::in_places([&self.image]);
        Candidate::group(&scan(&options.search).unwrap()).pop().unwrap()
    }

    fn import(&self) -> Import {
        let options = ImportOptions::new(OpenOptions::in_places([&self.image]));
        Import::new(self.found(), options)
    }
}

fn refusal(result: Result<impl Sized>) -> ImportRefusal {
    match result.map(drop).unwrap_err().kind() {
        ErrorKind::NotImported(why) => why.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn settings_and_the_line_of_the_history_are_stored_once_the_pool_is_listed() {
    let (case, list) = (Case::new(), List::default());
    let line = Invocation { command: "zpool import tank depot".into(), ..Invocation::default() };
    let import = case.import().renamed("depot").unwrap().by(line);
    let import = import.set(parse("comment", "of old").unwrap()).unwrap();
    let pool = import.plan(&list).unwrap().run(&list).unwrap();
    let mut was_waited_for = false;
    pool.close(&list, |pool| was_waited_for = pool.name() == "depot").unwrap();
    assert!(was_waited_for);
    let expected = ["writable", "conflict", "conflict", "hold", "conflict", "add", "refresh"];
    assert_eq!(*list.calls.borrow(), expected);
    let entries = list.entries.borrow();
    assert_eq!((entries[0].name.as_str(), entries[0].is_read_only), ("depot", false));
    let found = case.found();
    assert_eq!((found.name(), found.state()), ("depot", CandidateState::Active));
    assert_eq!(found.config.comment.as_deref(), Some("of old"));
    let seen = Pool::open_candidate(&found, &OpenOptions::in_places([&case.image])).unwrap();
    let mut history = seen.history().unwrap().into_iter().flatten();
    assert!(history.any(|r| r.command().as_deref() == Some("zpool import tank depot")));
}

#[test]
fn what_is_imported_or_has_the_name_of_another_is_refused_unopened() {
    let (case, list) = (Case::new(), List::default());
    list.conflict.set(Some(ImportConflict::Imported));
    assert_eq!(refusal(case.import().plan(&list)), ImportRefusal::NameTaken);
    let renamed = case.import().renamed("depot").unwrap().plan(&list).map(drop).unwrap_err();
    assert_eq!(renamed.hint(), Some(&Hint::ExportFirst("tank".to_owned())));
    list.conflict.set(Some(ImportConflict::NameTaken));
    let renamed = case.import().renamed_for_now("depot").unwrap().plan(&list);
    assert_eq!(refusal(renamed), ImportRefusal::NameTaken);
    let reserved = ImportRefusal::Name(PoolNameFault::Reserved);
    assert_eq!(refusal(case.import().renamed("mirror")), reserved);
    assert!(case.import().set(parse("feature@blake3", "enabled").unwrap()).is_err());
    let list = List { is_read_only: true, ..List::default() };
    assert_eq!(refusal(case.import().plan(&list)), ImportRefusal::NotListed);
    assert_eq!(case.found().state(), CandidateState::Exported);
}

#[test]
fn a_pool_that_cannot_be_listed_is_exported_again() {
    let case = Case::new();
    let overtaken = List { is_overtaken: true, ..List::default() };
    let result = case.import().plan(&overtaken).unwrap().run(&overtaken);
    assert_eq!(refusal(result), ImportRefusal::NameTaken);
    assert_eq!(case.found().state(), CandidateState::Exported);
    let full = List { cannot_add: true, ..List::default() };
    let result = case.import().plan(&full).unwrap().run(&full);
    assert_eq!(refusal(result), ImportRefusal::NotListed);
    assert_eq!(case.found().state(), CandidateState::Exported);
}

#[test]
fn a_pool_of_an_old_version_or_with_readonly_is_only_read() {
    let (case, list) = (Case::new(), List::default());
    assert_eq!(case.import().version_only_read(), None);
    let mut found = case.found();
    found.config.version = 28;
    let old = Import::new(found, ImportOptions::new(OpenOptions::in_places([&case.image])));
    assert_eq!((old.version_only_read(), old.is_read_only()), (Some(28), true));
    let pool = old.plan(&list).unwrap().run(&list).unwrap();
    assert!(matches!(pool, ImportedPool::ReadOnly(_)));

    let plan = case.import().set(parse("readonly", "on").unwrap()).unwrap();
    let plan = plan.renamed("depot").unwrap().plan(&list).unwrap();
    plan.check_open().unwrap();
    assert_eq!(plan.run(&list).unwrap().view().name(), "depot");
    let entries = list.entries.borrow();
    assert!(entries.iter().all(|entry| entry.is_read_only && entry.state.is_none()));
    assert_eq!(entries[1].name, "depot");
    assert_eq!(case.found().state(), CandidateState::Exported);
}

#[test]
fn a_pool_goes_back_only_as_far_as_it_has_to_and_the_list_has_the_state_that_is_read() {
    let (case, list) = (Case::new(), List::default());
    let plan = case.import().going_back(RewindReach::Recent).plan(&list).unwrap();
    assert_eq!(*plan.rewind(), Rewind::NotNeeded);
    let newest = plan.candidate().uberblocks.iter().map(|u| u.uberblock.txg).max().unwrap();
    let import = case.import().set(parse("readonly", "on").unwrap()).unwrap();
    let plan = import.going_back(RewindReach::UpTo(newest - 1)).plan(&list).unwrap();
    let Rewind::To { txg, .. } = *plan.rewind() else { panic!("{:?}", plan.rewind()) };
    assert!(txg < newest);
    plan.run(&list).unwrap();
    assert_eq!(list.entries.borrow()[0].state, Some(EarlierState::Txg(txg)));
}
