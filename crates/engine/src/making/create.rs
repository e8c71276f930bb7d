//! Making a pool of a layout.

use super::claim::DeviceClaim;
use super::name::check_new_name;
use crate::error::{Error, ErrorKind, Place, Result, Rule};
use crate::import_list::{ImportEntry, ImportList, check_name_is_free};
use crate::layout::Layout;
use crate::owners::OwnerQuota;
use crate::properties::compatibility::FeatureSet;
use crate::properties::pool::PoolSetting;
use pool::live::{
    CreateOptions, Devices, LivePool, SpaceClass, StoredPropertyValue, clear_labels, create,
    to_enable,
};
use rt::Rt;

/// A pool to be made of a layout.
///
/// ```
/// use engine::devices::AnyDevices;
/// use engine::live::CreateOptions;
/// use engine::pools::{CreatePool, DeviceClaim};
/// use engine::properties::pool::parse;
/// use engine::{Rt, layout};
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let image = |name: &str| {
/// #     let path = folder.path().join(name);
/// #     std::fs::File::create(&path).unwrap().set_len(64 << 20).unwrap();
/// #     path.to_str().unwrap().to_owned()
/// # };
/// let words = ["mirror".to_owned(), image("a.img"), image("b.img")];
/// let options = CreateOptions::new("tank", Vec::new());
/// let new = CreatePool::new(layout::parse(&words)?, options)
///     .set(parse("autotrim", "on")?)?
///     .set_root("compression", "zstd");
/// // What is wrong with it is known before a device is opened.
/// new.check()?;
/// let rt = Rt::real();
/// let devices = new.claim(&DeviceClaim::new(&rt, &AnyDevices::default()))?;
/// let pool = new.run(&rt, &devices)?.into_pool();
/// assert_eq!(pool.look()?.config().vdev_tree.children.len(), 1);
/// pool.export()?;
/// # Ok::<(), engine::Error>(())
/// ```
pub struct CreatePool {
    layout: Layout,
    options: CreateOptions,
    despite_mismatch: bool,
    name_for_now: Option<String>,
    quotas: Vec<OwnerQuota>,
}

impl CreatePool {
    /// A pool of the vdevs of `layout`, made as `options` say.
    #[must_use]
    pub fn new(layout: Layout, options: CreateOptions) -> Self {
        let options = CreateOptions { tops: layout.tops.clone(), ..options };
        let quotas = Vec::new();
        Self { layout, options, despite_mismatch: false, name_for_now: None, quotas }
    }

    /// Also of vdevs that survive unequal losses, or of unequal devices.
    #[must_use]
    pub fn despite_mismatch(self, despite_mismatch: bool) -> Self {
        Self { despite_mismatch, ..self }
    }

    /// Known under another name, which is not written, until it is exported.
    ///
    /// # Errors
    /// No new pool can have the name.
    pub fn named_for_now(self, name: &str) -> Result<Self> {
        check_new_name(name)?;
        Ok(Self { name_for_now: Some(name.to_owned()), ..self })
    }

    /// The name that it is known by.
    #[must_use]
    pub fn name(&self) -> &str {
        self.name_for_now.as_deref().unwrap_or(&self.options.name)
    }

    /// With a property, or with a feature or without it. Where the pool is remembered and shown
    /// (`cachefile`, `altroot`) is the business of the caller.
    ///
    /// # Errors
    /// It is none of a pool that is made: `readonly`.
    pub fn set(mut self, setting: PoolSetting) -> Result<Self> {
        let CreateOptions { ashift, properties, features, name, .. } = &mut self.options;
        match setting {
            // The vdevs of now are made with it, and the pool keeps it for those to come.
            PoolSetting::Ashift(n) => {
                *ashift = (n != 0).then_some(n);
                properties.push(("ashift".to_owned(), PoolSetting::ashift_word(n)));
            }
            PoolSetting::User(name, word) => properties.push((name, word)),
            PoolSetting::Stored(name, word) => properties.push((name.to_owned(), word)),
            PoolSetting::Feature(name, is_on) => {
                features.insert(name, is_on);
            }
            PoolSetting::Cachefile(_) | PoolSetting::Altroot(_) => {}
            PoolSetting::ReadOnly(_) => {
                return Err(Error::against(Rule::ReadOnlySet).at(Place::Pool(name.clone())));
            }
        }
        Ok(self)
    }

    /// With a property of its root file system.
    #[must_use]
    pub fn set_root(mut self, name: &str, value: &str) -> Self {
        self.options.fs_properties.push((name.to_owned(), value.to_owned()));
        self
    }

    /// With a quota of an owner of files of its root file system.
    #[must_use]
    pub fn limit_root(mut self, quota: OwnerQuota) -> Self {
        self.quotas.push(quota);
        self
    }

    /// What it is to be compatible with (property `compatibility`): the caller reads the files that
    /// it names, and gives what they have in common to [`Self::confined_to`].
    #[must_use]
    pub fn compatibility(&self) -> &str {
        let mut all = self.options.properties.iter();
        let value = all.find_map(|(name, word)| match word {
            StoredPropertyValue::Text(value) if name == "compatibility" => Some(value.as_str()),
            _ => None,
        });
        value.unwrap_or_default()
    }

    /// The features that are named, one by one or by a set, and not those that every pool gets.
    pub fn named_features(&self) -> impl Iterator<Item = &str> {
        self.options.features.iter().filter(|(_, is_on)| **is_on).map(|(name, _)| name.as_str())
    }

    /// With the features of a set (property `compatibility`), beside those that the options name.
    #[must_use]
    pub fn confined_to(mut self, set: &FeatureSet) -> Self {
        set.confine(&mut self.options);
        self
    }

    /// What it is made of.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Whether it could be made, as far as can be seen without its devices.
    ///
    /// # Errors
    /// The rule that it breaks.
    pub fn check(&self) -> Result<()> {
        check_new_name(&self.options.name)?;
        let at = |e: Error| Err(self.named(e));
        let is_for = |class| self.layout.tops.iter().any(|top| top.class == class);
        if !is_for(SpaceClass::Normal) {
            return at(Error::against(Rule::NoTopLevel));
        }
        if !self.despite_mismatch
            && let Some(why) = self.layout.mismatch(&[])
        {
            return at(Error::new(ErrorKind::Mismatched(why)));
        }
        for (name, _) in self.options.features.iter().filter(|(_, is_on)| **is_on) {
            to_enable(name)?;
        }
        let chosen = self.options.features.get("allocation_classes").copied();
        let has_classes = chosen.unwrap_or(!self.options.no_features);
        if !has_classes && [SpaceClass::Special, SpaceClass::Dedup].into_iter().any(is_for) {
            return at(Error::against(Rule::NoClasses));
        }
        Ok(())
    }

    /// Takes the devices of its layout.
    ///
    /// # Errors
    /// Those of [`Self::check`] and [`DeviceClaim::take`].
    pub fn claim(&self, claim: &DeviceClaim<'_>) -> Result<Devices> {
        self.check()?;
        claim.take(&self.layout, None)
    }

    fn named(&self, e: Error) -> Error {
        e.at(Place::Pool(self.options.name.clone()))
    }

    /// Makes it as a pool that is imported, in this order: the list can be written; no other
    /// process adds a pool to it, and none has the name; it is made ([`Self::run`]), and added.
    /// When a step fails there is no pool, as if nothing had been.
    ///
    /// # Errors
    /// Those of [`Self::run`], another pool has the name, or it cannot be added to the list.
    pub fn run_listed<'d>(
        &self,
        rt: &Rt,
        devices: &'d Devices,
        list: &dyn ImportList,
    ) -> Result<CreatedPool<'d>> {
        self.check()?;
        list.check_writable().map_err(|e| self.named(e))?;
        let _held = list.hold();
        check_name_is_free(list, self.name())?;
        let made = self.run(rt, devices)?;
        made.complete(|pool| match list.add(&ImportEntry::of(&pool, self.name())) {
            Ok(()) => Ok(CreatedPool { pool, devices }),
            Err(e) => Err(self.named(e)),
        })
    }

    /// Makes it on these devices, which are those of the layout ([`Self::claim`]), with its spares,
    /// cache devices and quotas.
    /// Labels that were written are cleared when that fails. It is on no list.
    ///
    /// # Errors
    /// Those of [`Self::check`], and when it cannot be made.
    pub fn run<'d>(&self, rt: &Rt, devices: &'d Devices) -> Result<CreatedPool<'d>> {
        self.check()?;
        let made = CreatedPool { pool: create(rt, &self.options, devices)?, devices };
        let Layout { spares, cache, .. } = &self.layout;
        made.complete(|pool| {
            pool.add_aux(spares, cache, devices)?;
            OwnerQuota::set_all(&pool, pool.name(), &self.quotas)?;
            Ok(CreatedPool { pool, devices })
        })
    }
}

/// A pool that was made, as long as what belongs to its making may still fail.
pub struct CreatedPool<'d> {
    pool: LivePool,
    devices: &'d Devices,
}

impl CreatedPool<'_> {
    /// The pool.
    #[must_use]
    pub fn pool(&self) -> &LivePool {
        &self.pool
    }

    /// Nothing more belongs to its making.
    #[must_use]
    pub fn into_pool(self) -> LivePool {
        self.pool
    }

    /// Closes a pool that is on the list ([`CreatePool::run_listed`]): it stays imported. When that
    /// fails there is no pool: its labels are cleared, and it is taken off the list.
    ///
    /// # Errors
    /// What was changed last cannot be written.
    pub fn close(self, list: &dyn ImportList) -> Result<()> {
        let guid = self.pool.guid();
        let closed = self.complete(LivePool::close).inspect_err(|_| list.remove(guid));
        Ok(closed?)
    }

    /// Does what else belongs to its making. When that fails there is no pool: its labels are
    /// cleared.
    ///
    /// # Errors
    /// That of `work`.
    pub fn complete<T, E>(
        self,
        work: impl FnOnce(LivePool) -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        let done = work(self.pool);
        if done.is_err() {
            clear_labels(self.devices);
        }
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults::ImportRefusal;
    use crate::import_list::test_list::List;
    use device::{ErrorKind as Trouble, Fault, MemoryDevice, RwFaultDevice};
    use pool::live::{NewTop, VdevSpec};
    use std::path::PathBuf;
    use std::sync::Arc;

    /// Two disks in memory, which can fail.
    struct Case {
        faults: [Arc<RwFaultDevice>; 2],
        devices: Devices,
    }

    impl Case {
        fn new() -> Self {
            let faults = ["/m/0", "/m/1"].map(|name| {
                Arc::new(RwFaultDevice::new(Arc::new(MemoryDevice::zeros(name, 64 << 20)) as _))
            });
            let [a, b] = faults.clone();
            let devices = Devices::from([("/m/0".to_owned(), a as _), ("/m/1".to_owned(), b as _)]);
            Self { faults, devices }
        }

        fn run(&self, list: &List) -> Result<CreatedPool<'_>> {
            self.run_as("tank", list)
        }

        fn run_as(&self, name: &str, list: &List) -> Result<CreatedPool<'_>> {
            new(name).run_listed(&Rt::real(), &self.devices, list)
        }

        /// Whether each disk has the label of a pool.
        fn labels(&self) -> [bool; 2] {
            self.faults.clone().map(|disk| {
                disk.clear();
                let name = PathBuf::from(device::Device::name(&*disk));
                pool::look_at_device(&(disk as _), name).is_some()
            })
        }
    }

    fn new(name: &str) -> CreatePool {
        let disk = |path: &str| {
            let spec = VdevSpec::Leaf { path: path.to_owned(), is_file: true };
            NewTop { spec, class: SpaceClass::Normal }
        };
        let tops = ["/m/0", "/m/1"].map(disk).to_vec();
        let layout = Layout { tops, ..Layout::default() };
        CreatePool::new(layout, CreateOptions::new(name, Vec::new()))
    }

    fn kind(result: Result<CreatedPool<'_>>) -> ErrorKind {
        result.map(drop).unwrap_err().kind().clone()
    }

    const UNLISTED: ErrorKind = ErrorKind::NotImported(ImportRefusal::NotListed);

    #[test]
    fn a_pool_is_made_while_no_other_can_get_its_name_and_listed() {
        let (case, list) = (Case::new(), List::default());
        let made = case.run(&list).unwrap();
        assert_eq!(*list.calls.borrow(), ["writable", "hold", "named", "add"]);
        let guid = made.pool().guid();
        made.close(&list).unwrap();
        let entries = list.entries.borrow();
        let entry = &entries[0];
        assert_eq!((entry.name.as_str(), entry.guid, entry.is_read_only), ("tank", guid, false));
        assert_eq!(case.labels(), [true; 2]);
    }

    #[test]
    fn nothing_is_written_before_the_name_and_the_list_are_known_to_be_free() {
        let case = Case::new();
        assert_eq!(kind(case.run_as("mirror", &List::default())), ErrorKind::InvalidName);
        let read_only = List { is_read_only: true, ..List::default() };
        assert_eq!(kind(case.run(&read_only)), UNLISTED);
        let taken = List { is_named: true, ..List::default() };
        assert_eq!(kind(case.run(&taken)), ErrorKind::Exists);
        assert_eq!(case.labels(), [false; 2]);
        for list in [read_only, taken] {
            assert!(!list.calls.borrow().contains(&"add"));
        }
    }

    #[test]
    fn a_pool_that_could_not_be_made_is_not_listed_and_leaves_no_labels() {
        let (case, list) = (Case::new(), List::default());
        // The labels are written, the uberblock is not.
        case.faults[1].add(Fault::fail_flushes(Trouble::Io { errno: 5 }));
        case.run(&list).map(drop).unwrap_err();
        assert_eq!(*list.calls.borrow(), ["writable", "hold", "named"]);
        assert_eq!(case.labels(), [false; 2]);
    }

    #[test]
    fn a_pool_that_cannot_be_listed_is_unmade() {
        let (case, full) = (Case::new(), List { cannot_add: true, ..List::default() });
        assert_eq!(kind(case.run(&full)), UNLISTED);
        assert_eq!(case.labels(), [false; 2]);
        // The same devices are free.
        case.run(&List::default()).unwrap().into_pool().export().unwrap();
    }

    #[test]
    fn a_pool_that_cannot_be_closed_is_unmade_and_off_the_list() {
        let (case, list) = (Case::new(), List::default());
        let made = case.run(&list).unwrap();
        case.faults[1].add(Fault::fail_writes(0..u64::MAX, Trouble::Io { errno: 5 }).times(3));
        case.faults[1].add(Fault::fail_flushes(Trouble::Io { errno: 5 }));
        made.pool().set_pool_property("comment", StoredPropertyValue::Text("x".into())).ok();
        made.close(&list).unwrap_err();
        assert_eq!(list.calls.borrow().last(), Some(&"remove"));
        assert!(list.entries.borrow().is_empty());
        assert_eq!(case.labels(), [false; 2]);
    }

    #[test]
    fn a_name_for_now_is_that_of_the_list_alone() {
        let (case, list) = (Case::new(), List::default());
        assert!(new("tank").named_for_now("log").is_err());
        let new = new("tank").named_for_now("depot").unwrap();
        let made = new.run_listed(&Rt::real(), &case.devices, &list).unwrap();
        assert_eq!((made.pool().name(), list.entries.borrow()[0].name.as_str()), ("tank", "depot"));
        made.close(&list).unwrap();
    }
}
