//! One side of each mirror becomes a pool of its own.

use super::name::check_new_name;
use crate::error::{Error, Place, Result};
use crate::import_list::{ImportEntry, ImportList, check_name_is_free};
use crate::properties::pool::PoolSetting;
use pool::live::LivePool;

/// Sides of mirrors that are to become a pool of their own.
///
/// ```
/// use engine::devices::AnyDevices;
/// use engine::pools::{DeviceNames, NoList, Split};
/// use engine::properties::pool::parse;
/// use engine::NewPool;
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let [a, b] = ["a.img", "b.img"].map(|name| folder.path().join(name));
/// let pool = NewPool::new("tank").mirror(&[&a, &b], 64 << 20)?.create()?;
/// let names = DeviceNames { path_of: &|n| folder.path().join(n), source: &AnyDevices::default() };
/// let sides = names.sides_to_split(&pool, &["b.img".to_owned()])?;
/// let half = Split::new("half", sides)?.set(parse("comment", "split off")?);
/// // It is open, and the other goes on without its side.
/// half.run(&pool, &NoList)?.export()?;
/// pool.export()?;
/// # Ok::<(), engine::Error>(())
/// ```
pub struct Split {
    name: String,
    sides: Vec<u64>,
    settings: Vec<PoolSetting>,
    is_imported: bool,
}

impl Split {
    /// A split of these sides ([`DeviceNames::sides_to_split`]) into a pool of this name.
    ///
    /// [`DeviceNames::sides_to_split`]: crate::pools::DeviceNames::sides_to_split
    ///
    /// # Errors
    /// No new pool can have the name.
    pub fn new(name: &str, sides: Vec<u64>) -> Result<Self> {
        check_new_name(name)?;
        Ok(Self { name: name.to_owned(), sides, settings: Vec::new(), is_imported: false })
    }

    /// With a property of the new pool alone.
    #[must_use]
    pub fn set(mut self, setting: PoolSetting) -> Self {
        self.settings.push(setting);
        self
    }

    /// The new pool is imported: it is added to the list, and is to be closed. Without this it is
    /// to be exported.
    #[must_use]
    pub fn imported(self) -> Self {
        Self { is_imported: true, ..self }
    }

    /// Splits the pool, in this order: the list can be written, where the new pool is imported;
    /// no other process adds a pool to it, and none has the name; the pool is split; the properties
    /// of the new one are set; it is added to the list.
    ///
    /// The new pool is open, and the other goes on without its sides. Until the pool is split, a
    /// step that fails leaves everything as it was. Afterwards the pools are two all the same, and
    /// the new one is exported.
    ///
    /// # Errors
    /// Another pool has the name, the new one cannot be added to the list, those of
    /// [`LivePool::split`], and of [`PoolSetting::store`].
    pub fn run(self, pool: &LivePool, list: &dyn ImportList) -> Result<LivePool> {
        let named = |e: Error| e.at(Place::Pool(self.name.clone()));
        if self.is_imported {
            list.check_writable().map_err(named)?;
        }
        let _held = list.hold();
        check_name_is_free(list, &self.name)?;
        let new = pool.split(&self.name, &self.sides)?;
        let set = self.settings.iter().cloned().try_for_each(|setting| setting.store(&new));
        let done = set.and_then(|()| match self.is_imported {
            true => list.add(&ImportEntry::of(&new, &self.name)).map_err(named),
            false => Ok(()),
        });
        match done {
            Ok(()) => Ok(new),
            Err(why) => {
                // It is what failed first that is of interest.
                let _ = new.export();
                Err(why)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::devices::AnyDevices;
    use crate::error::ErrorKind;
    use crate::faults::ImportRefusal;
    use crate::import_list::test_list::List;
    use crate::pools::{CandidateState, DeviceNames};
    use crate::properties::pool::parse;
    use crate::{Candidate, NewPool, OpenOptions, Pool};
    use pool::live::StoredPropertyValue;
    use std::path::PathBuf;
    use tempfile::TempDir;

    /// A mirror of two files.
    struct Case {
        images: [PathBuf; 2],
        pool: LivePool,
        folder: TempDir,
    }

    impl Case {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let images = ["a.img", "b.img"].map(|name| folder.path().join(name));
            let pool = NewPool::new("tank").mirror(&images, 64 << 20).unwrap();
            Self { images, pool: pool.create().unwrap(), folder }
        }

        fn sides(&self, named: &str) -> Result<Vec<u64>> {
            let path_of = |name: &str| self.folder.path().join(name);
            let names = DeviceNames { path_of: &path_of, source: &AnyDevices::default() };
            names.sides_to_split(&self.pool, &[named.to_owned()])
        }

        fn split(&self) -> Split {
            Split::new("half", self.sides("a.img").unwrap()).unwrap()
        }

        /// Nothing has been split: the pool has both sides, and is worked with.
        fn ends_unsplit(self) {
            let Self { images, pool, folder: _folder } = self;
            assert_eq!(pool.view().vdevs().leaves().count(), 2);
            pool.export().unwrap();
            assert_eq!(found(&images).name(), "tank");
        }

        /// The pools are two, and the new one is exported; a step behind the split has failed.
        fn ends_as_two(self) {
            let Self { images, pool, folder: _folder } = self;
            pool.export().unwrap();
            let half = found(&images);
            assert_eq!((half.name(), half.state()), ("half", CandidateState::Exported));
            assert!(Pool::open("tank", &OpenOptions::in_places([&images[1]])).is_ok());
        }
    }

    /// The pool on the first side.
    fn found(images: &[PathBuf]) -> Candidate {
        let options = OpenOptions::in_places([&images[0]]);
        Candidate::group(&crate::pools::scan(&options.search).unwrap()).pop().unwrap()
    }

    fn kind(result: Result<LivePool>) -> ErrorKind {
        result.map(drop).unwrap_err().kind().clone()
    }

    #[test]
    fn a_side_of_a_mirror_becomes_a_pool_with_its_properties() {
        let (case, list) = (Case::new(), List::default());
        assert_eq!(case.sides("c.img").unwrap_err().operand(), Some("c.img"));
        let half = case.split().set(parse("comment", "split off").unwrap());
        half.run(&case.pool, &list).unwrap().export().unwrap();
        // It is imported nowhere.
        assert_eq!(*list.calls.borrow(), ["hold", "named"]);
        let half = Pool::open("half", &OpenOptions::in_places([&case.images[0]])).unwrap();
        let properties = half.properties(&half.space());
        let comment = properties.iter().find(|p| p.name == "comment").unwrap();
        assert_eq!(comment.value, "split off");
        case.ends_as_two();
    }

    #[test]
    fn a_side_that_becomes_an_imported_pool_is_on_the_list() {
        let (case, list) = (Case::new(), List::default());
        let new = case.split().imported().run(&case.pool, &list).unwrap();
        assert_eq!(*list.calls.borrow(), ["writable", "hold", "named", "add"]);
        let entries = list.entries.borrow();
        assert_eq!((entries[0].name.as_str(), entries[0].guid), ("half", new.guid()));
        new.close().unwrap();
        case.pool.export().unwrap();
        assert_eq!(found(&case.images).state(), CandidateState::Active);
    }

    #[test]
    fn nothing_is_split_before_the_name_and_the_list_are_known_to_be_free() {
        let reserved = Split::new("mirror", Vec::new()).map(drop).unwrap_err();
        assert_eq!(reserved.kind(), &ErrorKind::InvalidName);
        let case = Case::new();
        let taken = List { is_named: true, ..List::default() };
        assert_eq!(kind(case.split().run(&case.pool, &taken)), ErrorKind::Exists);
        let unlisted = ErrorKind::NotImported(ImportRefusal::NotListed);
        let read_only = List { is_read_only: true, ..List::default() };
        assert_eq!(kind(case.split().imported().run(&case.pool, &read_only)), unlisted);
        case.ends_unsplit();
    }

    #[test]
    fn sides_that_cannot_be_split_stay() {
        let (case, list) = (Case::new(), List::default());
        let both = case.pool.view().vdevs().leaves().map(|l| l.guid()).collect();
        Split::new("half", both).unwrap().imported().run(&case.pool, &list).map(drop).unwrap_err();
        assert!(list.entries.borrow().is_empty());
        case.ends_unsplit();
    }

    #[test]
    fn a_pool_that_was_split_off_and_cannot_be_listed_is_exported() {
        let (case, full) = (Case::new(), List { cannot_add: true, ..List::default() });
        let unlisted = ErrorKind::NotImported(ImportRefusal::NotListed);
        assert_eq!(kind(case.split().imported().run(&case.pool, &full)), unlisted);
        case.ends_as_two();
    }

    #[test]
    fn a_pool_that_was_split_off_and_cannot_get_its_properties_is_exported_unlisted() {
        let (case, list) = (Case::new(), List::default());
        let text = StoredPropertyValue::Text("too long".repeat(2000));
        let unfit = PoolSetting::User("org.example:text".to_owned(), text);
        case.split().imported().set(unfit).run(&case.pool, &list).map(drop).unwrap_err();
        assert!(list.entries.borrow().is_empty());
        case.ends_as_two();
    }
}
