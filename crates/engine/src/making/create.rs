//! Making a pool of a layout.

use crate::error::{Error, ErrorKind, Place, Result, Rule};
use crate::layout::Layout;
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
/// use engine::devices::{AnyDevices, DeviceSource as _};
/// use engine::live::{CreateOptions, Devices};
/// use engine::pools::CreatePool;
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
/// let mut devices = Devices::new();
/// for path in new.layout().paths() {
///     devices.insert(path.to_owned(), AnyDevices::default().claim(path.as_ref())?);
/// }
/// let pool = new.run(&Rt::real(), &devices)?.into_pool();
/// assert_eq!(pool.look()?.config().vdev_tree.children.len(), 1);
/// pool.export()?;
/// # Ok::<(), engine::Error>(())
/// ```
pub struct CreatePool {
    layout: Layout,
    options: CreateOptions,
    despite_mismatch: bool,
}

impl CreatePool {
    /// Of the vdevs of `layout`, in the way that `options` say.
    #[must_use]
    pub fn new(layout: Layout, options: CreateOptions) -> Self {
        let options = CreateOptions { tops: layout.tops.clone(), ..options };
        Self { layout, options, despite_mismatch: false }
    }

    /// Also of vdevs that survive unequal losses, or of unequal devices.
    #[must_use]
    pub fn despite_mismatch(self, despite_mismatch: bool) -> Self {
        Self { despite_mismatch, ..self }
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
        let at = |e: Error| Err(e.at(Place::Pool(self.options.name.clone())));
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

    /// Makes it on these devices, which are those of the layout, with its spares and cache devices.
    /// Labels that were written are cleared when that fails.
    ///
    /// # Errors
    /// Those of [`Self::check`], and when it cannot be made.
    pub fn run<'d>(&self, rt: &Rt, devices: &'d Devices) -> Result<CreatedPool<'d>> {
        self.check()?;
        let made = CreatedPool { pool: create(rt, &self.options, devices)?, devices };
        let Layout { spares, cache, .. } = &self.layout;
        made.complete(|pool| match pool.add_aux(spares, cache, devices) {
            Ok(()) => Ok(CreatedPool { pool, devices }),
            Err(e) => Err(e.into()),
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
